"""Large bodies of other languages on their way to readers of OpenWire, from disk at the pace of their sockets. [C]

The content of a bytes message is the body as it is. That of a text message is its length and Java's own UTF-8, in which
the zero and all beyond U+FFFF are longer: the body is read twice then, to count (`measure`) and to write.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import BodyLost, LimitExceeded
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Measurement
from entrepot.model.message import Message
from entrepot.protocols.large_body import JAVA, LargeBody, form_for, length_of, to_count
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.primitives import encode_modified_utf8
from entrepot.protocols.outflow import Outflow

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


def measure(broker: BrokerCore, message: Message, frame_max: i64) -> Measurement | None:
    """Return what must be counted before a large ``message`` can be said; None: nothing."""
    return to_count(broker, message, form_for(message, JAVA), int(frame_max))


def body_of(
    broker: BrokerCore, message: Message, made: commands.Message, written: Callable[[], None] | None = None
) -> StreamedBody | None:
    """Return the body of a large ``message`` that is shown as ``made``; None where that has none.

    ``written`` is called when all of it was written. Raises BodyLost, StorageError.
    """
    if isinstance(made, commands.ActiveMQTextMessage):
        octets = length_of(broker, message, JAVA)
        return StreamedText(broker, message, octets + 4, octets.to_bytes(4, "big"), written)
    if isinstance(made, commands.ActiveMQBytesMessage):
        return StreamedBody(broker, message, length_of(broker, message), b"", written)
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
        self.body: LargeBody = LargeBody(broker, message)
        self.ahead: bytes = self.body.piece()  # it may be damaged: better found here
        broker.journal.overflow.hold(message.need_rare().large_id)

    def piece(self) -> bytes:
        """Return the next stretch."""
        octets = self.ahead
        if octets:
            self.ahead = b""
        else:
            octets = self.body.piece()
        self.done = self.body.done
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
