"""The loop of a simulated machine: timers and rests get turns of their own, and none after the machine is gone."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.assembly import Assembly, Plan, Ports
from entrepot.base.environment import MIB, MILLISECOND
from entrepot.core.effort import Rest
from entrepot.core.events.facts import Hub
from entrepot.core.scheduling.timed import Alarm
from entrepot.journal.memory import MemoryJournal
from entrepot.simulation.turns import REST_AFTER, TurnLoop
from entrepot.simulation.world import World


class Machine:
    def __init__(self) -> None:
        self.world = World(1)
        made = Assembly(Plan("b", MIB), Ports(MemoryJournal(), self.world.lots("broker"), Hub()))
        made.recover(self.world.time, self.world.wall())
        self.broker = made.broker
        self.began = self.world.time
        self.turns: list[int] = []
        self.loop = TurnLoop(self.world, self.turn)
        self.loop.begin(self.broker)

    def turn(self, action: Callable[[], object]) -> None:
        self.turns.append(self.world.time - self.began)
        self.loop.run(action)
        self.loop.arm()


class Often(Rest):
    """Something that takes ``left`` turns more."""

    def __init__(self, machine: Machine, left: int) -> None:
        super().__init__()
        self.machine = machine
        self.left = left

    def resume(self) -> None:
        self.left -= 1
        if self.left:
            self.machine.broker.effort.later(self)


class Once(Alarm):
    def __init__(self, due: int, rang: list[int]) -> None:
        super().__init__(due)
        self.rang = rang

    def ring(self, now: int) -> None:
        self.rang.append(now)


def test_a_rest_goes_on_in_turns_of_its_own() -> None:
    machine = Machine()
    rest = Often(machine, 3)
    machine.turn(lambda: machine.broker.effort.later(rest))
    machine.world.run(machine.began + MILLISECOND)
    assert rest.left == 0
    assert machine.turns == [0, 0, REST_AFTER, 2 * REST_AFTER, 3 * REST_AFTER]  # the second: an alarm at once
    assert machine.world.counts["turns for a rest"] == 3


def test_the_timer_of_the_broker_rings_in_a_turn() -> None:
    machine = Machine()
    rang: list[int] = []
    machine.turn(lambda: machine.broker.timetable.add(Once(machine.began + 5 * MILLISECOND, rang)))
    machine.world.run(machine.began + 20 * MILLISECOND)
    assert rang == [machine.began + 5 * MILLISECOND]


def test_a_machine_that_is_gone_has_no_more_turns() -> None:
    machine = Machine()
    rest = Often(machine, 3)
    rang: list[int] = []
    machine.turn(lambda: machine.broker.timetable.add(Once(machine.began + 5 * MILLISECOND, rang)))
    machine.turn(lambda: machine.broker.effort.later(rest))
    machine.loop.end()
    machine.world.run(machine.began + 20 * MILLISECOND)
    assert (rest.left, rang, machine.turns) == (3, [], [0, 0])
