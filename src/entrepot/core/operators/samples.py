"""Message counters as Artemis has them: how many messages came to each queue, by hour, looked at now and then.

While nobody enabled them nothing is kept and nothing is counted: a sample reads numbers that a queue has anyway, every
``period``, so that a message costs nothing either way. A sample looks at all queues, as many in a turn as it allows;
the next one begins when it is over.

Memory: a counter for each queue that there is, and one number for each queue and hour in which messages came, of the
last ``days`` days and at most `HOURS_MOST` of them in all: then the oldest hour goes. Nothing survives a restart, as in
Artemis. Days and hours are those of UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm

PERIOD_MS: Final = 10_000
PERIOD_MS_MIN: Final = 1_000
PERIOD_MS_MAX: Final = 24 * 3_600_000
DAYS: Final = 10
DAYS_MAX: Final = 366
HOURS_MOST: Final = 500_000  # numbers of queues and hours: some 50 MB
HOUR_MS: Final = 3_600_000
HOURS: Final = 24


class Counter:
    """What is known of one queue. Times in ms since 1970, 0 for never."""

    def __init__(self, added: int, acknowledged: int) -> None:
        """``added`` and ``acknowledged``: what the queue had counted by then."""
        self.added = added
        self.acknowledged = acknowledged
        self.generation = 0  # of `Samples`, when it was set back last
        self.clear()

    def clear(self) -> None:
        """Count from 0, what comes from now on."""
        self.count = 0
        self.count_told = 0
        self.depth_told = 0
        self.updated = 0
        self.last_add = 0
        self.last_acknowledgement = 0

    def sample(self, queue: Queue, now: int) -> int:
        """Look at ``queue``; return how many messages are new. What an operator set back is counted anew."""
        accepted, settled = int(queue.accepted), int(queue.settled)
        new = accepted - self.added if accepted >= self.added else accepted
        if new:
            self.last_add = now
        if settled != self.acknowledged:
            self.last_acknowledgement = now
        self.added, self.acknowledged = accepted, settled
        self.count += new
        self.updated = now
        return new

    def told(self, queue: Queue) -> dict[str, object]:
        """Return what there is to say, by the names of Artemis; differences are to the last time this was called."""
        depth = int(queue.count)
        differences = self.count - self.count_told, depth - self.depth_told
        self.count_told, self.depth_told = self.count, depth
        return {
            "destinationName": queue.name,
            "destinationSubscription": None,
            "destinationDurable": queue.durable,
            "count": self.count,
            "countDelta": differences[0],
            "messageCount": depth,
            "messageCountDelta": differences[1],
            "lastAddTimestamp": shown(self.last_add),
            "lastAckTimestamp": shown(self.last_acknowledgement),
            "updateTimestamp": shown(self.updated),
        }


class _Look(Alarm):
    """Begins a sample."""

    def __init__(self, due: int, samples: Samples) -> None:
        super().__init__(due)
        self.samples = samples

    def ring(self, now: int) -> None:
        self.samples.begin()


class _Sampling(Rest):
    """Looks at the queues that are left, as many in a turn as it allows."""

    def __init__(self, samples: Samples) -> None:
        super().__init__()
        self.samples = samples
        self.left: list[Queue] = []

    def resume(self) -> None:
        effort = self.samples.broker.effort
        while self.left:
            if effort.is_over():
                effort.later(self)
                return
            effort.spent += 1
            self.samples.look(self.left.pop())
        self.samples.ended()


class Samples:
    """The counters of one broker."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker
        self.enabled = False
        self.period = PERIOD_MS
        self.days = DAYS
        self.counters: dict[int, Counter] = {}  # by the identity of a queue
        self.hours: dict[int, dict[int, int]] = {}  # hour since 1970 -> queue -> messages that came; oldest first
        self.kept = 0  # numbers in ``hours``
        self.generation = 0  # rises when all counters are set back, each of them when it is looked at next
        self._first = False  # of the samples since they were enabled: what is there was there before
        self._sampling: Final = _Sampling(self)
        self._alarm: _Look | None = None

    def enable(self) -> None:
        """Count from now on; a second time nothing changes."""
        if not self.enabled:
            self.enabled = True
            self._first = True
            self.begin()

    def disable(self) -> None:
        """Count no more, and forget what was counted."""
        self.enabled = False
        self._sampling.left.clear()
        self._cancel()
        self.counters.clear()
        self.forget_history()

    def set_period(self, period: int) -> None:
        """Look every ``period`` ms. Raises Refused."""
        if not PERIOD_MS_MIN <= period <= PERIOD_MS_MAX:
            raise Refused(
                f"{period} ms is no period of samples: each looks at every queue",
                remedy=f"give {PERIOD_MS_MIN} to {PERIOD_MS_MAX}",
            )
        self.period = period
        if self._alarm is not None:
            self._wait()

    def set_days(self, days: int) -> None:
        """Remember so many days. Raises Refused."""
        if not 1 <= days <= DAYS_MAX:
            raise Refused(f"{days} days cannot be remembered", remedy=f"give 1 to {DAYS_MAX}")
        self.days = days
        self._forget_old()

    def reset(self) -> None:
        """Count all queues from 0."""
        self.generation += 1

    def forget_history(self) -> None:
        """Forget all hours."""
        self.hours.clear()
        self.kept = 0

    def of(self, queue: Queue) -> Counter:
        """Return the counter of ``queue``; where nobody looked at it yet, one that says so."""
        found = self.counters.get(int(queue.identity))
        if found is None:
            return Counter(int(queue.accepted), int(queue.settled))
        if found.generation != self.generation:
            found.generation = self.generation
            found.clear()
        return found

    def days_of(self, queue: Queue) -> list[dict[str, object]]:
        """Return the days that there are, oldest first, with 24 numbers each; -1: not looked at."""
        found: dict[int, list[int]] = {}
        for hour, counted in self.hours.items():
            row = found.setdefault(hour // HOURS, [-1] * HOURS)
            row[hour % HOURS] = counted.get(int(queue.identity), 0)
        return [{"date": shown(day * HOURS * HOUR_MS).partition(",")[0], "counters": row} for day, row in found.items()]

    # -- samples -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin to look at all queues."""
        self._alarm = None
        queues = self.broker.table.by_identity
        self.counters = {identity: one for identity, one in self.counters.items() if identity in queues}
        self.hours.setdefault(self._hour(), {})
        self._sampling.left = list(queues.values())
        if not self._sampling.waiting:
            self._sampling.resume()

    def look(self, queue: Queue) -> None:
        """Look at one of them."""
        if not self.enabled or queue.deleted:
            return
        identity = int(queue.identity)
        if identity not in self.counters:
            made = Counter(int(queue.accepted), int(queue.settled)) if self._first else Counter(0, 0)
            made.generation = self.generation
            self.counters[identity] = made
        new = self.of(queue).sample(queue, int(self.broker.wall))
        if new:
            counted = self.hours.setdefault(self._hour(), {})
            self.kept += identity not in counted
            counted[identity] = counted.get(identity, 0) + new
            while self.kept > HOURS_MOST and len(self.hours) > 1:
                self._forget_oldest()

    def ended(self) -> None:
        """All were looked at."""
        self._first = False
        self._forget_old()
        if self.enabled:
            self._wait()

    def _wait(self) -> None:
        self._cancel()
        self._alarm = _Look(int(self.broker.now) + self.period * MILLISECOND, self)
        self.broker.timetable.add(self._alarm)

    def _cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancelled = True
            self._alarm = None

    def _hour(self) -> int:
        return int(self.broker.wall) // HOUR_MS

    def _forget_old(self) -> None:
        first = (self._hour() // HOURS - self.days + 1) * HOURS
        while self.hours and next(iter(self.hours)) < first:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = next(iter(self.hours))
        self.kept -= len(self.hours.pop(oldest))


def shown(ms: int) -> str:
    """Return a time as Artemis writes it where English is spoken, in UTC: 11/28/26, 12:05:09 AM."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    half = "AM" if at.hour < 12 else "PM"
    return f"{at.month}/{at.day}/{at:%y}, {at.hour % 12 or 12}:{at:%M:%S} {half}"
