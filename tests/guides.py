"""The quoted blocks of README.md and docs/: what they are, and how they are tried.

Every block is tried by default. Python runs as a program of its own; lines of `sh` and `console` run in a shell, with
the brokers of the page; `xml` is read as the broker reads it; `toml` and `json` are parsed. Commands quoted in `text`
are read by the command line, and not run. A comment on the line before a block says otherwise, unseen by readers::

    <!-- not run: why -->                      parsed only; tests/unit/test_guides.py has a list, which may only shrink
    <!-- run by tests/spark/test_guide.py -->  a test that knows more does it, and takes the block with `blocks`
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
GENERATED: Final = ROOT / "docs" / "reference"  # compared with the source by tools/generated_pages.py
FENCE: Final = re.compile(r"^```(?P<language>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER: Final = re.compile(r"<!-- (not run: .+|run by \S+) -->\n\Z")
SHELL: Final = ("sh", "console")


class Block(NamedTuple):
    """One quoted block. ``page`` is relative to the checkout, ``line`` that of its fence, ``marker`` "" or as above."""

    page: str
    line: int
    language: str
    text: str
    marker: str

    @property
    def name(self) -> str:
        """Return the page and the first line that says something: it outlives edits elsewhere on the page."""
        first = next((line.strip() for line in self.text.splitlines() if line.strip()), "")
        return f"{self.page}: {' '.join(first.split())[:60]}"

    @property
    def elsewhere(self) -> str:
        """Return which test file runs it, "" for none in particular."""
        return self.marker.removeprefix("run by ") if self.marker.startswith("run by ") else ""

    @property
    def runs(self) -> bool:
        """Return whether it is tried like any other block."""
        return not self.marker

    def script(self) -> str:
        """Return the lines to run: of a console those after the prompt."""
        if self.language != "console" and "$ " not in self.text:
            return self.text
        return "".join(f"{line[2:]}\n" for line in self.text.splitlines() if line.startswith("$ "))


def pages() -> list[str]:
    """Return all pages that people wrote and readers are sent to."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bench" / "README.md"]
    found += sorted(path for path in (ROOT / "docs").rglob("*.md") if GENERATED not in path.parents)
    return [path.relative_to(ROOT).as_posix() for path in found]


def blocks(page: str, *languages: str) -> list[Block]:
    """Return the blocks of ``page``, those in ``languages`` if any are given."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        marked = MARKER.search(text, 0, fence.start())
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(page, line, fence["language"], fence["text"], marked[1] if marked else ""))
    return [block for block in found if not languages or block.language in languages]


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages."""
    return [block for page in pages() for block in blocks(page, *languages)]
