"""A broker's whole configuration, typed: what the readers of either family's files make, and what a node is made from.

It is data: equal configurations compare equal, and `changes` says what must change to come from one to another, and
whether a running broker can follow. Groups of settings are `Options`, each declared where it is obeyed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from entrepot.base import settings
from entrepot.base.environment import MIB, Duration
from entrepot.base.settings import Dialect, Options, Unit, setting
from entrepot.cluster.broker_connections.options import AmqpConnectionEntry
from entrepot.cluster.carrying.options import CoreBridgeEntry
from entrepot.cluster.federation.options import FederationEntries
from entrepot.cluster.networks.options import BridgeFilterOptions, NetworkConnectorOptions
from entrepot.config.console import ConsoleSettings
from entrepot.config.ledger import EMPTY, Ledger
from entrepot.config.peering import Peering, Position
from entrepot.config.security import OPEN, Security
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.arrival import AS_SENT
from entrepot.core.operators.rbac import VIEWS
from entrepot.core.security.access import MANAGEMENT, NOTIFICATIONS
from entrepot.ha.lease import EITHER
from entrepot.ha.network_check import NetworkCheckOptions
from entrepot.ha.options import FILE_LOCKER
from entrepot.model.address import UNTYPED, Destination
from entrepot.model.headers import Headers

PURGE_OFF: Final = 0


class BrokerSettings(Options, frozen=True):
    """The attributes of Classic's ``<broker>`` that mean something here (classic.md 8.2)."""

    name: str = setting("localhost", classic="brokerName", about="name of the broker, for logs and message ids")
    data_directory: str = setting("activemq-data", classic="dataDirectory", about="where stores are, if not said else")
    persistent: bool = setting(True, classic="persistent", about="whether anything is kept on disk")
    delete_all: bool = setting(
        False, classic="deleteAllMessagesOnStartup", about="whether a start deletes every queue and subscription"
    )
    scheduler: bool = setting(False, classic="schedulerSupport", about="whether messages may ask for a delay")
    refuse_durables: bool = setting(
        False, classic="rejectDurableConsumers", about="whether consumers may not subscribe durably"
    )
    users_on_messages: bool = setting(
        False, classic="populateJMSXUserID", about="whether JMSXUserID of a message is the user who sent it"
    )
    principals_on_messages: bool = setting(
        False,
        classic="useAuthenticatedPrincipalForJMSXUserID",
        about="whether that user is the one of the login; here it is always, with populateJMSXUserID",
    )
    virtual_topics: bool = setting(True, classic="useVirtualTopics", about="whether VirtualTopic.> has consumer queues")
    virtual_subscriptions: bool = setting(
        False,
        classic="useVirtualDestSubs",
        about="whether consumers of what a virtual destination fills are announced as its consumers, for bridges",
    )
    virtual_on_creation: bool = setting(
        False,
        classic="useVirtualDestSubsOnCreation",
        about="whether with useVirtualDestSubs the queues that it fills are announced so too, unread",
    )
    mirrored_queues: bool = setting(
        False, classic="useMirroredQueues", about="whether each queue is published on a topic too"
    )
    anonymous_advisories: bool = setting(
        False,
        classic="anonymousProducerAdvisorySupport",
        about="whether producers that name no destination are announced",
    )
    purge_period: int = setting(
        PURGE_OFF,
        unit=Unit.MILLISECONDS,
        classic="schedulePeriodForDestinationPurge",
        about="how often unused destinations are looked for; 0: they stay",
    )


class UsageOptions(Options, frozen=True):
    """Limits of the whole broker (classic.md 4.11)."""

    memory_limit: int = setting(512 * MIB, unit=Unit.OCTETS, low=1, live=True, about="memory for messages")
    fail_if_full: bool = setting(
        False, classic="sendFailIfNoSpace", about="whether a send to what is full fails instead of waiting"
    )
    fail_after: int = setting(
        0,
        unit=Unit.MILLISECONDS,
        classic="sendFailIfNoSpaceAfterTimeout",
        about="how long it waits before it fails; 0: for ever",
    )
    store_limit: int = setting(0, unit=Unit.OCTETS, low=0, about="what is stored on disk at most; 0: no limit")
    store_percent: int = setting(0, low=0, high=100, about="the same, as a share of the disk; 0: not given")
    temp_limit: int = setting(0, unit=Unit.OCTETS, low=0, about="what may be lost and is paged at most; 0: a third")
    temp_percent: int = setting(0, low=0, high=100, about="the same, as a share of the disk; 0: not given")
    disk_percent_max: int = setting(0, low=0, high=100, about="how full the disk may be for sends; 0: full")
    disk_free_min: int = setting(0, unit=Unit.OCTETS, low=0, about="what must be free on the disk for sends")


