"""Which segments are worth rewriting."""

from __future__ import annotations

import pytest

from entrepot.journal.compaction import CROWD, choose
from entrepot.journal.index import Index, Segment
from entrepot.journal.ports import JournalOptions, JournalPort

LENGTH = 100_000


class Small(JournalPort):
    """A disk with so much space."""

    def __init__(self, octets: int) -> None:

        self.octets = octets

    def space(self) -> int:
        return self.octets


def index_of(*live: int, length: int = LENGTH) -> Index:
    """Return an index with a sealed segment for each number of live octets, and the one that grows behind them."""
    index = Index()
    for number, octets in enumerate([*live, 0], start=1):
        segment = Segment(number, number, number)
        index.open(segment)
        index.grow(segment, length if number <= len(live) else 0)
        segment.live_bytes = octets
        segment.sealed = number <= len(live)
    return index


def chosen(index: Index, *, space: int = 1 << 40, short: bool = False, as_of: int = 1000) -> list[int]:
    """Return the ids of the segments that are chosen."""
    options = JournalOptions(segment_bytes=LENGTH)
    return [int(segment.first) for segment in choose(index, options, Small(space), as_of, short)]


def test_a_few_segments_are_left_alone() -> None:
    assert chosen(index_of(0, 0, 0)) == []


def test_garbage_below_half_of_all_is_left_alone() -> None:
    assert chosen(index_of(*[60_000] * 8)) == []


def test_the_longest_neighbours_that_fit_into_one_segment_are_rewritten() -> None:
    assert chosen(index_of(90_000, 10_000, 10_000, 10_000, 10_000, 90_000)) == [2, 3, 4, 5]


def test_a_rewrite_that_has_no_room_waits() -> None:
    crowded = index_of(*[20_000] * 8)
    assert chosen(crowded, space=200_000) != []
    assert chosen(crowded, space=50_000) == []


def test_on_a_disk_that_is_all_but_full_a_handful_is_worth_it() -> None:
    few = index_of(20_000, 20_000)
    assert chosen(few) == []
    assert chosen(few, space=60_000, short=True) == [1, 2]
    assert chosen(few, space=10_000, short=True) == []


def test_many_segments_that_are_nearly_empty_are_joined_garbage_or_not() -> None:
    assert len(chosen(index_of(*[90] * (CROWD + 4), length=100))) == CROWD + 4


@pytest.mark.parametrize("flaw", ["damaged", "compacted meanwhile"])
def test_a_segment_that_cannot_be_read_or_is_too_young_ends_the_window(flaw: str) -> None:
    index = index_of(*[10_000] * 6)
    if flaw == "damaged":
        index.segments[2].damaged = True
    else:
        index.segments[2].as_of = 1000
    assert chosen(index) == [4, 5, 6]
