"""A primary asks for its store: heard when it goes on asking, not when it died."""

from __future__ import annotations

from pathlib import Path

from entrepot.base.environment import SECOND
from entrepot.ha.lease import Record
from entrepot.io.failback import REQUEST, Asked, Asking


def primary(instance: str = "p") -> Record:
    return Record(name="alpha", host="h", pid=7, instance=instance)


def test_it_is_heard_when_it_was_asked_twice(tmp_path: Path) -> None:
    asking, asked = Asking(tmp_path, primary()), Asked(tmp_path)
    assert asked.look() == ""
    asking.ask(0)
    assert asked.look() == ""
    assert asked.look() == "", "it does not ask any more"
    asking.ask(SECOND)
    assert asked.look() == "broker alpha, process 7 on h"
    asking.over()
    assert asked.look() == ""


def test_it_does_not_ask_at_every_look_and_two_that_ask_once_are_not_one_that_asks_twice(tmp_path: Path) -> None:
    first, second, asked = Asking(tmp_path, primary("a")), Asking(tmp_path, primary("b")), Asked(tmp_path)
    first.ask(SECOND)
    before = (tmp_path / REQUEST).read_text()
    first.ask(SECOND + 1)
    assert (tmp_path / REQUEST).read_text() == before
    assert asked.look() == ""
    second.ask(SECOND)
    assert asked.look() == ""


def test_a_request_that_cannot_be_read_or_written_is_none(tmp_path: Path) -> None:
    (tmp_path / REQUEST).write_text("{")
    assert Asked(tmp_path).look() == ""
    Asking(tmp_path / "none", primary()).ask(0)
