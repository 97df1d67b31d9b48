"""jolokia.js and its simple form, in node and in Chromium, ask ours and a real broker of each family the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")

import artemis
import classic
import jolokias
import npm
from classic import NEWER
from java_clients import run

LIBRARIES: Final = ("jolokia.js@2.6.0", "@jolokia.js/simple@2.6.0")
SOURCE: Final = Path(__file__).parent / "js" / "asks.mjs"
CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or ""
QUESTIONS: Final = 25
PAGE: Final = """<!doctype html><title>asks</title><script type="importmap">{"imports": {
"jolokia.js": "/asks/jolokia.js/dist/jolokia.mjs",
"@jolokia.js/simple": "/asks/@jolokia.js/simple/dist/jolokia-simple.mjs"
}}</script><script type="module">import { asks } from "/asks/asks.mjs"; window.asks = asks</script>"""

pytestmark = pytest.mark.skipif(
    bool(artemis.unavailable() or classic.unavailable(NEWER)), reason="no Artemis, or no Maven repository that has one"
)

Told = dict[str, Any]


def by_node(place: str, family: str, home: Path) -> Told:
    """Return what is told in node."""
    shown: Told = json.loads(run(["node", str(home / SOURCE.name), place, *jolokias.USER, family]))
    return shown


def by_chromium(place: str, family: str, home: Path) -> Told:
    """Return what is told in a page that the broker itself might have given: its origin is that of ``place``."""
    from playwright.sync_api import sync_playwright

    origin = "{0.scheme}://{0.netloc}".format(urlsplit(place))

    def give(route: Any) -> None:
        name = urlsplit(route.request.url).path.removeprefix("/asks/")
        if not name:
            route.fulfill(body=PAGE, content_type="text/html")
            return
        file = home / name if name == SOURCE.name else home / "node_modules" / name
        route.fulfill(body=file.read_text(), content_type="text/javascript")

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            # Chromium asks a person for a name after a 401, and nobody sits here: it gets one that leads nowhere, once.
            page = browser.new_page(http_credentials={"username": "nobody", "password": "at all"})
            page.route(f"{origin}/asks/**", give)
            page.goto(f"{origin}/asks/")
            page.wait_for_function("typeof window.asks == 'function'")
            shown: Told = page.evaluate("given => window.asks(...given)", [place, *jolokias.USER, family])
            return shown
        finally:
            browser.close()


def programs(home: Path) -> dict[str, Callable[[str, str, Path], Told]]:
    """Return what can ask here, with its files in ``home``."""
    try:
        npm.link(home, *LIBRARIES)
    except npm.Unavailable as why:
        pytest.skip(str(why))
    shutil.copy(SOURCE, home / SOURCE.name)
    found: dict[str, Callable[[str, str, Path], Told]] = {"node": by_node}
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return found
    return {**found, "chromium": by_chromium} if CHROMIUM else found


@pytest.mark.parametrize("family", jolokias.FAMILIES)
def test_jolokia_js_sees_what_a_real_broker_shows(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = programs(tmp_path)

    def told(place: str) -> dict[str, Told]:
        return {name: ask(place.rstrip("/"), family, tmp_path) for name, ask in asking.items()}

    with (
        jolokias.own(family, tmp_path / "ours", authenticated=True) as (place, url),
        jolokias.talking(url, *jolokias.USER),
    ):
        ours = told(place)
    with (
        jolokias.real(family, tmp_path / "real", monkeypatch, authenticated=True) as (place, url),
        jolokias.talking(url, *jolokias.USER),
    ):
        real = told(place)
    for name in asking:
        assert len(real[name]) == QUESTIONS
        assert real[name]["polled twice"] == [3, 3]
        assert "refused no answer" not in real[name].values()
        assert ours[name] == real[name]
