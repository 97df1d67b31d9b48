"""Who reads from a queue: credit, what is in flight, and the one call by which a message leaves the core. [C]

`Consumer.deliver` is the delivery port: each protocol subclasses `Consumer` and writes the message in its own language.
A consumer that is `tracked` settles its messages itself; one that is not (STOMP ``ack:auto``) has them settled as they
are written. `Source` is a queue as its consumers know it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import UNLIMITED
from entrepot.base.errors import Fault
from entrepot.base.reasons import Reason
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policy
from entrepot.core.events.facts import Reader
from entrepot.core.events.trace import Run
from entrepot.core.ports import Host
from entrepot.core.queue.backlog import Reference, Search
from entrepot.core.queue.head import QueueHead
from entrepot.core.room import Room
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

APPLICATION: Final = 0  # kinds of consumer: a client's program
BRIDGE: Final = 1  # a link of this broker: it reads for consumers that are at another one
BROWSER: Final = 2  # it takes nothing out of the queue
LEASE: Final = 3  # a reader of ranges (`core/leases/lease.py`)
REDISTRIBUTOR: Final = 4  # the broker itself, for queues of other brokers
INCOMING_BRIDGE: Final = 5  # a link that another broker opened to this one
DEMAND: Final = (APPLICATION, LEASE, INCOMING_BRIDGE)
"""Those of which other brokers hear, and to which they send what they have."""
KINDS: Final = {
    APPLICATION: "application",
    BRIDGE: "bridge",
    BROWSER: "browser",
    LEASE: "lease",
    REDISTRIBUTOR: "redistributor",
    INCOMING_BRIDGE: "incoming bridge",
}
"""Kind -> its name, for people."""

NOBODY: Final = Reader()


class Pause:
    """Why nothing is dispatched to a window, whatever its credit. Each reason is set and lifted by one module."""

    SOCKET: Final = 1  # the peer does not read fast enough (`protocols/serving/outlet.py`)
    OPENING: Final = 2  # what the client must hear before its first message is not said yet
    PULL: Final = 4  # it gets a message when it asks for one, and asks for none (`openwire/delivery.py`)
    ANSWER: Final = 8  # the answer to an acknowledgement comes before what it makes room for
    MOVING: Final = 16  # the client is to go to another broker (`openwire/departure.py`)
    ENDING: Final = 32  # its connection ends: what others give back is not for this one
    RETIRING: Final = 64  # the core is detaching it, or a bridge takes no more from it
    LINK: Final = 128  # its link takes nothing at this moment (`cluster/flow.py`)
    QUOTA: Final = 256  # the client has as much unacknowledged as it takes at once (`mqtt/delivery.py`)
    MEASURING: Final = 512  # a large body is read to find out how long it will be (`core/queue/measuring.py`)


class Window:
    """Credit: how many messages and octets may be unsettled at once. Several consumers of one subscription share it.

    ``pauses`` is a set of reasons, bits of `Pause`; nothing is dispatched while there is one.
    """

    def __init__(self, messages: i64, octets: i64 = UNLIMITED) -> None:
        self.messages: i64 = messages
        self.octets: i64 = octets
        self.used: i64 = 0
        self.used_octets: i64 = 0
        self.pauses: i64 = 0
        self.consumers: list[Consumer] = []

    def is_open(self) -> bool:
        """Return whether one more message may be dispatched."""
        return self.used < self.messages and self.used_octets < self.octets and self.pauses == 0

    def pause(self, reason: i64) -> None:
        """Dispatch nothing, for ``reason`` of `Pause`."""
        self.pauses |= reason

    def lift(self, reason: i64) -> None:
        """``reason`` holds no more; call `reopen` after it."""
        self.pauses &= ~reason

    def reopen(self) -> None:
        """Tell the queues that there may be credit again: call after raising a limit or lifting a pause."""
        consumers = self.consumers
        if len(consumers) > 1:  # each queue of a wildcard is first in its turn, or a busy one would starve the others
            consumers.append(consumers.pop(0))
        for consumer in list(consumers):
            if not self.is_open():
                return
            queue = consumer.queue
            if queue is not None:
                queue.opened(consumer)


class Objection:
    """Why one consumer does not take one message, for people. ``code`` is a word that stays; ``remedy``: what to do."""

    def __init__(self, code: str, text: str, remedy: str = "") -> None:
        self.code: str = code
        self.text: str = text
        self.remedy: str = remedy


@mypyc_attr(allow_interpreted_subclasses=True)
class Measurement:
    """What is to be found out about a large body before it can be written. ``flaw``: why it never can be.

    ``room``: where it waits when a step leads nowhere yet.
    """

    def __init__(self) -> None:
        self.flaw: str = ""
        self.room: Room | None = None

    def step(self) -> bool:
        """Read a bounded part of it, and count that as work of this turn; True: that was the last."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer:
    """One reader of one queue. Owned by its session; changed only by the queue that it is attached to."""

    def __init__(self, key: i64, window: Window, tracked: bool) -> None:
        self.key: i64 = key  # unique in this broker
        self.kind: i64 = APPLICATION
        self.subscriber: Reader = NOBODY  # whose it is, in facts
        self.window: Window = window
        self.tracked: bool = tracked
        self.priority: i64 = 0
        self.exclusive: bool = False
        self.selector: Predicate | None = None
        self.no_local: bool = False
        self.origin: i64 = 0  # the connection that it belongs to, compared with Message.origin for no-local
        self.speaks: i64 = -1  # the code of the language whose messages it writes as they are, if any
        self.connection: str = ""  # who it is, for people
        self.queue: Source | None = None
        self.listed: bool = False  # in the queue's list of ready consumers
        self.groups: i64 = 0  # message groups that it owns
        self.fresh: bool = True  # its next scan of the backlog begins at the head
        self.cursor: Reference | None = None  # or here; None: it has seen all that waits in memory
        self.search: Search | None = None  # what its selector has seen on disk
        self.delivered: i64 = 0
        self.settled_at: i64 = 0  # ns, for slow-consumer detection
        self.opened_at: i64 = 0
        self.crowded: bool = False  # its window was full, and more was waiting, at the last sweep
        self.slow: bool = False  # it was announced as slow and has settled nothing since
        self.in_flight: dict[int, Reference] = {}
        self.delivery_run: Run | None = None  # where the queue notes what it is given, and what it settles; if anywhere
        self.settlement_run: Run | None = None
        self.promised: dict[int, str] = {}  # of these, what an open transaction will settle -> its name
        self.unwritten: i64 = 0  # the one of these that is measured first: the peer saw nothing of it
        window.consumers.append(self)

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Write ``message`` to the peer; ``deliveries`` counts earlier attempts. The protocol overrides this."""
        raise Fault("a consumer that cannot deliver was attached to a queue")

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be found out about ``message``, whose body is large, before `deliver`; None: nothing."""
        return None

    def ended(self, why: str) -> None:
        """The broker took the subscription away (queue deleted, slow, refused): tell the peer. May be overridden."""

    def wants(self, message: Message) -> bool:
        """Return whether selector and no-local let ``message`` pass, which is delivered if so: who counts, counts."""
        if self.no_local and message.origin == self.origin:
            return False
        selector = self.selector
        return selector is None or selector.matches(message)

    def would_take(self, message: Message) -> bool:
        """Return what `wants` would say. Nothing changes."""
        return self.wants(message)

    def objection(self, message: Message) -> Objection | None:
        """Return in words why `wants` says no; None where it says yes. Nothing changes."""
        if self.no_local and message.origin == self.origin:
            return Objection("no-local", "its own connection sent the message, and it wants none of those (no-local)")
        selector = self.selector
        if selector is not None and not selector.matches(message):
            return Objection("selector", f"its selector {selector.shown!r} does not match")
        return None

    def called(self) -> str:
        """Return who this is, for people."""
        return f"consumer {self.key} of {self.connection}" if self.connection else f"consumer {self.key}"

    def pulls(self) -> i64:
        """Return how many messages a reader that gets only what it asks for waits for; -1: it is no such reader."""
        return -1

    def peer(self) -> str:
        """Return the name of the broker that reads here through a bridge; "" for a client."""
        return ""

    def halted(self) -> Objection | None:
        """Return in words why its window is paused, where it knows that better than `Pause` does."""
        return None


