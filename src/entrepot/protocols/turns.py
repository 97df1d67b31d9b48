"""The course of one turn, the same in the real world and in the simulated one. [C]

A *turn* is everything that one event causes. The world reads its clock once and calls `begin`, lets the event happen,
then calls `settle` (blocked producers wake, the journal gets its batch), `write` (each connection that has something to
say writes once) and `finish` (what ending connections did goes to the journal). While `more` says so it makes a turn of
its own for `go_on`, and lets other events come in between.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Instant, WallTime
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.protocols.session import Shell

WRITES_MAX: Final = 500  # connections that one turn writes to: a write to a socket is some 10 us of the kernel's


class SessionRest(Rest):
    """What a session has not done of what it was given. Which session that is, its shell knows."""

    def __init__(self, shell: Shell, owner: i64 = 0) -> None:
        super().__init__(owner)
        self.shell: Shell = shell

    def resume(self) -> None:
        """Let the session go on, under the eyes of its shell."""
        self.shell.go_on()


class TurnCore:
    """The turns of one broker: who has something to write, now and from before."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: BrokerCore = broker
        self.noted: list[Shell] = []
        self.behind: list[Shell] = []  # noted in turns that had too many to write to

    def begin(self, now: Instant, wall: WallTime) -> None:
        """Tell the broker the time, and let the turn's work be counted."""
        self.broker.tick(now, wall)

    def note(self, shell: Shell) -> None:
        """Call ``shell.flush`` at the end of this turn."""
        self.noted.append(shell)

    def go_on(self) -> None:
        """Do some of what earlier turns left: first what they had to say, then what they had to do.

        So what is said in many turns is written at one go to those who could not be written to.
        """
        behind = self.behind
        if behind:
            self.noted.extend(behind[:WRITES_MAX])
            del behind[:WRITES_MAX]
        else:
            self.broker.effort.go_on()

    def settle(self) -> None:
        """All stimuli of this turn are in: the disk works while sockets are written."""
        broker = self.broker
        broker.flow.space_changed()
        broker.journal.flush()
        trace = broker.trace
        if trace is not None:
            trace.flush()

    def write(self) -> None:
        """Write for those who noted something; beyond `WRITES_MAX` of them in later turns."""
        noted = self.noted
        at = 0
        while at < len(noted) and at < WRITES_MAX:  # it grows: a connection that ends gives its messages to others
            noted[at].flush()
            at += 1
        if at < len(noted):
            self.behind.extend(noted[at:])
        noted.clear()

    def finish(self) -> None:
        """Hand over what ending connections put into the journal."""
        self.broker.journal.flush()

    def more(self) -> bool:
        """Return whether `go_on` has something to do."""
        return len(self.behind) > 0 or len(self.noted) > 0 or self.broker.effort.waits()
