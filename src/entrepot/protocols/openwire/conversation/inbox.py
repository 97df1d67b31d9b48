"""What a consumer of a program holds: messages that arrived, messages handed out, and what the broker was told. [C]

Every message is in one of three places: ``buffer`` (arrived), ``delivered`` (handed out, not settled), or settled.
`interrupted` empties the first two: the broker we lost gives those messages to somebody again, perhaps to us.

Acknowledgements (classic.md 4.5): AUTO and DUPS_OK gather a range that `flush` sends; CLIENT and TRANSACTED settle all
that was delivered, INDIVIDUAL one message. Where settling waits, DELIVERED keeps the broker's credit flowing. A message
that was settled just before the connection broke may come again, because the broker may not have read that: it is then
settled again and not handed out twice (Java sends it to the dead letter queue).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i32, i64, mypyc_attr

from entrepot.base.environment import MILLISECOND, Entropy, Instant
from entrepot.protocols.conversing.content import Envelope, Headers
from entrepot.protocols.conversing.modes import Acknowledge, Handling, RedeliveryPolicy
from entrepot.protocols.conversing.port import Answer, ConsumerPort, DeliveryPort
from entrepot.protocols.openwire.bodies import properties_of
from entrepot.protocols.openwire.commands import (
    ConsumerInfo,
    Message,
    MessageAck,
    MessageDispatch,
    MessageId,
    TransactionId,
)
from entrepot.protocols.openwire.conversation.messages import body_of, envelope_of, headers_of
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import AckType
from entrepot.protocols.session import NEVER

LAZY_PERCENT: Final = 65  # of the prefetch, after which optimized acknowledgement tells the broker (classic.md 4.5)

Key = tuple[object, int]
USUAL: Final = Handling()


class Audit:
    """Messages that were settled: the last ``depth`` of each of the last ``producers`` producers."""

    def __init__(self, depth: int, producers: int) -> None:
        self.depth: int = depth
        self.producers: int = producers
        self.settled: dict[object, dict[int, None]] = {}

    def remember(self, message: Message) -> None:
        """Note that ``message`` is settled."""
        producer, sequence = _key(message)
        of_producer = self.settled.get(producer)
        if of_producer is None:
            of_producer = {}
            self.settled[producer] = of_producer
            if len(self.settled) > self.producers:
                del self.settled[next(iter(self.settled))]
        of_producer[sequence] = None
        if len(of_producer) > self.depth:
            del of_producer[next(iter(of_producer))]

    def forget(self, message: Message) -> bool:
        """Tell whether ``message`` was noted, and note it no more."""
        producer, sequence = _key(message)
        of_producer = self.settled.get(producer)
        if of_producer is None or sequence not in of_producer:
            return False
        del of_producer[sequence]
        return True


class Delivery(DeliveryPort):
    """One message handed to the consumer of ``inbox``."""

    def __init__(self, inbox: Inbox, message: Message, redeliveries: int) -> None:
        super().__init__(redeliveries)
        self.inbox: Inbox = inbox
        self.message: Message = message
        self.era: i64 = inbox.era  # when it came

    def consumer(self) -> ConsumerPort:
        """Return whom it was handed to."""
        return self.inbox

    def body(self) -> object:
        """Return the body."""
        return body_of(self.message)

    def properties(self) -> dict[str, object]:
        """Return the sender's own properties."""
        return properties_of(self.message)

    def headers(self) -> Headers:
        """Return what the sender said besides."""
        return headers_of(self.message)

    def envelope(self) -> Envelope:
        """Return what its way left on it."""
        return envelope_of(self.message)

    def advice(self) -> object:
        """Return the command that an advisory is about, a ConsumerInfo for instance."""
        return self.message.data_structure

    def done(self) -> None:
        """AUTO, DUPS_OK: it is processed."""
        self.inbox.done(self)

    def acknowledge(self) -> int:
        """Settle it as the mode says; return how many errors the broker had reported before."""
        inbox = self.inbox
        reports = inbox.port.reports()
        if inbox.mode == Acknowledge.INDIVIDUAL:
            if not inbox.closed:
                inbox.acknowledge_one(self)
        elif inbox.mode == Acknowledge.CLIENT and self.live:
            inbox.port.acknowledge_session(inbox)
        return reports

    def reject(self, cause: str) -> None:
        """Give it up."""
        self.inbox.reject(self, cause)

    def is_lost(self) -> bool:
        """Tell whether the wire that it came by was lost."""
        return self.era != self.inbox.port.losses()

    def confirm(self, mark: int, answer: Answer) -> None:
        """Let ``answer`` come when its acknowledgement is stored."""
        self.inbox.port.confirm(int(self.era), mark, answer)


