"""Advisories behind switches: none without, one with, from clients of every protocol (classic.md 1.14)."""

from __future__ import annotations

import pytest

from entrepot.core.addressing.diversion import composite
from entrepot.core.events.facts import BRIDGE_STARTED, BRIDGE_STOPPED, FORWARD_FAILED
from entrepot.core.events.neighbours import BridgeFact
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.address import Destination as Address
from entrepot.protocols.openwire.bodies import properties_of
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTextMessage,
    ActiveMQTopic,
    BrokerInfo,
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    Message,
    MessageDispatch,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import AckType, DestinationOperation
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from kit import Rig

from .wired import Client, Hub, text_in

SWITCHES = {
    "MessageDelivered": "advises_delivered",
    "MessageDispatched": "advises_dispatched",
    "MessageConsumed": "advises_consumed",
    "NoConsumer": "advises_unread",
    "SlowConsumer": "advises_slow",
    "MessageDiscarded": "advises_discarded",
    "FULL": "advises_full",
    "FastProducer": "advises_fast",
}
QUEUE = ActiveMQQueue("q")


def watching(settings: dict[str, str]) -> tuple[Hub, Client]:
    hub = Hub(Rig({"#": settings}))
    watcher = hub.client()
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.>"), prefetch=32_766)
    watcher.take()
    return hub, watcher


def told(watcher: Client, word: str) -> list[tuple[str, Structure | None, dict[str, object]]]:
    found = []
    for dispatch in watcher.dispatches():
        message = dispatch.message
        assert isinstance(message, Message)
        assert message.destination is not None
        topic = str(message.destination.physical_name).removeprefix("ActiveMQ.Advisory.")
        if topic.split(".")[0] == word:
            properties = {name: value for name, value in properties_of(message).items() if "origin" not in name}
            found.append((topic, message.data_structure, properties))
    return found


def happen(hub: Hub) -> Client:
    """Let everything happen that there is a switch for; only what its policy allows."""
    client = hub.client()
    client.send("q", "one")
    client.consume(QUEUE, prefetch=2)
    (taken,) = client.dispatches()
    client.ack(taken, taken)
    client.send("q", "2", "3", "4", "5")
    client.consume(ActiveMQTopic("t"), value=2, prefetch=2, maximum_pending_message_limit=1)
    for text in "abcd":
        client.ask(client.text(ActiveMQTopic("t"), text))
    client.take()
    hub.rig.wait(1_100)
    return client


@pytest.mark.parametrize("word", SWITCHES)
def test_without_its_switch_nothing_is_told(word: str) -> None:
    others = {name: "true" for key, name in SWITCHES.items() if key != word}
    hub, watcher = watching({**others, "max_octets": "1k", "full": "PAGE"})
    happen(hub)
    assert told(watcher, word) == []


@pytest.mark.parametrize("word", [word for word in SWITCHES if word not in ("FULL", "FastProducer")])
def test_with_its_switch_it_is_told(word: str) -> None:
    hub, watcher = watching({SWITCHES[word]: "true"})
    happen(hub)
    assert told(watcher, word)


def test_a_message_is_told_of_from_its_arrival_to_its_end() -> None:
    hub, watcher = watching({SWITCHES[f"Message{word}"]: "true" for word in ("Delivered", "Dispatched", "Consumed")})
    client = hub.client()
    consumer_id = client.consume(QUEUE)
    message = client.text(QUEUE, "x")
    client.ask(message)
    identity = "ID:client-2:1:1:1"
    about = {"orignalMessageId": identity, "orignalDestination": "queue://q"}
    ((topic, carried, properties),) = told(watcher, "MessageDelivered")
    assert (topic, properties) == ("MessageDelivered.Queue.q", about)
    assert isinstance(carried, ActiveMQTextMessage)
    assert (carried.message_id, carried.content) == (message.message_id, None)
    (taken,) = client.dispatches()
    client.ack(taken, taken)
    assert [properties for _, _, properties in told(watcher, "MessageConsumed")] == [about]
    client.ask(client.text(QUEUE, "y"))
    ((_, _, properties),) = told(watcher, "MessageDispatched")
    assert properties["consumerId"] == f"{consumer_id.connection_id}:1:1"


