"""A simulated disk whose processes end while their thread still has things to do, and leave others unsynced.

What was only asked for has gone with a process. What its thread had carried out is there to be read by the next one,
is not durable yet, and no sync of that one covers it, unless it changes the same file or the same directory.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import Duration
from entrepot.simulation.disk import Pending, SimulatedDisk
from entrepot.simulation.medium import everything


class ProcessDisk(SimulatedDisk):
    """``carried``: serial of the last change that somebody was told of as carried out."""

    carried = 0

    def kill(self) -> None:
        """The process dies and the machine lives: of what its thread was still asked for, some may have been done."""
        self.answers.hang_up()
        first = min(self.carried, self.medium.serial)
        self.medium.leave(first + int((self.medium.serial - first + 1) * self._entropy.fraction()))
        self._forget()

    def let_go(self) -> None:
        """The process closes it in good order: all that *it* asked for is synced."""
        self.answers.hang_up()
        self.medium.harden(self.medium.serial, everything)
        self.medium.show()
        self._forget()

    def elsewhere(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Do ``work`` behind all that was asked for, which is carried out by then; and ``then`` later still."""
        self.room.ask(lambda: self._elsewhere(self.medium.serial, work, then))

    def _elsewhere(self, upto: int, work: Callable[[], None], then: Callable[[], None]) -> None:
        def do() -> None:
            self.carried = max(self.carried, upto)
            work()
            self.answers.soon(then, self._moment())

        self.answers.soon(do, self._moment())

    def _moment(self) -> Duration:
        """Mostly short: a write does not wait for a disk, unless a sync is before it."""
        return int(self.sync_delay_max * self._entropy.fraction() ** 6) // 4

    def _carried_all(self) -> None:
        self.carried = self.medium.serial

    def _forget(self) -> None:
        super()._forget()
        self._carried_all()

    def _complete(self, pending: Pending) -> None:
        super()._complete(pending)
        if pending.done:
            self.carried = max(self.carried, pending.upto)

    def _rename(self, scratch: str, name: str) -> None:
        super()._rename(scratch, name)
        self._carried_all()

    def cut(self, name: str, length: int) -> None:
        """Cut, durably."""
        super().cut(name, length)
        self._carried_all()

    def blob_seal(self, blob_id: int) -> None:
        """Make the blob durable."""
        super().blob_seal(blob_id)
        self.room.ask(self._carried_all)
