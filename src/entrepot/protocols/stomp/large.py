"""Bodies that do not fit memory: streamed to disk as they come, and from disk as the consumer's socket takes them. [C]

A large body is a blob of the journal's store. It is complete and synced before the record of its message is confirmed;
it is dropped when no queue refers to it any more.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.message import LANGUAGE_STOMP, Message
from entrepot.protocols.inflow import Inflow as Arrival
from entrepot.protocols.large_body import LargeBody
from entrepot.protocols.outflow import Outflow


class Inflow(Arrival):
    """A body on its way in. ``destination`` and ``receipt`` are those of its SEND."""

    def __init__(self, broker: BrokerCore, message: Message, destination: bytes, receipt: bytes) -> None:
        super().__init__(broker, message)
        self.destination: bytes = destination
        self.receipt: bytes = receipt


class StreamedBody(Outflow):
    """A body on its way out, as it is on disk, which it holds until `finish`.

    ``owner``: the queue of which ``message`` is settled already, because its consumer does not acknowledge; or None.
    """

    def __init__(self, broker: BrokerCore, message: Message, owner: Queue | None) -> None:
        rare = message.need_rare()
        super().__init__(rare.large_length, b"", b"")
        self.foreign: LargeBody | None = None  # of another language
        if message.language.code != LANGUAGE_STOMP:
            self.foreign = LargeBody(broker, message)
        self.broker: BrokerCore = broker
        self.message: Message = message
        self.owner: Queue | None = owner
        self.at: i64 = 0
        self.done = rare.large_length == 0
        self.tail = b"\0"
        broker.journal.overflow.hold(rare.large_id)

    def piece(self) -> bytes:
        """Return the next octets."""
        foreign = self.foreign
        if foreign is not None:
            octets = foreign.piece()
            self.done = foreign.done
            return octets
        octets = self.broker.journal.overflow.read(self.message, self.at)
        self.at += len(octets)
        self.done = self.at >= self.length
        return octets

    def lost(self) -> None:
        """Where nobody else has the message, it becomes a dead letter."""
        owner = self.owner
        self.owner = None
        if owner is not None:
            owner.returns.bereaved(self.message)

    def finish(self, gone: bool) -> None:
        """Let go of the body."""
        self.broker.journal.overflow.release(self.message.need_rare().large_id)
