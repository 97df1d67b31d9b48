"""Records of the journal that are plain messages of STOMP, taken apart where they stand: no message is made. [C]

The broker makes entries of a range of them (`entries.py`); who reads the broker's files makes columns (`RecordedRows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from entrepot.base import checksum
from entrepot.journal.record import ENVELOPE_MIN, RECORD_HEAD, plain_envelope
from entrepot.model.message import FLAG_DURABLE, FLAG_REDELIVERED, LANGUAGE_STOMP
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.located import Locations
from entrepot.protocols.stomp.ranges import OCTETS, PERSISTENT, REDELIVERED

NUL: Final = b"\0"
THOUSAND: Final = 1000
LAST_DIGITS: Final = [b"%03d" % number for number in range(THOUSAND)]


class PlainRecord:
    """What one record says; the attributes are those of the last one that `look` took apart.

    ``lines``: of its head. ``flags``: those of an entry that the record tells.
    """

    def __init__(self) -> None:
        self.timestamp: i64 = 0
        self.expiration: i64 = 0
        self.priority: i64 = 0
        self.flags: i64 = 0
        self.address: bytes = b""
        self.lines: bytes = b""
        self.body: bytes = b""
        self._octets: i64 = 0  # OCTETS when ``lines`` say so
        self._crc32: Callable[..., int] = checksum.crc32  # a name of another module is looked up each time

    def look(self, data: bytes, at: i64, end: i64) -> bool:
        """Take apart what stands from ``data[at]`` to ``end``; False: it is not plain, not of STOMP, or not whole."""
        if end > len(data) or end - at < RECORD_HEAD:
            return False
        start: i64 = at + RECORD_HEAD
        envelope = plain_envelope(data, start, end)
        if envelope < 0 or data[envelope + 1] != LANGUAGE_STOMP or i64(read_i32_be(data, at)) != end - start:
            return False
        raw: i64 = envelope + ENVELOPE_MIN + i64(read_i16_be(data, envelope + 24))
        body_at: i64 = raw + i64(read_i32_be(data, envelope + 20))
        if not raw < body_at < end:
            return False
        body = data[body_at : end - 1]
        crc32 = self._crc32
        crc: i64 = crc32(data[end - 1 : end], crc32(body, crc32(data[start:body_at])))
        if crc != i64(read_i32_be(data, at + 4)) & 0xFFFFFFFF:
            return False
        self.body = body
        address = data[envelope + 26 : raw - 4]
        if address != self.address and not self._is_text(address):
            return False
        lines = data[raw : body_at - 1]
        if lines != self.lines:
            self.lines = lines
            self._octets = OCTETS if holds_octets(lines) else 0
        flags = self._octets
        if data[envelope + 2] & FLAG_DURABLE:
            flags |= PERSISTENT
        if data[envelope + 2] & FLAG_REDELIVERED:
            flags |= REDELIVERED
        self.flags = flags
        self.priority = data[envelope + 3]
        self.timestamp = read_i64_be(data, envelope + 4)
        self.expiration = read_i64_be(data, envelope + 12)
        return True

    def _is_text(self, octets: bytes) -> bool:
        """Note the address of the next messages; False: it is no text, who makes a message of it says so."""
        try:
            octets.decode()
        except UnicodeDecodeError:
            return False
        self.address = octets
        return True


class MessageIds:
    """Writes the ids of messages: ``head`` and ``last`` are that of the number that was written last."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix: bytes = prefix
        self.thousands: i64 = -1
        self.head: bytes = b""  # all but the last three digits
        self.last: bytes = b""

    def write(self, number: i64) -> None:
        """Write the id of the message ``number``."""
        thousands: i64 = number // THOUSAND
        if thousands != self.thousands:
            self.thousands = thousands
            self.head = self.prefix + (b"%d" % int(thousands) if thousands > 0 else b"")
        self.last = LAST_DIGITS[number - thousands * THOUSAND] if thousands > 0 else b"%d" % int(number)


class RecordedRows:
    """Makes rows of records. ``prefix``: of the ids of messages; ``kind``: "/queue/" or "/topic/", of addresses."""

    def __init__(self, prefix: bytes, kind: bytes) -> None:
        self.record: PlainRecord = PlainRecord()
        self.message_ids: MessageIds = MessageIds(prefix)
        self.kind: bytes = kind
        self.address: bytes = b""
        self.destination: bytes = kind

    def add(self, columns: Columns, places: Locations, row: i64, end: i64, position: i64, data: bytes) -> i64:
        """Append the rows up to ``end``, the first of which is at ``position`` in the ledger and at ``data[0]``.

        Return the first row that was not appended: ``end``, or one whose record the broker has to make a message of.
        """
        record = self.record
        identity = self.message_ids
        wants_id = columns.id is not None
        start = places.offset(row)
        while row < end:
            at: i64 = places.offset(row) - start
            if not record.look(data, at, at + places.length(row)):
                break
            if record.address != self.address:
                self.address = record.address
                self.destination = self.kind + record.address
            deliveries = places.deliveries(row)
            flags = record.flags | REDELIVERED if deliveries > 0 else record.flags
            if wants_id:
                identity.write(places.number(row))
            columns.add(
                position,
                record.timestamp,
                record.expiration,
                record.priority,
                flags,
                deliveries,
                identity.head + identity.last,
                self.destination,
                record.lines,
                record.body,
            )
            position += 1
            row += 1
        return row


def holds_octets(lines: bytes) -> bool:
    """Return whether these header lines mark the body as octets (classic.md 6.3): by a length, unless they say text."""
    if not lines.startswith(b"content-length:") and lines.find(b"\ncontent-length:") < 0:
        return False
    return lines.find(b"amq-msg-type:text") < 0
