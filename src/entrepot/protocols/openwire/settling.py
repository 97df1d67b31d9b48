"""MessageAck: what a client of OpenWire settles, and when it is answered. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import TransactionError
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Pause
from entrepot.protocols.openwire.commands import MessageAck, Response
from entrepot.protocols.openwire.delivery import OpenWireSubscription, Subscribed
from entrepot.protocols.openwire.ids import AckType
from entrepot.protocols.openwire.replies import Replies
from entrepot.protocols.openwire.settlement import beginning, check_held, expire, poison, waits_for_disk
from entrepot.protocols.openwire.transacting import Debt, Transacting


class Settling:
    """The acknowledgements of one connection."""

    def __init__(self, broker: BrokerCore, replies: Replies, subscribed: Subscribed, transacting: Transacting) -> None:
        self.broker: BrokerCore = broker
        self.replies: Replies = replies
        self.subscribed: Subscribed = subscribed
        self.transacting: Transacting = transacting

    def settle_and_answer(self, ack: MessageAck) -> None:
        """Do what it says, answer when that is on disk; what it makes room for comes after the answer (`Debt`)."""
        consumer_id = ack.consumer_id
        subscription = None if consumer_id is None else self.subscribed.consumers.get(consumer_id)
        if subscription is None:
            self.settle(ack)
            self.replies.answer(ack, False)
            return
        window = subscription.window
        window.pause(Pause.ANSWER)
        try:
            waits = waits_for_disk(ack, subscription)
            used = window.used
            self.settle(ack)
            if waits:
                self._owe_answer(ack, subscription, used - window.used)
            else:
                self.replies.answer(ack, False)
        finally:
            if not subscription.closed:
                window.lift(Pause.ANSWER)
                subscription.settle_credit()

    def _owe_answer(self, ack: MessageAck, subscription: OpenWireSubscription, settled: i64) -> None:
        """Answer when all that was taken so far is on disk, and keep the credit of what is ``settled`` until then."""
        debt = Debt(self.replies, Response(correlation_id=ack.command_id))
        debt.owed[subscription] = int(settled)
        subscription.owe(settled)
        self.replies.confirmations.ask(debt)

    def settle(self, ack: MessageAck) -> None:
        """Do what an acknowledgement says. One for a consumer or a message that is not here is stale, and ignored."""
        consumer_id = ack.consumer_id
        last_id = ack.last_message_id
        subscription = None if consumer_id is None else self.subscribed.consumers.get(consumer_id)
        if subscription is None or last_id is None:
            return
        kind = ack.ack_type
        if kind == int(AckType.DELIVERED):
            subscription.extend(i64(ack.message_count))
            return
        if kind == int(AckType.REDELIVERED):
            return
        last = int(last_id.broker_sequence_id)
        first = beginning(ack, last)
        covered = subscription.covered(first, last)
        if ack.transaction_id is not None:
            transaction = self.transacting.known(ack.transaction_id)
            if kind == int(AckType.POISON):
                raise TransactionError("a poison acknowledgement cannot be part of a transaction")
            check_held(transaction, subscription, first, last)
            for consumer, number in covered:
                transaction.settle(consumer, number)
            return
        if not covered:
            return
        subscription.settled(len(covered))
        if kind == int(AckType.POISON):
            poison(covered, subscription, ack.poison_cause)
        elif kind == int(AckType.EXPIRED):
            expire(covered, subscription, self.broker.wall)
        else:
            for consumer, number in covered:
                subscription.forget(number)
                queue = consumer.queue
                if queue is not None:
                    queue.settle(consumer, number)
