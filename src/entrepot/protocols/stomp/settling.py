"""ACK and NACK: what a client of STOMP settles. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import TransactionError
from entrepot.base.reasons import REJECTED, Reason
from entrepot.core.transactions.transaction import Transaction
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp.answers import Answers
from entrepot.protocols.stomp.codec import Reader, read_decimal
from entrepot.protocols.stomp.delivery import ACK_CLIENT, StompConsumer, StompSubscription, Subscribed
from entrepot.protocols.stomp.escapes import V10, V12, octets_of, text_of
from entrepot.protocols.stomp.transacting import Transacting
from entrepot.protocols.stomp.writing import Writing


class Settling:
    """The acknowledgements of one connection. A delivery is found by the key of its consumer, or by its message id."""

    def __init__(
        self,
        session: ServerSession,
        reader: Reader,
        answers: Answers,
        writing: Writing,
        subscribed: Subscribed,
        transacting: Transacting,
    ) -> None:
        self.session: ServerSession = session
        self.reader: Reader = reader
        self.answers: Answers = answers
        self.writing: Writing = writing
        self.subscribed: Subscribed = subscribed
        self.consumers: dict[int, StompConsumer] = subscribed.consumers
        self.transacting: Transacting = transacting

    def settle(self, negative: bool) -> None:
        """ACK, or NACK. Raises TransactionError, StorageError."""
        reader = self.reader
        consumer: StompConsumer | None = None
        number: i64 = -1
        if reader.id_end and reader.version == V12:
            dash = reader.data.find(b"-", reader.id_at, reader.id_end)
            if dash > 0:
                consumer = self.consumers.get(read_decimal(reader.data, reader.id_at, dash))
                number = read_decimal(reader.data, dash + 1, reader.id_end)
        else:
            consumer, number = self._by_message_id()
        if consumer is None or number < 0 or int(number) not in consumer.in_flight:
            stale = TransactionError(
                "an ACK or NACK for a message that is not in flight here (settled already, redelivered, or never sent)",
                remedy="use the ack header of the MESSAGE (1.2), or its message-id and subscription (1.0, 1.1)",
            )
            if reader.special is not None and b"transaction" in reader.special:
                self.transacting.need(text_of(reader.special[b"transaction"], reader.version)).fail(stale)
            raise stale
        special = reader.special
        if special is None and not negative and consumer.subscription.ack != ACK_CLIENT:
            queue = consumer.queue
            if queue is not None:
                queue.settle(consumer, number)
            if consumer.subscription.foreign is not None:
                consumer.subscription.forget(number)
        else:
            self._settle_with_care(consumer, number, negative, {} if special is None else special)
        if reader.receipt_end:
            self.answers.confirm(True)

    def _settle_with_care(self, last: StompConsumer, number: i64, negative: bool, special: dict[bytes, bytes]) -> None:
        transaction: Transaction | None = None
        if b"transaction" in special:
            transaction = self.transacting.need(text_of(special[b"transaction"], self.reader.version))
            if negative:
                raise TransactionError("NACK cannot be part of a transaction", remedy="send it without one")
            holder = last.promised.get(int(number), transaction.name)
            if holder != transaction.name:
                raise TransactionError(f"the transaction {holder!r} settles this message already")
        subscription = last.subscription
        affected: list[tuple[StompConsumer, int]] = [(last, int(number))]
        if subscription.ack == ACK_CLIENT:
            affected = subscription.up_to(int(number))
        for consumer, each in affected:
            queue = consumer.queue
            if transaction is not None:  # remembered until it is committed: after an ABORT it may be acknowledged again
                if queue is not None:
                    transaction.settle(consumer, each)
                continue
            subscription.forget(each)
            if queue is None:
                continue
            if not negative:
                queue.settle(consumer, each)
            elif special.get(b"requeue", b"true" if queue.policy.nack_redelivers else b"false") == b"true":
                queue.give_back(consumer, each, True)
            else:
                who = self.session.client_id or self.session.peer
                queue.reject(consumer, each, Reason(REJECTED, f"rejected by {who} (NACK)"))

    def _by_message_id(self) -> tuple[StompConsumer | None, i64]:
        """Find a delivery by message-id and, from 1.1 on, subscription."""
        reader = self.reader
        octets = reader.data[reader.message_id_at : reader.message_id_end] if reader.message_id_end else b""
        named: list[StompSubscription] = list(self.subscribed.named.values())
        if reader.subscription_end:
            text = text_of(reader.data[reader.subscription_at : reader.subscription_end], reader.version)
            found = self.subscribed.named.get(text)
            named = [] if found is None else [found]
        prefix = self.writing.id_prefix
        own: i64 = -1
        if not octets.startswith(prefix) and b"\\" not in octets:
            octets = octets_of(text_of(octets, V10), reader.version)  # some clients leave the colons as they are
        if octets.startswith(prefix):
            own = read_decimal(octets, len(prefix), len(octets))
        for subscription in named:
            # A copy with a number of its own (dead letter, leased, scheduled) keeps the id of its original.
            foreign = subscription.foreign
            numbers = [int(own)] if foreign is None else foreign.numbers.get(octets, [int(own)])
            for number in numbers:
                for consumer in subscription.consumers:
                    if number in consumer.in_flight:
                        assert isinstance(consumer, StompConsumer)
                        return consumer, number
        return None, -1
