"""A network of brokers as its configurations describe it, whichever family's files those are.

`Member` is a broker, `Channel` what it declares towards others (a network connector, a cluster connection, a core
bridge), and `Link` one direction between two brokers that follows from a channel: a duplex channel makes two. Two
members that share a store are a pair: one of them serves, so they are one `Node` of the network.

Data only; who fills it is `survey.py`, who judges it are `rules.py` and its neighbours.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from entrepot.config.findings import Severity
from entrepot.config.model import IncludedDestination
from entrepot.config.peering import BridgeEntry

FOREVER: Final = -1
ANY_HOST: Final = ("0.0.0.0", "::", "*", "")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
OPENWIRE: Final = "openwire"
AUTO: Final = "auto"
WEB: Final = ("http", "https")
EVERYTHING: Final = ("#", ">")


class Spot(Struct, frozen=True):
    """Where something is said: for findings."""

    file: str = ""
    line: int = 0
    path: str = ""


class Listener(Struct, frozen=True, kw_only=True):
    """One place where a broker listens. ``groups``: multicast groups that it announces this place in."""

    name: str
    host: str
    port: int
    protocol: str
    secure: bool = False
    core: bool = False  # speaks the protocol of Artemis' clusters
    audits: bool = True  # drops what a bridge of ours sends again
    frame_max: int = 0  # octets of the largest frame that it takes; 0: not known
    tells_clients: bool = False  # updateClusterClients: its clients are told of the other brokers
    groups: tuple[str, ...] = ()
    spot: Spot = Spot()

    @property
    def text(self) -> str:
        """Where it is, for people."""
        return f"{self.host or '*'}:{self.port}"

    @property
    def bridged(self) -> bool:
        """Whether a bridge can talk to it."""
        return self.protocol in (OPENWIRE, AUTO, *WEB)


class Address(Struct, frozen=True, kw_only=True):
    """One place that a channel dials."""

    host: str
    port: int
    secure: bool = False
    web: bool = False  # by http: or https:

    @property
    def text(self) -> str:
        """Where it is, for people."""
        return f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether it is on the machine of whoever dials it."""
        return self.host.lower() in LOOPBACK or self.host.startswith("127.")


class CoreBridge(Struct, frozen=True, kw_only=True):
    """A ``<bridge>`` of Artemis: it takes from a queue and sends on, asked or not. ``entry``: what the file says.

    ``source``: the address of its queue, "" where the file does not say. ``defined``: the queue is one of the file.
    ``user``: as whom it signs in, "" as the default user.
    """

    entry: BridgeEntry
    source: str = ""
    defined: bool = True
    user: str = ""

    @property
    def target(self) -> str:
        """The address at the far side, where the file says it."""
        return self.entry.forwards or self.source


class Channel(Struct, frozen=True, kw_only=True):
    """What a broker declares towards others. ``targets``: one bridge each, with the places that it may be found at.

    ``scheme``: how brokers are found. ``given``: the attributes that the file itself gives; the others have defaults
    that differ between releases. ``nested_failover``: a target is ``failover:`` whose bridge would hide a change.

    ``cluster``: it is a cluster connection of Artemis. Its max-hops is how far demand travels, ``consumer_ttl``, and
    messages have no limit of their own. ``direct``: it links only whom it names, not whom those know.

    ``bridge``: it is a core bridge. It has no TTL of any kind, and of its targets there is one, found at any place.
    """

    name: str
    spot: Spot
    uri: str = ""
    scheme: str = "static"
    targets: tuple[tuple[Address, ...], ...] = ()
    groups: tuple[str, ...] = ()
    nested_failover: bool = False
    duplex: bool = False
    conduit: bool = True
    dynamic_only: bool = False
    static_only: bool = False
    temporary: bool = True
    message_ttl: int = 1
    consumer_ttl: int = 1
    decreases_priority: bool = False
    suppresses_queues: bool = False
    suppresses_topics: bool = True
    virtual_demand: bool = False
    syncs_durables: bool = False
    always_sync: bool = True
    destination_filter: str = ""
    user: str = ""
    password: str = ""
    remote_user: str = ""
    remote_password: str = ""
    excluded: tuple[IncludedDestination, ...] = ()
    included: tuple[IncludedDestination, ...] = ()
    static: tuple[IncludedDestination, ...] = ()
    given: tuple[str, ...] = ()
    cluster: bool = False
    direct: bool = False
    balancing: str = ""
    deduplicates: bool = True
    checks_duplicates: bool = True  # of what comes back over a duplex connector
    bridge: CoreBridge | None = None

    @property
    def kind(self) -> str:
        """What its family calls it."""
        if self.bridge is not None:
            return "bridge"
        return "cluster-connection" if self.cluster else "connector"

    @property
    def core(self) -> bool:
        """Whether it is of Artemis, and speaks CORE."""
        return self.cluster or self.bridge is not None

    @property
    def hops(self) -> tuple[int, int]:
        """The two TTLs: of messages, and of demand."""
        return self.message_ttl, self.consumer_ttl


