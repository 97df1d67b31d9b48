"""What an entry of a range says of one message: taken from its record where that is plain, else from the message. [C]

Both ways say the same. The broker writes entries (`entries.py`), who reads the broker's files makes rows
(`recorded_rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from entrepot.base import checksum
from entrepot.journal.record import ENVELOPE_MIN, RECORD_HEAD, plain_envelope
from entrepot.model.message import FLAG_DURABLE, FLAG_REDELIVERED, LANGUAGE_STOMP, Message
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE, tail_of
from entrepot.protocols.stomp.escapes import V12, octets_of
from entrepot.protocols.stomp.headers import write_headers
from entrepot.protocols.stomp.ranges import OCTETS, PERSISTENT, REDELIVERED

COPIED_MAX: Final = 2048  # octets that are copied in less time than a view of them is made
THOUSAND: Final = 1000
LAST_DIGITS: Final = [b"%03d" % number for number in range(THOUSAND)]


class Identity:
    """The id of a message: ``stem``, the same object in neighbours that begin alike, and then ``end``.

    Messages that have none of their own have a prefix and their number.
    """

    def __init__(self, prefix: bytes) -> None:
        self.prefix: bytes = prefix
        self.stem: bytes = b""
        self.end: bytes = b""
        self._thousands: i64 = -1
        self._thousand_stem: bytes = b""  # prefix and all but the last three digits

    def of_number(self, number: i64) -> None:
        """Be that of the message ``number``; the next one has most of it in common."""
        thousands: i64 = number // THOUSAND
        if thousands <= 0:
            self.stem = self.prefix
            self.end = b"%d" % int(number)
            return
        if thousands != self._thousands:
            self._thousands = thousands
            self._thousand_stem = self.prefix + b"%d" % int(thousands)
        self.stem = self._thousand_stem
        self.end = LAST_DIGITS[number - thousands * THOUSAND]

    def of_text(self, text: str) -> None:
        """Be one of its own."""
        self.stem = b""
        self.end = text.encode()

    def whole(self) -> bytes:
        """Return it in one piece."""
        return self.stem + self.end


class Entry:
    """The attributes are those of the message that was looked at last.

    ``kind``: "/queue/" or "/topic/", which stands before its address. ``lines``: of its head. ``octets``: of which its
    body is a part, from ``body_at`` to ``body_end``.
    """

    def __init__(self, prefix: bytes, kind: bytes) -> None:
        """``prefix``: of the ids of messages."""
        self.identity: Identity = Identity(prefix)
        self.kind: bytes = kind
        self.timestamp: i64 = 0
        self.expiration: i64 = 0
        self.priority: i64 = 0
        self.flags: i64 = 0
        self.destination: bytes = kind
        self.lines: bytes = b""
        self.octets: bytes = b""
        self.body_at: i64 = 0
        self.body_end: i64 = 0
        self._address: bytes = b""
        self._said: bytes = b""  # lines whose flag is known
        self._octets: i64 = 0  # OCTETS when they say so
        self._crc32: Callable[..., int] = checksum.crc32  # a name of another module is looked up each time

    def of_record(self, data: bytes, at: i64, end: i64, number: i64) -> bool:
        """Take what stands from ``data[at]`` to ``end``; False: it is not plain, not of STOMP, or not whole."""
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
        crc32 = self._crc32
        crc: i64 = crc32(data[start:end] if end - start <= COPIED_MAX else memoryview(data)[start:end])
        if crc != i64(read_i32_be(data, at + 4)) & 0xFFFFFFFF:
            return False
        address = data[envelope + 26 : raw - 4]
        if address != self._address and not self._is_sent_to(address):
            return False
        self.octets = data
        self.body_at = body_at
        self.body_end = end - 1
        self.lines = data[raw : body_at - 1]
        self._note_flags(data[envelope + 2] & FLAG_DURABLE != 0, data[envelope + 2] & FLAG_REDELIVERED != 0)
        self.priority = data[envelope + 3]
        self.timestamp = read_i64_be(data, envelope + 4)
        self.expiration = read_i64_be(data, envelope + 12)
        self.identity.of_number(number)
        return True

    def body(self) -> bytes:
        """Return a copy of the body."""
        return self.octets[self.body_at : self.body_end]

    def of_message(self, message: Message) -> None:
        """Take a message whose body is in memory."""
        address = message.address.encode()
        if address != self._address:
            self._address = address
            self.destination = self.kind + address
        rare = message.rare
        tail = message.raw
        body_at = message.body_at
        known = "" if rare is None else rare.identity
        if message.language is not STOMP_LANGUAGE:
            known = known or message.language.identity(message)
            tail, body_at = tail_of(message)
        if known:
            self.identity.of_text(known)
        else:
            self.identity.of_number(message.number)
        self.lines = tail[: body_at - 1]
        self._note_flags(message.durable, message.redelivered)
        if rare is not None and rare.annotations:
            self.lines += _annotation_lines(message)
        self.octets = tail
        self.body_end = max(len(tail) - 1, 0)
        self.body_at = min(body_at, self.body_end)  # as in `convert.py`
        self.priority = message.priority
        self.timestamp = message.timestamp
        self.expiration = message.expiration

    def _is_sent_to(self, octets: bytes) -> bool:
        """Note the address of the next messages; False: it is no text, who makes a message of it says so."""
        try:
            octets.decode()
        except UnicodeDecodeError:
            return False
        self._address = octets
        self.destination = self.kind + octets
        return True

    def _note_flags(self, durable: bool, redelivered: bool) -> None:
        if self.lines == self._said:
            self.lines = self._said  # the same object: who has it need not look into it
        else:
            self._said = self.lines
            self._octets = OCTETS if holds_octets(self.lines) else 0
        self.flags = self._octets | (PERSISTENT if durable else 0) | (REDELIVERED if redelivered else 0)


def holds_octets(lines: bytes) -> bool:
    """Return whether these header lines mark the body as octets (classic.md 6.3): by a length, unless they say text."""
    if not lines.startswith(b"content-length:") and lines.find(b"\ncontent-length:") < 0:
        return False
    return lines.find(b"amq-msg-type:text") < 0


def _annotation_lines(message: Message) -> bytes:
    rare = message.need_rare()
    lines = BytesWriter()
    write_headers(lines, rare.annotations, V12)
    if message.address and "_AMQ_ORIG_ADDRESS" in rare.annotations:
        lines.write(b"original-destination:" + octets_of(rare.annotations["_AMQ_ORIG_ADDRESS"], V12) + b"\n")
    return lines.getvalue()
