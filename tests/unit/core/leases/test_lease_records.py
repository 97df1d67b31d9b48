"""Documents of leases come back as they went, and the keys of one lease are those of no other."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.core.leases.lease_records import (
    LOST_BLOCK,
    ClaimRecord,
    LeaseRecord,
    LostRecord,
    claim_key,
    decode_claim,
    decode_lease,
    decode_lost,
    encode,
    lease_key,
)

NUMBERS = st.integers(0, (1 << 63) - 1)
QUEUES = st.integers(0, (1 << 32) - 1)
GROUPS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(queue=QUEUES, group=GROUPS, epoch=NUMBERS, numbers=st.lists(NUMBERS, max_size=5))
def test_what_was_written_is_read(queue: int, group: str, epoch: int, numbers: list[int]) -> None:
    lease = LeaseRecord(queue, group, epoch, 7, "colour = 'red'", 3, 4, True, 5)
    claim = ClaimRecord(queue, group, epoch, numbers)
    assert decode_lease(encode(lease)) == lease
    assert decode_claim(encode(claim)) == claim
    lost = LostRecord(queue, group, epoch, bytes(LOST_BLOCK // 8))
    assert decode_lost(encode(lost)) == lost


def test_a_lease_of_an_older_version_has_the_defaults() -> None:
    older = msgspec.msgpack.encode({"queue": 1, "group": "g", "epoch": 2, "base": 3})
    assert decode_lease(older) == LeaseRecord(1, "g", 2, 3, "", 0, 0, False, 0)


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_claim(encode(LeaseRecord(1, "g", 2, 3)))


@given(one=st.tuples(QUEUES, GROUPS, NUMBERS), other=st.tuples(QUEUES, GROUPS, NUMBERS))
def test_two_claims_have_two_keys(one: tuple[int, str, int], other: tuple[int, str, int]) -> None:
    assert (claim_key(*one) == claim_key(*other)) == (one == other)
    assert claim_key(*one).startswith(lease_key(one[0], one[1]))
