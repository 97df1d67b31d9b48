"""Regular expressions of selectors: Java's way to search, split and replace, on Python's engine.

Decides which expressions a broker may run for a stranger, and on how long a text. Python's engine backtracks, as Java's
does. A repetition of something that itself repeats or branches can take exponential time: such expressions are refused.
The rest is polynomial: a search tries every place to start, times every length of every unbounded repetition, times
every way through optional parts and alternatives. `STEPS_MAX` bounds that product, so each expression has a longest
text (`Expression.characters_max`); a selector finds the result unknown for a longer one.

Classes (``\\d \\w \\s``) mean ASCII, as in Java. What Java has and Python has not (``\\p{...}``, ``\\Q...\\E``, class
intersection) is refused or, for ``&&`` inside a class, read as two ampersands.
"""

from __future__ import annotations

import math
import re
import warnings
from typing import Final

from entrepot.base.errors import InvalidSelector

PATTERN_CHARACTERS_MAX: Final = 1024
STEPS_MAX: Final = 10_000_000  # about a tenth of a second of CPython's engine, for the worst text there is
TEXT_CHARACTERS_MIN: Final = 32  # an expression that may not even be asked about that many is refused

_COUNTED: Final = re.compile(r"\{([0-9]*)(,([0-9]*))?\}")
_HIDES_A_QUANTIFIER: Final = re.compile(r"\?(?:\#|[a-zA-Z]*-?[a-zA-Z]*x[a-zA-Z-]*[:)])")
_ENDLESS: Final = 1_000_000  # how often a quantifier without upper bound repeats
_ENDLESS_PARTS_MAX: Final = 8  # beyond, the factorial of the estimate would outgrow its use


class Expression:
    """A compiled expression and the longest text that it may be asked about."""

    def __init__(self, pattern: re.Pattern[str], characters_max: int) -> None:
        self.pattern: Final = pattern
        self.characters_max: Final = characters_max

    def admits(self, text: str) -> bool:
        """Whether the text is short enough for the cost of the expression."""
        return len(text) <= self.characters_max


def compile_regex(pattern: str) -> Expression:
    """The compiled expression. Raises InvalidSelector for one that is wrong, too long or too costly."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidSelector(f"selector: a regular expression is limited to {PATTERN_CHARACTERS_MAX} characters")
    ways, endless = _cost(pattern)
    degree = endless + 1
    longest = int((STEPS_MAX * math.factorial(degree) / ways) ** (1 / degree)) if ways <= STEPS_MAX else 0
    if endless > _ENDLESS_PARTS_MAX or longest < TEXT_CHARACTERS_MIN:
        raise InvalidSelector("selector: a regular expression with so many repetitions and branches costs too much")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Expression(re.compile(pattern, re.ASCII), longest)
    except (re.error, ValueError, OverflowError, RecursionError) as wrong:
        raise InvalidSelector(f"selector: regular expression {pattern[:60]!r}: {wrong}") from wrong


def split_java(pattern: re.Pattern[str], source: str, limit: int) -> list[str]:
    """The pieces between matches. ``limit`` > 0: at most so many pieces; 0: without empty ones at the end; < 0: all."""
    pieces: list[str] = []
    start = 0
    for match in pattern.finditer(source):
        if limit > 0 and len(pieces) == limit - 1:
            break
        if match.end() == 0 or (match.start() == match.end() == len(source)):
            continue  # an empty match at either end separates nothing
        pieces.append(source[start : match.start()])
        start = match.end()
    pieces.append(source[start:])
    if limit == 0:
        while len(pieces) > 1 and not pieces[-1]:
            pieces.pop()
    return pieces


class Template:
    """A replacement text: ``$1`` is a group of the match, a backslash takes the meaning from what follows."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self.parts: list[str | int] = []
        at = 0
        while at < len(text):
            char = text[at]
            at += 1
            if char == "\\":
                if at == len(text):
                    raise InvalidSelector("selector: a replacement ends with a lone backslash")
                self.parts.append(text[at])
                at += 1
            elif char == "$":
                at = self._group(text, at, pattern)
            else:
                self.parts.append(char)

    def _group(self, text: str, at: int, pattern: re.Pattern[str]) -> int:
        """Read a group number: as many digits as still name a group of the pattern."""
        end = at
        while end < len(text) and text[end] in "0123456789" and int(text[at : end + 1]) <= pattern.groups:
            end += 1
        if end == at:
            raise InvalidSelector("selector: $ in a replacement must be followed by the number of a group")
        self.parts.append(int(text[at:end]))
        return end

    def fill(self, match: re.Match[str]) -> str:
        """The replacement for one match; a group that took no part is empty."""
        return "".join(part if isinstance(part, str) else match.group(part) or "" for part in self.parts)


