"""One broker's machine in a simulated network: a whole broker over a simulated disk, and the bridges that it dials.

It is put together as `node.py` does it, from the same `BrokerConfig` that the readers of files make; only the disk, the
cables and the clock are simulated. Must never: tell a peer what a machine that is gone could not have told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.environment import MICROSECOND, MILLISECOND, Duration
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.cluster.link import Effect
from entrepot.cluster.networks.admission import message_path
from entrepot.cluster.networks.bridge import Bridge, Neighbourhood, Opening
from entrepot.cluster.networks.comparison import OURS
from entrepot.cluster.networks.connector import NetworkConnector, offered
from entrepot.cluster.networks.outlook import outlook
from entrepot.cluster.networks.reception import NetworkSession
from entrepot.config.founding import add_policies, found, set_advisories, set_options
from entrepot.config.model import BrokerConfig
from entrepot.config.networks import bridge_filters, lists_of
from entrepot.config.security import protect
from entrepot.core.broker import BrokerCore, BrokerOptions
from entrepot.core.controls import Census
from entrepot.core.copies import Copies
from entrepot.core.policy import Policies
from entrepot.core.ports import NoticePort
from entrepot.core.recovery import recover
from entrepot.journal.log import JournalCore, JournalOptions, Waiter
from entrepot.journal.memory import MemoryJournal
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.bodies import pack_properties, text_message
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.convert import message_of
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.session import Shell
from entrepot.protocols.turns import TurnCore
from entrepot.simulation.cables import End
from entrepot.simulation.disk import SimulatedDisk
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.world import Bell

if TYPE_CHECKING:
    from entrepot.simulation.networks import Network

SEGMENT_OCTETS: Final = 1 << 18  # small, so that segments come and go within a run
DRAIN_PATIENCE: Final = 5_000 * MILLISECOND  # of a broker that stops, as `io/links.py` has it
DRAIN_LOOK: Final = 5 * MILLISECOND
REST_AFTER: Final = 10 * MICROSECOND  # other events come in between
CABLE_MIN: Final = 20_000  # ns of delay of a cable, one way
CABLE_MAX: Final = 3 * MILLISECOND


class Blueprint(Struct, frozen=True):
    """What a site is made from. ``routes``: place that a bridge dials -> name of the site there, "" for nobody.

    ``interval``: of supervision, in ns; 0: as each connector says. ``audit``: what its listeners say of
    ``auditNetworkProducers``, -1 for nothing. ``program``: what it calls itself; other brokers trust the numbers of
    ours.
    """

    config: BrokerConfig
    routes: Mapping[str, str] = {}
    interval: Duration = 0
    audit: int = -1
    program: str = OURS

    def site_at(self, place: Endpoint) -> str:
        """Return the name of the site at ``place``: the host's, where nothing else is said."""
        return self.routes.get(f"{place.host}:{place.port}", place.host)


class Confirmed(Waiter):
    """Notes in the ledger that the producer was told."""

    def __init__(self, network: Network, text: str) -> None:
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

    def note(self, sender: str, mark: int, durable: bool) -> None:
        """Note a copy; one that was taken before must have been known."""
        key = (sender, mark)
        if key in self.memory or key in self.site.copies_kept:
            self.site.world.violation(f"{self.site.name} takes a copy of {sender.strip()} again")
        self.memory[key] = None
        super().note(sender, mark, durable)
        if durable and self.journal.pages:
            self.journal.confirm(Noted(self.site.copies_kept, key), b"")


