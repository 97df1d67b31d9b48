"""What happens later: redelivery delays, scheduled messages, cron, holds, sweeps. One heap, one deadline. [C]

Entries are ordered by due time, then by the order in which they were made, so that a run can be replayed. Nothing here
reads a clock: the broker passes ``now`` in and asks for the earliest instant (`deadline`).

A date (ms since 1970) is kept as one, in `Dates`, and never as the instant that it once was: the wall clock is put
forward after a machine has slept, and back by NTP or by hand, and what waits for a date follows it.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.base.cron import Cron
from entrepot.base.environment import MILLISECOND, Instant, WallTime
from entrepot.base.errors import Refused
from entrepot.core.effort import Effort
from entrepot.model.message import Message

SCHEDULED_DELAY: Final = "AMQ_SCHEDULED_DELAY"
SCHEDULED_TIME: Final = "AMQ_SCHEDULED_TIME"
SCHEDULED_PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
SCHEDULED_REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
SCHEDULED_CRON: Final = "AMQ_SCHEDULED_CRON"
SCHEDULED_NAMES: Final = (SCHEDULED_DELAY, SCHEDULED_TIME, SCHEDULED_PERIOD, SCHEDULED_REPEAT, SCHEDULED_CRON)
SCHEDULED_LEFT: Final = "entrepot.scheduled.left"  # annotation while a message waits: repetitions still to come
SCHEDULED_JOB: Final = "scheduledJobId"
SCHEDULED_TARGET: Final = "entrepot.scheduled.to"  # annotation while a message waits; removed when it is sent

JUMP_MS: Final = 1000  # the wall clock was set when it moved by more against the monotonic one
NEVER: Final = 1 << 62
REPEAT_MAX: Final = 1000  # maxSchedulerRepeatAllowed (classic.md 4.13)
FOREVER: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Alarm:
    """One thing to do at ``due``. Subclasses of the broker's say what in `ring`."""

    def __init__(self, due: Instant) -> None:
        self.due = due
        self.cancelled = False

    def ring(self, now: Instant) -> None:
        """Do it."""
        raise NotImplementedError


class Timetable:
    """All alarms of one broker."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Alarm]] = []
        self._made = 0

    def add(self, alarm: Alarm) -> None:
        """Ring ``alarm`` at its due time."""
        self._made += 1
        heapq.heappush(self._heap, (alarm.due, self._made, alarm))

    def deadline(self) -> Instant | None:
        """Return when the next alarm is due."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def advance(self, now: Instant, most: int, effort: Effort) -> None:
        """Ring up to ``most`` alarms that are due, as far as ``effort`` reaches.

        And none that is made meanwhile: its turn comes after others'.
        """
        made = self._made
        while most > 0 and not effort.is_over() and self._heap and self._heap[0][0] <= now and self._heap[0][1] <= made:
            _, _, alarm = heapq.heappop(self._heap)
            if not alarm.cancelled:
                most -= 1
                alarm.ring(now)

    def __len__(self) -> int:
        return len(self._heap)


