"""What a replica in sync has, compared with what is here while both go on: `entrepot ha verify`.

Every file as long as it is at the beginning, stretch by stretch: a digest of what stands here, at its place in the
stream of what the replica is told, so it is answered of the same moment. What is written later is told, and compared
the next time. Files follow their names as in a catch-up, whose pieces these are.

A difference says nothing of who is right; checksums do. Where what stands here is sound, the replica counts no longer
and is made anew: a catch-up finds out what differs. Where it is damaged *here*, nothing is sent that could replace
what may be the last sound copy; an operator lets the replica serve (`entrepot ha demote`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.environment import Instant
from entrepot.ha.catchup import CatchUp, Piece, Range

AT_A_TIME: Final = 2
"""Answers that may be outstanding: while a replica reads half a MiB, a confirmation waits for it."""

COMPARING: Final = "comparing"
SAME: Final = "same"
DIFFERS: Final = "differs"
DAMAGED: Final = "damaged here"
CUT_OFF: Final = "cut off"


class Verdict:
    """What a comparison with the replica ``name`` came to. Octets, instants; ``ended`` -1 while it goes on.

    ``found``: what differs, or is damaged, for people.
    """

    def __init__(self, name: str, octets: int, begun: Instant) -> None:
        self.name: Final = name
        self.octets: Final = octets
        self.begun: Final = begun
        self.state = COMPARING
        self.compared = 0
        self.found = ""
        self.ended: Instant = -1

    def end(self, state: str, found: str, now: Instant) -> None:
        """It came to ``state``."""
        self.state, self.found, self.ended = state, found, now


class Comparison(CatchUp):
    """What is to be compared with one replica. ``differs``: what is sound here, and is otherwise there."""

    probing_max = AT_A_TIME

    def __init__(self, ends: Mapping[str, int], name: str, now: Instant, bandwidth: int = 0) -> None:
        """``ends``: of all files; ``bandwidth``: octets a second, 0 for no limit."""
        super().__init__(bandwidth)
        self.ranges.update({each: Range(0, end, end) for each, end in ends.items()})
        self.verdict: Final = Verdict(name, sum(ends.values()), now)
        self.differs = ""

    def price(self, piece: Piece) -> int:
        """Return what the disk is spared by the limit: here all is read."""
        return piece.length

    def answered(self, name: str, offset: int, length: int, *, lacks: bool) -> None:
        """A stretch is the same there, or is in doubt."""
        self.verdict.compared += length
        super().answered(name, offset, length, lacks=lacks)

    def sound(self, name: str, offset: int, length: int) -> None:
        """The replica differs, and is not right."""
        self.differs = self.differs or f"{name} at octet {offset}"

    def missed(self, piece: Piece, *, no_file: bool) -> bool:
        """``piece`` could not be read: because it has another name by now, or it is damaged here."""
        if not super().missed(piece, no_file=no_file):
            self.flaw = self.flaw or f"{piece.name} cannot be read at octet {piece.at}"
            self.reading.remove(piece)
            self.probing -= 1
        return True

    def again(self, name: str, offset: int, length: int) -> None:
        """Compare it under its name of now."""
        found = self.ranges.setdefault(name, Range(offset, offset + length, offset + length))
        found.at = min(found.at, offset)
