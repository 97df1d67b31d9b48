"""By what brokers that mirror each other call one message: the broker where it was sent, and its number there. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.model.message import Message

MIRROR: Final = "$ACTIVEMQ_ARTEMIS_MIRROR_"
"""Begins the address that a mirror sends to, and with the name of its connection that of the queue it reads."""
ORIGIN: Final = "_ENTREPOT_MIRROR_ORIGIN"
NUMBER: Final = "_ENTREPOT_MIRROR_NUMBER"


def note(message: Message, origin: str, number: i64) -> None:
    """Note on ``message`` that the broker ``origin`` calls it ``number``; the journal keeps that."""
    message.mark(ORIGIN, origin)
    message.mark(NUMBER, int(number))


def named(message: Message, own: str) -> tuple[str, int]:
    """Return who sent ``message`` first, and its number there; ``own``: this broker."""
    rare = message.rare
    if rare is None or rare.internal is None:
        return own, int(message.number)
    origin, number = rare.internal.get(ORIGIN), rare.internal.get(NUMBER)
    if isinstance(origin, str) and isinstance(number, int):
        return origin, number
    return own, int(message.number)
