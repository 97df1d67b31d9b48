"""Brokers that dial one another over AMQP, and federate so, from seeds; and bugs of their connections, planted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fetching_bugs
from dialling_bugs import BUGS, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import Result, run_dialling, run_fetching

FOUND = {  # the first seed that finds it
    "a message is settled before it is accepted": 2,
    "what comes is accepted before the disk has it": 25,
    "what a link had on its way stays with it": 9,
    "a link that is not answered is waited for": 1,
    "a message that is too large is tried for ever": 9,
    "a message that is too large is dropped": 9,
    "what may have arrived is not marked": 12,
    "what may have arrived is forgotten with its connection": 213,
    "links outlive their connection": 1,
    "credit is taken once": 1,
    "a link that ended is not asked for again": 2,
}


REGRESSIONS = (
    17_015,  # checker: a peer that answered no links swallowed what it granted to those that were there: they starved
    17_215,  # checker: as 17015
    17_165,  # a connection that was stopped and started forgot what its peer might have: it came again, unmarked
    17_313,  # as 17165
    17_349,  # as 17165
)

FETCHING_FOUND = {
    "who reads an address is answered before it is stored": 47,
    "the queue of an address goes when its link is cut off": 1,
    "what is fetched is accepted before the disk has it": 116,
    "who has left is fetched for": 1,
    "credit is granted once": 1,
    "what is pulled is asked for while messages wait": 2,
    "who pulls looks once whether messages wait": 2,
    "policies are not brought": 1,
    "what was refused there is not asked for again": 8,
}


@pytest.mark.parametrize("world", [run_dialling, run_fetching])
def test_seeds_keep_every_promise(world: Callable[[int], Result]) -> None:
    for seed in range(201, 207):
        assert not world(seed).violations


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_seeds_that_failed_once_keep_every_promise(seed: int) -> None:
    assert not run_dialling(seed).violations


def test_what_a_link_had_on_its_way_when_it_was_ended_with_an_error_is_marked() -> None:
    assert not run_fetching(498).violations


def test_a_seed_is_one_world() -> None:
    assert run_dialling(2).trace == run_dialling(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed = FOUND[bug]
    assert not run_dialling(seed).violations
    with planted(bug):
        assert run_dialling(seed).violations


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", fetching_bugs.BUGS)
def test_planted_bugs_of_federations_are_found(bug: str) -> None:
    seed = FETCHING_FOUND[bug]
    assert not run_fetching(seed).violations
    with fetching_bugs.planted(bug):
        assert run_fetching(seed).violations