class StoreOptions(Options, frozen=True):
    """The journal (classic.md 8.3). ``directory`` is where it is; "" keeps nothing on disk."""

    directory: str = setting("", about="directory of the journal")
    segment: int = setting(
        32 * MIB,
        unit=Unit.OCTETS,
        low=4096,
        high=2**31 - 1,
        classic="journalMaxFileLength",
        about="size of a file of it",
    )


class RetentionOptions(Struct, frozen=True):
    """What the journal lets go of is kept in ``directory`` for ``period_ms``, up to ``limit`` octets; 0: no limit."""

    directory: str
    period_ms: int = 0
    limit: int = 0


class Copying(Struct, frozen=True, kw_only=True):
    """Each broker has a store of its own, a copy of the primary's: see `ha/replication.py`.

    ``kept``: how many old copies, -1 for all. ``patience``: ns that a replica has for an answer. ``group``: brokers of
    one store have the same. ``peers``: none of them has a claim. ``quorum``: votes that are asked for, -1: a majority.
    """

    kept: int = 2
    patience: Duration = 0
    group: str = ""
    peers: bool = False
    quorum: int = -1


class Sharing(Struct, frozen=True, kw_only=True):
    """How the store is shared with other brokers: whoever has the lock serves, the others wait. Times in ns.

    ``locker``: as `ha/options.py`; ``lease`` 0: its default. ``holder``: the name in the lock, "" for the broker's.
    ``twins``: brokers of one name may take turns, as Classic's do. ``copies``: it is not shared but replicated, and the
    command line says where. The rest is Artemis': see there.
    """

    locker: str = FILE_LOCKER
    lease: Duration = 0
    renew_every: Duration = 0
    holder: str = ""
    twins: bool = True
    part: str = EITHER
    failover_on_shutdown: bool = True
    allow_failback: bool = False
    restart_backup: bool = True
    drains: bool = False
    copies: Copying | None = None
    colocation: Colocation | None = None


class Colocation(Struct, frozen=True, kw_only=True):
    """Nodes that host one another's backups (artemis.md 2.5). ``requests``: this one wants a backup at another.

    ``backup``: what a backup is that it hosts, up to ``backups_max`` of them. Their ports are ``port_offset`` higher
    than this node's, for the second twice as much, but for the connectors in ``excludes``. ``retries``: rounds more in
    which all nodes are asked, -1 for no end, ``retry_ms`` apart.
    """

    backup: Sharing
    requests: bool = False
    backups_max: int = 1
    retries: int = -1
    retry_ms: int = 5_000
    port_offset: int = 100
    excludes: tuple[str, ...] = ()


class Connector(Struct, frozen=True, kw_only=True):
    """One place to listen. ``uri`` is in our own form: its scheme names the protocol. ``line``: where it was said.

    ``discovery``: where it is announced, "" for nowhere.
    """

    name: str
    uri: str
    protocol: str
    line: int = 0
    discovery: str = ""


class PolicyEntry(Struct, frozen=True, kw_only=True):
    """Settings of the addresses that ``pattern`` covers; ``routing`` UNTYPED: of any kind.

    ``settings``: attribute of `core/addressing/address_settings.py` -> value. ``bridge``: what may go back through a
    network connector. ``literal``: the pattern is a name, wildcards in it and all.
    """

    pattern: str
    settings: Mapping[str, Any]
    routing: int = UNTYPED
    bridge: BridgeFilterOptions | None = None
    literal: bool = False


