"""A selector at work: the tree of `selector`, compiled into native nodes that give a verdict on a message. [C]

Verdicts have three values, as SQL-92 and JMS 3.8.1.2 want: an absent property makes a test unknown, NOT unknown is
unknown, and only a plain yes matches. What the types of the operands decide:

- Unlike types in a comparison: no, for ``<>`` too (JMS 3.8.1.2). Under ``convert_string_expressions:`` a string that
  reads as a number stands for it, and one that is ``true`` in any case for TRUE; otherwise the rule is the same.
- Integers have the 64 bits of a Java long: they wrap, division truncates towards zero, a remainder has the sign of the
  dividend, and division by zero is unknown. The width of a property is not kept, so nothing wraps at 32 bits. A double
  on either side makes both doubles, with infinities and NaN as in IEEE 754.
- Arithmetic on what is not a number, LIKE and IN on what is not a string: unknown.
- A property alone is a condition: yes if it is TRUE, no for any other value.

Nothing here raises for what a message holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import InvalidSelector
from entrepot.model.regex import Template, compile_regex, replaced, split_java
from entrepot.model.selector import (
    Among,
    Between,
    Binary,
    Call,
    Identifier,
    IsNull,
    Junction,
    Like,
    Literal,
    Node,
    Unary,
    XPath,
    parse_selector,
)
from entrepot.model.xpath import compile_path

Value: TypeAlias = str | int | float | bool | bytes | None
"""What a property or pseudo-property may hold; None: it is not set."""

BODY_FACT: Final = "JMSXBody"
"""The name under which XPATH asks a subject for its body: str of a text, bytes of a bytes message, None of others."""

CACHE_SIZE: Final = 256  # the reference keeps 100; a selector a consumer group is the common shape

NO: Final[i64] = 0
YES: Final[i64] = 1
UNKNOWN: Final[i64] = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Facts:
    """What a selector may ask about. A message is one."""

    def fact(self, name: str) -> Value:
        """The value of a property or a pseudo-property (`JMSPriority`, `AMQDurable`, `BODY_FACT`), None if not set."""
        raise NotImplementedError


class Term:
    """A node that has a value."""

    def evaluate(self, subject: Facts) -> Value:
        """The value for this subject; None is SQL's NULL."""
        raise NotImplementedError


class Test(Term):
    """A node that has a verdict."""

    __test__ = False  # not a test class for pytest

    def verdict(self, subject: Facts) -> i64:
        """YES, NO or UNKNOWN."""
        raise NotImplementedError

    def evaluate(self, subject: Facts) -> Value:
        """The verdict as a value."""
        answer = self.verdict(subject)
        return None if answer == UNKNOWN else answer == YES


class Predicate:
    """A compiled selector. Immutable; one may serve any number of consumers.

    ``text`` is the normal form of the source: two selectors with the same text give the same verdicts. ``names`` are
    the identifiers that it reads, each once, in their order; `BODY_FACT` among them if it asks the body.
    """

    def __init__(self, text: str, names: tuple[str, ...], root: Test) -> None:
        self.text: Final = text
        self.names: Final = names
        self._root: Final = root

    def matches(self, subject: Facts) -> bool:
        """Whether the subject satisfies the selector; False when that is unknown."""
        return self._root.verdict(subject) == YES


@lru_cache(maxsize=CACHE_SIZE)
def compile_selector(text: str) -> Predicate:
    """The predicate of a selector, from the cache if the same text came lately.

    Raises InvalidSelector for a text outside the grammar, a blank one, one beyond the limits named in `selector`, a
    regular expression or path that cannot be compiled, and for XPATH when lxml is not installed.
    """
    selector = parse_selector(text)
    builder = _Builder(selector.convert)
    root = builder.test(selector.tree)
    return Predicate(selector.text, tuple(builder.names), root)


# --- values -----------------------------------------------------------------------------------------------------------

_LONG_SPAN: Final = 1 << 64
_LONG_HALF: Final = 1 << 63

_EQ: Final[i64] = 0
_NE: Final[i64] = 1
_LT: Final[i64] = 2
_LE: Final[i64] = 3
_GT: Final[i64] = 4
_GE: Final[i64] = 5
_COMPARISONS: Final[dict[str, int]] = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}

_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]{1,6})?")
_NUMBER_CHARACTERS_MAX: Final = 400  # the longest exact decimal of a double has 309 digits before its point


