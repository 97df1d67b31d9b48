"""Many leased messages in the body of one frame: how READ with ``form:batch`` answers (docs/formats/ranges.md). [C]

The broker writes entries with `write_entry`; a reader takes a whole body apart with `decode`. Numbers are big-endian;
an entry needs nothing of the entries around it::

    0        4               12              20              28     29     30       32       34       36       40
    +--------+---------------+---------------+---------------+------+------+--------+--------+--------+--------+
    | size   | position i64  | timestamp i64 | expires i64   | pri. | flags| deliv. | n id   | n dest | n head |
    +--------+---------------+---------------+---------------+------+------+--------+--------+--------+--------+
    | message id, n id octets | destination, n dest octets | header lines, n head octets | body, the rest of size |
    +-------------------------+----------------------------+-----------------------------+-------------------------+

    size       octets behind it
    timestamp, expires   ms since 1970; 0 = never expires
    flags      1 persistent · 2 redelivered · 4 the body is octets (else UTF-8 text)
    deliv.     how often it was given to somebody before
    head       header lines as STOMP 1.2 writes them, each ended by LF; no header that an own field says
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from entrepot.base.errors import MalformedFrame

FORM: Final = "batch"  # of the header "form"

PERSISTENT: Final = 1
REDELIVERED: Final = 2
OCTETS: Final = 4

SHORT_MAX: Final = 65_535
_HEAD: Final = struct.Struct(">IqqqBBHHHI")
HEAD_OCTETS: Final = 40

NOT_PROPERTIES: Final = (
    "content-length",
    "content-type",
    "correlation-id",
    "reply-to",
    "type",
    "amq-msg-type",
    "transformation",
    "JMSXGroupID",
    "JMSXGroupSeq",
    "JMSXUserID",
)


def write_entry(
    writer: BytesWriter,
    position: i64,
    timestamp: i64,
    expiration: i64,
    priority: i64,
    flags: i64,
    deliveries: i64,
    identity: bytes,
    destination: bytes,
    lines: bytes,
    body: bytes,
) -> None:
    """Append one entry. ``lines`` is a run of whole header lines."""
    write_i32_be(writer, i32(HEAD_OCTETS - 4 + len(identity) + len(destination) + len(lines) + len(body)))
    write_i64_be(writer, position)
    write_i64_be(writer, timestamp)
    write_i64_be(writer, expiration)
    writer.append(int(priority))
    writer.append(int(flags))
    write_i16_be(writer, short(min(deliveries, SHORT_MAX)))
    write_i16_be(writer, short(len(identity)))
    write_i16_be(writer, short(len(destination)))
    write_i32_be(writer, i32(len(lines)))
    writer.write(identity)
    writer.write(destination)
    writer.write(lines)
    writer.write(body)


def short(number: i64) -> i16:
    """Return an unsigned 16-bit ``number`` as the signed one with the same octets."""
    if number >= 0x8000:
        number -= 0x10000
    return i16(number)


class Range:
    """Messages of one frame, column by column: entry ``i`` of each list is the same message.

    ``headers`` are raw header lines: `headers_of` and `properties_of` read them when somebody wants to know.
    """

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.ids: list[str] = []
        self.destinations: list[str] = []
        self.bodies: list[bytes] = []
        self.headers: list[bytes] = []
        self.timestamps: list[int] = []
        self.expirations: list[int] = []
        self.priorities: list[int] = []
        self.flags: list[int] = []
        self.deliveries: list[int] = []

    def __len__(self) -> int:
        return len(self.positions)


def decode(data: bytes, into: Range | None = None) -> Range:
    """Return the messages of one body; appended to ``into`` when that is given. Raises MalformedFrame."""
    found = Range() if into is None else into
    at = 0
    end = len(data)
    known = b""
    destination = ""
    while at < end:
        if end - at < HEAD_OCTETS:
            raise MalformedFrame(f"the range ends in the middle of an entry, at octet {at}")
        size, position, timestamp, expiration, priority, flags, deliveries, n_id, n_destination, n_lines = (
            _HEAD.unpack_from(data, at)
        )
        id_at = at + HEAD_OCTETS
        destination_at = id_at + n_id
        lines_at = destination_at + n_destination
        body_at = lines_at + n_lines
        stop = at + 4 + size
        if stop > end or body_at > stop:
            raise MalformedFrame(f"the entry at octet {at} of the range is longer than what came")
        octets = data[destination_at:lines_at]
        if octets != known:  # nearly always that of the entry before
            known = octets
            destination = octets.decode()
        found.positions.append(position)
        found.ids.append(data[id_at:destination_at].decode())
        found.destinations.append(destination)
        found.bodies.append(data[body_at:stop])
        found.headers.append(data[lines_at:body_at])
        found.timestamps.append(timestamp)
        found.expirations.append(expiration)
        found.priorities.append(priority)
        found.flags.append(flags)
        found.deliveries.append(deliveries)
        at = stop
    return found


def headers_of(lines: bytes) -> dict[str, str]:
    """Return the headers of one entry, unescaped; of repeated ones the first."""
    found: dict[str, str] = {}
    text = lines.decode()
    escaped = "\\" in text
    for line in text.split("\n"):
        if line:
            name, _, value = line.partition(":")
            if escaped:
                name = _unescaped(name)
                value = _unescaped(value)
            found.setdefault(name, value)
    return found


def properties_of(lines: bytes) -> dict[str, str]:
    """Return what the application set: the headers without those that STOMP or JMS give a meaning."""
    return {name: value for name, value in headers_of(lines).items() if name not in NOT_PROPERTIES}


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    parts = text.split("\\\\")
    return "\\".join([part.replace("\\n", "\n").replace("\\c", ":").replace("\\r", "\r") for part in parts])
