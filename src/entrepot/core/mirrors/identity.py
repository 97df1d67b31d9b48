"""By what brokers that mirror each other call one message: the broker where it was sent, and its number there. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.model.message import Message

MIRROR: Final = "$ACTIVEMQ_ARTEMIS_MIRROR_"
"""Begins the address that a mirror sends to, and with the name of its connection that of the queue it reads."""
ORIGIN: Final = "_ENTREPOT_MIRROR_ORIGIN"
NUMBER: Final = "_ENTREPOT_MIRROR_NUMBER"
HERE: Final = "_ENTREPOT_MIRROR_HERE"
"""The number of the message that the two above are about: a copy that was made of it is another message."""
DOER: Final = "_ENTREPOT_MIRROR_DOER"
"""On an event that is passed on: the broker where that was done first."""
QUEUES: Final = "_ENTREPOT_MIRROR_QUEUES"
"""Which queues it went to here, where its address does not say so."""


def note(message: Message, origin: str, number: i64, here: i64) -> None:
    """Note on ``message``, whose number here is ``here``, that ``origin`` calls it ``number``; the journal keeps it."""
    message.mark(ORIGIN, origin)
    message.mark(NUMBER, int(number))
    message.mark(HERE, int(here))


def is_noted(message: Message) -> bool:
    """Return whether `note` was called for this very message, and not for one that it is a copy of."""
    return message.marked(HERE) == int(message.number)


def named(message: Message, own: str) -> tuple[str, int]:
    """Return who sent ``message`` first, and its number there; ``own``: this broker."""
    rare = message.rare
    if rare is None or rare.internal is None:
        return own, int(message.number)
    origin, number = rare.internal.get(ORIGIN), rare.internal.get(NUMBER)
    if isinstance(origin, str) and isinstance(number, int):
        return origin, number
    return own, int(message.number)