@mypyc_attr(allow_interpreted_subclasses=True)
class InboxPort:
    """What an inbox asks of the connection it belongs to."""

    def acknowledge(self, ack: MessageAck) -> None:
        """Tell the broker; nothing when there is none."""

    def acknowledge_session(self, inbox: Inbox) -> None:
        """Call `Inbox.acknowledge_all` on every inbox of the same session (CLIENT)."""

    def reports(self) -> int:
        """Return how many errors the broker reported that answer no request."""
        return 0

    def losses(self) -> int:
        """Return how many wires the conversation has lost."""
        return 0

    def confirm(self, era: int, reports: int, answer: Answer) -> None:
        """As `Confirming.confirm`."""

    def pull(self, inbox: Inbox, timeout_ms: int) -> None:
        """As `ConsumerPort.pull`."""

    def close(self, inbox: Inbox) -> None:
        """As `ConsumerPort.close`."""

    def arrived(self, inbox: Inbox) -> None:
        """Something may be taken, or the inbox ended: wake who waits."""


class Processed:
    """The range of messages that are processed and not told."""

    def __init__(self) -> None:
        self.first: MessageId | None = None
        self.last: MessageId | None = None
        self.count: i64 = 0

    def add(self, message_id: MessageId | None) -> None:
        """Note one more."""
        if self.count == 0:
            self.first = message_id
        self.last = message_id
        self.count += 1


class Waiting:
    """What waits to be redelivered and lets others pass, by the time when it may be taken."""

    def __init__(self) -> None:
        self.deliveries: deque[Delivery] = deque()
        self.due: deque[int] = deque()

    def put(self, delivery: Delivery, due: int) -> None:
        """Have ``delivery`` wait until ``due``, behind what is due at the same time."""
        at = len(self.due)
        while at > 0 and self.due[at - 1] > due:
            at -= 1
        self.deliveries.insert(at, delivery)
        self.due.insert(at, due)

    def is_due(self, now: Instant) -> bool:
        """Tell whether one may be taken."""
        return len(self.due) > 0 and now >= self.due[0]

    def take(self) -> Delivery:
        """Return the one that is due first."""
        self.due.popleft()
        return self.deliveries.popleft()

    def clear(self) -> None:
        """Forget all; none of it settles anything any more."""
        for delivery in self.deliveries:
            delivery.live = False
        self.deliveries.clear()
        self.due.clear()


