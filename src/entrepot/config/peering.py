"""What a broker's file says about other brokers, beyond its network connectors: the part of the model for networks.

Classic and Artemis fill what they have; the rest keeps its default. Entries stand as in the file: names that are given
twice and names that lead nowhere are kept, because it is `analysis/` that judges them. What could not be read at all
is a `Flaw`. Every entry knows its place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from entrepot.config.findings import Severity

UNENDING: Final = -1
BROADCAST_MS: Final = 2_000
REFRESH_MS: Final = 10_000
CHECK_MS: Final = 30_000
TTL_MS: Final = 60_000
RETRY_MS: Final = 2_000


class Position(Struct, frozen=True):
    """A place in a file: the line, and the path of the element or attribute."""

    line: int = 0
    path: str = ""


class Flaw(Struct, frozen=True):
    """Something that could not be read; a default stands in its place."""

    severity: Severity
    at: Position
    what: str
    remedy: str = ""


class Reference(Struct, frozen=True):
    """A name of a connector or of a discovery group."""

    name: str
    at: Position


class ListenerEntry(Struct, frozen=True, kw_only=True):
    """A transport connector or an acceptor, whether this build opens it or not. ``uri``: as the family writes it."""

    name: str
    uri: str
    at: Position
    discovery: str = ""  # URI of the group that it is announced in
    audits: bool = True  # auditNetworkProducers
    tells_clients: bool = False  # updateClusterClients


class PlaceEntry(Struct, frozen=True, kw_only=True):
    """A ``<connector>`` of Artemis: a name for a place, by its URI."""

    name: str
    uri: str
    at: Position


class GroupEntry(Struct, frozen=True, kw_only=True):
    """A broadcast group or a discovery group of Artemis.

    ``period_ms``: between two announcements, or until one is forgotten. ``connectors``: what a broadcast announces.
    ``jgroups``: the channel, where a stack of JGroups says where members meet: at ``address`` or in ``directory``;
    ``flaw``: why neither is known.
    """

    name: str
    address: str
    port: str
    jgroups: str  # channel, or file
    period_ms: int
    at: Position
    local_address: str = ""
    local_port: int = -1
    connectors: tuple[Reference, ...] = ()
    directory: str = ""
    flaw: str = ""


class ClusterEntry(Struct, frozen=True, kw_only=True):
    """A cluster connection of Artemis (artemis.md 1). ``uri``: what a ``<cluster-connection-uri>`` dials, "" for none.

    ``connectors`` None: it has no ``<static-connectors>``. ``balancing``: as written. ``attempts``, ``attempts_first``:
    as of a bridge; ``large_octets``: from where on a body is streamed; windows in octets, -1 for none.
    """

    name: str
    at: Position
    connector: str = ""
    address: str = ""
    uri: str = ""
    connectors: tuple[Reference, ...] | None = None
    groups: tuple[Reference, ...] = ()
    direct: bool = False
    balancing: str = ""
    max_hops: int = 1
    check_ms: int = CHECK_MS
    ttl_ms: int = TTL_MS
    deduplicates: bool = True
    call_ms: int = 30_000
    retry_ms: int = 500
    multiplier: float = 1.0
    retry_ms_max: int = 2_000
    attempts_first: int = UNENDING
    attempts: int = UNENDING
    large_octets: int = 102_400
    confirmation_window: int = 10_485_760
    producer_window: int = 1_048_576
    notification_ms: int = 1_000
    notification_attempts: int = 2
    client_id: str = ""


class BridgeEntry(Struct, frozen=True, kw_only=True):
    """A core bridge of Artemis (artemis.md 4.11): from a queue here to ``forwards``, "" where each keeps its address.

    ``attempts``, ``attempts_first``: to reconnect, and to connect at all; -1 for ever. ``routing``: as written.
    ``filter_at``: where its selector is written.
    """

    name: str
    at: Position
    queue: str = ""
    forwards: str = ""
    selector: str = ""
    filter_at: Position = Position()
    routing: str = "PASS"
    connectors: tuple[Reference, ...] | None = None
    groups: tuple[Reference, ...] = ()
    ha: bool = False
    concurrency: int = 1
    attempts: int = UNENDING
    attempts_first: int = UNENDING
    retry_ms: int = RETRY_MS
    retry_ms_max: int = RETRY_MS
    multiplier: float = 1.0
    check_ms: int = CHECK_MS
    ttl_ms: int = TTL_MS
    deduplicates: bool = True
    user: str = ""


class PartEntry(Struct, frozen=True, kw_only=True):
    """The HA policy of Artemis: which broker of a pair it is. ``replicates``: it copies the store, and shares none.

    ``peers``: primaries with this id take turns (coordination-id). ``quorum``: votes that are asked for, -1 for half.
    ``cluster``: name of the cluster connection that an Artemis finds its partner by, "" for the first.
    """

    backup: bool
    replicates: bool
    group: str
    at: Position
    peers: str = ""
    quorum: int = -1
    cluster: str = ""


class AccountsEntry(Struct, frozen=True, kw_only=True):
    """Who may connect to a broker of Classic, by the plugin that asks. ``users``: name -> password.

    ``complete``: nobody else may; with JAAS somebody else may decide.
    """

    at: Position
    users: Mapping[str, str] = {}
    anonymous: bool = False
    complete: bool = True


class ReplayEntry(Struct, frozen=True, kw_only=True):
    """A policy of Classic by which messages may go back over a bridge. ``audited``: enableAudit of its entry."""

    pattern: str
    audited: bool
    at: Position


class ScaleDownEntry(Struct, frozen=True, kw_only=True):
    """What a node does with its messages when it stops (artemis.md 1.20). ``group``: which nodes take them, "" any.

    ``connectors``: names, of which the first that leads to a member of the cluster is taken. ``of_backup``: a backup
    does so with what it takes over, and not when it stops.
    """

    at: Position
    group: str = ""
    connectors: tuple[str, ...] = ()
    of_backup: bool = False


class GroupingEntry(Struct, frozen=True, kw_only=True):
    """The ``<grouping-handler>`` of Artemis (1.21). ``kind``: as written; times in ms, ``forgets_ms`` -1 for never."""

    name: str
    at: Position
    kind: str
    address: str = ""
    timeout_ms: int = 5_000
    forgets_ms: int = -1
    reaper_ms: int = 30_000


class CacheEntry(Struct, frozen=True, kw_only=True):
    """The cache of a connection router. ``timeout_ms`` 0: for ever."""

    persisted: bool
    timeout_ms: int


class PoolEntry(Struct, frozen=True, kw_only=True):
    """The brokers that a connection router chooses from: one of ``connectors``, ``group`` and ``cluster`` is given."""

    user: str
    password: str
    check_ms: int
    quorum: int
    quorum_ms: int
    local: bool
    connectors: tuple[str, ...]
    group: str
    cluster: str


class RouterEntry(Struct, frozen=True, kw_only=True):
    """A connection router of Artemis (artemis.md 4.14). ``policy`` "": none; ``policy_value``: its one number."""

    name: str
    at: Position
    key: str
    key_filter: str = ""
    local_filter: str = ""
    policy: str = ""
    policy_value: int = 0
    cache: CacheEntry | None = None
    pool: PoolEntry | None = None


class Peering(Struct, frozen=True, kw_only=True):
    """All of one file. ``at``: where the broker has its name.

    ``chose_store``: the file itself names the directory of the store, by an absolute path. ``selectors``: something
    says that consumers have selectors. ``masked``: the password of the cluster is encrypted.
    ``redistributes``: patterns of addresses whose messages may move to other nodes again. ``hosted_scale_down``: what
    backups do that this node hosts.
    """

    at: Position = Position()
    listeners: tuple[ListenerEntry, ...] = ()
    advisories: bool = True
    chose_store: bool = False
    selectors: bool = False
    accounts: AccountsEntry | None = None
    replays: tuple[ReplayEntry, ...] = ()
    places: tuple[PlaceEntry, ...] = ()
    broadcasts: tuple[GroupEntry, ...] = ()
    discoveries: tuple[GroupEntry, ...] = ()
    clusters: tuple[ClusterEntry, ...] = ()
    bridges: tuple[BridgeEntry, ...] = ()
    part: PartEntry | None = None
    cluster_user: str = ""
    cluster_password: str = ""
    masked: bool = False
    redistributes: tuple[str, ...] = ()
    routers: tuple[RouterEntry, ...] = ()
    scale_down: ScaleDownEntry | None = None
    hosted_scale_down: ScaleDownEntry | None = None
    grouping: GroupingEntry | None = None
    flaws: tuple[Flaw, ...] = ()

    def reached_at(self) -> dict[str, str]:
        """Return where others find this broker, a URI for each cluster connection; of two with one name the first."""
        places = {one.name: one.uri for one in reversed(self.places)}
        return {one.name: places[one.connector] for one in reversed(self.clusters) if one.connector in places}
