"""Messages of another broker are drawn to this one: from each queue there that somebody reads here.

`DrawnBridge` joins the parts: the link that dials and supervises (`LinkCore`, which has nothing on its way here), what
is wanted (`ReaderDemand`), and the session that draws (`Drawer`), in the language of the other broker. A queue that is
wanted and not there is asked for again after ``retryInterval``. One that is wanted no longer gets its acknowledgements
before its consumer is closed, so that the other broker gives nobody else what is here.

A topic is drawn through a queue of its own there, at an ActiveMQ a durable subscription, which this broker makes and
never deletes: it keeps what is sent while nobody reads here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.base.errors import Fault
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.carrying.demand import ReaderDemand, Wanted, key_for
from entrepot.cluster.carrying.draw_options import ActiveMQOptions, ArtemisOptions, DrawEntry
from entrepot.cluster.dialled import Driven, Looking, Perform, Say, link_report, report_at_rest
from entrepot.cluster.flow import NO_CREDIT
from entrepot.cluster.link import LinkCore, LinkOptions, State
from entrepot.cluster.supervision import INTERVALS_SILENT
from entrepot.core.broker import BrokerCore
from entrepot.protocols.artemis.linking.drawer import CoreDrawer
from entrepot.protocols.drawing import MISSING, OPEN, Draw, Drawer, DrawerPort
from entrepot.protocols.openwire.drawing import OpenWireDrawer
from entrepot.protocols.openwire.negotiation import WIRE_FORMAT
from entrepot.protocols.session import NEVER, Session, Shell

UNWANTED: Final = "nobody reads it here"
NOWHERE: Final = "what comes is kept nowhere else, and this broker has no disk: it is lost when this broker ends"
WHY_MAX: Final = 200  # characters of what another broker says
STOPS: Final = "the bridge was stopped"


class _Ears(DrawerPort):
    """What the session says, told to the link."""

    def __init__(self, bridge: DrawnBridge) -> None:
        self.bridge = bridge

    def greeted(self) -> None:
        """The session comes next."""
        bridge = self.bridge
        bridge.perform(bridge.link.connected(bridge.attempt, bridge.now()))

    def opened(self) -> None:
        """Queues may be drawn."""
        self.bridge.opened()

    def located(self, places: list[Endpoint]) -> None:
        """Where the other broker is."""
        self.bridge.located(places)

    def arrived(self, number: int) -> None:
        """The other broker answers."""
        self.bridge.link.confirmed(int(number), self.bridge.now())

    def ended(self, draw: Draw) -> None:
        """A queue is drawn no more."""
        self.bridge.ended(draw)

    def waits(self, busy: bool) -> None:
        """There is no room here, or some again."""
        flow = self.bridge.link.flow
        if busy:
            flow.hold(NO_CREDIT)
        else:
            flow.release(NO_CREDIT)

    def heard(self) -> None:
        """Something came."""
        self.bridge.link.supervision.heard(self.bridge.now())

    def writable(self, ready: bool) -> None:
        """Back-pressure."""
        self.bridge.link.flow.writable(ready)

    def lost(self, why: str) -> None:
        """The connection is gone."""
        bridge = self.bridge
        bridge.perform(bridge.link.failed(bridge.attempt, why, bridge.now()))


class DrawnBridge(Driven):
    """One connection to one other broker. ``attempt``: the link's number of the connection that the drawer has."""

    def __init__(
        self,
        broker: BrokerCore,
        entry: DrawEntry,
        link: LinkCore,
        driver: Perform,
        say: Say,
        parted: Callable[[], None],
    ) -> None:
        """``driver`` performs what the link decides; ``say``: takes who, and what an operator should know.

        ``parted`` is called when it has ended for good.
        """
        super().__init__(broker, link, driver, say)
        options = entry.options
        self.entry: Final = entry
        self.attempt = 0
        self.drawing: Final[dict[str, Draw]] = {}  # by what is wanted
        self._looking: Final = Looking(broker, self.look)
        self.demand: Final = ReaderDemand(options.only, options.back, self.soon)
        self.drawer: Final = drawer_of(entry, broker, _Ears(self))
        self._parted: Final = parted
        self._again: dict[str, Instant] = {}  # asked for again then: it was not there, or was refused
        self._said: dict[str, str] = {}
        self._open = False
        self._leaving = False
        self._ended = False
        link.port = self

    # -- its life ------------------------------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        """Hear what is wanted, and dial."""
        self.demand.begin(self.broker)
        self.perform(self.link.start(now))

    def speaks(self, option: str) -> bool:
        """Return whether an option of a place belongs to OpenWire."""
        return isinstance(self.entry.options, ActiveMQOptions) and option.startswith(WIRE_FORMAT)

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``."""
        self.attempt = attempt
        return self.drawer.dial(shell, place, now)

    def opened(self) -> None:
        """The session is open."""
        self.link.opened(self.now())
        self._open = True
        place = self.link.place
        self.say(f"messages come from {'' if place is None else place.masked()}")
        if not self.broker.journal.pages:
            self.say(NOWHERE)
        self._again.clear()
        self.watch()
        self.look()

    def located(self, places: list[Endpoint]) -> None:
        """The other broker says where it is reached, and its backup: with ``ha`` that is dialled, too."""
        known = [(place.host, place.port) for place in self.link.places]
        fresh = [place for place in places if (place.host, place.port) not in known]
        if fresh:
            self.perform(self.link.moved([*self.link.places, *fresh], self.now()))

    def lost(self, why: str) -> None:
        """The link gave the connection up: what was not acknowledged is in its queues again."""
        self.drawer.close(why)
        self.drawing.clear()
        if self._open:
            self._open = False
            self.say(f"the connection ended: {why}")
        if self._leaving or self.link.state is State.CLOSED:
            self._end()

    def leave(self, now: Instant) -> None:
        """Take no more; close when all that was taken is acknowledged there."""
        self._leaving = True
        for draw in list(self.drawing.values()):
            self.drawer.end(draw, STOPS)
        if not self.drawing:
            self.close(STOPS, now)

    def close(self, why: str, now: Instant) -> None:
        """End it."""
        self.perform(self.link.close(why, now))
        self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self.demand.end(self.broker)
        self._looking.end()
        if self.link.state is not State.CLOSED:
            self.perform(self.link.close(STOPS, self.now()))
        self._parted()

    # -- what is drawn -------------------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Look what is wanted when the queues are done."""
        self._looking.at(self.now())

    def look(self) -> None:
        """Draw what is wanted, and nothing else."""
        if not self._open or self._leaving:
            return
        now = self.now()
        wanted = self.demand.wanted
        for key, draw in list(self.drawing.items()):
            if key not in wanted:
                self.drawer.end(draw, UNWANTED)
        for key in [key for key in self._again if key not in wanted]:
            del self._again[key]
        for key, one in wanted.items():
            if key in self.drawing:
                continue
            due = self._again.get(key, now)
            if due > now:
                self._looking.at(due)
                continue
            draw = self._draw(one)
            self.drawing[key] = draw
            self.drawer.begin(draw)

    def _draw(self, wanted: Wanted) -> Draw:
        if wanted.is_topic:
            return self.drawer.draw(topic_queue(self.broker.options.name, wanted.name), wanted.name, wanted.place)
        return self.drawer.draw(wanted.name, "", wanted.place)

    def ended(self, draw: Draw) -> None:
        """The consumer of ``draw`` is closed."""
        for key, one in list(self.drawing.items()):
            if one is draw:
                del self.drawing[key]
                if draw.why in (UNWANTED, STOPS):
                    self.soon()  # somebody may want it again by now
                else:
                    self._again[key] = self.now() + self.entry.options.retry
                    self._looking.at(self._again[key])
                self._tell(key, draw)
        if self._leaving and not self.drawing:
            self._end()

    def _tell(self, key: str, draw: Draw) -> None:
        """Say why a queue is not drawn, once as long as that is so."""
        if draw.why in (UNWANTED, STOPS):
            self._said.pop(key, None)
        elif self._said.get(key) != draw.why:
            self._said[key] = draw.why
            self.say(f"{draw.source}: {draw.why}")

    def refusal(self, key: str) -> tuple[Instant, str]:
        """Return when a queue that is wanted is asked for again, and why it is not drawn; "" where nothing refused."""
        return self._again.get(key, 0), self._said.get(key, "")

    def hindrance(self, key: str) -> str:
        """Return why nothing comes of what is wanted as ``key``: a refusal. That it is not there yet is none."""
        draw = self.drawing.get(key)
        why = self._said.get(key, "")
        return "" if why == MISSING or (draw is not None and draw.state == OPEN) else why

    def probe(self) -> int:
        """Ask what the other broker itself answers."""
        return int(self.drawer.query())

    def peer(self) -> str:
        """Return who the other broker is, as far as it says."""
        place = self.link.place
        return self.drawer.peer if place is None else authority(place)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        return {
            "connector": self.entry.options.name,
            "kind": self.entry.options.SCHEME,
            "peer": self.peer(),
            "peer_id": self.drawer.peer,
            "peer_url": "",
            **link_report(self.link, now),
            "initiator": False,
            "duplex": False,
            "demand": [draw.source for draw in self.drawing.values()],
            "demands": len(self.drawing),
            "received": int(self.drawer.intake.received),
            "duplicates": int(self.drawer.intake.duplicates),
            "canary": self.entry.options.SIGN,
        }


