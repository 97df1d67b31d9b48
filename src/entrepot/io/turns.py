"""The turns of one loop: what the connections on it share, and what the broker behind them does in each. [C]

A *turn* is everything that one event of the loop causes: a chunk from one peer, a timer, a finished sync. It begins
with one reading of the clock and ends with one write for each connection that has something to say, in the same
callback and not in the next round of the loop (PERFORMANCE.md, "tuned", point 3: 230 k against 77 k messages a second).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MIB, MILLISECOND, SECOND, Clock
from entrepot.core.broker import BrokerCore
from entrepot.protocols.session import NEVER, Shell
from entrepot.protocols.turns import TurnCore

UNSENT_MAX: Final = 128 * MIB  # all connections together may leave so much unread, where no broker says otherwise
WALL_EVERY: Final = 1 * SECOND  # the wall clock may be set; half a second late on average is early enough

log: Final = logging.getLogger("entrepot.connection")


@mypyc_attr(allow_interpreted_subclasses=True)
class Turn:
    """What all connections of one loop share: the time, and who has something to write.

    `begin` and `end` enclose every call into a core; they nest, and only the outermost pair does the work.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.clock: Clock = clock
        self.now: i64 = clock.now()
        self.wall: i64 = clock.wall()
        self.wall_offset: i64 = self.wall - self.now // MILLISECOND
        self.wall_read: i64 = self.now
        self.depth: i64 = 0
        self.greedy: bool = type(loop).__module__.partition(".")[0] == "uvloop"
        self.waiting: list[Shell] = []
        self.unsent: i64 = 0  # octets that full sockets have not taken
        self.late: bool = False  # a turn of its own is on its way for what was noted outside of one

    def begin(self) -> None:
        """Read the clock once, and tell the cores."""
        self.depth += 1
        if self.depth > 1:
            return
        now: i64 = self.clock.now()
        if now - self.wall_read > WALL_EVERY:
            self.wall_read = now
            self.wall_offset = self.clock.wall() - now // MILLISECOND
        self.now = now
        self.wall = now // MILLISECOND + self.wall_offset
        self.opened()

    def end(self) -> None:
        """Let the cores finish, then write once for every connection that noted something."""
        if self.depth > 1:
            self.depth -= 1
            return
        try:
            self.finishing()
            self.write()
            self.finished()
        finally:
            self.depth = 0  # whatever happened, the next turn is a turn
        if self.more():
            self.schedule()

    def run(self, action: Callable[[], object]) -> None:
        """Do ``action`` within a turn."""
        self.begin()
        try:
            action()
        finally:
            self.end()

    def note(self, connection: Shell) -> None:
        """Write what ``connection`` has at the end of this turn, or of one that is made for it."""
        self.waiting.append(connection)
        if self.depth == 0:
            self.schedule()

    def schedule(self) -> None:
        """Have a turn soon."""
        if not self.late:
            self.late = True
            self.loop.call_soon(self.catch_up)

    def catch_up(self) -> None:
        """Have a turn for what was noted outside of one, or left by one."""
        self.late = False
        self.begin()
        self.go_on()
        self.end()

    def unread(self, before: i64, unsent: i64) -> None:
        """One full socket leaves ``unsent`` octets to its peer, ``before`` until now."""
        self.unsent += unsent - before

    def share(self, most: i64, burst: i64) -> i64:
        """Return how many octets one peer may leave unread: ``most``; two bursts when all leave too much together."""
        return min(most, 2 * burst) if self.unsent > self.all_may_leave() else most

    def all_may_leave(self) -> i64:
        """Return how many octets all peers together may leave unread before each may leave two bursts."""
        return UNSENT_MAX

    def write(self) -> None:
        """Write for those who noted something."""
        waiting = self.waiting
        at = 0
        while at < len(waiting):  # it grows: a connection that ends gives its messages to others
            waiting[at].flush()
            at += 1
        waiting.clear()

    def more(self) -> bool:
        """Return whether there is something for another turn."""
        return len(self.waiting) > 0

    def go_on(self) -> None:
        """Do what earlier turns left."""

    def opened(self) -> None:
        """``now`` and ``wall`` are those of a new turn."""

    def finishing(self) -> None:
        """All stimuli of this turn are in; nothing is written yet."""

    def finished(self) -> None:
        """All that this turn wrote is with the sockets."""


class BrokerTurn(Turn):
    """The turns of a broker: it is told the time, its journal is flushed, its timer is kept.

    ``wake_at`` is called when the broker wants `BrokerCore.advance` earlier than was known.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, broker: BrokerCore) -> None:
        super().__init__(loop, clock)
        self.broker: BrokerCore = broker
        self.course: TurnCore = TurnCore(broker)
        self.waiting = self.course.noted
        self.armed: i64 = NEVER
        self.timer: asyncio.TimerHandle | None = None
        self.stopped: bool = False
        self.turns: i64 = 0

    def opened(self) -> None:
        """Tell the broker the time."""
        self.turns += 1
        self.course.begin(self.now, self.wall)

    def all_may_leave(self) -> i64:
        """Return what is a share of the broker's memory, whose limit may change."""
        return self.broker.room.most

    def unread(self, before: i64, unsent: i64) -> None:
        """Tell the broker, too, in which messages may wait for that."""
        super().unread(before, unsent)
        self.broker.room.left(self.unsent)
        if self.depth == 0 and self.more():
            self.schedule()

    def go_on(self) -> None:
        """Do some of what earlier turns left."""
        try:
            self.course.go_on()
        except Exception:
            log.exception("the broker failed while it went on with earlier work; it goes on")

    def finishing(self) -> None:
        """Wake blocked producers; hand the journal's batch over, so that the disk works while sockets are written."""
        try:
            self.course.settle()
        except Exception:
            log.exception("the broker failed at the end of a turn; it goes on")

    def write(self) -> None:
        """Write for those who noted something, not for too many at once."""
        self.course.write()

    def more(self) -> bool:
        """Return whether there is something for another turn."""
        return self.course.more()

    def finished(self) -> None:
        """Hand over what ending connections put into the journal, and see when the broker wants to be called."""
        try:
            self.course.finish()
        except Exception:
            log.exception("the journal failed to take a batch; nothing of it is confirmed")
        due: i64 = self.broker.deadline()
        if due < self.armed and not self.stopped:
            if self.timer is not None:
                self.timer.cancel()
            self.armed = due
            self.timer = self.loop.call_later(delay_seconds(due - self.now), self.ring)

    def ring(self) -> None:
        """The broker's time has come."""
        self.timer = None
        self.armed = NEVER
        self.begin()
        try:
            if self.broker.deadline() <= self.now:
                self.broker.advance()
        except Exception:
            log.exception("the broker failed in its timer; it goes on")
        self.end()

    def stop(self) -> None:
        """Call the broker no more by itself."""
        self.stopped = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def delay_seconds(wait: i64) -> float:
    """Return ``wait`` ns in seconds, a millisecond more than none: loops round to ms, and early is as bad as never."""
    wait = max(wait, 0)
    return float(wait + MILLISECOND) / 1e9
