"""One data directory of several processes: what keeps a store in it from being forgotten."""

from __future__ import annotations

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
