"""What an address remembers of duplicate ids, and of the last messages of producers, and what survives."""

from __future__ import annotations

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.core.addressing.binding import ROUTE_TO
from entrepot.core.records import KIND_DUPLICATE, KIND_SEQUENCE
from entrepot.core.sending.duplicates import PRODUCERS_KEPT, Duplicates, Sequences, cache_of
from entrepot.journal.memory import MemoryJournal
from kit import Rig

pytestmark = pytest.mark.skipif(is_compiled(), reason="native classes take no journal that is written for a test")


class Documents(MemoryJournal):
    """Remembers which documents there are."""

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[tuple[int, bytes], bytes] = {}

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        self.there[(kind, key)] = value

    def delete(self, kind: int, key: bytes) -> None:
        del self.there[(kind, key)]


def test_an_id_that_comes_again_keeps_its_age() -> None:
    duplicates = Duplicates(Documents())
    for number in (1, 2, 1, 3, 4):
        duplicates.remember("A", bytes([number]), 3, True)
    assert [duplicates.seen("A", bytes([number])) for number in range(1, 5)] == [False, True, True, True]


def test_the_oldest_id_beyond_the_limit_is_forgotten_on_disk_too() -> None:
    journal = Documents()
    duplicates = Duplicates(journal)
    for number in range(4):
        duplicates.remember("A", bytes([number]), 3, number % 2 == 0)
    assert [duplicates.seen("A", bytes([number])) for number in range(4)] == [False, True, True, True]
    assert list(journal.there) == [(KIND_DUPLICATE, b"A\0\x02")]
    assert not duplicates.seen("B", b"\x02"), "another address has a memory of its own"


def numbered(duplicates: Duplicates, first: int, last: int) -> None:
    for number in range(first, last + 1):
        duplicates.remember("A", bytes([number]), 3, True)


def known(duplicates: Duplicates, last: int) -> list[int]:
    return [number for number in range(1, last + 1) if duplicates.seen("A", bytes([number]))]


def test_pinned_ids_are_not_replaced_until_their_time_is_over() -> None:
    journal = Documents()
    duplicates = Duplicates(journal)
    numbered(duplicates, 1, 3)
    duplicates.pin("A", [b"\x01", b"\x02", b"\xff"], now=10, until=20)
    numbered(duplicates, 4, 9)
    assert known(duplicates, 9) == [1, 2, 7, 8, 9]
    assert len(journal.there) == 5
    duplicates.pin("A", [], now=20, until=30)  # somebody looks at the clock
    numbered(duplicates, 10, 14)
    assert known(duplicates, 14) == [12, 13, 14]
    assert len(journal.there) == 3


def test_what_is_pinned_no_more_goes_a_few_at_a_time() -> None:
    duplicates = Duplicates(Documents())
    numbered(duplicates, 1, 3)
    for number in range(100, 200):
        duplicates.pin("A", [bytes([number - 1])], now=10, until=20)
        duplicates.remember("A", bytes([number]), 3, True)
    assert len(known(duplicates, 199)) == 102
    duplicates.pin("A", [], now=20, until=30)
    numbered(duplicates, 4, 4)
    assert len(known(duplicates, 199)) > 80
    for number in range(5, 95):
        numbered(duplicates, number, number)
    assert known(duplicates, 199) == [92, 93, 94]


def test_ids_of_an_earlier_life_are_pinned_once() -> None:
    journal = Documents()
    numbered(Duplicates(journal), 1, 3)
    after = Duplicates(journal)
    for _, key in list(journal.there):
        after.recovered(key)
    after.pin_recovered("A", now=10, until=20)
    numbered(after, 4, 9)
    after.pin_recovered("A", now=10, until=20)
    numbered(after, 10, 12)
    assert known(after, 12) == [1, 2, 3, 10, 11, 12]
    after.pin_recovered("B", now=10, until=20)
    assert known(after, 12) == [1, 2, 3, 10, 11, 12], "nothing is known of B"


def test_pinned_ids_can_be_cleared() -> None:
    duplicates = Duplicates(Documents())
    numbered(duplicates, 1, 3)
    duplicates.pin("A", [b"\x01"], now=10, until=20)
    assert duplicates.forget_one("A")
    numbered(duplicates, 4, 6)
    assert known(duplicates, 6) == [4, 5, 6]
    assert duplicates.clear("A") == 3


def test_nothing_is_remembered_where_the_limit_is_0() -> None:
    duplicates = Duplicates(Documents())
    duplicates.remember("A", b"x", 0, True)
    assert not duplicates.seen("A", b"x")


def test_what_the_journal_kept_comes_back_and_can_be_cleared() -> None:
    journal = Documents()
    before = Duplicates(journal)
    before.remember("A", b"x\0y", 10, True)
    after = Duplicates(journal)
    for _, key in list(journal.there):
        after.recovered(key)
    assert after.seen("A", b"x\0y")
    assert (after.clear("A"), after.clear("A")) == (1, 0)
    assert journal.there == {}


def test_ids_of_bridges_are_remembered_apart() -> None:
    message = Rig().message("m", "A")
    rare = message.need_rare()
    assert cache_of("A", message, rare) == "A"
    message.mark(ROUTE_TO, b"12345678")
    assert cache_of("A", message, rare) == "", "a node sends on what its producer's id was asked for elsewhere"
    rare.bridged = True
    assert cache_of("A", message, rare) == "BRIDGE.A"


def test_a_producer_is_known_by_its_last_number_also_after_a_restart() -> None:
    journal = Documents()
    before = Sequences(journal)
    before.note("p", 7, True)
    before.note("q", 9, False)
    assert [before.seen("p", number) for number in (6, 7, 8)] == [True, True, False]
    after = Sequences(journal)
    for (kind, key), value in list(journal.there.items()):
        assert kind == KIND_SEQUENCE
        after.recovered(key, value)
    assert (after.seen("p", 7), after.seen("q", 9)) == (True, False)
    after.forget("p")
    assert journal.there == {}


def test_another_user_cannot_speak_for_a_producer_and_bridges_are_heard() -> None:
    sequences = Sequences(Documents())
    sequences.note("p\talice", 5, False)
    assert not sequences.seen("p\tbob", 5)
    assert sequences.had("p", 5)
    sequences.passing("r").highest = 3
    assert [sequences.had("r", number) for number in (3, 4)] == [True, False]


def test_producers_are_bounded_the_oldest_goes_first() -> None:
    sequences = Sequences(Documents())
    for number in range(PRODUCERS_KEPT + 1):
        sequences.note(f"p{number}", 1, False)
        sequences.passing(f"p{number}")
    assert (len(sequences.last), len(sequences.passed)) == (PRODUCERS_KEPT, PRODUCERS_KEPT)
    assert (sequences.seen("p0", 1), sequences.seen("p1", 1)) == (False, True)
