"""The text of a selector, read into a tree: the SQL-92 subset of JMS as both broker families speak it.

Decides what is in the grammar and what a text means; never looks at a message (`predicate` does). Invariant: rendering
a tree gives a text that reads back as the same tree, so the rendered text can stand for the selector everywhere.

Precedence, weakest first: OR · AND · NOT · equality (``= <> IS [NOT] NULL``) · comparison (``< <= > >= [NOT] LIKE |
BETWEEN | IN``) · ``+ -`` · ``* / %`` · unary ``+ -``, ``XPATH 'path'``, function call. As SQL-92 and JMS 3.8.1.1 have
it, and unlike both families' parsers, NOT takes a whole comparison: ``NOT a = 'x'`` is ``NOT (a = 'x')``. Theirs read
``(NOT a) = 'x'``, which no message satisfies, so no working selector can depend on that.

Identifiers are ``[A-Za-z_$][A-Za-z0-9_$]*``, so ``a-b`` is a subtraction and a dot is an error. Three forms of Artemis
are read too: ``"any name"`` in double quotes, ``m.name`` for an AMQP annotation, and names with hyphens after the
prefix ``hyphenated_props:``. The prefix ``convert_string_expressions:`` lets strings stand for numbers; STOMP sets it.

Refused although one of the families lets it pass, because no message could satisfy what was meant: text after the end
of the expression, an integer outside 64 bits, arithmetic on a literal that is not a number, a regular expression that
is not a literal or whose cost grows exponentially.

Limits: `TEXT_CHARACTERS_MAX` characters, `HEIGHT_MAX` levels of nesting (parentheses, signs, and the operands of one
chain of ``+`` or ``*``; AND and OR chains are flat), `TERMS_MAX` operands and list entries.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from entrepot.base.errors import InvalidSelector
from entrepot.model.syntax import (
    AND,
    COMPARISON,
    CONVERT_PREFIX,
    EQUALITY,
    KEYWORDS,
    LEVELS,
    LONG_MAX,
    OR,
    PRIMARY,
    SUM,
    UNARY,
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
    Selector,
    Unary,
    XPath,
    is_list,
    is_verdict,
)

TEXT_CHARACTERS_MAX: Final = 32 * 1024  # half of what a STOMP header line may hold by default
HEIGHT_MAX: Final = 64  # three interpreter frames a level stay far below the default recursion limit of 1000
TERMS_MAX: Final = 4096  # an IN list of that many strings still fits the text

HYPHEN_PREFIX: Final = "hyphenated_props:"

LONG_MIN: Final = -(2**63)


FUNCTIONS: Final[dict[str, tuple[int, int]]] = {
    "INLIST": (2, 2),
    "MAKELIST": (0, TERMS_MAX),
    "REGEX": (2, 2),
    "REPLACE": (3, 3),
    "SPLIT": (2, 3),
}
"""Name -> fewest and most arguments. INLIST and REGEX yield a verdict, REPLACE a string, the others a list."""


def parse_selector(text: str) -> Selector:
    """The tree of a text.

    Raises InvalidSelector, with the position (1 is the first character) and what was expected there.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidSelector(f"selector of {len(text)} characters; the limit is {TEXT_CHARACTERS_MAX}")
    start, convert, hyphens = 0, False, False
    while True:
        if not convert and text.startswith(CONVERT_PREFIX, start):
            start, convert = start + len(CONVERT_PREFIX), True
        elif not hyphens and text.startswith(HYPHEN_PREFIX, start):
            start, hyphens = start + len(HYPHEN_PREFIX), True
        else:
            break
    return Selector(_Reader(_tokens(text, start, hyphens=hyphens)).whole(), convert)


# --- text -> tokens ---------------------------------------------------------------------------------------------------

