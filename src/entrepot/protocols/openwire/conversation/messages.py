"""What a program sends, as OpenWire has it, and what came, as programs have it. [C]"""

from __future__ import annotations

import zlib
from typing import Final

from entrepot.base.errors import Inexpressible
from entrepot.protocols.conversing.bodies import SerializedObject
from entrepot.protocols.conversing.content import Envelope, Headers, Outgoing
from entrepot.protocols.conversing.destinations import kind_and_name
from entrepot.protocols.openwire.bodies import (
    bytes_message,
    map_message,
    map_of_body,
    object_message,
    octets_of,
    pack_properties,
    row_of_body,
    stream_message,
    text_message,
    text_of_body,
)
from entrepot.protocols.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    Destination,
    Message,
)
from entrepot.protocols.openwire.ids import DestinationKind, destination, parse_destination, qualified_name, text_of

PLACES_KEPT: Final = 4096  # names of destinations that were read and are remembered
_places: Final[dict[str, Destination]] = {}


def place_of(text: str) -> Destination:
    """Return the destination that a program names. Raises InvalidDestination."""
    known = _places.get(text)
    if known is None:
        kind, name = kind_and_name(text)
        known = destination(DestinationKind[kind.name], name)
        if len(_places) >= PLACES_KEPT:
            _places.clear()
        _places[text] = known
    return known


def compose(outgoing: Outgoing, usual: Destination | None) -> Message:
    """Return the message; ``usual``: where it goes when it does not say. Raises Inexpressible, InvalidDestination."""
    message = message_of_body(outgoing.body)
    headers = outgoing.headers
    if outgoing.properties:
        message.marshalled_properties = pack_properties(outgoing.properties)
    if headers is not None:
        message.correlation_id = headers.correlation_id
        message.jms_type = headers.type
        message.group_id = headers.group
        message.group_sequence = headers.group_sequence
        if headers.reply_to is not None:
            message.reply_to = parse_destination(headers.reply_to)
    if outgoing.compress and message.content:
        _deflate(message)
    message.destination = place_of(outgoing.destination) if outgoing.destination else usual
    message.persistent = outgoing.persistent
    message.priority = outgoing.priority
    message.timestamp = outgoing.timestamp
    message.expiration = outgoing.expiration
    return message


def message_of_body(body: object) -> Message:
    """Return a message with ``body``. Raises Inexpressible for what has no form in OpenWire."""
    if isinstance(body, str):
        return text_message(body)
    if isinstance(body, SerializedObject):
        return object_message(bytes(body))
    if isinstance(body, bytes):
        return bytes_message(body)
    if body is None:
        return ActiveMQMessage()
    if isinstance(body, dict):
        return map_message(body)
    if isinstance(body, list):
        return stream_message(body)
    if isinstance(body, (bytearray, memoryview)):
        return bytes_message(bytes(body))
    raise Inexpressible(f"a {type(body).__name__} is no body", remedy="send str, bytes, dict, list or None")


def body_of(message: Message) -> object:
    """Return what ``message`` says, as its kind. Raises MalformedFrame, LimitExceeded."""
    if isinstance(message, ActiveMQTextMessage):
        return text_of_body(message)
    if isinstance(message, ActiveMQBytesMessage):
        return octets_of(message) or b""
    if isinstance(message, ActiveMQMapMessage):
        return map_of_body(message)
    if isinstance(message, ActiveMQStreamMessage):
        return row_of_body(message)
    if isinstance(message, ActiveMQObjectMessage):
        return SerializedObject(octets_of(message) or b"")
    return None


def headers_of(message: Message) -> Headers:
    """Return what the sender said about ``message``."""
    return Headers(
        message.correlation_id,
        None if message.reply_to is None else qualified_name(message.reply_to),
        message.jms_type,
        message.group_id,
        int(message.group_sequence),
    )


def envelope_of(message: Message) -> Envelope:
    """Return what the way of ``message`` left on it."""
    return Envelope(
        "" if message.message_id is None else text_of(message.message_id),
        "" if message.destination is None else qualified_name(message.destination),
        message.persistent,
        int(message.priority),
        int(message.timestamp),
        int(message.expiration),
        message.jmsx_group_first_for_consumer,
        message.user_id,
    )


def _deflate(message: Message) -> None:
    """Compress the body as Java does (classic.md 5.6)."""
    content = message.content or b""
    packed = zlib.compress(content)
    if isinstance(message, ActiveMQBytesMessage):
        packed = len(content).to_bytes(4, "big") + packed
    message.content = packed
    message.compressed = True
