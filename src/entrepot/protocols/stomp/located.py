"""Where leased messages are in the broker's files: how READ with ``form:located`` answers (docs/formats/ranges.md). [C]

The broker writes a body with `Located`; a reader takes it apart with `Locations`. Numbers are big-endian::

    u16 files · for each: u16 n path · path, UTF-8 · u64 device · u64 inode
    and for each message, one position behind the other

    0               8        12       16       18       20
    +---------------+--------+--------+--------+--------+
    | number i64    | offset | length | deliv. | file   |
    +---------------+--------+--------+--------+--------+

    offset, length   u32, of the record of the message in its file (docs/formats/journal.md)
    deliv.           u16, as in an entry of a range
    file             u16, which of those above; the first is 0
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.stomp.ranges import SHORT_MAX, short

FORM: Final = "located"  # of the header "form"
ROW_OCTETS: Final = 20
FILES_MAX: Final = 1_000  # named by one frame


class File:
    """One file that has records."""

    def __init__(self, path: str, device: int, inode: int) -> None:
        self.path: str = path
        self.device: int = device
        self.inode: int = inode


class Located:
    """Writes the body of one frame. ``count``: of messages."""

    def __init__(self) -> None:
        self.files: BytesWriter = BytesWriter()
        self.rows: BytesWriter = BytesWriter()
        self.named: i64 = 0
        self.count: i64 = 0

    def name(self, file: File) -> i64:
        """Name a file; return which one it is in `add`."""
        path = file.path.encode("utf-8", "surrogateescape")
        write_i16_be(self.files, short(len(path)))
        self.files.write(path)
        write_i64_be(self.files, _signed(file.device))
        write_i64_be(self.files, _signed(file.inode))
        self.named += 1
        return self.named - 1

    def add(self, file: i64, number: i64, offset: i64, length: i64, deliveries: i64) -> None:
        """Append where one message is."""
        rows = self.rows
        write_i64_be(rows, number)
        write_i32_be(rows, i32(offset))
        write_i32_be(rows, i32(length))
        write_i16_be(rows, short(min(deliveries, SHORT_MAX)))
        write_i16_be(rows, short(file))
        self.count += 1

    def body(self) -> bytes:
        """Return all of it."""
        return int(self.named).to_bytes(2, "big") + self.files.getvalue() + self.rows.getvalue()


class Locations:
    """Takes the body of one frame apart: so many rows (``count``), each in one of the ``files`` that it names."""

    def __init__(self, data: bytes) -> None:
        """Raises MalformedFrame."""
        self.data: bytes = data
        self.files: list[File] = []
        self.start: i64 = self._read_files()
        if (len(data) - self.start) % ROW_OCTETS:
            raise MalformedFrame(f"the places of a range end in the middle of one, at octet {len(data)}")
        self.count: i64 = (len(data) - self.start) // ROW_OCTETS
        row: i64 = 0
        while row < self.count:
            if self.file(row) >= len(self.files) or self.length(row) == 0:
                raise MalformedFrame(f"place {row} of a range is in no file, or empty")
            row += 1

    def _read_files(self) -> i64:
        data = self.data
        if len(data) < 2:
            raise MalformedFrame("the places of a range name no files")
        named: i64 = i64(read_i16_be(data, 0)) & 0xFFFF
        at: i64 = 2
        while len(self.files) < named:
            end: i64 = at + 2 + (i64(read_i16_be(data, at)) & 0xFFFF) if at + 2 <= len(data) else at + 2
            if end + 16 > len(data):
                raise MalformedFrame(f"the places of a range end in the name of a file, at octet {at}")
            path = data[at + 2 : end].decode("utf-8", "surrogateescape")
            device = int(read_i64_be(data, end)) & 0xFFFFFFFFFFFFFFFF
            inode = int(read_i64_be(data, end + 8)) & 0xFFFFFFFFFFFFFFFF
            self.files.append(File(path, device, inode))
            at = end + 16
        return at

    def number(self, row: i64) -> i64:
        """Return the number of a message."""
        return read_i64_be(self.data, self.start + row * ROW_OCTETS)

    def offset(self, row: i64) -> i64:
        """Return where its record begins in its file."""
        offset: i64 = i64(read_i32_be(self.data, self.start + row * ROW_OCTETS + 8))
        return offset & 0xFFFFFFFF

    def length(self, row: i64) -> i64:
        """Return how many octets that has."""
        length: i64 = i64(read_i32_be(self.data, self.start + row * ROW_OCTETS + 12))
        return length & 0xFFFFFFFF

    def deliveries(self, row: i64) -> i64:
        """Return how often it was given to somebody before it was claimed."""
        deliveries: i64 = i64(read_i16_be(self.data, self.start + row * ROW_OCTETS + 16))
        return deliveries & 0xFFFF

    def file(self, row: i64) -> i64:
        """Return which file that is."""
        file: i64 = i64(read_i16_be(self.data, self.start + row * ROW_OCTETS + 18))
        return file & 0xFFFF

    def stretch(self, row: i64, gap: i64, most: i64) -> i64:
        """Return the row behind those that are read with ``row`` at once: behind one another in its file.

        ``gap``: octets between two that are read too; ``most``: octets in all, unless one record alone is longer.
        """
        file = self.file(row)
        start = self.offset(row)
        end: i64 = start + self.length(row)
        row += 1
        while row < self.count and self.file(row) == file:
            offset = self.offset(row)
            following: i64 = offset + self.length(row)
            if offset < end or offset - end > gap or following - start > most:
                break
            end = following
            row += 1
        return row


def _signed(number: int) -> i64:
    number &= 0xFFFFFFFFFFFFFFFF
    return i64(number - (1 << 64) if number >= 1 << 63 else number)
