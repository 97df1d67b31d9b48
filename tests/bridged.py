"""A network of brokers in one thread, from one seed: sites with disks, bridges over cables that are cut, crashes.

Every site is a whole broker (core, journal, OpenWire sessions, bridges). Producers and readers sit in the core of their
site. A ledger knows what was confirmed to a producer and what a reader settled.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.cluster.admission import message_path
from entrepot.cluster.bridge import Bridge, Neighbourhood, Opening
from entrepot.cluster.connector import NetworkConnector, connector_of
from entrepot.cluster.link import Effect, State
from entrepot.cluster.outlook import outlook
from entrepot.cluster.reception import NetworkSession
from entrepot.core.broker import BrokerCore, BrokerOptions
from entrepot.core.consumer import Consumer
from entrepot.core.controls import Census
from entrepot.core.policy import Policies
from entrepot.core.ports import NoticePort
from entrepot.core.queue import Queue
from entrepot.core.recovery import recover
from entrepot.core.subscription import Subscription
from entrepot.core.timed import Alarm
from entrepot.journal.log import JournalCore, JournalOptions, Waiter
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.bodies import text_message, text_of_body
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.convert import decode, message_of
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.session import NEVER, Session, Shell
from entrepot.simulation.disk import SimulatedDisk
from entrepot.simulation.world import Lots, World

INTERVAL = SECOND  # of supervision


class End(Shell):
    """One end of a cable: the shell of its session."""

    def __init__(self, site: Site, delay: int) -> None:
        self.site = site
        self.delay = delay
        self.session: Session | None = None
        self.other: End | None = None
        self.gone = False
        self.deaf = False  # what is written here arrives nowhere, and nobody is told
        self.armed = NEVER
        self.noted = False

    def dirty(self) -> None:
        if not self.noted:
            self.noted = True
            self.site.written.append(self)

    def resumed(self) -> None:
        pass

    def flush(self) -> None:
        self.noted = False
        session, other = self.session, self.other
        if session is None or other is None or self.gone:
            return
        data = session.outgoing()
        if data and not self.deaf:
            self.site.world.later(self.delay, lambda: other.arrive(data))
        if session.closing:
            if not self.deaf:
                self.site.world.later(self.delay, lambda: other.arrive(b""))
            self.leave("closed")
        else:
            self.arm()

    def arrive(self, data: bytes) -> None:
        if self.gone or self.session is None:
            return
        session = self.session

        def read() -> None:
            session.receive(data, self.site.world.time)
            self.dirty()

        self.site.turn(read)

    def leave(self, why: str) -> None:
        if not self.gone and self.session is not None:
            self.gone = True
            self.session.detach(why, self.site.world.time)

    def lose(self) -> None:
        """The connection breaks, and this end is told."""
        if not self.gone:
            self.site.turn(lambda: self.leave("cut"))

    def arm(self) -> None:
        assert self.session is not None
        due = self.session.deadline()
        if due < self.armed and not self.gone:
            self.armed = due
            self.site.world.later(max(0, due - self.site.world.time), self.ring)

    def ring(self) -> None:
        self.armed = NEVER
        session = self.session
        if self.gone or session is None:
            return

        def advance() -> None:
            if session.deadline() <= self.site.world.time:
                session.advance(self.site.world.time)
            self.dirty()

        self.site.turn(advance)


class Confirmed(Waiter):
    """Notes in the ledger that the producer was told."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def stored(self, token: bytes) -> None:
        self.network.accepted[token.decode()] = None

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        pass


class Taker(Consumer):
    """Settles what it got once the queue is done."""

    reader: Reader

    def deliver(self, message: Message, deliveries: int) -> None:
        self.reader.got.append((self, message, int(deliveries)))
        self.reader.wake()


class Settle(Alarm):
    def __init__(self, due: int, reader: Reader) -> None:
        super().__init__(due)
        self.reader = reader

    def ring(self, now: int) -> None:
        self.reader.settle()


class Reader(Subscription):
    """A reader at a site; ``slow`` settles nothing by itself."""

    def __init__(self, site: Site, text: str, prefetch: int) -> None:
        super().__init__(names.parse(text))
        self.site = site
        self.prefetch = prefetch
        self.got: list[tuple[Taker, Message, int]] = []
        self.waking = False

    def consumer(self, queue: Queue) -> Consumer:
        assert self.site.broker is not None
        made = Taker(self.site.broker.consumer_key(), self.window, True)
        made.reader = self
        return made

    def wake(self) -> None:
        broker = self.site.broker
        if not self.waking and broker is not None:
            self.waking = True
            broker.timetable.add(Settle(int(broker.now) + MILLISECOND, self))

    def settle(self) -> None:
        self.waking = False
        got, self.got = self.got, []
        for consumer, message, deliveries in got:
            queue = consumer.queue
            if queue is not None and queue.settle(consumer, message.number):
                self.site.network.consumed(self.site, message, deliveries)


