"""Messages of a lease as columns, in buffers as Arrow lays them out: nothing becomes an object of its own. [C]

`Columns` is told which columns are wanted, takes entries of ranges (`ranges.py`) or single messages, and hands over
what it has as `Column` buffers. Numbers are little-endian; a value of variable length is where it ends (i32) and its
octets; what may be missing has a bit for each row, the lowest first (Arrow's columnar format, "Physical memory
layout"). Texts that are not UTF-8 are made so with U+FFFD: a message that cannot be read must not stop a query.

Knows nothing of Arrow's library, nor of sockets. What a column means: `pipeline/schema.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.stomp.ranges import HEAD_OCTETS, OCTETS, PERSISTENT, REDELIVERED

PATH: Final = b"broker-path"  # header: brokers passed, with commas between them
GROUP_SEQUENCE: Final = b"JMSXGroupSeq"
TEXT_HEADERS: Final[dict[str, bytes]] = {  # column -> header
    "correlation_id": b"correlation-id",
    "reply_to": b"reply-to",
    "type": b"type",
    "group_id": b"JMSXGroupID",
}
# Headers that have columns of their own, or say what another column says.
NOT_PROPERTIES: Final[dict[bytes, bool]] = dict.fromkeys(
    (b"content-length", b"amq-msg-type", PATH, GROUP_SEQUENCE, *TEXT_HEADERS.values()), True
)
MICROS: Final = 1_000  # in a millisecond
MS_MAX: Final = ((1 << 63) - 1) // MICROS  # a time behind that fits no timestamp of Arrow: it counts as none
INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1
DIGITS_MAX: Final = 11  # of a 32-bit number, with its sign


class Column:
    """What one column holds: ``valid`` is empty where no value is missing, ``children`` are those of a map or list."""

    def __init__(self, nulls: int, valid: bytes, offsets: bytes, data: bytes, children: list[Column]) -> None:
        self.nulls = nulls
        self.valid = valid
        self.offsets = offsets
        self.data = data
        self.children = children


class Bits:
    """A bit for each row."""

    def __init__(self) -> None:
        self.octets: BytesWriter = BytesWriter()
        self.open: i64 = 0
        self.count: i64 = 0
        self.zeros: i64 = 0

    def add(self, bit: bool) -> None:
        """Append one."""
        if bit:
            self.open |= 1 << (self.count & 7)
        else:
            self.zeros += 1
        self.count += 1
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
        self.zeros = 0
        return found


class Values:
    """Octets of variable length, or none, for each row."""

    def __init__(self) -> None:
        self.offsets: BytesWriter = BytesWriter()
        self.data: BytesWriter = BytesWriter()
        self.valid: Bits = Bits()
        write_i32_le(self.offsets, 0)

    def add(self, value: bytes) -> None:
        """Append a value."""
        self.data.write(value)
        write_i32_le(self.offsets, i32(len(self.data)))
        self.valid.add(True)

    def add_text(self, value: bytes) -> None:
        """Append a value that must be UTF-8."""
        self.add(value if value.isascii() else _utf8(value))

    def add_none(self) -> None:
        """Append that there is none."""
        write_i32_le(self.offsets, i32(len(self.data)))
        self.valid.add(False)

    def take(self) -> Column:
        """Hand over all, and be empty."""
        nulls = int(self.valid.zeros)
        valid = self.valid.take()
        found = Column(nulls, valid if nulls else b"", self.offsets.getvalue(), self.data.getvalue(), [])
        self.offsets.truncate(0)
        self.data.truncate(0)
        write_i32_le(self.offsets, 0)
        return found


class Numbers:
    """A number of 32 or 64 bits, or none, for each row."""

    def __init__(self) -> None:
        self.data: BytesWriter = BytesWriter()
        self.valid: Bits = Bits()

    def add32(self, number: i64) -> None:
        """Append a number that fits 32 bits."""
        write_i32_le(self.data, i32(number))
        self.valid.add(True)

    def add64(self, number: i64) -> None:
        """Append a number."""
        write_i64_le(self.data, number)
        self.valid.add(True)

    def add_time(self, ms: i64) -> None:
        """Append a time in ms since 1970 as microseconds; 0 is none."""
        if ms == 0 or ms > MS_MAX or ms < -MS_MAX:
            write_i64_le(self.data, 0)
            self.valid.add(False)
        else:
            self.add64(ms * MICROS)

    def add_none32(self) -> None:
        """Append that there is none."""
        write_i32_le(self.data, 0)
        self.valid.add(False)

    def take(self) -> Column:
        """Hand over all, and be empty."""
        nulls = int(self.valid.zeros)
        valid = self.valid.take()
        found = Column(nulls, valid if nulls else b"", b"", self.data.getvalue(), [])
        self.data.truncate(0)
        return found


class Lists:
    """Where the values of each row end in further columns: of a list one, of a map its keys and its values."""

    def __init__(self, children: int) -> None:
        self.offsets: BytesWriter = BytesWriter()
        self.children: list[Values] = [Values() for _ in range(children)]
        self.length: i64 = 0
        write_i32_le(self.offsets, 0)

    def end_row(self, count: i64) -> None:
        """``count`` values were added for this row."""
        self.length += count
        write_i32_le(self.offsets, i32(self.length))

    def take(self) -> Column:
        """Hand over all, and be empty."""
        found = Column(0, b"", self.offsets.getvalue(), b"", [child.take() for child in self.children])
        self.offsets.truncate(0)
        self.length = 0
        write_i32_le(self.offsets, 0)
        return found


class Columns:
    """The columns ``names`` of the messages that are added. ``octets``: what they hold by now, about."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raises nothing: a name that no message has a column for is left out of what `take` gives."""
        wanted = dict.fromkeys(names, True)
        self.count: i64 = 0
        self.octets: i64 = 0
        self.next: i64 = 0  # the position behind the last message that was added, ever
        self.id: Values | None = _values("message_id", wanted)
        self.destination: Values | None = _values("destination", wanted)
        self.body: Values | None = _values("body", wanted)
        self.text: Values | None = _values("text", wanted)
        self.priority: Numbers | None = _numbers("priority", wanted)
        self.timestamp: Numbers | None = _numbers("timestamp", wanted)
        self.expiration: Numbers | None = _numbers("expiration", wanted)
        self.persistent: Bits | None = _bits("persistent", wanted)
        self.redelivered: Bits | None = _bits("redelivered", wanted)
        self.deliveries: Numbers | None = _numbers("delivery_count", wanted)
        self.position: Numbers | None = _numbers("position", wanted)
        self.properties: Lists | None = _lists("properties", wanted, 2)
        self.path: Lists | None = _lists("path", wanted, 1)
        self.sequence: Numbers | None = _numbers("group_sequence", wanted)
        self.texts: dict[str, Values] = {name: Values() for name in TEXT_HEADERS if name in wanted}
        self.wants_body: bool = self.body is not None or self.text is not None
        self.wants_fields: bool = (
            self.properties is not None or self.path is not None or self.sequence is not None or len(self.texts) > 0
        )
        self._lines: bytes = b""  # those of the last message: neighbours often have the same
        self._fields: dict[bytes, bytes] = {}

    def add(
        self,
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
        """Append a message; parameters as of `ranges.write_entry`."""
        self.count += 1
        self.next = position + 1
        self.octets += HEAD_OCTETS + len(lines) + len(body)
        if self.id is not None:
            self.id.add_text(identity)
        if self.destination is not None:
            self.destination.add_text(destination)
        if self.body is not None:
            self.body.add(body)
        if self.text is not None:
            if flags & OCTETS:
                self.text.add_none()
            else:
                self.text.add_text(body)
        self._add_numbers(position, timestamp, expiration, priority, flags, deliveries)
        if self.wants_fields:
            if lines != self._lines:
                self._lines = lines
                self._fields = fields_of(lines)
            self._add_fields(self._fields)

    def _add_numbers(
        self, position: i64, timestamp: i64, expiration: i64, priority: i64, flags: i64, deliveries: i64
    ) -> None:
        if self.position is not None:
            self.position.add64(position)
        if self.timestamp is not None:
            self.timestamp.add_time(timestamp)
        if self.expiration is not None:
            self.expiration.add_time(expiration)
        if self.priority is not None:
            self.priority.add32(priority)
        if self.deliveries is not None:
            self.deliveries.add32(deliveries + 1)
        if self.persistent is not None:
            self.persistent.add(flags & PERSISTENT != 0)
        if self.redelivered is not None:
            self.redelivered.add(flags & REDELIVERED != 0)

    def _add_fields(self, fields: dict[bytes, bytes]) -> None:
        for name, values in self.texts.items():
            text = fields.get(TEXT_HEADERS[name])
            if text is None:
                values.add_none()
            else:
                values.add(text)
        if self.sequence is not None:
            _add_sequence(self.sequence, fields.get(GROUP_SEQUENCE))
        if self.path is not None:
            path = fields.get(PATH)
            brokers = path.split(b",") if path else []
            for broker in brokers:
                self.path.children[0].add(broker)
            self.path.end_row(len(brokers))
        properties = self.properties
        if properties is not None:
            count: i64 = 0
            for header, value in fields.items():
                if header not in NOT_PROPERTIES:
                    properties.children[0].add(header)
                    properties.children[1].add(value)
                    count += 1
            properties.end_row(count)

    def add_entries(self, data: bytes) -> None:
        """Append the messages of the body of a frame of the form ``batch``. Raises MalformedFrame."""
        at: i64 = 0
        end: i64 = len(data)
        wants_body = self.wants_body
        wants_fields = self.wants_fields
        while at < end:
            if end - at < HEAD_OCTETS:
                raise MalformedFrame(f"the range ends in the middle of an entry, at octet {at}")
            size: i64 = i64(read_i32_be(data, at)) & 0xFFFFFFFF
            destination_at: i64 = at + HEAD_OCTETS + (i64(read_i16_be(data, at + 32)) & 0xFFFF)
            lines_at: i64 = destination_at + (i64(read_i16_be(data, at + 34)) & 0xFFFF)
            body_at: i64 = lines_at + (i64(read_i32_be(data, at + 36)) & 0xFFFFFFFF)
            stop: i64 = at + 4 + size
            if stop > end or body_at > stop:
                raise MalformedFrame(f"the entry at octet {at} of the range is longer than what came")
            self.add(
                read_i64_be(data, at + 4),
                read_i64_be(data, at + 12),
                read_i64_be(data, at + 20),
                data[at + 28],
                data[at + 29],
                i64(read_i16_be(data, at + 30)) & 0xFFFF,
                data[at + HEAD_OCTETS : destination_at],
                data[destination_at:lines_at],
                data[lines_at:body_at] if wants_fields else b"",
                data[body_at:stop] if wants_body else b"",
            )
            at = stop

    def take(self) -> dict[str, Column]:
        """Hand over the columns, and be empty."""
        found: dict[str, Column] = {}
        for name, values in (
            ("message_id", self.id),
            ("destination", self.destination),
            ("body", self.body),
            ("text", self.text),
        ):
            if values is not None:
                found[name] = values.take()
        for name, numbers in (
            ("priority", self.priority),
            ("timestamp", self.timestamp),
            ("expiration", self.expiration),
            ("delivery_count", self.deliveries),
            ("position", self.position),
            ("group_sequence", self.sequence),
        ):
            if numbers is not None:
                found[name] = numbers.take()
        for name, bits in (("persistent", self.persistent), ("redelivered", self.redelivered)):
            if bits is not None:
                found[name] = Column(0, b"", b"", bits.take(), [])
        for name, lists in (("properties", self.properties), ("path", self.path)):
            if lists is not None:
                found[name] = lists.take()
        for name, texts in self.texts.items():
            found[name] = texts.take()
        self.count = 0
        self.octets = 0
        return found


def _values(name: str, wanted: dict[str, bool]) -> Values | None:
    return Values() if name in wanted else None


def _numbers(name: str, wanted: dict[str, bool]) -> Numbers | None:
    return Numbers() if name in wanted else None


def _bits(name: str, wanted: dict[str, bool]) -> Bits | None:
    return Bits() if name in wanted else None


def _lists(name: str, wanted: dict[str, bool], children: int) -> Lists | None:
    return Lists(children) if name in wanted else None


def fields_of(lines: bytes) -> dict[bytes, bytes]:
    """Return the headers in ``lines``, unescaped, as UTF-8; of repeated ones the first."""
    found: dict[bytes, bytes] = {}
    if not lines.isascii():
        lines = _utf8(lines)
    escaped = b"\\" in lines
    for line in lines.split(b"\n"):
        if line:
            name, _, value = line.partition(b":")
            if escaped:
                name = _unescaped(name)
                value = _unescaped(value)
            if name not in found:
                found[name] = value
    return found


def _unescaped(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    parts = text.split(b"\\\\")
    return b"\\".join([part.replace(b"\\n", b"\n").replace(b"\\c", b":").replace(b"\\r", b"\r") for part in parts])


def _add_sequence(numbers: Numbers, text: bytes | None) -> None:
    if text is not None and len(text) <= DIGITS_MAX and text.removeprefix(b"-").isdigit():
        number = int(text)
        if INT_MIN <= number <= INT_MAX:
            numbers.add32(number)
            return
    numbers.add_none32()


def _utf8(octets: bytes) -> bytes:
    """Return ``octets`` as they are when they are UTF-8, otherwise with U+FFFD where they are not."""
    return octets.decode("utf-8", "replace").encode()
