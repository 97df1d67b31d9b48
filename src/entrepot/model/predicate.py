"""A selector at work: the tree of `selector`, compiled into native nodes that give a verdict on a message. [C]

Verdicts have three values, as SQL-92 and JMS 3.8.1.2 want: an absent property makes a test unknown, NOT unknown is
unknown, and only a plain yes matches. What the types of the operands decide:

- Comparisons and arithmetic follow the rules in `value`; unlike types compare as no.
- Arithmetic on what is not a number, LIKE and IN on what is not a string: unknown.
- A property alone is a condition: yes if it is TRUE, no for any other value.

Nothing here raises for what a message holds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import InvalidSelector
from entrepot.model.like import LikePattern
from entrepot.model.regex import Expression, Template, compile_regex, replaced, split_java
from entrepot.model.selector import parse_selector
from entrepot.model.syntax import (
    CONVERT_PREFIX,
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
)
from entrepot.model.value import (
    COMPARISONS,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    NO,
    UNKNOWN,
    YES,
    Value,
    approximate,
    as_double,
    compare,
    compare_exact,
    exact,
    java_text,
    number_in,
    wrapped,
)
from entrepot.model.xpath import compile_path

__all__ = ["BODY_FACT", "CACHE_SIZE", "Facts", "Predicate", "Term", "Test", "Value", "compile_selector"]

BODY_FACT: Final = "JMSXBody"
"""The name under which XPATH asks a subject for its body: str of a text, bytes of a bytes message, None of others."""

CACHE_SIZE: Final = 256  # the reference keeps 100; a selector a consumer group is the common shape


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)  # a message is one, and there are many
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

    @property
    def shown(self) -> str:
        """The text for people: without the prefix that STOMP sets by itself."""
        return self.text.removeprefix(CONVERT_PREFIX)

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
            return number_in(value) if self.convert else None
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
            return wrapped(-value)
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
                return exact(self.sign, left, right)
            return approximate(self.sign, as_double(left), right) if isinstance(right, float) else None
        if isinstance(left, float):
            if isinstance(right, int):
                return approximate(self.sign, left, as_double(right))
            return approximate(self.sign, left, right) if isinstance(right, float) else None
        return None


class _Replace(Term):
    def __init__(self, source: Term, expression: Expression, template: Template) -> None:
        self.source: Final = source
        self.expression: Final = expression
        self.template: Final = template

    def evaluate(self, subject: Facts) -> Value:
        source = self.source.evaluate(subject)
        if not isinstance(source, str) or not self.expression.admits(source):
            return None
        return replaced(self.expression.pattern, self.template, source)


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
    def __init__(self, source: Term, expression: Expression, limit: int) -> None:
        self.source: Final = source
        self.expression: Final = expression
        self.limit: Final = limit

    def items(self, subject: Facts) -> list[Value] | None:
        source = self.source.evaluate(subject)
        if not isinstance(source, str) or not self.expression.admits(source):
            return None
        found: list[Value] = []
        found.extend(split_java(self.expression.pattern, source, self.limit))
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
            return compare_exact(self.op, value, self.number)
        return compare(self.op, value, self.number, self.convert)


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
        return compare(self.op, left, self.right.evaluate(subject), self.convert)


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
        first = compare(LT if self.negated else GE, value, self.low.evaluate(subject), self.convert)
        if first == decisive:
            return first
        second = compare(GT if self.negated else LE, value, self.high.evaluate(subject), self.convert)
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
    def __init__(self, expression: Expression, operand: Term) -> None:
        self.expression: Final = expression
        self.operand: Final = operand

    def verdict(self, subject: Facts) -> i64:
        text = java_text(self.operand.evaluate(subject))
        if text is None or not self.expression.admits(text):
            return UNKNOWN
        return YES if self.expression.pattern.search(text) is not None else NO


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
            one = compare(EQ, item, candidate, self.convert)
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
        if isinstance(node, Binary) and node.operator not in COMPARISONS:
            return _Arithmetic(node.operator, self._number(node.left), self._number(node.right))
        if isinstance(node, Call) and node.function == "REPLACE":
            expression = _regex(node, 1)
            template = Template(_text_argument(node, 2), expression.pattern)
            return _Replace(self.term(node.arguments[0]), expression, template)
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
        op: i64 = COMPARISONS[node.operator]
        left, right = node.left, node.right
        if isinstance(left, Identifier) and isinstance(right, Literal):
            constant = right.value
            if isinstance(constant, str) and not self._convert and op <= NE:
                return _TextEquals(self._noted(left.name), constant, op == NE)
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
        return _SplitItems(self.term(node.arguments[0]), _regex(node, 1), limit)


def _text_argument(call: Call, index: int) -> str:
    argument = call.arguments[index]
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise InvalidSelector(f"selector: argument {index + 1} of {call.function} must be a string literal")
    return argument.value


def _regex(call: Call, index: int) -> Expression:
    return compile_regex(_text_argument(call, index))
