"""The pages in a real browser: each one, each action, in light, dark and narrow, looked at by axe."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")

from shell.consoles import Console, until  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
AXE = Path(importlib.util.find_spec("axe_playwright_python").origin).parent / "axe.min.js"  # type: ignore[union-attr,arg-type]
ODD = "<img src=x onerror=alert(1)>\"'&{{7*7}}"
PAGES = (
    "/",
    "/queues",
    "/topics",
    "/subscriptions",
    "/virtual",
    "/letters",
    "/connections",
    "/network",
    "/explain?name=orders",
    "/where?id=none",
    "/schedule",
    "/broker",
    "/store",
    "/ha",
    "/rights?user=nobody&address=orders",
    "/configuration?q=memory",
    "/drift",
)
SHOTS = os.environ.get("ENTREPOT_SHOTS", "")  # where pictures are kept for people to look at

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH; Debian: apt install chromium")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    made = Console(tmp_path_factory.mktemp("pages"))
    made.do("send", "/queue/orders", "-H", "region=eu", given='{"order": 7, "items": ["tea", "coffee"]}\nplain words\n')
    made.do("send", "/queue/orders", given=ODD + "\n")
    made.ask(f"/api/message/{quote(ODD, safe='')}?type=queue&{quote(ODD)}={quote(ODD)}", body=ODD)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Visit:
    """A page of the browser, and all that went wrong on it."""

    def __init__(self, browser: Any, console: Console, **options: Any) -> None:
        self.console = console
        self.context = browser.new_context(base_url=console.url, **options)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on(
            "console", lambda told: self.errors.append(told.text) if told.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.errors.append("a dialog: " + dialog.message), dialog.dismiss()))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.console.url, "data:")):
            self.errors.append("asked elsewhere: " + request.url)

    def go(self, place: str) -> Any:
        answer = self.page.goto(place)
        assert answer.status == 200, (place, answer.status, self.page.content()[:2000])
        return self.page

    def shoot(self, name: str) -> None:
        if SHOTS:
            self.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)

    def serious(self) -> list[str]:
        """Return what axe finds that is serious."""
        each = "v => [v.impact, v.id, v.nodes.map(n => n.html).slice(0, 3)]"
        run = f"async () => JSON.stringify((await axe.run()).violations.map({each}))"
        self.page.evaluate(AXE.read_text())
        found = json.loads(self.page.evaluate(run))
        return [str(one) for one in found if one[0] in ("serious", "critical")]


@pytest.fixture(params=["light", "dark", "narrow"])
def visit(request: pytest.FixtureRequest, browser: Any, console: Console) -> Iterator[Visit]:
    size = {"width": 390, "height": 844} if request.param == "narrow" else {"width": 1280, "height": 800}
    made = Visit(
        browser, console, color_scheme="dark" if request.param == "dark" else "light", viewport=size, bypass_csp=False
    )
    made.kind = request.param  # type: ignore[attr-defined]
    yield made
    made.context.close()


def test_every_page_is_shown_and_nothing_serious_is_wrong_with_it(visit: Visit) -> None:
    kind = visit.kind  # type: ignore[attr-defined]
    odd = f"/queue?name={quote(ODD.partition('?')[0])}"
    found = visit.console.ask(odd)
    places = [*PAGES, "/queue?name=orders", *([odd] if found.status == 200 else [])]
    bad: list[tuple[str, str]] = []
    for place in places:
        page = visit.go(place)
        assert page.locator("h1").count() == 1
        visit.shoot(f"{kind}-{place.strip('/').partition('?')[0] or 'overview'}")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{place} scrolls sideways by {wide} px"
        bad += [(place, one) for one in visit.serious()]
    assert bad == []
    assert visit.errors == []


def test_messages_are_shown_as_what_they_are(browser: Any, console: Console) -> None:
    visit = Visit(browser, console, viewport={"width": 1280, "height": 800})
    page = visit.go("/queue?name=orders")
    page.locator("tbody a").first.click()
    assert "JSON" in page.locator("h2 .tag").first.inner_text()
    assert page.locator("pre").inner_text().startswith('{\n  "order": 7')
    visit.shoot("message")
    page.go_back()
    page.locator("tbody a").nth(2).click()
    assert page.locator("pre").inner_text() == ODD
    assert visit.errors == []
    visit.context.close()


def test_an_operator_acts_with_a_preview_and_a_typed_name(browser: Any, console: Console) -> None:
    visit = Visit(browser, console, viewport={"width": 1280, "height": 800})
    console.do("send", "/queue/acts", "-H", "n=1", given="1\n2\n3\n4\n")
    page = visit.go("/queue?name=acts")
    page.get_by_label("What").select_option("copy")
    page.get_by_label("To the queue").first.fill("acts.copy")
    page.get_by_text("See what that does").click()
    assert "4 messages of acts are copied to acts.copy" in page.locator(".lead").inner_text()
    visit.shoot("confirm")
    page.get_by_role("button", name="Copy").click()
    assert page.get_by_role("status").inner_text() == "copied 4 messages"
    page.get_by_label("What").select_option("purge")
    page.get_by_label("At most").fill("3")
    page.get_by_text("See what that does").click()
    page.locator("input[name=typed]").fill("wrong")
    page.get_by_role("button", name="Delete").click()
    assert "not the name" in page.get_by_role("alert").inner_text()
    page.locator("input[name=typed]").fill("acts")
    page.get_by_role("button", name="Delete").click()
    assert page.get_by_role("status").inner_text() == "deleted 3 messages"
    page.get_by_role("button", name="Pause delivery").click()
    assert page.locator(".lead .tag.warn").inner_text() == "paused"
    page.get_by_role("button", name="Deliver again").click()
    page.locator("summary").click()
    page.get_by_label("Body").fill("by hand")
    page.get_by_role("button", name="Send").click()
    assert page.get_by_role("status").inner_text() == "sent one message"
    page.get_by_role("button", name="Delete the queue").click()
    page.locator("input[name=typed]").fill("acts")
    page.get_by_role("button", name="Delete the queue").click()
    assert "acts.copy" in console.do("queue", "list")
    assert " acts " not in console.do("queue", "list")
    assert visit.errors == []
    visit.context.close()


def test_queues_are_searched_by_key_and_the_list_lives(browser: Any, console: Console) -> None:
    visit = Visit(browser, console, viewport={"width": 1280, "height": 800})
    page = visit.go("/queues")
    page.keyboard.press("/")
    page.keyboard.type("orde")
    until(lambda: page.locator("tbody tr").count(), lambda count: count == 1)
    assert "q=orde" in page.url
    console.do("send", "/queue/orders.new", given="x\n")
    until(lambda: page.locator("tbody tr").count(), lambda count: count == 2)
    assert page.locator("input[type=search]").input_value() == "orde"
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_url("**/")
    page.wait_for_selector("#chart canvas", timeout=20_000)
    visit.shoot("overview-curve")
    assert visit.errors == []
    visit.context.close()


def test_forms_of_others_do_nothing(console: Console) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = "action=purge&queue=orders&sure=1&typed=orders&broker=here"
    before = console.do("queue", "show", "orders", "-o", "json")
    for headers in ({}, {"Origin": console.url}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert console.ask("/act", method="POST", body=body, headers={**form, **headers}).status == 403
        assert console.ask("/act", method="POST", body=body + "&token=x", headers={**form, **headers}).status == 403
    assert json.loads(console.do("queue", "show", "orders", "-o", "json"))["messages"] == json.loads(before)["messages"]
    assert console.ask("/login?next=//evil.example/").text.count("evil.example") == 0


def test_a_user_logs_in_as_a_user_of_the_broker(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "users.conf").write_text(
        "user boss ops plain:manager\nuser app shop plain:secret\nallow ops all >\nallow shop send,create queue://orders.>\n"
    )
    made = Console.__new__(Console)
    Console.__init__(made, tmp_path, "--users", "users.conf")
    try:
        assert made.ask("/queues").status == 303
        assert made.ask("/api/jolokia/version").status == 401
        assert made.ask("/metrics").status == 401
        assert made.ask("/health/ready").status == 200
        visit = Visit(browser, made, viewport={"width": 1280, "height": 800})
        page = visit.go("/queues?q=x")
        assert page.url.partition("?")[0].endswith("/login")
        visit.shoot("login")
        assert visit.serious() == []
        page.get_by_label("Name").fill("boss")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        assert page.get_by_role("alert").count() == 1
        page.get_by_label("Name").fill("boss")
        page.get_by_label("Password").fill("manager")
        page.get_by_role("button", name="Log in").click()
        assert page.url.endswith("/queues?q=x")
        (cookie,) = [one for one in visit.context.cookies() if one["name"] == "entrepot_session"]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        refused = visit.page.request.post("/api/jolokia", data='{"type":"exec","mbean":"a:b=c","operation":"x"}')
        assert refused.json()["status"] == 403  # a cookie alone changes nothing
        page.get_by_role("button", name="log out").click()
        assert page.url.endswith("/login")
        page.get_by_label("Name").fill("app")  # may not manage
        page.get_by_label("Password").fill("secret")
        page.get_by_role("button", name="Log in").click()
        assert "not authorized" in page.locator("main").inner_text()
        assert "manager" not in made.log()
    finally:
        made.stop()
