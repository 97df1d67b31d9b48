"""Summaries doubt all that is wrong."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from entrepot.pipeline.jobs import sifting


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 9)), min_size=1, max_size=30))
def test_a_stretch_rises_where_each_is_above_the_one_before(rows: list[tuple[int, int]]) -> None:
    key, sequence = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    position = np.arange(len(rows), dtype=np.int64) * 3
    shuffled = np.argsort(sequence, kind="stable")  # in whatever order they are read
    found = sifting.stretches(key[shuffled], position[shuffled], sequence[shuffled]).to_pylist()
    wanted = []
    for one in np.unique(key):
        theirs, at = sequence[key == one], position[key == one]
        wanted.append({
            "key": one, "first": at[0], "last": at[-1], "low": theirs.min(), "high": theirs.max(),
            "rising": all(before < after for before, after in pairwise(theirs)),
        })  # fmt: skip
    assert found == wanted


def test_rows_inside_of_places_and_outside() -> None:
    places = np.array([(-7, 10, 20), (-7, 30, 30), (5, 0, 3)], np.int64)
    key = np.array([-7, -7, -7, -7, -7, 5, 5, 6, -8], np.int64)
    position = np.array([9, 10, 20, 25, 30, 3, 4, 1, 15], np.int64)
    assert sifting.inside(places, key, position).tolist() == [
        False, True, True, False, True, True, False, False, False
    ]  # fmt: skip
    assert not sifting.inside(places[:0], key, position).any()
