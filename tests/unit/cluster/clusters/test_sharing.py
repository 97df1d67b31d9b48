"""Messages among the nodes of a cluster, whole brokers in virtual time: nothing is lost, nothing comes twice."""

from __future__ import annotations

import pytest

from clustered import Node, joined
from entrepot.base.compiled import is_compiled
from entrepot.base.errors import InvalidDestination
from entrepot.base.primitive import BYTE, Primitive
from entrepot.cluster.carrying.parking import PARKED
from entrepot.cluster.clusters.listening import address_rule, filter_of
from entrepot.cluster.clusters.options import Balancing
from entrepot.cluster.clusters.remotes import store_name
from entrepot.cluster.clusters.unresolved import STORE
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.routing import Target
from entrepot.core.sending.sending import Sending
from entrepot.model.address import ANYCAST, MULTICAST, parse
from entrepot.model.message import Message
from entrepot.protocols.artemis.convert import routing_of
from entrepot.protocols.artemis.places import ROUTING
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.commands import ActiveMQTempQueue, ActiveMQTempTopic
from entrepot.protocols.openwire.refusals import DestinationGone
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from kit import Reader
from unit.protocols.artemis.wired import Client, Hub

RECORDED = (
    "(_AMQ_Binding_Type <> 2 OR _AMQ_Binding_Type IS NULL) AND _AMQ_NotifType IN ('SESSION_CREATED', 'BINDING_ADDED', "
    "'BINDING_REMOVED', 'BINDING_UPDATED', 'CONSUMER_CREATED', 'CONSUMER_CLOSED', 'PROPOSAL', 'PROPOSAL_RESPONSE', "
    "'UNPROPOSAL') AND _AMQ_Distance < 1 AND (((_AMQ_Address NOT LIKE '$.artemis.internal.sf.%') AND (_AMQ_Address NOT "
    "LIKE 'activemq.management%'))) AND (_AMQ_NotifType = 'SESSION_CREATED' OR (_AMQ_Address NOT LIKE "
    "'activemq.notifications%'))"
)
"""What an Artemis of 2.42 asked another one (tests/vectors/core-conversations/cluster-up)."""


BAD = "bad".encode("utf-16-le")


def store(node: Node, other: Node) -> int:
    """Return how many messages wait at ``node`` for ``other``."""
    return int(node.rig.queue(store_name("c", other.uuid)).count)


def bodies(*readers: Reader) -> list[str]:
    """Return what they got, in order."""
    return sorted(one.body for reader in readers for one in reader.deliveries)


def numbers(count: int, first: int = 0) -> list[str]:
    return sorted(str(one) for one in range(first, first + count))


def test_the_filter_is_that_of_artemis() -> None:
    _, (node, _) = joined(2)
    assert filter_of(node.options) == RECORDED


def test_the_address_rule() -> None:
    ignored = address_rule("")
    assert address_rule("eu,!eu.uk, us") == (
        "(((_AMQ_Address LIKE 'eu%') OR (_AMQ_Address LIKE 'us%')) AND "
        f"((_AMQ_Address NOT LIKE 'eu.uk%') AND {ignored[1:]})"
    )


@pytest.mark.parametrize(
    ("balancing", "expected"),
    [(Balancing.ON_DEMAND, (5, 5)), (Balancing.STRICT, (5, 5)), (Balancing.OFF, (10, 0))],
)
def test_two_nodes_with_a_reader_each_share_what_is_sent_to_one(
    balancing: Balancing, expected: tuple[int, int]
) -> None:
    world, (a, b) = joined(2, balancing=balancing)
    readers = [node.rig.reader("Q") for node in (a, b)]
    world.wait(50)
    a.send("queue://Q", range(10))
    world.wait(50)
    assert tuple(len(reader.deliveries) for reader in readers) == expected
    assert bodies(*readers) == numbers(10)
    assert store(a, b) == 0


def test_what_is_sent_where_nobody_reads_goes_where_somebody_does() -> None:
    world, (a, b, c) = joined(3)
    reader = c.rig.reader("Q")
    world.wait(50)
    assert a.remote("Q") == b.remote("Q") == [("Q", 1, 1)]
    a.send("queue://Q", range(5))
    b.send("queue://Q", range(5, 10))
    world.wait(50)
    assert bodies(reader) == numbers(10)
    reader.ack()
    reader.close()
    world.wait(50)
    assert a.remote("Q") == [("Q", 1, 0), ("Q", 1, 0)], "at b too: it was sent there"
    a.send("queue://Q", ["stays"])
    assert a.rig.queue("Q").count == 1


