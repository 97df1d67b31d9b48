"""Values of selectors: comparisons between any two types, and arithmetic with the 64 bits of Java."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.model.value import (
    COMPARISONS,
    NO,
    UNKNOWN,
    YES,
    Value,
    approximate,
    compare,
    exact,
    java_text,
    number_in,
    wrapped,
)

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
ANY = st.one_of(LONG, st.floats(), st.booleans(), st.text(max_size=5), st.binary(max_size=3), st.none())
OPPOSITE = {"=": "<>", "<": ">=", ">": "<="}


@given(LONG, LONG)
def test_integers_wrap_as_in_java_and_division_gives_back_what_it_took(left: int, right: int) -> None:
    for sign, whole in ((0, left + right), (1, left - right), (2, left * right)):
        found = exact(sign, left, right)
        assert isinstance(found, int)
        assert -(1 << 63) <= found < 1 << 63
        assert (found - whole) % (1 << 64) == 0
    quotient, remainder = exact(3, left, right), exact(4, left, right)
    if right == 0:
        assert (quotient, remainder) == (None, None)
    else:
        assert isinstance(quotient, int)
        assert isinstance(remainder, int)
        assert wrapped(quotient * right + remainder) == left
        assert abs(remainder) < abs(right)
        assert remainder == 0 or (remainder < 0) == (left < 0)


@pytest.mark.parametrize(
    ("sign", "left", "right", "found"),
    [
        (3, 1.0, 0.0, math.inf),
        (3, -1.0, 0.0, -math.inf),
        (3, 1.0, -0.0, -math.inf),
        (4, -7.5, 2.0, -1.5),
        (3, 1.0, 4.0, 0.25),
    ],
)
def test_doubles_never_fail(sign: int, left: float, right: float, found: float) -> None:
    assert approximate(sign, left, right) == found


@pytest.mark.parametrize(
    ("sign", "left", "right"), [(3, 0.0, 0.0), (3, math.nan, 0.0), (4, 1.0, 0.0), (4, math.inf, 2.0)]
)
def test_what_has_no_value_is_no_number(sign: int, left: float, right: float) -> None:
    found = approximate(sign, left, right)
    assert isinstance(found, float)
    assert math.isnan(found)


@given(ANY, ANY, st.booleans())
def test_a_comparison_says_unknown_of_nothing_alone_and_unlike_types_are_neither(
    left: Value, right: Value, convert: bool
) -> None:
    verdicts = {sign: compare(op, left, right, convert) for sign, op in COMPARISONS.items()}
    if left is None or right is None:
        assert set(verdicts.values()) == {UNKNOWN}
        return
    assert set(verdicts.values()) <= {YES, NO}
    if not convert and (
        isinstance(left, bytes) or isinstance(right, bytes) or isinstance(left, str) != isinstance(right, str)
    ):
        assert set(verdicts.values()) == {NO}
    for sign, other in OPPOSITE.items():
        assert not (verdicts[sign] == YES and verdicts[other] == YES)


def test_a_string_stands_for_what_it_spells_where_that_is_asked_for() -> None:
    assert compare(COMPARISONS["="], "12", 12, True) == YES
    assert compare(COMPARISONS["="], "12", 12, False) == NO
    assert compare(COMPARISONS["="], "TRUE", True, True) == YES
    assert compare(COMPARISONS["<"], "1e1", 11.5, True) == YES
    assert compare(COMPARISONS["<>"], "twelve", 12, True) == NO


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+7", 7),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("9223372036854775808", 2.0**63),
        *((text, None) for text in ("", "0x1", "1 ", "1" * 401)),
    ],
)
def test_numbers_in_strings(text: str, number: float | None) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (3, "3"), ("x", "x"), (None, None), (b"x", None)])
def test_how_java_writes_values(value: Value, text: str | None) -> None:
    assert java_text(value) == text
