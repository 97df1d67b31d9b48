"""The open batch: settlements joined into few records, and reading what is not handed over yet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.journal.batch import Batch
from entrepot.journal.record import BATCH_HEAD, RECORD_HEAD, SETTLE_LIST, SETTLE_RUN


def kinds(octets: bytes) -> list[int]:
    """Return the kinds of the records in ``octets``."""
    found, at = [], 0
    while at < len(octets):
        length = int.from_bytes(octets[at : at + 4], "big")
        found.append(octets[at + RECORD_HEAD])
        at += RECORD_HEAD + length
    return found


def test_neighbours_become_a_run_and_the_rest_a_list() -> None:
    batch = Batch()
    for number in (1, 2, 3, 4, 9, 20):
        batch.settle(number, 7)
    batch.finish()
    assert kinds(batch.take()) == [SETTLE_RUN, SETTLE_LIST]


def test_two_neighbours_are_shorter_in_a_list() -> None:
    batch = Batch()
    for number in (1, 2, 9):
        batch.settle(number, 7)
    batch.finish()
    assert kinds(batch.take()) == [SETTLE_LIST]


def test_what_is_only_noted_counts_as_something() -> None:
    batch = Batch()
    assert batch.empty()
    batch.settle(1, 7)
    assert not batch.empty()
    assert batch.length() == 0
    batch.finish()
    batch.take()
    assert batch.empty()


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 200)), max_size=40))
def test_reading_changes_nothing_of_what_is_written(steps: list[tuple[bytes, int, int]]) -> None:
    batch, quiet = Batch(), Batch()
    batch.base = quiet.base = 1000
    for body, start, length in steps:
        assert batch.record(body) == quiet.record(body) == 1000 + BATCH_HEAD + batch.length() - RECORD_HEAD - len(body)
        stop = min(start + length, batch.length())
        if start < stop:
            assert batch.octets(start, stop) == quiet.out.getvalue()[start:stop]
    assert batch.take() == quiet.take()
    assert batch.empty()
    assert batch.length() == 0
    assert batch.record(b"next") == 1000 + BATCH_HEAD


def test_what_was_read_once_is_not_copied_again() -> None:
    batch = Batch()
    for number in range(100):
        offset = batch.record(b"%03d" % number) - BATCH_HEAD
        assert batch.octets(offset + RECORD_HEAD, batch.length()) == b"%03d" % number
        assert len(batch.out) == 0, "the next read would copy all of it again"