_TOKEN_PATTERN: Final = r"""
    (?P<blank>   [ \t\n\r\f]++ | --[^\n\r]*+ | /\*(?:[^*]|\*(?!/))*+\*/ )
  | (?P<float>   [0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)? | \.[0-9]++(?:[eE][+-]?[0-9]++)? | [0-9]++[eE][+-]?[0-9]++ )
  | (?P<hex>     0[xX][0-9a-fA-F]++ )
  | (?P<decimal> [1-9][0-9]*+[lL]? )
  | (?P<octal>   0[0-7]*+ )
  | (?P<string>  '(?:[^']|'')*+' )
  | (?P<quoted>  "(?:[^"]|"")++" )
  | (?P<name>    (?:m\.)?[A-Za-z_$][A-Za-z0-9_$HYPHEN]*+ )
  | (?P<sign>    <> | <= | >= | [=<>+\-*/%(),] )
"""
_PLAIN_TOKEN: Final = re.compile(_TOKEN_PATTERN.replace("HYPHEN", ""), re.VERBOSE)
_HYPHENATED_TOKEN: Final = re.compile(_TOKEN_PATTERN.replace("HYPHEN", "-"), re.VERBOSE)

_UNFINISHED: Final = {
    "'": "the closing ' of this string",
    '"': 'a name and its closing "',
    "/": "the closing */ of this comment",
    ".": "an operator (a dot is no part of a name)",
}


class _Token:
    """``kind`` is a group of the pattern, or ``keyword`` (``text`` in capitals), or ``end``."""

    __slots__ = ("kind", "position", "text")

    def __init__(self, kind: str, text: str, position: int) -> None:
        self.kind = kind
        self.text = text
        self.position = position


def _tokens(text: str, start: int, *, hyphens: bool) -> list[_Token]:
    found: list[_Token] = []
    pattern = _HYPHENATED_TOKEN if hyphens else _PLAIN_TOKEN
    at = start
    while at < len(text):
        match = pattern.match(text, at)
        # A comment that never closes would otherwise read as a division by a multiplication.
        if match is None or (text.startswith("/*", at) and match.lastgroup != "blank"):
            wanted = _UNFINISHED.get(text[at], "an operand or operator")
            raise InvalidSelector(f"selector, character {at + 1}: expected {wanted}, found {text[at : at + 12]!r}")
        kind, image = match.lastgroup or "", match.group()
        if kind == "name" and image.upper() in KEYWORDS:
            found.append(_Token("keyword", image.upper(), at + 1))
        elif kind != "blank":
            found.append(_Token(kind, image, at + 1))
        at = match.end()
    found.append(_Token("end", "", len(text) + 1))
    return found


# --- tokens -> tree ---------------------------------------------------------------------------------------------------

"""Levels of precedence, weakest first."""


