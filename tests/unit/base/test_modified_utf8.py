"""Text as Java writes it: what differs from UTF-8, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.modified_utf8 import encoded
from entrepot.protocols.openwire.primitives import decode_modified_utf8, encode_modified_utf8


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("", b""),
        ("plain", b"plain"),
        ("é€", "é€".encode()),
        ("a\0b", b"a\xc0\x80b"),
        ("\U0001f600", b"\xed\xa0\xbd\xed\xb8\x80"),  # D83D DE00
        ("\U00010000\U0010ffff", b"\xed\xa0\x80\xed\xb0\x80\xed\xaf\xbf\xed\xbf\xbf"),
        ("\ud83d", b"\xed\xa0\xbd"),  # a lone surrogate is written as it is
    ],
)
def test_octets_are_those_of_java(text: str, octets: bytes) -> None:
    assert encoded(text) == octets


@given(st.text())
def test_it_agrees_with_the_codec_of_openwire_and_holds_no_nul(text: str) -> None:
    octets = encoded(text)
    assert b"\0" not in octets
    assert octets == encode_modified_utf8(text)
    assert decode_modified_utf8(octets) == text
