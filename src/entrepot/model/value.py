"""What properties hold, and how selectors compare and reckon with it: the types decide. [C]

- Unlike types in a comparison: no, for ``<>`` too (JMS 3.8.1.2). When strings may stand for numbers, one that reads as
  a number stands for it, and one that is ``true`` in any case for TRUE; otherwise the rule is the same.
- Integers have the 64 bits of a Java long: they wrap, division truncates towards zero, a remainder has the sign of the
  dividend, and division by zero is NULL. The width of a property is not kept, so nothing wraps at 32 bits. A double
  on either side makes both doubles, with infinities and NaN as in IEEE 754.
- Octets are like nothing, not even themselves.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

from mypy_extensions import i64

Value: TypeAlias = str | int | float | bool | bytes | None
"""What a property or pseudo-property may hold; None: it is not set."""

NO: Final[i64] = 0
YES: Final[i64] = 1
UNKNOWN: Final[i64] = -1

_LONG_SPAN: Final = 1 << 64
_LONG_HALF: Final = 1 << 63

EQ: Final[i64] = 0
NE: Final[i64] = 1
LT: Final[i64] = 2
LE: Final[i64] = 3
GT: Final[i64] = 4
GE: Final[i64] = 5
COMPARISONS: Final[dict[str, int]] = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}

_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]{1,6})?")
_NUMBER_CHARACTERS_MAX: Final = 400  # the longest exact decimal of a double has 309 digits before its point


def wrapped(value: int) -> int:
    """The low 64 bits, signed: what a Java long would hold."""
    if -_LONG_HALF <= value < _LONG_HALF:
        return value
    return (value + _LONG_HALF) % _LONG_SPAN - _LONG_HALF


def as_double(value: int) -> float:
    """What a Java long becomes beside a double; a subject may hold a larger integer than a long."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number_in(text: str) -> Value:
    """The number that a string spells, None if it spells none."""
    if len(text) > _NUMBER_CHARACTERS_MAX:
        return None
    if _INTEGER_TEXT.fullmatch(text):
        whole = int(text)
        return whole if -_LONG_HALF <= whole < _LONG_HALF else float(whole)
    return float(text) if _DECIMAL_TEXT.fullmatch(text) else None


def java_text(value: Value) -> str | None:
    """How Java writes the value; None for NULL and for octets."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, bytes):
        return None
    return str(value)


def _ordered(op: i64, below: bool, equal: bool, above: bool) -> i64:
    """The verdict of an operator, given how left stands to right. All three are False beside NaN."""
    if op == EQ:
        holds = equal
    elif op == NE:
        holds = not equal
    elif op == LT:
        holds = below
    elif op == LE:
        holds = below or equal
    elif op == GT:
        holds = above
    else:
        holds = above or equal
    return YES if holds else NO


def _compare_text(op: i64, left: str, right: str) -> i64:
    if op == EQ:
        return YES if left == right else NO
    if op == NE:
        return YES if left != right else NO
    return _ordered(op, left < right, left == right, left > right)


def compare_exact(op: i64, left: int, right: int) -> i64:
    """The verdict on two integers."""
    if op == EQ:
        return YES if left == right else NO
    if op == NE:
        return YES if left != right else NO
    if op == LT:
        return YES if left < right else NO
    if op == LE:
        return YES if left <= right else NO
    if op == GT:
        return YES if left > right else NO
    return YES if left >= right else NO


def _compare_approximate(op: i64, left: float, right: float) -> i64:
    return _ordered(op, left < right, left == right, left > right)


def _compare_truth(op: i64, left: Value, right: Value) -> i64:
    """The verdict where one of the two is a boolean: it is like no other thing."""
    if isinstance(left, bool) and isinstance(right, bool):
        return _ordered(op, not left and right, left == right, left and not right)
    return NO


def compare(op: i64, left: Value, right: Value, convert: bool) -> i64:
    """One of the six comparisons between any two values."""
    if left is None or right is None:
        return UNKNOWN
    if isinstance(left, str):
        if isinstance(right, str):
            return _compare_text(op, left, right)
        return compare(op, _like(left, right), right, False) if convert and not isinstance(right, bytes) else NO
    if isinstance(right, str):
        return compare(op, left, _like(right, left), False) if convert and not isinstance(left, bytes) else NO
    if isinstance(left, bool) or isinstance(right, bool):
        return _compare_truth(op, left, right)
    if isinstance(left, bytes) or isinstance(right, bytes):
        return NO
    if isinstance(left, float):
        return _compare_approximate(op, left, right if isinstance(right, float) else as_double(right))
    if isinstance(right, float):
        return _compare_approximate(op, as_double(left), right)
    return compare_exact(op, left, right)


def _like(text: str, other: Value) -> Value:
    """A string made comparable with a number or a truth value; unchanged, and so unlike, if it spells none."""
    if isinstance(other, bool):
        return text.lower() == "true"
    number = number_in(text)
    return text if number is None else number


def exact(sign: i64, left: int, right: int) -> Value:
    """Arithmetic on integers; ``sign`` is an index into ``+-*/%``."""
    if sign == 0:
        return wrapped(left + right)
    if sign == 1:
        return wrapped(left - right)
    if sign == 2:
        return wrapped(left * right)
    if right == 0:
        return None
    if sign == 3:
        quotient = abs(left) // abs(right)
        return wrapped(quotient if (left < 0) == (right < 0) else -quotient)
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def approximate(sign: i64, left: float, right: float) -> Value:
    """Arithmetic on doubles, which never fails; ``sign`` is an index into ``+-*/%``."""
    if sign == 0:
        return left + right
    if sign == 1:
        return left - right
    if sign == 2:
        return left * right
    if sign == 3:
        if right != 0.0:
            return left / right
        if left == 0.0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    if right == 0.0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)