class DrawConnector:
    """The connection of one ``artemis:(...)``, or ``activemq:(...)``.

    ``since``: when it was started or stopped, NEVER before that.
    """

    def __init__(self, entry: DrawEntry) -> None:
        self.entry: Final = entry
        self.name: Final = entry.options.name
        self.bridge: DrawnBridge | None = None
        self.started = False
        self.auto_start = True
        self.since: Instant = NEVER

    def start(self, broker: BrokerCore, perform: Perform, say: Say, now: Instant, interval: Duration = 0) -> None:
        """Dial. ``interval``: of supervision, 0: as the options say."""
        if self.bridge is not None:
            self.bridge.close("it begins anew", now)
        self.started = True
        self.since = now
        options = self.entry.options
        link_options = LinkOptions(
            reconnect=options.reconnection(),
            interval=interval or options.interval(INTERVALS_SILENT),
            language=options.LANGUAGE,
        )
        link = LinkCore(self.name, broker, link_options, self.entry.places)
        self.bridge = DrawnBridge(broker, self.entry, link, perform, say, self._parted)
        self.bridge.begin(now)

    def _parted(self) -> None:
        self.bridge = None

    def seeks(self) -> bool:
        """Say whether the other broker is not reached just now."""
        return self.bridge is None or self.bridge.link.state is not State.OPEN

    def hindrance(self, name: str, *, topic: bool) -> str:
        """Return the name of this connector where nothing comes over it of the queue ``name``, and why; "" else.

        ``topic``: it is the name of a topic.
        """
        if self.seeks() or self.bridge is None:
            return self.name
        why = self.bridge.hindrance(key_for(name, topic=topic))
        return f"{self.name} ({why.splitlines()[0][:WHY_MAX]})" if why else ""

    @property
    def state(self) -> str:
        """What it does while it has no connection, for people."""
        return "stopped"

    @property
    def place(self) -> str:
        """Where it leads, without secrets."""
        return ", ".join(place.masked() for place in self.entry.places)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know of it."""
        if self.bridge is not None:
            return self.bridge.report(now)
        since_ms = (now - self.since) // MILLISECOND if self.since <= now else -1
        return report_at_rest(self.name, self.entry.options.SCHEME, self.place, self.state, since_ms, initiator=False)

    def leave(self, now: Instant) -> None:
        """End it when all that was taken is acknowledged. It may be started again."""
        self._stopped(now)
        if self.bridge is not None:
            self.bridge.leave(now)

    def drain(self, now: Instant) -> bool:
        """Take no more; return whether all that was taken is acknowledged."""
        if self.bridge is not None:
            self._stopped(now)
            self.bridge.leave(now)
        return self.bridge is None

    def stop(self, now: Instant) -> None:
        """End it now: what is not acknowledged comes again."""
        self._stopped(now)
        if self.bridge is not None:
            self.bridge.close("the broker stops", now)

    def _stopped(self, now: Instant) -> None:
        if self.started:
            self.since = now
        self.started = False


def topic_queue(broker: str, topic: str) -> str:
    """Return the name of the queue that keeps, at the other broker, what is sent to ``topic`` for ``broker``."""
    return f"entrepot.{broker}.{topic}"


def drawer_of(entry: DrawEntry, broker: BrokerCore, port: DrawerPort) -> Drawer:
    """Return the session that draws what ``entry`` says, in the language of the broker there."""
    options = entry.options
    origin = -int(broker.ids.consumer_key())
    if isinstance(options, ActiveMQOptions):
        return OpenWireDrawer(
            broker,
            port,
            broker.entropy,
            origin=origin,
            user=options.user,
            password=options.password,
            client_id=options.client_id or f"entrepot-{broker.options.name}",
            prefetch=options.prefetch,
            inactivity_ms=options.silence // MILLISECOND,
        )
    if not isinstance(options, ArtemisOptions):
        raise Fault(f"nothing draws from {options.WHAT}")
    return CoreDrawer(
        broker,
        port,
        broker.entropy,
        origin=origin,
        user=options.user,
        password=options.password,
        client_id=options.client_id,
        window=options.window,
        ttl_ms=options.ttl // MILLISECOND,
        ha=options.ha,
    )
