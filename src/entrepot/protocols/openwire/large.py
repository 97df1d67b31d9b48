"""Large bodies of other languages on their way to readers of OpenWire, from disk at the pace of their sockets. [C]

The content of a bytes message is the body as it is. That of a text message is its length and Java's own UTF-8, in which
the zero and all beyond U+FFFF are longer: the body is read twice then, to count and to write.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import BodyLost, LimitExceeded
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.primitives import encode_modified_utf8
from entrepot.protocols.outflow import Outflow

COUNT_UNITS: Final = 8  # of `core/effort.py`: to read, decode and encode 4 KiB, some 4 us
MARKER_OCTETS: Final = 16  # of chance: no peer can know them


def is_large(broker: BrokerCore, message: Message, frame_max: i64) -> bool:
    """Return whether the body of ``message`` is on disk. Raises LimitExceeded, BodyLost for one that cannot be sent."""
    rare = message.rare
    if rare is None or rare.large_id == 0:
        return False
    if rare.large_length > frame_max:
        raise LimitExceeded(f"its body of {rare.large_length} octets is larger than a frame may be")
    flaw = broker.journal.overflow.flaw(message)
    if flaw:
        raise BodyLost(flaw)
    return True


def body_of(
    broker: BrokerCore, message: Message, made: commands.Message, written: Callable[[], None] | None = None
) -> StreamedBody | None:
    """Return the body of a large ``message`` that is shown as ``made``; None where that has none.

    ``written`` is called when all of it was written. Raises BodyLost, StorageError.
    """
    if isinstance(made, commands.ActiveMQTextMessage):
        octets = _text_octets(broker, message)
        return StreamedText(broker, message, octets + 4, octets.to_bytes(4, "big"), written)
    if isinstance(made, commands.ActiveMQBytesMessage):
        return StreamedBody(broker, message, message.need_rare().large_length, b"", written)
    return None


class StreamedBody(Outflow):
    """A body as it is on disk, which it holds until `finish`."""

    def __init__(
        self, broker: BrokerCore, message: Message, length: i64, prefix: bytes, written: Callable[[], None] | None
    ) -> None:
        super().__init__(length, prefix, broker.entropy.token(MARKER_OCTETS))
        self.broker: BrokerCore = broker
        self.message: Message = message
        self.written: Callable[[], None] | None = written
        self.at: i64 = 0
        self.ahead: bytes = broker.journal.overflow.read(message, 0)  # it may be damaged: better found here
        broker.journal.overflow.hold(message.need_rare().large_id)

    def piece(self) -> bytes:
        """Return the next stretch."""
        octets = self.ahead
        if octets:
            self.ahead = b""
        else:
            octets = self.broker.journal.overflow.read(self.message, self.at)
        self.at += len(octets)
        self.done = self.at >= self.message.need_rare().large_length
        return octets

    def finish(self, gone: bool) -> None:
        """Let go of the body."""
        self.broker.journal.overflow.release(self.message.need_rare().large_id)
        if gone and self.written is not None:
            self.written()


class StreamedText(StreamedBody):
    """A body that is text, in Java's own UTF-8."""

    def __init__(
        self, broker: BrokerCore, message: Message, length: i64, prefix: bytes, written: Callable[[], None] | None
    ) -> None:
        super().__init__(broker, message, length, prefix, written)
        self.decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder("utf-8")("replace")

    def piece(self) -> bytes:
        """Return the next stretch, converted."""
        octets = super().piece()
        return encode_modified_utf8(self.decoder.decode(octets, self.done))


def _text_octets(broker: BrokerCore, message: Message) -> int:
    """Return how long the text is in Java's own UTF-8; it is work of this turn, to be read and decoded once more."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    overflow = broker.journal.overflow
    broker.effort.spent += (message.need_rare().large_length >> OCTETS_SHIFT) * COUNT_UNITS
    length = message.need_rare().large_length
    total = 0
    at: i64 = 0
    while at < length:
        octets = overflow.read(message, at)
        at += len(octets)
        total += len(encode_modified_utf8(decoder.decode(octets, at >= length)))
    return total
