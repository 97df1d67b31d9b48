"""A broker's place among those that share a store: what it does at the edges of its tenure."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.base.environment import SECOND
from entrepot.ha.lease import LeaseOptions
from entrepot.ha.options import SharedStoreOptions
from entrepot.io import standby
from entrepot.io.ledger import Ledger
from entrepot.io.standby import LOOK_AFTER_SYNC, Standby

OPTIONS = SharedStoreOptions(lease=LeaseOptions(2 * SECOND))


def winner(tmp_path: Path, name: str) -> Standby:
    """Return one whose thread has just won the lease, and whose loop does not know it yet."""
    made = Standby(tmp_path, name, OPTIONS)
    grant = made._lease.attempt(standby.now())
    assert grant is not None
    made.tenure.won(grant)
    return made


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
    clock = [standby.now()]
    monkeypatch.setattr(standby, "now", lambda: clock[0])
    master.look()
    (tmp_path / "LOCK").unlink()
    clock[0] += LOOK_AFTER_SYNC - 1
    master.look()
    assert not master.tenure.lost
    clock[0] += 1
    master.look()
    assert "deleted or replaced" in master.tenure.lost
    master.withdraw()
    assert [line["event"] for line in Ledger(tmp_path).read()] == ["master"], "what is lost is not handed over"
