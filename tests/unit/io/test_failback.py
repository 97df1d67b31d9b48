"""A primary asks for its store: heard when it goes on asking, not when it died."""

from __future__ import annotations

from pathlib import Path

from entrepot.ha.lease import Record
from entrepot.io.failback import REQUEST, Asked, Asking


def primary(instance: str = "p") -> Record:
    return Record(name="alpha", host="h", pid=7, instance=instance)


def test_who_asks_and_how_often_is_read_by_whoever_is_asked(tmp_path: Path) -> None:
    asking, asked = Asking(tmp_path, primary()), Asked(tmp_path)
    assert asked.look() is None
    asking.ask()
    assert asked.look() == ("p", 1)
    assert asked.look() == ("p", 1), "it does not ask any more"
    asking.ask()
    assert asked.look() == ("p", 2)
    assert asked.who == "broker alpha, process 7 on h"
    asking.over()
    assert asked.look() is None


def test_the_last_one_who_asked_is_the_one_who_asks(tmp_path: Path) -> None:
    first, second, asked = Asking(tmp_path, primary("a")), Asking(tmp_path, primary("b")), Asked(tmp_path)
    first.ask()
    assert asked.look() == ("a", 1)
    second.ask()
    assert asked.look() == ("b", 1)


def test_a_request_that_cannot_be_read_or_written_is_none(tmp_path: Path) -> None:
    (tmp_path / REQUEST).write_text("{")
    assert Asked(tmp_path).look() is None
    Asking(tmp_path / "none", primary()).ask()
