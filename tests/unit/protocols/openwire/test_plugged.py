"""Plugins of Classic as clients of OpenWire see them: persistence, the path of brokers, separators, statistics."""

from __future__ import annotations

import pytest

from entrepot.core.arrival import DURABLE, NOT_DURABLE, Stamps
from entrepot.protocols.openwire.bodies import map_of_body, pack_properties, properties_of
from entrepot.protocols.openwire.commands import (
    ActiveMQMapMessage,
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTopic,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    Destination,
    ExceptionResponse,
    Message,
    MessageDispatch,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
)
from entrepot.protocols.openwire.options import OpenWireOptions, read_option
from entrepot.protocols.openwire.separators import dot, dotted
from entrepot.protocols.openwire.statistics import PREFIX, STEP, Statistics
from kit import Rig

from ..stomp.test_server import Client as StompClient
from .wired import Client, Hub

QUEUE = ActiveMQQueue("q")
BACK = ActiveMQQueue("back")


def message_in(dispatch: MessageDispatch) -> Message:
    assert isinstance(dispatch.message, Message)
    return dispatch.message


@pytest.mark.parametrize(("persistence", "kept"), [(DURABLE, True), (NOT_DURABLE, False)])
def test_a_reader_is_shown_what_the_broker_made_of_a_message(persistence: int, kept: bool) -> None:
    hub = Hub(Rig())
    hub.rig.broker.options.stamps = Stamps("b", persistence, "BrokerPath")
    client = hub.client()
    client.send("q", "one", persistent=not kept)
    client.send("q", "two", persistent=kept)
    client.consume(QUEUE)
    for dispatch in client.dispatches():
        message = message_in(dispatch)
        assert message.persistent is kept
        assert properties_of(message) == {"BrokerPath": "b"}
    if kept:
        hub.rig.restart("kill")
        assert hub.rig.queue("q").count == 2


def test_who_sent_a_message_is_the_user_of_the_connection_whatever_the_message_says() -> None:
    hub = Hub(Rig())
    hub.rig.broker.options.stamps = Stamps("b", users=True)
    client = hub.client(connected=False)
    client.ask(ConnectionInfo(connection_id=ConnectionId(client.name), user_name="ada", password="x"))
    forged = client.text(QUEUE, "one")
    forged.user_id = "eve"
    client.ask(forged)
    client.take()
    client.consume(QUEUE)
    (dispatch,) = client.dispatches()
    assert message_in(dispatch).user_id == "ada"
    stomp = StompClient(hub.rig, login="bob", passcode="x")
    stomp.subscribe("/queue/q2")
    client.ask(client.text(ActiveMQQueue("q2"), "two"))
    (frame,) = stomp.hear()
    assert frame.headers["JMSXUserID"] == "ada"
    stomp.send(b"three", JMSXUserID="eve")
    client.ask(ConsumerControl(consumer_id=ConsumerId(client.name, 1, 1), prefetch=1000))
    assert [message_in(one).user_id for one in client.dispatches()] == ["bob"]


def test_consumers_and_producers_of_a_connection_are_counted_where_that_is_asked_for() -> None:
    options = OpenWireOptions()
    assert read_option(options, "maximumConsumersAllowedPerConnection", "2")
    assert read_option(options, "maximumProducersAllowedPerConnection", "1")
    client = Hub(Rig()).client(options=options)
    for value in (1, 2):
        client.consume(QUEUE, value)
    client.consume(ActiveMQTopic("ActiveMQ.Advisory.Queue"), 3)  # those of advisories do not count
    third = client.ask(client.consumer_info(QUEUE, ConsumerId(client.name, 1, 4), 10))
    assert isinstance(third, ExceptionResponse)
    assert third.exception is not None
    assert "Can't add consumer on connection" in (third.exception.message or "")
    client.producer(1)
    second = client.ask(ProducerInfo(producer_id=ProducerId(client.name, 2, 1)))
    assert isinstance(second, ExceptionResponse)
    client.ask(RemoveInfo(object_id=ProducerId(client.name, 1, 1)))
    client.producer(3)


# -- separators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (ActiveMQQueue("a/b/c"), ActiveMQQueue("a.b.c")),
        (ActiveMQTopic("a/*/>"), ActiveMQTopic("a.*.>")),
        (ActiveMQQueue("a/b,topic://c/d"), ActiveMQQueue("a.b,topic://c.d")),
        (ActiveMQQueue("a.b"), ActiveMQQueue("a.b")),
        (ActiveMQTempQueue("ID:a/b:1"), ActiveMQTempQueue("ID:a/b:1")),
    ],
)
def test_words_are_set_apart_by_dots(written: Destination, meant: Destination) -> None:
    before = written.physical_name
    assert dotted(written, "/") == meant
    info = ConsumerInfo(destination=written)
    dot(info, "/")
    assert info.destination == meant
    assert written.physical_name == before  # others may have it too


