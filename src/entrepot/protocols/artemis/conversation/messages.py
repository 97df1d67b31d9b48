"""What a program sends, as CORE has it, and what came, as programs have it. [C]"""

from __future__ import annotations

import zlib
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import Inexpressible, MalformedFrame
from entrepot.base.primitive import BYTE, INT, LONG, Primitive
from entrepot.model.message import BODY_OBJECT, Common, Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import map_body, object_body, stream_body, text_body
from entrepot.protocols.artemis.convert import (
    COMPRESSED,
    CONNECTION,
    CORRELATION,
    DUPLICATE,
    GROUP,
    GROUP_SEQUENCE,
    LARGE_SIZE,
    REPLY_TO,
    ROUTING,
    ROUTING_ANYCAST,
    ROUTING_MULTICAST,
    TYPE,
    UNREADABLE,
    destination_name,
    jms_name,
    routing_of,
)
from entrepot.protocols.artemis.headers import (
    TYPE_BYTES,
    TYPE_DEFAULT,
    TYPE_MAP,
    TYPE_OBJECT,
    TYPE_STREAM,
    TYPE_TEXT,
    Headers,
    assembled,
)
from entrepot.protocols.artemis.primitives import HEAD_OCTETS
from entrepot.protocols.conversing.bodies import SerializedObject
from entrepot.protocols.conversing.content import Envelope, Outgoing
from entrepot.protocols.conversing.content import Headers as Said
from entrepot.protocols.conversing.destinations import Kind, kind_and_name

GROUP_NAMES: Final = ("JMSXGroupID", "JMSXGroupSeq")


def address_and_routing(text: str) -> tuple[str, i64]:
    """Return where a program's destination leads. Raises InvalidDestination."""
    kind, name = kind_and_name(text)
    topic = kind in (Kind.TOPIC, Kind.TEMPORARY_TOPIC)
    return name, ROUTING_MULTICAST if topic else ROUTING_ANYCAST


def body_octets(body: object) -> tuple[i64, bytes]:
    """Return the type of message and its body. Raises Inexpressible for what has no form in CORE."""
    if isinstance(body, str):
        return TYPE_TEXT, text_body(body)
    if isinstance(body, SerializedObject):
        return TYPE_OBJECT, object_body(bytes(body))
    if isinstance(body, (bytes, bytearray, memoryview)):
        return TYPE_BYTES, bytes(body)
    if body is None:
        return TYPE_DEFAULT, b""
    if isinstance(body, dict):
        return TYPE_MAP, map_body(body)
    if isinstance(body, list):
        return TYPE_STREAM, stream_body(body)
    raise Inexpressible(f"a {type(body).__name__} is no body", remedy="send str, bytes, dict, list or None")


def compose(outgoing: Outgoing, address: str, routing: i64, user_id: bytes, sender: str, duplicate: str) -> bytes:
    """Return the message that ``sender`` sends to ``address``; ``duplicate`` "" leaves the mark of a repetition out.

    Raises Inexpressible.
    """
    headers = Headers()
    headers.kind, body = body_octets(outgoing.body)
    headers.address = address
    headers.user_id = user_id
    headers.durable = outgoing.persistent
    headers.priority = i64(outgoing.priority)
    headers.timestamp = i64(outgoing.timestamp)
    headers.expiration = i64(outgoing.expiration)
    properties: dict[str, object] = {ROUTING: Primitive(BYTE, int(routing)), CONNECTION: sender}
    if duplicate:
        properties[DUPLICATE] = duplicate
    if outgoing.headers is not None:
        _say(properties, outgoing.headers)
    if outgoing.properties:
        properties.update(outgoing.properties)
    if outgoing.compress and body:
        properties[COMPRESSED] = True
        properties[LARGE_SIZE] = Primitive(LONG, len(body))
        body = zlib.compress(body)
    return assembled(body, headers, properties)


def _say(properties: dict[str, object], said: Said) -> None:
    if said.correlation_id is not None:
        properties[CORRELATION] = said.correlation_id
    if said.type is not None:
        properties[TYPE] = said.type
    if said.reply_to is not None:
        kind, name = kind_and_name(said.reply_to)
        properties[REPLY_TO] = kind.value + name
    if said.group is not None:
        properties[GROUP] = said.group
        properties[GROUP_SEQUENCE] = Primitive(INT, said.group_sequence)


def joined(body: bytes, headers: bytes) -> bytes:
    """Return a large message in one piece."""
    return (len(body) + HEAD_OCTETS).to_bytes(4, "big") + body + headers


class Incoming:
    """One message that came; opened when it is asked. Raises MalformedFrame, LimitExceeded."""

    def __init__(self, octets: bytes) -> None:
        self.message: Message = message_of(octets, "")
        self._common: Common | None = None

    def common(self) -> Common:
        """Return it in the common form. Raises MalformedFrame for a body that cannot be read."""
        common = self._common
        if common is None:
            common = self.message.common()
            if UNREADABLE in common.properties:
                raise MalformedFrame(str(common.properties[UNREADABLE]))
            self._common = common
        return common

    def body(self) -> object:
        """Return the body; its type is the message's kind."""
        common = self.common()
        if common.body_kind == BODY_OBJECT and isinstance(common.body, bytes):
            return SerializedObject(common.body)
        return common.body

    def properties(self) -> dict[str, object]:
        """Return the sender's own properties."""
        return {name: value for name, value in self.common().properties.items() if name not in GROUP_NAMES}

    def said(self) -> Said:
        """Return what the sender said besides."""
        common = self.common()
        rare = self.message.rare
        return Said(
            common.correlation_id,
            None if common.reply_to is None else jms_name(common.reply_to),
            common.type,
            rare.group or None if rare is not None else None,
            int(rare.group_sequence) if rare is not None else 0,
        )

    def envelope(self) -> Envelope:
        """Return what its way left on it."""
        message = self.message
        return Envelope(
            message.language.identity(message),
            destination_name(message.address, routing_of(message)),
            message.durable,
            int(message.priority),
            int(message.timestamp),
            int(message.expiration),
            False,
            self.common().user_id,
        )
