"""Text turned into values, in the notations of both families, of URIs and of the command line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import MILLISECOND, MINUTE, SECOND
from entrepot.base.values import (
    boolean,
    boolean_or,
    count_or_none,
    decimal,
    duration,
    octets,
    whole,
    words,
)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False), (" True ", True)])
def test_flags(text: str, value: bool) -> None:
    assert boolean(text) is boolean_or(text, not value) is value


@pytest.mark.parametrize("text", ["", "yes", "1", "truee"])
def test_what_is_no_flag(text: str) -> None:
    with pytest.raises(ValueError, match="use true or false"):
        boolean(text)
    assert boolean_or(text, True) is True
    assert boolean_or(text, False) is False


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("+7", 7), (" 12 ", 12), ("2147483647", 2**31 - 1)])
def test_whole_numbers(text: str, value: int) -> None:
    assert whole(text) == value


@pytest.mark.parametrize("text", ["", "-1", "2147483648", "1.5", "1_000", "٣", "0x10", "9" * 5000])
def test_what_is_no_number_here(text: str) -> None:
    with pytest.raises(ValueError, match="use a number"):
        whole(text)


def test_minus_one_is_no_limit_to_artemis() -> None:
    assert (count_or_none("-1"), count_or_none("5")) == (None, 5)
    with pytest.raises(ValueError, match="from -1 to"):
        count_or_none("-2")


@pytest.mark.parametrize("text", ["nan", "inf", "2.5", "-0.1", "much"])
def test_a_decimal_number_is_within_its_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="use a decimal number"):
        decimal(text, 0.0, 2.0)
    assert decimal("1.5", 0.0, 2.0) == 1.5


@pytest.mark.parametrize(
    ("text", "value"),
    [("10", 10), ("64 mb", 64 << 20), ("10MiB", 10 << 20), ("1k", 1024), ("-1", -1), ("2tb", 2 << 40)],
)
def test_sizes(text: str, value: int) -> None:
    assert octets(text) == value


def test_times_count_milliseconds_in_files_and_seconds_on_the_command_line() -> None:
    assert duration("5") == 5 * MILLISECOND
    assert duration("5", plain=SECOND) == 5 * SECOND
    assert duration("1.5m", fractions=True) == 90 * SECOND
    assert duration("2min") == 2 * MINUTE
    assert duration("3us") == 3_000


@pytest.mark.parametrize("text", ["", "5 parsecs", "1.5s", "s", "1e3"])
def test_a_remedy_names_the_units(text: str) -> None:
    with pytest.raises(ValueError, match="use a whole number, with ns, us, ms, s, m, min, h, d behind it or without"):
        duration(text)


@given(st.lists(st.text("abc ", max_size=3), max_size=4))
def test_lists(parts: list[str]) -> None:
    assert words(",".join(parts)) == tuple(part.strip() for part in parts if part.strip())


@given(st.text(max_size=30))
def test_any_text_raises_nothing_else(text: str) -> None:
    for read in (boolean, whole, octets, duration, count_or_none, lambda text: decimal(text, 0, 1)):
        with suppress(ValueError):
            read(text)
