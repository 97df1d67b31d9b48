"""Every section of docs/behaviour that source and tests cite is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CITED = re.compile(r"\b(classic|artemis|spark)\.md ((?:\d+(?:\.\d+)*)(?:(?:, | and | to )\d+(?:\.\d+)*)*)")
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)*)\b", re.MULTILINE)
PLACES = ("src", "tests", "docs/decisions", "tools")


def sections(page: str) -> set[str]:
    return set(HEADING.findall((ROOT / "docs/behaviour" / f"{page}.md").read_text(encoding="utf-8")))


def cited() -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix in (".py", ".md", ".txt", ".java") and path != Path(__file__):
                text = re.sub(r"\s+(#\s+)?", " ", path.read_text(encoding="utf-8"))
                for page, numbers in CITED.findall(text):
                    for number in re.findall(r"\d+(?:\.\d+)*", numbers):
                        found.setdefault((page, number), []).append(str(path.relative_to(ROOT)))
    return found


def test_every_section_that_is_cited_is_there() -> None:
    known = {page: sections(page) for page in ("classic", "artemis", "spark")}
    lost = {f"{page}.md {number}": files for (page, number), files in cited().items() if number not in known[page]}
    assert lost == {}


def test_there_are_citations_and_sections() -> None:
    assert len(cited()) > 50
    assert {"1.8", "4.16", "8.2"} <= sections("classic")
