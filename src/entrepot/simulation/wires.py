"""Connections between the members of a replicated store: in order, late, cut in one direction or both, reset."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import MICROSECOND, MILLISECOND
from entrepot.simulation.world import Lots, World


class End:
    """One end of a connection: ``take`` gets what the other side sent, ``lost`` is called once when it is over."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.take: Callable[[bytes], None] = _ignore
        self.lost: Callable[[str], None] = _ignore_text


class Wire:
    """One connection. A cut direction holds what is sent, as TCP does, until it is mended or somebody gives up."""

    def __init__(self, network: Network, left: End, right: End) -> None:
        self.network = network
        self.ends = {left.owner: left, right.owner: right}
        self.over = False
        self._due = {left.owner: 0, right.owner: 0}
        self._queues: dict[str, list[bytes]] = {left.owner: [], right.owner: []}

    def send(self, sender: str, octets: bytes) -> None:
        """Have ``octets`` arrive at the other end, behind what was sent before."""
        if self.over:
            return
        other = self._other(sender)
        self._queues[other.owner].append(octets)
        if len(self._queues[other.owner]) == 1:
            self._arrive_later(sender, other)

    def _other(self, owner: str) -> End:
        return next(end for name, end in self.ends.items() if name != owner)

    def _arrive_later(self, sender: str, other: End) -> None:
        world, lots = self.network.world, self.network.lots
        delay = lots.skewed(20 * MICROSECOND, 5 * MILLISECOND)

        def arrive() -> None:
            if self.over:
                return
            if (sender, other.owner) in self.network.cut:
                world.later(50 * MILLISECOND, arrive)
                return
            queue = self._queues[other.owner]
            octets = b"".join(queue)
            queue.clear()
            other.take(octets)

        world.later(delay, arrive)

    def close(self, by: str) -> None:
        """``by`` lets go; the other end gets what was sent before, and learns of it, if anything of it arrives."""
        if self.over:
            return
        self.over = True
        other = self._other(by)
        rest = b"".join(self._queues[other.owner])

        def end() -> None:
            if rest:
                other.take(rest)
            other.lost("closed")

        if (by, other.owner) not in self.network.cut:
            self.network.world.later(self.network.lots.skewed(MICROSECOND, MILLISECOND), end)

    def reset(self) -> None:
        """Something between them ends it."""
        if not self.over:
            self.over = True
            for end in self.ends.values():
                end.lost("reset")


class Network:
    """All connections. ``cut``: (from, to) that nothing passes."""

    def __init__(self, world: World, lots: Lots) -> None:
        self.world = world
        self.lots = lots
        self.cut: dict[tuple[str, str], bool] = {}
        self.wires: list[Wire] = []

    def connect(self, left: End, right: End) -> Wire:
        """Return a new connection."""
        self.wires = [wire for wire in self.wires if not wire.over]
        wire = Wire(self, left, right)
        self.wires.append(wire)
        return wire


def _ignore(_octets: bytes) -> None:
    """Nobody listens."""


def _ignore_text(_why: str) -> None:
    """Nobody cares."""
