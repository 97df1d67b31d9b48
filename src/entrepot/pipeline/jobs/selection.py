"""Selectors of JMS as conditions of Spark SQL over an archive.

An archive keeps properties as text. So a property stands for a number or a truth value where it is compared with one
and spells one, as with messages of STOMP (`entrepot.model.value` has the rules); where unlike things are compared the
answer is no; what is not set is unknown. Refused by name: what asks more than an archive keeps (XPATH, AMQSize), and
arithmetic, SPLIT and REPLACE, whose results have the types that properties had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.errors import InvalidSelector
from entrepot.model.predicate import compile_selector
from entrepot.model.selector import parse_selector
from entrepot.model.syntax import (
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

if TYPE_CHECKING:
    from pyspark.sql import Column

TEXT: Final = "text"
LONG: Final = "long"
DOUBLE: Final = "double"
BOOLEAN: Final = "boolean"
NOTHING: Final = "nothing"  # NULL, written out

WHOLE: Final = r"^[+-]?[0-9]{1,19}\z"
DECIMAL: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?\z"
_ESCAPE: Final = "\\"

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Term:
    """A value: its kind, and the column that has it."""

    def __init__(self, kind: str, column: Column) -> None:
        self.kind = kind
        self.column = column


def condition(text: str) -> Column:
    """Return the condition that ``text`` is. Raises InvalidSelector for what is no selector, or asks too much."""
    compile_selector(text)  # what brokers refuse, such as a regular expression without end, is refused here too
    return _test(parse_selector(text).tree)


def _test(node: Node) -> Column:
    if isinstance(node, Junction):
        return _junction(node)
    if isinstance(node, Unary) and node.operator == "NOT":
        return ~_test(node.operand)
    if isinstance(node, Binary) and node.operator in _OPERATORS:
        return _compare(node.operator, _term(node.left), _term(node.right))
    if isinstance(node, IsNull):
        column = _term(node.operand).column
        return column.isNotNull() if node.negated else column.isNull()
    if isinstance(node, Like):
        return _like(node)
    if isinstance(node, Among):
        return _among(node)
    if isinstance(node, Between):
        return _between(node)
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, Literal | Identifier):
        return _alone(_term(node))
    raise _refused(node)


def _junction(node: Junction) -> Column:
    found = _test(node.terms[0])
    for term in node.terms[1:]:
        found = found & _test(term) if node.operator == "AND" else found | _test(term)
    return found


def _among(node: Among) -> Column:
    operand = _term(node.operand)
    if operand.kind != TEXT:
        return _unknown()
    found = operand.column.isin(list(node.choices))
    return ~found if node.negated else found


def _between(node: Between) -> Column:
    value, low, high = _term(node.operand), _term(node.low), _term(node.high)
    if node.negated:
        return _compare("<", value, low) | _compare(">", value, high)
    return _compare(">=", value, low) & _compare("<=", value, high)


def _alone(value: Term) -> Column:
    """Return what a value means where a condition belongs."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    if value.kind == BOOLEAN:
        return value.column
    if value.kind == NOTHING:
        return _unknown()
    return _truth(value) if value.kind == TEXT else _no(value.column, f.lit(0))


def _term(node: Node) -> Term:
    from pyspark.sql import functions as f  # noqa: PLC0415

    if isinstance(node, Literal):
        value = node.value
        if value is None:
            return Term(NOTHING, f.lit(None).cast("boolean"))
        if isinstance(value, bool):
            return Term(BOOLEAN, f.lit(value))
        if isinstance(value, str):
            return Term(TEXT, f.lit(value))
        return Term(LONG, f.lit(value).cast("bigint")) if isinstance(value, int) else Term(DOUBLE, f.lit(value))
    if isinstance(node, Identifier):
        return _named(node.name)
    if isinstance(node, Unary | Binary | Call | XPath) and not _is_test(node):
        raise _refused(node)
    return Term(BOOLEAN, _test(node))


def _is_test(node: Unary | Binary | Call | XPath) -> bool:
    if isinstance(node, Unary):
        return node.operator == "NOT"
    if isinstance(node, Binary):
        return node.operator in _OPERATORS
    return isinstance(node, Call) and node.function in ("INLIST", "REGEX")