def test_subscribers_on_every_node_get_one_copy_each() -> None:
    world, (a, b) = joined(2)
    readers = [a.rig.reader("topic://T"), *(b.rig.reader("topic://T") for _ in range(3))]
    world.wait(50)
    a.send("topic://T", range(4))
    world.wait(50)
    for reader in readers:
        assert bodies(reader) == numbers(4)


def test_what_is_sent_over_a_lost_connection_waits_and_comes_once() -> None:
    world, (a, b) = joined(2)
    reader = b.rig.reader("Q")
    subscriber = b.rig.reader("topic://T")
    world.wait(50)
    world.part(a, b)
    assert a.remote("Q") == [], "not connected: the last choice"
    a.send("topic://T", range(3))
    a.send("queue://Q", range(3))
    world.wait(500)
    assert (store(a, b), a.rig.queue("Q").count) == (3, 3), "a sole subscription still; a queue that is here too stays"
    world.apart.clear()
    world.wait(3000)
    assert a.remote("Q") == [("Q", 1, 1)]
    assert bodies(subscriber) == numbers(3)
    a.send("queue://Q", ["more"])
    world.wait(50)
    assert bodies(reader) == ["more"]


def test_a_node_that_dies_keeps_what_waits_for_others() -> None:
    world, (a, b) = joined(2)
    reader = b.rig.reader("topic://T")
    world.wait(50)
    world.part(a, b)
    a.send("topic://T", range(10))
    assert store(a, b) == 10
    a.leave(orderly=False)
    a.come_back()
    world.wait(500)
    assert bodies(reader) == []
    world.apart.clear()
    world.wait(3000)
    assert bodies(reader) == numbers(10)
    assert store(a, b) == 0


def test_a_node_that_died_comes_back_with_its_queues() -> None:
    world, (a, b) = joined(2)
    reader = b.rig.reader("Q")
    world.wait(50)
    a.send("queue://Q", ["1"])
    world.wait(50)
    reader.ack()
    b.leave(orderly=False)
    b.come_back()
    world.wait(3000)
    assert a.remote("Q") == [("Q", 1, 0)]
    again = b.rig.reader("Q")
    world.wait(50)
    a.send("queue://Q", ["2"])
    world.wait(50)
    assert bodies(again) == ["2"]


def test_a_node_that_takes_leave_gets_nothing_more_and_what_waits_is_kept() -> None:
    world, (a, b) = joined(2, balancing=Balancing.STRICT)
    b.rig.reader("topic://T")
    b.rig.reader("Q")
    world.wait(50)
    b.leave(orderly=True)
    world.wait(100)
    assert a.remote("Q") == []
    a.send("queue://Q", range(4))
    assert (a.rig.queue("Q").count, store(a, b)) == (4, 0)
    b.come_back("close")
    world.wait(3000)
    assert a.remote("Q") == [("Q", 1, 0)]


def test_a_chain_reaches_as_far_as_max_hops() -> None:
    world, nodes = joined(1, max_hops=2, direct=True)
    (a,) = nodes
    a.leave(orderly=False)
    chain = [
        world.node(number, [number + 1] if number < 4 else [], max_hops=hops, direct=True)
        for number, hops in ((1, 2), (2, 1), (3, 1))
    ]
    for node in chain:
        node.start()
    world.wait(1000)
    reader = chain[2].rig.reader("Q")
    world.wait(1000)
    assert chain[1].remote("Q") == [("Q", 1, 1)]
    assert chain[0].remote("Q") == [("Q", 2, 1)]
    chain[0].send("queue://Q", range(3))
    world.wait(100)
    assert bodies(reader) == numbers(3)


def test_addresses_that_a_cluster_connection_leaves_out_are_not_known() -> None:
    world, (a, b) = joined(2, address="eu,!eu.uk")
    for name in ("eu.de", "eu.uk", "us"):
        b.rig.reader(name)
    world.wait(50)
    assert [a.remote(name) != [] for name in ("eu.de", "eu.uk", "us")] == [True, False, False]


