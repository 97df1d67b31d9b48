"""The log: one event, one line, its code; what comes too often is counted."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.io.logs import (
    OTHERS,
    STRANGER,
    TEXT_MAX,
    JsonFormatter,
    PlainFormatter,
    RestrainedHandler,
    Restraint,
    configure_logging,
)

REFUSED = "%s: refused: %s"


def record(name: str, template: str, *values: object, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord(name, level, "", 0, template, values, None)
    made.created, made.msecs = 0.123, 123.0
    return made


def test_a_line_is_sortable_and_in_utc() -> None:
    line = PlainFormatter().format(record("entrepot.listener", "listening on %s", "stomp://x"))
    assert line == "1970-01-01T00:00:00.123Z INFO LOG-3001 entrepot.listener: listening on stomp://x [AMQ221020]"


def test_what_a_peer_says_makes_no_line_of_its_own() -> None:
    line = PlainFormatter().format(record("entrepot.connection", REFUSED, "1.2.3.4", "a\r\nb INFO: all is well"))
    assert line.endswith("1.2.3.4: refused: a\\r\\nb INFO: all is well")


def test_json_has_the_codes_of_others_too() -> None:
    text = "AMQ212034: seen twice [ENT-2003]"
    said = json.loads(JsonFormatter().format(record("entrepot.bridge", "%s: %s", "there\n", text)))
    assert said == {
        "time": "1970-01-01T00:00:00.123Z",
        "level": "INFO",
        "code": "LOG-4001",
        "logger": "entrepot.bridge",
        "message": f"there\n: {text}",
        "amq": "AMQ212034",
        "error": "ENT-2003",
    }


def test_what_others_call_the_same_is_said() -> None:
    made = record("entrepot.node", "%s: %s", "b", "the journal holds 9 octets, and may hold 8: producers wait")
    assert PlainFormatter().format(made).endswith("producers wait [AMQ222210]")
    said = json.loads(JsonFormatter().format(made))
    assert said["amq"] == "AMQ222210"
    assert said["classic"] == "Queue: Persistent store is Full"
    login = record("entrepot.connection", REFUSED, "1.2.3.4", "User name [x] or password is invalid.")
    assert PlainFormatter().format(login).endswith("is invalid. [AMQ222216 AMQ229031 AMQ601716]")
    assert json.loads(JsonFormatter().format(login))["amq"] == "AMQ222216 AMQ229031 AMQ601716"


def test_a_code_that_a_line_has_is_not_said_twice() -> None:
    made = record("entrepot.cluster", "scale-down: AMQ222181: %s", "no target")
    assert PlainFormatter().format(made).endswith("scale-down: AMQ222181: no target")
    assert json.loads(JsonFormatter().format(made))["amq"] == "AMQ222181"


def test_a_traceback_is_behind_a_line_and_within_an_object() -> None:
    made = record("entrepot.library", "it broke")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    first, *rest = PlainFormatter().format(made).splitlines()
    assert first.endswith("LOG-0000 entrepot.library: it broke")
    assert rest[-1] == "ValueError: why"
    (line,) = JsonFormatter().format(made).splitlines()
    assert json.loads(line)["traceback"].endswith("ValueError: why")


def test_what_is_too_much_is_counted_and_said_when_its_minute_is_over() -> None:
    restraint = Restraint(2, 60)
    kinds = [("a", "x"), ("b", "y")]
    assert [restraint.admits(kinds[0], now) for now in (0, 1, 2, 3)] == [True, True, False, False]
    assert restraint.admits(kinds[1], 5)
    assert restraint.over(59) == {}
    assert restraint.over(60) == {kinds[0]: 2}
    assert restraint.admits(kinds[0], 60)
    assert restraint.over(65) == {}
    assert restraint.over(200) == {}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_flood_of_one_kind_leaves_the_others(form: str) -> None:
    stream = io.StringIO()
    handler = RestrainedHandler(stream, Restraint(3, 3600))
    handler.setFormatter(JsonFormatter() if form == "json" else PlainFormatter())
    for number in range(10):
        handler.handle(record("entrepot.connection", REFUSED, number, "no", level=logging.WARNING))
        handler.handle(record("entrepot.broker", "%s %s %s", number, "sent", ""))
    handler.handle(record("entrepot.listener", "listening on %s", "x"))
    handler.handle(record("entrepot.connection", REFUSED, 11, "no", level=logging.CRITICAL))
    handler.close()
    lines = stream.getvalue().splitlines()
    assert sum("LOG-3008" in line for line in lines) == 3 + 1 + 1  # admitted, critical, and how many were left out
    assert sum("LOG-1008" in line for line in lines) == 10
    assert sum("LOG-3001" in line for line in lines) == 1
    assert "7 more lines like this were left out: %s: refused: %s" in lines[-1]
    if form == "json":
        assert json.loads(lines[-1])["left_out"] == 7


@pytest.mark.parametrize("form", [PlainFormatter, JsonFormatter])
def test_what_a_peer_sends_makes_no_line_of_megabytes(form: type[logging.Formatter]) -> None:
    made = record("entrepot.connection", REFUSED, "1.2.3.4", "x" * 1_000_000)
    made.fields = {"queue": "y" * 1_000_000, "count": 3}
    line = form().format(made)
    assert len(line) < 3 * TEXT_MAX
    assert "characters more)" in line


def test_lines_of_a_library_are_of_one_kind_whatever_they_say() -> None:
    stream = io.StringIO()
    handler = RestrainedHandler(stream, Restraint(3, 3600))
    handler.setFormatter(PlainFormatter())
    for number in range(1000):
        handler.handle(record("asyncio", f"Fatal error on transport {number}", level=logging.ERROR))
    handler.close()
    assert len(stream.getvalue().splitlines()) == 3 + 1


def test_strangers_are_counted_where_those_who_are_known_are_not() -> None:
    stream = io.StringIO()
    handler = RestrainedHandler(stream, Restraint(3, 3600))
    handler.setFormatter(PlainFormatter())
    for number in range(100):
        made = record("entrepot.audit", "%s", number)
        setattr(made, STRANGER, number % 2 == 0)
        handler.handle(made)
    handler.close()
    assert len(stream.getvalue().splitlines()) == 50 + 3 + 1


def test_libraries_are_written_to_the_same_log() -> None:
    names = ("entrepot", *OTHERS)
    before = [(logging.getLogger(name).handlers[:], logging.getLogger(name).propagate) for name in names]
    try:
        configure_logging()
        assert {id(logging.getLogger(name).handlers[0]) for name in names} == {
            id(logging.getLogger(names[0]).handlers[0])
        }
        assert not any(logging.getLogger(name).propagate for name in names)
    finally:
        for name, (handlers, propagates) in zip(names, before, strict=True):
            logging.getLogger(name).handlers[:] = handlers
            logging.getLogger(name).propagate = propagates
            logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.parametrize(("level", "form", "named"), [("LOUD", "text", "'LOUD'"), ("INFO", "xml", "'xml'")])
def test_what_does_not_exist_is_refused(level: str, form: str, named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        configure_logging(level, form)
