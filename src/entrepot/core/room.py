"""Room for copies: what one message in memory may become on its way to many readers at once. [C]

A body that is held whole is written whole, once for each connection that gets it. One subscription more costs nothing
while bodies are short; 50 MiB for thirty of them were 3 GB, and five seconds in which nobody else was served. So a long
one leaves over several turns, and none is begun while peers leave too much unread (`core/queue/copying.py`).
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.effort import Effort, Rest


class Room:
    """Knows what peers leave unread: ``unread`` octets of all connections together, ``most`` for another copy."""

    def __init__(self, effort: Effort, most: i64) -> None:
        self.effort: Effort = effort
        self.most: i64 = most
        self.unread: i64 = 0
        self.waiting: list[Rest] = []

    def is_there(self) -> bool:
        """Return whether another copy may be made."""
        return self.unread <= self.most

    def wait(self, rest: Rest) -> None:
        """Let ``rest`` go on when there is room."""
        self.waiting.append(rest)

    def left(self, unread: i64) -> None:
        """All peers together leave so many octets unread now."""
        self.unread = unread
        if self.waiting and self.is_there():
            for rest in self.waiting:
                self.effort.later(rest)
            self.waiting.clear()
