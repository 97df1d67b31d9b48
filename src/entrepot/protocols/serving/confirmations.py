"""Answers of one connection that wait until the disk has what they confirm. [C]"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError
from entrepot.journal.log import JournalCore
from entrepot.journal.ports import Waiter


@mypyc_attr(allow_interpreted_subclasses=True)
class Settled:
    """Whoever wants to know when no answer waits any more."""

    def settled(self) -> None:
        """No answer waits for the disk."""


class Confirmations:
    """How many answers wait, and whether anybody is there to read them."""

    def __init__(self, journal: JournalCore) -> None:
        self.journal: JournalCore = journal
        self.waiting: i64 = 0
        self.ended: bool = False  # the connection is gone: nothing is answered
        self.settled: Settled | None = None

    def ask(self, confirmation: Confirmation) -> None:
        """Give ``confirmation`` when all that was taken so far is on disk: at once when it is."""
        self.waiting += 1
        self.journal.confirm(confirmation, b"")

    def end(self) -> None:
        """The connection is gone."""
        self.ended = True
        self.settled = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Confirmation(Waiter):
    """One answer. The protocol subclasses it, with what it needs to say `give` and `refuse`."""

    def __init__(self, confirmations: Confirmations) -> None:
        self.confirmations: Confirmations = confirmations

    def stored(self, token: bytes) -> None:
        """Answer."""
        confirmations = self.confirmations
        confirmations.waiting -= 1
        if not confirmations.ended:
            self.give()
        if confirmations.waiting == 0 and confirmations.settled is not None:
            confirmations.settled.settled()

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Say that it is not stored."""
        self.confirmations.waiting -= 1
        if not self.confirmations.ended:
            self.refuse(error)

    def give(self) -> None:
        """Write the answer."""
        raise NotImplementedError

    def refuse(self, error: EntrepotError) -> None:
        """Say that what was asked for is not on disk."""
        raise NotImplementedError
