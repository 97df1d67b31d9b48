"""One session of a program is one of CORE, on a channel of its own: what it opened, its transaction, its answers. [C]

A session begins anew on every wire: its producers, its consumers, what an open transaction sent. What was handed out on
a lost wire settles nothing any more; a transaction that consumed there, or whose commit has no answer, never counts as
committed: TransactionRolledBack, TransactionInDoubt.

To undo is one procedure (artemis.md 5.2.10): stop, settle what was handed out so that it counts as delivered, roll
back, start. What still comes before the answer is dropped; the server delivers it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError, TransactionError, TransactionInDoubt, TransactionRolledBack
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.conversation.branches import Branch, Branches, named, refusal_of
from entrepot.protocols.artemis.conversation.consuming import ConsumerCore, nobody
from entrepot.protocols.artemis.conversation.credit import Credit
from entrepot.protocols.artemis.conversation.identity import Identity
from entrepot.protocols.artemis.conversation.owner import Owner
from entrepot.protocols.artemis.conversation.places import Preparing
from entrepot.protocols.artemis.conversation.producing import ProducerCore
from entrepot.protocols.artemis.conversation.replay import Replay
from entrepot.protocols.artemis.conversation.requests import LOST, UNSENT, is_lost
from entrepot.protocols.artemis.convert import ROUTING_ANYCAST
from entrepot.protocols.artemis.packets import (
    Close,
    Commit,
    CreateConsumer,
    CreateQueue,
    CreateSession,
    Packet,
    Rollback,
    Start,
    Stop,
    XaEnd,
    XaRollback,
    XaStart,
)
from entrepot.protocols.conversing.content import Wish
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import Answer, ConsumerPort, ProducerPort, in_doubt, of_commit
from entrepot.protocols.conversing.xid import Xid
from entrepot.protocols.session import NEVER

FIRST_CORRELATION: Final = -2  # -1 is what a server answers to a request without one


class ClientSession(Owner):
    """One session. ``channel``: its number. ``serves``: it is the connection's own, and delivers nothing.

    ``branches``: of the conversation, where this session works for branches instead of transactions of its own.
    """

    def __init__(
        self,
        identity: Identity,
        mode: Acknowledge,
        channel: i64,
        *,
        serves: bool = False,
        branches: Branches | None = None,
    ) -> None:
        super().__init__(identity, mode, channel)
        self.serves: bool = serves
        self.branches: Branches | None = branches
        self.branch: Branch | None = None  # that it works for now
        self.settles = branches is None
        self.transacted = mode is Acknowledge.TRANSACTED and not serves
        self.consumers: dict[int, ConsumerCore] = {}
        self.producers: dict[int, ProducerCore] = {}
        self.credits: dict[str, Credit] = {}
        self.sends: list[tuple[list[Packet], str, i64]] = []  # of the open transaction
        self.doomed: str = ""
        self.closed: bool = False
        self.name: str = ""  # at the server
        self.began: Callable[[ClientSession], None] | None = None  # who wants to know that it is open
        self.ended: Callable[[ClientSession], None] | None = None
        self._numbers: i64 = 0
        self._correlation: i64 = FIRST_CORRELATION

    # -- wires ---------------------------------------------------------------------------------------------------------

    def creation(self) -> CreateSession:
        """Return what opens it on a wire: flags by mode of acknowledgement (5.2.10)."""
        identity, mode = self.identity, self.mode
        ours = self.serves or self.transacted
        self.name = identity.unique()
        return CreateSession(
            name=self.name,
            session_channel=self.channel,
            version=136,
            user=identity.user,
            password=identity.password,
            min_large=identity.windows.large_from,
            auto_commit_sends=not ours,
            auto_commit_acks=not ours and mode in (Acknowledge.AUTO, Acknowledge.DUPS_OK),
            window=identity.windows.confirmation if identity.reconnects else -1,
            xa=self.branches is not None,
            client_id=identity.client_id,
            channel=1,
        )

    def created(self, wire: CoreClient) -> None:
        """It is open on ``wire``: tell all that was before, and then what waited."""
        requests = self.requests
        requests.wire = wire
        window = self.identity.windows.confirmation
        if window > 0 and self.identity.reconnects:
            requests.replay = Replay(self.name, self.channel, window)
        if not self.serves:
            requests.post(Start())
        for producer in list(self.producers.values()):
            producer.open()
        for consumer in list(self.consumers.values()):
            self._announce(consumer)
        requests.unpark()  # a commit that waits is that of an earlier transaction
        if not self.doomed:
            for packets, address, octets in self.sends:
                self._post(packets, address, octets)
        if self.began is not None:
            self.began(self)

    def lost(self) -> None:
        """It is gone, with the wire or since."""
        self.era += 1
        self.dropping = False
        self.unsaved = False
        if self.branches is not None:
            if self.requests.is_there():
                self.branches.lost(self.channel, self.branch)
        elif self.transacted and self.consumed:
            self.doomed = "the connection was lost after the transaction consumed"
        for consumer in list(self.consumers.values()):
            consumer.lost()
        for credit in self.credits.values():
            credit.lost()
        self.requests.lost()
        for credit in self.credits.values():
            waiting, credit.waiting = credit.waiting, []
            for go in waiting:
                go()

    def end(self, error: EntrepotError) -> None:
        """The connection is over."""
        self.requests.end(error)
        for credit in self.credits.values():
            waiting, credit.waiting = credit.waiting, []
            for go in waiting:
                go()
        for consumer in list(self.consumers.values()):
            opening, consumer.opening = consumer.opening, None
            if opening is not None:
                opening(error)
            consumer.end(str(error))
        for producer in list(self.producers.values()):
            opening, producer.opening = producer.opening, None
            if opening is not None:
                opening(error)

    # -- producers -----------------------------------------------------------------------------------------------------

    def open_producer(self, destination: str | None, window: int, answer: Answer) -> ProducerPort:
        """Open a producer."""
        self._numbers += 1
        producer = ProducerCore(self, self._numbers, destination, i64(window))
        producer.opening = answer
        self.producers[int(self._numbers)] = producer
        if self.requests.failure is not None:
            answer(self.requests.failure)
        elif self.requests.is_there():
            producer.open()
        return producer

    def credit(self, address: str) -> Credit:
        """Return what may be sent to ``address``."""
        credit = self.credits.get(address)
        if credit is None:
            credit = Credit(self.requests, address, self.identity.windows.producer)
            self.credits[address] = credit
        return credit

    def next_correlation(self) -> i64:
        """Return the number of a send that is answered."""
        self._correlation -= 1
        return self._correlation

    def send_in(self, packets: list[Packet], address: str, octets: i64) -> None:
        """Send within the transaction; kept for the next wire, if there may be one. Raises TransactionError."""
        there = self.requests.is_there()
        if self.branches is not None:
            if self.branch is None:
                raise TransactionError("this session works for no branch now", remedy="begin one before you send")
            if not self.branch.doomed:
                self.requests.tell(packets)
                self.credit(address).spend(octets)
            return
        if self.identity.reconnects or not there:
            self.sends.append((packets, address, octets))
        if there and not self.doomed:
            self._post(packets, address, octets)

    def _post(self, packets: list[Packet], address: str, octets: i64) -> None:
        for packet in packets:
            self.requests.post(packet)
        self.credit(address).spend(octets)

    # -- consumers -----------------------------------------------------------------------------------------------------

    def open_consumer(
        self, wish: Wish, policy: RedeliveryPolicy, wake: Callable[[], None], answer: Answer
    ) -> ConsumerPort:
        """Open a consumer. ``policy`` is not used: address settings of the server say when a message comes again."""
        self._numbers += 1
        consumer = ConsumerCore(self, self._numbers, wish, wake, self.identity.windows.consumer)
        consumer.opening = answer
        self.consumers[int(self._numbers)] = consumer
        if self.requests.failure is not None:
            consumer.opened(self.requests.failure)
        elif self.requests.is_there():
            self._announce(consumer)
        return consumer

    def _announce(self, consumer: ConsumerCore) -> None:
        """Have its queue made, if it may be, and then the consumer."""
        place = consumer.place
        requests = self.requests

        def prepared(error: EntrepotError | None) -> None:
            if consumer.closed:
                if error is None:
                    consumer.undo(False)
                return
            if error is not None:
                consumer.opened(error)
                return
            packet = CreateConsumer(
                consumer=consumer.number,
                queue=place.queue,
                filter=place.consumer_filter,
                browse=consumer.browser,
                require_response=True,
                priority=consumer.wish.priority,
            )
            requests.ask(packet, heard)

        def heard(packet: Packet | None, error: EntrepotError | None) -> None:
            if consumer.closed:
                if error is None:
                    consumer.undo(True)
            elif not is_lost(error):
                consumer.opened(error)

        preparing = Preparing(requests, place.address, place.routing, prepared)
        anycast = place.routing == ROUTING_ANYCAST
        preparing.queue = CreateQueue(
            address=place.address,
            queue=place.queue,
            filter=None if anycast else place.filter,
            durable=not place.is_own,
            temporary=place.is_own,
            require_response=True,
            auto_created=anycast,
            routing=place.routing,
        )
        preparing.begin()

    def forget_consumer(self, number: i64) -> None:
        """A consumer is closed, or was not opened."""
        self.consumers.pop(int(number), None)

    def forget_producer(self, sender: i64) -> bool:
        """A producer is closed; False: it was before."""
        return self.producers.pop(int(sender), None) is not None

    def ring_at(self, due: Instant) -> None:
        """Call `ConsumerCore.rang` of whoever is due then."""
        wire = self.requests.wire
        if wire is not None:
            wire.alarm = min(wire.alarm, due)

    def rang(self, now: Instant) -> Instant:
        """Ring whoever is due; return when the next one is."""
        soonest = NEVER
        for consumer in list(self.consumers.values()):
            if consumer.pull_due <= now:
                consumer.rang()
            soonest = min(soonest, consumer.pull_due)
        return soonest

    # -- settling ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Tell the server what is processed."""
        for consumer in self.consumers.values():
            consumer.flush()
        if self.unsaved and not self.transacted:
            self.unsaved = False
            self.requests.ask(Commit(correlation=int(self.next_correlation())), nobody)

    def acknowledge(self) -> None:
        """Settle all that was handed out (CLIENT)."""
        for consumer in self.consumers.values():
            consumer.settle_all()

    def confirm(self, era: i64, answer: Answer) -> None:
        """Let ``answer`` come when the acknowledgements so far are stored."""
        if era != self.era or not self.requests.is_there():
            answer(in_doubt("the connection was lost after the message came"))
            return

        def heard(packet: Packet | None, error: EntrepotError | None) -> None:
            answer(in_doubt("the connection was lost before the answer") if is_lost(error) else error)

        for consumer in self.consumers.values():
            consumer.flush()
        self.unsaved = False
        self.requests.ask(Commit(correlation=int(self.next_correlation())), heard)

    def recover(self, now: Instant) -> None:
        """Hand out again what is not settled."""
        self.flush()
        self._undo(True, _nobody_answers)

    # -- transactions --------------------------------------------------------------------------------------------------

    def commit(self, answer: Answer) -> None:
        """Commit what the session did. Raises TransactionError."""
        self._check_transaction()
        if self.doomed:
            error = TransactionRolledBack(self.doomed)
            self.roll_back(self.identity.now(), lambda ignored: answer(error))
            return
        for consumer in self.consumers.values():
            consumer.settle_all()

        def heard(packet: Packet | None, said: EntrepotError | None) -> None:
            error = of_commit(said)
            if error is LOST:
                answer(TransactionInDoubt("the connection was lost while the broker was to commit"))
            elif error is UNSENT:
                answer(TransactionRolledBack("the session was lost before the broker was told to commit"))
            elif error is None or isinstance(error, TransactionRolledBack) or error is self.requests.failure:
                answer(error)
            else:
                answer(TransactionRolledBack(str(error)))

        packets: list[Packet] = []
        if not self.requests.is_there():  # nothing of it was told on this wire: tell it with the commit
            for sent, _, _ in self.sends:
                packets += sent
        packets.append(Commit(correlation=int(self.next_correlation())))
        self._forget()
        self.requests.ask_with(packets, heard)

    def roll_back(self, now: Instant, answer: Answer) -> None:
        """Undo what was sent, hand out again what was consumed. Raises TransactionError."""
        self._check_transaction()
        self._undo(False, answer)

    def _check_transaction(self) -> None:
        """Raise TransactionError where there is none of its own."""
        if not self.transacted:
            raise TransactionError("this session has no transactions", remedy="open it with Acknowledge.TRANSACTED")
        if self.branches is not None:
            raise TransactionError(
                "this session works for branches of distributed transactions",
                remedy="end the branch, and have the connection prepare and commit it, or roll it back",
            )

    def _forget(self) -> None:
        self.sends = []
        self.consumed = False
        self.doomed = ""

    def _undo(self, consider_last: bool, answer: Answer) -> None:
        """Stop, settle, roll back, start."""
        self._forget()
        requests = self.requests
        if not requests.is_there():
            for consumer in self.consumers.values():
                consumer.drop()
            answer(None)
            return

        def undone(packet: Packet | None, error: EntrepotError | None) -> None:
            if not is_lost(error):
                self.dropping = False
                for consumer in self.consumers.values():
                    consumer.drop_large()
                requests.post(Start())
            answer(None if is_lost(error) else error)

        requests.ask(Stop(), nobody)
        for consumer in list(self.consumers.values()):
            consumer.settle_all()
            consumer.drop()
        self.unsaved = False
        self.dropping = True
        requests.ask(Rollback(consider_last_delivered=consider_last), undone)

    # -- branches ------------------------------------------------------------------------------------------------------

    def begin_branch(self, xid: Xid) -> None:
        """From now on what the session sends and settles belongs to ``xid``. Raises TransactionError."""
        if self.branches is None:
            raise TransactionError(
                "this session has transactions of its own, and works for no branches",
                remedy="open it with session(Acknowledge.TRANSACTED, xa=True)",
            )
        if self.branch is not None:
            raise TransactionError("this session works for a branch already", remedy="end that first")
        name = named(xid)
        branch = self.branch = Branch(xid, self.channel)
        self.settles = True

        def begun(packet: Packet | None, error: EntrepotError | None) -> None:
            refusal = refusal_of(packet, error)
            if refusal is not None and not branch.doomed:
                branch.doomed = str(refusal)

        self.requests.ask(XaStart(xid=name), begun)

    def end_branch(self, xid: Xid, answer: Answer) -> None:
        """The session is done with ``xid``: what it was handed is settled with it. Raises TransactionError."""
        branch, branches = self.branch, self.branches
        if branch is None or branches is None or branch.xid != xid:
            raise TransactionError("this session does not work for that branch")
        for consumer in self.consumers.values():
            consumer.settle_all()
        self.branch = None
        self.settles = self.consumed = False
        branches.worked_for(branch)
        if branch.doomed:
            answer(None)
            return

        def done(packet: Packet | None, error: EntrepotError | None) -> None:
            refusal = refusal_of(packet, error)
            if refusal is not None:
                branch.doomed = branch.doomed or str(refusal)
            branch.arrived = refusal is None
            answer(None if is_lost(error) else refusal)  # whoever prepares it is told

        self.requests.ask(XaEnd(xid=named(xid)), done)

    def at_work(self) -> bool:
        """Tell whether to leave now would repeat or undo something."""
        if self.requests.pending or self.sends or self.consumed or self.branch is not None:
            return True
        return any(consumer.handed or consumer.processed for consumer in self.consumers.values())

    def close(self) -> None:
        """Close it with all that it opened."""
        if self.closed:
            return
        branch, self.branch = self.branch, None
        if branch is not None:
            self.settles = False
        for consumer in list(self.consumers.values()):
            consumer.close()
        self.flush()
        self.closed = True
        if branch is not None and self.requests.is_there():
            name = named(branch.xid)
            self.requests.ask(XaEnd(xid=name, failed=True), nobody)
            self.requests.ask(XaRollback(xid=name), nobody)
        if self.requests.is_there():
            self.requests.ask(Close(), self._gone)
        elif self.ended is not None:
            self.ended(self)

    def _gone(self, packet: Packet | None, error: EntrepotError | None) -> None:
        if self.ended is not None:
            self.ended(self)


def _nobody_answers(error: EntrepotError | None) -> None:
    """Nobody waits for this answer."""
