"""Wildcards: the rules of both families by example, and against definitions that are slow and obviously right."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from entrepot.base.errors import Inexpressible, InvalidDestination, InvalidOption
from entrepot.base.patterns import (
    ARTEMIS,
    CLASSIC,
    MIXED,
    MQTT,
    NAME_LENGTH_MAX,
    WORDS_MAX,
    PatternTrie,
    Syntax,
    covers,
    is_pattern,
    matches,
    overlaps,
    specificity,
    translate,
)


def expression(pattern: str, syntax: Syntax) -> re.Pattern[str]:
    """The same pattern as a regular expression over names of which every word is preceded by the delimiter."""
    delimiter = re.escape(syntax.delimiter)
    word = f"{delimiter}[^{delimiter}]*"
    parts = []
    for text in pattern.split(syntax.delimiter):
        if text == syntax.single:
            parts.append(f"(?:{word})")
        elif len(text) == 1 and text in syntax.any_words:
            parts.append(f"(?:{word})*")
        else:
            parts.append(delimiter + re.escape(text))
    return re.compile("".join(parts), re.DOTALL)


def words(alphabet: str, delimiter: str = ".", most: int = 5) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(alphabet), min_size=1, max_size=most).map(delimiter.join)


mixed_patterns = words("ab*#>")


@pytest.mark.parametrize(
    ("pattern", "name", "verdict"),
    [
        ("A.>", "A", True),
        ("A.>", "A.B", True),
        ("A.>", "A.B.C", True),
        ("A.>", "AB", False),
        (">", "A", True),
        (">", "", True),
        ("A.*", "A.B", True),
        ("A.*", "A", False),
        ("A.*", "A.B.C", False),
        ("*.B", "A.B", True),
        ("A.*", "A.", True),
        ("A.B*", "A.BC", False),
        ("A.B*", "A.B*", True),
        ("a.b", "A.B", False),
        ("A.>", "A.>", True),
        ("*.A.>", "x.A", True),
        ("A.#", "A.B", False),
    ],
)
def test_classic_wildcards(pattern: str, name: str, verdict: bool) -> None:
    assert matches(pattern, name, CLASSIC) is verdict


@pytest.mark.parametrize(
    ("pattern", "name", "verdict"),
    [
        ("news.#", "news", True),
        ("news.#", "news.europe.sport", True),
        ("news.#", "newspaper", False),
        ("news.*", "news.europe", True),
        ("news.*", "news.europe.sport", False),
        ("news.*.sport", "news.europe.sport", True),
        ("#.sport", "sport", True),
        ("#.sport", "news.europe.sport", True),
        ("a.#.b.#.c", "a.b.x.b.c", True),
        ("a.#.b.#.c", "a.c", False),
        ("a.>", "a.b", False),
    ],
)
def test_artemis_wildcards(pattern: str, name: str, verdict: bool) -> None:
    assert matches(pattern, name, ARTEMIS) is verdict


def test_delimiter_and_symbols_are_configurable() -> None:
    syntax = Syntax("/", "?", "~")
    assert matches("a/?/~", "a/b", syntax)
    assert not matches("a/?/~", "a", syntax)
    assert not is_pattern("a.*.#", syntax)
    assert syntax == Syntax("/", "?", "~")
    assert hash(syntax) == hash(Syntax("/", "?", "~"))
    assert syntax != ARTEMIS


@pytest.mark.parametrize(
    "symbols", [("", "*", "#"), (".", "**", "#"), (".", "*", ""), (".", ".", "#"), (".", "*", "#*")]
)
def test_symbols_that_cannot_be_told_apart_are_refused(symbols: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidOption):
        Syntax(*symbols)


@pytest.mark.parametrize(
    ("name", "verdict"), [("A.B", False), ("A.*", True), (">", True), ("A*.B", False), ("A.#", False), ("", False)]
)
def test_a_pattern_has_a_whole_word_wildcard(name: str, verdict: bool) -> None:
    assert is_pattern(name, CLASSIC) is verdict


@given(mixed_patterns, words("ab*#>"))
def test_matching_agrees_with_regular_expressions(pattern: str, name: str) -> None:
    assert matches(pattern, name, MIXED) == bool(expression(pattern, MIXED).fullmatch("." + name))


@example("#>", "")
@given(st.text("ab.*#>", max_size=12), st.text("ab.", max_size=12))
def test_empty_words_and_long_words_agree_too(pattern: str, name: str) -> None:
    assert matches(pattern, name, MIXED) == bool(expression(pattern, MIXED).fullmatch("." + name))


def test_hostile_names_are_refused_by_everything() -> None:
    trie: PatternTrie[int] = PatternTrie(CLASSIC)
    trie.insert("A.>", 1)
    for name in (".".join(["a"] * (WORDS_MAX + 1)), "a" * (NAME_LENGTH_MAX + 1)):
        for attempt in (
            lambda name=name: is_pattern(name, CLASSIC),
            lambda name=name: matches("A.>", name, CLASSIC),
            lambda name=name: matches(name, "A", CLASSIC),
            lambda name=name: overlaps("A", name, CLASSIC),
            lambda name=name: translate(name, CLASSIC, ARTEMIS),
            lambda name=name: specificity(name, CLASSIC),
            lambda name=name: trie.lookup(name),
            lambda name=name: trie.insert(name, 2),
        ):
            with pytest.raises(InvalidDestination):
                attempt()
    assert len(trie) == 1


def test_names_at_the_limits_are_served() -> None:
    assert matches("a.>", ".".join(["a"] * WORDS_MAX), CLASSIC)
    assert matches("*", "a" * NAME_LENGTH_MAX, CLASSIC)


def test_hostile_pattern_costs_no_exponential_time() -> None:
    pattern = ".".join(["#", "a"] * 60)
    name = ".".join(["a"] * 200) + ".b"
    assert not matches(pattern, name, ARTEMIS)
    trie: PatternTrie[int] = PatternTrie(ARTEMIS)
    trie.insert(pattern, 1)
    assert trie.lookup(name) == []
    assert trie.lookup(name[:-2]) == [1]


@pytest.mark.parametrize(
    ("source", "target", "name", "translated"),
    [
        (CLASSIC, ARTEMIS, "A.>", "A.#"),
        (CLASSIC, ARTEMIS, "A.*.B", "A.*.B"),
        (CLASSIC, ARTEMIS, "A.#", "A.>"),
        (CLASSIC, ARTEMIS, "order#1.x", "order#1.x"),
        (MQTT, CLASSIC, "a/+/#", "a.*.>"),
        (MQTT, CLASSIC, "a.b/c", "a/b.c"),
        (MQTT, CLASSIC, "a/*/>", "a.+.#"),
        (MQTT, ARTEMIS, "$share/a/#", "$share.a.#"),
        (CLASSIC, MIXED, "A.>", "A.#"),
        (MIXED, CLASSIC, "A.>.#", "A.>.>"),
    ],
)
def test_translation(source: Syntax, target: Syntax, name: str, translated: str) -> None:
    assert translate(name, source, target) == translated


def test_a_literal_without_a_form_in_the_target_is_not_made_a_wildcard() -> None:
    with pytest.raises(Inexpressible):
        translate("A.>", ARTEMIS, MIXED)


SYNTAXES = [CLASSIC, ARTEMIS, MQTT, Syntax("*", "/", "+"), Syntax("#", ".", "*"), Syntax(":", "?", "~")]


@example(CLASSIC, Syntax("*", "/", "+"), "/")
@given(st.sampled_from(SYNTAXES), st.sampled_from(SYNTAXES), st.text("ab./*+#>:?~", max_size=12))
def test_translating_back_gives_the_original(source: Syntax, target: Syntax, name: str) -> None:
    there = translate(name, source, target)
    assert translate(there, target, source) == name
    assert is_pattern(there, target) == is_pattern(name, source)


@given(st.sampled_from(SYNTAXES), st.sampled_from(SYNTAXES), st.data())
def test_translated_patterns_match_the_translated_names(source: Syntax, target: Syntax, data: st.DataObject) -> None:
    symbols = source.single + source.any_words
    pattern = data.draw(words("ab" + symbols, source.delimiter))
    name = data.draw(words("ab./*+#>".replace(source.delimiter, ""), source.delimiter))
    assert matches(pattern, name, source) == matches(
        translate(pattern, source, target), translate(name, source, target), target
    )


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [("A.*", "*.B", True), ("A.>", "A", True), ("A.*", "A.B.C", False), ("A.>", "B.>", False), (">.x", "y.>", True)],
)
def test_overlap_examples(a: str, b: str, verdict: bool) -> None:
    assert overlaps(a, b, CLASSIC) is verdict


@given(words("ab*#", most=3), words("ab*#", most=3))
def test_overlap_agrees_with_trying_every_name(a: str, b: str) -> None:
    """Six words are enough for a common name of two patterns with three words each."""
    every = [".".join(name) for n in range(1, 7) for name in itertools.product("ab", repeat=n)]
    common = any(matches(a, name, ARTEMIS) and matches(b, name, ARTEMIS) for name in every)
    assert overlaps(a, b, ARTEMIS) == common
    assert overlaps(b, a, ARTEMIS) == common


def test_specificity_orders_as_address_settings_merge() -> None:
    ranked = ["#", "*.#", "a.#", "a.*.#", "a.b.#", "*", "*.b", "a.*", "a.b"]
    assert sorted(sorted(ranked), key=lambda pattern: specificity(pattern, ARTEMIS)) == ranked


@given(words("ab*#", most=4), words("ab*#", most=4))
def test_a_narrower_pattern_is_more_specific(a: str, b: str) -> None:
    """Names over the letters of the patterns and a fresh one stand for all names."""
    every = [".".join(name) for n in range(1, 6) for name in itertools.product("abz", repeat=n)]
    left = {name for name in every if matches(a, name, ARTEMIS)}
    right = {name for name in every if matches(b, name, ARTEMIS)}
    if left < right:
        assert specificity(a, ARTEMIS) > specificity(b, ARTEMIS)


def test_trie_returns_in_order_of_insertion() -> None:
    trie: PatternTrie[str] = PatternTrie(MIXED)
    for pattern in ("a.#", "a.b", "#", "a.*", "x.y", "*.b", "a.>", "a.b"):
        trie.insert(pattern, pattern)
    assert trie.lookup("a.b") == ["a.#", "a.b", "#", "a.*", "*.b", "a.>", "a.b"]
    assert trie.lookup_ranked("a.b") == ["#", "a.#", "a.>", "*.b", "a.*", "a.b", "a.b"]
    assert trie.lookup("x.y") == ["#", "x.y"]
    assert [pattern for pattern, _ in trie.items()] == ["a.#", "a.b", "#", "a.*", "x.y", "*.b", "a.>", "a.b"]


def test_version_rises_at_each_change_and_only_then() -> None:
    trie: PatternTrie[int] = PatternTrie(CLASSIC)
    assert trie.version == 0
    trie.insert("a.>", 1)
    trie.insert("a", 1)
    assert trie.version == 2
    assert not trie.remove("a.>", 2)
    assert not trie.remove("a.*", 1)
    assert not trie.remove("b", 1)
    assert trie.lookup("a") == [1, 1]
    assert trie.version == 2
    assert trie.remove("a.>", 1)
    assert trie.version == 3
    assert trie.lookup("a") == [1]
    assert len(trie) == 1


def test_a_literal_entry_may_look_like_a_pattern() -> None:
    trie: PatternTrie[str] = PatternTrie(ARTEMIS)
    trie.insert("a.#", "pattern")
    trie.insert("a.#", "literal", literal=True)
    assert trie.lookup("a.b") == ["pattern"]
    assert trie.lookup_ranked("a.#") == ["pattern", "literal"]
    assert not trie.remove("a.#", "literal")
    assert trie.remove("a.#", "literal", literal=True)
    assert trie.lookup("a.#") == ["pattern"]


def test_an_answer_is_the_callers_own() -> None:
    trie: PatternTrie[int] = PatternTrie(CLASSIC)
    trie.insert("a", 1)
    trie.lookup("a").append(2)
    assert trie.lookup("a") == [1]


def test_values_without_equality_are_found_by_identity() -> None:
    first, second = object(), object()
    trie: PatternTrie[object] = PatternTrie(CLASSIC)
    trie.insert("a.*", first)
    trie.insert("a.*", second)
    assert trie.remove("a.*", second)
    assert trie.lookup("a.b") == [first]


class TrieAgainstList(RuleBasedStateMachine):
    """A trie and a plain list of (pattern, value), which is searched with `matches`."""

    def __init__(self) -> None:
        super().__init__()
        self.trie: PatternTrie[int] = PatternTrie(MIXED)
        self.model: list[tuple[str, int]] = []

    @rule(pattern=mixed_patterns, value=st.integers(0, 3))
    def insert(self, pattern: str, value: int) -> None:
        self.trie.insert(pattern, value)
        self.model.append((pattern, value))

    @rule(pattern=mixed_patterns, value=st.integers(0, 3))
    def remove(self, pattern: str, value: int) -> None:
        equal = [entry for entry in self.model if _same(entry[0], pattern) and entry[1] == value]
        assert self.trie.remove(pattern, value) == bool(equal)
        if equal:
            self.model.remove(equal[0])

    @rule(data=st.data())
    def remove_one_that_is_there(self, data: st.DataObject) -> None:
        if self.model:
            pattern, value = data.draw(st.sampled_from(self.model))
            self.remove(pattern, value)

    @rule(name=words("ab*#"))
    def lookup(self, name: str) -> None:
        found = [(pattern, value) for pattern, value in self.model if matches(pattern, name, MIXED)]
        assert self.trie.lookup(name) == [value for _, value in found]
        found.sort(key=lambda entry: specificity(entry[0], MIXED))
        assert self.trie.lookup_ranked(name) == [value for _, value in found]

    @invariant()
    def lists_what_it_holds(self) -> None:
        assert self.trie.items() == self.model
        assert len(self.trie) == len(self.model)


def _same(a: str, b: str) -> bool:
    """Both any-words characters of MIXED are one wildcard."""
    return a.replace(">", "#") == b.replace(">", "#")


TestTrieAgainstList = TrieAgainstList.TestCase


@given(wide=mixed_patterns, narrow=mixed_patterns, name=words("abc"))
def test_what_a_pattern_covers_it_matches(wide: str, narrow: str, name: str) -> None:
    if covers(wide, narrow, MIXED) and matches(narrow, name, MIXED):
        assert matches(wide, name, MIXED)


@given(wide=mixed_patterns, name=words("abc"))
def test_a_plain_name_is_covered_by_what_matches_it(wide: str, name: str) -> None:
    assert covers(wide, name, MIXED) == matches(wide, name, MIXED)


@pytest.mark.parametrize(
    ("wide", "narrow", "verdict"),
    [
        (">", "*.>", True),
        ("a.>", "a.*.b", True),
        ("a.>", "a", True),
        ("a.*", "a.>", False),
        ("a.b", "a.*", False),
        ("*.>", "a.#", True),
        ("*.b", "*.*", False),
        ("*.*", "a.*", True),
        ("a.>", ">", False),
    ],
)
def test_covering_by_example(wide: str, narrow: str, verdict: bool) -> None:
    assert covers(wide, narrow, MIXED) == verdict
