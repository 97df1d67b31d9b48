"""A short form of ``make console-soak``: ten pages live in a browser, nothing grows, and what does grow is found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("playwright.sync_api")

from shell.console_soak import LIMITS, grown, soak
from shell.live_pages import CHROMIUM

LEAK = """
window.kept = [];
document.addEventListener("htmx:beforeSwap", function () {
  for (var n = 0; n < 2000; n++) { window.kept.push(document.createElement("p")); }
});
"""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH; Debian: apt install chromium")


@pytest.mark.timeout(600)
def test_ten_pages_live_and_nothing_grows(tmp_path: Path) -> None:
    told: list[str] = []
    assert soak(tmp_path, 25, say=told.append) == [], told


@pytest.mark.timeout(600)
def test_a_page_that_keeps_what_it_replaces_is_found(tmp_path: Path) -> None:
    told: list[str] = []
    wrong = soak(tmp_path, 25, script=LEAK, say=told.append)
    assert any(one.startswith("nodes grew") for one in wrong), (wrong, told)


@pytest.mark.parametrize("what", LIMITS)
def test_growth_is_that_of_the_last_third_over_the_second(what: str) -> None:
    limit = LIMITS[what]
    filled = [Counter({what: min(number, 10) * limit}) for number in range(30)]
    growing = [Counter({what: number * limit // 5}) for number in range(30)]
    assert grown(filled, print) == []
    (said,) = grown(growing, print)
    assert said.startswith(f"{what} grew by ")