class Dates:
    """What waits for a date. What was asked for as a *while*, not as a date, never waits longer than that while, though
    the wall clock is put back; when it is put forward beyond its date it is due, as if the machine had slept.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Instant]] = []  # when it is due, number, date, end of its while or NEVER
        self._offset: int = 0  # ms: the wall clock minus the monotonic one, as the heap is ordered

    def add(self, number: int, date: WallTime, end: Instant, wall: WallTime, now: Instant) -> None:
        """Let ``number`` wait for ``date``; ``end``: at which it is due whatever the wall clock says, or `NEVER`."""
        if not self._heap:
            self._offset = wall - now // MILLISECOND
        heapq.heappush(self._heap, (self._due(date, end), number, date, end))

    def adjust(self, wall: WallTime, now: Instant) -> bool:
        """See whether the wall clock was set, and order all anew if so."""
        offset = wall - now // MILLISECOND
        if -JUMP_MS <= offset - self._offset <= JUMP_MS:
            return False
        self._offset = offset
        if not self._heap:
            return False
        self._heap = [(self._due(date, end), number, date, end) for _, number, date, end in self._heap]
        heapq.heapify(self._heap)
        return True

    def earliest(self) -> WallTime | None:
        """Return when the next is due, None when nothing waits."""
        return self._heap[0][0] if self._heap else None

    def instant(self, date: WallTime) -> Instant:
        """Return when the wall clock will show ``date``, if nobody sets it."""
        return (date - self._offset) * MILLISECOND

    def take(self, wall: WallTime) -> tuple[int, WallTime] | None:
        """Take out the next that is due, as its number and its date; None when nothing is."""
        if not self._heap or self._heap[0][0] > wall:
            return None
        _, number, date, _ = heapq.heappop(self._heap)
        return number, date

    def is_late(self, wall: WallTime, now: Instant) -> bool:
        """Return whether something should have been taken already; looks at all of it (simulation)."""
        return any(date <= wall or end <= now for _, _, date, end in self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def _due(self, date: WallTime, end: Instant) -> WallTime:
        if end == NEVER:
            return date
        return min(date, self._offset - (-end // MILLISECOND))


class Schedule:
    """When a message that asked for delay, repetition or cron goes out next (classic.md 4.13, artemis.md 4.7)."""

    def __init__(self, annotations: dict[str, str]) -> None:
        self.delay_ms = _number(annotations, SCHEDULED_DELAY, 0)
        self.at = _number(annotations, SCHEDULED_TIME, 0)
        self.period_ms = _number(annotations, SCHEDULED_PERIOD, 0)
        self.repeat = int(_number(annotations, SCHEDULED_REPEAT, 0))
        if self.repeat > REPEAT_MAX:
            raise Refused(f"the scheduled repeat value {self.repeat} is too large", remedy=f"use at most {REPEAT_MAX}")
        self.left = int(_number(annotations, SCHEDULED_LEFT, self.repeat))
        text = annotations.get(SCHEDULED_CRON, "").strip()
        self.cron = Cron.parse(text) if text else None
        self.elapses = False  # what was answered last is so long from now, not a date

    @property
    def repeats(self) -> bool:
        """Return whether more than one message will come of it."""
        return self.cron is not None or self.repeat != 0

    def first(self, wall: WallTime) -> WallTime:
        """Return when the message goes out first; cron comes before delay, which counts from its firing."""
        self.elapses = self.cron is None and not self.at
        if self.cron is not None:
            return self.cron.next_after(wall) + self.delay_ms
        return max(self.at, wall) if self.at else wall + self.delay_ms

    def following(self, fired: WallTime) -> WallTime | None:
        """Return when it goes out after ``fired``, None when that was the last time; counts ``left`` down.

        With cron, each of its firings begins the repetitions anew (classic.md 4.13).
        """
        if self.left > 0 or self.left == FOREVER:
            if self.left > 0:
                self.left -= 1
            self.elapses = True
            return fired + max(1, self.period_ms or self.delay_ms)
        if self.cron is not None:
            self.left = self.repeat
            self.elapses = False
            return self.cron.next_after(fired) + self.delay_ms
        return None


def asks_for_schedule(message: Message) -> bool:
    """Return whether ``message`` carries a request of the scheduler and is not already a product of it."""
    rare = message.rare
    if rare is None or not rare.annotations or SCHEDULED_JOB in rare.annotations:
        return False
    return any(name in rare.annotations for name in SCHEDULED_NAMES)


def rebase_expiration(message: Message, wall: WallTime) -> None:
    """Give a message that goes out late its original time to live from now on (classic.md 4.13)."""
    if message.expiration and message.timestamp:
        message.expiration = wall + (message.expiration - message.timestamp)
    message.timestamp = wall


def until(target: WallTime, wall: WallTime, now: Instant) -> Instant:
    """Return the monotonic instant that corresponds to the wall time ``target``."""
    return now + max(0, target - wall) * MILLISECOND


def _number(annotations: dict[str, str], name: str, default: int) -> int:
    text = annotations.get(name)
    if text is None:
        return default
    try:
        return int(text.strip())
    except ValueError:
        raise Refused(f"{name} is {text!r}, not a whole number", remedy="give milliseconds") from None
