"""Values that know their Java type: what tells a short from a long where Python has one kind of number. [C]

The kinds are the tags of OpenWire's primitive values, which are those of JMS (MapMessage, chapter 3.11.3).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

NULL: Final = 0
BOOLEAN: Final = 1
BYTE: Final = 2
CHAR: Final = 3
SHORT: Final = 4
INT: Final = 5
LONG: Final = 6
DOUBLE: Final = 7
FLOAT: Final = 8
TEXT: Final = 9
OCTETS: Final = 10
MAP: Final = 11
LIST: Final = 12
LONG_TEXT: Final = 13


class Primitive:
    """A value together with its tag, for whoever must keep a short apart from a long."""

    def __init__(self, tag: i64, value: object) -> None:
        self.tag = tag
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Primitive) and self.tag == other.tag and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.tag, self.value))

    def __repr__(self) -> str:
        return f"Primitive({self.tag}, {self.value!r})"


def plain(value: object) -> object:
    """Return ``value`` without the tags in it, at any depth."""
    if isinstance(value, Primitive):
        return plain(value.value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value
