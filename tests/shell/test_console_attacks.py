"""Attacks on the console, each with its test, here or where its name stands in `ATTACKS`."""

from __future__ import annotations

import ast
import base64
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import pytest

pytest.importorskip("uvicorn")

from shell.consoles import Console

ATTACKS: Final = {
    "CSRF": (
        "shell/test_console_pages.py::test_forms_of_others_do_nothing",
        "shell/test_console_tools.py::test_pages_of_others_do_nothing",
        "shell/test_console_tools.py::test_limits_are_written_by_who_may_manage_and_by_no_page_of_others",
    ),
    "XSS through queue names": (
        "shell/test_console_attacks.py::test_scripts_in_names_headers_and_bodies_are_text",
        "shell/test_console_pages.py::test_every_page_is_shown_and_nothing_serious_is_wrong_with_it",
        "shell/test_console_tools.py::test_what_hostile_names_say_is_data",
        "shell/test_console_rights.py::test_names_of_users_addresses_and_files_are_shown_and_not_run",
        "unit/console/test_picture.py::test_hostile_names_are_words_and_a_line_leads_to_its_page",
    ),
    "XSS through headers": ("shell/test_console_attacks.py::test_scripts_in_names_headers_and_bodies_are_text",),
    "XSS through bodies": (
        "shell/test_console_attacks.py::test_scripts_in_names_headers_and_bodies_are_text",
        "shell/test_console_pages.py::test_messages_are_shown_as_what_they_are",
        "shell/test_console_reports.py::test_a_hostile_report_runs_sends_and_loads_nothing",
    ),
    "XSS through links": ("shell/test_console_attacks.py::test_what_a_link_says_is_text_on_its_page",),
    "path tricks": (
        "shell/test_console_tools.py::test_paths_lead_out_of_nothing",
        "unit/console/test_reports.py::test_no_path_leads_out_and_no_link_is_followed",
    ),
    "request smuggling": (
        "shell/test_console_attacks.py::test_a_request_within_another_is_not_served",
        "shell/test_console_tools.py::test_a_client_that_holds_its_body_back_and_is_refused_is_not_misread",
    ),
    "slow loris": (
        "shell/test_console_tools.py::test_many_slow_heads_stop_nobody",
        "unit/console/test_shield.py::test_a_body_whose_rest_never_comes_is_refused_and_the_connection_goes",
    ),
    "answers that are not read": ("unit/console/test_door.py::test_an_answer_that_nobody_reads_is_thrown_away",),
    "oversized JSON": (
        "shell/test_console_tools.py::test_what_is_too_long_is_refused_and_others_are_served",
        "unit/console/test_shield.py::test_a_body_that_is_longer_than_its_head_says_is_refused",
    ),
    "exec without right": ("shell/test_console_attacks.py::test_who_may_not_manage_executes_nothing",),
    "guessed passwords": ("unit/console/test_access.py::test_refused_logins_of_strangers_are_counted",),
    "formulas for spreadsheets": ("unit/console/test_export.py::test_a_spreadsheet_carries_nothing_out",),
}
USERS: Final = (
    "user boss ops plain:manager\nuser app shop plain:secret\nallow ops all >\nallow shop send,consume,browse >\n"
)
SCRIPT: Final = "<script>alert(1)</script>"
CLASSIC: Final = "org.apache.activemq:type=Broker,brokerName=here"
ARTEMIS: Final = 'org.apache.activemq.artemis:broker="here"'
VICTIM: Final = f"{CLASSIC},destinationType=Queue,destinationName=victim"
ADDRESS: Final = f'{ARTEMIS},component=addresses,address="victim"'


def test_each_attack_has_a_test_by_its_name() -> None:
    root = Path(__file__).parents[1]
    for attack, places in ATTACKS.items():
        assert places, attack
        for place in places:
            module, _, name = place.partition("::")
            names = {
                node.name
                for node in ast.walk(ast.parse((root / module).read_text()))
                if isinstance(node, ast.FunctionDef)
            }
            assert name in names, f"{attack}: {place} is gone"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    home = tmp_path_factory.mktemp("attacks")
    (home / "users.conf").write_text(USERS)
    made = Console(home, "--users", "users.conf")
    yield made
    made.stop()


def basic(who: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(who.encode()).decode()}


BOSS: Final = basic("boss:manager")
APP: Final = basic("app:secret")


def left(console: Console) -> int:
    body = {
        "type": "read",
        "mbean": f"{CLASSIC},destinationType=Queue,destinationName=victim",
        "attribute": "QueueSize",
    }
    return int(console.ask("/api/jolokia", body=body, headers=BOSS).json["value"])


@pytest.fixture(scope="module")
def victim(console: Console) -> Console:
    for _ in range(2):
        assert console.ask("/api/message/victim?type=queue", body="kept", headers=BOSS).status == 200
    return console


