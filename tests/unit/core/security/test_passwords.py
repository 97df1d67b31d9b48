"""Passwords as they are kept."""

from __future__ import annotations

from base64 import b64encode
from hashlib import scrypt, sha256

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption
from entrepot.core.security.passwords import SALT_OCTETS, Kept, hashed


@settings(deadline=None, max_examples=8)
@example("", "\0", bytes(16))
@example("secret\0", "secret", bytes(16))
@example("secret\0", "secret\0\0", bytes(16))
@given(right=st.text(max_size=20), wrong=st.text(max_size=20), salt=st.binary(min_size=16, max_size=16))
def test_a_hash_knows_its_password_and_no_other(right: str, wrong: str, salt: bytes) -> None:
    text = hashed(right, salt)
    kept = Kept(text)
    assert kept.hashed
    assert kept.matches(right)
    assert kept.matches(wrong) == (right == wrong)
    assert (kept.mark(right) == kept.mark(wrong)) == (right == wrong)
    assert not right or right not in text.split(":")[4:]


def test_the_vector_of_the_specification_is_met() -> None:
    """RFC 7914, chapter 12: P = "password", S = "NaCl", N = 1024, r = 8, p = 16, 64 octets."""
    expected = bytes.fromhex(
        "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
        "2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"
    )
    kept = Kept(f"scrypt:1024:8:16:{b64encode(b'NaCl').decode()}:{b64encode(expected).decode()}")
    assert kept.matches("password")
    assert not kept.matches("passwore")


def test_a_password_that_ends_with_nul_is_kept_as_documented() -> None:
    """By hand: the SHA-256 of eight octets of length and the password, in hexadecimal digits, goes into scrypt."""
    stands_for = sha256(bytes(7) + b"\x02" + b"a\0").hexdigest().encode()
    expected = scrypt(stands_for, salt=b"salt", n=16, r=1, p=1, dklen=32)
    kept = Kept(f"scrypt:16:1:1:{b64encode(b'salt').decode()}:{b64encode(expected).decode()}")
    assert kept.matches("a\0")
    assert not kept.matches("a")


def test_a_plain_one_may_hold_anything() -> None:
    assert Kept("plain:a:b=c d").matches("a:b=c d")
    assert Kept("plain:").matches("")
    assert not Kept("plain:secret").matches("Secret")


@pytest.mark.parametrize(
    "text",
    [
        "secret",
        "",
        "md5:abc",
        "scrypt:8192:8:1:c2FsdA==",
        "scrypt:8192:8:1:!:!",
        "scrypt:8192:8:1::",
        "scrypt:8191:8:1:c2FsdA==:aGFzaA==",
        "scrypt:x:8:1:c2FsdA==:aGFzaA==",
        "scrypt:1048576:8:1:c2FsdA==:aGFzaA==",
        "scrypt:8192:0:1:c2FsdA==:aGFzaA==",
        "scrypt:8192:8:17:c2FsdA==:aGFzaA==",
    ],
)
def test_what_cannot_be_read_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        Kept(text)
    assert not text or text not in str(caught.value)


def test_the_salt_counts() -> None:
    assert hashed("secret", bytes(SALT_OCTETS)) != hashed("secret", b"x" * SALT_OCTETS)
