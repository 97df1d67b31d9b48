"""A connection that this broker opens to another one, or to a router, over AMQP (artemis.md 2.8). [C]

The link (`LinkCore`) dials, waits, and knows what is on its way; the session (`AmqpCaller`) carries. A *sender* reads a
queue here and is settled when the peer accepted; a *receiver* fills an address here, and accepts when the disk has it.
The feeds of senders stay attached while there is no connection, so that an operator sees what waits for it.

Decided on purpose, where Artemis does otherwise:
- a link that the peer refuses, or closes, is asked for again after ``retry-interval``, and the others go on: Artemis
  ends the connection, and with it what all of them have on its way;
- queues of anycast say so to the peer, by the capability ``queue``: where it makes the address, it makes a queue. An
  Artemis that is not told makes an address of multicast, and drops what comes before somebody subscribes there;
- one link fills one address, however many queues of it the receiver means: Artemis opens one for each, and each queue
  then gets each message so many times;
- a message that comes and cannot be taken now goes back where it was: Artemis rejects it, and the peer may drop it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError, Fault
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.broker_connections.answers import Parked, Refusals, Unanswered
from entrepot.cluster.broker_connections.feed import QueueFeed, kind_of
from entrepot.cluster.broker_connections.options import AmqpConnectionEntry
from entrepot.cluster.broker_connections.wanted import ControlWish, FetchWish, Wanted, Wish
from entrepot.cluster.carrying.parking import has_letters, park
from entrepot.cluster.dialled import Driven, Looking, Perform, Say, link_report
from entrepot.cluster.flow import NO_CREDIT, STREAMING, UNREAD, octets_of
from entrepot.cluster.link import LinkCore, State, returned
from entrepot.cluster.source import Feed
from entrepot.core.broker import BrokerCore
from entrepot.core.mirrors.identity import MIRROR
from entrepot.core.queue.consumer import Objection, Pause
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.amqp.calling.port import CallerPort, LinkOwner
from entrepot.protocols.amqp.calling.session import AmqpCaller, Login
from entrepot.protocols.amqp.calling.taking import Taking
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.refusals import SIZE_EXCEEDED
from entrepot.protocols.amqp.uri import read_option
from entrepot.protocols.session import NEVER, Session, Shell

if TYPE_CHECKING:
    from entrepot.cluster.broker_connections.federation import Federation

WAYPOINT: Final = "qpid.waypoint"  # a router takes it for the store of an address
QUEUE: Final = "queue"
IDLE_MS: Final = 30_000  # of silence, after which the peer is given up, where the URI does not say (amqpIdleTimeout)
PULLED: Final = ("amqpCredits", "0")
UUID_OCTETS: Final = 16
LOOP: Final = "this connection leads to this broker itself"
UNWANTED: Final = "its queue is gone here"
IN_STEP: Final = "; answers about what is mirrored wait until it is there again (sync)"
HALTED: Final = (
    (NO_CREDIT, "the other side takes no more frames", "look at the other broker"),
    (UNREAD, "the other side does not read fast enough", "look at the other broker, and at the network between"),
    (STREAMING, "a large message is on its way, and nothing may come between", "wait, or look at the network between"),
)
"""Why an open connection takes nothing, and what helps."""


class _Owner(LinkOwner):
    """Hears of one link."""

    def __init__(self, connection: BrokerConnection, wish: Wish) -> None:
        self.connection: Final = connection
        self.wish: Final = wish
        self.feed: QueueFeed | None = None

    def attached(self) -> None:
        """It is there."""
        self.connection.attached(self.wish.key)

    def granted(self, credit: i64) -> None:
        """The peer takes messages."""
        feed = self.feed
        if feed is not None:
            feed.granted(credit)

    def ended(self, why: str) -> None:
        """It is gone."""
        feed, self.feed = self.feed, None
        if feed is not None:
            sending = feed.sending
            feed.unlinked()
            self.connection.unsent(self.wish.key, feed, "" if sending is None else sending.condition, why)
        self.connection.unlinked(self.wish.key, why)


class _Ears(CallerPort):
    """What one session says, told to the link."""

    def __init__(self, connection: BrokerConnection, attempt: int) -> None:
        self.connection: Final = connection
        self.attempt: Final = attempt
        self.caller: AmqpCaller | None = None

    def opened(self) -> None:
        """Links come next."""
        caller = self.caller
        if caller is not None:
            self.connection.opened(self.attempt, caller)

    def heard(self) -> None:
        """Something came."""
        self.connection.link.supervision.heard(self.connection.now())

    def waits(self, busy: bool) -> None:
        """The session's window."""
        self._hold(NO_CREDIT, busy)

    def streams(self, busy: bool) -> None:
        """A large body goes out."""
        self._hold(STREAMING, busy)

    def writable(self, ready: bool) -> None:
        """Back-pressure."""
        self._hold(UNREAD, not ready)

    def _hold(self, reason: int, busy: bool) -> None:
        """Let nothing go for ``reason``, or let it go again: of a session that the link has not given up."""
        if self.connection.caller is not self.caller:
            return
        flow = self.connection.link.flow
        if busy:
            flow.hold(reason)
        else:
            flow.release(reason)

    def accepted(self, number: i64) -> None:
        """The peer has it."""
        self.connection.link.confirmed(int(number), self.connection.now())

    def rejected(self, number: i64, condition: str, why: str) -> None:
        """The peer does not take it."""
        self.connection.refused(int(number), condition, why)

    def returned(self, number: i64, failed: bool) -> None:
        """The peer gives it back."""
        self.connection.returned(int(number), failed=failed)

    def lost(self, why: str) -> None:
        """The connection is gone."""
        connection = self.connection
        connection.perform(connection.link.failed(self.attempt, why, connection.now()))


