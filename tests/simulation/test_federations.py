"""Brokers that fetch from one another, from seeds; and the bugs of federations, planted."""

from __future__ import annotations

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_federation
from federation_bugs import BUGS, planted

FOUND = {  # the first seed that finds it
    "what is fetched is acknowledged before the disk has it": 1,
    "what comes again is not known": 2,
    "one message is known by the number of another": 37,
    "hops are not counted": 1,
    "who has left is fetched for": 2,
    "what is gone is fetched for after a pause no more": 20,
    "addresses are wanted for who may not have it": 9,
    "what was deployed stays when its connection is gone": 1,
    "upstreams of a file that says otherwise go on": 1,
    "a third broker gets what the disk does not have": 92,
}


@pytest.mark.parametrize("first", range(101, 117, 4))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 4):
        assert not run_federation(seed).violations


def test_a_chain_whose_middle_loses_power_doubles_nothing() -> None:
    """Seed 92: the broker in the middle passed on what its disk did not have, and got it again by another number."""
    assert not run_federation(92).violations


def test_a_seed_is_one_world() -> None:
    assert run_federation(2).trace == run_federation(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed = FOUND[bug]
    assert not run_federation(seed).violations
    with planted(bug):
        assert run_federation(seed).violations
