"""`entrepot probe` of a running broker: what holds, what does not, and its exit code."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from entrepot.cli.main import cli
from entrepot.client.written import COLUMNS
from shell.consoles import Process


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    listen = ("--data", "data", "--name", "here", "--listen", "stomp://127.0.0.1:0")
    made = Process(tmp_path_factory.mktemp("probe"), "broker", "run", *listen)
    place = made.facts["uris"][0]
    assert run("send", "/queue/orders", "hello", "--url", place).exit_code == 0
    yield place
    made.stop()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_a_broker_that_is_well_is_0(url: str) -> None:
    wanted = ("--master", "--memory-below", "90", "--store-below", "100", "--bridges")
    done = run("probe", *wanted, "--queue", "orders", "--waiting-below", "2", "--oldest-below", "3600", "--url", url)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[:2] == ["well  answers: here", "well  master: alone"]
    assert "well  waiting orders: 1 (limit 2)" in done.stdout


def test_what_does_not_hold_is_1_and_named(url: str) -> None:
    queues = ("--queue", "orders", "--queue", "none", "--waiting-below", "1", "--consumers", "1")
    done = run("probe", *queues, "-o", "json", "--url", url)
    assert done.exit_code == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["check"] for row in rows if not row["well"]] == ["waiting orders", "consumers orders", "queue none"]
    assert "not well: waiting orders, consumers orders, queue none" in done.stderr


def test_what_a_cluster_knows_is_asked_for(url: str) -> None:
    done = run("probe", "--backup", "--peers", "1", "-o", "csv", "--url", url)
    assert done.exit_code == 1
    rows = {row["check"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert rows["answers"] == {"check": "answers", "value": "here", "limit": "", "well": "true"}
    assert (rows["backup"]["value"], rows["backup"]["well"]) == ("none", "false")
    assert (rows["peers"]["value"], rows["peers"]["limit"], rows["peers"]["well"]) == ("0", "1", "false")


def test_a_paused_queue_is_not_well(url: str) -> None:
    assert run("queue", "pause", "orders", "--url", url).exit_code == 0
    done = run("probe", "--queue", "orders", "--url", url)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "BAD   queue orders: paused")
    assert run("queue", "resume", "orders", "--url", url).exit_code == 0
    assert run("probe", "--queue", "orders", "--url", url).exit_code == 0


def test_nobody_there_is_1_and_a_wrong_option_is_2() -> None:
    assert run("probe", "--url", "stomp://127.0.0.1:1").exit_code == 1
    assert run("probe", "--consumers", "1").exit_code == 2
    assert run("probe", "--memory-below", "0").exit_code == 2


def test_lists_are_written_as_csv(url: str) -> None:
    done = run("connection", "list", "-o", "csv", "--url", url)
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert row["protocol"].startswith("stomp")
    assert row["id"].isdigit()
    assert run("send", "/queue/orders", "later", "--delay", "1h", "--url", url).exit_code == 0
    assert run("send", "/queue/=1+1", "odd", "--url", url).exit_code == 0
    done = run("queue", "list", "-o", "csv", "--url", url)
    assert {"'=1+1", "orders"} <= {row["name"] for row in csv.DictReader(io.StringIO(done.stdout))}
    (row, *_) = csv.DictReader(io.StringIO(run("schedule", "list", "-o", "csv", "--url", url).stdout))
    assert (row["target"], row["number"].isdigit()) == ("queue://orders", True)
    assert run("stage", "list", "-o", "csv", "--url", url).stdout.startswith("sink,owner,batch,")


def test_messages_are_browsed_as_csv(url: str) -> None:
    where = ("/queue/browsed", "--url", url)
    nothing = run("browse", *where, "-o", "csv")
    assert nothing.stdout.splitlines() == [",".join(COLUMNS)]
    for body in ('=two\nlines, "quoted"', "plain"):
        assert run("send", *where[:1], body, "--header", "colour=red", *where[1:]).exit_code == 0
    first, second = csv.DictReader(io.StringIO(run("browse", *where, "-o", "csv").stdout))
    assert (first["body"], second["body"]) == ('\'=two\nlines, "quoted"', "plain")
    assert (json.loads(first["properties"]), first["priority"]) == ({"colour": "red"}, "4")
    assert len(run("browse", *where, "-o", "csv", "-n", "1").stdout.splitlines()) == 3  # one of them has two lines
