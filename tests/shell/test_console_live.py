"""Parts of pages that renew themselves: what they leave alone, and what they say when nothing comes."""

# ruff: noqa: E402 - what is imported below needs what may be absent

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")

from entrepot import blocking
from shell.consoles import Console
from shell.live_pages import CHROMIUM, COUNT

PATIENCE_MS = 60_000

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on the PATH; Debian: apt install chromium")


@pytest.fixture
def page() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context()
        context.add_init_script(COUNT)
        made = context.new_page()
        made.set_default_timeout(PATIENCE_MS)
        yield made
        browser.close()


def renewed(page: Any, times: int = 1) -> None:
    """Wait until the page has renewed itself."""
    seen = page.evaluate("window.swaps")
    page.wait_for_function("before => window.swaps >= before", arg=seen + times)


def test_tables_renew_themselves_and_leave_the_focus_and_say_when_nothing_comes(tmp_path: Path, page: Any) -> None:
    console = Console(tmp_path)
    try:
        with blocking.connect(console.tcp, client_id="first") as connection, connection.session() as session:
            session.producer("queue://live").send("one")
            page.goto(f"{console.url}/connections")
            assert page.get_by_text("second").count() == 0
            with blocking.connect(console.tcp, client_id="second"):
                page.get_by_role("cell", name="second").first.wait_for()
                page.get_by_role("button", name="close").first.focus()
                renewed(page, 2)
                assert page.evaluate("document.activeElement.textContent") == "close"
            page.goto(f"{console.url}/queue?name=live")
            session.producer("queue://live").send("two, which came later")
            page.get_by_text("two, which came later").wait_for()
        assert page.locator("#stale").is_hidden()
        console.broker.stop()
        page.locator("#stale").wait_for()
        assert page.locator("#stale").inner_text().startswith("Not renewed since ")
        assert page.get_by_text("two, which came later").count() == 1
    finally:
        console.stop()


def test_a_page_whose_session_is_over_leads_to_the_login(tmp_path: Path, page: Any) -> None:
    (tmp_path / "users.conf").write_text("user boss ops plain:manager\nallow ops all >\n")
    console = Console(tmp_path, "--users", "users.conf")
    try:
        page.goto(f"{console.url}/queues")
        page.get_by_label("Name").fill("boss")
        page.get_by_label("Password").fill("manager")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/queues")
        renewed(page)
        page.context.clear_cookies()
        page.wait_for_url("**/login?next=%2Fqueues")
    finally:
        console.stop()
