"""Consumers and bridges in rotation: who gets the messages of one queue in a network of brokers. No Spark.

A broker hands each message to the first of its row who may have it, and he goes to the end of the row. How that divides
messages cannot be read off shares alone: what came over a bridge may not go back, so the consumer takes it, and what is
produced here meets the bridge at the head more often. So messages are played through, some thousand of each queue.

Rates are messages a second; times are seconds of the played run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

MESSAGES: Final = 6000  # played for a queue: rates are right to some percent
JITTER: Final = 0.7  # of the time between two messages of a producer: none is as even as a clock, few are quite random
WINDOW: Final = 20.0  # messages that a consumer at its limit has before it is passed over
SEED: Final = 1


class Taker:
    """One in the row of a broker.

    ``share``: how often it takes when it is its turn, 1.0 or less for one that was there for a part of the time.
    """

    def __init__(self, share: float = 1.0) -> None:
        self.share: Final = share
        self._turns = 0.0

    def may(self, path: Sequence[str], reach: int, now: float) -> bool:
        """Return whether it may have a message that came along ``path`` to its broker."""
        raise NotImplementedError

    def comes_up(self) -> bool:
        """Return whether it takes this time, as its share says."""
        self._turns += self.share
        if self._turns < 1.0:
            return False
        self._turns -= 1.0
        return True


class Local(Taker):
    """A consumer of the broker, who takes at most ``limit`` a second."""

    def __init__(self, limit: float, share: float = 1.0) -> None:
        super().__init__(share)
        self.limit: Final = limit * share
        self.taken = 0.0  # messages a second: each counts as much as one of its producer stands for
        self._waiting = WINDOW - 1  # messages in its window: as if the run had gone on for long
        self._seen = 0.0

    def may(self, path: Sequence[str], reach: int, now: float) -> bool:
        """Return whether its window has room."""
        self._waiting = max(0.0, self._waiting - (now - self._seen) * self.limit)
        self._seen = now
        return self._waiting + 1 <= WINDOW

    def take(self, weight: float) -> None:
        """Take a message that stands for ``weight`` a second."""
        self.taken += weight
        self._waiting += 1


class Bridge(Taker):
    """A bridge to ``there``, once for each broker with consumers that asked over it."""

    def __init__(self, there: str) -> None:
        super().__init__()
        self.there: Final = there

    def may(self, path: Sequence[str], reach: int, now: float) -> bool:
        """Return whether the message was not there, and may cross so many bridges. Who asked does not matter to it."""
        return len(path) <= reach and self.there not in path


Row = list[Local | Bridge]


class Flow:
    """Where the messages went, a second."""

    def __init__(self) -> None:
        self.crossed: Final[dict[tuple[str, str], float]] = {}
        self.consumed: Final[dict[str, float]] = {}
        self.waiting: Final[dict[str, float]] = {}


class Rotation:
    """The rows of one queue. ``last``: bridges get what consumers cannot take; otherwise they stand among them."""

    def __init__(self, rows: Mapping[str, Iterable[Local | Bridge]], reach: int, *, last: bool) -> None:
        chance = random.Random(SEED)
        self._rows: Final[dict[str, Row]] = {}
        self._reach: Final = reach
        for broker, takers in rows.items():
            row = list(takers)
            chance.shuffle(row)  # who is first in line is not known
            self._rows[broker] = sorted(row, key=lambda taker: isinstance(taker, Bridge)) if last else row
        self._last: Final = last

    def play(self, produced: Mapping[str, float]) -> Flow:
        """Play messages through that are ``produced`` at brokers, each at its rate."""
        flow = Flow()
        arrivals = _arrivals(produced)
        counts: dict[str, int] = {}
        for _, broker in arrivals:
            counts[broker] = counts.get(broker, 0) + 1
        for now, broker in arrivals:
            self._pass([broker], now, produced[broker] / counts[broker], flow)
        for broker, row in self._rows.items():
            taken = sum(taker.taken for taker in row if isinstance(taker, Local))
            if taken:
                flow.consumed[broker] = taken
        return flow

    def _pass(self, path: list[str], now: float, weight: float, flow: Flow) -> None:
        while True:
            here = path[-1]
            taker = self._next(here, path, now)
            if taker is None:
                flow.waiting[here] = flow.waiting.get(here, 0.0) + weight
                return
            if isinstance(taker, Local):
                taker.take(weight)
                return
            flow.crossed[here, taker.there] = flow.crossed.get((here, taker.there), 0.0) + weight
            path.append(taker.there)

    def _next(self, broker: str, path: Sequence[str], now: float) -> Local | Bridge | None:
        row = self._rows[broker]
        willing = [taker for taker in row if taker.may(path, self._reach, now)]
        if self._last and any(isinstance(taker, Local) for taker in willing):
            willing = [taker for taker in willing if isinstance(taker, Local)]
        if not willing:
            return None
        found = next((taker for taker in willing if taker.comes_up()), willing[0])
        row.remove(found)
        row.append(found)
        return found


def _arrivals(produced: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return when something is produced where, at every broker once at least."""
    chance = random.Random(SEED)
    end = MESSAGES / sum(produced.values())
    due = [(chance.random() * min(1 / rate, end), broker) for broker, rate in produced.items()]
    heapq.heapify(due)
    found = []
    while due[0][0] < end:
        now, broker = heapq.heappop(due)
        found.append((now, broker))
        heapq.heappush(due, (now + chance.uniform(1 - JITTER, 1 + JITTER) / produced[broker], broker))
    return found
