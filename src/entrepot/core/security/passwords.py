"""What is kept of a password, and whether what somebody says is that password.

A kept password is one of

    scrypt:8192:8:1:SALT:HASH     cost, block size, parallelism; salt and hash in base64 (RFC 7914)
    pbkdf2:1024:SALT:HASH         rounds of HMAC with SHA-1; salt and hash in hexadecimal digits (RFC 8018; Artemis)
    scram:SHA-256:4096:...        keys that prove it in SCRAM (`base/scram.py`)
    plain:secret                  the password itself

The hash is scrypt of the password in UTF-8. A password that ends with NUL is first replaced by the SHA-256 of its
length (8 octets, big-endian) and itself, in hexadecimal digits: scrypt keys HMAC, which fills a short key up with zeros
(RFC 2104, chapter 2), so that ``secret`` and ``secret`` with a NUL behind it would otherwise be one password. With
pbkdf2, whose hashes others make, such a password is never right.

With the default parameters a look at a hash takes about 20 ms and 8 MB: much for who tries a dictionary, little for who
comes in once. All comparisons take the same time wherever two texts begin to differ.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Final

from entrepot.base.environment import MIB
from entrepot.base.errors import InvalidOption
from entrepot.base.scram import Keys, keys_of, matches, read, same

SCRYPT: Final = "scrypt"
PLAIN: Final = "plain"
SCRAM: Final = "scram"
PBKDF2: Final = "pbkdf2"
ROUNDS_MAX: Final = 1_000_000  # half a second
COST: Final = 8192
BLOCK_SIZE: Final = 8
PARALLELISM: Final = 1
SALT_OCTETS: Final = 16
HASH_OCTETS: Final = 32
LENGTH_OCTETS: Final = 8  # of the length that goes before a password which ends with NUL
MEMORY_MAX: Final = 64 * MIB  # a broker should not be stopped by a line of its own configuration
REMEDY: Final = "write scrypt:COST:BLOCKSIZE:PARALLELISM:SALT:HASH (`entrepot user add` does), or plain:PASSWORD"


class Kept:
    """A password as it is kept."""

    def __init__(self, text: str) -> None:
        """Read ``scrypt:...`` or ``plain:...``. Raises InvalidOption; its message does not repeat the text."""
        form, _, rest = text.partition(":")
        self.hashed: Final = form in (SCRYPT, PBKDF2, SCRAM)
        self._keys: dict[str, Keys] = {}  # by digest; of a plain password they are made when they are asked for
        self._rounds = 0
        self._plain: bytes = b""
        self._cost = (COST, BLOCK_SIZE, PARALLELISM)
        self._salt: bytes = b""
        self._hash: bytes = b""
        if form == PLAIN:
            self._plain = rest.encode()
        elif form == SCRYPT:
            self._read(rest)
        elif form == PBKDF2:
            self._read_rounds(rest)
        elif form == SCRAM:
            self._keys = read(rest)
            self._hash = next(iter(self._keys.values())).stored
        else:
            raise InvalidOption("a password is kept in a form that is not known", remedy=REMEDY)

    def _read(self, text: str) -> None:
        parts = text.split(":")
        try:
            cost, block_size, parallelism = (int(part) for part in parts[:3])
            salt, expected = (b64decode(part, validate=True) for part in parts[3:])
        except (ValueError, binascii.Error):
            raise InvalidOption("a hashed password cannot be read", remedy=REMEDY) from None
        if cost < 2 or cost & (cost - 1) or block_size < 1 or not 1 <= parallelism <= 16:
            raise InvalidOption("a hashed password has parameters that scrypt does not know", remedy=REMEDY)
        if _memory(cost, block_size, parallelism) > MEMORY_MAX or not salt or not expected:
            raise InvalidOption(
                f"a hashed password takes more than {MEMORY_MAX // MIB} MB to look at, or is empty", remedy=REMEDY
            )
        self._cost = (cost, block_size, parallelism)
        self._salt = salt
        self._hash = expected

    def _read_rounds(self, text: str) -> None:
        try:
            rounds, salt, expected = text.split(":")
            self._rounds = int(rounds)
            self._salt = bytes.fromhex(salt)
            self._hash = bytes.fromhex(expected)
        except ValueError:
            raise InvalidOption("a hashed password cannot be read", remedy=REMEDY) from None
        if not 1 <= self._rounds <= ROUNDS_MAX or not self._salt or not 16 <= len(self._hash) <= 1024:
            raise InvalidOption("a hashed password has parameters that make no sense", remedy=REMEDY)

    def matches(self, password: str) -> bool:
        """Return whether ``password`` is the one that is kept."""
        if not self.hashed:
            return same(self._plain, password.encode("utf-8", "surrogatepass"))
        if self._keys:
            return matches(self._keys, password)
        if self._rounds:
            import hashlib  # noqa: PLC0415 - as in `_scrypt`

            octets = password.encode("utf-8", "surrogatepass")
            found = hashlib.pbkdf2_hmac("sha1", octets, self._salt, self._rounds, len(self._hash))
            return same(self._hash, found) and not octets.endswith(b"\0")
        return same(self._hash, _scrypt(password, self._salt, self._cost, len(self._hash)))

    def keys(self, digest: str, salt: bytes) -> Keys | None:
        """Return the keys of SCRAM, made with ``salt`` where the password itself is kept; None: there are none."""
        if not self.hashed and digest not in self._keys:
            self._keys[digest] = keys_of(digest, self._plain.decode("utf-8", "surrogatepass"), salt)
        return self._keys.get(digest)

    def mark(self, password: str) -> bytes:
        """Return what tells a password that has matched before from others, without the cost of the hash."""
        import hashlib  # noqa: PLC0415 - as in `_scrypt`

        return hashlib.blake2b(password.encode("utf-8", "surrogatepass"), key=self._hash[:64]).digest()


def hashed(password: str, salt: bytes) -> str:
    """Return ``password`` as it should be kept; ``salt`` is `SALT_OCTETS` of chance."""
    found = _scrypt(password, salt, (COST, BLOCK_SIZE, PARALLELISM), HASH_OCTETS)
    numbers = f"{COST}:{BLOCK_SIZE}:{PARALLELISM}"
    return f"{SCRYPT}:{numbers}:{b64encode(salt).decode()}:{b64encode(found).decode()}"


def _scrypt(password: str, salt: bytes, cost: tuple[int, int, int], length: int) -> bytes:
    import hashlib  # noqa: PLC0415 - half a MB of tables of OpenSSL, for brokers that know passwords

    octets = password.encode("utf-8", "surrogatepass")
    if octets.endswith(b"\0"):
        octets = hashlib.sha256(len(octets).to_bytes(LENGTH_OCTETS, "big") + octets).hexdigest().encode()
    n, r, p = cost
    return hashlib.scrypt(octets, salt=salt, n=n, r=r, p=p, maxmem=_memory(n, r, p), dklen=length)


def _memory(cost: int, block_size: int, parallelism: int) -> int:
    """Return how many octets scrypt needs: its table, its blocks, and one more block to work on."""
    return 128 * block_size * (cost + parallelism + 2)
