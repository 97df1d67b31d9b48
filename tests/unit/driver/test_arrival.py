"""AvailableNow of a reader that is demand: when it takes it that all has come, and when nobody can know."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import Unreachable
from entrepot.driver.holding import Holding, Query
from entrepot.driver.search import Reach
from entrepot.driver.shard import Subject
from unit.driver.test_least import World

QUIET = 2.0  # s
PATIENCE = 20.0  # s


class Asking(World):
    """A world with a broker whose bridge is away as long as ``away`` says, of the time since the query began."""

    def __init__(self, away: Callable[[float], bool]) -> None:
        super().__init__()
        query = Query(Subject("/queue/q", "s", demand=True), Reach((), False, {}, PATIENCE), "earliest", 500, 2_000)
        self.holding = Holding(query, self.look)
        self.holding.shards = self  # type: ignore[assignment]
        self.began = self.time
        self.away = away

    def look(self) -> float:
        self.queues["b0"].ledger.away = "there" if self.away(self.time - self.began) else ""
        return self.time

    def available(self) -> int:
        self.run(self.holding.prepare_available_now())
        return self.batch()


def test_a_bridge_that_opens_late_is_waited_for_and_for_what_it_brings() -> None:
    world = Asking(lambda since: since < 5)
    world.arrivals = {world.began + 6: 7}
    assert world.available() == 7
    assert 5 + QUIET < world.time - world.began < 6 + QUIET + 1


def test_a_bridge_that_does_not_open_is_no_empty_queue() -> None:
    world = Asking(lambda since: True)
    world.come(3)
    with pytest.raises(Unreachable, match="the other end of there is away") as refused:
        world.available()
    assert "demand=false" in (refused.value.remedy or "")
    assert PATIENCE <= world.time - world.began < PATIENCE + 1


def test_one_that_is_open_costs_no_more_than_the_quiet() -> None:
    world = Asking(lambda since: False)
    world.come(3)
    assert world.available() == 3
    assert world.time - world.began < QUIET + 1
