"""The server session: what a client is answered, when, and what becomes of the others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.explain import explain
from entrepot.core.transactions.transaction import OCTETS_MAX
from entrepot.protocols.openwire.commands import (
    ActiveMQMessage,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTextMessage,
    ActiveMQTopic,
    BrokerInfo,
    ConnectionControl,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DataArrayResponse,
    DestinationInfo,
    ExceptionResponse,
    IntegerResponse,
    KeepAliveInfo,
    LocalTransactionId,
    MessagePull,
    ProducerAck,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionInfo,
    WireFormatInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import AckType, TransactionStep
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from kit import Rig

from .wired import Client, Hub, text_in

QUEUE = ActiveMQQueue("q")


@pytest.fixture
def hub() -> Hub:
    return Hub(Rig())


def refused(answer: Response) -> str:
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.exception is not None
    return str(answer.exception.class_name).rpartition(".")[2]


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_broker_introduces_itself_and_greets_who_can_be_managed(hub: Hub) -> None:
    client = hub.client(connected=False)
    assert [type(command) for command in client.take()] == [WireFormatInfo, BrokerInfo]
    assert type(client.ask(ConnectionInfo(connection_id=ConnectionId("ID:x"), manageable=True))) is Response
    (control,) = client.take()
    assert isinstance(control, ConnectionControl)
    assert (control.connected_brokers, control.reconnect_to, control.rebalance_connection) == ("", "", False)


def test_a_client_id_belongs_to_one_connection(hub: Hub) -> None:
    first = hub.client(client_id="me")
    second = hub.client(connected=False)
    answer = second.ask(ConnectionInfo(connection_id=ConnectionId("ID:2"), client_id="me"))
    assert refused(answer) == "InvalidClientIDException"
    second.wait(1_900)
    assert not second.session.closing
    second.wait(200)
    assert second.session.closing
    second.session.detach("closed", hub.rig.now)
    assert hub.rig.broker.clients.held["me"].peer == "peer-1"
    first.session.detach("closed", hub.rig.now)
    hub.client(client_id="me")


def test_the_same_connection_on_a_new_socket_takes_over(hub: Hub) -> None:
    first = hub.client("ID:same", client_id="me")
    first.send("q", "a")
    first.consume(QUEUE)
    assert first.texts() == ["a"]
    second = hub.client("ID:same", client_id="me", failover=True)
    assert first.session.closing
    second.consume(QUEUE)
    (dispatch,) = second.dispatches()
    assert (text_in(dispatch), dispatch.redelivery_counter) == ("a", 1)
    first.session.detach("closed", hub.rig.now)
    assert hub.rig.broker.clients.held["me"].peer == "peer-2"


def test_commands_before_the_connection_close_it_and_no_other(hub: Hub) -> None:
    other = hub.client()
    client = hub.client(connected=False)
    client.post(SessionInfo(session_id=SessionId("ID:x", 1)))
    assert client.session.closing
    assert len(client.heard_of(ConnectionError)) == 1
    other.send("q", "still here")


def test_both_sides_show_that_they_live(hub: Hub) -> None:
    client = hub.client(wire=WireFormatOptions(max_inactivity_duration=3_000))
    client.wait(1_100)
    assert len(client.heard_of(KeepAliveInfo)) == 1
    client.post(KeepAliveInfo())
    client.wait(2_900)
    assert not client.session.closing
    client.wait(200)
    assert client.session.closing


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=200), max_size=4), st.booleans())
def test_hostile_octets_end_their_own_connection_only(chunks: list[bytes], connected: bool) -> None:
    hub = Hub(Rig(disk=False))
    other = hub.client()
    client = hub.client(connected=connected)
    for chunk in chunks:
        client.session.receive(chunk, hub.rig.now)
    client.session.detach("gone", hub.rig.now)
    other.send("q", "unharmed")
    hub.rig.broker.check()


# -- sending -----------------------------------------------------------------------------------------------------------


def test_a_persistent_message_is_answered_when_it_is_on_disk(hub: Hub) -> None:
    client = hub.client()
    number = client.post(client.text(QUEUE, "a", persistent=True), answer=True)
    assert not client.heard
    client.exchange()
    assert type(client.answer_to(number)) is Response
    number = client.post(client.text(QUEUE, "b"), answer=True)
    assert type(client.answer_to(number)) is Response  # not persistent: at once


def test_messages_pass_in_the_octets_they_came_in(hub: Hub) -> None:
    client = hub.client()
    sent = client.text(QUEUE, "a")
    client.ask(sent)
    client.consume(QUEUE)
    (dispatch,) = client.dispatches()
    got = dispatch.message
    assert got is not None
    assert got.first is not None
    assert got.message_id is not None
    assert got.message_id.broker_sequence_id > 0
    assert got.broker_out_time == hub.rig.wall
    got.message_id.broker_sequence_id = 0
    got.broker_in_time = got.broker_out_time = 0
    got.first = None
    assert client.encoder.encode(got) == client.encoder.encode(sent)


@pytest.mark.parametrize("version", [1, 2, 3, 6, 9, 10, 11, 12])
@pytest.mark.parametrize("tight", [True, False])
@pytest.mark.parametrize("cache", [True, False])
def test_every_format_reads_what_every_other_wrote(version: int, tight: bool, cache: bool) -> None:
    options = OpenWireOptions()
    options.wire = WireFormatOptions(tight_encoding_enabled=True, cache_enabled=True)
    hub = Hub(Rig(disk=False))
    wire = WireFormatOptions(version=version, tight_encoding_enabled=tight, cache_enabled=cache)
    one = hub.client(wire=wire, options=options)
    two = hub.client()
    topic = ActiveMQTopic("t")
    one.consume(topic)
    two.consume(topic)
    for client in (one, two):
        client.ask(client.text(topic, f"from {client.name}"))
    wanted = [f"from {one.name}", f"from {two.name}"]
    assert one.texts() == wanted
    assert two.texts() == wanted


def test_what_a_failover_client_sends_again_is_answered_and_not_stored_twice(hub: Hub) -> None:
    client = hub.client("ID:same")
    client.ask(client.text(QUEUE, "a", persistent=True))
    client.ask(client.text(QUEUE, "b", persistent=True))
    hub.rig.restart("kill")
    again = Hub(hub.rig).client("ID:same", failover=True)
    assert type(again.ask(again.text(QUEUE, "b", persistent=True, sequence=2))) is Response
    again.ask(again.text(QUEUE, "c", persistent=True, sequence=3))
    again.consume(QUEUE)
    assert again.texts() == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["kill", "close"])
def test_a_commit_that_a_failover_client_repeats_is_answered_and_not_stored_twice(how: str) -> None:
    hub = Hub(Rig())
    client = hub.client("ID:same")

    def committed(client: Client, number: int, *texts: str) -> None:
        identity = LocalTransactionId(number, ConnectionId(client.name))
        step(client, identity, TransactionStep.BEGIN)
        for text in texts:
            client.post(client.text(QUEUE, text, persistent=True, transaction=identity, sequence=ord(text)))
        assert type(step(client, identity, TransactionStep.COMMIT_ONE_PHASE)) is Response

    committed(client, 1, "a", "b")
    hub.rig.restart(how)
    again = Hub(hub.rig).client("ID:same", failover=True)
    committed(again, 1, "a", "b")
    committed(again, 2, "c")
    again.consume(QUEUE)
    assert again.texts() == ["a", "b", "c"]


def test_a_transaction_that_is_replayed_twice_on_one_connection_has_each_message_once(hub: Hub) -> None:
    """What a failover client had open it may replay twice: seen once under load, with all sent before doubled."""
    client = hub.client("ID:same", failover=True)
    identity = LocalTransactionId(1, ConnectionId(client.name))
    for texts in ("ab", "abcde"):
        client.ask(ConnectionInfo(connection_id=ConnectionId(client.name), failover_reconnect=True))
        step(client, identity, TransactionStep.BEGIN)
        for text in texts:
            client.post(client.text(QUEUE, text, persistent=True, transaction=identity, sequence=ord(text)))
    assert type(step(client, identity, TransactionStep.COMMIT_ONE_PHASE)) is Response
    client.consume(QUEUE)
    assert client.texts() == ["a", "b", "c", "d", "e"]


def test_a_full_queue_withholds_the_answer_and_acknowledgements_come_through() -> None:
    hub = Hub(Rig({"q": {"max_octets": "2000", "full": "BLOCK"}}))
    client = hub.client()
    numbers: list[int] = []
    while len(numbers) < 50:
        numbers.append(client.post(client.text(QUEUE, "x" * 500), answer=True))
        if not client.heard_of(Response):
            break
    assert len(numbers) < 10
    client.consume(QUEUE)
    for dispatch in client.dispatches():
        client.ack(dispatch, dispatch)
    assert type(client.answer_to(numbers[-1])) is Response


def test_who_was_not_read_for_want_of_room_is_not_taken_for_silent_when_there_is_some() -> None:
    """Its connection once ended in the moment in which it could have gone on."""
    hub = Hub(Rig({"q": {"max_octets": "2000", "full": "BLOCK"}}))
    producer = hub.client(wire=WireFormatOptions(max_inactivity_duration=3_000))
    while producer.session.readable:
        producer.post(producer.text(QUEUE, "x" * 500))
    producer.wait(10_000)
    assert not producer.session.closing
    reader = hub.client()
    reader.consume(QUEUE)
    for dispatch in reader.dispatches():
        reader.ack(dispatch, dispatch)
    assert producer.session.readable
    producer.wait(2_000)
    assert not producer.session.closing
    producer.wait(2_000)
    assert producer.session.closing, "and now it is"


def test_who_reads_advisories_only_is_stopped_by_a_full_queue() -> None:
    """So every connection of a Java client does, from its first moment."""
    hub = Hub(Rig({"q": {"max_octets": "2000", "full": "BLOCK"}}))
    producer, reader = hub.client(), hub.client()
    producer.consume(ActiveMQTopic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"))
    for _ in range(50):
        if producer.session.readable:
            producer.post(producer.text(QUEUE, "x" * 500))
    assert not producer.session.readable
    reader.consume(QUEUE)
    for dispatch in reader.dispatches():
        reader.ack(dispatch, dispatch)
    assert producer.session.readable


def test_who_reads_a_queue_as_well_is_not_stopped() -> None:
    """Its acknowledgements have to come through; to stop it would be to stop for ever."""
    hub = Hub(Rig({"q": {"max_octets": "2000", "full": "BLOCK"}}))
    client = hub.client()
    client.consume(ActiveMQTopic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"), 1)
    client.consume(QUEUE, 2, prefetch=1)
    for _ in range(50):
        client.post(client.text(QUEUE, "x" * 500))
    assert client.session.readable
    for _ in range(50):
        (dispatch,) = client.dispatches()
        client.ack(dispatch, dispatch)


def test_a_blocked_address_withholds_the_answer_or_stops_the_connection_even_of_who_reads(hub: Hub) -> None:
    client, other = hub.client(), hub.client()
    client.send("q", "before")
    client.consume(ActiveMQQueue("read"))
    flow = hub.rig.broker.flow
    flow.block("q")
    number = client.post(client.text(QUEUE, "answered"), answer=True)
    assert client.heard_of(Response) == []
    assert client.session.readable
    client.post(client.text(QUEUE, "not"))
    assert not client.session.readable
    identity = LocalTransactionId(1, ConnectionId(other.name))
    step(other, identity, TransactionStep.BEGIN)
    message = other.text(QUEUE, "in a transaction")
    message.transaction_id = identity
    other.post(message)
    assert not other.session.readable, "its commit is not read"
    flow.unblock("q")
    client.exchange()
    assert type(client.answer_to(number)) is Response
    assert client.session.readable
    assert other.session.readable
    step(other, identity, TransactionStep.COMMIT_ONE_PHASE)
    assert hub.rig.queue("q").count == 4


def test_a_transaction_is_refused_what_comes_when_its_producer_has_waited_long_enough() -> None:
    hub = Hub(Rig(block_ms_max="2000"))
    client = hub.client()
    client.send("q", "before")
    hub.rig.bodies("/queue/q")
    hub.rig.broker.flow.block("q")
    identity = LocalTransactionId(1, ConnectionId(client.name))
    step(client, identity, TransactionStep.BEGIN)

    def post(body: str) -> int:
        message = client.text(QUEUE, body)
        message.transaction_id = identity
        return client.post(message, answer=True)

    post("one")
    assert not client.session.readable
    hub.rig.wait(2000)
    client.session.advance(hub.rig.now)
    assert client.session.readable
    answer = client.answer_to(post("two"))
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert "no room" in str(answer.exception.message)
    assert client.session.readable, "or nobody would read it before the end of the block"


def test_a_window_is_given_back_by_producer_acks(hub: Hub) -> None:
    client = hub.client()
    client.producer(window=10_000)
    client.post(client.text(QUEUE, "abc"))
    (ack,) = client.heard_of(ProducerAck)
    assert ack.size == 1024 + 4 + 3


def test_errors_of_what_wants_no_answer_come_by_themselves(hub: Hub) -> None:
    client = hub.client()
    client.post(client.text(ActiveMQQueue("a.>"), "x"))
    (error,) = client.heard_of(ConnectionError)
    assert error.exception is not None
    assert error.exception.class_name == "javax.jms.InvalidDestinationException"
    assert not client.session.closing


# -- consuming ---------------------------------------------------------------------------------------------------------


def test_ranges_settle_from_the_first_to_the_last(hub: Hub) -> None:
    client = hub.client()
    client.consume(QUEUE)
    client.send("q", *"abcdef")
    a, b, c, d, _, _ = client.dispatches()
    client.ack(b, c, count=2)
    queue = hub.rig.broker.table.queues["q"]
    assert queue.in_flight == 4
    client.ack(d, d, AckType.INDIVIDUAL)
    client.ack(a, a)
    client.ack(a, a)  # stale: without effect
    assert queue.in_flight == 2
    client.session.detach("gone", hub.rig.now)
    other = hub.client()
    other.consume(QUEUE)
    assert [(text_in(each), each.redelivery_counter) for each in other.dispatches()] == [("e", 1), ("f", 1)]


def test_what_was_delivered_takes_no_credit(hub: Hub) -> None:
    client = hub.client()
    client.send("q", *"abcdef")
    client.consume(QUEUE, prefetch=2)
    a, b = client.dispatches()
    client.ack(None, b, AckType.DELIVERED, count=2)
    c, d = client.dispatches()
    client.ack(a, d, count=4)
    assert client.texts() == ["e", "f"]
    assert c.message is not None


def test_poison_goes_to_the_dead_letters_with_its_cause(hub: Hub) -> None:
    client = hub.client()
    client.consume(QUEUE)
    client.send("q", "bad", persistent=True)
    (bad,) = client.dispatches()
    client.ack(bad, bad, AckType.POISON, cause=Throwable("java.lang.Throwable", "no use"))
    client.consume(ActiveMQQueue("ActiveMQ.DLQ"), value=2)
    (dead,) = client.dispatches()
    assert dead.message is not None
    assert dead.message.original_destination == QUEUE
    assert dead.message.destination == ActiveMQQueue("ActiveMQ.DLQ")
    assert b"java.lang.Throwable: no use" in (dead.message.marshalled_properties or b"")


def test_the_last_delivered_tells_what_counts_as_tried(hub: Hub) -> None:
    client = hub.client()
    consumer_id = client.consume(QUEUE)
    client.send("q", *"abc")
    a, _, _ = client.dispatches()
    assert a.message is not None
    assert a.message.message_id is not None
    last = a.message.message_id.broker_sequence_id
    client.ask(RemoveInfo(object_id=consumer_id, last_delivered_sequence_id=last))
    client.consume(QUEUE, value=2)
    assert [each.redelivery_counter for each in client.dispatches()] == [1, 0, 0]


def test_pulls_give_one_each_or_say_that_there_is_none(hub: Hub) -> None:
    client = hub.client()
    consumer_id = client.consume(QUEUE, prefetch=0)
    pull = {"consumer_id": consumer_id, "destination": QUEUE}
    client.post(MessagePull(**pull, timeout=-1))  # type: ignore[arg-type]
    assert client.texts() == ["(nothing)"]
    client.send("q", *"abc")
    assert client.texts() == []
    client.post(MessagePull(**pull, timeout=-1))  # type: ignore[arg-type]
    (a,) = client.dispatches()
    client.ack(a, a)
    assert client.texts() == []
    for _ in range(2):
        client.post(MessagePull(**pull, timeout=0))  # type: ignore[arg-type]
    assert client.texts() == ["b", "c"]
    client.post(MessagePull(**pull, timeout=500))  # type: ignore[arg-type]
    client.wait(400)
    assert not client.heard
    client.wait(200)
    assert client.texts() == ["(nothing)"]
    client.post(ConsumerControl(consumer_id=consumer_id, destination=QUEUE, prefetch=10))
    client.send("q", "d")
    assert client.texts() == ["d"]


def test_a_browser_shows_all_and_says_when_it_ends(hub: Hub) -> None:
    client = hub.client()
    client.send("q", *"abc")
    client.consume(QUEUE, browser=True, prefetch=500)
    assert client.texts() == ["a", "b", "c", "(nothing)"]
    assert hub.rig.broker.table.queues["q"].count == 3


def test_a_second_consumer_info_changes_the_prefetch(hub: Hub) -> None:
    client = hub.client()
    consumer_id = client.consume(QUEUE, prefetch=0)
    client.send("q", "a")
    assert type(client.ask(ConsumerInfo(consumer_id=consumer_id, destination=QUEUE, prefetch_size=5))) is Response
    assert client.texts() == ["a"]


def test_temporary_destinations_live_and_die_with_their_connection(hub: Hub) -> None:
    client = hub.client()
    other = hub.client()
    where = ActiveMQTempQueue(f"{client.name}:1")
    info = DestinationInfo(connection_id=ConnectionId(client.name), destination=where)
    assert type(client.ask(info)) is Response
    other.ask(other.text(where, "answer"))
    foreign = ConsumerInfo(consumer_id=None, destination=where)
    foreign.consumer_id = other.consume(ActiveMQQueue("mine"))
    foreign.consumer_id.value = 77
    assert refused(other.ask(foreign)) == "InvalidDestinationException"
    client.consume(where)
    assert client.texts() == ["answer"]
    client.session.detach("gone", hub.rig.now)
    answer = other.ask(other.text(where, "late"))
    assert refused(answer) == "DestinationDoesNotExistException"
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert answer.exception.message == where.physical_name  # Java puts a sentence round it


def test_durable_subscriptions_wait_for_their_client(hub: Hub) -> None:
    topic = ActiveMQTopic("t")
    client = hub.client(client_id="me")
    consumer_id = client.consume(topic, subscription_name="s", prefetch=100)
    second = ConsumerInfo(destination=topic, subscription_name="s", consumer_id=type(consumer_id)(client.name, 1, 9))
    assert refused(client.ask(second)) == "JMSException"
    removal = RemoveSubscriptionInfo(client_id="me", subscription_name="s")
    assert refused(client.ask(removal)) == "JMSException"
    client.ask(RemoveInfo(object_id=consumer_id))
    client.ask(client.text(topic, "missed", persistent=True))
    client.consume(topic, subscription_name="s", prefetch=100)
    assert client.texts() == ["missed"]
    client.ask(RemoveInfo(object_id=consumer_id))
    assert type(client.ask(removal)) is Response
    assert refused(client.ask(removal)) == "InvalidDestinationException"


def test_composites_arrive_under_the_name_of_their_part(hub: Hub) -> None:
    client = hub.client()
    whole = ActiveMQQueue("a,topic://b")
    client.consume(ActiveMQQueue("a"))
    client.consume(ActiveMQTopic("b"), value=2)
    client.ask(client.text(whole, "x"))
    seen = [each.message for each in client.dispatches()]
    assert [None if each is None else each.destination for each in seen] == [ActiveMQQueue("a"), ActiveMQTopic("b")]
    assert all(each is not None and each.original_destination == whole for each in seen)
    assert len({None if each is None else each.message_id for each in seen}) == 1


# -- transactions ------------------------------------------------------------------------------------------------------


def step(client: Client, identity: LocalTransactionId | XATransactionId, kind: TransactionStep) -> Response:
    info = TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=identity, type=int(kind))
    return client.ask(info)


def test_a_transaction_happens_at_commit_or_not_at_all(hub: Hub) -> None:
    client = hub.client()
    client.send("q", "in")
    client.consume(QUEUE)
    (taken,) = client.dispatches()
    identity = LocalTransactionId(1, ConnectionId(client.name))
    step(client, identity, TransactionStep.BEGIN)
    client.post(client.text(ActiveMQQueue("out"), "x", persistent=True, transaction=identity))
    client.ack(taken, taken, transaction=identity)
    assert hub.rig.broker.table.queues["out"].count == 0
    assert type(step(client, identity, TransactionStep.ROLLBACK)) is Response
    assert hub.rig.broker.table.queues["q"].in_flight == 1
    assert client.texts() == []  # the client has it and delivers it again by itself
    step(client, identity, TransactionStep.BEGIN)
    client.post(client.text(ActiveMQQueue("out"), "y", persistent=True, transaction=identity))
    client.ack(taken, taken, transaction=identity)
    assert type(step(client, identity, TransactionStep.COMMIT_ONE_PHASE)) is Response
    assert hub.rig.broker.table.queues["q"].count == 0
    client.consume(ActiveMQQueue("out"), value=2)
    assert client.texts() == ["y"]
    assert refused(step(client, identity, TransactionStep.COMMIT_ONE_PHASE)) == "JMSException"


@pytest.mark.parametrize("ending", [TransactionStep.COMMIT_ONE_PHASE, TransactionStep.ROLLBACK])
def test_a_consumer_that_closes_before_the_end_leaves_its_settlements_to_the_transaction(
    hub: Hub, ending: TransactionStep
) -> None:
    client = hub.client()
    client.send("q", "a", "b", persistent=True)
    consumer_id = client.consume(QUEUE)
    first, _ = client.dispatches()
    identity = LocalTransactionId(1, ConnectionId(client.name))
    step(client, identity, TransactionStep.BEGIN)
    client.ack(first, first, transaction=identity)
    client.ask(RemoveInfo(object_id=consumer_id, last_delivered_sequence_id=-2))
    other = hub.client()
    other.consume(QUEUE)
    assert other.texts() == ["b"]
    assert type(step(client, identity, ending)) is Response
    assert other.texts() == (["a"] if ending is TransactionStep.ROLLBACK else [])
    hub.rig.broker.check()


def test_a_transaction_that_settles_what_was_not_delivered_here_is_rolled_back(hub: Hub) -> None:
    """A failover client repeats sends and acknowledgements on a broker that never delivered these messages to it."""
    client = hub.client()
    client.send("q", "a", "b", persistent=True)
    client.consume(QUEUE)
    first, second = client.dispatches()
    assert second.message is not None
    assert second.message.message_id is not None
    second.message.message_id.broker_sequence_id += 1000
    for number, last in enumerate([second, first]):
        identity = LocalTransactionId(number, ConnectionId(client.name))
        step(client, identity, TransactionStep.BEGIN)
        moved = client.text(ActiveMQQueue("out"), "moved", persistent=True)
        moved.transaction_id = identity
        client.ask(moved)
        client.ack(first, last, transaction=identity)
        answer = step(client, identity, TransactionStep.COMMIT_ONE_PHASE)
        if last is second:
            assert refused(answer) == "TransactionRolledBackException"
    table = hub.rig.broker.table
    assert table.queues["out"].count == 1
    assert table.queues["q"].in_flight == 1
    hub.rig.broker.check()


def test_a_transaction_that_grew_too_large_says_so_once_and_at_its_commit(hub: Hub) -> None:
    client = hub.client()
    producer_id = client.producer(window=10_000, where=QUEUE)
    identity = LocalTransactionId(1, ConnectionId(client.name))
    step(client, identity, TransactionStep.BEGIN)
    client.session.need_transacting().transactions.open[identity].octets = OCTETS_MAX
    client.take()
    for _ in range(50):
        moved = client.text(QUEUE, "x", persistent=True, transaction=identity)
        moved.producer_id = producer_id
        client.post(moved)
    heard = client.take()
    assert [type(each) for each in heard].count(ConnectionError) == 1
    assert [type(each) for each in heard].count(ProducerAck) == 49  # or the producer would wait for room for ever
    answer = step(client, identity, TransactionStep.COMMIT_ONE_PHASE)
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert "holds more than" in (answer.exception.message or "")
    assert hub.rig.broker.table.queues["q"].count == 0


def test_poison_is_no_part_of_a_transaction(hub: Hub) -> None:
    client = hub.client()
    client.send("q", "a")
    client.consume(QUEUE)
    (taken,) = client.dispatches()
    identity = LocalTransactionId(1, ConnectionId(client.name))
    step(client, identity, TransactionStep.BEGIN)
    client.ack(taken, taken, kind=AckType.POISON, transaction=identity)
    assert len(client.heard_of(ConnectionError)) == 1
    assert refused(step(client, identity, TransactionStep.COMMIT_ONE_PHASE)) == "JMSException"
    assert hub.rig.broker.table.queues["q"].in_flight == 1


@pytest.mark.parametrize("ending", [TransactionStep.COMMIT_TWO_PHASE, TransactionStep.ROLLBACK])
@pytest.mark.parametrize("restart", ["", "kill", "crash"])
def test_a_prepared_branch_is_kept(ending: TransactionStep, restart: str) -> None:
    hub = Hub(Rig())
    client = hub.client()
    client.send("q", "in", persistent=True)
    client.consume(QUEUE)
    (taken,) = client.dispatches()
    identity = XATransactionId(7, b"global", b"\0branch")
    step(client, identity, TransactionStep.BEGIN)
    client.post(client.text(ActiveMQQueue("out"), "x", persistent=True, transaction=identity))
    client.ack(taken, taken, transaction=identity)
    answer = step(client, identity, TransactionStep.PREPARE)
    assert isinstance(answer, IntegerResponse)
    assert answer.result == 0
    client.session.detach("gone", hub.rig.now)
    if restart:
        hub.rig.restart(restart)
        hub = Hub(hub.rig)
    client = hub.client()
    client.consume(QUEUE)
    client.consume(ActiveMQQueue("out"), value=2)
    assert client.texts() == []
    found = client.ask(TransactionInfo(connection_id=ConnectionId(client.name), type=int(TransactionStep.RECOVER)))
    assert isinstance(found, DataArrayResponse)
    assert found.data == [identity]
    assert type(step(client, identity, ending)) is Response
    assert client.texts() == (["x"] if ending is TransactionStep.COMMIT_TWO_PHASE else ["in"])
    assert refused(step(client, identity, ending)) == "XAException"
    hub.rig.broker.check()
    if restart:
        client.session.detach("gone", hub.rig.now)
        hub.rig.restart("kill")
        assert not hub.rig.broker.branches.prepared


def test_a_branch_that_was_not_prepared_cannot_be_committed_in_two_phases(hub: Hub) -> None:
    client = hub.client()
    identity = XATransactionId(7, b"g", b"b")
    answer = step(client, identity, TransactionStep.COMMIT_TWO_PHASE)
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert str(answer.exception.message).endswith("xaErrorCode:-4")
    step(client, identity, TransactionStep.BEGIN)
    answer = step(client, identity, TransactionStep.PREPARE)
    assert isinstance(answer, IntegerResponse)
    assert answer.result == 3  # nothing to do: read only
    step(client, identity, TransactionStep.BEGIN)
    answer = step(client, identity, TransactionStep.COMMIT_TWO_PHASE)
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert str(answer.exception.message).endswith("xaErrorCode:-6")


# -- other protocols ---------------------------------------------------------------------------------------------------


def test_a_service_over_stomp_answers_a_request_from_java(hub: Hub) -> None:
    session = StompSession(Shell(), hub.rig.broker, StompOptions(), 99, "stomp")
    session.receive(b"CONNECT\naccept-version:1.1\n\n\0", hub.rig.now)
    session.receive(b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client-individual\n\n\0", hub.rig.now)
    session.outgoing()
    client = hub.client()
    replies = ActiveMQTempQueue(f"{client.name}:1")
    client.ask(DestinationInfo(connection_id=ConnectionId(client.name), destination=replies))
    client.consume(replies)
    request = client.text(QUEUE, "question", persistent=True)
    request.reply_to = replies
    client.ask(request)
    frame = session.outgoing().partition(b"\n\n")
    headers = dict(line.partition(b":")[::2] for line in frame[0].split(b"\n")[1:])
    assert frame[2].startswith(b"question\0")
    assert headers[b"message-id"] == rb"ID\cclient-1\c1\c1\c1"
    answer = b"SEND\ndestination:%s\ncorrelation-id:%s\n\nanswer\0" % (headers[b"reply-to"], headers[b"message-id"])
    session.receive(answer, hub.rig.now)
    session.receive(b"ACK\nsubscription:s\nmessage-id:%s\n\n\0" % headers[b"message-id"], hub.rig.now)
    (dispatch,) = client.dispatches()
    assert text_in(dispatch) == "answer"
    assert dispatch.message is not None
    assert dispatch.message.correlation_id == "ID:client-1:1:1:1"
    assert hub.rig.broker.table.queues["q"].count == 0


def test_a_large_body_without_length_from_stomp_is_a_text(hub: Hub) -> None:
    options = StompOptions()
    options.large_octets = 1000
    session = StompSession(Shell(), hub.rig.broker, options, 99, "stomp")
    session.receive(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", hub.rig.now)
    session.receive(b"SEND\ndestination:/queue/q\npersistent:true\n\n" + b"a text " * 300 + b"\0", hub.rig.now)
    hub.rig.turn()
    assert hub.rig.disk is not None
    assert len(hub.rig.disk.blobs()) == 1
    client = hub.client()
    client.consume(QUEUE)
    assert client.texts() == ["a text " * 300]


def test_a_large_body_leaves_in_pieces_and_what_follows_waits_behind_it(hub: Hub) -> None:
    options = StompOptions()
    options.large_octets = 1000
    session = StompSession(Shell(), hub.rig.broker, options, 99, "stomp")
    session.receive(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", hub.rig.now)
    session.receive(b"SEND\ndestination:/queue/q\npersistent:true\n\n" + b"a text " * 200_000 + b"\0", hub.rig.now)
    session.receive(b"SEND\ndestination:/queue/q\n\nsmall\0", hub.rig.now)
    hub.rig.turn()
    client = hub.client()
    client.consume(QUEUE)
    client.session.writable(False, hub.rig.now)
    assert client.session.outlet.is_streaming()
    client.session.writable(True, hub.rig.now)
    found: list[str] = []
    for _ in range(20):
        found += client.texts()
        hub.rig.turn()
    assert found == ["a text " * 200_000, "small"]
    assert not client.session.outlet.is_streaming()


def test_frames_that_are_begun_by_many_are_bounded(hub: Hub) -> None:
    client = hub.client()
    hub.rig.broker.memory.limit = 64 << 20
    hub.rig.broker.memory.lent = (128 << 20) - 1000  # by others
    frame = (90 << 20).to_bytes(4, "big")
    client.session.receive(frame + bytes(500 << 10), hub.rig.now)
    assert not client.session.closing  # a frame of a usual length may be completed
    client.session.receive(bytes(600 << 10), hub.rig.now)
    assert client.session.closing
    assert "frames that are not complete" in client.session.refused
    client.session.detach("closed", hub.rig.now)
    assert hub.rig.broker.memory.lent == (128 << 20) - 1000


@pytest.mark.parametrize("harm", ["flip", "shorten", "lose"])
def test_a_large_body_that_is_lost_on_disk_is_a_dead_letter_and_the_queue_goes_on(hub: Hub, harm: str) -> None:
    options = StompOptions()
    options.large_octets = 1000
    session = StompSession(Shell(), hub.rig.broker, options, 99, "stomp")
    session.receive(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", hub.rig.now)
    session.receive(
        b"SEND\ndestination:/queue/q\npersistent:true\ncontent-length:2000\n\n" + bytes(2000) + b"\0", hub.rig.now
    )
    session.receive(b"SEND\ndestination:/queue/q\npersistent:true\n\nsmall\0", hub.rig.now)
    hub.rig.turn()
    disk = hub.rig.disk
    assert disk is not None
    (blob,) = disk.blobs()
    if harm == "flip":
        disk.medium.damage(f"{blob}.blob", 1999)
    elif harm == "shorten":
        disk.medium.shorten(f"{blob}.blob", 2000)
    else:
        disk.medium.lose(f"{blob}.blob")
    client = hub.client()
    client.consume(QUEUE)
    hub.rig.wait(1)
    client.hear()
    assert client.texts() == ["small"]
    client.consume(ActiveMQQueue("ActiveMQ.DLQ"), value=2)
    hub.rig.wait(1)
    client.hear()
    (letter,) = client.dispatches()
    said = hub.rig.broker.table.queues["ActiveMQ.DLQ"].roster.consumers[0].in_flight
    (reference,) = said.values()
    assert letter.message is not None
    assert reference.message.fact("entrepotBodyLost") == "2000"
    assert "is damaged" in str(reference.message.fact("dlqDeliveryFailureCause"))
    assert disk.blobs() == []


# -- advisories --------------------------------------------------------------------------------------------------------


def told(client: Client) -> list[tuple[str, str]]:
    found = []
    for dispatch in client.dispatches():
        message = dispatch.message
        assert isinstance(message, ActiveMQMessage)
        assert message.destination is not None
        topic = str(message.destination.physical_name).removeprefix("ActiveMQ.Advisory.")
        found.append((topic, type(message.data_structure).__name__))
    return found


def test_advisories_tell_what_opens_and_closes_and_what_there_was(hub: Hub) -> None:
    watcher = hub.client()
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.>"), prefetch=32_766)
    watcher.take()
    client = hub.client()
    consumer_id = client.consume(QUEUE)
    client.producer(where=QUEUE)
    assert sorted(told(watcher)) == [
        ("Connection", "ConnectionInfo"),
        ("Consumer.Queue.q", "ConsumerInfo"),
        ("Producer.Queue.q", "ProducerInfo"),
        ("Queue", "DestinationInfo"),
    ]
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.q"), value=2, prefetch=32_766)
    assert told(watcher) == [("Consumer.Queue.q", "ConsumerInfo")]
    client.ask(RemoveInfo(object_id=consumer_id))
    assert ("Consumer.Queue.q", "RemoveInfo") in told(watcher)


def test_consumers_of_other_protocols_are_told_of_too(hub: Hub) -> None:
    watcher = hub.client()
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.Consumer.>"), prefetch=32_766)
    reader = hub.rig.reader("q")
    assert told(watcher) == [("Consumer.Queue.q", "ConsumerInfo")]
    reader.close()
    assert told(watcher) == [("Consumer.Queue.q", "RemoveInfo")]


def test_what_expires_is_told_without_its_body(hub: Hub) -> None:
    watcher = hub.client()
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.Expired.>"), prefetch=32_766)
    client = hub.client()
    message = client.text(QUEUE, "short", persistent=True)
    message.expiration = hub.rig.wall + 100
    client.ask(message)
    hub.rig.wait(3_000)
    (dispatch,) = watcher.dispatches()
    assert dispatch.message is not None
    about = dispatch.message.data_structure
    assert isinstance(about, ActiveMQTextMessage)
    assert about.content is None
    assert about.message_id == message.message_id


def test_a_consumer_that_pulls_and_does_not_ask_is_said_to_give_no_credit(hub: Hub) -> None:
    client = hub.client()
    consumer_id = client.consume(QUEUE, prefetch=0)
    client.send("q", "a", "b")
    told = explain(hub.rig.broker, hub.rig.queue("q"), Census())
    assert [(reason.code, reason.messages) for reason in told.reasons] == [("no-credit", 2)]
    assert told.consumers[0].prefetch == 0
    client.post(MessagePull(consumer_id=consumer_id, destination=QUEUE, timeout=0))
    assert client.texts() == ["a"]


def test_the_open_producers_of_a_connection_are_told_with_it(hub: Hub) -> None:
    client = hub.client("alpha")
    assert [one.producers for one in client.session.sessions(7)] == [{}]
    first = client.producer(1, where=QUEUE)
    client.producer(2)
    (one,) = client.session.sessions(7)
    assert sorted(one.producers.values()) == ["", "q"]
    assert (one.id, one.connection, one.opened) == (str(client.session.number), str(client.session.number), 7)
    client.post(RemoveInfo(object_id=first))
    assert "q" not in client.session.sessions(7)[0].producers.values()


def test_a_message_is_listed_with_the_kind_of_its_body(hub: Hub) -> None:
    hub.client("alpha").send("q", "hello")
    work = control(hub.rig.broker, Census(), "queue.q").call("browse", [1, 10, ""])
    while not work.step():
        pass
    assert [(row["type"], row["text"]) for row in work.result()] == [(3, "hello")]


def test_a_branch_whose_end_a_full_disk_did_not_take_is_not_said_to_be_gone() -> None:
    hub = Hub(Rig())
    client = hub.client()
    client.consume(QUEUE)
    identity = XATransactionId(7, b"global", b"branch")
    step(client, identity, TransactionStep.BEGIN)
    client.post(client.text(QUEUE, "x", persistent=True, transaction=identity))
    step(client, identity, TransactionStep.PREPARE)
    disk = hub.rig.disk
    assert disk is not None
    disk.room.capacity = disk.used()
    assert refused(step(client, identity, TransactionStep.COMMIT_TWO_PHASE)) == "ResourceAllocationException"
    assert not hub.rig.broker.branches.prepared
    client.heard.clear()
    connection = ConnectionId(client.name)
    commit = TransactionInfo(
        connection_id=connection, transaction_id=identity, type=int(TransactionStep.COMMIT_TWO_PHASE)
    )
    client.post(commit, answer=True)
    client.post(TransactionInfo(connection_id=connection, type=int(TransactionStep.RECOVER)), answer=True)
    answers = (ExceptionResponse, DataArrayResponse)
    assert not [one for one in client.heard if isinstance(one, answers)], "the disk has the branch"
    disk.room.make()
    hub.rig.turn()
    client.hear()
    gone, found = [one for one in client.heard if isinstance(one, answers)]
    assert isinstance(gone, ExceptionResponse)
    assert gone.exception is not None
    assert "has not been started" in (gone.exception.message or "")
    assert isinstance(found, DataArrayResponse)
    assert found.data == []
    hub.rig.restart("crash")
    assert not hub.rig.broker.branches.prepared
