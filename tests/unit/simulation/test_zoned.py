"""Two zones of three brokers with 300 clients: nobody abroad, everybody spread, nobody moved in vain."""

from __future__ import annotations

import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.zoned import PLANTED, Region

SEEDS = int(os.environ.get("ZONE_SEEDS", "4"))
SEEDS_MAX = 20  # in which a planted bug is found


def test_clients_stay_in_their_zone_and_are_spread_and_not_moved_in_vain() -> None:
    counts: dict[str, int] = {}
    for seed in range(1, SEEDS + 1):
        region = Region(seed)
        assert region.run() == [], f"seed {seed}"
        for what, count in region.world.counts.items():
            counts[what] = counts.get(what, 0) + count
    for what in ("connections", "moves", "kills", "stops", "starts", "cuts", "zones lost"):
        assert counts.get(what, 0) > 0, f"no seed had any {what}"


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_found(planted: str) -> None:
    assert any(Region(seed, planted).run() for seed in range(1, SEEDS_MAX + 1)), f"{planted!r} goes unnoticed"


def test_a_seed_is_one_history_from_the_command_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--zones", "--seed", "2"]) == 0
    first = capsys.readouterr().out
    assert main(["--zones", "--seed", "2"]) == 0
    assert capsys.readouterr().out == first
