"""The console of Artemis 2.42, unmodified, in Chromium: an operator walks through it at ours and at a real Artemis.

What its pages show at a real Artemis is recorded (`recorded.py`).
"""

# ruff: noqa: E402 - what is imported below needs what may be absent

from __future__ import annotations

import inspect
import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")

import artemis
import hawtios
import jolokias
import maven
import ours
import recorded
from classic import HOST, free_port

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PATIENCE_MS: Final = 20_000
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "Connections": ("Client ID", "Users", "Protocol"),
    "Producers": ("Client ID", "User", "Address", "Validated User", "Protocol"),
    "Consumers": (
        "Client ID", "Validated User", "Protocol", "Queue", "Queue Type", "Filter", "Address", "Messages in Transit",
        "Messages Delivered",
    ),
    "Addresses": (
        "Name", "Routing Types", "Queue Count", "Internal", "Temporary", "Auto Created", "Paused",
        "Current Duplicate ID Cache Size", "Retroactive Resource", "Message Count", "Address Limit Percent", "Paging",
    ),
    "Queues": (
        "Name", "Address", "Routing Type", "Filter", "Durable", "Max Consumers", "Purge On No Consumers",
        "Consumer Count", "Message Count", "Paused", "Persisted Pause", "Temporary", "Auto Created",
        "Total Messages Added", "Total Messages Acked", "Delivering Count", "Messages Killed", "Exclusive",
        "Last Value", "Last Value Key", "Scheduled Count", "Group Rebalance", "Group Rebalance Pause Dispatch",
        "Group Buckets", "Group First Key", "Queue Enabled", "Ring Size", "Consumers Before Dispatch",
        "Delay Before Dispatch", "Auto Delete",
    ),
    "Messages": ("Type", "Durable", "Expires", "Redelivered", "Large", "Validated User", "Original Queue"),
}  # fmt: skip
"""What is compared of each table; what is not here depends on the program, the machine or the moment.

Two that are left out differ on purpose: a message that management sends has priority 0 there and 4 here, and the user
that caused a queue is not kept here.
"""
FIRST: Final = {name: columns[0] for name, columns in COLUMNS.items()}
OWN: Final = re.compile(r"ActiveMQ\.Advisory\.|activemq\.notifications|ID:.*|[0-9a-f]{8}-[0-9a-f]{4}-.*")
"""Names of what a program makes for itself: advisories of a client, and queues for answers."""
HIDDEN: Final = {
    "queues": "id paused persistedPause temporary autoCreated user messagesAdded messagesAcked deliveringCount"
    " messagesKilled directDeliver exclusive lastValue lastValueKey scheduledCount groupRebalance"
    " groupRebalancePauseDispatch groupBuckets groupFirstKey enabled ringSize consumersBeforeDispatch"
    " delayBeforeDispatch autoDelete",
    "addresses": "id internal temporary autoCreated paused currentDuplicateIdCacheSize retroactiveResource"
    " unRoutedMessageCount routedMessageCount messageCount addressLimitPercent numberOfPages addressSize"
    " maxPageReadBytes maxPageReadMessages prefetchPageBytes prefetchPageMessages numberOfBytesPerPage paging",
    "consumer": "messagesInTransit messagesDelivered",
    "messages": "validatedUser originalQueue",
}
"""Columns that the pages have and do not show until somebody wants them."""
READ: Final = """table => [
    Array.from(table.querySelectorAll('thead th'), cell => cell.innerText.trim()),
    Array.from(table.querySelectorAll('tbody tr'),
        row => Array.from(row.querySelectorAll('td'), cell => cell.innerText.trim())),
]"""


def unavailable() -> str:
    why = artemis.unavailable() or ("" if CHROMIUM else "no chromium on the PATH; Debian: apt install chromium")
    if not why:
        try:
            hawtios.pages()
        except maven.Unavailable as problem:
            why = str(problem)
    return why


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"the console of Artemis: {unavailable()}")


