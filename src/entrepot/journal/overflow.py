"""Bodies that do not fit in memory: blobs, written and read in pieces, one file each.

A blob lives as long as somebody holds it: each stored message that refers to it (`JournalCore` does that), a session
that streams it in or out. What nobody holds after a restart is removed by recovery.

A body lies in *stretches*, each with its checksum behind it, and is read in whole stretches, so that no octet of it is
passed on unchecked::

    +--------------------+-------+--------------------+-------+----     -+--------------+-------+
    | 262,144 octets     | crc32 | 262,144 octets     | crc32 |   ...    | the rest     | crc32 |
    +--------------------+-------+--------------------+-------+----     -+--------------+-------+

    crc32: big-endian, of i64 blob, i64 number of the stretch (from 0), and its octets

With blob and number in the checksum, a block in the wrong place or the file of another body is no right stretch. Where
``checked`` is False, the file is the body as it came, which is how older journals have it.

A blob that was found damaged is remembered until it is released, and its file is then set aside under another name
instead of removed: a reading error may be the machine's, and part of a body may be worth something to somebody. [C]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from entrepot.base.checksum import crc32
from entrepot.base.environment import KIB
from entrepot.base.errors import BodyLost, Fault
from entrepot.journal.ports import JournalPort
from entrepot.model.message import Message

STRETCH: Final = 256 * KIB
"""Octets under one checksum: large enough for a disk and a socket, small beside a connection's buffers."""
CHECK: Final = 4
"""Octets of a checksum."""


def stored_length(length: i64, checked: bool) -> i64:
    """Return how long the file of a body of ``length`` octets is."""
    if not checked:
        return length
    return length + (length + STRETCH - 1) // STRETCH * CHECK


def seed_of(blob_id: i64, stretch: i64) -> int:
    """Return the checksum of what says where a stretch belongs; that of its octets goes on from there."""
    place = BytesWriter()
    write_i64_be(place, blob_id)
    write_i64_be(place, stretch)
    return crc32(place.getvalue())


def wrong_stretches(blob_id: i64, read: Callable[[int, int], bytes], length: i64) -> list[int]:
    """Return where in the file of a body, ``length`` octets long, stretches begin whose checksums are wrong.

    ``read`` gives so many octets from an offset on, one stretch at a time.
    Of a layout without checksums it is none: several stretches, and no checksum that is right. A body of one stretch
    tells nothing of its layout, so it is taken for damaged where its checksum is wrong.
    """
    wrong: list[int] = []
    at: i64 = 0
    number: i64 = 0
    while at < length:
        stretch = read(at, min(STRETCH + CHECK, length - at))
        if crc32(stretch[:-CHECK], seed_of(blob_id, number)) != int.from_bytes(stretch[-CHECK:], "big"):
            wrong.append(at)
        number += 1
        at += STRETCH + CHECK
    return [] if number > 1 and len(wrong) == number else wrong