class VirtualTopicEntry(Struct, frozen=True, kw_only=True):
    """Queues named prefix + topic + postfix share in what is published to topics that ``name`` covers.

    ``selective``: a queue gets only what a consumer that it has now would take (selectorAware).
    """

    name: str = "VirtualTopic.>"
    prefix: str = "Consumer.*."
    postfix: str = ""
    selective: bool = False


class ForwardEntry(Struct, frozen=True, kw_only=True):
    """One target of a composite; ``selector`` "" lets everything pass."""

    target: Destination
    selector: str = ""


class CompositeEntry(Struct, frozen=True, kw_only=True):
    """A queue or topic whose messages go to others too, or only (classic.md 4.8)."""

    name: str
    topic: bool
    forwards: tuple[ForwardEntry, ...]
    forward_only: bool = True
    send_when_not_matched: bool = False


class PluginSettings(Struct, frozen=True, kw_only=True):
    """What plugins of Classic do that no address setting says (classic.md 7.6).

    ``persistence``: of `core/arrival.py`. ``path_property``: the property that collects the names of brokers,
    "" for none. ``statistics``: whether questions for them are answered. ``separator``: what clients may write for
    the dots in names, "" for nothing.
    """

    persistence: int = AS_SENT
    path_property: str = ""
    statistics: bool = False
    separator: str = ""


class DivertEntry(Struct, frozen=True, kw_only=True):
    """A divert of Artemis (artemis.md 4.4). ``passes``: copies keep their routing type, else the targets say it.

    ``headers``: properties that are set on copies.
    """

    name: str
    address: str
    targets: tuple[Destination, ...]
    exclusive: bool = False
    selector: str = ""
    passes: bool = False
    headers: Headers = ()


class AddressEntry(Struct, frozen=True):
    """An address that a file of Artemis names. ``types``: the routing types that it has, 1 multicast, 2 anycast."""

    name: str
    types: int


class IncludedDestination(Struct, frozen=True, kw_only=True):
    """One entry of a list of a network connector. ``force_durable``: a plain consumer counts as a durable one."""

    pattern: str
    topic: bool
    force_durable: bool = False


class NetworkConnector(Struct, frozen=True, kw_only=True):
    """One network connector with its lists."""

    options: NetworkConnectorOptions
    excluded: tuple[IncludedDestination, ...] = ()
    dynamically_included: tuple[IncludedDestination, ...] = ()
    statically_included: tuple[IncludedDestination, ...] = ()
    line: int = 0
    at: Position = Position()
    given: tuple[str, ...] = ()  # the attributes that the file itself gives; others have defaults that releases changed


class NoticeOptions(Struct, frozen=True, kw_only=True):
    """What is told of by messages, as Artemis has it. ``sessions``: those that come and go too.

    ``management``: where requests of operators are sent. ``guarded``: the first word of the addresses whose rights each
    operation takes, "" for none; ``views``: methods that only look.
    ``kinds``: of `core/events/facts.py`, more that is told where a plugin of Artemis asks for it.
    """

    address: str = NOTIFICATIONS
    sessions: bool = True
    kinds: int = 0
    management: str = MANAGEMENT
    guarded: str = ""
    views: str = VIEWS


class UserLimit(Struct, frozen=True):
    """How many sessions of CORE, and queues, a user may have at once; -1 for any number."""

    sessions: int = -1
    queues: int = -1


class ServingOptions(Struct, frozen=True, kw_only=True):
    """What Artemis sets for all connections and addresses of a broker, and Classic does not know.

    ``ttl_override_ms``: after which silence clients are given up that agree on nothing with the broker, and those of
    CORE whatever they say; -1: as they say. ``branch_ms``: how long a branch may last before it is prepared. ``users``:
    limits of those who have some. ``demands_user``: what is sent carries a user who is known, or is refused.
    ``uuid_namespace``: before names that are UUIDs, where settings are looked up. ``wildcards``: an address with
    wildcards in its name has what is sent to all that it matches. ``messages_max``: in memory, -1 for any number.
    ``retention``: where what the journal lets go of is kept; None: it is not.
    """

    ttl_override_ms: int = -1
    branch_ms: int = 300_000
    users: tuple[tuple[str, UserLimit], ...] = ()
    demands_user: bool = False
    uuid_namespace: str = ""
    wildcards: bool = True
    messages_max: int = -1
    retention: RetentionOptions | None = None


