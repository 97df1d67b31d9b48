"""The messages of a queue as a file: exact in JSON, harmless in a spreadsheet, bounded, by right, and audited."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

pytest.importorskip("uvicorn")

import http.client

from shell.consoles import Answer, Console, until

USERS = """
user boss ops plain:manager-secret
user looker looks plain:looker-secret
allow ops all >
allow looks manage >
"""
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def logged_in(console: Console, user: str, password: str) -> dict[str, str]:
    """Return the headers of a session."""
    answer = console.ask("/login", body=urlencode({"user": user, "password": password}), headers=FORM)
    assert answer.status == 303, answer.text
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def token_of(console: Console, cookie: dict[str, str]) -> str:
    found = re.search(r'name="token" value="([^"]+)"', console.ask("/queues", headers=cookie).text)
    assert found is not None
    return found[1]


def export(console: Console, cookie: dict[str, str], **fields: str) -> Answer:
    token = token_of(console, cookie)
    return console.ask("/export", body=urlencode({"token": token, **fields}), headers={**FORM, **cookie})


def audited(console: Console) -> list[dict[str, str]]:
    lines = [line for line in console.log().splitlines() if "ENT-AUDIT-1" in line and '"export"' in line]
    return [json.loads(line[line.index("{") :]) for line in lines]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    directory = tmp_path_factory.mktemp("export")
    users = directory / "users.conf"
    users.write_text(USERS)
    made = Console(directory, "--users", str(users))
    boss = ("--login", "boss", "--passcode", "manager-secret")
    made.do("send", "/queue/orders", "-H", "colour=red", *boss, given='=cmd|" /C calc"\nplain, "quoted"\n')
    made.do("send", "/queue/orders", "-H", "colour=blue", *boss, given="größe\n")
    made.do("send", "/queue/many", *boss, given="".join(f"{number} {'x' * 500}\n" for number in range(3_000)))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def boss(console: Console) -> dict[str, str]:
    return logged_in(console, "boss", "manager-secret")


def test_json_lines_are_whole_and_can_be_sent_again(console: Console, boss: dict[str, str]) -> None:
    answer = export(console, boss, queue="orders")
    assert (answer.status, answer.headers["content-disposition"]) == (200, 'attachment; filename="orders.jsonl"')
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [row["body"] for row in rows] == ['=cmd|" /C calc"', 'plain, "quoted"', "größe"]
    assert rows[0]["properties"] == {"colour": "red"}
    assert rows[0]["headers"]["destination"] == "queue://orders"
    login = ("--login", "boss", "--passcode", "manager-secret")
    console.do("send", "/queue/again", "--json", *login, given=answer.text)
    again = export(console, boss, queue="again").text.splitlines()
    assert [json.loads(line)["body"] for line in again] == [row["body"] for row in rows]
    assert [json.loads(line)["properties"] for line in again] == [row["properties"] for row in rows]


def test_csv_has_columns_and_nothing_that_a_spreadsheet_carries_out(console: Console, boss: dict[str, str]) -> None:
    answer = export(console, boss, queue="orders", format="csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["body"] for row in rows] == ['\'=cmd|" /C calc"', 'plain, "quoted"', "größe"]
    assert json.loads(rows[2]["properties"]) == {"colour": "blue"}
    assert rows[0]["priority"] == "4"


def test_a_selector_and_a_count_bound_it_and_what_is_wrong_is_said(console: Console, boss: dict[str, str]) -> None:
    some = export(console, boss, queue="orders", selector="colour = 'blue'").text.splitlines()
    assert [json.loads(line)["body"] for line in some] == ["größe"]
    assert len(export(console, boss, queue="many", most="1234").text.splitlines()) == 1_234
    assert len(export(console, boss, queue="many").text.splitlines()) == 3_000
    for wrong in (
        {"queue": "orders", "selector": "colour = "},
        {"queue": "orders", "most": "0"},
        {"queue": "orders", "most": "100001"},
        {"queue": "orders", "format": "xml"},
        {"queue": "nowhere"},
    ):
        answer = export(console, boss, **wrong)
        assert (answer.status, "content-disposition" in answer.headers) == (400, False), (wrong, answer.text)
    assert '<p class="note error"' in answer.text


def test_who_may_not_browse_exports_nothing_and_all_is_audited(console: Console, boss: dict[str, str]) -> None:
    looker = logged_in(console, "looker", "looker-secret")
    answer = export(console, looker, queue="orders")
    assert answer.status == 403, answer.text
    assert "größe" not in answer.text
    stranger = console.ask("/export", body=urlencode({"queue": "orders", "token": "guess"}), headers={**FORM, **boss})
    assert stranger.status == 403
    export(console, boss, queue="orders", selector="colour = 'red'")
    told = until(lambda: audited(console), lambda rows: rows and "red" in rows[-1].get("selector", ""))
    assert told[-1] == {**told[-1], "user": "boss", "queue": "orders", "result": "2 messages"}
    refused = [row for row in told if row["user"] == "looker"]
    assert len(refused) == 1
    assert refused[0]["result"].startswith("ENT-") or "denied" in refused[0]["result"], refused


def test_who_goes_away_in_the_middle_leaves_nothing_behind(console: Console, boss: dict[str, str]) -> None:
    token = token_of(console, boss)
    for _ in range(6):  # more than may be under way
        connection = http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=30)
        connection.request("POST", "/export", urlencode({"token": token, "queue": "many"}), {**FORM, **boss})
        assert connection.getresponse().read(1)
        connection.close()
    whole = until(lambda: export(console, boss, queue="many"), lambda answer: answer.status == 200)
    assert len(whole.text.splitlines()) == 3_000
    name = "org.apache.activemq:type=Broker,brokerName=here,destinationType=Queue,destinationName=many"
    read = f"/api/jolokia/read/{name}/ConsumerCount"
    until(lambda: console.ask(read, headers=boss).json["value"], lambda count: count == 0)


def test_a_broker_that_dies_leaves_a_file_without_an_end(tmp_path: Path) -> None:
    console = Console(tmp_path)
    try:
        console.do("send", "/queue/long", given="".join(f"{number} {'x' * 4000}\n" for number in range(5_000)))
        page = console.ask("/queue?name=long").text
        token = re.search(r'name="token" value="([^"]+)"', page)
        assert token is not None
        connection = http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=30)
        connection.request("POST", "/export", urlencode({"token": token[1], "queue": "long"}), FORM)
        got = connection.getresponse()
        assert got.read(1)
        console.broker.process.kill()
        with pytest.raises(http.client.IncompleteRead):
            got.read()
        (row,) = until(lambda: audited(console), lambda rows: rows)
        assert "messages" not in row["result"]
    finally:
        console.stop()
