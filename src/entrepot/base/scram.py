"""What is kept of a password so that SCRAM can prove it without its being said (RFC 5802, RFC 7677).

Kept is `Keys`, for one hash each: from them a password can be recognised and the broker can prove that it knows it, but
nobody can come in with them. The text form, behind ``scram:`` in `core/security/passwords.py`, with base64:

    SHA-256:4096:SALT:STOREDKEY:SERVERKEY,SHA-512:4096:SALT:STOREDKEY:SERVERKEY
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Final

from entrepot.base.errors import InvalidOption

DIGESTS: Final = {"SHA-256": ("sha256", 32), "SHA-512": ("sha512", 64)}
ROUNDS: Final = 4096  # what RFC 7677 asks for at least
ROUNDS_MAX: Final = 1_000_000  # half a second
REMEDY: Final = "write scram:DIGEST:ROUNDS:SALT:STOREDKEY:SERVERKEY (`entrepot user add --scram` does)"


class Keys:
    """Of one password and one digest, ``SHA-256`` or ``SHA-512``."""

    def __init__(self, digest: str, rounds: int, salt: bytes, stored: bytes, server: bytes) -> None:
        """Raises InvalidOption."""
        size = DIGESTS[digest][1] if digest in DIGESTS else -1
        if len(stored) != size or len(server) != size or not salt or not 1 <= rounds <= ROUNDS_MAX:
            raise InvalidOption("keys of SCRAM have parameters that make no sense", remedy=REMEDY)
        self.digest: Final = digest
        self.rounds: Final = rounds
        self.salt: Final = salt
        self.stored: Final = stored
        self.server: Final = server

    def text(self) -> str:
        """Return them as they are kept."""
        salt, stored, server = (b64encode(one).decode() for one in (self.salt, self.stored, self.server))
        return f"{self.digest}:{self.rounds}:{salt}:{stored}:{server}"


def salted(digest: str, password: str, salt: bytes, rounds: int) -> bytes:
    """Return the SaltedPassword, from which all keys come. Takes some ms."""
    import hashlib  # noqa: PLC0415 - half a MB of tables of OpenSSL, for brokers that know passwords

    return hashlib.pbkdf2_hmac(DIGESTS[digest][0], prepared(password).encode("utf-8", "surrogatepass"), salt, rounds)


def mac(digest: str, key: bytes, text: bytes) -> bytes:
    """Return the HMAC of ``text``."""
    import hmac  # noqa: PLC0415 - as in `salted`

    return hmac.digest(key, text, DIGESTS[digest][0])


def hashed(digest: str, data: bytes) -> bytes:
    """Return H(``data``)."""
    import hashlib  # noqa: PLC0415 - as in `salted`

    return hashlib.new(DIGESTS[digest][0], data).digest()


def keys_of(digest: str, password: str, salt: bytes, rounds: int = ROUNDS) -> Keys:
    """Return what is kept of ``password``. Takes some ms."""
    found = salted(digest, password, salt, rounds)
    stored = hashed(digest, mac(digest, found, b"Client Key"))
    return Keys(digest, rounds, salt, stored, mac(digest, found, b"Server Key"))


def read(text: str) -> dict[str, Keys]:
    """Return keys by their digest. Raises InvalidOption; its message does not repeat the text."""
    found: dict[str, Keys] = {}
    for part in text.split(","):
        try:
            digest, rounds, *octets = part.split(":")
            salt, stored, server = (b64decode(one, validate=True) for one in octets)
            found[digest] = Keys(digest, int(rounds), salt, stored, server)
        except (ValueError, binascii.Error):
            raise InvalidOption("keys of SCRAM cannot be read", remedy=REMEDY) from None
    return found


def kept(keys: Iterable[Keys]) -> str:
    """Return ``keys`` as a password that is kept."""
    return "scram:" + ",".join(one.text() for one in keys)


def matches(keys: dict[str, Keys], password: str) -> bool:
    """Return whether ``password`` is the one of which ``keys`` are kept: each digest has the same."""
    one = next(iter(keys.values()))
    return same(keys_of(one.digest, password, one.salt, one.rounds).stored, one.stored)


def same(one: bytes, other: bytes) -> bool:
    """Return whether both are the same, after a time that does not tell where they differ."""
    import hmac  # noqa: PLC0415 - as in `salted`

    return hmac.compare_digest(one, other)


def prepared(text: str) -> str:
    """Return ``text`` by SASLprep (RFC 4013): other spaces as one, what is not seen left out, NFKC.

    What that forbids is left as it is: both sides must do the same, and others do not refuse it either.
    """
    if text.isascii():
        return text
    import stringprep  # noqa: PLC0415 - tables for who has such a password
    import unicodedata  # noqa: PLC0415 - as above

    mapped = "".join(" " if stringprep.in_table_c12(one) else one for one in text if not stringprep.in_table_b1(one))
    return unicodedata.normalize("NFKC", mapped)
