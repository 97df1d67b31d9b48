"""What is appended to one column, row by row or for many rows at once, in buffers as Arrow lays them out. [C]

Numbers are little-endian; a value of variable length is where it ends (i32) and its octets; what may be missing has a
bit for each row, the lowest first (Arrow's columnar format, "Physical memory layout"). Nothing here knows what a column
means (`columns.py`), nor Arrow's library.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

SEVERAL: Final = 16  # values of one piece: to copy fewer out takes less than to look after a piece
MICROS: Final = 1_000  # in a millisecond
MS_MAX: Final = ((1 << 63) - 1) // MICROS  # a time behind that fits no timestamp of Arrow: it counts as none


class Column:
    """What one column holds: ``valid`` is empty where no value is missing, ``children`` are those of a map or list."""

    def __init__(self, nulls: int, valid: bytes, offsets: bytes, data: bytes, children: list[Column]) -> None:
        self.nulls = nulls
        self.valid = valid
        self.offsets = offsets
        self.data = data
        self.children = children


class Piece:
    """Some values of a column, in ``data``. ``offsets``: as of a column, if one value is behind the other.

    ``bounds``: where each begins and ends in ``data`` (i32, by turns) if something is between them, otherwise empty.
    """

    def __init__(self, data: bytes, offsets: bytes, bounds: bytes) -> None:
        self.data = data
        self.offsets = offsets
        self.bounds = bounds


class Scattered(Column):
    """A column of octets in several pieces, which nobody has put together yet."""

    def __init__(self, nulls: int, valid: bytes, pieces: list[Piece]) -> None:
        super().__init__(nulls, valid, b"", b"", [])
        self.pieces = pieces


class Bits:
    """A bit for each row."""

    def __init__(self) -> None:
        self.octets: BytesWriter = BytesWriter()
        self.open: i64 = 0
        self.count: i64 = 0

    def add(self, bit: bool, rows: i64) -> None:
        """Append ``rows`` of them that are equal."""
        while rows > 0:
            if self.count & 7 == 0 and rows >= 8:
                whole: i64 = rows >> 3
                self.octets.write((b"\xff" if bit else b"\0") * int(whole))
                self.count += whole << 3
                rows -= whole << 3
                continue
            if bit:
                self.open |= 1 << (self.count & 7)
            self.count += 1
            rows -= 1
            if self.count & 7 == 0:
                self.octets.append(int(self.open))
                self.open = 0

    def take(self) -> bytes:
        """Hand over all, and be empty."""
        if self.count & 7:
            self.octets.append(int(self.open))
        found = self.octets.getvalue()
        self.octets.truncate(0)
        self.open = 0
        self.count = 0
        return found


class Valid:
    """Which rows have a value. There are bits only from the first on that has none: ``nulls`` is 0 before."""

    def __init__(self) -> None:
        self.bits: Bits = Bits()
        self.nulls: i64 = 0

    def some(self, rows: i64) -> None:
        """So many rows have one. Need not be said as long as ``nulls`` is 0."""
        if self.nulls > 0:
            self.bits.add(True, rows)

    def none(self, before: i64, rows: i64) -> None:
        """So many rows have none, behind ``before`` others."""
        if self.nulls == 0:
            self.bits.add(True, before)
        self.bits.add(False, rows)
        self.nulls += rows

    def take(self) -> bytes:
        """Hand over the bits, b"" when all rows have a value; be empty."""
        self.nulls = 0
        return self.bits.take()


class Values:
    """Octets of variable length, or none, for each row. They are put together when they are taken."""

    def __init__(self) -> None:
        self.offsets: BytesWriter = BytesWriter()
        self.parts: list[bytes] = []
        self.size: i64 = 0
        self.valid: Valid = Valid()
        write_i32_le(self.offsets, 0)

    def add(self, value: bytes) -> None:
        """Append a value."""
        self.parts.append(value)
        self.size += len(value)
        write_i32_le(self.offsets, i32(self.size))
        self.valid.some(1)

    def add_run(self, values: list[bytes], times: i64) -> None:
        """Append several values, and the same again and again: so many times in all."""
        if not values:
            return
        octets = b"".join(values)
        self.parts.append(octets * int(times))
        offsets = self.offsets
        if len(values) == 1:
            _write_ends(offsets, self.size, len(octets), times)
        else:
            base: i64 = self.size
            row: i64 = 0
            while row < times:
                end: i64 = base
                for value in values:
                    end += len(value)
                    write_i32_le(offsets, i32(end))
                base = end
                row += 1
        self.size += len(octets) * times
        self.valid.some(times * len(values))

    def add_none(self, rows: i64) -> None:
        """Append that there is none in so many rows."""
        self.valid.none((len(self.offsets) >> 2) - 1, rows)
        _write_ends(self.offsets, self.size, 0, rows)

    def take(self) -> Column:
        """Hand over all, and be empty."""
        nulls = int(self.valid.nulls)
        found = Column(nulls, self.valid.take(), self.offsets.getvalue(), b"".join(self.parts), [])
        self.offsets.truncate(0)
        self.parts = []
        self.size = 0
        write_i32_le(self.offsets, 0)
        return found


class Stems:
    """A value for each row, of which neighbours begin alike: the stem that they have in common is kept once."""

    def __init__(self) -> None:
        self.values: Values = Values()
        self.stem: bytes = b""
        self.ends: list[bytes] = []  # of the last values, which have that stem

    def add(self, stem: bytes, end: bytes) -> None:
        """Append the value that is ``stem`` and then ``end``."""
        if stem is not self.stem:
            self._join()
            self.stem = stem
        self.ends.append(end)
        values = self.values
        values.size += len(stem) + len(end)
        write_i32_le(values.offsets, i32(values.size))

    def _join(self) -> None:
        if self.ends:
            self.values.parts.append(self.stem + self.stem.join(self.ends))
            self.ends = []

    def take(self) -> Column:
        """Hand over all, and be empty."""
        self._join()
        return self.values.take()


class Parts:
    """A value for each row that is a part of larger octets: where these have `SEVERAL` values, they are not copied."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.octets: bytes = b""  # of the last values
        self.offsets: BytesWriter = BytesWriter()
        self.bounds: BytesWriter = BytesWriter()
        self.size: i64 = 0
        self.end: i64 = 0  # of the last value
        self.copied: list[bytes] = []  # the last values, of octets that have few
        write_i32_le(self.offsets, 0)

    def add(self, octets: bytes, start: i64, end: i64) -> None:
        """Append the value that is ``octets[start:end]``."""
        if octets is not self.octets or start < self.end:
            self._end_octets()
            self.octets = octets
        self.end = end
        self.size += end - start
        write_i32_le(self.offsets, i32(self.size))
        write_i32_le(self.bounds, i32(start))
        write_i32_le(self.bounds, i32(end))

    def _end_octets(self) -> None:
        bounds = self.bounds.getvalue()
        if len(bounds) >= SEVERAL << 3:
            self._end_copied()
            self.pieces.append(Piece(self.octets, self.offsets.getvalue(), bounds))
        else:
            at: i64 = 0
            while at < len(bounds):
                self.copied.append(self.octets[read_i32_le(bounds, at) : read_i32_le(bounds, at + 4)])
                at += 8
        self.offsets.truncate(4)
        self.bounds.truncate(0)
        self.size = 0

    def _end_copied(self) -> None:
        if self.copied:
            values = Values()
            for value in self.copied:
                values.add(value)
            together = values.take()
            self.pieces.append(Piece(together.data, together.offsets, b""))
            self.copied = []

    def take(self) -> list[Piece]:
        """Hand over all, and be empty."""
        self._end_octets()
        self._end_copied()
        self.octets = b""
        found = self.pieces
        self.pieces = []
        return found


