"""What a client of OpenWire settles, and what becomes of the rest: poison, expired, doubtful. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import TransactionRolledBack
from entrepot.base.reasons import POISON, Reason
from entrepot.core.queue.queue import queue_of
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import MULTICAST
from entrepot.protocols.openwire.commands import MessageAck
from entrepot.protocols.openwire.delivery import OpenWireConsumer, OpenWireSubscription
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import AckType


def check_held(transaction: Transaction, subscription: OpenWireSubscription, first: int, last: int) -> None:
    """Doom ``transaction`` if it settles what is not in flight here: others may get that, or nobody ever sent it.

    So it is when a failover client repeats a transaction on a broker that did not deliver its messages (again):
    to do the rest of it would double them. Nobody delivers again what a plain topic subscriber had.
    """
    if _only_reads_along(subscription):
        return
    if subscription.holder(last) is None or (first != 0 and subscription.holder(first) is None):
        transaction.fail(
            TransactionRolledBack(
                f"transaction {transaction.name} acknowledges messages that this broker did not deliver to it"
            )
        )


def beginning(ack: MessageAck, last: int) -> int:
    """Return the number with which begins what ``ack`` settles as far as ``last``: 0 for the oldest in flight."""
    kind = ack.ack_type
    if kind == int(AckType.STANDARD) or kind == int(AckType.POISON) or kind == int(AckType.EXPIRED):
        return 0 if ack.first_message_id is None else int(ack.first_message_id.broker_sequence_id)
    return last


def waits_for_disk(ack: MessageAck, subscription: OpenWireSubscription) -> bool:
    """Return whether the answer to ``ack``, which is about to be done, must wait for the disk.

    So it is when a message that it settles is stored, and when it settles nothing: the messages may have been settled
    before, without an answer. What a transaction takes up is stored with its commit.
    """
    last_id = ack.last_message_id
    if last_id is None or ack.transaction_id is not None:
        return False
    if ack.ack_type == int(AckType.DELIVERED) or ack.ack_type == int(AckType.REDELIVERED):
        return False
    last = int(last_id.broker_sequence_id)
    covered = subscription.covered(beginning(ack, last), last)
    for consumer, number in covered:
        queue = consumer.queue
        reference = consumer.in_flight.get(number)
        if queue is not None and queue.durable and reference is not None and reference.message.stored:
            return True
    return len(covered) == 0


def poison(
    covered: list[tuple[OpenWireConsumer, int]], subscription: OpenWireSubscription, cause: Throwable | None
) -> None:
    """Dead-letter what the client cannot process; a plain topic subscriber just consumed it (classic.md 4.5)."""
    reason = "poison acknowledgement"
    if cause is not None:
        reason = f"{cause.class_name}: {cause.message}" if cause.message else cause.class_name or reason
    plain_topic = _only_reads_along(subscription)
    for consumer, number in covered:
        subscription.forget(number)
        queue = consumer.queue
        if queue is None:
            continue
        if plain_topic:
            queue.settle(consumer, number)
        else:
            queue.reject(consumer, number, Reason(POISON, reason))


def _only_reads_along(subscription: OpenWireSubscription) -> bool:
    """Return whether it is a topic's, and not durable: what it does not process nobody keeps for it."""
    return subscription.destinations[0].routing == MULTICAST and not subscription.durable_name


def expire(covered: list[tuple[OpenWireConsumer, int]], subscription: OpenWireSubscription, wall: i64) -> None:
    """The client found that the time of these is over."""
    for consumer, number in covered:
        subscription.forget(number)
        queue = queue_of(consumer)
        if queue is None:
            continue
        reference = consumer.in_flight.get(number)
        if reference is not None and reference.message.expiration > 0:
            reference.message.expiration = min(reference.message.expiration, wall)
            queue.give_back(consumer, number, False)
            queue.taking.sweep(1)
        else:
            queue.settle(consumer, number)
