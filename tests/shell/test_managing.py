"""The operators' commands against a real broker process."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shell.daemon import Wire
from shell.test_cli import PATIENCE, Running, start


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path, "--data", "data")
    yield running
    if running.process.poll() is None:
        running.stop()


def done(broker: Running, *arguments: str) -> list[dict[str, Any]]:
    """Run a command that must succeed; return its lines of JSON."""
    result = broker.do(*arguments, "-o", "json")
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def fill(broker: Running, name: str, count: int) -> None:
    sent = broker.do("send", f"/queue/{name}", given="".join(f"{number}\n" for number in range(count)))
    assert sent.returncode == 0, sent.stderr


def counts(broker: Running) -> dict[str, int]:
    rows = done(broker, "queue", "list")
    return {row["name"]: row["messages"] for row in rows}


def test_queues_are_listed_and_shown(broker: Running) -> None:
    fill(broker, "orders.eu", 3)
    fill(broker, "orders.us", 1200)
    fill(broker, "other", 1)
    assert counts(broker) == {"orders.eu": 3, "orders.us": 1200, "other": 1}
    assert [row["name"] for row in done(broker, "queue", "list", "orders.*")] == ["orders.eu", "orders.us"]
    assert [row["name"] for row in done(broker, "queue", "list", "-n", "1", "o>")] == []
    assert [row["name"] for row in done(broker, "queue", "list", "orders.*", "-n", "1")] == ["orders.eu"]
    everything = done(broker, "queue", "list", "--all")
    assert [row["temporary"] for row in everything] == [True, False, False, False]  # the first is for the answer
    table = broker.do("queue", "list", "orders.*").stdout
    assert "1,200" in table
    assert "consumers" in table
    assert done(broker, "queue", "show", "/queue/other")[0]["messages"] == 1
    assert "octets" in broker.do("queue", "show", "other").stdout


def test_pause_holds_messages_back_until_resume(broker: Running) -> None:
    fill(broker, "a", 1)
    assert done(broker, "queue", "pause", "a") == [{"queue": "a", "paused": True}]
    assert broker.do("receive", "/queue/a", "--timeout", "200ms").stdout == ""
    told = broker.do("queue", "resume", "a")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "resumed a\n")
    assert broker.do("receive", "/queue/a", "-n", "1").stdout == "0\n"


def test_messages_are_moved_copied_and_purged(broker: Running) -> None:
    fill(broker, "a", 12_000)  # more than one request's worth
    assert done(broker, "queue", "move", "a", "b") == [{"queue": "a", "target": "b", "messages": 12_000}]
    assert broker.do("receive", "/queue/b", "-n", "3").stdout == "0\n1\n2\n"
    broker.do("send", "/queue/b", "red", "-H", "colour=red")
    assert done(broker, "queue", "move", "b", "/queue/c", "-s", "colour = 'red'")[0]["messages"] == 1
    assert done(broker, "queue", "copy", "b", "d", "-n", "5")[0]["messages"] == 5
    assert broker.do("receive", "/queue/d").stdout == "3\n4\n5\n6\n7\n"
    assert done(broker, "queue", "purge", "b", "-n", "10500")[0]["messages"] == 10_500
    assert broker.do("queue", "purge", "c", "-s", "colour = 'blue'").stderr == "removed 0 messages from c\n"
    assert broker.do("queue", "purge", "c", "-s", "colour = 'red'").stderr == "removed 1 messages from c\n"
    left = counts(broker)
    assert (left["a"], left["b"], left["c"]) == (0, 12_000 - 3 - 10_500, 0)
    broker.process.kill()
    broker.process.communicate()
    checked = json.loads(broker.do("data", "check", str(broker.directory / "data"), "-o", "json").stdout)
    assert checked["messages"] == left["b"]


def test_one_message_is_removed(broker: Running) -> None:
    fill(broker, "a", 3)
    rows = [json.loads(line) for line in broker.do("browse", "/queue/a", "-o", "json").stdout.splitlines()]
    identity = rows[1]["headers"]["message-id"]
    assert done(broker, "queue", "remove-message", "a", identity)[0]["removed"] is True
    again = broker.do("queue", "remove-message", "a", identity)
    assert again.returncode == 1
    assert identity in again.stderr
    assert broker.do("receive", "/queue/a").stdout == "0\n2\n"


def test_dead_letters_are_sent_back(broker: Running) -> None:
    broker.do("send", "/queue/a", "x", "--expires", "1ms")
    until_dead = 0
    while "ActiveMQ.DLQ" not in counts(broker):  # the sweep comes once a second
        until_dead += 1
        assert until_dead < 50
    (group,) = done(broker, "queue", "letters")
    assert (group["origin"], group["cause"].rstrip("0123456789"), group["count"]) == ("a", "expired at ", 1)
    assert (
        broker.do("queue", "retry", "--selector", "_AMQ_ORIG_QUEUE = 'b'").stderr
        == "sent 0 messages of ActiveMQ.DLQ back\n"
    )
    assert (
        broker.do("queue", "retry", "--selector", group["selector"]).stderr == "sent 1 messages of ActiveMQ.DLQ back\n"
    )
    assert counts(broker)["ActiveMQ.DLQ"] == 0
    assert broker.do("receive", "/queue/a").stdout == "x\n"


def test_queues_are_deleted_with_care(broker: Running) -> None:
    fill(broker, "a", 2)
    refused = broker.do("queue", "delete", "a", "--if-empty")
    assert refused.returncode == 2
    assert "it has 2 messages" in refused.stderr
    reader = start("receive", "/queue/b", "--follow", env=broker.environment)
    try:
        while "b" not in [row["queue"] for row in done(broker, "queue", "consumers")]:
            assert reader.poll() is None
        (consumer,) = done(broker, "queue", "consumers", "b")
        assert consumer["connection"].startswith("127.0.0.1:")
        assert broker.do("queue", "delete", "b", "--if-unused").returncode == 2
        assert broker.do("queue", "delete", "b").stderr == "deleted b with 0 messages\n"
    finally:
        reader.kill()
        reader.communicate()
    assert broker.do("queue", "delete", "a", "--yes").stderr == "deleted a with 2 messages\n"
    assert counts(broker) == {}


def at_terminal(broker: Running, answer: str, *arguments: str) -> tuple[int, str]:
    """Run a command whose input is a terminal at which ``answer`` is typed."""
    mine, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "entrepot", *arguments],
        stdin=its,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=broker.environment,
    )
    os.close(its)
    os.write(mine, answer.encode())
    _, told = process.communicate(timeout=PATIENCE)
    os.close(mine)
    return process.returncode, told.decode()


def test_at_a_terminal_one_is_asked(broker: Running) -> None:
    fill(broker, "a", 2)
    status, told = at_terminal(broker, "n\n", "queue", "purge", "a")
    assert status == 1
    assert "Remove the 2 messages of a?" in told
    assert counts(broker) == {"a": 2}
    status, told = at_terminal(broker, "", "queue", "purge", "a", "--yes", "-n", "1")
    assert (status, told) == (0, "removed 1 messages from a\n")
    status, told = at_terminal(broker, "y\n", "queue", "delete", "a")
    assert status == 0
    assert "Delete a with 1 messages and 0 consumers?" in told
    assert counts(broker) == {}


def test_what_waits_for_its_time_is_listed_and_cancelled(broker: Running) -> None:
    broker.do("send", "/queue/a", "late", "--delay", "2h")
    broker.do("send", "/queue/a", "soon", "--delay", "1h")
    soon, late = done(broker, "schedule", "list")
    assert late["deliver_at"] - soon["deliver_at"] > 3_500_000
    assert (soon["target"], len(soon["message-id"]) > 3) == ("queue://a", True)
    assert done(broker, "schedule", "cancel", str(soon["number"])) == [{"number": soon["number"], "cancelled": True}]
    again = broker.do("schedule", "cancel", str(soon["number"]), str(late["number"]))
    assert again.returncode == 1
    assert again.stderr.startswith(f"cancelled {late['number']}\n")
    assert broker.do("schedule", "list").stderr == "nothing waits for its time\n"


def test_connections_are_listed_and_closed(broker: Running) -> None:
    reader = start("receive", "/queue/b", "--follow", env=broker.environment)
    try:
        # Each command has a connection of its own, which may still be closing while the next one looks: the reader's is
        # the one that stays in every list made since it consumes.
        while not any(row["consumers"] for row in done(broker, "queue", "list")):
            pass
        rows = done(broker, "connection", "list")
        assert {row["protocol"] for row in rows} == {"stomp 1.2"}
        assert all(row["peer"].startswith("127.0.0.1:") for row in rows)
        (consumer,) = [row for row in done(broker, "connection", "consumers") if row["queue"] == "b"]
        assert (consumer["protocol"], consumer["messagesInTransit"], consumer["status"]) == ("STOMP", 0, "OK")
        assert done(broker, "connection", "producers") == []
        stayed = {row["id"] for row in rows}
        while len(stayed) > 1:
            stayed &= {row["id"] for row in done(broker, "connection", "list")}
        (first,) = stayed
        closed = broker.do("connection", "close", str(first), "9999")
        assert closed.returncode == 1
        assert f"closed {first}" in closed.stderr
        assert "9999" in closed.stderr
        _, told = reader.communicate(timeout=PATIENCE)
        assert b"an operator closed it" in told
    finally:
        reader.kill()


def test_leases_are_listed(broker: Running) -> None:
    fill(broker, "a", 2)
    epoch = str(json.loads(broker.do("lease", "attach", "/queue/a", "g", "-o", "json").stdout)["epoch"])
    broker.do("lease", "claim", "/queue/a", "g", "--epoch", epoch)
    (row,) = done(broker, "lease", "list")
    assert (row["queue"], row["group"], row["held"]) == ("a", "g", 2)
    assert broker.do("lease", "release", "/queue/a", "g", "--epoch", "7").returncode == 1
    assert done(broker, "lease", "release", "/queue/a", "g")[0]["returned"] == 2
    assert done(broker, "lease", "list")[0]["held"] == 0


def test_a_topic_is_leased_and_stages_are_listed_and_dropped(broker: Running) -> None:
    topic = ("/topic/t", "g", "--subscription", "s")
    epoch = str(done(broker, "lease", "attach", *topic)[0]["epoch"])
    wire = Wire(int(broker.facts["stomp"].rpartition(":")[2]))
    for part in ("p1", "p2"):
        wire.ask("STAGE", {"sink": "export", "batch": "3", "part": part})
        wire.send("/topic/t", part.encode(), persistent="true", stage=part)
    wire.ask("STAGED", {"sink": "export", "batch": "3", "part": "p1"})
    wire.ask("DECIDE", {"sink": "export", "batch": "3", "parts": "p1"})
    columns = ("sink", "batch", "part", "state", "messages")
    rows = [tuple(row[name] for name in columns) for row in done(broker, "stage", "list")]
    assert rows == [("export", 3, "p1", "decided", 1), ("export", 3, "p2", "open", 1)]
    assert done(broker, "stage", "list", "--sink", "other") == []
    assert done(broker, "stage", "drop", "export", "--batch", "3", "--part", "p2")[0]["dropped"] == 1
    assert wire.ask("STAGED", {"sink": "export", "batch": "3", "part": "p2"}).headers["code"] == "ENT-3026"
    assert wire.ask("PUBLISH", {"sink": "export", "batch": "3", "parts": "p1"}).headers["count"] == "1"
    assert wire.ask("DECIDE", {"sink": "export", "batch": "0", "parts": ""}).command == "ERROR"
    assert done(broker, "stage", "drop", "export", "--forget")[0]["dropped"] == 0
    assert wire.ask("DECIDE", {"sink": "export", "batch": "0", "parts": ""}).command == "RECEIPT"
    wire.leave()
    assert done(broker, "lease", "claim", *topic, "--epoch", epoch, "--wait", "10")[0]["end"] == 1
    assert broker.do("lease", "read", *topic, "--epoch", epoch).stdout == "p1\n"
    assert broker.do("lease", "attach", "/queue/q", "g", "--subscription", "s").returncode == 2
    assert broker.do("stage", "drop", "export", "--part", "p").returncode == 2
    assert broker.do("stage", "drop", "export", "--batch", "1", "--forget").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["queue", "show", "nowhere"], 2, "ENT-3002"),
        (["queue", "pause", "topic://T"], 2, "is a topic"),
        (["queue", "move", "a", "a"], 2, "source and target"),
        (["queue", "purge", "a", "-s", "a = = b"], 2, "ENT-3001"),
        (["queue", "purge"], 2, "Missing argument"),
        (["schedule", "cancel", "soon"], 2, "not a valid integer"),
        (["queue", "list", "--url", "stomp://127.0.0.1:1"], 1, "no broker answers"),
    ],
)
def test_failures_say_what_and_exit_accordingly(broker: Running, arguments: list[str], status: int, told: str) -> None:
    fill(broker, "a", 1)
    result = broker.do(*arguments)
    assert (result.returncode, result.stdout) == (status, "")
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_top_writes_each_look_for_programs_and_a_picture_into_a_pipe(broker: Running) -> None:
    fill(broker, "orders", 3)
    fill(broker, "letters", 1)
    looks = done(broker, "top", "--every", "0.3", "--count", "2", "--search", "ORD")
    assert [(row["broker"], row["messages"], row["error"]) for row in looks] == [(looks[0]["broker"], 4, None)] * 2
    assert looks[0]["in_per_s"] is None
    assert looks[1]["in_per_s"] == 0.0
    assert [(one["queue"], one["messages"], one["consumers"]) for one in looks[1]["top"]] == [("orders", 3, 0)]
    shown = broker.do("top", "--every", "0.3")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "in/s" in shown.stdout
    assert shown.stdout.index("orders") < shown.stdout.index("letters")
    nobody = broker.do("top", "stomp://127.0.0.1:1", "--every", "0.3")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "Connection refused" in nobody.stderr


def test_top_at_a_terminal_obeys_keys_and_leaves_it_as_it_was(broker: Running) -> None:
    fill(broker, "orders", 3)
    mine, its = pty.openpty()
    before = termios.tcgetattr(its)
    command = [sys.executable, "-m", "entrepot", "top", "--every", "0.2"]
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env={**broker.environment, "TERM": "xterm"})
    shown = b""
    end = time.monotonic() + PATIENCE
    while b"name*" not in shown and b"queue*" not in shown and time.monotonic() < end:
        if select.select([mine], [], [], 0.2)[0]:
            shown += os.read(mine, 65536)
        if b"orders" in shown:
            os.write(mine, b"n")
    os.write(mine, b"q")
    while process.poll() is None and time.monotonic() < end:
        if select.select([mine], [], [], 0.1)[0]:
            shown += os.read(mine, 65536)
    assert process.wait(PATIENCE) == 0, shown[-2000:]
    assert b"queue*" in shown
    assert termios.tcgetattr(its) == before
    os.close(mine)
    os.close(its)
