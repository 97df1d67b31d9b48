"""Text as Java writes it: modified UTF-8 (Java Object Serialization Specification, chapter 6).

U+0000 is C0 80, a character above U+FFFF is two surrogates of three octets each; lone surrogates pass.
"""

from __future__ import annotations

import re
from typing import Final

SUPPLEMENTARY: Final = re.compile("[\U00010000-\U0010ffff]")


def encoded(text: str) -> bytes:
    """Return the octets of ``text``."""
    return SUPPLEMENTARY.sub(_halves, text).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _halves(match: re.Match[str]) -> str:
    """Return the two surrogates of a character above U+FFFF."""
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))
