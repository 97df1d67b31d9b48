"""The kill harness, short; `make pipeline-soak ROUNDS=100` runs it long. ENTREPOT_SOAK_ROUNDS sets the rounds here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark.soak import Soak

ROUNDS = int(os.environ.get("ENTREPOT_SOAK_ROUNDS", "8"))


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    Soak(tmp_path, ROUNDS, seed=1).run()


@pytest.mark.timeout(600)
def test_the_harness_finds_a_source_that_settles_when_it_has_read(tmp_path: Path) -> None:
    soak = Soak(tmp_path, 3, seed=1, on_receipt=True)
    with pytest.raises(AssertionError, match=r"settled and gone|missing"):
        soak.run()
