"""Brokers that draw messages from another one, from seeds; and bugs of drawing, planted."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from drawing_bugs import BUGS, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import Result, run_drawing

FOUND = {  # the first seed that finds it
    "what comes is acknowledged before the disk has it": 1,
    "what comes again is not known": 1,
    "what comes again is not known after a restart": 6,
    "the id is not written with its message": 6,
    "a message is known by its id alone": 3,
    "a consumer is closed before what was taken is acknowledged": 3,
    "a range is acknowledged one message too far": 3,
    "what comes to a draw that ends is acknowledged, and not kept": 3,
    "credit is given once": 1,
    "credit is given again before the disk has what came": 1,
    "what waits for room is acknowledged": 6,
    "a draw that ends waits for room": 87,
    "ids of a lost connection are replaced": 9,
    "ids of an earlier life are replaced": 9,
    "more is asked for than is remembered": 4,
    "a draw that was refused is left for ever": 3,
    "who has left is drawn for": 1,
}
SEEDS = range(201, 241)


@cache
def played(seed: int) -> Result:
    return run_drawing(seed)


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 10))
def test_seeds_keep_every_promise(first: int) -> None:
    failed = {seed: played(seed).violations for seed in range(first, first + 10) if played(seed).failed}
    assert failed == {}


def test_the_worlds_exercise_what_they_are_for() -> None:
    totals: Counter[str] = Counter()
    for seed in SEEDS:
        totals.update(played(seed).counts)
    for what in (
        "crashes with torn disks",
        "cuts, loud",
        "cuts, silent",
        "deaf directions",
        "disks that are full",
        "disks that are slow",
        "disks that stall",
        "large messages sent",
        "leases that come",
        "leases that go",
        "messages at two places behind a lost connection",
        "messages in doubt, and nobody reads",
        "messages read at the far broker",
        "messages sent again with their id",
        "messages sent not durable",
        "processes killed",
        "queues deleted",
        "readers that come",
        "readers that go",
        "stops in order",
        "worlds: activemq",
        "worlds: artemis",
        "worlds: few ids remembered",
        "worlds: little room, BLOCK",
        "worlds: little room, FAIL",
        "worlds: two that draw",
    ):
        assert totals[what] > 0, f"{len(SEEDS)} worlds without: {what}"


def test_a_seed_is_one_world() -> None:
    assert run_drawing(2).trace == run_drawing(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed = FOUND[bug]
    assert not run_drawing(seed).violations
    with planted(bug):
        assert run_drawing(seed).violations
