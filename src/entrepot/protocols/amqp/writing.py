"""The types of AMQP 1.0, chapter 1, written: values of any type, and composites without their trailing nulls. [C]"""

from __future__ import annotations

import struct

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from entrepot.base.errors import Inexpressible
from entrepot.base.primitive import BYTE, CHAR, FLOAT, INT, SHORT, Primitive
from entrepot.protocols.amqp.primitives import (
    ARRAY_32,
    BINARY_8,
    BINARY_32,
    BYTE_1,
    CHARACTER,
    DEPTH_MAX,
    DESCRIBED,
    DOUBLE_8,
    FALSE,
    FLOAT_4,
    INT_1,
    INT_4,
    LIST_0,
    LIST_8,
    LIST_32,
    LONG_1,
    LONG_8,
    MAP_32,
    NULL,
    SHORT_2,
    STRING_8,
    STRING_32,
    SYMBOL_8,
    SYMBOL_32,
    TIMESTAMP,
    TRUE,
    UBYTE,
    UINT,
    UINT_0,
    UINT_1,
    UINT_MAX,
    ULONG,
    ULONG_0,
    ULONG_1,
    USHORT,
    WIDTHS,
    Described,
    Exact,
)


class Target:
    """Where values are written: ``out``. Trailing nulls of a composite are left out."""

    def __init__(self) -> None:
        self.out: BytesWriter = BytesWriter()
        self._count: i64 = 0
        self._used: i64 = 0
        self._mark: i64 = 0
        self._outer: list[i64] = []  # counts of the composites around the one that is written

    # -- composites ----------------------------------------------------------------------------------------------------

    def begin(self, descriptor: i64) -> i64:
        """Begin a composite; return where, for `finish`."""
        out = self.out
        start: i64 = len(out)
        out.append(DESCRIBED)
        out.append(ULONG_1)
        out.append(int(descriptor))
        out.append(LIST_32)
        write_i64_be(out, 0)  # size and count
        self._count = 0
        self._used = 0
        self._mark = len(out)
        return start

    def finish(self, start: i64) -> None:
        """End the composite that began at ``start``."""
        out = self.out
        if self._used == 0:
            out.truncate(start + 3)
            out.append(LIST_0)
            return
        out.truncate(self._mark)
        size = self._mark - start - 8
        if size + 1 - 4 < 256 and self._used < 256:
            fields = out.getvalue()[start + 12 :]
            out.truncate(start + 3)
            out.append(LIST_8)
            out.append(len(fields) + 1)
            out.append(int(self._used))
            out.write(fields)
            return
        put_int32(out, start + 4, size)
        put_int32(out, start + 8, self._used)

    def _noted(self) -> None:
        self._count += 1
        self._used = self._count
        self._mark = len(self.out)

    def leave(self) -> None:
        """A field is a composite itself: keep where this one stands."""
        self._outer.append(self._count)

    def back(self) -> None:
        """The composite that is a field was written: go on with the one around it."""
        self._count = self._outer.pop()
        self._noted()

    def three_way(self, value: i64) -> None:
        """Write a boolean that may be missing: 1, 0 or -1."""
        if value < 0:
            self.null()
        else:
            self.needed_flag(value == 1)

    def needed_flag(self, value: bool) -> None:
        """Write a boolean that has no default."""
        self.out.append(TRUE if value else FALSE)
        self._noted()

    def null(self) -> None:
        """Write a field that is not there."""
        self.out.append(NULL)
        self._count += 1

    def number(self, value: i64, width: i64) -> None:
        """Write an unsigned number of ``width`` octets; one below zero is not there."""
        if value < 0:
            self.null()
            return
        out = self.out
        if width == 1:
            out.append(UBYTE)
            out.append(int(value & 0xFF))
        elif width == 2:
            out.append(USHORT)
            out.append(int((value >> 8) & 0xFF))
            out.append(int(value & 0xFF))
        elif value == 0:
            out.append(UINT_0 if width == 4 else ULONG_0)
        elif value < 256:
            out.append(UINT_1 if width == 4 else ULONG_1)
            out.append(int(value))
        elif width == 4:
            if value > UINT_MAX:
                raise Inexpressible(f"the number {value} has more than 32 bits")
            out.append(UINT)
            put_last32(out, value)
        else:
            out.append(ULONG)
            write_i64_be(out, value)
        self._noted()

    def moment(self, value: i64) -> None:
        """Write a timestamp, unless it is 0."""
        if value <= 0:
            self.null()
            return
        self.out.append(TIMESTAMP)
        write_i64_be(self.out, value)
        self._noted()

    def flag(self, value: bool, absent: bool = False) -> None:
        """Write a boolean; ``absent`` is what the peer takes it for when it is not there."""
        if value == absent:
            self.null()
            return
        self.out.append(TRUE if value else FALSE)
        self._noted()

    def text(self, value: str | None, is_symbol: bool) -> None:
        """Write a string, or a symbol."""
        if value is None:
            self.null()
            return
        write_text(self.out, value, is_symbol)
        self._noted()

    def octets(self, value: bytes | None) -> None:
        """Write a binary field."""
        if value is None:
            self.null()
            return
        write_binary(self.out, value)
        self._noted()

    def texts(self, values: list[str]) -> None:
        """Write symbols; none are not there."""
        if not values:
            self.null()
            return
        write_symbols(self.out, values)
        self._noted()

    def table(self, entries: dict[str, object] | None) -> None:
        """Write a map whose keys are symbols."""
        if entries is None:
            self.null()
            return
        write_map(self.out, entries, True)
        self._noted()

    def anything(self, value: object) -> None:
        """Write a value of any type."""
        if value is None:
            self.null()
            return
        write_value(self.out, value)
        self._noted()


