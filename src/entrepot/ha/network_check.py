"""What a broker looks for to know that it is not the one that is cut off: Artemis' network pinger (artemis.md 2.9).

All targets silent in one look: the network of this machine is gone, and the broker stops; it begins anew when one of
them answers. This decides nothing about who is primary, the lock does. It keeps a broker from standing there with
clients of its own side, and a backup from taking over while it reaches nobody.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from entrepot.base.environment import SECOND, Duration

HOST: Final = "%s"
SECONDS: Final = "%d"


class NetworkCheckOptions(Struct, frozen=True, kw_only=True):
    """``hosts`` are pinged, ``urls`` asked for; ``period`` between two looks, ``timeout`` for each answer (ns).

    ``interface``: what pings go out by, "" for any. ``ping``, ``ping6``: commands with %d for the timeout in seconds
    and %s for the host; "" for an echo request of our own, else the system's ping.
    """

    hosts: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    period: Duration = 5 * SECOND
    timeout: Duration = 1 * SECOND
    interface: str = ""
    ping: str = ""
    ping6: str = ""

    @property
    def targets(self) -> tuple[str, ...]:
        """Return all of them, for people."""
        return (*self.hosts, *self.urls)


def command(words: list[str], host: str, timeout: Duration) -> list[str]:
    """Return a command for one ping."""
    seconds = str(max(1, -(-timeout // SECOND)))
    return [word.replace(SECONDS, seconds).replace(HOST, host) for word in words]
