"""A body on disk that leaves in frames of its own, while other frames of the connection go between them. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import BodyLost
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.message import Message


class HeldBody:
    """A message that leaves in several frames. Its body is held from `hold` to `finish`.

    ``owner``: the queue of which it is settled already, because its reader does not acknowledge; or None.
    """

    def __init__(self, broker: BrokerCore, message: Message, owner: Queue | None) -> None:
        self.broker: BrokerCore = broker
        self.message: Message = message
        self.owner: Queue | None = owner
        self.blob: i64 = 0
        self.ahead: bytes = b""  # of what was read last
        self.ahead_at: i64 = 0
        self.at: i64 = 0
        self.left: i64 = 0

    def check(self) -> None:
        """Raise BodyLost for a body that is damaged, as far as is known."""
        flaw = self.broker.journal.overflow.flaw(self.message)
        if flaw:
            raise BodyLost(flaw)

    def hold(self) -> None:
        """Keep the body on disk."""
        self.blob = self.message.need_rare().large_id
        self.broker.journal.overflow.hold(self.blob)

    def lost(self) -> None:
        """The body is damaged behind what was written: where nobody else has the message, it becomes a dead letter."""
        owner = self.owner
        self.owner = None
        if owner is not None:
            owner.returns.bereaved(self.message)

    def finish(self) -> None:
        """Let go of the body."""
        if self.blob != 0:
            blob = self.blob
            self.blob = 0
            self.ahead = b""
            self.broker.journal.overflow.release(blob)
