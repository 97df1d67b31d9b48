"""Big-endian reader and writer over bytes, bounded: no length that a peer wrote can make them leave their bounds. [C]

What a reader refuses is a `MalformedFrame`, never an IndexError or a UnicodeDecodeError. What a writer refuses is
`Inexpressible` when the data have no form here (too long for the count or the frame, a lone surrogate) and a `Fault`
when a number does not fit its field: a caller knows its numbers, a peer chooses its data.

Both use one vocabulary, so that a layout reads the same in both directions::

    u8 u16 u32 i16 i32 i64 f32 f64     fixed width, big-endian
    varint                             unsigned LEB128: 7 bits an octet, lowest first, high bit = more; 1 to 10 octets
    raw(n)                             n octets
    raw_32  raw_varint                 octets behind a u32 or varint count
    utf8(n)                            n octets of UTF-8
    utf8_16  utf8_32  utf8_varint      UTF-8 behind a u16, u32 or varint count of octets

One value has one encoding: a varint longer than it must be, and UTF-8 that Python would not write, are refused.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f32_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16 as int16
from mypy_extensions import i32 as int32
from mypy_extensions import i64 as int64
from mypy_extensions import u8 as uint8  # under other names, because ``i64``, ``u8`` are methods here

from entrepot.base.errors import Fault, Inexpressible, MalformedFrame

VARINT_OCTETS_MAX: Final = 10  # 64 bits, 7 an octet
U16_MAX: Final = 0xFFFF
U32_MAX: Final = 0xFFFF_FFFF
U64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
WRITER_OCTETS_MAX: Final = 0x7FFF_FFFF  # every protocol here counts a frame in at most 31 bits, AMQP and journal too


class OctetReader:
    """Reads ``data[start:end]`` from front to back. ``position`` counts from the front of ``data``, not from ``start``.

    After a MalformedFrame the position is where the field began that could not be read.
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, start: int64 = 0, end: int64 = -1) -> None:
        """Bound the reader to ``data[start:end]``; ``end`` -1 is the end of ``data``. Raises Fault for other bounds."""
        last: int64 = len(data)
        if end == -1:
            end = last
        if start < 0 or end < start or end > last:
            raise Fault(f"a reader from {start} to {end} of {last} octets")
        self.data: Final[bytes] = data
        self.position: int64 = start
        self.end: Final[int64] = end

    @property
    def remaining(self) -> int64:
        """Return the octets left."""
        return self.end - self.position

    def _take(self, count: int64) -> int64:
        """Return the position of the next ``count`` octets and pass them."""
        at = self.position
        if count < 0 or count > self.end - at:
            raise MalformedFrame(f"{count} octets wanted at {at}, {self.end - at} left")
        self.position = at + count
        return at

    def u8(self) -> int64:
        """Read one octet, 0 to 255."""
        return self.data[self._take(1)]

    def u16(self) -> int64:
        """Read two octets, 0 to 65,535."""
        value = int64(read_i16_be(self.data, self._take(2)))
        return value & U16_MAX

    def u32(self) -> int64:
        """Read four octets, 0 to 2^32-1."""
        value = int64(read_i32_be(self.data, self._take(4)))
        return value & U32_MAX

    def i16(self) -> int64:
        """Read two octets, signed."""
        return int64(read_i16_be(self.data, self._take(2)))

    def i32(self) -> int64:
        """Read four octets, signed."""
        return int64(read_i32_be(self.data, self._take(4)))

    def i64(self) -> int64:
        """Read eight octets, signed."""
        return read_i64_be(self.data, self._take(8))

    def f32(self) -> float:
        """Read a 32-bit IEEE 754 number."""
        return read_f32_be(self.data, self._take(4))

    def f64(self) -> float:
        """Read a 64-bit IEEE 754 number."""
        return read_f64_be(self.data, self._take(8))

    def varint(self) -> int:
        """Read an unsigned number below 2^64. Refuses more than ten octets and a last octet that adds nothing."""
        at = self.position
        end = self.end
        data = self.data
        value: int64 = 0
        shift: int64 = 0
        while at < end:
            octet: int64 = data[at]
            at += 1
            if shift == 63:  # the tenth octet holds the one bit that an i64 has no room for
                if octet != 1:
                    raise MalformedFrame(f"a varint at {self.position} is longer than 64 bits")
                self.position = at
                low: int = value  # an int, since the sum is no i64
                return low + (1 << 63)
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                if octet == 0 and shift > 0:
                    raise MalformedFrame(f"a varint at {self.position} is longer than it must be")
                self.position = at
                return value
            shift += 7
        raise MalformedFrame(f"a varint at {self.position} has no end")

    def raw(self, count: int64) -> bytes:
        """Read ``count`` octets as they are."""
        at = self._take(count)
        return self.data[at : at + count]

    def raw_32(self) -> bytes:
        """Read octets behind their u32 count."""
        began = self.position
        return self._counted(began, self.u32())

    def raw_varint(self) -> bytes:
        """Read octets behind their varint count."""
        began = self.position
        return self._counted(began, self._count(began))

    def utf8(self, count: int64) -> str:
        """Read ``count`` octets of UTF-8."""
        began = self.position
        return self._text(began, self.raw(count))

    def utf8_16(self) -> str:
        """Read UTF-8 behind the u16 count of its octets."""
        began = self.position
        return self._text(began, self._counted(began, self.u16()))

    def utf8_32(self) -> str:
        """Read UTF-8 behind the u32 count of its octets."""
        began = self.position
        return self._text(began, self._counted(began, self.u32()))

    def utf8_varint(self) -> str:
        """Read UTF-8 behind the varint count of its octets."""
        began = self.position
        return self._text(began, self._counted(began, self._count(began)))

    def sub(self, count: int64) -> OctetReader:
        """Return a reader of the next ``count`` octets, and pass them. It shares ``data`` and copies nothing."""
        at = self._take(count)
        return OctetReader(self.data, at, at + count)

    def skip(self, count: int64) -> None:
        """Pass ``count`` octets unread."""
        self._take(count)

    def finish(self) -> None:
        """Check that everything was read. Raises MalformedFrame when octets are left."""
        if self.position != self.end:
            raise MalformedFrame(f"{self.end - self.position} octets too many at {self.position}")

    def _count(self, began: int64) -> int64:
        """Return a varint that counts octets to come."""
        count = self.varint()
        if count > self.end - self.position:  # compared as an int: it may be beyond an i64
            left = self.end - self.position
            self.position = began
            raise MalformedFrame(f"{count} octets wanted at {began}, {left} left")
        return count

    def _counted(self, began: int64, count: int64) -> bytes:
        """Return ``count`` octets; if they are not there go back to their count, which is where the field ``began``."""
        at = self.position
        if count > self.end - at:
            left = self.end - at
            self.position = began
            raise MalformedFrame(f"{count} octets wanted at {began}, {left} left")
        self.position = at + count
        return self.data[at : at + count]

    def _text(self, began: int64, octets: bytes) -> str:
        try:
            return octets.decode("utf-8")
        except UnicodeDecodeError as error:
            self.position = began
            raise MalformedFrame(f"text at {began} is not UTF-8: {error.reason}") from None


