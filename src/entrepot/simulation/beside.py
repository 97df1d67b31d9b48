"""One seed of a cluster in which a third node reads while a drain is broken off, and what must hold.

A node gives all it has to one target. In the middle of it the node dies, or is cut off, or the target is: what was on
its way may be there already, and is here still. Then somebody reads at a third node, so that what waits here would move
there, or what waits here for that node would cross; and only after a while an operator resumes the drain.

A message is at the target or here, so it comes once: nothing is excused.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.cluster.clusters.drain_notes import RUNNING, State
from entrepot.simulation.drained import DrainRun
from entrepot.simulation.leaving import LeavingSite

WATCH_MS: Final = 1
WATCHES: Final = 3_000
MANY: Final = (20, 400)  # messages


class BesideRun(DrainRun):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        super().__init__(seed, beside=True, lines=lines)

    def _live(self) -> None:
        self.network.start()
        self.network.run(1_200)
        for _ in range(self.lots.between(1, 3)):
            self._round()
            self.network.inspect()
        self._settle()
        self._judge()

    @property
    def _source(self) -> LeavingSite:
        return self._machine(self.draft.leaving[0])

    def _round(self) -> None:
        """Break a drain off, let others read, and go on with it."""
        lots, network = self.lots, self.network
        third = self._machine(lots.one_of(self.draft.names[1:-1]))
        waits_for_third = lots.chance(0.4)
        if waits_for_third:
            self._lose(third)
        else:
            for site in network.machines():
                for key in list(site.readers):
                    site.leave(key)
            network.run(100)
            self._fill()
        if self._source.drain.state in (State.INTERRUPTED, State.FAILED):
            self._source.order("resume")
        elif self._source.drain.state not in RUNNING:
            self._source.order("begin", self._target())
        self._break_off()
        network.mend(self._source.name, third.name)
        third.boot()
        if "beside" not in third.readers:
            third.read("queue://Q", prefetch=lots.one_of((1, 10, 1_000)), key="beside")
        network.run(lots.between(500, 5_000))
        self._source.boot()
        network.run(lots.between(500, 8_000))
        network.heal()
        if lots.chance(0.7) and self._source.drain.state in (State.INTERRUPTED, State.FAILED):
            self._source.order("resume")
            network.run(lots.between(100, 5_000))

    def _lose(self, third: LeavingSite) -> None:
        """Let messages wait for a third node, which is away."""
        if "beside" not in third.readers:
            third.read("queue://Q", prefetch=10, key="beside")
        self.network.run(500)
        if self.lots.chance(0.3):
            third.crash(torn=False)
        else:
            self.network.cut(self._source.name, third.name, silent=self.lots.chance(0.5))
        self._fill()
        self.network.run(2 * self.draft.ttl_ms)

    def _fill(self) -> None:
        site = self._source
        for _ in range(self.lots.between(*MANY)):
            identity = f"m{self.sent}"
            self.sent += 1
            site.turn(partial(self._publish, site, identity, 0, "Q", "red", ""))
        self.network.run(self.lots.between(1, 50))

    def _break_off(self) -> None:
        """Wait until something is on its way, and end that in the middle."""
        lots, network, source = self.lots, self.network, self._source
        target = self._machine(self.draft.target)
        for _ in range(WATCHES):
            if source.on_their_way() or source.drain.state not in RUNNING:
                break
            network.run(WATCH_MS)
        if not source.on_their_way():
            return
        network.world.count("drains that are broken off beside others")
        for _ in range(lots.below(20)):
            network.world.run(network.world.time + lots.skewed(1, 400) * MILLISECOND // 100)
        what = lots.below(6)
        if what < 4:
            source.crash(torn=lots.chance(0.5))
        elif what < 5:
            network.cut(source.name, target.name, silent=lots.chance(0.3))
        else:
            target.crash(torn=lots.chance(0.5))
