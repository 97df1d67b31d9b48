"""Which files of a data directory are the journal, and what the highest claim of a damaged one is."""

from __future__ import annotations

import pytest

from entrepot.base.errors import CorruptJournal
from entrepot.journal.index import segment_name
from entrepot.journal.names import parse_gaps, segment_files
from entrepot.journal.ports import SCRATCH


def test_segments_are_in_order_and_what_a_compaction_left_is_told_apart() -> None:
    merged, old, last = segment_name(1, 3, 1, 9), segment_name(2, 2, 0, 2), segment_name(4, 4, 0, 4)
    scratch = f"x{SCRATCH}"
    kept, leftovers = segment_files([last, scratch, old, "notes.txt", merged])
    assert kept == [merged, last]
    assert sorted(leftovers) == sorted([scratch, old])


def test_ranges_that_overlap_are_damage_and_the_remedy_is_said() -> None:
    with pytest.raises(CorruptJournal, match="overlaps") as raised:
        segment_files([segment_name(1, 3, 1, 9), segment_name(3, 5, 1, 9)])
    assert "entrepot data check" in (raised.value.remedy or "")


def test_gaps_are_read_in_pairs_and_a_torn_one_is_left_out() -> None:
    octets = b"".join(number.to_bytes(8, "big") for number in (1, 2, 7, 9))
    assert parse_gaps(octets) == [(1, 2), (7, 9)]
    assert parse_gaps(octets[:-1]) == [(1, 2)]
    assert parse_gaps(b"") == []
