"""How `entrepot run` shares its store, by its options and its file; a store each is `cli/replication.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from entrepot.base.environment import SECOND
from entrepot.base.errors import InvalidOption

if TYPE_CHECKING:
    from entrepot.config.model import Sharing
    from entrepot.ha.options import SharedStoreOptions
    from entrepot.node_options import NodeOptions


def reached_at(written: NodeOptions | None) -> dict[str, str]:
    """Return where clients of CORE find this broker, by its file: a URI for each cluster connection."""
    return {} if written is None or written.config is None else written.config.peering.reached_at()


def shared_store(
    ha: str | None,
    copied: Mapping[str, Any],
    locker: str | None,
    lease_duration: float | None,
    status: str | None,
    sharing: Sharing | None = None,
    connectors: Mapping[str, str] | None = None,
) -> SharedStoreOptions | None:
    """Return how the store is shared, None when it is not. ``copied``: what is said of replication. ``sharing``: what a
    file says; ``connectors``: as in `SharedStoreOptions`. Raises InvalidOption.
    """
    for option, value in copied.items():
        if value:
            raise InvalidOption(f"{option} is about replication", remedy="add --ha replication")
    if ha is None and sharing is not None and locker is None and lease_duration is None:
        from entrepot.config import founding  # noqa: PLC0415

        return founding.shared_store(sharing, status or "", connectors)
    if ha is None:
        if locker is not None or lease_duration is not None or status is not None:
            raise InvalidOption(
                "--locker, --lease-duration and --status are about a shared store", remedy="add --ha shared-store"
            )
        return None
    from entrepot.ha.lease import DURATION, LeaseOptions  # noqa: PLC0415
    from entrepot.ha.options import FILE_LOCKER, SharedStoreOptions  # noqa: PLC0415

    duration = DURATION if lease_duration is None else int(lease_duration * SECOND)
    lease = LeaseOptions(duration)
    return SharedStoreOptions(locker=locker or FILE_LOCKER, lease=lease, status=status or "", connectors=connectors)
