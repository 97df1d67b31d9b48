"""How a broker of CORE is dialled and given up, whoever does so: a bridge, or an upstream of a federation."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.settings import Options, Unit, setting
from entrepot.cluster.backoff import Reconnection

FOREVER: Final = -1
ENDLESS: Final = 24 * 3600 * SECOND  # what "for ever" is where a peer has to be told a time
FASTEST: Final = 100 * MILLISECOND  # between two looks whether a peer lives


class Supervised(Options, frozen=True):
    """The settings of a link that dials a broker of CORE."""

    retry_interval: Duration = setting(
        2 * SECOND, unit=Unit.DURATION, artemis="retry-interval", about="wait before the first attempt to come back"
    )
    retry_multiplier: float = setting(
        1.0, low=1.0, high=1e6, artemis="retry-interval-multiplier", about="the wait grows by this factor"
    )
    retry_interval_max: Duration = setting(
        2 * SECOND, unit=Unit.DURATION, artemis="max-retry-interval", about="longest wait between two attempts"
    )
    attempts_first: int = setting(
        FOREVER, unlimited=True, artemis="initial-connect-attempts", about="attempts until the first connection"
    )
    attempts: int = setting(
        FOREVER, unlimited=True, artemis="reconnect-attempts", about="attempts after a connection was lost"
    )
    check_period: Duration = setting(
        30 * SECOND,
        unit=Unit.DURATION,
        unlimited=True,
        artemis="check-period",
        about="silence after which the other broker is given up",
    )
    ttl: Duration = setting(
        60 * SECOND,
        unit=Unit.DURATION,
        unlimited=True,
        artemis="connection-ttl",
        about="silence after which the other broker gives us up",
    )
    call_timeout: Duration = setting(
        30 * SECOND, unit=Unit.DURATION, artemis="call-timeout", about="longest that a session may take to open"
    )

    def reconnection(self) -> Reconnection:
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

    def time_to_live(self) -> Duration:
        """Return after which silence the other broker gives us up."""
        return self.ttl if self.ttl > 0 else ENDLESS

    def interval(self, parts: int) -> Duration:
        """Return the time between two looks, so that silence is found in ``parts`` of them."""
        silence = [one for one in (self.check_period, self.ttl) if one > 0]
        return max(min([ENDLESS, *silence]) // parts, FASTEST)
