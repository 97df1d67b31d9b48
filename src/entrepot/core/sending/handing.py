"""The last step of every send: the record of a message, then the message into its queues. [C]"""

from __future__ import annotations

from entrepot.base.reasons import READER_BEHIND, Reason
from entrepot.core.events import announcing
from entrepot.core.ports import Host
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message


def hand_out(host: Host, message: Message, queues: list[Queue]) -> None:
    """Give a numbered message to ``queues``, whatever their policies say about being full. One record is for all."""
    if message.durable:
        durable = [int(queue.identity) for queue in queues if queue.durable]
        if durable:
            host.journal.store(message, durable)
    for queue in queues:
        if queue.fates.careful and queue.routing == ANYCAST:
            queue.fates.arrived(queue.place(), message, queue.roster.is_read())
        queue.accept(message)
        if queue.pending_limit >= 0 and queue.trim() > 0:
            announcing.dropped(host.hub, queue.place(), None, "", Reason(READER_BEHIND))
