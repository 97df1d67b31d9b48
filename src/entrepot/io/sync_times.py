"""How long the disk took to make things durable: noted by the writer's thread, read by whoever shows it.

The newest `KEPT` are kept: a percentile of them is what a sender waits for now, and not what he waited for last week.
"""

from __future__ import annotations

from collections import deque
from typing import Final

KEPT: Final = 1_000


class SyncTimes:
    """Times of syncs, in s. One thread notes, others may read at any time."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._newest: Final[deque[float]] = deque(maxlen=KEPT)

    def note(self, seconds: float) -> None:
        """One more is done."""
        self.count += 1
        self.total += seconds
        self._newest.append(seconds)

    def report(self) -> dict[str, object]:
        """Return what operators see: how many in all, s in all, and us of the newest `KEPT`; -1 before the first."""
        some = sorted(self._newest.copy())
        if not some:
            return {"count": 0, "total_s": 0.0, "p50_us": -1, "p99_us": -1, "most_us": -1}

        def at(part: float) -> int:
            return round(1e6 * some[min(len(some) - 1, int(part * len(some)))])

        return {
            "count": self.count,
            "total_s": round(self.total, 6),
            "p50_us": at(0.5),
            "p99_us": at(0.99),
            "most_us": at(1.0),
        }
