"""The patterns of LIKE. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

_ONE: Final[i64] = -1
_ANY: Final[i64] = -2


class LikePattern:
    """``%`` stands for any run of characters, ``_`` for one; ``escape`` takes the meaning from either, or from itself.

    Before any other character the escape stands for itself, as in both families. Time is at most the product of the
    lengths: only the last ``%`` is ever reconsidered.
    """

    def __init__(self, pattern: str, escape: str) -> None:
        codes: list[int] = []
        at = 0
        while at < len(pattern):
            char = pattern[at]
            if escape and char == escape and pattern[at + 1 : at + 2] in ("%", "_", escape):
                at += 1
                codes.append(ord(pattern[at]))
            elif char == "%":
                if not codes or codes[-1] != _ANY:
                    codes.append(_ANY)
            else:
                codes.append(_ONE if char == "_" else ord(char))
            at += 1
        runs = [code for code in codes if code < 0]
        self._codes: Final = codes
        self._simple: Final = runs == [_ANY] * len(runs) and len(runs) <= 2
        self._open_left: Final = bool(codes) and codes[0] == _ANY
        self._open_right: Final = bool(codes) and codes[-1] == _ANY
        self._text: Final = "".join(chr(code) for code in codes if code >= 0)
        self._middle: Final = len(runs) > int(self._open_left) + int(self._open_right and len(codes) > 1)

    def covers(self, text: str) -> bool:
        """Whether the whole text fits the pattern."""
        if self._simple and not self._middle:
            if self._open_left:
                return self._text in text if self._open_right else text.endswith(self._text)
            return text.startswith(self._text) if self._open_right else text == self._text
        return self._walks(text)

    def _walks(self, text: str) -> bool:
        codes = self._codes
        size: i64 = len(text)
        count: i64 = len(codes)
        at: i64 = 0
        part: i64 = 0
        resume_part: i64 = -1
        resume_at: i64 = 0
        while at < size:
            code: i64 = codes[part] if part < count else -3
            if code == _ANY:
                part += 1
                resume_part = part
                resume_at = at
            elif code == _ONE or (code >= 0 and ord(text[at]) == code):
                part += 1
                at += 1
            elif resume_part >= 0:
                resume_at += 1
                at = resume_at
                part = resume_part
            else:
                return False
        while part < count and codes[part] == _ANY:
            part += 1
        return part == count
