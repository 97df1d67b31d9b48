"""One broker's machine in a simulated network: a whole broker over a simulated disk, and the bridges that it dials.

It is put together by `assembly.py`, from the same `BrokerConfig` that the readers of files make; only the disk, the
cables and the clock are simulated. Must never: tell a peer what a machine that is gone could not have told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from entrepot.assembly import Assembly, Plan, Ports
from entrepot.base.environment import MILLISECOND, Duration
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.draw_options import DrawEntry
from entrepot.cluster.clusters.draining import obey
from entrepot.cluster.dialled import Dialled
from entrepot.cluster.link import Effect
from entrepot.cluster.networks.bridge import Bridge
from entrepot.cluster.networks.comparison import OURS
from entrepot.cluster.networks.connector import NetworkConnector
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Neighbourhood
from entrepot.cluster.networks.opening import Opening, offered
from entrepot.cluster.networks.outlook import outlook
from entrepot.config.model import BrokerConfig
from entrepot.config.networks import lists_of
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import Hub
from entrepot.core.operators.census import Census
from entrepot.core.sending.copies import Copies, Stream
from entrepot.journal.log import JournalCore, JournalOptions, Waiter
from entrepot.journal.memory import MemoryJournal
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.bodies import pack_properties, text_message
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.convert import message_of
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.session import Session, Shell
from entrepot.simulation.cables import End, Traffic
from entrepot.simulation.disk import SimulatedDisk
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.turns import TurnLoop
from entrepot.simulation.world import World

SEGMENT_OCTETS: Final = 1 << 18  # small, so that segments come and go within a run
DRAIN_PATIENCE: Final = 5_000 * MILLISECOND  # of a broker that stops, as `io/links.py` has it
DRAIN_LOOK: Final = 5 * MILLISECOND
CABLE_MIN: Final = 20_000  # ns of delay of a cable, one way
CABLE_MAX: Final = 3 * MILLISECOND


class Blueprint(Struct, frozen=True):
    """What a site is made from. ``routes``: place that a bridge dials -> name of the site there, "" for nobody.

    ``interval``: of supervision, in ns; 0: as each connector says. ``audit``: what its listeners say of
    ``auditNetworkProducers``, -1 for nothing. ``program``: what it calls itself; other brokers trust the numbers of
    ours.
    """

    config: BrokerConfig
    draws: tuple[DrawEntry, ...] = ()
    routes: Mapping[str, str] = {}
    interval: Duration = 0
    audit: int = -1
    program: str = OURS

    def site_at(self, place: Endpoint) -> str:
        """Return the name of the site at ``place``: the host's, where nothing else is said."""
        return self.routes.get(f"{place.host}:{place.port}", place.host)


class Surroundings(Traffic, Protocol):
    """The network in which a site stands: the other sites, what joins them, and the ledger of what was promised."""

    world: World
    sites: dict[str, Site]
    touched: dict[str, None]

    def confirmed(self, identity: str, text: str) -> None:
        """A producer was told that its message is safe."""

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""

    def is_cut(self, one: str, other: str) -> bool:
        """Return whether nothing can be dialled between two sites."""

    def lay(self, near: Site, far: Site) -> tuple[End, End]:
        """Return the two ends of a new cable."""


class Confirmed(Waiter):
    """Notes in the ledger that the producer was told."""

    def __init__(self, network: Surroundings, text: str) -> None:
        self.network = network
        self.text = text

    def stored(self, token: bytes) -> None:
        """It is on disk."""
        self.network.confirmed(token.decode(), self.text)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It was refused: nobody counts on it."""


class Noted(Waiter):
    """Notes in the ledger of copies that one is on disk."""

    def __init__(self, ledger: dict[tuple[str, int], None], key: tuple[str, int]) -> None:
        self.ledger = ledger
        self.key = key

    def stored(self, token: bytes) -> None:
        """It is on disk: no crash excuses that it is taken again."""
        self.ledger[self.key] = None

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It was refused."""