def test_bridges_that_begin_end_or_fail_to_forward_are_told_of() -> None:
    hub, watcher = watching({})
    facts = hub.rig.broker.hub
    for kind in (BRIDGE_STARTED, BRIDGE_STOPPED):
        facts.announce(BridgeFact(kind, "west", "ID:west-1", "west"))
    wanted = BridgeFact(FORWARD_FAILED, "west", "ID:west-1", "west", "too large")
    unwanted = BridgeFact(FORWARD_FAILED, "west", "ID:west-1", "west", "again")
    unwanted.advises = False
    facts.announce(wanted)
    facts.announce(unwanted)
    hub.rig.turn()
    began, ended, failed = told(watcher, "NetworkBridge")
    assert isinstance(began[1], BrokerInfo)
    assert (began[1].broker_name, began[2]) == ("west", {"started": True, "createdByDuplex": False})
    assert ended[2] == {"started": False, "createdByDuplex": False}
    assert failed == ("NetworkBridge.ForwardFailure", None, {"cause": "too large"})


def test_bodies_are_told_if_that_is_wanted() -> None:
    hub, watcher = watching({"advises_delivered": "true", "advises_bodies": "true"})
    hub.client().send("q", "x")
    ((_, carried, _),) = told(watcher, "MessageDelivered")
    assert isinstance(carried, ActiveMQTextMessage)
    assert carried.content is not None


def test_poison_is_consumed_and_dead() -> None:
    hub, watcher = watching({"advises_consumed": "true"})
    client = hub.client()
    client.consume(QUEUE)
    client.send("q", "x", persistent=True)
    (taken,) = client.dispatches()
    client.ack(taken, taken, kind=AckType.POISON)
    dispatches = watcher.dispatches()
    words = [str(each.message.destination.physical_name).split(".")[2] for each in dispatches if each.message]  # type: ignore[union-attr]
    assert "MessageDLQd" in words
    assert "MessageConsumed" in words


def test_a_full_queue_is_told_of_with_who_sends() -> None:
    hub = Hub(Rig({"q": {"max_octets": "1k", "full": "PAGE", "advises_full": "true", "advises_fast": "true"}}))
    watcher = hub.client()
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.FULL.>"), prefetch=32_766)
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.FastProducer.>"), value=2, prefetch=32_766)
    client = hub.client()
    producer_id = client.producer(where=QUEUE)
    client.send("q", "x" * 900, "y")
    (full, fast) = watcher.dispatches()
    assert full.message is not None
    assert fast.message is not None
    properties = properties_of(full.message)
    assert properties["usageName"] == "Main:memory:queue://q:memory"
    assert isinstance(properties["usageCount"], int)
    assert isinstance(fast.message.data_structure, ProducerInfo)
    assert fast.message.data_structure.producer_id == producer_id
    assert properties_of(fast.message)["producerId"] == "ID:client-2:1:1"


def test_what_nobody_reads_is_shown_whole() -> None:
    hub, watcher = watching({"advises_unread": "true"})
    client = hub.client()
    client.ask(client.text(ActiveMQTopic("t"), "cry"))
    client.ask(client.text(ActiveMQTopic("t"), "kept", persistent=True))
    found = [each for each in watcher.dispatches() if "NoConsumer" in str(each.destination)]
    assert [text_in(each) for each in found] == ["cry"]


def test_nothing_is_told_about_advisories() -> None:
    hub, watcher = watching(dict.fromkeys(SWITCHES.values(), "true"))
    for _ in range(3):
        hub.rig.wait(1_100)
    assert [each for each in watcher.dispatches() if "Advisory.Message" in str(each.destination)] == []


def test_a_slow_consumer_is_told_of_once_and_by_name() -> None:
    hub, watcher = watching({"advises_slow": "true"})
    client = hub.client()
    consumer_id = client.consume(QUEUE, prefetch=2)
    client.send("q", "1", "2", "3")
    hub.rig.wait(3_000)
    ((topic, info, properties),) = told(watcher, "SlowConsumer")
    assert topic == "SlowConsumer.Queue.q"
    assert isinstance(info, ConsumerInfo)
    assert info.consumer_id == consumer_id
    assert properties == {"consumerId": f"{consumer_id.connection_id}:1:1"}


