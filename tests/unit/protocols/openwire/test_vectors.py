"""Every frame that the Java marshallers wrote is read to the values they had, and written back to the same meaning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import Message, MessageDispatch
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.schema import Kind, type_named, type_numbered

from .examples import format_of, plain, vectors

SIMPLE = (Kind.BOOLEAN, Kind.BYTE, Kind.INT, Kind.LONG, Kind.STRING)


def stream_of(vector: dict[str, Any]) -> tuple[int, int]:
    return vector["v"], vector["mode"]


STREAMS = {stream: list(lines) for stream, lines in groupby(sorted(vectors(), key=stream_of), key=stream_of)}


def decoded(stream: tuple[int, int]) -> Iterator[tuple[dict[str, Any], bytes, Structure]]:
    decoder = Decoder(format_of(STREAMS[stream][0]))
    for vector in STREAMS[stream]:
        frame = bytes.fromhex(vector["hex"])
        (command,) = decoder.feed(frame)
        yield vector, frame, command


def test_the_vectors_are_all_there() -> None:
    assert sum(len(lines) for lines in STREAMS.values()) == 2672
    assert {stream[0] for stream in STREAMS} == {1, 3, 6, 9, 10, 12}
    assert {stream[1] for stream in STREAMS} == {0, 1, 2, 3}


@pytest.mark.parametrize("stream", STREAMS)
def test_every_value_is_read_as_java_had_it(stream: tuple[int, int]) -> None:
    compared = 0
    for vector, _, command in decoded(stream):
        each = type_numbered(vector["t"])
        assert type(command).__name__ == vector["cls"] == each.name
        for field in each.fields:
            if field.kind in SIMPLE and field.travels(stream[0]) and field.wire_name in vector["get"]:
                assert getattr(command, field.name) == vector["get"][field.wire_name], (each.name, field.name)
                compared += 1
    assert compared > 400


@pytest.mark.parametrize("stream", STREAMS)
def test_what_is_read_is_written_to_the_same_meaning(stream: tuple[int, int]) -> None:
    wire_format = format_of(STREAMS[stream][0])
    encoder, second = Encoder(wire_format), Decoder(wire_format)
    for _, frame, command in decoded(stream):
        again = encoder.encode(command)
        assert plain(second.feed(again)) == plain([command])
        if wire_format.cache_size == 0:  # with a cache, Java writes values apart that are equal but not the same
            assert again == frame


@pytest.mark.parametrize("stream", STREAMS)
def test_messages_keep_their_octets_where_these_mean_the_same_elsewhere(stream: tuple[int, int]) -> None:
    wire_format = format_of(STREAMS[stream][0])
    seen = 0
    for _, frame, command in decoded(stream):
        message = command.message if isinstance(command, MessageDispatch) else command
        if isinstance(message, Message):
            seen += 1
            may_keep = not wire_format.tight and wire_format.cache_size == 0 and message.data_structure is None
            assert (message.first is not None) == may_keep
            assert message.first is None or message.first.octets in frame
            if isinstance(command, MessageDispatch):
                assert message.first is None or Encoder(wire_format).encode(command) == frame
    assert seen >= 13


def test_a_type_of_the_vectors_is_a_type_of_the_table() -> None:
    names = {vector["cls"] for lines in STREAMS.values() for vector in lines}
    assert len(names) >= 50
    assert all(type_named(name).number for name in names)
