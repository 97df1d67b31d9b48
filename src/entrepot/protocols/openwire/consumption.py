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
from enum import IntEnum
from typing import Final

from mypy_extensions import i32, i64, mypyc_attr

from entrepot.base.environment import MILLISECOND, Entropy, Instant
from entrepot.protocols.openwire.commands import (
    ConsumerInfo,
    Message,
    MessageAck,
    MessageDispatch,
    MessageId,
    TransactionId,
)
from entrepot.protocols.openwire.frames import Throwable
from entrepot.protocols.openwire.ids import AckType
from entrepot.protocols.session import NEVER

AUDIT_DEPTH: Final = 2048  # ActiveMQ's auditDepth
UNLIMITED: Final = -1

Key = tuple[object, int]


class Acknowledge(IntEnum):
    """When a message counts as processed."""

    AUTO = 1
    """`receive` returned it, or the next one is asked of an iteration."""
    CLIENT = 2
    """`acknowledge` was called on it or on a later one of the session."""
    DUPS_OK = 3
    """As AUTO, told in batches: a lost connection repeats more."""
    INDIVIDUAL = 4
    """`acknowledge` was called on it."""
    TRANSACTED = 0
    """The session committed."""


class RedeliveryPolicy:
    """When a message that was rolled back is handed out again, and when it is given up (classic.md 4.6). ms."""

    def __init__(
        self,
        *,
        initial_delay_ms: int = 1000,
        delay_ms: int = 1000,
        back_off_multiplier: float = 5.0,
        use_exponential_back_off: bool = False,
        maximum_redeliveries: int = 6,
        maximum_delay_ms: int = UNLIMITED,
        use_collision_avoidance: bool = False,
        collision_avoidance_factor: float = 0.15,
        pre_dispatch_check: bool = True,
    ) -> None:
        self.initial_delay_ms: int = initial_delay_ms
        self.delay_ms: int = delay_ms
        self.back_off_multiplier: float = back_off_multiplier
        self.use_exponential_back_off: bool = use_exponential_back_off
        self.maximum_redeliveries: int = maximum_redeliveries
        self.maximum_delay_ms: int = maximum_delay_ms
        self.use_collision_avoidance: bool = use_collision_avoidance
        self.collision_avoidance_factor: float = collision_avoidance_factor
        self.pre_dispatch_check: bool = pre_dispatch_check

    def exhausted(self, redeliveries: int) -> bool:
        """Tell whether a message that comes for the ``redeliveries``-th time again is given up."""
        return self.maximum_redeliveries != UNLIMITED and redeliveries > self.maximum_redeliveries

    def next_delay_ms(self, previous_ms: int, fraction: float) -> int:
        """Return the wait after one of ``previous_ms`` (0: the first); ``fraction`` in [0, 1) is the lot for jitter."""
        delay = self.initial_delay_ms
        if previous_ms > 0:
            delay = int(previous_ms * self.back_off_multiplier) if self.use_exponential_back_off else self.delay_ms
        if self.maximum_delay_ms > 0:
            delay = min(delay, self.maximum_delay_ms)
        if self.use_collision_avoidance:
            delay += int(delay * self.collision_avoidance_factor * (2.0 * fraction - 1.0))
        return max(delay, 0)


class Delivery:
    """One message handed to this consumer. ``redeliveries``: how often it was handed out before."""

    def __init__(self, inbox: Inbox, message: Message, redeliveries: int) -> None:
        self.inbox: Inbox = inbox
        self.message: Message = message
        self.redeliveries: int = redeliveries
        self.live: bool = True  # False: settled, or its connection is gone


@mypyc_attr(allow_interpreted_subclasses=True)
class InboxPort:
    """What an inbox asks of the connection it belongs to."""

    def acknowledge(self, ack: MessageAck) -> None:
        """Tell the broker; nothing when there is none."""

    def acknowledge_session(self, inbox: Inbox) -> None:
        """Call `Inbox.acknowledge_all` on every inbox of the same session (CLIENT)."""

    def arrived(self, inbox: Inbox) -> None:
        """Something may be taken, or the inbox ended: wake who waits."""


