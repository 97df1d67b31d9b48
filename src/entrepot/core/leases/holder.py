"""Who holds something by lease, since when, and whether he is still there: in words, for whoever waits for it."""

from __future__ import annotations

from entrepot.base.environment import SECOND, Duration
from entrepot.core.leases.lease import Lease
from entrepot.core.ports import Host


def silence(lease: Lease, host: Host) -> Duration:
    """Return for how long the reader of ``lease`` has asked for nothing, at most since the broker started; in ns."""
    return 0 if lease.waiting else max(0, int(host.now) - lease.heard)


def said_of(lease: Lease, host: Host) -> str:
    """Say who holds what, since when, and when its reader was heard of last."""
    made = lease.held_since
    since = f", for {max(0, int(host.wall) - made) // 1_000} s" if made else ""
    return (
        f"{lease.group!r} holds the range {lease.base} to {lease.tail} by lease{since}, which has no end of its own; "
        f"its reader was last heard of {silence(lease, host) // SECOND} s ago"
    )


def release_of(lease: Lease) -> str:
    """Return the command that takes the range from a reader that is gone."""
    return f"entrepot lease release {lease.queue.name} {lease.group}"
