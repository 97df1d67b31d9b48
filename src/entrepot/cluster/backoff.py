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
        attempts_first: int | None = None,
        min_connect_time: Duration = 5 * SECOND,
    ) -> None:
        """``min_connect_time``: a connection that lives shorter than this counts as a failed attempt.

        ``attempts_first``: instead of ``attempts_max`` until the peer was there once.
        """
        self.initial_delay: Final = initial_delay
        self.max_delay: Final = max_delay
        self.exponential: Final = exponential
        self.multiplier: Final = multiplier
        self.attempts_max: Final = attempts_max
        self.attempts_first: Final = attempts_max if attempts_first is None else attempts_first
        self.min_connect_time: Final = min_connect_time


class Backoff:
    """When to dial again after how many failures."""

    def __init__(self, options: Reconnection) -> None:
        self.options: Final = options
        self.failures = 0
        self.met = False  # the peer was there once
        self._delay = options.initial_delay

    def succeeded(self) -> None:
        """The connection lived long enough: the next failure is a first one."""
        self.failures = 0
        self._delay = self.options.initial_delay

    def failed(self) -> Duration | None:
        """Return the wait after one more failure, None when that was the last attempt."""
        self.failures += 1
        most = self.options.attempts_max if self.met else self.options.attempts_first
        if 0 < most <= self.failures:
            return None
        delay = self._delay
        if self.options.exponential:
            self._delay = min(int(delay * self.options.multiplier), self.options.max_delay)
        return min(delay, self.options.max_delay)
