"""Strings and boxed primitives as Java serialises them. The octets were written by ObjectOutputStream of Java 17."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base import primitive
from entrepot.base.primitive import Primitive
from entrepot.model.serialised import opened, serialised

SEVEN = bytes.fromhex(
    "aced0005737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a6176612e6c616e67"
    "2e4e756d62657286ac951d0b94e08b020000787000000007"
)
TRUTH = bytes.fromhex("aced0005737200116a6176612e6c616e672e426f6f6c65616ecd207280d59cfaee0200015a000576616c7565787001")
LIST = bytes.fromhex("aced0005737200136a6176612e7574696c2e41727261794c6973747881d21d99c7619d03000149000473697a6578")


def test_octets_are_those_of_java() -> None:
    assert serialised(Primitive(primitive.INT, 7)) == SEVEN
    assert serialised(Primitive(primitive.BOOLEAN, True)) == TRUTH
    assert serialised(Primitive(primitive.TEXT, "xy")) == b"\xac\xed\0\5t\0\2xy"
    assert opened(SEVEN) == opened(SEVEN + b"y") == Primitive(primitive.INT, 7)


@given(
    st.builds(Primitive, st.just(primitive.TEXT), st.text(max_size=20) | st.just("\0"))
    | st.builds(Primitive, st.just(primitive.LONG), st.integers(-(2**63), 2**63 - 1))
    | st.builds(Primitive, st.just(primitive.SHORT), st.integers(-(2**15), 2**15 - 1))
    | st.builds(Primitive, st.just(primitive.BYTE), st.integers(-128, 127))
    | st.builds(Primitive, st.just(primitive.CHAR), st.characters(max_codepoint=0xFFFF, codec=None))
    | st.builds(Primitive, st.just(primitive.DOUBLE), st.floats(allow_nan=False))
    | st.builds(Primitive, st.just(primitive.FLOAT), st.floats(width=32, allow_nan=False)),
    st.sampled_from([b"", b"y"]),
)
def test_what_is_serialised_opens_the_same(value: Primitive, reset: bytes) -> None:
    octets = serialised(value)
    assert octets is not None
    assert opened(octets + reset) == value


@pytest.mark.parametrize(
    "octets",
    [b"", b"\xac\xed\0\5", LIST, SEVEN[:-1], SEVEN + b"x", b"\xac\xed\0\5t\0\3xy", b"\xac\xed\0\5t\0\1\xff"],
)
def test_other_octets_stay_closed(octets: bytes) -> None:
    assert opened(octets) is None


@pytest.mark.parametrize(
    ("tag", "value"),
    [(primitive.INT, 2**31), (primitive.CHAR, "\U0001f600"), (primitive.MAP, {}), (primitive.INT, None)],
)
def test_what_has_no_form_is_none(tag: int, value: object) -> None:
    assert serialised(Primitive(tag, value)) is None


def test_a_long_string_has_a_long_length() -> None:
    octets = serialised(Primitive(primitive.TEXT, "x" * 65_536))
    assert octets is not None
    assert octets[:13] == b"\xac\xed\0\5|\0\0\0\0\0\1\0\0"
    assert opened(octets) == Primitive(primitive.TEXT, "x" * 65_536)
