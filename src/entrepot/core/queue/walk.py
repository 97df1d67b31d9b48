"""A pass through what waits in a queue, in delivery order, in memory and on disk, a bounded step at a time. [C]

Between two steps anything may happen to the queue: what leaves is not shown, nothing is shown twice, and what comes
back in front of the place that was reached is left to the next pass.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.queue.backlog import LEVELS, Backlog, Reference
from entrepot.core.queue.bereaved import load_or_stand_in
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message

LOAD_MOST: Final = 64  # messages read from disk at a time
LOAD_OCTETS: Final = 4 * 1024 * 1024  # what one step may bring into memory before it ends early


class Found:
    """One message that a `Walk` came to; ``reference`` is None for one that waits on disk."""

    def __init__(self, level: i64, message: Message, reference: Reference | None) -> None:
        self.level: i64 = level
        self.message: Message = message
        self.reference: Reference | None = reference


class Flight:
    """What is out of the backlog, for a pass that shows that too. The default is nothing."""

    def following(self, level: i64, seen: i64) -> Reference | None:
        """Return the first of ``level`` whose number is above ``seen``."""
        return None

    def back_to(self, level: i64, seen: i64) -> None:
        """What follows ``seen`` in ``level`` comes again, and all in the levels below."""


class Walk:
    """Where one pass stands: in ``level``, behind the number ``seen``. It shows only numbers above ``floor``."""

    def __init__(self, backlog: Backlog, journal: JournalCore, floor: i64 = 0) -> None:
        self.backlog: Backlog = backlog
        self.journal: JournalCore = journal
        self.level: i64 = LEVELS - 1
        self.floor: i64 = floor
        self.seen: i64 = floor
        self.at: Reference | None = None
        self.flight: Flight | None = None
        self.done: bool = False

    def step(self, most: i64) -> list[Found]:
        """Return up to ``most`` further messages, fewer when they are large; ``done`` is set when there are no more."""
        found: list[Found] = []
        octets: i64 = 0
        size: i64 = 4  # read little until it is known how large they are
        while not self.done and len(found) < most and octets < LOAD_OCTETS:
            paged = self.backlog.behind(self.level)
            numbers: list[int] = []
            if paged is not None:
                numbers = paged.after(self.seen, min(size, most - len(found)))
            reference = self._in_memory()
            flight = self.flight
            if flight is not None:
                out = flight.following(self.level, self.seen)
                if out is not None:
                    if (reference is None or out.number < reference.number) and (
                        not numbers or out.number < numbers[0]
                    ):
                        self.seen = out.number
                        found.append(Found(self.level, out.message, None))
                        continue
                    numbers = self._before(out.number, reference, numbers)
            if reference is not None and (not numbers or reference.number < numbers[0]):
                self._from_memory(found, reference, numbers, most)
            elif numbers:
                octets += self._from_disk(found, reference, numbers, LOAD_OCTETS - octets)
                size = min(size * 2, LOAD_MOST) if octets < LOAD_OCTETS // 4 else 4
            else:
                self._descend()
        return found

    def back_to(self, found: Found) -> None:
        """Stand behind ``found``, which came in the last step: what came after it comes again."""
        at = self.at
        if found.reference is not None:
            self.at = found.reference
        elif found.level != self.level or (at is not None and at.number > found.message.number):
            self.at = None  # it stands in the list of a level below, or too far
        self.level = found.level
        self.seen = found.message.number
        self.done = False
        if self.flight is not None:
            self.flight.back_to(self.level, self.seen)

    def _before(self, number: i64, reference: Reference | None, numbers: list[int]) -> list[int]:
        """Return ``numbers`` below ``number``; they begin with it where only what is in memory comes before."""
        if reference is not None and (not numbers or reference.number < numbers[0]):
            return [min(int(number), numbers[0])] if numbers else [int(number)]
        return [each for each in numbers if each < number]

    def _descend(self) -> None:
        self.level -= 1
        self.seen = self.floor
        self.at = None
        self.done = self.level < 0

    def _in_memory(self) -> Reference | None:
        """Return the first reference of this level in memory behind ``seen``."""
        at = self.at
        reference: Reference | None
        if at is not None and at.linked and at.number <= self.seen:
            reference = at
        else:
            waiting = self.backlog.waiting(self.level)
            reference = None if waiting is None else waiting.head
            if waiting is not None and reference is not None and self.seen == self.floor > reference.number:
                reference = waiting.tail  # what is wanted is new, and stands at the end
                while reference is not None and reference.before is not None and reference.before.number > self.seen:
                    reference = reference.before
        while reference is not None and reference.number <= self.seen:
            reference = reference.after
        return reference

    def _from_memory(self, found: list[Found], first: Reference, numbers: list[int], most: i64) -> None:
        reference: Reference | None = first
        while reference is not None and len(found) < most and (not numbers or reference.number < numbers[0]):
            self.seen = reference.number
            self.at = reference
            found.append(Found(self.level, reference.message, reference))
            reference = reference.after

    def _from_disk(self, found: list[Found], reference: Reference | None, numbers: list[int], most: i64) -> i64:
        octets: i64 = 0
        wanted = numbers
        if reference is not None:
            wanted = [number for number in numbers if number < reference.number]
        for message in load_or_stand_in(self.journal, wanted, most):
            self.seen = message.number
            octets += message.size
            found.append(Found(self.level, message, None))
        return octets
