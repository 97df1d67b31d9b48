"""What a link reads from, and what it writes to: its feeds (local subscriptions) and the port of its dialect. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.reasons import UNSENDABLE, Reason
from entrepot.core.broker import BrokerCore
from entrepot.core.events import trace as facts
from entrepot.core.queue.consumer import BRIDGE, Consumer, Measurement, Objection
from entrepot.core.queue.queue import Queue, queue_of
from entrepot.core.reading.subscription import Subscription
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.message import Message

NO_END: Final = (1 << 63) - 1
ELSEWHERE: Final = "nothing; it is kept for readers who are away and may be reached this way only"


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkPort:
    """What a link asks of its dialect. Called once a message: calls, not effects."""

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        """Write ``message``; return the number under which the peer will confirm it, 0: it will not.

        Numbers grow where a peer confirms all up to one. ``doubtful``: the peer may have it already. Who writes it part
        by part says so to `FlowControl.streaming`. Raises EntrepotError for a message that can never be written.
        """
        raise NotImplementedError

    def probe(self) -> int:
        """Write something that the peer's broker itself answers; return its number, 0 when there is nothing."""
        return 0

    def lost(self, why: str) -> None:
        """The link gave the connection up: close it. What it reports afterwards is ignored."""

    def peer(self) -> str:
        """Return the name of the broker on the other side; "" before it is known."""
        return ""

    def retired(self, feed: Feed) -> None:
        """``feed`` is removed: all that it had on its way arrived."""

    def settled(self) -> None:
        """All that was on its way arrived on a link that drains: `LinkCore.advance` closes it, now."""

    def failed_forward(self, feed: Feed, message: Message, why: str) -> None:
        """``message`` could not be forwarded and is a dead letter now."""


class Forwarder:
    """The link, as its feeds see it."""

    def __init__(self, name: str, broker: BrokerCore, window_octets: int) -> None:
        self.name: Final = name
        self.broker: Final = broker
        self.window_octets: Final = window_octets
        self.port = LinkPort()
        self.settling: Final = Settling(broker)

    def deliver(self, consumer: LinkConsumer, message: Message, deliveries: int) -> None:
        """Send ``message``, which is in flight at ``consumer``."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Feed(Subscription):
    """A local subscription whose messages cross. The owner decides with `admits` what may."""

    def __init__(self, link: Forwarder, destinations: list[Destination], prefetch: int) -> None:
        super().__init__(destinations)
        self.kind = BRIDGE
        self.link = link
        self.prefetch = prefetch
        self.octets = link.window_octets
        self.tracked = True
        self.speaks = -1  # as a consumer does
        self.forwarded = 0
        self.counted = True  # its messages are somebody's, not what the ends of the link tell each other
        self.refused = 0
        self.under_way = 0
        self.over = ""  # why the broker ended it
        self.source: Queue | None = None  # of the message that is being forwarded
        self.until: i64 = NO_END  # the last message, by its number, that is for it
        self.retiring = False  # nobody wants more of it; what is on its way may still arrive
        self.stays = False  # a store-and-forward queue's: it is attached, and paused, while there is no connection
        self.holds: i64 = 0  # reasons of `Pause` of its own that hold when it is attached: no credit yet

    def admits(self, message: Message, queue: Queue | None) -> bool:
        """Return whether ``message`` may cross; if so, it does."""
        return True

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Return in words why `admits` says no; None where it says yes."""
        return None

    def halted(self) -> Objection | None:
        """Return in words why nothing crosses at this moment; None where there is no more to say than that."""
        return None

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be found out about ``message``, whose body is large, before it crosses; None: nothing."""
        return None

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to the link."""
        key = self.link.broker.ids.consumer_key()
        self.named(str(key))
        return LinkConsumer(self, key, queue)

    def named(self, key: str) -> None:
        """A consumer with this key will be attached."""

    def ended(self, why: str) -> None:
        """The queue was deleted, or policy ended us."""
        self.over = why


