"""Verdicts: a table of what the families and JMS prescribe, and SQLite as an oracle for the grammar that it shares."""

from __future__ import annotations

import sqlite3
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.base.errors import InvalidSelector
from entrepot.model import xpath
from entrepot.model.like import LikePattern
from entrepot.model.predicate import BODY_FACT, CACHE_SIZE, Facts, Value, compile_selector
from entrepot.model.regex import TEXT_CHARACTERS_MIN, compile_regex

YES, NO, UNKNOWN = "yes", "no", "unknown"


class Row(Facts):
    """A message of the tests: what it was given, and which names it was asked for."""

    def __init__(self, facts: dict[str, Value]) -> None:
        self.facts = facts
        self.asked: list[str] = []

    def fact(self, name: str) -> Value:
        self.asked.append(name)
        return self.facts.get(name)


ORDER = Row(
    {
        "colour": "red",
        "quote": "it's",
        "size": 5,
        "minus": -7,
        "weight": 2.5,
        "zero": 0,
        "digits": "5",
        "decimals": "2.5",
        "word": "True",
        "yes": True,
        "no": False,
        "octets": b"red",
        "most": 2**63 - 1,
        "least": -(2**63),
        "large": 2**53 + 1,
        "huge": 10**400,
        "nan": float("nan"),
        "infinite": float("inf"),
        "lines": "one\ntwo",
        "a-b": "hyphen",
        "m.x": 1,
        "list": "1,2,,3,,",
        "JMSPriority": 4,
        "JMSDeliveryMode": "PERSISTENT",
        "AMQDurable": "DURABLE",
        "AMQExpiration": 0,
        BODY_FACT: "<order><item size='3'/></order>",
    }
)


def verdict(text: str, subject: Facts) -> str:
    """What the selector says, told apart by asking it and its denial."""
    prefix = "convert_string_expressions:"
    bare = text.removeprefix(prefix)
    holds = compile_selector(text).matches(subject)
    denied = compile_selector((prefix if bare != text else "") + f"NOT ({bare}\n)").matches(subject)
    assert not (holds and denied)
    return YES if holds else NO if denied else UNKNOWN


