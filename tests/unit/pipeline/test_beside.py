"""Files that a broker tells of: the one that was meant is read, and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from entrepot.pipeline.beside import FILES_OPEN_MAX, Files, PlacedRows
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.frames import Frame
from entrepot.protocols.stomp.located import File, Located


def told(path: Path) -> File:
    state = path.stat()
    return File(str(path), state.st_dev, state.st_ino)


@pytest.fixture
def files() -> Files:
    return Files()


def test_octets_are_those_of_the_file_that_was_told_of(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.seg"
    path.write_bytes(b"0123456789")
    file = told(path)
    assert files.read(file, 2, 3) == b"234"
    assert files.read(file, 8, 10) == b"89"
    path.unlink()
    path.write_bytes(b"another")
    assert files.read(file, 0, 4) == b"0123", "it is open, so it stays what it was"
    files.close()
    with pytest.raises(OSError, match=r"another file has the name|No such file"):
        files.read(file, 0, 4)


def test_what_is_gone_is_gone(files: Files, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read(File(str(tmp_path / "none.seg"), 1, 1), 0, 4)


def test_nobody_is_led_to_a_link_a_pipe_or_a_directory(files: Files, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")  # who opens it without care waits for ever
    for name in ("link", "pipe", ".", "/dev/zero"):
        with pytest.raises(OSError, match=r"another file|Too many levels"):
            files.read(told(tmp_path / name), 0, 6)
    assert files.read(told(tmp_path / "real"), 0, 6) == b"secret"


def test_few_files_are_open_at_once(files: Files, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3 * FILES_OPEN_MAX):
        path = tmp_path / f"{number}.seg"
        path.write_bytes(b"%d" % number)
        assert files.read(told(path), 0, 9) == b"%d" % number
        assert len(os.listdir("/proc/self/fd")) <= before + FILES_OPEN_MAX
    files.close()
    assert len(os.listdir("/proc/self/fd")) == before


def placed(count: int, length: int, octets: int, *, files: int = 1) -> PlacedRows:
    made = Located()
    names = [made.name(File(f"/none/{number}.seg", 1, number)) for number in range(files)]
    for row in range(count):
        made.add(names[row % files], 7 + row, row * length, length, 0)
    return PlacedRows(Frame("MESSAGE", {}, made.body()), Files(), Columns(["body"]), octets)


def test_as_many_are_asked_for_as_one_read_has() -> None:
    wanted = 1_000_000 * 15 // 16 // 1_000
    assert placed(100, 1_000, 1_000_000).filling(100) == wanted, "few were told of"
    assert placed(5_000, 1_000, 1_000_000).filling(5_000) == wanted, "too many were"
    assert placed(wanted, 1_000, 1_000_000).filling(wanted) == wanted
    assert placed(3, 5_000_000, 1_000_000).filling(1_024) == 1, "one alone is more"
    assert placed(1_000, 1_000, 1_000_000, files=2).filling(700) == 700, "they lie apart: that says nothing of them"