class Site:
    """One broker's machine."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.world = network.world
        self.name = name
        self.disk = SimulatedDisk(self.world.lots(f"disk {name}"), self._from_disk)
        self.broker: BrokerCore | None = None
        self.neighbourhood: Neighbourhood | None = None
        self.connectors: list[NetworkConnector] = []
        self.wiring: list[str] = []  # URIs to connect to, and whether duplex
        self.written: list[End] = []
        self.ends: list[End] = []
        self.cables: dict[tuple[Bridge, int], End] = {}
        self.readers: dict[str, Reader] = {}
        self.due = NEVER
        self.runs = 0
        self.accepted = 0

    def boot(self) -> None:
        if self.broker is not None:
            return
        self.runs += 1
        journal = JournalCore(self.disk, JournalOptions(node=self.name, segment_bytes=1 << 18))
        lots = self.world.lots(f"broker {self.name} {self.runs}")
        broker = BrokerCore(journal, BrokerOptions(self.name, 64 << 20), Policies(), lots, NoticePort())
        broker.tick(self.world.time, self.world.wall())
        recover(broker)
        self.broker = broker
        self.neighbourhood = Neighbourhood(
            Acceptor(broker), interval=INTERVAL, say=lambda who, what: self.world.note(f"{self.name}: {who}: {what}")
        )
        self.connectors = [
            NetworkConnector(connector_of(text, number, duplex=self.network.duplex))
            for number, text in enumerate(self.wiring, 1)
        ]
        self.due = NEVER
        self.turn(self._connect)
        for text in list(self.readers):
            self.read(text)

    def _connect(self) -> None:
        assert self.neighbourhood is not None
        for connector in self.connectors:
            connector.start(self.neighbourhood, self._perform, self.world.time)

    def crash(self, *, torn: bool) -> None:
        """The process dies (its peers see the connections break), or the machine."""
        if self.broker is None:
            return
        self.world.note(f"crash {self.name}")
        self.broker = None
        self.written.clear()
        self.cables.clear()
        ends, self.ends = self.ends, []
        for end in ends:
            end.gone = True
            if end.other is not None and not torn:
                self.world.later(MILLISECOND, end.other.lose)  # a machine that is gone tells nobody
        for reader in self.readers.values():
            reader.got.clear()
            reader.waking = False
        if torn:
            self.disk.crash()
        else:
            self.disk.stop()

    def turn(self, action: Callable[[], object]) -> None:
        broker = self.broker
        if broker is None:
            return
        broker.tick(self.world.time, self.world.wall())
        action()
        broker.space_changed()
        broker.journal.flush()
        at = 0
        while at < len(self.written):
            self.written[at].flush()
            at += 1
        self.written.clear()
        broker.journal.flush()
        due = broker.deadline()
        if due < self.due:
            self.due = due
            self.world.later(max(0, due - self.world.time), lambda: self._ring(broker))

    def _ring(self, broker: BrokerCore) -> None:
        if self.broker is broker:
            self.due = NEVER
            self.turn(lambda: broker.advance() if broker.deadline() <= self.world.time else None)

    def _from_disk(self, delay: int, action: Callable[[], None]) -> None:
        self.world.later(delay, lambda: self.turn(action))

    # -- connections ---------------------------------------------------------------------------------------------------

    def _perform(self, bridge: Bridge, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Dial):
                self._dial_soon(bridge, effect, self.broker)
            elif isinstance(effect, Drop):
                end = self.cables.pop((bridge, effect.attempt), None)
                if end is not None and end.session is not None and not end.gone:
                    end.session.shut("dropped", self.world.time)
                    end.dirty()

    def _dial_soon(self, bridge: Bridge, effect: Dial, broker: BrokerCore | None) -> None:
        def dial() -> None:
            if self.broker is broker:
                self.turn(lambda: self._dial(bridge, effect.attempt, effect.place))

        self.world.later(MILLISECOND, dial)

    def _dial(self, bridge: Bridge, attempt: int, place: Endpoint) -> None:
        target = self.network.sites[place.host]
        if target.broker is None or self.network.is_cut(self.name, place.host):
            bridge.perform(bridge.link.failed(attempt, "nobody answers", self.world.time))
            return
        delay = self.network.lots.skewed(20_000, 3 * MILLISECOND)
        near, far = End(self, delay), End(target, delay)
        near.other, far.other = far, near
        self.ends.append(near)
        self.cables[(bridge, attempt)] = near
        near.session = OpenWireClient(near, WireFormatOptions(), Opening(bridge, attempt), self.world.time)
        self.network.cables.append((self.name, place.host, near, far))

        def accept() -> None:
            assert target.neighbourhood is not None
            target.accepted += 1
            target.ends.append(far)
            far.session = NetworkSession(far, target.neighbourhood, OpenWireOptions(), target.accepted, self.name)

        self.world.later(0, lambda: target.turn(accept))

    # -- what programs do ----------------------------------------------------------------------------------------------

    def send(self, text: str, identity: str, *, durable: bool = True) -> None:
        """Publish ``identity``; the ledger learns when it is confirmed."""

        def act() -> None:
            broker = self.broker
            assert broker is not None
            command = text_message(identity)
            command.persistent = durable
            producer = commands.ProducerId(f"ID:{self.name}-{identity}", 1, 1)
            command.message_id = commands.MessageId(producer_id=producer, producer_sequence_id=1)
            command.producer_id = producer
            target = broker.target(names.parse(text))
            command.destination = (
                commands.ActiveMQTopic(target.name) if text.startswith("topic") else commands.ActiveMQQueue(target.name)
            )
            broker.send(message_of(command, target.name), target)
            broker.journal.confirm(Confirmed(self.network), identity.encode())

        self.turn(act)

    def read(self, text: str, *, durable: str = "", prefetch: int = 10) -> None:
        """Have a reader of ``text`` here, now and after every restart."""
        reader = Reader(self, text, prefetch)
        if durable or (text in self.readers and self.readers[text].durable_name):
            reader.durable_name = durable or self.readers[text].durable_name
            reader.client_id = self.name
        self.readers[text] = reader

        def act() -> None:
            assert self.broker is not None
            self.broker.subscribe(reader)
            reader.window.reopen()

        self.turn(act)

    def leave(self, text: str) -> None:
        """End the reader of ``text``."""
        reader = self.readers.pop(text, None)
        broker = self.broker
        if reader is not None and broker is not None:
            reader.got.clear()
            self.turn(lambda: broker.unsubscribe(reader))

    def bridges(self) -> list[Bridge]:
        return [] if self.neighbourhood is None or self.broker is None else list(self.neighbourhood.bridges)


class SiteCensus(Census):
    """What a site knows of its bridges, as a node tells it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def path(self, message: Message) -> list[str]:
        return list(message_path(message))

    def outlook(self, name: str, topic: bool) -> list[dict[str, object]]:
        assert self.site.neighbourhood is not None
        return outlook(self.site.neighbourhood, self.site.connectors, name, topic=topic, now=self.site.world.time)


