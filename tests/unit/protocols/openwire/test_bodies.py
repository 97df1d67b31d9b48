from __future__ import annotations

import zlib

import pytest

from entrepot.base.errors import LimitExceeded, MalformedFrame
from entrepot.protocols.openwire.bodies import (
    bytes_message,
    inflate,
    map_message,
    map_of_body,
    object_message,
    octets_of,
    pack_properties,
    properties_of,
    row_of_body,
    stream_message,
    text_message,
    text_of_body,
)
from entrepot.protocols.openwire.commands import ActiveMQMapMessage, ActiveMQStreamMessage, ActiveMQTextMessage

TEXT = "caf\u00e9 \0 \U0001f600"


@pytest.mark.parametrize("text", [None, "", "plain", TEXT])
def test_text_comes_back(text: str | None) -> None:
    assert text_of_body(text_message(text)) == text


def test_a_text_body_has_its_length_in_front() -> None:
    assert text_message("hi").content == b"\0\0\0\x02hi"
    assert text_message("").content == b"\0\0\0\0"
    assert text_message(None).content is None
    assert text_of_body(ActiveMQTextMessage(content=b"\xff\xff\xff\xff")) is None


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"\0\0\0\x05four", b"\0\0\0\x01\xff"])
def test_a_broken_text_body_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedFrame):
        text_of_body(ActiveMQTextMessage(content=content))


def test_maps_rows_objects_and_properties_come_back() -> None:
    entries: dict[str, object] = {"a": 1, "b": [TEXT, 2.5], "c": b"x"}
    assert map_of_body(map_message(entries)) == entries
    assert map_of_body(ActiveMQMapMessage()) == {}
    assert row_of_body(stream_message([1, TEXT, None])) == [1, TEXT, None]
    assert row_of_body(ActiveMQStreamMessage()) == []
    assert octets_of(object_message(b"\xac\xed\0\x05")) == b"\xac\xed\0\x05"
    message = text_message("x")
    message.marshalled_properties = pack_properties(entries)
    assert properties_of(message) == entries
    assert pack_properties({}) is None
    assert properties_of(text_message("x")) == {}


def test_compressed_bodies_are_opened() -> None:
    text = text_message(TEXT)
    text.content, text.compressed = zlib.compress(text.content or b""), True
    assert text_of_body(text) == TEXT
    octets = bytes_message((5).to_bytes(4, "big") + zlib.compress(b"12345"))
    octets.compressed = True
    assert octets_of(octets) == b"12345"


def test_a_compressed_body_that_lies_is_refused() -> None:
    for content in (b"", b"\0\0", (6).to_bytes(4, "big") + zlib.compress(b"12345"), b"\0\0\0\x05junk"):
        message = bytes_message(content)
        message.compressed = True
        with pytest.raises(MalformedFrame):
            octets_of(message)
    with pytest.raises(MalformedFrame):
        inflate(zlib.compress(b"12345" * 100)[:-6], 10_000)


def test_a_text_whose_stream_was_flushed_and_not_ended_is_whole() -> None:
    """So Artemis writes it; the length in front of a text tells its end."""
    plain = text_message("zero \0, umlaut ä").content
    assert plain is not None
    stream = zlib.compressobj()
    unended = stream.compress(plain) + stream.flush(zlib.Z_SYNC_FLUSH)
    assert text_of_body(ActiveMQTextMessage(content=unended, compressed=True)) == "zero \0, umlaut ä"
    with pytest.raises(MalformedFrame):
        text_of_body(ActiveMQTextMessage(content=unended[:8], compressed=True))


def test_a_bomb_is_stopped_before_it_is_held() -> None:
    bomb = zlib.compress(bytes(50_000_000))
    with pytest.raises(LimitExceeded):
        inflate(bomb, 1_000_000)
    assert inflate(zlib.compress(bytes(1000)), 1000) == bytes(1000)