def test_clients_see_nothing_of_the_way() -> None:
    world, (a, b) = joined(2)
    reader = b.rig.reader("Q")
    world.wait(50)
    a.send("queue://Q", ["1"], p=1)
    world.wait(50)
    (delivery,) = reader.deliveries
    rare = delivery.message.rare
    assert rare is None or (not rare.internal and not any(name.startswith("_AMQ") for name in rare.annotations))
    assert b"_\0A\0M\0Q\0_\0R\0O\0U\0T\0E" not in delivery.message.raw
    assert b"_\0A\0M\0Q\0_\0B\0R\0I" not in delivery.message.raw


def test_where_a_message_goes_is_said_by_nodes_of_the_cluster_and_by_nobody_else() -> None:
    for admitted, expected in ((False, (1, 0)), (True, (0, 1))):
        hub = Hub()
        client = Client(hub)
        client.open()
        client.make("A")
        client.make("B", address="A")
        client.session.admitted = admitted
        first, second = (hub.rig.queue(name) for name in ("A", "B"))
        client.send("A", "m", _AMQ_ROUTE_TO=int(second.identity).to_bytes(8, "big"))
        assert (first.count, second.count) == expected


@pytest.mark.parametrize("admitted", [False, True])
def test_what_waited_for_a_third_node_is_obeyed_of_nodes_and_shown_to_nobody(admitted: bool) -> None:
    world, (a, b) = joined(2)
    b.rig.broker.queues.create(QueueDefinition(name="far", address="T", routing=MULTICAST))
    a.rig.broker.queues.create(QueueDefinition(name="near", address="T", routing=MULTICAST))
    world.wait(50)
    hub = Hub(a.rig)
    client = Client(hub)
    client.open()
    client.session.admitted = admitted
    (remote,) = a.rig.broker.table.remotes.values()
    client.send("T", "m", _AMQ_ROUTING_TYPE=Primitive(BYTE, 0), _AMQ_SCALEDOWN_TO=remote.route)
    client.send("T", "of nobody", _AMQ_ROUTING_TYPE=Primitive(BYTE, 0), _AMQ_SCALEDOWN_TO=b"12345678" * 2 + b"odd")
    world.wait(50)
    assert a.rig.queue("near").count == (0 if admitted else 2), "the first is for the other node alone"
    assert b.rig.queue("far").count == (1 if admitted else 2)
    waiting = a.rig.broker.table.queues.get(STORE)
    assert (0 if waiting is None else waiting.count) == int(admitted), "who the second is for is not known yet"
    for queue in (a.rig.queue("near"), b.rig.queue("far")):
        first = queue.backlog.first()
        assert first is None or b"S\0C\0A\0L\0E\0D\0O" not in first.message.raw


def test_what_a_node_sends_back_is_no_repetition_of_what_its_producer_sent_here() -> None:
    hub = Hub()
    client = Client(hub)
    client.open()
    client.make("A")
    queue = hub.rig.queue("A")
    way = int(queue.identity).to_bytes(8, "big")
    client.send("A", "m", _AMQ_DUPL_ID="x")
    client.send("A", "m", _AMQ_DUPL_ID="x", _AMQ_ROUTE_TO=way)
    assert queue.count == 1, "whoever is no node of the cluster cannot get around the duplicate ids"
    client.session.admitted = True
    client.send("A", "m", _AMQ_DUPL_ID="x", _AMQ_ROUTE_TO=way)
    assert queue.count == 2
    client.send("A", "m", _AMQ_DUPL_ID="x", _AMQ_ROUTE_TO=way, _AMQ_BRIDGE_DUP=b"1")
    client.send("A", "m", _AMQ_DUPL_ID="x", _AMQ_ROUTE_TO=way, _AMQ_BRIDGE_DUP=b"1")
    assert queue.count == 3, "the node's own id is asked for"


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
def test_a_message_that_another_node_never_takes_is_parked_and_others_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    world, (a, b) = joined(2, policies={"#": {"dead_letter_address": ""}})
    reader = b.rig.reader("Q")
    world.wait(50)
    genuine = Sending.send

    def send(self: Sending, message: Message, target: Target) -> int:
        if self is b.rig.broker.sending and BAD in message.raw:
            raise InvalidDestination("it is not wanted")
        return genuine(self, message, target)

    monkeypatch.setattr(Sending, "send", send)
    a.send("queue://Q", ["bad", "good"])
    world.wait(5_000)
    assert bodies(reader) == ["good"]
    assert store(a, b) == 0
    assert a.rig.queue(PARKED).count == 1
    assert any(PARKED in text for text in a.said)


