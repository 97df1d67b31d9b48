"""What a language says to be a body alone is what its common form says, in every way in which others are told of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base import primitive
from entrepot.base.primitive import Primitive
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import (
    BARE_NOT,
    BARE_OCTETS,
    BARE_TEXT,
    BODY_BYTES,
    BODY_TEXT,
    Message,
)
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.convert import CORE_LANGUAGE, ROUTING_ANYCAST, presented
from entrepot.protocols.artemis.headers import TYPE_BYTES, TYPE_DEFAULT, TYPE_MAP, TYPE_TEXT, Headers, assembled
from entrepot.protocols.stomp import convert as stomp
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from kit import Rig

from .stomp.test_server import Client

USUAL: dict[str, object] = {"_AMQ_ROUTING_TYPE": Primitive(primitive.BYTE, 1), "__AMQ_CID": "c"}
HEADS = st.sampled_from(
    [
        b"",
        b"content-length:7\n",
        b"content-length:7\ncolour:red\n",
        b"colour:red\ncontent-length:7\n",
        b"content-length-of-mine:7\n",
        b"content-length:00000000000000000000000007\n",
        b"type:invoice\n",
        b"a:b\n",
        b"transformation:jms-map-json\n",
        b"amq-msg-type:text\n",
    ]
)


def over_stomp(head: bytes, body: bytes) -> Message:
    """Return what came in over STOMP."""
    message = Message(STOMP_LANGUAGE, "orders", head + b"\n" + body + b"\0")
    message.body_at = len(head) + 1
    return message


def over_core(kind: int, body: bytes, properties: dict[str, object]) -> Message:
    """Return what came in over CORE."""
    headers = Headers()
    headers.address = "orders"
    headers.kind = kind
    headers.user_id = bytes(range(16))
    return message_of(assembled(body, headers, properties), "")


def agrees(message: Message) -> int:
    """Return what the language says of ``message``; where that is a body alone, the common form has nothing else."""
    kind, body = message.language.bare(message)
    if kind == BARE_NOT:
        assert body == b""
        return kind
    said = message.common()
    assert said.body_kind == (BODY_TEXT if kind == BARE_TEXT else BODY_BYTES)
    assert said.body == (body.decode("utf-8", "replace") if kind == BARE_TEXT else body)
    assert said.properties == {}
    assert said.path == []
    others = (said.correlation_id, said.reply_to, said.original, said.type, said.content_type, said.user_id)
    assert others == (None,) * len(others)
    assert message.language.exact(message) is None
    return kind


@given(HEADS, st.binary(max_size=40))
def test_over_stomp(head: bytes, body: bytes) -> None:
    kind = agrees(over_stomp(head, body))
    assert kind == {b"": BARE_TEXT, b"content-length:7\n": BARE_OCTETS}.get(head, BARE_NOT)


@given(
    st.sampled_from([TYPE_DEFAULT, TYPE_TEXT, TYPE_BYTES, TYPE_MAP]),
    st.binary(max_size=12) | st.text(max_size=12).map(text_body) | st.just(text_body(None)),
    st.dictionaries(st.sampled_from([*USUAL, "colour", "JMSType", "_AMQ_GROUP_ID"]), st.just("x"), max_size=3),
)
def test_over_core(kind: int, body: bytes, properties: dict[str, object]) -> None:
    message = over_core(kind, body, {**properties, **{key: USUAL[key] for key in properties if key in USUAL}})
    found = agrees(message)
    if kind == TYPE_BYTES and not properties.keys() - USUAL.keys():
        assert found == BARE_OCTETS
    if found != BARE_NOT:
        assert stomp._said(message, "") == (b"", found, message.language.bare(message)[1])


def test_what_cannot_be_read_is_no_body_alone() -> None:
    assert over_core(TYPE_TEXT, b"\1\0\0\0\3abc", USUAL).language.bare(over_core(TYPE_TEXT, b"\1\0\0\0\3abc", {})) == (
        BARE_NOT,
        b"",
    )
    lone = over_core(TYPE_TEXT, text_body("\ud800"), USUAL)
    assert CORE_LANGUAGE.bare(lone) == (BARE_NOT, b""), "half a character has no form in UTF-8"
    short = over_core(TYPE_BYTES, b"x", USUAL)
    short.raw = short.raw[:-3]
    assert CORE_LANGUAGE.bare(short) == (BARE_NOT, b"")


@pytest.mark.parametrize("body", [b"hello", b"", b"\0\1\2", "grüße".encode(), b"\xff\xfe"])
@pytest.mark.parametrize("head", [b"", b"content-length:5\n"])
def test_it_goes_to_core_and_comes_back(head: bytes, body: bytes) -> None:
    if not head and b"\0" in body:
        return
    message = over_stomp(head, body)
    message.number = 3
    came = message_of(presented(message, ROUTING_ANYCAST, "ID:n:-1:1:3"), "")
    tail, at = stomp.tail_of(came)
    told = body if head else body.decode("utf-8", "replace").encode()
    assert tail == (b"content-length:%d\n\n" % len(body) if head else b"\n") + told + b"\0"
    assert tail[at:] == told + b"\0"


def test_a_text_with_nul_is_framed_by_its_length() -> None:
    tail, at = stomp.tail_of(over_core(TYPE_TEXT, text_body("a\0b"), USUAL))
    assert (tail, at) == (b"content-length:3\n\na\0b\0", 18)


def test_a_group_goes_with_it() -> None:
    message = over_stomp(b"content-length:5\n", b"hello")
    message.need_rare().group = "g"
    came = message_of(presented(message, ROUTING_ANYCAST, "ID:1"), "")
    assert came.rare is not None
    assert came.rare.group == "g"


IDS = [bytes(range(16)), b""]  # what its sender gave it, or nothing: then the broker does


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("user_id", IDS)
@pytest.mark.parametrize("dead", [False, True])
def test_a_reader_of_stomp_acknowledges_it_by_its_id(version: str, user_id: bytes, dead: bool) -> None:
    rig = Rig()
    client = Client(rig, version)
    client.ask("SUBSCRIBE", destination="/queue/orders", id="s", ack="client", receipt="1")
    headers = Headers()
    headers.address = "orders"
    headers.kind = TYPE_BYTES
    headers.user_id = user_id
    message = message_of(assembled(b"hello", headers, {}), "")
    if dead:
        message.need_rare().identity = "ID:the original:1"
    rig.broker.sending.send(message, rig.broker.target([Destination("orders", ANYCAST)]))
    (frame,) = client.hear()
    assert frame.body == b"hello"
    assert frame.headers["message-id"] == rig.broker.ids.identity_of(message)
    queue = rig.broker.table.queues["orders"]
    assert queue.settled == 0
    client.ask("ACK", message_id=frame.headers["message-id"], subscription="s", id=frame.headers.get("ack", "0"))
    assert queue.settled == 1
