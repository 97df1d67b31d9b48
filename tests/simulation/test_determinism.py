"""The same seed is the same trace, byte for byte: under another string hash, and in the other build."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.simulation.__main__ import main

SOURCE = Path(__file__).resolve().parents[2] / "src"
SEEDS = "12"  # the plain build takes seconds for each
NETWORKS = ("--networks", "--seeds", "6")


@cache
def hashes(hash_seed: str, root: str, *more: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root}
    command = [sys.executable, "-m", "entrepot.simulation", "--seeds", SEEDS, "--first", "500", "--hashes", *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if line[:1].isdigit() and len(line.split()) == 2]


def test_the_hash_of_strings_does_not_matter() -> None:
    here = os.environ["PYTHONPATH"]
    first, second = hashes("1", here), hashes("2", here)
    assert len(first) == int(SEEDS)
    assert first == second


def test_the_hash_of_strings_does_not_matter_for_networks() -> None:
    here = os.environ["PYTHONPATH"]
    first, second = hashes("1", here, *NETWORKS), hashes("2", here, *NETWORKS)
    assert len(first) == int(NETWORKS[-1])
    assert first == second


@pytest.mark.skipif(not is_compiled(), reason="the plain build: the compiled run compares itself with it")
def test_the_compiled_build_does_the_same_as_the_plain_one() -> None:
    assert hashes("1", os.environ["PYTHONPATH"]) == hashes("3", str(SOURCE))


def test_the_command_line_replays_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.txt"
    assert main(["--seed", "7", "--trace", str(trace)]) == 0
    assert "seed 7: trace" in capsys.readouterr().out
    assert "step " in trace.read_text()
    assert main(["--seeds", "3"]) == 0
    assert "3 seeds in" in capsys.readouterr().out
    assert main(["--seed", "7", "--keep", ""]) == 0