def test_durable_subscriptions_of_other_protocols_come_with_their_name_and_go_for_good() -> None:
    hub, watcher = watching({})
    reader = hub.rig.reader("/topic/t", durable_name="sub", client_id="them", selector="a = 1")
    ((topic, info, properties),) = told(watcher, "Consumer")
    assert topic == "Consumer.Topic.t"
    assert isinstance(info, ConsumerInfo)
    assert (info.client_id, info.subscription_name, info.selector) == ("them", "sub", "a = 1")
    assert properties == {"consumerCount": 1}
    reader.close()
    assert [(type(info), properties) for _, info, properties in told(watcher, "Consumer")] == [
        (RemoveInfo, {"consumerCount": 1})
    ]
    assert hub.rig.broker.reading.forget_durable("them", "sub")
    ((_, gone, properties),) = told(watcher, "Consumer")
    assert isinstance(gone, RemoveSubscriptionInfo)
    assert (gone.client_id, gone.subscription_name, properties) == ("them", "sub", {"consumerCount": 0})


def test_what_is_said_of_a_subscription_comes_in_the_order_of_what_happened() -> None:
    hub, watcher = watching({})
    hub.rig.reader("/topic/t", durable_name="sub", client_id="me").close()
    client = hub.client(client_id="me")
    watcher.dispatches()
    client.ask(RemoveSubscriptionInfo(client_id="me", subscription_name="sub"))
    client.consume(ActiveMQTopic("t"), subscription_name="sub")
    kinds = [type(info) for _, info, _ in told(watcher, "Consumer")]
    assert kinds == [RemoveSubscriptionInfo, ConsumerInfo]


def test_a_changed_selector_is_no_farewell() -> None:
    hub, watcher = watching({})
    hub.rig.reader("/topic/t", durable_name="sub", client_id="me").close()
    hub.rig.reader("/topic/t", durable_name="sub", client_id="me", selector="a = 1")
    kinds = [type(info) for _, info, _ in told(watcher, "Consumer")]
    assert kinds == [ConsumerInfo, RemoveInfo, ConsumerInfo]


def test_producers_without_a_destination_are_told_of_if_that_is_wanted() -> None:
    hub, watcher = watching({})
    client = hub.client()
    client.producer(1)
    assert told(watcher, "Producer") == []
    hub.acceptor.advisories.anonymous = True
    producer_id = client.producer(2)
    client.ask(RemoveInfo(object_id=producer_id))
    found = told(watcher, "Producer")
    assert [topic for topic, _, _ in found] == ["Producer.Anonymous", "Producer.Anonymous"]
    assert [type(info) for _, info, _ in found] == [ProducerInfo, RemoveInfo]


def test_a_broker_that_starts_to_serve_says_so_and_a_late_reader_may_ask() -> None:
    hub = Hub(Rig({"ActiveMQ.Advisory.MasterBroker": {"recall": "LAST"}}))
    hub.acceptor.advisories.now_master()
    watcher = hub.client()
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.MasterBroker"), prefetch=10, retroactive=True)
    assert [str(each.destination) for each in watcher.dispatches()] != []


def test_a_topic_that_somebody_makes_is_told_of_once() -> None:
    hub, watcher = watching({})
    client = hub.client()
    made = DestinationInfo(destination=ActiveMQTopic("t"), operation_type=int(DestinationOperation.ADD))
    client.ask(made)
    client.ask(made)
    assert len(told(watcher, "Topic")) == 1


