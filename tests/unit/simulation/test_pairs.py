"""Pairs in the seeded world: never two epochs acknowledging; and every planted bug is found."""

from __future__ import annotations

import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.pairs import PLANTED, Pair

SEEDS = int(os.environ.get("PAIR_SEEDS", "60"))
SEEDS_MAX = 300
FOUND = {  # what takes long to find, by a seed that is tried before all others
    "misses who came and went": 53,
    "nobody is no news": 56,
    "release first": 26,
    "takes a doubt for a yes": 296,
    "the owner is not named": 89,
}


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
    seeds = dict.fromkeys([FOUND.get(planted, 0), *range(SEEDS_MAX)])
    found = next((seed for seed in seeds if Pair(seed, planted).run()), None)
    assert found is not None, f"{planted!r} goes unnoticed"
    assert Pair(found).run() == [], f"seed {found} fails without the bug too"


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
