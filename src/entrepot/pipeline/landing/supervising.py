"""When each flow runs, and when one that ended is started again. Pure: who calls has the clock and the queries.

A flow that ends is started again after a wait that doubles with each failure in a row, from `Supervision.first` to
`Supervision.longest`; one that ran for `Supervision.calm` has its failures forgotten. None is ever given up: what waits
at the brokers waits safely, and a supervisor that left is what nobody sees. What will not go away by itself (a
column that is missing, a subscription that a newer query took) is tried again as seldom as can be, and said at once.

``once``, for a scheduler that has its own hours and its own tries: each flow runs one time, to the end of what is
there, and none is started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from entrepot.pipeline.landing.configuration import Supervision


class State(Enum):
    """What a flow does."""

    WAITING = "waiting"  # to be started, at `Life.due`
    RUNNING = "running"
    STOPPED = "stopped"  # for good: the process ends
    DONE = "done"  # once: it has landed what was there
    FAILED = "failed"  # once: it ended before that


OVER: Final = (State.STOPPED, State.DONE, State.FAILED)


class Life:
    """One flow. Times in s of the caller's clock; ``rows`` landed since the process began."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.state = State.WAITING
        self.due = 0.0
        self.began = 0.0
        self.failures = 0  # in a row
        self.starts = 0
        self.why = ""  # it ended last
        self.lasting = False  # and that will not go away by itself
        self.rows = 0
        self.batches = 0
        self.progress_at = 0.0
        self.lag = -1  # messages that wait behind the last batch; -1: not known

    @property
    def done(self) -> bool:
        """Whether it ran once, to its end."""
        return self.state is State.DONE

    def wait(self, supervision: Supervision) -> float:
        """Return the s before it is started again."""
        if self.lasting:
            return supervision.longest
        return min(supervision.longest, supervision.first * 2.0 ** min(self.failures - 1, 30))


class Supervisor:
    """All flows of one process."""

    def __init__(self, names: Iterable[str], supervision: Supervision, *, once: bool = False) -> None:
        self.once: Final = once
        self.lives: Final = {name: Life(name) for name in names}
        self.supervision: Final = supervision

    def due(self, now: float) -> list[str]:
        """Return whom to start now; tell `started` or `ended` of each."""
        return [one.name for one in self.lives.values() if one.state is State.WAITING and one.due <= now]

    def next_due(self, now: float) -> float:
        """Return the s until somebody is due, at most `Supervision.longest`."""
        waits = [one.due - now for one in self.lives.values() if one.state is State.WAITING]
        return max(0.0, min([self.supervision.longest, *waits]))

    def started(self, name: str, now: float) -> None:
        """Its query runs."""
        life = self.lives[name]
        life.state = State.RUNNING
        life.began = now
        life.starts += 1

    def ended(self, name: str, now: float, why: str, *, lasting: bool = False) -> float:
        """Its query ended, or could not be started, because of ``why``; return the s until it is started again.

        0 where it is not.
        """
        life = self.lives[name]
        if life.state is State.STOPPED:
            return 0.0
        if life.state is State.RUNNING and now - life.began >= self.supervision.calm:
            life.failures = 0
        life.state = State.WAITING
        life.failures += 1
        life.why = why
        life.lasting = lasting
        if self.once:
            life.state = State.FAILED
            return 0.0
        wait = life.wait(self.supervision)
        life.due = now + wait
        return wait

    def done(self, name: str) -> None:
        """Its query has landed what was there: the end of a flow that runs once."""
        self.lives[name].state = State.DONE

    def progressed(self, name: str, now: float, rows: int, lag: int, *, batches: int = 1) -> None:
        """It landed ``rows`` in so many batches; ``lag`` messages wait behind them, -1 where nobody knows."""
        life = self.lives[name]
        life.rows += rows
        life.batches += batches
        life.progress_at = now
        life.lag = lag
        if rows:
            life.lasting = False

    def stop(self) -> list[str]:
        """The process ends: return whose queries are to be stopped."""
        running = [one.name for one in self.lives.values() if one.state is State.RUNNING]
        for one in self.lives.values():
            if one.state not in OVER:
                one.state = State.STOPPED
        return running

    def ready(self) -> bool:
        """Return whether all flows run, or have come to their end."""
        return all(one.state in (State.RUNNING, State.DONE) for one in self.lives.values())

    def over(self) -> bool:
        """Return whether no flow runs any more, or will."""
        return all(one.state in OVER for one in self.lives.values())
