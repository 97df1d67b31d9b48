"""Records that rot on the disk while a lease holds their messages: what its reader is shown, and what is left of them.

Positions are promised, so what cannot be read keeps its own: the reader is shown a message without a body that says why
(`core/queue/bereaved.py`), as of a large body that was found damaged. When its position is settled, a dead letter with
the cause stands for it, unless the reader only ever saw it whole.
"""

from __future__ import annotations

import logging
from typing import Final

from entrepot.base.reasons import BODY_LOST as LOST
from entrepot.base.reasons import Reason
from entrepot.core.queue.bereaved import BODY_LOST, load_or_stand_in, record_flaw
from entrepot.core.queue.queue import Queue
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message

UNKNOWN: Final = "unknown"  # how long its body was, nobody can say
log: Final = logging.getLogger("entrepot.node")


class LostRecords:
    """Those of one lease. ``flaws``: position -> why its record is lost, of all that its reader saw without a body."""

    def __init__(self, queue: Queue, group: str) -> None:
        self.queue: Final = queue
        self.group: Final = group
        self.flaws: dict[int, str] = {}

    def read(self, journal: JournalCore, low: int, numbers: list[int], octets: int) -> list[Message]:
        """Return the messages at the positions from ``low`` on as `Reading.load_range`, with what stands for lost ones.

        Raises StorageError for what the disk may still answer.
        """
        found = load_or_stand_in(journal, numbers, octets)
        for position, message in enumerate(found, low):
            flaw = record_flaw(message)
            if not flaw:
                continue
            message.address = self.queue.address
            message.annotate(BODY_LOST, UNKNOWN)
            if position not in self.flaws:
                self.flaws[position] = flaw
                log.error(
                    "message %d, position %d of %r on %r, is lost: %s; its reader is told, a dead letter stands for it",
                    message.number,
                    position,
                    self.group,
                    self.queue.name,
                    flaw,
                )
        return found

    def bury(self, journal: JournalCore, position: int, number: int) -> None:
        """Make a dead letter of what was shown at ``position``, which the caller settles."""
        flaw = self.flaws.pop(position)
        (message,) = load_or_stand_in(journal, [number])
        self.queue.returns.bury_copy(message, Reason(LOST, flaw), 1)

    def clear(self) -> None:
        """The lease holds nothing any more."""
        self.flaws.clear()
