"""Who may claim what was handed back: paused stores, and stores that a backup gives back (artemis.md 2.2)."""

from __future__ import annotations

import pytest

from entrepot.base.environment import SECOND
from entrepot.ha.lease import BACKUP, EITHER, PRIMARY, Record, Rules, Watch, decode

LEASE = 5 * SECOND


def record(reserved: str, *, released: bool = True) -> Record:
    return Record(name="a", instance="i", epoch=3, beat=9, lease=LEASE, released=released, reserved=reserved)


@pytest.mark.parametrize(
    ("part", "reserved"),
    [(PRIMARY, ""), (PRIMARY, Rules.PAUSED), (PRIMARY, Rules.FAILBACK), (EITHER, ""), (EITHER, Rules.PAUSED)],
)
def test_a_primary_takes_whatever_is_free_and_an_equal_what_is_given_back_to_nobody(part: str, reserved: str) -> None:
    assert not Rules(part).leaves_alone(record(reserved), Watch(), 0)


def test_a_backup_leaves_a_paused_store_alone_for_ever() -> None:
    rules, watch = Rules(BACKUP), Watch()
    assert not rules.leaves_alone(record(""), watch, 0)
    assert rules.leaves_alone(record(Rules.PAUSED), watch, 0)
    assert rules.leaves_alone(record(Rules.PAUSED), watch, 1000 * LEASE)


@pytest.mark.parametrize("part", [BACKUP, EITHER])
def test_all_others_let_the_primary_go_first_and_take_it_when_that_one_died(part: str) -> None:
    """A third broker without a part took the store before the primary that it was given back to."""
    rules, watch = Rules(part), Watch()
    assert rules.leaves_alone(record(Rules.FAILBACK), watch, SECOND)
    assert rules.leaves_alone(record(Rules.FAILBACK), watch, 6 * SECOND)
    assert not rules.leaves_alone(record(Rules.FAILBACK), watch, SECOND + LEASE + LEASE // 10)


def test_a_store_that_was_not_handed_back_is_reserved_for_nobody() -> None:
    assert not Rules(BACKUP).leaves_alone(record(Rules.PAUSED, released=False), Watch(), 0)


def test_the_record_says_it_and_older_records_reserve_nothing() -> None:
    text = record(Rules.PAUSED).encode()
    again = decode(text)
    assert again is not None
    assert again.reserved == Rules.PAUSED
    older = decode(text.replace(b', "reserved": "paused"', b""))
    assert older is not None
    assert older.reserved == ""


def test_the_wait_for_a_primary_begins_with_the_return_not_with_the_renewal_before_it() -> None:
    rules, watch = Rules(BACKUP), Watch()
    watch.observe(record(Rules.FAILBACK, released=False), 0)
    assert rules.leaves_alone(record(Rules.FAILBACK), watch, LEASE)
    assert rules.leaves_alone(record(Rules.FAILBACK), watch, 2 * LEASE)
    assert not rules.leaves_alone(record(Rules.FAILBACK), watch, 2 * LEASE + LEASE // 10)


def test_who_steps_down_lets_others_go_first_and_serves_again_when_nobody_does() -> None:
    gone = Record(name="a", host="h", pid=7, epoch=3, lease=LEASE, released=True, reserved=Rules.OTHERS)
    itself = Rules(mine=Record(name="a", host="h", pid=7))
    watch = Watch()
    assert itself.leaves_alone(gone, watch, SECOND)
    assert itself.leaves_alone(gone, watch, 6 * SECOND)
    assert not itself.leaves_alone(gone, watch, SECOND + LEASE + LEASE // 10)
    for other in (Record(name="a", host="h", pid=8), Record(name="a", host="g", pid=7), Record(name="b")):
        assert not Rules(mine=other).leaves_alone(gone, Watch(), SECOND)
        assert not Rules(BACKUP, mine=other).leaves_alone(gone, Watch(), SECOND)
