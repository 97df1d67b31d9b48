"""Text turned into values: flags, whole and decimal numbers within bounds, sizes, times, lists.

Every reader of options uses these, whatever its notation: URIs, the XML of both families, Spark's options, the command
line. A function raises ValueError whose text says what to write instead; its caller says of which option.

The notations differ in what a plain number means, and in what -1 stands for. Those differences are arguments and
functions here: `octets` and `duration` take the measure of a plain number; `count_or_none` reads -1 as Artemis does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from entrepot.base.environment import GIB, KIB, MIB, MICROSECOND, MILLISECOND, MINUTE, NANOSECOND, SECOND

INT_MAX: Final = 2**31 - 1  # Java's int
FLAGS: Final[Mapping[str, bool]] = {"true": True, "false": False}

TIMES: Final[Mapping[str, int]] = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "min": MINUTE,
    "h": 60 * MINUTE,
    "d": 24 * 60 * MINUTE,
}
# Both families count 1024 to the kilobyte, whatever the spelling.
SIZES: Final[Mapping[str, int]] = {
    "b": 1,
    **dict.fromkeys(("k", "kb", "kib"), KIB),
    **dict.fromkeys(("m", "mb", "mib"), MIB),
    **dict.fromkeys(("g", "gb", "gib"), GIB),
    **dict.fromkeys(("t", "tb", "tib"), 1024 * GIB),
}
NO_UNITS: Final[Mapping[str, int]] = {}

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_MEASURED: Final = re.compile(r"([+-]?[0-9]{1,20})(\.[0-9]{1,9})?\s*([A-Za-z]*)")


def boolean(text: str) -> bool:
    """Read ``true`` or ``false``, in any case."""
    value = FLAGS.get(text.strip().lower())
    if value is None:
        raise ValueError("use true or false")
    return value


def boolean_or(text: str, default: bool) -> bool:
    """Read a flag as Java does where nobody checks it: what is neither true nor false is ``default``."""
    return FLAGS.get(text.strip().lower(), default)


def whole(text: str, low: int = 0, high: int = INT_MAX) -> int:
    """Read a whole number in ASCII digits, ``low`` to ``high``."""
    text = text.strip()
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("use a number")
    value = int(text)
    if not low <= value <= high:
        raise ValueError(f"use a number from {low} to {high}")
    return value


def count_or_none(text: str, high: int = INT_MAX) -> int | None:
    """Read a number as Artemis writes it: -1 is no limit, or the system's own value; None then."""
    value = whole(text, -1, high)
    return None if value < 0 else value


def decimal(text: str, low: float, high: float) -> float:
    """Read a decimal number, ``low`` to ``high``; what is no number at all is within nothing."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError("use a decimal number") from None
    if not low <= value <= high:
        raise ValueError(f"use a decimal number from {low} to {high}")
    return value


def measured(text: str, units: Mapping[str, int], plain: int, *, fractions: bool = False) -> int:
    """Read a number with one of ``units`` behind it, or without: then it counts ``plain``.

    ``fractions``: ``1.5m`` is understood; what is left of a whole is cut off.
    """
    found = _MEASURED.fullmatch(text.strip())
    unit = "" if found is None else found[3].lower()
    if found is None or (unit and unit not in units) or (found[2] and not fractions):
        extra = f", with {', '.join(units)} behind it or without" if units else ""
        raise ValueError(f"use a {'' if fractions else 'whole '}number{extra}")
    factor = units[unit] if unit else plain
    return int(float(found[1] + found[2]) * factor) if found[2] else int(found[1]) * factor


def octets(text: str, *, plain: int = 1, fractions: bool = False) -> int:
    """Read a size; a plain number counts ``plain`` octets."""
    return measured(text, SIZES, plain, fractions=fractions)


def duration(text: str, *, plain: int = MILLISECOND, fractions: bool = False) -> int:
    """Read a time, in ns; a plain number counts ``plain``: a millisecond in files, a second on the command line."""
    return measured(text, TIMES, plain, fractions=fractions)


def words(text: str) -> tuple[str, ...]:
    """Read a list with commas between its words."""
    return tuple(word for part in text.split(",") if (word := part.strip()))
