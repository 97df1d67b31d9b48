"""LinkCore: messages of local queues cross to a peer and are settled here only when the peer has them.

One link serves one direction of one connection. It owns the state of that connection, the feeds (local subscriptions)
and what is on its way; it never opens a socket, encodes a message or chooses what may cross (`admission.py`) or what is
wanted (`demand.py`). Whoever performs the effects reports back with `connected`, `failed`, `lost`.

Invariants (`check`): what is on its way is in flight at exactly one consumer of one feed, unless its queue was deleted
meanwhile (a temporary one, whose reader left): then only the answer is still to come; nothing is on its way unless
the link is open; a message is settled here after the peer confirmed it, or after it was sent where no confirmation was
asked for; when the connection dies everything unconfirmed is back in its queue, in order.

Supervision: a canary flies in every interval; a peer from which none comes back, and nothing else is confirmed, for two
more is given up, so a peer that accepted and fell silent, a half-open connection and a black hole are found within
three. A peer that is heard but confirms nothing while messages are on their way is full, not dead: that is said
(``stalled_since``), and the link stays, because a new connection to a full broker would repeat what is on its way. [C]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MIB, MILLISECOND, SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError, Fault
from entrepot.base.uri import Endpoint
from entrepot.cluster.networks.options import ReconnectOptions
from entrepot.core import trace as facts
from entrepot.core.broker import BrokerCore
from entrepot.core.consumer import Consumer, Objection
from entrepot.core.queue import NONE_DELIVERED, Queue
from entrepot.core.subscription import Subscription
from entrepot.core.timed import Alarm
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.failover import Dial, Drop, GiveUp, Warn
from entrepot.protocols.session import NEVER

INTERVALS_SILENT: Final = 3  # after which a peer is dead: one until the canary flies, two for it to come back
WINDOW_OCTETS: Final = 32 * MIB  # on their way a feed; 1000 messages of a usual size are far below
NO_END: Final = (1 << 63) - 1
ELSEWHERE: Final = "nothing; it is kept for readers who are away and may be reached this way only"
DOUBTS_KEPT: Final = 10_000  # messages that the peer may have although it did not say so; they go again, marked


class State(Enum):
    """Where the link is."""

    IDLE = "idle"  # not started, or a passive one that waits for its peer
    DIALLING = "dialling"
    OPENING = "opening"  # connected; the brokers introduce themselves
    OPEN = "open"
    DRAINING = "draining"  # takes no more, waits for what is on its way
    WAITING = "waiting"  # `deadline` says until when
    FAILED = "failed"  # no attempt is left, or it leads back to ourselves
    CLOSED = "closed"


class Signal(Enum):
    """What moves it."""

    DIAL = "an attempt begins"
    CONNECTED = "the peer answered"
    OPENED = "both brokers know each other"
    LOST = "the connection died"
    DRAIN = "it is to end in order"
    FAIL = "no attempt is left"
    CLOSE = "its owner is done with it"


TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    (State.IDLE, Signal.DIAL): State.DIALLING,
    (State.IDLE, Signal.CONNECTED): State.OPENING,  # the peer dialled us
    (State.IDLE, Signal.CLOSE): State.CLOSED,
    (State.DIALLING, Signal.DIAL): State.DIALLING,  # the next place of the round
    (State.DIALLING, Signal.CONNECTED): State.OPENING,
    (State.DIALLING, Signal.LOST): State.WAITING,
    (State.DIALLING, Signal.FAIL): State.FAILED,
    (State.DIALLING, Signal.CLOSE): State.CLOSED,
    (State.OPENING, Signal.OPENED): State.OPEN,
    (State.OPENING, Signal.LOST): State.WAITING,
    (State.OPENING, Signal.FAIL): State.FAILED,
    (State.OPENING, Signal.CLOSE): State.CLOSED,
    (State.OPEN, Signal.LOST): State.WAITING,
    (State.OPEN, Signal.DRAIN): State.DRAINING,
    (State.OPEN, Signal.FAIL): State.FAILED,
    (State.OPEN, Signal.CLOSE): State.CLOSED,
    (State.DRAINING, Signal.LOST): State.CLOSED,
    (State.DRAINING, Signal.CLOSE): State.CLOSED,
    (State.WAITING, Signal.DIAL): State.DIALLING,
    (State.WAITING, Signal.FAIL): State.FAILED,
    (State.WAITING, Signal.CLOSE): State.CLOSED,
    (State.FAILED, Signal.DIAL): State.DIALLING,  # an operator asked
    (State.FAILED, Signal.CLOSE): State.CLOSED,
}

Effect = Dial | Drop | GiveUp | Warn


class LinkOptions:
    """How a link behaves. ns for times, octets for sizes."""

    def __init__(
        self,
        *,
        reconnect: ReconnectOptions | None = None,
        interval: Duration = 10 * SECOND,
        window_octets: int = WINDOW_OCTETS,
        drain_patience: Duration = 30 * SECOND,
    ) -> None:
        """``interval``: between two canaries, a third of Java's 30 s; ``drain_patience``: classic.md 1.3."""
        self.reconnect = ReconnectOptions() if reconnect is None else reconnect
        self.interval = interval
        self.window_octets = window_octets
        self.drain_patience = drain_patience


