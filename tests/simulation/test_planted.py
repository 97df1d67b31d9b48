"""The simulation bites: each planted bug is found within a few seeds, and the same seed passes without it."""

from __future__ import annotations

import pytest
from planted import BUGS, planted

from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run

SEEDS_MAX = 150
FOUND = {  # what takes long to look for, by a seed that is tried before all others
    "acknowledge before sync": 22,
    "decisions are not journaled": 57,
    "who counts a sink is not journaled": 37,
    "a transaction is written in pieces": 37,
    "not every message is stored": 2,
    "who sends to a blocked address waits for room alone": 37,
    "a transaction does not wait for a blocked address": 59,
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    if bug.patches and is_compiled():
        pytest.skip("native callers do not see a replaced method: planted in the plain build")
    with planted(bug) as parts:
        seeds = dict.fromkeys([FOUND.get(name, 1), *range(1, SEEDS_MAX + 1)])
        found = next((seed for seed in seeds if run(seed, parts=parts).failed), 0)
    assert found, f"{SEEDS_MAX} seeds did not find: {name}"
    assert not run(found).failed, f"seed {found} fails without the bug too"