class Source(QueueHead):
    """What is in flight of one queue, and what its consumers may say to it. `core/queue/queue.py` is the queue."""

    def __init__(
        self, host: Host, identity: i64, definition: QueueDefinition, policy: Policy, condition: Predicate | None
    ) -> None:
        super().__init__(host.hub, host.trace, identity, definition, policy, condition)
        self.host: Host = host
        self.in_flight: i64 = 0
        self.settled: i64 = 0

    def sent(self, consumer: Consumer, reference: Reference) -> None:
        """``reference`` goes out to ``consumer``, who settles it later."""
        if not consumer.in_flight:
            consumer.settled_at = self.host.now  # it had nothing to settle: its time begins now
        consumer.in_flight[reference.number] = reference
        self.in_flight += 1
        window = consumer.window
        window.used += 1
        window.used_octets += reference.message.size

    def returned(self, consumer: Consumer, message: Message) -> None:
        """``consumer`` has ``message`` no longer, which is out of its ``in_flight`` already."""
        self.in_flight -= 1
        consumer.settled_at = self.host.now
        window = consumer.window
        window.used -= 1
        window.used_octets -= message.size

    def count_settled(self, count: i64) -> None:
        """Count ``count`` messages as settled."""
        self.settled += count

    def opened(self, consumer: Consumer) -> None:
        """``consumer`` may take messages again: give it what waits."""
        raise Fault("a queue that gives nothing was opened")

    def settle(self, consumer: Consumer, number: i64) -> bool:
        """``consumer`` is done with message ``number``; False when it did not have it (a stale acknowledgement)."""
        raise Fault("a queue that takes no acknowledgement got one")

    def reject(self, consumer: Consumer, number: i64, reason: Reason) -> bool:
        """``consumer`` cannot process message ``number``: dead-letter it now (classic.md 6.3, NACK)."""
        raise Fault("a queue that takes no acknowledgement got one")

    def give_back(self, consumer: Consumer, number: i64, attempted: bool) -> bool:
        """``consumer`` returns message ``number`` to be delivered again; ``attempted`` counts it as a try."""
        raise Fault("a queue that takes no acknowledgement got one")
