"""A short storm over each network, and that the reckoning names what is missing. `make chaos` runs long ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shell.chaos import SHAPES, Storm

SECONDS = 8.0
PATIENCE = 15.0


class Forged(Storm):
    """A storm with promises that nobody keeps, and a message that nobody sent."""

    async def rage(self, seconds: float) -> None:
        await super().rage(seconds)
        self.ledger.promised["never-sent"] = "chaos.a"
        self.ledger.took("out-of-nowhere", redelivered=False)


@pytest.mark.flaky(reruns=0)  # what is lost once is lost
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_lost_in_a_storm(shape: str, tmp_path: Path) -> None:
    storm = Storm(tmp_path, shape, seed=len(shape))
    assert asyncio.run(storm.run(SECONDS)) == [], storm.figures()
    assert len(storm.ledger.promised) > 100
    assert sum(storm.befell.values()) > 2


def test_what_is_lost_is_named(tmp_path: Path) -> None:
    storm = Forged(tmp_path, "ring", audit="on", seed=1)
    storm.patience = PATIENCE
    wrong = asyncio.run(storm.run(1.0))
    assert wrong == ["1 lost: never-sent", "1 never sent: out-of-nowhere"]