def _wrapped(value: int) -> int:
    """The low 64 bits, signed: what a Java long would hold."""
    if -_LONG_HALF <= value < _LONG_HALF:
        return value
    return (value + _LONG_HALF) % _LONG_SPAN - _LONG_HALF


def _as_double(value: int) -> float:
    """What a Java long becomes beside a double; a subject may hold a larger integer than a long."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number_in(text: str) -> Value:
    """The number that a string spells, None if it spells none."""
    if len(text) > _NUMBER_CHARACTERS_MAX:
        return None
    if _INTEGER_TEXT.fullmatch(text):
        exact = int(text)
        return exact if -_LONG_HALF <= exact < _LONG_HALF else float(exact)
    return float(text) if _DECIMAL_TEXT.fullmatch(text) else None


def _java_text(value: Value) -> str | None:
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
    if op == _EQ:
        holds = equal
    elif op == _NE:
        holds = not equal
    elif op == _LT:
        holds = below
    elif op == _LE:
        holds = below or equal
    elif op == _GT:
        holds = above
    else:
        holds = above or equal
    return YES if holds else NO


def _compare_text(op: i64, left: str, right: str) -> i64:
    if op == _EQ:
        return YES if left == right else NO
    if op == _NE:
        return YES if left != right else NO
    return _ordered(op, left < right, left == right, left > right)


def _compare_exact(op: i64, left: int, right: int) -> i64:
    if op == _EQ:
        return YES if left == right else NO
    if op == _NE:
        return YES if left != right else NO
    if op == _LT:
        return YES if left < right else NO
    if op == _LE:
        return YES if left <= right else NO
    if op == _GT:
        return YES if left > right else NO
    return YES if left >= right else NO


def _compare_approximate(op: i64, left: float, right: float) -> i64:
    return _ordered(op, left < right, left == right, left > right)


def _compare(op: i64, left: Value, right: Value, convert: bool) -> i64:
    """One of the six comparisons between any two values."""
    if left is None or right is None:
        return UNKNOWN
    if isinstance(left, str):
        if isinstance(right, str):
            return _compare_text(op, left, right)
        return _compare(op, _like(left, right), right, False) if convert and not isinstance(right, bytes) else NO
    if isinstance(right, str):
        return _compare(op, left, _like(right, left), False) if convert and not isinstance(left, bytes) else NO
    if isinstance(left, bool) or isinstance(right, bool):
        if isinstance(left, bool) and isinstance(right, bool):
            return _ordered(op, not left and right, left == right, left and not right)
        return NO
    if isinstance(left, bytes) or isinstance(right, bytes):
        return NO
    if isinstance(left, float):
        return _compare_approximate(op, left, right if isinstance(right, float) else _as_double(right))
    if isinstance(right, float):
        return _compare_approximate(op, _as_double(left), right)
    return _compare_exact(op, left, right)


def _like(text: str, other: Value) -> Value:
    """A string made comparable with a number or a truth value; unchanged, and so unlike, if it spells none."""
    if isinstance(other, bool):
        return text.lower() == "true"
    number = _number_in(text)
    return text if number is None else number


# --- terms ------------------------------------------------------------------------------------------------------------


class _Constant(Term):
    def __init__(self, value: Value) -> None:
        self.value: Final = value

    def evaluate(self, subject: Facts) -> Value:
        return self.value


class _Property(Term):
    def __init__(self, name: str) -> None:
        self.name: Final = name

    def evaluate(self, subject: Facts) -> Value:
        return subject.fact(self.name)


class _Number(Term):
    """What arithmetic stands on: a term narrowed to int, float or None."""

    def __init__(self, term: Term, convert: bool) -> None:
        self.term: Final = term
        self.convert: Final = convert

    def evaluate(self, subject: Facts) -> Value:
        value = self.term.evaluate(subject)
        if isinstance(value, str):
            return _number_in(value) if self.convert else None
        if isinstance(value, bool | bytes):
            return None
        return value


class _Negation(Term):
    def __init__(self, operand: Term) -> None:
        self.operand: Final = operand

    def evaluate(self, subject: Facts) -> Value:
        value = self.operand.evaluate(subject)
        if isinstance(value, float):
            return -value
        if isinstance(value, int):
            return _wrapped(-value)
        return None


class _Arithmetic(Term):
    """``sign`` is one of ``+ - * / %``; both operands are numbers or NULL."""

    def __init__(self, sign: str, left: Term, right: Term) -> None:
        self.sign: Final[i64] = "+-*/%".index(sign)
        self.left: Final = left
        self.right: Final = right

    def evaluate(self, subject: Facts) -> Value:
        left = self.left.evaluate(subject)
        right = self.right.evaluate(subject)
        if isinstance(left, int):
            if isinstance(right, int):
                return _exact(self.sign, left, right)
            return _approximate(self.sign, _as_double(left), right) if isinstance(right, float) else None
        if isinstance(left, float):
            if isinstance(right, int):
                return _approximate(self.sign, left, _as_double(right))
            return _approximate(self.sign, left, right) if isinstance(right, float) else None
        return None


def _exact(sign: i64, left: int, right: int) -> Value:
    if sign == 0:
        return _wrapped(left + right)
    if sign == 1:
        return _wrapped(left - right)
    if sign == 2:
        return _wrapped(left * right)
    if right == 0:
        return None
    if sign == 3:
        quotient = abs(left) // abs(right)
        return _wrapped(quotient if (left < 0) == (right < 0) else -quotient)
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _approximate(sign: i64, left: float, right: float) -> Value:
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


class _Replace(Term):
    def __init__(self, source: Term, pattern: re.Pattern[str], template: Template) -> None:
        self.source: Final = source
        self.pattern: Final = pattern
        self.template: Final = template

    def evaluate(self, subject: Facts) -> Value:
        source = self.source.evaluate(subject)
        return replaced(self.pattern, self.template, source) if isinstance(source, str) else None


class _Items:
    """A list, which only INLIST may ask."""

    def items(self, subject: Facts) -> list[Value] | None:
        """The members for this subject, None if the list is NULL."""
        raise NotImplementedError


class _MadeItems(_Items):
    def __init__(self, members: list[Term]) -> None:
        self.members: Final = members

    def items(self, subject: Facts) -> list[Value] | None:
        return [member.evaluate(subject) for member in self.members]


class _SplitItems(_Items):
    def __init__(self, source: Term, pattern: re.Pattern[str], limit: int) -> None:
        self.source: Final = source
        self.pattern: Final = pattern
        self.limit: Final = limit

    def items(self, subject: Facts) -> list[Value] | None:
        source = self.source.evaluate(subject)
        if not isinstance(source, str):
            return None
        found: list[Value] = []
        found.extend(split_java(self.pattern, source, self.limit))
        return found


# --- tests ------------------------------------------------------------------------------------------------------------


class _ConstantTest(Test):
    def __init__(self, answer: i64) -> None:
        self.answer: Final[i64] = answer

    def verdict(self, subject: Facts) -> i64:
        return self.answer


class _PropertyTest(Test):
    """A property that stands alone where a condition is wanted."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def verdict(self, subject: Facts) -> i64:
        value = subject.fact(self.name)
        if value is None:
            return UNKNOWN
        return YES if isinstance(value, bool) and value else NO


