"""A log-linear histogram: any latency to 1.6 % in a fixed, small memory.

Values below ``2 * HALF`` have a bucket each. Above, each power of two is cut into HALF equal buckets, so a bucket is at
most 1/HALF of its values wide. Merging histograms adds counts and loses nothing.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND

BITS: Final = 6
HALF: Final = 1 << BITS  # 64 buckets an octave: 1/64 is 1.6 %
VALUE_BITS_MAX: Final = 43  # 2^43 ns are 2.4 hours; what lasts longer counts as that
BUCKETS: Final = (VALUE_BITS_MAX - BITS + 1) * HALF


class Histogram:
    """Counts of values in ns. Changed by `record` and `add` alone."""

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.count = 0
        self.total = 0
        self.least = 0
        self.most = 0

    def record(self, value: int) -> None:
        """Count one value; one below 0 counts as 0."""
        value = max(value, 0)
        self.counts[bucket_of(value)] += 1
        self.least = value if self.count == 0 else min(self.least, value)
        self.most = max(self.most, value)
        self.count += 1
        self.total += value

    def add(self, other: Histogram) -> None:
        """Count everything that ``other`` counted."""
        if other.count == 0:
            return
        self.least = other.least if self.count == 0 else min(self.least, other.least)
        self.most = max(self.most, other.most)
        self.count += other.count
        self.total += other.total
        for bucket, count in enumerate(other.counts):
            self.counts[bucket] += count

    def percentile(self, percent: float) -> int:
        """Return what ``percent`` of all values do not exceed: the upper end of a bucket; 0 without values."""
        if self.count == 0:
            return 0
        # The rank counts from 1 and is rounded up: the 50th percentile of three values is the second.
        rank = max(1, -(-self.count * round(percent * 1000) // 100_000))
        seen = 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if seen >= rank:
                return max(self.least, min(upper_end(bucket), self.most))
        return self.most

    @property
    def mean(self) -> float:
        """The mean in ns, exact; 0 without values."""
        return self.total / self.count if self.count else 0.0

    def summary(self) -> dict[str, float]:
        """Return the usual figures in ms."""
        figures = {f"p{percent:g}": self.percentile(percent) for percent in (50, 90, 99, 99.9, 99.99)}
        figures = {"min": self.least, **figures, "max": self.most}
        return {"mean": round(self.mean / MILLISECOND, 4)} | {
            name: round(value / MICROSECOND) / 1_000 for name, value in figures.items()
        }


def bucket_of(value: int) -> int:
    """Return the bucket of a value of at least 0."""
    shift = value.bit_length() - BITS - 1
    if shift <= 0:
        return value
    bucket = (shift << BITS) + (value >> shift)
    return bucket if bucket < BUCKETS else BUCKETS - 1


def upper_end(bucket: int) -> int:
    """Return the largest value of a bucket."""
    shift = (bucket >> BITS) - 1
    if shift <= 0:
        return bucket
    first = (bucket - (shift << BITS)) << shift
    return first + (1 << shift) - 1
