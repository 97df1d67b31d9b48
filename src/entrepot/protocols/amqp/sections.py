"""The sections of a message: where each begins, and what the broker itself reads in them. [C]

    header · delivery-annotations · message-annotations · properties · application-properties · body · footer

Each may be missing; they stand in this order (part 3.2). The body is one value, or one or more stretches of data, or
one or more sequences. What is in a section is not looked at before somebody asks.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.amqp.performatives import Header, Properties
from entrepot.protocols.amqp.primitives import BINARY_32, DESCRIBED, STRING_32, ULONG_1, Source
from entrepot.protocols.amqp.writing import Target, put_last32, write_map

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

NAMES: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}

NOWHERE: Final = -1


class Sections:
    """Offsets into the octets of one message. ``.._at``: behind the descriptor of a section; -1: there is none."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.header_end: i64 = 0
        self.bare_at: i64 = 0  # where what nobody may change begins, or the annotations of the message before it
        self.delivery_at: i64 = NOWHERE  # of delivery annotations
        self.annotations_at: i64 = NOWHERE
        self.annotations_end: i64 = 0
        self.properties_at: i64 = NOWHERE
        self.properties_end: i64 = 0
        self.application_at: i64 = NOWHERE
        self.application_end: i64 = 0
        self.body_kind: i64 = 0  # DATA, SEQUENCE, VALUE; 0: there is none
        self.body_start: i64 = 0  # of the first section of the body, with its descriptor
        self.bodies: list[int] = []  # where the sections of the body begin, behind their descriptors
        self.body_end: i64 = 0


def descriptor_of(source: Source) -> i64:
    """Return the descriptor of the section that begins here. Raises MalformedFrame."""
    data = source.data
    at = source.at
    if source.end - at >= 3 and data[at] == DESCRIBED and data[at + 1] == ULONG_1:
        source.at = at + 3
        return data[at + 2]
    if source.octet() != DESCRIBED:
        raise MalformedFrame("a section of a message has no descriptor")
    value = source.value(False, 1)
    if isinstance(value, int):
        return value if 0 <= value < 1 << 62 else 0
    found = NAMES.get(value) if isinstance(value, str) else None
    return 0 if found is None else found


def scan(data: bytes, end: i64 = -1) -> Sections:
    """Return where the sections of a message are. Raises MalformedFrame, LimitExceeded.

    ``end``: of the octets that are looked at; a body that is not here at all, because it is on disk, may be cut off.
    """
    found = Sections()
    limit: i64 = len(data) if end < 0 else end
    source = Source(data, 0, limit)
    last: i64 = 0
    while source.at < limit:
        start = source.at
        code = descriptor_of(source)
        if code < HEADER or code > FOOTER:
            raise MalformedFrame(f"a message has a section that is none: 0x{int(code):x}")
        if code < last or (code == last and code != DATA and code != SEQUENCE):
            raise MalformedFrame("the sections of a message are not in their order")
        if code > DATA and DATA <= last < code and code != FOOTER:
            raise MalformedFrame("the body of a message is of several kinds")
        last = code
        _note(found, source, code, start)
    if found.body_end == 0:
        found.body_start = found.body_end = limit if last != FOOTER else found.body_start
    return found


def _note(found: Sections, source: Source, code: i64, start: i64) -> None:
    at = source.at
    if code == HEADER:
        header = Header()
        behind = source.enter()
        outer = source.end
        source.end = behind
        header.read(source)
        source.end = outer
        source.at = behind
        found.header = header
        found.header_end = behind
        found.bare_at = behind
        return
    source.skip()
    if code == DELIVERY_ANNOTATIONS:
        found.delivery_at = at
        found.bare_at = source.at
    elif code == MESSAGE_ANNOTATIONS:
        found.annotations_at = at
        found.annotations_end = source.at
    elif code == PROPERTIES:
        found.properties_at = at
        found.properties_end = source.at
    elif code == APPLICATION_PROPERTIES:
        found.application_at = at
        found.application_end = source.at
    elif code == FOOTER:
        if found.body_end == 0:
            found.body_start = found.body_end = start
    else:
        if not found.bodies:
            found.body_start = start
            found.body_kind = code
        found.bodies.append(int(at))
        found.body_end = source.at


def properties_in(data: bytes, sections: Sections) -> Properties | None:
    """Return the properties; None where there are none. Raises MalformedFrame."""
    if sections.properties_at < 0:
        return None
    source = Source(data, sections.properties_at, len(data))
    source.end = source.enter()
    made = Properties()
    made.read(source)
    return made


def map_in(data: bytes, at: i64, typed: bool = False) -> dict[object, object]:
    """Return the map that stands at ``at``; {} for -1. Raises MalformedFrame, LimitExceeded."""
    if at < 0:
        return {}
    value = Source(data, at, len(data)).value(typed)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedFrame("annotations, or properties, are no map")
    return value


# -- writing -------------------------------------------------------------------------------------------------------


def put_descriptor(out: BytesWriter, code: int) -> None:
    """Begin a section."""
    out.append(DESCRIBED)
    out.append(ULONG_1)
    out.append(code)


def write_header(out: BytesWriter, header: Header) -> None:
    """Write a header."""
    target = Target()
    target.out = BytesWriter()
    header.write(target)
    out.write(target.out.getvalue())


def write_properties(out: BytesWriter, properties: Properties) -> None:
    """Write properties. Raises Inexpressible."""
    target = Target()
    target.out = BytesWriter()
    properties.write(target)
    out.write(target.out.getvalue())


def write_table(out: BytesWriter, code: int, entries: dict[str, object], symbols: bool) -> None:
    """Write a section that is a map; nothing for an empty one. Raises Inexpressible."""
    if entries:
        put_descriptor(out, code)
        write_map(out, entries, symbols)


def write_data_head(out: BytesWriter, length: i64) -> None:
    """Begin data of ``length`` octets, which the caller writes."""
    put_descriptor(out, DATA)
    out.append(BINARY_32)
    put_last32(out, length)


def write_text_head(out: BytesWriter, length: i64) -> None:
    """Begin a text of ``length`` octets of UTF-8, which the caller writes."""
    put_descriptor(out, VALUE)
    out.append(STRING_32)
    put_last32(out, length)
