"""The journal of a broker without a disk: confirms at the next `flush`, remembers nothing, pages nothing out. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import BodyLost, StorageFull
from entrepot.journal.limits import NO_LIMIT
from entrepot.journal.log import JournalCore, Waiter
from entrepot.journal.ports import (
    JournalEvents,
    JournalOptions,
    JournalPort,
    JournalUsage,
    RecoveryReport,
    RecoverySink,
)
from entrepot.model.message import Message


class MemoryPort(JournalPort):
    """No files; blobs in memory."""

    def __init__(self) -> None:
        self._blobs: dict[int, list[bytes]] = {}

    def attach(self, events: JournalEvents) -> None:
        """Nothing ever completes later."""

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        return sorted(self._blobs)

    def blob_create(self, blob_id: i64) -> None:
        """Make an empty blob."""
        self._blobs[blob_id] = []

    def blob_write(self, blob_id: i64, chunk: bytes) -> None:
        """Append to a blob."""
        self._blobs[blob_id].append(chunk)

    def blob_seal(self, blob_id: i64) -> None:
        """Join the pieces."""
        self._blobs[blob_id] = [b"".join(self._blobs[blob_id])]

    def blob_read(self, blob_id: i64, offset: i64, length: i64) -> bytes:
        """Return up to ``length`` octets at ``offset``. Raises BodyLost when there is no such blob."""
        pieces = self._blobs.get(blob_id)
        if pieces is None:
            raise BodyLost("there is no such body")
        if len(pieces) > 1:
            return b"".join(pieces)[offset : offset + length]
        return pieces[0][offset : offset + length] if pieces else b""

    def blob_size(self, blob_id: i64) -> i64:
        """Return the length of a blob; -1 when there is none."""
        pieces = self._blobs.get(blob_id)
        if pieces is None:
            return -1
        return sum([len(piece) for piece in pieces])

    def blob_set_aside(self, blob_id: i64) -> None:
        """Forget it: there is nothing to look at later."""
        self._blobs.pop(blob_id, None)

    def blob_drop(self, blob_id: i64) -> None:
        """Remove a blob."""
        self._blobs.pop(blob_id, None)

    def space(self) -> i64:
        """Return a large number: nothing is written."""
        return NO_LIMIT

    def drain(self) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Forget the blobs."""
        self._blobs = {}


class MemoryJournal(JournalCore):
    """`JournalCore` for ``--ephemeral``: the same verbs, and nothing behind them."""

    def __init__(self) -> None:
        super().__init__(MemoryPort(), JournalOptions())
        self.pages = False
        self.parts.writes = False
        self._waiters: list[Waiter] = []
        self._tokens: list[bytes] = []

    def recover(self, sink: RecoverySink) -> RecoveryReport:
        """Find nothing."""
        return RecoveryReport()

    def store(self, message: Message, queues: list[int]) -> None:
        """Do nothing: ``message.stored`` stays False, so nobody takes it off memory."""

    def page(self, message: Message, queues: list[int]) -> None:
        """Refuse: there is no disk to page to. Raises StorageFull."""
        raise StorageFull(
            "an ephemeral broker has no disk to page to", remedy="raise its memory limit or give it --data"
        )

    def settle(self, number: i64, queue_id: i64) -> None:
        """Do nothing."""

    def redelivered(self, number: i64, queue_id: i64, count: i64) -> None:
        """Do nothing."""

    def add(self, number: i64, queue_id: i64) -> None:
        """Do nothing."""

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        """Do nothing."""

    def delete(self, kind: int, key: bytes) -> None:
        """Do nothing."""

    def confirm(self, waiter: Waiter, token: bytes) -> None:
        """Call ``waiter.stored`` at the next `flush`: never inside the call that asks."""
        self._waiters.append(waiter)
        self._tokens.append(token)

    def flush(self) -> bool:
        """Call everybody who waits."""
        if not self._waiters:
            return False
        waiters = self._waiters
        tokens = self._tokens
        self._waiters = []
        self._tokens = []
        position = 0
        while position < len(waiters):
            waiters[position].stored(tokens[position])
            position += 1
        return len(self._waiters) > 0

    def usage(self) -> JournalUsage:
        """Return zeros."""
        return JournalUsage(0, 0, 0, 0, 0, 0)

    def check(self) -> None:
        """Nothing can be wrong."""

    def close(self) -> None:
        """Call everybody who waits; forget the blobs."""
        self.flush()
        self.port.close()
