"""Brackets in parts (`journal/parts.py`), as somebody finds them who reads a journal back. [C]"""

from __future__ import annotations

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from entrepot.journal.index import Segment
from entrepot.journal.moving import read_move
from entrepot.journal.record import MESSAGE, MOVE, RECORD_HEAD, payload_fits


class Brackets:
    """``undecided``: those whose end was not read, with the segments that have parts; ``undone``: never whole.

    ``highest``: of the numbers of messages in parts of the latter, which are not given again.
    """

    def __init__(self) -> None:
        self.undecided: dict[int, dict[int, Segment]] = {}
        self.undone: dict[int, bool] = {}
        self.highest: i64 = 0

    def part(self, segment: Segment, data: bytes, place: i64) -> bool:
        """Return whether what follows the PART at ``data[place]`` never counted; else it is undecided from now on."""
        identity = int(read_i64_be(data, place + RECORD_HEAD + 1))
        if identity in self.undone:
            return True
        self.undecided.setdefault(identity, {})[int(segment.first)] = segment
        return False

    def pass_over(self, data: bytes, place: i64, end: i64) -> None:
        """Take nothing from ``place`` to ``end`` but the numbers."""
        while place < end:
            if data[place + RECORD_HEAD] == MESSAGE and payload_fits(data, place):
                self.highest = max(self.highest, read_i64_be(data, place + RECORD_HEAD + 2))
            elif data[place + RECORD_HEAD] == MOVE and payload_fits(data, place):
                move, _ = read_move(data, place + RECORD_HEAD, 0)
                self.highest = max(self.highest, move.fresh + move.count - 1)
            length: i64 = i64(read_i32_be(data, place))
            place += RECORD_HEAD + length

    def whole(self, segment: Segment, data: bytes, place: i64, sequence: i64) -> None:
        """The WHOLE at ``data[place]`` of batch ``sequence`` is needed as long as the segments with its parts."""
        for first, other in self.undecided.pop(int(read_i64_be(data, place + RECORD_HEAD + 1)), {}).items():
            if other is not segment:
                segment.refs[first] = sequence

    def decide(self) -> bool:
        """All is read: give up what is not whole. False when there is some: all must be read once more, without it."""
        for identity in self.undecided:
            self.undone[identity] = True
        return not self.undecided