class Numbers:
    """A number of 32 or 64 bits, or none, for each row."""

    def __init__(self) -> None:
        self.data: BytesWriter = BytesWriter()
        self.valid: Valid = Valid()

    def add32(self, number: i64, rows: i64) -> None:
        """Append a number that fits 32 bits, for so many rows."""
        _write32(self.data, number, rows)
        self.valid.some(rows)

    def add_time(self, ms: i64, rows: i64) -> None:
        """Append a time in ms since 1970 as microseconds, for so many rows; 0 is none."""
        if rows == 0:
            return
        is_none = ms == 0 or ms > MS_MAX or ms < -MS_MAX
        micros: i64 = 0 if is_none else ms * MICROS
        if is_none:
            self.valid.none(len(self.data) >> 3, rows)
        else:
            self.valid.some(rows)
        row: i64 = 0
        while row < rows:
            write_i64_le(self.data, micros)
            row += 1

    def add_none32(self, rows: i64) -> None:
        """Append that there is none in so many rows."""
        self.valid.none(len(self.data) >> 2, rows)
        _write32(self.data, 0, rows)

    def take(self) -> Column:
        """Hand over all, and be empty."""
        nulls = int(self.valid.nulls)
        found = Column(nulls, self.valid.take(), b"", self.data.getvalue(), [])
        self.data.truncate(0)
        return found