class _TextEquals(Test):
    """``name = 'text'`` or ``name <> 'text'`` without conversion: the commonest shape, one node instead of three."""

    def __init__(self, name: str, text: str, negated: bool) -> None:
        self.name: Final = name
        self.text: Final = text
        self.negated: Final = negated

    def verdict(self, subject: Facts) -> i64:
        value = subject.fact(self.name)
        if isinstance(value, str):
            return YES if (value == self.text) != self.negated else NO
        return UNKNOWN if value is None else NO


class _IntegerCompares(Test):
    """A property against an integer literal: the other common shape. What is not an integer takes the general way."""

    def __init__(self, op: i64, name: str, number: int, convert: bool) -> None:
        self.op: Final[i64] = op
        self.name: Final = name
        self.number: Final = number
        self.convert: Final = convert

    def verdict(self, subject: Facts) -> i64:
        value = subject.fact(self.name)
        if isinstance(value, int) and not isinstance(value, bool):
            return _compare_exact(self.op, value, self.number)
        return _compare(self.op, value, self.number, self.convert)


class _Compares(Test):
    def __init__(self, op: i64, left: Term, right: Term, convert: bool) -> None:
        self.op: Final[i64] = op
        self.left: Final = left
        self.right: Final = right
        self.convert: Final = convert

    def verdict(self, subject: Facts) -> i64:
        left = self.left.evaluate(subject)
        if left is None:
            return UNKNOWN
        return _compare(self.op, left, self.right.evaluate(subject), self.convert)


