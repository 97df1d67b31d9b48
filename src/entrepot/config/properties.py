"""Java's ``.properties`` text: ``name=value`` lines with comments, continuations and escapes."""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE: Final = re.compile(r"[0-9A-Fa-f]{4}")


def parse(text: str) -> dict[str, tuple[str, int]]:
    """Return name -> value and the number of its line, from 1; a name given twice has its last value."""
    found: dict[str, tuple[str, int]] = {}
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    at = 0
    while at < len(lines):
        first = at + 1
        line = lines[at].lstrip(" \t\f")
        at += 1
        if not line or line[0] in "#!":
            continue
        parts: list[str] = []
        while _continues(line) and at < len(lines):
            parts.append(line[:-1])
            line = lines[at].lstrip(" \t\f")
            at += 1
        parts.append(line[:-1] if _continues(line) else line)
        name, value = _halves("".join(parts))
        found[_plain(name)] = (_plain(value), first)
    return found


def _continues(line: str) -> bool:
    """Return whether an odd number of backslashes ends the line."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _halves(line: str) -> tuple[str, str]:
    """Split at the first ``=``, ``:`` or blank that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    name = line[:at]
    rest = line[at:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return name, rest


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            parts.append(text[at])
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        digits = text[at + 2 : at + 6]
        if escaped == "u" and _UNICODE.fullmatch(digits):
            parts.append(chr(int(digits, 16)))
            at += 6
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
            at += 2
    return "".join(parts)
