"""The kill harness, short; `make pipeline-soak ROUNDS=100 MODE=pair` runs it long.

ENTREPOT_SOAK_ROUNDS sets the rounds here, ENTREPOT_SOAK_MODES which brokers are behind the queries (all of
`soak.MODES`, or some): each starts several sessions of Spark, so CI has the first alone.
"""

from __future__ import annotations

import os
from pathlib import Path

import artemis
import classic
import pytest

from spark.soak import MODES, Soak

ROUNDS = int(os.environ.get("ENTREPOT_SOAK_ROUNDS", "8"))
ASKED = os.environ.get("ENTREPOT_SOAK_MODES", "").replace("all", ",".join(MODES)).split(",")
UNAVAILABLE = {"classic": classic.unavailable, "artemis": artemis.unavailable, "land-artemis": artemis.unavailable}
EARLY = [(mode, "source") for mode in MODES] + [("classic", "hop"), ("artemis", "hop")]


def needs(mode: str) -> None:
    """Skip what was not asked for, or cannot run."""
    if mode != "alone" and mode not in ASKED:
        pytest.skip("minutes: ENTREPOT_SOAK_MODES says which")
    why = UNAVAILABLE.get(mode, str)()
    if why:
        pytest.skip(why)


@pytest.mark.timeout(1_200 + 120 * ROUNDS)
@pytest.mark.parametrize("mode", MODES)
def test_kills_lose_nothing_and_double_nothing(tmp_path: Path, mode: str) -> None:
    needs(mode)
    Soak(tmp_path, ROUNDS, seed=1, mode=mode, say=print).run()


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("mode", "early"), EARLY)
def test_the_harness_finds_who_settles_before_the_result_is_safe(tmp_path: Path, mode: str, early: str) -> None:
    needs(mode)
    soak = Soak(tmp_path, 3 if mode == "alone" else 9, seed=1, mode=mode, early=early, say=print)
    with pytest.raises(AssertionError, match=r"settled and gone|missing"):
        soak.run()
