"""Options of replication: each reaches `run`, and none is taken where nothing is replicated."""

from __future__ import annotations

import inspect

import pytest
from click.testing import CliRunner

from entrepot.cli.replicas import replication_options
from entrepot.cli.run import run

NAMES = (
    "replication",
    "peers",
    "copies",
    "confirm",
    "copy_limit",
    "replication_secret",
    "replication_certificate",
    "replication_key",
    "replication_trust",
    "replication_any_host",
)


def test_run_has_each_of_them_in_this_order() -> None:
    assert run.callback is not None
    taken = [name for name in inspect.signature(inspect.unwrap(run.callback)).parameters if name in NAMES]
    assert taken == list(NAMES)
    assert [each.name for each in run.params if each.name in NAMES] == list(NAMES)
    assert callable(replication_options(lambda: None))


@pytest.mark.parametrize(
    "option", [["--copies", "1"], ["--replication-any-host"], ["--replication-trust", "a.pem"], ["--peer", "b:1"]]
)
def test_none_is_taken_where_nothing_is_replicated(option: list[str]) -> None:
    found = CliRunner().invoke(run, ["--ephemeral", *option])
    assert found.exit_code != 0
    assert "is about replication" in str(found.exception or found.output)
