"""The network drawn in a real browser: every kind of link, what it carries, by mouse and key, and 50 brokers."""

# ruff: noqa: E402 - what is imported below needs what may be absent

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")

from entrepot import blocking
from entrepot.config.console import ConsolePlace
from entrepot.console.access import Visitor
from entrepot.console.server import Console as Served
from entrepot.console.server import ConsoleOptions, serving
from entrepot.management.view import Glance, Sides, link_rates
from shell.drawn_networks import HOSTILE, Networked
from shell.test_console_pages import CHROMIUM, Visit
from unit.management.test_topology import bridge, glance

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH; Debian: apt install chromium")
MANY = 50


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Networked]:
    made = Networked(tmp_path_factory.mktemp("network"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def looks(kind: str) -> dict[str, Any]:
    size = {"width": 390, "height": 844} if kind == "narrow" else {"width": 1280, "height": 800}
    return {"color_scheme": "dark" if kind == "dark" else "light", "viewport": size}


def well(visit: Visit) -> None:
    """See that a page says nothing wrong, holds what it shows, and has nothing serious for axe."""
    wide = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"it scrolls sideways by {wide} px"
    assert visit.serious() == []
    assert visit.errors == []


@pytest.mark.timeout(300)
def test_a_line_is_followed_by_key_to_what_it_carries(browser: Any, network: Networked) -> None:
    with blocking.connect(network.tcp["edge"]) as far, far.session() as session:
        session.consumer("queue://orders")
        visit = Visit(browser, network, **looks("light"))
        page = visit.go("/network")
        line = page.get_by_role("link", name=f"{HOSTILE} and a: open")
        line.first.wait_for(state="attached", timeout=60_000)
        told = page.locator("svg.map").inner_html()
        assert all(zone in told for zone in (">ams<", ">fra<", ">zone not told<")), told
        with (
            blocking.connect(network.tcp["a"]) as near,
            near.session() as sending,
            sending.producer("queue://orders") as to,
        ):
            page.locator("svg.map a", has_text=f"{HOSTILE} and a").focus()
            label = ""
            for number in range(200):
                for _ in range(20):
                    to.send(f"order {number}")
                label = str(page.evaluate("document.activeElement.getAttribute('aria-label')"))
                if f"messages a second to {HOSTILE}" in label and f" 0 messages a second to {HOSTILE}" not in label:
                    break
                page.wait_for_timeout(100)
            assert "messages a second" in label  # the focus stayed on the line while the picture renewed itself
            page.wait_for_function(
                "[...document.querySelectorAll('text.rate')].some(t => /\\d\\/s/.test(t.textContent))"
            )
            visit.shoot("network-rates")
            well(visit)
            page.keyboard.press("Enter")
            page.wait_for_url("**/link?**")
        assert page.locator("h1").inner_text() == f"{HOSTILE} and a"
        page.get_by_role("row").filter(has_text="orders").filter(has_text="to-a").first.wait_for()
        visit.shoot("link")
        well(visit)
        visit.context.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["light", "dark", "narrow"])
def test_every_kind_of_link_is_drawn_and_told(kind: str, browser: Any, network: Networked) -> None:
    with blocking.connect(network.tcp["a"]) as near, near.session() as session, session.producer("queue://out") as out:
        out.send("goes over the core bridge")
    visit = Visit(browser, network, **looks(kind))
    page = visit.go("/network")
    page.locator("svg.map a.bad", has_text="gone: waiting").wait_for(state="attached", timeout=60_000)
    visit.shoot(f"{kind}-network-links")
    well(visit)
    page.get_by_role("link", name="a and b: open").first.click()
    page.wait_for_url("**/link?from=a&to=b")
    told = page.locator("main").inner_text()
    for word in (
        "AMQP broker connection",
        "cluster connection",
        "core bridge",
        "federation, upstream",
        "carry",
        "shared",
    ):
        assert word in told, told
    assert "Queues of b that a knows" in told
    visit.shoot(f"{kind}-link")
    well(visit)
    visit.context.close()


def test_a_link_that_nobody_knows_is_a_mistake_in_words(browser: Any, network: Networked) -> None:
    visit = Visit(browser, network, **looks("light"))
    answer = visit.page.goto("/link?from=%3Cscript%3E&to=b")
    assert answer.status == 400
    assert "no link between '<script>' and 'b' is known" in visit.page.get_by_role("alert").inner_text()
    visit.context.close()


class Many:
    """A console whose brokers are told: 50, each joined to seven others, and one link is ill."""

    def __init__(self) -> None:
        self.url = ""
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        self.at = 0.0
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self._serve(),), daemon=True)
        self.thread.start()
        assert self.ready.wait(30)

    def glances(self) -> dict[str, Glance]:
        self.at += 3.0
        return {
            name: glance(
                name,
                *(
                    bridge(f"broker-{(at + step * step) % MANY}", int(self.at * (at + step) * 7), canary_us=at * 100)
                    for step in range(1, 8)
                ),
                at=self.at,
                zone=("ams", "fra", "lon", "")[at % 4],
            )
            for at, name in enumerate(f"broker-{at}" for at in range(MANY))
        }

    async def _serve(self) -> None:
        brokers = {f"broker-{at}": f"tcp://b{at}.example:61616" for at in range(MANY)}
        options = ConsoleOptions(brokers, places=(ConsolePlace(host="127.0.0.1", port=0),))
        async with serving(options) as console:
            self._tell(console)
            self.url = console.url
            self.ready.set()
            await self.over.wait()

    def _tell(self, console: Served) -> None:
        before = self.glances()

        class Told:
            def __init__(self, moved: object) -> None:
                self.moved = moved

        moved: dict[str, object] = {}

        async def glances(user: str, password: str) -> Sides[Glance]:
            nonlocal before
            now = self.glances()
            now["broker-3"].bridges[0] |= {"state": "waiting", "error": "refused"}
            moved.update({name: link_rates(before[name], view) for name, view in now.items()})
            before = now
            return Sides(now, {})

        async def of(name: str, user: str, password: str) -> Told:
            return Told(moved[name])

        async def visitor(request: object) -> Visitor:
            return Visitor("", "")

        console.watches.glances = glances  # type: ignore[assignment]
        console.watches.of = of  # type: ignore[assignment]
        console.gate.visitor = visitor  # type: ignore[method-assign,assignment]

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(30)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["light", "narrow"])
def test_fifty_brokers_are_drawn_live_and_reached_by_key(kind: str, browser: Any) -> None:
    many = Many()
    try:
        visit = Visit(browser, many, **looks(kind))
        page = visit.go("/network")
        assert page.locator("svg.map circle").count() == MANY
        lines = page.locator("svg.map a")
        assert lines.count() == 275  # some of the seven are one another's
        assert page.locator("svg.map a.bad").count() == 1
        visit.shoot(f"{kind}-network-50")
        well(visit)
        began = page.evaluate("performance.now()")
        page.evaluate("htmx.trigger('#live', 'every')")
        with page.expect_response("**/network", timeout=20_000):
            pass
        assert page.evaluate("performance.now()") - began < 10_000
        lines.first.focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('svg') !== null")
        page.keyboard.press("Enter")
        page.wait_for_url("**/link?**")
        visit.context.close()
    finally:
        many.stop()
