"""Seeds: a few fresh ones, and every one that ever failed."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from entrepot.simulation.campaign import Result, replay, run, shrink
from entrepot.simulation.machine import FusedDisk, Parts

SEEDS = 80
REGRESSIONS = Path(__file__).with_name("regressions.txt")


class Regression(NamedTuple):
    seed: int
    keep: list[int] | None
    why: str


def regressions() -> list[Regression]:
    found: list[Regression] = []
    for line in REGRESSIONS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            seed, keep, why = line.split(maxsplit=2)
            found.append(Regression(int(seed), None if keep == "all" else [int(step) for step in keep.split(",")], why))
    return found


@pytest.mark.parametrize("regression", regressions(), ids=lambda one: str(one.seed))
def test_what_failed_once_passes(regression: Regression) -> None:
    result = run(regression.seed, keep=regression.keep)
    assert result.violations == (), f"seed {regression.seed} fails again; it stood for: {regression.why}"


@cache
def ten(first: int) -> list[Result]:
    return [run(seed) for seed in range(first, first + 10)]


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_seeds_keep_every_promise(first: int) -> None:
    failed = {seed: result.violations for seed, result in enumerate(ten(first), first) if result.failed}
    assert failed == {}, "look at one: python -m entrepot.simulation --seed S --trace trace.txt --shrink"


def test_the_worlds_exercise_what_they_are_for() -> None:
    # A simulator that quietly stops doing something proves nothing about it.
    totals: Counter[str] = Counter()
    for first in range(0, SEEDS, 10):
        for result in ten(first):
            totals.update(result.counts)
    for what in (
        "aborts",
        "batches committed",
        "batches published",
        "acks",
        "acks over CORE",
        "branches over CORE",
        "browses",
        "clean restart",
        "clock set",
        "commits",
        "compaction steps",
        "crash in a turn",
        "crash in recovery",
        "cut",
        "departures",
        "journal died",
        "decay",
        "decisions",
        "lease batches",
        "lease reads",
        "lease releases",
        "lease settlements",
        "message.dead-lettered",
        "message.dropped",
        "message.duplicate",
        "message.expired",
        "nacks",
        "publications",
        "rollbacks over CORE",
        "sends over CORE",
        "process deaths",
        "redeliveries",
        "sent again",
        "stages abandoned",
        "stood for",
        "torn tail",
    ):
        assert totals[what] > 0, f"{SEEDS} worlds without: {what}"


def test_a_replay_is_the_same_run() -> None:
    for seed in (3, 4, 5):
        assert replay(seed).trace == run(seed).trace
        assert replay(seed).lines


class HastyDisk(FusedDisk):
    """Says that a sync is done when it has only been asked for."""

    def sync(self, token: int) -> None:
        self.answers.soon(lambda: self.answers.events.synced(token))
        super().sync(-1)


def test_shrinking_keeps_the_failure_and_drops_steps() -> None:
    parts = Parts(disk=HastyDisk)
    seed = next(seed for seed in range(1, 100) if run(seed, parts=parts).failed)
    kept, result = shrink(seed, parts=parts, runs_max=30)
    assert result.failed
    assert len(kept) < result.steps
    assert run(seed, keep=kept, parts=parts).violations == result.violations


def test_a_large_commit_keeps_its_order_where_memory_is_full() -> None:
    assert run(314, keep=[1, 8, 9, 10, 11, 12, 13, 14, 18, 19, 20, 24, 25, 26]).violations == ()
