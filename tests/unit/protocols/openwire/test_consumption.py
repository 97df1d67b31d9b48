"""The inbox of a consumer under each option: what it hands out, and what it tells the broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import MILLISECOND, SECOND, Entropy
from entrepot.protocols.conversing.modes import Acknowledge, Handling, RedeliveryPolicy
from entrepot.protocols.openwire.bodies import text_message
from entrepot.protocols.openwire.commands import (
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
)
from entrepot.protocols.openwire.conversation.inbox import Audit, Delivery, Inbox, InboxPort
from entrepot.protocols.openwire.ids import AckType

from .scripted import brief


class Even(Entropy):
    def token(self, octets: int) -> bytes:
        return bytes(octets)

    def fraction(self) -> float:
        return 0.5


class Told(InboxPort):
    def __init__(self) -> None:
        self.acks: list[MessageAck] = []

    def acknowledge(self, ack: MessageAck) -> None:
        self.acks.append(ack)

    def story(self) -> list[str]:
        acks, self.acks = self.acks, []
        return [brief(ack) for ack in acks]


class Desk:
    """An inbox, and a broker that hands it messages."""

    def __init__(
        self, mode: Acknowledge, *, prefetch: int = 10, policy: RedeliveryPolicy | None = None, **more: object
    ):
        self.port = Told()
        info = ConsumerInfo(consumer_id=ConsumerId("c", 1, 1), prefetch_size=prefetch)
        handling = Handling(**more)  # type: ignore[arg-type]
        self.inbox = Inbox(info, mode, policy or RedeliveryPolicy(), self.port, Even(), True, handling)

    def arrive(self, number: int, *, priority: int = 4, producer: int = 1, expiration: int = 0) -> None:
        message = text_message(str(number))
        message.message_id = MessageId(
            producer_id=ProducerId("p", 1, producer), producer_sequence_id=number, broker_sequence_id=number
        )
        message.priority = priority
        message.expiration = expiration
        self.inbox.arrive(MessageDispatch(message=message), 1000)

    def take(self, now: int = 0) -> list[int]:
        taken = []
        while (delivery := self.inbox.take(now)) is not None:
            taken.append(number_of(delivery))
            if self.inbox.mode == Acknowledge.AUTO:
                self.inbox.done(delivery)
        return taken


def number_of(delivery: Delivery) -> int:
    assert delivery.message.message_id is not None
    return int(delivery.message.message_id.producer_sequence_id)


class TestOptimizedAcknowledgement:
    def test_the_broker_is_told_of_65_percent_at_a_time(self) -> None:
        desk = Desk(Acknowledge.AUTO, prefetch=20, lazily=True)
        for number in range(1, 21):
            desk.arrive(number)
        desk.take()
        desk.inbox.settle_turn(0)
        assert desk.port.story() == ["STANDARD 1-13 x13"]
        desk.inbox.flush()
        assert desk.port.story() == ["STANDARD 14-20 x7"]

    def test_or_with_the_first_turn_after_its_time(self) -> None:
        desk = Desk(Acknowledge.AUTO, prefetch=20, lazily=True, lazy_ns=300 * MILLISECOND)
        desk.arrive(1)
        desk.take()
        desk.inbox.settle_turn(SECOND)
        desk.inbox.settle_turn(SECOND + 299 * MILLISECOND)
        assert desk.port.story() == []
        desk.inbox.settle_turn(SECOND + 300 * MILLISECOND)
        assert desk.port.story() == ["STANDARD 1-1 x1"]

    def test_other_modes_are_not_late(self) -> None:
        desk = Desk(Acknowledge.DUPS_OK, lazily=True, lazy_ns=SECOND)
        desk.arrive(1)
        delivery = desk.inbox.take(0)
        assert delivery is not None
        desk.inbox.done(delivery)
        desk.inbox.settle_turn(0)
        assert desk.port.story() == ["STANDARD 1-1 x1"]


class TestPriority:
    def test_what_waits_is_handed_out_by_priority_and_settled_one_by_one(self) -> None:
        desk = Desk(Acknowledge.AUTO, by_priority=True)
        for number, priority in enumerate((4, 9, 4, 0, 9), 1):
            desk.arrive(number, priority=priority)
        assert desk.take() == [2, 5, 1, 3, 4]
        assert desk.port.story() == [f"INDIVIDUAL -{number} x1" for number in (2, 5, 1, 3, 4)]

    @given(st.lists(st.integers(min_value=0, max_value=9), max_size=30))
    def test_equal_ones_keep_their_order(self, priorities: list[int]) -> None:
        desk = Desk(Acknowledge.CLIENT, prefetch=100, by_priority=True)
        for number, priority in enumerate(priorities):
            desk.arrive(number, priority=priority)
        assert desk.take() == sorted(range(len(priorities)), key=lambda number: -priorities[number])


class TestNonBlockingRedelivery:
    POLICY = RedeliveryPolicy(initial_delay_ms=100)

    def test_others_pass_and_the_commit_settles_each_by_itself(self) -> None:
        desk = Desk(Acknowledge.TRANSACTED, policy=self.POLICY, non_blocking=True)
        for number in (1, 2, 3):
            desk.arrive(number)
        first = desk.inbox.take(0)
        assert first is not None
        desk.inbox.roll_back(0)
        assert desk.port.story() == ["REDELIVERED 1-1 x1"]
        assert desk.take() == [2, 3]
        assert not desk.inbox.available(0)
        assert desk.inbox.deadline(0) == 100 * MILLISECOND
        assert desk.take(100 * MILLISECOND) == [1]
        assert desk.inbox.acknowledge_all() == 3
        assert desk.port.story() == ["INDIVIDUAL -2 x1", "INDIVIDUAL -3 x1", "INDIVIDUAL -1 x1"]
        desk.arrive(4)
        desk.arrive(5)
        desk.take(SECOND)
        desk.inbox.acknowledge_all()
        assert desk.port.story() == ["STANDARD 4-5 x2"]

    def test_without_it_they_wait_behind(self) -> None:
        desk = Desk(Acknowledge.TRANSACTED, policy=self.POLICY)
        for number in (1, 2):
            desk.arrive(number)
        desk.inbox.take(0)
        desk.inbox.roll_back(0)
        assert desk.take() == []
        assert desk.take(100 * MILLISECOND) == [1, 2]

    def test_a_lost_connection_takes_them_away(self) -> None:
        desk = Desk(Acknowledge.TRANSACTED, policy=self.POLICY, non_blocking=True)
        desk.arrive(1)
        desk.take()
        desk.inbox.roll_back(0)
        assert not desk.inbox.interrupted()
        assert desk.take(SECOND) == []


def test_individual_acknowledgement_in_a_transaction() -> None:
    desk = Desk(Acknowledge.TRANSACTED, individually=True)
    for number in (1, 2):
        desk.arrive(number)
    desk.take()
    assert desk.inbox.acknowledge_all() == 2
    assert desk.port.story() == ["INDIVIDUAL -1 x1", "INDIVIDUAL -2 x1"]


def test_the_time_of_a_message_is_looked_at_unless_told_otherwise() -> None:
    for check in (True, False):
        desk = Desk(Acknowledge.AUTO, check_expiry=check)
        desk.arrive(1, expiration=999)
        assert desk.take() == ([] if check else [1])
        assert [ack.ack_type for ack in desk.port.acks if ack.ack_type == AckType.EXPIRED] == [AckType.EXPIRED] * check


def test_what_a_rolled_back_branch_settled_is_handed_out_again() -> None:
    desk = Desk(Acknowledge.TRANSACTED, policy=RedeliveryPolicy(initial_delay_ms=0))
    for number in (1, 2):
        desk.arrive(number)
    desk.take()
    handed = list(desk.inbox.delivered)
    desk.inbox.acknowledge_all()
    desk.inbox.take_back(handed)
    desk.inbox.roll_back(0)
    assert [delivery.redeliveries for delivery in desk.inbox.buffer] == [1, 1]
    assert desk.take() == [1, 2]


class TestAudit:
    def test_what_was_settled_before_the_connection_broke_is_settled_silently(self) -> None:
        desk = Desk(Acknowledge.AUTO)
        desk.arrive(1)
        desk.take()
        desk.inbox.flush()
        desk.port.story()
        desk.inbox.interrupted()
        desk.arrive(1)
        desk.arrive(2)
        assert desk.take() == [2]
        assert desk.port.story() == ["INDIVIDUAL -1 x1"]

    def test_it_is_bounded_by_producer_and_by_depth(self) -> None:
        audit = Audit(2, 2)
        desk = Desk(Acknowledge.CLIENT)
        for producer in (1, 2, 3):
            for number in (1, 2, 3):
                desk.arrive(number, producer=producer)
        messages = [delivery.message for delivery in desk.inbox.buffer]
        for message in messages:
            audit.remember(message)
        known = [audit.forget(message) for message in messages]
        assert known == [False, False, False, False, True, True, False, True, True]
        assert not any(audit.forget(message) for message in messages)
