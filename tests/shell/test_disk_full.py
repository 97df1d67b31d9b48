"""A disk that is full, for real, on a small tmpfs; and what keeps a broker process from starting.

A full disk must give a clear ERROR, lose nothing that was confirmed, let consumers empty the queues, and be forgotten
once there is room. Needs root for the mount; elsewhere those tests are skipped, and the simulation covers the same.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from promises import never
from shell.daemon import PATIENCE, Daemon, Wire

SMALL = "224m"  # seven segments of 32 MiB
BODY = 100_000

needs_mount = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a small tmpfs needs root"
)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A directory with room for `SMALL`."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def daemon(small: Path) -> Iterator[Daemon]:
    made = Daemon(small).start()
    yield made
    assert made.process is not None
    if made.process.poll() is None:
        made.kill()


def fill(wire: Wire, most: int = 10_000) -> list[bytes]:
    """Send until the broker says that the disk is full; return the bodies that it confirmed."""
    confirmed: list[bytes] = []
    for number in range(most):
        body = b"%08d" % number + bytes(BODY)
        answer = wire.send("/queue/q", body, persistent="true")
        if answer.command == "ERROR":
            assert answer.headers["code"] == "ENT-4002", answer
            assert "full" in answer.headers["message"] or "space" in answer.headers["message"]
            assert answer.body.decode() != answer.headers["message"], "it says what to do next"
            return confirmed
        confirmed.append(body[:8])
    raise AssertionError("the disk never became full")


def empty(wire: Wire) -> list[bytes]:
    """Take everything from the queue, each message acknowledged with a receipt."""
    wire.subscribe("/queue/q", ack="client-individual")
    found: list[bytes] = []
    wire.say("SEND", {"destination": "/queue/q", "persistent": "false"}, b"the end")
    while not found or found[-1] != b"the end":
        message = wire.message()
        found.append(message.body[:8])
        assert wire.ask("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
    found.pop()
    wire.ask("UNSUBSCRIBE", {"id": "/queue/q"})
    return found


def until_it_takes(wire: Wire) -> None:
    """Wait until persistent messages are taken again."""
    until = time.monotonic() + PATIENCE
    while wire.send("/queue/after", b"x", persistent="true").command == "ERROR":
        assert time.monotonic() < until, "the broker never recovered"
        time.sleep(0.05)


@needs_mount
def test_a_full_disk_is_said_nothing_is_lost_and_it_passes(daemon: Daemon) -> None:
    wire = Wire(daemon.port)
    confirmed = fill(wire)
    assert len(confirmed) > 1000
    # Whatever else needs the disk is refused as clearly, and the connection lives on.
    assert wire.send("/queue/q", bytes(3 << 20), persistent="true").headers["code"] == "ENT-4002"
    wire.say("BEGIN", {"transaction": "t"})
    wire.say("SEND", {"destination": "/queue/torn", "persistent": "true", "transaction": "t"}, b"1")
    assert wire.ask("COMMIT", {"transaction": "t"}).command == "ERROR"
    # What needs no disk goes on.
    wire.subscribe("/topic/t")
    wire.say("SEND", {"destination": "/topic/t"}, b"live")
    assert wire.message().body == b"live"
    found = empty(Wire(daemon.port))
    with never():
        with never():
            assert found[: len(confirmed)] == confirmed
        assert len(found) == len(set(found)) <= len(confirmed) + 1, "the one that was refused may not come twice"
    until_it_takes(wire)
    assert len(fill(wire)) > len(confirmed) // 2
    assert daemon.process is not None
    assert daemon.process.poll() is None


@needs_mount
def test_a_full_disk_is_what_explain_says(daemon: Daemon) -> None:
    confirmed = fill(Wire(daemon.port))
    result = subprocess.run(
        [sys.executable, "-m", "entrepot", "explain", "q", "--url", f"stomp://127.0.0.1:{daemon.port}", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    (queue,) = json.loads(result.stdout.splitlines()[0])["queues"]
    reasons = {reason["code"]: reason for reason in queue["reasons"]}
    assert queue["waiting"] == len(confirmed)
    assert {"disk", "no-consumer"} <= set(reasons)
    assert "goes to disk" not in result.stdout
    assert "the journal takes no records" in reasons["disk"]["text"]
    assert reasons["disk"]["remedy"]


@needs_mount
def test_a_broker_that_is_killed_on_a_full_disk_starts_again_on_it(daemon: Daemon) -> None:
    confirmed = fill(Wire(daemon.port))
    daemon.kill()
    daemon.start()
    wire = Wire(daemon.port)
    assert empty(wire)[: len(confirmed)] == confirmed
    until_it_takes(wire)
    wire.leave()
    assert daemon.stop() == 0


@needs_mount
def test_a_stop_on_a_full_disk_ends_in_time_and_keeps_everything(daemon: Daemon) -> None:
    confirmed = fill(Wire(daemon.port))
    began = time.monotonic()
    daemon.stop()
    assert time.monotonic() - began < 10
    daemon.start()
    assert empty(Wire(daemon.port))[: len(confirmed)] == confirmed


@needs_mount
def test_a_body_larger_than_the_disk_is_refused_and_leaves_nothing(daemon: Daemon) -> None:
    wire = Wire(daemon.port)
    piece = bytes(1 << 20)
    (daemon.home / "others").write_bytes(bytes(150 << 20))  # somebody else's
    head = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:big\ncontent-length:%d\n\n" % (90 << 20)
    wire.socket.sendall(head)
    for _ in range(90):
        wire.socket.sendall(piece)
    wire.socket.sendall(b"\0")
    answer = wire.hear()
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "big")
    assert answer.headers["code"] == "ENT-4002"
    until_it_takes(wire)
    assert list((daemon.data / "blobs").glob("*.blob")) == []
    assert daemon.memory_peak() < 200 << 20


@needs_mount
def test_a_few_old_messages_do_not_hold_a_small_disk(tmp_path: Path) -> None:
    """Three or four segments are all that fits, and each holds one message that nobody takes."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "none", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    daemon = Daemon(place).start()
    try:
        wire = Wire(daemon.port)
        old: list[bytes] = []
        confirmed: list[bytes] = []
        while True:
            if len(confirmed) % 200 == 0:
                body = b"old%05d" % len(confirmed)
                if wire.send("/queue/old", body, persistent="true").command == "ERROR":
                    break
                old.append(body)
            body = b"%08d" % len(confirmed) + bytes(BODY)
            if wire.send("/queue/q", body, persistent="true").command == "ERROR":
                break
            confirmed.append(body[:8])
        found = empty(Wire(daemon.port))
        with never():
            assert found[: len(confirmed)] == confirmed
        for _ in range(3):  # again and again, or the room was only what the last segment had left
            until_it_takes(wire)
            again = fill(wire)
            assert len(again) > len(confirmed) // 4
            empty(Wire(daemon.port))
        daemon.kill()
        daemon.start()
        assert [frame.body for frame in Wire(daemon.port).drain("/queue/old")] == old
    finally:
        daemon.kill()
        subprocess.run(["umount", "--lazy", place], check=True)