class Walk:
    """An operator in front of the pages, who notes what they show."""

    def __init__(self, page: Any, site: str) -> None:
        self.page = page
        self.site = site
        self.shown: dict[str, str] = {}
        wanted = [
            [f"{name}ColumnDefs", json.dumps([{"name": one, "visible": True} for one in columns.split()])]
            for name, columns in HIDDEN.items()
        ]
        page.add_init_script(f"for (const [key, kept] of {json.dumps(wanted)}) localStorage.setItem(key, kept);")
        page.set_default_timeout(PATIENCE_MS)

    def note(self, name: str, text: str) -> None:
        """Keep what is shown."""
        self.shown[name] = (text.strip("\n") or "nothing") + "\n"

    # -- getting there -------------------------------------------------------------------------------------------------

    def log_in(self, password: str) -> None:
        self.page.locator("#pf-login-username-id").fill(jolokias.USER[0])
        self.page.locator("#pf-login-password-id").fill(password)
        self.page.get_by_role("button", name="Log in").click()

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()
        self.page.locator("#data-table").wait_for()

    # -- tables --------------------------------------------------------------------------------------------------------

    def table(self, name: str = "data-table") -> list[dict[str, str]]:
        """Return the rows of the table by their columns, once it stands still."""
        table = self.page.locator(f"#{name}")
        table.wait_for()
        before: Any = None
        until = time.monotonic() + PATIENCE_MS / 1000
        while True:
            assert time.monotonic() < until, before
            self.page.wait_for_load_state("networkidle")
            heads, rows = table.evaluate(READ)
            if before == (heads, rows):
                return [dict(zip(heads, row, strict=False)) for row in rows]
            before = (heads, rows)
            self.page.wait_for_timeout(300)

    def note_table(self, name: str, kind: str) -> None:
        """Keep what is compared of the table, row by row in the order of names."""
        rows = self.table("message-table" if kind == "Messages" else "data-table")
        columns, first = COLUMNS[kind], FIRST[kind]
        kept = [row for row in rows if not (OWN.match(row[first]) or OWN.match(row.get("Address", "")))]
        lines = ["; ".join(f"{column} {row[column]}".rstrip() for column in columns) for row in kept]
        self.note(name, "\n".join(lines if kind == "Messages" else sorted(lines)))

    def until(self, name: str, column: str, value: str) -> None:
        """Wait until the row ``name`` of the table of queues shows ``value``: it is asked for anew each time."""
        until = time.monotonic() + PATIENCE_MS / 1000
        while True:
            row = next((row for row in self.table() if row["Name"] == name), {})
            if row.get(column, "") == value:
                return
            assert time.monotonic() < until, (name, column, value, row)
            self.tab("Addresses")
            self.tab("Queues")

    def choose(self, row: str, action: str) -> None:
        """Choose from the menu of the row of ``row``."""
        self.table()
        name = self.page.get_by_text(row, exact=True)
        self.page.locator("#data-table tbody tr").filter(has=name).first.get_by_role("button").last.click()
        menu = self.page.locator("ul[role=menu]")
        if f"menu of {row}" not in self.shown:
            self.note(f"menu of {row}", menu.inner_text())
        menu.get_by_role("menuitem", name=action, exact=True).click()

    def told(self) -> str:
        """Return what the pages say came of it, and close that."""
        alert = self.page.locator(".pf-v5-c-alert").first
        text = str(alert.locator(".pf-v5-c-alert__title").inner_text())
        close = self.page.locator(".pf-v5-c-alert button")
        for _ in range(close.count()):
            close.first.dispatch_event("click")
        close.first.wait_for(state="detached")
        return re.sub(r"\d+", "N", " ".join(text.split()))

    # -- the walk ------------------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Log in, look around, send, browse, copy, move, delete, purge."""
        self.page.goto(self.site)
        self.log_in("wrong")
        self.note("wrong password", self.page.get_by_text("Invalid login credentials").inner_text())
        self.log_in(jolokias.USER[1])
        self.page.get_by_text("HA Policy").wait_for()
        self.note("status", self.page.get_by_text("Started: ").inner_text())
        for name in ("Connections", "Producers", "Consumers", "Addresses", "Queues"):
            self.tab(name)
            self.note_table(name, name)
        self._send()
        self._browse()
        self._move_and_delete()
        self.page.locator("#message-table-queues-button").click()
        self.until("orders", "Message Count", "2")
        for action in ("Purge", "Delete"):
            self.choose("orders", action)
            self.confirm(action)
            self.until("orders", "Message Count", "0" if action == "Purge" else "")
        self.note_table("Queues at the end", "Queues")
        self.tab("Addresses")
        self.choose("news", "Create Queue")
        self.page.get_by_text("Create Queue on Address news").wait_for()

    def _send(self) -> None:
        """Send a message with a header to a queue."""
        self.choose("orders", "Send Message")
        form = self.page.get_by_role("dialog")
        form.locator("#uselogon").uncheck()  # an agent beside a real Artemis does not tell it who asks
        form.locator("#username").fill(jolokias.USER[0])
        form.locator("#password").fill(jolokias.USER[1])
        form.get_by_role("button", name="Add Headers").click()
        form.get_by_label("name-input-0").fill("colour")
        form.get_by_label("value-input-0").fill("blue")
        form.locator(".monaco-editor").first.click()
        self.page.keyboard.type("hello & you")
        form.get_by_role("button", name="Send", exact=True).click()
        self.note("sent", self.told())
        form.get_by_role("button", name="Cancel").last.click()
        self.until("orders", "Message Count", "4")

    def _browse(self) -> None:
        """Look at the messages, at the one that was sent, and at those with its header."""
        self.choose("orders", "Browse Messages")
        self.note_table("browsed", "Messages")
        self.row(-1).locator("a").first.click()
        self.page.get_by_text("colour").wait_for()
        said = self.page.locator("main").last.inner_text()
        self.note("message", said[said.index("Viewing") :])
        self.page.get_by_role("button", name="Browse", exact=True).click()
        self.table("message-table")
        self.filter("colour = 'blue'")
        self.note_table("filtered", "Messages")

    def _move_and_delete(self) -> None:
        """Copy and move the message that is shown, and delete another."""
        for action in ("Copy", "Move"):
            self.table("message-table")
            self.row(0).locator("input").check()
            self.page.get_by_role("button", name=action, exact=True).click()
            self.page.get_by_role("dialog").get_by_role("combobox").click()
            self.page.get_by_role("option", name="ref-client.sub").first.click()
            self.confirm(action)
        self.note_table("after the move", "Messages")
        self.filter("")
        self.note_table("unfiltered", "Messages")
        self.row(0).locator("input").check()
        self.page.get_by_role("button", name="Delete", exact=True).click()
        self.confirm("Delete a message")
        self.note_table("after the deletion", "Messages")

    def row(self, at: int) -> Any:
        """Return a row of the messages."""
        return self.page.locator("#message-table tbody tr").nth(at)

    def filter(self, selector: str) -> None:
        """Show the messages that ``selector`` wants."""
        self.page.get_by_role("textbox").last.fill(selector)
        self.page.get_by_role("button", name="Filter", exact=True).click()

    def confirm(self, action: str) -> None:
        """Say that it is meant, and note what came of it."""
        self.page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
        self.note(action, self.told())


