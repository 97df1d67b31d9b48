"""docs/artemis-examples.md names tests and features that there are."""

from __future__ import annotations

import re
from typing import Final

import pytest

from guides import ROOT

PAGE: Final = ROOT / "docs" / "artemis-examples.md"
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
        if not word.startswith("tests/"):
            assert word in FEATURES, word
            continue
        file, _, test = word.partition("::")
        text = (ROOT / file).read_text()
        assert not test or f"def {test}(" in text, word