class Inbox(ConsumerPort):
    """The messages of one consumer."""

    def __init__(
        self,
        info: ConsumerInfo,
        mode: int,
        policy: RedeliveryPolicy,
        port: InboxPort,
        entropy: Entropy,
        audit: bool,
        handling: Handling = USUAL,
    ) -> None:
        """``audit``: remember what was settled, because the connection may be replaced."""
        super().__init__(mode, info.browser)
        self.handling: Handling = handling
        self.info: ConsumerInfo = info
        self.policy: RedeliveryPolicy = policy
        self.port: InboxPort = port
        self.entropy: Entropy = entropy
        self.buffer: deque[Delivery] = deque()
        self.delivered: list[Delivery] = []
        self.era: i64 = 0  # how many wires the conversation had lost when what arrives now was sent
        self.pulling: bool = False
        self.last_sequence: i64 = -1
        self.blocked_until: i64 = 0
        self.prefetch: i64 = i64(info.prefetch_size)
        self.aside: Waiting = Waiting()
        self._delay_ms: int = 0
        self._processed: Processed = Processed()
        self._uncovered: i64 = 0  # delivered and not covered by a DELIVERED
        self._audit: bool = audit
        self._told: Audit = Audit(handling.audit_depth, handling.audit_producers)
        self._suspects: Audit | None = None  # what was settled before the connection broke
        self._lazily: bool = handling.lazily and mode == Acknowledge.AUTO and not info.browser
        self._told_at: i64 = 0
        self._disordered: bool = handling.individually  # what is delivered is not a range of the broker's order

    # -- arriving ------------------------------------------------------------------------------------------------------

    def arrive(self, dispatch: MessageDispatch, wall_ms: i64) -> None:
        """Take what the broker sent."""
        message = dispatch.message
        if message is None:
            if self.browser:
                self.exhausted = True
            self.pulled_nothing = self.pulling
            self.pulling = False
            self.port.arrived(self)
            return
        self.pulling = False
        redeliveries = int(dispatch.redelivery_counter)
        if not self.browser and self._refused(message, redeliveries, wall_ms):
            if self.prefetch == 0:
                self.pulled_nothing = True
                self.port.arrived(self)
            return
        self._keep(Delivery(self, message, redeliveries))
        self.port.arrived(self)

    def _keep(self, delivery: Delivery) -> None:
        buffer = self.buffer
        if self.handling.by_priority:
            priority = delivery.message.priority
            at = len(buffer)
            while at > 0 and buffer[at - 1].message.priority < priority:
                at -= 1
            buffer.insert(at, delivery)
        else:
            buffer.append(delivery)

    def _refused(self, message: Message, redeliveries: int, wall_ms: i64) -> bool:
        """Settle what is not to be handed out: settled before, expired, or redelivered too often."""
        suspects = self._suspects
        if suspects is not None and suspects.forget(message):
            self._tell(AckType.INDIVIDUAL, None, message.message_id, 1)
            return True
        if message.expiration > 0 and wall_ms > message.expiration and self.handling.check_expiry:
            self._tell(AckType.EXPIRED, message.message_id, message.message_id, 1)
            return True
        if self.policy.pre_dispatch_check and redeliveries > 0 and self.policy.exhausted(redeliveries):
            self._poison(message, f"Exceeded RedeliveryPolicy max redelivery limit: {self.policy.maximum_redeliveries}")
            return True
        return False

    # -- handing out ---------------------------------------------------------------------------------------------------

    def available(self, now: Instant) -> bool:
        """Tell whether `take` would return something."""
        if self.aside.is_due(now):
            return True
        return len(self.buffer) > 0 and now >= self.blocked_until

    def take(self, now: Instant) -> Delivery | None:
        """Hand out the next message, or None. In AUTO and DUPS_OK call `done` with it when it is processed."""
        if self.aside.is_due(now):
            delivery = self.aside.take()
            self._disordered = True
        elif len(self.buffer) == 0 or now < self.blocked_until:
            return None
        else:
            delivery = self.buffer.popleft()
        message_id = delivery.message.message_id
        if message_id is not None:
            self.last_sequence = message_id.broker_sequence_id
        if not self.browser and self.mode != Acknowledge.AUTO and self.mode != Acknowledge.DUPS_OK:
            self.delivered.append(delivery)
            self._uncovered += 1
            # INDIVIDUAL settles in any order, which the broker does not correlate with an extension of credit.
            in_order = self.mode != Acknowledge.INDIVIDUAL and not self._disordered
            if in_order and self.prefetch > 0 and self._uncovered * 2 >= self.prefetch:
                self._tell(
                    AckType.DELIVERED,
                    self.delivered[len(self.delivered) - int(self._uncovered)].message.message_id,
                    message_id,
                    self._uncovered,
                )
                self._uncovered = 0
        return delivery

    # -- settling ------------------------------------------------------------------------------------------------------

    def done(self, delivery: Delivery) -> None:
        """AUTO, DUPS_OK: it is processed; `flush` tells the broker, at once when half of the credit is used."""
        if not delivery.live or self.browser:
            return
        delivery.live = False
        message_id = delivery.message.message_id
        if self.handling.individually:
            self._tell(AckType.INDIVIDUAL, None, message_id, 1)
            self._remember(delivery.message)
            return
        processed = self._processed
        processed.add(message_id)
        self._remember(delivery.message)
        if not self._lazily:
            if processed.count * 2 >= self.prefetch:
                self.flush()
        elif processed.count * 100 >= self.prefetch * LAZY_PERCENT:
            self.flush()

    def settle_turn(self, now: Instant) -> None:
        """Tell the broker what is processed, at the end of a turn; lazily if that is wanted."""
        if self._lazily:
            if self._processed.count == 0:
                return
            if self._told_at == 0:
                self._told_at = now
            if now < self._told_at + self.handling.lazy_ns or self.handling.lazy_ns == 0:
                return
            self._told_at = now
        self.flush()

    def flush(self) -> None:
        """Tell the broker what is processed."""
        processed = self._processed
        count = processed.count
        if count > 0:
            processed.count = 0
            self._tell(AckType.STANDARD, processed.first, processed.last, count)

    def acknowledge_all(self, transaction_id: TransactionId | None = None) -> int:
        """CLIENT, TRANSACTED: all that was handed out is processed. Returns how many that were."""
        count = len(self.delivered)
        if count > 0:
            if self._disordered:
                for delivery in self.delivered:
                    self._tell(AckType.INDIVIDUAL, None, delivery.message.message_id, 1, transaction_id=transaction_id)
            else:
                first = self.delivered[0].message.message_id
                last = self.delivered[count - 1].message.message_id
                self._tell(AckType.STANDARD, first, last, count, transaction_id=transaction_id)
            for delivery in self.delivered:
                delivery.live = False
                if transaction_id is None:
                    self._remember(delivery.message)
            self.delivered.clear()
        self._uncovered = 0
        self._delay_ms = 0
        self._disordered = self.handling.individually
        return count

    def take_back(self, deliveries: list[Delivery]) -> None:
        """What `acknowledge_all` settled in a transaction that is rolled back is not settled: see `roll_back`."""
        for delivery in deliveries:
            delivery.live = True
        self.delivered = deliveries + self.delivered

    def acknowledge_one(self, delivery: Delivery) -> None:
        """INDIVIDUAL: this one is processed."""
        if delivery.live and self._withdraw(delivery):
            self._tell(AckType.INDIVIDUAL, None, delivery.message.message_id, 1)
            self._remember(delivery.message)

    def reject(self, delivery: Delivery, cause: str) -> None:
        """Give it up: the broker puts it into the dead letter queue."""
        if delivery.live and (self._withdraw(delivery) or self.mode in (Acknowledge.AUTO, Acknowledge.DUPS_OK)):
            delivery.live = False
            self.flush()
            self._poison(delivery.message, cause)

    def roll_back(self, now: Instant) -> None:
        """Hand out again what was delivered, in order, after the policy's delay; give up what came too often."""
        if not self.delivered:
            return
        again: list[Delivery] = []
        for delivery in self.delivered:
            delivery.redeliveries += 1
            if self.policy.exhausted(delivery.redeliveries):
                delivery.live = False
                self._poison(
                    delivery.message,
                    f"Exceeded RedeliveryPolicy max redelivery limit: {self.policy.maximum_redeliveries}",
                )
            else:
                again.append(delivery)
        self.delivered.clear()
        self._uncovered = 0
        if not again:
            self._delay_ms = 0
            return
        first, last = again[0].message.message_id, again[len(again) - 1].message.message_id
        self._tell(AckType.REDELIVERED, first, last, len(again))
        self._delay_ms = self.policy.next_delay_ms(self._delay_ms, self.entropy.fraction())
        due = now + self._delay_ms * MILLISECOND
        if not self.handling.non_blocking:
            self.buffer.extendleft(reversed(again))
            self.blocked_until = due
            return
        for delivery in again:
            self.aside.put(delivery, due)

    def deadline(self, now: Instant) -> i64:
        """Return when a delayed redelivery may be taken, NEVER for none."""
        due: i64 = NEVER
        if len(self.aside.due) > 0:
            due = self.aside.due[0]
        if len(self.buffer) > 0 and self.blocked_until > now:
            due = min(due, self.blocked_until)
        return due

    def interrupted(self) -> bool:
        """Forget what the lost broker sent. True when something was handed out and is not settled."""
        unsettled = len(self.delivered) > 0
        for delivery in self.delivered:
            delivery.live = False
        for delivery in self.buffer:
            delivery.live = False
        self.aside.clear()
        self.delivered.clear()
        self.buffer.clear()
        self._disordered = self.handling.individually
        self._processed.count = 0
        self._uncovered = 0
        self.blocked_until = 0
        if self._told.settled:
            self._suspects = self._told
            self._told = Audit(self.handling.audit_depth, self.handling.audit_producers)
        return unsettled

    def wants_pull(self) -> bool:
        """Tell whether nothing comes unless `pull` asks for it."""
        return self.prefetch == 0 and len(self.buffer) == 0 and not self.pulling

    def pull(self, timeout_ms: int) -> None:
        """Ask for one message."""
        self.port.pull(self, timeout_ms)

    def close(self) -> None:
        """Close the consumer."""
        self.port.close(self)

    def end(self, why: str) -> None:
        """Nothing comes any more."""
        self.ended = why
        self.port.arrived(self)

    def _withdraw(self, delivery: Delivery) -> bool:
        for at in range(len(self.delivered)):
            if self.delivered[at] is delivery:
                del self.delivered[at]
                delivery.live = False
                return True
        return False

    def _remember(self, message: Message) -> None:
        if self._audit:
            self._told.remember(message)

    def _poison(self, message: Message, cause: str) -> None:
        throwable = Throwable("java.lang.Throwable", cause)
        self._tell(AckType.POISON, message.message_id, message.message_id, 1, cause=throwable)

    def _tell(
        self,
        ack_type: int,
        first: MessageId | None,
        last: MessageId | None,
        count: i64,
        *,
        transaction_id: TransactionId | None = None,
        cause: Throwable | None = None,
    ) -> None:
        ack = MessageAck(
            destination=self.info.destination,
            transaction_id=transaction_id,
            consumer_id=self.info.consumer_id,
            ack_type=ack_type,
            first_message_id=first,
            last_message_id=last,
            message_count=i32(count),
            poison_cause=cause,
        )
        self.port.acknowledge(ack)


def _key(message: Message) -> Key:
    message_id = message.message_id
    if message_id is None:
        return (None, 0)
    return (message_id.text_view or message_id.producer_id, message_id.producer_sequence_id)
