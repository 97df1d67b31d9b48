"""Reading a segment a piece at a time, front to back. [C]

A whole segment in one buffer is memory that the system has to find and clear, 32 MiB for every file; a piece is put
where the one before it was. That makes reading a store back two to three times cheaper than all the rest of it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.journal.ports import JournalPort
from entrepot.journal.record import BATCH_HEAD, batch_length, batch_valid, head_valid

WINDOW_BYTES: Final = 2 * 1024 * 1024
"""Twice the largest batch that is usual (`JournalOptions.batch_bytes`), so most octets are read once."""


class Window:
    """A piece of one file: ``data`` begins at ``base``. Both change with every call."""

    def __init__(self, port: JournalPort, name: str, end: i64, width: i64 = WINDOW_BYTES) -> None:
        """Nothing behind ``end`` is read. ``width``: octets to read at a time; more where more are asked for."""
        self.port: JournalPort = port
        self.name: str = name
        self.end: i64 = end
        self.width: i64 = width
        self.base: i64 = 0
        self.data: bytes = b""

    def place(self, at: i64, length: i64) -> i64:
        """Have ``length`` octets at ``at`` of the file, as far as it has them; return where in ``data`` they begin."""
        if at < self.base or at + length > self.base + len(self.data):
            wanted = max(length, self.width)
            wanted = max(0, min(wanted, self.end - at))
            self.data = self.port.read(self.name, int(at), int(wanted))
            self.base = at
        return at - self.base

    def batch(self, segment: i64, at: i64) -> i64:
        """Return where in ``data`` the batch at ``at`` of the ``segment`` begins; -1 when no whole one stands there."""
        place = self.place(at, BATCH_HEAD)
        if not head_valid(self.data, place, segment, at):
            return -1
        length = batch_length(self.data, place)
        place = self.place(at, BATCH_HEAD + max(0, length))
        return place if batch_valid(self.data, place, segment, at) else -1
