"""A loss is final: what fails for another reason is tried again, a broken promise is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from promises import PromiseBroken, never

TESTS = Path(__file__).parents[1]
FAILING = """\
from pathlib import Path
from promises import never

def tried(name):
    with Path(name).open("a") as log:
        log.write("x")

def test_late():
    tried("late")
    assert False, "late"

def test_lost():
    tried("lost")
    with never():
        assert not {7}, "7 is lost"
"""


def test_words_stay() -> None:
    with pytest.raises(PromiseBroken, match="7 is lost"), never():
        assert not {7}, "7 is lost"


def test_nothing_else_is_changed() -> None:
    with pytest.raises(TimeoutError), never():
        raise TimeoutError


@pytest.mark.parametrize("folder", ["interop", "shell", "spark"])
def test_a_loss_is_found_in_one_try_and_what_is_late_in_three(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("pytest_rerunfailures")
    place = tmp_path / "tests" / folder
    place.mkdir(parents=True)
    shutil.copy2(TESTS / "conftest.py", tmp_path / "tests")
    shutil.copy2(TESTS / "promises.py", tmp_path / "tests")
    (tmp_path / "tests" / "__init__.py").touch()
    (place / "test_made.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = tests\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib", "tests"]
    environment = {**os.environ, "ENTREPOT_DELAY_OF_TRIES_S": "0"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    tries = {name: (tmp_path / name).read_text() for name in ("late", "lost")}
    assert tries == {"late": "xxx", "lost": "x"}, done.stdout + done.stderr