class _Growing:
    """A blob that is being written: how long it is, and what stands in its last stretch."""

    def __init__(self, blob_id: i64) -> None:
        self.blob_id: i64 = blob_id
        self.length: i64 = 0
        self.crc: int = seed_of(blob_id, 0)

    def left(self) -> i64:
        """Return how much fits into the last stretch."""
        return STRETCH - self.length % STRETCH

    def add(self, piece: bytes) -> None:
        """Count ``piece``, which fits into the last stretch."""
        self.crc = crc32(piece, self.crc)
        self.length += len(piece)

    def end(self) -> bytes:
        """Return the checksum of the last stretch, and begin a new one."""
        octets = self.crc.to_bytes(CHECK, "big")
        self.crc = seed_of(self.blob_id, (self.length + STRETCH - 1) // STRETCH)
        return octets


class Overflow:
    """The blobs of one journal. The broker chooses ids: a message's number, never reused, will do.

    ``damaged``: blobs that cannot be read whole, with the reason.
    """

    def __init__(self, port: JournalPort) -> None:
        self._port: JournalPort = port
        self._held: dict[int, int] = {}
        self._growing: dict[int, _Growing] = {}
        self.damaged: dict[int, str] = {}
        self.sizes: dict[int, int] = {}  # octets of each blob that somebody holds
        self.lengths: dict[int, dict[int, int]] = {}  # of these, what is known of their length in other forms
        self.written: i64 = 0  # octets, of all of them
        self.reached: i64 = 0  # of these, so many are known to be on disk: the others may be in memory

    def create(self, blob_id: i64) -> None:
        """Begin an empty blob, held once by the caller."""
        if blob_id <= 0 or blob_id in self._held:
            raise Fault(f"blob {blob_id} exists or has no valid id")
        self._growing[blob_id] = _Growing(blob_id)
        self._held[blob_id] = 1
        self.sizes[blob_id] = 0
        self._port.blob_create(blob_id)

    def write(self, blob_id: i64, chunk: bytes) -> None:
        """Append a piece to a blob that is not sealed."""
        growing = self._growing.get(blob_id)
        if growing is None:
            raise Fault(f"blob {blob_id} is not being written")
        at: i64 = 0
        end: i64 = len(chunk)
        self.sizes[blob_id] += int(end)
        self.written += end
        while at < end:
            size = min(growing.left(), end - at)
            piece = chunk if size == end else chunk[at : at + size]
            growing.add(piece)
            self._port.blob_write(blob_id, piece)
            if growing.length % STRETCH == 0:
                self._port.blob_write(blob_id, growing.end())
            at += size

    def seal(self, blob_id: i64) -> i64:
        """End the blob and return its length; on disk before anything stored from now on is confirmed."""
        growing = self._growing.pop(blob_id, None)
        if growing is None:
            raise Fault(f"blob {blob_id} is not being written")
        if growing.length % STRETCH != 0:
            self._port.blob_write(blob_id, growing.end())
        self._port.blob_seal(blob_id)
        return growing.length

    def read(self, message: Message, at: i64) -> bytes:
        """Return the octets of the body of ``message`` from ``at``, a multiple of STRETCH, to the end of the stretch.

        b"" at the end. Raises BodyLost, which is remembered; StorageError for what may go over.
        """
        rare = message.need_rare()
        return self._read(rare.large_id, rare.large_length, rare.large_checked, at)

    def _read(self, blob_id: i64, length: i64, checked: bool, at: i64) -> bytes:
        size = min(STRETCH, length - at)
        if size <= 0:
            return b""
        try:
            return self._stretch(blob_id, at, size, checked)
        except BodyLost as error:
            raise self._lost(blob_id, length, error.message) from error

    def _stretch(self, blob_id: i64, at: i64, size: i64, checked: bool) -> bytes:
        if not checked:
            octets = self._port.blob_read(blob_id, at, size)
            if len(octets) < size:
                raise BodyLost(f"it ends after {at + len(octets)} octets")
            return octets
        stretch = at // STRETCH
        octets = self._port.blob_read(blob_id, at + stretch * CHECK, size + CHECK)
        if len(octets) < size + CHECK:
            raise BodyLost(f"its file ends after {at + stretch * CHECK + len(octets)} octets")
        body = octets[:size]
        if crc32(body, seed_of(blob_id, stretch)) != int.from_bytes(octets[size:], "big"):
            raise BodyLost(f"octets {at} to {at + size} fail their checksum")
        return body

    def _lost(self, blob_id: i64, length: i64, why: str) -> BodyLost:
        known = self.damaged.get(blob_id, "")
        if not known:
            known = f"the body of {length} octets in {blob_id}.blob is damaged: {why}"
            self.damaged[blob_id] = known
        return BodyLost(known, remedy="restore it from a backup; what is left of it is set aside in blobs/")

    def whole(self, message: Message) -> bytes:
        """Return the large body of ``message`` in one piece. Raises as `read`."""
        length = message.need_rare().large_length
        pieces: list[bytes] = []
        at: i64 = 0
        while at < length:
            piece = self.read(message, at)
            pieces.append(piece)
            at += len(piece)
        return b"".join(pieces)

    def flaw(self, message: Message) -> str:
        """Return why the large body of ``message`` is lost, as far as its length, or an earlier read, tells; or ""."""
        rare = message.need_rare()
        return "" if rare.large_id == 0 else self.flaw_of(rare.large_id, rare.large_length, rare.large_checked)

    def flaw_of(self, blob_id: i64, length: i64, checked: bool) -> str:
        """Return as `flaw` what is known of a body of ``length`` octets."""
        known = self.damaged.get(blob_id, "")
        if known:
            return known
        size = self._port.blob_size(blob_id)
        if size >= stored_length(length, checked):
            return ""
        why = "its file is missing" if size < 0 else f"its file ends after {size} octets"
        return self._lost(blob_id, length, why).message

    def flaw_inside(self, blob_id: i64, length: i64, checked: bool) -> str:
        """Return as `flaw_of` what reading all of it tells. Raises StorageError for what may go over."""
        at: i64 = 0
        try:
            while at < length:
                at += len(self._read(blob_id, length, checked, at))
        except BodyLost as error:
            return error.message
        return ""

    def hold(self, blob_id: i64) -> None:
        """Keep the blob until the matching `release`."""
        held = self._held.get(blob_id, 0)
        if held == 0:
            self.sizes[blob_id] = max(0, int(self._port.blob_size(blob_id)))
        self._held[blob_id] = held + 1

    def release(self, blob_id: i64) -> None:
        """Let go of the blob; nobody holds it: it is removed, finished or not. A damaged one is set aside."""
        held = self._held.get(blob_id, 0)
        if held == 0:
            raise Fault(f"blob {blob_id} is released more often than held")
        if held > 1:
            self._held[blob_id] = held - 1
            return
        del self._held[blob_id]
        del self.sizes[blob_id]
        if self.lengths:
            self.lengths.pop(blob_id, None)
        self._growing.pop(blob_id, None)
        if self.damaged and self.damaged.pop(blob_id, ""):
            self._port.blob_set_aside(blob_id)
        else:
            self._port.blob_drop(blob_id)

    def drop(self, blob_id: i64) -> None:
        """Give up a blob that was begun and is not wanted: the same as `release`."""
        self.release(blob_id)
