"""All that a core may ask of the world: what time it is, and a fresh random number.

A core never reads a clock: the shell passes ``now`` in. ``Instant`` and ``Duration`` are integer nanoseconds on the
monotonic clock, ``WallTime`` is integer milliseconds since 1970 (the unit that JMS headers use).
"""

from __future__ import annotations

from typing import Final, Protocol

Instant = int
"""Nanoseconds on a monotonic clock. Only differences mean something."""
Duration = int
"""Nanoseconds."""
WallTime = int
"""Milliseconds since 1970-01-01 UTC: the unit of ``timestamp``, ``expires`` and ``AMQ_SCHEDULED_*``."""

NANOSECOND: Final = 1
MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND

KIB: Final = 1024
MIB: Final = 1024 * KIB
UNLIMITED: Final = 1 << 62  # of what is counted in 64 bits: more than there will ever be
GIB: Final = 1024 * MIB


class Clock(Protocol):
    """Two readings of one instant; the shell asks, the cores are told."""

    def now(self) -> Instant:
        """Return the monotonic time in nanoseconds."""
        ...

    def wall(self) -> WallTime:
        """Return milliseconds since 1970-01-01 UTC."""
        ...


class Entropy(Protocol):
    """Randomness that the simulation can replay."""

    def token(self, octets: int) -> bytes:
        """Return ``octets`` fresh random bytes."""
        ...

    def fraction(self) -> float:
        """Return a number in [0, 1), for jitter."""
        ...