class _IsBetween(Test):
    """``v >= low AND v <= high``; negated ``v < low OR v > high``, which is not its opposite for unlike types."""

    def __init__(self, operand: Term, low: Term, high: Term, negated: bool, convert: bool) -> None:
        self.operand: Final = operand
        self.low: Final = low
        self.high: Final = high
        self.negated: Final = negated
        self.convert: Final = convert

    def verdict(self, subject: Facts) -> i64:
        value = self.operand.evaluate(subject)
        decisive = YES if self.negated else NO
        first = _compare(_LT if self.negated else _GE, value, self.low.evaluate(subject), self.convert)
        if first == decisive:
            return first
        second = _compare(_GT if self.negated else _LE, value, self.high.evaluate(subject), self.convert)
        if second == decisive:
            return second
        if first == UNKNOWN:
            return UNKNOWN
        return second  # NO for the negated form, YES for the other: what `first` is too, or it is unknown


class _And(Test):
    def __init__(self, terms: list[Test]) -> None:
        self.terms: Final = terms

    def verdict(self, subject: Facts) -> i64:
        answer = YES
        for term in self.terms:
            one = term.verdict(subject)
            if one == NO:
                return NO
            if one == UNKNOWN:
                answer = UNKNOWN
        return answer


class _Or(Test):
    def __init__(self, terms: list[Test]) -> None:
        self.terms: Final = terms

    def verdict(self, subject: Facts) -> i64:
        answer = NO
        for term in self.terms:
            one = term.verdict(subject)
            if one == YES:
                return YES
            if one == UNKNOWN:
                answer = UNKNOWN
        return answer


class _Not(Test):
    def __init__(self, operand: Test) -> None:
        self.operand: Final = operand

    def verdict(self, subject: Facts) -> i64:
        answer = self.operand.verdict(subject)
        return answer if answer == UNKNOWN else YES - answer


class _Null(Test):
    def __init__(self, operand: Term, negated: bool) -> None:
        self.operand: Final = operand
        self.negated: Final = negated

    def verdict(self, subject: Facts) -> i64:
        return YES if (self.operand.evaluate(subject) is None) != self.negated else NO


class _In(Test):
    def __init__(self, name: str, choices: dict[str, None], negated: bool) -> None:
        self.name: Final = name
        self.choices: Final = choices
        self.negated: Final = negated

    def verdict(self, subject: Facts) -> i64:
        value = subject.fact(self.name)
        if not isinstance(value, str):
            return UNKNOWN
        return YES if (value in self.choices) != self.negated else NO


class _Matches(Test):
    def __init__(self, operand: Term, pattern: LikePattern, negated: bool) -> None:
        self.operand: Final = operand
        self.pattern: Final = pattern
        self.negated: Final = negated

    def verdict(self, subject: Facts) -> i64:
        value = self.operand.evaluate(subject)
        if not isinstance(value, str):
            return UNKNOWN
        return YES if self.pattern.covers(value) != self.negated else NO


class _Regex(Test):
    def __init__(self, pattern: re.Pattern[str], operand: Term) -> None:
        self.pattern: Final = pattern
        self.operand: Final = operand

    def verdict(self, subject: Facts) -> i64:
        text = _java_text(self.operand.evaluate(subject))
        if text is None:
            return UNKNOWN
        return YES if self.pattern.search(text) is not None else NO


class _InList(Test):
    def __init__(self, items: _Items, candidate: Term, convert: bool) -> None:
        self.items: Final = items
        self.candidate: Final = candidate
        self.convert: Final = convert

    def verdict(self, subject: Facts) -> i64:
        items = self.items.items(subject)
        candidate = self.candidate.evaluate(subject)
        if items is None or candidate is None:
            return UNKNOWN
        answer = NO
        for item in items:
            one = _compare(_EQ, item, candidate, self.convert)
            if one == YES:
                return YES
            if one == UNKNOWN:
                answer = UNKNOWN
        return answer


class _AsksBody(Test):
    """XPATH: unknown without a text or bytes body, no for a body that is not XML."""

    def __init__(self, judge: Callable[[str | bytes], bool]) -> None:
        self.judge: Final = judge

    def verdict(self, subject: Facts) -> i64:
        body = subject.fact(BODY_FACT)
        if isinstance(body, str):
            return YES if self.judge(body) else NO
        if isinstance(body, bytes):
            return YES if self.judge(body) else NO
        return UNKNOWN


