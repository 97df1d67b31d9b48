"""AvailableNow of a reader that is demand: when it takes it that all has come, and when nobody can know."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import Unreachable
from entrepot.driver.arriving import BATCH, PAUSE
from entrepot.driver.effects import Course, wait
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
        """Return how many messages come, in as many batches as that takes."""
        self.run(self.holding.prepare_available_now())
        self.batches: list[tuple[float, int]] = []  # s since the query began, and messages
        while count := self.batch():
            self.batches.append((self.time - self.began, count))
        return sum(count for _, count in self.batches)


def test_a_bridge_that_opens_late_is_waited_for_and_for_what_it_brings() -> None:
    world = Asking(lambda since: since < 5)
    world.arrivals = {world.began + 6: 7}
    assert world.available() == 7
    assert 5 + QUIET < world.time - world.began < 6 + QUIET + 1


def test_a_bridge_that_does_not_open_is_no_empty_queue() -> None:
    world = Asking(lambda since: True)
    world.come(3)
    with pytest.raises(Unreachable, match="cannot come over there") as refused:
        world.available()
    assert "demand=false" in (refused.value.remedy or "")
    assert PATIENCE <= world.time - world.began < PATIENCE + 1


def test_one_that_is_open_costs_no_more_than_the_quiet() -> None:
    world = Asking(lambda since: False)
    world.come(3)
    assert world.available() == 3
    assert world.time - world.began < QUIET + 1


def test_what_has_come_is_a_batch_while_more_is_on_its_way() -> None:
    world = Asking(lambda since: False)
    world.arrivals = {world.began + at: 400 for at in (0.3, 0.6, 0.9, 2.0, 3.7, 5.0)}
    assert world.available() == 2_400
    assert [count for _, count in world.batches] == [1_000, 200, 400, 400, 400]
    times = [at for at, _ in world.batches]
    assert times[0] < 1.2, "it is full"
    assert times[1] < 0.9 + PAUSE + 0.3 < 2.0, "there is a pause"
    assert times[-1] < 5.0 + PAUSE + 0.3
    assert 5 + QUIET <= world.time - world.began < 5 + QUIET + 0.5


def test_what_comes_without_a_pause_lands_all_the_same() -> None:
    world = Asking(lambda since: False)
    world.arrivals = {world.began + 0.3 * step: 1 for step in range(1, 80)}
    assert world.available() == 79
    assert all(count > 25 for _, count in world.batches[:2])
    assert BATCH <= world.batches[0][0] < BATCH + 0.5


def test_what_a_selector_passes_over_neither_ends_it_nor_keeps_it_busy() -> None:
    world = Asking(lambda since: False)
    queue = world.queues["b0"]
    claims: list[int] = []
    claim = queue.claim

    def picky(start: int, most: int, octets: int | None = None) -> Course[int]:
        claims.append(most)
        wanted = most if world.time - world.began > 1.6 else 0  # what matches comes then
        yield from wait(0)
        return (yield from claim(start, wanted, octets))

    queue.claim = picky  # type: ignore[method-assign]
    world.come(3)
    world.arrivals = {world.began + 1.7: 1}
    assert world.available() == 4
    assert len(claims) < 100
