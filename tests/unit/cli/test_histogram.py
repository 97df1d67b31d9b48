from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.cli.histogram import BITS, BUCKETS, HALF, VALUE_BITS_MAX, Histogram, bucket_of, upper_end

VALUES = st.integers(0, (1 << VALUE_BITS_MAX) - 1)


@given(VALUES)
def test_a_value_lies_in_its_bucket_and_the_bucket_is_narrow(value: int) -> None:
    bucket = bucket_of(value)
    end = upper_end(bucket)
    start = upper_end(bucket - 1) + 1 if bucket else 0
    assert start <= value <= end
    assert end - start <= value / HALF


def test_buckets_follow_one_another_without_a_gap() -> None:
    ends = [upper_end(bucket) for bucket in range(BUCKETS)]
    assert ends == sorted(set(ends))
    assert all(bucket_of(end) == bucket for bucket, end in enumerate(ends))
    assert all(bucket_of(end + 1) == bucket + 1 for bucket, end in enumerate(ends[:-1]))
    assert ends[-1] == (1 << VALUE_BITS_MAX) - 1
    assert BITS > 0


@given(st.lists(VALUES, min_size=1, max_size=200), st.floats(0.001, 100))
def test_a_percentile_is_that_of_the_sorted_values_to_a_bucket(values: list[int], percent: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    percent = round(percent, 3)
    rank = max(1, math.ceil(len(values) * round(percent * 1000) / 100_000))
    exact = sorted(values)[rank - 1]
    found = histogram.percentile(percent)
    assert bucket_of(found) == bucket_of(exact)
    assert found >= exact
    assert found <= max(values)


@given(st.lists(VALUES, max_size=50), st.lists(VALUES, max_size=50))
def test_merging_is_recording_all(first: list[int], second: list[int]) -> None:
    merged, other, whole = Histogram(), Histogram(), Histogram()
    for value in first:
        merged.record(value)
        whole.record(value)
    for value in second:
        other.record(value)
        whole.record(value)
    merged.add(other)
    assert vars(merged) == vars(whole)


def test_extremes() -> None:
    histogram = Histogram()
    assert histogram.percentile(50) == 0
    assert histogram.mean == 0
    histogram.record(-5)
    histogram.record(1 << 60)
    assert (histogram.least, histogram.most) == (0, 1 << 60)
    assert histogram.percentile(1) == 0


def test_the_summary_is_in_milliseconds() -> None:
    histogram = Histogram()
    for milliseconds in range(1, 101):
        histogram.record(milliseconds * 1_000_000)
    summary = histogram.summary()
    assert summary["mean"] == pytest.approx(50.5)
    assert summary["p50"] == pytest.approx(50, rel=1 / HALF)
    assert summary["max"] == 100
