"""Room for copies: what one message in memory may become on its way to many readers at once. [C]

A body that is held whole is written whole, once for each connection that gets it. One subscription more costs nothing
while bodies are short; 50 MiB for thirty of them were 3 GB, and five seconds in which nobody else was served. So a long
one leaves over several turns, and none is begun while peers leave too much unread (`core/queue/copying.py`).

Peers that never read must not keep others from their messages: whoever waits gets his copy all the same when it is
time, one of them every `PATIENCE`. A peer that has one gets no other before he has read it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import SECOND, Instant
from entrepot.core.effort import Effort, Rest

PATIENCE: Final = 1 * SECOND
UNREAD_SHARE: Final = 4  # one in so many octets of the memory limit may be unread before long copies wait


class Room:
    """Knows what peers leave unread: ``unread`` octets of all connections together, ``most`` for another copy."""

    def __init__(self, effort: Effort, memory_limit: i64) -> None:
        self.effort: Effort = effort
        self.most: i64 = memory_limit // UNREAD_SHARE
        self.unread: i64 = 0
        self.waiting: list[Rest] = []
        self.overdue: i64 = 0  # copies that may be made all the same
        self.due: i64 = 0  # when the last of those who wait gets his

    def limit(self, memory_limit: i64) -> None:
        """All messages in memory may cost ``memory_limit`` octets from now on."""
        self.most = memory_limit // UNREAD_SHARE

    def is_there(self) -> bool:
        """Return whether another copy may be made."""
        return self.unread <= self.most

    def take(self) -> bool:
        """Return whether somebody who waited may make a copy now."""
        if self.unread <= self.most:
            return True
        if self.overdue == 0:
            return False
        self.overdue -= 1
        return True

    def wait(self, rest: Rest, now: Instant) -> Instant:
        """Let ``rest`` go on when there is room; return when to call `hurry` for it if there was none until then."""
        self.waiting.append(rest)
        self.due = max(self.due, now) + PATIENCE
        return int(self.due)

    def hurry(self, rest: Rest) -> None:
        """Its time has come: let ``rest`` go on, if it still waits."""
        if rest in self.waiting:
            self.waiting.remove(rest)
            self.overdue += 1
            self.effort.later(rest)

    def left(self, unread: i64) -> None:
        """All peers together leave so many octets unread now."""
        self.unread = unread
        if unread > self.most:
            return
        self.overdue = 0
        self.due = 0
        for rest in self.waiting:
            self.effort.later(rest)
        self.waiting.clear()
