"""The turns of a simulated machine, as `io/turns.py` has them in the real world: one loop, one timer, rests later.

A machine says how a turn is done when something may break it (`Machine.turn`, `Site.turn`), and lets `TurnLoop` do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MICROSECOND, Duration
from entrepot.core.broker import BrokerCore
from entrepot.protocols.session import Shell
from entrepot.protocols.turns import TurnCore
from entrepot.simulation.world import Bell, World

REST_AFTER: Final = 10 * MICROSECOND  # what a turn left goes on then: other events come in between


class TurnLoop:
    """The loop of one machine. ``turn``: the machine's own, which calls `run` for what a timer or a rest asks for."""

    def __init__(self, world: World, turn: Callable[[Callable[[], object]], None]) -> None:
        self.rest_after: Duration = REST_AFTER
        self._world: Final = world
        self._turn: Final = turn
        self._course: TurnCore | None = None
        self._bell: Final = Bell(world, self._ring)
        self._going_on = False

    def begin(self, broker: BrokerCore) -> None:
        """``broker`` runs from now on."""
        self._course = TurnCore(broker)
        self._going_on = False
        self._bell.hush()

    def end(self) -> None:
        """The machine is gone: what was left is never done."""
        self._course = None

    def run(self, action: Callable[[], object]) -> None:
        """Take one stimulus through a turn. What ``action`` or the disk raises comes out; then call `end`."""
        course = self._course
        if course is None:
            return
        course.begin(self._world.time, self._world.wall())
        action()
        course.settle()
        course.write()
        course.finish()

    def arm(self) -> None:
        """Keep the broker's timer, and have a turn for what was left: after each turn that went well."""
        course = self._course
        if course is None:
            return
        self._bell.set(course.broker.deadline())
        if course.more() and not self._going_on:
            self._going_on = True
            self._world.count("turns for a rest")
            self._world.later(self.rest_after, lambda: self._go_on(course))

    def note(self, shell: Shell) -> None:
        """Write what the connection of ``shell`` has at the end of this turn."""
        if self._course is not None:
            self._course.note(shell)

    def _go_on(self, course: TurnCore) -> None:
        """Have a turn for what earlier ones left, unless the machine has gone down since."""
        if self._course is course:
            self._going_on = False
            self._turn(course.go_on)

    def _ring(self) -> None:
        if self._course is not None:
            broker = self._course.broker
            self._turn(lambda: broker.advance() if broker.deadline() <= self._world.time else None)
