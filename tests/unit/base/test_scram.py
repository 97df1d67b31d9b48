"""Keys of SCRAM: what RFC 7677 and Artemis' own tool show, and what is refused."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.base.scram import DIGESTS, kept, keys_of, matches, prepared, read


@pytest.mark.parametrize("digest", DIGESTS)
def test_keys_are_kept_and_recognise_their_password(digest: str) -> None:
    keys = keys_of(digest, "geh\u00ad eim", b"salt", 10)
    text = kept([keys])
    assert text.startswith(f"scram:{digest}:10:{b64encode(b'salt').decode()}:")
    again = read(text.removeprefix("scram:"))
    assert matches(again, "geh eim")
    assert not matches(again, "geheim")


def test_the_keys_of_the_example() -> None:
    """RFC 7677, chapter 3: the proof there is of these keys."""
    keys = keys_of("SHA-256", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    assert b64encode(keys.stored) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert b64encode(keys.server) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


@pytest.mark.parametrize(
    "text",
    [
        "", "SHA-256", "SHA-1:4096:AAAA:AAAA:AAAA", "SHA-256:4096:AAAA:AAAA:AAAA", "SHA-256:x:AAAA:AAAA:AAAA",
        "SHA-256:4096:AAAA:AAAA", "SHA-256:4096:!:!:!",
    ],
)  # fmt: skip
def test_what_are_no_keys_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="SCRAM"):
        read(text)


@pytest.mark.parametrize("rounds", [0, 1_000_001])
def test_rounds_have_a_bound(rounds: int) -> None:
    size = b64encode(bytes(32)).decode()
    with pytest.raises(InvalidOption, match="SCRAM"):
        read(f"SHA-256:{rounds}:AAAA:{size}:{size}")


@pytest.mark.parametrize(
    ("text", "expected"), [("I\u00adX", "IX"), ("user", "user"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")]
)
def test_names_and_passwords_are_prepared(text: str, expected: str) -> None:
    """Examples of RFC 4013, chapter 3."""
    assert prepared(text) == expected
