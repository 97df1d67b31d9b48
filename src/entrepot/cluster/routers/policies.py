"""Which of several brokers gets a client (artemis.md 4.14)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Protocol

from entrepot.cluster.routers.keys import hash_of
from entrepot.cluster.routers.options import PolicyKind, PolicyOptions

UNKNOWN: Final = -1
MANY: Final = 1 << 31


class Choosable(Protocol):
    """One broker. ``connections``: how many it said that it has, `UNKNOWN` before that."""

    @property
    def node(self) -> str:
        """Its id."""

    @property
    def connections(self) -> int:
        """How many connections it has."""


class Policy:
    """One router's, with its turn."""

    def __init__(self, options: PolicyOptions) -> None:
        self.options: Final = options
        self._turn = 0

    def choose(self, targets: Sequence[Choosable], key: str) -> Choosable | None:
        """Return one of ``targets``; None where there is none, and by MODULO, which chooses nobody."""
        kind = self.options.kind
        if not targets or kind is PolicyKind.CONSISTENT_HASH_MODULO:
            return None
        if kind is PolicyKind.FIRST_ELEMENT:
            return targets[0]
        if kind is PolicyKind.CONSISTENT_HASH:
            return by_hash(targets, key)
        if kind is PolicyKind.LEAST_CONNECTIONS:
            counts = [self._counted(one) for one in targets]
            least = min(counts)
            targets = [one for one, count in zip(targets, counts, strict=True) if count == least]
        chosen = targets[self._turn % len(targets)]
        self._turn += 1
        return chosen

    def _counted(self, target: Choosable) -> int:
        count = target.connections
        if count == UNKNOWN:
            return MANY
        return 0 if count < self.options.threshold else count


def by_hash(targets: Sequence[Choosable], key: str) -> Choosable:
    """Return the target whose hash is the greatest that is not above that of ``key``; else the first of the circle."""
    circle = {hash_of(one.node): one for one in targets}
    places = sorted(circle)
    at = bisect_right(places, hash_of(key))
    return circle[places[at - 1 if at > 0 else 0]]
