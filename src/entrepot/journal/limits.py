"""How much of the disk messages may take: limits of a configuration, and a share for what may be lost. [C]

Two kinds of octets are told apart. *Stored* is what survives a restart: records of persistent messages and documents,
and large bodies. *Paged* is what was taken off memory and is forgotten at the next start: non-persistent messages, and
whatever waits for topic subscribers that are not durable. Only what is alive counts; the files may be up to twice as
long (`JournalOptions.garbage_percent`).

What is paged never takes the room of what is stored: without a limit of its own it gets a third of what the disk has
for both. So a slow reader of a topic makes the producers of that topic wait, and nobody's persistent send fail.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

NO_LIMIT: Final = 1 << 62
SHARE: Final = 3  # paged octets get this part of the disk: with as much garbage again, a third is left for the stored


class StoreLimits:
    """The limits of one journal, in octets; and what was measured last."""

    def __init__(self) -> None:
        self.store: i64 = NO_LIMIT
        self.temp: i64 = NO_LIMIT
        self.free_min: i64 = 0  # below so many free octets on the disk nothing more is taken
        self.capacity: i64 = 0  # of the disk; 0: not known
        self.temp_now: i64 = NO_LIMIT  # what paged octets may be at this moment
        self.stored: i64 = 0
        self.full: str = ""  # why nothing more may be stored; "" when it may
        self.all: bool = False  # non-persistent messages neither
        self.pledged: bool = False  # what is stored now was promised before there was too little: it is not refused

    def measure(self, stored: i64, paged: i64, disk: i64, space: i64) -> bool:
        """Take note of octets that are ``stored`` and ``paged``, of all files (``disk``), and of free ``space``.

        Return whether `full` begins or ends.
        """
        before = self.full
        self.stored = stored
        self.temp_now = min(self.temp, (disk + space) // SHARE)
        self.all = space < self.free_min
        if self.all:
            self.full = f"only {space} octets are free on the disk of the journal, and {self.free_min} have to be"
        elif stored >= self.store:
            self.full = f"the journal holds {stored} octets, and may hold {self.store}"
        else:
            self.full = ""
        return (before == "") != (self.full == "")