@pytest.mark.parametrize(("kind", "advisory"), [("queue", "TempQueue"), ("topic", "TempTopic")])
def test_a_temporary_destination_of_another_protocol_is_told_of_before_anybody_can_answer_to_it(
    kind: str, advisory: str
) -> None:
    hub, _ = watching({})
    session = StompSession(Shell(), hub.rig.broker, StompOptions(), 99, "stomp")
    session.receive(b"CONNECT\naccept-version:1.1\n\n\0", hub.rig.now)
    server = hub.client()
    server.consume(ActiveMQTopic(f"ActiveMQ.Advisory.{advisory}"), prefetch=10)
    server.consume(QUEUE, value=2)
    server.take()
    mine = f"/temp-{kind}/mine".encode()
    subscribe = b"SUBSCRIBE\nid:1\ndestination:" + mine + b"\n\n\0"
    session.receive(subscribe + b"SEND\ndestination:/queue/q\nreply-to:" + mine + b"\n\nx\0", hub.rig.now)
    advised, question = server.dispatches()
    assert advised.message is not None
    assert question.message is not None
    info = advised.message.data_structure
    assert isinstance(info, DestinationInfo)
    assert info.destination == question.message.reply_to
    assert info.destination is not None
    session.outgoing()
    server.post(server.text(info.destination, "answer"))
    hub.rig.turn()
    assert session.outgoing().endswith(b"answer\0")
    session.detach("gone", hub.rig.now)
    (advised,) = server.dispatches()
    assert advised.message is not None
    info = advised.message.data_structure
    assert isinstance(info, DestinationInfo)
    assert info.operation_type == int(DestinationOperation.REMOVE)


# -- virtual destinations ----------------------------------------------------------------------------------------------

MIX = composite("mix.in", False, [(Address("mix.a", ANYCAST), None), (Address("mix.b", MULTICAST), None)])
NEWS = composite("mix.news", True, [(Address("mix.c", ANYCAST), None), (Address("mix.a", ANYCAST), None)])
VIRTUAL = "VirtualDestination"


def topics_told(watcher: Client) -> set[str]:
    """Return the topics, below ``ActiveMQ.Advisory.``, on which something was told."""
    found = set()
    for dispatch in watcher.dispatches():
        assert dispatch.message is not None
        assert dispatch.message.destination is not None
        found.add(str(dispatch.message.destination.physical_name).removeprefix("ActiveMQ.Advisory."))
    return found


def test_what_is_told_of_temporary_destinations_names_their_kind() -> None:
    """As ActiveMQ's `AdvisorySupport` asks for it; only consumers, producers and two more call them Queue and Topic."""
    switches = ("delivered", "dispatched", "consumed", "full", "fast", "unread")
    hub, watcher = watching({f"advises_{word}": "true" for word in switches} | {"max_octets": "1", "full": "BLOCK"})
    client = hub.client()
    queue, topic = ActiveMQTempQueue(f"{client.name}:1"), ActiveMQTempTopic(f"{client.name}:2")
    for where in (queue, topic):
        client.ask(DestinationInfo(connection_id=ConnectionId(client.name), destination=where))
    watcher.take()
    producer = client.producer()
    client.post(client.text(topic, "nobody", value=1))
    client.consume(queue, 1)
    client.consume(topic, 2)
    for where in (queue, topic):
        client.post(client.text(where, "x"))
    for dispatch in client.dispatches():
        client.ack(dispatch, dispatch)
    found = topics_told(watcher)
    for word in ("MessageDelivered", "MessageDispatched", "MessageConsumed", "Consumer", "NoConsumer"):
        for kind, where in (("Queue", queue), ("Topic", topic)):
            told_as = kind if word in ("Consumer", "NoConsumer") else f"Temp{kind}"
            asked = (word, kind) not in (("MessageConsumed", "Topic"), ("NoConsumer", "Queue"))
            assert (f"{word}.{told_as}.{where.physical_name}" in found) == asked, (word, kind, found)
    assert not any(name.startswith("MessageDelivered.Queue.ID:") for name in found)
    assert producer.value == 1


def test_a_full_temporary_queue_is_told_of_by_its_kind() -> None:
    hub, watcher = watching({"advises_full": "true", "advises_fast": "true", "max_octets": "500", "full": "BLOCK"})
    client = hub.client()
    queue = ActiveMQTempQueue(f"{client.name}:1")
    client.ask(DestinationInfo(connection_id=ConnectionId(client.name), destination=queue))
    client.producer()
    for _ in range(5):
        client.post(client.text(queue, "x" * 400))
    assert {f"FULL.TempQueue.{queue.physical_name}", f"FastProducer.TempQueue.{queue.physical_name}"} <= topics_told(
        watcher
    )


