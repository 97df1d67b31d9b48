"""Well, tight, full or dead."""

from __future__ import annotations

from entrepot.base.errors import StorageError, StorageFull, StoreLost
from entrepot.journal.condition import Condition, again


def test_a_tight_disk_stores_nothing_and_is_not_full() -> None:
    condition = Condition()
    condition.tighten(StorageFull("nearly"))
    assert isinstance(condition.refusal, StorageFull)
    assert not condition.full
    condition.relieve()
    assert condition.refusal is None


def test_a_full_disk_may_get_well_again() -> None:
    condition = Condition()
    assert not condition.fail(StorageFull("no room"))
    assert condition.full
    assert condition.dead is None
    condition.relieve()
    assert not condition.full
    assert condition.refusal is None


def test_tight_after_full_means_that_there_is_some_room() -> None:
    condition = Condition()
    condition.fail(StorageFull("no room"))
    condition.tighten(StorageFull("nearly"))
    assert not condition.full
    assert condition.refusal is not None


def test_a_dead_store_stays_dead() -> None:
    condition = Condition()
    assert condition.fail(StorageError("the disk is broken"))
    condition.relieve()
    condition.tighten(StorageFull("nearly"))
    assert condition.dead is condition.refusal is not None
    assert condition.dead.message == "the disk is broken"


def test_an_error_is_raised_afresh_with_its_class_and_its_remedy() -> None:
    for error in (StorageFull("f", remedy="r"), StoreLost("l", remedy="r"), StorageError("e", remedy="r")):
        fresh = again(error)
        assert fresh is not error
        assert (type(fresh), fresh.message, fresh.remedy) == (type(error), error.message, error.remedy)
