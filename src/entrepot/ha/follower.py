"""One replica as its primary sees it, and what a primary asks of the world around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError
from entrepot.ha.catchup import CatchUp
from entrepot.ha.standing import RECEIVED
from entrepot.journal.inspect import Damage

CONNECTORS_MAX: Final = 16
CONNECTOR_MAX: Final = 1_000
"""Characters of a connector, which each client of CORE is told."""

Fetched = Callable[[bytes | EntrepotError], None]


class Stage(Enum):
    """How far a replica is."""

    COPYING = "copying"
    JOINING = "joining"
    PROMISING = "promising"
    RECORDING = "recording"
    IN_SYNC = "in sync"


class Link:
    """The connection to one replica."""

    def send(self, octets: bytes) -> None:
        """Have it sent behind all that was sent before."""
        raise NotImplementedError

    def close(self, why: str) -> None:
        """End it; `Replication.lost` need not be called."""
        raise NotImplementedError


class Host:
    """What the replication asks of its broker."""

    def record(self, serial: int, eligible: dict[str, int]) -> None:
        """Have ``eligible`` put into the lock's record; then call `Replication.recorded` with ``serial``."""
        raise NotImplementedError

    def say(self, text: str, *, loud: bool) -> None:
        """Tell the operator."""
        raise NotImplementedError

    def fetch(self, name: str, offset: int, length: int, then: Fetched) -> None:
        """Read away from the loop; later, in the order of the asking, call ``then`` on the loop with what there is.

        It holds all that was asked of the disk before, as `JournalPort.read` does, or is the error.
        """
        raise NotImplementedError

    def examine(self, name: str, then: Callable[[list[Damage]], None]) -> None:
        """Look away from the loop whether the checksums in a file are right; later call ``then`` with what is not.

        It sees all that was asked of the disk before, as `fetch` does.
        """
        raise NotImplementedError

    def asked_back(self, follower: Follower) -> None:
        """The broker of ``follower``, whose store it is, is in sync and wants to serve: asked again and again."""
        raise NotImplementedError


class Follower:
    """One replica, as its primary sees it. Numbers of syncs, octets, instants."""

    def __init__(self, link: Link, copy: str, name: str, now: Instant, catch_up: CatchUp) -> None:
        """``copy``: of its directory; ``name``: of its broker."""
        self.link: Final = link
        self.copy: Final = copy
        self.name: Final = name
        self.stage = Stage.COPYING
        self.catch_up = catch_up  # a `Comparison` while it is in sync and that is to be seen
        self.sent = 0
        self.taken = 0
        self.synced = -1
        self.received = -1
        self.join = 0  # the sync that it must have before it counts
        self.heard: Instant = now
        self.owes: Instant = -1  # since when it owes the answer to a sync
        self.pinged: Instant = now
        self.since: Instant = -1  # it is in sync since then
        self.owns = False  # the store is its broker's, by the configuration
        self.gives_back = False  # it would give the store back to who is primary by the configuration
        self.connectors: Mapping[str, str] = {}  # where clients of CORE find it when it serves, by cluster connection
        self.allowed = 0.0
        self.allowed_at: Instant = now

    @property
    def counts(self) -> bool:
        """Say whether confirmations wait for it."""
        return self.stage is not Stage.COPYING

    def reached(self, confirm: str) -> int:
        """Return up to which sync it has what is needed."""
        return self.received if confirm == RECEIVED else self.synced

    def introduced(self, facts: Mapping[str, Any]) -> None:
        """Take what its greeting says of its broker; of what an older one does not say, the default stands."""
        self.owns = facts.get("owns") is True
        self.gives_back = facts.get("gives_back") is True
        said = facts.get("connectors")
        if isinstance(said, dict):
            known = {str(name): str(uri) for name, uri in list(said.items())[:CONNECTORS_MAX]}
            self.connectors = {name: uri for name, uri in known.items() if len(uri) <= CONNECTOR_MAX}

    def send(self, octets: bytes) -> None:
        """Send one frame."""
        self.sent += len(octets)
        self.link.send(octets)
