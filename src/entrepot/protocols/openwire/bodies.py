"""What a message carries, opened on demand: properties and bodies, from the octets that travel and back.

The broker passes bodies on closed. They are opened for a receiver of another protocol, for XPath selectors and for
people who browse. A compressed body is a zlib stream of the same octets; the body of a bytes message has its inflated
length (4 octets) in front.

What a peer sent wrong raises `MalformedFrame`; a body that inflates beyond reason raises `LimitExceeded`. [C]
"""

from __future__ import annotations

import zlib
from typing import Final

from entrepot.base.environment import MIB
from entrepot.base.errors import LimitExceeded, MalformedFrame
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

DEFLATE_RATIO_MAX: Final = 1032
"""No deflate stream inflates to more (RFC 1951: 258 octets from two bits)."""
PIECE_OCTETS: Final = 1024  # becomes a megabyte at most
INFLATED_OCTETS_MAX: Final = 100 * MIB
"""ActiveMQ's own limit (``maxInflatedDataSize``)."""


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


def inflate(octets: bytes, inflated_max: int, *, unended: bool = False) -> bytes:
    """Return the octets of a zlib stream. Raises LimitExceeded for one that has more than ``inflated_max``.

    ``unended``: a stream that was flushed and not finished will do. One that could be too long is measured before
    anything of it is kept.
    """
    if len(octets) * DEFLATE_RATIO_MAX > inflated_max:
        _measure(octets, inflated_max)
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(octets, inflated_max + 1)
    except zlib.error as error:
        raise MalformedFrame(f"a compressed body cannot be inflated: {error}") from error
    if len(body) > inflated_max:
        raise LimitExceeded(f"a compressed body inflates to more than {inflated_max} octets")
    if not stream.eof and not unended:
        raise MalformedFrame("a compressed body ends too early")
    return body


def _measure(octets: bytes, inflated_max: int) -> None:
    """Raise LimitExceeded when ``octets`` inflate to more than ``inflated_max``. Keeps one piece at a time."""
    stream = zlib.decompressobj()
    total = 0
    try:
        for at in range(0, len(octets), PIECE_OCTETS):
            total += len(stream.decompress(octets[at : at + PIECE_OCTETS]))
            if total > inflated_max:
                raise LimitExceeded(f"a compressed body inflates to more than {inflated_max} octets")
    except zlib.error:
        return  # what follows says so


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
