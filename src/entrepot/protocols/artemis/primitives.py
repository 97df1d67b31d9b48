"""How one value of a CORE packet travels: read from the octets of a frame, written behind a frame that is being made.

The kinds and their layouts are in `schema.ABOUT_KINDS`, the rules in artemis.md 5.2.2. A reader never looks behind
``end``; nothing is allocated by a length or a count that was not compared with what is left. What a peer sent wrong
raises `MalformedFrame`, what it may not ask `LimitExceeded`. A writer raises Inexpressible for a number or a text that
has no room in its field.

Text is Java's: UTF-16 units of which surrogates may stand alone. [C]
"""

from __future__ import annotations

import re
from codecs import utf_16_be_decode, utf_16_be_encode, utf_16_le_decode, utf_16_le_encode
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64

from entrepot.base.errors import Inexpressible, MalformedFrame

HEAD_OCTETS: Final = 13
"""Of a frame: length, id, channel. Offsets inside a message count them (5.2.4)."""
SHORT_TEXT_UNITS: Final = 9  # texts with fewer units travel as units
PLAIN_TEXT_UNITS: Final = 4095  # texts with fewer units travel as CESU-8
LAYOUT_SINCE: Final = 129  # messages of older channels are laid out otherwise
OPERATION_SINCE: Final = 131
WIDE_PAGES_SINCE: Final = 133
HEADERS_OCTETS_MIN: Final = 30  # id 8, no address 1, no user 1, type 1, durable 1, two times 16, priority 1, none 1
CORE_PERSISTER: Final = 1  # a core message in its stored form; the other numbers are messages of other protocols
EXTRA: Final = "$.EP."
"""Stands before the key of a connector's parameter that Artemis does not know (5.2.2, TC)."""

FACTORY: Final = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
"""What connectors over TCP say they are made by."""
PARAMETER_BOOLEAN: Final = 0
PARAMETER_INT: Final = 1
PARAMETER_LONG: Final = 2
PARAMETER_TEXT: Final = 3

SUPPLEMENTARY: Final = re.compile("[\U00010000-\U0010ffff]")


class Xid:
    """The identity of a branch of a distributed transaction."""

    def __init__(self, format_id: i64, branch: bytes, global_id: bytes) -> None:
        self.format_id: i64 = format_id
        self.branch: bytes = branch
        self.global_id: bytes = global_id

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Xid)
            and self.format_id == other.format_id
            and self.branch == other.branch
            and self.global_id == other.global_id
        )

    def __hash__(self) -> int:
        return hash((self.format_id, self.branch, self.global_id))

    def __repr__(self) -> str:
        return f"Xid({self.format_id}, {self.branch!r}, {self.global_id!r})"


class Parameter:
    """One parameter of a connector; ``kind`` is PARAMETER_..., ``value`` a bool, int or str accordingly.

    ``extra``: Artemis does not know the key, and it travels behind `EXTRA`.
    """

    def __init__(self, key: str, kind: i64, value: object, *, extra: bool = False) -> None:
        self.key: str = key
        self.kind: i64 = kind
        self.value: object = value
        self.extra: bool = extra

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Parameter)
            and self.key == other.key
            and self.kind == other.kind
            and self.value == other.value
            and self.extra == other.extra
        )

    def __hash__(self) -> int:
        return hash((self.key, self.kind, self.value))

    def __repr__(self) -> str:
        return f"Parameter({self.key!r}, {self.kind}, {self.value!r}, extra={self.extra})"


class Connector:
    """Where a broker is reached, as Artemis' TransportConfiguration says it. The factory is text, never looked up."""

    def __init__(self, name: str, factory: str, parameters: list[Parameter]) -> None:
        self.name: str = name
        self.factory: str = factory
        self.parameters: list[Parameter] = parameters

    def value(self, key: str) -> object:
        """Return a parameter's value, None when it is not there."""
        for parameter in self.parameters:
            if parameter.key == key:
                return parameter.value
        return None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Connector)
            and self.name == other.name
            and self.factory == other.factory
            and self.parameters == other.parameters
        )

    def __hash__(self) -> int:
        return hash((self.name, self.factory))

    def __repr__(self) -> str:
        return f"Connector({self.name!r}, {self.factory!r}, {self.parameters!r})"


