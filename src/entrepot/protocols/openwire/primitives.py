"""The self-describing values of OpenWire: primitive maps, rows of primitives, and modified UTF-8.

A primitive map carries user properties, the body of a map message and what two peers offer each other; a row of
primitives is the body of a stream message. Nothing here runs unless somebody asks for a value: messages travel with
these octets closed.

```text
map     count:int32 (-1: no map)   count x ( key:short-text  value )
value   tag:1  data
         0 null -       1 bool 1      2 byte 1       3 char 2      4 short 2     5 int 4      6 long 8
         7 double 8     8 float 4     9 short-text   10 octets     11 map        12 list      13 long-text
short-text   length:uint16  octets in modified UTF-8
octets, long-text   length:int32  octets
list    count:int32  count x value
```

Modified UTF-8 is Java's: U+0000 is C0 80, a character above U+FFFF is two surrogates of three octets each, four-octet
forms do not exist. Lone surrogates pass both ways, as they do in Java.

What a peer sent and cannot be read raises `MalformedFrame` or `LimitExceeded`; nothing is allocated by a length that
was not compared with what is there. What cannot be written raises `Inexpressible`. [C]
"""

from __future__ import annotations

from typing import Final, TypeAlias

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f32_be,
    write_f64_be,
    write_i32_be,
)
from mypy_extensions import i64

from entrepot.base import modified_utf8
from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame
from entrepot.base.modified_utf8 import SUPPLEMENTARY
from entrepot.base.primitive import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    LONG_TEXT,
    MAP,
    NULL,
    OCTETS,
    SHORT,
    TEXT,
    Primitive,
)

LONG_TEXT_FROM: Final = 8191
"""Characters from which a text is written with a 32-bit length: Java's border, a quarter of its largest short."""
SHORT_TEXT_OCTETS_MAX: Final = 65_535
DEPTH_MAX: Final = 32
"""Maps and lists inside one another; real messages use two or three, and the reader's own stack must hold."""
UNLIMITED: Final = 2**31 - 1


PrimitiveMap: TypeAlias = "dict[str, object]"
"""Values are None, bool, int, float, str, bytes, a nested map, a list, or a `Primitive` that says its tag."""


# -- modified UTF-8 ------------------------------------------------------------------------------------------------


