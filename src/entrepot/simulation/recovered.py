"""What a recovery tells of a copy of a replicated store in the seeded world."""

from __future__ import annotations

from entrepot.journal.log import RecoverySink


class Found(RecoverySink):
    """What a recovery tells: of messages their queue."""

    def __init__(self) -> None:
        self.messages: dict[int, int] = {}
        self.documents: dict[bytes, int] = {}  # key -> its kind

    def document(self, kind: int, key: bytes, value: bytes) -> None:
        """A document is there."""
        self.documents[bytes(key)] = int(kind)

    def message(
        self, queue_id: int, number: int, priority: int, expiration: int, deliveries: int, size: int, deliver_at: int
    ) -> None:
        """A message is there."""
        self.messages[int(number)] = int(queue_id)
