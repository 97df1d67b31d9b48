"""Options of replication: each reaches `run`, and none is taken where nothing is replicated."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from click.testing import CliRunner

from entrepot.base.errors import InvalidOption
from entrepot.cli.replicas import replication_options
from entrepot.cli.replication import gives_away, replicated
from entrepot.cli.run import run
from entrepot.config.model import Copying, Sharing
from entrepot.ha.lease import BACKUP, PRIMARY
from entrepot.ha.replication_options import ReplicationOptions

GIVEN = (
    *("--replication", "--peer", "--part", "--failback", "--copies", "--confirm", "--copy-limit"),
    *("--replication-secret", "--replication-certificate", "--replication-key", "--replication-trust"),
    "--replication-any-host",
)
NAMES = (
    "replication",
    "peers",
    "part",
    "failback",
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


@pytest.mark.parametrize("part", [[], ["--part", "primary"], ["--part", "either"]])
def test_only_a_backup_gives_its_store_back(part: list[str], tmp_path: Path) -> None:
    places = ["--replication", "127.0.0.1:1", "--peer", "127.0.0.1:2", "--locker", f"file:{tmp_path}/lock"]
    found = CliRunner().invoke(run, ["--ha", "replication", "--data", str(tmp_path), *places, *part, "--failback"])
    assert found.exit_code != 0
    assert "--failback is of a backup" in str(found.exception or found.output)


@pytest.mark.parametrize(("copies", "peers", "refused"), [(1, 1, False), (2, 1, True), (2, 2, False), (3, 2, True)])
def test_a_backup_that_could_give_nothing_away_without_its_primary_is_refused(
    copies: int, peers: int, refused: bool
) -> None:
    options = ReplicationOptions(copies_min=copies, peers=("h:1",) * peers)
    assert not gives_away(options, Sharing(drains=True), PRIMARY)
    assert not gives_away(options, None, BACKUP)
    if refused:
        with pytest.raises(InvalidOption, match="gives nothing away while fewer than"):
            gives_away(options, Sharing(drains=True), BACKUP)
    else:
        assert gives_away(options, Sharing(drains=True), BACKUP)


@pytest.mark.parametrize(("quorum", "refused"), [(4, True), (3, False), (-1, False)])
def test_votes_that_nobody_can_cast_are_refused(tmp_path: Path, quorum: int, *, refused: bool) -> None:
    given = dict.fromkeys(GIVEN) | {"--replication": "127.0.0.1:1", "--peer": ["127.0.0.1:2"]}
    sharing = Sharing(part=PRIMARY, copies=Copying(quorum=quorum, group="red"))
    locker = "quorum:(127.0.0.1:7790,127.0.0.1:7791,127.0.0.1:7792)"
    if refused:
        with pytest.raises(InvalidOption, match="asks for 4 votes, and --locker names 3 voters"):
            replicated(given, locker, None, None, sharing)
        return
    made = replicated(given, locker, None, None, sharing).replication
    assert made is not None
    assert (made.group, made.owns) == ("red", True)