TABLE = [
    # equality, and NULL
    ("colour = 'red'", YES),
    ("colour = 'RED'", NO),
    ("colour <> 'red'", NO),
    ("colour <> 'blue'", YES),
    ("'red' = colour", YES),
    ("quote = 'it''s'", YES),
    ("missing = 'red'", UNKNOWN),
    ("missing <> 'red'", UNKNOWN),
    ("colour = missing", UNKNOWN),
    ("missing = missing", UNKNOWN),
    ("missing > 1", UNKNOWN),
    ("missing IS NULL", YES),
    ("missing IS NOT NULL", NO),
    ("colour IS NULL", NO),
    ("colour IS NOT NULL", YES),
    ("(missing = 1) IS NULL", YES),
    ("NULL", UNKNOWN),
    ("NULL IS NULL", YES),
    # three-valued logic
    ("missing = 1 OR size = 5", YES),
    ("missing = 1 OR size = 6", UNKNOWN),
    ("missing = 1 AND size = 5", UNKNOWN),
    ("missing = 1 AND size = 6", NO),
    ("size = 6 AND missing = 1", NO),
    ("NOT (missing = 1)", UNKNOWN),
    ("TRUE OR NULL", YES),
    ("FALSE AND NULL", NO),
    ("TRUE AND FALSE OR TRUE", YES),
    ("TRUE OR TRUE AND FALSE", YES),
    # NOT takes the whole comparison: SQL-92
    ("NOT colour = 'red'", NO),
    ("NOT colour = 'blue'", YES),
    ("NOT size > 5", YES),
    ("NOT colour IN ('blue')", YES),
    ("NOT (colour = 'blue')", YES),
    ("NOT yes = FALSE", YES),
    ("NOT missing IS NULL", NO),
    # a property as a condition
    ("yes", YES),
    ("no", NO),
    ("NOT no", YES),
    ("colour", NO),
    ("word", NO),
    ("size", NO),
    ("missing", UNKNOWN),
    ("yes = TRUE", YES),
    ("no <> TRUE", YES),
    ("yes = no", NO),
    # unlike types
    ("digits = 5", NO),
    ("digits <> 5", NO),
    ("digits < 9", NO),
    ("size = '5'", NO),
    ("size <> '5'", NO),
    ("yes = 1", NO),
    ("zero = FALSE", NO),
    ("yes <> 'true'", NO),
    ("octets = 'red'", NO),
    ("octets = octets", NO),
    ("octets IS NOT NULL", YES),
    ("colour > digits", YES),
    ("colour BETWEEN 1 AND 9", NO),
    ("colour NOT BETWEEN 1 AND 9", NO),
    # strings that may stand for numbers
    ("convert_string_expressions:digits = 5", YES),
    ("convert_string_expressions:digits <> 5", NO),
    ("convert_string_expressions:digits < 9", YES),
    ("convert_string_expressions:digits = 5.0", YES),
    ("convert_string_expressions:decimals > 2", YES),
    ("convert_string_expressions:5 = digits", YES),
    ("convert_string_expressions:digits + 1 = 6", YES),
    ("convert_string_expressions:-digits = -5", YES),
    ("convert_string_expressions:digits BETWEEN 4 AND 6", YES),
    ("convert_string_expressions:digits NOT BETWEEN 4 AND 6", NO),
    ("convert_string_expressions:digits = '5'", YES),
    ("convert_string_expressions:digits = '5.0'", NO),
    ("convert_string_expressions:colour = 5", NO),
    ("convert_string_expressions:colour > 5", NO),
    ("convert_string_expressions:word = TRUE", YES),
    ("convert_string_expressions:colour = FALSE", YES),
    ("convert_string_expressions:missing = 5", UNKNOWN),
    ("convert_string_expressions:octets = 5", NO),
    ("digits + 1 = 6", UNKNOWN),
    # numbers
    ("size = 5.0", YES),
    ("weight = 2.5", YES),
    ("size > weight", YES),
    ("size >= 5 AND size <= 5", YES),
    ("size > 5 OR size < 5", NO),
    ("0x5 = size AND 05 = size AND 5L = size AND 5e0 = size", YES),
    ("-size = -5", YES),
    ("size + 1 = 6 AND size - 1 = 4 AND size * 2 = 10", YES),
    ("size-minus = 12", YES),
    ("a-b = 1", UNKNOWN),
    ("colour-b = 'red'", UNKNOWN),
    ("size / 2 = 2", YES),
    ("minus / 2 = -3", YES),
    ("size / -2 = -2", YES),
    ("size / 2.0 = 2.5", YES),
    ("minus % 2 = -1", YES),
    ("7 % -2 = 1", YES),
    ("minus % 2.0 = -1", YES),
    ("1/0 = 1", UNKNOWN),
    ("1 % zero = 0", UNKNOWN),
    ("1/0 IS NULL", YES),
    ("1.0/0 = infinite", YES),
    ("-1/0.0 < 0", YES),
    ("0.0/0 = 0", NO),
    ("5.0 % 0 = 0", NO),
    ("most + 1 = least", YES),
    ("-least = least", YES),
    ("least / -1 = least", YES),
    ("least = -9223372036854775808", YES),
    ("most * 2 = -2", YES),
    ("large = 9007199254740992.0", YES),
    ("nan = nan", NO),
    ("nan <> nan", YES),
    ("nan < 1 OR nan >= 1", NO),
    ("infinite % 2 = 0", NO),
    ("huge > 1.5", YES),
    ("huge + 0.5 = infinite", YES),
    ("colour + 1 = 1", UNKNOWN),
    ("yes + 1 = 2", UNKNOWN),
    ("-colour = 1", UNKNOWN),
    ("missing * 0 = 0", UNKNOWN),
    # BETWEEN
    ("size BETWEEN 5 AND 5", YES),
    ("size BETWEEN 6 AND 9", NO),
    ("size NOT BETWEEN 6 AND 9", YES),
    ("size BETWEEN 9 AND 6", NO),
    ("size BETWEEN missing AND 4", NO),
    ("size BETWEEN missing AND 9", UNKNOWN),
    ("size NOT BETWEEN 6 AND missing", YES),
    ("missing BETWEEN 1 AND 9", UNKNOWN),
    ("size BETWEEN weight AND weight * 2", YES),
    # LIKE
    ("colour LIKE 'r%'", YES),
    ("colour LIKE '%d'", YES),
    ("colour LIKE '%e%'", YES),
    ("colour LIKE 'r_d'", YES),
    ("colour LIKE 'r_'", NO),
    ("colour LIKE '%_%_%_%'", YES),
    ("colour LIKE '____'", NO),
    ("colour LIKE 'R%'", NO),
    ("colour LIKE ''", NO),
    ("colour NOT LIKE 'b%'", YES),
    ("lines LIKE 'one%two'", YES),
    ("lines LIKE 'one_two'", YES),
    ("lines LIKE '%one'", NO),
    ("colour LIKE '.*'", NO),
    ("colour LIKE 'r!%' ESCAPE '!'", NO),
    ("colour LIKE 'r%' ESCAPE '!'", YES),
    ("'a%b' LIKE 'a!%_' ESCAPE '!'", YES),
    ("'a_b' LIKE 'a!_b' ESCAPE '!'", YES),
    ("'axb' LIKE 'a!_b' ESCAPE '!'", NO),
    ("'a!b' LIKE 'a!!b' ESCAPE '!'", YES),
    ("'a!b' LIKE 'a!b' ESCAPE '!'", YES),
    ("'a%' LIKE 'a%%' ESCAPE '%'", YES),
    ("'ab' LIKE 'a%%' ESCAPE '%'", NO),
    ("size LIKE '5'", UNKNOWN),
    ("size NOT LIKE '5'", UNKNOWN),
    ("yes LIKE '%'", UNKNOWN),
    ("missing LIKE '%'", UNKNOWN),
    # IN
    ("colour IN ('blue', 'red')", YES),
    ("colour NOT IN ('blue', 'red')", NO),
    ("colour IN ('blue')", NO),
    ("quote IN ('it''s')", YES),
    ("size IN ('5')", UNKNOWN),
    ("size NOT IN ('5')", UNKNOWN),
    ("missing IN ('a')", UNKNOWN),
    ("missing NOT IN ('a')", UNKNOWN),
    # names
    ("'a-b' = 'a-b'", YES),
    ("'colour' = 'red'", NO),
    ("\"a-b\" = 'hyphen'", YES),
    ("hyphenated_props:a-b = 'hyphen'", YES),
    ("m.x = 1", YES),
    ("Colour IS NULL", YES),
    ("colour = 'red' -- AND size = 6", YES),
    ("colour /* = 'blue' */ = 'red'", YES),
    ("colour = '-- red'", NO),
    ("JMSPriority >= 4 AND JMSDeliveryMode = 'PERSISTENT'", YES),
    ("AMQDurable = 'DURABLE' AND AMQExpiration = 0", YES),
    # functions
    ("REGEX('^r.d$', colour)", YES),
    ("REGEX('e', colour)", YES),
    ("REGEX('^e', colour)", NO),
    ("REGEX('^5$', size)", YES),
    ("REGEX('true', yes)", YES),
    ("REGEX('a', missing)", UNKNOWN),
    ("REGEX('red', octets)", UNKNOWN),
    ("REPLACE(colour, 'r(e)(d)', '$2$1\\$') = 'de$'", YES),
    ("REPLACE('1,2/3', '[,/]', ';') = '1;2;3'", YES),
    ("REPLACE(missing, 'a', 'b') IS NULL", YES),
    ("REPLACE(size, '5', '6') = '6'", UNKNOWN),
    ("INLIST(SPLIT(list, ','), '3')", YES),
    ("INLIST(SPLIT(list, ','), '4')", NO),
    ("INLIST(SPLIT(list, ','), '')", YES),
    ("INLIST(SPLIT('a,,', ','), '')", NO),
    ("INLIST(SPLIT('a,,', ',', -1), '')", YES),
    ("INLIST(SPLIT('a,b,c', ',', 2), 'b,c')", YES),
    ("INLIST(SPLIT(list, ','), 3)", NO),
    ("convert_string_expressions:INLIST(SPLIT(list, ','), 3)", YES),
    ("INLIST(MAKELIST(1, 'red', weight), colour)", YES),
    ("INLIST(MAKELIST(1, 'red', weight), 2.5)", YES),
    ("INLIST(MAKELIST(), colour)", NO),
    ("INLIST(MAKELIST(missing), colour)", UNKNOWN),
    ("INLIST(MAKELIST(missing, 'red'), colour)", YES),
    ("INLIST(SPLIT(missing, ','), colour)", UNKNOWN),
    ("INLIST(MAKELIST('a'), missing)", UNKNOWN),
    # XPATH
    ("XPATH '//item[@size=3]'", YES),
    ("XPATH '//item[@size=4]'", NO),
    ("XPATH 'count(//item) = 1'", YES),
    ("XPATH '//item' AND colour = 'red'", YES),
    ("XPATH '//undeclared:item'", NO),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_the_verdict_on_an_order(text: str, expected: str) -> None:
    if text.startswith("hyphenated_props:"):
        assert compile_selector(text).matches(ORDER) == (expected == YES)
    else:
        assert verdict(text, ORDER) == expected
    normal = compile_selector(text).text
    assert compile_selector(normal).matches(ORDER) == (expected == YES)


# --- SQLite ---------------------------------------------------------------------------------------------------------

NUMBERS = ("i", "j", "k")
STRINGS = ("s", "t")
COLUMNS = NUMBERS + STRINGS
Pair = tuple[str, str]  # the same expression as a selector and as SQL

ROWS = st.fixed_dictionaries(
    {name: st.none() | st.integers(-20, 20) for name in NUMBERS}
    | {name: st.none() | st.text("ab%_!'", max_size=5) for name in STRINGS}
)
LIKE_PIECES = st.lists(st.sampled_from(["%", "_", "a", "b", "''", "!%", "!_", "!!"]), max_size=6).map("".join)


def _both(form: str, *parts: Pair) -> Pair:
    return form.format(*(part[0] for part in parts)), form.format(*(part[1] for part in parts))


def _same(text: str) -> Pair:
    return text, text


NUMBER: st.SearchStrategy[Pair] = st.recursive(
    st.sampled_from(NUMBERS).map(_same) | st.integers(0, 20).map(lambda n: (f"0x{n:X}" if n % 3 else str(n), str(n))),
    lambda inner: st.one_of(
        st.builds(lambda sign, a, b: _both(f"({{}} {sign} {{}})", a, b), st.sampled_from("+-*/%"), inner, inner),
        inner.map(lambda a: _both("(- {})", a)),
    ),
    max_leaves=6,
)
STRING: st.SearchStrategy[Pair] = st.sampled_from(STRINGS).map(_same) | st.text("ab%_!'", max_size=3).map(
    lambda text: _same("'" + text.replace("'", "''") + "'")
)
COMPARISON = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
CHOICES = st.lists(st.sampled_from(["'a'", "'b'", "'ab'", "''''"]), min_size=1, max_size=6)
NEGATION = st.sampled_from(["", "NOT "])
ATOM: st.SearchStrategy[Pair] = st.one_of(
    st.builds(lambda sign, a, b: _both(f"({{}} {sign} {{}})", a, b), COMPARISON, NUMBER, NUMBER),
    st.builds(lambda sign, a, b: _both(f"({{}} {sign} {{}})", a, b), st.sampled_from(["=", "<>"]), STRING, STRING),
    st.builds(lambda word, a: _both(f"({{}} IS {word}NULL)", a), NEGATION, NUMBER | STRING),
    st.builds(
        lambda word, a, low, high: _both(f"({{}} {word}BETWEEN {{}} AND {{}})", a, low, high),
        NEGATION, NUMBER, NUMBER, NUMBER,
    ),
    st.builds(lambda word, a, p: _both(f"({{}} {word}LIKE '{p}' ESCAPE '!')", a), NEGATION, STRING, LIKE_PIECES),
    st.builds(lambda word, a: _both(f"({{}} {word}LIKE 'a_%b%')", a), NEGATION, STRING),
    st.builds(
        lambda word, name, choices: _same(f"({name} {word}IN ({', '.join(choices)}))"),
        NEGATION, st.sampled_from(STRINGS), CHOICES,
    ),
    st.sampled_from(["TRUE", "FALSE"]).map(_same),
    st.just(_same("NULL")),
)  # fmt: skip
CONDITION: st.SearchStrategy[Pair] = st.recursive(
    ATOM,
    lambda inner: st.one_of(
        st.builds(lambda word, a, b: _both(f"({{}} {word} {{}})", a, b), st.sampled_from(["AND", "or"]), inner, inner),
        inner.map(lambda a: _both("(NOT {})", a)),
        inner.map(lambda a: _both("({} IS NOT NULL)", a)),
    ),
    max_leaves=8,
)
# Without parentheses, where selectors and SQLite agree about precedence.
FLAT_NUMBER = st.lists(st.sampled_from(["i", "j", "k", "3", "7"]), min_size=1, max_size=4).flatmap(
    lambda names: st.lists(st.sampled_from("+-*/%"), min_size=len(names), max_size=len(names)).map(
        lambda signs: " ".join(part for pair in zip(signs, names, strict=True) for part in pair)[2:]
    )
)
FLAT_ATOM = st.one_of(
    st.builds("{} {} {}".format, FLAT_NUMBER, COMPARISON, FLAT_NUMBER),
    st.builds("{} BETWEEN {} AND {}".format, FLAT_NUMBER, FLAT_NUMBER, FLAT_NUMBER),
    st.builds("{} IS NULL".format, FLAT_NUMBER),
    st.just("s NOT LIKE '%a%'"),
)
FLAT = st.lists(st.tuples(st.sampled_from(["AND", "OR"]), FLAT_ATOM), min_size=1, max_size=5).map(
    lambda parts: _same(" ".join(f"{word} {atom}" for word, atom in parts).split(" ", 1)[1])
)

DATABASE = sqlite3.connect(":memory:")
DATABASE.execute("PRAGMA case_sensitive_like = ON")


def sqlite_verdict(sql: str, row: dict[str, Value]) -> str:
    columns = ", ".join(f":{name} AS {name}" for name in COLUMNS)
    (answer,) = DATABASE.execute(f"SELECT ({sql}) FROM (SELECT {columns})", row).fetchone()
    return UNKNOWN if answer is None else YES if answer else NO


@settings(max_examples=400, deadline=None)
@given(CONDITION | FLAT, ROWS)
def test_sqlite_gives_the_same_verdict(pair: Pair, row: dict[str, Value]) -> None:
    text, sql = pair
    expected = sqlite_verdict(sql, row)
    assert verdict(text, Row(row)) == expected
    assert verdict(compile_selector(text).text, Row(row)) == expected


@settings(max_examples=300, deadline=None)
@given(LIKE_PIECES, st.text("ab%_!'", max_size=8))
def test_sqlite_finds_the_same_texts_like_a_pattern(pattern: str, text: str) -> None:
    pattern = pattern.replace("''", "'")
    (answer,) = DATABASE.execute("SELECT ? LIKE ? ESCAPE '!'", (text, pattern)).fetchone()
    assert LikePattern(pattern, "!").covers(text) == bool(answer)


# --- what a predicate is ----------------------------------------------------------------------------------------------


def test_names_are_what_it_reads_each_once_in_their_order() -> None:
    assert compile_selector("b = 1 AND a LIKE 'x' OR b IN ('y') OR \"c d\" IS NULL").names == ("b", "a", "c d")
    assert compile_selector("XPATH '//a' OR REGEX('x', z)").names == (BODY_FACT, "z")
    assert compile_selector("1 = 1").names == ()


@pytest.mark.parametrize(("text", "_expected"), TABLE)
def test_nothing_is_asked_that_is_not_among_the_names(text: str, _expected: str) -> None:
    subject = Row(ORDER.facts)
    predicate = compile_selector(text)
    predicate.matches(subject)
    assert set(subject.asked) <= set(predicate.names)


def test_a_decided_verdict_asks_no_further() -> None:
    subject = Row({"a": 1, "b": 2})
    assert not compile_selector("a = 2 AND b = 2").matches(subject)
    assert compile_selector("a = 1 OR b = 1").matches(subject)
    assert subject.asked == ["a", "a"]


def test_the_same_text_gives_the_same_predicate() -> None:
    assert compile_selector("a = 'cached'") is compile_selector("a = 'cached'")
    assert CACHE_SIZE >= 100


def test_a_conversion_is_part_of_the_identity_of_a_predicate() -> None:
    plain, converting = compile_selector("digits = 5"), compile_selector("convert_string_expressions:digits = 5")
    assert (plain.matches(ORDER), converting.matches(ORDER)) == (False, True)
    assert plain.text != converting.text


@pytest.mark.parametrize("text", ["", " ", "\t-- only a comment"])
def test_a_blank_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        compile_selector(text)


@pytest.mark.parametrize(
    "text",
    [
        "REGEX('(', a)",
        "REGEX('\\p{Alpha}', a)",
        "REGEX('(?L)a', a)",
        "REGEX(a, 'b')",
        "REGEX('(a+)+b', a)",
        "REGEX('(a|aa)*b', a)",
        "REGEX('((a?))*b', a)",
        "REGEX('(?:x+){2,}b', a)",
        "REGEX('(a+)?+{3}', a)",
        "REGEX('(a+){1,9999999}b', a)",
        "REGEX('(?x)(a+) +b', a)",
        "REGEX('(?ix:(a+) +b)', a)",
        "REGEX('(a+)(?#c)+b', a)",
        "REGEX('(.)\\1', a)",
        "REGEX('(?P<n>.)(?P=n)', a)",
        "REGEX('(a)?(?(1)b|c)', a)",
        "REGEX('" + ".*x" * 9 + "', a)",
        "REGEX('" + "x?" * 30 + "', a)",
        "REGEX('" + "(x|x)" * 30 + "', a)",
        "REGEX('" + "x{0,16}" * 9 + "', a)",
        "REGEX('x{,99999}x{,99999}', a)",
        "REGEX('" + "(" * 600 + ")" * 600 + "', a)",
        "REGEX('" + "a" * 1025 + "', a)",
        "REPLACE(a, 'b', '$1') = 'c'",
        "REPLACE(a, 'b', '$') = 'c'",
        "REPLACE(a, 'b', '\\') = 'c'",
        "REPLACE(a, b, 'c') = 'c'",
        "INLIST(SPLIT(a, b), 'c')",
        "INLIST(SPLIT(a, ',', b), 'c')",
        "INLIST(SPLIT(a, ',', TRUE), 'c')",
        "XPATH '//['",
        "XPATH 'a) or (b'",
        "XPATH ''",
    ],
)
def test_what_cannot_be_compiled_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        compile_selector(text)


@pytest.mark.parametrize(
    "pattern", ["^(red|blue)$", "[(*+]+x", "a{2,3}(b){2}", "\\(a+\\)+", "(?i)RED", "x{,y", "[]*]+[^]+]*"]
)
def test_harmless_expressions_are_admitted(pattern: str) -> None:
    compile_selector(f"REGEX('{pattern}', a)").matches(ORDER)


COSTLY = ["x+y", "(?:x|x)(?:x|x)x*y", ".*x.*y", ".*x.*x.*y", "x?x?x?x?x*x*y", "x{0,9}x{0,9}x*y", "x{,9999999}x*y"]


@pytest.mark.parametrize("pattern", COSTLY)
def test_no_text_makes_an_expression_stall_the_broker(pattern: str) -> None:
    expression = compile_regex(pattern)
    assert expression.characters_max >= TEXT_CHARACTERS_MIN
    start = time.perf_counter()
    assert expression.pattern.search("x" * expression.characters_max) is None
    assert time.perf_counter() - start < 5  # a tenth of a second on an idle machine


def test_a_text_too_long_for_the_cost_of_an_expression_is_unknown() -> None:
    longest = compile_regex("x.*x.*y").characters_max
    fits, exceeds = Row({"a": "xxy".ljust(longest)}), Row({"a": "xxy".ljust(longest + 1)})
    assert (verdict("REGEX('x.*x.*y', a)", fits), verdict("REGEX('x.*x.*y', a)", exceeds)) == (YES, UNKNOWN)
    assert verdict("REPLACE(a, 'x.*x.*y', '') IS NULL", exceeds) == YES
    assert verdict("INLIST(SPLIT(a, 'x.*x.*y'), 'q')", exceeds) == UNKNOWN


def test_a_pattern_of_like_cannot_stall_the_broker() -> None:
    hard = compile_selector("a LIKE '" + "%a" * 40 + "b'")
    start = time.perf_counter()
    assert not hard.matches(Row({"a": "a" * 4000}))
    assert time.perf_counter() - start < 5  # a backtracking matcher would need longer than the universe is old


# --- XPATH ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<a><b/></a>", YES),
        (b"<a><b/></a>", YES),
        ("<?xml version='1.0' encoding='ISO-8859-1'?><a><b>\u20ac</b></a>", YES),
        ("<?xml version='1.0' encoding='ISO-8859-1'?><a><b>\xe9</b></a>".encode("latin-1"), YES),
        ("<a/>", NO),
        ("no xml", NO),
        ("<a><b></a>", NO),
        ("", NO),
        (b"", NO),
        ("\ud800", NO),
        ("<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/hostname'>]><a><b>&x;</b></a>", NO),
        ("<!DOCTYPE a [<!ENTITY x 'y'><!ENTITY z '&x;&x;'>]><a><b>&z;</b></a>", NO),
        (None, UNKNOWN),
        (5, UNKNOWN),
    ],
)
def test_a_path_is_asked_of_a_body(body: Value, expected: str) -> None:
    assert verdict("XPATH '/a/b'", Row({BODY_FACT: body})) == expected


def test_without_lxml_a_path_is_refused_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(xpath.importlib, "import_module", absent)
    with pytest.raises(InvalidSelector, match="lxml"):
        compile_selector("XPATH '/only/here'")