def test_slashes_and_dots_mean_the_same() -> None:
    rig = Rig()
    rig.broker.options.separator = "/"
    client = Hub(rig).client()
    client.consume(ActiveMQQueue("a/b"))
    client.send("a.b", "one")
    client.send("a/b", "two")
    assert list(rig.broker.table.queues) == ["a.b"]
    assert [message_in(one).destination for one in client.dispatches()] == [ActiveMQQueue("a.b")] * 2


# -- statistics --------------------------------------------------------------------------------------------------------


def counting() -> Client:
    hub = Hub(Rig())
    statistics = Statistics(hub.acceptor, lambda: {"openwire": "tcp://here:1"}, "/data")
    hub.rig.broker.addresses.offer_family(PREFIX, statistics)
    return hub.client()


def asked(
    client: Client, where: Destination, *flags: str, reply_to: Destination | None = BACK
) -> list[dict[str, object]]:
    """Ask and return the answers. ``flags``: properties of the question, behind the prefix of all."""
    question = client.text(where, "")
    question.reply_to = reply_to
    question.correlation_id = "c"
    question.marshalled_properties = pack_properties({PREFIX + flag: True for flag in flags})
    client.ask(question)
    client.wait(1)
    found = []
    for dispatch in client.dispatches():
        message = message_in(dispatch)
        assert isinstance(message, ActiveMQMapMessage)
        assert (message.correlation_id, message.jms_type, message.persistent) == ("c", "Advisory", False)
        found.append(map_of_body(message))
    return found


def test_a_queue_is_counted() -> None:
    client = counting()
    client.send("q", "1", "2", "3")
    consumer_id = client.consume(QUEUE, prefetch=2)
    taken = client.dispatches()
    client.ack(taken[0], taken[0])
    client.take()
    client.consume(BACK, value=2)
    (figures,) = asked(client, ActiveMQQueue("ActiveMQ.Statistics.Destination.q"))
    assert consumer_id is not None
    wanted = {"destinationName": "queue://q", "size": 2, "enqueueCount": 3, "dequeueCount": 1, "consumerCount": 1}
    assert {name: figures[name] for name in wanted} == wanted
    assert (figures["dispatchCount"], figures["inflightCount"], figures["producerCount"]) == (3, 2, 0)
    (found,) = [
        one for one in asked(client, ActiveMQQueue("ActiveMQ.Statistics.Subscription")) if one["destinationName"] == "q"
    ]
    assert (found["dispatchedCounter"], found["dispatchedQueueSize"], found["prefetchSize"]) == (3, 2, 2)


def test_wildcards_are_answered_for_each_and_an_end_if_asked() -> None:
    client = counting()
    many = STEP + 3
    for number in range(many):
        client.send(f"many.{number}", "x")
    client.consume(ActiveMQTopic("many.topic"), value=3)
    client.consume(BACK)
    every = ActiveMQQueue("ActiveMQ.Statistics.Destination.many.>")
    assert len(asked(client, every)) == many
    *found, end = asked(client, every, "Destination.List.End.With.Null")
    assert (len(found), end) == (many, {})
    (topic,) = asked(client, ActiveMQTopic("ActiveMQ.Statistics.Destination.>"))
    assert (topic["destinationName"], topic["consumerCount"]) == ("topic://many.topic", 1)
    assert asked(client, ActiveMQQueue("ActiveMQ.Statistics.Destination.none")) == []


def test_the_broker_is_counted_and_counts_anew_when_told() -> None:
    client = counting()
    client.send("q", "1", "2")
    client.consume(BACK)
    where = ActiveMQQueue("ActiveMQ.Statistics.Broker")
    (figures,) = asked(client, where)
    assert (figures["size"], figures["enqueueCount"], figures["openwire"]) == (2, 2, "tcp://here:1")
    assert (figures["stomp"], figures["dataDirectory"]) == ("", "/data")
    asked(client, where, "Broker.Reset")
    client.send("q", "3")
    (figures,) = asked(client, where)
    assert (figures["size"], figures["enqueueCount"]) == (5, 2)  # two answers are there too; one came since
    (figures,) = asked(client, ActiveMQQueue("ActiveMQ.Statistics.Destination.q"))
    assert (figures["size"], figures["enqueueCount"]) == (3, 3)  # as in ActiveMQ: only the broker's are reset


def test_the_time_of_the_first_message_is_told_if_asked() -> None:
    client = counting()
    client.send("q", "1")
    client.consume(BACK)
    where = ActiveMQQueue("ActiveMQ.Statistics.Destination.q")
    (figures,) = asked(client, where, "Destination.Include.First.Message.Timestamp")
    assert "firstMessageTimestamp" in figures
    assert "firstMessageTimestamp" not in asked(client, where)[0]


def test_who_gives_no_place_for_answers_gets_none_and_a_broker_does_not_ask_itself() -> None:
    client = counting()
    client.consume(BACK)
    where = ActiveMQQueue("ActiveMQ.Statistics.Broker")
    assert asked(client, where, reply_to=None) == []
    assert asked(client, where, reply_to=where) == []
    assert [name for name in client.rig.broker.table.queues if name.startswith("ActiveMQ")] == []
