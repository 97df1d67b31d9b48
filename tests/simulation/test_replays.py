"""Brokers that keep what their journal lets go of and replay it, from seeds; and bugs of that, planted."""

from __future__ import annotations

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_retention
from retention_bugs import BUGS, planted

FOUND = {  # the first seed that finds it
    "what was never confirmed is kept": 6,
    "bodies are not kept": 2,
    "a full disk takes nothing of it": 3,
    "the youngest goes first": 7,
    "the segment that grows is left out": 1,
    "a body that is shared is not held": 3,
    "what is published is as old as when it was staged": 60,
    "what is staged is not waited for": 313,
    "what was published is not found": 9,
    "messages of other addresses are sent": 1,
}


def test_seeds_keep_every_promise() -> None:
    for seed in range(201, 207):
        assert not run_retention(seed).violations


@pytest.mark.parametrize("seed", [167, 346, 445, 539])
def test_what_is_staged_and_published_late_is_kept(seed: int) -> None:
    """In two of them it went when it was compacted, in the others while the journal was read back."""
    assert not run_retention(seed).violations


def test_a_seed_is_one_world() -> None:
    assert run_retention(2).trace == run_retention(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed = FOUND[bug]
    assert not run_retention(seed).violations
    with planted(bug):
        assert run_retention(seed).violations
