"""Which files are kept, and which go: the oldest first, and what was never confirmed."""

from __future__ import annotations

from entrepot.journal.epoch import EPOCH_SHIFT, Boundary
from entrepot.journal.keeping import NS_A_MS, Kept, in_order, is_written


def named(first: int, last: int = 0, as_of: int = 0) -> str:
    return f"{first:09}-{last or first:09}-00000000000001-{as_of:014}.seg"


def kept(*names: str, period_ms: int = 0, limit: int = 0) -> Kept:
    """Each has 10 octets, and is 1 ms younger than the one before."""
    made = Kept(period_ms, limit)
    made.unconfirmed(0, [])
    for at, name in enumerate(names, 1):
        made.add(name, 10, at * NS_A_MS)
    return made


def test_bodies_and_segments_as_they_were_written_are_kept() -> None:
    assert [name for name in ("7.blob", named(7), named(1, 3, 9), "x.tmp", "reserve") if Kept(0, 0).takes(name)] == [
        "7.blob",
        named(7),
    ]
    assert not is_written("7.blob")
    assert in_order([named(12), "7.blob", named(3), named(12), named(1, 2, 9)]) == [named(3), named(12)]


def test_what_is_too_much_goes_and_the_oldest_first() -> None:
    held = kept(named(2), named(1), "3.blob", limit=20)
    assert held.spent(0) == [named(2)]
    assert (held.octets, list(held.sizes)) == (20, [named(1), "3.blob"])
    assert held.oldest() == 2 * NS_A_MS


def test_what_is_too_old_goes_and_nothing_younger() -> None:
    held = kept(named(1), named(2), period_ms=5)
    assert held.spent(6 * NS_A_MS) == []
    assert held.spent(7 * NS_A_MS) == [named(1)]
    assert held.spent(99 * NS_A_MS) == [named(2)]
    assert (held.octets, held.oldest(), held.take()) == (0, 0, "")


def test_a_file_that_comes_again_counts_once_and_is_as_old_as_it_is_now() -> None:
    held = kept(named(1), named(2))
    held.add(named(1), 30, 9 * NS_A_MS)
    assert held.octets == 40
    assert [held.take(), held.take(), held.take()] == [named(2), named(1), ""]


def test_what_stands_behind_all_that_recovery_found_was_never_confirmed() -> None:
    held = kept(named(3), named(7), named(8), "9.blob")
    assert held.unconfirmed(0, []) == []
    assert held.unconfirmed(7, []) == [named(8)]
    assert held.take() == named(3)
    assert held.octets == 20


def test_what_a_former_master_wrote_too_late_was_never_confirmed() -> None:
    """Epoch 2 began behind segment 5 of epoch 1."""
    first = 1 << EPOCH_SHIFT
    held = kept(named(first + 4), named(first + 6), named(2 << EPOCH_SHIFT))
    assert held.unconfirmed(3 << EPOCH_SHIFT, [Boundary(2, first + 5, 100, 9)]) == [named(first + 6)]


def test_what_was_moved_to_a_queue_is_as_young_as_that() -> None:
    held = kept(named(1), named(2), named(3), "9.blob", period_ms=5)
    held.renew(2, 2, 9 * NS_A_MS)
    held.renew(3, 3, 1 * NS_A_MS)  # it is younger
    assert held.spent(9 * NS_A_MS) == [named(1), named(3)]
    assert held.spent(14 * NS_A_MS) == ["9.blob"]
    assert held.spent(15 * NS_A_MS) == [named(2)]


def test_what_is_moved_while_the_journal_has_it_is_kept_from_then_on() -> None:
    held = kept(named(1), limit=20)
    held.renew(2, 2, 9 * NS_A_MS)
    held.add(named(2), 10, 2 * NS_A_MS)
    held.add(named(4), 10, 4 * NS_A_MS)
    assert held.spent(0) == [named(1)]
    held.renew(3, 6, 10 * NS_A_MS)  # of a file that was compacted
    assert held.take() == named(2)
    assert held.renewed_ids() == [4]


def test_what_may_be_published_later_is_not_too_old_until_it_may_not() -> None:
    held = kept(*(named(number) for number in range(1, 8)), "9.blob", period_ms=5)
    held.awaits(named(2, 4, 20), waits=True)
    held.awaits(named(6, 6, 20), waits=True)
    assert held.spent(99 * NS_A_MS) == [named(1), named(5), named(7), "9.blob"]
    held.awaits(named(2, 4, 30), waits=True)  # it was compacted once more
    held.awaits(named(2, 4, 20), waits=False)
    held.awaits(named(6, 6, 20), waits=False)
    assert held.spent(99 * NS_A_MS) == [named(6)]
    held.awaits(named(8, 9, 20), waits=False)  # of which nothing was said
    held.renew(2, 4, 90 * NS_A_MS)
    held.awaits(named(2, 4, 30), waits=False)
    assert held.spent(95 * NS_A_MS) == []
    assert held.spent(96 * NS_A_MS) == [named(2), named(3), named(4)]


def test_what_may_be_published_later_goes_for_want_of_room() -> None:
    held = kept(*(named(number) for number in range(1, 5)), period_ms=5, limit=25)
    held.awaits(named(1, 9, 20), waits=True)
    assert held.spent(99 * NS_A_MS) == [named(1), named(2)]
    assert held.take() == named(3)


def test_nothing_goes_before_it_is_known_what_may_be_published() -> None:
    held = Kept(5, 20)
    held.add(named(1), 30, NS_A_MS)
    assert held.spent(99 * NS_A_MS) == []
    assert held.unconfirmed(0, []) == []
    assert held.spent(99 * NS_A_MS) == [named(1)]