class LinkConsumer(Consumer):
    """One queue read by one feed."""

    def __init__(self, feed: Feed, key: int, queue: Queue) -> None:
        super().__init__(key, feed.window, True)
        self.feed = feed
        self.speaks = feed.speaks
        self.source = queue
        # A topic's queue is this feed's alone: what waited there for another reader would wait for ever, so what
        # may not cross is taken and settled. On a queue it stays for others (classic.md 1.11).
        self.takes_all = queue.routing == MULTICAST

    def wants(self, message: Message) -> bool:
        """Return whether selector and admission let ``message`` pass."""
        if message.number > self.feed.until:
            return False
        selector = self.selector
        if selector is not None and not selector.matches(message):
            return False
        return self.takes_all or self.feed.admits(message, queue_of(self))

    def would_take(self, message: Message) -> bool:
        """Return the same; no rule is told."""
        return self.objection(message) is None

    def objection(self, message: Message) -> Objection | None:
        """Return in words why `wants` says no: the selector of the far consumer, or the rules of the bridge."""
        if message.number > self.feed.until:
            return Objection("served-elsewhere", "another bridge serves its readers since before it came", ELSEWHERE)
        selector = self.selector
        if selector is not None and not selector.matches(message):
            return Objection(
                "selector", f"the selector {selector.shown!r} of who reads beyond the bridge does not match"
            )
        return None if self.takes_all else self.feed.objection(message, queue_of(self))

    def called(self) -> str:
        """Return whose bridge this is."""
        return f"the bridge {self.feed.link.name}"

    def peer(self) -> str:
        """Return the name of the broker on the other side."""
        return self.feed.link.port.peer()

    def halted(self) -> Objection | None:
        """Return in words why the link takes nothing at this moment."""
        return self.feed.halted()

    def measure(self, message: Message) -> Measurement | None:
        """Return what the feed must know before it crosses."""
        return self.feed.measure(message)

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Send it, or settle it unsent where it may not cross."""
        if self.takes_all and not self.feed.admits(message, queue_of(self)):
            self.feed.refused += 1
            self.source.note(facts.REFUSED, message.number, self.key, 0)
            self.feed.link.settling.later(self, int(message.number))
            return
        watch = self.feed.link.broker.watch if message.watched else None
        if watch is None:
            self.feed.link.deliver(self, message, int(deliveries))
            return
        watch.leaves(message, self.source.place(), self.key, self.peer())
        try:
            self.feed.link.deliver(self, message, int(deliveries))
        finally:
            watch.left(message)

    def ended(self, why: str) -> None:
        """The broker took it away."""
        self.feed.ended(why)


class _Settle(Alarm):
    """Settles what needs no confirmation once the queues are done: none may be settled while it delivers."""

    def __init__(self, due: int, settling: Settling) -> None:
        super().__init__(due)
        self.settling = settling

    def ring(self, now: int) -> None:
        self.settling.now()


class _Bury(Alarm):
    """Makes a message that cannot be written a dead letter, once its queue is done."""

    def __init__(self, due: int, consumer: LinkConsumer, number: int, why: str) -> None:
        super().__init__(due)
        self.consumer = consumer
        self.number = number
        self.why = why

    def ring(self, now: int) -> None:
        queue = self.consumer.queue
        if queue is not None:
            queue.reject(self.consumer, self.number, Reason(UNSENDABLE, self.why))


class Settling:
    """What a link settles without a word of its peer: that has to wait until the queue that delivers it is done."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker
        self._waiting: list[tuple[LinkConsumer, int]] = []

    def later(self, consumer: LinkConsumer, number: int) -> None:
        """Settle ``number`` at the end of what the queues do now."""
        if not self._waiting:
            self.broker.timetable.add(_Settle(int(self.broker.now), self))
        self._waiting.append((consumer, number))

    def now(self) -> None:
        """Settle what `later` noted."""
        waiting = self._waiting
        self._waiting = []
        for consumer, number in waiting:
            settle(consumer, number)

    def of(self, feed: Feed) -> None:
        """Settle what `later` noted of ``feed``, which ends."""
        self._waiting = [one for one in self._waiting if not (one[0].feed is feed and settle(*one))]

    def bury(self, consumer: LinkConsumer, number: int, why: str) -> None:
        """Make ``number`` a dead letter at the end of what the queues do now."""
        self.broker.timetable.add(_Bury(int(self.broker.now), consumer, number, why))


def forget_oldest(doubts: dict[int, None], most: int) -> None:
    """Keep the last ``most`` of ``doubts``: links share them, and they may live as long as the broker."""
    while len(doubts) > most:
        del doubts[next(iter(doubts))]


def settle(consumer: LinkConsumer, number: int) -> bool:
    """Settle ``number``; return whether ``consumer`` had it."""
    queue = consumer.queue
    return queue is not None and bool(queue.settle(consumer, number))
