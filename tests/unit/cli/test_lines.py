from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import Inexpressible
from entrepot.cli.lines import MADE_BY_BROKER, as_json, as_text, read_json, read_text
from entrepot.protocols.stomp.client import Message

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def received(body: bytes, **headers: str) -> Message:
    return Message("s1", "m1", {"destination": "/queue/a", "message-id": "m1", "subscription": "s1", **headers}, body)


def test_a_message_becomes_a_line_with_body_headers_and_properties() -> None:
    line = as_json(received(b"hello", priority="7", colour="red"))
    assert json.loads(line) == {
        "body": "hello",
        "type": "text",
        "headers": {"destination": "/queue/a", "message-id": "m1", "subscription": "s1", "priority": "7"},
        "properties": {"colour": "red"},
    }
    assert line.endswith(b"}\n")


def test_a_bytes_message_keeps_its_type_and_octets_that_are_no_text_their_value() -> None:
    assert read_json(as_json(received(b"ab", **{"content-length": "2"}))) == (b"ab", {})
    assert read_json(as_json(received(b"\xff\0", **{"content-length": "2"})))[0] == b"\xff\0"
    assert json.loads(as_json(received(b"\xff")))["body_base64"] == "/w=="


@given(st.binary(max_size=30), st.booleans(), st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_what_was_received_can_be_sent_again(body: bytes, is_bytes: bool, properties: dict[str, str]) -> None:
    properties = {f"p{name}": value for name, value in properties.items()}
    length = {"content-length": str(len(body))} if is_bytes else {}
    line = as_json(received(body, priority="7", **properties, **length))
    assert line.count(b"\n") == 1
    try:
        expected: str | bytes = body if is_bytes else body.decode()
    except UnicodeDecodeError:
        return  # a text that is no text: refused, see below
    assert read_json(line) == (expected, {"priority": "7", **properties})


def test_what_the_broker_made_is_not_sent_back() -> None:
    headers = dict.fromkeys(MADE_BY_BROKER, "x")
    assert read_json(json.dumps({"body": "b", "headers": headers}).encode()) == ("b", {})


def test_values_arrive_as_strings_and_null_not_at_all() -> None:
    line = json.dumps({"properties": {"a": 1, "b": True, "c": 1.5, "d": None, "e": "x"}}).encode()
    assert read_json(line) == ("", {"a": "1", "b": "true", "c": "1.5", "e": "x"})


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[]",
        b'{"bodi": "x"}',
        b'{"body": "x", "body_base64": "eA=="}',
        b'{"body_base64": "!"}',
        b'{"body": "x", "type": "map"}',
        b'{"body_base64": "eA==", "type": "text"}',
        b'{"properties": {"a": {"b": 1}}}',
        b'"\xff"',
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(Inexpressible):
        read_json(line)


def test_plain_lines() -> None:
    assert read_text("grün".encode()) == ("grün", {})
    assert read_text(b"\xff") == (b"\xff", {})
    assert as_text(received(b"abc")) == b"abc\n"
