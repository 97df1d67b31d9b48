"""The directory of a copy that is hosted: it outlives a death at any step, and a power cut once it is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.cluster.clusters.copied import Copy
from entrepot.ha.lease import BACKUP
from entrepot.ha.standing import read_standing
from entrepot.io.copying import STANDING
from entrepot.io.folders import Folders
from entrepot.io.hosted_copies import folder_of, prepared, remembered

COPY = Copy("a" * 32, "alice", "10.0.0.1:61620")
OWN = "b" * 32
CALLS = ("mkdir", "fsync", "replace", "chmod")


class Died(BaseException):
    """The process ended."""


def synced_folders(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> list[Path]:
    """Return the folders whose names ``action`` had put on disk."""
    found: list[Path] = []
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", seen)
        action()
    return [each for each in found if each.is_dir()]


def dies_at(monkeypatch: pytest.MonkeyPatch, step: int, action: Callable[[], object]) -> bool:
    """Do ``action`` in a process that dies before its call ``step`` of the system; return whether it came so far."""
    left = step

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Died
            return real(*given, **named)

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            action()
        except Died:
            return True
    return False


def test_the_names_of_its_folders_are_on_disk_before_it_follows_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "host"
    own.mkdir()
    synced = synced_folders(monkeypatch, lambda: prepared(own, OWN, COPY, "n", 1))
    assert own in synced, "the name of hosted/"
    assert folder_of(own, COPY).parent in synced, "the name of the copy's own folder"
    assert folder_of(own, COPY) in synced, "the names of its notes"


def test_the_names_of_a_stores_folders_are_on_disk_before_anything_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tmp_path in synced_folders(monkeypatch, lambda: Folders(tmp_path, 0).close())


def test_a_host_that_died_at_any_step_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    while True:
        own = tmp_path / str(steps)
        own.mkdir()
        if not dies_at(monkeypatch, steps, preparing(own)):
            break
        before = remembered(own)
        assert before in ([], [(COPY, "n", 1)]), steps
        assert prepared(own, OWN, COPY, "n", 1) == ""
        assert remembered(own) == [(COPY, "n", 1)]
        standing = read_standing((folder_of(own, COPY) / STANDING).read_bytes(), part=BACKUP, boot="")
        assert standing.store == COPY.store, "it follows no other store"
        assert not standing.may_claim(None), "it has no copy yet"
        steps += 1
    assert steps > 8, "it dies at each of them"


def preparing(own: Path) -> Callable[[], object]:
    """Return what has a copy's directory in ``own``."""
    return lambda: prepared(own, OWN, COPY, "n", 1)


def test_a_standing_that_is_there_is_kept_and_never_becomes_another_stores(tmp_path: Path) -> None:
    assert prepared(tmp_path, OWN, COPY, "n", 1) == ""
    file = folder_of(tmp_path, COPY) / STANDING
    before = file.read_bytes()
    assert prepared(tmp_path, OWN, COPY, "another", 2) == ""
    assert file.read_bytes() == before
    assert remembered(tmp_path) == [(COPY, "another", 2)]
    file.write_bytes(before.replace(COPY.store.encode(), b"c" * 32))
    assert "is a copy of another store" in prepared(tmp_path, OWN, COPY, "n", 1)
    assert prepared(tmp_path, COPY.store, COPY, "n", 1) == "it is the store of this broker"


def test_two_copies_have_a_folder_each(tmp_path: Path) -> None:
    other = Copy("d" * 32, "dora", "10.0.0.2:61620")
    assert prepared(tmp_path, OWN, other, "m", 2) == ""
    assert prepared(tmp_path, OWN, COPY, "n", 1) == ""
    assert remembered(tmp_path) == [(COPY, "n", 1), (other, "m", 2)]
