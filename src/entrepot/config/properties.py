"""Java's ``.properties`` text: ``name=value`` lines with comments, continuations and escapes; read, and changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = {letter: word for word, letter in _ESCAPES.items()}
_UNICODE: Final = re.compile(r"[0-9A-Fa-f]{4}")


def parse(text: str) -> dict[str, tuple[str, int]]:
    """Return name -> value and the number of its line, from 1; a name given twice has its last value."""
    return {name: (value, first + 1) for first, _, name, value in _entries(_lines(text))}


def edited(text: str, changes: Mapping[str, str | None]) -> str:
    """Return ``text`` with ``changes``: name -> value, None to leave the name out. Comments and the rest stay.

    A name that is new is written at the end. What is no ASCII is escaped, so that the encoding does not matter.
    """
    lines = _lines(text)
    left = dict(changes)
    made: list[str] = []
    at = 0
    for first, end, name, _ in _entries(lines):
        if name not in changes:
            continue
        made += lines[at:first]
        at = end
        value = left.pop(name, None)
        if value is not None:
            made.append(f"{_escaped(name, name=True)} = {_escaped(value)}")
    made += lines[at:]
    while made and not made[-1]:
        made.pop()
    made += [f"{_escaped(name, name=True)} = {_escaped(value)}" for name, value in left.items() if value is not None]
    return "\n".join(made) + "\n" if made else ""


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _entries(lines: list[str]) -> Iterator[tuple[int, int, str, str]]:
    """Return each entry: its first line, the line behind it, name and value."""
    at = 0
    while at < len(lines):
        first = at
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
        yield first, at, _plain(name), _plain(value)


def _escaped(text: str, *, name: bool = False) -> str:
    """Return ``text`` as `parse` reads it back: of a value its first blanks are escaped, of a name all that ends it."""
    found: list[str] = []
    for at, letter in enumerate(text):
        if letter in _WRITTEN:
            found.append("\\" + _WRITTEN[letter])
        elif letter == "\\" or (name and letter in "=: #!") or (letter == " " and at == 0):
            found.append("\\" + letter)
        elif not " " <= letter <= "~":
            octets = letter.encode("utf-16-be", "surrogatepass")
            found += [f"\\u{octets[one : one + 2].hex()}" for one in range(0, len(octets), 2)]
        else:
            found.append(letter)
    return "".join(found)


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
    found = "".join(parts)  # a letter beyond 16 bits is written as two
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
