"""Brokers that core bridges join, from seeds; and the bugs of core bridges, planted."""

from __future__ import annotations

import pytest

from carrier_bugs import BUGS, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_carried

FOUND = {  # the first seed that finds it
    "a message is settled before the answer": 1,
    "the duplicate id is forgotten at reconnect": 1,
    "the duplicate id is forgotten at a restart": 6,
    "a reattachment is taken for an answer": 2,
    "credits are lost": 1,
    "the ids of bridges are not remembered": 1,
    "the answer does not wait for the disk": 147,
    "what leaves does not wait for our own disk": 582,
}


@pytest.mark.parametrize("first", range(101, 117, 4))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 4):
        assert not run_carried(seed).violations


def test_a_chain_whose_middle_loses_power_doubles_nothing() -> None:
    """Seed 5031: the broker in the middle passed on what its disk did not have, and got it again under a new number."""
    assert not run_carried(5031).violations


def test_a_seed_is_one_world() -> None:
    assert run_carried(2).trace == run_carried(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed = FOUND[bug]
    assert not run_carried(seed).violations
    with planted(bug):
        assert run_carried(seed).violations
