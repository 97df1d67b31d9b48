"""The tree of a selector, and the one text that stands for all that mean the same."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

CONVERT_PREFIX: Final = "convert_string_expressions:"
LONG_MAX: Final = 2**63 - 1
KEYWORDS: Final = dict.fromkeys(
    ("NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "TRUE", "FALSE", "NULL", "XPATH", "XQUERY")
)


class Literal(msgspec.Struct, frozen=True):
    """A string, number, truth value or NULL, written out. Negative numbers are literals, not negations."""

    value: str | int | float | bool | None


class Identifier(msgspec.Struct, frozen=True):
    """The name of a property or pseudo-property."""

    name: str


class Unary(msgspec.Struct, frozen=True):
    """``operator`` is ``-`` or ``NOT``; a unary plus leaves no trace."""

    operator: str
    operand: Node


class Binary(msgspec.Struct, frozen=True):
    """``operator`` is one of ``+ - * / % = <> < <= > >=``."""

    operator: str
    left: Node
    right: Node


class Junction(msgspec.Struct, frozen=True):
    """Two or more terms joined by ``AND`` or ``OR``."""

    operator: str
    terms: tuple[Node, ...]


class Like(msgspec.Struct, frozen=True):
    """``escape`` is empty when there is none."""

    operand: Node
    pattern: str
    escape: str
    negated: bool


class Among(msgspec.Struct, frozen=True):
    """``name [NOT] IN ('a', 'b')``: strings only, as in both families."""

    operand: Identifier
    choices: tuple[str, ...]
    negated: bool


class Between(msgspec.Struct, frozen=True):
    """Both bounds belong to the range."""

    operand: Node
    low: Node
    high: Node
    negated: bool


class IsNull(msgspec.Struct, frozen=True):
    """The only test that is never unknown."""

    operand: Node
    negated: bool


class Call(msgspec.Struct, frozen=True):
    """A function of `FUNCTIONS`, its name in capitals."""

    function: str
    arguments: tuple[Node, ...]


class XPath(msgspec.Struct, frozen=True):
    """Asks the body, read as XML."""

    path: str


Node: TypeAlias = Literal | Identifier | Unary | Binary | Junction | Like | Among | Between | IsNull | Call | XPath


class Selector(msgspec.Struct, frozen=True):
    """A text that is in the grammar. ``convert``: strings stand for numbers where a number is needed."""

    tree: Node
    convert: bool

    @property
    def text(self) -> str:
        """The one text that stands for all that mean the same."""
        return (CONVERT_PREFIX if self.convert else "") + render(self.tree)


_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")

OR, AND, DENIAL, EQUALITY, COMPARISON, SUM, PRODUCT, UNARY, PRIMARY = range(9)
LEVELS: Final[dict[str, int]] = {
    "OR": OR, "AND": AND, "=": EQUALITY, "<>": EQUALITY, "IS": EQUALITY,
    "<": COMPARISON, "<=": COMPARISON, ">": COMPARISON, ">=": COMPARISON,
    "LIKE": COMPARISON, "BETWEEN": COMPARISON, "IN": COMPARISON, "NOT": COMPARISON,
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT,
}  # fmt: skip
_LIST_FUNCTIONS: Final = ("MAKELIST", "SPLIT")
_VERDICT_FUNCTIONS: Final = ("INLIST", "REGEX")


def is_verdict(node: Node) -> bool:
    """The node says yes, no or unknown, whatever the message holds. NULL counts: it says unknown."""
    match node:
        case Literal(value):
            return value is None or isinstance(value, bool)
        case Unary(operator) | Binary(operator):
            return operator in ("NOT", "=", "<>", "<", "<=", ">", ">=")
        case Call(function):
            return function in _VERDICT_FUNCTIONS
        case Identifier():
            return False
        case _:
            return True


def is_list(node: Node) -> bool:
    """Whether it yields a list of values."""
    return isinstance(node, Call) and node.function in _LIST_FUNCTIONS


def render(node: Node) -> str:
    """The text of a tree, with as few parentheses as read back the same."""
    match node:
        case Literal(value):
            return _literal(value)
        case Identifier(name):
            return _name(name)
        case Unary(operator, operand):
            # The operand of a minus never starts with another: two of them begin a comment.
            return f"NOT {_within(operand, DENIAL)}" if operator == "NOT" else f"-{_within(operand, PRIMARY)}"
        case Binary(operator, left, right):
            level = LEVELS[operator]
            return f"{_within(left, level)} {operator} {_within(right, level + 1)}"
        case Junction(operator, terms):
            level = LEVELS[operator]
            return f" {operator} ".join(_within(term, level + 1) for term in terms)
        case Like(operand, pattern, escape, negated):
            tail = f" ESCAPE {_literal(escape)}" if escape else ""
            return f"{_within(operand, COMPARISON)} {_not(negated)}LIKE {_literal(pattern)}{tail}"
        case Among(operand, choices, negated):
            return f"{_name(operand.name)} {_not(negated)}IN ({', '.join(map(_literal, choices))})"
        case Between(operand, low, high, negated):
            bounds = f"{_within(low, SUM)} AND {_within(high, SUM)}"
            return f"{_within(operand, COMPARISON)} {_not(negated)}BETWEEN {bounds}"
        case IsNull(operand, negated):
            return f"{_within(operand, EQUALITY)} IS {_not(negated)}NULL"
        case Call(function, arguments):
            return f"{function}({', '.join(map(render, arguments))})"
        case XPath(path):
            return f"XPATH {_literal(path)}"


def _within(node: Node, weakest: int) -> str:
    text = render(node)
    return text if _level(node) >= weakest else f"({text})"


def _level(node: Node) -> int:
    match node:
        case Binary(operator) | Junction(operator):
            return LEVELS[operator]
        case Like() | Among() | Between():
            return COMPARISON
        case IsNull():
            return EQUALITY
        case Unary(operator):
            return DENIAL if operator == "NOT" else UNARY
        case XPath():
            return UNARY
        case Literal(value) if isinstance(value, int | float) and str(value).startswith("-"):
            return UNARY
        case _:
            return PRIMARY


def _literal(value: str | int | float | bool | None) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    return repr(value)


def _name(name: str) -> str:
    plain = _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def _not(negated: bool) -> str:
    return "NOT " if negated else ""