def ends(home: Path, *arguments: str) -> tuple[int, str]:
    """Run a broker that cannot start; return its exit code and what it said."""
    command = [sys.executable, "-m", "entrepot", "run", *arguments]
    if "--listen" not in arguments:
        command += ["--listen", "stomp://127.0.0.1:0"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=home, timeout=PATIENCE, check=False)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


def test_a_directory_that_another_broker_uses(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path).start()
    try:
        code, told = ends(tmp_path, "--data", str(daemon.data))
        assert code == 1
        assert str(daemon.data) in told
        assert str(daemon.pid) in told, "it says who holds it"
        assert Wire(daemon.port).send("/queue/a", b"x", persistent="true").command == "RECEIPT"
    finally:
        daemon.kill()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, told = ends(tmp_path, "--data", str(tmp_path / "d"), "--listen", f"stomp://127.0.0.1:{port}")
    assert code == 1
    assert str(port) in told
    again = Daemon(tmp_path, "--data", str(tmp_path / "d")).start()
    assert again.stop() == 0


@pytest.mark.parametrize("kind", ["a file", "below a file", "unwritable"])
def test_a_directory_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "d"
    if kind == "a file":
        place.write_text("mine")
    elif kind == "below a file":
        (tmp_path / "f").write_text("mine")
        place = tmp_path / "f" / "d"
    else:
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        place.mkdir(mode=0o500)
    code, told = ends(tmp_path, "--data", str(place))
    assert code in (1, 2)
    assert str(place) in told.replace("\n", "")


def test_a_journal_that_is_damaged_in_the_middle_is_refused_and_kept(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path).start()
    wire = Wire(daemon.port)
    for number in range(200):
        wire.send("/queue/q", b"%d" % number + bytes(1000), persistent="true")
    wire.leave()
    assert daemon.stop() == 0
    (segment,) = sorted((daemon.data / "journal").glob("*.seg"))[-1:]
    whole = segment.read_bytes()
    middle = whole.rindex(bytes(1000)) // 2
    damaged = whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :]
    segment.write_bytes(damaged)
    code, told = ends(tmp_path, "--data", str(daemon.data))
    assert code == 1
    assert segment.name in told.replace("\n", "")
    assert segment.read_bytes() == damaged, "nothing was changed"
    checked = subprocess.run(
        [sys.executable, "-m", "entrepot", "data", "check", str(daemon.data)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 1
    segment.write_bytes(whole)
    daemon.start()
    assert len(Wire(daemon.port).drain("/queue/q")) == 200
    assert daemon.stop() == 0