class OctetsReader:
    """A cursor over ``data[at:end]``: the primitives that packets, properties and bodies have in common."""

    def __init__(self, data: bytes, at: i64, end: i64) -> None:
        self.data: bytes = data
        self.at: i64 = at
        self.end: i64 = end

    def take(self, octets: i64) -> i64:
        """Advance by ``octets``, which must be there; return where they start."""
        at = self.at
        if octets < 0 or octets > self.end - at:
            raise MalformedFrame("a packet ends too early")
        self.at = at + octets
        return at

    def left(self) -> i64:
        """Return how many octets are left."""
        return self.end - self.at

    def count(self, octets_min: i64) -> i64:
        """Read how many elements follow, each of at least ``octets_min``: a larger count cannot be true."""
        count = self.int32()
        if count < 0 or count > (self.end - self.at) // octets_min:
            raise MalformedFrame(f"a packet counts {count} elements and has no room for them")
        return count

    def boolean(self) -> bool:
        """Read an octet; any but 0 is true."""
        return self.data[self.take(1)] != 0

    def byte(self) -> i64:
        """Read 8 bits with sign."""
        octet: i64 = self.data[self.take(1)]
        return octet - 256 if octet > 127 else octet

    def int16(self) -> i64:
        """Read 16 bits with sign."""
        return i64(read_i16_be(self.data, self.take(2)))

    def int32(self) -> i64:
        """Read 32 bits with sign."""
        return i64(read_i32_be(self.data, self.take(4)))

    def int64(self) -> i64:
        """Read 64 bits with sign."""
        return read_i64_be(self.data, self.take(8))

    def octets(self) -> bytes:
        """Read a length and as many octets."""
        length = self.int32()
        at = self.take(length)
        return self.data[at : at + length]

    def simple(self) -> str:
        """Read a SimpleString."""
        length = self.int32()
        if length & 1:
            raise MalformedFrame(f"a text of 16-bit units has {length} octets")
        at = self.take(length)
        return text_of_units(self.data[at : at + length])

    def text(self) -> str:
        """Read a String, whose form depends on its number of units."""
        units = self.int32()
        if units < 0:
            raise MalformedFrame(f"a text has {units} characters")
        if units < SHORT_TEXT_UNITS:
            at = self.take(2 * units)
            return utf_16_be_decode(self.data[at : at + 2 * units], "surrogatepass", True)[0]
        if units >= PLAIN_TEXT_UNITS:
            return self.simple()
        length = self.int16()
        at = self.take(length)
        return decode_cesu8(self.data[at : at + length])

    def nullable_simple(self) -> str | None:
        """Read a SimpleString, or None."""
        return self.simple() if self.boolean() else None

    def nullable_text(self) -> str | None:
        """Read a String, or None."""
        return self.text() if self.boolean() else None

    def rest(self) -> bytes:
        """Read all that is left."""
        at = self.at
        self.at = self.end
        return self.data[at : self.end]