class Site:
    """One broker's machine. ``broker`` is None while it is down."""

    def __init__(self, network: Network, name: str, blueprint: Blueprint) -> None:
        self.network = network
        self.world = network.world
        self.name = name
        self.blueprint: Final = blueprint
        self.disk = SimulatedDisk(self.world.lots(f"disk {name}"), self._from_disk)
        self.broker: BrokerCore | None = None
        self.neighbourhood: Neighbourhood | None = None
        self.connectors: list[NetworkConnector] = []
        self.turn_units = self.world.lots(f"turns {name}").one_of((1, 5, 40, 0, 0, 0))  # 0: as in the real world
        self._course: TurnCore | None = None
        self._going_on = False
        self.ends: list[End] = []
        self.cables: dict[tuple[Bridge, int], End] = {}
        self.readers: dict[str, Reader] = {}
        self.copies_kept: dict[tuple[str, int], None] = {}  # copies of other brokers that are on disk
        self.bell: Final = Bell(self.world, self._ring)
        self.runs = 0
        self.stopping = False
        self.accepted = 0

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
        policies = Policies()
        add_policies(config, policies)
        options = BrokerOptions(config.broker.name, config.usage.memory_limit)
        set_options(config, options)
        broker = BrokerCore(
            journal, options, policies, self.world.lots(f"broker {self.name} {self.runs}"), NoticePort()
        )
        protect(config.security, broker.access)
        broker.tick(self.world.time, self.world.wall())
        watched = WatchedCopies(self, journal)
        broker.copies = watched
        recover(broker)
        if self.turn_units:
            broker.effort.units = broker.effort.stride = self.turn_units
        self.broker = broker
        self._course = TurnCore(broker)
        self._going_on = False
        acceptor = Acceptor(broker)
        set_advisories(config, acceptor.advisories)
        self.neighbourhood = Neighbourhood(
            acceptor,
            filters=bridge_filters(config),
            interval=self.blueprint.interval,
            say=lambda who, what: self.world.note(f"{self.name}: {who}: {what}"),
        )
        self.connectors = self.make_connectors()
        self.bell.hush()
        self.turn(lambda: found(config, broker))
        self.turn(acceptor.advisories.founded)
        self.turn(self._connect)
        for reader in list(self.readers.values()):
            self._return(reader)

    def make_connectors(self) -> list[NetworkConnector]:
        """Return the network connectors of the configuration, not started yet."""
        return [NetworkConnector(one.options, lists_of(one)) for one in self.blueprint.config.networks]

    def _connect(self) -> None:
        assert self.neighbourhood is not None
        for connector in self.connectors:
            if connector.options.auto_start:
                connector.start(self.neighbourhood, self._perform, self.world.time)

    def switch(self, number: int, *, start: bool) -> None:
        """Stop or start the network connector ``number``, as ``entrepot bridge`` does (`io/links.py`)."""
        if self.broker is None:
            return
        connector = self.connectors[number]
        if start and not connector.started:
            neighbourhood = self.neighbourhood
            assert neighbourhood is not None
            self.turn(lambda: connector.start(neighbourhood, self._perform, self.world.time))
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
        self.turn(self._take_leave)
        self._drain(broker, self.world.time + DRAIN_PATIENCE)

    def _take_leave(self) -> None:
        assert self.broker is not None
        assert self.neighbourhood is not None
        self.broker.cease()
        self.neighbourhood.clients.retire()

    def _drain(self, broker: BrokerCore, until: int) -> None:
        """Let arrive what is on its way, then end the bridges."""
        if self.broker is not broker:
            return
        done: list[bool] = []
        self.turn(lambda: done.extend(one.drain(self.world.time) for one in self.connectors))
        if not all(done) and self.world.time < until:
            self.world.later(DRAIN_LOOK, lambda: self._drain(broker, until))
            return
        self.turn(self._stop_connectors)
        self.world.later(DRAIN_LOOK, lambda: self._close(broker))

    def _stop_connectors(self) -> None:
        for connector in self.connectors:
            connector.stop(self.world.time)

    def _close(self, broker: BrokerCore) -> None:
        """End every connection, then the journal, then the process."""
        if self.broker is not broker:
            return
        self.turn(self._shut_all)
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
        self._course = None
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
        broker, course = self.broker, self._course
        if broker is None or course is None:
            return
        self.network.touched[self.name] = None
        course.begin(self.world.time, self.world.wall())
        action()
        course.settle()
        course.write()
        course.finish()
        self.bell.set(broker.deadline())
        if course.more() and not self._going_on:
            self._going_on = True
            self.world.later(REST_AFTER, lambda: self._go_on(course))

    def _go_on(self, course: TurnCore) -> None:
        """Have a turn for what earlier ones left, unless the machine has gone down since."""
        if self._course is course:
            self._going_on = False
            self.turn(course.go_on)

    def note(self, shell: Shell) -> None:
        """Write what the connection of ``shell`` has at the end of this turn."""
        if self._course is not None:
            self._course.note(shell)

    def _ring(self) -> None:
        broker = self.broker
        if broker is not None:
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
        target = self.network.sites.get(self.blueprint.site_at(place))
        if target is None or target.broker is None or target.stopping or self.network.is_cut(self.name, target.name):
            bridge.perform(bridge.link.failed(attempt, "nobody answers", self.world.time))
            return
        near, far = self.network.lay(self, target)
        self.ends.append(near)
        self.cables[(bridge, attempt)] = near
        offer = replace(offered(place, bridge.link.options.interval), provider_name=self.blueprint.program)
        near.session = OpenWireClient(near, offer, Opening(bridge, attempt), self.world.time)

        def accept() -> None:
            assert target.neighbourhood is not None
            target.accepted += 1
            target.ends.append(far)
            far.session = NetworkSession(far, target.neighbourhood, target.listening(), target.accepted, self.name)

        self.world.later(0, lambda: target.turn(accept))

    def listening(self) -> OpenWireOptions:
        """Return the options of this site's listener."""
        options = OpenWireOptions()
        options.audit_network = self.blueprint.audit
        options.wire = replace(options.wire, provider_name=self.blueprint.program)
        return options

    def bridges(self) -> list[Bridge]:
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
            reader.client_id = self.name
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
            self.turn(lambda: broker.forget_durable(reader.client_id, reader.durable_name))


class SiteCensus(Census):
    """What a site knows of its bridges, as a node tells it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def path(self, message: Message) -> list[str]:
        """Return the brokers that ``message`` came through."""
        return list(message_path(message))

    def outlook(self, name: str, topic: bool) -> list[dict[str, object]]:
        """Return what each bridge does for a destination."""
        assert self.site.neighbourhood is not None
        return outlook(self.site.neighbourhood, self.site.connectors, name, topic=topic, now=self.site.world.time)
