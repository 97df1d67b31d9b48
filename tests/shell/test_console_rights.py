"""Rights, Configuration and Drift in a real browser and as an attacker would have them: odd names, and no right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")

from shell.consoles import Console, Process  # noqa: E402
from shell.test_console_pages import CHROMIUM, Visit  # noqa: E402

EVIL = "<img/src=x/onerror=alert(1)>\"'{{7*7}}"
USERS = f"""
user boss ops plain:manager-secret
user {EVIL} {EVIL}g plain:odd-secret
user app shop plain:app-secret
allow ops all >
allow shop send,create queue://orders.>
allow {EVIL}g read topic://{EVIL}
"""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH; Debian: apt install chromium")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    directory = tmp_path_factory.mktemp("rights")
    users = directory / "<b onload=alert(2)>.conf"
    users.write_text(USERS)
    given = ("--ephemeral", "--listen", "auto://127.0.0.1:0", "--users", str(users), "--memory-limit", "1gb")
    other = Process(directory, "other", "run", "--name", "there", *given)
    place = other.facts["uris"][0].replace("auto:", "tcp:")
    odd = "<script>alert(3)</script>\"'{{7*7}}.>:max_deliveries=3"
    try:
        made = Console(directory, "--users", str(users), "--set", odd, console=("--broker", f"there={place}"))
        yield made
        made.stop()
    finally:
        other.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def visit_of(browser: Any, console: Console, user: str, password: str, **options: Any) -> Visit:
    made = Visit(browser, console, **({"viewport": {"width": 1280, "height": 800}} | options))
    page = made.go("/login")
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    return made


PLACES = (
    "/rights",
    f"/rights?broker=here&user={quote(EVIL)}&address={quote('topic://' + EVIL)}",
    f"/rights?user=app&address={quote('temp-queue://x')}",
    "/configuration",
    f"/configuration?q={quote(EVIL)}",
    "/configuration?source=default&page=2",
    "/drift",
    f"/drift?q={quote(EVIL)}",
)


@pytest.mark.parametrize("kind", ["light", "dark", "narrow"])
def test_names_of_users_addresses_and_files_are_shown_and_not_run(browser: Any, console: Console, kind: str) -> None:
    size = {"width": 390, "height": 844} if kind == "narrow" else {"width": 1280, "height": 800}
    scheme = "dark" if kind == "dark" else "light"
    visit = visit_of(browser, console, "boss", "manager-secret", viewport=size, color_scheme=scheme)
    bad: list[tuple[str, str]] = []
    for place in PLACES:
        page = visit.go(place)
        assert page.locator("h1").count() == 1
        text = page.content()
        assert page.locator("img").count() == 0
        assert "49" not in page.locator("main").inner_text().replace("{{7*7}}", "") or "configuration" in place
        for secret in ("manager-secret", "odd-secret", "app-secret", "plain:"):
            assert secret not in text
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{place} scrolls sideways by {wide} px"
        visit.shoot(f"{kind}-{place.strip('/').partition('?')[0]}-{PLACES.index(place)}")
        bad += [(place, one) for one in visit.serious()]
    assert bad == []
    assert visit.errors == []
    visit.context.close()


def test_a_user_is_judged_and_the_rule_is_named(browser: Any, console: Console) -> None:
    visit = visit_of(browser, console, "boss", "manager-secret")
    page = visit.page
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("u")
    page.wait_for_url("**/rights")
    page.get_by_role("textbox", name="User").fill("app")
    page.get_by_role("textbox", name="Address").fill("queue://orders.eu")
    page.get_by_role("button", name="Look").click()
    verdicts = page.locator("table").first.inner_text()
    assert "the rule for orders.> gives it to shop" in verdicts
    assert ".conf:6" in verdicts
    rules = page.locator("table").nth(2).inner_text()
    assert "send, create" in rules
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/configuration")
    page.keyboard.press("/")
    page.keyboard.type("max_deliveries option")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=max_deliveries*")
    assert page.locator("tbody tr").count() == 1
    assert visit.errors == []
    visit.context.close()


def test_the_drift_shows_what_differs_and_folds_what_has_to(browser: Any, console: Console) -> None:
    visit = visit_of(browser, console, "boss", "manager-secret")
    page = visit.page
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("v")
    page.wait_for_url("**/drift")
    real = page.locator("table").first.inner_text()
    assert "--memory-limit" in real
    assert "max_deliveries" in real
    assert "not set" in real
    assert "--name" not in real
    assert not page.locator("details table").is_visible()
    page.locator("summary").click()
    assert "--name" in page.locator("details table").inner_text()
    assert visit.errors == []
    visit.context.close()


def test_who_may_not_manage_sees_nothing_and_is_told_why(browser: Any, console: Console) -> None:
    visit = visit_of(browser, console, "app", "app-secret")
    for place in ("/rights", "/rights?user=boss&address=a", "/configuration", "/drift"):
        answer = visit.page.goto(place)
        assert answer.status == 403
        text = visit.page.locator("main").inner_text()
        assert "not authorized" in text
        for told in ("boss", "ops", "memory", ".conf"):
            assert told not in text
    visit.context.close()


def test_the_command_line_has_the_same(console: Console) -> None:
    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run([sys.executable, "-m", "entrepot", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    url = console.stomp.replace("//", "//boss:manager-secret@")
    rows = [
        json.loads(line)
        for line in run("user", "rights", "app", "queue://orders.eu", "--url", url, "-o", "json").splitlines()
    ]
    assert [row["line"] for row in rows if row["right"] == "send" and row["allowed"]] == [6]
    assert "shop" in run("user", "known", "app", "--url", url)
    assert "send,create" in run("user", "rights", "app", "--url", url)
    assert "max_deliveries" in run("configuration", "show", "max_deliveries", "--source", "option", "--url", url)
    assert "secret" not in run("configuration", "show", "--url", url, "-o", "csv")
    there = json.loads((console.directory / "other.json").read_text())["uris"][0]
    other = there.replace("auto://", "stomp://boss:manager-secret@")
    told = run("configuration", "drift", "--url", url, "--url", other, "-o", "json", code=1)
    assert {json.loads(line)["setting"] for line in told.splitlines()} >= {"--memory-limit"}
    assert "manager-secret" not in told
    run("configuration", "drift", "--url", url, code=2)
    run("user", "known", "--url", url.replace("boss:manager-secret", "app:app-secret"), code=1)
