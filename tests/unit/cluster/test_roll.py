"""Which brokers a client hears of, in which order, also while brokers go and this one stops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.cluster.roll import rotated


@given(st.lists(st.text(max_size=3), unique=True, max_size=6), st.integers(0, 50))
def test_a_rotation_keeps_all_and_begins_one_later_each_turn(urls: list[str], turn: int) -> None:
    found = rotated(urls, turn)
    assert sorted(found) == sorted(urls)
    if urls:
        assert found[0] == urls[turn % len(urls)]
        assert rotated(urls, turn + len(urls)) == found
