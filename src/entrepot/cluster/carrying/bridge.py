"""A core bridge: the messages of one queue cross to another broker over CORE (artemis.md 4.11). [C]

`CoreBridge` joins the parts: the link that decides (`LinkCore`), the feed that reads the queue, and the session that
carries (`Carrier`). A message is settled here when the other broker confirmed it, and not before. The feed stays
attached while there is no connection, so what a filter leaves is told apart from what waits for the other broker.

Decided on purpose, where Artemis does otherwise:
- a refusal of the other broker ends the connection, and the message is tried again after ``retry-interval``: Artemis
  keeps it in delivery until something else ends the connection;
- a queue that does not exist is waited for: Artemis leaves the bridge out for good;
- duplicate ids end with a mark of the queue: two queues that hold one message, each with a bridge to one address, send
  it twice, as two queues are meant to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.carrying.options import CoreBridgeEntry
from entrepot.cluster.carrying.parking import has_letters, park
from entrepot.cluster.dialled import Driven, Perform, Say, link_report
from entrepot.cluster.flow import NO_CREDIT, STREAMING, UNREAD
from entrepot.cluster.link import LinkCore, State
from entrepot.cluster.source import Feed, LinkConsumer
from entrepot.core.addressing.binding import ROUTE_TO
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.events.tracing import rename
from entrepot.core.queue.consumer import Measurement, Objection
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import Destination
from entrepot.model.message import LANGUAGE_CORE, Message
from entrepot.protocols.artemis.large import measure
from entrepot.protocols.artemis.linking.carrier import Carrier, CarrierPort, Terms
from entrepot.protocols.artemis.linking.crossing import ONWARD, Crossing
from entrepot.protocols.artemis.linking.places import beside
from entrepot.protocols.artemis.packets import ClusterTopology, Packet
from entrepot.protocols.session import Session, Shell

REFUSALS_MAX: Final = 3
FOR_GOOD: Final = (1, 100, 106, 110, 117, 215)
"""Codes of refusals that are about what a message is, or where it goes (artemis.md 5.2.9); full addresses, rights and
brokers that start are about something else."""
HALTED: Final = (
    (NO_CREDIT, "the address there has no room", "ask there: entrepot explain; its max-size-bytes, its disk"),
    (UNREAD, "the other broker does not read fast enough", "look at the other broker, and at the network between"),
    (STREAMING, "a large message is on its way, and nothing may come between", "wait, or look at the network between"),
)
"""Why an open link takes nothing, and what helps."""
PREFETCH: Final = 2_000  # messages on their way; far fewer than the duplicate ids that an address remembers


class QueueFeed(Feed):
    """What a core bridge reads."""

    def __init__(self, bridge: CoreBridge, queue: Queue, selector: str) -> None:
        where = Destination(queue.definition.address, queue.routing, False, queue.name)
        super().__init__(bridge.link, [where], PREFETCH)
        self.bridge = bridge
        self.speaks = LANGUAGE_CORE
        self.stays = True
        self.connection = bridge.link.name
        self.selector = selector_or_none(selector)

    def leads_to(self, node: str) -> None:
        """The other broker is known now: the trace says which it is."""
        far = f"{node}\t"
        if far != self.far:
            self.far = far
            for consumer in self.consumers:
                rename(self.bridge.link.broker.trace, consumer.key, self.connection, far, self.client_id)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large body before it crosses."""
        return measure(self.bridge.link.broker, message)

    def halted(self) -> Objection | None:
        """Return in words why nothing crosses."""
        return halted(self.bridge.link)

    def ended(self, why: str) -> None:
        """The queue was deleted."""
        super().ended(why)
        self.bridge.bereaved(why)


class _Look(Alarm):
    """Looks whether the queue is there."""

    def __init__(self, due: int, bridge: CoreBridge) -> None:
        super().__init__(due)
        self.bridge = bridge

    def ring(self, now: int) -> None:
        self.bridge.seek()


