"""Messages that are lost on the disk while a lease holds them: what its reader is shown, and what is left of them.

Positions are promised, so what cannot be read keeps its own: the reader is shown a message without a body that says why
(`core/queue/bereaved.py`), whether its record rotted or its large body. When its position is settled, a dead letter
with the cause stands for it, unless the reader only ever saw it whole.

What a reader was shown has to be known over a restart: he may settle it then without a look. So there is a document for
each `BLOCK` positions of which one was shown so, with a bit for each, from the receipt of READ on. Why it is lost, the
disk says again: a million of them take 125 kB here, and as much in the journal.
"""

from __future__ import annotations

import logging
from typing import Final

from entrepot.base.reasons import BODY_LOST as LOST
from entrepot.base.reasons import Reason
from entrepot.core.leases.lease_records import LOST_BLOCK as BLOCK
from entrepot.core.leases.lease_records import LostRecord, encode, lost_key
from entrepot.core.queue.bereaved import BODY_LOST, load_or_stand_in, record_flaw
from entrepot.core.queue.queue import Queue
from entrepot.core.records import KIND_LOST
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message

UNKNOWN: Final = "unknown"  # how long its body was, nobody can say
BEFORE: Final = "it could not be read when its reader asked for it"  # and today it can, or nobody has looked
NAMED: Final = 20
"""So many of a lease the log names; of the others, which a rotten disk has by the thousand, it tells how many."""

log: Final = logging.getLogger("entrepot.node")


class LostRecords:
    """Those of one lease. ``blocks``: block -> bits of the positions in it that its reader saw without a body.

    ``named``, ``unnamed``: how many of them the log has, and has not, named since it said how many.
    """

    def __init__(self, queue: Queue, group: str) -> None:
        self.queue: Final = queue
        self.group: Final = group
        self.blocks: dict[int, int] = {}
        self.named: int = 0
        self.unnamed: int = 0

    @property
    def count(self) -> int:
        """How many its reader was shown without a body, and has not settled."""
        return sum(bits.bit_count() for bits in self.blocks.values())

    def has(self, position: int) -> bool:
        """Say whether its reader was shown ``position`` without a body."""
        return bool(self.blocks.get(position // BLOCK, 0) >> position % BLOCK & 1)

    def read(self, journal: JournalCore, low: int, numbers: list[int], octets: int) -> list[Message]:
        """Return the messages at the positions from ``low`` on as `Reading.load_range`, with what stands for lost ones.

        Raises StorageError for what the disk may still answer.
        """
        found = load_or_stand_in(journal, numbers, octets)
        shown: list[int] = []
        for position, message in enumerate(found, low):
            flaw = record_flaw(message)
            if not flaw:
                continue
            message.address = self.queue.address
            message.annotate(BODY_LOST, UNKNOWN)
            if not self.has(position):
                shown.append(position)
                self._tell(position, message, flaw)
        self.note_shown(journal, shown)
        return found

    def note_shown(self, journal: JournalCore, positions: list[int]) -> None:
        """Remember that its reader is shown ``positions`` without a body. Raises StorageError."""
        changed: dict[int, None] = {}
        for position in positions:
            if not self.has(position):
                block = position // BLOCK
                self.blocks[block] = self.blocks.get(block, 0) | 1 << position % BLOCK
                changed[block] = None
        identity = int(self.queue.identity)
        for block in changed:
            record = LostRecord(identity, self.group, block * BLOCK, self.blocks[block].to_bytes(BLOCK // 8, "big"))
            journal.put(KIND_LOST, lost_key(identity, self.group, block * BLOCK), encode(record))

    def recovered(self, record: LostRecord, base: int) -> None:
        """Take back what the journal has; below ``base`` all is settled. Call it with the lease's own base."""
        bits = int.from_bytes(record.bits, "big")
        if base > record.start:
            bits = bits >> base - record.start << base - record.start
        if bits:
            self.blocks[record.start // BLOCK] = bits

    def bury(self, journal: JournalCore, position: int, number: int) -> None:
        """Make a dead letter of what was shown at ``position``, which the caller settles.

        Raises StorageError for what the disk may still answer: nothing was done.
        """
        (message,) = load_or_stand_in(journal, [number])
        flaw = record_flaw(message) or (journal.overflow.flaw(message) if message.rare is not None else "")
        self.queue.returns.bury_copy(message, Reason(LOST, flaw or BEFORE), 1)
        self.blocks[position // BLOCK] &= ~(1 << position % BLOCK)

    def settled(self, journal: JournalCore, base: int) -> None:
        """All below ``base`` is settled: what is known of it is not needed any more."""
        self._forget(journal, [block for block in self.blocks if (block + 1) * BLOCK <= base or not self.blocks[block]])
        if not self.blocks:
            self.named = 0

    def clear(self, journal: JournalCore) -> None:
        """The lease holds nothing any more."""
        self._forget(journal, list(self.blocks))
        self.named = 0

    def _forget(self, journal: JournalCore, blocks: list[int]) -> None:
        for block in blocks:
            del self.blocks[block]
            journal.delete(KIND_LOST, lost_key(int(self.queue.identity), self.group, block * BLOCK))
        if self.unnamed:
            log.error(
                "%d more messages that %r held on %r are lost; its reader was told, a dead letter stands for each",
                self.unnamed,
                self.group,
                self.queue.name,
            )
            self.unnamed = 0

    def _tell(self, position: int, message: Message, flaw: str) -> None:
        if self.named >= NAMED:
            self.unnamed += 1
            return
        self.named += 1
        log.error(
            "message %d, position %d of %r on %r, is lost: %s; its reader is told, a dead letter stands for it",
            message.number,
            position,
            self.group,
            self.queue.name,
            flaw,
        )
