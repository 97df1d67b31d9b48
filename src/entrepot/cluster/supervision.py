"""Whether the peer of a link lives: what was heard of it, and the canary.

A canary flies in every interval. A peer from which none comes back, and nothing else is confirmed, for two more is
given up, so a peer that accepted and fell silent, a half-open connection and a black hole are found within three. A
peer that is heard but confirms nothing while messages are on their way is full, not dead: that is noted
(``stalled_since``), and the link stays, because a new connection to a full broker would repeat what is on its way. [C]
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.cluster.source import LinkPort
from entrepot.protocols.session import NEVER

INTERVALS_SILENT: Final = 3  # after which a peer is dead: one until the canary flies, two for it to come back


class Supervision:
    """Of one link. ``due``: when to call `look`. ``round_trip``: of the last canary that came back, ns; 0: none yet."""

    def __init__(self, interval: Duration) -> None:
        self.interval: Final = interval
        self.due: Instant = NEVER
        self.heard_at: Instant = 0
        self.confirmed_at: Instant = 0
        self.stalled_since: Instant = 0
        self.probe = 0  # the number under which the canary that flies will be answered
        self.probes = 0
        self.round_trip: Duration = 0
        self.round_trip_at: Instant = 0
        self._probed_at: Instant = 0

    def begin(self, now: Instant) -> None:
        """The link is open."""
        self.heard_at = self.confirmed_at = now
        self.due = now + self.interval

    def end(self) -> None:
        """The connection is gone, and with it the canary."""
        self.probe = 0
        self.stalled_since = 0
        self.due = NEVER

    def heard(self, now: Instant) -> None:
        """Octets came from the peer."""
        self.heard_at = now

    def came_back(self, now: Instant) -> None:
        """The canary is back."""
        self.probe = 0
        self.round_trip = now - self._probed_at
        self.round_trip_at = now

    def look(self, port: LinkPort, now: Instant, *, occupied: bool) -> str:
        """Send a canary if none flies; return why the peer has to be given up, "" if it lives.

        ``occupied``: messages are on their way, or are held back until the peer takes more.
        """
        interval = self.interval
        silent_due = self.heard_at + INTERVALS_SILENT * interval
        self.due = min(now + interval, silent_due) if silent_due > now else now + interval
        if now - self.heard_at >= INTERVALS_SILENT * interval:
            return f"the peer was not heard for {(now - self.heard_at) // MILLISECOND} ms"
        if self.probe:
            if now - self._probed_at < (INTERVALS_SILENT - 1) * interval:
                return ""
            if self.confirmed_at <= self._probed_at:
                if not occupied:
                    return f"no answer to the canary for {(now - self._probed_at) // MILLISECOND} ms"
                self.stalled_since = self.stalled_since or self._probed_at
                return ""
            # The canary was lost, the peer is not.
        self.probe = port.probe()
        if self.probe:
            self.probes += 1
            self._probed_at = now
        return ""
