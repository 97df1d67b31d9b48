"""Typed properties of CORE: what a message says in names and values, and the body of a map; read and written.

```text
properties  0 (none), or 1  count:4  count x (key: simple, type:1, value)      see artemis.md 5.2.2
```

Java keeps them in a hash map: their order means nothing. What a peer sent wrong raises `MalformedFrame`, what has no
form here Inexpressible. [C]
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i32_be,
    write_f32_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64, u8

from entrepot.base import primitive
from entrepot.base.errors import Inexpressible, MalformedFrame
from entrepot.base.primitive import Primitive
from entrepot.protocols.artemis.primitives import OctetsReader, text_of_units, units_of_text, write_simple

NULL: Final = 0
BOOLEAN: Final = 2
BYTE: Final = 3
OCTETS: Final = 4
SHORT: Final = 5
INT: Final = 6
LONG: Final = 7
FLOAT: Final = 8
DOUBLE: Final = 9
TEXT: Final = 10
CHAR: Final = 11

TYPES: Final[dict[int, int]] = {
    primitive.NULL: NULL,
    primitive.BOOLEAN: BOOLEAN,
    primitive.BYTE: BYTE,
    primitive.CHAR: CHAR,
    primitive.SHORT: SHORT,
    primitive.INT: INT,
    primitive.LONG: LONG,
    primitive.DOUBLE: DOUBLE,
    primitive.FLOAT: FLOAT,
    primitive.TEXT: TEXT,
    primitive.OCTETS: OCTETS,
    primitive.LONG_TEXT: TEXT,
}
"""The type octet of a tag of `Primitive`; maps and lists have none."""
TAGS: Final[dict[int, int]] = {
    NULL: primitive.NULL,
    BOOLEAN: primitive.BOOLEAN,
    BYTE: primitive.BYTE,
    OCTETS: primitive.OCTETS,
    SHORT: primitive.SHORT,
    INT: primitive.INT,
    LONG: primitive.LONG,
    FLOAT: primitive.FLOAT,
    DOUBLE: primitive.DOUBLE,
    TEXT: primitive.TEXT,
    CHAR: primitive.CHAR,
}

ENTRY_OCTETS_MIN: Final = 5  # an empty key 4, null 1
KEY_LENGTH_OCTETS: Final = 4
TOO_EARLY: Final = "a packet ends too early"
_SIZES: Final[list[int]] = [0, -1, 1, 1, -1, 2, 4, 8, 4, 8, -1, 2]  # octets of a value by its type; -1: it says itself


KEYS_KEPT: Final = 256  # names of properties in both forms; all messages of a program have the same few
KEY_UNITS_MAX: Final = 64  # of one that is kept


class _Keys:
    """Names of properties as text and as octets: to convert one takes ten times as long as to find it here."""

    def __init__(self) -> None:
        self._octets: dict[str, bytes] = {}
        self._texts: dict[bytes, str] = {}

    def octets(self, text: str) -> bytes:
        """Return ``text`` as it travels, without its length."""
        found = self._octets.get(text)
        if found is None:
            found = units_of_text(text)
            self._keep(text, found)
        return found

    def text(self, octets: bytes) -> str:
        """Return the name that travels as ``octets``. Raises MalformedFrame."""
        found = self._texts.get(octets)
        if found is None:
            if len(octets) & 1:
                raise MalformedFrame(f"a text of 16-bit units has {len(octets)} octets")
            found = text_of_units(octets)
            self._keep(found, octets)
        return found

    def _keep(self, text: str, octets: bytes) -> None:
        if len(text) > KEY_UNITS_MAX:
            return
        if len(self._octets) >= KEYS_KEPT:  # begun anew, or one client's names would keep out all others' for ever
            self._octets.clear()
            self._texts.clear()
        self._octets[text] = octets
        self._texts[octets] = text


_KEYS: Final = _Keys()


def read_value(source: OctetsReader, kind: i64) -> object:
    """Read the value of type ``kind``."""
    if kind == TEXT:
        return source.simple()
    if kind == INT:
        return int(source.int32())
    if kind == LONG:
        return int(source.int64())
    if kind == BOOLEAN:
        return source.boolean()
    if kind == BYTE:
        return int(source.byte())
    if kind == NULL:
        return None
    if kind == DOUBLE:
        return read_f64_be(source.data, source.take(8))
    if kind == FLOAT:
        return read_f32_be(source.data, source.take(4))
    if kind == SHORT:
        return int(source.int16())
    if kind == OCTETS:
        return source.octets()
    if kind == CHAR:
        return chr(int(source.int16()) & 0xFFFF)
    raise MalformedFrame(f"no property has the type {kind}")


def typed_value(source: OctetsReader, kind: i64) -> Primitive:
    """Read the value of type ``kind`` as one that knows its Java type."""
    value = read_value(source, kind)
    return Primitive(TAGS[int(kind)], value)


def skip_value(source: OctetsReader, kind: i64) -> None:
    """Read over the value of type ``kind``."""
    size: i64 = _SIZES[kind] if 0 <= kind <= CHAR else -1
    if size < 0:
        if kind not in (TEXT, OCTETS):
            raise MalformedFrame(f"no property has the type {kind}")
        size = source.int32()
    source.take(size)


def behind_value(data: bytes, at: i64) -> i64:
    """Return where the value ends whose type octet is ``data[at]``, which is there. Raises MalformedFrame."""
    kind: i64 = data[at]
    size: i64 = _SIZES[kind] if kind <= CHAR else -1
    at += 1
    left: i64 = len(data) - at
    if size < 0:
        if kind not in (TEXT, OCTETS):
            raise MalformedFrame(f"no property has the type {kind - 256 if kind > 127 else kind}")
        if left < 4:
            raise MalformedFrame(TOO_EARLY)
        size = i64(read_i32_be(data, at)) + 4
        if size < 4:
            raise MalformedFrame(TOO_EARLY)
    if size > left:
        raise MalformedFrame(TOO_EARLY)
    return at + size


def count_at(data: bytes, at: i64) -> i64:
    """Return how many properties begin at ``data[at]``. Raises MalformedFrame when there is no room for them."""
    left: i64 = len(data) - at - 1
    if left < 0:
        raise MalformedFrame(TOO_EARLY)
    if data[at] == 0:
        return 0
    if left < 4:
        raise MalformedFrame(TOO_EARLY)
    count = i64(read_i32_be(data, at + 1))
    if count < 0 or count > (left - 4) // ENTRY_OCTETS_MIN:
        raise MalformedFrame(f"a packet counts {count} elements and has no room for them")
    return count


def behind_count(data: bytes, at: i64) -> i64:
    """Return where the first of the properties stands that begin at ``data[at]``, as `count_at` counted them."""
    return at + 1 if data[at] == 0 else at + 5


def behind_key(data: bytes, at: i64) -> i64:
    """Return where the key ends that stands at ``data[at]``; the type of its value is there. Raises MalformedFrame."""
    end: i64 = len(data)
    if at + ENTRY_OCTETS_MIN > end:
        raise MalformedFrame(TOO_EARLY)
    length = i64(read_i32_be(data, at))
    if length < 0 or length >= end - at - KEY_LENGTH_OCTETS:
        raise MalformedFrame(TOO_EARLY)
    return at + KEY_LENGTH_OCTETS + length


def entries_of(source: OctetsReader) -> i64:
    """Read how many entries follow."""
    return source.count(ENTRY_OCTETS_MIN) if source.boolean() else 0


def read_entries(source: OctetsReader, *, typed: bool = False) -> dict[str, object]:
    """Read all entries; ``typed`` makes each value a `Primitive`. Of equal keys the last one wins, as in Java."""
    found: dict[str, object] = {}
    for _ in range(entries_of(source)):
        key = _KEYS.text(source.octets())
        kind = source.byte()
        found[key] = typed_value(source, kind) if typed else read_value(source, kind)
    return found


def read_properties(data: bytes, at: i64, *, typed: bool = False) -> dict[str, object]:
    """Return the properties that begin at ``data[at]``; what is behind them is ignored."""
    return read_entries(OctetsReader(data, at, len(data)), typed=typed)


def skip_properties(source: OctetsReader) -> None:
    """Read over all entries."""
    for _ in range(entries_of(source)):
        source.take(source.int32())
        skip_value(source, source.byte())


def find(data: bytes, at: i64, key: bytes) -> i64:
    """Return where the type octet of the property ``key`` (as `key_octets` has it) is, -1 when it is not there."""
    length: i64 = len(key) + KEY_LENGTH_OCTETS
    count = count_at(data, at)
    entry_at = behind_count(data, at)
    for _ in range(count):
        value = behind_key(data, entry_at)
        if value - entry_at == length and data[entry_at + KEY_LENGTH_OCTETS : value] == key:
            return value
        entry_at = behind_value(data, value)
    return -1


def has_only(data: bytes, at: i64, keys: list[bytes]) -> bool:
    """Return whether all properties that begin at ``data[at]`` are among few ``keys``. Raises MalformedFrame."""
    count = count_at(data, at)
    entry_at = behind_count(data, at)
    for _ in range(count):
        value = behind_key(data, entry_at)
        key = data[entry_at + KEY_LENGTH_OCTETS : value]
        for one in keys:  # to make a hash of it takes longer
            if key == one:
                break
        else:
            return False
        entry_at = behind_value(data, value)
    return True


def value_at(data: bytes, at: i64) -> object:
    """Return the value whose type octet is ``data[at]``."""
    source = OctetsReader(data, at, len(data))
    return read_value(source, source.byte())


def value_of(data: bytes, at: i64, key: bytes) -> object:
    """Return the property ``key`` of those that begin at ``data[at]``; None when it is not there."""
    found = find(data, at, key)
    return None if found < 0 else value_at(data, found)


def key_octets(key: str) -> bytes:
    """Return a key as it travels, without its length."""
    return units_of_text(key)


def without(data: bytes, at: i64, keys: dict[bytes, None]) -> bytes:
    """Return ``data``, whose properties begin at ``at``, without those of ``keys``. Raises MalformedFrame."""
    source = OctetsReader(data, at, len(data))
    count = entries_of(source)
    left: list[bytes] = []
    for _ in range(count):
        start = source.at
        length = source.int32()
        key_at = source.take(length)
        skip_value(source, source.byte())
        if data[key_at : key_at + length] not in keys:
            left.append(data[start : source.at])
    if len(left) == count:
        return data
    if not left:
        return data[:at] + b"\0" + data[source.at :]
    return data[: at + 1] + len(left).to_bytes(4, "big") + b"".join(left) + data[source.at :]


def with_first(data: bytes, at: i64, end: i64, count: i64) -> bytes:
    """Return ``data``, whose properties begin at ``at``, with the first ``count`` of them, up to ``end``."""
    target = BytesWriter()
    target.write(data)
    if count == 0:
        target.truncate(at + 1)
        target[at] = 0
    else:
        target.truncate(end)
        for place in range(4):
            target[at + 1 + place] = u8(count >> (24 - 8 * place) & 0xFF)
    return target.getvalue()


class Entries:
    """Properties in octets that are written behind those of a message.

    ``replaced``: names whose properties the message loses.
    """

    def __init__(self) -> None:
        self.octets: BytesWriter = BytesWriter()
        self.count: i64 = 0
        self.replaced: list[str] = []

    def clear(self) -> None:
        """Begin anew, for the next message."""
        self.octets.truncate(0)
        self.count = 0
        self.replaced.clear()

    def add(self, octets: bytes) -> None:
        """Add one, as `entry` returns it."""
        self.octets.write(octets)
        self.count += 1

    def add_octets(self, begin: bytes, value: bytes) -> None:
        """Add one whose value is octets; ``begin``: all that stands before their length."""
        octets = self.octets
        octets.write(begin)
        write_i32_be(octets, i32(len(value)))
        octets.write(value)
        self.count += 1

    def add_numbered(self, begin: bytes, origin: bytes, number: i64, mark: bytes) -> None:
        """Add one whose value is ``origin``, ``number`` in 8 octets and ``mark``; ``begin`` as in `add_octets`."""
        octets = self.octets
        octets.write(begin)
        write_i32_be(octets, i32(len(origin) + 8 + len(mark)))
        octets.write(origin)
        write_i64_be(octets, number)
        octets.write(mark)
        self.count += 1

    def behind(self, data: bytes, at: i64) -> bytes:
        """Return ``data``, whose properties begin at ``at``, with these. Raises MalformedFrame."""
        if self.replaced:
            data = without(data, at, {key_octets(name): None for name in self.replaced})
        return with_entries(data, at, self.octets.getvalue(), self.count) if self.count > 0 else data


def with_entries(data: bytes, at: i64, entries: bytes, count: i64) -> bytes:
    """Return ``data``, which ends with the properties that begin at ``at``, with ``count`` more of other names."""
    target = BytesWriter()
    if data[at] == 0:
        target.write(data[:at])
        target.append(1)
        write_i32_be(target, i32(count))
    else:
        target.write(data[: at + 1])
        write_i32_be(target, i32(i64(read_i32_be(data, at + 1)) + count))
        target.write(data[at + 5 :])
    target.write(entries)
    return target.getvalue()


def entry(key: str, value: object) -> bytes:
    """Return the octets of one property. Raises Inexpressible."""
    target = BytesWriter()
    write_simple(target, key)
    write_typed(target, value)
    return target.getvalue()


# -- writing -------------------------------------------------------------------------------------------------------


def type_of(value: object) -> int:
    """Return the type that a plain value is written with: the narrowest of int and long, double for floats."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return INT if -(2**31) <= value < 2**31 else LONG
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bytes):
        return OCTETS
    raise Inexpressible(f"a {type(value).__name__} has no form among the properties of CORE")


