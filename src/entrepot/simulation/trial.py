"""A run of one seed through a simulated network: what goes wrong in it is a finding, never the end of the campaign."""

from __future__ import annotations

import traceback
from typing import Final

from entrepot.simulation.world import World


class Trial:
    """What all such runs have. ``wrong``: what went wrong so far, each with the ``title`` of the run before it."""

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self.wrong: list[str] = []

    @property
    def title(self) -> str:
        """Name it, for findings."""
        raise NotImplementedError

    def run(self) -> list[str]:
        """Return what went wrong."""
        try:
            self._live()
        except Exception as error:  # a fault of the product or of the simulation: either is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            self._fault(f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
        return self.wrong

    def _fault(self, text: str) -> None:
        self.wrong.append(f"{self.title}: {text}")
        self.world.note(f"WRONG {text}")

    def _live(self) -> None:
        raise NotImplementedError
