"""A program's connection against scripted brokers: what is said, and said again to the next one."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND, Entropy
from entrepot.base.errors import (
    AccessDenied,
    EntrepotError,
    InvalidDestination,
    TransactionError,
    TransactionInDoubt,
    TransactionRolledBack,
    Unreachable,
)
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import ConversationEvents
from entrepot.protocols.openwire.bodies import text_message
from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.commands import (
    ConnectionControl,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    ProducerAck,
    XATransactionId,
)
from entrepot.protocols.openwire.conversation.core import ConversationCore
from entrepot.protocols.openwire.conversation.inbox import Delivery
from entrepot.protocols.openwire.conversation.records import ConsumerRecord, ProducerRecord, SessionRecord
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import DestinationKind, parse_destination
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.session import Shell
from pair import Pair

from .scripted import ScriptedBroker

QUEUE = parse_destination("Q")
TIGHT = WireFormatOptions(tight_encoding_enabled=True, cache_enabled=True)


class Evenly(Entropy):
    def token(self, octets: int) -> bytes:
        return bytes(octets)

    def fraction(self) -> float:
        return 0.5


class Program(ConversationEvents):
    """A program with one connection, and the brokers it comes to one after another."""

    def __init__(
        self, *, chunk: int = 0, reconnects: bool = True, options: WireFormatOptions | None = None, **more: object
    ):
        self.log: list[str] = []
        info = ConnectionInfo(connection_id=ConnectionId("ID:c:1"), client_id="me")
        self.core = ConversationCore(
            info,
            self,
            Evenly(),
            reconnects=reconnects,
            watch_advisories=False,
            **more,  # type: ignore[arg-type]
        )
        self.chunk = chunk
        self.options = options or WireFormatOptions()
        self.answers: list[EntrepotError | None] = []

    def answer(self, error: EntrepotError | None) -> None:
        self.answers.append(error)

    def meet(self, broker: ScriptedBroker) -> ScriptedBroker:
        client = OpenWireClient(Shell(), self.options, self.core.hearing, 0)
        self.pair = Pair(client, broker, chunk=self.chunk)
        self.pair.run()
        self.core.use(client)
        self.pair.run()
        return broker

    def introduced(self, first: bool) -> None:
        self.log.append("first" if first else "again")

    def rejected(self, error: EntrepotError, first: bool) -> None:
        self.log.append(f"rejected {type(error).__name__}")

    def lost(self, why: str) -> None:
        self.log.append("lost")

    def failed(self, error: EntrepotError) -> None:
        self.log.append(f"error {error}")

    def directed(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        self.log.append(f"control {brokers}")

    def flowing(self) -> None:
        self.log.append("flowing")

    def session(self, mode: Acknowledge = Acknowledge.AUTO) -> SessionRecord:
        return self.core.sessions.open(mode)

    def producer(self, session: SessionRecord, window: int = 0) -> ProducerRecord:
        return self.core.producers.open(session, QUEUE, window, self.answer)

    def consumer(self, session: SessionRecord, prefetch: int = 10) -> ConsumerRecord:
        info = ConsumerInfo(destination=QUEUE, prefetch_size=prefetch)
        policy = RedeliveryPolicy(maximum_redeliveries=2)
        return self.core.consumers.open(session, info, policy, lambda: None, self.answer)

    def send(self, producer: ProducerRecord, *, confirmed: bool = False) -> bool:
        message = text_message("x")
        message.destination = QUEUE
        self.core.producers.identify(producer, message)
        return self.core.producers.send(producer, message, self.answer if confirmed else None)


def taken(record: ConsumerRecord, now: int = 0) -> list[int]:
    numbers = []
    while (delivery := record.inbox.take(now)) is not None:
        assert delivery.message.message_id is not None
        numbers.append(int(delivery.message.message_id.producer_sequence_id))
        if record.inbox.mode == Acknowledge.AUTO:
            record.inbox.done(delivery)
    return numbers


@pytest.mark.parametrize("chunk", [0, 1])
@pytest.mark.parametrize("options", [WireFormatOptions(), TIGHT], ids=["loose", "tight"])
def test_connect_send_receive(chunk: int, options: WireFormatOptions) -> None:
    program = Program(chunk=chunk, options=options)
    broker = program.meet(ScriptedBroker(options=options))
    session = program.session()
    producer, consumer = program.producer(session), program.consumer(session)
    program.send(producer, confirmed=True)
    program.send(producer)
    program.pair.run()
    assert broker.story() == [
        "ConnectionControl",
        "Connection?",
        "Session",
        "Producer?",
        "Consumer?",
        "send 1?",
        "send 2",
    ]
    for number in (1, 2, 3):
        broker.dispatch(consumer.info.consumer_id, number)
    program.pair.run()
    assert taken(consumer) == [1, 2, 3]
    consumer.inbox.flush()
    program.pair.run()
    assert broker.story() == ["STANDARD 1-3 x3"]
    assert program.log == ["first"]
    assert program.answers == [None] * 3


class TestTheWire:
    def test_it_says_that_it_lives(self) -> None:
        program = Program()
        broker = program.meet(ScriptedBroker())
        program.pair.advance(25 * SECOND)
        assert broker.closing is False
        assert program.log == ["first"]

    def test_a_silent_broker_is_left(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        program.pair.advance(31 * SECOND)
        assert program.log == ["first", "lost"]

    def test_a_broker_that_never_offers_a_format_is_left(self) -> None:
        program = Program()
        client = OpenWireClient(Shell(), WireFormatOptions(), program.core.hearing, 0)
        client.advance(10 * SECOND)
        assert client.closing
        assert "10 s" in client.failure

    def test_rubbish_ends_it(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        wire = program.core.requests.wire
        assert wire is not None
        wire.receive(b"\xff" * 64, 0)
        assert program.log == ["first", "lost"]

    def test_a_refused_introduction(self) -> None:
        program = Program()
        broker = ScriptedBroker()
        broker.refusals["ConnectionInfo"] = Throwable("javax.jms.JMSSecurityException", "no")
        program.meet(broker)
        assert program.log == ["rejected AccessDenied"]
        assert program.core.requests.wire is None


class TestRequests:
    def test_a_refusal_is_what_the_exception_says(self) -> None:
        program = Program()
        broker = ScriptedBroker()
        broker.refusals["ConsumerInfo"] = Throwable("java.lang.SecurityException", "not you")
        program.meet(broker)
        consumer = program.consumer(program.session())
        program.pair.run()
        assert isinstance(program.answers[0], AccessDenied)
        assert consumer not in program.core.consumers.records.values()

    def test_without_failover_a_loss_fails_what_waits(self) -> None:
        program = Program(reconnects=False)
        broker = ScriptedBroker()
        broker.mute = {"ActiveMQTextMessage": None}
        program.meet(broker)
        producer = program.producer(program.session())
        program.send(producer, confirmed=True)
        program.pair.run()
        program.pair.cut()
        assert isinstance(program.answers[-1], Unreachable)

    def test_what_was_not_answered_is_asked_again_with_the_same_sequence(self) -> None:
        program = Program()
        broker = ScriptedBroker()
        broker.mute = {"ActiveMQTextMessage": None}
        program.meet(broker)
        producer = program.producer(program.session())
        program.send(producer, confirmed=True)
        program.send(producer, confirmed=True)
        program.pair.run()
        program.pair.cut()
        second = program.meet(ScriptedBroker())
        assert second.story() == ["ConnectionControl", "Connection?", "Session", "Producer", "send 1?", "send 2?"]
        assert program.answers == [None] * 3

    def test_what_is_asked_in_an_outage_waits(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        session = program.session()
        program.pair.cut()
        program.consumer(session)
        assert program.answers == []
        second = program.meet(ScriptedBroker())
        assert second.story() == ["ConnectionControl", "Connection?", "Session", "Consumer?"]
        assert program.answers == [None]

    def test_a_send_in_an_outage_is_not_taken(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        producer = program.producer(program.session())
        program.pair.run()
        program.pair.cut()
        assert program.send(producer) is False

    def test_removals_are_answered_by_the_loss_itself(self) -> None:
        program = Program()
        broker = ScriptedBroker()
        broker.mute = {"ROLLBACK": None}
        program.meet(broker)
        session = program.session(Acknowledge.TRANSACTED)
        program.send(program.producer(session))
        program.pair.run()
        program.core.transactions.roll_back(session, 0, program.answer)
        program.pair.run()
        assert len(program.answers) == 1
        program.pair.cut()
        assert program.answers == [None, None]

    def test_the_end_answers_everybody(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        program.pair.cut()
        program.consumer(program.session())
        program.core.end(Unreachable("nobody is there"))
        assert [type(answer) for answer in program.answers] == [Unreachable]
        program.consumer(SessionRecord(program.session().info, Acknowledge.AUTO))
        assert len(program.answers) == 2


class TestReplay:
    def test_everything_that_was_open(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        program.core.temporaries.add(DestinationKind.TEMPORARY_QUEUE, program.answer)
        session = program.session()
        program.producer(session)
        program.consumer(session)
        closed = program.consumer(session)
        pulling = program.consumer(session, prefetch=0)
        program.core.consumers.pull(pulling, 0)
        program.pair.run()
        program.core.consumers.close(closed)
        program.pair.run()
        program.pair.cut()
        second = program.meet(ScriptedBroker())
        heard = list(second.heard)
        assert second.story() == [
            "ConnectionControl", "Connection?", "Destination", "Session", "Producer", "Consumer", "Consumer",
            "MessagePull",
        ]  # fmt: skip
        assert isinstance(heard[1], ConnectionInfo)
        assert heard[1].failover_reconnect

    def test_a_session_of_its_own_that_was_closed_is_forgotten(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        session = program.session()
        program.producer(session)
        program.pair.run()
        program.core.sessions.close(session)
        program.pair.cut()
        assert program.meet(ScriptedBroker()).story() == ["ConnectionControl", "Connection?"]

    def test_cached_messages(self) -> None:
        program = Program(cache_octets=2500)
        program.meet(ScriptedBroker())
        producer = program.producer(program.session())
        for _ in range(5):
            program.send(producer)
        program.pair.run()
        program.pair.cut()
        assert program.meet(ScriptedBroker()).story()[-2:] == ["send 4", "send 5"]

    def test_arrived_messages_are_forgotten(self) -> None:
        program = Program()
        broker = program.meet(ScriptedBroker())
        consumer = program.consumer(program.session())
        program.pair.run()
        broker.dispatch(consumer.info.consumer_id, 1)
        program.pair.run()
        program.pair.cut()
        assert taken(consumer) == []

    def test_what_was_settled_just_before_is_settled_again_and_not_handed_out(self) -> None:
        program = Program()
        broker = program.meet(ScriptedBroker())
        consumer = program.consumer(program.session())
        program.pair.run()
        for number in (1, 2):
            broker.dispatch(consumer.info.consumer_id, number)
        program.pair.run()
        assert taken(consumer) == [1, 2]
        program.pair.cut()  # the acknowledgement did not go out
        second = program.meet(ScriptedBroker())
        second.story()
        for number in (1, 2, 3):
            second.dispatch(consumer.info.consumer_id, number, redelivered=1)
        program.pair.run()
        assert taken(consumer) == [3]
        assert second.story() == ["INDIVIDUAL -1 x1", "INDIVIDUAL -2 x1"]

    def test_a_second_rejection_is_reported(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        program.consumer(program.session())
        program.pair.run()
        program.pair.cut()
        second = ScriptedBroker()
        second.refusals["ConnectionInfo"] = Throwable("javax.jms.InvalidClientIDException", "taken")
        program.meet(second)
        assert program.log == ["first", "lost", "rejected SubscriptionInUse"]
        third = program.meet(ScriptedBroker())
        assert third.story() == ["ConnectionControl", "Connection?", "Session", "Consumer"]
        assert program.log[-1] == "again"


class TestTransactions:
    def start(self, *mute: str, name: str = "b1", identity: str = "") -> tuple[Program, SessionRecord, ProducerRecord]:
        program = Program()
        broker = ScriptedBroker(name, identity=identity)
        broker.mute = dict.fromkeys(mute)
        program.meet(broker)
        self.broker = broker
        session = program.session(Acknowledge.TRANSACTED)
        producer = program.producer(session)
        program.pair.run()
        program.answers.clear()
        broker.story()
        return program, session, producer

    def test_commit(self) -> None:
        program, session, producer = self.start()
        program.send(producer)
        program.send(producer)
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        assert self.broker.story() == ["BEGIN", "send 1 in tx", "send 2 in tx", "COMMIT_ONE_PHASE?"]
        assert program.answers == [None]

    def test_nothing_done_is_nothing_said(self) -> None:
        program, session, _ = self.start()
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        assert self.broker.story() == []
        assert program.answers == [None]

    def test_consumed_messages_are_settled_within(self) -> None:
        program, session, _ = self.start()
        consumer = program.consumer(session)
        program.pair.run()
        for number in (1, 2):
            self.broker.dispatch(consumer.info.consumer_id, number)
        program.pair.run()
        self.broker.story()
        assert taken(consumer) == [1, 2]
        program.core.consumers.close(consumer)  # it stays until the transaction ends
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        assert self.broker.story() == ["BEGIN", "STANDARD 1-2 x2 in tx", "Remove", "COMMIT_ONE_PHASE?"]

    def test_an_open_one_is_told_again_and_commits_once(self) -> None:
        program, session, producer = self.start()
        program.send(producer)
        program.pair.run()
        program.pair.cut()
        program.send(producer)  # in the outage
        second = program.meet(ScriptedBroker("b2"))
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        assert second.story()[2:] == [
            "Session",
            "Producer",
            "BEGIN",
            "send 1 in tx",
            "send 2 in tx",
            "COMMIT_ONE_PHASE?",
        ]
        assert program.answers == [None]

    def test_producers_that_were_closed_are_announced_for_it(self) -> None:
        program, _, producer = self.start()
        program.send(producer)
        program.core.producers.close(producer)
        program.pair.run()
        program.pair.cut()
        second = program.meet(ScriptedBroker())
        assert second.story()[2:] == ["Session", "Producer", "BEGIN", "send 1 in tx", "Remove"]

    def test_a_commit_without_an_answer_is_repeated_in_the_same_store(self) -> None:
        program, session, producer = self.start("COMMIT_ONE_PHASE")
        program.send(producer)
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        program.pair.cut()
        assert program.answers == []
        second = program.meet(ScriptedBroker("b1"))
        assert second.story()[-3:] == ["BEGIN", "send 1 in tx", "COMMIT_ONE_PHASE?"]
        assert program.answers == [None]

    def test_a_pair_is_one_store_whatever_its_brokers_are_called(self) -> None:
        program, session, producer = self.start("COMMIT_ONE_PHASE", identity="of the store")
        program.send(producer)
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        program.pair.cut()
        second = program.meet(ScriptedBroker("b2", identity="of the store"))
        assert second.story()[-3:] == ["BEGIN", "send 1 in tx", "COMMIT_ONE_PHASE?"]
        assert program.answers == [None]

    def test_a_commit_without_an_answer_is_in_doubt_in_another(self) -> None:
        program, session, producer = self.start("COMMIT_ONE_PHASE")
        program.send(producer)
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        program.pair.cut()
        second = program.meet(ScriptedBroker("b2"))
        assert "COMMIT_ONE_PHASE?" not in second.story()
        assert isinstance(program.answers[0], TransactionInDoubt)
        assert "in doubt" in str(program.answers[0])

    def test_one_that_consumed_rolls_back(self) -> None:
        program, session, producer = self.start()
        consumer = program.consumer(session)
        program.pair.run()
        self.broker.dispatch(consumer.info.consumer_id, 1)
        program.pair.run()
        assert taken(consumer) == [1]
        program.send(producer)
        program.pair.run()
        program.pair.cut()
        program.answers.clear()
        second = program.meet(ScriptedBroker())
        assert "BEGIN" not in second.story()
        second.dispatch(consumer.info.consumer_id, 1, redelivered=1)
        program.pair.run()
        program.core.transactions.commit(session, 0, program.answer)
        assert isinstance(program.answers[0], TransactionRolledBack)
        assert taken(consumer) == [1]  # the broker gave it again
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        assert second.story() == ["BEGIN", "STANDARD 1-1 x1 in tx", "COMMIT_ONE_PHASE?"]
        assert program.answers[1] is None

    def test_a_commit_for_which_there_was_no_room_is_in_doubt(self) -> None:
        """The broker says that it confirms nothing; the disk, or a replica, may have it all the same."""
        program, session, producer = self.start()
        program.send(producer)
        errors: list[object] = []
        program.core.transactions.commit(session, 0, errors.append)
        full = Throwable("javax.jms.ResourceAllocationException", "no space is left for the journal")
        self.broker.refusals = {"COMMIT_ONE_PHASE": full}
        program.pair.run()
        assert [type(error) for error in errors] == [TransactionInDoubt]

    def test_one_that_cannot_commit_says_nothing_more(self) -> None:
        program, session, producer = self.start()
        consumer = program.consumer(session)
        program.pair.run()
        self.broker.dispatch(consumer.info.consumer_id, 1)
        program.pair.run()
        assert taken(consumer) == [1]
        program.pair.cut()
        second = program.meet(ScriptedBroker())
        second.story()
        assert program.send(producer)
        program.pair.run()
        assert second.story() == []  # that broker would complain: it knows of no such transaction

    def test_a_commit_that_consumed_is_never_repeated(self) -> None:
        program, session, _ = self.start("COMMIT_ONE_PHASE")
        consumer = program.consumer(session)
        program.pair.run()
        self.broker.dispatch(consumer.info.consumer_id, 1)
        program.pair.run()
        taken(consumer)
        program.answers.clear()
        program.core.transactions.commit(session, 0, program.answer)
        program.pair.run()
        program.pair.cut()
        assert isinstance(program.answers[0], TransactionInDoubt)
        assert "COMMIT_ONE_PHASE?" not in program.meet(ScriptedBroker("b1")).story()


class TestConsuming:
    def start(self, mode: Acknowledge, prefetch: int = 10) -> tuple[Program, ConsumerRecord, SessionRecord]:
        program = Program()
        self.broker = program.meet(ScriptedBroker())
        session = program.session(mode)
        consumer = program.consumer(session, prefetch)
        program.pair.run()
        self.broker.story()
        return program, consumer, session

    def give(self, program: Program, consumer: ConsumerRecord, *numbers: int, **more: int) -> None:
        for number in numbers:
            self.broker.dispatch(consumer.info.consumer_id, number, **more)
        program.pair.run()

    def test_auto_flushes_at_half_of_the_credit(self) -> None:
        program, consumer, _ = self.start(Acknowledge.AUTO, prefetch=4)
        self.give(program, consumer, 1, 2, 3)
        taken(consumer)
        program.pair.run()
        assert self.broker.story() == ["STANDARD 1-2 x2"]

    def test_client_extends_its_credit_and_settles_all(self) -> None:
        program, consumer, _ = self.start(Acknowledge.CLIENT, prefetch=4)
        self.give(program, consumer, 1, 2, 3)
        taken(consumer)
        consumer.inbox.acknowledge_all()
        program.pair.run()
        assert self.broker.story() == ["DELIVERED 1-2 x2", "STANDARD 1-3 x3"]

    def test_individual(self) -> None:
        program, consumer, _ = self.start(Acknowledge.INDIVIDUAL)
        self.give(program, consumer, 1, 2)
        first, second = consumer.inbox.take(0), consumer.inbox.take(0)
        assert first is not None
        assert second is not None
        consumer.inbox.acknowledge_one(second)
        consumer.inbox.acknowledge_one(second)
        consumer.inbox.reject(first, "bad")
        program.pair.run()
        assert self.broker.story() == ["INDIVIDUAL -2 x1", "POISON 1-1 x1"]

    def test_expired_messages_are_reported(self) -> None:
        program, consumer, _ = self.start(Acknowledge.AUTO)
        program.core.wall = 1000
        self.give(program, consumer, 1, expiration=999)
        self.give(program, consumer, 2, expiration=1000)
        assert taken(consumer) == [2]
        program.pair.run()
        assert self.broker.story()[0] == "EXPIRED 1-1 x1"

    def test_a_message_that_came_too_often_is_given_up_on_arrival(self) -> None:
        program, consumer, _ = self.start(Acknowledge.AUTO)
        self.give(program, consumer, 1, redelivered=3)
        self.give(program, consumer, 2, redelivered=2)
        assert taken(consumer) == [2]
        program.pair.run()
        assert self.broker.story()[0] == "POISON 1-1 x1"

    def test_rollback_hands_out_again_after_the_delay_and_gives_up_in_the_end(self) -> None:
        program, consumer, session = self.start(Acknowledge.TRANSACTED)
        self.give(program, consumer, 1, 2)
        self.give(program, consumer, 3)
        now = 0
        for _ in range(2):
            assert consumer.inbox.take(now) is not None
            assert consumer.inbox.take(now) is not None
            program.core.transactions.roll_back(session, now, program.answer)
            assert consumer.inbox.take(now) is None
            assert consumer.inbox.deadline(now) == now + 1000 * MILLISECOND
            now += 1000 * MILLISECOND
        assert [consumer.inbox.take(now) is not None for _ in range(2)] == [True, True]
        program.core.transactions.roll_back(session, now, program.answer)
        assert taken(consumer, now + SECOND) == [3]
        program.pair.run()
        assert self.broker.story() == ["REDELIVERED 1-2 x2"] * 2 + ["POISON 1-1 x1", "POISON 2-2 x1"]

    def test_a_pull_that_finds_nothing(self) -> None:
        program, consumer, _ = self.start(Acknowledge.AUTO, prefetch=0)
        program.core.consumers.pull(consumer, -1)
        from entrepot.protocols.openwire.commands import MessageDispatch

        self.broker.say(MessageDispatch(consumer_id=consumer.info.consumer_id))
        program.pair.run()
        assert consumer.inbox.pulled_nothing
        assert self.broker.story() == ["MessagePull"]


class TestConfirming:
    """Who waits for an acknowledgement is told that it is stored, or that nobody knows."""

    def start(self, *, reconnects: bool = True, mute: str = "") -> tuple[Program, ScriptedBroker, Delivery]:
        program = Program(reconnects=reconnects)
        broker = program.meet(ScriptedBroker())
        consumer = program.consumer(program.session(Acknowledge.INDIVIDUAL))
        program.pair.run()
        broker.dispatch(consumer.info.consumer_id, 1)
        program.pair.run()
        broker.story()
        program.answers.clear()
        if mute:
            broker.mute = {mute: None}
        delivery = consumer.inbox.take(0)
        assert delivery is not None
        consumer.inbox.acknowledge_one(delivery)
        return program, broker, delivery

    def test_it_is_asked_behind_the_acknowledgement(self) -> None:
        program, broker, delivery = self.start()
        program.core.confirming.confirm(int(delivery.era), program.core.confirming.reports, program.answer)
        assert program.answers == []
        program.pair.run()
        assert broker.story() == ["INDIVIDUAL -1 x1", "BEGIN", "COMMIT_ONE_PHASE?"]
        assert program.answers == [None]

    def test_who_does_not_wait_asks_nothing(self) -> None:
        program, broker, _ = self.start()
        program.pair.run()
        assert broker.story() == ["INDIVIDUAL -1 x1"]

    @pytest.mark.parametrize("reconnects", [False, True])
    def test_a_loss_before_the_answer(self, reconnects: bool) -> None:
        program, _, delivery = self.start(reconnects=reconnects, mute="COMMIT_ONE_PHASE")
        program.core.confirming.confirm(int(delivery.era), program.core.confirming.reports, program.answer)
        program.pair.run()
        program.pair.cut()
        (error,) = program.answers
        assert isinstance(error, Unreachable)
        assert "in doubt" in str(error)
        if reconnects:
            assert "COMMIT_ONE_PHASE?" not in program.meet(ScriptedBroker()).story()

    def test_a_loss_before_the_question(self) -> None:
        program, _, delivery = self.start()
        program.pair.cut()
        program.core.confirming.confirm(int(delivery.era), program.core.confirming.reports, program.answer)
        broker = program.meet(ScriptedBroker())
        program.core.confirming.confirm(int(delivery.era), program.core.confirming.reports, program.answer)
        assert [type(error) for error in program.answers] == [Unreachable, Unreachable]
        program.pair.run()
        assert "COMMIT_ONE_PHASE?" not in broker.story()

    def test_what_comes_on_the_next_wire_can_be_confirmed(self) -> None:
        program, _, _ = self.start()
        program.pair.cut()
        broker = program.meet(ScriptedBroker())
        (record,) = program.core.consumers.records.values()
        broker.dispatch(record.info.consumer_id, 2)
        program.pair.run()
        delivery = record.inbox.take(0)
        assert delivery is not None
        record.inbox.acknowledge_one(delivery)
        program.core.confirming.confirm(int(delivery.era), program.core.confirming.reports, program.answer)
        program.pair.run()
        assert program.answers == [None]

    def test_an_acknowledgement_that_the_broker_refused(self) -> None:
        program, broker, delivery = self.start()
        reports = program.core.confirming.reports
        program.core.confirming.confirm(int(delivery.era), reports, program.answer)
        broker.say(ConnectionError(exception=Throwable("java.io.IOException", "the disk is full")))
        program.pair.run()
        (error,) = program.answers
        assert "the disk is full" in str(error)

    def test_a_request_that_acknowledges_is_not_done_by_a_loss(self) -> None:
        program, _, _ = self.start(mute="MessageAck")
        program.core.requests.ask(MessageAck(), program.answer)
        program.pair.run()
        program.pair.cut()
        assert isinstance(program.answers[0], Unreachable)


class TestTheRest:
    def test_a_producer_window(self) -> None:
        program = Program()
        broker = program.meet(ScriptedBroker())
        producer = program.producer(program.session(), window=2000)
        program.send(producer)
        assert not producer.full
        program.send(producer)
        assert producer.full
        broker.say(ProducerAck(producer_id=producer.info.producer_id, size=1029))
        program.pair.run()
        assert not producer.full
        assert "flowing" in program.log

    def test_controls_reach_the_owner(self) -> None:
        program = Program()
        broker = program.meet(ScriptedBroker())
        broker.say(ConnectionControl(connected_brokers="tcp://a:1", rebalance_connection=True))
        program.pair.run()
        assert program.log == ["first", "control tcp://a:1"]

    def test_a_deleted_temporary_destination(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        producer = program.producer(program.session())
        program.core.temporaries.gone["ID:x:1"] = None
        message = text_message("x")
        message.destination = parse_destination("temp-queue://ID:x:1")
        program.core.producers.identify(producer, message)
        with pytest.raises(InvalidDestination):
            program.core.producers.send(producer, message, None)

    def test_temporaries_are_told_again(self) -> None:
        program = Program()
        program.meet(ScriptedBroker())
        where = program.core.temporaries.add(DestinationKind.TEMPORARY_TOPIC, program.answer)
        program.pair.run()
        program.core.temporaries.remove(where, program.answer)
        kept = program.core.temporaries.add(DestinationKind.TEMPORARY_TOPIC, program.answer)
        program.pair.run()
        program.pair.cut()
        second = program.meet(ScriptedBroker())
        told = [command.destination for command in second.heard if isinstance(command, DestinationInfo)]
        assert told == [kept]


class TestBranches:
    """Distributed transactions: what is said for each step, and what a lost broker makes of it."""

    XID = XATransactionId(format_id=1, global_transaction_id=b"g", branch_qualifier=b"b")

    def open(self) -> tuple[Program, ScriptedBroker, SessionRecord]:
        program = Program()
        broker = program.meet(ScriptedBroker())
        session = program.session(Acknowledge.TRANSACTED)
        producer, consumer = program.producer(session), program.consumer(session)
        program.pair.run()
        broker.story()
        program.core.branches.begin(session, self.XID)
        program.send(producer)
        broker.dispatch(consumer.info.consumer_id, 1)
        program.pair.run()
        assert taken(consumer) == [1]
        return program, broker, session

    def test_the_steps(self) -> None:
        program, broker, session = self.open()
        with pytest.raises(TransactionError):
            program.core.transactions.commit(session, 0, program.answer)
        with pytest.raises(TransactionError):
            program.core.branches.begin(session, self.XID)
        program.core.branches.end(session, self.XID, program.answer)
        answers: list[bool] = []
        program.core.branches.prepare(self.XID, lambda something, error: answers.append(something))
        program.pair.run()
        program.core.branches.commit(self.XID, False, program.answer)
        program.pair.run()
        assert answers == [True]
        assert broker.story() == [
            "BEGIN",
            "send 1 in tx",
            "STANDARD 1-1 x1 in tx",
            "END?",
            "PREPARE?",
            "COMMIT_TWO_PHASE?",
        ]

    def test_a_rollback_hands_out_again(self) -> None:
        program, _, session = self.open()
        [record] = session.consumers.values()
        record.inbox.policy.initial_delay_ms = 0
        program.core.branches.end(session, self.XID, program.answer)
        program.core.branches.roll_back(self.XID, 0, program.answer)
        program.pair.run()
        assert taken(record) == [1]

    @pytest.mark.parametrize("one_phase", [False, True])
    def test_what_was_not_prepared_ends_with_its_broker(self, one_phase: bool) -> None:
        program, _, session = self.open()
        program.core.branches.end(session, self.XID, program.answer)
        program.pair.run()
        program.pair.cut()
        program.meet(broker := ScriptedBroker())
        errors: list[EntrepotError | None] = []
        if one_phase:
            program.core.branches.commit(self.XID, True, lambda error: errors.append(error))
        else:
            program.core.branches.prepare(self.XID, lambda something, error: errors.append(error))
        program.pair.run()
        assert isinstance(errors[0], TransactionRolledBack)
        assert not [line for line in broker.story() if line.startswith(("BEGIN", "PREPARE", "COMMIT"))]

    def test_an_answer_that_was_lost(self) -> None:
        program, broker, session = self.open()
        program.core.branches.end(session, self.XID, program.answer)
        program.pair.run()
        broker.mute["PREPARE"] = broker.mute["COMMIT_TWO_PHASE"] = None
        errors: list[EntrepotError | None] = []
        program.core.branches.prepare(self.XID, lambda something, error: errors.append(error))
        other = XATransactionId(format_id=1, global_transaction_id=b"other")
        program.core.branches.commit(other, False, program.answer)
        program.pair.run()
        program.pair.cut()
        program.meet(broker := ScriptedBroker())
        assert [str(error).startswith("in doubt") for error in errors] == [True]
        assert "COMMIT_TWO_PHASE?" in broker.story()  # what was prepared is committed on whatever wire
        assert program.answers[-1] is None
