"""Who succeeds a simulated primary, and where its clients are by then; each planted bug is found."""

from __future__ import annotations

import os

import pytest

from entrepot.base.environment import SECOND
from entrepot.ha.lease import Record
from entrepot.simulation.heir_bugs import PLANTED
from entrepot.simulation.replicas import Replicas

SEEDS = int(os.environ.get("REPLICA_SEEDS", "8"))

FOUND_BY = {
    "clients are told before the lock is": 0,
    "nobody lets the heir go first": 1,
    "the heir is let go first for ever": 1,
    "an heir out of sync goes first": 26,
    "the heir of an older record counts": 10,
    "a new primary names no heir": 0,
    "each goes first once": 20,
    "the owner is not named": 11,
    "another heir each time": 2,
    "one who copies is named": 0,
}
"""A seed that finds it."""


def test_the_heir_succeeds_where_he_can_and_clients_are_there() -> None:
    counts: dict[str, int] = {}
    for seed in range(SEEDS):
        replicas = Replicas(seed)
        assert replicas.run() == [], f"seed {seed}"
        for what, count in replicas.world.counts.items():
            counts[what] = counts.get(what, 0) + count
    for what in ("heirs named", "heirs gone", "heirs that succeed", "others that succeed", "heirs that cannot"):
        assert counts.get(what, 0) > 0, f"no seed had any {what}"


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_found(planted: str) -> None:
    assert Replicas(FOUND_BY[planted], planted).run(), f"{planted!r} goes unnoticed"


@pytest.mark.parametrize("seed", [5, 13, 26, 27])
def test_nobody_waits_for_an_heir_whose_copy_does_not_count(seed: int) -> None:
    """The primary dropped him and was killed before the lock named another one: who took over waited a second more."""
    assert Replicas(seed).run() == []


def test_a_backup_names_the_broker_to_which_it_gives_the_store_back() -> None:
    """It named another backup, and clients found nobody when the primary had its store back."""
    assert Replicas(40).run() == []


def test_what_reaches_a_process_that_is_gone_concerns_nobody() -> None:
    """The end of a wire reached the primary of a process that had died, and that asked the disk of the next one."""
    assert Replicas(29).run() == []


def test_the_judge_sees_who_does_not_wait_and_an_epoch_that_was_claimed_before() -> None:
    replicas = Replicas(1)
    judge, copy = replicas.succession, replicas.copies[0]
    before = Record(name="x", instance="x", epoch=4, lease=SECOND, eligible={"h": 4}, heir="h", released=True)
    claim = Record(name=copy.name, instance="c", epoch=5, beat=1, lease=SECOND)
    replicas.world.time = 10 * SECOND
    judge.swapped(None, before)
    replicas.world.time += SECOND
    judge.swapped(before, claim)
    assert replicas.world.violations == []
    judge.swapped(before, claim)
    assert len(replicas.world.violations) == 2