class Backoff:
    """When to dial again after how many failures."""

    def __init__(self, options: ReconnectOptions) -> None:
        self.options: Final = options
        self.failures = 0
        self._delay = options.initial_delay

    def succeeded(self) -> None:
        """The connection lived long enough: the next failure is a first one."""
        self.failures = 0
        self._delay = self.options.initial_delay

    def failed(self) -> Duration | None:
        """Return the wait after one more failure, None when that was the last attempt."""
        self.failures += 1
        if 0 < self.options.attempts_max <= self.failures:
            return None
        delay = self._delay
        if self.options.exponential:
            self._delay = min(int(delay * self.options.multiplier), self.options.max_delay)
        return min(delay, self.options.max_delay)


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkPort:
    """What a link asks of its dialect. Called once a message: calls, not effects."""

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        """Write ``message``; return the number under which the peer will confirm it, 0: it will not.

        ``doubtful``: the peer may have it already. Raises EntrepotError for a message that can never be written.
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


@mypyc_attr(allow_interpreted_subclasses=True)
class Feed(Subscription):
    """A local subscription whose messages cross. The owner decides with `admits` what may."""

    def __init__(self, link: LinkCore, destinations: list[Destination], prefetch: int) -> None:
        super().__init__(destinations)
        self.link = link
        self.prefetch = prefetch
        self.octets = link.options.window_octets
        self.tracked = True
        self.forwarded = 0
        self.counted = True  # its messages are somebody's, not what the ends of the link tell each other
        self.refused = 0
        self.under_way = 0
        self.over = ""  # why the broker ended it
        self.source: Queue | None = None  # of the message that is being forwarded
        self.until: i64 = NO_END  # the last message, by its number, that is for it
        self.retiring = False  # nobody wants more of it; what is on its way may still arrive

    def admits(self, message: Message, queue: Queue | None) -> bool:
        """Return whether ``message`` may cross."""
        return True

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Return in words why `admits` says no; None where it says yes."""
        return None

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to the link."""
        key = self.link.broker.consumer_key()
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
        return self.takes_all or self.feed.admits(message, self.queue)

    def objection(self, message: Message) -> Objection | None:
        """Return in words why `wants` says no: the selector of the far consumer, or the rules of the bridge."""
        if message.number > self.feed.until:
            return Objection("served-elsewhere", "another bridge serves its readers since before it came", ELSEWHERE)
        selector = self.selector
        if selector is not None and not selector.matches(message):
            return Objection(
                "selector", f"the selector {selector.shown!r} of who reads beyond the bridge does not match"
            )
        return None if self.takes_all else self.feed.objection(message, self.queue)

    def called(self) -> str:
        """Return whose bridge this is."""
        return f"the bridge {self.feed.link.name}"

    def peer(self) -> str:
        """Return the name of the broker on the other side."""
        return self.feed.link.port.peer()

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Send it, or settle it unsent where it may not cross."""
        if self.takes_all and not self.feed.admits(message, self.queue):
            self.feed.refused += 1
            self.source.note(facts.REFUSED, message.number, self.key, 0)
            self.feed.link.settle_later(self, int(message.number))
        else:
            self.feed.link.deliver(self, message, int(deliveries))

    def ended(self, why: str) -> None:
        """The broker took it away."""
        self.feed.ended(why)


