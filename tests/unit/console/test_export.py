"""Lines of an exported file, and where a queue is browsed for it."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import msgspec
import pytest

pytest.importorskip("starlette")

from entrepot.base.errors import Refused, TimedOut
from entrepot.cli.lines import read_json
from entrepot.client.written import COLUMNS, as_fields
from entrepot.console.export import FORMATS, UNDER_WAY, _place, _reason, as_line, as_record
from entrepot.core.operators.views import QueueView
from entrepot.protocols.stomp.client import Message
from unit.console.test_jolokia import queue


def fields(body: bytes, **headers: str) -> dict[str, Any]:
    return as_fields(Message("", "ID:1", {"message-id": "ID:1", "priority": "7", **headers}, body))


def view(name: str, **changes: Any) -> QueueView:
    return msgspec.convert(queue(name, 1) | changes, QueueView)


@pytest.mark.parametrize("body", [b'two\nlines, "quoted"', "größe".encode(), b"\xff\x00", b"=1+1"])
def test_a_json_line_is_read_back_as_the_same_message(body: bytes) -> None:
    line = as_line(fields(body, colour="red", **{"content-length": str(len(body))}))
    assert line.count("\n") == 1
    read, headers = read_json(line.encode())
    assert (read if isinstance(read, bytes) else read.encode()) == body
    assert (headers["colour"], headers["priority"]) == ("red", "7")


@pytest.mark.parametrize("hostile", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_spreadsheet_carries_nothing_out(hostile: str) -> None:
    line = as_record(fields(hostile.encode(), type=hostile, note=hostile))
    (row,) = csv.DictReader(io.StringIO(FORMATS["csv"][1] + line, newline=""))
    assert tuple(row) == COLUMNS
    assert (row["body"], row["type"]) == (f"'{hostile}", f"'{hostile}")
    assert json.loads(row["properties"]) == {"note": hostile}
    assert (row["priority"], row["body_base64"]) == ("7", "")


def test_octets_that_are_no_text_stand_in_a_column_of_their_own() -> None:
    (row,) = csv.DictReader(io.StringIO(FORMATS["csv"][1] + as_record(fields(b"\xff")), newline=""))
    assert (row["body"], row["body_base64"]) == ("", "/w==")


def test_a_queue_is_browsed_by_its_own_name_with_few_messages_under_way() -> None:
    bound = f"?consumer.prefetchSize={UNDER_WAY}"
    assert _place(view("orders", address="orders")) == "queue://orders" + bound
    assert _place(view("app.audit", address="prices", routing="MULTICAST")) == "queue://prices::app.audit" + bound
    with pytest.raises(Refused, match="has a \\?"):
        _place(view("a?b", address="a?b"))


def test_why_a_file_ended_early_is_found_in_what_was_raised_together() -> None:
    late = TimedOut("late")
    assert _reason(ExceptionGroup("", [ValueError("x"), ExceptionGroup("", [late])])) is late
    assert "broke off" in _reason(ExceptionGroup("", [ValueError("x")])).message
