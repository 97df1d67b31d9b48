"""Pages of a console that stay open in a real browser, and what they weigh: for the soak and for the bench."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PLACES: Final = (
    "/",
    "/queues",
    "/queues?sort=name&down=0",
    "/topics",
    "/queue?name={queue}",
    "/connections",
    "/network",
    "/letters",
    "/store",
    "/ha",
)
"""Ten pages that live; ``{queue}`` is the name of a queue."""

COUNT: Final = """
window.swaps = 0;
document.addEventListener("htmx:afterSwap", function () { window.swaps += 1; });
document.addEventListener("htmx:responseError", function () { window.failed = (window.failed || 0) + 1; });
document.addEventListener("htmx:sendError", function () { window.failed = (window.failed || 0) + 1; });
"""
WEIGHED: Final = {"JSHeapUsedSize": "heap", "Nodes": "nodes", "JSEventListeners": "listeners"}


class LivePages:
    """A browser with some pages; `open` and `close` them as often as wanted.

    ``script``: run on each page before its own, as a planted bug is.
    """

    def __init__(self, url: str, queue: str, places: Sequence[str] = PLACES, *, script: str = "") -> None:
        self.errors: Final[list[str]] = []
        self._url: Final = url
        self._places: Final = [place.format(queue=queue) for place in places]
        self._script: Final = script
        self._stack: Final = ExitStack()
        self._pages: list[Any] = []
        self._meters: list[Any] = []

    def __enter__(self) -> Self:
        from playwright.sync_api import sync_playwright  # an extra: who has it not skips

        driver = self._stack.enter_context(sync_playwright())
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        self._stack.callback(browser.close)
        context = browser.new_context(base_url=self._url)
        context.add_init_script(COUNT + self._script)
        for _ in self._places:
            page = context.new_page()
            page.on("pageerror", lambda error: self.errors.append(str(error)))
            self._pages.append(page)
            self._meters.append(context.new_cdp_session(page))
            self._meters[-1].send("Performance.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self) -> None:
        """Show the pages; each has what it asks for when this returns."""
        for page, place in zip(self._pages, self._places, strict=True):
            answer = page.goto(place)
            assert answer.status == 200, (place, answer.status, page.content()[:2000])

    def close(self) -> None:
        """Leave the pages; the browser stays."""
        for page in self._pages:
            page.goto("about:blank")

    def swaps(self) -> dict[str, int]:
        """Return how often each page has renewed itself since it was opened."""
        return {place: page.evaluate("window.swaps") for place, page in zip(self._places, self._pages, strict=True)}

    def failed(self) -> int:
        """Return how often a page asked and had no answer."""
        return sum(page.evaluate("window.failed || 0") for page in self._pages)

    def weigh(self) -> Counter[str]:
        """Return octets of heap, nodes and listeners of all pages together, without what is garbage."""
        told: Counter[str] = Counter()
        for meter in self._meters:
            meter.send("HeapProfiler.collectGarbage")
            for one in meter.send("Performance.getMetrics")["metrics"]:
                if one["name"] in WEIGHED:
                    told[WEIGHED[one["name"]]] += int(one["value"])
        return told

    def wait(self, seconds: float) -> None:
        """Let the pages live."""
        self._pages[0].wait_for_timeout(seconds * 1000)
