"""ActiveMQ's forms of maps; that Classic writes the same octets is shown in `tests/interop/test_transformations.py`."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from entrepot.base import primitive
from entrepot.base.errors import Inexpressible
from entrepot.base.primitive import Primitive, plain
from entrepot.protocols.stomp.transformation import (
    DEPTH_MAX,
    MAP_JSON,
    MAP_XML,
    OBJECT_JSON,
    OBJECT_XML,
    as_json,
    as_xml,
    java_order,
    java_real,
    read,
)

texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")) | st.sampled_from("\n\t"), max_size=8)
whole_reals = st.integers(-200, 200).map(lambda whole: f"{whole}.0")
TEXT_OF_1 = Primitive(primitive.TEXT, "1.0")
singles = st.builds(Primitive, st.just(primitive.TEXT), texts) | st.one_of(
    st.builds(Primitive, st.just(primitive.INT), st.integers(-(2**31), 2**31 - 1)),
    st.builds(Primitive, st.just(primitive.LONG), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Primitive, st.just(primitive.SHORT), st.integers(-(2**15), 2**15 - 1)),
    st.builds(Primitive, st.just(primitive.BYTE), st.integers(-128, 127)),
    st.builds(Primitive, st.just(primitive.BOOLEAN), st.booleans()),
    st.builds(Primitive, st.just(primitive.DOUBLE), st.floats(allow_nan=False)),
    st.builds(Primitive, st.just(primitive.FLOAT), st.floats(width=32, allow_nan=False)),
    st.builds(Primitive, st.just(primitive.OCTETS), st.binary(max_size=8)),
    st.just(Primitive(primitive.NULL, None)),
)
values = st.recursive(
    singles,
    lambda inner: (
        st.builds(Primitive, st.just(primitive.LIST), st.lists(inner, max_size=3))
        | st.builds(Primitive, st.just(primitive.MAP), st.dictionaries(texts, inner, max_size=3))
    ),
    max_leaves=8,
)


def through_json(value: object) -> object:
    """Return what comes back of ``value``: Jettison says the text 1.0 as the number 1, which reads as the text 1."""
    if isinstance(value, Primitive):
        return Primitive(primitive.TEXT, through_json(value.value)) if value.tag == primitive.TEXT else value
    if isinstance(value, str) and value.endswith(".0") and value.isascii():
        whole = value.removesuffix(".0")
        if whole.removeprefix("-").isdecimal() and java_real(float(value)) == value:
            return whole
    return value


@given(st.dictionaries(texts, values, max_size=6))
def test_what_is_written_as_xml_reads_the_same(entries: dict[str, object]) -> None:
    assert read(as_xml(entries), MAP_XML) == entries


@given(st.dictionaries(texts | whole_reals, singles, max_size=6))
@example({"0.0": Primitive(primitive.NULL, None)})
@example({"-0.0": Primitive(primitive.TEXT, "100.0"), "1.0E7": Primitive(primitive.DOUBLE, 1.0), "1.50": TEXT_OF_1})
def test_what_is_written_as_json_reads_the_same(entries: dict[str, object]) -> None:
    expected = {through_json(name): through_json(value) for name, value in entries.items()}
    assume(len(expected) == len(entries))
    text = as_json(entries)
    json.loads(text)
    assert read(text, MAP_JSON) == expected


@given(st.one_of(singles))
@example(Primitive(primitive.TEXT, "0.0"))
def test_single_values_read_the_same(value: Primitive) -> None:
    assert read(as_json(value), OBJECT_JSON) == through_json(value)
    assert read(as_xml(value), OBJECT_XML) == value


def test_the_forms_are_those_of_activemq() -> None:
    entries: dict[str, object] = {"name": "Dejan", "n": Primitive(primitive.INT, 5)}
    assert as_json(entries) == '{"map":{"entry":[{"string":["name","Dejan"]},{"string":"n","int":5}]}}'
    assert as_xml({"a": "<&\r'\x01"}) == (
        "<map>\n  <entry>\n    <string>a</string>\n    <string>&lt;&amp;&#xd;&apos;&#x1;</string>\n  </entry>\n</map>"
    )
    assert (as_json({}), as_xml({})) == ('{"map":""}', "<map/>")
    assert (
        as_json({"l": [1, "z", 2, []]})
        == '{"map":{"entry":{"string":"l","list":{"int":[1,2],"string":"z","list":""}}}}'
    )


@pytest.mark.parametrize("text", ["17", "-7", "0", "1.5", "true", "false", "1.0E10", "9223372036854775807"])
def test_texts_that_look_like_numbers_are_some(text: str) -> None:
    assert as_json(Primitive(primitive.TEXT, text)) == '{"string":' + text + "}"


@pytest.mark.parametrize(
    ("text", "said"), [("0.0", "0"), ("-0.0", "-0"), ("1.0", "1"), ("-1.0", "-1"), ("100.0", "100")]
)
def test_a_text_that_looks_like_a_whole_number_with_a_fraction_loses_that(text: str, said: str) -> None:
    """Written down from XStream 1.4.20 with Jettison 1.5.3."""
    assert as_json(Primitive(primitive.TEXT, text)) == '{"string":' + said + "}"
    assert as_json({text: None}) == '{"map":{"entry":{"string":' + said + ',"null":""}}}'


@pytest.mark.parametrize(
    "text", ["+7", "007", "-0", "1.50", "1e5", "1.0E-5", ".5", "5.", "TRUE", "null", "-", "1" * 5000]
)
def test_other_texts_are_texts(text: str) -> None:
    assert as_json(Primitive(primitive.TEXT, text)) == '{"string":"' + text + '"}'


def test_slashes_are_escaped_where_jettison_does_it() -> None:
    assert as_json({"a/b": "</c"}) == '{"map":{"entry":{"string":["a\\/b","<\\/c"]}}}'
    assert as_json({"a/</b": 1}) == '{"map":{"entry":{"string":"a/<\\/b","int":1}}}'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (3.0, "3.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00123, "0.00123"),
        (0.000999, "9.99E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (1e21, "1.0E21"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (-2e-323, "-2.0E-323"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_reals_are_said_as_in_java(value: float, said: str) -> None:
    assert java_real(value) == said


@given(st.floats(allow_nan=False))
def test_reals_keep_their_value(value: float) -> None:
    assert float(java_real(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_keep_their_value(value: float) -> None:
    assert struct.unpack(">f", struct.pack(">f", float(java_real(value, single=True))))[0] == value


def test_entries_stand_as_in_a_hash_map() -> None:
    """Written down from java.util.HashMap of Java 17; four pairs share a bucket and keep the order they came in."""
    keys = ["aa", "Aa", "BB", "C#", "zzz", "\u00e4"]
    assert java_order(dict.fromkeys(keys)) == keys
    assert java_order(dict.fromkeys(["long", "int", "text", "bool"])) == ["text", "bool", "long", "int"]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", MAP_JSON),
        ("[]", MAP_JSON),
        ("{}", MAP_JSON),
        ('{"string":"x"}', MAP_JSON),
        ('{"map":{"entry":{"string":["a"]}}}', MAP_JSON),
        ('{"map":{"entry":{"int":1,"string":"a"}}}', MAP_JSON),
        ('{"map":{"entry":{"string":"a","int":[[1]]}}}', MAP_JSON),
        ('{"java.lang.ProcessBuilder":""}', OBJECT_JSON),
        ("[" * 100_000, MAP_JSON),
        ('{"map":' * 100_000, MAP_JSON),
        ('{"list":' * (DEPTH_MAX + 2) + '""' + "}" * (DEPTH_MAX + 2), OBJECT_JSON),
        ("", MAP_XML),
        ("<map>", MAP_XML),
        ("<map><x/></map>", MAP_XML),
        ("<list>" * 100_000, OBJECT_XML),
        ('<!DOCTYPE a [<!ENTITY e "x">]><map/>', MAP_XML),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><map/>', MAP_XML),
        ("<int>99999999999</int>", OBJECT_XML),
        ("<int>0x</int>", OBJECT_XML),
        (f"<int>{'9' * 10_000}</int>", OBJECT_XML),
        ("<double>1_0</double>", OBJECT_XML),
        ("<byte-array>!</byte-array>", OBJECT_XML),
        ("<int><int>1</int></int>", OBJECT_XML),
        ("<map/>", "jms-json"),
        ("<map/>\0", MAP_XML),
    ],
)
def test_what_cannot_be_read_says_so(text: str, form: str) -> None:
    with pytest.raises(Inexpressible):
        read(text, form)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda octets: octets.decode("utf-8", "replace")))
def test_any_text_is_read_or_refused(text: str) -> None:
    for form in (MAP_JSON, MAP_XML, OBJECT_JSON, OBJECT_XML):
        try:
            read(text, form)
        except Inexpressible:
            continue


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<int>0x10</int>", 16),
        ("<int>#10</int>", 16),
        ("<int>010</int>", 8),
        ("<int>0</int>", 0),
        ("<int>-5</int>", -5),
        ("<int>4294967295</int>", -1),
        ("<byte>255</byte>", -1),
        ("<char/>", "\0"),
        ("<boolean>TRUE</boolean>", True),
        ("<boolean>yes</boolean>", False),
        ("<double>1.5d</double>", 1.5),
        ("<float>1e40</float>", float("inf")),
        ("<null/>", None),
    ],
)
def test_values_are_read_as_java_reads_them(text: str, value: object) -> None:
    assert plain(read(text, OBJECT_XML)) == value
