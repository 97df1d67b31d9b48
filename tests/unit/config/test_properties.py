from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.config.properties import parse


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": ("b", 1)}),
        ("# a=b\n! c=d\n\n  a : b", {"a": ("b", 4)}),
        ("a b c", {"a": ("b c", 1)}),
        ("a", {"a": ("", 1)}),
        ("a==b", {"a": ("=b", 1)}),
        ("a=b\\\n   c\nd=e", {"a": ("bc", 1), "d": ("e", 3)}),
        ("a=b\\\\\nc=d", {"a": ("b\\", 1), "c": ("d", 2)}),
        ("a\\ b=\\u00fc\\t\\q", {"a b": ("ü\tq", 1)}),
        ("a\\=b=c", {"a=b": ("c", 1)}),
        ("a=1\r\na=2\r", {"a": ("2", 2)}),
        ("a=\\u12", {"a": ("u12", 1)}),
        ("a=b\\", {"a": ("b", 1)}),
    ],
)
def test_java_properties(text: str, found: dict[str, tuple[str, int]]) -> None:
    assert parse(text) == found


@given(st.text(alphabet="ab=: \t\\\n\r#!u0", max_size=60))
def test_any_text_is_read(text: str) -> None:
    parse(text)


@given(st.dictionaries(st.text("abc.", min_size=1), st.text("abc =:", max_size=9)))
def test_plain_entries_come_back(entries: dict[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in entries.items())
    assert {name: value for name, (value, _) in parse(text).items()} == {
        name: value.lstrip(" ") for name, value in entries.items()
    }
