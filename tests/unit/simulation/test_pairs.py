"""Pairs in the seeded world: never two epochs acknowledging; and every planted bug is found."""

from __future__ import annotations

import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.pairs import PLANTED, Pair

SEEDS = int(os.environ.get("PAIR_SEEDS", "60"))


@pytest.mark.parametrize("block", range(4))
def test_never_two_epochs_acknowledge(block: int) -> None:
    counts: dict[str, int] = {}
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        pair = Pair(seed)
        assert pair.run() == [], f"seed {seed}"
        for what, count in pair.world.counts.items():
            counts[what] = counts.get(what, 0) + count
    for what in (
        "acknowledged",
        "clients told who waits",
        "crashes",
        "given back",
        "hangs",
        "late writes",
        "leases lost",
        "locks deleted",
        "masters",
        "pauses",
        "stops",
    ):
        assert counts.get(what, 0) > 0, f"no seed of this block had any {what}"


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_found(planted: str) -> None:
    assert any(Pair(seed, planted).run() for seed in range(300)), f"{planted!r} goes unnoticed"


def test_a_seed_is_one_history() -> None:
    one, other = Pair(5), Pair(5)
    one.run()
    other.run()
    assert (one.world.events, one.world.counts) == (other.world.events, other.world.counts)


def test_they_are_run_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "--seeds", "3"]) == 0
    told = capsys.readouterr().out
    assert "3 seeds in" in told
    assert "acknowledged" in told
    assert main(["--pairs", "--seed", "2"]) == 0
    with pytest.raises(SystemExit):
        main(["--pairs", "--seed", "2", "--shrink"])
    assert "this has none" in capsys.readouterr().err
