"""bench/load.c must refuse a broker that loses, repeats, reorders or damages messages: its figures rest on it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "bench" / "load.c"
Wrong = Callable[[list[bytes]], list[bytes]]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("load") / "load"
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", "-Werror", "-Wall", "-o", str(built), str(SOURCE)], check=True, timeout=60
    )
    return built


class QueueBroker:
    """One queue, one round robin, and a chance to get the bodies wrong on their way out."""

    def __init__(self, wrong: Wrong, answer_receipts: bool) -> None:
        self._wrong = wrong
        self._answer_receipts = answer_receipts
        self._consumers: list[socket.socket] = []
        self._lock = threading.Lock()
        self._turn = 0
        self.acknowledged: list[bytes] = []

    def serve(self, link: socket.socket) -> None:
        waiting = b""
        with link:
            while chunk := link.recv(65536):
                *frames, waiting = (waiting + chunk).split(b"\0")
                with self._lock:
                    self._take(link, frames)

    def _take(self, link: socket.socket, frames: list[bytes]) -> None:
        sends = []
        for frame in frames:
            head, _, body = frame.partition(b"\n\n")
            command, *lines = head.split(b"\n")
            headers = dict(line.split(b":", 1) for line in lines)
            if command == b"CONNECT":
                link.sendall(b"CONNECTED\nversion:1.2\nserver:test\n\n\0")
            elif command == b"SUBSCRIBE":
                self._consumers.append(link)
            elif command == b"ACK":
                self.acknowledged.append(headers[b"id"])
            elif command == b"SEND":
                sends.append(body)
            if b"receipt" in headers and (command != b"SEND" or self._answer_receipts):
                link.sendall(b"RECEIPT\nreceipt-id:" + headers[b"receipt"] + b"\n\n\0\n")
        for body in self._wrong(sends):
            self._turn += 1
            self._consumers[self._turn % len(self._consumers)].sendall(
                b"MESSAGE\nsubscription:0\nmessage-id:%d\nack:%d\ncontent-length:%d\n\n%s\0\n"
                % (self._turn, self._turn, len(body), body)
            )


@contextmanager
def listening(broker: QueueBroker) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=broker.serve, args=(link,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def run(program: Path, port: int, *options: str) -> tuple[int, dict[str, Any]]:
    command = [str(program), "--port", str(port), "--drain", "0.3", "--timeout", "10", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, json.loads(done.stdout)


def right(bodies: list[bytes]) -> list[bytes]:
    return bodies


def once(change: Wrong) -> Wrong:
    """Apply a change to the first batch that has at least two messages."""
    pending = [change]

    def wrong(bodies: list[bytes]) -> list[bytes]:
        return pending.pop()(bodies) if pending and len(bodies) > 1 else bodies

    return wrong


@pytest.mark.parametrize("shape", [(1, 1), (3, 2)])
def test_a_right_broker_passes(program: Path, shape: tuple[int, int]) -> None:
    producers, consumers = shape
    broker = QueueBroker(right, answer_receipts=True)
    with listening(broker) as port:
        status, said = run(
            program, port, "--count", "3000", "--window", "500", "--ack", "client-individual",
            "--producers", str(producers), "--consumers", str(consumers),
        )  # fmt: skip
    assert (status, said["ok"], said["total_sent"], said["total_delivered"]) == (0, True, 3000, 3000)
    assert said["confirmed"] <= 3000
    assert sorted(map(int, broker.acknowledged)) == list(range(1, 3001))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda bodies: bodies[1:], "missing"),
        (lambda bodies: [bodies[0], *bodies], "duplicate"),
        (lambda bodies: [bodies[1], bodies[0], *bodies[2:]], "reordered"),
        (lambda bodies: [bodies[0][:-1], *bodies[1:]], "corrupt"),
        (lambda bodies: [b"PPPPPPPP" + bodies[0][8:], *bodies[1:]], "corrupt"),
    ],
    ids=["lost", "repeated", "swapped", "cut short", "of another run"],
)
def test_a_wrong_broker_is_found_out(program: Path, change: Wrong, fault: str) -> None:
    with listening(QueueBroker(once(change), answer_receipts=True)) as port:
        status, said = run(program, port, "--count", "1000")
    assert (status, said["ok"]) == (1, False)
    assert said["faults"][fault] >= 1
    assert said["faults"]["first"]


def test_damaged_filler_is_found_by_the_periodic_full_check(program: Path) -> None:
    def damaged(bodies: list[bytes]) -> list[bytes]:
        return [body[:-1] + b"!" for body in bodies]

    with listening(QueueBroker(damaged, answer_receipts=True)) as port:
        status, said = run(program, port, "--count", "1000")
    assert (status, said["faults"]["corrupt"]) == (1, 1000 // 64)


def test_receipts_that_never_come_are_missing_and_bound_the_sending(program: Path) -> None:
    with listening(QueueBroker(right, answer_receipts=False)) as port:
        status, said = run(program, port, "--count", "1000", "--window", "100", "--timeout", "1")
    assert (status, said["total_sent"], said["faults"]["missing"]) == (1, 100, 100)


def test_a_paced_load_keeps_its_rate_and_times_each_message(program: Path) -> None:
    with listening(QueueBroker(right, answer_receipts=True)) as port:
        status, said = run(program, port, "--rate", "1000", "--warm-seconds", "0.1", "--seconds", "0.4")
    latency = said["latency"]
    assert (status, said["total_sent"], latency["count"]) == (0, 500, 400)
    assert 0 < latency["p50_us"] <= latency["p99_us"] <= latency["p999_us"] <= latency["max_us"]


def test_a_stalled_broker_is_charged_for_what_was_due_meanwhile(program: Path) -> None:
    release = threading.Event()
    threading.Timer(0.5, release.set).start()

    def stalled(bodies: list[bytes]) -> list[bytes]:
        if bodies:
            release.wait()
        return bodies

    with listening(QueueBroker(stalled, answer_receipts=True)) as port:
        status, said = run(program, port, "--rate", "1000", "--seconds", "0.4")
    assert (status, said["latency"]["count"]) == (0, 400)
    assert said["latency"]["p50_us"] > 150_000  # half of the messages were due more than 0.2 s before the release


def test_no_broker_is_a_clear_fault(program: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        status, said = run(program, unused.getsockname()[1], "--count", "1")
    assert status == 1
    assert "Connection refused" in said["faults"]["first"][0]


@pytest.mark.parametrize("options", [["--count", "0"], ["--ack", "maybe"], ["--rate", "5"], ["--size", "3"], ["stray"]])
def test_a_usage_error_says_so(program: Path, options: list[str]) -> None:
    done = subprocess.run(
        [str(program), "--port", "1", *options], capture_output=True, text=True, timeout=10, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("load: ")
    assert not done.stdout
