"""The commands as a person uses them: real processes, a real broker, pipes and signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 30.0  # s: a process starts in a fifth of a second on an idle machine


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "entrepot", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


class Running:
    """A broker process."""

    def __init__(self, directory: Path, *arguments: str, stdin: int = subprocess.DEVNULL) -> None:
        self.directory = directory
        self.ports = directory / "ports.json"
        command = ["run", "--listen", "stomp://127.0.0.1:0", "--ports-file", str(self.ports), *arguments]
        self.process = start(*command, cwd=directory, stdin=stdin)
        until = time.monotonic() + PATIENCE
        while not self.ports.exists():
            assert self.process.poll() is None, self.process.communicate()[1].decode()
            assert time.monotonic() < until
            time.sleep(0.01)
        self.facts = json.loads(self.ports.read_text())
        self.environment = {**os.environ, "ENTREPOT_URL": self.facts["stomp"]}

    def stop(self, signal_number: int = signal.SIGTERM) -> str:
        """End it and return what it wrote for people."""
        self.process.send_signal(signal_number)
        _, told = self.process.communicate(timeout=PATIENCE)
        return told.decode()

    def do(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "entrepot", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self.environment,
            check=False,
        )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path, "--data", "data")
    yield running
    if running.process.poll() is None:
        running.stop()


def test_the_banner_names_everything_one_needs_and_sigterm_ends_well(broker: Running) -> None:
    told = broker.stop()
    assert broker.process.returncode == 0
    uri = broker.facts["stomp"]
    for wanted in (uri, str(broker.directory / "data"), broker.facts["node"], "recovered", f"--url {uri} /queue/hello"):
        assert wanted in told
    assert not broker.ports.exists()


def test_ctrl_c_ends_well(tmp_path: Path) -> None:
    running = Running(tmp_path, "--ephemeral")
    told = running.stop(signal.SIGINT)
    assert running.process.returncode == 0
    assert "--ephemeral" in told
    assert not (tmp_path / "entrepot-data").exists()


def test_the_end_of_its_input_ends_it_well_where_that_is_asked_for(tmp_path: Path) -> None:
    running = Running(tmp_path, "--data", "data", "--until-eof", stdin=subprocess.PIPE)
    assert running.process.stdin is not None
    running.process.stdin.write(b"nobody reads this\n")
    running.process.stdin.flush()
    assert running.do("send", "/queue/q", given="kept\n").returncode == 0
    assert running.process.poll() is None
    _, told = running.process.communicate(timeout=PATIENCE)  # closes its input first
    assert running.process.returncode == 0
    assert "stopping: SIGTERM" in told.decode()


def test_lines_in_lines_out(broker: Running) -> None:
    numbers = "".join(f"{number}\n" for number in range(1500))
    sent = broker.do("send", "/queue/numbers", given=numbers)
    assert (sent.returncode, sent.stdout) == (0, "")
    assert "1,500" in sent.stderr
    received = broker.do("receive", "/queue/numbers", "--count", "1500")
    assert (received.returncode, received.stdout) == (0, numbers)


def test_what_was_sent_survives_the_broker(broker: Running) -> None:
    assert broker.do("send", "/queue/a", "kept", "--priority", "7", "-H", "colour=red").returncode == 0
    broker.process.kill()
    broker.process.communicate()
    broker.ports.unlink()
    again = Running(broker.directory, "--data", "data")
    try:
        line = json.loads(again.do("receive", "/queue/a", "--json", "-n", "1").stdout)
        assert (line["body"], line["headers"]["priority"], line["properties"]) == ("kept", "7", {"colour": "red"})
    finally:
        assert "1 messages" in again.stop()


def test_json_lines_move_messages_from_one_queue_to_another(broker: Running) -> None:
    given = '{"body": "two\\nlines", "properties": {"n": 1}}\n{"body_base64": "/wA=", "headers": {"priority": 3}}\n'
    assert broker.do("send", "/queue/a", "--json", given=given).returncode == 0
    carried = broker.do("receive", "/queue/a", "--json", "-n", "2").stdout
    assert broker.do("send", "/queue/b", "--json", given=carried).returncode == 0
    first, second = (json.loads(line) for line in broker.do("browse", "/queue/b", "-o", "json").stdout.splitlines())
    assert (first["body"], first["properties"]) == ("two\nlines", {"n": "1"})
    assert (second["body_base64"], second["type"], second["headers"]["priority"]) == ("/wA=", "bytes", "3")


def test_browse_leaves_messages_and_selectors_select(broker: Running) -> None:
    for colour in ("red", "blue", "red"):
        broker.do("send", "/queue/a", f"a {colour} thing", "-H", f"colour={colour}")
    table = broker.do("browse", "/queue/a").stdout
    assert table.count("thing") == 3
    assert broker.do("browse", "/queue/a", "-s", "colour = 'blue'").stdout.count("thing") == 1
    cut = broker.do("browse", "/queue/a", "-n", "2")
    assert cut.stdout.count("thing") == 2
    assert broker.do("receive", "/queue/a", "-s", "colour = 'red'").stdout == "a red thing\na red thing\n"
    assert broker.do("receive", "/queue/a").stdout == "a blue thing\n"
    assert broker.do("browse", "/queue/a").stdout == ""


def test_expired_and_delayed_messages(broker: Running) -> None:
    assert broker.do("send", "/queue/a", "late", "--delay", "1h").returncode == 0
    assert broker.do("send", "/queue/a", "stale", "--expires", "1ms").returncode == 0
    assert broker.do("receive", "/queue/a", "--timeout", "200ms").stdout == ""


def test_a_reader_that_goes_away_ends_it_quietly_and_loses_nothing(broker: Running) -> None:
    count = 60_000  # more than pipes and windows hold
    broker.do("send", "/queue/a", given="".join(f"{number}\n" for number in range(count)))
    receiving = start("receive", "/queue/a", env=broker.environment)
    assert receiving.stdout is not None
    assert receiving.stderr is not None
    first = receiving.stdout.readline()
    receiving.stdout.close()
    assert receiving.wait(PATIENCE) == 0
    assert (first, receiving.stderr.read()) == (b"0\n", b"")
    receiving.stderr.close()
    left = broker.do("receive", "/queue/a").stdout.split()
    # What was written to the pipe before it broke is gone; the rest is there, in order, without a hole.
    assert left == [str(number) for number in range(count - len(left), count)]
    assert len(left) > 0


def test_follow_waits_and_ctrl_c_is_its_normal_end(broker: Running) -> None:
    following = start("receive", "/topic/news", "--follow", env=broker.environment)
    assert following.stdout is not None
    until = time.monotonic() + PATIENCE
    while True:  # the subscription is made at some moment; a topic keeps nothing for those who come later
        broker.do("send", "/topic/news", "hello")
        os.set_blocking(following.stdout.fileno(), False)
        heard = following.stdout.read()
        if heard:
            break
        assert time.monotonic() < until
    assert heard.startswith(b"hello\n")
    following.send_signal(signal.SIGINT)
    assert following.wait(PATIENCE) == 0
    following.communicate()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["receive", "/queue/a", "-n", "1", "--timeout", "50ms"], 1, "only 0 of 1"),
        (["receive", "/queue/a", "-s", "a = = b"], 2, "ENT-3001"),
        (["send", "/queue/", "x"], 2, "ENT-3002"),
        (["send", "/queue/a", "--json"], 2, "message 1 of the input"),
        (["send", "/queue/a", "x", "--url", "gopher://127.0.0.1"], 2, "ENT-2002"),
        (["send", "/queue/a", "x", "--url", "stomp://127.0.0.1:1"], 1, "no broker answers"),
    ],
)
def test_failures_say_what_and_exit_accordingly(broker: Running, arguments: list[str], status: int, told: str) -> None:
    done = broker.do(*arguments, given="no json\n")
    assert (done.returncode, done.stdout) == (status, "")
    assert told in done.stderr
    assert "→" in done.stderr or "receive" in arguments
    assert "Traceback" not in done.stderr


def test_the_second_of_two_places_is_tried(broker: Running) -> None:
    url = f"failover:(stomp://127.0.0.1:1,{broker.facts['stomp']})"
    assert broker.do("send", "/queue/a", "x", "--url", url).returncode == 0
    assert broker.do("receive", "/queue/a", "-n", "1").stdout == "x\n"


def test_a_data_directory_has_one_broker(broker: Running) -> None:
    second = broker.do("run", "--data", str(broker.directory / "data"), "--listen", "stomp://127.0.0.1:0")
    assert second.returncode == 1
    assert "ENT-2004" in second.stderr
    checked = broker.do("data", "check", str(broker.directory / "data"))
    assert checked.returncode == 1
    broker.stop()
    checked = broker.do("data", "check", str(broker.directory / "data"), "-o", "json")
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["messages"] == 0


def test_a_port_in_use(broker: Running) -> None:
    second = broker.do("run", "--ephemeral", "--listen", broker.facts["stomp"])
    assert second.returncode == 1
    assert "ENT-2003" in second.stderr


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_perf_counts_every_message(broker: Running, kind: str) -> None:
    options = ["--kind", kind, "-p", "2", "-c", "2", "-n", "1001", "--ack", "client-individual", "--persistent"]
    done = broker.do("perf", *options, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["sent"], figures["missing"]) == (1001, 0)
    assert figures["received"] == (1001 if kind == "queue" else 2002)
    assert figures["latency_ms"]["p50"] <= figures["latency_ms"]["max"]
    assert "confirmation_ms" in figures


@pytest.mark.parametrize("scheme", ["core", "tcp"])
@pytest.mark.parametrize(
    "options",
    [
        ("--persistent", "--producers", "2", "--consumers", "2", "--ack", "client"),
        ("--persistent", "--window", "7", "--ack", "client-individual"),
        ("--kind", "topic", "--consumers", "3"),
        ("--consumers", "0", "--size", "5000"),
    ],
)
def test_perf_by_the_client_counts_every_message(tmp_path: Path, scheme: str, options: tuple[str, ...]) -> None:
    broker = Running(tmp_path, "--data", "data", "--listen", "auto://127.0.0.1:0")
    try:
        place = broker.facts["uris"][1].replace("auto", scheme)
        done = broker.do("perf", "--connect", place, "--count", "301", *options, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        figures = json.loads(done.stdout)
        copies = (
            figures["settings"]["consumers"] if figures["settings"]["topic"] else figures["settings"]["consumers"] > 0
        )
        assert (figures["sent"], figures["received"], figures["missing"]) == (301, 301 * copies, 0)
        assert ("confirmation_ms" in figures) == figures["settings"]["persistent"]
        assert ("latency_ms" in figures) == (figures["settings"]["consumers"] > 0)
    finally:
        broker.stop()
    gone = broker.do("perf", "--connect", f"failover:({place})?startupMaxReconnectAttempts=1", "--count", "5")
    assert gone.returncode == 1
    assert "no broker" in gone.stderr or "refused" in gone.stderr


def test_perf_keeps_its_rate(broker: Running) -> None:
    figures = json.loads(broker.do("perf", "--rate", "200", "-d", "1s", "--json").stdout)
    assert 195 <= figures["sent"] <= 201
    assert figures["received"] == figures["sent"]
    assert "lateness_ms" in figures


def test_a_lease_from_attach_to_release(broker: Running) -> None:
    broker.do("send", "/queue/a", given="1\n2\n3\n4\n")

    def lease(command: str, *arguments: str) -> Any:
        done = broker.do("lease", command, "/queue/a", "nightly", *arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    epoch = str(lease("attach")["epoch"])
    assert lease("claim", "--epoch", epoch, "--max", "3")["end"] == 3
    for _ in range(2):
        assert broker.do("lease", "read", "/queue/a", "nightly", "--epoch", epoch).stdout == "1\n2\n3\n"
    assert lease("settle", "--epoch", epoch, "--end", "2")["settled"] == 2
    assert lease("release", "--epoch", epoch)["returned"] == 1
    assert broker.do("lease", "read", "/queue/a", "nightly", "--epoch", epoch).returncode == 1
    assert broker.do("receive", "/queue/a").stdout == "3\n4\n"


def test_a_lease_with_bounds_of_time_and_octets(broker: Running) -> None:
    broker.do("send", "/queue/bounds", given="".join(f"{number}" * 1_000 + "\n" for number in range(6)))

    def lease(command: str, *arguments: str) -> Any:
        done = broker.do("lease", command, "/queue/bounds", "nightly", *arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    # all of them were sent after 1970-01-01T00:00:01
    early = lease("attach", "--until", "1000")
    assert early["until"] == 1000
    assert lease("claim", "--epoch", str(early["epoch"]))["end"] == 0
    epoch = str(lease("attach")["epoch"])
    assert lease("claim", "--epoch", epoch, "--octets", "0")["end"] == 0
    first = lease("claim", "--epoch", epoch, "--octets", "1")
    assert first["end"] == 1, "one message always"
    assert 1_000 < first["octets"] < 2_000
    assert lease("claim", "--epoch", epoch, "--start", "0", "--octets", "9999") == {**first, "octets": 0}
    assert lease("claim", "--epoch", epoch, "--octets", str(2 * first["octets"]))["end"] == 3
    assert lease("claim", "--epoch", epoch, "--max", "1", "--octets", "999999")["end"] == 4, "whichever comes first"
    assert lease("claim", "--epoch", epoch, "--octets", "999999")["end"] == 6
    assert broker.do("lease", "claim", "/queue/bounds", "nightly", "--epoch", epoch, "--octets", "-1").returncode == 2
    lease("release")


def test_a_damaged_large_body_is_found_by_check_and_dies_alone(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    running = Running(tmp_path, "--data", data)
    host, _, port = running.facts["stomp"].removeprefix("stomp://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SEND\ndestination:/queue/q\npersistent:true\n")
        connection.sendall(b"content-length:1536000\n\n" + b"x" * 1_536_000 + b"\0DISCONNECT\nreceipt:1\n\n\0")
        while connection.recv(4096):
            pass
    assert running.do("send", "/queue/q", "small").returncode == 0
    running.stop()
    (blob,) = (tmp_path / "data" / "blobs").glob("*.blob")
    whole = running.do("data", "check", data, "--output", "json")
    assert (whole.returncode, json.loads(whole.stdout)["bodies"], json.loads(whole.stdout)["lost"]) == (0, 1, 0)
    octets = bytearray(blob.read_bytes())
    octets[1_000_000] ^= 4
    blob.write_bytes(octets)
    (blob.parent / "99.blob").write_bytes(b"nobody's")
    found = running.do("data", "check", data, "--output", "json")
    assert found.returncode == 1
    row = json.loads(found.stdout)
    assert (row["bodies"], row["lost"], row["orphans"]) == (1, 1, 1)
    assert "octets 786432 to 1048576 fail their checksum" in found.stderr
    assert "blobs/99.blob" in found.stderr
    running = Running(tmp_path, "--data", data)
    first = running.do("receive", "/queue/q", "--count", "1")
    assert "x" * 100 not in first.stdout, "half of a body is none"
    second = running.do("receive", "/queue/q", "--count", "1")
    assert second.stdout == "small\n"
    letter = running.do("receive", "/queue/ActiveMQ.DLQ", "--count", "1", "--json")
    said = json.loads(letter.stdout)
    assert said["body"] == ""
    assert "1536000" in letter.stdout
    assert "entrepotBodyLost" in letter.stdout
    running.stop()
    assert [path.suffix for path in blob.parent.iterdir()] == [".damaged"]


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_damaged_directory_is_salvaged_and_not_touched(tmp_path: Path) -> None:
    data, rescued = tmp_path / "data", tmp_path / "rescued"
    running = Running(tmp_path, "--data", str(data))
    assert running.do("send", "/queue/q", given="".join(f"m{number}\n" for number in range(200))).returncode == 0
    refused = running.do("data", "salvage", str(data), str(rescued))
    assert refused.returncode == 1
    assert "is in use by" in refused.stderr
    running.stop()
    (segment,) = (data / "journal").glob("*.seg")
    octets = bytearray(segment.read_bytes())
    octets[octets.index(b"m77")] ^= 1
    segment.write_bytes(octets)
    before = tree(data)
    checked = running.do("data", "check", str(data))
    assert checked.returncode == 1
    assert "data salvage" in checked.stderr
    done = running.do("data", "salvage", str(data), str(rescued), "--output", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stderr
    assert tree(data) == before
    assert (rows[-1]["messages"], rows[-1]["losses"]) == (199, 1)
    assert rows[0]["queues"] == ["q"]
    assert rows[0]["settlements"] is False
    assert running.do("data", "check", str(rescued)).returncode == 0
    assert [path for path in rescued.rglob("*") if path.stat().st_mode & 0o077] == []
    again = running.do("data", "salvage", str(data), str(rescued))
    assert again.returncode == 1
    assert "is not empty" in again.stderr
    text = running.do("data", "salvage", str(data), str(tmp_path / "more")).stdout
    assert f"perhaps message {rows[0]['message']} of q" in text
    running = Running(tmp_path, "--data", str(rescued))
    found = running.do("receive", "/queue/q", "--count", "199").stdout.split()
    assert found == [f"m{number}" for number in range(200) if number != 77]
    running.stop()


def lines_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_send_tells_the_ids_that_where_and_browse_know(broker: Running) -> None:
    one = broker.do("send", "/queue/told", "one")
    identity = one.stdout.strip()
    assert identity.startswith("ID:")
    shown = json.loads(broker.do("browse", "/queue/told", "-o", "json").stdout)
    assert shown["headers"]["message-id"] == identity
    assert "waiting in told" in broker.do("where", identity, "--alone").stdout
    several = broker.do("send", "/queue/told", "more", "--count", "3")
    first, last = several.stderr.strip().rpartition(", ")[2].split(" to ")
    assert several.stdout == ""
    told = lines_of(broker.do("send", "/queue/told", "x", "-n", "2", "-o", "json"))
    assert [row["destination"] for row in told] == ["/queue/told", "/queue/told"]
    seen = broker.do("browse", "/queue/told", "-o", "json")
    known = [row["headers"]["message-id"] for row in lines_of(seen)]
    assert known == [identity, first, known[2], last, *(row["message_id"] for row in told)]
    assert "receipt-message-id" not in seen.stdout


def test_a_name_that_is_like_another_is_suggested(broker: Running) -> None:
    broker.do("send", "/queue/orders.eu", "one")
    refused = broker.do("queue", "show", "orders.ue")
    assert refused.returncode == 2
    assert "did you mean orders.eu?" in refused.stderr
    assert "did you mean orders.eu?" in broker.do("explain", "ordrs.eu", "--alone").stdout
    assert "did you mean" not in broker.do("explain", "something.else.altogether", "--alone").stdout


def test_connections_are_shown_as_queues_are(broker: Running) -> None:
    (row,) = lines_of(broker.do("connection", "list", "-o", "json"))
    assert [type(row[name]) for name in ("id", "subscriptions", "received", "sent")] == [int] * 4
    assert not any("-" in name for name in row)
    assert row["client_id"] == ""
