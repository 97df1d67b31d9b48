"""What a holder wants to have in the record of its lock, and what is known to stand there. No I/O.

A change is carried by a renewal, which is made at once for it. One is under way at a time, so what was proposed
meanwhile is carried by the next.
"""

from __future__ import annotations

from typing import Final

from entrepot.ha.lease import Record


class Recorded:
    """What was proposed with ``serial`` stands in the record, and nothing that was proposed before can any more."""

    def __init__(self, serial: int) -> None:
        self.serial: Final = serial


class Named:
    """The record names ``heir``, "" for nobody: clients may be told of him now."""

    def __init__(self, heir: str) -> None:
        self.heir: Final = heir


class Proposals:
    """Who shall be eligible, and the heir, as the broker has it, the last renewal carried it, and the record says.

    ``named``: the heir that the record is known to name, "" for nobody.
    """

    def __init__(self) -> None:
        self.wanted: tuple[int, dict[str, int]] = (0, {})
        self.sent = 0
        self.recorded = 0
        self.heir = ""
        self.named = ""

    def propose(self, serial: int, eligible: dict[str, int]) -> None:
        """Have ``eligible`` in the record; wake the candidate then. May be called by another thread."""
        self.wanted = (serial, eligible)

    def name(self, heir: str) -> bool:
        """Have ``heir`` in the record; return whether another was wanted before: wake the candidate then."""
        before, self.heir = self.heir, heir
        return before != heir

    @property
    def open(self) -> bool:
        """Say whether the record is to be changed."""
        return self.wanted[0] != self.recorded or self.heir != self.named

    def send(self, mine: Record) -> None:
        """The record is put into the lock."""
        serial, eligible = self.wanted
        if serial:
            mine.eligible = eligible
            self.sent = serial
        mine.heir = self.heir

    def answered(self, mine: Record) -> list[Recorded | Named]:
        """The record stands there as ``mine`` is."""
        effects: list[Recorded | Named] = []
        if self.sent != self.recorded:
            self.recorded = self.sent
            effects.append(Recorded(self.sent))
        if mine.heir != self.named:
            self.named = mine.heir
            effects.append(Named(mine.heir))
        return effects
