"""The pages about what Artemis shows and tests name tests and features that there are."""

from __future__ import annotations

import re
from typing import Final

import pytest

from guides import ROOT

PAGE: Final = ROOT / "docs" / "artemis-examples.md"
CLUSTERS: Final = ROOT / "docs" / "artemis-cluster-tests.md"
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| Example")
]
FEATURES: Final = {
    name
    for source in (ROOT / "tests/interop/java/core").glob("*.java")
    for name in re.findall(r'features\.put\("(\w+)"', source.read_text())
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].partition(",")[0])
def test_what_is_named_is_there_and_nothing_is_left_unsaid(row: list[str]) -> None:
    example, shown, remark = row
    assert example
    assert shown or remark, "neither a test nor a word about why"
    for word in re.findall(r"`([^`]+)`", shown):
        if word.startswith("tests/"):
            assert_exists(word)
        else:
            assert word in FEATURES, word


def test_what_artemis_tests_about_clusters_is_shown_by_tests_that_there_are() -> None:
    rows = [line.strip("|").split("|") for line in CLUSTERS.read_text().splitlines() if line.startswith("| ")]
    named = [
        re.findall(r"`(tests/[^`]+)`", shown)
        for _, shown in rows
        if shown.strip() not in ("Shown by", "Ours", "Said by")
    ]
    assert len(named) > 50
    assert all(named), "a row without a test"
    for word in {word for words in named for word in words}:
        assert_exists(word)


def assert_exists(test: str) -> None:
    """Find a test that is named as FILE::NAME."""
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text()
    assert not name or f"def {name}(" in text, test
