"""`entrepot drain` and the scale-down of a node that stops, while a reader that is gone holds a range by lease."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path

from test_cluster_switch import CONFIGURATION
from test_pair_xml import Running, Start, start

from pairs import free_port, until
from promises import never
from shell.daemon import Wire
from spark.soak_places import told

__all__ = ["start"]

SENT = [str(number).encode() for number in range(100)]
HELD = 10
SCALE_DOWN = """<ha-policy><primary-only><scale-down><connectors><connector-ref>other</connector-ref></connectors>
</scale-down></primary-only></ha-policy>
<acceptors>"""


class Two:
    """Two nodes of a cluster; at ``one`` a reader came, claimed the first ten of a hundred messages, and died."""

    def __init__(self, home: Path, start: Start) -> None:
        self._start = start
        self.stomp = {name: free_port() for name in ("one", "two")}
        core = {name: free_port() for name in self.stomp}
        self.files = {}
        for name, other in (("one", "two"), ("two", "one")):
            text = CONFIGURATION.replace("<acceptors>", SCALE_DOWN if name == "one" else "<acceptors>").format(
                name=name, journal=home / name, core=core[name], other=core[other], stomp=self.stomp[name]
            )
            self.files[name] = home / f"{name}.xml"
            self.files[name].write_text(text)
        self.url = f"stomp://127.0.0.1:{self.stomp['one']}"
        self.one, _ = (self.start(name) for name in self.stomp)
        wire = self.wire("one")
        for body in SENT:
            assert wire.send("/queue/q", body, persistent="true").command == "RECEIPT"
        self.lease = {"queue": "/queue/q", "group": "nightly"}
        wire.ask("ATTACH", self.lease)
        answer = wire.ask("CLAIM", {**self.lease, "epoch": "1", "start": "0", "max": str(HELD)})
        assert (answer.command, answer.headers["tail"]) == ("RECEIPT", str(HELD)), answer
        wire.cut()

    def start(self, name: str) -> Running:
        running = self._start(self.files[name])
        until(running.serves, f"{name} serves")
        return running

    def wire(self, name: str) -> Wire:
        return Wire(self.stomp[name])

    def drain(self, *words: str) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = told("drain", "--url", self.url, *words)
        return done

    def keep_reading(self, ended: threading.Event) -> None:
        """Be the reader who lives, until ``ended``."""
        wire = self.wire("one")
        while not ended.wait(1):
            answer = wire.ask("READ", {**self.lease, "epoch": "1", "start": "0", "end": "1"})
            assert answer.command == "RECEIPT", answer
        wire.cut()

    def taken(self, name: str) -> list[bytes]:
        return [frame.body for frame in self.wire(name).drain("/queue/q")]


def test_a_drain_ends_and_says_who_holds_what(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    planned = [json.loads(line) for line in two.drain("--dry-run", "--output", "json").stdout.splitlines()]
    assert [(row["queue"], row["messages"], row["who"]) for row in planned] == [("q", 90, ""), ("q", 10, "nightly")]
    done = two.drain()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "entrepot lease release q nightly" in done.stderr, done.stderr
    assert "10 messages stay" in done.stderr, done.stderr
    with never():
        assert two.taken("two") == SENT[HELD:]
    released = told("lease", "release", "/queue/q", "nightly", "--url", two.url)
    assert released.returncode == 0, released.stderr
    assert two.drain().returncode == 0
    with never():
        assert two.taken("two") == SENT[:HELD]


def test_a_drain_waits_for_a_reader_that_is_heard_of_and_can_be_aborted(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    ended = threading.Event()
    reader = threading.Thread(target=two.keep_reading, args=(ended,))
    reader.start()
    try:
        assert two.drain("--no-wait").returncode == 0
        until(lambda: "90 moved, 0 left, 10 stay" in two.drain("--status").stderr, "what nobody holds is there")
        stands = two.drain("--status").stderr
        assert "moving to" in stands, stands
        assert "it waits for 'nightly'" in stands, stands
        done = two.drain("--abort")
        assert done.returncode == 0, done.stderr
    finally:
        ended.set()
        reader.join()
    with never():
        assert two.taken("two") == SENT[HELD:]


def test_a_node_that_stops_keeps_what_a_lease_holds_and_serves_it_again(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    two.one.process.send_signal(signal.SIGTERM)
    assert two.one.process.wait(30) == 0, "it waits for no reader, for none can come"
    assert "'nightly' holds the range 0 to 10" in two.one.text()
    with never():
        assert two.taken("two") == SENT[HELD:]
    two.start("one")
    wire = two.wire("one")
    epoch = wire.ask("ATTACH", two.lease).headers["epoch"]
    wire.ask("READ", {**two.lease, "epoch": epoch, "start": "0", "end": str(HELD)})
    with never():
        assert [frame.body for frame in wire.others] == SENT[:HELD]
    assert wire.ask("SETTLE", {**two.lease, "epoch": epoch, "end": str(HELD)}).command == "RECEIPT"
    assert two.taken("one") == []
