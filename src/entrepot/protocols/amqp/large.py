"""Bodies that do not fit memory: streamed to disk as frames come, from disk as the reader's socket takes them. [C]

What is streamed is the content of one section of data, or of a text or octets that are the value of the message. Its
head stays in memory, and what comes behind it: further data, which is added, and a footer.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import LimitExceeded, MalformedFrame
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.queue.queue import Queue
from entrepot.model.message import Message
from entrepot.protocols.amqp.convert import AMQP_LANGUAGE, FOOTER_MARK, Arrived, large_message_of
from entrepot.protocols.amqp.primitives import BINARY_8, BINARY_32, STRING_32, UINT_MAX, Source
from entrepot.protocols.amqp.sections import DATA, FOOTER, HEADER, VALUE, descriptor_of
from entrepot.protocols.held_body import HeldBody
from entrepot.protocols.inflow import Inflow
from entrepot.protocols.large_body import LargeBody

TAIL_OCTETS_MAX: Final = 16 * 1024 * 1024  # of what comes behind the section that is streamed


class BodyHead:
    """Where the section begins that can be streamed. ``content_at``: its content, of ``length`` octets."""

    def __init__(self, start: i64, kind: int, code: int, content_at: i64, length: i64) -> None:
        self.start: i64 = start
        self.kind: int = kind
        self.code: int = code
        self.content_at: i64 = content_at
        self.length: i64 = length


def find_body(data: bytes) -> BodyHead | None:
    """Return where the body of an incomplete message begins; None when it has none that can be streamed, or not yet."""
    source = Source(data, 0, len(data))
    try:
        while source.at < source.end:
            start = source.at
            kind = descriptor_of(source)
            code = source.octet()
            if kind in (DATA, VALUE):
                if code != BINARY_32 and (code != STRING_32 or kind == DATA):
                    return None
                length = source.size(code)
                return BodyHead(start, int(kind), int(code), source.at, length)
            if kind < HEADER or kind > DATA:
                return None
            source.skip_simple(code)
    except (MalformedFrame, LimitExceeded):
        return None
    return None


class LargeArrival(Inflow):
    """A message whose body is on its way to disk. ``octets``: what has come of it."""

    def __init__(self, broker: BrokerCore, octets: bytes, head: BodyHead) -> None:
        super().__init__(broker, Message(AMQP_LANGUAGE, "", b""))
        self.head: bytes = octets[: head.start]
        self.kind: int = head.kind
        self.code: int = head.code
        self.left: i64 = head.length
        self.tail: bytes = b""
        self.take(octets[head.content_at :])

    def take(self, octets: bytes) -> None:
        """More of it has come. Raises LimitExceeded."""
        if len(octets) > self.left:
            self.tail += octets[self.left :]
            octets = octets[: self.left]
            if len(self.tail) > TAIL_OCTETS_MAX:
                raise LimitExceeded("what comes behind the body of a message is too long to be kept in memory")
        self.left -= len(octets)
        self.write(octets)

    def complete(self, wall: i64) -> Arrived:
        """Return the message, all of which has come. Raises StorageError, MalformedFrame, LimitExceeded."""
        if self.left > 0:
            raise MalformedFrame(f"the body of a message lacks {self.left} octets")
        footer = self._behind()
        if self.refusal is not None:
            raise self.refusal
        if self.length > UINT_MAX:
            raise LimitExceeded("the body of a message has more than 4 GiB")
        head = self.head + bytes([0, 0x53, self.kind, self.code]) + int(self.length).to_bytes(4, "big")
        self.message.raw = head  # `large_id` must be known before the head is looked at
        arrived = large_message_of(head, wall)
        self.message = arrived.message
        self.message_now()
        if footer:
            self.message.mark(FOOTER_MARK, footer)
        return arrived

    def _behind(self) -> bytes:
        """Add the data that came behind the section; return the footer. Raises MalformedFrame."""
        tail = self.tail
        source = Source(tail, 0, len(tail))
        while source.at < source.end:
            start = source.at
            kind = descriptor_of(source)
            code = source.octet()
            if kind == FOOTER:
                source.skip_simple(code)
                if source.at < source.end:
                    raise MalformedFrame("a message goes on behind its footer")
                return tail[start:]
            if kind != DATA or self.kind != DATA or (code != BINARY_8 and code != BINARY_32):
                raise MalformedFrame("the sections of a message are not in their order")
            length = source.size(code)
            at = source.take(length)
            self.write(tail[at : at + length])
        return b""


class Piecemeal(HeldBody):
    """The octets of a message, then its body on disk, if it has one there."""

    def __init__(self, broker: BrokerCore, message: Message, octets: bytes, owner: Queue | None) -> None:
        super().__init__(broker, message, owner)
        rare = message.rare
        self.ahead = octets
        self.footer: bytes = b""
        self.foreign: LargeBody | None = None  # of another language
        self.delivery: i64 = -1  # its id, until its first frame was written
        if rare is not None and rare.large_id != 0:
            self.check()
            self.left = rare.large_length
            if message.language is not AMQP_LANGUAGE:
                self.foreign = LargeBody(broker, message)
            footer = message.marked(FOOTER_MARK)
            self.footer = footer if isinstance(footer, bytes) else b""
            self.hold()

    def piece(self, most: i64) -> bytes:
        """Return the next octets, at most ``most``. Raises BodyLost, StorageError."""
        found = self.ahead[self.ahead_at : self.ahead_at + most]
        self.ahead_at += len(found)
        while len(found) < most and (self.left > 0 or self.footer):
            self._read()
            more = self.ahead[: most - len(found)]
            self.ahead_at = len(more)
            found += more
        return found

    def _read(self) -> None:
        if self.left > 0:
            foreign = self.foreign
            if foreign is not None:
                octets = foreign.piece()
                self.left = 0 if foreign.done else 1
            else:
                octets = self.broker.journal.overflow.read(self.message, self.at)
                self.at += len(octets)
                self.left -= len(octets)
            self.broker.effort.spent += len(octets) >> OCTETS_SHIFT
            self.ahead = octets
        else:
            self.ahead = self.footer
            self.footer = b""
        self.ahead_at = 0

    def is_done(self) -> bool:
        """Return whether all of it was written."""
        return self.left <= 0 and not self.footer and self.ahead_at >= len(self.ahead)
