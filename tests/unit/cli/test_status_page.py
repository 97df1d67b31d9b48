"""The status page of a broker that serves nobody, asked by commands."""

from __future__ import annotations

import io
import json
import urllib.request
from typing import Any

import pytest
from click.testing import CliRunner

from entrepot.base.errors import Unreachable
from entrepot.cli.main import cli
from entrepot.cli.status_page import status_of

URL = "http://b:8162"
DRAIN = {
    "state": "moving",
    "why": "",
    "node": "n",
    "place": "c:61616",
    "moved": 12,
    "left": 30,
    "prepared": 1,
    "refused": {"Q": "the target does not make it"},
    "branches": [{"xid": "1:61:62", "state": "stays", "why": "its target is an Artemis"}],
    "branches_moved": 2,
}
FACTS: dict[str, Any] = {"broker": "b", "role": "draining", "since": 0, "drain": DRAIN}


def answers(patch: pytest.MonkeyPatch, facts: object) -> list[str]:
    """Let every page answer with ``facts``; return what is asked."""
    asked: list[str] = []

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        return io.BytesIO(json.dumps(facts).encode())

    patch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def test_it_is_asked_for_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, FACTS)
    assert status_of(f"{URL}/") == FACTS
    assert asked == [f"{URL}/status"]


@pytest.mark.parametrize("facts", [[], {}, {"status": "up"}, "x"])
def test_what_is_no_page_of_a_broker_is_said(monkeypatch: pytest.MonkeyPatch, facts: object) -> None:
    answers(monkeypatch, facts)
    with pytest.raises(Unreachable, match="no status of a broker"):
        status_of(URL)


def test_ha_status_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, FACTS)
    done = CliRunner().invoke(cli, ["ha", "status", URL, "--output", "json"])
    row = json.loads(done.output)
    row = row[0] if isinstance(row, list) else row
    assert (row["role"], row["note"]) == ("draining", "it gives all to c:61616: 12 moved, 30 left, moving")


def test_so_does_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, FACTS)
    done = CliRunner().invoke(cli, ["drain", "--status", "--url", URL])
    assert done.exit_code == 0, done.output
    assert "moving to c:61616: 12 moved, 30 left" in done.output
    assert "Q stays: the target does not make it" in done.output
    assert "prepared transactions: 2 moved, 1 left" in done.output
    assert "the prepared transaction 1:61:62 is stays: its target is an Artemis" in done.output


def test_a_page_answers_to_nothing_else_and_for_nobody_who_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {**FACTS, "role": "primary", "drain": None})
    done = CliRunner().invoke(cli, ["drain", "--status", "--url", URL])
    assert done.exit_code == 1
    assert "gives away nothing" in done.output
    done = CliRunner().invoke(cli, ["drain", "--abort", "--url", URL])
    assert done.exit_code == 2
    assert "--status alone" in done.output
