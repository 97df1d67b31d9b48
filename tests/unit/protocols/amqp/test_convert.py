"""Messages of AMQP said in the common form, those of others said in AMQP, and ids of all types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.primitive import BYTE, Primitive
from entrepot.model import address as names
from entrepot.model.message import (
    BODY_BYTES,
    BODY_EMPTY,
    BODY_MAP,
    BODY_OBJECT,
    BODY_STREAM,
    BODY_TEXT,
    LANGUAGE_AMQP,
    Message,
    language,
)
from entrepot.protocols.amqp.convert import AMQP_LANGUAGE, TRANSFORMER_MARK, UNREADABLE, message_of
from entrepot.protocols.amqp.identities import identity_of, said_id
from entrepot.protocols.amqp.performatives import Properties, Transfer
from entrepot.protocols.amqp.presenting import passes, presented
from entrepot.protocols.amqp.primitives import ULONG, UUID, Exact
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE

from .wired import Received, encoded

WALL = 1_700_000_000_000


def arrived(octets: bytes) -> Message:
    message = message_of(octets, WALL).message
    message.address = "orders"
    return message


def again(message: Message, deliveries: int = 0) -> Received:
    return Received(Transfer(handle=0), presented(message, deliveries, names.ANYCAST, "ID:1", WALL))


@pytest.mark.parametrize(
    ("octets", "kind", "body"),
    [
        (encoded("text"), BODY_TEXT, "text"),
        (encoded(None), BODY_EMPTY, None),
        (encoded(None, annotations={"x-opt-jms-msg-type": Primitive(BYTE, 5)}), BODY_TEXT, ""),
        (encoded(b"octets"), BODY_BYTES, b"octets"),
        (encoded(b"octets", data=True), BODY_BYTES, b"octets"),
        (encoded(b"text", data=True, properties=Properties(content_type="text/plain")), BODY_TEXT, "text"),
        (encoded(b"{}", data=True, properties=Properties(content_type="application/json")), BODY_TEXT, "{}"),
        (encoded(b"x", data=True, properties=Properties(content_type="text/plain; charset=utf-16")), BODY_BYTES, b"x"),
        (
            encoded(b"o", data=True, properties=Properties(content_type="application/x-java-serialized-object")),
            BODY_OBJECT,
            b"o",
        ),
        (encoded({"a": 1, "b": None}), BODY_MAP, {"a": 1, "b": None}),
        (encoded([1, "two"]), BODY_STREAM, [1, "two"]),
        (encoded(7), BODY_TEXT, "7"),
        (b"\x00\x53\x76\xc0\x03\x01\x54\x07\x00\x53\x76\xc0\x03\x01\x54\x08", BODY_STREAM, [7, 8]),
        (b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b", BODY_BYTES, b"ab"),
        (b"", BODY_EMPTY, None),
    ],
)
def test_each_body_has_a_common_form(octets: bytes, kind: int, body: object) -> None:
    said = arrived(octets).common()
    assert (said.body_kind, said.body) == (kind, body)


def test_what_the_envelope_says_is_what_the_header_said() -> None:
    octets = encoded("x", durable=True, priority=12, ttl=5000, delivery_count=2)
    message = arrived(octets)
    assert (message.durable, message.priority, message.expiration, message.redelivered) == (True, 9, WALL + 5000, True)
    plain = arrived(encoded("x"))
    assert (plain.durable, plain.priority, plain.expiration) == (False, 4, 0)
    dated = arrived(encoded("x", properties=Properties(absolute_expiry_time=WALL + 1, creation_time=WALL - 5)))
    assert (dated.expiration, dated.timestamp) == (WALL + 1, WALL - 5)


def test_properties_are_those_of_jms() -> None:
    properties = Properties(
        message_id="ID:a", user_id=b"ann", subject="kind", reply_to="answers", correlation_id="c", group_id="g",
        group_sequence=3, content_encoding="gzip",
    )  # fmt: skip
    reply = {"x-opt-jms-reply-to": Primitive(BYTE, 1), "x-mine": "m"}
    message = arrived(encoded("x", properties=properties, annotations=reply, application={"n": 1, "s": "t"}))
    said = message.common()
    assert (said.correlation_id, said.type, said.user_id, said.reply_to) == ("c", "kind", "ann", "/topic/answers")
    assert said.properties == {
        "JMS_AMQP_ContentEncoding": "gzip", "JMSXGroupID": "g", "JMSXGroupSeq": 3, "JMS_AMQP_MA_x-mine": "m",
        "n": 1, "s": "t",
    }  # fmt: skip
    facts = {
        "JMSMessageID": "ID:a", "JMSCorrelationID": "c", "JMSType": "kind", "JMSXUserID": "ann", "JMSXGroupID": "g",
        "JMSReplyTo": "answers", "n": 1, "s": "t", "m.x-mine": "m", "missing": None, "JMSPriority": 4,
    }  # fmt: skip
    assert {name: message.fact(name) for name in facts} == facts


def test_annotations_that_ask_for_something_are_obeyed() -> None:
    later = arrived(encoded("x", annotations={"x-opt-delivery-time": WALL + 9}))
    assert later.rare is not None
    assert later.rare.deliver_at == WALL + 9
    delayed = arrived(encoded("x", annotations={"x-opt-delivery-delay": 100}))
    assert delayed.rare is not None
    assert delayed.rare.deliver_at == WALL + 100
    known = arrived(encoded("x", application={"_AMQ_DUPL_ID": "once"}))
    assert known.rare is not None
    assert known.rare.duplicate_id == b"once"
    assert message_of(encoded("x", annotations={"x-opt-jms-dest": Primitive(BYTE, 1)}), WALL).routing == names.MULTICAST


def test_delivery_annotations_are_for_one_hop() -> None:
    octets = encoded("x", durable=True, application={"n": 1})
    at = octets.index(b"\x00\x53\x74")
    message = arrived(octets[:at] + b"\x00\x53\x71\xc1\x01\x00" + octets[at:])
    assert message.raw == octets
    assert message.body_at == at
    assert message.fact("n") == 1


def test_the_first_delivery_is_verbatim_and_later_ones_change_the_header_alone() -> None:
    octets = encoded("x", durable=True, application={"n": 1}, properties=Properties(message_id="ID:a"))
    message = arrived(octets)
    assert passes(message, 0)
    second = again(message, 1)
    assert (second.header.delivery_count, second.header.durable) == (1, True)
    assert second.octets.endswith(octets[message.body_at :])
    message.annotate("_AMQ_ORIG_ADDRESS", "before")
    assert not passes(message, 0)
    assert again(message).annotations == {"x-opt-ORIG-ADDRESS": "before"}


def test_what_cannot_be_read_is_octets_that_say_why() -> None:
    broken = arrived(encoded("x"))
    broken.raw = b"\x00\x53\x77\xa1\xffx"
    said = broken.common()
    assert said.body_kind == BODY_BYTES
    assert UNREADABLE in said.properties
    assert broken.fact("n") is None
    assert AMQP_LANGUAGE.identity(broken) == ""


def test_transformers_of_classic_show_octets() -> None:
    message = arrived(encoded("x", application={"n": 1}))
    message.mark(TRANSFORMER_MARK, "native")
    said = message.common()
    assert (said.body, said.properties) == (message.raw, {"n": 1, "JMS_AMQP_NATIVE": True})
    message.mark(TRANSFORMER_MARK, "raw")
    assert message.common().properties == {"JMS_AMQP_NATIVE": True}


def test_a_message_of_stomp_is_said_in_amqp() -> None:
    head = b"type:kind\nreply-to:/topic/answers\ncorrelation-id:c\nn:7\n\n"
    message = Message(STOMP_LANGUAGE, "orders", head + b"text\0")
    message.body_at = len(head)
    message.timestamp, message.durable, message.expiration = WALL, True, WALL + 1000
    found = again(message)
    assert found.body == "text"
    assert (found.header.durable, found.header.ttl) == (True, 1000)
    said = found.properties
    assert (said.message_id, said.to, said.subject, said.reply_to, said.correlation_id) == (
        "ID:1", "orders", "kind", "answers", "c",
    )  # fmt: skip
    assert found.annotations["x-opt-jms-reply-to"] == 1
    assert found.application == {"n": "7"}
    message.raw = b"content-length:2\n\n\x00\xff\0"
    message.body_at = 18
    assert again(message).body == b"\x00\xff"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ID:x", "ID:x"),
        ("x", "ID:AMQP_NO_PREFIX:x"),
        ("ID:AMQP_ULONG:7", "ID:AMQP_STRING:AMQP_ULONG:7"),
        (7, "ID:AMQP_ULONG:7"),
        (b"\x01\xff", "ID:AMQP_BINARY:01FF"),
        (Exact(UUID, bytes(range(16))), "ID:AMQP_UUID:00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (None, ""),
    ],
)
def test_ids_of_all_types_are_said_and_said_back(value: object, text: str) -> None:
    assert identity_of(value) == text
    assert said_id(text) == (Exact(ULONG, value) if isinstance(value, int) else value)


@given(st.text(max_size=60))
def test_any_text_is_an_id_of_something(text: str) -> None:
    value = said_id(text)
    assert value is None or identity_of(value) == text or not text.startswith("ID:") or "AMQP_" in text


def test_the_language_is_loaded_for_who_reads_a_journal() -> None:
    assert language(LANGUAGE_AMQP) is AMQP_LANGUAGE


def test_a_copy_says_where_it_went_and_expires_no_more() -> None:
    properties = Properties(message_id=7, to="before", absolute_expiry_time=WALL + 5, correlation_id=b"\1")
    copy = arrived(encoded("x", properties=properties, application={"n": 1})).twin("dead")
    copy.expiration = 0
    copy.annotate("_AMQ_ORIG_ADDRESS", "before")
    found = again(copy)
    assert (found.properties.to, found.properties.absolute_expiry_time) == ("dead", 0)
    assert (found.properties.message_id, found.properties.correlation_id) == (7, b"\1")
    assert identity_of(found.properties.message_id) == "ID:AMQP_ULONG:7"
    assert (found.body, found.application) == ("x", {"n": 1})


@pytest.mark.parametrize(("sent", "seen"), [(3, 3), (0xFFFFFFFF, -1), (-1, 0)])
def test_a_group_sequence_has_a_sign_in_jms(sent: int, seen: int) -> None:
    message = arrived(encoded("x", properties=Properties(group_id="g", group_sequence=sent)))
    assert message.fact("JMSXGroupSeq") == seen
    assert message.common().properties["JMSXGroupSeq"] == seen