VARIES: Final = re.compile(r"(Message ID:|messageID|persistentSize|timestamp|userID|address|priority|protocol)\s.*")
"""Lines of one message that tell of the program, the machine or the moment."""


def walked(place: str, url: str) -> dict[str, str]:
    """Return what is seen on a walk through the pages in front of a broker."""
    errors: list[str] = []
    with (
        jolokias.talking(url, *jolokias.USER),
        hawtios.serving(place) as (site, hawtio),
        playwright.sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 1200})
        page.on("pageerror", lambda error: errors.append(str(error)))
        walk = Walk(page, site)
        try:
            walk.go()
        finally:
            browser.close()
        failed = [(one.body, one.status) for one in hawtio.asked if one.status not in (200, 401)]
    lines = walk.shown["message"].splitlines()
    walk.note("message", "\n".join(line for line in lines if not VARIES.match(line)))
    walk.note("went wrong", "\n".join([*errors, *(f"{status} {body}" for body, status in failed)]))
    return walk.shown


@contextmanager
def own(home: Path) -> Iterator[tuple[str, str]]:
    """Have ours, with the file and the user of the real one; yields where its Jolokia is, and its own URL."""
    broker = ours.like_artemis(home, artemis.Artemis(home / "artemis", name=jolokias.NAME, authenticated=True))
    user, password = jolokias.USER
    for name, text in FILES.items():
        (home / name).write_text(text.format(user=user, password=password))
    port = free_port()
    broker.arguments = (*broker.arguments, "--console", f"{HOST}:{port}")
    broker.start()
    try:
        broker.await_ready()
        ours.listens(HOST, port)
        yield f"http://{HOST}:{port}/console/jolokia", broker.url
    finally:
        broker.kill()


FILES: Final = {
    "login.config": """activemq {{
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
}};
""",
    "artemis-users.properties": "{user} = {password}\n",
    "artemis-roles.properties": "all = {user}\n",
}


def seen_at_artemis(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    with jolokias.real("artemis", home, monkeypatch, authenticated=True) as (place, url):
        return walked(place, url)


def test_an_operator_sees_and_does_what_he_would_at_artemis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = (inspect.getsource(Walk), COLUMNS, HIDDEN, OWN, VARIES, hawtios.WAR, artemis.CONFIGURATION)
    recording = recorded.Recording("hawtio", *made_of, artemis.ARTIFACTS, jolokias.AGENT)
    theirs = recording.shown(lambda: seen_at_artemis(tmp_path / "real", monkeypatch))
    with own(tmp_path / "ours") as (place, url):
        here = walked(place, url)
    assert theirs["went wrong"] == "nothing\n"
    assert {name: here.get(name) for name in theirs} == theirs
