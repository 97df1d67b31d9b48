"""A look through queues that removes nothing: what waits, and what somebody has and has not settled. [C]

In the order of delivery, as far as it stood at each step, and a bounded step at a time.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.queue.backlog import LEVELS, Reference
from entrepot.core.queue.copying import LONG_OCTETS, copied
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.walk import Flight, Found, Walk
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

LOOKS: Final = 2_000  # messages that one step of a browser with a selector may look at
FOLLOWED: Final = 10_000  # in flight: with more, what goes out while a browser is half through is not looked for


class _Out:
    """One message that somebody has. ``holder``: what it is in until it is settled, or comes back."""

    def __init__(self, reference: Reference, holder: dict[int, Reference]) -> None:
        self.reference: Reference = reference
        self.holder: dict[int, Reference] = holder


def _number(out: _Out) -> int:
    return int(out.reference.number)


class InFlight(Flight):
    """What is out of the backlog of ``queue`` and not settled: at consumers, kept for a transaction, or delayed."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue: Queue = queue
        self.delivered: i64 = -1  # by the queue, when it was looked at last
        self.levels: list[list[_Out]] = []
        self.at: list[int] = []

    def refresh(self) -> None:
        """Look again at what is out there, if more went out since the last time."""
        queue = self.queue
        if self.delivered == queue.dispatcher.delivered or (self.levels and queue.in_flight > FOLLOWED):
            return
        self.delivered = queue.dispatcher.delivered
        holders = [queue.returns.delayed, queue.promised]
        for consumer in queue.roster.consumers:
            holders.append(consumer.in_flight)
        levels: list[list[_Out]] = [[] for _ in range(LEVELS)]
        for holder in holders:
            queue.effort.spent += len(holder) >> 2
            for reference in holder.values():
                levels[int(queue.backlog.level_of(reference.message))].append(_Out(reference, holder))
        for level in levels:
            level.sort(key=_number)
        self.levels = levels
        self.at = [0] * LEVELS

    def following(self, level: i64, seen: i64) -> Reference | None:
        """Return the first of ``level`` whose number is above ``seen`` and that is still out there."""
        ordered = self.levels[int(level)]
        at = self.at[int(level)]
        found: Reference | None = None
        while at < len(ordered):
            out = ordered[at]
            if out.reference.number > seen and out.holder.get(int(out.reference.number)) is out.reference:
                found = out.reference
                break
            at += 1
        self.at[int(level)] = at
        return found

    def back_to(self, level: i64, seen: i64) -> None:
        """What follows ``seen`` in ``level`` comes again, and all in the levels below."""
        ordered = self.levels[int(level)]
        at = self.at[int(level)]
        while at > 0 and ordered[at - 1].reference.number > seen:
            at -= 1
        self.at[int(level)] = at
        for below in range(int(level)):
            self.at[below] = 0


class Browser:
    """A look through ``queues``, one after the other. ``waiting``: only at what nobody has.

    `next` may be called as slowly as the reader likes; what leaves meanwhile is not shown, nothing is shown twice. One
    with a large body is the last that comes at once: who shows it may have to read it first. So is the one with which
    what is in memory may become longer than a copy that is made without asking (`core/queue/copying.py`).
    """

    def __init__(self, queues: list[Queue], selector: Predicate | None, *, waiting: bool = False) -> None:
        self.queues: list[Queue] = queues
        self.selector: Predicate | None = selector
        self.waiting: bool = waiting
        self.at: int = 0
        self.queue: Queue | None = None  # where all that came last is
        self.walk: Walk | None = None
        self.flight: InFlight | None = None
        self.shown: i64 = 0
        self._pace: i64 = LOOKS  # so many at once: few after a large body, for what comes too early is read again
        self.deliveries: list[int] = []  # how often each of what came last was delivered, as far as that is known
        self._step_on()

    @property
    def done(self) -> bool:
        """Return whether the end was reached."""
        return self.walk is None

    def _step_on(self) -> None:
        """Go to the next queue."""
        self.walk = None
        if self.at < len(self.queues):
            queue = self.queues[self.at]
            self.at += 1
            self.queue = queue
            self.walk = queue.stock.walk()
            if not self.waiting and not queue.traits.non_destructive:  # what is shown there waits, too
                self.flight = InFlight(queue)
                self.walk.flight = self.flight

    def next(self, most: i64) -> list[Message]:
        """Return up to ``most`` further messages of one queue; fewer, even none, when not all fit: ask `done`."""
        walk = self.walk
        queue = self.queue
        self.deliveries = []
        found: list[Message] = []
        if walk is None or queue is None:
            return found
        if walk.done:
            self._step_on()
            return found
        if self.flight is not None:
            self.flight.refresh()
        looks: i64 = max(most, LOOKS)
        large = False
        octets: i64 = 0
        while not walk.done and len(found) < most and looks > 0 and not large:
            step = walk.step(min(looks, most - len(found), self._pace))
            looks -= len(step)
            queue.effort.spent += len(step)
            self._pace = min(self._pace * 2, LOOKS)
            for each in step:
                message = each.message
                expired = message.expiration != 0 and message.expiration <= queue.host.wall
                if not expired and (self.selector is None or self.selector.matches(message)):
                    found.append(message)
                    self.deliveries.append(_attempts(queue, each))
                    rare = message.rare
                    octets += copied(message, -1)
                    if octets >= LONG_OCTETS or (rare is not None and rare.large_id != 0):
                        large = True
                        walk.back_to(each)
                        self._pace = 1
                        break
        queue.effort.spent += octets >> OCTETS_SHIFT
        if walk.done and self.at >= len(self.queues):
            self.walk = None
        self.shown += len(found)
        return found


def _attempts(queue: Queue, found: Found) -> int:
    """Return how often what was found in ``queue`` was delivered, as far as that is known."""
    reference = found.reference
    if reference is not None:
        return int(reference.deliveries)
    attempts = queue.stock.attempts
    return int(attempts.get(int(found.message.number), 0)) if attempts else 0
