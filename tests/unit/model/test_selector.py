"""What is in the grammar of selectors, what a text means as a tree, and where the limits are."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.base.errors import InvalidSelector
from entrepot.model.selector import HEIGHT_MAX, TERMS_MAX, TEXT_CHARACTERS_MAX, parse_selector
from entrepot.model.syntax import Among, Binary, Call, Identifier, IsNull, Junction, Like, Literal, Unary, XPath, render
from fuzz.fuzz_selector import fuzz

A, B, C = Identifier("a"), Identifier("b"), Identifier("c")
ONE, TWO = Literal(1), Literal(2)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a OR b AND c", Junction("OR", (A, Junction("AND", (B, C))))),
        ("a OR b OR c", Junction("OR", (A, B, C))),
        ("(a OR b) AND c", Junction("AND", (Junction("OR", (A, B)), C))),
        ("NOT a AND b", Junction("AND", (Unary("NOT", A), B))),
        # NOT takes the comparison and not the property (SQL-92, JMS 3.8.1.1; unlike classic 4.9).
        ("NOT a = 'x'", Unary("NOT", Binary("=", A, Literal("x")))),
        ("NOT a = 'x' AND b", Junction("AND", (Unary("NOT", Binary("=", A, Literal("x"))), B))),
        ("NOT (a = 'x')", Unary("NOT", Binary("=", A, Literal("x")))),
        ("NOT a IS NULL", Unary("NOT", IsNull(A, False))),
        ("a = b < c", Binary("=", A, Binary("<", B, C))),
        ("a = b = c", Binary("=", Binary("=", A, B), C)),
        ("a - b - c = 1", Binary("=", Binary("-", Binary("-", A, B), C), ONE)),
        ("a - b * c = 1", Binary("=", Binary("-", A, Binary("*", B, C)), ONE)),
        ("a / b % c = 1", Binary("=", Binary("%", Binary("/", A, B), C), ONE)),
        ("-a * b = 1", Binary("=", Binary("*", Unary("-", A), B), ONE)),
        ("+a = +1", Binary("=", A, ONE)),
        ("a-b = 1", Binary("=", Binary("-", A, B), ONE)),
        ("a -1 = 2", Binary("=", Binary("-", A, ONE), TWO)),
        ("a IS NOT NULL = b", Binary("=", IsNull(A, True), B)),
        ("a LIKE 'x%' ESCAPE '\\'", Like(A, "x%", "\\", False)),
        ("a not like 'it''s'", Like(A, "it's", "", True)),
        ("a IN ('x','y''z')", Among(A, ("x", "y'z"), False)),
        ("XPath '//a[@b=''c'']'", XPath("//a[@b='c']")),
        ("regex('x', a)", Call("REGEX", (Literal("x"), A))),
        ("$a_1 = _b$", Binary("=", Identifier("$a_1"), Identifier("_b$"))),
        ("m.colour = b", Binary("=", Identifier("m.colour"), B)),
        ('"a-b" = b', Binary("=", Identifier("a-b"), B)),
        ('"say ""hi""" = b', Binary("=", Identifier('say "hi"'), B)),
        ("hyphenated_props:a-b = b", Binary("=", Identifier("a-b"), B)),
        ("a /* one */ = -- two\n b", Binary("=", A, B)),
        ("a = b -- the end", Binary("=", A, B)),
        ("a = /* ** / * */ b", Binary("=", A, B)),
        ("a\t=\r\n\f b", Binary("=", A, B)),
        # Two signs without a blank begin a comment.
        ("a--1 = 2\n= b", Binary("=", A, B)),
    ],
)
def test_a_text_means_this_tree(text: str, tree: object) -> None:
    assert parse_selector(text).tree == tree