class PacketReader(OctetsReader):
    """A cursor over the body of one frame. ``version`` is that of the channel, `schema.VERSION_UNKNOWN` at first."""

    def __init__(self, data: bytes, at: i64, end: i64, version: i64) -> None:
        super().__init__(data, at, end)
        self.version: i64 = version

    def nullable_boolean(self) -> bool | None:
        """Read a boolean, or None."""
        return self.boolean() if self.boolean() else None

    def nullable_int32(self) -> int | None:
        """Read 32 bits, or None."""
        return int(self.int32()) if self.boolean() else None

    def nullable_int64(self) -> int | None:
        """Read 64 bits, or None."""
        return int(self.int64()) if self.boolean() else None

    def simples(self) -> list[str]:
        """Read a list of SimpleStrings."""
        found: list[str] = []
        for _ in range(self.count(4)):
            found.append(self.simple())
        return found

    def routings(self) -> list[int]:
        """Read a list of routing types."""
        found: list[int] = []
        for _ in range(self.count(1)):
            found.append(int(self.byte()))
        return found

    def int64s(self) -> list[int]:
        """Read a list of numbers."""
        found: list[int] = []
        for _ in range(self.count(8)):
            found.append(int(self.int64()))
        return found

    def xid(self) -> Xid:
        """Read the identity of a branch."""
        format_id = self.int32()
        branch = self.octets()
        return Xid(format_id, branch, self.octets())

    def xids(self) -> list[Xid]:
        """Read a list of identities of branches."""
        found: list[Xid] = []
        for _ in range(self.count(12)):
            found.append(self.xid())
        return found

    def connector(self) -> Connector:
        """Read a connector."""
        name = self.text()
        factory = self.text()
        parameters: list[Parameter] = []
        for _ in range(self.count(6)):  # an empty key 4, its kind 1, false 1
            parameters.append(self._parameter())
        return Connector(name, factory, parameters)

    def _parameter(self) -> Parameter:
        key = self.text()
        extra = key.startswith(EXTRA)
        kind = self.byte()
        value: object
        if kind == PARAMETER_BOOLEAN:
            value = self.boolean()
        elif kind == PARAMETER_INT:
            value = int(self.int32())
        elif kind == PARAMETER_LONG:
            value = int(self.int64())
        elif kind == PARAMETER_TEXT:
            value = self.text()
        else:
            raise MalformedFrame(f"a connector's parameter has the unknown kind {kind}")
        return Parameter(key[len(EXTRA) :] if extra else key, kind, value, extra=extra)

    def nullable_connector(self) -> Connector | None:
        """Read a connector, or None."""
        return self.connector() if self.boolean() else None

    def message(self, tail: i64) -> bytes:
        """Read a message that ends ``tail`` octets before the frame does; return it as new channels lay it out."""
        start = self.at
        length = self.end - start - tail
        if length < 4 + HEADERS_OCTETS_MIN:
            raise MalformedFrame("a packet ends within its message")
        self.at = start + length
        body_end = i64(read_i32_be(self.data, start)) - HEAD_OCTETS
        if self.version < LAYOUT_SINCE:
            return self._older_message(start, body_end - 4)
        if body_end < 0 or body_end > length - 4 - HEADERS_OCTETS_MIN:
            raise MalformedFrame(f"the body of a message ends at {body_end} of {length} octets")
        return self.data[start : start + length]

    def _older_message(self, start: i64, body_octets: i64) -> bytes:
        """Return a message of an older layout, which counts the length of its headers behind the body."""
        if body_octets < 0 or body_octets > self.at - start - 8 - HEADERS_OCTETS_MIN:
            raise MalformedFrame(f"the body of a message has {body_octets} octets, which its packet has not")
        writer = BytesWriter()
        write_i32_be(writer, i32(body_octets + HEAD_OCTETS))
        writer.write(self.data[start + 4 : start + 4 + body_octets])
        writer.write(self.data[start + 8 + body_octets : self.at])
        return writer.getvalue()

    def headers(self) -> bytes:
        """Read the headers of a large message: the rest of the frame."""
        if self.left() < HEADERS_OCTETS_MIN:
            raise MalformedFrame("a packet ends within the headers of its message")
        return self.rest()

    def operation(self) -> i64:
        """Read what is done with a record: 0 update, 1 add, 2 event."""
        if self.version >= OPERATION_SINCE:
            return self.byte()
        return 0 if self.boolean() else 1

    def page(self) -> i64:
        """Read the number of a page."""
        return self.int64() if self.version >= WIDE_PAGES_SINCE else self.int32()

    def paged(self) -> bytes:
        """Read over a message of a page, with the queues that it belongs to; return its octets."""
        start = self.at
        self.take(8)
        if self.byte() == 1:  # a large core message: its headers
            self.take(self.int32())
        else:
            persister = self.byte()
            if persister != CORE_PERSISTER:
                raise MalformedFrame(f"a page has a message of another protocol ({persister})")
            self.take(8)
            if self.boolean():
                self.take(self.int32())
            self.take(self.int32())
        self.take(8 * self.count(8))
        return self.data[start : self.at]

    def chunk(self, size: i64) -> bytes:
        """Read ``size`` octets of a file; what stands behind them is padding."""
        at = self.take(size)
        return self.data[at : at + size]


