"""What a message carries, opened on demand: properties and bodies, from the octets that travel and back.

The broker passes bodies on closed. They are opened for a receiver of another protocol, for XPath selectors and for
people who browse. A compressed body is a zlib stream of the same octets; the body of a bytes message has its inflated
length (4 octets) in front.

What a peer sent wrong raises `MalformedFrame`; a body that inflates beyond reason raises `LimitExceeded`. [C]
"""

from __future__ import annotations

from entrepot.base.errors import MalformedFrame
from entrepot.base.inflation import INFLATED_OCTETS_MAX, inflate
from entrepot.protocols.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    Message,
)
from entrepot.protocols.openwire.primitives import (
    decode_modified_utf8,
    encode_modified_utf8,
    read_map,
    read_row,
    write_map,
    write_row,
)


def properties_of(message: Message, *, typed: bool = False) -> dict[str, object]:
    """Return the user properties; ``typed`` as in `primitives.read_map`."""
    return read_map(message.marshalled_properties or b"", typed=typed)


def pack_properties(properties: dict[str, object]) -> bytes | None:
    """Return the octets of user properties, None if there are none. Raises Inexpressible."""
    return write_map(properties) if properties else None


def octets_of(message: Message, *, inflated_max: int = INFLATED_OCTETS_MAX) -> bytes | None:
    """Return the body's octets, inflated if they were compressed; None if there is no body."""
    content = message.content
    if content is None or not message.compressed:
        return content
    if not isinstance(message, ActiveMQBytesMessage):
        # Bodies of these kinds say themselves where they end, and Artemis leaves out the end of the stream.
        return inflate(content, inflated_max, unended=not isinstance(message, ActiveMQObjectMessage))
    if len(content) < 4:
        raise MalformedFrame("a compressed bytes body has no length")
    body = inflate(content[4:], inflated_max)
    if len(body) != int.from_bytes(content[:4], "big", signed=True):
        raise MalformedFrame("a compressed bytes body has another length than it says")
    return body


def text_of_body(message: ActiveMQTextMessage, *, inflated_max: int = INFLATED_OCTETS_MAX) -> str | None:
    """Return the text; no octets and a negative length both mean null."""
    octets = octets_of(message, inflated_max=inflated_max)
    if octets is None:
        return None
    if len(octets) < 4:
        raise MalformedFrame("a text body has no length")
    length = int.from_bytes(octets[:4], "big", signed=True)
    if length < 0:
        return None
    if length > len(octets) - 4:
        raise MalformedFrame("a text body ends too early")
    return decode_modified_utf8(octets[4 : 4 + length])


def map_of_body(message: ActiveMQMapMessage, *, typed: bool = False) -> dict[str, object]:
    """Return the entries; no octets are no entries."""
    return read_map(octets_of(message) or b"", typed=typed)


def row_of_body(message: ActiveMQStreamMessage, *, typed: bool = False) -> list[object]:
    """Return the values of a stream message in order."""
    return read_row(octets_of(message) or b"", typed=typed)


def text_message(text: str | None) -> ActiveMQTextMessage:
    """Return a message with ``text`` as its body, not compressed."""
    if text is None:
        return ActiveMQTextMessage()
    octets = encode_modified_utf8(text)
    return ActiveMQTextMessage(content=len(octets).to_bytes(4, "big") + octets)


def bytes_message(octets: bytes) -> ActiveMQBytesMessage:
    """Return a message with ``octets`` as its body, not compressed."""
    return ActiveMQBytesMessage(content=octets)


def map_message(entries: dict[str, object]) -> ActiveMQMapMessage:
    """Return a message with ``entries`` as its body. Raises Inexpressible."""
    return ActiveMQMapMessage(content=write_map(entries))


def stream_message(values: list[object]) -> ActiveMQStreamMessage:
    """Return a message with ``values`` as its body. Raises Inexpressible."""
    return ActiveMQStreamMessage(content=write_row(values))


def object_message(serialised: bytes) -> ActiveMQObjectMessage:
    """Return a message whose body is an object that Java serialised; the octets are never opened here."""
    return ActiveMQObjectMessage(content=serialised)
