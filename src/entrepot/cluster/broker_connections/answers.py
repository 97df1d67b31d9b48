"""What the peer of a connection over AMQP says, or does not, of links and messages: when to ask again, and why. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Duration, Instant
from entrepot.protocols.session import NEVER


class Refusals:
    """Links that the peer refused, or that cannot be now. ``due``: when each is asked for again; ``whys``: why."""

    def __init__(self) -> None:
        self.due: dict[str, Instant] = {}
        self.whys: dict[str, str] = {}

    def add(self, key: str, why: str, due: Instant) -> bool:
        """A link is not there; return whether that is news."""
        self.due[key] = due
        is_news = self.whys.get(key) != why
        self.whys[key] = why
        return is_news

    def forget(self, key: str) -> None:
        """It is there, or nobody wants it any more."""
        self.due.pop(key, None)
        self.whys.pop(key, None)

    def why(self, key: str) -> str:
        """Return why a link that is wanted is not there; "" where nothing is against it."""
        return self.whys.get(key, "")


class Unanswered:
    """Links that the peer has not answered. ``due``: when it is given up, unless it answers one before."""

    def __init__(self, patience: Duration) -> None:
        self.patience: Final = patience
        self.due: Instant = NEVER
        self._keys: Final[dict[str, None]] = {}

    def add(self, key: str, now: Instant) -> None:
        """A link was asked for."""
        if not self._keys:
            self.due = now + self.patience
        self._keys[key] = None

    def answered(self, key: str, now: Instant) -> None:
        """It is there, or refused: the peer has time for the next one."""
        if self._keys.pop(key, 1) is None:
            self.due = now + self.patience if self._keys else NEVER

    def forget(self) -> None:
        """The connection is gone, and all of them with it."""
        self._keys.clear()
        self.due = NEVER

    def first(self) -> str:
        """Return the one that was asked for before all others."""
        return next(iter(self._keys), "")


class Parked:
    """How many messages of an address were parked since the connection began, and why the last one was."""

    def __init__(self) -> None:
        self.count: int = 0
        self.why: str = ""

    def add(self, why: str) -> None:
        """One more."""
        self.count += 1
        self.why = why
