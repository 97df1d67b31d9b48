"""Where something of a configuration was said: beside what it says, for who wants to know why a broker is as it is.

Two configurations that say the same are equal wherever they say it: a comment that moves a line is no change, and a
running broker does not follow one. So a `Spot` is equal to every other.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

FILE: Final = "file"
OPTION: Final = "option"  # of the command line
ENVIRONMENT: Final = "environment"
DEFAULT: Final = "default"
PROGRAM: Final = "program"  # that embeds the broker


class Spot:
    """A place in a file. ``file`` "": nobody wrote it down; ``line`` 0: the file as a whole."""

    __slots__ = ("file", "line")

    def __init__(self, file: str = "", line: int = 0) -> None:
        self.file = file
        self.line = line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spot)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        """Return nothing that differs: representations of equal configurations are equal."""
        return "Spot()"

    def fields(self) -> dict[str, object]:
        """Return it as a part of a row."""
        return {"file": self.file, "line": self.line}


NOWHERE: Final = Spot()


class Said(Struct, frozen=True, gc=False):
    """One setting that is obeyed. ``place`` and ``name``: what it is, the same on every broker that has it.

    ``value``: as it was written, secrets hidden; ``means``: the same in one notation, "" where it is one already: 1 kb
    and 1024 are equal. ``source``: one of the words above; ``over``: what it goes before.
    """

    place: str
    name: str
    value: str
    means: str = ""
    source: str = FILE
    file: str = ""
    line: int = 0
    over: str = ""

    @property
    def setting(self) -> str:
        """Return the whole name."""
        return f"{self.place}/{self.name}" if self.place and self.name else self.place or self.name
