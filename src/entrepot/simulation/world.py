"""One seed, one world: virtual time, lots, and events in order.

Decides nothing about brokers. Everything that happens is an event at an instant; events at one instant run in the order
in which they were asked for. All randomness comes from `Lots` that are named, each with a stream of its own, so that
taking one step out of a plan leaves the lots of all others as they were: that is what makes a failing plan shrink.

Must never: read a real clock, iterate a set, or depend on the hash of a string.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random
from typing import Final, TypeVar

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant, WallTime
from entrepot.protocols.session import NEVER

EPOCH_MS: Final = 1_600_000_000_000  # any wall time will do; this one is easy to recognise in a trace
EVENTS_MAX: Final = 400_000  # a usual world has a tenth of a thousandth of that left: beyond, it will never be quiet
VIOLATIONS_KEPT: Final = 5

T = TypeVar("T")


class Lots:
    """A named stream of random numbers. It is also the `Entropy` of what it is given to."""

    def __init__(self, name: str) -> None:
        self._random = Random(name)  # a string is hashed by SHA-512 there, not by Python's hash

    def token(self, octets: int) -> bytes:
        """Return ``octets`` random octets."""
        return self._random.randbytes(octets)

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def below(self, limit: int) -> int:
        """Return a number in 0..``limit`` - 1."""
        return int(self._random.random() * limit)

    def between(self, low: int, high: int) -> int:
        """Return a number in ``low``..``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def skewed(self, low: int, high: int) -> int:
        """Return a number in ``low``..``high``, small ones far more often: every magnitude is equally likely."""
        return min(high, int(low * (high / low) ** self._random.random()))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def one_of(self, choices: Sequence[T]) -> T:
        """Return one of ``choices``."""
        return choices[int(self._random.random() * len(choices))]


class World:
    """Time, events and the trace of one run. ``after`` is called behind every event: the checkers."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        """``lines``: keep the trace as text too, not only its hash."""
        self.seed = seed
        self.time: Instant = SECOND
        self.clock_ms = 0  # how far the wall clock was put forward, or back
        self.clock_peak_ms = 0
        self.set_back = False
        self.events = 0
        self.events_max = EVENTS_MAX
        self.lines: list[str] | None = [] if lines else None
        self.violations: list[str] = []
        self.counts: dict[str, int] = {}
        self.after: Callable[[], None] = lambda: None
        self._hash = blake2b(digest_size=16)
        self._heap: list[tuple[Instant, int, Callable[[], None]]] = []
        self._asked = 0

    # -- Clock --------------------------------------------------------------------------------------------------------

    def now(self) -> Instant:
        """Return the virtual time in ns."""
        return self.time

    def wall(self) -> WallTime:
        """Return the virtual time in ms since 1970, as the wall clock shows it."""
        return EPOCH_MS + self.clock_ms + self.time // MILLISECOND

    def set_clock(self, ahead_ms: int) -> None:
        """Let the wall clock show ``ahead_ms`` more than what went by."""
        self.note(f"clock {ahead_ms}")
        self.set_back = self.set_back or ahead_ms < self.clock_ms
        self.clock_ms = ahead_ms
        self.clock_peak_ms = max(self.clock_peak_ms, ahead_ms)

    # -- lots, trace, findings ----------------------------------------------------------------------------------------

    def lots(self, name: str) -> Lots:
        """Return the stream called ``name`` of this seed."""
        return Lots(f"{self.seed}/{name}")

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.time} {text}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        if self.lines is not None:
            self.lines.append(line)

    def count(self, what: str, by: int = 1) -> None:
        """Count that ``what`` happened: so that one can see what a world exercises."""
        self.counts[what] = self.counts.get(what, 0) + by

    def violation(self, text: str) -> None:
        """A promise was broken: the run ends behind this event."""
        self.note(f"VIOLATION {text}")
        if len(self.violations) < VIOLATIONS_KEPT:
            self.violations.append(text)

    def digest(self) -> str:
        """Return the hash of the trace so far."""
        return self._hash.hexdigest()

    # -- events -------------------------------------------------------------------------------------------------------

    def later(self, delay: Duration, action: Callable[[], None]) -> None:
        """Do ``action`` in ``delay`` ns, behind all that was asked for that instant before."""
        self._asked += 1
        heapq.heappush(self._heap, (self.time + delay, self._asked, action))

    def run(self, until: Instant, done: Callable[[], bool] | None = None) -> None:
        """Let events happen up to ``until``, or until ``done`` (asked now and then), or until a promise is broken."""
        heap = self._heap
        while heap and heap[0][0] <= until and not self.violations:
            due, _, action = heapq.heappop(heap)
            self.time = due
            self.events += 1
            action()
            self.after()
            if self.events >= self.events_max:
                self.violation(f"the world is not quiet after {self.events_max} events")
            if done is not None and self.events % 64 == 0 and done():
                return
        if not self.violations and (done is None or not done()):
            self.time = max(self.time, until)


class Bell:
    """Rings at the earliest instant that it was set to. What it was set to before is void then.

    A core names one deadline, and an earlier one at any time. Were the later one rung too, and each ring asked for the
    next, every deadline that comes nearer would leave one more chain of rings, for ever.
    """

    def __init__(self, world: World, ring: Callable[[], None]) -> None:
        self._world = world
        self._ring = ring
        self._due: Instant = NEVER

    def set(self, due: Instant) -> None:
        """Ring at ``due``, at once when that is over, unless it rings earlier anyway."""
        if due < self._due:
            self._due = due
            self._world.later(max(0, due - self._world.time), lambda: self._come(due))

    def hush(self) -> None:
        """Do not ring until it is set anew."""
        self._due = NEVER

    def _come(self, due: Instant) -> None:
        if self._due == due:
            self._due = NEVER
            self._ring()
