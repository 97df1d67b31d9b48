"""MESSAGE frames of one connection. [C]

The lines that every MESSAGE has are made once for neighbours that differ in nothing; the tail of a message is written
as it came, unless its consumer cannot read it so.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.bereaved import without_body
from entrepot.core.queue.consumer import Measurement
from entrepot.core.queue.queue import Queue
from entrepot.model.message import DEFAULT_PRIORITY, Message
from entrepot.protocols.large_body import COMMON, INFLATED_MAX, length_of, to_count
from entrepot.protocols.serving.outlet import Outlet
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE, is_octets, tail_of
from entrepot.protocols.stomp.escapes import V12, decode_headers, octets_of
from entrepot.protocols.stomp.headers import write_headers
from entrepot.protocols.stomp.large import StreamedBody


class Writing:
    """What a connection writes of messages."""

    def __init__(self, broker: BrokerCore, outlet: Outlet, reader: Reader) -> None:
        self.broker: BrokerCore = broker
        self.outlet: Outlet = outlet
        self.reader: Reader = reader
        self.id_prefix: bytes = b""
        self.stamp: i64 = -1
        self.stamp_lines: bytes = b""
        self.sent: i64 = 0

    def write_fixed(self, writer: BytesWriter, message: Message, deliveries: i64) -> None:
        """Append the lines that every MESSAGE has behind its ids."""
        if message.timestamp == self.stamp and is_plain(message):
            writer.write(self.stamp_lines)
        else:
            lines = fixed_lines(message)
            if is_plain(message):
                self.stamp = message.timestamp
                self.stamp_lines = lines
            writer.write(lines)
        if message.durable:
            writer.write(b"persistent:true\n")
        if deliveries > 0 or message.redelivered:
            writer.write(b"redelivered:true\n")
        self.sent += 1

    def write_rest(self, writer: BytesWriter, message: Message, asked: str = "", owner: Queue | None = None) -> None:
        """Append annotations and the tail of a message that cannot be written as it is.

        ``owner``: as for a `StreamedBody`.
        """
        rare = message.rare
        if rare is not None and rare.large_id:
            flaw = self.broker.journal.overflow.flaw(message)
            length = 0
            if not flaw and message.language is not STOMP_LANGUAGE:
                try:
                    length = length_of(self.broker, message)
                except EntrepotError as error:  # shown or leased: what is delivered was counted before
                    flaw = str(error)
            if flaw:
                message = without_body(message, flaw)
                rare = message.rare
        version = self.reader.version
        if rare is not None and rare.large_id and message.language is not STOMP_LANGUAGE:
            tail = head_for(message, version, length)
        else:
            tail = tail_for(message, version, asked)
        if rare is not None:
            if rare.annotations:
                write_headers(writer, rare.annotations, version)
            if message.address and "_AMQ_ORIG_ADDRESS" in rare.annotations:
                origin = octets_of(rare.annotations["_AMQ_ORIG_ADDRESS"], version)
                writer.write(b"original-destination:" + origin + b"\n")
            if rare.large_id:
                writer.write(tail)
                self.outlet.pour(StreamedBody(self.broker, message, owner))
                return
        writer.write(tail)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is written; None: nothing."""
        if message.language is STOMP_LANGUAGE:
            return None
        return to_count(self.broker, message, COMMON, INFLATED_MAX)

    def write_message(self, message: Message, headers: dict[str, str], asked: str = "") -> None:
        """Write a MESSAGE that is no delivery: browsed or leased."""
        version = self.reader.version
        outlet = self.outlet
        writer = outlet.out
        writer.write(b"MESSAGE\n")
        write_headers(writer, headers, version)
        writer.write(b"message-id:" + octets_of(self.broker.ids.identity_of(message), version))
        self.write_fixed(writer, message, 0)
        self.write_rest(writer, message, asked)
        outlet.note()
        if len(outlet.out) > outlet.high:
            outlet.choke()

    def note_batch(self, count: i64) -> None:
        """So many messages were written in one frame."""
        self.sent += count
        outlet = self.outlet
        outlet.note()
        if len(outlet.out) > outlet.high:
            outlet.choke()


NO_LENGTH: Final = b"content-length:0\n"


def tail_for(message: Message, version: i64, asked: str = "") -> bytes:
    """Return the tail of ``message`` as a consumer of ``version`` can read it, in the form that it ``asked`` for."""
    if message.language is not STOMP_LANGUAGE or (asked and not is_octets(message)):
        tail, body_at = tail_of(message, asked)
        if version == V12 or b"\\" not in tail[:body_at]:
            return tail
        return _rewritten(tail, body_at, version)
    if not message.escaped or version == V12:
        return message.raw
    return _rewritten(message.raw, int(message.body_at), version)


def head_for(message: Message, version: i64, length: int) -> bytes:
    """Return the rest of the head of a message of another language, whose body of ``length`` octets follows."""
    tail, body_at = tail_of(message)
    lines = tail[: body_at - 1]
    if lines.endswith(NO_LENGTH):
        lines = lines[: len(lines) - len(NO_LENGTH)]
    head = lines + b"content-length:%d\n\n" % length
    if version == V12 or b"\\" not in head:
        return head
    return _rewritten(head, len(head), version)


def _rewritten(tail: bytes, body_at: int, version: i64) -> bytes:
    headers = decode_headers(tail[:body_at], V12, False)
    writer = BytesWriter()
    write_headers(writer, headers, version)
    writer.append(10)
    return writer.getvalue() + tail[body_at:]


def fixed_lines(message: Message) -> bytes:
    """Return the lines that every MESSAGE carries behind its ids (classic.md 6.3)."""
    return b"\npriority:%d\nexpires:%d\ntimestamp:%d\n" % (
        int(message.priority),
        int(message.expiration),
        int(message.timestamp),
    )


def is_plain(message: Message) -> bool:
    """Return whether only the time stamp tells the fixed lines of ``message`` from those of its neighbours."""
    return message.priority == DEFAULT_PRIORITY and message.expiration == 0
