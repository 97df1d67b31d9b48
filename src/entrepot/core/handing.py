"""The last step of every send: the record of a message, then the message into its queues. [C]"""

from __future__ import annotations

from entrepot.core import notices
from entrepot.core.ports import Host
from entrepot.core.queue import Queue
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message


def hand_out(host: Host, message: Message, queues: list[Queue]) -> None:
    """Give a numbered message to ``queues``, whatever their policies say about being full. One record is for all."""
    if message.durable:
        durable = [int(queue.identity) for queue in queues if queue.durable]
        if durable:
            host.journal.store(message, durable)
    for queue in queues:
        if queue.policy.is_careful and queue.routing == ANYCAST:
            _tell_delivered(host, message, queue)
        queue.accept(message)
        if queue.pending_limit >= 0 and queue.trim() > 0:
            host.notices.notice(notices.MESSAGE_DROPPED, queue.name, {"why": "its subscriber is too far behind"})


def _tell_delivered(host: Host, message: Message, queue: Queue) -> None:
    """``queue``, whose policy wants to know, gets ``message``."""
    if queue.policy.advises_delivered:
        host.notices.about(notices.MESSAGE_DELIVERED, queue, message, {})
    if queue.policy.advises_unread and not queue.roster.consumers and not message.durable:
        host.notices.about(notices.MESSAGE_UNREAD, queue, message, {})
