"""One data directory of several processes: what keeps a store in it from being forgotten."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.base.errors import StoreUnusable
from entrepot.config.processes import ProcessPlan
from entrepot.io import several
from entrepot.io.several import PROCESSES_MAX, SOCKET_PATH_MAX


def store(directory: Path, *numbers: int) -> None:
    for number in numbers:
        (directory / str(number) / "journal").mkdir(parents=True)


def test_one_broker_is_refused_where_several_were(tmp_path: Path) -> None:
    several.refuse_parts(tmp_path)
    several.note(tmp_path, 4)
    assert several.noted(tmp_path) == 4
    with pytest.raises(StoreUnusable, match="4 processes") as refused:
        several.refuse_parts(tmp_path)
    assert "--processes 4" in refused.value.remedy


def test_several_are_refused_where_one_was(tmp_path: Path) -> None:
    several.refuse_whole(tmp_path)
    (tmp_path / "journal").mkdir()
    with pytest.raises(StoreUnusable, match="of one broker"):
        several.refuse_whole(tmp_path)


def test_a_note_that_says_nothing_is_an_error(tmp_path: Path) -> None:
    assert several.noted(tmp_path) == 0
    for text in ("", "[]", '{"processes": "x"}', "{}"):
        (tmp_path / several.NOTE).write_text(text)
        with pytest.raises(StoreUnusable, match="cannot be read"):
            several.noted(tmp_path)


def test_stores_that_fewer_processes_would_leave_out(tmp_path: Path) -> None:
    assert several.beyond(tmp_path / "none", 2) == []
    store(tmp_path, 0, 1, 2, 10)
    (tmp_path / "3").mkdir()  # no store
    store(tmp_path / "sub", 5)
    (tmp_path / "x" / "journal").mkdir(parents=True)
    assert several.beyond(tmp_path, 2) == [2, 10]
    assert several.beyond(tmp_path, 11) == []


def test_processes_meet_below_the_data_unless_its_path_is_too_long(tmp_path: Path) -> None:
    place = several.meeting_place(tmp_path)
    assert place == tmp_path.resolve() / several.SOCKETS
    assert place.stat().st_mode & 0o777 == 0o700
    for name in ("0.sock", "1.json", "plan.json.12.tmp"):
        (place / name).touch()
    several.leave(place)
    assert not place.exists()

    far = tmp_path / ("x" * SOCKET_PATH_MAX)
    for directory in (far, None):
        place = several.meeting_place(directory)
        assert len(str(place / f"{PROCESSES_MAX}.sock")) <= SOCKET_PATH_MAX
        assert tmp_path not in place.parents
        several.leave(place)


def test_a_plan_is_read_back_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    plan = ProcessPlan(count=2, listen=("stomp://127.0.0.1:1",), sockets=str(tmp_path), password="secret")
    file = several.keep(plan)
    assert file.stat().st_mode & 0o777 == 0o600
    assert several.kept(file) == plan
    assert several.told(plan) == [None, None]
    Path(plan.ports_file(1)).write_text('{"pid": 7}')
    assert several.told(plan) == [None, {"pid": 7}]


@pytest.fixture
def passing() -> Iterator[Path]:
    """Yield a directory for temporary files with a short path: the kernel limits that of a socket."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def left(directory: Path, name: str) -> Path:
    """Return a meeting place as processes that were killed leave it."""
    place = directory / f"{several.PASSING}{name}"
    place.mkdir(mode=0o700)
    (place / several.PLAN).write_text("{}")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place / "0.sock"))
    return place


def test_a_start_sweeps_what_killed_processes_left_and_nothing_else(passing: Path) -> None:
    dead, served, begun = left(passing, "dead"), left(passing, "served"), left(passing, "begun")
    other = passing / f"{several.PASSING}other"
    other.mkdir()
    (other / "mine").touch()
    (passing / f"{several.PASSING}link").symlink_to(begun)
    with socket.socket(socket.AF_UNIX) as alive, several.held(begun):
        alive.bind(str(served / "1.sock"))
        alive.listen()
        several.sweep(passing)
        assert not dead.exists()
        assert served.exists()
        assert begun.exists()
        assert other.exists()
    several.sweep(passing)
    assert not served.exists()
    assert not begun.exists()


def test_the_last_process_removes_the_place_when_the_first_is_gone(
    passing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several, "PAUSE", 0.0)
    place = left(passing, "place")
    several.turn_off(place)
    assert place.exists(), "another process is there"
    (place / "0.sock").unlink()
    with several.held(place):
        several.turn_off(place)
        assert place.exists(), "who made it lives"
    several.turn_off(place)
    assert not place.exists()
    several.turn_off(place)
