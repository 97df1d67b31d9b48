"""A broker put together from its plan and the ports of its world: a process's, a simulated machine's, a test's.

Order: `Assembly` makes the core and lets it know who may come in; `recover` reads the journal back; `equip` adds what
serves beside queues (management, jobs, languages, bridges); `found` brings it to what the configuration says. A world
does nothing of that by itself, so what is simulated is what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from entrepot.base.environment import Duration, Entropy, Instant, WallTime
from entrepot.base.errors import InvalidOption
from entrepot.cluster.broker_connections.calls import Calls
from entrepot.cluster.dialled import Dialled
from entrepot.cluster.federation.federations import Federations
from entrepot.cluster.link import Effect
from entrepot.cluster.networks.advising import Advising
from entrepot.cluster.networks.connector import NetworkConnector, Perform, connector_back
from entrepot.cluster.networks.neighbourhood import Neighbourhood
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.cluster.networks.reception import Reception
from entrepot.cluster.zones import ZoneRules, check_zone
from entrepot.config.founding import add_policies, found, renew, set_advisories, set_options
from entrepot.config.model import BrokerConfig
from entrepot.config.networks import bridge_filters, lists_of, no_filters
from entrepot.config.security import OPEN, Security, protect
from entrepot.core.addressing.amending import restore as restore_settings
from entrepot.core.addressing.policy import EVERYTHING, Policies
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import Hub
from entrepot.core.events.trace import Trace, TraceSink
from entrepot.core.events.tracing import Tracing
from entrepot.core.operators.census import Census
from entrepot.core.operators.jobs import ADDRESS as JOBS
from entrepot.core.operators.jobs import Jobs
from entrepot.core.operators.management import Management, install
from entrepot.core.options import BrokerOptions
from entrepot.core.records import KIND_MQTT_RECEIVED, KIND_MQTT_SENT, KIND_MQTT_SESSION
from entrepot.core.recovery import recover
from entrepot.core.security.amending import restore as restore_rights
from entrepot.journal.log import JournalCore, RecoveryReport
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.artemis import doorbell
from entrepot.protocols.artemis.doorbell import Doorbell
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.languages import offer_languages
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.server import OpenWireSession
from entrepot.protocols.openwire.statistics import PREFIX as STATISTICS
from entrepot.protocols.openwire.statistics import Statistics
from entrepot.protocols.session import Session, Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession

if TYPE_CHECKING:
    from entrepot.artemis import ArtemisSide
    from entrepot.cluster.carrying.connector import CoreConnector
    from entrepot.cluster.carrying.draw_options import DrawEntry
    from entrepot.cluster.carrying.drawing import DrawConnector
    from entrepot.cluster.clusters.connection import ClusterConnection
    from entrepot.cluster.clusters.draining import Drain
    from entrepot.cluster.fetching import Fetcher
    from entrepot.cluster.routers.options import RouterOptions
    from entrepot.cluster.routers.router import Routers
    from entrepot.config.clusters import Clusters
    from entrepot.config.processes import Process
    from entrepot.protocols.amqp.session import AmqpSession, Obeying
    from entrepot.protocols.artemis.membership import Membership
    from entrepot.protocols.mqtt.house import House

OF_MQTT = (KIND_MQTT_SESSION, KIND_MQTT_RECEIVED, KIND_MQTT_SENT)

Act = Callable[[Callable[[], object]], None]
"""Does an action as one turn of its world."""


offer_languages()


def _obey(say: Callable[[str, str], None], session: AmqpSession, said: dict[str, object]) -> Obeying:
    """Make what carries out policies that another broker brings. The first one has it loaded. Raises Refused."""
    from entrepot.cluster.broker_connections.obeying import Obeyed  # noqa: PLC0415 - few brokers need it

    return Obeyed(session, said, say)


class Plan:
    """What a broker is made from; several brokers, one after the other, may be made from the same one.

    ``policies``: address pattern -> setting -> value; for a pattern that is in ``config`` too they have the last word.
    ``security`` None: what ``config`` says. ``interval``: of supervision of all bridges, ns; 0: each connector has its
    own. ``zone``: where this broker is, "" for nowhere in particular; ``client_zones``: rules of `cluster/zones.py`.
    ``process``: which of several processes it is that are one broker, None for the only one.
    """

    def __init__(
        self,
        name: str,
        memory_limit: int,
        *,
        config: BrokerConfig | None = None,
        policies: Mapping[str, Mapping[str, object]] | None = None,
        networks: Sequence[NetworkConnectorOptions] = (),
        draws: Sequence[DrawEntry] = (),
        security: Security | None = None,
        interval: Duration = 0,
        zone: str = "",
        client_zones: Sequence[str] = (),
        process: Process | None = None,
    ) -> None:
        """``memory_limit`` in octets. Raises InvalidOption."""
        if memory_limit <= 0:
            raise InvalidOption(f"a broker cannot work with {memory_limit} octets of memory")
        if zone:
            check_zone(zone)
        self.config = config
        self.networks: Final = list(networks)
        self.draws: Final = list(draws)
        self.interval: Final = interval
        self.zone: Final = zone or ("" if config is None else config.own.zone)
        self.zones: Final = ZoneRules([*client_zones, *(() if config is None else config.own.client_zones)])
        self._overriding: Final = {} if policies is None else policies
        self.options: Final = BrokerOptions(name, memory_limit)
        self.clusters: Clusters | None = None
        if config is not None and (config.peering.clusters or config.peering.broadcasts or config.peering.routers):
            from entrepot.config.clusters import clusters_of  # noqa: PLC0415 - see `entrepot.artemis`

            self.clusters = clusters_of(config.peering)
        self._process: Final = process
        if process is not None:
            self.clusters = process.clusters
        self.routers: tuple[RouterOptions, ...] = ()
        if config is not None and config.peering.routers:
            from entrepot.config.routers import routers_of  # noqa: PLC0415 - as above

            self.routers = routers_of(config.peering)
        if config is not None:
            set_options(config, self.options)
        self.policies: Final = self.policies_of(config)
        self._security: Final = security

    def policies_of(self, config: BrokerConfig | None) -> Policies:
        """Return what ``config`` sets for addresses, and the plan beside it. Raises InvalidOption."""
        made = Policies()
        process = self._process
        if process is not None:
            made.put(EVERYTHING, process.base)  # before all others: what a file says of the same addresses counts
        if config is not None:
            add_policies(config, made)
        if process is not None:
            made.base = {**process.base, **made.base}
        for pattern, settings in self._overriding.items():
            made.add(pattern, settings)
        return made

    @property
    def security(self) -> Security:
        """Return who may come in, and what he may do."""
        if self._security is not None:
            return self._security
        return OPEN if self.config is None else self.config.security

    def core_connectors(self) -> list[CoreConnector]:
        """Return new core bridges, not started. Names are unique: the reader of the file saw to it."""
        entries = [] if self.config is None else list(self.config.core_bridges)
        for draw in self.draws:
            entries += draw.bridges()
        if not entries:
            return []
        from entrepot.cluster.carrying.connector import CoreConnector  # noqa: PLC0415 - see `entrepot.artemis`

        return [CoreConnector(one) for one in entries]

    def draw_connectors(self) -> list[DrawConnector]:
        """Return new connections to brokers from which messages are drawn, not started. Raises InvalidOption."""
        if not self.draws:
            return []
        from entrepot.cluster.carrying.drawing import DrawConnector  # noqa: PLC0415 - see `entrepot.artemis`

        names = [one.options.name for one in self.draws]
        for name in names:
            if names.count(name) > 1:
                raise InvalidOption(f"two connectors are called {name!r}", remedy="give each a name of its own: name=")
        return [DrawConnector(one) for one in self.draws]

    def connectors(self) -> list[NetworkConnector]:
        """Return new network connectors, not started. Raises InvalidURI, InvalidOption."""
        made = [NetworkConnector(one) for one in self.networks]
        made += [back for back in map(connector_back, self.draws) if back is not None]
        if self.config is not None:
            made += [NetworkConnector(one.options, lists_of(one)) for one in self.config.networks]
        names = [one.options.name for one in made]
        for name in names:
            if names.count(name) > 1:
                raise InvalidOption(f"two network connectors are called {name!r}", remedy="give each a name of its own")
        return made


class Ports:
    """What a world gives a broker. ``say``: takes what an operator should know of a bridge: who, and what."""

    def __init__(
        self,
        journal: JournalCore,
        entropy: Entropy,
        hub: Hub,
        *,
        sink: TraceSink | None = None,
        say: Callable[[str, str], None] = lambda who, what: None,
    ) -> None:
        """``sink``: takes the trace, None for no trace."""
        self.journal: Final = journal
        self.entropy: Final = entropy
        self.hub: Final = hub
        self.sink: Final = sink
        self.say: Final = say


class Assembly:
    """One broker's core, and what belongs to it in each world. Call `recover`, `equip`, `found`, in this order."""

    def __init__(self, plan: Plan, ports: Ports, connectors: Sequence[NetworkConnector] | None = None) -> None:
        """``connectors``: instead of those of ``plan``. Raises InvalidURI, InvalidOption."""
        self.plan: Final = plan
        self.ports: Final = ports
        self.broker: Final = BrokerCore(ports.journal, plan.options, plan.policies, ports.entropy, ports.hub)
        protect(plan.security, self.broker.access)
        self.connections = 0  # how many sessions were made
        self.connectors: Final = plan.connectors() if connectors is None else list(connectors)
        self.core_connectors: Final = plan.core_connectors()
        self.federations: Final = Federations(None if plan.config is None else plan.config.federations)
        self.draws: Final = plan.draw_connectors()
        self.calls: Final = Calls(() if plan.config is None else plan.config.amqp_connections)
        self._acceptor: Acceptor | None = None
        self.management: Management | None = None  # who answers operators, from `equip` on
        self._artemis: ArtemisSide | None = None
        self._doorbell: Doorbell | None = None
        self._mqtt: House | None = None
        self._neighbourhood: Neighbourhood | None = None
        self._door: Reception | None = None

    # -- the start, in its order ---------------------------------------------------------------------------------------

    def recover(self, now: Instant, wall: WallTime) -> RecoveryReport:
        """Read the journal back. Raises CorruptJournal, StoreUnusable: nothing is changed then."""
        if self.ports.sink is not None:
            trace = Trace(self.ports.sink)
            self.broker.trace = trace
            self.broker.hub.add(Tracing(trace, self.broker.ids.identity_of))  # before there are queues
        self.broker.tick(now, wall)
        report = recover(self.broker)
        self._restore(self.broker.policies)
        return report

    def _restore(self, policies: Policies) -> None:
        """Let hold, in ``policies`` and for rights, what operators of the running broker said."""
        broker = self.broker
        for pattern, why in restore_settings(policies, broker.notes):
            self.ports.say(f"address settings of {pattern}", f"an operator said them, and they cannot be read: {why}")
        restore_rights(broker.access, broker.notes)

    def equip(
        self, census: Census | None = None, places: Callable[[], dict[str, str]] = dict, directory: str = ""
    ) -> None:
        """Add what serves beside queues. ``census``: what the world knows of the broker's surroundings.

        ``places``: where it listens, by ActiveMQ's names; ``directory``: of the store; both for statistics.
        """
        broker, config = self.broker, self.plan.config
        broker.begin_trace()
        notices = (BrokerConfig() if config is None else config).notices
        self.management = install(
            broker,
            Census() if census is None else census,
            notices.management,
            prefix=notices.guarded,
            views=notices.views,
        )
        self._acceptor = acceptor = Acceptor(broker)
        self._doorbell = doorbell.install(
            broker, notices.address, notices.kinds, sessions=notices.sessions, membership=self._membership
        )
        if config is not None:
            set_advisories(config, acceptor.advisories)
            if config.plugins.statistics:
                broker.addresses.offer_family(STATISTICS, Statistics(acceptor, places, directory))
        if broker.options.scheduler:
            broker.addresses.offer(JOBS, Jobs(broker))
        self._neighbourhood = Neighbourhood(
            Advising(acceptor),
            filters=no_filters if config is None else bridge_filters(config),
            interval=self.plan.interval,
            say=self.ports.say,
            zone=self.plan.zone,
            rules=self.plan.zones,
        )
        self._neighbourhood.clients.unreached = partial(unreached, self)
        self._door = Reception(self._neighbourhood)
        if any(kind in broker.documents for kind in OF_MQTT):
            assert self.mqtt  # sessions end, and wills are due, though nobody connects
        if self.plan.clusters is not None:
            self.artemis.join(self.plan.clusters, guarded=self.plan.security.users is not None)
        if self.plan.routers:
            self.artemis.route(self.plan.routers, Census() if census is None else census)

    def found(self, act: Act) -> None:
        """Make true what the configuration says. Raises Refused, StorageError."""
        config = self.plan.config
        act(lambda: self.calls.mirror(self.broker))
        if config is not None:
            act(lambda: found(config, self.broker, self.ports.say))
            act(self.acceptor.advisories.founded)
            if self._doorbell is not None:
                act(self._doorbell.look)  # a divert of the configuration may read them

    def follow(self, config: BrokerConfig, act: Act) -> None:
        """Let hold what ``config`` says now, of what can change while a broker runs (artemis.md 8.2).

        Settings of addresses, users and rights, diverts, addresses and queues, and the memory for all messages; a queue
        that cannot be as the file says is told of. Raises InvalidOption: nothing is changed then; StorageError.
        """
        had = BrokerConfig() if self.plan.config is None else self.plan.config
        config = replace(config, security=config.security.succeeding(had.security))
        policies = self.plan.policies_of(config)
        guarded = self.plan.security is had.security  # else somebody said beside the file who may do what
        limited = self.plan.options.memory_limit == had.usage.memory_limit  # the same, of how much memory

        def change() -> None:
            if guarded and (config.security != had.security or self.broker.access.amended):
                protect(config.security, self.broker.access)
            self._restore(policies)
            self.broker.queues.govern(policies)
            self.plan.config = config
            if limited and config.usage.memory_limit != had.usage.memory_limit:
                self.plan.options.memory_limit = config.usage.memory_limit
                self.broker.limit_memory(config.usage.memory_limit)
            renew(config, had, self.broker, self.ports.say)

        act(change)
        if self._doorbell is not None:
            act(self._doorbell.look)

    @property
    def acceptor(self) -> Acceptor:
        """Return what connections of OpenWire share. Raises InvalidOption before `equip`."""
        if self._acceptor is None:
            raise InvalidOption("the broker is not running", remedy="start it first")
        return self._acceptor

    @property
    def artemis(self) -> ArtemisSide:
        """Return what there is of Artemis; who asks first has it loaded. Raises InvalidOption before `equip`."""
        if self._artemis is None:
            if self._doorbell is None:
                raise InvalidOption("the broker is not running", remedy="start it first")
            from entrepot.artemis import ArtemisSide  # noqa: PLC0415 - few brokers need it

            config = self.plan.config
            serving = None if config is None else config.serving
            self._artemis = ArtemisSide(self.broker, self._doorbell, self.ports.say, serving)
            plan = self.plan
            self._artemis.federate(
                self.federations, lambda: () if plan.config is None else plan.config.federations.deployers
            )
        return self._artemis

    def load_artemis(self) -> None:
        """Load what there is of Artemis before somebody waits for it. Raises InvalidOption before `equip`."""
        assert self.artemis

    @property
    def mqtt(self) -> House:
        """Return what connections of MQTT share; who asks first has it loaded."""
        if self._mqtt is None:
            from entrepot.protocols.mqtt.house import House  # noqa: PLC0415 - few brokers need it

            self._mqtt = House(self.broker)
            self._mqtt.recover()
        return self._mqtt

    @property
    def clusters(self) -> Sequence[ClusterConnection]:
        """Return the cluster connections, of a broker that has some."""
        return () if self._artemis is None else self._artemis.clusters

    @property
    def routers(self) -> Routers | None:
        """Return the connection routers, of a broker that has some."""
        return None if self._artemis is None else self._artemis.routers

    @property
    def draining(self) -> Drain | None:
        """Return what gives all to another node, of a broker in a cluster."""
        return None if self._artemis is None else self._artemis.drain

    def _membership(self) -> Membership | None:
        return None if self._artemis is None else self._artemis.acceptor.membership

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Return what bridges share. Raises InvalidOption before `equip`."""
        if self._neighbourhood is None:
            raise InvalidOption("the broker is not running", remedy="start it first")
        return self._neighbourhood

    # -- sessions ------------------------------------------------------------------------------------------------------

    def greet_stomp(self, shell: Shell, options: StompOptions, peer: str) -> Session:
        """Make the session of a connection that speaks STOMP. Within a turn, as all below."""
        self.connections += 1
        return StompSession(shell, self.broker, options, self.connections, peer)

    def greet_openwire(self, shell: Shell, options: OpenWireOptions, peer: str) -> Session:
        """Make the session of a connection that speaks OpenWire: a client's, or another broker's."""
        self.connections += 1
        return OpenWireSession(shell, self.acceptor, options, self.connections, peer, self._door)

    def greet_core(self, shell: Shell, options: CoreOptions, peer: str) -> Session:
        """Make the session of a connection that speaks CORE. Raises InvalidOption before `equip`."""
        self.connections += 1
        return self.artemis.greet(shell, options, self.connections, peer)

    def greet_mqtt(self, shell: Shell, options: MqttOptions, peer: str) -> Session:
        """Make the session of a connection that speaks MQTT."""
        from entrepot.protocols.mqtt.server import MqttSession  # noqa: PLC0415 - few brokers need it

        self.connections += 1
        return MqttSession(shell, self.mqtt, options, self.connections, peer)

    def load_amqp(self) -> None:
        """Load what speaks AMQP before somebody waits for it: few brokers need it."""
        from entrepot.protocols.amqp import server  # noqa: F401, PLC0415 - see `greet_amqp`

    def greet_amqp(self, shell: Shell, options: AmqpOptions, peer: str) -> Session:
        """Make the session of a connection that speaks AMQP. The first one has it loaded."""
        from entrepot.protocols.amqp.server import AmqpServerSession  # noqa: PLC0415 - few brokers need it

        self.connections += 1
        session = AmqpServerSession(shell, self.broker, options, self.connections, peer)
        session.obeys = partial(_obey, self.ports.say)
        return session

    # -- bridges and the end -------------------------------------------------------------------------------------------

    def connect(self, connector: NetworkConnector, perform: Perform, now: Instant) -> None:
        """Start one of ``connectors``; ``perform`` carries out what its bridges ask for."""
        connector.start(self.neighbourhood, perform, now)

    def carry(self, connector: CoreConnector, perform: Callable[[Dialled, list[Effect]], None], now: Instant) -> None:
        """Start one of ``core_connectors``; ``perform`` carries out what its bridges ask for."""
        connector.start(self.broker, perform, self.ports.say, now, self.plan.interval)

    def carry_more(
        self, connector: CoreConnector, perform: Callable[[Dialled, list[Effect]], None], now: Instant
    ) -> None:
        """Start one that a cluster connection made; it is one of ``core_connectors`` from now on."""
        others = [
            one for one in self.core_connectors if one.name != connector.name and (one.started or not one.entry.route)
        ]
        self.core_connectors[:] = [*others, connector]
        self.carry(connector, perform, now)

    @property
    def fetchers(self) -> list[Fetcher]:
        """Return the connections over which messages come and none go."""
        return [*self.federations.fetchers(), *self.draws, *self.calls.connectors]

    def fetch(self, fetcher: Fetcher, perform: Callable[[Dialled, list[Effect]], None], now: Instant) -> None:
        """Start one of ``fetchers``; ``perform`` carries out what it asks for."""
        fetcher.start(self.broker, perform, self.ports.say, now, self.plan.interval)

    def take_leave(self) -> None:
        """Hand out nothing more, and tell clients and brokers that this one goes, while every bridge is still open."""
        self.broker.cease()
        if self._neighbourhood is not None:
            self._neighbourhood.clients.retire()

    def drain(self, now: Instant) -> bool:
        """Take nothing more over bridges; return whether nothing is on its way any more."""
        done = [connector.drain(now) for connector in self.connectors]  # each one, whatever the others say
        done += [connector.drain(now) for connector in self.core_connectors]
        done += [fetcher.drain(now) for fetcher in self.fetchers]
        return all(done)

    def disconnect(self, now: Instant) -> None:
        """End every bridge."""
        self.federations.begin = None
        for connector in self.connectors:
            connector.stop(now)
        for core in self.core_connectors:
            core.stop(now)
        for fetcher in self.fetchers:
            fetcher.stop(now)

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def measure(self) -> bool:
        """See whether the limits of the disk are reached; return whether that has changed."""
        changed = self.broker.journal.space.measure()
        if changed:
            self.broker.flow.limits_changed()
        return changed


def unreached(made: Assembly, name: str, topic: bool) -> list[str]:
    """Return the connectors, started, over which messages of the queue ``name`` do not come just now, and why.

    ``topic``: it is the name of a topic.
    """
    found = [one.options.name for one in made.connectors if one.started and one.seeks()]
    return found + [why for one in made.draws if one.started and (why := one.hindrance(name, topic=topic))]


def stand_in(made: Assembly, connectors: Mapping[str, str]) -> None:
    """Tell clients of CORE where to go on when this broker is lost: URIs by cluster connection, {} for nowhere."""
    for one in made.clusters:
        from entrepot.config.clusters import stand_in_at  # noqa: PLC0415 - see `entrepot.artemis`

        one.stands_in(stand_in_at(connectors.get(one.options.name, "")))