class _Reader:
    """Precedence climbing over the tokens of one text. Every operand knows its height, so no tree grows too tall."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._terms = 0
        self._height = 0  # of the node returned last

    def whole(self) -> Node:
        if self._now.kind == "end":
            self._fail("an expression")
        tree = self._expression(OR)
        if self._now.kind != "end":
            self._fail("an operator or the end")
        self._require_verdict(tree, self._tokens[0])
        return tree

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _fail(self, wanted: str, token: _Token | None = None) -> NoReturn:
        token = token or self._now
        found = repr(token.text[:40]) if token.kind != "end" else "the end"
        raise InvalidSelector(f"selector, character {token.position}: expected {wanted}, found {found}")

    def _takes(self, *texts: str) -> bool:
        """Step over these signs or keywords if they come next, all of them."""
        ahead = self._tokens[self._at : self._at + len(texts)]
        if [token.text for token in ahead if token.kind in ("sign", "keyword")] != list(texts):
            return False
        self._at += len(texts)
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            self._fail(text if text.isalpha() else f"'{text}'")

    def _string(self, where: str) -> str:
        token = self._now
        if token.kind != "string":
            self._fail(f"a string in quotes {where}")
        self._at += 1
        self._count()
        return token.text[1:-1].replace("''", "'")

    def _count(self) -> None:
        self._terms += 1
        if self._terms > TERMS_MAX:
            self._fail(f"no more than {TERMS_MAX} operands")

    def _grown(self, *heights: int) -> None:
        """The node just made stands on nodes of these heights."""
        self._height = max(heights) + 1
        if self._height > HEIGHT_MAX:
            self._fail(f"no more than {HEIGHT_MAX} levels")

    def _expression(self, weakest: int) -> Node:
        """An operand and every operator after it that binds at least as tightly as ``weakest``."""
        self._depth += 1
        if self._depth > HEIGHT_MAX:
            self._fail(f"no more than {HEIGHT_MAX} levels")
        first = self._now
        left = self._operand()
        ceiling = PRIMARY  # after an operator of one level, no tighter one can follow on the same left side
        while True:
            token = self._now
            level = LEVELS.get(token.text, -1) if token.kind in ("sign", "keyword") else -1
            if level < weakest or level > ceiling:
                break
            ceiling = level
            left = self._joined(left, first, level)
        self._depth -= 1
        return left

    def _joined(self, left: Node, first: _Token, level: int) -> Node:
        """``left`` and the operator that comes next, with its right side."""
        if level <= AND:
            return self._junction(left, first, level)
        if level == EQUALITY:
            return self._equality(left, first)
        if level == COMPARISON:
            return self._comparison(left, first)
        sign = self._now.text
        self._at += 1
        height, second = self._height, self._now
        self._require_number(left, first)
        right = self._expression(level + 1)
        self._require_number(right, second)
        self._grown(height, self._height)
        return Binary(sign, left, right)

    def _junction(self, left: Node, first: _Token, level: int) -> Node:
        word = self._now.text
        self._require_verdict(left, first)
        terms, height = [left], self._height
        while self._takes(word):
            start = self._now
            term = self._expression(level + 1)
            self._require_verdict(term, start)
            terms.append(term)
            height = max(height, self._height)
        self._grown(height)
        return Junction(word, tuple(terms))

    def _equality(self, left: Node, first: _Token) -> Node:
        height = self._height
        if self._takes("IS"):
            negated = self._takes("NOT")
            self._expect("NULL")
            self._require_value(left, first)
            self._grown(height)
            return IsNull(left, negated)
        sign = self._now.text
        self._at += 1
        self._require_equatable(left, first)
        second = self._now
        right = self._expression(EQUALITY + 1)
        self._require_equatable(right, second)
        self._grown(height, self._height)
        return Binary(sign, left, right)

    def _comparison(self, left: Node, first: _Token) -> Node:
        height = self._height
        negated = self._takes("NOT")
        if self._takes("LIKE"):
            self._require_value(left, first)
            self._grown(height)
            return self._like(left, negated)
        if self._takes("IN"):
            if not isinstance(left, Identifier):
                self._fail("a property name on the left of IN", first)
            self._grown(height)
            return Among(left, self._choices(), negated)
        self._require_ordered(left, first)
        if self._takes("BETWEEN"):
            low = self._bound()
            low_height = self._height
            self._expect("AND")
            high = self._bound()
            self._grown(height, low_height, self._height)
            return Between(left, low, high, negated)
        if negated:
            self._fail("LIKE, IN or BETWEEN after NOT")
        sign = self._now.text
        self._at += 1
        right = self._bound()
        self._grown(height, self._height)
        return Binary(sign, left, right)

    def _like(self, left: Node, negated: bool) -> Node:
        pattern = self._string("after LIKE")
        escape = ""
        if self._takes("ESCAPE"):
            token = self._now
            escape = self._string("after ESCAPE")
            if len(escape) != 1:
                self._fail("a string of one character after ESCAPE", token)
        return Like(left, pattern, escape, negated)

    def _choices(self) -> tuple[str, ...]:
        self._expect("(")
        choices = [self._string("in the list of IN")]
        while self._takes(","):
            choices.append(self._string("in the list of IN"))
        self._expect(")")
        return tuple(choices)

    def _bound(self) -> Node:
        token = self._now
        node = self._expression(SUM)
        self._require_ordered(node, token)
        return node

    def _operand(self) -> Node:
        """A sign or NOT with its operand, or a primary."""
        token = self._now
        if self._takes("+"):
            return self._signed()
        if self._takes("-"):
            return self._negative()
        if self._takes("NOT"):
            start = self._now
            operand = self._expression(EQUALITY)
            self._require_verdict(operand, start)
            self._grown(self._height)
            return Unary("NOT", operand)
        if self._takes("("):
            node = self._expression(OR)
            self._expect(")")
            return node
        self._count()
        self._height = 1
        self._at += 1
        if token.kind == "keyword":
            return self._keyword(token)
        if token.kind == "name":
            return self._call(token) if self._now.kind == "sign" and self._now.text == "(" else Identifier(token.text)
        if token.kind == "quoted":
            return Identifier(token.text[1:-1].replace('""', '"'))
        if token.kind == "string":
            return Literal(token.text[1:-1].replace("''", "'"))
        if token.kind in ("float", "hex", "decimal", "octal"):
            return Literal(self._number(token, negative=False))
        self._fail("an operand", token)

    def _signed(self) -> Node:
        start = self._now
        operand = self._expression(UNARY)
        self._require_number(operand, start)
        return operand

    def _negative(self) -> Node:
        token = self._now
        if token.kind in ("float", "hex", "decimal", "octal"):  # at once: the least long has no positive twin
            self._at += 1
            self._count()
            self._height = 1
            return Literal(self._number(token, negative=True))
        operand = self._signed()
        if isinstance(operand, Literal) and isinstance(operand.value, int | float) and operand.value != LONG_MIN:
            return Literal(-operand.value)
        self._grown(self._height)
        return Unary("-", operand)

    def _keyword(self, token: _Token) -> Node:
        if token.text in ("TRUE", "FALSE"):
            return Literal(token.text == "TRUE")
        if token.text == "NULL":
            return Literal(None)
        if token.text == "XPATH":
            return XPath(self._string("after XPATH"))
        if token.text == "XQUERY":
            self._fail("XPATH or SQL, since XQUERY is not supported", token)
        self._fail("an operand", token)

    def _number(self, token: _Token, *, negative: bool) -> int | float:
        if token.kind == "float":
            approximate = float(token.text)
            if approximate in (float("inf"), float("-inf")):
                self._fail("a number within the range of a double", token)
            return -approximate if negative else approximate
        digits = token.text.rstrip("lL") if token.kind == "decimal" else token.text
        # Longer than the least long in octal: out of range, and not worth a conversion of quadratic cost.
        significant = digits.lstrip("0xX")
        base = {"hex": 16, "octal": 8}.get(token.kind, 10)
        exact = int(significant or "0", base) if len(significant) <= 24 else LONG_MAX + 2
        exact = -exact if negative else exact
        if not LONG_MIN <= exact <= LONG_MAX:
            self._fail("an integer of 64 bits", token)
        return exact

    def _call(self, token: _Token) -> Node:
        function = token.text.upper()
        if function not in FUNCTIONS:
            self._fail(f"one of the functions {', '.join(FUNCTIONS)}", token)
        self._expect("(")
        arguments: list[Node] = []
        height = 0
        while not self._takes(")"):
            if arguments:
                self._expect(",")
            start = self._now
            arguments.append(self._expression(OR))
            height = max(height, self._height)
            if not (function == "INLIST" and len(arguments) == 1):
                self._require_value(arguments[-1], start)
        least, most = FUNCTIONS[function]
        if not least <= len(arguments) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            self._fail(f"{count} arguments of {function}", token)
        if function == "INLIST" and not is_list(arguments[0]):
            self._fail("MAKELIST(…) or SPLIT(…) as the first argument of INLIST", token)
        self._grown(height)
        return Call(function, tuple(arguments))

    # What may stand where. A property may stand anywhere: only the message knows its type.

    def _require_value(self, node: Node, token: _Token) -> None:
        if is_list(node):
            self._fail("a value: a list may only be the first argument of INLIST", token)

    def _require_equatable(self, node: Node, token: _Token) -> None:
        self._require_value(node, token)
        if isinstance(node, Literal) and node.value is None:
            self._fail("a value: NULL is tested with IS NULL", token)

    def _require_verdict(self, node: Node, token: _Token) -> None:
        if not (isinstance(node, Identifier) or is_verdict(node)):
            self._fail("a condition", token)

    def _require_ordered(self, node: Node, token: _Token) -> None:
        self._require_value(node, token)
        if is_verdict(node) or (isinstance(node, Literal) and isinstance(node.value, str)):
            self._fail("a number, since only numbers have an order", token)

    def _require_number(self, node: Node, token: _Token) -> None:
        self._require_value(node, token)
        if is_verdict(node) or (isinstance(node, Literal) and isinstance(node.value, str)):
            self._fail("a number", token)


# --- tree -> text -----------------------------------------------------------------------------------------------------
