"""A body on its way to disk: streamed into a blob as it comes, at the pace of the disk. [C]

A large body is a blob of the journal's store. It is complete and synced before the record of its message is confirmed;
it is dropped when no queue refers to it any more.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError
from entrepot.core.broker import BrokerCore
from entrepot.core.records import KIND_NUMBERS
from entrepot.journal.overflow import Overflow
from entrepot.journal.ports import Waiter
from entrepot.model.message import Message

PACE_OCTETS: Final = (
    8 * 1024 * 1024
)  # after so many the disk is asked how far it is: several syncs a second at 100 MB/s

CROWDED_OCTETS: Final = 2 * PACE_OCTETS
"""When bodies of all connections together are so far ahead of the disk, whoever has more of one waits for it."""


class _Reached(Waiter):
    """The disk has all bodies up to ``end``."""

    def __init__(self, overflow: Overflow, waiter: Waiter) -> None:
        self.overflow: Overflow = overflow
        self.end: i64 = overflow.written
        self.waiter: Waiter = waiter

    def stored(self, token: bytes) -> None:
        """Tell who waits."""
        self.overflow.reached = max(self.overflow.reached, self.end)
        self.waiter.stored(token)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Tell who waits: what comes now is dropped."""
        self.overflow.reached = max(self.overflow.reached, self.end)
        self.waiter.store_failed(token, error)


@mypyc_attr(allow_interpreted_subclasses=True)
class Pace(Waiter):
    """Lets a body come in as fast as the disk takes it."""

    def reached(self) -> None:
        """The disk has what it was asked for."""
        raise NotImplementedError

    def stored(self, token: bytes) -> None:
        """Read on."""
        self.reached()

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Read on, to throw away what comes: the body is refused when it is complete."""
        self.reached()


@mypyc_attr(allow_interpreted_subclasses=True)
class Inflow:
    """A body on its way in, which it holds until `finish`."""

    def __init__(self, broker: BrokerCore, message: Message) -> None:
        self.broker: BrokerCore = broker
        self.message: Message = message
        self.length: i64 = 0  # as far as it has come
        self.blob: i64 = 0
        self.written: i64 = 0  # since the disk was asked last
        self.refusal: EntrepotError | None = broker.journal.refusal()  # then the body is read and thrown away
        if self.refusal is None:
            self.blob = broker.ids.next_number()
            broker.journal.overflow.create(self.blob)

    def write(self, piece: bytes) -> None:
        """Add octets to the body. On a disk that takes nothing they would pile up in memory: they are dropped."""
        self.length += len(piece)
        if self.refusal is not None or not piece:
            return
        self.refusal = self.broker.journal.refusal()
        if self.refusal is None:
            self.broker.journal.overflow.write(self.blob, piece)
            self.written += len(piece)
        else:
            self.finish()

    def is_due(self) -> bool:
        """Return whether the disk is to be asked how far it is, before more is read."""
        return self.refusal is None and (self.written >= PACE_OCTETS or (self.written > 0 and self.is_crowded()))

    def is_crowded(self) -> bool:
        """Return whether the bodies of all connections are so far ahead of the disk that this one waits."""
        overflow = self.broker.journal.overflow
        return overflow.written - overflow.reached >= CROWDED_OCTETS

    def ask_the_disk(self, waiter: Waiter) -> None:
        """Call ``waiter`` when what was written so far is on disk.

        The journal answers at once when nothing was appended to it, so the reservation of numbers is written again.
        """
        self.written = 0
        journal = self.broker.journal
        journal.put(KIND_NUMBERS, b"", int(self.broker.ids.reserved).to_bytes(8, "big"))
        journal.confirm(_Reached(journal.overflow, waiter), b"")

    def message_now(self) -> Message:
        """Return the message, whose body is complete on its way to disk."""
        self.broker.journal.overflow.seal(self.blob)
        rare = self.message.need_rare()
        rare.large_id = self.blob
        rare.large_length = self.length
        rare.large_checked = True
        return self.message

    def finish(self) -> None:
        """Let go of the body: a record of the journal holds it now, or nobody wants it."""
        if self.blob != 0:
            blob = self.blob
            self.blob = 0
            self.broker.journal.overflow.release(blob)