class WatchedCopies(Copies):
    """Copies of a site, and what the site must know of them: on disk over its crashes, in memory until the next."""

    def __init__(self, site: Site, journal: JournalCore) -> None:
        super().__init__(journal)
        self.site: Final = site
        self.memory: Final[dict[tuple[str, int], None]] = {}

    def note(self, stream: Stream, number: int, mark: int, durable: bool) -> None:
        """Note a copy; one that was taken before must have been known."""
        key = (stream.sender.name, int(mark))
        if key in self.memory or key in self.site.copies_kept:
            self.site.world.violation(f"{self.site.name} takes a copy of {stream.sender.name.strip()} again")
        self.memory[key] = None
        super().note(stream, number, mark, durable)
        if durable and self.journal.pages:
            self.journal.confirm(Noted(self.site.copies_kept, key), b"")


class Site:
    """One broker's machine. ``broker`` is None while it is down."""

    def __init__(self, network: Surroundings, name: str, blueprint: Blueprint) -> None:
        self.network = network
        self.world = network.world
        self.name = name
        self.blueprint = blueprint
        self.disk = SimulatedDisk(
            self.world.lots(f"disk {name}"), lambda delay, action: self.world.later(delay, lambda: self.turn(action))
        )
        self.broker: BrokerCore | None = None
        self.made: Assembly | None = None
        self.turn_units = self.world.lots(f"turns {name}").one_of((1, 5, 40, 0, 0, 0))  # 0: as in the real world
        self.loop: Final = TurnLoop(self.world, self.turn)
        self.ends: list[End] = []
        self.cables: dict[tuple[Dialled, int], End] = {}
        self.readers: dict[str, Reader] = {}
        self.copies_kept: dict[tuple[str, int], None] = {}  # copies of other brokers that are on disk
        self.client_id = name  # of durable readers
        self.runs = 0
        self.stopping = False

    # -- life ----------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the broker from its disk, unless it runs; its readers come back."""
        if self.broker is not None:
            return
        self.runs += 1
        config = self.blueprint.config
        journal: JournalCore = MemoryJournal()
        if config.broker.persistent:
            journal = JournalCore(self.disk, JournalOptions(node=self.name, segment_bytes=SEGMENT_OCTETS))
        plan = Plan(
            config.broker.name,
            config.usage.memory_limit,
            config=config,
            draws=self.blueprint.draws,
            interval=self.blueprint.interval,
        )
        entropy = self.world.lots(f"broker {self.name} {self.runs}")
        ports = Ports(
            journal, entropy, Hub(strict=True), say=lambda who, what: self.world.note(f"{self.name}: {who}: {what}")
        )
        made = Assembly(plan, ports, self.make_connectors())
        broker = made.broker
        broker.copies = WatchedCopies(self, journal)
        made.recover(self.world.time, self.world.wall())
        if self.turn_units:
            broker.effort.units = broker.effort.stride = self.turn_units
        made.equip(SiteCensus(self))
        self.made = made
        self.broker = broker
        self.loop.begin(broker)
        made.found(self.turn)
        self.turn(self._connect)
        for reader in list(self.readers.values()):
            self._return(reader)

    def consumed(self, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader here settled a message; the ledger of the network hears of it."""
        self.network.consumed(self, reader, message, deliveries)

    def make_connectors(self) -> list[NetworkConnector]:
        """Return the network connectors of the configuration, not started yet."""
        return [NetworkConnector(one.options, lists_of(one)) for one in self.blueprint.config.networks]

    @property
    def connectors(self) -> list[NetworkConnector]:
        """Return the network connectors of the broker that ran last."""
        return [] if self.made is None else self.made.connectors

    @property
    def neighbourhood(self) -> Neighbourhood | None:
        """Return what the bridges of the broker that ran last share."""
        return None if self.made is None else self.made.neighbourhood

    def _connect(self) -> None:
        made = self._running()
        for connector in made.connectors:
            if connector.options.auto_start:
                made.connect(connector, self._perform, self.world.time)
        for core in made.core_connectors:
            made.carry(core, self._perform, self.world.time)

    def _running(self) -> Assembly:
        assert self.made is not None
        return self.made

    def switch(self, number: int, *, start: bool) -> None:
        """Stop or start the network connector ``number``, as ``entrepot bridge`` does (`io/links.py`)."""
        if self.broker is None:
            return
        connector = self.connectors[number]
        if start and not connector.started:
            made = self._running()
            self.turn(lambda: made.connect(connector, self._perform, self.world.time))
        elif not start and connector.started:
            self.turn(lambda: connector.leave(self.world.time))

    def stop(self) -> None:
        """Stop in order, as `Node._close` does, and be started again by somebody a while later."""
        broker = self.broker
        if broker is None or self.stopping:
            return
        self.world.note(f"stop {self.name}")
        self.world.count("stops in order")
        self.stopping = True
        self.turn(self._running().take_leave)
        self._drain(broker, self.world.time + DRAIN_PATIENCE)

    def _drain(self, broker: BrokerCore, until: int) -> None:
        """Let arrive what is on its way, then end the bridges."""
        if self.broker is not broker:
            return
        made = self._running()
        done: list[bool] = []
        self.turn(lambda: done.append(made.drain(self.world.time)))
        if not all(done) and self.world.time < until:
            self.world.later(DRAIN_LOOK, lambda: self._drain(broker, until))
            return
        self.turn(lambda: made.disconnect(self.world.time))
        self.world.later(DRAIN_LOOK, lambda: self._close(broker))

    def _close(self, broker: BrokerCore) -> None:
        """End every connection, then the journal, then the process."""
        if self.broker is not broker:
            return
        self.turn(self._shut_all)
        self.turn(broker.finish_work)
        broker.journal.close()
        self.ends = [end for end in self.ends if not end.gone]
        self.crash(torn=False)
        self.world.later(self.world.lots(f"stop {self.name} {self.runs}").between(50, 2_000) * MILLISECOND, self.boot)

    def _shut_all(self) -> None:
        for end in self.ends:
            if end.session is not None and not end.gone:
                end.session.shut("the broker stops", self.world.time)
                end.dirty()

    def crash(self, *, torn: bool) -> None:
        """The process dies (its peers see connections break), or, ``torn``, the machine with what was not synced."""
        if self.broker is None:
            return
        self.world.note(f"crash {self.name}")
        self.broker = None
        self.stopping = False
        self.loop.end()
        self.cables.clear()
        ends, self.ends = self.ends, []
        for end in ends:
            end.gone = True
            # a machine that is gone tells no other one; the programs on it are told, or start anew: it is the same here
            if end.other is not None and not (torn and isinstance(end.other.site, Site)):
                self.world.later(MILLISECOND, end.other.lose)
        for reader in self.readers.values():
            reader.got.clear()
            reader.waking = False
        if torn:
            self.disk.crash()
        else:
            self.disk.stop()

    def turn(self, action: Callable[[], object]) -> None:
        """Do ``action`` as one turn of the loop: what it wrote goes out, and the journal gets its sync."""
        if self.broker is None:
            return
        self.network.touched[self.name] = None
        self.loop.run(action)
        self.loop.arm()

    def end(self, delay: Duration) -> End:
        """Return this machine's end of a new cable."""
        return End(self, delay)

    def note(self, shell: Shell) -> None:
        """Write what the connection of ``shell`` has at the end of this turn."""
        self.loop.note(shell)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _perform(self, bridge: Dialled, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Dial):
                self._dial_soon(bridge, effect, self.broker)
            elif isinstance(effect, Drop):
                end = self.cables.pop((bridge, effect.attempt), None)
                if end is not None and end.session is not None and not end.gone:
                    end.session.shut("dropped", self.world.time)
                    end.dirty()

    def _dial_soon(self, bridge: Dialled, effect: Dial, broker: BrokerCore | None) -> None:
        def dial() -> None:
            if self.broker is broker:
                self.turn(lambda: self._dial(bridge, effect.attempt, effect.place))

        self.world.later(MILLISECOND, dial)

    def _dial(self, bridge: Dialled, attempt: int, place: Endpoint) -> None:
        target = self.network.sites.get(self.blueprint.site_at(place))
        if target is None or target.broker is None or target.stopping or self.network.is_cut(self.name, target.name):
            bridge.perform(bridge.link.failed(attempt, "nobody answers", self.world.time))
            return
        near, far = self.network.lay(self, target)
        self.ends.append(near)
        self.cables[(bridge, attempt)] = near
        if isinstance(bridge, Bridge):
            offer = replace(offered(place, bridge.link.options.interval), provider_name=self.blueprint.program)
            near.session = OpenWireClient(near, offer, Opening(bridge, attempt), self.world.time)
        else:
            near.session = bridge.greet(near, attempt, place, self.world.time)

        def accept() -> None:
            target.ends.append(far)
            far.session = target.answer(far, bridge, self.name)

        self.world.later(0, lambda: target.turn(accept))

    def answer(self, shell: Shell, bridge: Dialled, peer: str) -> Session:
        """Make the session of a connection that ``bridge`` of another site opened."""
        if isinstance(bridge, Bridge):
            return self.greet(shell, self.listening(), peer)
        return self._running().greet_core(shell, CoreOptions(), peer)

    def greet(self, shell: Shell, options: OpenWireOptions, peer: str) -> Session:
        """Make the session of a connection that somebody opened."""
        return self._running().greet_openwire(shell, options, peer)

    def listening(self) -> OpenWireOptions:
        """Return the options of this site's listener."""
        options = OpenWireOptions()
        options.audit_network = self.blueprint.audit
        options.wire = replace(options.wire, provider_name=self.blueprint.program)
        return options

    def bridges(self) -> list[BridgeEnd]:
        """Return every bridge here, whoever dialled."""
        return [] if self.neighbourhood is None or self.broker is None else list(self.neighbourhood.bridges)

    # -- what programs do ----------------------------------------------------------------------------------------------

    def send(
        self, text: str, identity: str, *, durable: bool = True, properties: Mapping[str, str] | None = None
    ) -> None:
        """Publish ``identity`` to the destination ``text``; the ledger learns when it is confirmed."""

        def act() -> None:
            broker = self.broker
            assert broker is not None
            command = text_message(identity)
            command.persistent = durable
            producer = commands.ProducerId(f"ID:{self.name}-{identity}", 1, 1)
            command.message_id = commands.MessageId(producer_id=producer, producer_sequence_id=1)
            command.producer_id = producer
            if properties:
                command.marshalled_properties = pack_properties(dict(properties))
            target = broker.target(names.parse(text))
            command.destination = (
                commands.ActiveMQTopic(target.name) if text.startswith("topic") else commands.ActiveMQQueue(target.name)
            )
            broker.send(message_of(command, target.name), target)
            broker.journal.confirm(Confirmed(self.network, text), identity.encode())

        self.turn(act)

    def read(self, text: str, *, durable: str = "", prefetch: int = 10, key: str = "", selector: str = "") -> None:
        """Have a reader of ``text`` here, now and after every restart. ``key`` tells two of one destination apart."""
        reader = Reader(self, text, prefetch, key=key, selector=selector)
        known = self.readers.get(reader.key)
        reader.durable_name = durable or ("" if known is None else known.durable_name)
        self._seat(reader)

    def _return(self, reader: Reader) -> None:
        again = Reader(self, reader.text, int(reader.prefetch), key=reader.key, selector=reader.condition)
        again.durable_name = reader.durable_name
        self._seat(again)

    def _seat(self, reader: Reader) -> None:
        if reader.durable_name:
            reader.client_id = self.client_id
        self.readers[reader.key] = reader

        def act() -> None:
            assert self.broker is not None
            self.broker.subscribe(reader)
            reader.window.reopen()

        self.turn(act)

    def leave(self, key: str) -> None:
        """End the reader known as ``key``: a destination, where nothing else was said."""
        reader = self.readers.pop(key, None)
        broker = self.broker
        if reader is not None and broker is not None:
            reader.got.clear()
            self.turn(lambda: broker.unsubscribe(reader))

    def forget(self, key: str) -> None:
        """End the durable reader known as ``key``, and its subscription."""
        reader = self.readers[key]
        self.leave(key)
        broker = self.broker
        if broker is not None:
            self.turn(lambda: broker.reading.forget_durable(reader.client_id, reader.durable_name))


class SiteCensus(Census):
    """What a site knows of its bridges, as a node tells it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def drain(self, verb: str, to: str) -> object:
        """Do as an operator says with what gives all to another node, as a node does."""
        drain = None if self.site.made is None else self.site.made.draining
        return super().drain(verb, to) if drain is None else obey(drain, verb, to)

    def path(self, message: Message) -> list[str]:
        """Return the brokers that ``message`` came through."""
        return list(message.language.path(message))

    def outlook(self, name: str, topic: bool) -> list[dict[str, object]]:
        """Return what each bridge does for a destination."""
        assert self.site.neighbourhood is not None
        return outlook(self.site.neighbourhood, self.site.connectors, name, topic=topic, now=self.site.world.time)
