"""How a broker shares its store with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import Fault
from entrepot.ha.lease import BACKUP, EITHER, PARTS, LeaseOptions

if TYPE_CHECKING:
    from entrepot.ha.replication_options import ReplicationOptions

FILE_LOCKER: Final = "file"


class SharedStoreOptions:
    """``locker``: ``file``, or a URI of `io/registers.py`. ``status``: HOST:PORT of the status page, "" for none.

    Classic's ``shared-file-locker`` and ``lease-database-locker``, Artemis' ``shared-store`` (artemis.md 2.2):

    - ``part``: what this broker is to the others. A backup leaves a store alone that its primary has paused.
    - ``failover_on_shutdown``: whether a graceful stop hands the store to a backup; if not, it stays paused until a
      primary comes. A crash hands over always.
    - ``allow_failback``: an active backup gives the store back when a primary asks for it.
    - ``restart_backup``: a backup that gave it back waits again, instead of ending.
    - ``drains``: a backup that takes over serves nobody, and gives all to another broker (``scale-down``).
    - ``connectors``: where clients of CORE find this broker when it serves, a URI for each cluster connection: they
      are told of it while it waits, and could take over (artemis.md 1.22).
    - ``replication``: each broker has a store of its own, a copy of the primary's; None where they share one.
    - ``holder``: the name in the lock, "" for the broker's; ``twins``: another broker may have the same.
    """

    def __init__(
        self,
        *,
        locker: str = FILE_LOCKER,
        lease: LeaseOptions | None = None,
        status: str = "",
        part: str = EITHER,
        failover_on_shutdown: bool = True,
        allow_failback: bool = False,
        restart_backup: bool = True,
        drains: bool = False,
        holder: str = "",
        twins: bool = False,
        replication: ReplicationOptions | None = None,
        connectors: Mapping[str, str] | None = None,
    ) -> None:
        if part not in PARTS:
            raise Fault(f"{part!r} is no part in a pair")
        if drains and part != BACKUP:
            raise Fault("only a backup gives away what it takes over")
        self.locker: Final = locker
        self.lease: Final = LeaseOptions() if lease is None else lease
        self.status: Final = status
        self.part: Final = part
        self.failover_on_shutdown: Final = failover_on_shutdown
        self.allow_failback: Final = allow_failback
        self.restart_backup: Final = restart_backup
        self.drains: Final = drains
        self.holder: Final = holder
        self.twins: Final = twins
        self.replication: Final = replication
        self.connectors: Final[Mapping[str, str]] = {} if connectors is None or drains else connectors
