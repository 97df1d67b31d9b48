from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import MIB, MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.cli.values import DURATION, HEADER, SIZE, in_words, named_values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500ms", 500 * MILLISECOND),
        ("2", 2 * SECOND),
        ("0", 0),
        ("1.5m", 90 * SECOND),
        ("1h", 3600 * SECOND),
        (" 1 d ", 86_400 * SECOND),
    ],
)
def test_durations(text: str, value: int) -> None:
    assert DURATION.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("text", "value"), [("65536", 65536), ("512mb", 512 * MIB), ("64K", 65536), ("1.5g", 1536 * MIB), ("7b", 7)]
)
def test_sizes(text: str, value: int) -> None:
    assert SIZE.convert(text, None, None) == value


@pytest.mark.parametrize(("text", "value"), [("a=b", ("a", "b")), ("a=b=c", ("a", "b=c")), ("a=", ("a", ""))])
def test_headers(text: str, value: tuple[str, str]) -> None:
    assert HEADER.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DURATION, "soon"),
        (DURATION, "-1s"),
        (DURATION, "1 year"),
        (DURATION, "٣s"),
        (SIZE, "big"),
        (SIZE, "1pb"),
        (HEADER, "novalue"),
        (HEADER, "=x"),
    ],
)
def test_what_cannot_be_read_says_how_to_write_it(kind: click.ParamType, text: str) -> None:
    with pytest.raises(click.BadParameter, match="write"):
        kind.convert(text, None, None)


@given(st.sampled_from(["ms", "s", "m", "h", "d"]), st.integers(1, 9))
def test_what_is_said_in_words_reads_back(unit: str, number: int) -> None:
    value = DURATION.convert(f"{number}{unit}", None, None)
    assert DURATION.convert(in_words(value), None, None) == value


def test_names_with_values() -> None:
    assert named_values("-D", ("a=b", "c=d=e", "f="), "x=y") == {"a": "b", "c": "d=e", "f": ""}
    with pytest.raises(InvalidOption, match=r"-D '=a' is not NAME=VALUE \(write it like -D x=y\)"):
        named_values("-D", ("=a",), "x=y")
