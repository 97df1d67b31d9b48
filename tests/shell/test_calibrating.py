"""`entrepot pipeline calibrate` beside real consumers: it says what they can take, and leaves the queue as it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.daemon import PATIENCE, Daemon, Wire


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path, ephemeral=True).start()
    yield running
    running.kill()


class Slow(threading.Thread):
    """Takes one message after the other, ``pace`` s each; notes when it was done with each."""

    def __init__(self, daemon: Daemon, pace: float) -> None:
        super().__init__(daemon=True)
        self.pace = pace
        self.done: list[float] = []
        self.wire = Wire(daemon.port)
        self.wire.subscribe("/queue/orders", ack="client-individual", **{"activemq.prefetchSize": "1"})

    def run(self) -> None:
        try:
            while True:
                message = self.wire.message()
                time.sleep(self.pace)
                self.wire.say("ACK", {"id": message.headers["ack"]})
                self.done.append(time.monotonic())
        except (OSError, AssertionError, EOFError):
            return  # the broker is gone

    def fastest(self, count: int) -> float:
        """Return the rate at which it did so many, one behind the other, when it did them fastest."""
        return max(count / (self.done[at + count] - self.done[at]) for at in range(len(self.done) - count))


def calibrate(daemon: Daemon, *words: str) -> list[str]:
    command = [sys.executable, "-m", "entrepot", "pipeline", "calibrate", "orders", "--yes", "-o", "json"]
    return [*command, "--url", f"stomp://127.0.0.1:{daemon.port}", *words]


def paused(daemon: Daemon) -> bool:
    command = [sys.executable, "-m", "entrepot", "queue", "show", "orders", "-o", "json"]
    told = subprocess.run([*command, "--url", f"stomp://127.0.0.1:{daemon.port}"], capture_output=True, check=True)
    return bool(json.loads(told.stdout)["paused"])


def test_it_finds_what_two_consumers_can_take_that_get_a_tenth_of_it(daemon: Daemon) -> None:
    consumers = [Slow(daemon, 0.05) for _ in range(2)]
    for one in consumers:
        one.start()
    wire = Wire(daemon.port)
    ended = threading.Event()

    def produce() -> None:
        while not ended.wait(0.1):
            for _ in range(3):
                wire.send("/queue/orders", b"x")

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    told = subprocess.run(
        calibrate(daemon, "--seconds", "5", "--most", "60"), capture_output=True, timeout=4 * PATIENCE
    )
    ended.set()
    producer.join(PATIENCE)
    assert told.returncode == 0, told.stderr
    (row,) = [json.loads(line) for line in told.stdout.splitlines()]
    assert (row["consumers"], row["known"]) == (2, "limit"), row
    assert row["waited"] >= 20
    did = sum(one.fastest(10) for one in consumers)  # by their own clock
    assert row["rate"] == pytest.approx(did, rel=0.2), row
    assert row["each"] == pytest.approx(row["rate"] / 2, abs=0.1)
    assert not paused(daemon)


def test_it_resumes_what_it_held_when_it_is_told_to_end_and_refuses_what_it_cannot_know(daemon: Daemon) -> None:
    wire = Wire(daemon.port)
    wire.send("/queue/orders", b"x")
    told = subprocess.run(calibrate(daemon), capture_output=True, text=True, timeout=PATIENCE)
    assert told.returncode == 1
    assert "nobody reads orders" in told.stderr
    Slow(daemon, 0.0).start()
    running = subprocess.Popen(calibrate(daemon, "--seconds", "60"), stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE
    while not paused(daemon):
        assert time.monotonic() < until
    again = subprocess.run(calibrate(daemon), capture_output=True, text=True, timeout=PATIENCE)
    assert again.returncode == 1
    assert "orders is paused" in again.stderr
    assert paused(daemon)  # the second one left alone what it did not hold
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "the queue delivers again" in said
    assert not paused(daemon)