class Network:
    """Sites and who dials whom. ``options`` is the query of every connector."""

    def __init__(self, seed: int, wires: list[tuple[str, str]], *, duplex: bool = False, options: str = "") -> None:
        self.world = World(seed)
        self.lots: Lots = self.world.lots("network")
        self.duplex = duplex
        self.sites: dict[str, Site] = {}
        self.cables: list[tuple[str, str, End, End]] = []
        self.cuts: dict[tuple[str, str], bool] = {}
        self.accepted: dict[str, None] = {}
        self.seen: dict[str, list[str]] = {}
        self.unmarked: list[str] = []
        self.wires = wires
        self.crashed = False
        for name in dict.fromkeys(name for wire in wires for name in wire):
            self.sites[name] = Site(self, name)
        query = "?initialReconnectDelay=50&useExponentialBackOff=false" + (f"&{options}" if options else "")
        for near, far in wires:
            self.sites[near].wiring.append(f"static:(tcp://{far}:1){query}")
        self.world.after = self.check

    def start(self) -> Network:
        for site in self.sites.values():
            site.boot()
        return self

    def run(self, ms: int) -> None:
        self.world.run(self.world.time + ms * MILLISECOND)
        assert not self.world.violations, self.world.violations

    def check(self) -> None:
        for site in self.sites.values():
            for bridge in site.bridges():
                bridge.check()

    def consumed(self, site: Site, message: Message, deliveries: int) -> None:
        command = decode(message.raw)
        body = text_of_body(command) or ""
        path = [one.value or "" for one in command.broker_path or ()]
        if len(path) != len(set(path)) or (site.broker is not None and site.broker.node_id in path):
            self.world.violation(f"{body} went in a circle: {path} to {site.name}")
        if body in self.seen and deliveries == 0 and not message.redelivered:
            self.unmarked.append(body)
        self.seen.setdefault(body, []).append(site.name)

    # -- faults --------------------------------------------------------------------------------------------------------

    def is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self.cuts or (other, one) in self.cuts

    def cut(self, one: str, other: str, *, silent: bool = False) -> None:
        """Break what joins two sites. ``silent``: nobody is told, octets just vanish."""
        self.world.note(f"cut {one} {other} silent={silent}")
        self.cuts[(one, other)] = True
        for near_name, far_name, near, far in self.cables:
            if {near_name, far_name} == {one, other}:
                near.deaf = far.deaf = True
                if not silent:
                    near.lose()
                    far.lose()
        self.cables = [cable for cable in self.cables if not (cable[2].gone and cable[3].gone)]

    def heal(self) -> None:
        self.cuts.clear()
        for site in self.sites.values():
            site.boot()

    def is_open(self) -> bool:
        return all(
            bridge.link.state is State.OPEN
            for site in self.sites.values()
            for connector in site.connectors
            for bridge in connector.bridges.values()
        )
