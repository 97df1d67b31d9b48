"""Processes that answer as one broker, in the seeded world; and every planted bug is found."""

from __future__ import annotations

import gc
import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.answering import PLANTED, Answering

SEEDS = int(os.environ.get("PROCESSES_SEEDS", "10"))
FOUND_AT: dict[str, int] = {"an older life is heard": 17}
"""The first seed that finds a bug, where that is not one of the first."""


def test_each_question_has_one_answer_of_those_that_are_there() -> None:
    counts: dict[str, int] = {}
    for seed in range(1, SEEDS + 1):
        processes = Answering(seed)
        assert processes.run() == [], f"seed {seed}"
        for what, count in processes.world.counts.items():
            counts[what] = counts.get(what, 0) + count
    for what in (
        "answers",
        "answers that are too large",
        "answers without a process",
        "changes that are not begun",
        "changes that one process refuses",
        "cuts",
        "deaths",
        "messages that are sent",
        "pauses",
        "questions: clash an address",
        "slow processes",
    ):
        assert counts.get(what, 0) > 0, f"no seed had any {what}"


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_planted_bug_is_found(planted: str) -> None:
    first = FOUND_AT.get(planted, 1)
    assert any(Answering(seed, planted).run() for seed in range(first, first + 10)), f"{planted!r} goes unnoticed"


def test_a_seed_is_the_same_world_whenever_python_collects_garbage() -> None:
    before = gc.get_threshold()
    first, second = Answering(3), Answering(3)
    try:
        gc.disable()
        seldom = first.run()
        gc.enable()
        gc.set_threshold(200, 1, 1)
        often = second.run()
    finally:
        gc.enable()
        gc.set_threshold(*before)
    assert (seldom, first.world.digest()) == (often, second.world.digest())


def test_a_seed_is_the_same_world_again(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Answering(3), Answering(3)
    assert (first.run(), first.world.digest()) == (second.run(), second.world.digest())
    assert main(["--processes", "--seeds", "1"]) == 0
    assert "questions: count" in capsys.readouterr().out
