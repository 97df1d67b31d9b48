"""Programs that speak AMQP to a simulated broker under crashes and cuts: ``--amqp``.

Some send: one by one, by a link whose sender settles last, over the anonymous relay, with duplicate ids, in
transactions that are committed or not. Others read queues and durable subscriptions: with `accepted` at once, exactly
once (they wait until the broker settles), in transactions, and moving messages to another queue in one transaction;
they give back, drain, detach and attach again. What must hold: what was accepted is read; what the broker settled, or
committed, comes no more often than it was sent; of a transaction all or nothing is seen, and nothing of one that was
rolled back; a durable subscription gets everything that was accepted since it was there, in order; and the rules of the
wire (`amqp_peers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.protocols.amqp.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Disposition,
    Modified,
    Released,
    Source,
    Target,
    TransactionalState,
)
from entrepot.simulation.amqp_peers import AmqpPeer, Delivery, LinkEnd, Reading, Writing, composed, encoded
from entrepot.simulation.link_accounts import Accounts
from entrepot.simulation.storms import Driven, StormRun

WINDOW: Final = 6  # messages that a sender has without an answer
LARGE_OCTETS: Final = 700  # bodies from here on are streamed to disk, if they come in several transfers
PLAIN, SECOND_MODE, UNIQUE, RELAY, BATCH = "plain", "second", "unique", "relay", "batch"
SENDS: Final = (PLAIN, SECOND_MODE, UNIQUE, RELAY, BATCH)
ACCEPT, EXACT, MOVE = "accept", "exact", "move"
QUEUES: Final = ("work", "stock")
TOPIC: Final = "news"
MOVED: Final = "moved"


class Transactor(AmqpPeer):
    """A program that may declare transactions, one at a time."""

    def __init__(self, ledger: LinkedRun, name: str) -> None:
        super().__init__(ledger.world, ledger.machine, name)
        self.ledger = ledger
        self.accounts = ledger.accounts
        self.coordinator: Writing | None = None
        self.transaction = b""
        self.asked = -1  # the delivery in which something was asked of the coordinator
        self.fails = False

    def coordinate(self) -> None:
        """Attach to the coordinator."""
        self.coordinator = Writing(self, "coordinator", self.handle())
        self.attach(self.coordinator, Attach(source=Source(), target=Coordinator()))

    def can_ask(self) -> bool:
        """Return whether the coordinator may be asked something."""
        link = self.coordinator
        return link is not None and link.attached and link.credit > 0 and self.asked < 0

    def declare(self) -> None:
        """Begin a transaction."""
        if self.coordinator is not None:
            self.asked = self.coordinator.send(composed(Declare()), settled=False)

    def discharge(self, *, fails: bool) -> None:
        """End it."""
        if self.coordinator is not None:
            self.fails = fails
            self.world.note(f"{self.name} discharges {self.transaction.hex()} {fails}")
            self.asked = self.coordinator.send(composed(Discharge(txn_id=self.transaction, fail=fails)))

    def coordinated(self, said: Disposition) -> None:
        """The coordinator answers."""
        self.asked = -1
        state = said.state
        if isinstance(state, Declared):
            self.transaction = state.txn_id
            self.declared()
            return
        done = isinstance(state, Accepted)
        self.world.note(f"{self.name} was discharged: {done}")
        self.world.count("rolled back" if self.fails else "committed" if done else "commit refused")
        self.transaction = b""
        self.discharged(done and not self.fails)

    def is_done(self) -> bool:
        """Return whether nothing is under way."""
        return False

    def declared(self) -> None:
        """A transaction has begun."""

    def discharged(self, committed: bool) -> None:
        """It has ended."""

    def gone(self) -> None:
        """The transaction, if there is one, is in doubt."""
        self.transaction = b""
        self.asked = -1
        self.coordinator = None


class Feeder(Transactor):
    """Sends numbered texts; what has no answer is kept, and sent again in order."""

    def __init__(self, ledger: LinkedRun, name: str, place: str, mode: str, count: int) -> None:
        super().__init__(ledger, name)
        self.place = place
        self.mode = mode
        self.relayed = f"{'topic' if place == TOPIC else 'queue'}://{place}"
        self.count = count
        self.sent = 0
        self.link: Writing | None = None
        self.kept: dict[str, str] = {}  # text -> what is sent
        self.again: list[str] = []
        self.pending: dict[int, str] = {}
        self.group: list[str] = []
        self.era = 0  # of the broker, when its discharge was asked for

    def is_done(self) -> bool:
        """Return whether all is sent and answered."""
        return self.sent >= self.count and not self.kept and not self.group

    def ready(self) -> None:
        """Attach, and send again what has no answer."""
        self.again = list(self.kept)
        self._attach()
        if self.mode == BATCH:
            self.coordinate()

    def _attach(self) -> None:
        self.link = Writing(self, f"{self.name}-{self.dials}-{self.next_handle}", self.handle())
        target = Target(address=None if self.mode == RELAY else self.place)
        target.capabilities = ["topic" if self.place == TOPIC else "queue"]
        asked = Attach(source=Source(), target=target, rcv_settle_mode=int(self.mode == SECOND_MODE))
        self.attach(self.link, asked)

    def attached(self, link: LinkEnd) -> None:
        """Go on."""
        if link is self.link:
            self.step()

    def parted(self, link: LinkEnd) -> None:
        """Our detach was answered: behind the answers to what was sent before."""
        if link is self.link and self.pending and not link.refused:
            self.world.violation(f"{self.name}: detached before {list(self.pending.values())[:3]} had answers")
        if link is self.link and not link.refused:
            self._attach()

    def refused(self, link: LinkEnd) -> None:
        """The broker ended the link."""
        link.refused = True
        super().refused(link)

    def step(self) -> None:
        """Send something, if that may be."""
        link = self.link
        if link is None or link.closed or not link.attached:
            return
        if self.mode == BATCH:
            self._batch()
        elif self.again and link.credit > 0:
            self._send(self.again.pop(0))
        elif self.sent < self.count and len(self.kept) < WINDOW and link.credit > 0 and not self.again:
            if self.lots.chance(0.05) and not aborting(self.place):
                self._abort(link)
            else:
                self.sent += 1
                self._send(f"{self.name}-{self.sent}")
        elif self.lots.chance(0.03):
            self.world.count("detached")
            link.detach(closes=self.lots.chance(0.5))
            return
        self.soon(lambda: self.step() if self.link is link else None, 0, 40)

    def _octets(self, text: str) -> bytes:
        whole = self.kept.get(text)
        if whole is None:
            whole = f"{text}|{'x' * self.lots.skewed(1, 3000)}" if self.lots.chance(0.3) else text
            self.kept[text] = whole
        return encoded(whole, once=text if self.mode == UNIQUE else "", to=self.relayed if self.mode == RELAY else "")

    def _send(self, text: str, state: TransactionalState | None = None) -> None:
        link = self.link
        assert link is not None
        octets = self._octets(text)
        item = self.accounts.sends(text, self.place)
        if self.mode == UNIQUE:
            item.attempts = 1
        self.world.note(f"{self.name} sends {text} {len(octets)}")
        self.world.count("sent")
        self.pending[link.send(octets, pieces=self.lots.between(1, 3), state=state)] = text

    def _abort(self, link: Writing) -> None:
        self.world.count("aborted")
        link.send(encoded("never" * 20), pieces=2, aborts=True)

    def _batch(self) -> None:
        """Declare, send some, discharge: a step each."""
        link = self.link
        assert link is not None
        if not self.transaction:
            if self.sent < self.count and self.can_ask():
                self.declare()
        elif len(self.group) < self.lots.between(1, 5) and link.credit > 0 and self.asked < 0:
            self.sent += 1
            text = f"{self.name}-{self.sent}"
            self.group.append(text)
            self._send(text, TransactionalState(txn_id=self.transaction))
        elif self.group and self.can_ask():
            self.era = self.machine.era
            self.discharge(fails=self.lots.chance(0.2))

    def discharged(self, committed: bool) -> None:
        """All of it is sent, or nothing."""
        for text in self.group:
            item = self.accounts.items[text]
            item.confirmed = committed
            item.forbidden = not committed
            self.kept.pop(text, None)
        self.group = []

    def flowed(self) -> None:
        """Credit came."""

    def answered(self, number: int, said: Disposition) -> None:
        """Something has an answer."""
        if number == self.asked:
            self.coordinated(said)
            return
        text = self.pending.pop(number, None)
        if text is None:
            self.world.violation(f"{self.name}: an answer came for delivery {number}, which has one, or was not sent")
            return
        state = said.state
        if isinstance(state, TransactionalState):
            return
        if said.settled == (self.mode == SECOND_MODE):
            self.world.violation(f"{self.name}: {text} was answered, settled {said.settled}")
        if self.mode == SECOND_MODE:
            self.say(Disposition(role=False, first=number, last=number, settled=True))
        self.world.note(f"{self.name} answered {text} {type(state).__name__}")
        if self.mode != BATCH:
            self.kept.pop(text, None)
        if isinstance(state, Accepted):
            self.world.count("accepted")
            self.accounts.items[text].confirmed = True
        else:
            self.world.count("rejected")

    def gone(self) -> None:
        """What was not answered is in doubt; of a transaction all is, together."""
        super().gone()
        self.link = None
        self.pending.clear()
        if self.group:
            self.accounts.groups.append((self.era, self.group))
            for text in self.group:
                self.kept.pop(text, None)
            self.group = []


def aborting(place: str) -> bool:
    """Return whether nothing is aborted on the way to ``place``: the order of a topic is looked at."""
    return place == TOPIC


class Eater(Transactor):
    """Reads a queue, or a durable subscription."""

    def __init__(self, ledger: LinkedRun, name: str, place: str, mode: str) -> None:
        super().__init__(ledger, name)
        self.place = place
        self.mode = mode
        self.key = name if place == TOPIC else place
        self.link: Reading | None = None
        self.out: Writing | None = None
        self.there_since = -1
        self.waiting: dict[int, str] = {}  # exactly once: said, and not settled by the broker
        self.held: list[Delivery] = []  # for the next transaction
        self.taken: list[Delivery] = []  # in this one
        self.most = self.lots.one_of((1, 2, 10, 50))

    def is_done(self) -> bool:
        """Return whether nothing is under way."""
        return not self.waiting and not self.held and not self.taken

    def ready(self) -> None:
        """Attach."""
        self._attach()
        if self.mode in (BATCH, MOVE):
            self.coordinate()
        if self.mode == MOVE:
            self.out = Writing(self, f"{self.name}-out-{self.dials}", self.handle())
            self.attach(self.out, Attach(source=Source(), target=Target(address=MOVED, capabilities=["queue"])))

    def _attach(self) -> None:
        source = Source(address=self.place, capabilities=["queue"])
        name = f"{self.name}-{self.dials}-{self.next_handle}"
        if self.place == TOPIC:
            source = Source(address=self.place, capabilities=["topic"], durable=2, expiry_policy="never")
            name = "durable"
        self.link = Reading(self, name, self.handle())
        self.attach(self.link, Attach(source=source, target=Target(), rcv_settle_mode=int(self.mode == EXACT)))

    def attached(self, link: LinkEnd) -> None:
        """Take something."""
        if link is self.link:
            self.soon(lambda: self._arrived(link), 0, 5)

    def _arrived(self, link: LinkEnd) -> None:
        if link.closed or link is not self.link:
            return
        if self.place == TOPIC and self.there_since < 0:
            self.there_since = self.world.time
        self.step()

    def step(self) -> None:
        """Ask for messages, or end a transaction."""
        link = self.link
        if link is None or link.closed:
            return
        if link.credit <= 0 and not link.drains and link.coming is None:
            link.grant(self.lots.between(1, self.most), drains=self.lots.chance(0.1))
        elif self.lots.chance(0.02) and self.mode in (ACCEPT, EXACT) and link.coming is None and not self.waiting:
            self.world.count("detached")
            link.detach(closes=self.place != TOPIC and self.lots.chance(0.5))
            return
        if self.mode in (BATCH, MOVE) and self.held and not self.transaction and self.can_ask():
            self.declare()
        self.soon(lambda: self.step() if self.link is link else None, 1, 40)

    def parted(self, link: LinkEnd) -> None:
        """Attach again."""
        if link is self.link and not link.refused:
            self.held.clear()
            self._attach()

    def refused(self, link: LinkEnd) -> None:
        """The broker ended the link: somebody reads that subscription, as far as it knows."""
        link.refused = True
        super().refused(link)

    def came(self, delivery: Delivery) -> None:
        """Say a little later what becomes of it."""
        self.world.note(f"{self.name} came {delivery.text[:20]} as {delivery.number}")
        self.world.count("came")
        cable = self.cable
        if delivery.link.closed or cable is None or cable.server_gone:
            return  # on its way when its link ended: the broker has it back, and may have given it to others
        since = self.there_since if self.place == TOPIC else -1
        self.accounts.came(self.key, delivery.text, self.machine.era, ordered_since=since)
        self.soon(lambda: self._answer(delivery))

    def _answer(self, delivery: Delivery) -> None:
        if delivery.link is not self.link or delivery.link.closed:
            return
        number = delivery.number
        if self.lots.chance(0.1):
            self.world.count("given back")
            state = Released() if self.lots.chance(0.5) else Modified(delivery_failed=True)
            self.say(Disposition(role=True, first=number, settled=True, state=state))
        elif self.mode == ACCEPT:
            self.accounts.is_taken(self.key, delivery.text)
            self.say(Disposition(role=True, first=number, settled=True, state=Accepted()))
        elif self.mode == EXACT:
            self.waiting[number] = delivery.text
            self.accounts.is_taken(self.key, delivery.text)
            self.say(Disposition(role=True, first=number, settled=False, state=Accepted()))
        else:
            self.held.append(delivery)

    def declared(self) -> None:
        """Settle in it what is held; move copies."""
        out = self.out
        most = len(self.held) if self.mode != MOVE else 0 if out is None or not out.attached else max(out.credit, 0)
        self.taken, self.held = self.held[:most], self.held[most:]
        for delivery in self.taken:
            state = TransactionalState(txn_id=self.transaction, outcome=Accepted())
            self.say(Disposition(role=True, first=delivery.number, settled=True, state=state))
        if out is not None and self.mode == MOVE:
            for delivery in self.taken:
                self._copy(out, delivery)
        fails = self.lots.chance(0.2)
        for delivery in [] if fails else self.taken:
            self.accounts.is_taken(self.key, delivery.text)
        self.discharge(fails=fails)

    def _copy(self, out: Writing, delivery: Delivery) -> None:
        text = delivery.text.partition("|")[0]
        item = self.accounts.sends(f"m{text}", MOVED)
        item.original = self.accounts.items[text]
        state = TransactionalState(txn_id=self.transaction)
        out.send(encoded(f"m{delivery.text}"), state=state, settled=self.lots.chance(0.5))

    def discharged(self, committed: bool) -> None:
        """What was settled in it is settled, or comes again."""
        for delivery in self.taken if committed else []:
            self.accounts.is_settled(self.key, delivery.text)
            if self.mode == MOVE:
                self.accounts.items[f"m{delivery.text.partition('|')[0]}"].confirmed = True
        self.taken = []

    def answered(self, number: int, said: Disposition) -> None:
        """The broker settles."""
        if said.role and number == self.asked:
            self.coordinated(said)
        elif not said.role:
            text = self.waiting.pop(number, None)
            if text is None or not said.settled:
                self.world.violation(f"{self.name}: delivery {number} was answered, and did not ask")
                return
            self.world.count("settled exactly once")
            self.accounts.is_settled(self.key, text)

    def gone(self) -> None:
        """What was not settled comes again."""
        super().gone()
        self.link = None
        self.out = None
        self.waiting.clear()
        self.held.clear()
        self.taken.clear()


class LinkedRun(StormRun):
    """The run of one seed. Call `run` once, then read ``world``."""

    def __init__(self, seed: int, *, blocks: bool = False, lines: bool = False) -> None:
        super().__init__(
            seed, "amqp", {"#": {"max_deliveries": "-1"}}, blocks=blocks, lines=lines
        )  # those have a workload of their own
        if blocks:  # or nobody would wait for more
            self.machine.amqp.credit, self.machine.amqp.credit_low = 4, 3
        lots = self.lots
        options = self.machine.amqp
        options.credit = lots.one_of((2, 5, 50))
        options.credit_low = options.credit // 2
        options.large_octets = lots.one_of((-1, LARGE_OCTETS))
        options.frame_octets_max = lots.one_of((512, 700, 8192))
        options.write_high_octets = lots.one_of((600, 16_384))
        self.accounts: Final = Accounts(self.world)
        self.feeders: Final = [
            Feeder(self, f"f{number}", lots.one_of((*QUEUES, TOPIC)), lots.one_of(SENDS), lots.skewed(5, 50))
            for number in range(lots.between(1, 4))
        ]
        modes = (ACCEPT, EXACT, BATCH, MOVE)
        self.eaters: Final = [Eater(self, f"e{number}", QUEUES[number], lots.one_of(modes)) for number in range(2)]
        for number in range(lots.between(1, 3)):
            place, mode = lots.one_of((*QUEUES, TOPIC)), lots.one_of((ACCEPT, EXACT, BATCH))
            self.eaters.append(Eater(self, f"e{number + 2}", place, mode))
        if any(eater.mode == MOVE for eater in self.eaters):
            self.eaters.append(Eater(self, "e9", MOVED, lots.one_of((ACCEPT, EXACT, BATCH))))

    def programs(self) -> Sequence[Driven]:
        """Return the readers, then those who send."""
        return [*self.eaters, *self.feeders]

    def is_quiet(self) -> bool:
        """Return whether all came that is due, and nothing is on its way."""
        if self.machine.broker is None or not all(one.is_done() for one in [*self.feeders, *self.eaters]):
            return False
        return not self._missing() and self._left() == 0

    def _left(self) -> int:
        """Return how many messages wait in the queues, or are out."""
        broker = self.machine.broker
        if broker is None:
            return 1
        return sum(int(queue.count) for queue in broker.table.queues.values())

    def _missing(self) -> list[str]:
        found = []
        for item in self.accounts.items.values():
            if not item.confirmed:
                continue
            if item.place != TOPIC:
                keys = [item.place]
            else:
                keys = [one.key for one in self.eaters if one.place == TOPIC and 0 <= one.there_since < item.sent_at]
            found += [f"{item.text} to {key}" for key in keys if (key, item.text) not in self.accounts.taken]
        return found

    def judge(self) -> None:
        """Say what never came, what came wrongly, and what a broker that is sound would not have."""
        world = self.world
        missing = self._missing()
        if missing:
            world.violation(f"{len(missing)} never came: {missing[:4]}")
        stuck = [one.name for one in [*self.feeders, *self.eaters] if not one.is_done()]
        if stuck:
            world.violation(f"never answered: {stuck}")
        if not missing and not stuck and self._left():
            world.violation(f"{self._left()} messages are left, and nobody gets them")
        for era, group in self.accounts.groups:
            self._judge_group(era, group)
        broker = self.machine.broker
        if broker is not None:
            broker.check()

    def _judge_group(self, era: int, group: list[str]) -> None:
        """Of a transaction in doubt all is seen, or nothing, by everybody who was there.

        What is seen before a crash says nothing: delivery does not wait for the disk, and nobody was promised anything.
        """
        place = self.accounts.items[group[0]].place
        begun = self.accounts.items[group[0]].sent_at
        keys = [place] if place != TOPIC else [one.key for one in self.eaters if 0 <= one.there_since < begun]
        for key in keys:
            seen = [text for text in group if (key, text) in self.accounts.seen]
            stays = self.machine.era == era or any(self.accounts.eras[text] > era for text in seen)
            if seen and stays and len(seen) < len(group):
                self.world.violation(f"of a transaction {seen} came to {key}, and not the rest of {group}")
            self.world.count("transactions in doubt: whole" if seen else "transactions in doubt: nothing")
