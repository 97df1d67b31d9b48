"""CRC-32 (of ISO 3309, as zlib and gzip have it) by the quickest code that is here.

The package ``isal`` (extra ``fast``) takes a tenth of zlib's time for the records of a journal; what it returns is the
same. It is looked for once, when this module is imported.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Final


def quickest(module: str = "isal.isal_zlib") -> Callable[..., int]:
    """Return ``crc32`` of ``module``, or zlib's where that is not installed or does not load."""
    try:
        found: Callable[..., int] = importlib.import_module(module).crc32
    except (ImportError, AttributeError):
        return zlib.crc32
    return found


crc32: Final = quickest()
"""``crc32(octets, value=0)``: the checksum of ``octets`` behind those whose checksum is ``value``, 0 to 2**32 - 1."""
