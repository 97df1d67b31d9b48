from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.xml import DEPTH_MAX, ELEMENTS_MAX, OCTETS_MAX, parse

LAUGHS = b"""<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;&x;&x;">]>
<a b="&y;">&y;</a>"""
OUTSIDE = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'


def test_elements_know_their_lines_and_paths() -> None:
    root = parse(b'<a>\n  <b/>\n  <b\n     one="1"\n     two = \'2\' three="&lt;"/>\n  <c>\n text</c></a>', "f")
    first, second, other = root.children
    assert (first.line, second.line, other.line) == (2, 3, 6)
    assert [(one.name, one.text, one.line) for one in second.attributes.values()] == [
        ("one", "1", 4),
        ("two", "2", 5),
        ("three", "<", 5),
    ]
    assert (first.path, second.path, other.path) == ("a/b[1]", "a/b[2]", "a/c")
    assert other.text.strip() == "text"
    assert [element.name for element in root.walk()] == ["a", "b", "b", "c"]


def test_name_spaces_are_kept_and_prefixes_are_not() -> None:
    root = parse(
        b'<x:a xmlns:x="urn:one" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="u v">'
        b'<b xmlns="urn:two" x:c="1" d="2"/></x:a>',
        "f",
    )
    assert (root.name, root.space, root.attributes) == ("a", "urn:one", {})
    child = root.children[0]
    assert (child.name, child.space) == ("b", "urn:two")
    assert [(one.name, one.space) for one in child.attributes.values()] == [("c", "urn:one"), ("d", "")]


@pytest.mark.parametrize(
    "data", [LAUGHS, OUTSIDE, b"<!DOCTYPE a SYSTEM 'http://x/y.dtd'><a/>", LAUGHS.decode().encode("utf-16")]
)
def test_a_document_type_is_refused_as_soon_as_it_begins(data: bytes) -> None:
    with pytest.raises(InvalidConfiguration, match="document type") as caught:
        parse(data, "f.xml")
    assert (caught.value.file, caught.value.line) == ("f.xml", 1)


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"", 1), (b"<a>", 1), (b"<a>\n</b>", 2), (b"<a b='1' b='2'/>", 1), (b"<a>&x;</a>", 1), (b"x", 1)],
)
def test_what_is_not_xml_is_refused_with_its_line(data: bytes, line: int) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        parse(data, "f")
    assert caught.value.line == line


@pytest.mark.parametrize(
    "data",
    [
        b'<a>\n<b uri="tcp://h:1?a=1&b=2"/></a>',
        b'<a>\n<b uri="tcp://h:1?a=1&wireFormat.b=2&amp;c=1"/></a>',
        b'<a>\n<b uri="?a=1&b"/></a>',
        b"<a>\nthis & that</a>",
    ],
)
def test_an_ampersand_that_is_not_written_out_is_named(data: bytes) -> None:
    with pytest.raises(InvalidConfiguration, match="begins an entity") as caught:
        parse(data, "f")
    assert caught.value.line == 2
    assert "write &amp; for &" in caught.value.remedy


def test_other_mistakes_are_not_taken_for_an_ampersand() -> None:
    for data in (b"<a u='x<y'/>", b"<a u='a&amp;b'><<</a>", b"<a>&x;</a>"):
        with pytest.raises(InvalidConfiguration) as caught:
            parse(data, "f")
        assert "&amp;" not in caught.value.remedy


@pytest.mark.parametrize(
    "data",
    [
        b"<a>" * (DEPTH_MAX + 1) + b"</a>" * (DEPTH_MAX + 1),
        b"<a>" + b"<b/>" * ELEMENTS_MAX + b"</a>",
        b"<a>" + b" " * OCTETS_MAX + b"</a>",
    ],
)
def test_what_is_too_large_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidConfiguration):
        parse(data, "f")


def test_an_encoding_of_its_own() -> None:
    assert (
        parse('<?xml version="1.0" encoding="ISO-8859-1"?><a b="ü"/>'.encode("latin-1"), "f").attributes["b"].text
        == "ü"
    )
    assert parse('<?xml version="1.0"?>\n<a b="ü"/>'.encode("utf-16"), "f").attributes["b"].line == 2
    with pytest.raises(InvalidConfiguration):
        parse(b'<?xml version="1.0" encoding="klingon"?><a/>', "f")


@given(st.binary(max_size=300))
def test_random_octets_are_read_or_refused(data: bytes) -> None:
    with suppress(InvalidConfiguration):
        parse(data, "f")
