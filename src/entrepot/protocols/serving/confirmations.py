"""Answers of one connection that wait until the disk has what they confirm, and other brokers where they must. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError
from entrepot.journal.log import JournalCore
from entrepot.journal.ports import Withheld

HELD_MOST: Final = 1_000  # answers of one connection that wait for other brokers until it is read no further


@mypyc_attr(allow_interpreted_subclasses=True)
class Settled:
    """Whoever wants to know when no answer waits any more."""

    def settled(self) -> None:
        """No answer waits for the disk."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Throttle:
    """Whoever reads what makes answers wait."""

    def stop(self) -> None:
        """Too many answers wait for other brokers: read nothing more."""

    def go_on(self) -> None:
        """There are few again."""


class Confirmations:
    """How many answers wait, and whether anybody is there to read them.

    ``owner``: whose answers these are, as `Message.origin` has it. ``held``: those that the disk has, and other brokers
    do not; all that come behind them wait with them, so that no answer overtakes another one.
    """

    def __init__(self, journal: JournalCore, owner: i64 = 0, alone: bool = True) -> None:
        """``alone``: the only ones of ``owner``."""
        self.journal: JournalCore = journal
        self.owner: i64 = owner
        self.alone: bool = alone
        self.waiting: i64 = 0
        self.held: i64 = 0
        self.last: i64 = 0  # the mark of the last one that is held
        self.ended: bool = False  # the connection is gone: nothing is answered
        self.settled: Settled | None = None
        self.throttle: Throttle | None = None
        self.stopped: bool = False

    def ask(self, confirmation: Confirmation) -> None:
        """Give ``confirmation`` when all that was taken so far is on disk: at once when it is."""
        self.waiting += 1
        journal = self.journal
        elsewhere = journal.elsewhere
        if elsewhere is not None:
            confirmation.mark = elsewhere.position(self.owner)
        journal.confirm(confirmation, b"")

    def owes(self) -> bool:
        """Return whether an answer has to wait, though nothing was stored: `ask` for it then."""
        elsewhere = self.journal.elsewhere
        return elsewhere is not None and (self.held > 0 or elsewhere.owes(self.owner))

    def hold(self, confirmation: Confirmation, mark: i64) -> None:
        """The disk has it, and others do not."""
        elsewhere = self.journal.elsewhere
        assert elsewhere is not None
        self.held += 1
        self.last = mark
        if self.held > HELD_MOST and not self.stopped and self.throttle is not None:
            self.stopped = True
            self.throttle.stop()
        elsewhere.hold(confirmation, mark)

    def released(self) -> None:
        """Others have what one was held for."""
        self.held -= 1
        if self.stopped and self.held <= HELD_MOST // 2:
            self.stopped = False
            if self.throttle is not None:
                self.throttle.go_on()

    def end(self) -> None:
        """The connection is gone."""
        if self.ended:
            return
        self.ended = True
        self.settled = None
        self.throttle = None
        elsewhere = self.journal.elsewhere
        if elsewhere is not None:
            elsewhere.forget(self.owner if self.alone else 0, self.held)


@mypyc_attr(allow_interpreted_subclasses=True)
class Confirmation(Withheld):
    """One answer. The protocol subclasses it, with what it needs to say `give` and `refuse`."""

    def __init__(self, confirmations: Confirmations) -> None:
        self.confirmations: Confirmations = confirmations
        self.mark: i64 = 0  # what other brokers have to have before it is given

    def stored(self, token: bytes) -> None:
        """Answer, or wait until others have it."""
        confirmations = self.confirmations
        elsewhere = confirmations.journal.elsewhere
        if elsewhere is not None and not confirmations.ended:
            mark = self.mark
            if confirmations.held > 0 and confirmations.last > mark:
                mark = confirmations.last
            if mark > 0 and (confirmations.held > 0 or not elsewhere.is_reached(mark)):
                confirmations.hold(self, mark)
                return
        self._answer()

    def reached(self) -> None:
        """Answer."""
        self.confirmations.released()
        self._answer()

    def gone(self) -> bool:
        """Return whether its connection is gone."""
        return self.confirmations.ended

    def _answer(self) -> None:
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
