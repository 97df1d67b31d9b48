"""Each message of stores that are copied from node to node, in the seeded world, and what a store knows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.simulation.kept import Kept
from entrepot.simulation.wires import Network
from entrepot.simulation.world import World


class Ledger:
    """Each message of all stores, by what it was when it was first confirmed."""

    def __init__(self, violation: Callable[[str], None]) -> None:
        self.confirmed: dict[str, bool] = {}
        self.delivered: dict[str, int] = {}
        self.asked: dict[str, bool] = {}  # a reader settled it, whether he was told or not
        self.doubted: dict[str, bool] = {}  # may be in two stores
        self._violation: Final = violation

    def deliver(self, identity: str) -> None:
        """A reader is told that it is settled."""
        self.delivered[identity] = self.delivered.get(identity, 0) + 1
        if self.delivered[identity] > 1 and identity not in self.doubted:
            self._violation(f"{identity} is delivered for the {self.delivered[identity]}. time")

    def missing(self) -> list[str]:
        """Return what was confirmed and never came."""
        return [each for each in self.confirmed if each not in self.delivered and each not in self.asked]


class OneStore(Kept):
    """That of the node ``name``. ``text``: its identity, "" before its first primary; ``drains``: what a backup takes
    over goes to a node."""

    def __init__(self, world: World, planted: str, name: str, network: Network, ledger: Ledger) -> None:
        super().__init__(world, planted, label=f"{name}/", network=network)
        self.name: Final = name
        self.ledger: Final = ledger
        self.text = ""
        self.drains = False
        self.came: dict[int, str] = {}  # number here -> what it was in another store
        self.moving: dict[int, str] = {}  # whose way to another store began, and the node that gives it away

    def identity_of(self, number: int) -> str:
        """Return what a message was first."""
        return self.came.get(number, f"{self.name}:{number}")
