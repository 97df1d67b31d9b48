"""Between CORE and the other languages: what is sent in one says the same in the other, and comes back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.primitive import plain
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import map_body, object_body, stream_body, text_body
from entrepot.protocols.artemis.convert import ROUTING_ANYCAST, presented
from entrepot.protocols.artemis.headers import (
    TYPE_BYTES,
    TYPE_DEFAULT,
    TYPE_MAP,
    TYPE_OBJECT,
    TYPE_STREAM,
    TYPE_TEXT,
    Headers,
    assembled,
    headers_at,
    read_headers,
)
from entrepot.protocols.openwire import convert as openwire
from entrepot.protocols.openwire.bodies import properties_of
from entrepot.protocols.openwire.commands import ActiveMQQueue, MessageId, ProducerId
from entrepot.protocols.stomp.convert import tail_of

QUEUE = ActiveMQQueue("orders")


def core(kind: int, body: bytes, properties: dict[str, object]) -> Message:
    """Return a message that came over CORE."""
    headers = Headers()
    headers.address = "orders"
    headers.user_id = bytes(range(16))
    headers.kind = kind
    headers.timestamp = 1_700_000_000_000
    message = message_of(assembled(body, headers, properties), "")
    message.number = 5
    return message


def over_openwire(message: Message) -> Message:
    """Return the message that a client of OpenWire would send on, as it heard ``message``."""
    heard = openwire.presented(message, QUEUE, "ID:1", "node", None)
    heard.message_id = MessageId(producer_id=ProducerId("c", 1, 1), producer_sequence_id=1)
    again = openwire.message_of(heard, "orders")
    again.number = 6
    return again


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts
names = st.text("abcxyz", min_size=1, max_size=8)
properties = st.dictionaries(names, scalars, max_size=4)
bodies: st.SearchStrategy[tuple[int, bytes]] = st.one_of(
    texts.map(lambda text: (TYPE_TEXT, text_body(text))),
    st.binary(max_size=40).map(lambda octets: (TYPE_BYTES, octets)),
    st.dictionaries(names, scalars | st.binary(max_size=9), max_size=4).map(lambda found: (TYPE_MAP, map_body(found))),
    st.lists(scalars | st.binary(max_size=9), max_size=4).map(lambda found: (TYPE_STREAM, stream_body(found))),
    st.binary(min_size=1, max_size=40).map(lambda octets: (TYPE_OBJECT, object_body(octets))),
    st.just((TYPE_DEFAULT, b"")),
)


@given(bodies, properties)
def test_core_to_openwire_and_back(body: tuple[int, bytes], said: dict[str, Any]) -> None:
    message = core(*body, dict(said))
    through = over_openwire(message)
    octets = presented(through, ROUTING_ANYCAST, "ID:1")
    assert read_headers(octets, headers_at(octets)).kind == body[0]
    again = message_of(octets, "").common()
    before = message.common()
    assert (again.body_kind, again.body) == (before.body_kind, before.body)
    assert again.properties == before.properties == said


@given(st.dictionaries(names, scalars | st.binary(max_size=9), max_size=4))
def test_the_entries_of_a_map_keep_their_types_over_openwire(entries: dict[str, Any]) -> None:
    message = core(TYPE_MAP, map_body(entries), {})
    exact = over_openwire(message).language.exact(over_openwire(message))
    assert exact is not None
    assert plain(exact) == entries
    assert map_body(exact) == map_body(message.language.exact(message) or {})


def test_jms_headers_over_openwire() -> None:
    message = core(
        TYPE_TEXT,
        text_body("x"),
        {
            "JMSCorrelationID": "c",
            "JMSType": "t",
            "JMSReplyTo": "temp-topic://answers",
            "_AMQ_GROUP_ID": "g",
            "_AMQ_GROUP_SEQUENCE": 2,
            "__AMQ_CID": "hidden",
        },
    )
    heard = openwire.presented(message, QUEUE, "ID:1", "node", None)
    assert (heard.correlation_id, heard.jms_type, heard.group_id, heard.group_sequence) == ("c", "t", "g", 2)
    assert heard.reply_to is not None
    assert (type(heard.reply_to).__name__, heard.reply_to.physical_name) == ("ActiveMQTempTopic", "answers")
    assert properties_of(heard) == {}
    said = message_of(presented(over_openwire(message), ROUTING_ANYCAST, "ID:1"), "").common()
    assert (said.correlation_id, said.type, said.reply_to) == ("c", "t", "/remote-temp-topic/answers")


@pytest.mark.parametrize(
    ("kind", "body", "tail"),
    [
        (TYPE_TEXT, text_body("grüße"), "grüße".encode()),
        (TYPE_BYTES, b"\0\1", b"\0\1"),
        (TYPE_MAP, map_body({"a": 1}), b'{"a": 1}'),
        (TYPE_STREAM, stream_body([1, "x"]), b'[1, "x"]'),
        (TYPE_DEFAULT, b"", b""),
    ],
)
def test_core_to_stomp(kind: int, body: bytes, tail: bytes) -> None:
    octets, at = tail_of(core(kind, body, {"colour": "red", "JMSReplyTo": "queue://answers", "JMSType": "t"}))
    assert octets[at:] == tail + b"\0"
    lines = octets[:at].split(b"\n")
    assert b"colour:red" in lines
    assert b"reply-to:/queue/answers" in lines
    assert b"type:t" in lines
    assert (b"content-length:2" in lines) == (kind == TYPE_BYTES)