def test_a_node_that_tells_of_others_first_is_known_for_what_it_is() -> None:
    """Artemis tells of its members in any order."""
    world, (a, b, c) = joined(3)
    members = b.connection.topology.members
    own = b.uuid
    members[own] = members.pop(own)
    assert next(iter(members)) != own
    world.part(a, b)
    world.apart.clear()
    world.wait(3_000)
    met = {one.node: one.state.value for one in a.connection.contacts.values()}
    assert met == {b.uuid: "met", c.uuid: "met"}


@pytest.mark.parametrize(("place", "routing"), [("queue://Q", ANYCAST), ("topic://T", MULTICAST)])
def test_what_came_in_another_language_says_of_which_kind_it_is(place: str, routing: int) -> None:
    """Artemis drops what is for a queue of another routing type: the store where it waited is multicast."""
    world, (a, b) = joined(2)
    reader = b.rig.reader(place)
    world.wait(50)
    target = a.rig.broker.target(parse(place))
    message = Message(STOMP_LANGUAGE, target.name, b"k:v\n\nfrom afar\0")
    message.durable = True
    a.act(lambda: a.rig.broker.send(message, target))
    world.wait(50)
    (delivery,) = reader.deliveries
    assert delivery.body.endswith("from afar")
    assert ROUTING[int(routing_of(delivery.message))] == routing


def test_ids_of_a_third_node_are_looked_up_at_once_and_each_queue_once() -> None:
    world, (a, b) = joined(2)
    for name, address in (("one", "T"), ("two", "T.#"), ("other", "U")):
        b.rig.broker.queues.create(QueueDefinition(name=name, address=address, routing=MULTICAST))
    world.wait(50)
    table = a.rig.broker.table
    routes = {one.queue_name: one.route for one in table.remotes.values()}
    unknown = [number.to_bytes(8, "big") for number in range(1 << 40, (1 << 40) + 50_000)]
    found = table.beyond("T", [*unknown, routes["two"], routes["one"], routes["one"], routes["other"]])
    assert {route: one.queue_name for route, one in found.items()} == {routes["one"]: "one", routes["two"]: "two"}


def test_replies_of_openwire_go_to_a_temporary_queue_of_another_node_as_long_as_it_is_there() -> None:
    world, (a, b) = joined(2)
    here = Acceptor(a.rig.broker)
    with pytest.raises(DestinationGone):
        here.check_answered("ID:x:1:1")
    made = b.rig.broker.queues.create(QueueDefinition(name="ID:x:1:1", address="ID:x:1:1", temporary=True))
    world.wait(100)
    here.check_answered("ID:x:1:1")
    assert ActiveMQTempQueue("ID:x:1:1") in here.advisories.temporaries, "a Java client asks what it was told of"
    with pytest.raises(DestinationGone):
        here.check_temporary("ID:x:1:1")  # it is read where it is
    b.act(lambda: b.rig.broker.queues.delete(made, "its connection ended"))
    world.wait(100)
    with pytest.raises(DestinationGone):
        here.check_answered("ID:x:1:1")
    assert here.advisories.temporaries == {}


def test_a_temporary_topic_of_another_node_is_heard_of_until_its_last_reader_has_gone() -> None:
    world, (a, b) = joined(2)
    here = Acceptor(a.rig.broker)
    made = [
        b.rig.broker.queues.create(QueueDefinition(name=name, address="ID:x:1:2", routing=MULTICAST, temporary=True))
        for name in ("s1", "s2")
    ]
    world.wait(100)
    for queue in made:
        assert list(here.advisories.temporaries) == [ActiveMQTempTopic("ID:x:1:2")]
        b.act(lambda queue=queue: b.rig.broker.queues.delete(queue, "its connection ended"))
        world.wait(100)
    assert here.advisories.temporaries == {}
