from __future__ import annotations

import csv
import io
import json

import pytest

from entrepot.cli.output import progress, show

ROWS = [{"name": "a [bold]", "size": 1234, "extra": 1}, {"name": "b", "size": 5, "extra": None}]


def test_json_has_every_field_one_row_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ("name",), "json")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_csv_has_the_columns_plain_and_no_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"name": '=A1,"x"', "size": 1234, "on": True, "none": None}], ("name", "size", "on", "none"), "csv")
    assert capsys.readouterr().out == 'name,size,on,none\n"\'=A1,""x""",1234,true,\n'
    for text in ("=1", "+1", "-1", "@a", "\t=1", "\n=1", "\uff1d1"):
        show([{"name": text}], ("name",), "csv")
        ((kept,),) = list(csv.reader(io.StringIO(capsys.readouterr().out)))[1:]
        assert kept == "'" + text
    show([{"size": -7, "text": "a=1"}], ("size", "text"), "csv")
    assert capsys.readouterr().out == "size,text\n-7,a=1\n"
    show([], ("name",), "csv")
    assert capsys.readouterr().out == "name\n"


def test_a_table_has_the_columns_and_takes_no_markup_from_values(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ("name", "size"), "table")
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "size"]
    assert first.split() == ["a", "[bold]", "1,234"]
    assert second.split() == ["b", "5"]


def test_a_long_cell_stays_on_its_line_when_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"body": "x" * 3000}], ("body",), "table")
    assert "x" * 3000 in capsys.readouterr().out


def test_nothing_is_said_on_the_other_stream(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ("name",), "table", empty="no messages")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "no messages\n")


def test_no_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("sending", 10) as step:
        step()
        step(5)
    assert capsys.readouterr().err == ""