@pytest.mark.parametrize(
    ("image", "value"),
    [
        ("0", 0),
        ("17", 17),
        ("17L", 17),
        ("17l", 17),
        ("0x1F", 31),
        ("0Xff", 255),
        ("017", 15),
        ("00", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0777777777777777777777", 2**63 - 1),
        ("5.", 5.0),
        (".5", 0.5),
        ("5E3", 5000.0),
        ("5.5e-1", 0.55),
        ("08.5", 8.5),
        ("-7.25", -7.25),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("''", ""),
        ("tRue", True),
        ("FALSE", False),
    ],
)
def test_a_literal_has_this_value_and_type(image: str, value: object) -> None:
    tree = parse_selector(f"a = {image}").tree
    assert isinstance(tree, Binary)
    assert isinstance(tree.right, Literal)
    assert tree.right.value == value
    assert type(tree.right.value) is type(value)


@pytest.mark.parametrize("keyword", ["and", "And", "AND", "aND"])
def test_keywords_are_read_in_any_case(keyword: str) -> None:
    assert parse_selector(f"a {keyword} b").tree == Junction("AND", (A, B))


@pytest.mark.parametrize(
    ("text", "position", "wanted"),
    [
        ("", 1, "an expression"),
        ("  \n", 4, "an expression"),
        ("-- nothing", 11, "an expression"),
        ("convert_string_expressions:", 28, "an expression"),
        ("a =", 4, "an operand"),
        ("a = NULL", 5, "IS NULL"),
        ("NULL <> a", 1, "IS NULL"),
        ("a IS 5", 6, "NULL"),
        ("a.b = 1", 2, "a dot is no part of a name"),
        ("a = 1 b", 7, "an operator or the end"),
        ("a = 1)", 6, "an operator or the end"),
        ("a IS NULL LIKE 'x'", 11, "an operator or the end"),
        ("(a = 1", 7, "')'"),
        ("a == 1", 4, "an operand"),
        ("a != 1", 3, "an operand or operator"),
        ("a = 'x", 5, "the closing '"),
        ("a /* b", 3, "the closing */"),
        ('"" = 1', 1, "a name"),
        ("a = 09", 6, "an operator or the end"),
        ("a = 9223372036854775808", 5, "64 bits"),
        ("a = " + "9" * 6000, 5, "64 bits"),
        ("a = 1e999", 5, "double"),
        ("5", 1, "a condition"),
        ("'x'", 1, "a condition"),
        ("a + 1", 1, "a condition"),
        ("NOT 5", 5, "a condition"),
        ("a AND 'x'", 7, "a condition"),
        ("a > 'x'", 5, "a number"),
        ("a > TRUE", 5, "a number"),
        ("a BETWEEN 'x' AND 'y'", 11, "a number"),
        ("a + 'x' = 1", 5, "a number"),
        ("-'x' = 1", 2, "a number"),
        ("a LIKE b", 8, "a string in quotes after LIKE"),
        ("a LIKE 5", 8, "a string in quotes after LIKE"),
        ("a LIKE 'x' ESCAPE 'yz'", 19, "one character"),
        ("a LIKE 'x' ESCAPE ''", 19, "one character"),
        ("a IN ()", 7, "a string in quotes"),
        ("a IN (1, 2)", 7, "a string in quotes"),
        ("a IN ('x'", 10, "')'"),
        ("5 IN ('x')", 1, "a property name"),
        ("a NOT = 5", 7, "LIKE, IN or BETWEEN"),
        ("a BETWEEN 1 OR 2", 13, "AND"),
        ("XQUERY 'x'", 1, "XQUERY is not supported"),
        ("XPATH a", 7, "a string in quotes after XPATH"),
        ("LENGTH(a) = 1", 1, "one of the functions"),
        ("REGEX('a') ", 1, "2 arguments of REGEX"),
        ("SPLIT('a', 'b') = a", 1, "a list may only be"),
        ("INLIST('1,2', '1')", 1, "MAKELIST(…) or SPLIT(…)"),
        ("REPLACE('a', 'b', 'c')", 1, "a condition"),
        ("and = 1", 1, "an operand"),
        ("é = 1", 1, "an operand"),
    ],
)
def test_what_is_outside_the_grammar_is_refused_with_place_and_expectation(
    text: str, position: int, wanted: str
) -> None:
    with pytest.raises(InvalidSelector) as refusal:
        parse_selector(text)
    assert f"character {position}: expected" in refusal.value.message
    assert wanted in refusal.value.message


def test_positions_count_from_the_start_of_the_whole_text() -> None:
    with pytest.raises(InvalidSelector, match="character 32:"):
        parse_selector("convert_string_expressions:a = ")


@pytest.mark.parametrize(
    "text",
    ["hyphenated_props:convert_string_expressions:a-b = 1", "convert_string_expressions:hyphenated_props:a-b = 1"],
)
def test_both_prefixes_may_stand_together(text: str) -> None:
    selector = parse_selector(text)
    assert selector.convert
    assert selector.text == 'convert_string_expressions:"a-b" = 1'


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("((a) = (1))and(b)", "a = 1 AND b"),
        ("a-(b-c)=1", "a - (b - c) = 1"),
        ("(a-b)-c=1", "a - b - c = 1"),
        ("- -a = 1", "-(-a) = 1"),
        ("a- -1=0x10", "a - -1 = 16"),
        ("not not a", "NOT NOT a"),
        ("not (a or b)", "NOT (a OR b)"),
        ("(a or b) or c", "(a OR b) OR c"),
        ('"and" is null', '"and" IS NULL'),
        ("a not between 1 and 2+3", "a NOT BETWEEN 1 AND 2 + 3"),
        ("split is null or inlist(makelist('a',1.50),b)", "split IS NULL OR INLIST(MAKELIST('a', 1.5), b)"),
        ("-(-9223372036854775808) = a", "-(-9223372036854775808) = a"),
    ],
)
def test_the_normal_form_is_the_shortest_text_of_the_tree(text: str, normal: str) -> None:
    assert parse_selector(text).text == normal
    assert parse_selector(normal).tree == parse_selector(text).tree


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("NOT ", ""),
        ("- ", ""),
        ("+ ", ""),
        ("REGEX('x', ", ")"),
        ("a = (", ")"),
        ("0 < -(", ")"),
        ("a OR (", ")"),
    ],
)
def test_nesting_has_a_limit_that_no_recursion_limit_precedes(opening: str, closing: str) -> None:
    for depth in (HEIGHT_MAX, 1000, TEXT_CHARACTERS_MAX // 12):
        with pytest.raises(InvalidSelector):
            parse_selector(opening * depth + "a" + closing * depth)


def test_the_deepest_tree_that_is_admitted_needs_few_frames() -> None:
    text = "a = 1"
    while True:
        try:
            deepest = parse_selector(text)
        except InvalidSelector:
            break
        text = f"(b OR NOT ({text}))"
    before = sys.getrecursionlimit()
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]
    sys.setrecursionlimit(used + 500)
    try:
        assert parse_selector(render(deepest.tree)) == deepest
    finally:
        sys.setrecursionlimit(before)


