"""When a broker that serves gives the store to the primary that is back: decided here, carried out as a stop in order.

Where the store is shared, a request counts once it was seen to change (`Heard`): a primary that asked and died leaves
its request behind, and a backup that obeyed it would hand the store to nobody.

Where each broker has a copy, the primary must be in sync, and stay so for a while (`Returns`): each time moves all
clients, and a primary that dies again and again is not worth that. So the while doubles with each time, and after
`RETURNS_MAX` times within `REMEMBERED` it is given nothing: the backup goes on until the first of them is forgotten,
or an operator demotes it. The times are in the standing of the copy, so a process that ends forgets none. Nothing
that is confirmed depends on this: who may be primary is decided by the lock and by who is in its record.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant, WallTime
from entrepot.ha.standing import Standing

STEADY: Final[Duration] = 10 * SECOND
"""In sync for so long before the first return: two leases, so a primary that starts and falls over is seen to."""

RETURNS_MAX: Final = 5
"""Times within `REMEMBERED`; before the last of them the primary was in sync for 16 times `STEADY`."""

REMEMBERED: Final[Duration] = 24 * 3600 * SECOND


class Heard:
    """The side of the backup. Call `look` with what stands in the request each time that the lease is renewed."""

    def __init__(self) -> None:
        self._seen: tuple[str, int] | None = None

    def look(self, request: tuple[str, int] | None) -> bool:
        """Return whether the same asker has asked again since the last look; ``request``: instance and count."""
        before, self._seen = self._seen, request
        if before is None or request is None:
            return False
        return before[0] == request[0] and request[1] > before[1]


class Returns:
    """Of one broker with a copy, while it serves. ``standing`` is changed by `note` alone; put it on disk then."""

    def __init__(
        self,
        standing: Standing,
        *,
        allowed: bool,
        steady: Duration = STEADY,
        most: int = RETURNS_MAX,
        remembered: Duration = REMEMBERED,
    ) -> None:
        """``allowed``: the store is given back at all; the rest as above."""
        self.standing: Final = standing
        self.allowed: Final = allowed
        self.steady: Final = steady
        self.most: Final = most
        self.remembered: Final = remembered
        self.over = False  # it is being given back

    def recent(self, wall: WallTime) -> list[WallTime]:
        """Return when it was given back, as far as that counts. A clock that was set back makes nothing older."""
        kept = [min(each, wall) for each in self.standing.returned]
        return [each for each in kept if wall - each < self.remembered // MILLISECOND]

    def due(self, since: Instant, now: Instant, wall: WallTime) -> bool:
        """Say whether to give it back now to a primary that asks, and is in sync ``since``; -1: it is not."""
        if not self.allowed or self.over or since < 0:
            return False
        before = len(self.recent(wall))
        return before < self.most and now - since >= self.steady << before

    def note(self, wall: WallTime) -> None:
        """It is given back."""
        self.over = True
        self.standing.returned = [*self.recent(wall), wall]

    def withheld(self, wall: WallTime) -> str:
        """Return why a primary in sync gets nothing for now, for operators; "" where it gets the store, or never."""
        if not self.allowed or self.over or len(self.recent(wall)) < self.most:
            return ""
        hours = self.remembered // (3600 * SECOND)
        return f"it was given back {self.most} times within {hours} h; `entrepot ha demote` does it all the same"
