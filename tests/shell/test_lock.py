"""Who has a data directory, and who else may read it: real files, real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from daemon import PATIENCE, Daemon

from entrepot.base.errors import StoreLocked
from entrepot.io.disk import Disk
from entrepot.io.lock import DirectoryLock, is_held


def test_who_looks_sees_whether_it_is_held_and_takes_nothing(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "nothing")
    held = DirectoryLock(tmp_path, "first")
    assert is_held(tmp_path)
    held.release()
    assert not is_held(tmp_path)
    DirectoryLock(tmp_path, "second").release()


def test_a_removed_lock_keeps_the_second_out(tmp_path: Path) -> None:
    held = DirectoryLock(tmp_path, "first")
    (tmp_path / "LOCK").unlink()
    assert held.gone() == "was removed"
    with pytest.raises(StoreLocked, match="whose LOCK file was removed"):
        DirectoryLock(tmp_path, "second")
    assert held.gone() == "was replaced by another one", "whoever tried has left his"
    held.release()
    again = DirectoryLock(tmp_path, "third")
    assert again.gone() == ""
    again.release()


def test_the_holder_is_named(tmp_path: Path) -> None:
    held = DirectoryLock(tmp_path, "first")
    with pytest.raises(StoreLocked, match=f"broker first, process {os.getpid()}"):
        DirectoryLock(tmp_path, "second")
    held.release()


@pytest.mark.parametrize("idle", [True, False])
def test_a_broker_whose_lock_is_removed_confirms_nothing_more_and_ends(tmp_path: Path, idle: bool) -> None:
    daemon = Daemon(tmp_path).start()
    connection = socket.create_connection(("127.0.0.1", daemon.port))
    connection.settimeout(PATIENCE)
    connection.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    assert b"CONNECTED" in connection.recv(4096)
    send = b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:%d\n\nx\0"
    connection.sendall(send % 1)
    assert b"RECEIPT" in connection.recv(4096)
    (daemon.data / "LOCK").unlink()
    if not idle:
        connection.sendall(send % 2)
        assert b"RECEIPT\nreceipt-id:2" not in connection.recv(4096)
    assert daemon.process is not None
    assert daemon.process.wait(PATIENCE) == 1
    assert "was removed while this broker ran" in daemon.told()
    assert "Traceback" not in daemon.told()
    daemon.start()
    assert daemon.stop() == 0


def test_a_second_broker_does_not_start_where_the_first_lost_its_lock(tmp_path: Path) -> None:
    held = DirectoryLock(tmp_path / "data", "first")
    (tmp_path / "data" / "LOCK").unlink()
    command = ["run", "--listen", "stomp://127.0.0.1:0", "--data", str(tmp_path / "data")]
    for arguments in (command, ["data", "check", str(tmp_path / "data")]):
        (tmp_path / "data" / "journal").mkdir(exist_ok=True)
        second = subprocess.run(
            [sys.executable, "-m", "entrepot", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert second.returncode == 1
        assert "is in use by" in second.stderr
        assert "Traceback" not in second.stderr
    held.release()


def modes(directory: Path) -> dict[str, int]:
    found = {".": directory.stat().st_mode & 0o777}
    for path in sorted(directory.rglob("*")):
        found[str(path.relative_to(directory))] = path.stat().st_mode & 0o777
    return found


@pytest.mark.parametrize("pair", [False, True])
def test_nobody_else_reads_what_is_written(tmp_path: Path, pair: bool) -> None:
    daemon = Daemon(tmp_path, *(["--ha", "shared-store"] if pair else [])).start()
    connection = socket.create_connection(("127.0.0.1", daemon.port))
    connection.settimeout(PATIENCE)
    connection.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    body = bytes(1_200_000)
    connection.sendall(
        b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:1\ncontent-length:1200000\n\n" + body + b"\0"
    )
    got = b""
    while b"RECEIPT" not in got:
        got += connection.recv(4096)
    found = modes(daemon.data)
    assert any(name.endswith(".blob") for name in found)
    assert any(name.endswith(".seg") for name in found)
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    assert daemon.stop() == 0
    assert {name: oct(mode) for name, mode in modes(daemon.data).items() if mode & 0o077} == {}


def test_a_directory_of_before_is_closed_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    (data / "journal").mkdir(parents=True)
    (data / "blobs").mkdir()
    for name in ("LOCK", "journal/old.seg", "blobs/1.blob", "notes"):
        (data / name).write_text("x")
        (data / name).chmod(0o644)
    for folder in (data, data / "journal", data / "blobs"):
        folder.chmod(0o755)
    Disk(data, lambda completion: None, reserve_bytes=0).close()
    found = modes(data)
    assert found.pop("notes") == 0o644, "not ours"
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    assert caplog.text.count("could be read by other users") == 3
    caplog.clear()
    Disk(data, lambda completion: None, reserve_bytes=0).close()
    assert caplog.text == ""
