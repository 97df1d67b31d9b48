"""A cluster connection that an operator stops and starts while the broker goes on."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from clustered import Node, connector, joined
from entrepot.base.errors import InvalidDestination
from entrepot.cluster.clusters.contact import State
from entrepot.cluster.clusters.groups import Found, Lost
from entrepot.cluster.clusters.outlook import elsewhere
from entrepot.cluster.clusters.remotes import store_name
from entrepot.cluster.clusters.report import report
from entrepot.config.model import BrokerConfig
from entrepot.core.operators.controls import control
from entrepot.management.census import OpenConnections
from entrepot.management.components import Components

COUNT = 20


class Shown:
    """What management knows of one node's clusters."""

    def __init__(self, node: Node) -> None:
        self.turn = self
        self.now = node.rig.now
        self.clusters = [node.connection]
        self.node = node

    def run(self, action: object) -> None:
        self.node.act(action)


def ask(node: Node, operation: str) -> object:
    links: Any = Shown(node)
    parts = Components([], {}, lambda: links, BrokerConfig)
    return control(node.rig.broker, OpenConnections([], parts=parts), "clusterconnection.c").call(operation, [])


def numbers(reader: Any) -> list[int]:
    return [int(one.body) for one in reader.deliveries]


def waiting(node: Node, name: str) -> int:
    queue = node.rig.broker.table.queues.get(name)
    return 0 if queue is None else int(queue.count)


def codes(node: Node) -> list[str]:
    found = cast(Any, elsewhere(node.rig.broker, [node.connection], "Q", topic=False, now=node.rig.now))
    return [row["code"] for row in found["reasons"]]


def test_what_is_sent_here_stays_here_while_it_is_stopped_and_the_others_still_send_to_it() -> None:
    world, (a, b) = joined(2)
    there = b.rig.reader("Q")
    world.wait(100)
    assert ask(a, "isStarted") is True
    assert ask(a, "stop") is None
    world.wait(100)
    assert ask(a, "isStarted") is False
    a.send("queue://Q", range(COUNT))
    world.wait(200)
    assert (numbers(there), waiting(a, "Q")) == ([], COUNT)
    assert (a.remote("Q"), a.connection.met()) == ([], [])
    there.close()
    here = a.rig.reader("Q")
    here.ack()
    world.wait(100)
    b.send("queue://Q", range(100, 100 + COUNT))
    world.wait(200)
    assert {one for one in numbers(here) if one >= 100}, "the other node knows this one as before"


def test_who_is_started_again_meets_all_and_sends_what_waited_once() -> None:
    world, (a, b) = joined(2)
    there = b.rig.reader("Q")
    world.wait(100)
    for cable in world.cables:
        cable.silent = True
    a.send("queue://Q", range(COUNT))
    world.wait(50)
    assert waiting(a, store_name("c", b.uuid)) == COUNT, "nothing passes, and nobody knows: it waits"
    ask(a, "stop")
    ask(a, "stop")
    world.wait(3000)
    assert (waiting(a, store_name("c", b.uuid)), numbers(there)) == (COUNT, [])
    ask(a, "start")
    ask(a, "start")
    world.wait(3000)
    assert a.connection.met() == [b.uuid]
    assert a.remote("Q") == [("Q", 1, 1)]
    assert (sorted(numbers(there)), waiting(a, store_name("c", b.uuid))) == (list(range(COUNT)), 0)


def test_again_and_again_under_traffic_nothing_is_lost_or_doubled() -> None:
    world, (a, b) = joined(2)
    there = b.rig.reader("Q")
    world.wait(100)
    sent = 0
    for turn in range(30):
        a.send("queue://Q", range(sent, sent + 3))
        sent += 3
        if turn % 2:
            world.wait(10 * (turn % 4))
        ask(a, "stop" if turn % 3 == 1 else "start")
    world.wait(3000)
    here = a.rig.reader("Q")
    world.wait(1000)
    came = numbers(there) + numbers(here)
    assert sorted(came) == list(range(sent))
    assert numbers(there), "some crossed"


def test_who_announced_itself_meanwhile_is_met_when_it_starts() -> None:
    world, (a, b) = joined(2)
    c = world.node(2, [])
    c.start()
    a.connection.suspend()
    a.connection.heard(Found(c.uuid, connector(2)))
    a.connection.heard(Found("gone", connector(3)))
    a.connection.heard(Lost("gone", connector(3)))
    world.wait(1000)
    assert a.connection.met() == []
    a.connection.resume()
    world.wait(1000)
    assert sorted(a.connection.met()) == sorted([b.uuid, c.uuid])
    assert all(not one.key.endswith(":7003") for one in a.connection.contacts.values())


def test_what_is_said_of_it() -> None:
    world, (a, b) = joined(2)
    notified = a.rig.reader("activemq.notifications", routing=2)
    b.rig.reader("Q")
    world.wait(100)
    ask(a, "stop")
    world.wait(50)
    assert codes(a) == ["stopped"]
    shown = cast(Any, report(a.connection, a.rig.now))
    assert shown["started"] is False
    assert {row["node"]: row["state"] for row in shown["members"]} == {a.uuid: "here", b.uuid: "stopped"}
    assert {one["state"] for one in shown["contacts"]} == {State.CLOSED.value}
    assert json.loads(str(ask(a, "getTopology")))[1]["state"] == "stopped"
    ask(a, "start")
    world.wait(1000)
    assert "stopped" not in codes(a)
    kinds = [str(one.message.common().properties["_AMQ_NotifType"]) for one in notified.deliveries]
    told = [one for one in kinds if one.startswith("CLUSTER_CONNECTION")]
    assert told == ["CLUSTER_CONNECTION_STOPPED", "CLUSTER_CONNECTION_STARTED"]


def test_the_end_of_the_broker_ends_a_stopped_one_too() -> None:
    world, (a, b) = joined(2)
    ask(a, "stop")
    a.leave(orderly=True)
    world.wait(500)
    assert b.known() == ["n1"]
    with pytest.raises(InvalidDestination):
        control(b.rig.broker, OpenConnections([]), "clusterconnection.c")
