"""What Artemis tests about clusters, as far as no other module here does: docs/artemis-cluster-tests.md lists all."""

from __future__ import annotations

from itertools import permutations

import pytest

from clustered import Cluster, Node, joined
from entrepot.cluster.clusters.drain_notes import State
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.options import Balancing
from entrepot.cluster.clusters.remotes import store_name
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.journal.ports import Waiter
from entrepot.model.address import parse
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.headers import TYPE_TEXT, Headers, assembled
from kit import Reader
from unit.protocols.amqp.wired import Client as AmqpClient
from unit.protocols.amqp.wired import Hub as AmqpHub
from unit.protocols.amqp.wired import encoded

JOINING_MS = 300  # of a node that joins a cluster of three, until it is used
TINY = {"max_octets": "2000"}


class Told(Waiter):
    """A producer who waits for the disk."""

    def stored(self, token: bytes) -> None:
        pass


def got(*readers: Reader) -> list[str]:
    """Return what they got, in the order of numbers."""
    return sorted((one.body for reader in readers for one in reader.deliveries), key=int)


def numbers(count: int) -> list[str]:
    return [str(one) for one in range(count)]


def cluster(seeds: list[list[int]], **given: object) -> tuple[Cluster, list[Node]]:
    """Return nodes that list these others, when they have met."""
    world = Cluster()
    nodes = [world.node(number, others, **given) for number, others in enumerate(seeds)]
    for node in nodes:
        node.start()
    world.wait(1500)
    return world, nodes


def test_a_node_that_joins_three_is_used_soon() -> None:
    world, nodes = joined(3)
    world.wait(1000)
    joining = world.node(3, [0])
    joining.start()
    reader = joining.rig.reader("Q")
    passed = 0
    while not all(node.remote("Q") for node in nodes):
        world.wait(10)
        passed += 10
        assert passed <= JOINING_MS
    for at, node in enumerate(nodes):
        node.send("queue://Q", [at])
    world.wait(50)
    assert got(reader) == numbers(3)


def test_one_way_leads_one_way() -> None:
    world, (a, b) = cluster([[1], []], direct=True)
    reader, other = b.rig.reader("Q"), a.rig.reader("R")
    world.wait(50)
    a.send("queue://Q", range(4))
    b.send("queue://R", range(4))
    world.wait(50)
    assert got(reader) == numbers(4)
    assert got(other) == []
    assert b.rig.queue("R").count == 4


def test_a_chain_of_five() -> None:
    """Every link is one way; with four hops the first sends to the last."""
    world, nodes = cluster([[1], [2], [3], [4], []], direct=True, max_hops=4)
    reader = nodes[4].rig.reader("Q")
    world.wait(200)
    assert nodes[0].remote("Q") == [("Q", 4, 1)]
    nodes[0].send("queue://Q", range(10))
    world.wait(200)
    assert got(reader) == numbers(10)
    assert [node.rig.queue("Q").count for node in nodes[:4]] == [0] * 4


def test_two_clusters_that_nobody_joins_do_not_meet() -> None:
    world, (a, b, c, d) = cluster([[1], [0], [3], [2]])
    reader = d.rig.reader("Q")
    world.wait(50)
    a.send("queue://Q", range(3))
    world.wait(50)
    assert (a.known(), c.known()) == (["n0", "n1"], ["n2", "n3"])
    assert (got(reader), a.rig.queue("Q").count) == ([], 3)
    assert b.remote("Q") == [("Q", 1, 0)], "that at a"


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_nodes_are_restarted_in_any_order(order: tuple[int, ...]) -> None:
    world, nodes = joined(3)
    for node in nodes:
        node.send("queue://Q", [node.number])
    for at in order:
        nodes[at].leave(orderly=at % 2 == 0)
        world.wait(100)
    for at in reversed(order):
        nodes[at].come_back()
        world.wait(100)
    world.wait(3000)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(100)
    nodes[order[0]].send("queue://Q", range(3, 9))
    world.wait(100)
    assert got(*readers) == numbers(9)
    assert [len(reader.deliveries) for reader in readers] == [3, 3, 3]


@pytest.mark.parametrize("mode", [Balancing.OFF, Balancing.OFF_WITH_REDISTRIBUTION])
def test_without_balancing_topics_cross_and_what_is_sent_to_queues_stays(mode: Balancing) -> None:
    world, (a, b) = joined(2, balancing=mode)
    subscriber, reader = b.rig.reader("topic://T"), b.rig.reader("Q")
    a.rig.broker.queues.create(QueueDefinition(name="Q", address="Q"))
    world.wait(50)
    assert a.remote("Q") == [("Q", 1, 1)], "it is known all the same"
    a.send("topic://T", range(4))
    a.send("queue://Q", range(4))
    world.wait(50)
    assert (got(subscriber), got(reader)) == (numbers(4), [])
    assert a.rig.queue("Q").count == 4


def test_queues_of_one_address_share_whatever_they_are_called() -> None:
    world, (a, b) = joined(2)
    for node, name in ((a, "here"), (b, "there")):
        node.rig.broker.queues.create(QueueDefinition(name=name, address="A"))
    readers = [a.rig.reader("A::here"), b.rig.reader("A::there")]
    world.wait(50)
    a.send("queue://A", range(10))
    world.wait(50)
    assert [len(reader.deliveries) for reader in readers] == [5, 5]
    assert got(*readers) == numbers(10)


