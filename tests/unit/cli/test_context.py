"""Contexts: which broker a command asks, and what is written where."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from entrepot.cli.context import masked, place
from entrepot.cli.dialogue import DEFAULT_URL, url_option
from entrepot.cli.main import cli


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("ENTREPOT_URL", "ENTREPOT_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["context", *arguments])


@click.command()
@url_option
def where(*, url: str) -> None:
    click.echo(url)


def asked(*arguments: str, **env: str) -> str:
    done = CliRunner().invoke(where, arguments, env=env)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def test_commands_ask_the_url_that_is_said_nearest() -> None:
    assert asked() == DEFAULT_URL
    assert run("add", "a", "stomp://a:1").exit_code == 0
    assert run("add", "b", "stomp://b:1").exit_code == 0
    assert asked() == "stomp://a:1"
    assert asked(ENTREPOT_CONTEXT="b") == "stomp://b:1"
    assert asked(ENTREPOT_CONTEXT="b", ENTREPOT_URL="stomp://c:1") == "stomp://c:1"
    assert asked("--url", "stomp://d:1", ENTREPOT_URL="stomp://c:1") == "stomp://d:1"
    assert run("use", "b").exit_code == 0
    assert asked() == "stomp://b:1"
    assert run("remove", "b").exit_code == 0
    assert asked() == DEFAULT_URL


def test_passwords_are_kept_for_their_owner_and_not_shown() -> None:
    run("add", "a", "stomp://u:secret@a:1")
    assert stat.S_IMODE(place().stat().st_mode) == 0o600
    shown = run("list", "-o", "json")
    assert json.loads(shown.stdout) == {"current": True, "name": "a", "url": "stomp://u:***@a:1"}
    assert "secret" not in run("use", "a").output
    assert masked("failover:(stomp://u:secret@a:1,stomp://b:1)") == "failover:(...)"
    assert masked("stomp://a:1") == "stomp://a:1"


def test_what_is_not_there_or_cannot_be_read_is_said() -> None:
    assert run("use", "none").exit_code != 0
    assert run("remove", "none").exit_code != 0
    assert "there is no context 'x'" in str(CliRunner().invoke(where, env={"ENTREPOT_CONTEXT": "x"}).exception)
    place().parent.mkdir()
    place().write_text("{")
    assert str(place()) in run("list").output
