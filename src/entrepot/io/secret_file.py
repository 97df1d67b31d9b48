"""A secret that several brokers share, in a file of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidOption

SECRET_MIN: Final = 16
"""Octets: what can be guessed is none."""
OTHERS: Final = 0o007
"""The bits of a file's mode for whoever is neither its owner nor of its group."""


def read_secret(path: str) -> bytes:
    """Return the secret in a file, without what surrounds it; b"" for no path. Raises InvalidOption."""
    if not path:
        return b""
    try:
        secret = Path(path).read_bytes().strip()
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InvalidOption(f"the secret {path} cannot be read: {error.strerror}", remedy="name a file") from error
    if mode & OTHERS:
        raise InvalidOption(f"everybody on this machine may read the secret {path}", remedy=f"chmod o-rwx {path}")
    if len(secret) < SECRET_MIN:
        raise InvalidOption(
            f"the secret in {path} has {len(secret)} octets, and needs {SECRET_MIN}",
            remedy=f"make one: head -c 32 /dev/urandom | base64 > {path}",
        )
    return secret
