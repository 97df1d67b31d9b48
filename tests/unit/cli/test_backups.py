"""Where the copies of nodes find one another that host them for each other, and by which lock."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cli.backups import Slot, colocated, housing, lock_of, slot_of
from entrepot.cluster.clusters.copied import Copy
from entrepot.config.model import Colocation, Copying, Sharing
from entrepot.ha.lease import BACKUP
from entrepot.ha.standing import Standing
from entrepot.io.hosted_copies import NOTE, folder_of, prepared, remembered

COPY = Copy("a" * 32, "a", "10.0.0.1:61620")


def colocation(*, drains: bool = False) -> Colocation:
    backup = Sharing(part=BACKUP, copies=Copying(), drains=drains)
    return Colocation(backup=backup, requests=True, backups_max=2, port_offset=10)


def given(**more: Any) -> dict[str, Any]:
    options = {"--replication": "10.0.0.2:61620", "--peer": ("10.0.0.1:61620", "[::1]:61620")}
    return {**options, "--part": None, "--failback": None, "--copies": None, **more}


def test_each_store_has_a_lock_of_its_own() -> None:
    assert lock_of("file:/mnt/lock/", "a") == "file:/mnt/lock/a"
    assert lock_of("file", "a") == "file"
    assert lock_of("postgresql://u:p@db/x", "a") == "postgresql://u:p@db/x?name=entrepot-a"
    assert lock_of("quorum:(a:1,b:2)?secret=s&name=orders", "a") == "quorum:(a:1,b:2)?secret=s&name=orders-a"


def test_a_node_looks_for_its_store_where_others_may_host_it(tmp_path: Path) -> None:
    told, locker = colocated(given(), f"file:{tmp_path}", None, colocation(), "b", None)
    assert told["--replication"] == "10.0.0.2:61620"
    assert told["--peer"] == ["10.0.0.1:61630", "10.0.0.1:61640", "[::1]:61630", "[::1]:61640"]
    assert locker == f"file:{tmp_path}/b"
    assert (tmp_path / "b").is_dir()


def test_a_copy_that_is_hosted_has_the_lock_of_its_owner_and_a_port_of_its_own(tmp_path: Path) -> None:
    slot = Slot(tmp_path, 2, "a", "10.0.0.1:61620")
    told, locker = colocated(given(), f"file:{tmp_path}", None, colocation(), "b-backup-of-a", slot)
    assert told["--replication"] == "10.0.0.2:61640"
    assert told["--peer"][0] == "10.0.0.1:61620"
    assert "10.0.0.1:61630" in told["--peer"], "another node may host it, too, and serve"
    assert locker == f"file:{tmp_path}/a"


@pytest.mark.parametrize(
    ("more", "name", "message"),
    [
        ({"--part": "backup"}, "b", "--part is said by <colocated>"),
        ({"--failback": True}, "b", "--failback is said by <colocated>"),
        ({"--replication": "0.0.0.0:61620"}, "b", "nobody can go there"),
        ({"--replication": "10.0.0.2:0"}, "b", "nobody can go there"),
        ({"--peer": ("10.0.0.1:65530",)}, "b", "is no place"),
        ({}, "../b", "cannot be in the name of a lock"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, more: dict[str, Any], name: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        colocated(given(**more), f"file:{tmp_path}", None, colocation(), name, None)


def test_a_copy_that_gives_all_away_must_be_allowed_to_be_the_only_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="--copies 1"):
        colocated(given(), f"file:{tmp_path}", None, colocation(drains=True), "b", None)
    colocated(given(**{"--copies": 1}), f"file:{tmp_path}", None, colocation(drains=True), "b", None)


def test_a_directory_of_a_copy_belongs_to_one_store_and_is_remembered(tmp_path: Path) -> None:
    assert prepared(tmp_path, "b" * 32, COPY, "n1", 2) == ""
    folder = folder_of(tmp_path, COPY)
    before = (folder / "replica.json").read_bytes()
    assert b"a" * 32 in before
    assert prepared(tmp_path, "b" * 32, COPY, "n1", 1) == ""
    assert (folder / "replica.json").read_bytes() == before, "what a copy knows of itself stays"
    assert remembered(tmp_path) == [(COPY, "n1", 1)]
    assert slot_of(folder, 1) == Slot(folder, 1, "a", "10.0.0.1:61620")
    assert slot_of(tmp_path, 1) == Slot(tmp_path, 1), "a store that is shared"
    assert "the store of this broker" in prepared(tmp_path, COPY.store, COPY, "n1", 1)
    (folder / "replica.json").write_bytes(Standing("c", store="d" * 32).encode())
    assert "copy of another store" in prepared(tmp_path, "b" * 32, COPY, "n1", 1)
    (folder / NOTE).write_text("nothing\n")
    assert remembered(tmp_path) == []


def test_a_node_whose_password_is_masked_says_that_it_goes_on_with_no_copies(caplog: pytest.LogCaptureFixture) -> None:
    """Two nodes could else wait for one another for ever, and nobody knew why."""
    peering: Any = SimpleNamespace(clusters=("c",), masked=True)
    written: Any = SimpleNamespace(config=SimpleNamespace(peering=peering))
    standby: Any = SimpleNamespace(copy=object(), mine=SimpleNamespace(name="west"))
    with caplog.at_level(logging.WARNING, "entrepot.ha"):
        assert housing(None, written, standby) is None
        assert not caplog.messages, "it hosts none"
        assert housing(colocation(), written, standby) is None
    assert caplog.messages == [
        "west goes on with no copies that it hosts: the cluster-password is masked, which is not read"
    ]
