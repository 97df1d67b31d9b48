"""Bodies that do not fit in memory: blobs, written and read in pieces, one file each.

A blob lives as long as somebody holds it: each stored message that refers to it (`JournalCore` does that), a session
that streams it in or out. What nobody holds after a restart is removed by recovery. [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB
from entrepot.base.errors import Fault
from entrepot.journal.ports import JournalPort

CHUNK: Final = 256 * KIB
"""A good size of one piece: large enough for a disk, small beside a connection's buffers."""


class Overflow:
    """The blobs of one journal. The broker chooses ids: a message's number, never reused, will do."""

    def __init__(self, port: JournalPort) -> None:
        self._port: JournalPort = port
        self._held: dict[int, int] = {}
        self._growing: dict[int, int] = {}

    def create(self, blob_id: i64) -> None:
        """Begin an empty blob, held once by the caller."""
        if blob_id <= 0 or blob_id in self._held:
            raise Fault(f"blob {blob_id} exists or has no valid id")
        self._growing[blob_id] = 0
        self._held[blob_id] = 1
        self._port.blob_create(blob_id)

    def write(self, blob_id: i64, chunk: bytes) -> None:
        """Append a piece to a blob that is not sealed."""
        if blob_id not in self._growing:
            raise Fault(f"blob {blob_id} is not being written")
        self._growing[blob_id] += len(chunk)
        self._port.blob_write(blob_id, chunk)

    def seal(self, blob_id: i64) -> i64:
        """End the blob and return its length; on disk before anything stored from now on is confirmed."""
        if blob_id not in self._growing:
            raise Fault(f"blob {blob_id} is not being written")
        length: i64 = self._growing.pop(blob_id)
        self._port.blob_seal(blob_id)
        return length

    def read(self, blob_id: i64, offset: i64, length: i64) -> bytes:
        """Return up to ``length`` octets at ``offset``; b"" at the end. Raises StorageError."""
        return self._port.blob_read(blob_id, offset, length)

    def hold(self, blob_id: i64) -> None:
        """Keep the blob until the matching `release`."""
        self._held[blob_id] = self._held.get(blob_id, 0) + 1

    def release(self, blob_id: i64) -> None:
        """Let go of the blob; nobody holds it: it is removed, finished or not."""
        held = self._held.get(blob_id, 0)
        if held == 0:
            raise Fault(f"blob {blob_id} is released more often than held")
        if held > 1:
            self._held[blob_id] = held - 1
            return
        del self._held[blob_id]
        self._growing.pop(blob_id, 0)
        self._port.blob_drop(blob_id)

    def drop(self, blob_id: i64) -> None:
        """Give up a blob that was begun and is not wanted: the same as `release`."""
        self.release(blob_id)
