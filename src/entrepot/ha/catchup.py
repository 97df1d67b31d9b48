"""What a replica still lacks, file by file, while the primary goes on writing: ranges, pulled at the replica's pace.

A replica that is being made is not sent what is written; it is noted here that the file has grown, and its octets are
read from disk when their turn comes. So memory is bounded by the number of files, however slow the replica is and
however fast producers are. Names are another matter: files are made, named and dropped at the replica when they are
here, in order, so that what compaction removes need not be kept for anybody, and what it made is not missed.

Files are read away from the loop (`Piece`): what is asked for now is sent when it has been read. A piece follows its
file to a new name and is forgotten with it; what is written to it meanwhile is still to come, again.

A range that the replica has already (`theirs`) is probed with a digest first; only what differs is sent, and only once
the file's checksums were looked at here: where it is damaged in that place, what the replica has may be the last sound
copy (`flaw`), and nothing is sent that would replace it.
"""

from __future__ import annotations

from _blake2 import blake2b  # as in `core/sending/copies.py`
from collections.abc import Mapping
from typing import Final

from entrepot.ha.stream import PIECE, PROBE, WRITE, Frame
from entrepot.journal.inspect import Damage
from entrepot.journal.ports import SCRATCH

DIGEST: Final = 16
"""Octets: chance does not make two stretches alike."""


def digest(octets: bytes) -> bytes:
    """Return what a stretch is told by."""
    return blake2b(octets, digest_size=DIGEST).digest()


PROBING_MAX: Final = 64
"""Answers that may be outstanding: 16 MiB compared ahead, so that a replica's disk and ours read at the same time."""


class Range:
    """Octets ``at`` to ``end`` of a file are still to come; up to ``theirs`` the replica may have them already."""

    def __init__(self, at: int, end: int, theirs: int = 0) -> None:
        self.at = at
        self.end = end
        self.theirs = theirs


class Piece:
    """``length`` octets at ``at`` of the file ``name``, on their way from the disk. ``name`` is "" once it is gone."""

    def __init__(self, name: str, at: int, length: int, *, probed: bool) -> None:
        self.name = name
        self.asked: Final = name  # what it was called when it was asked for
        self.at: Final = at
        self.length = length
        self.probed: Final = probed


