"""A ledger against a dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.core.leases.ledger import SPARE_MAX, Ledger

STEPS = st.lists(
    st.tuples(st.just("add"), st.integers(1, 2**62))
    | st.tuples(st.just("take"), st.integers(1, 4))
    | st.tuples(st.just("clear"), st.integers(0, 5)),
    max_size=60,
)


@given(STEPS, st.integers(0, 2**40))
def test_it_holds_what_a_dict_would(steps: list[tuple[str, int]], first: int) -> None:
    ledger, wanted = Ledger(), dict[int, int]()
    base = tail = first
    for what, value in steps:
        if what == "add":
            ledger.add(tail, value)
            wanted[tail] = value
            tail += 1
        elif what == "clear":
            ledger.clear()
            wanted.clear()
            base = tail = tail + value
        else:
            for _ in range(min(value, tail - base)):
                assert ledger.take_first(base) == wanted.pop(base)
                base += 1
    assert len(ledger) == len(wanted)
    assert ledger.values() == list(wanted.values())
    for position in (base - 1, base, (base + tail) // 2, tail - 1, tail):
        assert ledger.get(position) == wanted.get(position)
    for low in range(base - 1, tail + 2):
        for high in (low - 1, low, low + 3):
            if low >= high or base <= low < high <= tail:
                numbers = [wanted[position] for position in range(low, high)]
                assert ledger.listed(low, high) == list(ledger.between(low, high)) == numbers
            else:
                with pytest.raises(KeyError):
                    ledger.between(low, high)


def test_places_of_what_is_gone_are_used_again() -> None:
    ledger = Ledger()
    for position in range(4 * SPARE_MAX):
        ledger.add(position, position + 1)
    for position in range(3 * SPARE_MAX):
        assert ledger.take_first(position) == position + 1
        assert ledger[position + 1] == position + 2
    assert ledger.values() == list(range(3 * SPARE_MAX + 1, 4 * SPARE_MAX + 1))
    ledger.add(4 * SPARE_MAX, 7)
    assert ledger.listed(4 * SPARE_MAX - 1, 4 * SPARE_MAX + 1) == [4 * SPARE_MAX, 7]


def test_positions_that_were_lost_have_nobody() -> None:
    ledger = Ledger()
    ledger.add(5, 50)
    ledger.add(8, 80)
    assert [ledger.get(position) for position in range(4, 10)] == [None, 50, None, None, 80, None]
    with pytest.raises(KeyError):
        ledger.add(7, 70)
    with pytest.raises(KeyError):
        ledger.take_first(8)
    assert ledger.take_first(5) == 50
    with pytest.raises(KeyError):
        ledger.take_first(6)
