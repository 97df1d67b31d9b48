"""The federations of one broker: what it fetches from, to whom its own are brought, and what others brought here.

Few brokers have any: what carries them out is loaded by the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import ShuttingDown
from entrepot.cluster.fetching import replaced

if TYPE_CHECKING:
    from entrepot.base.environment import Instant
    from entrepot.cluster.federation.connector import FederationConnector
    from entrepot.cluster.federation.downstream import DownstreamConnector
    from entrepot.cluster.federation.options import FederationEntries
    from entrepot.cluster.fetching import Fetcher


class Federations:
    """``deployed``: upstreams that other brokers brought. ``begin`` starts one, while bridges may be dialled."""

    def __init__(self, entries: FederationEntries | None) -> None:
        self.upstreams: Final[list[FederationConnector]] = []
        self.downstreams: Final[list[DownstreamConnector]] = []
        self.deployed: Final[list[FederationConnector]] = []
        self.begin: Callable[[FederationConnector], None] | None = None
        if entries is not None:
            self.follow(entries, 0)

    def fetchers(self) -> list[Fetcher]:
        """Return all of them."""
        return [*self.upstreams, *self.downstreams, *self.deployed]

    def sources(self) -> list[FederationConnector]:
        """Return those that fetch messages to this broker."""
        return [*self.upstreams, *self.deployed]

    def heard(self) -> list[FederationConnector | DownstreamConnector]:
        """Return those of the file, whose places discovery groups may tell."""
        return [*self.upstreams, *self.downstreams]

    def deploy(self, upstream: FederationConnector) -> None:
        """Start an upstream that another broker brought. Raises ShuttingDown."""
        if self.begin is None:
            raise ShuttingDown("the broker dials nobody now")
        self.begin(upstream)

    def follow(self, entries: FederationEntries, now: Instant) -> list[Fetcher]:
        """Have ``entries`` in place of what the file said before; return what is new, and to be started."""
        new: list[Fetcher] = []
        if entries.upstreams or self.upstreams:
            from entrepot.cluster.federation.connector import FederationConnector  # noqa: PLC0415 - see above

            new += replaced(self.upstreams, entries.upstreams, FederationConnector, now)
        if entries.downstreams or self.downstreams:
            from entrepot.cluster.federation.downstream import DownstreamConnector  # noqa: PLC0415 - see above

            new += replaced(self.downstreams, entries.downstreams, DownstreamConnector, now)
        return new
