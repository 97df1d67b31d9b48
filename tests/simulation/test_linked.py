"""Programs that speak AMQP, from seeds; and the bugs of its links, planted."""

from __future__ import annotations

import pytest

from amqp_bugs import BUGS, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_amqp

FOUND = {  # the first seed that finds it
    "accepted comes before the disk": 9,
    "a commit is answered before the disk": 25,
    "exactly once is settled before the disk": 15,
    "what was rolled back is sent": 17,
    "a transaction settles before its commit": 2,
    "a rollback gives nothing back": 34,
    "a link gets more than its credit": 2,
    "the window of a session is not looked at": 1,
    "a drain is never answered": 34,
    "what a detached link held stays with it": 4,
    "a detach deletes a durable subscription": 124,
    "an aborted delivery is sent": 1,
    "a detach overtakes answers": 15,
    "a commit does a part": 2,
    "a durable subscription is answered before the disk": 19037,
}
BLOCKED = ("a durable subscription is answered before the disk",)  # seen where addresses are blocked, too


@pytest.mark.parametrize("first", range(201, 213, 4))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 4):
        assert not run_amqp(seed).violations


def test_a_seed_is_one_world() -> None:
    assert run_amqp(2).trace == run_amqp(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed, blocks = FOUND[bug], bug in BLOCKED
    assert not run_amqp(seed, blocks=blocks).violations
    with planted(bug):
        assert run_amqp(seed, blocks=blocks).violations