class PacketWriter:
    """Writes values into ``out``; ``version`` is that of the channel, `schema.VERSION_UNKNOWN` at first."""

    def __init__(self, version: i64) -> None:
        self.out: BytesWriter = BytesWriter()
        self.version: i64 = version

    def boolean(self, value: bool) -> None:
        """Write true as ff, as Java does."""
        self.out.append(255 if value else 0)

    def byte(self, value: i64) -> None:
        """Write 8 bits."""
        if not -128 <= value <= 127:
            raise Inexpressible(f"{value} does not fit 8 bits")
        self.out.append(value & 0xFF)

    def int32(self, value: i64) -> None:
        """Write 32 bits."""
        if not -(1 << 31) <= value < (1 << 31):
            raise Inexpressible(f"{value} does not fit 32 bits")
        write_i32_be(self.out, i32(value))

    def int64(self, value: i64) -> None:
        """Write 64 bits."""
        write_i64_be(self.out, value)

    def octets(self, value: bytes) -> None:
        """Write a length and the octets."""
        write_i32_be(self.out, len(value))
        self.out.write(value)

    def simple(self, value: str) -> None:
        """Write a SimpleString."""
        write_simple(self.out, value)

    def text(self, value: str) -> None:
        """Write a String."""
        write_text(self.out, value)

    def nullable_boolean(self, value: bool | None) -> None:
        """Write a boolean, or None."""
        self.boolean(value is not None)
        if value is not None:
            self.boolean(value)

    def nullable_int32(self, value: int | None) -> None:
        """Write 32 bits, or None."""
        self.boolean(value is not None)
        if value is not None:
            self.int32(value)

    def nullable_int64(self, value: int | None) -> None:
        """Write 64 bits, or None."""
        self.boolean(value is not None)
        if value is not None:
            self.int64(value)

    def nullable_simple(self, value: str | None) -> None:
        """Write a SimpleString, or None."""
        self.out.append(0 if value is None else 1)
        if value is not None:
            write_simple(self.out, value)

    def nullable_text(self, value: str | None) -> None:
        """Write a String, or None."""
        self.out.append(0 if value is None else 1)
        if value is not None:
            write_text(self.out, value)

    def simples(self, values: list[str]) -> None:
        """Write a list of SimpleStrings."""
        write_i32_be(self.out, len(values))
        for value in values:
            write_simple(self.out, value)

    def routings(self, values: list[int]) -> None:
        """Write a list of routing types."""
        write_i32_be(self.out, len(values))
        for value in values:
            self.byte(value)

    def int64s(self, values: list[int]) -> None:
        """Write a list of numbers."""
        write_i32_be(self.out, len(values))
        for value in values:
            write_i64_be(self.out, value)

    def xid(self, value: Xid) -> None:
        """Write the identity of a branch."""
        self.int32(value.format_id)
        self.octets(value.branch)
        self.octets(value.global_id)

    def xids(self, values: list[Xid]) -> None:
        """Write a list of identities of branches."""
        write_i32_be(self.out, len(values))
        for value in values:
            self.xid(value)

    def connector(self, value: Connector) -> None:
        """Write a connector."""
        self.text(value.name)
        self.text(value.factory)
        write_i32_be(self.out, len(value.parameters))
        for parameter in value.parameters:
            self.text(EXTRA + parameter.key if parameter.extra else parameter.key)
            self.byte(parameter.kind)
            self._parameter(parameter.kind, parameter.value)

    def _parameter(self, kind: i64, value: object) -> None:
        if kind == PARAMETER_BOOLEAN and isinstance(value, bool):
            self.boolean(value)
        elif kind == PARAMETER_INT and isinstance(value, int):
            self.int32(value)
        elif kind == PARAMETER_LONG and isinstance(value, int):
            self.int64(value)
        elif kind == PARAMETER_TEXT and isinstance(value, str):
            self.text(value)
        else:
            raise Inexpressible(f"a connector's parameter of kind {kind} cannot be {value!r}")

    def nullable_connector(self, value: Connector | None) -> None:
        """Write a connector, or None."""
        self.boolean(value is not None)
        if value is not None:
            self.connector(value)

    def message(self, value: bytes) -> None:
        """Write a message, which is laid out as on new channels."""
        if self.version >= LAYOUT_SINCE:
            self.out.write(value)
            return
        body_octets = i64(read_i32_be(value, 0)) - HEAD_OCTETS
        write_i32_be(self.out, i32(body_octets + HEAD_OCTETS + 4))
        self.out.write(value[4 : 4 + body_octets])
        write_i32_be(self.out, len(value) + HEAD_OCTETS + 4)
        self.out.write(value[4 + body_octets :])

    def headers(self, value: bytes) -> None:
        """Write the headers of a large message."""
        self.out.write(value)

    def operation(self, value: i64) -> None:
        """Write what is done with a record."""
        if self.version >= OPERATION_SINCE:
            self.byte(value)
        else:
            self.boolean(value == 0)

    def page(self, value: i64) -> None:
        """Write the number of a page."""
        if self.version >= WIDE_PAGES_SINCE:
            self.int64(value)
        else:
            self.int32(value)

    def paged(self, value: bytes) -> None:
        """Write a message of a page."""
        self.out.write(value)

    def chunk(self, value: bytes) -> None:
        """Write octets of a file."""
        self.out.write(value)

    def rest(self, value: bytes) -> None:
        """Write octets that fill the frame."""
        self.out.write(value)