class OwnSettings(Struct, frozen=True, kw_only=True):
    """What only entrepot knows. ``zone``: where the broker is; ``client_zones``: rules of `cluster/zones.py`.

    ``reports``: the directory of the reports that the console shows, "" for none.
    """

    zone: str = ""
    client_zones: tuple[str, ...] = ()
    reports: str = ""


class BrokerConfig(Struct, frozen=True, kw_only=True):
    """A broker, as a file describes it. ``own``: what only entrepot knows.

    ``refresh_ms``: how often its files are looked at for changes, 0 for never.

    ``base``: settings of addresses that hold where no policy says otherwise; the policy of ``#`` has them too.

    ``family``: whose file it is. ``peering``: what the file says about other brokers. A running broker does not act on
    it, so it is never a change. ``ledger``: where each setting is said.
    """

    broker: BrokerSettings = BrokerSettings()
    usage: UsageOptions = UsageOptions()
    store: StoreOptions = StoreOptions()
    connectors: tuple[Connector, ...] = ()
    policies: tuple[PolicyEntry, ...] = ()
    base: Mapping[str, Any] = {}
    destinations: tuple[Destination, ...] = ()
    addresses: tuple[AddressEntry, ...] = ()
    queues: tuple[QueueDefinition, ...] = ()
    diverts: tuple[DivertEntry, ...] = ()
    virtual_topics: tuple[VirtualTopicEntry, ...] = (VirtualTopicEntry(),)
    composites: tuple[CompositeEntry, ...] = ()
    mirror_prefix: str = ""
    plugins: PluginSettings = PluginSettings()
    networks: tuple[NetworkConnector, ...] = ()
    core_bridges: tuple[CoreBridgeEntry, ...] = ()
    federations: FederationEntries = FederationEntries()
    amqp_connections: tuple[AmqpConnectionEntry, ...] = ()
    sharing: Sharing | None = None
    network_check: NetworkCheckOptions | None = None
    security: Security = OPEN
    family: Dialect = Dialect.CLASSIC
    peering: Peering = Peering()
    own: OwnSettings = OwnSettings()
    notices: NoticeOptions = NoticeOptions()
    refresh_ms: int = 0
    serving: ServingOptions = ServingOptions()
    console: ConsoleSettings | None = None
    ledger: Ledger = EMPTY


class Change(NamedTuple):
    """One difference. ``live``: a running broker can follow without a restart. None: it is not there on that side."""

    what: str
    old: Any
    new: Any
    live: bool


FIXED_NAMES: Final = {
    "notices": "notifications",
    "refresh_ms": "period of looks for changes",
    "network_check": "network check",
}
SERVING_NAMES: Final = {
    "ttl_override_ms": "connection-ttl-override",
    "branch_ms": "transaction-timeout",
    "users": "limits of users",
    "demands_user": "reject-empty-validated-user",
    "uuid_namespace": "uuid-namespace",
    "wildcards": "wild-card-routing-enabled",
    "messages_max": "global-max-messages",
    "retention": "journal-retention-directory",
}


