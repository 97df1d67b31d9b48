"""Where the records of messages are on disk, for somebody who reads them there himself. Reads nothing. [C]"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from entrepot.journal.index import DEAD, Segment
from entrepot.journal.tail import Tail


class Locating:
    """Goes to the records of messages as `Records` does. That of ``number`` is ``length`` octets from ``offset`` on."""

    def __init__(self, tail: Tail, numbers: vec[i64]) -> None:
        self.tail: Tail = tail
        self.numbers: vec[i64] = numbers
        self.number: i64 = 0
        self.segment: Segment | None = None
        self.offset: i64 = 0
        self.length: i64 = 0
        self._covered: i64 = 0  # all that ends up to here in ``segment`` is on disk

    def go_to(self, position: i64) -> bool:
        """Find the record of ``numbers[position]``; False where it is not known to be on disk.

        What is on disk stays as it is as long as its file does: nothing is written over it, and no crash takes it back.
        """
        index = self.tail.index
        number = self.numbers[position]
        segment = index.find(number)
        if segment is None or segment.states[index.slot] == DEAD:
            return False
        if self.segment is not segment:
            self.segment = segment
            self._covered = 0
        self.number = number
        self.offset = i64(segment.offsets[index.slot])
        self.length = i64(segment.lengths[index.slot])
        end: i64 = self.offset + self.length
        if end <= self._covered:
            return True
        if not self.tail.covers(segment, end):
            return False
        self._covered = end
        return True
