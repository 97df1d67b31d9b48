"""Programs with the real client, from seeds: failover, transactions, prefetch; and the bugs of clients, planted."""

from __future__ import annotations

import pytest

from caller_bugs import BUGS, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_callers

SEEDS = 16
FOUND = {  # by tests/hunt.py; the seed is run without the bug as well
    "a commit in doubt is forgotten": 1,
    "an open transaction is not told again": 1,
    "a move does not wait for a commit": 10,
    "a message is acknowledged twice": 1,
    "an acknowledgement goes out on the next connection": 1,
    "a consumer is not subscribed again": 1,
    "what was not answered is not asked again": 12,
    "a transaction that consumed on a lost connection commits": 1,
    "a transaction that cannot commit goes on": 43,
    "a commit that is repeated is stored twice": 11,
}


@pytest.mark.parametrize("first", range(101, 101 + SEEDS, 4))
def test_seeds_keep_every_promise(first: int) -> None:
    failed = {seed: result.violations for seed in range(first, first + 4) if (result := run_callers(seed)).failed}
    assert failed == {}, "look at one: python -m entrepot.simulation --callers --seed S --trace trace.txt"


def test_the_same_seed_is_the_same_run() -> None:
    assert run_callers(3).trace == run_callers(3, lines=True).trace


def test_every_bug_has_a_seed() -> None:
    assert list(FOUND) == list(BUGS)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    if is_compiled():
        pytest.skip("native callers do not see a replaced method: planted in the plain build")
    seed = FOUND[bug]
    with planted(bug):
        assert run_callers(seed).failed, f"seed {seed} does not find: {bug}"
    assert not run_callers(seed).failed, f"seed {seed} fails without the bug too"


def test_the_worlds_exercise_what_they_are_for() -> None:
    totals: dict[str, int] = {}
    for seed in range(1, 13):
        for what, number in run_callers(seed).counts.items():
            totals[what] = totals.get(what, 0) + number
    for what in (
        "answers: TransactionInDoubt",
        "answers: TransactionRolledBack",
        "broken commits",
        "commits",
        "confirmed acknowledgements",
        "interruptions",
        "planned moves",
        "recoveries",
        "redeliveries",
        "stops in order",
    ):
        assert totals.get(what, 0) > 0, f"12 worlds without: {what}"