class BrokerConnection(Driven):
    """One of them, while it is started. ``feeds``, ``takings``: by the keys of what is wanted.

    ``parked``: by address, what the peer does not take and nothing else keeps.
    """

    def __init__(
        self, broker: BrokerCore, entry: AmqpConnectionEntry, link: LinkCore, driver: Perform, say: Say
    ) -> None:
        """``driver`` performs what the link decides; ``say``: what an operator should know: who, and what."""
        super().__init__(broker, link, driver, say)
        self.entry: Final = entry
        self.caller: AmqpCaller | None = None
        self.feeds: dict[str, QueueFeed] = {}
        self.takings: dict[str, Taking] = {}
        self.received = 0  # over links that have ended
        self.parted: Callable[[], object] = _nothing  # called when it has ended for good
        self.refusals: Final = Refusals()
        self.unanswered: Final = Unanswered(link.options.patience)
        self.parked: dict[str, Parked] = {}
        self._looking: Final = Looking(broker, self.look)
        mirror = "" if entry.mirror is None else MIRROR + entry.name
        self.wanted: Final = Wanted(list(entry.elements), self.soon, mirror)
        self.federation: Final = _federation(self)
        self._leaving = False
        self.returns = True  # when it ends, it may be started again: what the other side keeps for it stays there
        link.port = self

    # -- its life ------------------------------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        """Read the queues, and dial."""
        effects = self.link.start(now)
        self.wanted.begin(self.broker)
        if self.federation is not None:
            self.federation.begin()
        self.look()
        self.perform(effects)

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``."""
        options = options_for(self.entry)
        own = self.entry.options
        login = Login(own.user, own.password, bool(place.options.get("keyStorePath")), _mechanisms(self.entry, options))
        ears = _Ears(self, attempt)
        ears.caller = AmqpCaller(shell, self.broker, options, ears, login, place.host)
        return ears.caller

    def opened(self, attempt: int, caller: AmqpCaller) -> None:
        """The session of ``attempt`` is open."""
        if caller.node == self.broker.ids.node.uuid_text:
            self.say(LOOP)
            self.perform(self.link.give_up(LOOP, self.now()))
            return
        now = self.now()
        effects = self.link.connected(attempt, now)
        if effects:  # it is another attempt that counts
            self.perform(effects)
            return
        self.caller = caller
        place = self.link.place
        self.say(f"the connection to {'' if place is None else place.masked()} is open")
        self.refusals.due.clear()
        self.link.opened(now)
        self.watch()
        self.look()

    def lost(self, why: str) -> None:
        """The link gave the connection up: what is on its way is in its queues again."""
        caller, self.caller = self.caller, None
        self.unanswered.forget()
        if self.federation is not None:
            self.federation.lost()
        for feed in self.feeds.values():
            feed.unlinked()
        for taking in self.takings.values():
            self.received += int(taking.received)
        self.takings.clear()
        if caller is not None:
            self.say(f"the connection ended: {why}{IN_STEP if _is_in_step(self) else ''}")
            caller.port = CallerPort()
            caller.shut(why, self.now())
            caller.note()
        if self.link.state is State.CLOSED:
            self._end()
        elif self.link.state is State.FAILED:
            self._forget_feeds()

    def leave(self, now: Instant) -> None:
        """Take no more; close when all that is on its way arrived, and all that came is answered."""
        self._leaving = True
        for taking in list(self.takings.values()):
            taking.stays = self.returns
            taking.close("it was stopped")
        if not self.takings:
            self._drained(now)

    def _drained(self, now: Instant) -> None:
        self.link.drain(now)
        if self.link.state is State.DRAINING and self.link.under_way:
            self.watch()
        else:
            self.close("it was stopped", now)

    def close(self, why: str, now: Instant) -> None:
        """End it now."""
        self.perform(self.link.close(why, now))

    def _end(self) -> None:
        if self.federation is not None:
            self.federation.end()
        self.wanted.end(self.broker)
        self._forget_feeds()
        self._looking.end()
        self.parted()

    def _forget_feeds(self) -> None:
        feeds = list(self.feeds.values())
        self.feeds.clear()
        for feed in feeds:
            feed.end_rest()
            self.link.remove(feed)

    def settled(self) -> None:
        """All arrived: the link closes at once."""
        self.watch()

    # -- links ---------------------------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Look what is wanted when the queues are done."""
        self._looking.at(self.now())

    def look(self) -> None:
        """Have the links that are wanted, and no others."""
        now = self.now()
        if self.unanswered.due <= now:
            self._give_up_silent(now)
        if self.link.state in (State.CLOSED, State.DRAINING, State.FAILED) or self._leaving:
            return
        wishes = self.wanted.wishes
        for key, feed in list(self.feeds.items()):
            if key not in wishes or feed.over:
                self._drop_feed(key, feed)
        for key, taking in list(self.takings.items()):
            if key not in wishes:
                taking.close(UNWANTED)
        for key in [key for key in self.refusals.due if key not in wishes]:
            self.refusals.forget(key)
        for key, wish in list(wishes.items()):
            if wish.sends and key not in self.feeds:
                self._feed(key, wish)
            if self.link.state is not State.OPEN or _is_linked(self, key) or not _may_be(self, wish):
                continue
            due = self.refusals.due.get(key, now)
            if due > now:
                self._looking.at(due)
            else:
                self._attach(key, wish)
        self._look_for_answers()

    def _look_for_answers(self) -> None:
        """Look when the peer is to have answered a link. It looks at one time only: each look asks for the next."""
        if self.unanswered.due < NEVER:
            self._looking.at(self.unanswered.due)

    def _give_up_silent(self, now: Instant) -> None:
        """The peer is there, and does not answer a link: a new connection may do."""
        why = f"the link {self.unanswered.first()} was not answered within {self.unanswered.patience // SECOND} s"
        self.unanswered.forget()
        if self.caller is not None:
            self.perform(self.link.failed(self.link.attempt, why, now))

    def _feed(self, key: str, wish: Wish) -> None:
        queue = self.broker.table.queues.get(wish.queue)
        if queue is None:
            return
        feed = QueueFeed(self.link, queue, wish, self.halted, self.soon)
        try:
            self.link.add(feed)
        except EntrepotError as error:
            self._put_off(key, str(error))
            return
        self.feeds[key] = feed

    def _drop_feed(self, key: str, feed: QueueFeed) -> None:
        """Its queue is gone: what is on its way still arrives, or not; nobody here needs to know."""
        del self.feeds[key]
        feed.end_rest()
        sending, feed.sending = feed.sending, None
        if sending is not None and self.caller is not None:
            sending.close()
        self.link.remove(feed)

    def _attach(self, key: str, wish: Wish) -> None:
        caller = self.caller
        if caller is None:
            raise Fault(f"{self.link.name}: it is open without a session")
        name = f"{wish.address}:{self.broker.entropy.token(UUID_OCTETS).hex()}"
        capabilities = [WAYPOINT] if wish.waypoint else [QUEUE] if wish.routing == ANYCAST else []
        now = self.now()
        if isinstance(wish, ControlWish) and self.federation is not None:
            self.federation.ask(caller, f"{key} {name}")
            self.unanswered.add(key, now)
            return
        owner = _Owner(self, wish)
        if wish.sends:
            feed = self.feeds.get(key)
            if feed is None:
                return
            owner.feed = feed
            sending = caller.send_to(name, wish.address, wish.routing, capabilities, wish.address, kind_of(wish))
            sending.owner = owner
            feed.sending = sending
            self.unanswered.add(key, now)
            return
        try:
            where = Destination(wish.address, wish.routing)
            fetch = wish.fetch if isinstance(wish, FetchWish) else None
            taking = caller.take_from(name, wish.address, capabilities, where, fetch)
        except EntrepotError as error:
            self._put_off(key, error.message)
            return
        taking.owner = owner
        self.takings[key] = taking
        self.unanswered.add(key, now)

    def _answered(self, key: str) -> None:
        self.unanswered.answered(key, self.now())
        self._look_for_answers()

    def attached(self, key: str) -> None:
        """The peer has the other end of a link."""
        self._answered(key)
        feed, mirrors = self.feeds.get(key), self.broker.mirrors
        if feed is not None and feed.wish.mirrors and feed.sending is not None and mirrors is not None:
            mirrors.met(feed.wish.queue, feed.sending.remote)
        self.refusals.forget(key)

    def unsent(self, key: str, feed: QueueFeed, condition: str, why: str) -> None:
        """The link of ``feed`` has ended: nothing more is heard of what it has on its way, which goes again.

        Where a message was too large, that is the largest of them.
        """
        if condition == SIZE_EXCEEDED:
            number = _largest(self.link, feed)
            if number:
                self.refused(number, condition, why)
        if feed.under_way > 0 and self.feeds.get(key) is feed:
            self._drop_feed(key, feed)
            self.soon()  # it is attached anew

    def unlinked(self, key: str, why: str) -> None:
        """A link has ended: it is asked for again, unless nobody wants it any more."""
        self._answered(key)
        taking = self.takings.pop(key, None)
        if taking is not None:
            self.received += int(taking.received)
        if self._leaving:
            if not self.takings and self.link.state is State.OPEN:
                self._drained(self.now())
            return
        if key in self.wanted.wishes:
            self._put_off(key, why)
        else:
            self.refusals.forget(key)

    def _put_off(self, key: str, why: str) -> None:
        pause: Duration = max(self.entry.options.retry_interval, SECOND)
        due = self.now() + pause
        if self.refusals.add(key, why, due):
            self.say(f"the link {key}: {why}")
        self._looking.at(due)

    # -- messages ------------------------------------------------------------------------------------------------------

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        """Write ``message``. One that the peer may have already is marked as a repetition."""
        assert isinstance(feed, QueueFeed)
        sending = feed.sending
        assert sending is not None, "a feed without a link got a message"
        if feed.wish.mirrors:  # who gets it knows by itself what came before
            deliveries, doubtful = 0, False
        confirmation = sending.write(message, max(deliveries, 1) if doubtful else deliveries)
        if sending.credit <= 0:
            feed.window.pause(Pause.PULL)
        return int(confirmation)

    def refused(self, number: int, condition: str, why: str) -> None:
        """The peer does not take a message: it is tried again later.

        One that is refused again and again for what it is itself becomes a dead letter, or is parked: others wait
        behind it.
        """
        found = self.link.under_way.get(number)
        if found is None:
            return
        feed = found[0].feed
        assert isinstance(feed, QueueFeed)
        if not feed.is_poison(found[1], condition):
            self.say(f"the other side refused a message of {feed.wish.queue}: {why}")
            self.returned(number, failed=False)
            return
        journal = self.broker.journal
        journal.begin()
        try:
            effects = self.link.rejected(number, why, for_good=True, now=self.now())
        finally:
            journal.end()
        self.perform(effects)

    def returned(self, number: int, *, failed: bool) -> None:
        """The peer gives a message back: it is in its queue, which rests for a while."""
        found = self.link.under_way.get(number)
        if found is None:
            return
        feed = found[0].feed
        feed.window.pause(Pause.ANSWER)
        returned(self.link, number, self.now(), failed=failed)
        if isinstance(feed, QueueFeed) and feed in self.link.feeds:
            feed.begin_rest(self.now())

    def failed_forward(self, feed: Feed, message: Message, why: str) -> None:
        """A message is a dead letter now; where nothing keeps these, it is parked."""
        self.say(f"a message of {message.address} cannot be forwarded: {why}")
        assert isinstance(feed, QueueFeed)
        queue = feed.consumed()
        if queue is not None and not has_letters(queue):
            self.say(park(self.broker, message, why))
            self.parked.setdefault(feed.wish.address, Parked()).add(why)

    # -- for people ----------------------------------------------------------------------------------------------------

    def peer(self) -> str:
        """Return where the other side is."""
        place = self.link.place
        return "" if place is None else authority(place)

    def halted(self, feed: QueueFeed) -> Objection | None:
        """Return in words why nothing crosses from the queue of ``feed``; None while messages do."""
        where = "" if self.link.place is None else f" to {self.peer()}"
        who = f"the AMQP connection {self.link.name}{where}"
        if self.link.state is not State.OPEN:
            why = f": {self.link.why}" if self.link.why else ""
            remedy = "start the other side, or see entrepot bridge list"
            return Objection("bridge-down", f"{who} is not open, it is {self.link.state.value}{why}", remedy)
        why = self.refusals.why(feed.wish.key)
        if why:
            return Objection("bridge-down", f"{who}: {why}", "look at the address there, and at the rights of the user")
        for reason, text, remedy in HALTED:
            if self.link.flow.reasons & reason:
                return Objection("bridge-busy", f"{who}: {text}", remedy)
        if feed.window.pauses & Pause.ANSWER:
            return Objection("bridge-busy", f"{who}: the other side gave a message back", "it is tried again soon")
        if feed.window.pauses & Pause.PULL:
            return Objection("bridge-busy", f"{who}: the other side grants no credit", "look at the address there")
        return None

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, -1 for what never was."""
        caller = self.caller
        received = self.received + sum(int(taking.received) for taking in self.takings.values())
        return {
            "connector": self.entry.name,
            "kind": "amqp",
            "peer": self.peer(),
            "peer_id": "" if caller is None else caller.node or caller.container_id,
            "peer_url": "",
            **link_report(self.link, now),
            "initiator": True,
            "duplex": any(wish.sends for wish in self.wanted.wishes.values()) and bool(self.takings),
            "demand": list(self.wanted.wishes),
            "demands": len(self.wanted.wishes),
            "waiting": dict(self.refusals.whys),
            "received": received,
            "parked": sum(one.count for one in self.parked.values()),
            "answers_waiting": _answers(self),
            "duplicates": 0,
            "canary": "",
        }


def options_for(entry: AmqpConnectionEntry) -> AmqpOptions:
    """Return what the URI of a connection says of AMQP. Raises InvalidOption."""
    options = AmqpOptions()
    options.idle_ms = IDLE_MS
    for name, text in sorted(entry.wire):  # of credits how many stands before how few
        if (name, text) != PULLED:  # of its federation
            read_option(options, name, text)
    return options


def _mechanisms(entry: AmqpConnectionEntry, options: AmqpOptions) -> list[str]:
    """Return the mechanisms of SASL that may be used; none where the URI does not say."""
    return options.mechanisms if any(name == "saslMechanisms" for name, _ in entry.wire) else []


def _is_linked(connection: BrokerConnection, key: str) -> bool:
    feed = connection.feeds.get(key)
    return key in connection.takings or (feed is not None and feed.sending is not None)


def _may_be(connection: BrokerConnection, wish: Wish) -> bool:
    """Return whether a link can be asked for now: those of a federation come behind the one that says it is one."""
    federation = connection.federation
    return federation is None or federation.may_be(wish)


def _largest(link: LinkCore, feed: QueueFeed) -> int:
    """Return the confirmation of the largest message of ``feed`` on its way; 0: there is none."""
    found, most = 0, -1
    for confirmation, (consumer, number) in link.under_way.items():
        reference = consumer.in_flight.get(number) if consumer.feed is feed else None
        if reference is not None and octets_of(reference.message) > most:
            found, most = confirmation, int(octets_of(reference.message))
    return found


def _federation(connection: BrokerConnection) -> Federation | None:
    """Return what keeps the federation of a connection; few have one."""
    entry = connection.entry.federation
    if entry is None:
        return None
    from entrepot.cluster.broker_connections.federation import Federation  # noqa: PLC0415 - see above

    return Federation(connection.broker, entry, connection.wanted.wishes, connection)


def _is_in_step(connection: BrokerConnection) -> bool:
    """Return whether answers wait for its mirror."""
    mirror = connection.entry.mirror
    return mirror is not None and mirror.sync


def _answers(connection: BrokerConnection) -> int:
    """Return how many answers wait for mirrors; they are counted of all such mirrors of this broker together."""
    mirrors = connection.broker.mirrors
    return int(mirrors.waiting()) if mirrors is not None and _is_in_step(connection) else 0


def _nothing() -> None:
    """Nobody waits for the end of a connection."""
