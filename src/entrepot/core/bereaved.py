"""Messages whose large body is lost: what is shown of them, and what their dead letter holds. [C]

A dead letter cannot carry a body that nobody can read. It has the headers and properties that were sent, an empty body,
the cause, and a note of how long the body was, by which a reader tells it from a message that was sent empty.
"""

from __future__ import annotations

from typing import Final

from entrepot.model.message import Message

DEAD_CAUSE: Final = "dlqDeliveryFailureCause"  # Classic's name for the reason on a dead letter
BODY_LOST: Final = "entrepotBodyLost"
"""Annotation: the octets of the body that is not here any more."""


def take_body_off(message: Message) -> None:
    """Make ``message``, whose large body is lost, one that says so."""
    rare = message.need_rare()
    length = rare.large_length
    rare.large_id = 0
    rare.large_length = 0
    rare.large_checked = False
    message.language.bereave(message)
    message.annotate(BODY_LOST, str(length))


def without_body(message: Message, flaw: str) -> Message:
    """Return what can be shown of ``message``, whose large body is lost for the reason ``flaw``."""
    shown = message.twin(message.address)
    shown.number = message.number
    take_body_off(shown)
    shown.annotate(DEAD_CAUSE, flaw)
    return shown


def is_bereaved(message: Message) -> bool:
    """Say whether ``message`` has lost its body."""
    rare = message.rare
    return rare is not None and BODY_LOST in rare.annotations
