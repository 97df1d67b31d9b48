"""Which answers wait until other brokers have what they are about: ``sync`` of a ``<mirror>`` (artemis.md 2.8). [C]

An answer waits for all that its connection did so far at addresses that are mirrored so: that is, until of the events
that wait in the queues of those mirrors none is left that was there when the answer was asked for. An event leaves such
a queue when the other side has accepted it, which has it on its disk then; or when it is parked, purged, or its mirror
is taken out of the file, whereupon nobody waits for it any more. Who did nothing there waits for nothing.

A broker that tells what it does there is answered when this one has it: it does not wait until a third one has it, too.
Three in a ring would wait for one another for ever.

What is kept is a number for each connection that did something, and the answers that wait; a connection with very many
of these is read no further (`Confirmations`). The lowest number that was not accepted is looked for once in a turn, not
for each event; in between a number is relied on that is no higher.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.effort import Rest
from entrepot.core.ports import Host
from entrepot.core.queue.queue import Queue
from entrepot.journal.ports import Elsewhere, Withheld

ALL: Final = (1 << 62) - 1  # above every number: nothing waits
GONE_MOST: Final = 100  # answers of connections that are gone are thrown away when there are so many, and half are


class _Look(Rest):
    """Looks what was accepted in this turn."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers: Answers = answers

    def resume(self) -> None:
        """Give the answers that waited for it."""
        self.answers.look()


class Answers(Elsewhere):
    """Of one broker. ``queues``: with the events of the mirrors whose other side answers wait for."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host: Host = host
        self.queues: list[Queue] = []
        self.owing: dict[int, int] = {}  # connection -> its last event
        self.low: i64 = ALL  # no event below it waits; it may be lower than it could be
        self.stale: bool = False  # `low` is to be looked for again
        self.late: bool = False  # events were told that enter their queues later
        self.gone: i64 = 0
        self._held: list[Withheld] = []
        self._marks: list[int] = []
        self._at: i64 = 0  # the first of them
        self._look: _Look = _Look(self)

    @property
    def waiting(self) -> i64:
        """How many answers wait."""
        return len(self._held) - self._at - self.gone

    def told(self, owner: i64, number: i64) -> None:
        """The event ``number`` is about something that ``owner`` did; 0: nobody is answered for it."""
        self.low = min(self.low, number)
        if self.host.postponed is not None:
            self.late = True
        if owner != 0:
            self.owing[int(owner)] = int(number)

    def claim(self, owner: i64) -> None:
        """Let ``owner`` be answered when all that was told so far has arrived."""
        if owner != 0 and (self.stale or self.low != ALL):
            self.owing[int(owner)] = int(self.host.ids.number)

    def left(self) -> None:
        """An event has left one of the queues."""
        self.stale = True
        if self._at < len(self._held):
            self.host.effort.later(self._look)

    # -- what answers ask ----------------------------------------------------------------------------------------------

    def owes(self, owner: i64) -> bool:
        """Return whether something that ``owner`` did may not be elsewhere yet."""
        return int(owner) in self.owing

    def position(self, owner: i64) -> i64:
        """Return the last number that was given so far: what is told has one up to that, whatever it was first."""
        if int(owner) not in self.owing:
            return 0
        if self.late:
            self.stale = True
        return self.host.ids.number

    def is_reached(self, mark: i64) -> bool:
        """Return whether no event up to ``mark`` waits."""
        if self.stale:
            self._find()
        if mark >= self.low:
            return False
        if self.low == ALL and not self.late:
            self.owing.clear()
        return True

    def hold(self, withheld: Withheld, mark: i64) -> None:
        """Let it wait."""
        self._held.append(withheld)
        self._marks.append(int(mark))

    def forget(self, owner: i64, count: i64) -> None:
        """A connection is gone."""
        self.owing.pop(int(owner), 0)
        self.gone += count
        if self.gone > GONE_MOST and self.gone * 2 > len(self._held) - self._at:
            self._sweep()

    # -- what was accepted ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Give the answers that waited for what has arrived by now."""
        self._find()
        held = self._held
        while self._at < len(held) and self._marks[self._at] < self.low:
            withheld = held[self._at]
            self._at += 1
            if withheld.gone():
                self.gone -= 1
            withheld.reached()
        if self._at == len(held):
            self._held = []
            self._marks = []
            self._at = 0
            self.gone = 0
        elif self._at > GONE_MOST and self._at * 2 > len(held):
            self._sweep()
        if self.low == ALL and not self._held and not self.late:
            self.owing.clear()

    def _sweep(self) -> None:
        """Throw away what was given, and what nobody waits for any more."""
        held: list[Withheld] = []
        marks: list[int] = []
        at = self._at
        while at < len(self._held):
            if not self._held[at].gone():
                held.append(self._held[at])
                marks.append(self._marks[at])
            at += 1
        self._held = held
        self._marks = marks
        self._at = 0
        self.gone = 0

    def _find(self) -> None:
        self.stale = False
        low: i64 = ALL
        for queue in self.queues:
            if not queue.deleted:
                low = min(low, lowest(queue))
        self.low = low
        if low == ALL and not self.host.carrying:
            self.late = False


def lowest(queue: Queue) -> i64:
    """Return the lowest number of a message that ``queue`` has, waiting or on its way; `ALL` for none."""
    if queue.leased > 0:
        return 0  # somebody has taken some that no list has
    found: i64 = ALL
    for consumer in queue.roster.consumers:
        if consumer.in_flight:
            found = min(found, *consumer.in_flight)
    if queue.returns.delayed:
        found = min(found, *queue.returns.delayed)
    backlog = queue.backlog
    owed = backlog.owed
    if owed is not None:
        for message in owed.messages():
            found = min(found, message.number)
    first = backlog.first()
    if first is not None:
        found = min(found, first.number)
    for paged in backlog.paged:
        if paged is not None and paged.count > 0:
            found = min(found, paged.front())
    return found