class _Settling(Alarm):
    """Settles what needs no confirmation once the queues are done: none may be settled while it delivers."""

    def __init__(self, due: int, link: LinkCore) -> None:
        super().__init__(due)
        self.link = link

    def ring(self, now: int) -> None:
        self.link.settle_unconfirmed()


class LinkCounts:
    """What a link did since it was made."""

    def __init__(self) -> None:
        self.forwarded = 0
        self.confirmed = 0
        self.requeued = 0
        self.dead = 0
        self.connections = 0
        self.failures = 0
        self.probes = 0


class LinkCore:
    """One direction of one connection to one peer. ``attempt`` numbers what was dialled; 0 for a passive link."""

    def __init__(
        self,
        name: str,
        broker: BrokerCore,
        options: LinkOptions,
        places: Sequence[Endpoint] = (),
        doubts: dict[int, None] | None = None,
    ) -> None:
        """``places``: dialled one after the other in each round; none for a link that its peer opens.

        ``doubts``: messages that some peer may have; shared by all links of a broker, because any may send them next.
        """
        self.name: Final = name
        self.broker: Final = broker
        self.options: Final = options
        self.places: Final = list(places)
        self.port = LinkPort()
        self.state = State.IDLE
        self.why = ""  # of the last failure, or of the end
        self.since: Instant = 0  # the state is what it is
        self.attempt = 0
        self.place: Endpoint | None = None
        self.counts: Final = LinkCounts()
        self.feeds: dict[Feed, None] = {}
        self.under_way: dict[int, tuple[LinkConsumer, int]] = {}  # confirmation -> whose, message number
        self.ready = True  # the peer reads
        self.stalled_since: Instant = 0
        self.backoff: Final = Backoff(options.reconnect)
        self._round: list[Endpoint] = []
        self._due: Instant = NEVER  # of the state: dial again, opening takes too long, draining does
        self._look_due: Instant = NEVER  # of supervision
        self._heard_at: Instant = 0
        self._confirmed_at: Instant = 0
        self._probe = 0
        self._probed_at: Instant = 0
        self.round_trip: Duration = 0  # of the last canary that came back, ns; 0: none yet
        self.round_trip_at: Instant = 0
        self.failed_at: Instant = 0
        self.down_since: Instant = 0  # when it was open last; 0: it is, or never was
        self._unconfirmed: list[tuple[LinkConsumer, int]] = []  # to be settled without the peer's word
        self.doubts: dict[int, None] = {} if doubts is None else doubts

    # -- the connection ------------------------------------------------------------------------------------------------

    def start(self, now: Instant) -> list[Effect]:
        """Dial; an operator may do so again after FAILED."""
        self.backoff.succeeded()
        return self._dial_round(now)

    def connected(self, attempt: int, now: Instant) -> list[Effect]:
        """The transport ``attempt`` speaks our language; the brokers introduce themselves next."""
        if attempt != self.attempt or self.state not in (State.DIALLING, State.IDLE):
            return [Drop(attempt)]
        self._become(Signal.CONNECTED, now)
        self._due = now + INTERVALS_SILENT * self.options.interval
        return []

    def opened(self, now: Instant) -> None:
        """Both brokers know each other: feeds may be attached."""
        self._become(Signal.OPENED, now)
        self.counts.connections += 1
        self.down_since = 0
        self._due = NEVER
        self._heard_at = self._confirmed_at = now
        self._look_due = now + self.options.interval
        self.ready = True

    def failed(self, attempt: int, why: str, now: Instant) -> list[Effect]:
        """The transport ``attempt`` did not open, or is gone."""
        if attempt != self.attempt or self.state in (State.IDLE, State.WAITING, State.FAILED, State.CLOSED):
            return []
        self.why = why
        if self.state is State.DIALLING and self._round:
            return self._dial_next(now)
        return self._lost(now)

    def give_up(self, why: str, now: Instant) -> list[Effect]:
        """End it without another attempt: the peer is ourselves, or cannot ever be right."""
        if self.state in (State.FAILED, State.CLOSED):
            return []
        attempt = self.attempt
        self.why = why
        self._clear()
        self._become(Signal.FAIL, now)
        self.port.lost(why)
        return [Drop(attempt), GiveUp(why)]

    def drain(self, now: Instant) -> None:
        """Take no more; `advance` closes when nothing is on its way or patience is over."""
        if self.state is not State.OPEN:
            return
        self._become(Signal.DRAIN, now)
        self._due = now if not self.under_way else now + self.options.drain_patience
        for feed in self.feeds:
            feed.window.paused = True

    def close(self, why: str, now: Instant) -> list[Effect]:
        """End it. What is on its way goes back to its queues."""
        if self.state is State.CLOSED:
            return []
        attempt = self.attempt
        alive = self.state in (State.OPENING, State.OPEN, State.DRAINING)
        self.why = why
        self._clear()
        self._become(Signal.CLOSE, now)
        self._due = self._look_due = NEVER
        if alive:
            self.port.lost(why)
        return [Drop(attempt)] if attempt else []

    def _dial_round(self, now: Instant) -> list[Effect]:
        self._round = list(self.places)
        return self._dial_next(now)

    def _dial_next(self, now: Instant) -> list[Effect]:
        self.place = self._round.pop(0)
        self.attempt += 1
        self._become(Signal.DIAL, now)
        self._due = now + INTERVALS_SILENT * self.options.interval
        return [Dial(self.attempt, self.place)]

    def _lost(self, now: Instant) -> list[Effect]:
        lived = now - self.since if self.state is State.OPEN else 0
        if self.state is State.OPEN:
            self.down_since = now
        draining = self.state is State.DRAINING
        if lived >= self.options.reconnect.min_connect_time:
            self.backoff.succeeded()
        self.counts.failures += 1
        self.failed_at = now
        attempt = self.attempt
        self._clear()
        self._due = self._look_due = NEVER
        ended: list[Effect] = [Drop(attempt)]
        if draining or not self.places:
            self._become(Signal.LOST if draining else Signal.CLOSE, now)
        elif (delay := self.backoff.failed()) is None:
            self._become(Signal.FAIL, now)
            ended.append(GiveUp(self.why))
        else:
            self._become(Signal.LOST, now)
            self._due = now + delay
            ended.append(Warn(self.backoff.failures, self.why))
        self.port.lost(self.why)  # last: closing the connection may come back here
        return ended

    def _clear(self) -> None:
        """Detach every feed: what is on its way goes back, in order, and will be marked when it goes again."""
        for feed in self.feeds:
            feed.window.paused = True  # what goes back, or is settled, must not bring more on its way here
        for consumer, number in self.under_way.values():
            self.doubts[number] = None
            self.counts.requeued += 1
            consumer.feed.under_way = 0
        while len(self.doubts) > DOUBTS_KEPT:
            del self.doubts[next(iter(self.doubts))]
        self.under_way.clear()
        self._probe = 0
        self.stalled_since = 0
        self.settle_unconfirmed()
        for feed in list(self.feeds):
            self.remove(feed)

    # -- feeds ---------------------------------------------------------------------------------------------------------

    def add(self, feed: Feed) -> None:
        """Attach ``feed``; what waits crosses at once. Raises Refused."""
        if self.state is not State.OPEN:
            raise Fault(f"link {self.name}: a feed needs an open link, it is {self.state.value}")
        self.feeds[feed] = None
        feed.window.paused = not self.ready
        try:
            self.broker.subscribe(feed)
        except EntrepotError:
            self.feeds.pop(feed, None)
            raise
        feed.window.reopen()

    def remove(self, feed: Feed) -> None:
        """Detach ``feed``; what it has on its way goes back and may arrive twice, marked as such."""
        if feed not in self.feeds:
            return
        del self.feeds[feed]
        feed.window.paused = True
        if feed.under_way > 0:
            for key in [key for key, (consumer, _) in self.under_way.items() if consumer.feed is feed]:
                self.doubts[self.under_way.pop(key)[1]] = None
                self.counts.requeued += 1
            feed.under_way = 0
        self._unconfirmed = [one for one in self._unconfirmed if not (one[0].feed is feed and self._settle(*one))]
        # A cut link is no failed attempt of a consumer: it must not bring a message nearer to the dead letters.
        self.broker.unsubscribe(feed, NONE_DELIVERED)

    def retire(self, feed: Feed) -> bool:
        """Take no more from ``feed``, and remove it when what is on its way arrived; return whether that was at once.

        Removing it earlier would send again what the peer has already.
        """
        if feed not in self.feeds:
            return True
        feed.window.paused = True
        feed.retiring = True
        if feed.under_way > 0:
            return False
        self.remove(feed)
        return True

    def revive(self, feed: Feed) -> bool:
        """Take from ``feed`` again if it is still retiring; False when it is gone."""
        if feed not in self.feeds or not feed.retiring:
            return False
        feed.retiring = False
        feed.window.paused = not self.ready
        feed.window.reopen()
        return True

    def deliver(self, consumer: LinkConsumer, message: Message, deliveries: int) -> None:
        """Send ``message``, which is in flight at ``consumer``."""
        number = int(message.number)
        doubtful = bool(self.doubts) and number in self.doubts
        feed = consumer.feed
        feed.source = consumer.source
        try:
            confirmation = self.port.forward(feed, message, deliveries, doubtful)
        except EntrepotError as error:
            self._bury_later(consumer, message, str(error))
            return
        feed.forwarded += 1
        if feed.counted:
            self.counts.forwarded += 1
        if confirmation:
            self.under_way[confirmation] = (consumer, number)
            feed.under_way += 1
        else:
            self.settle_later(consumer, number)

    def confirmed(self, confirmation: int, now: Instant) -> bool:
        """The peer has what ``confirmation`` stands for: settle it. False when it stands for nothing of ours."""
        self._confirmed_at = now
        self.stalled_since = 0
        if confirmation == self._probe and self._probe:
            self._probe = 0
            self.round_trip = now - self._probed_at
            self.round_trip_at = now
            return True
        found = self.under_way.pop(confirmation, None)
        if found is None:
            return False
        self.counts.confirmed += 1
        feed = found[0].feed
        feed.under_way -= 1
        self._settle(*found)
        self._arrived(feed, now)
        return True

    def rejected(self, confirmation: int, why: str, *, for_good: bool, now: Instant) -> list[Effect]:
        """The peer refuses. ``for_good``: this message alone, always; else the link is rebuilt (classic.md 1.11)."""
        if confirmation == self._probe and self._probe:
            self.confirmed(confirmation, now)  # it answered, whatever it said
            return []
        found = self.under_way.get(confirmation)
        if found is None:
            return []
        if not for_good:
            return self.failed(self.attempt, f"the peer refused a message: {why}", now)
        del self.under_way[confirmation]
        consumer, number = found
        consumer.feed.under_way -= 1
        reference = consumer.in_flight.get(number)
        queue = consumer.queue
        if queue is not None and reference is not None:
            self.counts.dead += 1
            self.port.failed_forward(consumer.feed, reference.message, why)
            queue.reject(consumer, number, why)
        self._arrived(consumer.feed, now)
        return []

    def forbidden(self, confirmation: int, now: Instant) -> Feed | None:
        """The peer takes nothing of what this feed brings: it ends, and its messages go back for others to have.

        Return the feed; None when ``confirmation`` stands for nothing of ours.
        """
        found = self.under_way.pop(confirmation, None)
        if found is None:
            return None
        consumer, number = found
        feed = consumer.feed
        feed.window.paused = True
        feed.retiring = True
        feed.under_way -= 1
        queue = consumer.queue
        if queue is not None:
            queue.give_back(consumer, number, False)
        self._arrived(feed, now)
        return feed

    def _arrived(self, feed: Feed, now: Instant) -> None:
        """One message of ``feed`` was answered for, however: what waits for the last of them waits no longer."""
        if feed.retiring and feed.under_way == 0:
            self.remove(feed)
            self.port.retired(feed)
        if self.state is State.DRAINING and not self.under_way:
            self._due = now
            self.port.settled()

    def writable(self, ready: bool) -> None:
        """The peer does not read fast enough (False), or does again."""
        self.ready = ready
        for feed in list(self.feeds):
            feed.window.paused = not ready or feed.retiring or self.state is not State.OPEN
            if not feed.window.paused:
                feed.window.reopen()

    def settle_later(self, consumer: LinkConsumer, number: int) -> None:
        """Settle ``number`` without the peer's word, at the end of what the queues do now."""
        if not self._unconfirmed:
            self.broker.timetable.add(_Settling(int(self.broker.now), self))
        self._unconfirmed.append((consumer, number))

    def settle_unconfirmed(self) -> None:
        """Settle what `settle_later` noted."""
        waiting = self._unconfirmed
        self._unconfirmed = []
        for consumer, number in waiting:
            self._settle(consumer, number)

    def _settle(self, consumer: LinkConsumer, number: int) -> bool:
        queue = consumer.queue
        return queue is not None and bool(queue.settle(consumer, number))

    def _bury_later(self, consumer: LinkConsumer, message: Message, why: str) -> None:
        self.counts.dead += 1
        self.port.failed_forward(consumer.feed, message, why)
        self.broker.timetable.add(_Burying(int(self.broker.now), consumer, int(message.number), why))

    # -- supervision ---------------------------------------------------------------------------------------------------

    def heard(self, now: Instant) -> None:
        """Octets came from the peer."""
        self._heard_at = now

    def deadline(self) -> Instant:
        """Return when `advance` must be called."""
        return min(self._due, self._look_due)

    def advance(self, now: Instant) -> list[Effect]:
        """Do what is due: dial, give up on a silent peer, send the canary."""
        if self.state is State.WAITING and self._due <= now:
            return self._dial_round(now)
        if self.state is State.DIALLING and self._due <= now:
            attempt = self.attempt
            return [Drop(attempt), *self.failed(attempt, "the peer did not answer in OpenWire", now)]
        if self.state is State.OPENING and self._due <= now:
            return self.failed(self.attempt, "the peer did not introduce itself", now)
        if self.state is State.DRAINING and self._due <= now:
            return self.close("it was drained", now)
        if self._look_due <= now:
            return self._look(now)
        return []

    def _look(self, now: Instant) -> list[Effect]:
        interval = self.options.interval
        silent_due = self._heard_at + INTERVALS_SILENT * interval
        self._look_due = min(now + interval, silent_due) if silent_due > now else now + interval
        if now - self._heard_at >= INTERVALS_SILENT * interval:
            silent = (now - self._heard_at) // MILLISECOND
            return self.failed(self.attempt, f"the peer was not heard for {silent} ms", now)
        if self._probe:
            if now - self._probed_at < (INTERVALS_SILENT - 1) * interval:
                return []
            if self._confirmed_at > self._probed_at:  # the canary was lost, the peer is not
                self._send_canary(now)
                return []
            if self.under_way or not self.ready:
                self.stalled_since = self.stalled_since or self._probed_at
                return []
            return self.failed(
                self.attempt, f"no answer to the canary for {(now - self._probed_at) // MILLISECOND} ms", now
            )
        self._send_canary(now)
        return []

    def _send_canary(self, now: Instant) -> None:
        self._probe = self.port.probe()
        if self._probe:
            self.counts.probes += 1
            self._probed_at = now

    def check(self) -> None:
        """Assert the invariants at the head of this module."""
        assert not self.under_way or self.state in (State.OPEN, State.DRAINING), (
            f"{self.name}: on its way while {self.state}"
        )
        assert not self.feeds or self.state in (State.OPEN, State.DRAINING), f"{self.name}: feeds while {self.state}"
        seen: dict[tuple[int, int], None] = {}
        for consumer, number in self.under_way.values():
            assert consumer.feed in self.feeds, f"{self.name}: {number} is on its way for a feed that left"
            assert consumer.queue is None or number in consumer.in_flight, (
                f"{self.name}: {number} is on its way and not in flight"
            )
            key = (int(consumer.key), number)
            assert key not in seen, f"{self.name}: {number} is on its way twice"
            seen[key] = None

    def describe(self) -> dict[str, str]:
        """Return the state, for people."""
        return {
            "name": self.name,
            "state": self.state.value,
            "place": "" if self.place is None else self.place.masked(),
            "why": self.why,
            "under way": str(len(self.under_way)),
            "forwarded": str(self.counts.forwarded),
            "confirmed": str(self.counts.confirmed),
            "requeued": str(self.counts.requeued),
            "dead": str(self.counts.dead),
            "stalled": "yes" if self.stalled_since else "no",
        }

    def _become(self, signal: Signal, now: Instant) -> None:
        following = TRANSITIONS.get((self.state, signal))
        if following is None:
            raise Fault(f"link {self.name}: {signal.value!r} cannot happen while {self.state.value}")
        self.state = following
        self.since = now


class _Burying(Alarm):
    """Makes a message that cannot be written a dead letter, once its queue is done."""

    def __init__(self, due: int, consumer: LinkConsumer, number: int, why: str) -> None:
        super().__init__(due)
        self.consumer = consumer
        self.number = number
        self.why = why

    def ring(self, now: int) -> None:
        queue = self.consumer.queue
        if queue is not None:
            queue.reject(self.consumer, self.number, self.why)
