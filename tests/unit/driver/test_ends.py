"""A query that ends at positions: what is in, who gives nothing, and what is left for later runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.driver.effects import Wait

from .test_least import World


def run(course: Any) -> Any:
    """Do a course to its end, whatever it waits for; return what it returns."""
    moving: Iterator[Any] = course
    while True:
        try:
            assert isinstance(next(moving), Wait)
        except StopIteration as over:
            return over.value


def test_the_position_is_not_in() -> None:
    world = World(ends={"b0": 7})
    world.come(20)
    assert world.batch() == 7
    assert world.end.shards == {"b0": 7}
    assert world.batch() == 0


@pytest.mark.parametrize("budget", [3, None])
def test_in_batches_of_any_size_it_is_the_same(budget: int | None) -> None:
    world = World(ends={"b0": 7})
    world.come(20)
    sizes = [world.batch(budget) for _ in range(5)]
    assert sum(sizes) == 7
    assert world.queues["b0"].ledger.tail == 7, "more was claimed than is read: others would not see it"


def test_what_is_not_there_yet_is_waited_for() -> None:
    world = World(ends={"b0": 7})
    world.come(5)
    assert world.batch() == 5
    world.come(5)
    assert world.batch() == 2


def test_a_broker_that_is_not_named_gives_nothing() -> None:
    world = World(ends={"b1": 4}, brokers=2)
    world.come(10, "b0")
    world.come(10, "b1")
    assert world.batch() == 4
    assert world.queues["b0"].waiting == 10


def test_what_an_earlier_run_claimed_behind_it_is_left() -> None:
    world = World(ends={"b0": 7})
    world.queues["b0"].ledger.tail = 12
    assert world.batch() == 7
    assert world.queues["b0"].ledger.tail == 12


def test_an_end_that_was_passed_gives_nothing_and_settles_nothing_back() -> None:
    world = World(ends={"b0": 7})
    world.end = world.end.moved({"b0": 9}, {"b0": 0})
    world.queues["b0"].ledger.tail = 9
    world.come(5)
    assert world.batch() == 0
    assert world.end.shards == {"b0": 9}


def test_a_query_that_goes_on_does_not_ask_without_pause() -> None:
    world = World(ends={"b0": 7})
    world.come(20)
    world.batch()
    before = world.time
    world.batch()
    assert world.time == pytest.approx(before + 0.5)


def test_available_now_ends_there_and_waits_for_no_other_broker() -> None:
    world = World(ends={"b0": 7}, brokers=2)
    world.come(20, "b0")
    world.come(20, "b1")
    run(world.holding.prepare_available_now())
    assert world.holding.targets == {"b0": 7}
    assert [world.batch(4) for _ in range(3)] == [4, 3, 0]


def test_available_now_takes_what_is_there_where_that_is_less() -> None:
    world = World(ends={"b0": 70})
    world.come(20)
    run(world.holding.prepare_available_now())
    world.come(20)
    assert world.batch(None) == 20
    assert world.batch(None) == 0


@pytest.mark.parametrize("limit", [None, 100])
def test_a_claim_ends_there(limit: int | None) -> None:
    world = World(ends={"b0": 7})
    world.come(20)
    assert run(world.holding.held(limit)) == ({"b0": 0}, {"b0": 7})
