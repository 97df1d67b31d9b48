"""Values that Jasypt encrypted, ``ENC(...)``, as ActiveMQ's `encrypt` command writes them (classic.md 7.2).

PBEWithMD5AndDES, the default of that library: eight octets of salt, then the text in DES-CBC; key and vector are the
halves of MD5 over password and salt, a thousand times. It hides a password from a glance and from nobody else.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from hashlib import md5
from typing import Final

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.sources import Decrypt

SALT_OCTETS: Final = 8
BLOCK_OCTETS: Final = 8
ROUNDS: Final = 1000


def decryptor(password: str) -> Decrypt:
    """Return what decrypts with ``password``. Raises InvalidConfiguration where the package for it is not installed."""
    try:
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES  # noqa: PLC0415 - optional
        from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.modes import CBC  # noqa: PLC0415
    except ImportError:
        raise InvalidConfiguration(
            "decrypting values takes the Python package 'cryptography', which is not installed",
            remedy="pip install 'entrepot[pkcs12]'",
        ) from None

    def decrypt(text: str) -> str:
        try:
            data = b64decode("".join(text.split()), validate=True)
        except binascii.Error:
            raise ValueError("it is not base64") from None
        salt, hidden = data[:SALT_OCTETS], data[SALT_OCTETS:]
        if len(salt) < SALT_OCTETS or not hidden or len(hidden) % BLOCK_OCTETS:
            raise ValueError("it is too short, or cut")
        both = password.encode("latin-1", "replace") + salt
        for _ in range(ROUNDS):
            both = md5(both, usedforsecurity=False).digest()
        key, vector = both[:BLOCK_OCTETS], both[BLOCK_OCTETS:]
        machine = Cipher(TripleDES(key * 3), CBC(vector)).decryptor()  # three times one key is DES
        padded = machine.update(hidden) + machine.finalize()
        count = padded[-1]
        if not 1 <= count <= BLOCK_OCTETS or padded[-count:] != bytes([count]) * count:
            raise ValueError("it was encrypted with another password, or another algorithm")
        return padded[:-count].decode("utf-8", "replace")

    return decrypt
