"""Packets and properties of MQTT: there and back, in pieces of any size, and nothing but PeerError for other octets."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.base.errors import LimitExceeded, MalformedFrame, PeerError, ProtocolViolation
from entrepot.protocols.mqtt.codec import (
    Reader,
    properties_octets,
    read_properties,
    read_variable,
    text_of,
    write_properties,
    write_variable,
)
from entrepot.protocols.mqtt.packets import (
    Connect,
    Farewell,
    Subscribe,
    Will,
    Wish,
    acknowledgement,
    connack,
    publish,
    read_ack,
    read_answer,
    read_connect,
    read_farewell,
    read_subscribe,
    suback,
)
from entrepot.protocols.mqtt.schema import (
    BYTE,
    CONNACK,
    CONNECT,
    DISCONNECT,
    FLAGS,
    LONG,
    NEVER_ZERO,
    OCTETS,
    PAIR,
    PROPERTIES,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SHORT,
    SUBACK,
    SUBSCRIBE,
    SUBSCRIPTION_ID,
    TEXT,
    UNSUBSCRIBE,
    USER_PROPERTY,
    V5,
    V31,
    V311,
    WILL,
)
from entrepot.protocols.mqtt.topics import address_of, check_filter, topic_of

VERSIONS = [V31, V311, V5]
words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=20)
short = st.integers(0, 65_535)
identifiers = st.integers(1, 65_535)


def value_of(identifier: int) -> st.SearchStrategy[Any]:
    kind = PROPERTIES[identifier][1]
    least = 1 if identifier in NEVER_ZERO else 0
    if identifier == USER_PROPERTY:
        return st.lists(st.tuples(words, words), min_size=1, max_size=3)
    if kind == BYTE:
        return st.integers(0, 1 if identifier in FLAGS else 255)
    return {
        SHORT: st.integers(least, 65_535),
        LONG: st.integers(least, 2**32 - 1),
        TEXT: words,
        OCTETS: st.binary(max_size=20),
        PAIR: words,
    }.get(kind, st.integers(least, 268_435_455))


def properties_for(packet: int) -> st.SearchStrategy[dict[int, Any]]:
    known = [one for one, (_, _, packets) in PROPERTIES.items() if packet in packets and one != SUBSCRIPTION_ID]
    return st.fixed_dictionaries({}, optional={one: value_of(one) for one in known})


def shown(octets: bytes, version: int) -> Reader:
    reader = Reader(1 << 28)
    reader.version = version
    reader.feed(octets)
    assert reader.next()
    assert reader.end == len(octets)
    return reader


@given(st.integers(0, 268_435_455))
def test_lengths(value: int) -> None:
    writer = BytesWriter()
    write_variable(writer, value)
    octets = writer.getvalue()
    assert read_variable(octets, 0, len(octets)) == (value, len(octets))
    if len(octets) > 1:
        with pytest.raises(MalformedFrame):
            read_variable(octets, 0, len(octets) - 1)


@pytest.mark.parametrize("packet", [CONNECT, CONNACK, PUBLISH, WILL, DISCONNECT, SUBACK, PUBACK])
@given(data=st.data())
def test_properties(packet: int, data: st.DataObject) -> None:
    properties = data.draw(properties_for(packet))
    writer = BytesWriter()
    write_properties(writer, properties)
    octets = writer.getvalue()
    assert read_properties(octets, 0, len(octets), packet) == (properties, len(octets))


@pytest.mark.parametrize("identifier", [one for one in PROPERTIES if one not in (USER_PROPERTY,)])
def test_a_property_stands_once_and_where_it_may(identifier: int) -> None:
    _, kind, packets = PROPERTIES[identifier]
    value = {TEXT: "x", OCTETS: b"x"}.get(kind, 1)
    once = properties_octets({identifier: value})
    for packet in (CONNECT, CONNACK, PUBLISH, SUBSCRIBE, DISCONNECT, PUBACK):
        octets = bytes((len(once),)) + once
        if packet not in packets:
            with pytest.raises(ProtocolViolation, match="may not stand"):
                read_properties(octets, 0, len(octets), packet)
    packet = packets[0]
    twice = bytes((2 * len(once),)) + once + once
    if identifier != SUBSCRIPTION_ID:
        with pytest.raises(ProtocolViolation, match="twice"):
            read_properties(twice, 0, len(twice), packet)


@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_connect(version: int, data: st.DataObject) -> None:
    made = Connect(data.draw(words), version)
    made.clean = data.draw(st.booleans())
    made.keep_alive = data.draw(short)
    made.user = data.draw(st.none() | words)
    if made.user is not None or version == V5:
        made.password = data.draw(st.none() | st.binary(max_size=10))
    if version == V5:
        made.properties = data.draw(properties_for(CONNECT))
    if data.draw(st.booleans()):
        made.will = Will(
            data.draw(words), data.draw(st.binary()), data.draw(st.integers(0, 2)), data.draw(st.booleans())
        )
        if version == V5:
            made.will.properties = data.draw(properties_for(WILL))
    reader = shown(made.octets(), version)
    found = read_connect(reader.data, reader.begin, reader.end)
    for name in ("client_id", "version", "clean", "keep_alive", "user", "password", "properties"):
        assert getattr(found, name) == getattr(made, name)
    assert (found.will is None) == (made.will is None)
    if found.will is not None and made.will is not None:
        for name in ("topic", "payload", "qos", "retain", "properties"):
            assert getattr(found.will, name) == getattr(made.will, name)


@given(
    version=st.sampled_from(VERSIONS),
    topic=words,
    payload=st.binary(max_size=400),
    qos=st.integers(0, 2),
    packet_id=identifiers,
    retain=st.booleans(),
    data=st.data(),
)
def test_publish(
    version: int, topic: str, payload: bytes, qos: int, packet_id: int, retain: bool, data: st.DataObject
) -> None:
    properties = data.draw(properties_for(PUBLISH)) if version == V5 else {}
    octets = publish(version, topic, payload, qos, packet_id, retain=retain, properties=properties)
    size = data.draw(st.integers(1, 50))
    reader = Reader(1 << 28)
    reader.version = version
    for at in range(0, len(octets), size):
        assert not reader.next()
        reader.feed(octets[at : at + size])
    assert reader.next()
    reader.read_publish()
    assert reader.topic.decode() == topic
    assert reader.packet_id == (packet_id if qos else 0)
    assert reader.data[int(reader.payload_at) : int(reader.end)] == payload
    if version == V5:
        found, end = read_properties(reader.data, reader.properties_at, reader.payload_at, PUBLISH)
        assert (found, end) == (properties, reader.payload_at)


@given(version=st.sampled_from(VERSIONS), packet_id=identifiers, code=st.integers(0, 255))
def test_acknowledgements(version: int, packet_id: int, code: int) -> None:
    for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
        reader = shown(acknowledgement(kind, packet_id, version, code, "why"), version)
        found = read_ack(kind, reader.flags, reader.data, reader.begin, reader.end, version)
        assert (found.packet_id, found.code) == (packet_id, code if version == V5 else 0)


@given(version=st.sampled_from(VERSIONS), packet_id=identifiers, data=st.data())
def test_subscribe_and_its_answer(version: int, packet_id: int, data: st.DataObject) -> None:
    made = Subscribe(packet_id)
    options = (
        st.integers(0, 2)
        if version != V5
        else st.builds(lambda q, f: q | f << 2, st.integers(0, 2), st.integers(0, 11))
    )
    made.wishes = data.draw(st.lists(st.builds(Wish, words, options), min_size=1, max_size=5))
    made.identifier = data.draw(st.integers(0, 268_435_455)) if version == V5 else 0
    for kind in (SUBSCRIBE, UNSUBSCRIBE):
        if kind == UNSUBSCRIBE:
            made.identifier = 0
        reader = shown(made.octets(version, kind), version)
        found = read_subscribe(kind, reader.flags, reader.data, reader.begin, reader.end, version)
        assert found.packet_id == packet_id
        assert [one.filter for one in found.wishes] == [one.filter for one in made.wishes]
        if kind == SUBSCRIBE:
            assert found.identifier == made.identifier
            assert [one.options for one in found.wishes] == [one.options for one in made.wishes]
    codes = data.draw(st.lists(st.integers(0, 255), min_size=1))
    reader = shown(suback(packet_id, codes, version), version)
    answer = read_answer(SUBACK, reader.data, reader.begin, reader.end, version)
    assert (answer.packet_id, answer.codes) == (packet_id, codes)


@given(data=st.data(), code=st.integers(0, 255))
def test_connack_and_disconnect(data: st.DataObject, code: int) -> None:
    properties = data.draw(properties_for(CONNACK))
    reader = shown(connack(V5, True, code, properties), V5)
    answer = read_answer(CONNACK, reader.data, reader.begin, reader.end, V5)
    assert (answer.present, answer.codes, answer.properties) == (True, [code], properties)
    made = Farewell(code)
    made.properties = data.draw(properties_for(DISCONNECT))
    reader = shown(made.octets(V5), V5)
    found = read_farewell(DISCONNECT, 0, reader.data, reader.begin, reader.end, V5)
    assert (found.code, found.properties) == (code, made.properties)


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_other_octets_raise_nothing_but_what_peers_are_told(octets: bytes, version: int) -> None:
    reader = Reader(1 << 28)
    reader.version = version
    reader.feed(octets)
    try:
        while reader.next():
            for read in (
                reader.read_publish,
                lambda: read_connect(reader.data, reader.begin, reader.end),
                lambda: read_subscribe(SUBSCRIBE, 2, reader.data, reader.begin, reader.end, version),
                lambda: read_ack(PUBACK, 0, reader.data, reader.begin, reader.end, version),
                lambda: read_farewell(DISCONNECT, 0, reader.data, reader.begin, reader.end, version),
                lambda: read_properties(reader.data, reader.begin, reader.end, PUBLISH),
            ):
                with contextlib.suppress(PeerError):
                    read()
    except PeerError:
        pass


def test_a_length_is_refused_before_anything_is_held() -> None:
    reader = Reader(1000)
    reader.feed(b"\x30\xff\xff\xff\x7f")
    with pytest.raises(LimitExceeded):
        reader.next()
    assert reader.waiting() < 10


@pytest.mark.parametrize("octets", [b"\x30\x80\x80\x80\x80\x01", b"\x30\x80\x00", b"\x30\xff\xff\xff\xff"])
def test_a_length_has_four_octets_and_no_more_than_it_needs(octets: bytes) -> None:
    reader = Reader(1 << 28)
    reader.feed(octets)
    with pytest.raises(MalformedFrame):
        reader.next()


@pytest.mark.parametrize("octets", [b"\xed\xa0\x80", b"\xff", b"a\0", b"\x01", b"\xc2\x85", b"\xef\xbf\xbf"])
def test_strings_that_a_server_refuses(octets: bytes) -> None:
    with pytest.raises(MalformedFrame):
        text_of(octets)


def test_a_byte_order_mark_is_a_character() -> None:
    assert text_of(b"\xef\xbb\xbfa") == "\ufeffa"


# -- names -------------------------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("a/.*>\\$ "), min_size=1))
def test_a_topic_comes_back_from_its_address(topic: str) -> None:
    assert topic_of(address_of(topic)) == topic


@given(st.lists(st.sampled_from(["+", "a", "", "b.c", ">", "*"]), min_size=1), st.booleans())
def test_a_filter_comes_back_from_its_pattern(levels: list[str], rest: bool) -> None:
    text = "/".join([*levels, "#"] if rest else levels)
    name = address_of(text)
    assert name.split(".").count("*") == levels.count("+")
    assert sum(word in ("#", ">") for word in name.split(".")) == int(rest)


@pytest.mark.parametrize("text", ["#", "+", "a/#", "/", "+/+", "a//b", "$SYS/#", "/#"])
def test_filters(text: str) -> None:
    check_filter(text)


@pytest.mark.parametrize("text", ["", "a#", "#/a", "a+", "+a/b", "a/#/b", "a/b#", "x" * 20_000, "/" * 300])
def test_no_filters(text: str) -> None:
    with pytest.raises(Exception, match=r"filter|longer"):
        check_filter(text)
