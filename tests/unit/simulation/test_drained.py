"""Nodes of a cluster that give all they have away, in the seeded world."""

from __future__ import annotations

import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.campaign import run_drains
from entrepot.simulation.drained import DrainRun

SEEDS = int(os.environ.get("DRAIN_SEEDS", "8"))

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


def test_a_seed_is_one_history() -> None:
    one, other = DrainRun(3), DrainRun(3)
    one.run()
    other.run()
    assert one.network.world.digest() == other.network.world.digest()


def test_they_are_run_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--clusters", "--drains", "--seeds", "1"]) == 0
    assert main(["--clusters", "--drains", "--beside", "--seeds", "1", "--first", "3"]) == 0
    assert "1 seeds in" in capsys.readouterr().out