def test_topics_of_the_configuration_and_of_before_are_told_to_who_asks() -> None:
    hub = Hub(Rig())
    hub.rig.broker.table.address("cheese").created_by_operator = True
    hub.rig.reader("topic://kept", 10, durable_name="sub", client_id="a").close()
    hub.acceptor.advisories.founded()
    client = hub.client()
    client.consume(ActiveMQTopic("ActiveMQ.Advisory.Topic"), 1)
    made = [dispatch.message.data_structure for dispatch in client.dispatches() if dispatch.message is not None]
    names = [one.destination.physical_name for one in made if isinstance(one, DestinationInfo) and one.destination]
    assert sorted(map(str, names)) == ["cheese", "kept"]


def virtual(*, created: bool = False) -> tuple[Hub, Client]:
    hub, watcher = watching({})
    for one in (MIX, NEWS):
        hub.rig.broker.table.add_divert(one)
    hub.acceptor.advisories.virtual = True
    hub.acceptor.advisories.virtual_on_creation = created
    return hub, watcher


def sources(facts: list[tuple[str, Structure | None, dict[str, object]]]) -> list[str]:
    for topic, said, _ in facts:
        if isinstance(said, ConsumerInfo):
            assert said.destination is not None
            kind = "Topic" if isinstance(said.destination, ActiveMQTopic) else "Queue"
            assert topic == f"VirtualDestination.Consumer.{kind}.{said.destination.physical_name}"
    return sorted(topic.removeprefix("VirtualDestination.Consumer.") for topic, _, _ in facts)


@pytest.mark.parametrize(
    ("where", "filled_by"),
    [
        (ActiveMQQueue("mix.a"), ["Queue.mix.in", "Topic.mix.news"]),
        (ActiveMQTopic("mix.b"), ["Queue.mix.in"]),
        (ActiveMQQueue("mix.b"), []),
        (ActiveMQQueue("mix.c"), ["Topic.mix.news"]),
        (ActiveMQQueue("mix.in"), []),
        (ActiveMQQueue("mix.>"), []),
        (ActiveMQQueue("Consumer.x.VirtualTopic.Y"), ["Topic.VirtualTopic.Y"]),
    ],
)
def test_a_reader_of_what_is_filled_counts_as_one_of_what_fills_it(where: Destination, filled_by: list[str]) -> None:
    hub, watcher = virtual()
    client = hub.client()
    consumer_id = client.consume(where, selector="n = 1")
    came = told(watcher, VIRTUAL)
    assert sources(came) == filled_by
    for _, said, properties in came:
        assert isinstance(said, ConsumerInfo)
        assert (said.consumer_id, said.selector, properties) == (consumer_id, "n = 1", {"consumerCount": 0})
    late = hub.client()
    late.consume(ActiveMQTopic("ActiveMQ.Advisory.VirtualDestination.Consumer.>"), prefetch=100)
    assert sources(told(late, VIRTUAL)) == filled_by
    client.ask(RemoveInfo(object_id=consumer_id))
    left = told(watcher, VIRTUAL)
    assert sources(left) == filled_by
    assert all(isinstance(said, RemoveInfo) and said.object_id == consumer_id for _, said, _ in left)


def test_without_the_switch_it_counts_for_nothing() -> None:
    hub, watcher = virtual()
    hub.acceptor.advisories.virtual = False
    hub.acceptor.advisories.virtual_on_creation = True
    hub.client().consume(ActiveMQQueue("mix.a"))
    assert told(watcher, VIRTUAL) == []


def test_a_queue_that_is_filled_counts_from_its_making_to_its_end() -> None:
    hub, watcher = virtual(created=True)
    hub.client().send("mix.c", "x")
    ((topic, stands, properties),) = told(watcher, VIRTUAL)
    assert isinstance(stands, ConsumerInfo)
    assert (topic, stands.prefetch_size) == ("VirtualDestination.Consumer.Topic.mix.news", 0)
    assert properties == {"consumerCount": 0}
    late = hub.client()
    late.consume(ActiveMQTopic("ActiveMQ.Advisory.VirtualDestination.Consumer.>"), prefetch=100)
    ((_, again, _),) = told(late, VIRTUAL)
    assert isinstance(again, ConsumerInfo)
    assert again.consumer_id == stands.consumer_id
    hub.rig.broker.queues.delete(hub.rig.queue("mix.c"), "nobody needs it")
    hub.rig.wait(0)
    ((topic, said, _),) = told(watcher, VIRTUAL)
    assert topic == "VirtualDestination.Consumer.Topic.mix.news"
    assert isinstance(said, RemoveInfo)
    assert said.object_id == stands.consumer_id