class OctetWriter:
    """Appends to one growing buffer, up to ``limit`` octets; `reserve_32` leaves room for a size not yet known.

    After an exception nothing of that field has been written.
    """

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int64 = WRITER_OCTETS_MAX) -> None:
        self._buffer: Final[BytesWriter] = BytesWriter()
        self.limit: Final[int64] = limit

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def position(self) -> int64:
        """Return the octets written so far."""
        return len(self._buffer)

    def _room(self, count: int64) -> None:
        """Check that ``count`` octets more stay within the limit."""
        if count > self.limit - len(self._buffer):
            raise Inexpressible(f"{len(self._buffer)} + {count} octets exceed the limit of {self.limit}")

    def u8(self, value: int64) -> None:
        """Write one octet, 0 to 255."""
        if value < 0 or value > 0xFF:
            raise Fault(f"{value} does not fit 8 bits")
        self._room(1)
        self._buffer.append(value)

    def u16(self, value: int64) -> None:
        """Write two octets, 0 to 65,535."""
        if value < 0 or value > U16_MAX:
            raise Fault(f"{value} does not fit 16 bits")
        self._room(2)
        if value > 0x7FFF:
            value -= 0x1_0000
        write_i16_be(self._buffer, int16(value))

    def u32(self, value: int64) -> None:
        """Write four octets, 0 to 2^32-1."""
        if value < 0 or value > U32_MAX:
            raise Fault(f"{value} does not fit 32 bits")
        self._room(4)
        if value > 0x7FFF_FFFF:
            value -= 0x1_0000_0000
        write_i32_be(self._buffer, int32(value))

    def i16(self, value: int64) -> None:
        """Write two octets, signed."""
        if value < -0x8000 or value > 0x7FFF:
            raise Fault(f"{value} does not fit 16 bits with a sign")
        self._room(2)
        write_i16_be(self._buffer, int16(value))

    def i32(self, value: int64) -> None:
        """Write four octets, signed."""
        if value < -0x8000_0000 or value > 0x7FFF_FFFF:
            raise Fault(f"{value} does not fit 32 bits with a sign")
        self._room(4)
        write_i32_be(self._buffer, int32(value))

    def i64(self, value: int64) -> None:
        """Write eight octets, signed. A number beyond 64 bits is no int64: ValueError, or TypeError compiled."""
        self._room(8)
        write_i64_be(self._buffer, value)

    def f32(self, value: float) -> None:
        """Write a 32-bit IEEE 754 number, rounded; what is too large for it becomes infinity."""
        self._room(4)
        write_f32_be(self._buffer, value)

    def f64(self, value: float) -> None:
        """Write a 64-bit IEEE 754 number."""
        self._room(8)
        write_f64_be(self._buffer, value)

    def varint(self, value: int) -> None:
        """Write an unsigned number below 2^64 in as few octets as it needs."""
        if value < 0 or value > U64_MAX:
            raise Fault(f"{value} does not fit 64 bits without a sign")
        self._room(varint_size(value))
        buffer = self._buffer
        if value > U64_MAX >> 1:  # more than an i64 holds: its low seven bits first, then 57 are left
            buffer.append(0x80 | (value & 0x7F))
            value >>= 7
        rest: int64 = value
        while rest > 0x7F:
            buffer.append(0x80 | (rest & 0x7F))
            rest >>= 7
        buffer.append(rest)

    def raw(self, octets: bytes) -> None:
        """Write ``octets`` as they are."""
        self._room(len(octets))
        self._buffer.write(octets)

    def raw_32(self, octets: bytes) -> None:
        """Write ``octets`` behind their u32 count."""
        self._room(len(octets) + 4)
        self.u32(len(octets))
        self._buffer.write(octets)

    def raw_varint(self, octets: bytes) -> None:
        """Write ``octets`` behind their varint count."""
        self._room(len(octets) + varint_size(len(octets)))
        self.varint(len(octets))
        self._buffer.write(octets)

    def utf8(self, text: str) -> None:
        """Write ``text`` as UTF-8 without a count."""
        self.raw(_encoded(text))

    def utf8_16(self, text: str) -> None:
        """Write ``text`` behind a u16 count. Raises Inexpressible when it has more than 65,535 octets."""
        octets = _encoded(text)
        if len(octets) > U16_MAX:
            raise Inexpressible(f"text of {len(octets)} octets where at most {U16_MAX} fit")
        self._room(len(octets) + 2)
        self.u16(len(octets))
        self._buffer.write(octets)

    def utf8_32(self, text: str) -> None:
        """Write ``text`` behind a u32 count."""
        self.raw_32(_encoded(text))

    def utf8_varint(self, text: str) -> None:
        """Write ``text`` behind a varint count."""
        self.raw_varint(_encoded(text))

    def reserve_32(self) -> int64:
        """Write four zero octets and return their position, for `fill_32` once the size of what follows is known."""
        at: int64 = len(self._buffer)
        self.u32(0)
        return at

    def fill_32(self, at: int64) -> None:
        """Write the count of octets behind the reserve at ``at`` into it, as a u32."""
        count: int64 = len(self._buffer) - at - 4
        if at < 0 or count < 0:
            raise Fault(f"nothing was reserved at {at}")
        buffer = self._buffer
        buffer[at] = uint8((count >> 24) & 0xFF)
        buffer[at + 1] = uint8((count >> 16) & 0xFF)
        buffer[at + 2] = uint8((count >> 8) & 0xFF)
        buffer[at + 3] = uint8(count & 0xFF)

    def truncate(self, position: int64) -> None:
        """Forget what was written behind ``position``."""
        if position < 0 or position > len(self._buffer):
            raise Fault(f"cannot go back to {position} of {len(self._buffer)} octets")
        self._buffer.truncate(position)

    def getvalue(self) -> bytes:
        """Return everything written; writing may go on."""
        return self._buffer.getvalue()


def varint_size(value: int) -> int64:
    """Return how many octets the varint of ``value`` takes, 1 to 10; ``value`` is 0 to 2^64-1."""
    size: int64 = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


def _encoded(text: str) -> bytes:
    """Return ``text`` as UTF-8. Raises Inexpressible for a lone surrogate, which UTF-8 cannot carry."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Inexpressible(f"text with a lone surrogate at character {error.start} has no UTF-8 form") from None