def replaced(pattern: re.Pattern[str], template: Template, source: str) -> str:
    """The source with every match replaced."""
    return pattern.sub(template.fill, source)


class _Cost:
    """In how many ways the optional parts and alternatives of an expression can be taken, and how many parts repeat.

    Read from left to right, item by item: `take` is called until all is read. Raises InvalidSelector for a repeated
    group that repeats or branches inside, and for a back-reference.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern: Final = pattern
        self.ways = 1
        self.endless = 0  # parts that repeat without bound
        self.restless = [False]  # for each open group: does something in it repeat or branch?
        self.branches = [1]  # for each open group: its alternatives
        self.closed = False  # whether the item before this place is a group that repeats or branches

    def take(self, at: int) -> int:
        """Take the item that begins at ``at``; return where the next one does."""
        char = self.pattern[at]
        at += 1
        closed = self.closed
        self.closed = False
        if char == "\\":
            if self.pattern[at : at + 1] in tuple("123456789"):
                raise InvalidSelector("selector: back-references are not supported in regular expressions")
            return at + 1
        if char == "[":
            return _class_end(self.pattern, at)
        if char == "(":
            return self._open(at)
        if char == ")":
            self._close()
        elif char == "|":
            self.restless[-1] = True
            self.branches[-1] += 1
        elif char in "*+?{":
            return self._repeat(char, at, closed)
        return at

    def _open(self, at: int) -> int:
        """A group begins before ``at``."""
        if self.pattern.startswith(("?P=", "?("), at):
            raise InvalidSelector("selector: back-references are not supported in regular expressions")
        if _HIDES_A_QUANTIFIER.match(self.pattern, at):
            raise InvalidSelector("selector: comments and the flag x are not supported in regular expressions")
        self.restless.append(False)
        self.branches.append(1)
        return at + 1 if self.pattern.startswith("?", at) else at  # the sign of a special group, not a quantifier

    def _close(self) -> None:
        """The innermost group ends; one too many is left for the engine to refuse."""
        self.closed = self.restless.pop() if len(self.restless) > 1 else False
        self.restless[-1] = self.restless[-1] or self.closed
        self.ways *= self.branches.pop() if len(self.branches) > 1 else 1

    def _repeat(self, char: str, at: int, closed: bool) -> int:
        """A quantifier begins with ``char`` before ``at``. ``closed``: it is one of a group that is restless."""
        counted = _COUNTED.match(self.pattern, at - 1) if char == "{" else None
        if char == "{" and (counted is None or counted.group() == "{}"):
            return at
        at = counted.end() if counted else at
        least, most = _bounds(char, counted)
        if closed and most > 1:
            raise InvalidSelector(
                "selector: a regular expression may not repeat a group that repeats or branches inside"
            )
        if most == _ENDLESS != least:
            self.endless += 1
        else:
            self.ways *= max(1, most - least + 1)
        self.restless[-1] = self.restless[-1] or most > 1 or char == "?"
        return at + 1 if self.pattern[at : at + 1] in ("?", "+") else at  # lazy or possessive


def _cost(pattern: str) -> tuple[int, int]:
    """Return the ways through ``pattern``, and how many of its parts repeat without bound. Raises InvalidSelector."""
    cost = _Cost(pattern)
    at = 0
    while at < len(pattern):
        at = cost.take(at)
    return cost.ways * cost.branches[0], cost.endless


def _class_end(pattern: str, at: int) -> int:
    """Where a character class ends that was opened just before ``at``."""
    at += 1 if pattern.startswith("^", at) else 0
    at += 1 if pattern.startswith("]", at) else 0
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _bounds(char: str, counted: re.Match[str] | None) -> tuple[int, int]:
    """How often a quantifier repeats, at least and at most."""
    if counted is None:
        return (1 if char == "+" else 0), (1 if char == "?" else _ENDLESS)
    least = min(int(counted.group(1) or 0), _ENDLESS)
    if counted.group(2) is None:
        return least, least
    return least, min(int(counted.group(3) or _ENDLESS), _ENDLESS)
