"""Reports of the Spark jobs in a real browser: found, opened in a sandbox, and a hostile one that can do nothing."""

# ruff: noqa: E402 - what is imported below needs what may be absent

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("pyspark")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")

from entrepot.pipeline.jobs import audit, pages, related
from entrepot.pipeline.jobs.audit import COUNTED, Audit, Finding
from shell.consoles import Console
from shell.test_console_pages import CHROMIUM, Visit

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH; Debian: apt install chromium")
USERS = "user boss ops plain:manager\nuser app shop plain:secret\nallow ops all >\nallow shop send,create queue://orders.>\n"
HOSTILE = "<script>alert(1)</script>"
EVIL = """<!doctype html><title>{hostile}</title><script>document.title = "ran"; alert(1)</script>
<img src="{away}/pixel" onerror="alert(2)"><link rel="stylesheet" href="{away}/style">
<iframe src="{away}/frame"></iframe>
<form action="/logout" method="post"><button id="go">go</button></form><svg onload="alert(3)"></svg>
<meta http-equiv="refresh" content="0;url={away}/refresh"><body onload="alert(4)" style="color: red">evil</body>"""


class Storage:
    """Writes into a directory, as the storage of a job does."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        (self.place / name).write_text(text, encoding="utf-8")


def audited(place: Path, *, beside: str) -> None:
    """Write what the audit job writes, by its own renderer."""
    row = {"queue": HOSTILE, **dict.fromkeys(COUNTED, 3)}
    lost = Finding("lost", "ID:x:1", "orders", "a", "sent to b", 1_700_000_000_000_000)
    other = related.Related("plan", "it holds", good=True, link=beside)
    made = Audit(
        totals=[row], counts={"lost": 1}, findings=[lost], faults=[], brokers=["a (n)"], records=7, altered=[],
        links={"a": "abc"}, others=[other],
    )  # fmt: skip
    storage: Any = Storage(place)
    related.leave(storage, related.AUDIT, made.verdict(), good=made.clean)
    storage.write("report.txt", audit.text_of(made))
    storage.write("report.html", audit.page_of(made))


@pytest.fixture(scope="module")
def away() -> Iterator[tuple[str, list[str]]]:
    """Another site, and what it was asked for."""
    asked: list[str] = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, away: tuple[str, list[str]]) -> Iterator[Console]:
    home = tmp_path_factory.mktemp("reports")
    (home / "users.conf").write_text(USERS)
    audited(home / "reports" / "night" / "audit", beside="../plan/report.html")
    plan: Any = Storage(home / "reports" / "night" / "plan")
    related.leave(plan, related.PLAN, "it holds", good=True)
    plan.write("report.html", pages.page("Plan", [pages.verdict("it holds", good=True)]))
    (home / "reports" / "evil.html").write_text(EVIL.format(hostile=HOSTILE.replace("<", "&lt;"), away=away[0]))
    made = Console(home, "--users", "users.conf", console=("--reports", "reports"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def entered(browser: Any, console: Console, user: str, password: str, **options: Any) -> Visit:
    visit = Visit(browser, console, **options)
    page = visit.go("/reports")
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/reports")
    return visit


@pytest.mark.parametrize("kind", ["light", "dark", "narrow"])
def test_a_report_is_found_opened_and_leads_to_the_one_beside_it(kind: str, browser: Any, console: Console) -> None:
    size = {"width": 390, "height": 844} if kind == "narrow" else {"width": 1280, "height": 800}
    visit = entered(
        browser, console, "boss", "manager", viewport=size, color_scheme="dark" if kind == "dark" else "light"
    )
    page = visit.page
    row = page.get_by_role("row").filter(has_text="night/audit")
    assert "audit" in row.inner_text()
    assert "look at it" in row.inner_text()
    visit.shoot(f"{kind}-reports")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert visit.serious() == []
    row.get_by_role("link").click()
    page.wait_for_url("**/reports/night/audit/report.html")
    assert page.locator("h1").inner_text() == "Audit"
    assert HOSTILE in page.locator("table").first.inner_text()
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.verdict')).borderLeftWidth") == "4px"
    )  # its style holds
    visit.shoot(f"{kind}-report")
    page.locator("a.card").click()
    page.wait_for_url("**/reports/night/plan/report.html")  # as who is logged in
    assert page.locator("h1").inner_text() == "Plan"
    assert visit.errors == []
    visit.context.close()


def test_a_hostile_report_runs_sends_and_loads_nothing(
    browser: Any, console: Console, away: tuple[str, list[str]]
) -> None:
    visit = entered(browser, console, "boss", "manager")
    page = visit.page
    assert HOSTILE in page.get_by_role("row").filter(has_text="evil.html").inner_text()
    assert visit.errors == []
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    answer = page.goto("/reports/evil.html")
    page.locator("#go").click()
    page.wait_for_timeout(700)
    assert page.url.endswith("/reports/evil.html")
    assert page.title() == HOSTILE
    assert (dialogs, away[1]) == ([], [])
    assert answer.headers["content-security-policy"].startswith("sandbox allow-same-origin; default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    page.goto("/reports")  # still logged in
    assert page.locator("h1").inner_text() == "Reports"
    visit.context.close()


def test_who_may_not_manage_sees_none_and_no_path_leads_out(browser: Any, console: Console) -> None:
    visit = entered(browser, console, "app", "secret")
    assert "not authorized" in visit.page.locator("main").inner_text()
    assert visit.page.goto("/reports/night/audit/report.html").status == 403
    visit.context.close()
    assert console.ask("/reports/night/audit/report.html").status == 303
    boss = {"Authorization": "Basic Ym9zczptYW5hZ2Vy"}
    assert (
        console.ask("/reports/night/audit/report.txt", headers=boss).headers["content-type"]
        == "text/plain; charset=utf-8"
    )
    for path in (
        "/reports/%2e%2e/users.conf",
        "/reports/..%2fusers.conf",
        "/reports/%2fetc/passwd",
        "/reports/a%00.html",
    ):
        answer = console.ask(path, headers=boss)
        assert answer.status in (400, 404), path
        assert b"manager" not in answer.body