class _Ears(CarrierPort):
    """What the session says, told to the link."""

    def __init__(self, bridge: CoreBridge) -> None:
        self.bridge = bridge

    def greeted(self) -> None:
        """Sessions come next."""
        bridge = self.bridge
        bridge.perform(bridge.link.connected(bridge.attempt, bridge.now()))

    def opened(self) -> None:
        """Messages may flow."""
        self.bridge.opened()

    def resumed(self) -> None:
        """The session is there again."""
        self.bridge.resumed()

    def arrived(self, number: i64) -> None:
        """The other broker has it."""
        self.bridge.link.confirmed(int(number), self.bridge.now())

    def arrived_up_to(self, number: i64) -> None:
        """The other broker has all up to it."""
        self.bridge.link.confirmed_up_to(int(number), self.bridge.now())

    def refused(self, number: i64, code: i64, why: str) -> None:
        """The other broker does not take it."""
        self.bridge.refused(int(number), int(code), why)

    def waits(self, busy: bool) -> None:
        """No credit, or some again."""
        flow = self.bridge.link.flow
        if busy:
            flow.hold(NO_CREDIT)
        else:
            flow.release(NO_CREDIT)

    def streams(self, busy: bool) -> None:
        """A large body goes out."""
        self.bridge.link.flow.streaming(busy)

    def heard(self) -> None:
        """Something came."""
        self.bridge.link.supervision.heard(self.bridge.now())

    def told(self, packet: Packet) -> None:
        """The topology."""
        if isinstance(packet, ClusterTopology):
            self.bridge.located(packet)

    def writable(self, ready: bool) -> None:
        """Back-pressure."""
        self.bridge.link.flow.writable(ready)

    def lost(self, why: str) -> None:
        """The connection is gone."""
        bridge = self.bridge
        bridge.perform(bridge.link.failed(bridge.attempt, why, bridge.now()))


