"""The ledger of a shared store: whose an epoch is, and what history shows."""

from __future__ import annotations

from pathlib import Path

from entrepot.base.environment import SECOND
from entrepot.ha.lease import Record
from entrepot.io.ledger import LEDGER, Ledger, highest_epoch


def record(name: str, epoch: int) -> Record:
    return Record(name=name, instance=f"{name}-1", epoch=epoch, lease=SECOND)


def test_an_epoch_is_whose_line_is_first(tmp_path: Path) -> None:
    """Two that found the same epoch remembered, before either of them has won."""
    ledger, other = Ledger(tmp_path), Ledger(tmp_path)
    assert ledger.claim(record("a", 5))
    assert not other.claim(record("b", 5))
    assert ledger.claim(record("a", 5))
    assert other.claim(record("b", 6))


def test_a_claim_is_remembered_and_is_no_master(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.empty()
    assert ledger.claim(record("a", 5))
    assert not ledger.empty("b-1")  # he may have won, and the lock be gone
    assert ledger.empty("a-1")  # who knows that he has not
    assert ledger.lease() == SECOND
    assert ledger.read() == []
    assert highest_epoch(tmp_path) == 5
    ledger.append("master", record("a", 5), "the store is new")
    assert [facts["event"] for facts in ledger.read()] == ["master"]


def test_an_epoch_of_a_former_version_is_nobodys_claim(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text('{"event": "master", "epoch": 5}\n')
    assert Ledger(tmp_path).claim(record("a", 5))
    assert highest_epoch(tmp_path) == 5


def test_where_nothing_can_be_written_the_lock_alone_decides(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "missing").claim(record("a", 1))


def test_a_note_of_a_replica_is_no_claim_and_nobody_waits_for_its_lease(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append("master", record("a", 5), "the store is new")
    short = Record(name="b", instance="b-1", lease=SECOND // 2)
    ledger.note("kept aside", short, 6, "1.seg from octet 7 on")
    assert ledger.lease() == SECOND
    assert ledger.claim(record("a", 6))
    assert [(facts["event"], facts["epoch"], facts["why"]) for facts in ledger.read()][1:] == [
        ("kept aside", 6, "1.seg from octet 7 on")
    ]
