"""A whole broker core without a network: a journal in memory or on a simulated disk, virtual time, readers that record.

Every verb of `Rig` ends with `BrokerCore.check`, so that a broken invariant fails the test that broke it.
"""

from __future__ import annotations

import json
from typing import Any

from entrepot.assembly import Assembly, Plan, Ports
from entrepot.base.environment import UNLIMITED
from entrepot.base.reasons import REJECTED, Reason
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.effort import Effort, Rest
from entrepot.core.events.facts import Fact, Hub, Listener
from entrepot.core.events.trace import TraceSink
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import DEFAULT_PREFETCH, Subscription
from entrepot.core.security.access import Access
from entrepot.core.security.directory import Directory, Subject
from entrepot.core.security.logins import Knock
from entrepot.core.transactions.transaction import Transaction
from entrepot.journal.log import JournalCore, JournalOptions, Waiter
from entrepot.journal.memory import MemoryJournal
from entrepot.model import address as names
from entrepot.model.message import Language, Message, register
from entrepot.model.predicate import Value
from entrepot.simulation.disk import SimulatedDisk
from entrepot.simulation.medium import Effect
from journals import Lots, Timeline

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000_000  # ms: 2023-11-14T22:13:20Z


class Plain(Language):
    """Raw octets are JSON: the body and the properties."""

    def fact(self, message: Message, name: str) -> Value:
        found: Value = json.loads(message.raw)["properties"].get(name)
        return found


PLAIN = Plain(201, "the test kit's language")
register(PLAIN)


def body_of(message: Message) -> str:
    """Return the text that `Rig.message` was given; of a message in another language, its body as text."""
    if message.language is not PLAIN:
        return str(message.common().body)
    text: str = json.loads(message.raw)["body"]
    return text


