"""A broker's place among those that share a store: what it does at the edges of its tenure."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot.base.environment import SECOND
from entrepot.base.errors import StoreUnusable
from entrepot.ha.lease import LeaseOptions
from entrepot.ha.options import SharedStoreOptions
from entrepot.io import leases, standby
from entrepot.io.ledger import Ledger
from entrepot.io.standby import LOOK_AFTER_SYNC_S, Standby

OPTIONS = SharedStoreOptions(lease=LeaseOptions(2 * SECOND))


def winner(tmp_path: Path, name: str) -> Standby:
    """Return one whose thread has just won the lease, and whose loop does not know it yet."""
    made = Standby(tmp_path, name, OPTIONS)
    wait(made)
    return made


def wait(one: Standby) -> None:
    """Do what its thread does until it wins; nobody listens to it. Raises OperatorError."""
    one._tell = lambda action: None  # type: ignore[method-assign]
    effects = one.candidate.wake(standby.now())
    while not one.tenure.epoch:
        effects = one._perform(effects)
    one._perform(effects[:1])  # `Won`; the sleep behind it is not slept


def test_who_wins_while_it_stops_hands_over(tmp_path: Path) -> None:
    winner(tmp_path, "alpha").withdraw()
    assert [line["event"] for line in Ledger(tmp_path).read()] == ["master", "released"]
    winner(tmp_path, "beta").withdraw()
    assert "broker alpha" in Ledger(tmp_path).read()[2]["why"]
    assert "handed over" in Ledger(tmp_path).read()[2]["why"]


def test_who_waits_leaves_no_trace_when_it_stops(tmp_path: Path) -> None:
    Standby(tmp_path, "alpha", OPTIONS).withdraw()
    assert Ledger(tmp_path).empty()


def test_the_lock_file_is_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    master = winner(tmp_path, "alpha")
    clock = [1000.0]
    monkeypatch.setattr(standby, "monotonic", lambda: clock[0])
    master.look()
    (tmp_path / "LOCK").unlink()
    clock[0] += LOOK_AFTER_SYNC_S - 0.001
    master.look()
    assert not master.tenure.lost
    clock[0] += 0.002
    master.look()
    assert "deleted or replaced" in master.tenure.lost
    master.withdraw()
    assert [line["event"] for line in Ledger(tmp_path).read()] == ["master"], "what is lost is not handed over"


class ReadOnly:
    """A file system that can be mounted read-only, and whoever waits looks at it as often as `looks` lets him."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = False
        self.open, self.pwrite = os.open, os.pwrite
        monkeypatch.setattr(leases.os, "open", self._open)
        monkeypatch.setattr(leases.os, "pwrite", self._pwrite)

    def _open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if self.on and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return self.open(path, flags, mode)

    def _pwrite(self, descriptor: int, octets: bytes, offset: int) -> int:
        if self.on:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return self.pwrite(descriptor, octets, offset)


class Looks(threading.Event):
    """Instead of a pause between two looks: the next thing happens."""

    def __init__(self, happens: list[Callable[[], object]]) -> None:
        super().__init__()
        self.happens = happens

    def wait(self, timeout: float | None = None) -> bool:
        if self.happens:
            self.happens.pop(0)()
            return True
        return super().wait(timeout)  # for the thread that sleeps in flock


def test_a_waiting_broker_whose_directory_becomes_read_only_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails for a while costs nobody his place in the queue, and nobody becomes master who cannot write."""
    master = winner(tmp_path, "alpha")
    backup = Standby(tmp_path, "beta", OPTIONS)
    disk = ReadOnly(monkeypatch)
    told: list[str] = []
    monkeypatch.setattr(backup, "_say", lambda text, level=0: told.append(text))

    def read_only() -> None:
        disk.on = True

    def writable() -> None:
        disk.on = False

    backup._wake = Looks([read_only, lambda: None, master.withdraw, lambda: None, lambda: None, writable])
    backup._lock._wake = backup._wake.set  # type: ignore[attr-defined]
    wait(backup)
    assert backup.tenure.epoch == 2
    assert backup.mine.epoch == 2
    assert "locked by another server, broker alpha" in told[0]
    assert any("Read-only file system" in text for text in told[1:])
    assert [line["event"] for line in Ledger(tmp_path).read() if line["broker"] == "beta"] == ["master"]
    backup.withdraw()


def test_a_directory_that_never_could_be_written_ends_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = Standby(tmp_path, "beta", OPTIONS)
    ReadOnly(monkeypatch).on = True
    with pytest.raises(StoreUnusable, match="Read-only file system"):
        wait(backup)
