"""CORE as a language: what other languages are told, what readers of CORE are told of them, and selectors."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.base import primitive
from entrepot.base.primitive import Primitive, plain
from entrepot.model.message import (
    BODY_BYTES,
    BODY_EMPTY,
    BODY_MAP,
    BODY_OBJECT,
    BODY_STREAM,
    BODY_TEXT,
    USER,
    Common,
    Message,
    read_envelope,
    write_envelope,
)
from entrepot.model.predicate import compile_selector
from entrepot.protocols.artemis.arriving import large_message_of, message_of
from entrepot.protocols.artemis.bodies import map_body, object_body, stream_body, text_body
from entrepot.protocols.artemis.convert import (
    COMPRESSED,
    CORE_LANGUAGE,
    ROUTING_ANYCAST,
    ROUTING_MULTICAST,
    ROUTING_NONE,
    UNREADABLE,
    passes,
    presented,
    presented_headers,
    routing_of,
)
from entrepot.protocols.artemis.headers import (
    NO_BODY,
    TYPE_BYTES,
    TYPE_DEFAULT,
    TYPE_MAP,
    TYPE_OBJECT,
    TYPE_STREAM,
    TYPE_TEXT,
    Headers,
    assembled,
    body_of,
    headers_at,
    properties_in,
    read_headers,
)

UUID = bytes.fromhex("65473acbc6871870a96ec941e8329b10")
USUAL: dict[str, object] = {"_AMQ_ROUTING_TYPE": Primitive(primitive.BYTE, 1), "__AMQ_CID": "c-1"}


def sent(
    kind: int = TYPE_DEFAULT,
    body: bytes = b"",
    properties: dict[str, object] | None = None,
    *,
    address: str | None = "orders",
) -> bytes:
    """Return what a SEND carries."""
    headers = Headers()
    headers.address = address
    headers.user_id = UUID
    headers.kind = kind
    headers.durable = True
    headers.timestamp = 1_700_000_000_000
    headers.priority = 7
    return assembled(body, headers, USUAL if properties is None else properties)


def taken(kind: int = TYPE_DEFAULT, body: bytes = b"", properties: dict[str, object] | None = None) -> Message:
    return message_of(sent(kind, body, properties), "")


def test_the_envelope_says_what_the_headers_say() -> None:
    message = taken(TYPE_TEXT, text_body("x"))
    assert (message.address, message.durable, message.priority) == ("orders", True, 7)
    assert message.timestamp == 1_700_000_000_000
    assert message.language.identity(message) == "ID:65473acb-c687-1870-a96e-c941e8329b10"
    assert routing_of(message) == ROUTING_ANYCAST
    assert message.rare is None


def test_the_broker_knows_groups_duplicates_and_delays() -> None:
    message = taken(
        properties={
            "_AMQ_GROUP_ID": "g",
            "_AMQ_GROUP_SEQUENCE": Primitive(primitive.INT, -1),
            "_AMQ_DUPL_ID": b"once",
            "_AMQ_SCHED_DELIVERY": Primitive(primitive.LONG, 5),
            "_AMQ_OTHER": "x",
        }
    )
    rare = message.rare
    assert rare is not None
    assert (rare.group, rare.group_sequence, rare.duplicate_id, rare.deliver_at) == ("g", -1, b"once", 5)
    text = taken(properties={"_AMQ_DUPL_ID": "once", "_AMQ_GROUP_ID": 5}).rare
    assert text is not None
    assert (text.duplicate_id, text.group) == (b"once", "")


def test_what_stands_behind_the_properties_is_not_passed_on() -> None:
    octets = sent(TYPE_BYTES, b"abc")
    message = message_of(octets + b"from a newer peer", "")
    assert message.raw == octets


def test_a_message_without_address_goes_to_the_default_one() -> None:
    message = message_of(sent(TYPE_BYTES, b"abc", address=None), "first")
    assert message.address == "first"
    assert passes(message)
    headers = read_headers(message.raw, headers_at(message.raw))
    assert headers.address == "first"
    assert properties_in(message.raw) == plain(USUAL)


def test_it_goes_out_as_it_came_unless_the_broker_changed_it() -> None:
    message = taken(TYPE_TEXT, text_body("x"))
    assert presented(message, ROUTING_ANYCAST, "") is message.raw
    elsewhere = message.twin("DLQ")
    elsewhere.annotate("_AMQ_ORIG_ADDRESS", "orders")
    elsewhere.annotate("_AMQ_ACTUAL_EXPIRY", "17")
    elsewhere.annotate(USER, "alice")
    elsewhere.number = 12
    octets = presented(elsewhere, ROUTING_ANYCAST, "")
    headers = read_headers(octets, headers_at(octets))
    assert (headers.address, headers.number, headers.user_id) == ("DLQ", 12, UUID)
    assert body_of(octets) == body_of(message.raw)
    typed = properties_in(octets, typed=True)
    assert typed["_AMQ_ACTUAL_EXPIRY"] == Primitive(primitive.LONG, 17)
    assert typed["_AMQ_ORIG_ADDRESS"] == Primitive(primitive.TEXT, "orders")
    assert typed["_AMQ_VALIDATED_USER"] == Primitive(primitive.TEXT, "alice")
    message.durable = False
    message.language.changed(message)
    octets = presented(message, ROUTING_ANYCAST, "")
    assert not read_headers(octets, headers_at(octets)).durable


BODIES: list[tuple[int, bytes, int, object]] = [
    (TYPE_DEFAULT, b"", BODY_EMPTY, None),
    (TYPE_DEFAULT, bytes(4), BODY_EMPTY, None),
    (TYPE_DEFAULT, text_body("[]"), BODY_TEXT, "[]"),
    (TYPE_TEXT, text_body("grüße 😀"), BODY_TEXT, "grüße 😀"),
    (TYPE_TEXT, text_body(None), BODY_TEXT, ""),
    (TYPE_BYTES, b"\0\xff", BODY_BYTES, b"\0\xff"),
    (TYPE_MAP, map_body({"a": 1, "b": None}), BODY_MAP, {"a": 1, "b": None}),
    (TYPE_STREAM, stream_body([1, "x", None, b"o"]), BODY_STREAM, [1, "x", None, b"o"]),
    (TYPE_OBJECT, object_body(b"\xac\xed"), BODY_OBJECT, b"\xac\xed"),
    (TYPE_OBJECT, b"", BODY_OBJECT, b""),
]


@pytest.mark.parametrize(("kind", "body", "common", "said"), BODIES)
def test_bodies_in_the_common_form(kind: int, body: bytes, common: int, said: object) -> None:
    found = taken(kind, body).common()
    assert (found.body_kind, found.body) == (common, said)


@pytest.mark.parametrize(("kind", "body", "common", "said"), [each for each in BODIES if len(each[1]) > 4])
def test_compressed_bodies_are_inflated(kind: int, body: bytes, common: int, said: object) -> None:
    if kind == TYPE_DEFAULT:
        return
    found = taken(kind, zlib.compress(body), {COMPRESSED: True, "_AMQ_LARGE_SIZE": len(body)}).common()
    assert (found.body_kind, found.body, found.properties) == (common, said, {})


@pytest.mark.parametrize(
    ("kind", "body", "properties"),
    [(TYPE_TEXT, b"\1\0\0\0\7abc", {}), (TYPE_STREAM, b"\x63", {}), (TYPE_BYTES, b"no zlib", {COMPRESSED: True})],
)
def test_a_body_that_cannot_be_read_is_octets_with_a_reason(
    kind: int, body: bytes, properties: dict[str, object]
) -> None:
    found = taken(kind, body, properties).common()
    assert (found.body_kind, found.body) == (BODY_BYTES, body)
    assert found.properties[UNREADABLE]


def test_jms_headers_in_the_common_form() -> None:
    said = taken(
        properties={
            **USUAL,
            "JMSCorrelationID": b"c",
            "JMSType": "t",
            "JMSReplyTo": "temp-queue://q-1",
            "_AMQ_GROUP_ID": "g",
            "_AMQ_GROUP_SEQUENCE": 3,
            "_AMQ_VALIDATED_USER": "alice",
            "_AMQ_CONTENT_TYPE": "text/x",
            "_AMQ_ROUTE_TO.x": b"0",
            "colour": "red",
            "nothing": None,
        }
    ).common()
    assert (said.correlation_id, said.type, said.user_id, said.content_type) == ("c", "t", "alice", "text/x")
    assert said.reply_to == "/remote-temp-queue/q-1"
    assert said.properties == {"colour": "red", "JMSXGroupID": "g", "JMSXGroupSeq": 3}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("colour = 'red' AND weight > 2.5", True),
        ("JMSPriority = 7 AND AMQPriority > 6", True),
        ("JMSMessageID = 'ID:65473acb-c687-1870-a96e-c941e8329b10'", True),
        ("AMQUserID LIKE 'ID:65%'", True),
        ("AMQDurable = 'DURABLE'", True),
        ("AMQAddress = 'orders'", True),
        ("JMSDestination = 'topic://orders'", True),
        ("JMSXGroupID = 'g'", True),
        ("JMSType IS NULL", True),
        ("nothing IS NULL", True),
        ("weight < 2", False),
    ],
)
def test_selectors(selector: str, matches: bool) -> None:
    message = taken(
        properties={
            "colour": "red",
            "weight": 3,
            "_AMQ_GROUP_ID": "g",
            "_AMQ_ROUTING_TYPE": Primitive(primitive.BYTE, 0),
            "nothing": None,
        }
    )
    assert compile_selector(selector).matches(message) == matches


def test_it_is_the_same_after_a_restart() -> None:
    message = taken(TYPE_TEXT, text_body("x"), {"_AMQ_GROUP_ID": "g"})
    writer = BytesWriter()
    write_envelope(message, writer)
    again = read_envelope(writer.getvalue(), 0)
    assert again.language is CORE_LANGUAGE
    assert presented(again, ROUTING_ANYCAST, "") == message.raw
    assert again.common().body == "x"


def test_a_large_message_is_kept_as_its_headers() -> None:
    octets = sent(TYPE_TEXT, b"", {"k": 1, "_AMQ_LARGE_COMPRESSED": True, "_AMQ_LARGE_SIZE": 9})
    message = large_message_of(octets[len(NO_BODY) :], "")
    message.need_rare().large_id = 5
    assert presented_headers(message, ROUTING_NONE, "") == octets[len(NO_BODY) :]
    assert (message.common().body_kind, message.common().properties) == (BODY_TEXT, {"k": 1})
    message.need_rare().large_id = 0
    message.language.bereave(message)
    assert properties_in(message.raw) == {"k": 1}
    assert message.common().body == ""


# -- other languages -------------------------------------------------------------------------------------------------


class Foreign(type(CORE_LANGUAGE).__mro__[1]):  # type: ignore[misc] - Language itself
    """A language whose messages say what a test wants."""

    def __init__(self, said: Common) -> None:
        super().__init__(200, "foreign")
        self.said = said

    def common(self, message: Message) -> Common:
        return self.said


def foreign(said: Common) -> Message:
    message = Message(Foreign(said), "orders", b"")
    message.number = 9
    message.durable = True
    message.timestamp = 77
    return message


def test_a_message_of_another_language() -> None:
    said = Common(BODY_TEXT, "hello")
    said.correlation_id, said.type, said.content_type, said.user_id = "c", "t", "text/plain", "bob"
    said.reply_to = "/queue/answers"
    said.properties = {"n": 1, "JMSXGroupID": "g", "JMSXGroupSeq": 2, "receipt": "r-1"}
    octets = presented(foreign(said), ROUTING_MULTICAST, "ID:host-1-2:1:1:1:1")
    headers = read_headers(octets, headers_at(octets))
    assert (headers.kind, headers.address, headers.number, headers.timestamp) == (TYPE_TEXT, "orders", 9, 77)
    assert headers.durable
    assert len(headers.user_id) == 16
    assert properties_in(octets, typed=True) == {
        "n": Primitive(primitive.INT, 1),
        "_AMQ_GROUP_ID": Primitive(primitive.TEXT, "g"),
        "_AMQ_GROUP_SEQUENCE": Primitive(primitive.INT, 2),
        "JMSCorrelationID": Primitive(primitive.TEXT, "c"),
        "JMSType": Primitive(primitive.TEXT, "t"),
        "_AMQ_CONTENT_TYPE": Primitive(primitive.TEXT, "text/plain"),
        "_AMQ_VALIDATED_USER": Primitive(primitive.TEXT, "bob"),
        "JMSReplyTo": Primitive(primitive.TEXT, "queue://answers"),
        "_AMQ_ROUTING_TYPE": Primitive(primitive.BYTE, 0),
    }


texts = st.text(st.characters(codec=None) | st.sampled_from("\0\ud800\U0001f600"), max_size=20)
values = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.binary(max_size=9)
) | texts
names = st.text("abcxyz", min_size=1, max_size=8)
bodies: st.SearchStrategy[tuple[int, Any]] = st.one_of(
    st.tuples(st.just(BODY_TEXT), texts),
    st.tuples(st.just(BODY_BYTES), st.binary(max_size=30)),
    st.tuples(st.just(BODY_STREAM), st.lists(values, max_size=5)),
    st.tuples(st.just(BODY_OBJECT), st.binary(max_size=30)),
    st.just((BODY_EMPTY, None)),
)


@given(bodies, st.dictionaries(names, values.filter(lambda value: value is not None), max_size=5), st.none() | texts)
def test_what_another_language_says_is_heard_again(
    body: tuple[int, Any], properties: dict[str, Any], correlation: str | None
) -> None:
    said = Common(*body)
    said.properties = dict(properties)
    said.correlation_id = correlation
    heard = message_of(presented(foreign(said), ROUTING_NONE, "ID:1"), "").common()
    assert (heard.body_kind, heard.body) == body
    assert heard.properties == properties
    assert heard.correlation_id == correlation


@given(st.dictionaries(names, values, max_size=6))
def test_maps_keep_the_types_of_java(entries: dict[str, object]) -> None:
    message = taken(TYPE_MAP, map_body(entries))
    exact = message.language.exact(message)
    assert exact is not None
    assert plain(exact) == entries
    assert map_body(exact) == map_body(entries)
