"""Header lines of STOMP: escaped by version; whole numbers with a bound."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from entrepot.base.errors import InvalidSelector, Refused
from entrepot.protocols.stomp.headers import selector_of, whole_number, write_headers


@pytest.mark.parametrize(
    ("version", "expected"), [(10, b"a:b:c\nx:\\\n"), (11, b"a:b\\cc\nx:\\\\\n"), (12, b"a:b\\cc\nx:\\\\\n")]
)
def test_headers_are_escaped_as_the_version_wants(version: int, expected: bytes) -> None:
    writer = BytesWriter()
    write_headers(writer, {"a": "b:c", "x": "\\"}, version)
    assert writer.getvalue() == expected


@pytest.mark.parametrize(("text", "value"), [("0", 0), (" -12 ", -12), ("9" * 18, 10**18 - 1)])
def test_whole_numbers(text: str, value: int) -> None:
    assert whole_number(text, "n") == value


@pytest.mark.parametrize("text", ["", "-", "1.5", "9" * 19, "\u0661", "--1", "1 2"])
def test_what_is_no_whole_number_is_refused_by_the_name_of_its_header(text: str) -> None:
    with pytest.raises(Refused, match=r"expires is"):
        whole_number(text, "expires")


def test_an_error_in_a_selector_stands_where_the_client_wrote_it() -> None:
    assert selector_of(" ") is None
    assert selector_of("n > 1") is not None
    with pytest.raises(InvalidSelector) as mine:
        selector_of("n >")
    assert "convert_string" not in str(mine.value)
