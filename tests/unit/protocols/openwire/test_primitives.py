from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base import primitive
from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame
from entrepot.base.primitive import Primitive
from entrepot.protocols.openwire.primitives import (
    PrimitiveReader,
    decode_modified_utf8,
    encode_modified_utf8,
    read_map,
    read_row,
    write_map,
    write_row,
)

any_text = st.text(st.characters(codec=None) | st.sampled_from("\0\ud83d\ude00\U0001f600\u00e9"), max_size=30)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | any_text
    | st.binary(max_size=20)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=10,
)
TYPED = [
    Primitive(primitive.NULL, None),
    Primitive(primitive.BOOLEAN, True),
    Primitive(primitive.BYTE, -128),
    Primitive(primitive.CHAR, "\uffff"),
    Primitive(primitive.SHORT, -32768),
    Primitive(primitive.INT, 2**31 - 1),
    Primitive(primitive.LONG, -(2**63)),
    Primitive(primitive.DOUBLE, 0.1),
    Primitive(primitive.FLOAT, 0.5),
    Primitive(primitive.TEXT, "short"),
    Primitive(primitive.OCTETS, b"\0\xff"),
    Primitive(primitive.LONG_TEXT, "long"),
    Primitive(primitive.MAP, {"k": Primitive(primitive.INT, 1)}),
    Primitive(primitive.LIST, [Primitive(primitive.SHORT, 1)]),
]


# -- modified UTF-8 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("", ""),
        ("plain", "706c61696e"),
        ("\0", "c080"),
        ("\u00e9\u20ac", "c3a9e282ac"),
        ("\U0001f600", "eda0bdedb880"),
        ("a\U0010ffffb", "61edafbfedbfbf62"),
        ("\ud83d", "eda0bd"),
        ("\ude00\ud83d", "edb880eda0bd"),
    ],
)
def test_text_travels_as_java_writes_it(text: str, octets: str) -> None:
    assert encode_modified_utf8(text).hex() == octets
    assert decode_modified_utf8(bytes.fromhex(octets)) == text


@given(any_text)
def test_any_text_comes_back(text: str) -> None:
    octets = encode_modified_utf8(text)
    # Two lone halves side by side are, in Java, one character: what comes back is the joined form.
    joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert decode_modified_utf8(octets) == joined
    assert (len(octets) == len(text)) == all("\x01" <= letter <= "\x7f" for letter in text)


@pytest.mark.parametrize("octets", ["f09f9880", "c3", "ff", "e282", "c080f09f9880", "80"])
def test_what_is_not_modified_utf8_is_refused(octets: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_modified_utf8(bytes.fromhex(octets))


# -- maps and rows -------------------------------------------------------------------------------------------------


def test_a_map_as_java_writes_it() -> None:
    octets = bytes.fromhex("00000002 0001 61 05 00000007 0001 62 09 0001 78")
    assert read_map(octets) == {"a": 7, "b": "x"}
    assert write_map({"a": 7, "b": "x"}) == octets


@given(st.dictionaries(any_text, values, max_size=5))
def test_any_map_comes_back(entries: dict[str, object]) -> None:
    octets = write_map(entries)
    assert write_map(read_map(octets)) == octets
    assert write_map(read_map(octets, typed=True)) == octets


@given(st.lists(leaves, max_size=8))
def test_any_row_comes_back(row: list[object]) -> None:
    octets = write_row(row)
    assert write_row(read_row(octets)) == octets
    assert len(read_row(octets)) == len(row)


def test_typed_values_keep_their_tags() -> None:
    octets = write_row(list(TYPED))
    assert read_row(octets, typed=True) == TYPED
    assert write_map({"k": TYPED[4]}) == bytes.fromhex("00000001 0001 6b 04 8000")


def test_plain_values_take_the_narrowest_tag() -> None:
    def tag(value: object) -> int:
        return write_row([value])[0]

    assert tag(2**31 - 1) == tag(-(2**31)) == primitive.INT
    assert tag(2**31) == primitive.LONG
    assert tag(True) == primitive.BOOLEAN
    assert tag("x" * 8190) == primitive.TEXT
    assert tag("x" * 8191) == primitive.LONG_TEXT
    assert read_row(write_row(["\u20ac" * 100_000])) == ["\u20ac" * 100_000]


def test_no_map_and_an_empty_map_are_both_empty() -> None:
    assert read_map(b"") == read_map(b"\xff\xff\xff\xff") == read_map(b"\0\0\0\0") == {}
    assert read_row(bytes.fromhex("0b ffffffff 0d ffffffff")) == [None, None]


@pytest.mark.parametrize(
    "octets",
    [
        "00000001",  # an entry too few
        "7fffffff 0001 61 00",  # more entries than there is room for
        "00000001 0001 61 0e",  # a tag that does not exist
        "00000001 ffff 61 00",  # a key longer than the map
        "00000001 0001 61 0a 7fffffff 00",  # octets longer than the map
        "00000001 0001 61 0a ffffffff",  # octets of negative length
        "00000001 0001 61 0c 7fffffff 00",  # a list longer than the map
        "00000001 0001 61 0c ffffffff",  # a list of negative length
        "00000001 0001 61 06 00000000",  # half a number
        "00000000 00",  # something left over
    ],
)
def test_hostile_maps_are_refused_and_allocate_nothing(octets: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrame):
            read_map(bytes.fromhex(octets))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_deep_nesting_is_refused() -> None:
    value: object = 1
    for _ in range(32):
        value = [value]
    assert read_row(write_row([value])) == [value]
    with pytest.raises(LimitExceeded):
        read_row(write_row([[value]]))


def test_a_reader_keeps_to_its_limits() -> None:
    octets = write_map({"a": "xyz", "b": 1})
    assert PrimitiveReader(octets, entries_max=2, text_octets_max=3).map() == {"a": "xyz", "b": 1}
    for reader in (
        PrimitiveReader(octets, entries_max=1),
        PrimitiveReader(octets, text_octets_max=2),
        PrimitiveReader(write_map({"a": {}}), depth_max=0),
    ):
        with pytest.raises(LimitExceeded):
            reader.map()


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        object(),
        Primitive(primitive.BYTE, 128),
        Primitive(primitive.SHORT, -32769),
        Primitive(primitive.INT, 2**31),
        Primitive(primitive.CHAR, "\U0001f600"),
        Primitive(primitive.CHAR, "ab"),
        Primitive(primitive.INT, "1"),
        Primitive(primitive.TEXT, "x" * 65_536),
        Primitive(99, 1),
        [object()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(Inexpressible):
        write_map({"k": value})


def test_a_name_has_a_short_length() -> None:
    assert read_map(write_map({"x" * 65_535: 1})) == {"x" * 65_535: 1}
    with pytest.raises(Inexpressible):
        write_map({"x" * 65_536: 1})
