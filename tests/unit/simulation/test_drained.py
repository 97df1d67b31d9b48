"""Nodes of a cluster that give all they have away, in the seeded world; and the bugs of drains, planted."""

from __future__ import annotations

import os

import pytest

from drain_bugs import BESIDE, BUGS, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.__main__ import main
from entrepot.simulation.campaign import run_drains
from entrepot.simulation.drained import DrainRun

SEEDS = int(os.environ.get("DRAIN_SEEDS", "8"))

FOUND = {  # the first seed that finds it
    "a drain is done before the disk knows it": 432,
    "ids that come while ids are told are not told": 9,
    "no ids are told": 3,
    "what has a date loses it": 3,
    "a branch is given without what it has taken": 10,
    "a branch is given anew without asking": 45,
    "nobody notes that a branch is given": 4,
    "an aborted drain goes on": 32,
    "on the way: a message is settled before the answer": 1,
    "a drain waits for what a lease holds": 1,
    "a drain says nothing of what a lease holds": 1,
    "redistribution takes what a drain may have given": 3,
    "a queue is given away before the disk knows it": 2,
    "what waits for a third node goes to one with a queue of that number": 6,
    "what waits for a third node goes there under another id": 1,
}
REGRESSIONS = {  # seeds that failed once
    50173: "what an aborted drain had given is moved to the target itself, after a crash",
    50251: "a drain of the past goes on to a node that has left",
    50386: "redistribution brought to the target what it had of a drain",
    50613: "the answer to a question of management made a queue, because who asked had left",
}


def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    counts: dict[str, int] = {}
    for seed in range(1, SEEDS + 1):
        result = run_drains(seed)
        assert not result.violations, f"seed {seed}"
        for what, count in result.counts.items():
            counts[what] = counts.get(what, 0) + count
    wanted = ("drains: begin", "drains that are interrupted", "branches moved (last drains)", "ids known at the target")
    wanted += ("drains that end while a reader holds a range",)
    for what in wanted:
        assert counts.get(what, 0) > 0, f"no seed had any {what}"


def test_an_id_that_came_while_ids_were_told_is_known_at_the_target() -> None:
    assert not run_drains(114).violations


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_seeds_that_failed(seed: int) -> None:
    assert not run_drains(seed).violations


@pytest.mark.parametrize("seed", [3, 6])
def test_who_reads_at_a_third_node_gets_nothing_twice(seed: int) -> None:
    result = run_drains(seed, beside=True)
    assert not result.violations
    assert result.counts["drains that are broken off beside others"] > 0


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    beside = bug in BESIDE
    assert not run_drains(FOUND[bug], beside=beside).violations
    with planted(bug):
        assert run_drains(FOUND[bug], beside=beside).violations


def test_a_seed_is_one_history() -> None:
    one, other = DrainRun(3), DrainRun(3)
    one.run()
    other.run()
    assert one.network.world.digest() == other.network.world.digest()


def test_they_are_run_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--clusters", "--drains", "--seeds", "1"]) == 0
    assert main(["--clusters", "--drains", "--beside", "--seeds", "1", "--first", "3"]) == 0
    assert "1 seeds in" in capsys.readouterr().out
