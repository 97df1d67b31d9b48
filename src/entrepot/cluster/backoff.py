"""When a lost peer is dialled again, and after how many failures it is given up. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import SECOND, Duration


class Reconnection:
    """How a lost peer is dialled again. ns for times; ``attempts_max`` 0: it is never given up."""

    def __init__(
        self,
        *,
        initial_delay: Duration = SECOND,
        max_delay: Duration = 30 * SECOND,
        exponential: bool = True,
        multiplier: float = 2.0,
        attempts_max: int = 0,
        min_connect_time: Duration = 5 * SECOND,
    ) -> None:
        """``min_connect_time``: a connection that lives shorter than this counts as a failed attempt."""
        self.initial_delay: Final = initial_delay
        self.max_delay: Final = max_delay
        self.exponential: Final = exponential
        self.multiplier: Final = multiplier
        self.attempts_max: Final = attempts_max
        self.min_connect_time: Final = min_connect_time


class Backoff:
    """When to dial again after how many failures."""

    def __init__(self, options: Reconnection) -> None:
        self.options: Final = options
        self.failures = 0
        self._delay = options.initial_delay

    def succeeded(self) -> None:
        """The connection lived long enough: the next failure is a first one."""
        self.failures = 0
        self._delay = self.options.initial_delay

    def failed(self) -> Duration | None:
        """Return the wait after one more failure, None when that was the last attempt."""
        self.failures += 1
        if 0 < self.options.attempts_max <= self.failures:
            return None
        delay = self._delay
        if self.options.exponential:
            self._delay = min(int(delay * self.options.multiplier), self.options.max_delay)
        return min(delay, self.options.max_delay)