# -- text ----------------------------------------------------------------------------------------------------------


def decode_cesu8(octets: bytes) -> str:
    """Return the text: UTF-8, but surrogates stand for themselves. Raises MalformedFrame."""
    if octets.isascii():
        return octets.decode("ascii")
    try:
        halves = octets.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"text is not CESU-8: {error.reason}") from error
    if SUPPLEMENTARY.search(halves) is not None:
        raise MalformedFrame("text has a character of four octets, which CESU-8 does not know")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def encode_cesu8(text: str) -> bytes:
    """Return the octets of ``text``."""
    if text.isascii():
        return text.encode("ascii")
    return SUPPLEMENTARY.sub(_halves, text).encode("utf-8", "surrogatepass")


def _halves(match: re.Match[str]) -> str:
    """Return the two surrogates of a character above U+FFFF."""
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def text_of_units(octets: bytes) -> str:
    """Return the text whose 16-bit units, the lower octet first, are ``octets``."""
    # `bytes.decode` looks for this codec in a registry, and finds one that is written in Python.
    return utf_16_le_decode(octets, "surrogatepass", True)[0]


def units_of_text(text: str) -> bytes:
    """Return the 16-bit units of ``text``, the lower octet first."""
    return utf_16_le_encode(text, "surrogatepass")[0]


def write_simple(out: BytesWriter, text: str) -> None:
    """Write a SimpleString."""
    octets = units_of_text(text)
    write_i32_be(out, len(octets))
    out.write(octets)


def write_text(out: BytesWriter, text: str) -> None:
    """Write a String in the form that its number of units asks for."""
    wide = utf_16_be_encode(text, "surrogatepass")[0]
    units: i64 = len(wide) // 2
    write_i32_be(out, i32(units))
    if units < SHORT_TEXT_UNITS:
        out.write(wide)
    elif units < PLAIN_TEXT_UNITS:
        octets = encode_cesu8(text)
        write_i16_be(out, len(octets))
        out.write(octets)
    else:
        write_simple(out, text)