def changes(a: BrokerConfig, b: BrokerConfig) -> list[Change]:
    """Return what must change to come from ``a`` to ``b``: groups of settings first, then what there may be many of."""
    found = [
        *_of_options("broker", a.broker, b.broker),
        *_of_options("usage", a.usage, b.usage),
        *_of_options("store", a.store, b.store),
        *_of_keyed("connector", _connectors(a), _connectors(b), live=False),
        *_of_keyed("policy", _policies(a), _policies(b), live=True),
        *_of_keyed("destination", _destinations(a), _destinations(b), live=True),
        *_of_keyed(
            "address", {one.name: one for one in a.addresses}, {one.name: one for one in b.addresses}, live=True
        ),
        *_of_keyed("queue", {one.name: one for one in a.queues}, {one.name: one for one in b.queues}, live=True),
        *_of_keyed("divert", {one.name: one for one in a.diverts}, {one.name: one for one in b.diverts}, live=True),
        *_of_keyed("virtual topic", _virtual(a), _virtual(b), live=True),
        *_of_keyed("composite", _composites(a), _composites(b), live=True),
        *_of_keyed("network connector", _networks(a), _networks(b), live=True),
        *_of_keyed("bridge", _bridges(a), _bridges(b), live=True),
        *_of_keyed("federation", _federations(a), _federations(b), live=True),
        *_of_keyed("amqp-connection", _amqp_connections(a), _amqp_connections(b), live=True),
    ]
    if a.federations.deployers != b.federations.deployers:
        found.append(Change("downstream-authorization", a.federations.deployers, b.federations.deployers, True))
    if a.sharing != b.sharing:
        found.append(Change("sharing of the store", a.sharing, b.sharing, False))
    if a.mirror_prefix != b.mirror_prefix:
        found.append(Change("mirrored queues", a.mirror_prefix, b.mirror_prefix, True))
    if a.plugins != b.plugins:
        found.append(Change("plugins", a.plugins, b.plugins, False))
    if a.own.reports != b.own.reports:
        found.append(Change("reports of the console", a.own.reports, b.own.reports, False))
    if (a.own.zone, a.own.client_zones) != (b.own.zone, b.own.client_zones):
        found.append(Change("zones", a.own, b.own, False))
    for name, what in FIXED_NAMES.items():
        old, new = getattr(a, name), getattr(b, name)
        if old != new:
            found.append(Change(what, old, new, False))
    if _console(a) != _console(b):
        found.append(Change("console", a.console, b.console, False))
    for name in ServingOptions.__struct_fields__:
        old, new = getattr(a.serving, name), getattr(b.serving, name)
        if old != new:
            found.append(Change(SERVING_NAMES[name], old, new, False))
    if a.security != b.security:
        live = b.family is Dialect.ARTEMIS and a.security.guards == b.security.guards
        found.append(Change("users and rights", a.security, b.security, live))
    return found


def _of_options(group: str, a: Options, b: Options) -> list[Change]:
    return [
        Change(f"{group} {change.setting.name}", change.old, change.new, change.live)
        for change in settings.changes(a, b)
    ]


def _of_keyed(what: str, a: Mapping[Hashable, Any], b: Mapping[Hashable, Any], *, live: bool) -> list[Change]:
    keys = dict.fromkeys([*a, *b])
    return [Change(f"{what} {_spoken(key)}", a.get(key), b.get(key), live) for key in keys if a.get(key) != b.get(key)]


def _spoken(key: Hashable) -> str:
    return " ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)


def _console(config: BrokerConfig) -> tuple[object, ...]:
    console = config.console
    return () if console is None else (*((one.host, one.port, one.tls) for one in console.places), console.realm)


def _connectors(config: BrokerConfig) -> dict[Hashable, Any]:
    return {one.name: (one.uri, one.protocol, one.discovery) for one in config.connectors}


def _policies(config: BrokerConfig) -> dict[Hashable, Any]:
    return {
        (one.pattern, one.routing, *(("literal",) if one.literal else ())): (dict(one.settings), one.bridge)
        for one in config.policies
    }


def _destinations(config: BrokerConfig) -> dict[Hashable, Any]:
    return {one.qualified(): one for one in config.destinations}


def _virtual(config: BrokerConfig) -> dict[Hashable, Any]:
    return {(one.prefix, one.name, one.postfix): one for one in config.virtual_topics}


def _composites(config: BrokerConfig) -> dict[Hashable, Any]:
    return {("topic" if one.topic else "queue", one.name): one for one in config.composites}


def _bridges(config: BrokerConfig) -> dict[Hashable, Any]:
    return {one.options.name: one for one in config.core_bridges}


def _federations(config: BrokerConfig) -> dict[Hashable, Any]:
    return {one.name: one for one in (*config.federations.upstreams, *config.federations.downstreams)}


def _amqp_connections(config: BrokerConfig) -> dict[Hashable, Any]:
    return {one.name: one for one in config.amqp_connections}


def _networks(config: BrokerConfig) -> dict[Hashable, Any]:
    return {
        one.options.name: (one.options, one.excluded, one.dynamically_included, one.statically_included)
        for one in config.networks
    }
