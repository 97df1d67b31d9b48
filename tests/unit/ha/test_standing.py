"""Which copy may be served: the lock's record and the copy itself must agree."""

from __future__ import annotations

import json

import pytest

from entrepot.base.errors import Refused, StoreUnusable
from entrepot.ha.lease import BACKUP, EITHER, Record, decode
from entrepot.ha.standing import RECEIVED, SYNCED, Standing, follows_only, read_standing


def record(**eligible: int) -> Record:
    return Record(name="other", epoch=max(eligible.values(), default=1), eligible=eligible)


def test_a_new_store_begins_with_who_is_no_backup() -> None:
    assert Standing("a", part=EITHER).may_claim(None)
    backup = Standing("b", part=BACKUP)
    assert not backup.may_claim(None)
    assert "waits for one" in backup.refusal


def test_a_copy_that_joined_may_follow_and_one_that_is_being_made_may_not() -> None:
    standing = Standing("b")
    assert standing.follows("store", 3) is False
    assert not standing.may_claim(record(a=3, b=3))
    assert not standing.whole
    standing.joined(3, SYNCED)
    assert standing.may_claim(record(a=3, b=3))
    assert standing.follows("store", 3) is True  # the same tenure again
    assert not standing.may_claim(record(a=3, b=3))


def test_a_copy_that_the_record_does_not_list_waits() -> None:
    standing = Standing("b")
    standing.follows("store", 3)
    standing.joined(3, SYNCED)
    assert not standing.may_claim(record(a=3))
    assert "not up to date" in standing.refusal
    assert not standing.may_claim(record(a=5, b=5))  # it joined later, in another life of this copy
    assert "older" in standing.refusal


def test_a_lock_without_a_record_makes_nobody_primary_who_has_a_copy() -> None:
    standing = Standing("b")
    standing.won(2)
    assert not standing.may_claim(None)
    assert "an operator must say" in standing.refusal
    standing.forced = True
    assert standing.may_claim(None)
    assert standing.claimed(record(a=2, b=2), 3) == {"b": 3}


def test_a_claim_counts_until_its_fate_is_known_and_makes_no_copy_whole() -> None:
    standing = Standing("b")
    standing.won(2)
    standing.claims(3)
    assert standing.may_claim(record(b=3))
    assert standing.may_claim(record(b=2))
    standing.follows("store", 4)
    standing.claims(5)
    assert not standing.whole
    assert not standing.may_claim(record(b=5))


def test_of_several_claims_whose_fate_is_not_known_any_may_stand_in_the_lock() -> None:
    """The first stood there, its broker ended before it knew, the second never arrived: nobody could serve again."""
    standing = Standing("b")
    standing.claims(1)
    standing.claims(2)
    again = read_standing(standing.encode(), part="", boot="")
    assert again.may_claim(record(b=1))
    assert again.may_claim(record(b=2))
    assert not again.may_claim(record(b=3))
    again.won(4)
    assert not again.may_claim(record(b=2))


def test_a_standing_of_before_knows_its_last_claim() -> None:
    note = Standing("b")
    note.claims(3)
    older = json.dumps({name: value for name, value in note.facts().items() if name != "open"})
    assert read_standing(older.encode(), part="", boot="").may_claim(record(b=3))


def test_what_was_only_received_is_gone_with_the_machine() -> None:
    standing = Standing("b", boot="one")
    standing.follows("store", 3)
    standing.joined(3, RECEIVED)
    assert standing.may_claim(record(b=3))
    again = read_standing(standing.encode(), part="", boot="one")
    assert again.may_claim(record(b=3))
    rebooted = read_standing(standing.encode(), part="", boot="two")
    assert not rebooted.may_claim(record(b=3))
    assert "started anew" in rebooted.refusal


def test_who_is_eligible_stays_so_when_another_takes_over() -> None:
    standing = Standing("b")
    standing.follows("store", 3)
    standing.joined(3, SYNCED)
    assert standing.claimed(record(a=3, b=3, c=2), 4) == {"a": 3, "b": 4, "c": 2}


def test_a_damaged_standing_is_not_guessed_at() -> None:
    with pytest.raises(StoreUnusable, match="damaged"):
        read_standing(b"{}", part="", boot="")


def test_the_record_carries_who_is_eligible() -> None:
    found = decode(Record(name="a", epoch=3, eligible={"x": 3, "y": 2}).encode())
    assert found is not None
    assert found.eligible == {"x": 3, "y": 2}
    plain = Record(name="a", epoch=3).encode()
    assert b"eligible" not in plain


def test_a_copy_of_nothing_follows_only_whom_its_lock_names() -> None:
    holder = Record(name="alice")
    assert follows_only(Standing("c", store="s"), None) == "", "any primary of its store, which it knows"
    assert follows_only(Standing("c"), holder) == "alice"
    with pytest.raises(Refused, match="does not say who is primary"):
        follows_only(Standing("c"), None)
    holder.released = True
    with pytest.raises(Refused, match="does not say who is primary"):
        follows_only(Standing("c"), holder)