class Notices(Listener):
    """Remembers what was announced."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: list[Fact] = []

    def heard(self, fact: Fact) -> None:
        self.facts.append(fact)

    def of(self, name: str) -> list[tuple[str, dict[str, str]]]:
        return [(fact.subject(), fact.details()) for fact in self.facts if fact.name == name]


class Delivery:
    """One message as a reader saw it."""

    def __init__(self, consumer: Consumer, message: Message, deliveries: int) -> None:
        self.consumer = consumer
        self.message = message
        self.number = int(message.number)
        self.body = body_of(message)
        self.deliveries = deliveries
        rare = message.rare
        self.annotations = {} if rare is None else dict(rare.annotations)

    def __repr__(self) -> str:
        return f"{self.body}#{self.number}" + (f"(x{self.deliveries})" if self.deliveries else "")


class Recorder(Consumer):
    """A consumer that writes its messages into the list of its reader."""

    reader: Reader

    def deliver(self, message: Message, deliveries: int) -> None:
        assert self.queue is not None, "delivered to a consumer that is not attached"
        delivery = Delivery(self, message, int(deliveries))
        self.reader.deliveries.append(delivery)
        self.reader.rig.handed.append((self.reader, delivery))
        if self.tracked:
            self.reader.open.append(delivery)

    def ended(self, why: str) -> None:
        self.reader.endings.append(why)


class Reader(Subscription):
    """A subscription that remembers all it was given; ``open`` is what it has not settled."""

    def __init__(self, rig: Rig, text: str, routing: int) -> None:
        super().__init__(names.parse(text, routing))
        self.rig = rig
        self.deliveries: list[Delivery] = []
        self.open: list[Delivery] = []
        self.endings: list[str] = []
        self.closed = False

    def consumer(self, queue: Queue) -> Consumer:
        made = Recorder(self.rig.broker.ids.consumer_key(), self.window, self.tracked)
        made.reader = self
        return made

    @property
    def bodies(self) -> list[str]:
        return [delivery.body for delivery in self.deliveries]

    def take(self) -> list[str]:
        """Return the bodies that came since the last call."""
        bodies = self.bodies
        self.deliveries.clear()
        return bodies

    def ack(self, count: int = 1 << 30) -> list[str]:
        """Settle the oldest ``count``, and what comes meanwhile if there are more."""
        settled: list[str] = []
        while self.open and len(settled) < count:
            delivery = self.open.pop(0)
            queue = delivery.consumer.queue
            assert queue is not None
            assert queue.settle(delivery.consumer, delivery.number)
            settled.append(delivery.body)
        self.rig.turn()
        return settled

    def reject(self, reason: str = "no") -> None:
        """Reject the oldest."""
        delivery = self.open.pop(0)
        assert delivery.consumer.queue is not None
        assert delivery.consumer.queue.reject(delivery.consumer, delivery.number, Reason(REJECTED, reason))
        self.rig.turn()

    def give_back(self, attempted: bool = True) -> None:
        """Return the oldest."""
        delivery = self.open.pop(0)
        assert delivery.consumer.queue is not None
        assert delivery.consumer.queue.give_back(delivery.consumer, delivery.number, attempted)
        self.rig.turn()

    def close(self) -> None:
        """Leave; what is not settled goes back."""
        self.closed = True
        self.open.clear()
        self.rig.broker.unsubscribe(self)
        self.rig.turn()


class Synced(Waiter):
    """Makes the journal sync, as somebody who wants a receipt does."""

    def stored(self, token: bytes) -> None:
        pass


class Rig:
    """One broker. ``policies``: pattern -> settings. ``disk`` False is ``--ephemeral``. ``files``: on its disk."""

    def __init__(
        self,
        policies: dict[str, dict[str, str]] | None = None,
        *,
        disk: bool = True,
        memory_limit: int = 512 << 20,
        seed: int = 1,
        segment_bytes: int = 1 << 16,
        sink: TraceSink | None = None,
        files: dict[str, bytes] | None = None,
        **defaults: str,
    ) -> None:
        self.timeline = Timeline()
        self.lots = Lots(seed)
        self.disk = SimulatedDisk(Lots(seed), self.timeline.later) if disk else None
        if self.disk is not None and files:
            for name, content in files.items():
                Effect("create", name).apply(self.disk.medium.durable)
                Effect("write", name, octets=content).apply(self.disk.medium.durable)
            self.disk.stop()
        self.segment_bytes = segment_bytes
        self.sink = sink
        self.plan = Plan("test", memory_limit)
        self.policies = self.plan.policies
        if defaults:
            self.policies.add("#", defaults)
        for pattern, settings in (policies or {}).items():
            self.policies.add(pattern, settings)
        self.now = 5 * SECOND
        self.wall = START
        self.thorough = True  # look at every queue after each turn; a test of thousands of queues turns it off
        self.notices = Notices()
        self.readers: list[Reader] = []
        self.handed: list[tuple[Reader, Delivery]] = []  # everything that was delivered, in order, to whom
        self.journal: JournalCore
        self.broker = self._start()

    def _start(self) -> BrokerCore:
        if self.disk is None:
            self.journal = MemoryJournal()
        else:
            self.journal = JournalCore(self.disk, JournalOptions(node="n", segment_bytes=self.segment_bytes))
        made = Assembly(self.plan, Ports(self.journal, self.lots, Hub([self.notices], strict=True), sink=self.sink))
        broker = made.broker
        made.recover(self.now, self.wall)
        broker.begin_trace()
        self.broker = broker
        self.turn()
        return broker

    # -- time and the disk --------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """End a turn in which somebody has asked for a receipt."""
        self.journal.confirm(Synced(), b"")
        self.turn()

    def turn(self) -> None:
        """End a turn: the journal gets its sync, and everything that must be true is true."""
        self.broker.flow.space_changed()
        for _ in range(1000):
            busy = self.journal.flush()
            if not self.timeline.step() and not busy:
                break
        self.timeline.run()
        if self.broker.trace is not None:
            self.broker.trace.flush()
        if self.thorough:
            self.broker.check()
            for lease in self.broker.leases.held.values():
                lease.check()

    def wait(self, ms: int) -> None:
        """Let time pass; alarms ring when they are due."""
        end = self.now + ms * MILLISECOND
        for _ in range(100_000):
            while self.broker.effort.waits():
                self.broker.effort.go_on()
            due = self.broker.deadline()
            step = max(0, min(due, end) - self.now)
            # whole milliseconds of wall time, as a clock would show
            self.wall += (self.now + step) // MILLISECOND - self.now // MILLISECOND
            self.now += step
            self.broker.tick(self.now, self.wall)
            self.broker.advance()
            while self.broker.effort.waits():
                self.broker.effort.go_on()
            self.turn()
            if self.now >= end and self.broker.deadline() > self.now and not self.broker.effort.waits():
                return
        raise AssertionError("the broker is never at rest")

    def restart(self, how: str = "close") -> None:
        """Start again from the same disk. ``close``: in good order; ``kill``: the process; ``crash``: the machine."""
        assert self.disk is not None
        if how == "close":
            for reader in self.readers:
                if not reader.closed:
                    reader.close()
            self.journal.close()
            self.disk.stop()
        elif how == "kill":
            self.journal.flush()
            self.disk.stop()
        else:
            self.disk.crash()
        for reader in self.readers:
            reader.closed = True
            reader.open.clear()
        self.readers.clear()
        self.now += SECOND
        self.wall += 1000
        self._start()

    # -- what clients do ----------------------------------------------------------------------------------------------

    def message(self, body: str, address: str = "", **fields: Any) -> Message:
        """Return a message. Fields of the envelope by name; ``properties``; ``annotations``; the rest of `Rare`."""
        properties = fields.pop("properties", {})
        raw = json.dumps({"body": body, "properties": properties}).encode()
        message = Message(PLAIN, address, raw)
        message.timestamp = self.wall
        message.durable = fields.pop("durable", True)
        if "ttl" in fields:
            message.expiration = self.wall + fields.pop("ttl")
        if "priority" in fields:
            message.priority = fields.pop("priority")
        if "origin" in fields:
            message.origin = fields.pop("origin")
        for key, value in fields.pop("annotations", {}).items():
            message.annotate(key, str(value))
        names_of_rare = {"group": "group", "seq": "group_sequence", "duplicate": "duplicate_id", "identity": "identity"}
        for key, value in fields.items():
            setattr(message.need_rare(), names_of_rare[key], value)
        return message

    def send(self, text: str, body: str = "x", *, routing: int = names.UNTYPED, **fields: Any) -> int:
        """Send one message as a session does; return the verdict."""
        parsed = names.parse(text, routing)
        target = self.broker.target(parsed)
        verdict = self.broker.send(self.message(body, parsed[0].name, **fields), target)
        self.turn()
        return int(verdict)

    def send_all(self, text: str, bodies: list[str] | range, **fields: Any) -> None:
        """Send several."""
        target = self.broker.target(names.parse(text))
        for body in bodies:
            self.broker.send(self.message(str(body), target.name, **fields), target)
        self.turn()

    def reader(
        self, text: str, prefetch: int = DEFAULT_PREFETCH, *, routing: int = names.UNTYPED, **options: Any
    ) -> Reader:
        """Subscribe. Options are attributes of `Subscription`; ``selector`` is text; ``auto`` is untracked."""
        reader = Reader(self, text, routing)
        reader.prefetch = prefetch
        reader.octets = options.pop("octets", UNLIMITED)
        reader.selector = selector_or_none(options.pop("selector", ""))
        reader.tracked = not options.pop("auto", False)
        for name, value in options.items():
            setattr(reader, name, value)
        self.broker.subscribe(reader)
        reader.window.reopen()
        self.readers.append(reader)
        self.turn()
        return reader

    def commit(self, transaction: Transaction) -> None:
        """Commit, and look at what came of it."""
        try:
            self.broker.transactions.commit(transaction)
        finally:
            self.turn()

    def queue(self, name: str) -> Queue:
        """Return a queue that must exist."""
        return self.broker.table.queues[name]

    def drain(self, text: str) -> list[Delivery]:
        """Read everything that waits, settle it, and leave."""
        reader = self.reader(text, 1 << 30)
        found = list(reader.deliveries)
        reader.ack()
        reader.close()
        return found

    def bodies(self, text: str) -> list[str]:
        """Return what waits, and consume it."""
        return [delivery.body for delivery in self.drain(text)]


class Patience(Rest):
    """Somebody who waits to be let in; ``called`` says that he may look again."""

    def __init__(self) -> None:
        super().__init__()
        self.called = False

    def resume(self) -> None:
        self.called = True


def knock(
    access: Access,
    name: str | None,
    password: str | None,
    certificate: str | None = None,
    peer: str = "192.0.2.1:1",
) -> Knock:
    """Want to come in."""
    made = Knock(name, password, certificate, peer, Effort(), Patience())
    access.knock(made)
    return made


def admitted(
    where: Access | Directory, name: str | None, password: str | None, certificate: str | None = None
) -> Subject:
    """Come in at once. Raises AccessDenied, UserUnknown."""
    if isinstance(where, Directory):
        access = Rig(disk=False).broker.access
        access.protect(where)
        where = access
    return knock(where, name, password, certificate).subject()
