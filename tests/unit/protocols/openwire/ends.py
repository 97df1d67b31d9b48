"""Clients as ActiveMQ's Java client behaves, drawn from a seed: they read, settle and end in every way there is.

The model here knows what each client saw, and by the rules of classic.md 4.5 what the broker may count: every delivery
must carry exactly that count, and exactly what was tried as often as the policy allows is among the dead letters.
"""

from __future__ import annotations

import random
from typing import Final

from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageDispatch,
    RemoveInfo,
    Response,
    SessionId,
    TransactionInfo,
)
from entrepot.protocols.openwire.ids import AckType, TransactionStep
from kit import Rig

from .wired import Client, Hub, text_in

QUEUES: Final = ("one", "two")
TOPIC: Final = "news"
MODES: Final = ("auto", "client", "individual", "transacted")
PREFETCHES: Final = (1, 3, 1000)
STEPS: Final = 120


class Held:
    """One message at one consumer. ``seen``: the program has it; ``promised``: its transaction settles it."""

    def __init__(self, dispatch: MessageDispatch) -> None:
        assert dispatch.message is not None
        assert dispatch.message.message_id is not None
        self.dispatch = dispatch
        self.number = int(dispatch.message.message_id.broker_sequence_id)
        self.seen = False
        self.promised = False


class Reader:
    """One consumer of one program. ``last``: what it saw last, as its RemoveInfo says it; -1 nothing."""

    def __init__(self, program: Program, consumer_id: ConsumerId, place: str, mode: str) -> None:
        self.program = program
        self.consumer_id = consumer_id
        self.place = place
        self.mode = mode
        self.held: dict[str, Held] = {}
        self.last = -1

    @property
    def session(self) -> int:
        return int(self.consumer_id.session_id)


class Program:
    """One connection."""

    def __init__(self, wire: Client, client_id: str) -> None:
        self.wire = wire
        self.client_id = client_id
        self.readers: list[Reader] = []
        self.transactions: dict[int, LocalTransactionId] = {}


