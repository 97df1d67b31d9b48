"""What is in frames beside structures: exceptions of Java, first encodings of messages; and what bounds a frame. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64

DEPTH_MAX: Final = 32
"""Structures and causes inside one another. An advisory about a message in a dispatch needs 6; causes seldom 10."""
ELEMENTS_MAX: Final = 131_072
"""Structures, array elements and stack lines in one frame: four times what an int16 can count. The smallest structure
takes two octets of a tight frame and about a hundred of memory, so the size of the frame alone would not bound it."""
TIGHT_TEXT_OCTETS_MAX: Final = 32_766
"""Java refuses 32767 octets of text in a tight frame."""
ARRAY_COUNT_MAX: Final = 32_767
BITS_OCTETS_MAX: Final = 32_767
"""Java counts elements and the octets of the bits in a short."""
CACHE_SIZE_MIN: Final = 16
"""Below this a sender does not use its cache: a cached value may hold another cached one, and both must fit."""
THROWABLE_TEXT_MAX_V1: Final = 1024
"""Version 1 cuts the message of a throwable after so many characters."""
THROWABLE_TEXT_MAX: Final = 5461
"""Every version is cut here: six octets a character at worst, so that an error can always be told."""
MAGIC: Final = b"ActiveMQ"


class Incomplete(Exception):
    """A frame without size prefix goes on in octets that have not arrived: no error; stays in the decoder."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position


class StackLine:
    """One line of a Java stack trace."""

    def __init__(self, class_name: str | None, method: str | None, file: str | None, line: i32) -> None:
        self.class_name = class_name
        self.method = method
        self.file = file
        self.line = line

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StackLine)
            and self.class_name == other.class_name
            and self.method == other.method
            and self.file == other.file
            and self.line == other.line
        )

    def __hash__(self) -> int:
        return hash((self.class_name, self.method, self.file, self.line))


class Throwable:
    """A Java exception as a value: its class is text and is never looked up or created."""

    def __init__(
        self,
        class_name: str | None,
        message: str | None,
        stack: list[StackLine] | None = None,
        cause: Throwable | None = None,
    ) -> None:
        self.class_name = class_name
        self.message = message
        self.stack: list[StackLine] = [] if stack is None else stack
        self.cause = cause

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Throwable)
            and self.class_name == other.class_name
            and self.message == other.message
            and self.stack == other.stack
            and self.cause == other.cause
        )

    def __hash__(self) -> int:
        return hash((self.class_name, self.message, self.cause))

    def told(self, version: i64) -> str | None:
        """Return the message as far as ``version`` of the protocol carries it."""
        message = self.message
        if message is None or len(message) <= THROWABLE_TEXT_MAX_V1:
            return message
        return message[: THROWABLE_TEXT_MAX_V1 if version == 1 else THROWABLE_TEXT_MAX]

    def __repr__(self) -> str:
        return f"Throwable({self.class_name!r}, {self.message!r})"


class FirstEncoding:
    """The octets in which a message arrived, from its type octet to its end, self-contained (loose, no cache).

    ``layout`` is the `schema.message_layout` they follow. The marks are the offsets just behind the sequence that the
    broker gives (8 octets) and behind broker-in and broker-out time (8 octets each); ``times_mark`` 0: no times.
    """

    def __init__(self, octets: bytes, layout: i64, sequence_mark: i64, times_mark: i64) -> None:
        self.octets = octets
        self.layout = layout
        self.sequence_mark = sequence_mark
        self.times_mark = times_mark
