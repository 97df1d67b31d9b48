"""Networks of brokers from seeds: shapes, cuts, crashes, healing; and the historic bugs of bridges, planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge_bugs import HISTORIC, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_network
from networked import run

SEEDS = 25
PLANS = 20  # of the larger ones, in which everything is mixed
SEEDS_MAX = 60
REGRESSIONS = (
    502,  # a passive link forgot with its connection what its peer might have: it came twice, unmarked
    506,  # the longer of two ways was kept where priorities do not tell them apart: messages stuck behind it
)


FOUND = {  # a few of tests/hunt.py, by a seed that is run without the bug as well
    "the TTL is not looked at": 7,
    "what may have arrived is not marked": 9,
    "a durable subscription that is superseded keeps what it holds": 4,
    "demand ends with the first of several readers": 9,
    "copies are forgotten in a restart": 35,
    "what came out of order is taken for a repetition": 1,
}
RARE = {  # the same, in networks that are drawn for a rare coincidence
    "temporary destinations are not served another way": 1,
    "nothing goes back for who moved": 2,
    "a return is taken for a repetition": 1,
    "a return is taken for a repetition by its id": 19,
    "no number is known after a restart": 7,
    "durable demand is not synced": 3,
}
DIRECTED = 8
STOPS = 8
FAILED = Path(__file__).with_name("regressions-networks.txt")


def failed() -> list[tuple[int, bool]]:
    """Return seeds, and whether their plans have what came to plans later."""
    lines = [line.split(maxsplit=2) for line in FAILED.read_text().splitlines() if not line.startswith("#")]
    return [(int(seed), plans == "all") for seed, plans, _ in lines]


@pytest.mark.parametrize("seed", [*range(1, SEEDS + 1), *REGRESSIONS])
def test_nothing_confirmed_is_lost_or_stuck_and_nothing_runs_in_circles(seed: int) -> None:
    wrong, _ = run(seed)
    assert not wrong, f"seed {seed}: {wrong}"


@pytest.mark.parametrize(("seed", "extras"), dict.fromkeys([*((one, True) for one in range(1, PLANS + 1)), *failed()]))
def test_networks_of_two_to_ten_brokers_keep_every_promise(seed: int, extras: bool) -> None:
    result = run_network(seed, extras=extras)
    more = "" if extras else " --plain"
    assert not result.failed, (
        f"seed {seed}: {result.violations}; python -m entrepot.simulation --networks{more} --seed {seed}"
    )


@pytest.mark.parametrize("seed", range(1, STOPS + 1))
def test_networks_whose_brokers_stop_in_order_keep_every_promise(seed: int) -> None:
    result = run_network(seed, stops=True)
    assert not result.failed, (
        f"seed {seed}: {result.violations}; python -m entrepot.simulation --networks --stops --seed {seed}"
    )


@pytest.mark.parametrize("seed", range(1, DIRECTED + 1))
def test_networks_drawn_for_a_rare_coincidence_keep_every_promise(seed: int) -> None:
    result = run_network(seed, directed=True)
    assert not result.failed, (
        f"seed {seed}: {result.violations}; python -m entrepot.simulation --networks --directed --seed {seed}"
    )


@pytest.mark.skipif(is_compiled(), reason="native callers do not see a replaced method: planted in the plain build")
@pytest.mark.parametrize(("bug", "seed"), RARE.items())
def test_planted_bugs_are_found_by_the_coincidence_that_they_need(bug: str, seed: int) -> None:
    with planted(bug):
        assert run_network(seed, directed=True).failed, f"seed {seed} does not find any more: {bug}"


@pytest.mark.skipif(is_compiled(), reason="native callers do not see a replaced method: planted in the plain build")
@pytest.mark.parametrize(("bug", "seed"), FOUND.items())
def test_large_networks_find_planted_bugs(bug: str, seed: int) -> None:
    with planted(bug):
        assert run_network(seed).failed, f"seed {seed} does not find any more: {bug}; tests/hunt.py looks for another"


@pytest.mark.skipif(is_compiled(), reason="native callers do not see a replaced method: planted in the plain build")
@pytest.mark.parametrize("bug", HISTORIC)
def test_a_planted_bug_is_found(bug: str) -> None:
    with planted(bug):
        found = next((seed for seed in range(1, SEEDS_MAX + 1) if run(seed)[0]), 0)
    assert found, f"{SEEDS_MAX} seeds did not find: {bug}"
    assert not run(found)[0], f"seed {found} fails without the bug too"
