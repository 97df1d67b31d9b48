"""What a simulated primary reads for its replicas: at some moment, told at another, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND
from entrepot.base.errors import EntrepotError
from entrepot.ha.follower import Fetched
from entrepot.simulation.disk import SimulatedDisk
from entrepot.simulation.shared import Process


class Reads:
    """Those of one tenure. ``wanted``: says whether anybody still wants to be told."""

    def __init__(self, process: Process, disk: SimulatedDisk, wanted: Callable[[], bool]) -> None:
        self._process: Final = process
        self._disk: Final = disk
        self._wanted: Final = wanted
        self._waiting: list[tuple[str, int, int, Fetched]] = []

    def fetch(self, name: str, offset: int, length: int, then: Fetched) -> None:
        """Have a piece of a file read; ``then`` is told."""
        self._waiting.append((name, offset, length, then))
        if len(self._waiting) == 1:
            self._read_next()

    def _read_next(self) -> None:
        self._process.later(self._process.lots.skewed(20 * MICROSECOND, 50 * MILLISECOND), self._read)

    def _read(self) -> None:
        name, offset, length, then = self._waiting[0]
        found: bytes | EntrepotError
        try:
            found = self._disk.read(name, offset, length)
        except EntrepotError as error:
            found = error
            found.__cause__ = FileNotFoundError(name)

        def tell() -> None:
            del self._waiting[0]
            if self._waiting:
                self._read_next()
            if self._wanted():
                then(found)

        self._process.later(self._process.lots.skewed(20 * MICROSECOND, 50 * MILLISECOND), tell)
