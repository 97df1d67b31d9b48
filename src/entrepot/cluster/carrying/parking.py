"""What another broker does not take, and no dead-letter address keeps: its producer was told that it is safe. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.bereaved import DEAD_CAUSE
from entrepot.core.queue.consumer import Source
from entrepot.core.sending.handing import hand_out
from entrepot.core.sending.sending import moved
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message

PARKED: Final = "$.artemis.internal.sf.parked"


def has_letters(queue: Source) -> bool:
    """Return whether anything keeps the dead letters of ``queue``."""
    return queue.policy.dead_letters_of(queue.address, queue.routing) != ""


def park(broker: BrokerCore, message: Message, why: str) -> str:
    """Keep a copy of ``message`` for an operator, which says why; return what to tell him."""
    parked = broker.table.queues.get(PARKED)
    if parked is None:
        parked = broker.queues.create(QueueDefinition(name=PARKED, address=PARKED, routing=MULTICAST))
    copy = moved(broker.ids, message, message.stored and message.durable)
    copy.annotate(DEAD_CAUSE, why)
    hand_out(broker, copy, [parked])
    return f"it is parked in the queue {PARKED}"
