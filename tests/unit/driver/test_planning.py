from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.driver.planning import Range, shares, split

NAMES = st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, max_size=6)


@given(st.integers(0, 10_000), NAMES, st.data())
def test_a_budget_is_divided_without_rest_as_far_as_there_is_use_for_it(
    budget: int, names: list[str], data: st.DataObject
) -> None:
    pending = data.draw(st.dictionaries(st.sampled_from(names), st.integers(0, 3_000))) if names else {}
    given_ = shares(budget, names, pending)
    assert list(given_) == names
    assert all(0 <= count <= pending.get(name, budget) for name, count in given_.items())
    unlimited = any(name not in pending for name in names)
    room = sum(pending.values())
    assert sum(given_.values()) == (budget if unlimited else min(budget, room) if names else 0)


def test_shares_are_even() -> None:
    assert shares(10, ["a", "b", "c"]) == {"a": 4, "b": 3, "c": 3}
    assert shares(10, ["a", "b"], {"a": 1}) == {"a": 1, "b": 9}


@given(
    st.lists(st.tuples(st.text("ab", min_size=1), st.integers(0, 1 << 40), st.integers(0, 20_000)), max_size=5),
    st.integers(0, 50),
    st.integers(1, 16),
)
def test_pieces_are_the_ranges_again_and_none_is_empty(
    given_: list[tuple[str, int, int]], least: int, cores: int
) -> None:
    ranges = [Range(shard, low, low + count) for shard, low, count in given_]
    pieces = split(ranges, least, cores)
    assert all(piece.count > 0 for piece in pieces)
    total = sum(range_.count for range_ in ranges)
    assert sum(piece.count for piece in pieces) == total
    assert len(pieces) >= min(least, total)
    joined: list[Range] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and last.shard == piece.shard and last.high == piece.low:
            joined[-1] = Range(last.shard, last.low, piece.high)
        else:
            joined.append(piece)
    wanted: list[Range] = []
    for range_ in ranges:
        last = wanted[-1] if wanted else None
        if last is not None and last.shard == range_.shard and last.high == range_.low:
            wanted[-1] = Range(last.shard, last.low, range_.high)
        elif range_.count:
            wanted.append(range_)
    assert joined == wanted


def test_few_messages_are_not_worth_many_tasks() -> None:
    assert len(split([Range("a", 0, 100)], 0, 8)) == 1
    assert len(split([Range("a", 0, 100_000)], 0, 8)) == 8
    assert len(split([Range("a", 0, 100)], 4, 1)) == 4
