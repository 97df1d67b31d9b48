"""LinkCore: messages of local queues cross to a peer and are settled here only when the peer has them.

One link serves one direction of one connection. It owns the state of that connection, the feeds (local subscriptions)
and what is on its way; it never opens a socket, encodes a message or chooses what may cross. It knows no protocol: a
dialect is its port (`source.LinkPort`). Whoever performs the effects reports back with `connected`, `failed`, `lost`.

A peer confirms messages one by one (`confirmed`) or all up to one (`confirmed_up_to`). When the connection is lost,
what is unconfirmed goes back to its queues; with `LinkOptions.reattach` it is kept on the link for that time instead,
and a dialect whose peer resumes the session says how far that came (`reattached`): the rest is written again.

Invariants (`check`): what is on its way is in flight at exactly one consumer of one feed, unless its queue was deleted
meanwhile (a temporary one, whose reader left): then only the answer is still to come; nothing is on its way unless
the link is open, or keeps it to reattach; a message is settled here after the peer confirmed it, or after it was sent
where no confirmation was asked for; when a connection dies that is not reattached, everything unconfirmed is back in
its queue, in order. [C]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from entrepot.base.environment import MIB, SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError, Fault
from entrepot.base.reasons import PEER_REFUSED, Reason
from entrepot.base.uri import Endpoint
from entrepot.cluster.backoff import Backoff, Reconnection
from entrepot.cluster.flow import CLOSED, FlowControl, octets_of
from entrepot.cluster.source import Feed, Forwarder, LinkConsumer, forget_oldest, settle
from entrepot.cluster.supervision import INTERVALS_SILENT, Supervision
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.queue import NONE_DELIVERED
from entrepot.model.message import Message
from entrepot.protocols.failover import Dial, Drop, GiveUp, Warn
from entrepot.protocols.session import NEVER

WINDOW_OCTETS: Final = 32 * MIB  # on their way a feed; 1000 messages of a usual size are far below
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
        reconnect: Reconnection | None = None,
        interval: Duration = 10 * SECOND,
        window_octets: int = WINDOW_OCTETS,
        drain_patience: Duration = 30 * SECOND,
        patience: Duration = 0,
        reattach: Duration = 0,
        language: str = "the language of this link",
    ) -> None:
        """``interval``: between two canaries, a third of Java's 30 s; ``drain_patience``: classic.md 1.3.

        ``patience``: with a peer that does not answer, or does not introduce itself; 0: as long as it may be silent.

        ``reattach``: how long what is unconfirmed waits on the link for a connection that resumes; 0: not at all.
        ``language``: what the peer has to speak, for people.
        """
        self.reconnect = Reconnection() if reconnect is None else reconnect
        self.interval = interval
        self.window_octets = window_octets
        self.drain_patience = drain_patience
        self.patience = patience or INTERVALS_SILENT * interval
        self.reattach = reattach
        self.language = language


class LinkCounts:
    """What a link did since it was made."""

    def __init__(self) -> None:
        self.forwarded = 0
        self.confirmed = 0
        self.requeued = 0
        self.dead = 0
        self.connections = 0
        self.failures = 0


class LinkCore(Forwarder):
    """One direction of one connection to one peer. ``attempt`` numbers what was dialled; 0 for a passive link."""

    def __init__(
        self,
        name: str,
        broker: BrokerCore,
        options: LinkOptions,
        places: Sequence[Endpoint] = (),
        doubts: dict[int, None] | None = None,
        *,
        sought: bool = False,
    ) -> None:
        """``places``: dialled one after the other in each round; none for a link that its peer opens, or whose peer is
        ``sought`` and not found yet (`moved`).

        ``doubts``: messages that some peer may have; shared by all links of a broker, because any may send them next.
        """
        super().__init__(name, broker, options.window_octets)
        self.options: Final = options
        self.places: list[Endpoint] = list(places)
        self.passive: Final = not places and not sought
        self.state = State.IDLE
        self.why = ""  # of the last failure, or of the end
        self.since: Instant = 0  # the state is what it is
        self.attempt = 0
        self.place: Endpoint | None = None
        self.counts: Final = LinkCounts()
        self.feeds: dict[Feed, None] = {}
        self.flow: Final = FlowControl(self.feeds)
        self.under_way: dict[int, tuple[LinkConsumer, int]] = {}  # confirmation -> whose, message number
        self.doubts: dict[int, None] = {} if doubts is None else doubts
        self.backoff: Final = Backoff(options.reconnect)
        self.supervision: Final = Supervision(options.interval)
        self.failed_at: Instant = 0
        self.down_since: Instant = 0  # when it was open last; 0: it is, or never was
        self._round: list[Endpoint] = []
        self._due: Instant = NEVER  # of the state: dial again, opening takes too long, draining does
        self._kept_until: Instant = NEVER  # what is unconfirmed waits on the link to be reattached; NEVER: it does not

    # -- the connection ------------------------------------------------------------------------------------------------

    def start(self, now: Instant) -> list[Effect]:
        """Dial; an operator may do so again after FAILED."""
        self.backoff.succeeded()
        return self._dial_round(now)

    def moved(self, places: Sequence[Endpoint], now: Instant) -> list[Effect]:
        """The peer is reached at ``places`` from now on: a topology, a backup or discovery says so.

        A connection that is there stays. A link that waits dials at once when there is a place that it did not know.
        """
        fresh = [place for place in places if place not in self.places]
        self.places = list(places)
        self._round = [place for place in self._round if place in places]
        if self.state is State.DIALLING:
            self._round += fresh
        elif (self.state is State.WAITING and (fresh or (places and self._due == NEVER))) or (
            self.state is State.IDLE and fresh and not self.passive
        ):
            return self._dial_round(now)
        return []

    def connected(self, attempt: int, now: Instant) -> list[Effect]:
        """The transport ``attempt`` speaks our language; the brokers introduce themselves next."""
        if attempt != self.attempt or self.state not in (State.DIALLING, State.IDLE):
            return [Drop(attempt)]
        self._become(Signal.CONNECTED, now)
        self._due = now + self.options.patience
        return []

    def opened(self, now: Instant) -> None:
        """Both brokers know each other, in a new session: feeds may be attached."""
        if self._kept_until != NEVER:
            self._clear()
        self._enter(now)
        self.flow.release(CLOSED)

    def reattached(self, confirmation: int, now: Instant) -> None:
        """The peer resumes the session, and has all up to ``confirmation``: settle that, and write the rest again."""
        self._kept_until = NEVER
        self._enter(now)
        self.confirmed_up_to(confirmation, now)
        left = list(self.under_way.values())
        self.under_way.clear()
        for consumer, _ in left:
            consumer.feed.under_way -= 1
        for consumer, number in left:
            reference = consumer.in_flight.get(number)
            if reference is not None:  # else its queue was deleted
                self.deliver(consumer, reference.message, int(reference.deliveries))
        for consumer, _ in left:
            self.arrived(consumer.feed, now)
        self.flow.release(CLOSED)

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
        self.flow.hold(CLOSED)

    def close(self, why: str, now: Instant) -> list[Effect]:
        """End it. What is on its way goes back to its queues."""
        if self.state is State.CLOSED:
            return []
        attempt = self.attempt
        alive = self.state in (State.OPENING, State.OPEN, State.DRAINING)
        self.why = why
        self._clear()
        for feed in list(self.feeds):  # those that stay when a connection is lost
            self.remove(feed)
        self._become(Signal.CLOSE, now)
        self._due = NEVER
        if alive:
            self.port.lost(why)
        return [Drop(attempt)] if attempt else []

    def deadline(self) -> Instant:
        """Return when `advance` must be called."""
        return min(self._due, self.supervision.due, self._kept_until)

    def advance(self, now: Instant) -> list[Effect]:
        """Do what is due: dial, give up on a silent peer, send the canary."""
        if self._kept_until <= now:
            self._clear()
        if self.state is State.WAITING and self._due <= now:
            return self._dial_round(now)
        if self.state is State.DIALLING and self._due <= now:
            attempt = self.attempt
            return [Drop(attempt), *self.failed(attempt, f"the peer did not answer in {self.options.language}", now)]
        if self.state is State.OPENING and self._due <= now:
            return self.failed(self.attempt, "the peer did not introduce itself", now)
        if self.state is State.DRAINING and self._due <= now:
            return self.close("it was drained", now)
        if self.supervision.due <= now:
            occupied = bool(self.under_way) or bool(self.flow.reasons & ~CLOSED)
            why = self.supervision.look(self.port, now, occupied=occupied)
            return self.failed(self.attempt, why, now) if why else []
        return []

    def _dial_round(self, now: Instant) -> list[Effect]:
        self._round = list(self.places)
        if not self._round:  # nobody says where the peer is: wait for `moved`
            self._due = NEVER
            return []
        return self._dial_next(now)

    def _dial_next(self, now: Instant) -> list[Effect]:
        self.place = self._round.pop(0)
        self.attempt += 1
        self._become(Signal.DIAL, now)
        self._due = now + self.options.patience
        return [Dial(self.attempt, self.place)]

    def _enter(self, now: Instant) -> None:
        self._become(Signal.OPENED, now)
        self.counts.connections += 1
        self.backoff.met = True
        self.down_since = 0
        self._due = NEVER
        self.supervision.begin(now)

    def _lost(self, now: Instant) -> list[Effect]:
        lived = now - self.since
        if self.state is State.OPEN:
            self.down_since = now
        draining = self.state is State.DRAINING
        if self.state is State.OPEN and lived >= self.options.reconnect.min_connect_time:
            self.backoff.succeeded()
        self.counts.failures += 1
        self.failed_at = now
        attempt = self.attempt
        delay = None if draining or self.passive else self.backoff.failed()
        if self.state is State.OPEN and self.options.reattach > 0:
            self._kept_until = now + self.options.reattach
        if delay is None or self._kept_until == NEVER:
            self._clear()
        else:
            self._halt()
        self._due = NEVER
        ended: list[Effect] = [Drop(attempt)]
        if draining or self.passive:
            for feed in list(self.feeds):
                self.remove(feed)
            self._become(Signal.LOST if draining else Signal.CLOSE, now)
        elif delay is None:
            self._become(Signal.FAIL, now)
            ended.append(GiveUp(self.why))
        else:
            self._become(Signal.LOST, now)
            self._due = now + delay
            ended.append(Warn(self.backoff.failures, self.why))
        self.port.lost(self.why)  # last: closing the connection may come back here
        return ended

    def _halt(self) -> None:
        """Nothing more is written, and nothing that the connection knew of the peer holds any longer."""
        self.flow.end()
        self.supervision.end()
        self.settling.now()

    def _clear(self) -> None:
        """Detach the feeds: what is on its way goes back, in order, and will be marked when it goes again."""
        self.flow.end()  # what goes back, or is settled, must not bring more on its way here
        self._kept_until = NEVER
        back = list(self.under_way.values())
        self.under_way.clear()
        for consumer, number in back:
            self.doubts[number] = None
            self.counts.requeued += 1
            consumer.feed.under_way = 0
        forget_oldest(self.doubts, DOUBTS_KEPT)
        self._halt()
        for consumer, number in reversed(back):
            if consumer.feed.stays and consumer.queue is not None:
                consumer.queue.give_back(consumer, number, False)
        for feed in list(self.feeds):
            if not feed.stays or feed.retiring:
                self.remove(feed)

    # -- feeds ---------------------------------------------------------------------------------------------------------

    def add(self, feed: Feed) -> None:
        """Attach ``feed``; what waits crosses at once. One that stays may come before a connection. Raises Refused."""
        if self.state is not State.OPEN and not (feed.stays and self.state not in (State.DRAINING, State.CLOSED)):
            raise Fault(f"link {self.name}: a feed needs an open link, it is {self.state.value}")
        self.feeds[feed] = None
        feed.window.pauses = feed.holds | (Pause.LINK if self.flow.reasons else 0)  # it may have been here before
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
        feed.window.pause(Pause.RETIRING)
        if feed.under_way > 0:
            for key in [key for key, (consumer, _) in self.under_way.items() if consumer.feed is feed]:
                self.doubts[self.under_way.pop(key)[1]] = None
                self.counts.requeued += 1
            feed.under_way = 0
            forget_oldest(self.doubts, DOUBTS_KEPT)
        self.settling.of(feed)
        # A cut link is no failed attempt of a consumer: it must not bring a message nearer to the dead letters.
        self.broker.unsubscribe(feed, NONE_DELIVERED)

    def retire(self, feed: Feed) -> bool:
        """Take no more from ``feed``, and remove it when what is on its way arrived; return whether that was at once.

        Removing it earlier would send again what the peer has already.
        """
        if feed not in self.feeds:
            return True
        feed.window.pause(Pause.RETIRING)
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
        feed.window.lift(Pause.RETIRING)
        self.flow.apply(feed)
        return True

    # -- messages ------------------------------------------------------------------------------------------------------

    def deliver(self, consumer: LinkConsumer, message: Message, deliveries: int) -> None:
        """Send ``message``, which is in flight at ``consumer``."""
        number = int(message.number)
        doubtful = bool(self.doubts) and number in self.doubts
        feed = consumer.feed
        feed.source = consumer.source
        try:
            confirmation = self.port.forward(feed, message, deliveries, doubtful)
        except EntrepotError as error:
            self.counts.dead += 1
            self.port.failed_forward(feed, message, str(error))
            self.settling.bury(consumer, number, str(error))
            return
        feed.forwarded += 1
        if feed.counted:
            self.counts.forwarded += 1
        if confirmation:
            self.under_way[confirmation] = (consumer, number)
            feed.under_way += 1
        else:
            self.settling.later(consumer, number)
        if self.flow.bounded:
            self.flow.spend(octets_of(message))

    def confirmed(self, confirmation: int, now: Instant) -> bool:
        """The peer has what ``confirmation`` stands for: settle it. False when it stands for nothing of ours."""
        supervision = self.supervision
        supervision.confirmed_at = now
        supervision.stalled_since = 0
        if confirmation == supervision.probe and confirmation:
            supervision.came_back(now)
            return True
        found = self.under_way.pop(confirmation, None)
        if found is None:
            return False
        self.counts.confirmed += 1
        feed = found[0].feed
        feed.under_way -= 1
        settle(found[0], found[1])
        self.arrived(feed, now)
        return True

    def confirmed_up_to(self, confirmation: int, now: Instant) -> int:
        """The peer has all up to ``confirmation``, in order: settle that; return how many messages that were."""
        probe = self.supervision.probe
        if 0 < probe <= confirmation:
            self.confirmed(probe, now)
        found: list[int] = []
        for one in self.under_way:  # in the order in which they went
            if one > confirmation:
                break
            found.append(one)
        settled = 0
        for one in found:
            if self.confirmed(one, now):
                settled += 1
        return settled

    def rejected(self, confirmation: int, why: str, *, for_good: bool, now: Instant) -> list[Effect]:
        """The peer refuses. ``for_good``: this message alone, always; else the link is rebuilt (classic.md 1.11)."""
        if confirmation == self.supervision.probe and confirmation:
            self.confirmed(confirmation, now)  # it answered, whatever it said
            return []
        found = self.under_way.get(confirmation)
        if found is None:
            return []
        if not for_good:
            return self.failed(self.attempt, f"the peer refused a message: {why}", now)
        consumer, number = self.under_way.pop(confirmation)
        consumer.feed.under_way -= 1
        reference = consumer.in_flight.get(number)
        queue = consumer.queue
        if queue is not None and reference is not None:
            self.counts.dead += 1
            self.port.failed_forward(consumer.feed, reference.message, why)
            queue.reject(consumer, number, Reason(PEER_REFUSED, why))
        self.arrived(consumer.feed, now)
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
        feed.window.pause(Pause.RETIRING)
        feed.retiring = True
        feed.under_way -= 1
        queue = consumer.queue
        if queue is not None:
            queue.give_back(consumer, number, False)
        self.arrived(feed, now)
        return feed

    def arrived(self, feed: Feed, now: Instant) -> None:
        """One message of ``feed`` was answered for, however: what waits for the last of them waits no longer."""
        if feed.retiring and feed.under_way == 0:
            self.remove(feed)
            self.port.retired(feed)
        if self.state is State.DRAINING and not self.under_way:
            self._due = now
            self.port.settled()

    # -- for people ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariants at the head of this module."""
        joined = self.state in (State.OPEN, State.DRAINING) or self._kept_until != NEVER
        assert not self.under_way or joined, f"{self.name}: on its way while {self.state}"
        assert joined or all(feed.stays for feed in self.feeds), f"{self.name}: feeds while {self.state}"
        seen: dict[tuple[int, int], None] = {}
        for consumer, number in self.under_way.values():
            assert consumer.feed in self.feeds, f"{self.name}: {number} is on its way for a feed that left"
            assert consumer.queue is None or number in consumer.in_flight, (
                f"{self.name}: {number} is on its way and not in flight"
            )
            key = (int(consumer.key), number)
            assert key not in seen, f"{self.name}: {number} is on its way twice"
            seen[key] = None

    def _become(self, signal: Signal, now: Instant) -> None:
        following = TRANSITIONS.get((self.state, signal))
        if following is None:
            raise Fault(f"link {self.name}: {signal.value!r} cannot happen while {self.state.value}")
        self.state = following
        self.since = now


def returned(link: LinkCore, confirmation: int, now: Instant, *, failed: bool) -> None:
    """The peer gives a message back: it is in its queue again. ``failed``: that counts as an attempt.

    Pause the feed that brought it before: else it brings the message again at once.
    """
    found = link.under_way.pop(confirmation, None)
    if found is None:
        return
    consumer, number = found
    consumer.feed.under_way -= 1
    link.counts.requeued += 1
    queue = consumer.queue
    if queue is not None:
        queue.give_back(consumer, number, failed)
    link.arrived(consumer.feed, now)


def described(link: LinkCore) -> dict[str, str]:
    """Return the state, for people."""
    return {
        "name": link.name,
        "state": link.state.value,
        "place": "" if link.place is None else link.place.masked(),
        "why": link.why,
        "under way": str(len(link.under_way)),
        "forwarded": str(link.counts.forwarded),
        "confirmed": str(link.counts.confirmed),
        "requeued": str(link.counts.requeued),
        "dead": str(link.counts.dead),
        "stalled": "yes" if link.supervision.stalled_since else "no",
    }
