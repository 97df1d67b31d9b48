"""Nodes that host one another's copies, in the seeded world: every store has a place, and planted bugs are found."""

from __future__ import annotations

import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.hosted import PLANTED, Hosts

SEEDS = int(os.environ.get("HOSTED_SEEDS", "4"))

FOUND_BY = {
    "hosts nothing while it waits": 6,
    "a copy of nothing follows anybody": 0,
}
"""A seed that finds it soon; `HOSTED_SEEDS=100` looks for all of them."""


def test_each_store_has_a_place_and_each_message_comes_once() -> None:
    counts: dict[str, int] = {}
    for seed in range(1, SEEDS + 1):
        hosts = Hosts(seed)
        assert hosts.run() == [], f"seed {seed}"
        for what, count in hosts.world.counts.items():
            counts[what] = counts.get(what, 0) + count
    for what in (
        "confirmed: stored",
        "confirmed: settled",
        "copies read",
        "guests",
        "guests that serve",
        "kills",
        "partitions",
        "pauses",
        "power cuts",
        "stores emptied",
        "stores given back",
    ):
        assert counts.get(what, 0) > 0, f"no seed had any {what}"


@pytest.mark.parametrize("planted", FOUND_BY)
def test_a_planted_bug_is_found_and_its_seed_passes_without_it(planted: str) -> None:
    assert Hosts(FOUND_BY[planted], planted).run(), f"{planted!r} goes unnoticed"
    assert Hosts(FOUND_BY[planted]).run() == []


@pytest.mark.skipif(SEEDS < 100, reason="takes minutes: HOSTED_SEEDS=100 asks for it")
@pytest.mark.parametrize("planted", PLANTED)
def test_each_planted_bug_is_found(planted: str) -> None:
    assert any(Hosts(seed, planted).run() for seed in range(SEEDS)), f"{planted!r} goes unnoticed"


def test_a_seed_is_one_history() -> None:
    one, other = Hosts(3), Hosts(3)
    one.run()
    other.run()
    assert (one.world.events, one.world.digest(), one.world.counts) == (
        other.world.events,
        other.world.digest(),
        other.world.counts,
    )


def test_they_are_run_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hosted", "--seeds", "1"]) == 0
    assert "1 seeds in" in capsys.readouterr().out
