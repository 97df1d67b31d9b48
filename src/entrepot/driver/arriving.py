"""AvailableNow of a reader that is demand: bridges bring what there is, and nobody says how much that is.

What has come is a batch when it fills one, when nothing more comes for a moment, or after a while; so rows land while
others are still on their way. All has come when nothing did for a longer time and every bridge is open.
"""

from __future__ import annotations

from typing import Final

PAUSE: Final = 0.5  # s without a new message after which what has come is a batch
BATCH: Final = 10.0  # s after which it is one in any case
LOOK: Final = 0.1  # s between two looks


class Arriving:
    """What is seen of it. ``ends``: where what has come ends on each shard. Times are s of the query's clock."""

    def __init__(self, ends: dict[str, int], now: float) -> None:
        self.ends = ends
        self.stuck = False  # a bridge stays away for longer than is waited for it
        self._vain: dict[str, int] | None = None  # nothing of what had come up to here is for this query
        self._came = now  # when it was more than before
        self._quiet = now  # since when nothing came though all bridges were open

    def note(self, ends: dict[str, int], now: float, *, away: bool) -> None:
        """Take up what was seen at a look; ``away``: a bridge is not open."""
        if ends != self.ends:
            self.ends = ends
            self._came = now
        if away or self._came == now:
            self._quiet = now

    def note_vain(self) -> None:
        """A claim of what has come brought nothing."""
        self._vain = self.ends

    def is_all(self, now: float, quiet: float) -> bool:
        """Return whether nothing came for ``quiet`` s, as far as anybody can know."""
        return now - self._quiet >= quiet

    def is_batch(self, count: int, most: int, now: float, begun: float) -> bool:
        """Return whether ``count`` messages are one, of at most ``most``; ``begun``: when waiting for it began."""
        if not count or self.ends == self._vain:
            return False
        return count >= most or now - self._came >= PAUSE or now - begun >= BATCH
