"""Somebody in the seeded world who is told once that something is kept."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.errors import EntrepotError
from entrepot.journal.log import Waiter


class Told(Waiter):
    """``then`` is called when it is."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then = then

    def stored(self, token: bytes) -> None:
        """It is."""
        self.then()

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It may be, or not."""