def test_what_an_exclusive_divert_takes_is_read_at_the_other_node_and_not_where_it_was_sent() -> None:
    world, (a, b) = joined(2)
    readers = [b.rig.reader("out"), b.rig.reader("in")]
    world.wait(50)
    control(a.rig.broker, Census(), "broker").call("createDivert", ["d", "d", "in", "out", True, None, None, "ANYCAST"])
    a.send("queue://in", range(4))
    world.wait(50)
    assert (got(readers[0]), got(readers[1])) == (numbers(4), [])


def test_what_expires_on_its_way_does_not_arrive() -> None:
    world, (a, b) = joined(2, policies={"#": {"expiry_address": "Expired"}})
    reader = b.rig.reader("topic://T")
    world.wait(50)
    for cable in world.cables:
        cable.silent = True
    headers = Headers()
    headers.address, headers.kind, headers.durable, headers.expiration = "T", TYPE_TEXT, True, a.rig.wall + 500
    late = message_of(assembled(text_body("0"), headers, {}), "")
    a.act(lambda: a.rig.broker.send(late, a.rig.broker.target(parse("topic://T"))))
    a.send("topic://T", [1])
    name = store_name("c", b.uuid)
    assert a.rig.queue(name).count == 2
    world.part(a, b)
    world.wait(40_000)
    world.apart.clear()
    world.wait(3000)
    assert got(reader) == ["1"]
    assert a.rig.queue(name).count == 0
    letters = [node.rig.broker.table.queues.get("Expired") for node in (a, b)]
    assert sum(0 if one is None else int(one.count) for one in letters) == 1


def test_a_queue_that_goes_with_its_last_reader_is_not_known_elsewhere_any_more() -> None:
    world, (a, b) = joined(2, policies={"#": {"auto_delete": "true", "auto_delete_delay": "0"}})
    reader = b.rig.reader("Q")
    world.wait(50)
    assert a.remote("Q") == [("Q", 1, 1)]
    a.send("queue://Q", range(2))
    world.wait(50)
    reader.ack()
    reader.close()
    world.wait(5000)
    assert "Q" not in b.rig.broker.table.queues
    assert a.remote("Q") == []


def test_what_amqp_sent_moves_to_where_amqp_reads() -> None:
    world, (a, b) = joined(2, policies={"#": {"redistribution_delay": "0ms"}})
    sender = AmqpClient(AmqpHub(a.rig))
    sender.sender("Q")
    for body in numbers(5):
        sender.send(encoded(body, durable=True))
    world.wait(50)
    assert a.rig.queue("Q").count == 5
    reader = AmqpClient(AmqpHub(b.rig))
    reader.receiver("Q")
    reader.credit(10)
    world.wait(500)
    reader.read()
    assert reader.bodies() == numbers(5)
    assert a.rig.queue("Q").count == 0


def test_clients_of_several_protocols_share_what_one_sends() -> None:
    world, (a, b) = joined(2)
    here = AmqpClient(AmqpHub(a.rig))
    here.receiver("Q")
    here.credit(20)
    there = b.rig.reader("Q")
    world.wait(50)
    sender = AmqpClient(AmqpHub(a.rig))
    sender.sender("Q")
    for body in numbers(4):
        sender.send(encoded(body, durable=True))
    a.send("queue://Q", range(4, 10))
    world.wait(50)
    here.read()
    assert (len(here.messages()), len(there.deliveries)) == (5, 5)


def test_a_node_gives_all_to_one_of_its_group() -> None:
    world = Cluster()
    nodes = [
        world.node(number, [one for one in range(3) if one != number], group=group)
        for number, group in enumerate(("g", "other", "g"))
    ]
    for node in nodes:
        node.start()
    world.wait(100)
    leaving = nodes[0]
    leaving.send("queue://Q", range(20))
    leaving.act(lambda: leaving.rig.journal.confirm(Told(), b""))
    drain = Drain(leaving.connection, lambda who, what: leaving.said.append(what), "g")
    drain.connect(leaving._perform, leaving._carry)  # type: ignore[arg-type]
    leaving.act(lambda: drain.begin(""))
    world.wait(1000)
    assert drain.state is State.DONE, drain.report()
    assert nodes[2].rig.queue("Q").count == 20
    assert "Q" not in nodes[1].rig.broker.table.queues or nodes[1].rig.queue("Q").count == 0


def test_counters_say_where_messages_came() -> None:
    world, (a, b) = joined(2)
    readers = [node.rig.reader("Q") for node in (a, b)]
    world.wait(50)
    a.send("queue://Q", range(10))
    world.wait(50)
    for reader in readers:
        reader.ack()
    for node in (a, b):
        told = control(node.rig.broker, Census(), "queue.Q")
        assert (told.get("messagesAdded"), told.get("messagesAcknowledged"), told.get("messageCount")) == (5, 5, 0)


def test_large_headers_cross() -> None:
    world, (a, b) = joined(2)
    reader = b.rig.reader("Q")
    world.wait(50)
    a.send("queue://Q", [0], big="x" * 150_000)
    world.wait(50)
    (delivery,) = reader.deliveries
    assert len(delivery.message.raw) > 150_000
    assert "x" * 150_000 in (delivery.message.raw.decode("latin-1").replace("\0", ""))


def test_a_store_that_does_not_fit_in_memory_waits_on_disk_and_arrives_in_order_after_a_crash() -> None:
    count = 200
    world, (a, b) = joined(2, policies={"#": TINY})
    reader = b.rig.reader("topic://T")
    world.wait(50)
    world.part(a, b)
    a.send("topic://T", range(count))
    store = a.rig.queue(store_name("c", b.uuid))
    assert store.count == count
    a.leave(orderly=False)
    a.come_back()
    world.apart.clear()
    world.wait(5000)
    assert [one.body for one in reader.deliveries] == numbers(count)