class CatchUp:
    """The ranges of one replica. ``probing``: answers that are outstanding; ``sent``: octets of files sent so far.

    ``reading``: pieces on their way from the disk, in the order in which they were asked for. ``doubts``: stretches
    that the replica has otherwise, by file, until it was looked at here; ``flaw``: what is damaged of them here.
    """

    probing_max = PROBING_MAX

    def __init__(self, bandwidth: int = 0) -> None:
        """``bandwidth``: octets a second, 0 for no limit of its own."""
        self.bandwidth: Final = bandwidth
        self.ranges: Final[dict[str, Range]] = {}
        self.redo: Final[list[tuple[str, int, int]]] = []
        self.reading: Final[list[Piece]] = []
        self.doubts: Final[dict[str, list[tuple[int, int]]]] = {}
        self.flaw = ""
        self._examined: Final[dict[str, list[Damage] | None]] = {}  # by file; None while it is being looked at
        self.probing = 0
        self.sent = 0
        self.same = 0

    # -- what the primary does meanwhile -------------------------------------------------------------------------------

    def wrote(self, name: str, offset: int, length: int) -> None:
        """Octets were written: they are still to come, again where they had come before."""
        found = self.ranges.get(name)
        if found is None:
            self.ranges[name] = Range(offset, offset + length)
            return
        found.at = min(found.at, offset)
        found.end = max(found.end, offset + length)
        found.theirs = min(found.theirs, offset)

    def trimmed(self, name: str, length: int) -> None:
        """What is behind ``length`` is gone."""
        found = self.ranges.get(name)
        if found is not None:
            found.end = min(found.end, length)
        for each in self.reading:
            if each.name == name:
                each.length = max(0, min(each.length, length - each.at))

    def renamed(self, scratch: str, name: str) -> None:
        """What is to come of ``scratch`` is of ``name`` now, and what stood there is gone."""
        self.dropped(name)
        found = self.ranges.pop(scratch, None)
        if found is not None:
            self.ranges[name] = found
        for each in self.reading:
            if each.name == scratch:
                each.name = name
        self.redo[:] = [(name if each[0] == scratch else each[0], each[1], each[2]) for each in self.redo]
        doubts = self.doubts.pop(scratch, None)
        if doubts is not None:
            self.doubts[name] = doubts

    def dropped(self, name: str) -> None:
        """The file is gone, or begins anew."""
        self.ranges.pop(name, None)
        for each in self.reading:
            if each.name == name:
                each.name = ""
        self.redo[:] = [each for each in self.redo if each[0] != name]
        self.doubts.pop(name, None)
        self._examined.pop(name, None)

    # -- what the replica says -----------------------------------------------------------------------------------------

    def answered(self, name: str, offset: int, length: int, *, lacks: bool) -> None:
        """A probe is answered. The file may have been dropped, or been made anew, meanwhile: then it says nothing."""
        self.probing = max(0, self.probing - 1)
        if lacks:
            self.doubts.setdefault(name, []).append((offset, length))
        else:
            self.same += length

    # -- what is in doubt ----------------------------------------------------------------------------------------------

    def to_examine(self, ends: Mapping[str, int]) -> list[str]:
        """Return which of the files in ``ends`` are to be looked at, and judge what is in doubt of those that were."""
        asked: list[str] = []
        for name in list(self.doubts):
            if name not in ends:
                del self.doubts[name]  # it has gone, or only the replica knows it
            elif name not in self._examined:
                self._examined[name] = None
                asked.append(name)
            else:
                self._judge(name)
        return asked

    def examined(self, name: str, damaged: list[Damage]) -> None:
        """The file ``name`` was looked at, unless it has another name by now, or is gone."""
        if name in self._examined:
            self._examined[name] = damaged

    def _judge(self, name: str) -> None:
        damaged = self._examined[name]
        if damaged is None:
            return
        for offset, length in self.doubts.pop(name):
            wrong = [each.what for each in damaged if each.at < offset + length and offset < each.end]
            if wrong:
                self.flaw = self.flaw or wrong[0]
            else:
                self.sound(name, offset, length)

    def sound(self, name: str, offset: int, length: int) -> None:
        """What is here of a stretch that the replica has otherwise is as it was written."""
        self.again(name, offset, length)

    # -- what is sent --------------------------------------------------------------------------------------------------

    def left(self) -> int:
        """Return how many octets are still to come, or to be compared."""
        ranges = sum(max(0, each.end - each.at) for each in self.ranges.values())
        doubts = sum(length for each in self.doubts.values() for _, length in each)
        return ranges + sum(length for _, _, length in self.redo) + doubts + self.under_way()

    def under_way(self) -> int:
        """Return how many octets are being read to be sent."""
        return sum(each.length for each in self.reading if not each.probed)

    def done(self) -> bool:
        """Say whether nothing is left, and nothing is open."""
        return not (self.probing or self.redo or self.ranges or self.reading or self.doubts)

    def next(self, ends: dict[str, int]) -> Piece | None:
        """Return what to read next, None when there is nothing at this moment; `read` takes what it holds.

        ``ends``: of all files, as long as they are now.
        """
        while self.redo:
            name, offset, length = self.redo.pop(0)
            length = min(length, ends.get(name, 0) - offset)
            if length > 0:
                return self._ask(Piece(name, offset, length, probed=False))
        while self.ranges:  # no copy of it: a store has many files, and this is asked for each piece
            name, found = next(iter(self.ranges.items()))
            end = min(found.end, ends.get(name, 0))
            if found.at >= end:
                del self.ranges[name]
                continue
            probed = found.at < found.theirs
            length = min(PIECE, end - found.at)
            if probed:
                if self.probing >= self.probing_max:
                    return None
                length = min(length, found.theirs - found.at)
            at, found.at = found.at, found.at + length
            if probed:
                self.probing += 1
            return self._ask(Piece(name, at, length, probed=probed))
        return None

    def _ask(self, piece: Piece) -> Piece:
        self.reading.append(piece)
        return piece

    def read(self, piece: Piece, octets: bytes) -> Frame | None:
        """``piece`` has been read: return what to send, None if its file is gone."""
        self.reading.remove(piece)
        octets = octets[: piece.length]
        if not piece.name or not octets:
            if piece.probed:
                self.probing -= 1
            return None
        if piece.probed:
            return Frame(PROBE, piece.name, first=piece.at, second=len(octets), octets=digest(octets))
        self.sent += len(octets)
        return Frame(WRITE, piece.name, first=piece.at, octets=octets)

    def missed(self, piece: Piece, *, no_file: bool) -> bool:
        """``piece`` could not be read: say whether that means nothing. ``no_file``: there is none of that name.

        Its file has another name by now, or is gone, or (a scratch file) will be said to be in a moment: the disk is
        ahead of what it says.
        """
        if piece.name == piece.asked and not (no_file and piece.name.endswith(SCRATCH)):
            return False
        self.reading.remove(piece)
        if piece.probed:
            self.probing -= 1
        if piece.name and piece.length:
            self.again(piece.name, piece.at, piece.length)
        return True

    def again(self, name: str, offset: int, length: int) -> None:
        """Send a stretch, whatever the replica has."""
        self.redo.append((name, offset, length))

    def price(self, piece: Piece) -> int:
        """Return how many octets of the bandwidth ``piece`` takes."""
        return 0 if piece.probed else piece.length
