"""What the retry and silence settings of Artemis mean for a link, whoever has them: a bridge, or an upstream."""

from __future__ import annotations

from typing import Final, Protocol

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.cluster.backoff import Reconnection

ENDLESS: Final = 24 * 3600 * SECOND  # what "for ever" is where a peer has to be told a time
FASTEST: Final = 100 * MILLISECOND  # between two looks whether a peer lives


class Terms(Protocol):
    """The settings."""

    @property
    def retry_interval(self) -> Duration:
        """The wait before the first attempt to come back."""

    @property
    def retry_multiplier(self) -> float:
        """The factor by which it grows."""

    @property
    def retry_interval_max(self) -> Duration:
        """The longest wait."""

    @property
    def attempts_first(self) -> int:
        """Attempts until the first connection; -1: for ever."""

    @property
    def attempts(self) -> int:
        """Attempts after a loss; -1: for ever."""

    @property
    def check_period(self) -> Duration:
        """The silence after which the other broker is given up; -1: never."""

    @property
    def ttl(self) -> Duration:
        """The silence after which it gives us up; -1: never."""


class Supervised:
    """Options of a link that dials a broker of CORE."""

    __slots__ = ()

    def reconnection(self: Terms) -> Reconnection:
        """Return what a link makes of it: a lost connection is a failure, and attempts follow it."""
        return Reconnection(
            initial_delay=self.retry_interval,
            max_delay=max(self.retry_interval, self.retry_interval_max),
            exponential=self.retry_multiplier > 1.0,
            multiplier=self.retry_multiplier,
            attempts_max=0 if self.attempts < 0 else self.attempts + 1,
            attempts_first=0 if self.attempts_first < 0 else max(self.attempts_first, 1),
            min_connect_time=0,
        )

    def time_to_live(self: Terms) -> Duration:
        """Return after which silence the other broker gives us up."""
        return self.ttl if self.ttl > 0 else ENDLESS

    def interval(self: Terms, parts: int) -> Duration:
        """Return the time between two looks, so that silence is found in ``parts`` of them."""
        silence = [one for one in (self.check_period, self.ttl) if one > 0]
        return max(min([ENDLESS, *silence]) // parts, FASTEST)
