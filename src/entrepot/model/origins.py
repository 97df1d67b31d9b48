"""What a copy says of the message that it was made of, in Artemis' words (artemis.md 4.4, 4.7). [C]

The properties are those that Artemis writes. Its message id is a number, and ids of JMS are something else: the number
is kept beside, where only CORE looks, and the property is the id that clients know.
"""

from __future__ import annotations

from typing import Final

from entrepot.model.address import ANYCAST, UNTYPED
from entrepot.model.message import Message

ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
ORIGINAL_QUEUE: Final = "_AMQ_ORIG_QUEUE"
ORIGINAL_ID: Final = "_AMQ_ORIG_MESSAGE_ID"
ORIGINAL_ROUTING: Final = "_AMQ_ORIG_ROUTING_TYPE"
ACTUAL_EXPIRY: Final = "_AMQ_ACTUAL_EXPIRY"
ORIGINAL_NUMBER: Final = "original-number"
"""Internal annotation: the number of the original."""

ORIGIN_ANNOTATIONS: Final = (ORIGINAL_ADDRESS, ORIGINAL_QUEUE, ORIGINAL_ID, ORIGINAL_ROUTING, ACTUAL_EXPIRY)


def note_origin(copy: Message, address: str, queue: str, routing: int) -> None:
    """Write on ``copy`` the address and queue of its original, or the divert, and by which ``routing`` that went.

    The routing type is written as CORE has it: 0 multicast, 1 anycast; nothing for UNTYPED.
    """
    copy.annotate(ORIGINAL_ADDRESS, address)
    copy.annotate(ORIGINAL_QUEUE, queue)
    if routing == UNTYPED:
        copy.need_rare().annotations.pop(ORIGINAL_ROUTING, None)
    else:
        copy.annotate(ORIGINAL_ROUTING, "1" if routing == ANYCAST else "0")


def original_number(copy: Message) -> int:
    """Return the number of the message that ``copy`` was made of; 0 when it is no copy, or one of an older version."""
    number = copy.marked(ORIGINAL_NUMBER)
    return number if isinstance(number, int) else 0
