"""Ids of CORE's messages, 16 octets, and the message ids that all others know them by. [C]

What is no UUID has one made of it, in the same way for ever: clients and older builds know messages by these.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` would load OpenSSL into every broker
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.model.ids import UUID_OCTETS

IDENTITY_OCTETS: Final = 39  # of "ID:" and a UUID
_DASH: Final = ord("-")
_DIGITS: Final = b"0123456789abcdef"
_HASH: Final = blake2b(digest_size=UUID_OCTETS)


def identity_of(user_id: bytes) -> str:
    """Return a message id as JMS has it: ``ID:`` and a UUID; "" for none."""
    digits = digits_of(user_id)
    return "ID:" + digits.decode("ascii") if digits else ""


def digits_of(user_id: bytes) -> bytes:
    """Return the UUID in the octets of an id, as people write it; b"" for none."""
    if len(user_id) != UUID_OCTETS:
        return b""
    text = BytesWriter()
    for place in range(UUID_OCTETS):
        if place in (4, 6, 8, 10):
            text.append(_DASH)
        octet: i64 = user_id[place]
        text.append(_DIGITS[octet >> 4])
        text.append(_DIGITS[octet & 0xF])
    return text.getvalue()


def user_id_of(identity: str) -> bytes:
    """Return the 16 octets of a message id: the UUID in it, or one made of its name (RFC 9562, version 8)."""
    if len(identity) == IDENTITY_OCTETS and identity.startswith("ID:"):
        try:
            octets = bytes.fromhex(identity[3:].replace("-", ""))
        except ValueError:
            octets = b""
        if identity_of(octets) == identity:
            return octets
    hashed = _HASH.copy()
    try:
        hashed.update(identity.encode())
    except UnicodeEncodeError:
        hashed.update(identity.encode("utf-8", "replace"))
    marked = BytesWriter()
    marked.write(hashed.digest())
    marked[6] = marked[6] & 0x0F | 0x80  # the version, and the variant
    marked[8] = marked[8] & 0x3F | 0x80
    return marked.getvalue()
