"""A replica at the end of its primary, in the seeded world: what `io/replicating.py` has for a connection."""

from __future__ import annotations

from typing import Protocol

from entrepot.base.environment import Instant
from entrepot.base.errors import Refused
from entrepot.ha.follower import Follower, Link
from entrepot.ha.replication import Replication
from entrepot.ha.stream import REFUSED, Frame, Frames, encode
from entrepot.simulation.wires import Wire


class Broker(Protocol):
    """Whose process it is."""

    @property
    def name(self) -> str:
        """What it is called."""

    def now(self) -> Instant:
        """Return the time on its clock."""


class Serving(Protocol):
    """The primary."""

    @property
    def copy(self) -> Broker:
        """Its broker."""

    @property
    def replication(self) -> Replication:
        """All its replicas."""

    @property
    def open(self) -> bool:
        """Whether it has begun."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""


class Greeted(Link):
    """The primary's end of one connection."""

    def __init__(self, primary: Serving, wire: Wire) -> None:
        self.primary = primary
        self.wire = wire
        self.frames = Frames()
        self.follower: Follower | None = None

    def take(self, octets: bytes) -> None:
        """Octets of the replica."""
        primary = self.primary
        if primary.over or not primary.open:
            return
        now = primary.copy.now()
        frames = self.frames.feed(octets)
        if self.follower is None and frames:
            try:
                self.follower = primary.replication.greeted(self, frames.pop(0).facts(), now)
            except Refused as error:
                self.send(encode(Frame(REFUSED, octets=error.message.encode())))
                return
        if self.follower is not None:
            primary.replication.take(self.follower, frames, now)

    def lost(self, why: str) -> None:
        """The connection is over."""
        if self.follower is not None and self.primary.open:
            self.primary.replication.lost(self.follower, why, self.primary.copy.now())

    def send(self, octets: bytes) -> None:
        """Have it sent."""
        self.wire.send(self.primary.copy.name, octets)

    def close(self, why: str) -> None:
        """End it."""
        self.wire.close(self.primary.copy.name)
