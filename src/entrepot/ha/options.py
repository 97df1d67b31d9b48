"""How a broker shares its store with others."""

from __future__ import annotations

from typing import Final

from entrepot.ha.lease import LeaseOptions

FILE_LOCKER: Final = "file"


class SharedStoreOptions:
    """``locker``: ``file``, or a URI of `io/registers.py`. ``status``: HOST:PORT of the status page, "" for none.

    Classic's ``shared-file-locker`` and ``lease-database-locker``, Artemis' ``shared-store``.
    """

    def __init__(self, *, locker: str = FILE_LOCKER, lease: LeaseOptions | None = None, status: str = "") -> None:
        self.locker: Final = locker
        self.lease: Final = LeaseOptions() if lease is None else lease
        self.status: Final = status
