"""Programs with the real client, from seeds: failover, transactions, prefetch; and the bugs of clients, planted."""

from __future__ import annotations

import pytest

from caller_bugs import BUGS, CORE_BUGS, MIXED_BUGS, REATTACH_BUGS, planted
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
FOUND_IN_CORE = {
    "that there is nothing is taken for a message": 1,
    "an acknowledgement settles what it overtook": 8,
    "a reply does not wait for the disk": 1,
    "the file of a large body is left behind": 1,
    "a consumer spends more credit than it writes": 2,
    "a rollback keeps the credit of what it dropped": 1,
    "a rolled-back delivery is not counted": 1,
}
FOUND_BY_REATTACHING = {
    "what was not confirmed is not written again": 11,
    "a command is done twice": 4,
    "a session goes on before its commands are answered": 5,
    "what was heard is asked for again": 6,
    "what was not done is not sent again": 6,
}
FOUND_IN_BOTH = {
    "the body of what was shown is held for ever": 1,
    "who was given what had to be measured is given nothing more": 2,
    "a browser skips what comes behind a large message": 20,
}
ONCE_FAILED = {
    7008: "what a client of OpenWire rolled back was expected to be known to others, when its connection was cut",
}
REATTACHED_ONCE_FAILED = {
    7904: "a planned move leaves sends without answers behind when it has waited for two seconds",
    8781: "what lay in the buffer of a session that waited to be reattached was handed out, and was with another",
}
CORE_ONCE_FAILED = {
    7416: "a rollback that ended with the crash of its broker was expected to be remembered",
    8591: "what a silent wire did not answer was at both brokers behind a planned move",
    8: "the checker took what was seen before a crash for a sign that a transaction in doubt was committed",
    13: "the checker did not know that a planned move is the end of a connection",
    60: "CORE: a rollback gave a large message back and went on writing it; the client took it behind the rollback",
    106: "CORE: a COMMIT with nothing to do did not wait for the acknowledgements before it",
    460: "simulated callers: a broker that stopped in order was not waited for",
}

BOTH_ONCE_FAILED = {
    9: "CORE client: the answer to the opening of a consumer that was closed meanwhile never came, and it stayed",
    33: "the checker did not know that in OpenWire the client alone counts what it rolls back",
}


@pytest.mark.parametrize("first", range(101, 101 + SEEDS, 4))
def test_seeds_keep_every_promise(first: int) -> None:
    failed = {seed: result.violations for seed in range(first, first + 4) if (result := run_callers(seed)).failed}
    assert failed == {}, "look at one: python -m entrepot.simulation --callers --seed S --trace trace.txt"


@pytest.mark.parametrize("first", range(601, 613, 4))
def test_seeds_of_core_keep_every_promise(first: int) -> None:
    failed = {s: result.violations for s in range(first, first + 4) if (result := run_callers(s, core=True)).failed}
    assert failed == {}, "look at one: python -m entrepot.simulation --callers --core --seed S --trace trace.txt"


@pytest.mark.parametrize("first", range(701, 713, 4))
def test_seeds_that_reattach_keep_every_promise(first: int) -> None:
    results = {seed: run_callers(seed, core=True, reattach=True) for seed in range(first, first + 4)}
    assert {seed: one.violations for seed, one in results.items() if one.failed} == {}
    assert sum(one.counts.get("reattached", 0) for one in results.values()) > 0


@pytest.mark.parametrize("first", range(801, 813, 4))
def test_seeds_of_both_languages_keep_every_promise(first: int) -> None:
    results = {seed: run_callers(seed, mixed=True) for seed in range(first, first + 4)}
    assert {seed: one.violations for seed, one in results.items() if one.failed} == {}
    assert sum(one.counts.get("messages shown", 0) for one in results.values()) > 0


@pytest.mark.parametrize("seed", BOTH_ONCE_FAILED)
def test_what_failed_once_with_both_languages_passes(seed: int) -> None:
    assert run_callers(seed, mixed=True).violations == (), f"fails again; it stood for: {BOTH_ONCE_FAILED[seed]}"


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_what_failed_once_passes(seed: int) -> None:
    assert run_callers(seed).violations == (), f"fails again; it stood for: {ONCE_FAILED[seed]}"


@pytest.mark.parametrize("seed", REATTACHED_ONCE_FAILED)
def test_what_failed_once_with_reattaching_passes(seed: int) -> None:
    result = run_callers(seed, core=True, reattach=True)
    assert result.violations == (), f"fails again; it stood for: {REATTACHED_ONCE_FAILED[seed]}"


@pytest.mark.parametrize("seed", CORE_ONCE_FAILED)
def test_what_failed_once_in_core_passes(seed: int) -> None:
    assert run_callers(seed, core=True).violations == (), f"fails again; it stood for: {CORE_ONCE_FAILED[seed]}"


def test_the_same_seed_is_the_same_run() -> None:
    assert run_callers(3).trace == run_callers(3, lines=True).trace


def test_every_bug_has_a_seed() -> None:
    assert list(FOUND) == list(BUGS)
    assert list(FOUND_IN_CORE) == list(CORE_BUGS)
    assert list(FOUND_BY_REATTACHING) == list(REATTACH_BUGS)
    assert list(FOUND_IN_BOTH) == list(MIXED_BUGS)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    if is_compiled():
        pytest.skip("native callers do not see a replaced method: planted in the plain build")
    seed = FOUND[bug]
    with planted(bug):
        assert run_callers(seed).failed, f"seed {seed} does not find: {bug}"
    assert not run_callers(seed).failed, f"seed {seed} fails without the bug too"


@pytest.mark.parametrize("bug", [*CORE_BUGS, *REATTACH_BUGS])
def test_a_planted_bug_is_found_in_core(bug: str) -> None:
    if is_compiled():
        pytest.skip("native callers do not see a replaced method: planted in the plain build")
    reattach = bug in REATTACH_BUGS
    seed = (FOUND_BY_REATTACHING if reattach else FOUND_IN_CORE)[bug]
    with planted(bug):
        assert run_callers(seed, core=True, reattach=reattach).failed, f"seed {seed} does not find: {bug}"
    assert not run_callers(seed, core=True, reattach=reattach).failed, f"seed {seed} fails without the bug too"


@pytest.mark.parametrize("bug", MIXED_BUGS)
def test_a_planted_bug_is_found_with_both_languages(bug: str) -> None:
    if is_compiled():
        pytest.skip("native callers do not see a replaced method: planted in the plain build")
    seed = FOUND_IN_BOTH[bug]
    with planted(bug):
        assert run_callers(seed, mixed=True).failed, f"seed {seed} does not find: {bug}"
    assert not run_callers(seed, mixed=True).failed, f"seed {seed} fails without the bug too"


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