def write_entries(
    target: BytesWriter, entries: dict[str, object], first: bytes = b"", more: Entries | None = None
) -> None:
    """Write properties; values may be plain or `Primitive`. Raises Inexpressible; then ``target`` is as it was.

    ``first``, one as `entry` returns it or nothing, stands before ``entries``, and ``more`` behind them.
    """
    count: i64 = len(entries)
    if first:
        count += 1
    if more is not None:
        count += more.count
    if count == 0:
        target.append(0)
        return
    start: i64 = len(target)
    target.append(1)
    write_i32_be(target, i32(count))
    target.write(first)
    try:
        for key, value in entries.items():
            octets = _KEYS.octets(key)
            write_i32_be(target, i32(len(octets)))
            target.write(octets)
            write_typed(target, value)
    except Inexpressible:
        target.truncate(start)
        raise
    if more is not None:
        target.write(more.octets.getvalue())


def write_typed(target: BytesWriter, value: object) -> None:
    """Write a type octet and the value. Raises Inexpressible."""
    if isinstance(value, Primitive):
        kind = TYPES.get(int(value.tag), -1)
        plain = value.value
        if kind < 0:
            raise Inexpressible("a map or list has no form among the properties of CORE")
        if plain is None:
            kind = NULL
    else:
        plain = value
        kind = type_of(value)
    target.append(kind)
    try:
        write_value(target, kind, plain)
    except (OverflowError, TypeError, ValueError) as error:
        raise Inexpressible(f"{plain!r:.80} does not fit a property of type {kind}") from error


