"""The fuzz runner finds what it should, and forgives what a peer may cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.base.compiled import is_compiled
from fuzz import run as runner

pytestmark = pytest.mark.skipif(is_compiled(), reason="fuzzing watches lines of the plain build")

REFUSES = "from entrepot.base.errors import MalformedFrame\ndef fuzz(data):\n    raise MalformedFrame('always')\n"
FAULTS = "from entrepot.base.errors import Fault\ndef fuzz(data):\n    raise Fault('ours')\n"
RARE = (
    "def fuzz(data):\n    if len(data) > 2 and data[0] == 0xFF and data[1] != 0xFF:\n        raise KeyError('rare')\n"
)


def outcome(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.5) -> bool:
    monkeypatch.setattr(runner, "FINDINGS", folder / "findings")
    target = folder / "fuzz_planted.py"
    target.write_text(text)
    return runner.run(target, seconds=seconds, seed=1)


def test_what_a_peer_may_cause_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(tmp_path, REFUSES, monkeypatch)


@pytest.mark.parametrize("text", [FAULTS, RARE])
def test_anything_else_is_one_and_its_input_is_kept(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not outcome(tmp_path, text, monkeypatch, seconds=30), "it ends when it has found one, on a slow machine too"
    assert len(list((tmp_path / "findings").iterdir())) == 1


def test_mutation_is_a_function_of_the_seed() -> None:
    corpus, words = [b"SEND\n\n\0", b""], runner.words()
    first, second = (
        [runner.mutated(runner.random.Random(seed), corpus, words) for seed in range(50)] for _ in range(2)
    )
    assert first == second
    assert len(set(first)) > 25