# --- LIKE -------------------------------------------------------------------------------------------------------------

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


# --- tree -> nodes ----------------------------------------------------------------------------------------------------


class _Builder:
    """Makes the nodes of one selector and notes the names that they read. The height of the tree is bounded."""

    def __init__(self, convert: bool) -> None:
        self.names: Final[dict[str, None]] = {}
        self._convert: Final = convert

    def test(self, node: Node) -> Test:
        """The node where a condition is wanted."""
        if isinstance(node, Identifier):
            return _PropertyTest(self._noted(node.name))
        if isinstance(node, Literal):
            return _ConstantTest(UNKNOWN if node.value is None else YES if node.value else NO)
        if isinstance(node, Junction):
            terms = [self.test(term) for term in node.terms]
            return _And(terms) if node.operator == "AND" else _Or(terms)
        if isinstance(node, Unary):
            return _Not(self.test(node.operand))
        if isinstance(node, Binary):
            return self._comparison(node)
        if isinstance(node, IsNull):
            return _Null(self.term(node.operand), node.negated)
        if isinstance(node, Like):
            return _Matches(self.term(node.operand), LikePattern(node.pattern, node.escape), node.negated)
        if isinstance(node, Among):
            return _In(self._noted(node.operand.name), dict.fromkeys(node.choices), node.negated)
        if isinstance(node, Between):
            operand, low = self.term(node.operand), self.term(node.low)
            return _IsBetween(operand, low, self.term(node.high), node.negated, self._convert)
        if isinstance(node, XPath):
            self._noted(BODY_FACT)
            return _AsksBody(compile_path(node.path))
        if node.function == "INLIST":
            return _InList(self._items(node.arguments[0]), self.term(node.arguments[1]), self._convert)
        return _Regex(_regex(node, 0), self.term(node.arguments[1]))

    def term(self, node: Node) -> Term:
        """The node where a value is wanted."""
        if isinstance(node, Literal):
            return _Constant(node.value)
        if isinstance(node, Identifier):
            return _Property(self._noted(node.name))
        if isinstance(node, Unary) and node.operator == "-":
            return _Negation(self._number(node.operand))
        if isinstance(node, Binary) and node.operator not in _COMPARISONS:
            return _Arithmetic(node.operator, self._number(node.left), self._number(node.right))
        if isinstance(node, Call) and node.function == "REPLACE":
            pattern = _regex(node, 1)
            source = self.term(node.arguments[0])
            return _Replace(source, pattern, Template(_text_argument(node, 2), pattern))
        return self.test(node)

    def _noted(self, name: str) -> str:
        self.names[name] = None
        return name

    def _number(self, node: Node) -> Term:
        term = self.term(node)
        if isinstance(term, _Arithmetic | _Negation | _Constant):
            return term  # a number already: the reader admits no other literal here, and NULL is none either way
        return _Number(term, self._convert)

    def _comparison(self, node: Binary) -> Test:
        op: i64 = _COMPARISONS[node.operator]
        left, right = node.left, node.right
        if isinstance(left, Identifier) and isinstance(right, Literal):
            constant = right.value
            if isinstance(constant, str) and not self._convert and op <= _NE:
                return _TextEquals(self._noted(left.name), constant, op == _NE)
            if isinstance(constant, int) and not isinstance(constant, bool):
                return _IntegerCompares(op, self._noted(left.name), constant, self._convert)
        first = self.term(left)
        return _Compares(op, first, self.term(right), self._convert)

    def _items(self, node: Node) -> _Items:
        assert isinstance(node, Call)
        if node.function == "MAKELIST":
            return _MadeItems([self.term(argument) for argument in node.arguments])
        limit = 0
        if len(node.arguments) == 3:
            third = node.arguments[2]
            if not isinstance(third, Literal) or not isinstance(third.value, int) or isinstance(third.value, bool):
                raise InvalidSelector("selector: the third argument of SPLIT must be an integer literal")
            limit = third.value
        pattern = _regex(node, 1)
        return _SplitItems(self.term(node.arguments[0]), pattern, limit)


def _text_argument(call: Call, index: int) -> str:
    argument = call.arguments[index]
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise InvalidSelector(f"selector: argument {index + 1} of {call.function} must be a string literal")
    return argument.value


def _regex(call: Call, index: int) -> re.Pattern[str]:
    return compile_regex(_text_argument(call, index))