def write_value(target: BytesWriter, kind: int, value: object) -> None:
    """Write ``value`` without its type. Raises OverflowError, TypeError, ValueError when it does not fit."""
    if kind == NULL:
        return
    if kind == TEXT and isinstance(value, str):
        write_simple(target, value)
    elif kind == OCTETS and isinstance(value, bytes):
        write_i32_be(target, len(value))
        target.write(value)
    elif kind == DOUBLE and isinstance(value, (float, int)):
        write_f64_be(target, float(value))
    elif kind == FLOAT and isinstance(value, (float, int)):
        write_f32_be(target, float(value))
    elif kind == BOOLEAN and isinstance(value, (bool, int)):
        target.append(1 if value else 0)
    elif kind == CHAR and isinstance(value, str):
        unit = ord(value)
        if unit > 0xFFFF:
            raise OverflowError
        write_i16_be(target, unit - 0x10000 if unit > 0x7FFF else unit)
    elif isinstance(value, int):
        write_whole(target, kind, int(value))
    else:
        raise TypeError


def write_whole(target: BytesWriter, kind: int, value: int) -> None:
    """Write an integer of type ``kind``. The bounds are checked here: native integers would drop what does not fit."""
    bits = 8 if kind == BYTE else 16 if kind == SHORT else 32 if kind == INT else 64
    if kind not in (BYTE, SHORT, INT, LONG):
        raise TypeError
    if not -(1 << (bits - 1)) <= value < (1 << (bits - 1)):
        raise OverflowError
    if kind == BYTE:
        target.append(value & 0xFF)
    elif kind == SHORT:
        write_i16_be(target, value)
    elif kind == INT:
        write_i32_be(target, value)
    else:
        write_i64_be(target, value)
