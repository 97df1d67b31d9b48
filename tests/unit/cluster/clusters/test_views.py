"""What operators are shown of a cluster, and how queues of nodes that are gone are emptied."""

from __future__ import annotations

import pytest

from clustered import Node, joined
from entrepot.base.errors import InvalidDestination, Refused
from entrepot.base.primitive import BYTE, Primitive
from entrepot.cluster.clusters.options import Balancing
from entrepot.cluster.clusters.outlook import elsewhere
from entrepot.cluster.clusters.remotes import store_name
from entrepot.cluster.clusters.report import report, stores
from entrepot.cluster.clusters.stores import Cleaning, CleaningWork, owner_of
from entrepot.cluster.clusters.unresolved import STORE as UNRESOLVED
from entrepot.model.address import ANYCAST
from entrepot.model.told import remote_as


def codes(node: Node, name: str = "Q", *, topic: bool = False) -> list[str]:
    found = elsewhere(node.rig.broker, [node.connection], name, topic=topic, now=node.rig.now)
    return [row["code"] for row in found["reasons"]]  # type: ignore[attr-defined]


def rows(node: Node, name: str = "Q") -> list[dict[str, object]]:
    found = elsewhere(node.rig.broker, [node.connection], name, topic=False, now=node.rig.now)
    return found["rows"]  # type: ignore[return-value]


def clean(node: Node, name: str, *, discards: bool = False) -> dict[str, object]:
    work = CleaningWork(Cleaning(node.rig.broker, [node.connection], name, discards=discards))
    done: list[bool] = []
    while not done or not done[-1]:
        node.act(lambda: done.append(work.step()))
    return work.result()


def test_the_report_says_who_is_met_and_what_waits() -> None:
    world, (a, b, c) = joined(3)
    b.rig.reader("Q")
    world.wait(50)
    told = {row["node"]: row for row in report(a.connection, a.rig.now)["members"]}  # type: ignore[attr-defined]
    assert [told[one.uuid]["state"] for one in (a, b, c)] == ["here", "met", "met"]
    assert (told[b.uuid]["queues"], told[b.uuid]["consumers"], told[b.uuid]["way"]) == (1, 1, "open")
    world.part(a, b)
    a.send("queue://Q", range(3))
    world.wait(50)
    told = {row["node"]: row for row in report(a.connection, a.rig.now)["members"]}  # type: ignore[attr-defined]
    assert told[b.uuid]["state"] in ("waiting", "dialling")
    assert told[b.uuid]["way"] != "open"


def test_explaining_a_queue_that_nobody_reads_here() -> None:
    world, (a, b) = joined(2)
    a.send("queue://Q", range(3), colour="red")
    reader = b.rig.reader("Q", selector="colour = 'green'")
    world.wait(50)
    assert codes(a) == ["remote-selector"]
    assert rows(a)[0]["selectors"] == ["colour = 'green'"]
    reader.close()
    b.rig.reader("Q")
    world.wait(50)
    assert codes(a) == ["not-moved"]


def test_explaining_a_node_that_is_cut_off() -> None:
    world, (a, b) = joined(2)
    b.rig.reader("Q")
    world.wait(50)
    assert codes(a) == []
    world.part(a, b)
    world.wait(50)
    assert codes(a) == ["not-met", "way-down"]


def test_explaining_strict_and_off() -> None:
    for balancing, expected in ((Balancing.STRICT, ["strict-unread"]), (Balancing.OFF, ["kept-here"])):
        world, (a, b) = joined(2, balancing=balancing)
        b.rig.reader("Q").close()
        world.wait(50)
        assert codes(a) == expected


def test_explaining_what_a_node_cannot_hear_of() -> None:
    _, (a, _) = joined(2, max_hops=0)
    assert codes(a) == ["max-hops"]
    _, (a, _) = joined(2, address="eu")
    assert codes(a) == ["not-covered"]
    assert codes(a, "eu.1") == []
    _, (a, _) = joined(2, address="eu,!eu.uk")
    assert codes(a, "eu.de") == []
    assert codes(a, "eu.uk.1") == ["not-covered"]


def test_a_node_behind_others_needs_more_hops() -> None:
    from clustered import Cluster

    world = Cluster()
    nodes = [world.node(0, [1], direct=True), world.node(1, [2], direct=True), world.node(2, [])]
    for node in nodes:
        node.start()
    world.wait(200)
    nodes[2].rig.reader("Q")
    world.wait(50)
    assert "max-hops" in codes(nodes[0])


def test_the_store_of_a_node_that_never_comes_back_is_found_and_cleaned() -> None:
    world, (a, b) = joined(2)
    reader = b.rig.reader("Q")
    topic = b.rig.reader("topic://T")
    world.wait(50)
    name = store_name("c", b.uuid)
    with pytest.raises(Refused, match="is in the cluster"):
        Cleaning(a.rig.broker, [a.connection], name, discards=False)
    for cable in world.cables:
        cable.silent = True
    a.send("queue://Q", range(5))
    a.send("topic://T", range(2), _AMQ_ROUTING_TYPE=Primitive(BYTE, 0))
    assert a.rig.queue(name).count == 7
    assert reader.deliveries == topic.deliveries == []
    a.leave(orderly=False)
    b.leave(orderly=False)
    a.come_back()
    world.wait(50)
    assert [(row["messages"], row["orphaned"]) for row in stores(a.rig.broker, [a.connection])] == [(7, True)]
    done = clean(a, name)
    assert (done["resent"], done["dead_letters"], done["left"], done["deleted"]) == (5, 2, 0, True), done
    assert a.rig.queue("Q").count == 5
    assert stores(a.rig.broker, [a.connection]) == []
    a.leave(orderly=False)
    a.come_back()
    assert a.rig.queue("Q").count == 5
    assert name not in a.rig.broker.table.queues


def test_what_waits_for_a_queue_that_never_comes_back_is_found_and_cleaned() -> None:
    _, (a, _) = joined(2)
    unknown = remote_as("Q" + "x" * 36, ANYCAST, 77).to_bytes(8, "big", signed=True)
    a.send("queue://Q", range(3), _AMQ_ROUTE_TO=unknown)
    (row,) = [one for one in stores(a.rig.broker, [a.connection]) if one["orphaned"]]
    assert (row["queue"], row["messages"]) == (UNRESOLVED, 3)
    done = clean(a, UNRESOLVED)
    assert (done["resent"], done["left"], done["deleted"]) == (3, 0, True), done
    assert a.rig.queue("Q").count == 3
    assert UNRESOLVED not in a.rig.broker.table.queues


def test_what_is_no_store_is_not_cleaned() -> None:
    _, (a, _) = joined(2)
    a.rig.reader("Q")
    for name in ("Q", "$.artemis.internal.sf.c", store_name("c", "x" * 36)):
        with pytest.raises(InvalidDestination, match="no store-and-forward queue"):
            Cleaning(a.rig.broker, [a.connection], name, discards=False)
    assert owner_of(store_name("my.cluster", "x" * 36)) == ("my.cluster", "x" * 36)


def test_that_a_node_left_is_told_without_a_version() -> None:
    world, (a, b) = joined(2)
    b.leave(orderly=True)
    world.wait(50)
    packet = a.connection.members._packet(b.uuid)
    assert (packet.exit, packet.number(136), packet.number(125)) == (True, 114, 114)
