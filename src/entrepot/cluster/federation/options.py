"""What a federation is to do: its upstreams, and the policies that say what is fetched over each. Only data."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from entrepot.base.environment import SECOND, Duration
from entrepot.base.settings import Unit, setting
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.terms import Supervised
from entrepot.model.headers import Headers

ANY_HOPS: Final = -1
LOWER: Final = -1  # the priority-adjustment of a queue policy that says none
HOUR_MS: Final = 3_600_000


class UpstreamOptions(Supervised, frozen=True):
    """One ``<upstream>``, as its file writes it."""

    name: str = setting("", artemis="name", about="unique in its federation; part of the names of queues there")
    user: str = setting("", artemis="user", about="as whom; without one, the user of the federation")
    password: str = setting("", artemis="password", secret=True, about="the proof")
    priority: int = setting(
        0, low=-1e9, high=1e9, artemis="priority-adjustment", about="added to the priority of consumers there"
    )
    ha: bool = setting(False, artemis="ha", about="whether the backup of the upstream is dialled, too")
    retry_interval: Duration = SECOND // 2
    call_timeout: Duration = setting(
        30 * SECOND, unit=Unit.DURATION, artemis="call-timeout", about="longest that the upstream may take to greet"
    )


class Match(Struct, frozen=True):
    """One ``<include>`` or ``<exclude>``: patterns, "" for any."""

    address: str = ""
    queue: str = ""


class QueuePolicy(Struct, frozen=True, kw_only=True):
    """Which queues are fetched from. ``federated``: consumers that another federation has here count, too.

    ``selectors``: only what the consumers let through is fetched. ``priorities``: those of the consumers count;
    ``keeps``: those of another federation's are kept as they are: two that count each other's would go down for ever.
    ``headers``: properties that are set on what comes.
    """

    name: str
    priority: int = LOWER
    federated: bool = False
    selectors: bool = True
    priorities: bool = True
    keeps: bool = False
    includes: tuple[Match, ...] = ()
    excludes: tuple[Match, ...] = ()
    headers: Headers = ()


class AddressPolicy(Struct, frozen=True, kw_only=True):
    """Which addresses are fetched from. ``max_hops`` -1: messages may have come any way.

    ``auto_delete``, ``auto_delete_delay_ms``, ``auto_delete_messages``: of the queue at the upstream, when nobody reads
    it any more; -1 messages: whatever waits in it. ``diverts``: a divert makes its address wanted while its target is.
    ``headers``: properties that are set on what comes.
    """

    name: str
    max_hops: int = 0
    auto_delete: bool = True
    auto_delete_delay_ms: int = HOUR_MS
    auto_delete_messages: int = -1
    diverts: bool = False
    includes: tuple[Match, ...] = ()
    excludes: tuple[Match, ...] = ()
    headers: Headers = ()


class UpstreamEntry(Struct, frozen=True, kw_only=True):
    """One upstream of one federation, its names looked up. ``places``: of its connectors, in their order.

    ``group``: the name of the discovery group where its places are heard, instead; "" for none. ``brought``: where the
    broker is that deployed it here; "": it is of the file.
    """

    federation: str
    options: UpstreamOptions
    places: tuple[Endpoint, ...] = ()
    group: str = ""
    queues: tuple[QueuePolicy, ...] = ()
    addresses: tuple[AddressPolicy, ...] = ()
    brought: str = ""

    @property
    def name(self) -> str:
        """What tells it from all others of its broker."""
        name = f"{self.federation}/{self.options.name}"
        return f"{name}@{self.brought}" if self.brought else name


class DownstreamEntry(UpstreamEntry, frozen=True, kw_only=True):
    """A broker to which an upstream is deployed, and what it is to do. ``back``: where that upstream, this broker, is.

    ``connector``: the name of the connector that says so. ``places`` and ``group``: where the other broker is.
    """

    back: Endpoint
    connector: str

    @property
    def name(self) -> str:
        """What tells it from all others of its broker: an upstream may be called the same."""
        return f"{self.federation}/downstream/{self.options.name}"


class FederationEntries(Struct, frozen=True, kw_only=True):
    """All federations of a configuration. ``deployers``: roles whose users may deploy one to this broker."""

    upstreams: tuple[UpstreamEntry, ...] = ()
    downstreams: tuple[DownstreamEntry, ...] = ()
    deployers: tuple[str, ...] = ()
