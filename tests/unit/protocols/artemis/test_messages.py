"""Messages that Artemis' own classes wrote: headers, properties and bodies say what Java had, and are written again."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import pytest

from entrepot.base import primitive
from entrepot.base.errors import Inexpressible, MalformedFrame
from entrepot.base.primitive import Primitive
from entrepot.protocols.artemis.bodies import (
    map_body,
    map_of,
    object_body,
    object_of,
    stream_body,
    stream_of,
    text_body,
    text_of,
)
from entrepot.protocols.artemis.headers import (
    NO_BODY,
    TYPE_BYTES,
    TYPE_DEFAULT,
    TYPE_MAP,
    TYPE_OBJECT,
    TYPE_STREAM,
    TYPE_TEXT,
    assembled,
    body_of,
    headers_at,
    properties_in,
    read_headers,
)
from entrepot.protocols.artemis.packets import Packet
from entrepot.protocols.artemis.properties import TYPES, find, key_octets, read_properties, value_at

from .examples import decoded, vectors

TYPE_NAMES = {
    primitive.NULL: "null",
    primitive.BOOLEAN: "bool",
    primitive.BYTE: "byte",
    primitive.OCTETS: "bytes",
    primitive.SHORT: "short",
    primitive.INT: "int",
    primitive.LONG: "long",
    primitive.FLOAT: "float",
    primitive.DOUBLE: "double",
    primitive.TEXT: "string",
    primitive.CHAR: "char",
}


def octets_in(packet: Packet) -> bytes:
    """Return the message of a packet, that of a large one with an empty body."""
    large = getattr(packet, "headers", None)
    return NO_BODY + large if large is not None else packet.message  # type: ignore[attr-defined,no-any-return]


MESSAGES = [vector for vector in vectors() if isinstance(vector["fields"].get("message"), dict)]


def value(written: Any) -> Any:
    """Return a value as the vectors write it."""
    if isinstance(written, Primitive):
        return [
            TYPE_NAMES[int(written.tag)],
            value(written.value) if written.tag != primitive.CHAR else ord(written.value),
        ]
    if isinstance(written, bytes):
        return {"hex": written.hex()}
    if isinstance(written, float) and not math.isfinite(written):
        return "NaN" if math.isnan(written) else "Infinity" if written > 0 else "-Infinity"
    return written


def same(found: list[Any], wanted: list[Any]) -> bool:
    """Compare a typed value with one of a vector; Java prints a float with fewer digits than Python."""
    if found[0] == "float" and isinstance(found[1], float):
        return wanted[0] == "float" and struct.pack(">f", found[1]) == struct.pack(">f", wanted[1])
    return found == wanted


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 750


def test_headers_say_what_java_had() -> None:
    for vector in MESSAGES:
        wanted = vector["fields"]["message"]
        octets = octets_in(decoded(vector))
        headers = read_headers(octets, headers_at(octets))
        assert (headers.number, headers.address, headers.user_id.hex() or None) == (
            wanted["id"],
            wanted["address"],
            wanted["user_id"],
        )
        assert (headers.kind, headers.durable, headers.expiration, headers.timestamp, headers.priority) == tuple(
            wanted[name] for name in ("type", "durable", "expiration", "timestamp", "priority")
        )
        assert body_of(octets).hex() == (wanted.get("body") or "")


def test_properties_say_what_java_had_and_are_written_again() -> None:
    kinds = set()
    for vector in MESSAGES:
        wanted = vector["fields"]["message"]["properties"]
        octets = octets_in(decoded(vector))
        headers = read_headers(octets, headers_at(octets))
        found = properties_in(octets, typed=True)
        assert list(found) == [key for key, _, _ in wanted]
        for key, kind, plain in wanted:
            kinds.add(kind)
            assert same(value(found[key]), [kind, plain]), vector["index"]
            at = find(octets, headers.properties_at, key_octets(key))
            assert value(value_at(octets, at)) == value(found[key].value)
        assert find(octets, headers.properties_at, key_octets("nobody has this")) == -1
        assert assembled(body_of(octets), headers, found) == octets
    assert kinds == set(TYPE_NAMES.values())


def test_bodies_say_what_java_had_and_are_written_again() -> None:
    seen = set()
    for vector in MESSAGES:
        wanted = vector["fields"]["message"]
        octets = octets_in(decoded(vector))
        body, kind = body_of(octets), wanted["type"]
        if wanted.get("body") is None:
            continue
        if wanted.get("inflated"):
            assert zlib.decompress(body).hex() == wanted["inflated"]
            continue
        seen.add(kind)
        if kind == TYPE_TEXT:
            assert text_of(body) == wanted["value"]
            assert text_body(text_of(body)) == body
        elif kind == TYPE_BYTES:
            assert {"hex": body.hex()} == wanted["value"]
        elif kind == TYPE_MAP:
            entries = map_of(body, typed=True)
            assert len(entries) == len(wanted["value"])
            assert all(same(value(entries[key]), [kind, plain]) for key, kind, plain in wanted["value"])
            assert map_body(entries) == body
        elif kind == TYPE_STREAM:
            values = stream_of(body, typed=True)
            assert len(values) == len(wanted["value"])
            assert all(same(value(one), pair) for one, pair in zip(values, wanted["value"], strict=True))
            assert stream_body(values) == body
        elif kind == TYPE_OBJECT:
            if wanted["value"] is not None:
                assert {"hex": object_of(body).hex()} == wanted["value"]
                assert object_body(object_of(body)) == body
        else:
            assert kind == TYPE_DEFAULT
            assert wanted.get("value") is None or text_of(body) == wanted["value"]
    assert seen == {TYPE_DEFAULT, TYPE_OBJECT, TYPE_TEXT, TYPE_BYTES, TYPE_MAP, TYPE_STREAM}


def test_every_tag_that_has_a_type_has_a_name() -> None:
    assert set(TYPES) - {primitive.LONG_TEXT} == set(TYPE_NAMES)


@pytest.mark.parametrize(
    "octets",
    [
        "",
        "0000000d",  # no headers
        "000000ff" + "00" * 40,  # a body that is longer than the message
        "0000000c" + "00" * 40,  # a body of -1 octets
    ],
)
def test_a_message_that_is_too_short_is_refused(octets: str) -> None:
    raw = bytes.fromhex(octets)
    with pytest.raises(MalformedFrame):
        read_headers(raw, headers_at(raw))


@pytest.mark.parametrize(
    "octets",
    [
        "01",  # no count
        "01ffffffff",  # a negative count
        "0100000002" + "00000000" + "00",  # fewer entries than it counts
        "017fffffff" + "00" * 50,  # more entries than there is room for
        "0100000001" + "00000000" + "01",  # a type that does not exist
        "0100000001" + "00000000" + "0c",
        "0100000001" + "00000003" + "000000" + "00",  # a text with half a character
        "0100000001" + "7fffffff" + "00000000",  # a key that is longer than the message
        "0100000001" + "00000000" + "04" + "ffffffff",  # octets of negative length
    ],
)
def test_hostile_properties_are_refused(octets: str) -> None:
    with pytest.raises(MalformedFrame):
        read_properties(bytes.fromhex(octets), 0)


@pytest.mark.parametrize("values", [[{}], [[1]], [1 << 63], [Primitive(primitive.MAP, {})], [Primitive(2, 128)]])
def test_what_has_no_form_is_refused(values: list[object]) -> None:
    with pytest.raises(Inexpressible):
        stream_body(values)
    with pytest.raises(Inexpressible):
        map_body({"v": values[0]})


def test_a_stream_has_no_null_but_a_text() -> None:
    assert stream_of(stream_body([None])) == [None]
    with pytest.raises(MalformedFrame):
        stream_of(b"\0")