def decode_modified_utf8(octets: bytes) -> str:
    """Return the text. Raises MalformedFrame when the octets are not modified UTF-8."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_unusual(octets)
    if len(text) != len(octets) and SUPPLEMENTARY.search(text) is not None:
        raise MalformedFrame("text has a four-octet character, which modified UTF-8 does not know")
    return text


def _decode_unusual(octets: bytes) -> str:
    """Decode text with zeros or surrogates in it, which strict UTF-8 has no form for."""
    try:
        halves = octets.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"text is not modified UTF-8: {error.reason}") from error
    if SUPPLEMENTARY.search(halves) is not None:
        raise MalformedFrame("text has a four-octet character, which modified UTF-8 does not know")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def encode_modified_utf8(text: str) -> bytes:
    """Return the octets of ``text``: as many as characters only if all are in 1..127."""
    if "\0" not in text:
        try:
            octets = text.encode("utf-8")
        except UnicodeEncodeError:
            return modified_utf8.encoded(text)
        if len(octets) == len(text) or SUPPLEMENTARY.search(text) is None:
            return octets
    return modified_utf8.encoded(text)


# -- reading -------------------------------------------------------------------------------------------------------


class PrimitiveReader:
    """A cursor over one map or row of primitives.

    ``typed`` makes every value a `Primitive`. ``entries_max`` counts map entries at all depths, ``text_octets_max``
    bounds each text and octet string, ``depth_max`` 0 forbids nested maps and lists.
    """

    def __init__(
        self,
        data: bytes,
        *,
        typed: bool = False,
        entries_max: i64 = UNLIMITED,
        text_octets_max: i64 = UNLIMITED,
        depth_max: i64 = DEPTH_MAX,
    ) -> None:
        self.data = data
        self.at: i64 = 0
        self.end: i64 = len(data)
        self.typed = typed
        self.entries_left = entries_max
        self.text_octets_max = text_octets_max
        self.depth_left = depth_max

    def exhausted(self) -> bool:
        """Tell whether every octet was read."""
        return self.at >= self.end

    def map(self) -> dict[str, object] | None:
        """Read a map; None when its count is negative. Of equal keys the last one wins, as in Java."""
        count = i64(read_i32_be(self.data, self._take(4)))
        if count < 0:
            return None
        # The smallest entry is an empty key and a null: 3 octets. A larger count cannot be true.
        if count > (self.end - self.at) // 3:
            raise MalformedFrame("a map counts more entries than it has room for")
        if count > self.entries_left:
            raise LimitExceeded("a map has too many entries")
        self.entries_left -= count
        entries: dict[str, object] = {}
        for _ in range(count):
            key = self._short_text()
            entries[key] = self.value()
        return entries

    def value(self) -> object:
        """Read one tagged value."""
        tag: i64 = self.data[self._take(1)]
        value = self._data(tag)
        return Primitive(tag, value) if self.typed else value

    def _data(self, tag: i64) -> object:
        data = self.data
        if tag == TEXT:
            return self._short_text()
        if tag == INT:
            return int(read_i32_be(data, self._take(4)))
        if tag == LONG:
            return int(read_i64_be(data, self._take(8)))
        if tag == BOOLEAN:
            return data[self._take(1)] != 0
        if tag == NULL:
            return None
        if tag == DOUBLE:
            return read_f64_be(data, self._take(8))
        if tag == FLOAT:
            return read_f32_be(data, self._take(4))
        if tag == SHORT:
            return int(read_i16_be(data, self._take(2)))
        if tag == BYTE:
            octet: i64 = data[self._take(1)]
            return octet - 256 if octet > 127 else octet
        if tag == CHAR:
            return chr(self._uint16())
        if tag == OCTETS:
            return self._octets(i64(read_i32_be(data, self._take(4))))
        if tag == LONG_TEXT:
            length = i64(read_i32_be(data, self._take(4)))
            return None if length < 0 else decode_modified_utf8(self._octets(length))
        if tag in (MAP, LIST):
            return self._nested(tag)
        raise MalformedFrame(f"primitive values have no tag {tag}")

    def _nested(self, tag: i64) -> object:
        if self.depth_left <= 0:
            raise LimitExceeded("maps and lists are nested too deep")
        self.depth_left -= 1
        value: object = self.map() if tag == MAP else self._list()
        self.depth_left += 1
        return value

    def _list(self) -> list[object]:
        count = i64(read_i32_be(self.data, self._take(4)))
        if count < 0 or count > self.end - self.at:  # the smallest element, a null, is one octet
            raise MalformedFrame("a list counts more elements than it has room for")
        elements: list[object] = []
        for _ in range(count):
            elements.append(self.value())
        return elements

    def _short_text(self) -> str:
        return decode_modified_utf8(self._octets(self._uint16()))

    def _uint16(self) -> i64:
        at = self._take(2)
        high: i64 = self.data[at]
        low: i64 = self.data[at + 1]
        return (high << 8) | low

    def _octets(self, length: i64) -> bytes:
        if length < 0:
            raise MalformedFrame("a length is negative")
        if length > self.text_octets_max:
            raise LimitExceeded("a text or octet string is too long")
        at = self._take(length)
        return self.data[at : at + length]

    def _take(self, octets: i64) -> i64:
        """Advance by ``octets`` that must be there; return where they start."""
        at = self.at
        if octets > self.end - at:
            raise MalformedFrame("primitive values end too early")
        self.at = at + octets
        return at


def read_map(data: bytes, *, typed: bool = False) -> dict[str, object]:
    """Return the entries of a primitive map; no octets and the null map both give an empty dict.

    Raises MalformedFrame also when octets are left over.
    """
    if not data:
        return {}
    reader = PrimitiveReader(data, typed=typed)
    entries = reader.map()
    if not reader.exhausted():
        raise MalformedFrame("octets are left behind a map")
    return {} if entries is None else entries


def read_row(data: bytes, *, typed: bool = False) -> list[object]:
    """Return the values of a row of primitives, which ends where its octets end."""
    reader = PrimitiveReader(data, typed=typed)
    values: list[object] = []
    while not reader.exhausted():
        values.append(reader.value())
    return values


# -- writing -------------------------------------------------------------------------------------------------------


def write_map(entries: dict[str, object] | None) -> bytes:
    """Return the octets of a primitive map. Raises Inexpressible for a value that has no tag or does not fit it."""
    target = BytesWriter()
    _write_entries(target, entries)
    return target.getvalue()


def write_row(values: list[object]) -> bytes:
    """Return the octets of a row of primitives. Raises Inexpressible as `write_map` does."""
    target = BytesWriter()
    for value in values:
        _write_value(target, value)
    return target.getvalue()


def tag_of(value: object) -> int:
    """Return the tag that a plain value is written with: the narrowest of int and long, double for floats."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return INT if -(2**31) <= value < 2**31 else LONG
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, str):
        return TEXT if len(value) < LONG_TEXT_FROM else LONG_TEXT
    if isinstance(value, bytes):
        return OCTETS
    if isinstance(value, dict):
        return MAP
    if isinstance(value, list):
        return LIST
    raise Inexpressible(f"a {type(value).__name__} has no form among the primitive values of OpenWire")