def test_queues_from_before_count_too() -> None:
    hub, watcher = virtual(created=True)
    hub.acceptor.advisories.virtual_on_creation = False
    hub.client().send("mix.a", "x")
    hub.acceptor.advisories.virtual_on_creation = True
    hub.acceptor.advisories.founded()
    hub.acceptor.advisories.founded()
    hub.rig.wait(0)
    assert sources(told(watcher, VIRTUAL)) == ["Queue.mix.in", "Topic.mix.news"]


def test_a_new_reader_is_told_what_there_is_in_turns_and_its_end_behind_it() -> None:
    hub = Hub(Rig(disk=False))
    for number in range(30):
        hub.rig.send(f"q{number}")
    reader, other = hub.client(), hub.client()
    effort = hub.rig.broker.effort
    effort.units = 90
    effort.begin()
    topic = ActiveMQTopic("ActiveMQ.Advisory.Queue")
    reader.post(reader.consumer_info(topic, ConsumerId(reader.name, 1, 1), 1000), answer=True)
    reader.hear()
    told = len(reader.heard_of(MessageDispatch))
    assert 0 < told < 30
    effort.begin()
    other.post(other.text(ActiveMQQueue("other"), "x"), answer=True)  # makes one
    hub.rig.broker.queues.delete(hub.rig.queue("q29"), "test")
    assert other.heard_of(Response)
    reader.hear()
    assert reader.heard_of(MessageDispatch) == []
    said = []
    for _ in range(50):
        hub.rig.wait(1)
        reader.hear()
        for dispatch in reader.heard_of(MessageDispatch):
            assert dispatch.message is not None
            info = dispatch.message.data_structure
            assert isinstance(info, DestinationInfo)
            assert info.destination is not None
            said.append((info.destination.physical_name, info.operation_type))
    assert [name for name, _ in said[: 30 - told]] == [f"q{number}" for number in range(told, 30)]
    assert said[-2:] == [("other", 0), ("q29", 1)]


def test_a_reader_that_leaves_before_it_was_told_all_is_forgotten() -> None:
    hub = Hub(Rig(disk=False))
    for number in range(30):
        hub.rig.send(f"q{number}")
    reader = hub.client()
    effort = hub.rig.broker.effort
    effort.units = 90
    effort.begin()
    topic = ActiveMQTopic("ActiveMQ.Advisory.Queue")
    reader.post(reader.consumer_info(topic, ConsumerId(reader.name, 1, 1), 1000), answer=True)
    reader.session.detach("cut", hub.rig.now)
    for _ in range(20):
        hub.rig.wait(1)
    assert effort.waits() is False
    hub.rig.broker.check()


def test_who_comes_to_read_of_what_expires_hears_what_expires_then() -> None:
    hub = Hub(Rig())
    client = hub.client()

    def expire(text: str) -> None:
        message = client.text(QUEUE, text, persistent=True)
        message.expiration = hub.rig.wall + 100
        client.ask(message)
        hub.rig.wait(3_000)

    expire("nobody reads of it")
    watcher = hub.client()
    topic = ActiveMQTopic("ActiveMQ.Advisory.Expired.Queue.q")
    consumer_id = watcher.consume(topic, prefetch=32_766)
    expire("heard")
    assert len(watcher.dispatches()) == 1
    watcher.ask(RemoveInfo(object_id=consumer_id))
    expire("nobody reads of it again")
    watcher.consume(topic, prefetch=32_766)
    expire("heard")
    assert len(watcher.dispatches()) == 1


def test_what_is_told_of_one_topic_is_told_though_nobody_reads_of_another() -> None:
    hub = Hub(Rig({"#": {"advises_delivered": True}}))
    watcher = hub.client()
    watcher.consume(ActiveMQTopic("ActiveMQ.Advisory.MessageDelivered.Topic.B"), prefetch=32_766)
    reader = hub.client()
    for name in ("A", "B"):
        reader.consume(ActiveMQTopic(name))
    client = hub.client()
    for name in ("A", "B", "A", "B"):
        client.ask(client.text(ActiveMQTopic(name), "m"))
    assert len(watcher.dispatches()) == 2
