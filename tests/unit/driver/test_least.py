"""Batches that wait for more messages: how many, how long, and which wait for none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Course, Wait
from entrepot.driver.holding import Holding, Query
from entrepot.driver.ledger import Ledger
from entrepot.driver.offsets import Offsets
from entrepot.driver.search import Reach
from entrepot.driver.shard import Subject


class Queue:
    """A shard whose broker answers at once. ``arrives``: when so many messages come."""

    def __init__(self, world: World, broker: str) -> None:
        self.world, self.broker = world, broker
        self.key = broker
        self.ledger = Ledger("q", broker)
        self.waiting = 0
        self.live = True
        self.place = Endpoint("stomp", "h", 1)

    def claim(self, start: int, most: int, octets: int | None = None) -> Course[int]:
        taken = min(self.waiting, max(0, start + most - self.ledger.tail))
        self.waiting -= taken
        self.ledger.tail += taken
        self.ledger.more = self.waiting
        return min(self.ledger.tail, start + most)
        yield  # a course, which never has to wait

    def settle(self, position: int) -> Course[None]:
        return
        yield

    def begin_claim(self, start: int, most: int, wait_ms: int, octets: int | None = None) -> Course[None]:
        return
        yield

    def claimed(self) -> Course[bool]:
        return True
        yield


class World:
    """Time, and the shards of a `Holding`."""

    def __init__(
        self, *, least: int = 0, delay_ms: int = 0, brokers: int = 1, ends: dict[str, int] | None = None
    ) -> None:
        self.time = 100.0
        self.queues = {f"b{at}": Queue(self, f"b{at}") for at in range(brokers)}
        self.arrivals: dict[float, int] = {}
        subject = Subject("/queue/q", "s", "", False)
        query = Query(subject, Reach((), False, {}, 1.0), "earliest", 500, 0, least, delay_ms, ends=ends)
        self.holding = Holding(query, lambda: self.time)
        self.holding.shards = self  # type: ignore[assignment]
        self.end = Offsets(self.holding.source, {})

    # as `Shards`

    @property
    def all(self) -> dict[str, Queue]:
        return self.queues

    def live(self) -> list[Queue]:
        return list(self.queues.values())

    @property
    def gone(self) -> dict[str, None]:
        return {}

    def note(self, positions: dict[str, int]) -> None:
        """Nothing is deleted here."""

    def meet(self) -> Course[None]:
        return
        yield

    def need(self, broker: str) -> Course[Queue]:
        return self.queues[broker]
        yield

    def come(self, count: int, broker: str = "b0") -> None:
        self.queues[broker].waiting += count

    def batch(self, budget: int | None = 1_000) -> int:
        """Return how many messages the next batch has, after the waiting of one call."""
        before = sum(self.end.shards.values())
        self.end = self.run(self.holding.latest(self.end, budget))
        return sum(self.end.shards.values()) - before

    def run(self, course: Iterator[Any]) -> Any:
        """Return what ``course`` returns, after its waiting."""
        answer: Any = None
        while True:
            try:
                effect = course.send(answer)  # type: ignore[attr-defined]
            except StopIteration as over:
                return over.value
            assert isinstance(effect, Wait), effect
            until = self.time + effect.seconds
            for due in sorted(self.arrivals):
                if due <= until:
                    self.come(self.arrivals.pop(due))
            self.time = until


@pytest.mark.parametrize("brokers", [1, 3])
def test_the_first_waits_for_none_and_the_next_until_there_are_enough(brokers: int) -> None:
    world = World(least=30, delay_ms=60_000, brokers=brokers)
    world.come(5)
    assert world.batch() == 5
    for broker in world.queues:
        world.come(9, broker)
    if brokers == 1:
        assert world.batch() == 0
        world.come(20)
        assert world.batch() == 0
        world.come(1)
        assert world.batch() == 30
    else:
        assert world.batch() == 0
        world.come(3, "b2")
        assert world.batch() == 30


def test_when_the_time_is_over_what_is_there_is_a_batch() -> None:
    world = World(least=30, delay_ms=2_000)
    world.come(5)
    assert world.batch() == 5
    world.come(5)
    calls = 0
    while not (found := world.batch()):
        calls += 1
    assert found == 5
    assert 102.0 <= world.time < 102.6
    assert calls == 3


def test_what_comes_while_it_waits_is_seen_soon() -> None:
    world = World(least=30, delay_ms=60_000)
    world.come(1)
    assert world.batch() == 1
    world.arrivals = {world.time + 0.15: 40}
    began = world.time
    assert world.batch() == 40
    assert world.time - began < 0.4


def test_what_an_earlier_run_claimed_comes_as_it_is() -> None:
    world = World(least=30, delay_ms=60_000)
    world.come(2)
    assert world.batch() == 2
    before = world.end
    world.queues["b0"].ledger.tail += 7  # claimed, and Spark never said that it has it
    assert world.batch() == 7
    assert before.shards != world.end.shards


def test_all_that_is_there_and_a_smaller_budget_wait_for_no_more() -> None:
    world = World(least=30, delay_ms=60_000)
    world.come(1)
    assert world.batch() == 1
    world.come(3)
    assert world.batch(None) == 3
    world.come(20)
    assert world.batch(20) == 20
    world.holding.targets = {"b0": 100}
    world.come(4)
    assert world.batch() == 4