class Inbox:
    """The messages of one consumer. ``ended``: why nothing will come any more; ``exhausted``: a browse is complete."""

    def __init__(
        self, info: ConsumerInfo, mode: int, policy: RedeliveryPolicy, port: InboxPort, entropy: Entropy, audit: bool
    ) -> None:
        """``audit``: remember what was settled, because the connection may be replaced."""
        self.info: ConsumerInfo = info
        self.mode: int = mode
        self.policy: RedeliveryPolicy = policy
        self.port: InboxPort = port
        self.entropy: Entropy = entropy
        self.browser: bool = info.browser
        self.buffer: deque[Delivery] = deque()
        self.delivered: list[Delivery] = []
        self.ended: str = ""
        self.exhausted: bool = False
        self.pulling: bool = False
        self.pulled_nothing: bool = False
        self.last_sequence: i64 = -1
        self.blocked_until: i64 = 0
        self.prefetch: i64 = i64(info.prefetch_size)
        self._delay_ms: int = 0
        self._first: MessageId | None = None  # of the range that is processed and not told
        self._last: MessageId | None = None
        self._count: i64 = 0
        self._uncovered: i64 = 0  # delivered and not covered by a DELIVERED
        self._audit: bool = audit
        self._told: dict[Key, None] = {}
        self._suspects: dict[Key, None] = {}

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
        self.buffer.append(Delivery(self, message, redeliveries))
        self.port.arrived(self)

    def _refused(self, message: Message, redeliveries: int, wall_ms: i64) -> bool:
        """Settle what is not to be handed out: settled before, expired, or redelivered too often."""
        if self._suspects:
            key = _key(message)
            if key in self._suspects:
                del self._suspects[key]
                self._tell(AckType.INDIVIDUAL, None, message.message_id, 1)
                return True
        if message.expiration > 0 and wall_ms > message.expiration:
            self._tell(AckType.EXPIRED, message.message_id, message.message_id, 1)
            return True
        if self.policy.pre_dispatch_check and redeliveries > 0 and self.policy.exhausted(redeliveries):
            self._poison(message, f"Exceeded RedeliveryPolicy max redelivery limit: {self.policy.maximum_redeliveries}")
            return True
        return False

    # -- handing out ---------------------------------------------------------------------------------------------------

    def available(self, now: Instant) -> bool:
        """Tell whether `take` would return something."""
        return len(self.buffer) > 0 and now >= self.blocked_until

    def take(self, now: Instant) -> Delivery | None:
        """Hand out the next message, or None. In AUTO and DUPS_OK call `done` with it when it is processed."""
        if len(self.buffer) == 0 or now < self.blocked_until:
            return None
        delivery = self.buffer.popleft()
        message_id = delivery.message.message_id
        if message_id is not None:
            self.last_sequence = message_id.broker_sequence_id
        if not self.browser and self.mode != Acknowledge.AUTO and self.mode != Acknowledge.DUPS_OK:
            self.delivered.append(delivery)
            self._uncovered += 1
            # INDIVIDUAL settles in any order, which the broker does not correlate with an extension of credit.
            if self.mode != Acknowledge.INDIVIDUAL and self.prefetch > 0 and self._uncovered * 2 >= self.prefetch:
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
        if self._count == 0:
            self._first = message_id
        self._last = message_id
        self._count += 1
        self._remember(delivery.message)
        if self._count * 2 >= self.prefetch:
            self.flush()

    def flush(self) -> None:
        """Tell the broker what is processed."""
        count = self._count
        if count > 0:
            self._count = 0
            self._tell(AckType.STANDARD, self._first, self._last, count)

    def acknowledge_all(self, transaction_id: TransactionId | None = None) -> int:
        """CLIENT, TRANSACTED: all that was handed out is processed. Returns how many that were."""
        count = len(self.delivered)
        if count > 0:
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
        return count

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
        self.buffer.extendleft(reversed(again))
        self._delay_ms = self.policy.next_delay_ms(self._delay_ms, self.entropy.fraction())
        self.blocked_until = now + self._delay_ms * MILLISECOND

    def deadline(self, now: Instant) -> i64:
        """Return when a delayed redelivery may be taken, NEVER for none."""
        return self.blocked_until if len(self.buffer) > 0 and self.blocked_until > now else NEVER

    def interrupted(self) -> bool:
        """Forget what the lost broker sent. True when something was handed out and is not settled."""
        unsettled = len(self.delivered) > 0
        for delivery in self.delivered:
            delivery.live = False
        for delivery in self.buffer:
            delivery.live = False
        self.delivered.clear()
        self.buffer.clear()
        self._count = 0
        self._uncovered = 0
        self.blocked_until = 0
        if self._told:
            self._suspects = self._told
            self._told = {}
        return unsettled

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
            told = self._told
            told[_key(message)] = None
            if len(told) > AUDIT_DEPTH:
                del told[next(iter(told))]

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
