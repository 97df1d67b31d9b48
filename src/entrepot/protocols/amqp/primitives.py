"""The types of AMQP 1.0, chapter 1: read where they lie. [C]

What Python has one type for, AMQP has several. In *plain* values (`Source.value`) numbers are numbers, symbols and
characters are texts, and timestamps are ms since 1970. In *typed* ones (``typed``) a number knows its Java type
(`Primitive`), as the mapping of JMS has it: an unsigned one is the next larger signed one. What has no type in JMS
(decimals, UUIDs, described values inside of others) is an `Exact`, or a `Described`, in both.

No octets of a peer make more values than there are octets (`Source.budget`), nor nest deeper than `DEPTH_MAX`.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import (
    read_i16_be,
    read_i32_be,
    read_i64_be,
)
from mypy_extensions import i64

from entrepot.base.errors import LimitExceeded, MalformedFrame
from entrepot.base.primitive import BYTE, CHAR, DOUBLE, FLOAT, INT, LONG, OCTETS, SHORT, Primitive

DEPTH_MAX: Final = 32
ABSENT: Final = -1  # a number that is not there; none of the numbers of a performative is below zero
LONG_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 32) - 1

DESCRIBED: Final = 0x00
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT_0: Final = 0x43
ULONG_0: Final = 0x44
LIST_0: Final = 0x45
UBYTE: Final = 0x50
BYTE_1: Final = 0x51
UINT_1: Final = 0x52
ULONG_1: Final = 0x53
INT_1: Final = 0x54
LONG_1: Final = 0x55
BOOLEAN: Final = 0x56
USHORT: Final = 0x60
SHORT_2: Final = 0x61
UINT: Final = 0x70
INT_4: Final = 0x71
FLOAT_4: Final = 0x72
CHARACTER: Final = 0x73
DECIMAL_32: Final = 0x74
ULONG: Final = 0x80
LONG_8: Final = 0x81
DOUBLE_8: Final = 0x82
TIMESTAMP: Final = 0x83
DECIMAL_64: Final = 0x84
DECIMAL_128: Final = 0x94
UUID: Final = 0x98
BINARY_8: Final = 0xA0
STRING_8: Final = 0xA1
SYMBOL_8: Final = 0xA3
BINARY_32: Final = 0xB0
STRING_32: Final = 0xB1
SYMBOL_32: Final = 0xB3
LIST_8: Final = 0xC0
MAP_8: Final = 0xC1
LIST_32: Final = 0xD0
MAP_32: Final = 0xD1
ARRAY_8: Final = 0xE0
ARRAY_32: Final = 0xF0

WIDTHS: Final = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}  # octets of a value, by the upper half of its code
_KNOWN: Final[dict[int, None]] = dict.fromkeys(
    (
        NULL, TRUE, FALSE, UINT_0, ULONG_0, LIST_0, UBYTE, BYTE_1, UINT_1, ULONG_1, INT_1, LONG_1, BOOLEAN, USHORT,
        SHORT_2, UINT, INT_4, FLOAT_4, CHARACTER, DECIMAL_32, ULONG, LONG_8, DOUBLE_8, TIMESTAMP, DECIMAL_64,
        DECIMAL_128, UUID, BINARY_8, STRING_8, SYMBOL_8, BINARY_32, STRING_32, SYMBOL_32, LIST_8, MAP_8, LIST_32,
        MAP_32, ARRAY_8, ARRAY_32,
    )
)  # fmt: skip
_TAGS: Final = {
    UBYTE: SHORT, BYTE_1: BYTE, UINT_1: LONG, ULONG_1: LONG, INT_1: INT, LONG_1: LONG, USHORT: INT, SHORT_2: SHORT,
    UINT: LONG, INT_4: INT, ULONG: LONG, LONG_8: LONG, TIMESTAMP: LONG, UINT_0: LONG, ULONG_0: LONG,
}  # fmt: skip
"""Code of a number -> its type in JMS."""


class Exact:
    """A value that Python has no type for, or whose type matters: its code and its octets, or number, or text."""

    def __init__(self, code: int, value: object) -> None:
        self.code: int = code
        self.value: object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self.code == other.code and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.code, self.value))

    def __repr__(self) -> str:
        return f"Exact({self.code:#x}, {self.value!r})"


class Described:
    """A value and what describes it: a number, or a text."""

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor: object = descriptor
        self.value: object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.descriptor == other.descriptor and self.value == other.value

    def __hash__(self) -> int:
        return hash(("described", repr(self.descriptor)))

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


def symbol(text: str) -> Exact:
    """Return ``text`` as it is written as a symbol."""
    return Exact(SYMBOL_8, text)


class Source:
    """Octets from ``at`` to ``end``. What is behind them, or too deep, is a MalformedFrame or a LimitExceeded."""

    def __init__(self, data: bytes, at: i64, end: i64) -> None:
        self.data: bytes = data
        self.at: i64 = at
        self.end: i64 = end
        self.budget: i64 = end - at + 16  # values that these octets may be
        self.left: i64 = 0  # fields of the composite that is being read
        self.depth: i64 = 0  # composites that it is in

    # -- steps ---------------------------------------------------------------------------------------------------------

    def take(self, length: i64) -> i64:
        """Go on by ``length`` octets; return where they begin."""
        at = self.at
        if length < 0 or length > self.end - at:
            raise MalformedFrame(f"{length} octets are wanted, {self.end - at} are left")
        self.at = at + length
        return at

    def octet(self) -> i64:
        """Return the next octet."""
        at = self.take(1)
        return self.data[at]

    def size(self, code: i64) -> i64:
        """Return the size, or the count, that stands next: of 1 octet or of 4, by ``code``."""
        if code & 0x10 == 0:
            return self.octet()
        at = self.take(4)
        return i64(read_i32_be(self.data, at)) & UINT_MAX

    # -- any value -----------------------------------------------------------------------------------------------------

    def value(self, typed: bool = False, depth: i64 = 0) -> object:
        """Return the next value."""
        return self.of(self.octet(), typed, depth)

    def of(self, code: i64, typed: bool, depth: i64) -> object:
        """Return the value behind ``code``."""
        self.budget -= 1
        if self.budget < 0:
            raise LimitExceeded("there are more values than octets")
        if code == NULL:
            return None
        if code in (TRUE, FALSE):
            return code == TRUE
        if code == DESCRIBED:
            return self._described(typed, depth)
        if code >= LIST_8 or code == LIST_0:
            return self._compound(code, typed, depth)
        if code >= BINARY_8:
            return self._variable(code, typed)
        if code not in _KNOWN:
            raise MalformedFrame(f"no type of AMQP has the code 0x{int(code):02x}")
        return self._fixed(code, typed)

    def _described(self, typed: bool, depth: i64) -> object:
        if depth >= DEPTH_MAX:
            raise LimitExceeded(f"values are nested deeper than {DEPTH_MAX}")
        descriptor = self.value(False, depth + 1)
        return Described(descriptor, self.value(typed, depth + 1))

    def _variable(self, code: i64, typed: bool) -> object:
        if code not in _KNOWN:
            raise MalformedFrame(f"no type of AMQP has the code 0x{int(code):02x}")
        length = self.size(code)
        at = self.take(length)
        octets = self.data[at : at + length]
        if code in (BINARY_8, BINARY_32):
            return Primitive(OCTETS, octets) if typed else octets
        return text_in(octets, code in (SYMBOL_8, SYMBOL_32))

    def _fixed(self, code: i64, typed: bool) -> object:
        width: i64 = WIDTHS[int(code >> 4)]
        at = self.take(width)
        if code == BOOLEAN:
            octet: i64 = self.data[at]
            if octet > 1:
                raise MalformedFrame(f"a boolean is 0x{int(octet):02x}")
            return octet == 1
        tag = _TAGS.get(int(code))
        if tag is not None:
            number = self._number(code, at, width)
            return Primitive(tag, number) if typed else number
        octets = self.data[at : at + width]
        if code == DOUBLE_8:
            real: float = struct.unpack(">d", octets)[0]
            return Primitive(DOUBLE, real) if typed else real
        if code == FLOAT_4:
            real = struct.unpack(">f", octets)[0]
            return Primitive(FLOAT, real) if typed else real
        if code == CHARACTER:
            point = int.from_bytes(octets, "big")
            if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                raise MalformedFrame(f"a character is U+{point:X}")
            return Primitive(CHAR, chr(point)) if typed and point < 0x10000 else chr(point)
        return Exact(int(code), octets)

    def _number(self, code: i64, at: i64, width: i64) -> int:
        data = self.data
        if width == 0:
            return 0
        if width == 1:
            octet: i64 = data[at]
            if octet > 127 and (code in (BYTE_1, INT_1, LONG_1)):
                octet -= 256
            return int(octet)
        if width == 2:
            short = i64(read_i16_be(data, at))
            return int(short & 0xFFFF) if code == USHORT else int(short)
        if width == 4:
            number = i64(read_i32_be(data, at))
            return int(number & UINT_MAX) if code == UINT else int(number)
        long = int(read_i64_be(data, at))
        return long + (1 << 64) if code == ULONG and long < 0 else long

    def _compound(self, code: i64, typed: bool, depth: i64) -> object:
        if depth >= DEPTH_MAX:
            raise LimitExceeded(f"values are nested deeper than {DEPTH_MAX}")
        if code == LIST_0:
            return []
        if code not in _KNOWN:
            raise MalformedFrame(f"no type of AMQP has the code 0x{int(code):02x}")
        size = self.size(code)
        start = self.at
        if size > self.end - start:
            raise MalformedFrame(f"{size} octets are wanted, {self.end - start} are left")
        outer = self.end
        self.end = start + size
        count = self.size(code)
        if code in (LIST_8, LIST_32):
            made: object = self._row(count, typed, depth)
        elif code in (MAP_8, MAP_32):
            made = self._entries(count, typed, depth)
        else:
            made = self._array(count, typed, depth)
        if self.at != self.end:
            raise MalformedFrame(f"a value of {size} octets has {self.end - self.at} too many")
        self.end = outer
        return made

    def _row(self, count: i64, typed: bool, depth: i64) -> list[object]:
        row: list[object] = []
        done: i64 = 0
        while done < count:
            row.append(self.value(typed, depth + 1))
            done += 1
        return row

    def _entries(self, count: i64, typed: bool, depth: i64) -> dict[object, object]:
        if count & 1:
            raise MalformedFrame("a key of a map has no value")
        entries: dict[object, object] = {}
        done: i64 = 0
        while done < count:
            key = self.value(False, depth + 1)
            if isinstance(key, (list, dict)):
                raise MalformedFrame("a key of a map is a list or a map")
            entries[key] = self.value(typed, depth + 1)
            done += 2
        return entries

    def _array(self, count: i64, typed: bool, depth: i64) -> list[object]:
        code = self.octet()
        row: list[object] = []
        descriptor: object = None
        described = code == DESCRIBED
        if described:
            descriptor = self.value(False, depth + 1)
            code = self.octet()
        done: i64 = 0
        while done < count:
            each = self.of(code, typed, depth + 1)
            row.append(Described(descriptor, each) if described else each)
            done += 1
        return row

    def skip(self) -> None:
        """Go behind the next value, of which only the outermost size is looked at."""
        code = self.octet()
        nested: i64 = 0
        while code == DESCRIBED:
            nested += 1
            if nested > DEPTH_MAX:
                raise LimitExceeded(f"values are nested deeper than {DEPTH_MAX}")
            self.skip_simple(self.octet())  # the descriptor
            code = self.octet()
        self.skip_simple(code)

    def skip_simple(self, code: i64) -> None:
        """Go behind a value that has no descriptor."""
        if code not in _KNOWN:
            raise MalformedFrame(f"no type of AMQP has the code 0x{int(code):02x}")
        if code >= BINARY_8:
            self.take(self.size(code))
        else:
            self.take(WIDTHS[int(code >> 4)])

    # -- composites: a list, whose fields may end early ----------------------------------------------------------------

    def enter(self) -> i64:
        """Begin the list of a composite: ``left`` fields follow. Return where it ends."""
        code = self.octet()
        if code == LIST_0:
            self.left = 0
            return self.at
        if code != LIST_8 and code != LIST_32:
            raise MalformedFrame(f"a list of fields begins with 0x{int(code):02x}")
        size = self.size(code)
        start = self.at
        if size > self.end - start:
            raise MalformedFrame(f"a list of {size} octets is longer than its frame")
        self.left = self.size(code)
        return start + size

    def field(self) -> i64:
        """Return the code of the next field; NULL where there is none any more."""
        if self.left <= 0:
            return NULL
        self.left -= 1
        return self.octet()

    def sink(self, levels: i64) -> None:
        """Go into a composite (1), or come out of it (-1). Raises LimitExceeded."""
        self.depth += levels
        if self.depth > DEPTH_MAX:
            raise LimitExceeded(f"values are nested deeper than {DEPTH_MAX}")

    def three_way(self) -> i64:
        """Return a boolean field that may be missing: 1, 0 or -1."""
        code = self.field()
        if code == NULL:
            return ABSENT
        if code == BOOLEAN:
            return min(self.octet(), i64(1))
        if code != TRUE and code != FALSE:
            raise MalformedFrame(f"a field that is a boolean has the code 0x{int(code):02x}")
        return 1 if code == TRUE else 0

    def number(self, absent: i64 = ABSENT) -> i64:
        """Return an unsigned field; ``absent`` where it is null. What does not fit 63 bits is cut there."""
        code = self.field()
        if code in (UINT_1, UBYTE, ULONG_1):
            return self.octet()
        if code in (UINT_0, ULONG_0):
            return 0
        if code == NULL:
            return absent
        if code == UINT:
            at = self.take(4)
            return i64(read_i32_be(self.data, at)) & UINT_MAX
        if code == USHORT:
            at = self.take(2)
            return i64(read_i16_be(self.data, at)) & 0xFFFF
        if code == ULONG:
            at = self.take(8)
            long: i64 = read_i64_be(self.data, at)
            return LONG_MAX if long < 0 else long
        raise MalformedFrame(f"a field that is an unsigned number has the code 0x{int(code):02x}")

    def moment(self) -> i64:
        """Return a timestamp; 0 where it is null, or before 1970."""
        code = self.field()
        if code == NULL:
            return 0
        if code != TIMESTAMP:
            raise MalformedFrame(f"a field that is a timestamp has the code 0x{int(code):02x}")
        at = self.take(8)
        ms: i64 = read_i64_be(self.data, at)
        return max(ms, i64(0))

    def flag(self, absent: bool = False) -> bool:
        """Return a boolean field."""
        code = self.field()
        if code == NULL:
            return absent
        if code in (TRUE, FALSE):
            return code == TRUE
        if code == BOOLEAN:
            return self.octet() != 0
        raise MalformedFrame(f"a field that is a boolean has the code 0x{int(code):02x}")

    def text(self) -> str | None:
        """Return a string or a symbol; None for null."""
        code = self.field()
        if code == NULL:
            return None
        if code != STRING_8 and code != SYMBOL_8 and code != STRING_32 and code != SYMBOL_32:
            raise MalformedFrame(f"a field that is text has the code 0x{int(code):02x}")
        length = self.size(code)
        at = self.take(length)
        return text_in(self.data[at : at + length], code in (SYMBOL_8, SYMBOL_32))

    def octets(self) -> bytes | None:
        """Return a binary field; None for null."""
        code = self.field()
        if code == NULL:
            return None
        if code != BINARY_8 and code != BINARY_32:
            raise MalformedFrame(f"a field that is binary has the code 0x{int(code):02x}")
        length = self.size(code)
        at = self.take(length)
        return self.data[at : at + length]

    def texts(self) -> list[str]:
        """Return symbols: one, or an array of them."""
        value = self.anything()
        if value is None:
            return []
        if isinstance(value, str):
            return [value]
        if isinstance(value, list):
            found: list[str] = []
            for each in value:
                if not isinstance(each, str):
                    raise MalformedFrame("among symbols is something else")
                found.append(each)
            return found
        raise MalformedFrame("a field that is symbols is something else")

    def table(self) -> dict[str, object] | None:
        """Return a map whose keys are symbols; None for null."""
        value = self.anything()
        if value is None:
            return None
        if not isinstance(value, dict):
            raise MalformedFrame("a field that is a map is something else")
        return {str(key): each for key, each in value.items()}

    def anything(self) -> object:
        """Return a field of any type."""
        code = self.field()
        left = self.left
        value = self.of(code, False, 1)
        self.left = left
        return value


def text_in(octets: bytes, is_symbol: bool) -> str:
    """Return the text that ``octets`` are. Raises MalformedFrame."""
    try:
        return octets.decode("ascii" if is_symbol else "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"a {'symbol' if is_symbol else 'string'} is no text: {error.reason}") from None
