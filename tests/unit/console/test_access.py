"""Who did what with the console, in the log: strangers cannot fill it."""

from __future__ import annotations

import io
import json
import logging

import pytest

from entrepot.base.errors import AccessDenied, ForeignRequest
from entrepot.console.access import audit, audit_log
from entrepot.io.logs import JsonFormatter, RestrainedHandler, Restraint


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