# -- writing values ------------------------------------------------------------------------------------------------


def write_value(out: BytesWriter, value: object, depth: i64 = 0) -> None:
    """Write any value. Raises Inexpressible."""
    if depth > DEPTH_MAX:
        raise Inexpressible(f"values are nested deeper than {DEPTH_MAX}")
    if value is None:
        out.append(NULL)
    elif isinstance(value, bool):
        out.append(TRUE if value else FALSE)
    elif isinstance(value, int):
        _write_long(out, value)
    elif isinstance(value, str):
        write_text(out, value, False)
    elif isinstance(value, float):
        out.append(DOUBLE_8)
        out.write(struct.pack(">d", value))
    elif isinstance(value, bytes):
        write_binary(out, value)
    elif isinstance(value, Primitive):
        _write_primitive(out, value, depth)
    elif isinstance(value, Exact):
        _write_exact(out, value)
    elif isinstance(value, Described):
        out.append(DESCRIBED)
        _write_descriptor(out, value.descriptor)
        write_value(out, value.value, depth + 1)
    elif isinstance(value, dict):
        write_map(out, value, False, depth)
    elif isinstance(value, list):
        write_list(out, value, depth)
    else:
        raise Inexpressible(f"AMQP has no type for {type(value).__name__}")


def _write_descriptor(out: BytesWriter, descriptor: object) -> None:
    if isinstance(descriptor, str):
        write_text(out, descriptor, True)
    elif isinstance(descriptor, int) and 0 <= descriptor < 256:
        out.append(ULONG_1)
        out.append(descriptor)
    elif isinstance(descriptor, int) and 0 <= descriptor < 1 << 64:
        out.append(ULONG)
        out.write(descriptor.to_bytes(8, "big"))
    else:
        write_value(out, descriptor, DEPTH_MAX)


def _write_long(out: BytesWriter, value: int) -> None:
    if -128 <= value < 128:
        out.append(LONG_1)
        out.append(value & 0xFF)
    elif -(1 << 63) <= value < 1 << 63:
        out.append(LONG_8)
        write_i64_be(out, i64(value))
    elif 0 <= value < 1 << 64:
        out.append(ULONG)
        out.write(value.to_bytes(8, "big"))
    else:
        raise Inexpressible(f"the number {value} has more than 64 bits")


def _write_primitive(out: BytesWriter, primitive: Primitive, depth: i64) -> None:
    value = primitive.value
    tag = primitive.tag
    if tag == BYTE and isinstance(value, int):
        out.append(BYTE_1)
        out.append(value & 0xFF)
    elif tag == SHORT and isinstance(value, int):
        out.append(SHORT_2)
        write_i16_be(out, i16(value))
    elif tag == INT and isinstance(value, int):
        write_int(out, value)
    elif tag == FLOAT and isinstance(value, float):
        out.append(FLOAT_4)
        out.write(struct.pack(">f", value))
    elif tag == CHAR and isinstance(value, str) and len(value) == 1:
        out.append(CHARACTER)
        out.write(ord(value).to_bytes(4, "big"))
    else:
        write_value(out, value, depth + 1)