class Accounts(Struct, frozen=True, kw_only=True):
    """Who may connect. ``users``: name -> password; ``complete``: there are no others (not, with JAAS).

    ``deaf``: users who may not hear of consumers, which a bridge must.
    """

    users: dict[str, str] = {}
    deaf: tuple[str, ...] = ()
    anonymous: bool = False
    complete: bool = True
    spot: Spot = Spot()


class Replay(Struct, frozen=True, kw_only=True):
    """A policy that lets queue messages go back. ``audited``: Classic would take what returns for a duplicate."""

    pattern: str
    audited: bool
    spot: Spot = Spot()


class Group(Struct, frozen=True, kw_only=True):
    """A broadcast group or a discovery group. ``period_ms``: between announcements, or after which one is forgotten."""

    name: str
    place: str  # where the datagrams go: address and port, or a channel of JGroups
    period_ms: int
    spot: Spot = Spot()


class Deciding(Struct, frozen=True, kw_only=True):
    """The grouping handler of a broker. ``kind``: LOCAL, REMOTE, or what else is written; ms, -1 for never."""

    kind: str
    forgets_ms: int
    spot: Spot


class Clustering(Struct, frozen=True, kw_only=True):
    """What a broker of Artemis says about its cluster. Names that lead nowhere, and names given twice, are issues.

    ``user``, ``password``: of the cluster, empty where the file gives none. ``announced``: how others shall reach it,
    for each cluster connection. ``redistributes``: patterns of addresses whose messages may move again.
    """

    user: str = ""
    password: str = ""
    masked: bool = False  # the password is encrypted: two that differ may be one
    announced: tuple[tuple[str, Address, Spot], ...] = ()
    broadcasts: tuple[Group, ...] = ()
    discoveries: tuple[Group, ...] = ()
    redistributes: tuple[str, ...] = ()
    checked_too_late: tuple[Spot, ...] = ()  # connection-ttl is not above check-period
    grouping: Deciding | None = None
    spot: Spot = Spot()

    @property
    def redistributes_all(self) -> bool:
        """Whether the messages of every address may move again."""
        return any(pattern in EVERYTHING for pattern in self.redistributes)


class Part(Struct, frozen=True, kw_only=True):
    """How a broker of Artemis stands in for another. ``replicates``: it copies the store instead of sharing it."""

    backup: bool
    replicates: bool = False
    group: str = ""
    peers: str = ""  # primaries with this id take turns
    quorum: int = -1  # votes that are asked for
    spot: Spot = Spot()


class Order(Struct, frozen=True):
    """A divert: what comes to ``address`` goes to ``target`` too. ``filtered``: some of it."""

    address: str
    target: str
    filtered: bool = False


class Issue(Struct, frozen=True):
    """Something that is wrong, or should be known."""

    severity: Severity
    spot: Spot
    what: str
    remedy: str = ""


class Member(Struct, frozen=True, kw_only=True):
    """One broker, as one file describes it. ``store``: its directory, "" where nothing is kept."""

    name: str
    file: str
    spot: Spot = Spot()
    host: str = ""  # the machine, where somebody said so
    store: str = ""
    shares_store: bool = True  # a second broker waits for the store instead of being refused
    chose_store: bool = False  # the file names the directory itself, not one below where ActiveMQ happens to be
    advisories: bool = True
    virtual_topics: bool = True
    virtual_demand: bool = False  # announces consumers of virtual destinations
    selectors: bool = False  # something in the file says that consumers have selectors
    accounts: Accounts | None = None  # None: everybody may connect
    replays: tuple[Replay, ...] = ()
    listeners: tuple[Listener, ...] = ()
    channels: tuple[Channel, ...] = ()
    clustering: Clustering | None = None
    part: Part | None = None
    bound: tuple[tuple[str, str], ...] = ()  # of Artemis: each queue of the file, and its address
    orders: tuple[Order, ...] = ()
    issues: tuple[Issue, ...] = ()  # found while its file was read


class Node(Struct, frozen=True):
    """One place in the network: a broker, or a pair. ``outside``: it is dialled, and no file describes it."""

    name: str
    members: tuple[int, ...] = ()
    outside: str = ""


class Link(Struct, frozen=True):
    """Messages flow from the node ``source`` to the node ``target``; ``back``: over the connection of a duplex."""

    source: int
    target: int
    channel: Channel
    owner: int  # the member that declares the channel
    back: bool = False


class Network(Struct, frozen=True, kw_only=True):
    """All of it. ``issues``: what was found while it was put together.

    ``meant``: for a member and the name of its channel, the nodes of the places of each target.
    """

    members: tuple[Member, ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    issues: tuple[Issue, ...] = ()
    meant: dict[tuple[int, str], tuple[tuple[int, ...], ...]] = {}

    def node_of(self, member: int) -> int:
        """Return the node of a member."""
        return next(number for number, node in enumerate(self.nodes) if member in node.members)