def _write_entries(target: BytesWriter, entries: dict[str, object] | None) -> None:
    if entries is None:
        write_i32_be(target, -1)
        return
    write_i32_be(target, len(entries))
    for key, value in entries.items():
        _write_short_text(target, key)
        _write_value(target, value)


def _write_value(target: BytesWriter, value: object) -> None:
    if isinstance(value, Primitive):
        tag = int(value.tag)
        plain = value.value
    else:
        tag = tag_of(value)
        plain = value
    target.append(tag & 0xFF)
    try:
        _write_data(target, tag, plain)
    except (OverflowError, TypeError, ValueError) as error:
        raise Inexpressible(f"{plain!r:.80} does not fit the primitive with tag {tag}") from error


def _write_data(target: BytesWriter, tag: int, value: object) -> None:
    if tag == NULL and value is None:
        return
    if tag in (TEXT, LONG_TEXT) and isinstance(value, str):
        _write_text(target, tag, value)
    elif tag in (DOUBLE, FLOAT) and isinstance(value, (float, int)):
        _write_real(target, tag, float(value))
    elif tag == OCTETS and isinstance(value, bytes):
        write_i32_be(target, len(value))
        target.write(value)
    elif tag == CHAR and isinstance(value, str):
        _write_integer(target, tag, ord(value))
    elif tag == MAP and isinstance(value, dict):
        _write_entries(target, value)
    elif tag == MAP and value is None:
        _write_entries(target, None)
    elif tag == LIST and isinstance(value, list):
        write_i32_be(target, len(value))
        for element in value:
            _write_value(target, element)
    elif tag in (BOOLEAN, BYTE, SHORT, INT, LONG) and isinstance(value, int):
        _write_integer(target, tag, int(value))
    else:
        raise TypeError


def _write_integer(target: BytesWriter, tag: int, value: int) -> None:
    # The bounds are checked here, because native integers would drop what does not fit.
    bits = 8 if tag in (BYTE, BOOLEAN) else 16 if tag in (SHORT, CHAR) else 32 if tag == INT else 64
    low, high = (0, 0xFFFF) if tag == CHAR else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if not low <= value <= high:
        raise OverflowError
    for shift in range(bits - 8, -1, -8):
        target.append((value >> shift) & 0xFF)


def _write_real(target: BytesWriter, tag: int, value: float) -> None:
    if tag == DOUBLE:
        write_f64_be(target, value)
    else:
        write_f32_be(target, value)


def _write_text(target: BytesWriter, tag: int, text: str) -> None:
    if tag == TEXT:
        _write_short_text(target, text)
        return
    octets = encode_modified_utf8(text)
    write_i32_be(target, len(octets))
    target.write(octets)


def _write_short_text(target: BytesWriter, text: str) -> None:
    octets = encode_modified_utf8(text)
    if len(octets) > SHORT_TEXT_OCTETS_MAX:
        raise Inexpressible("a name or short text is longer than 65535 octets")
    target.append(len(octets) >> 8)
    target.append(len(octets) & 0xFF)
    target.write(octets)
