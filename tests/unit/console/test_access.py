"""Who did what with the console, in the log: strangers cannot fill it."""

from __future__ import annotations

import io
import json
import logging

import pytest

from entrepot.base.errors import AccessDenied, ForeignRequest
from entrepot.console.access import audit, audit_log
from entrepot.io.logs import JsonFormatter, PlainFormatter, RestrainedHandler, Restraint


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def _handled(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = RestrainedHandler(written, Restraint(5, 3600))
    handler.setFormatter(JsonFormatter())
    monkeypatch.setattr(audit_log, "handlers", [handler])
    monkeypatch.setattr(audit_log, "propagate", False)
    monkeypatch.setattr(audit_log, "level", logging.INFO)
    audit_log.manager._clear_cache()  # type: ignore[attr-defined]


def test_refused_logins_of_strangers_are_counted(written: io.StringIO) -> None:
    for number in range(1000):
        audit("", f"10.0.{number % 250}.1", "", "log in", {}, ForeignRequest("the form comes from another site"), None)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert len(lines) == 5
    assert lines[0]["fields"]["result"] == "ENT-3037: the form comes from another site"


def test_what_known_users_do_is_written_each_time(written: io.StringIO) -> None:
    for number in range(100):
        error = AccessDenied("no") if number % 2 else None
        audit("ada", "10.0.0.1", "stomp://b", "purge", {"queue": f"q{number}"}, error, 7)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["fields"]["queue"] for line in lines] == [f"q{number}" for number in range(100)]


def test_what_is_done_has_the_codes_of_artemis_audit_log(written: io.StringIO) -> None:
    audit("ada", "10.0.0.1", "stomp://b", "purge", {"queue": "AMQ999999"}, None, "deleted 7 messages")
    audit("ada", "10.0.0.1", "stomp://b", "purge", {"queue": "q"}, AccessDenied("no"), None)
    about = {"mbean": 'b:subcomponent=queues,queue="q"', "operation": "pause()", "status": 403}
    audit("ada", "10.0.0.1", "stomp://b", "exec", about, None, "no")
    audit("ada", "10.0.0.1", "stomp://b", "cancel", {"id": "7"}, None, "cancelled")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    codes = ["AMQ601196 AMQ601713", "AMQ601196 AMQ601714", "AMQ601212 AMQ601720", None]
    assert [line["fields"].get("amq") for line in lines] == codes
    assert [line.get("amq") for line in lines] == codes


def test_a_line_of_text_stays_an_object_with_the_codes_in_it(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log.handlers[0], "formatter", PlainFormatter())
    audit("ada", "10.0.0.1", "", "log in", {}, None, "done")
    told = json.loads(written.getvalue().partition("entrepot.audit: ")[2])
    assert (told["action"], told["amq"]) == ("log in", "AMQ601715")
