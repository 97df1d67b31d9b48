"""A run of programs that speak one protocol to a simulated broker: a storm of crashes and cuts, calm, judgement."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.simulation.blocking import Blocks
from entrepot.simulation.machine import Machine, Parts
from entrepot.simulation.workload import machine_options
from entrepot.simulation.world import World

STORM: Final = 3 * SECOND
QUIET_MAX: Final = 120 * SECOND
MEMORY: Final = 4 << 20
EVENTS_MAX: Final = 1_500_000


class Driven(Protocol):
    """One program."""

    def start(self) -> None:
        """Dial; again while nobody answers."""
        ...

    def cut(self) -> None:
        """Lose the connection."""
        ...


class StormRun(ABC):
    """The run of one seed. Call `run` once, then read ``world``."""

    def __init__(
        self,
        seed: int,
        name: str,
        policies: Mapping[str, dict[str, str]] | None = None,
        *,
        blocks: bool = False,
        parts: Parts | None = None,
        lines: bool = False,
    ) -> None:
        """``name``: of the lots that are drawn; ``policies``: of the broker. The subclass makes its programs.

        ``blocks``: an operator blocks addresses, and unblocks them; ``parts``: what its machine is built of.
        """
        self.blocks: Final = blocks
        self.world: Final = World(seed, lines=lines)
        self.world.events_max = EVENTS_MAX
        self.lots: Final = self.world.lots(name)
        options = machine_options(self.world.lots("settings"), [])
        options = msgspec.structs.replace(
            options,
            memory_limit=MEMORY,  # for all: flow control has a workload of its own
            policies={**options.policies, **(policies or {})},
        )
        self.machine: Final = Machine(self.world, Parts() if parts is None else parts, options)
        self.machine.turn_units = self.lots.one_of((1, 5, 0, 0))

    @abstractmethod
    def programs(self) -> Sequence[Driven]:
        """Return all programs, in the order in which they start."""

    @abstractmethod
    def is_quiet(self) -> bool:
        """Return whether all is done that can be: the calm may end."""

    @abstractmethod
    def judge(self) -> None:
        """Say what is wrong at the end."""

    def run(self) -> list[str]:
        """Return what went wrong."""
        try:
            self._live()
        except Exception as error:  # a fault of the product or of the simulation: either is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.world.violation(f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
            if self.world.lines is not None:
                self.world.note(traceback.format_exc())
        return self.world.violations

    def _live(self) -> None:
        world, machine, lots = self.world, self.machine, self.lots
        machine.boot()
        for program in self.programs():
            world.later(lots.between(0, 300) * MILLISECOND, program.start)
        for _ in range(lots.between(2, 12)):
            world.later(lots.between(200, STORM // MILLISECOND) * MILLISECOND, self._break)
        if self.blocks:
            Blocks(world, machine).haunt(world.lots("blocks"), self._addresses, STORM)
        world.run(world.time + STORM)
        machine.disk.fuse = 0
        machine.disk.room.make()
        deadline = world.time + QUIET_MAX
        while not world.violations and world.time < deadline:
            world.run(world.time + 100 * MILLISECOND)
            if self.is_quiet():
                break
        if not world.violations:
            self.judge()

    def _addresses(self) -> list[str]:
        """Return the addresses that programs made."""
        broker = self.machine.broker
        return [] if broker is None else [name for name in broker.table.addresses if not name.startswith(("$", "DLQ"))]

    def _break(self) -> None:
        lots, machine = self.lots, self.machine
        kind = lots.below(10)
        if kind < 5:
            lots.one_of(self.programs()).cut()
        elif kind < 7 and machine.broker is not None:
            machine.crash(torn=lots.chance(0.6))
        elif kind < 9:
            machine.disk.fuse = lots.skewed(1, 60)
        else:
            machine.restart()
