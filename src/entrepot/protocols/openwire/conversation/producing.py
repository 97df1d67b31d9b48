"""The producers of a conversation: their windows, and what is sent again that nobody waits for. [C]"""

from __future__ import annotations

from collections import deque
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.conversing.port import Answer
from entrepot.protocols.openwire.commands import (
    Destination,
    Message,
    MessageId,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
)
from entrepot.protocols.openwire.conversation.records import Identity, ProducerRecord, SessionRecord
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.conversation.temporaries import Temporaries
from entrepot.protocols.openwire.conversation.transactions import Transactions
from entrepot.protocols.openwire.ids import LastDelivered

MESSAGE_OVERHEAD: Final = 1024  # what a message weighs at least in a producer's window, as ActiveMQ counts


class Cache:
    """The last messages that were sent without an answer, to be sent again (trackMessages), up to ``octets_max``."""

    def __init__(self, octets_max: int) -> None:
        self.messages: deque[Message] = deque()
        self.octets_max: Final = octets_max
        self._octets = 0

    def remember(self, message: Message) -> None:
        """Note ``message``, and forget the oldest beyond the limit."""
        self.messages.append(message)
        self._octets += weight(message)
        while self._octets > self.octets_max:
            self._octets -= weight(self.messages.popleft())


class Producers:
    """The producers by number."""

    def __init__(
        self,
        identity: Identity,
        requests: Requests,
        transactions: Transactions,
        temporaries: Temporaries,
        *,
        cache_octets: int,
        tracked: bool,
    ) -> None:
        """``tracked``: one that is closed within a transaction is told again with it."""
        self.records: dict[int, ProducerRecord] = {}
        self.cache: Final = Cache(cache_octets)
        self._identity: Final = identity
        self._requests: Final = requests
        self._transactions: Final = transactions
        self._temporaries: Final = temporaries
        self._tracked: Final = tracked

    def open(self, session: SessionRecord, where: Destination | None, window: int, answer: Answer) -> ProducerRecord:
        """Open a producer; ``window`` octets may be under way when it sends without answers, 0 for any number."""
        number = self._identity.fresh()
        info = ProducerInfo(
            producer_id=ProducerId(self._identity.text, number, session.number),
            destination=where,
            window_size=window,
            dispatch_async=True,
        )
        record = ProducerRecord(info, session)
        session.producers[number] = self.records[number] = record

        def opened(response: Response | None, error: EntrepotError | None) -> None:
            record.confirmed = error is None
            if error is not None:
                self._forget(record)
            answer(error)

        self._requests.request(info, opened)
        return record

    def close(self, record: ProducerRecord) -> None:
        """Close a producer; an open transaction may need it again on another broker."""
        transaction = record.session.transaction
        if transaction is not None and self._tracked and self._requests.reconnects:
            transaction.closed_producers.append(record.info)
        if self._forget(record):
            self._requests.post(
                RemoveInfo(object_id=record.info.producer_id, last_delivered_sequence_id=LastDelivered.UNKNOWN)
            )

    def identify(self, producer: ProducerRecord, message: Message) -> None:
        """Give ``message`` its producer and its number."""
        producer.sequence += 1
        message.producer_id = producer.info.producer_id
        message.message_id = MessageId(producer_id=producer.info.producer_id, producer_sequence_id=producer.sequence)

    def send(self, producer: ProducerRecord, message: Message, answer: Answer | None) -> bool:
        """Send as `ProducerPort.send`; ``message`` has its identity. Raises Inexpressible, InvalidDestination."""
        self._temporaries.check(message.destination)
        if producer.session.mode is Acknowledge.TRANSACTED:
            return self._transactions.sends(producer.session, message)
        if answer is not None:
            self._requests.ask(message, answer)
            return True
        if not self._requests.post(message):
            return False
        if producer.info.window_size > 0:
            producer.outstanding += weight(message)
        if self.cache.octets_max > 0:
            self.cache.remember(message)
        return True

    def widened(self, ack: ProducerAck) -> bool:
        """The broker gives back a part of a window; tell whether it is one of ours."""
        producer = self.records.get(ack.producer_id.value) if ack.producer_id is not None else None
        if producer is None:
            return False
        producer.outstanding = max(0, producer.outstanding - int(ack.size))
        return True

    def lost(self) -> None:
        """The wire is gone, and with it what was under way."""
        for producer in self.records.values():
            producer.outstanding = 0

    def _forget(self, record: ProducerRecord) -> bool:
        producer_id = record.info.producer_id
        if producer_id is None or self.records.pop(producer_id.value, None) is None:
            return False
        record.session.producers.pop(producer_id.value, None)
        return True


def weight(message: Message) -> int:
    """Return how many octets of a window ``message`` takes."""
    return MESSAGE_OVERHEAD + len(message.content or b"") + len(message.marshalled_properties or b"")