def _named(name: str) -> Term:
    """Return a header or a property."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    plain = {
        "JMSMessageID": "message_id",
        "JMSDestination": "destination",
        "JMSCorrelationID": "correlation_id",
        "JMSReplyTo": "reply_to",
        "JMSType": "type",
        "JMSXGroupID": "group_id",
    }
    if name in plain:
        return Term(TEXT, f.col(plain[name]))
    if name in ("JMSPriority", "AMQPriority"):
        return Term(LONG, f.col("priority").cast("bigint"))
    if name == "JMSXGroupSeq":
        return Term(LONG, f.col("group_sequence").cast("bigint"))
    if name == "JMSXDeliveryCount":
        return Term(LONG, f.col("delivery_count").cast("bigint"))
    if name in ("JMSTimestamp", "AMQTimestamp", "JMSExpiration", "AMQExpiration"):
        column = "timestamp" if name.endswith("Timestamp") else "expiration"
        return Term(LONG, f.coalesce(f.unix_millis(f.col(column)), f.lit(0).cast("bigint")))
    if name == "JMSDeliveryMode":
        return Term(TEXT, f.when(f.col("persistent"), "PERSISTENT").otherwise("NON_PERSISTENT"))
    if name == "AMQDurable":
        return Term(TEXT, f.when(f.col("persistent"), "DURABLE").otherwise("NON_DURABLE"))
    if name == "JMSRedelivered":
        return Term(BOOLEAN, f.col("redelivered"))
    if name == "AMQSize":
        raise InvalidSelector("an archive does not know AMQSize", remedy="leave it out of the selector")
    return Term(TEXT, f.col("properties").getItem(name))


def _compare(operator: str, left: Term, right: Term) -> Column:
    kinds = (left.kind, right.kind)
    if NOTHING in kinds:
        return _unknown()
    if left.kind == right.kind:
        return _OPERATORS[operator](left.column, right.column)  # type: ignore[no-any-return]
    if left.kind == TEXT:
        return _spelled(operator, left, right)
    if right.kind == TEXT:
        return _spelled(_TURNED[operator], right, left)
    if BOOLEAN in kinds:
        return _no(left.column, right.column)
    return _OPERATORS[operator](left.column.cast("double"), right.column.cast("double"))  # type: ignore[no-any-return]


def _spelled(operator: str, text: Term, other: Term) -> Column:
    """Compare a text with a number or a truth value: by what it spells."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    apply = _OPERATORS[operator]
    if other.kind == BOOLEAN:
        return apply(_truth(text), other.column)  # type: ignore[no-any-return]
    column = text.column
    whole, decimal = column.try_cast("bigint"), column.try_cast("double")
    is_whole = column.rlike(WHOLE) & whole.isNotNull()
    exactly = apply(whole, other.column) if other.kind == LONG else apply(decimal, other.column)
    nearly = apply(decimal, other.column.cast("double"))
    missing = column.isNull() | other.column.isNull()
    return (
        f.when(missing, f.lit(None).cast("boolean"))
        .when(is_whole, exactly)
        .when(column.rlike(DECIMAL), nearly)
        .otherwise(False)
    )


def _truth(text: Term) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.lower(text.column) == "true"  # type: ignore[no-any-return,unused-ignore]


def _no(left: Column, right: Column) -> Column:
    """Return no, or unknown where one is not set."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.when(left.isNull() | right.isNull(), f.lit(None).cast("boolean")).otherwise(False)


def _unknown() -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.lit(None).cast("boolean")


def _like(node: Like) -> Column:
    operand = _term(node.operand)
    if operand.kind != TEXT:
        return _unknown()
    found = operand.column.like(like_pattern(node.pattern, node.escape))
    return ~found if node.negated else found


def like_pattern(pattern: str, escape: str) -> str:
    """Return a pattern as Spark reads it: its escape is a backslash, which stands before ``%``, ``_`` and itself alone.

    In selectors the escape is another one or none, and stands for itself before any other character.
    """
    found: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if escape and character == escape and pattern[at + 1 : at + 2] in ("%", "_", escape):
            at += 1
            character = pattern[at]
            found.append(_ESCAPE + character if character in ("%", "_", _ESCAPE) else character)
        elif character == _ESCAPE:
            found.append(_ESCAPE * 2)
        else:
            found.append(character)
        at += 1
    return "".join(found)


def _call(node: Call) -> Column:
    if node.function == "INLIST":
        made = node.arguments[0]
        if not isinstance(made, Call) or made.function != "MAKELIST":
            raise _refused(made)
        candidate = _term(node.arguments[1])
        found = _no(candidate.column, candidate.column)
        for member in made.arguments:
            found = found | _compare("=", _term(member), candidate)
        return found
    if node.function == "REGEX":
        expression, operand = node.arguments[0], _term(node.arguments[1])
        assert isinstance(expression, Literal)  # a broker would have refused it, and so did `condition`
        return operand.column.cast("string").rlike(str(expression.value))
    raise _refused(node)


def _refused(node: Node) -> InvalidSelector:
    if isinstance(node, Call):
        what = node.function
    elif isinstance(node, XPath):
        what = "XPATH"
    elif isinstance(node, Binary | Unary):
        what = f"arithmetic ({node.operator})"
    else:
        what = type(node).__name__
    return InvalidSelector(
        f"{what} cannot be asked of an archive, which keeps properties as text",
        remedy="leave it out of the selector and narrow down by time, destination or other properties; "
        "or read the archive with Spark, and write what you choose with the sink",
    )