class Consecutive:
    """A number of 64 bits for each row; those that are one behind the other are written when the run ends."""

    def __init__(self) -> None:
        self.data: BytesWriter = BytesWriter()
        self.first: i64 = 0  # of the run
        self.next: i64 = 0

    def add(self, number: i64) -> None:
        """Append a number."""
        if number != self.next:
            self._end()
            self.first = number
        self.next = number + 1

    def _end(self) -> None:
        while self.first < self.next:
            write_i64_le(self.data, self.first)
            self.first += 1

    def take(self) -> Column:
        """Hand over all, and be empty."""
        self._end()
        found = Column(0, b"", b"", self.data.getvalue(), [])
        self.data.truncate(0)
        return found


class Times:
    """A time for each row; one that several rows have is written when they end."""

    def __init__(self) -> None:
        self.numbers: Numbers = Numbers()
        self.ms: i64 = 0  # of the last rows
        self.rows: i64 = 0

    def add(self, ms: i64) -> None:
        """Append a time in ms since 1970; 0 is none."""
        if ms != self.ms:
            self._end()
            self.ms = ms
        self.rows += 1

    def _end(self) -> None:
        self.numbers.add_time(self.ms, self.rows)
        self.rows = 0

    def take(self) -> Column:
        """Hand over all, and be empty."""
        self._end()
        return self.numbers.take()


class Lists:
    """Where the values of each row end in further columns: of a list one, of a map its keys and its values."""

    def __init__(self, children: int) -> None:
        self.offsets: BytesWriter = BytesWriter()
        self.children: list[Values] = [Values() for _ in range(children)]
        self.length: i64 = 0
        write_i32_le(self.offsets, 0)

    def end_rows(self, count: i64, rows: i64) -> None:
        """``count`` values were added for each of so many rows."""
        _write_ends(self.offsets, self.length, count, rows)
        self.length += count * rows

    def take(self) -> Column:
        """Hand over all, and be empty."""
        found = Column(0, b"", self.offsets.getvalue(), b"", [child.take() for child in self.children])
        self.offsets.truncate(0)
        self.length = 0
        write_i32_le(self.offsets, 0)
        return found


def _write32(writer: BytesWriter, number: i64, times: i64) -> None:
    while times > 0:
        write_i32_le(writer, i32(number))
        times -= 1


def _write_ends(writer: BytesWriter, start: i64, size: i64, times: i64) -> None:
    """Append where so many things end that stand behind ``start``, each of ``size``."""
    while times > 0:
        start += size
        write_i32_le(writer, i32(start))
        times -= 1