class CoreBridge(Driven):
    """One connection of one bridge. ``attempt``: the link's number of the connection that the carrier has."""

    def __init__(
        self,
        broker: BrokerCore,
        entry: CoreBridgeEntry,
        link: LinkCore,
        terms: Terms,
        driver: Perform,
        say: Say,
    ) -> None:
        """``driver`` performs what the link decides; ``say``: what an operator should know: who, and what."""
        super().__init__(broker, link, driver, say)
        options = entry.options
        self.options: Final = options
        self.selector: Final = entry.selector
        self.clustered: Final = entry.clustered
        self.attempt = 0
        self.feed: QueueFeed | None = None
        self.parted: Callable[[], object] = _nothing  # called when it has ended for good
        self.crossing: Final = Crossing(
            broker,
            options.forwards,
            options.routing.value,
            deduplicates=options.deduplicates,
            mark=b"" if entry.clustered and not entry.route else options.queue.encode(),
            route_key=ROUTE_TO + options.queue if entry.clustered and entry.route in (b"", ONWARD) else "",
            route=entry.route,
            headers=entry.headers,
        )
        self.carrier: Final = Carrier(broker, _Ears(self), terms, broker.entropy)
        self._look: _Look | None = None
        self._open = False  # it was said that it is
        self._refused = 0  # the message that was refused last
        self._refusals = 0  # one after the other
        link.port = self

    # -- its life ------------------------------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        """Read the queue, and dial."""
        effects = self.link.start(now)
        self.seek()
        self.perform(effects)

    def seek(self) -> None:
        """Attach to the queue, or look again in a while: it may be made later."""
        self._look = None
        if self.link.state in (State.FAILED, State.CLOSED, State.DRAINING) or self.feed is not None:
            return
        queue = self.broker.table.queues.get(self.options.queue)
        why = f"there is no queue {self.options.queue!r} yet"
        if queue is not None:
            feed = QueueFeed(self, queue, self.selector)
            feed.far = f"{self.carrier.node}\t"
            try:
                self.link.add(feed)
                self.feed = feed
                return
            except EntrepotError as error:
                why = str(error)
        if not self.told or self.told[-1] != why:
            self.say(why)
        self._look = _Look(self.now() + self.options.retry_interval, self)
        self.broker.timetable.add(self._look)

    def bereaved(self, why: str) -> None:
        """The queue was deleted: what was on its way still arrives, or not; nobody here needs to know."""
        feed = self.feed
        self.feed = None
        if feed is None or self.link.state is State.CLOSED:
            return
        self.say(f"its queue {self.options.queue!r} is gone: {why}")
        self._look = _Look(self.now() + self.options.retry_interval, self)
        self.broker.timetable.add(self._look)

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``."""
        self.attempt = attempt
        return self.carrier.dial(shell, now)

    def opened(self) -> None:
        """A new session is open."""
        self.link.opened(self.now())
        self._told_open()

    def resumed(self) -> None:
        """The session goes on."""
        self.link.reattached(0, self.now())
        self._told_open()

    def let_go(self) -> None:
        """Somebody else takes what waits here: nothing is kept for the session that was lost."""
        feed = self.feed
        if feed is not None and self.link.state is not State.OPEN:
            self.carrier.forget()
            self.feed = None
            self.link.remove(feed)
            self.seek()

    def _told_open(self) -> None:
        place = self.link.place
        self._open = True
        if self.feed is not None:
            self.feed.leads_to(self.carrier.node)
        self.say(f"the bridge to {'' if place is None else place.masked()} is open")
        self.watch()

    def located(self, packet: ClusterTopology) -> None:
        """A member of the cluster beyond: with ``ha`` the backup of the other broker is dialled, too."""
        here = self.link.place
        if self.options.ha and here is not None:
            fresh = beside(packet, here, self.link.places)
            if fresh:
                self.perform(self.link.moved([*self.link.places, *fresh], self.now()))

    def refused(self, number: int, code: int, why: str) -> None:
        """The other broker does not take a message: it goes back, and all behind it, and is tried again later.

        One that is refused again and again for what it is itself becomes a dead letter: others wait behind it.
        """
        found = self.link.under_way.get(number)
        if found is not None and self._is_poison(found[0], found[1], code):
            journal = self.broker.journal
            journal.begin()
            try:
                effects = self.link.rejected(number, why, for_good=True, now=self.now())
            finally:
                journal.end()
            self.perform(effects)
            return
        self.say(f"the other broker refused a message: {why}")
        self.carrier.forget()
        self.perform(self.link.failed(self.attempt, f"the other broker refused a message: {why}", self.now()))

    def _is_poison(self, consumer: LinkConsumer, number: int, code: int) -> bool:
        """Return whether message ``number`` was refused too often; where nothing keeps dead letters, none is one.

        Where all messages go to one address, that is what is wrong, and no message.
        """
        queue = consumer.queue
        if code not in FOR_GOOD or self.options.forwards or queue is None:
            return False
        if self._refused != number:
            self._refused = number
            self._refusals = 0
        self._refusals += 1
        return (self.clustered or has_letters(queue)) and self._refusals >= REFUSALS_MAX

    # -- what the link asks of its dialect -----------------------------------------------------------------------------

    def forward(self, feed: Feed, message: Message, deliveries: int, doubtful: bool) -> int:
        """Write ``message``."""
        queue = feed.source
        assert queue is not None
        return int(self.carrier.carry(self.crossing, message, queue))

    def probe(self) -> int:
        """Ask what the other broker itself answers."""
        return int(self.carrier.query())

    def lost(self, why: str) -> None:
        """The link gave the connection up."""
        self.carrier.close(why)
        state = self.link.state
        was_open, self._open = self._open, False
        if was_open:
            self.say(f"the bridge ended: {why}")
        feed = self.feed
        if state is State.FAILED and feed is not None:
            self.feed = None
            self.link.remove(feed)
        if state is State.CLOSED:
            self.feed = None
            self._unwatch()
            self.parted()

    def _unwatch(self) -> None:
        look, self._look = self._look, None
        if look is not None:
            look.cancelled = True

    def settled(self) -> None:
        """All arrived: the link closes at once."""
        self.watch()

    def peer(self) -> str:
        """Return who the other broker is, as far as it says."""
        place = self.link.place
        return self.carrier.node if place is None else authority(place)

    def failed_forward(self, feed: Feed, message: Message, why: str) -> None:
        """A message is a dead letter now; where nothing keeps these, one of a cluster is parked."""
        self.say(f"a message of {message.address} cannot be forwarded: {why}")
        queue = feed.source
        if self.clustered and queue is not None and not has_letters(queue):
            self.say(park(self.broker, message, why))

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        feed = self.feed
        queue = self.broker.table.queues.get(self.options.queue)
        return {
            "connector": self.options.name,
            "kind": "core",
            "peer": self.peer(),
            "peer_id": self.carrier.node,
            "peer_url": "",
            **link_report(self.link, now),
            "initiator": True,
            "duplex": False,
            "queue": self.options.queue,
            "depth": 0 if queue is None else int(queue.count),
            "forwards": self.options.forwards,
            "demand": [] if feed is None else [self.options.queue],
            "demands": 0 if feed is None else 1,
            "received": 0,
            "duplicates": 0,
            "canary": "query",
        }


def halted(link: LinkCore) -> Objection | None:
    """Return in words why ``link`` takes nothing; None while it takes messages."""
    where = "" if link.place is None else f" to {authority(link.place)}"
    who = f"the bridge {link.name}{where}"
    if link.state is not State.OPEN:
        why = f": {link.why}" if link.why else ""
        remedy = "start that broker, or see entrepot bridge list"
        return Objection("bridge-down", f"{who} is not open, it is {link.state.value}{why}", remedy)
    for reason, text, remedy in HALTED:
        if link.flow.reasons & reason:
            return Objection("bridge-busy", f"{who}: {text}", remedy)
    return None


def _nothing() -> None:
    """Nobody waits for the end of a bridge."""