def write_int(out: BytesWriter, value: int) -> None:
    """Write a number of 32 bits with its sign. Raises Inexpressible."""
    if -128 <= value < 128:
        out.append(INT_1)
        out.append(value & 0xFF)
    elif -(1 << 31) <= value < 1 << 31:
        out.append(INT_4)
        write_i32_be(out, i32(value))
    else:
        raise Inexpressible(f"the number {value} has more than 32 bits")


def _write_exact(out: BytesWriter, exact: Exact) -> None:
    value = exact.value
    code = exact.code
    if isinstance(value, bytes):
        out.append(code)
        out.write(value)
    elif isinstance(value, str):
        write_text(out, value, code in (SYMBOL_8, SYMBOL_32))
    elif isinstance(value, int):
        width = WIDTHS.get(code >> 4, 0)
        out.append(code)
        out.write((value & ((1 << (8 * width)) - 1)).to_bytes(width, "big"))
    else:
        raise Inexpressible(f"AMQP cannot say {exact!r}")


def write_text(out: BytesWriter, text: str, is_symbol: bool) -> None:
    """Write a string or a symbol. A symbol is ASCII; what is not, is said by ``?``. Raises Inexpressible."""
    try:
        octets = text.encode("ascii", "replace") if is_symbol else text.encode()
    except UnicodeEncodeError:
        raise Inexpressible("a text has half of a surrogate pair") from None
    length: i64 = len(octets)
    if length < 256:
        out.append(SYMBOL_8 if is_symbol else STRING_8)
        out.append(int(length))
    else:
        out.append(SYMBOL_32 if is_symbol else STRING_32)
        put_last32(out, length)
    out.write(octets)


def write_binary(out: BytesWriter, octets: bytes) -> None:
    """Write octets."""
    length: i64 = len(octets)
    if length < 256:
        out.append(BINARY_8)
        out.append(int(length))
    else:
        out.append(BINARY_32)
        put_last32(out, length)
    out.write(octets)


def write_symbols(out: BytesWriter, values: list[str]) -> None:
    """Write an array of symbols. What is no ASCII is said by ``?``."""
    start = _open(out, ARRAY_32, len(values))
    out.append(SYMBOL_32)
    for each in values:
        octets = each.encode("ascii", "replace")
        put_last32(out, len(octets))
        out.write(octets)
    put_int32(out, start + 1, len(out) - start - 5)


def _open(out: BytesWriter, code: int, count: i64) -> i64:
    start: i64 = len(out)
    out.append(code)
    put_last32(out, 0)
    put_last32(out, count)
    return start


def write_list(out: BytesWriter, values: list[object], depth: i64 = 0) -> None:
    """Write a list."""
    if not values:
        out.append(LIST_0)
        return
    start = _open(out, LIST_32, len(values))
    for each in values:
        write_value(out, each, depth + 1)
    put_int32(out, start + 1, len(out) - start - 5)


def write_map(out: BytesWriter, entries: dict[str, object], symbols: bool, depth: i64 = 0) -> None:
    """Write a map; its keys are ``symbols``, or strings where they are texts."""
    start = _open(out, MAP_32, 2 * len(entries))
    for key, each in entries.items():
        if isinstance(key, str):
            write_text(out, key, symbols)
        else:
            write_value(out, key, depth + 1)
        write_value(out, each, depth + 1)
    put_int32(out, start + 1, len(out) - start - 5)


def put_last32(out: BytesWriter, value: i64) -> None:
    """Append 32 bits without a sign."""
    out.append(int((value >> 24) & 0xFF))
    out.append(int((value >> 16) & 0xFF))
    out.append(int((value >> 8) & 0xFF))
    out.append(int(value & 0xFF))


def put_int32(out: BytesWriter, at: i64, value: i64) -> None:
    """Overwrite 4 octets."""
    octet: int
    for place in range(4):
        octet = int((value >> (24 - 8 * place)) & 0xFF)
        out[at + place] = octet
