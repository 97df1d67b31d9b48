"""Messages of a lease as columns, in buffers as Arrow lays them out: nothing becomes an object of its own. [C]

`Columns` is told which columns are wanted, takes entries of ranges (`ranges.py`) or single messages, and hands over
what it has as `Column` buffers. Texts that are not UTF-8 are made so with U+FFFD: a message that cannot be read must
not stop a query. Bodies are most of what there is: they stay where they came (`Scattered`), and `text` is as they are.

Knows nothing of Arrow's library, nor of sockets. What a column means: `pipeline/schema.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i32_le, read_i64_be
from mypy_extensions import i64

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.stomp.buffers import (
    Bits,
    Column,
    Consecutive,
    Lists,
    Numbers,
    Parts,
    Scattered,
    Stems,
    Times,
    Valid,
    Values,
)
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
INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1
DIGITS_MAX: Final = 11  # of a 32-bit number, with its sign
NEITHER: Final = b"\0 neither lines nor a destination"


class Columns:
    """The columns ``names`` of the messages that are added. ``octets``: what they hold by now, about.

    Neighbours are much alike: what a row has in common with those before it is counted, and written once for all of
    them when it changes (`_end_envelope`, `_end_said`).
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Raises nothing: a name that no message has a column for is left out of what `take` gives."""
        wanted = dict.fromkeys(names, True)
        self.count: i64 = 0
        self.octets: i64 = 0
        self.next: i64 = 0  # the position behind the last message that was added, ever
        self.id: Stems | None = Stems() if "message_id" in wanted else None
        self.destination: Values | None = _values("destination", wanted)
        self.priority: Numbers | None = _numbers("priority", wanted)
        self.timestamp: Times | None = Times() if "timestamp" in wanted else None
        self.expiration: Numbers | None = _numbers("expiration", wanted)
        self.persistent: Bits | None = _bits("persistent", wanted)
        self.redelivered: Bits | None = _bits("redelivered", wanted)
        self.deliveries: Numbers | None = _numbers("delivery_count", wanted)
        self.position: Consecutive | None = Consecutive() if "position" in wanted else None
        self.properties: Lists | None = _lists("properties", wanted, 2)
        self.path: Lists | None = _lists("path", wanted, 1)
        self.sequence: Numbers | None = _numbers("group_sequence", wanted)
        self.texts: dict[str, Values] = {name: Values() for name in TEXT_HEADERS if name in wanted}
        self.wants_body: bool = "body" in wanted
        self.text: Valid | None = Valid() if "text" in wanted else None  # whether a body is text
        self.bodies: Parts | None = Parts() if self.wants_body or self.text is not None else None
        self.wants_fields: bool = (
            self.properties is not None or self.path is not None or self.sequence is not None or len(self.texts) > 0
        )
        self.wants_said: bool = self.wants_fields or self.destination is not None
        self._envelope: i64 = 0  # priority, flags and deliveries of the last rows, as an entry has them
        self._expiration: i64 = 0
        self._envelope_rows: i64 = 0
        self._said: bytes = b""  # destination and header lines of the last rows
        self._named: i64 = 0  # octets of that which are the destination
        self._said_rows: i64 = 0
        self._lines: bytes = NEITHER  # that ``_said`` was made of, where `add` was given it
        self._destination: bytes = NEITHER

    def add(
        self,
        position: i64,
        timestamp: i64,
        expiration: i64,
        priority: i64,
        flags: i64,
        deliveries: i64,
        stem: bytes,
        end: bytes,
        destination: bytes,
        lines: bytes,
        octets: bytes,
        body_at: i64,
        body_end: i64,
    ) -> None:
        """Append a message; parameters as of `ranges.write_entry`.

        But its identity is ``stem`` and ``end`` (`Stems`), and its body a part of ``octets`` (`Parts`).
        """
        self.octets += HEAD_OCTETS + len(lines) + body_end - body_at
        self._add_envelope(priority << 24 | flags << 16 | deliveries, expiration)
        if self.wants_said:
            if lines is self._lines and destination is self._destination:  # nearly always those of the row before
                self._said_rows += 1
            else:
                self._add_said(destination + lines if self.wants_fields else destination, len(destination))
                self._lines = lines
                self._destination = destination
        self._add_row(position, timestamp)
        if self.id is not None:
            self.id.add(stem, end)
        if self.bodies is not None:
            self.bodies.add(octets, body_at, body_end)

    def add_entries(self, data: bytes) -> None:
        """Append the messages of the body of a frame of the form ``batch``. Raises MalformedFrame."""
        at: i64 = 0
        end: i64 = len(data)
        identities = self.id
        bodies = self.bodies
        wants_said = self.wants_said
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
            self.octets += HEAD_OCTETS + stop - lines_at
            self._add_envelope(i64(read_i32_be(data, at + 28)) & 0xFFFFFFFF, read_i64_be(data, at + 20))
            if wants_said:
                said = data[destination_at : body_at if wants_fields else lines_at]
                self._add_said(said, lines_at - destination_at)
            self._add_row(read_i64_be(data, at + 4), read_i64_be(data, at + 12))
            if identities is not None:
                identities.add(b"", data[at + HEAD_OCTETS : destination_at])
            if bodies is not None:
                bodies.add(data, body_at, stop)
            at = stop

    def _add_row(self, position: i64, timestamp: i64) -> None:
        """Add what differs from row to row."""
        self.count += 1
        self.next = position + 1
        if self.position is not None:
            self.position.add(position)
        if self.timestamp is not None:
            self.timestamp.add(timestamp)

    def _add_envelope(self, envelope: i64, expiration: i64) -> None:
        if envelope != self._envelope or expiration != self._expiration:
            self._end_envelope()
            self._envelope = envelope
            self._expiration = expiration
        self._envelope_rows += 1

    def _end_envelope(self) -> None:
        """Write what the last rows have in common."""
        rows = self._envelope_rows
        if rows == 0:
            return
        self._envelope_rows = 0
        flags = self._envelope >> 16 & 0xFF
        if self.text is not None:
            if flags & OCTETS:
                self.text.none(self.count - rows, rows)
            else:
                self.text.some(rows)
        if self.expiration is not None:
            self.expiration.add_time(self._expiration, rows)
        if self.priority is not None:
            self.priority.add32(self._envelope >> 24, rows)
        if self.deliveries is not None:
            self.deliveries.add32((self._envelope & 0xFFFF) + 1, rows)
        if self.persistent is not None:
            self.persistent.add(flags & PERSISTENT != 0, rows)
        if self.redelivered is not None:
            self.redelivered.add(flags & REDELIVERED != 0, rows)

    def _add_said(self, said: bytes, named: i64) -> None:
        if named != self._named or said != self._said:
            self._end_said()
            self._said = said
            self._named = named
            self._lines = self._destination = NEITHER
        self._said_rows += 1

    def _end_said(self) -> None:
        """Write what the headers of the last rows say."""
        rows = self._said_rows
        if rows == 0:
            return
        self._said_rows = 0
        destination = self.destination
        if destination is not None:
            destination.add_run([_utf8(self._said[: self._named])], rows)
        if self.wants_fields:
            self._add_fields(fields_of(self._said[self._named :]), rows)

    def _add_fields(self, fields: dict[bytes, bytes], rows: i64) -> None:
        for name, values in self.texts.items():
            text = fields.get(TEXT_HEADERS[name])
            if text is None:
                values.add_none(rows)
            else:
                values.add_run([text], rows)
        if self.sequence is not None:
            _add_sequence(self.sequence, fields.get(GROUP_SEQUENCE), rows)
        if self.path is not None:
            path = fields.get(PATH)
            brokers = path.split(b",") if path else []
            self.path.children[0].add_run(brokers, rows)
            self.path.end_rows(len(brokers), rows)
        properties = self.properties
        if properties is not None:
            names = [name for name in fields if name not in NOT_PROPERTIES]
            properties.children[0].add_run(names, rows)
            properties.children[1].add_run([fields[name] for name in names], rows)
            properties.end_rows(len(names), rows)

    def take(self) -> dict[str, Column]:
        """Hand over the columns, and be empty."""
        self._end_envelope()
        self._end_said()
        found: dict[str, Column] = {}
        if self.id is not None:
            found["message_id"] = _texts(self.id.take())
        if self.destination is not None:
            found["destination"] = self.destination.take()
        if self.position is not None:
            found["position"] = self.position.take()
        if self.timestamp is not None:
            found["timestamp"] = self.timestamp.take()
        self._take_bodies(found)
        for name, numbers in (
            ("priority", self.priority),
            ("expiration", self.expiration),
            ("delivery_count", self.deliveries),
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

    def _take_bodies(self, found: dict[str, Column]) -> None:
        """Hand over ``body`` and ``text``, which have their pieces in common."""
        if self.bodies is None:
            return
        pieces = self.bodies.take()
        if self.wants_body:
            found["body"] = Scattered(0, b"", pieces)
        if self.text is not None:
            nulls = int(self.text.nulls)
            found["text"] = Scattered(nulls, self.text.take(), pieces)


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


def _texts(column: Column) -> Column:
    """Return a column without nulls as one whose values are UTF-8."""
    if column.data.isascii():
        return column
    values = Values()
    start: i64 = 0
    at: i64 = 4
    while at < len(column.offsets):
        end: i64 = i64(read_i32_le(column.offsets, at))
        values.add(_utf8(column.data[start:end]))
        start = end
        at += 4
    return values.take()


def _add_sequence(numbers: Numbers, text: bytes | None, rows: i64) -> None:
    if text is not None and len(text) <= DIGITS_MAX and text.removeprefix(b"-").isdigit():
        number = int(text)
        if INT_MIN <= number <= INT_MAX:
            numbers.add32(number, rows)
            return
    numbers.add_none32(rows)


def _utf8(octets: bytes) -> bytes:
    """Return ``octets`` as they are when they are UTF-8, otherwise with U+FFFD where they are not."""
    return octets if octets.isascii() else octets.decode("utf-8", "replace").encode()
