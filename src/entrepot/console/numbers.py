"""Whole numbers that somebody else wrote: digits of ASCII, few of them, or none.

`str.isdigit` holds for ``²`` too, which `int` refuses, and `int` refuses more than 4,300 digits; both would be an error
of the server where the one who asked made a mistake.
"""

from __future__ import annotations

import re
from typing import Final

WHOLE: Final = re.compile(r"-?[0-9]{1,18}")  # 18 digits fit into 64 bits, whatever they are


def whole(value: object) -> int | None:
    """Return the whole number that a text or number says; None where it is none, or has more than 18 digits."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = value if isinstance(value, str) else f"{value:d}" if abs(value) < 10**18 else ""
    return int(text) if WHOLE.fullmatch(text) else None


def count(value: object, most: int = 10**18) -> int | None:
    """Return the number from 0 to ``most`` that a text or number says; None where it is none."""
    found = whole(value)
    return found if found is not None and 0 <= found <= most else None
