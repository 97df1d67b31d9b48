"""Networks that are drawn for one rare coincidence each, and have it again and again.

Some bugs need what a random step hardly ever brings about: a reader that moves away from what is on its way to him, a
reply whose only way is the longer one, a machine that loses its power between a demand and the next message. Each is an
*errand* here: plans are drawn until one allows it, the faults are those of any other run, and the promises too.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.simulation.network_plans import Plan, Reading, draw, draw_extras
from entrepot.simulation.network_runs import LULL_MS, NetworkRun, is_joined
from entrepot.simulation.world import Lots

MOVES: Final = "a reader moves from what is on its way"
DETOURS: Final = "one cable after another is cut while somebody asks"
POWER: Final = "power fails behind a durable demand"
ERRANDS: Final = (MOVES, DETOURS, POWER)
DETOURS_MAX: Final = 2
UNDER_WAY_MS: Final = 5  # over a hop or two


class DirectedRun(NetworkRun):
    """The run of one seed with its errand."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        self.chance: Final = Lots(f"{seed}/errand")
        self.errand: Final = self.chance.one_of(ERRANDS)
        super().__init__(seed, lines=lines)

    def _draw(self, seed: int, extras: bool) -> tuple[Lots, Lots, Plan]:
        """Draw plans until one allows the errand."""
        attempt = 0
        while True:
            lots, more = Lots(f"{seed}/directed plan {attempt}"), Lots(f"{seed}/directed extras {attempt}")
            plan = draw(lots, draw_extras(more))
            if self._allows(plan):
                return lots, more, plan
            attempt += 1

    def _allows(self, plan: Plan) -> bool:
        if self.errand == MOVES:
            return bool(movers(plan)) and len(plan.producers) > 1
        if self.errand == DETOURS:
            return bool(plan.seats) and plan.replies and plan.cyclic
        return bool(durables(plan)) and len(plan.blueprints) > 1

    def _begin(self) -> None:
        """Before the first message: a demand that a later message takes to disk with it proves nothing."""
        if self.errand != POWER:
            return
        reading = self.chance.one_of(durables(self.plan))
        others = [name for name in self.plan.producers if name != reading.site]
        if not others:
            return
        network = self.network
        network.crashed = True
        site = network.sites[self.chance.one_of(others)]
        site.crash(torn=True)
        network.run(self.chance.between(1, 20))
        site.boot()
        for _ in range(self.chance.between(1, 5)):  # no bridge is open yet
            self._send_for(site, reading)

    def _extra_step(self) -> None:
        super()._extra_step()
        if self.errand != MOVES or self.chance.chance(0.5):
            return
        reading = self.chance.one_of(movers(self.plan))
        here = self.places[reading.key]
        names = [name for name in self.plan.producers if name != here]
        alive = [name for name in names if self.network.sites[name].broker is not None]
        if not alive or self.network.sites[here].broker is None:
            return
        site = self.network.sites[self.chance.one_of(alive)]
        for _ in range(self.chance.between(1, 5)):
            self._send_for(site, reading)
        self.network.world.later(
            self.chance.between(1, UNDER_WAY_MS) * MILLISECOND,
            lambda: self._move_to(reading, self.chance.one_of(names)),
        )

    def _move_to(self, reading: Reading, name: str) -> None:
        if self.network.sites[name].broker is not None:
            self.network.sites[self.places[reading.key]].leave(reading.key)
            self._seat(reading, name)

    def _between(self) -> None:
        """Cut cables, one at a time: each was the better way for somebody."""
        if self.errand != DETOURS:
            return
        wires = [wire for wire in self.plan.wires if is_joined(self.plan, wire)]
        for _ in range(min(DETOURS_MAX, len(wires))):
            near, far = wires.pop(self.chance.below(len(wires)))
            self._mend()
            self.network.run(LULL_MS)  # the short way is known again
            self._cut_and_ask(near, far, silent=self.chance.chance(0.3))

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        return {**super().counts(), f"errands: {self.errand}": 1}


def movers(plan: Plan) -> list[Reading]:
    """Return who moves from site to site and is owed all that was sent for him: what is left behind may go back."""
    return [one for one in plan.readings if one.mover and plan.replay and not _may_stay(plan, one)]


def durables(plan: Plan) -> list[Reading]:
    """Return readers of durable subscriptions that are known on every broker."""
    return [one for one in plan.readings if one.durable and not plan.static and not _may_stay(plan, one)]


def _may_stay(plan: Plan, reading: Reading) -> bool:
    return any(text.partition("://")[2] in plan.may_stay for text in reading.targets)