def test_a_chain_of_sums_counts_as_nesting_and_one_of_conditions_does_not() -> None:
    assert parse_selector("a = 1" + " OR a = 1" * 1000)
    assert parse_selector("a" + " + a" * (HEIGHT_MAX - 2) + " = 1")
    with pytest.raises(InvalidSelector, match=f"no more than {HEIGHT_MAX} levels"):
        parse_selector("a" + " + a" * (HEIGHT_MAX - 1) + " = 1")


def test_the_number_of_operands_has_a_limit() -> None:
    assert parse_selector("a IN (" + ",".join(["'x'"] * (TERMS_MAX - 1)) + ")")
    with pytest.raises(InvalidSelector, match=f"no more than {TERMS_MAX} operands"):
        parse_selector("a IN (" + ",".join(["'x'"] * TERMS_MAX) + ")")


def test_the_length_of_the_text_has_a_limit() -> None:
    text = "a = 1".ljust(TEXT_CHARACTERS_MAX)
    assert parse_selector(text).text == "a = 1"
    with pytest.raises(InvalidSelector, match=f"limit is {TEXT_CHARACTERS_MAX}"):
        parse_selector(text + " ")


SCRAPS = """
a b c d e f g h i j JMSXBody m.x = <> < <= > >= + - * / % ( ) , AND OR NOT IS NULL LIKE ESCAPE IN BETWEEN TRUE FALSE
'red' '%e_' '!' '' '[a-c]+' ',' '$1' '//item' 0 1 017 0x1F 2.5 .5e1 9223372036854775807 9223372036854775808 5L
INLIST MAKELIST REGEX REPLACE SPLIT XPATH XQUERY -- /* */ . ' " !
"""
PIECES = SCRAPS.split()
OPERANDS = st.sampled_from(["a", "b", "c", "d", "e", "g", "1", "2.5", "-3", "'red'", "TRUE", "REPLACE(c, 'r', '$0')"])
SIGNS = "= <> < <= > >= + - * / % AND OR".split()  # noqa: SIM905
TAILS = ["IS NULL", "LIKE '%e_'", "IN ('x', 'red')", "NOT LIKE '!' ESCAPE '!'"]


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts that are often, not always, in the grammar."""
    return st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(SIGNS), inner),
        st.builds("({})".format, inner),
        st.builds("{} {}".format, st.sampled_from(["NOT", "-", "+"]), inner),
        st.builds("{} {}".format, inner, st.sampled_from(TAILS)),
        st.builds("{} NOT BETWEEN {} AND {}".format, inner, inner, inner),
        st.builds("REGEX('[0-9e]', {})".format, inner),
        st.builds("INLIST(MAKELIST({}, {}), {})".format, inner, inner, inner),
    )


TEXTS = st.recursive(OPERANDS, _combined, max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=80),
        st.text(max_size=40).map(str.encode),
        st.lists(st.sampled_from(PIECES), max_size=14).map(lambda pieces: " ".join(pieces).encode()),
        st.recursive(OPERANDS, _combined, max_leaves=12).map(str.encode),
        st.recursive(OPERANDS, _combined, max_leaves=12).map(
            lambda text: b"convert_string_expressions:" + text.encode()
        ),
    )
)
def test_nothing_but_a_refusal_comes_from_any_text(data: bytes) -> None:
    with suppress(InvalidSelector):
        fuzz(data)
