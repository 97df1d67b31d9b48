from __future__ import annotations

import pytest

from entrepot.config.encrypted import decryptor

pytest.importorskip("cryptography")


@pytest.mark.parametrize(
    ("text", "plain"),
    [("mYRkg+4Q4hua1kvpCCI2hg==", "manager"), ("Cf3Jf3tM+UrSOoaKU50od5CuBa8rxjoL", "password")],
)
def test_what_jasypt_wrote_is_read(text: str, plain: str) -> None:
    assert decryptor("activemq")(text) == plain


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "mYRkg+4Q4hua1kvpCCI2", "mYRkg+4Q4hs="])
def test_what_is_no_such_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it is"):
        decryptor("activemq")(text)


def test_another_password_is_noticed() -> None:
    with pytest.raises(ValueError, match="another password"):
        decryptor("wrong")("Cf3Jf3tM+UrSOoaKU50od5CuBa8rxjoL")