class Ends:
    """One run. `wrong` says what did not hold."""

    def __init__(self, seed: int) -> None:
        self.lots = random.Random(seed)
        self.limit = self.lots.choice((-1, 2, 4))
        self.rig = Rig(max_deliveries=str(self.limit))
        self.hub = Hub(self.rig)
        self.counts: dict[tuple[str, str], int] = {}  # (place, text) -> deliveries that count
        self.waiting: dict[tuple[str, str], bool] = {}
        self.dead: list[tuple[str, str]] = []
        self.programs: list[Program] = []
        self.made = 0
        self.wrong = ""
        self.story: list[str] = []

    def run(self) -> str:
        """Return what is wrong, "" when all is well."""
        self.begin()
        for _ in range(STEPS):
            self.lots.choice(
                (self.send, self.open, self.open, self.take, self.take, self.take, self.settle, self.end)
            )()
            self.absorb()
            if self.wrong:
                return self.wrong
        return self.finish()

    def begin(self) -> None:
        """The durable subscriptions exist from the beginning."""
        for name in ("a", "b"):
            wire = self.hub.client(client_id=name)
            wire.consume(ActiveMQTopic(TOPIC), 1, prefetch=1, subscription_name="sub")
            wire.post(RemoveInfo(object_id=ConnectionId(wire.name), last_delivered_sequence_id=-1))
            wire.session.detach("gone", self.rig.now)

    def fault(self, what: str) -> None:
        self.wrong = self.wrong or what

    def one(self) -> Reader | None:
        readers = [each for program in self.programs for each in program.readers]
        return self.lots.choice(readers) if readers else None

    # -- what programs do ----------------------------------------------------------------------------------------------

    def send(self) -> None:
        wire = self.hub.client()
        for _ in range(self.lots.randint(1, 4)):
            self.made += 1
            text = f"m{self.made}"
            place = self.lots.choice((*QUEUES, TOPIC))
            where = ActiveMQTopic(place) if place == TOPIC else ActiveMQQueue(place)
            for each in ("a.sub", "b.sub") if place == TOPIC else (place,):
                self.counts[(each, text)] = 0
                self.waiting[(each, text)] = True
            assert type(wire.ask(wire.text(where, text, persistent=True))) is Response
        wire.session.detach("gone", self.rig.now)

    def open(self) -> None:
        """Open a consumer, on a connection and in a session that exist already or not."""
        lots = self.lots
        free = [name for name in ("a", "b") if all(each.client_id != name for each in self.programs)]
        if not self.programs or (len(self.programs) < 4 and lots.random() < 0.5):
            client_id = lots.choice(free) if free and lots.random() < 0.5 else ""
            self.programs.append(Program(self.hub.client(client_id=client_id), client_id))
        program = lots.choice(self.programs)
        durable = program.client_id and all(each.place not in ("a.sub", "b.sub") for each in program.readers)
        place = f"{program.client_id}.sub" if durable and lots.random() < 0.5 else lots.choice(QUEUES)
        session = lots.randint(1, 2)
        self.made += 1
        consumer_id = ConsumerId(program.wire.name, session, self.made)
        mode = next((each.mode for each in program.readers if each.session == session), lots.choice(MODES))
        reader = Reader(program, consumer_id, place, mode)
        program.readers.append(reader)
        info = program.wire.consumer_info(
            ActiveMQTopic(TOPIC) if place.endswith(".sub") else ActiveMQQueue(place),
            consumer_id,
            lots.choice(PREFETCHES),
        )
        if place.endswith(".sub"):
            info.subscription_name = "sub"
        assert type(program.wire.ask(info)) is Response

    def take(self) -> None:
        """The program receives what comes next."""
        reader = self.one()
        if reader is None:
            return
        for text, held in reader.held.items():
            if not held.seen:
                held.seen = True
                reader.last = held.number
                if reader.mode == "auto":
                    self.acknowledge(reader, [text], None)
                return

    def settle(self) -> None:
        """Acknowledge as the mode has it."""
        reader = self.one()
        if reader is None or reader.mode == "auto":
            return
        seen = [text for text, held in reader.held.items() if held.seen and not held.promised]
        if reader.mode == "individual":
            if seen:
                self.acknowledge(reader, [self.lots.choice(seen)], None, AckType.INDIVIDUAL)
            return
        program, session = reader.program, reader.session
        if reader.mode == "client":
            for each in program.readers:
                if each.session == session:
                    self.acknowledge(each, [text for text, held in each.held.items() if held.seen], None)
            return
        transaction = program.transactions.get(session)
        if transaction is None:
            self.made += 1
            transaction = LocalTransactionId(self.made, ConnectionId(program.wire.name))
            program.transactions[session] = transaction
            self.step(program, transaction, TransactionStep.BEGIN)
        if seen:
            self.acknowledge(reader, seen, transaction)
        if self.lots.random() < 0.5:
            self.end_transaction(program, session, commit=self.lots.random() < 0.7)

    def acknowledge(
        self, reader: Reader, texts: list[str], transaction: LocalTransactionId | None, kind: AckType = AckType.STANDARD
    ) -> None:
        if not texts:
            return
        first, last = reader.held[texts[0]], reader.held[texts[-1]]
        reader.program.wire.ack(first.dispatch, last.dispatch, kind, len(texts), transaction=transaction)
        for text in texts:
            if transaction is None:
                del reader.held[text]
            else:
                reader.held[text].promised = True

    def step(self, program: Program, transaction: LocalTransactionId, step: TransactionStep) -> None:
        info = TransactionInfo(
            connection_id=ConnectionId(program.wire.name), transaction_id=transaction, type=int(step)
        )
        assert type(program.wire.ask(info)) is Response

    def end_transaction(self, program: Program, session: int, *, commit: bool) -> None:
        transaction = program.transactions.pop(session, None)
        if transaction is None:
            return
        self.step(program, transaction, TransactionStep.COMMIT_ONE_PHASE if commit else TransactionStep.ROLLBACK)
        for reader in program.readers:
            for text, held in list(reader.held.items()):
                if reader.session == session and held.promised:
                    held.promised = False  # after a rollback the client delivers it again, by itself
                    if commit:
                        del reader.held[text]

    # -- how they end --------------------------------------------------------------------------------------------------

    def end(self) -> None:
        reader = self.one()
        if reader is None:
            return
        way = self.lots.choice(("consumer", "session", "connection", "connection", "cut", "shut", "stop", "kill"))
        self.story.append(way)
        getattr(self, f"end_by_{way}")(reader.program, reader)

    def end_by_consumer(self, program: Program, reader: Reader) -> None:
        self.end_transaction(program, reader.session, commit=False)
        program.wire.post(RemoveInfo(object_id=reader.consumer_id, last_delivered_sequence_id=reader.last))
        self.ended(program, [reader], reader.last)

    def end_by_session(self, program: Program, reader: Reader) -> None:
        readers = [each for each in program.readers if each.session == reader.session]
        self.end_transaction(program, reader.session, commit=False)
        last = max(each.last for each in readers)
        session_id = SessionId(program.wire.name, reader.session)
        program.wire.post(RemoveInfo(object_id=session_id, last_delivered_sequence_id=last))
        self.ended(program, readers, last)

    def end_by_connection(self, program: Program, reader: Reader) -> None:
        for session in list(program.transactions):
            self.end_transaction(program, session, commit=False)
        last = max(each.last for each in program.readers)
        program.wire.post(RemoveInfo(object_id=ConnectionId(program.wire.name), last_delivered_sequence_id=last))
        program.wire.session.detach("gone", self.rig.now)
        self.programs.remove(program)
        self.ended(program, list(program.readers), last)

    def end_by_cut(self, program: Program, reader: Reader) -> None:
        program.wire.session.detach("the link was cut", self.rig.now)
        self.programs.remove(program)
        self.ended(program, list(program.readers), -2)

    def end_by_shut(self, program: Program, reader: Reader) -> None:
        """An operator closes the connection."""
        program.wire.session.shut("an operator closes it", self.rig.now)
        program.wire.session.detach("gone", self.rig.now)
        self.programs.remove(program)
        self.ended(program, list(program.readers), -3)

    def end_by_stop(self, program: Program, reader: Reader) -> None:
        """SIGTERM: all are told at once, and then they go one after the other."""
        for each in self.programs:
            each.wire.session.shut("the broker stops", self.rig.now)
        for each in self.programs:
            each.wire.session.detach("the broker stops", self.rig.now)
            self.ended(each, list(each.readers), -3)
        self.again("close")

    def end_by_kill(self, program: Program, reader: Reader) -> None:
        """Kill -9: the broker forgets who held what."""
        for each in self.programs:
            for one in each.readers:
                self.waiting.update(dict.fromkeys(((one.place, text) for text in one.held), True))
        self.again("kill")

    def again(self, how: str) -> None:
        self.programs.clear()
        self.rig.restart(how)
        self.hub = Hub(self.rig)

    def ended(self, program: Program, readers: list[Reader], last: int) -> None:
        """Count what the broker should count. ``last`` -2: it does not know; -3: it sent them away."""
        self.rig.turn()
        for reader in readers:
            program.readers.remove(reader)
            known = any(held.number == last for held in reader.held.values())
            counting = last == -2 or known
            for text, held in reader.held.items():
                key = (reader.place, text)
                self.waiting[key] = True
                if counting:
                    self.counts[key] += 1
                    if 0 <= self.limit <= self.counts[key]:
                        self.dead.append(key)
                        del self.waiting[key]
                elif last == -3 or (reader.place.endswith(".sub") and held.number <= last and not known):
                    self.counts[key] = max(self.counts[key], 1)
                if held.number == last:
                    counting = False

    # -- what comes ----------------------------------------------------------------------------------------------------

    def absorb(self) -> None:
        """Look at all that was delivered."""
        self.rig.turn()
        for program in self.programs:
            readers = {each.consumer_id.value: each for each in program.readers}
            for dispatch in program.wire.dispatches():
                assert dispatch.consumer_id is not None
                text = text_in(dispatch)
                reader = readers.get(dispatch.consumer_id.value)
                if reader is None:
                    self.fault(f"{text} came to a consumer that is closed")
                    return
                key = (reader.place, text)
                if not self.waiting.pop(key, False):
                    self.fault(f"{text} of {reader.place} came although another has it, or nobody may")
                elif dispatch.redelivery_counter != self.counts[key]:
                    self.fault(
                        f"{text} of {reader.place} came with the count {dispatch.redelivery_counter},"
                        f" not {self.counts[key]}, after {self.story}"
                    )
                reader.held[text] = Held(dispatch)

    def finish(self) -> str:
        """Compare the dead letters."""
        letters = self.hub.client()
        letters.consume(ActiveMQQueue("ActiveMQ.DLQ"))
        found = sorted(letters.texts())
        expected = sorted(text for _, text in self.dead)
        if found != expected:
            self.fault(f"dead letters {found}, expected {expected}")
        return self.wrong
