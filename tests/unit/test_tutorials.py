"""The tutorials of docs/tutorials are followed, step by step, on a copy of the source.

A block of Python is a new file, a block of ``diff`` changes one; the line before it ends with the file's name. The
unchanged lines of a diff say where: they stand in the file once. ``@@`` is between two places. Then come the tests that
the page has ``make test-plain`` run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from guides import ROOT, blocks

PAGES: Final = ("docs/tutorials/checker.md", "docs/tutorials/protocol.md", "docs/tutorials/setting.md")
STEP: Final = re.compile(
    r"`(?P<path>[\w/.]+)`:\n\n<!-- run by \S+ -->\n```(?P<language>python|diff)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN: Final = re.compile(r'make test-plain ARGS="([^"]+)"')
COPIED: Final = ("src", "tests", "docs", "tools", "pyproject.toml", "ARCHITECTURE.md", "CONTRIBUTING.md", "README.md")
LEFT_OUT: Final = shutil.ignore_patterns("*.so", "__pycache__", "vectors", "interop", "spark", "shell")


class Step(NamedTuple):
    """One change of one file."""

    path: str
    language: str
    text: str


def steps(text: str) -> list[Step]:
    """Return the steps of a page, in their order."""
    return [Step(*found.groups()) for found in STEP.finditer(text)]


def changed(before: str, diff: str) -> str:
    """Return ``before`` with the changes of ``diff``. Raises AssertionError where it does not fit in one place."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        found = len(re.findall(f"(?=\n{re.escape(old)})", f"\n{before}"))
        assert found == 1, f"these lines are there {found} times:\n{old}"
        before = f"\n{before}".replace(f"\n{old}", f"\n{new}")[1:]
    return before


def follow(page: str, tree: Path) -> None:
    """Do the steps of a page in the tree."""
    for step in steps((ROOT / page).read_text(encoding="utf-8")):
        file = tree / step.path
        if step.language == "diff":
            file.write_text(changed(file.read_text(encoding="utf-8"), step.text), encoding="utf-8")
        else:
            assert not file.exists(), f"{step.path} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text, encoding="utf-8")


@pytest.mark.timeout(400)  # pytest itself is started, several times
@pytest.mark.parametrize("page", PAGES)
def test_the_steps_lead_to_what_the_page_says(page: str, tmp_path: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=LEFT_OUT)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    follow(page, tmp_path)
    asked = RUN.findall((ROOT / page).read_text(encoding="utf-8"))
    assert asked
    for words in asked:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *words.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{tmp_path}/src:{tmp_path}/tests", "ENTREPOT_EXPECT_BUILD": "plain"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_that_is_marked_is_a_step(page: str) -> None:
    marked = [block for block in blocks(page, "python", "diff") if block.elsewhere == "tests/unit/test_tutorials.py"]
    assert [step.text for step in steps((ROOT / page).read_text(encoding="utf-8"))] == [block.text for block in marked]
    assert marked


def test_a_diff_that_does_not_fit_is_found() -> None:
    assert changed("a\nb\n", " a\n+c\n-b\n") == "a\nc\n"
    with pytest.raises(AssertionError, match="0 times"):
        changed("a\nb\n", " c\n+d\n")
    with pytest.raises(AssertionError, match="2 times"):
        changed("a\na\n", " a\n+d\n")
