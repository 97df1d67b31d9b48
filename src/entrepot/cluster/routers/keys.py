"""What tells clients apart, and the number that it becomes: the same on every broker of either kind (artemis.md 4.14).

Clients of one key go to one broker whoever they ask, so key, filter and hash are those of Artemis to the bit.
"""

from __future__ import annotations

from typing import Final

from entrepot.cluster.routers.options import KeyType, RouterOptions
from entrepot.core.guiding import Visitor

NO_KEY: Final = "NULL"
KEY_CHARACTERS_MAX: Final = 1_000  # of what a client says: patterns of the file are tried with it
HASH_BEGIN: Final = 0x811C9DC5
HASH_PRIME: Final = 0x01000193  # FNV-1a of 32 bits, over UTF-16 units
BITS: Final = 0xFFFFFFFF


def key_of(options: RouterOptions, visitor: Visitor) -> str:
    """Return the key of ``visitor``: `NO_KEY` where it has none, or the filter finds nothing in it."""
    if options.key is KeyType.ROLE_NAME:
        for group in visitor.groups:
            found = _filtered(options, group)
            if found != NO_KEY:
                return found
        return NO_KEY
    said = {
        KeyType.CLIENT_ID: visitor.client_id,
        KeyType.SNI_HOST: visitor.server_name,
        KeyType.SOURCE_IP: visitor.peer.rpartition(":")[0],
        KeyType.USER_NAME: visitor.user,
    }[options.key]
    return _filtered(options, said) if said else NO_KEY


def _filtered(options: RouterOptions, said: str) -> str:
    if options.key_filter is None:
        return said
    found = options.key_filter.search(said[:KEY_CHARACTERS_MAX])
    return NO_KEY if found is None else found.group()


def hash_of(text: str) -> int:
    """Return the hash of ``text``, with a sign."""
    found = HASH_BEGIN
    octets = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(octets), 2):
        found = ((found ^ (octets[at] << 8 | octets[at + 1])) * HASH_PRIME) & BITS
    return found - (1 << 32) if found >> 31 else found


def reduced(key: str, modulo: int) -> str:
    """Return the hash of ``key`` modulo ``modulo`` as text, with the sign of the hash, as Java has it."""
    if modulo <= 0 or key == NO_KEY:
        return key
    found = hash_of(key)
    rest = abs(found) % modulo
    return str(-rest if found < 0 else rest)