INNER: Final = f"GET /api/jolokia/exec/{VICTIM}/purge() HTTP/1.1\r\n"
HEADS: Final = {
    "a length over what chunks say": "Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n",
    "chunks before a length": "Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n",
    "two lengths": "Content-Length: 5\r\nContent-Length: {length}\r\n",
    "lengths in a list": "Content-Length: 5, {length}\r\n",
    "a length with a sign": "Content-Length: +5\r\n",
    "a coding that is none": "Transfer-Encoding: xchunked\r\n",
    "chunked, and not last": "Transfer-Encoding: chunked, identity\r\n",
    "a blank before the colon": "Transfer-Encoding : chunked\r\n",
    "a folded line": "Transfer-Encoding:\r\n chunked\r\nContent-Length: {length}\r\n",
    "an old version with chunks": "Transfer-Encoding: chunked\r\n",
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_request_within_another_is_not_served(kind: str, victim: Console) -> None:
    """What a proxy before the console takes for a body is not carried out as a request: one answer, then the end."""
    inner = INNER + f"Host: localhost\r\nAuthorization: {BOSS['Authorization']}\r\n\r\n"
    body = "0\r\n\r\n" + inner
    version = "1.0" if kind.startswith("an old version") else "1.1"
    head = f"POST /api/jolokia HTTP/{version}\r\nHost: localhost\r\n{HEADS[kind].format(length=len(body))}\r\n"
    before = left(victim)
    host, _, port = urlsplit(victim.url).netloc.partition(":")
    told = b""
    with socket.create_connection((host, int(port)), timeout=3) as link:
        link.sendall((head + body).encode())
        try:
            while some := link.recv(65536):
                told += some
        except (TimeoutError, ConnectionResetError):
            pass
    assert told.count(b"HTTP/1.1 ") <= 1, told
    assert left(victim) == before


def _page(console: Console, path: str) -> str:
    answer = console.ask(path, headers=BOSS)
    assert answer.status == 200, (path, answer.text[:300])
    return answer.text


def test_scripts_in_names_headers_and_bodies_are_text(console: Console) -> None:
    name = f"odd{SCRIPT}"
    query = urlencode(
        {"type": "queue", "JMSType": SCRIPT, "JMSCorrelationID": SCRIPT, f"p{SCRIPT}": SCRIPT, "note": SCRIPT}
    )
    assert console.ask(f"/api/message/{quote(name, safe='')}?{query}", body=SCRIPT, headers=BOSS).status == 200
    pages = [_page(console, "/queues"), _page(console, f"/queue?name={quote(name)}")]
    links = re.findall(r'href="(/message\?[^"]*)"', pages[-1])
    pages.append(_page(console, links[0].replace("&amp;", "&")))
    for page in pages:
        assert "alert(1)" in page, "it is shown"
        assert SCRIPT not in page
    assert pages[-1].count("&lt;script&gt;alert(1)") >= 3, "type, property and body"


LINKS: Final = (
    "/queue?name=victim&said={0}", "/queue?name={0}", "/queues?q={0}", "/connections?said={0}",
    "/link?from={0}&to={0}", "/explain?name={0}", "/where?id={0}", "/{0}",
)  # fmt: skip


@pytest.mark.parametrize("path", LINKS)
def test_what_a_link_says_is_text_on_its_page(path: str, victim: Console) -> None:
    for text in (SCRIPT, f'"><img src=x onerror=alert(1)>{SCRIPT}', "' onmouseover='alert(1)"):
        page = victim.ask(path.format(quote(text, safe="")), headers={**BOSS, "Accept": "text/html"}).text
        assert SCRIPT not in page
        assert "<img src=x" not in page
        assert "' onmouseover='" not in page


EXECUTED: Final[tuple[dict[str, Any], ...]] = (
    {"mbean": VICTIM, "operation": "purge()"},
    {"mbean": VICTIM, "operation": "pause()"},
    {"mbean": CLASSIC, "operation": "removeQueue(java.lang.String)", "arguments": ["victim"]},
    {"mbean": CLASSIC, "operation": "addQueue(java.lang.String)", "arguments": ["made.by.app"]},
    {"mbean": ARTEMIS, "operation": "destroyQueue(java.lang.String)", "arguments": ["victim"]},
    {"mbean": ARTEMIS, "operation": "addUser", "arguments": ["eve", "secret", "ops", True]},
    {"mbean": ARTEMIS, "operation": "closeConnectionsForUser(java.lang.String)", "arguments": ["boss"]},
    {"mbean": ARTEMIS, "operation": "forceFailover()"},
    {
        "mbean": ARTEMIS
        + ',component=addresses,address="victim",subcomponent=queues,routing-type="anycast",queue="victim"',
        "operation": "removeAllMessages()",
    },
    {"mbean": "java.lang:type=Memory", "operation": "gc()"},
    {"mbean": "JMImplementation:type=MBeanServerDelegate", "operation": "getMBeanInfo"},
    {
        "mbean": "com.sun.management:type=DiagnosticCommand",
        "operation": "compilerDirectivesAdd",
        "arguments": ["/etc/passwd"],
    },
)


@pytest.mark.parametrize("asked", EXECUTED, ids=lambda asked: asked["operation"].partition("(")[0])
def test_who_may_not_manage_executes_nothing(asked: dict[str, Any], victim: Console) -> None:
    before = left(victim)
    for path in ("/api/jolokia", "/console/jolokia"):
        answer = victim.ask(path, body={"type": "exec", **asked}, headers=APP)
        told = answer.json if answer.status == 200 else {"status": answer.status}
        assert told["status"] in (403, 404), told
    assert left(victim) == before
    known = victim.ask("/api/jolokia", body={"type": "search", "mbean": "*:*"}, headers=BOSS).json["value"]
    assert not [one for one in known if "made.by.app" in one]
    assert "java.lang:type=Memory" not in known
