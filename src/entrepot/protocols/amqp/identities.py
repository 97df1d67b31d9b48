"""Message ids of AMQP, which have four types, as the texts that JMS has, and back (AMQP Bindings and Mappings, 3.2.1).

A text that begins with ``ID:`` is what it is. The others are said so that they can be said back: ``ID:AMQP_ULONG:7``,
``ID:AMQP_UUID:...``, ``ID:AMQP_BINARY:0AFF``, and ``ID:AMQP_NO_PREFIX:text``. [C]
"""

from __future__ import annotations

from typing import Final

from entrepot.model.ids import uuid_text
from entrepot.protocols.amqp.primitives import ULONG, UUID, Exact

ID: Final = "ID:"
NO_PREFIX: Final = "ID:AMQP_NO_PREFIX:"
STRING: Final = "ID:AMQP_STRING:"
OF_ULONG: Final = "ID:AMQP_ULONG:"
OF_UUID: Final = "ID:AMQP_UUID:"
OF_BINARY: Final = "ID:AMQP_BINARY:"
_MARKED: Final = (NO_PREFIX, STRING, OF_ULONG, OF_UUID, OF_BINARY)


def identity_of(value: object) -> str:
    """Return an id as JMS has it; "" for none."""
    if isinstance(value, str):
        if not value.startswith(ID):
            return NO_PREFIX + value
        return STRING + value[len(ID) :] if value.startswith(_MARKED) else value
    if isinstance(value, bytes):
        return OF_BINARY + value.hex().upper()
    if isinstance(value, int):
        return f"{OF_ULONG}{value}"
    if isinstance(value, Exact) and isinstance(value.value, bytes):
        return OF_UUID + uuid_text(value.value)
    return ""


def said_id(text: str) -> object:
    """Return the id that is ``text`` in JMS; one that cannot be read back is the text itself."""
    if not text.startswith(_MARKED):
        return text or None
    if text.startswith(NO_PREFIX):
        return text[len(NO_PREFIX) :]
    if text.startswith(STRING):
        return ID + text[len(STRING) :]
    try:
        if text.startswith(OF_ULONG):
            number = int(text[len(OF_ULONG) :])
            return Exact(ULONG, number) if 0 <= number < 1 << 64 else text
        if text.startswith(OF_BINARY):
            return bytes.fromhex(text[len(OF_BINARY) :])
        octets = bytes.fromhex(text[len(OF_UUID) :].replace("-", ""))
    except ValueError:
        return text
    return Exact(UUID, octets) if len(octets) == 16 else text
