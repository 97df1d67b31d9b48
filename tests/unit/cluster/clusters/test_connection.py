"""Nodes that find one another, leave and return; and what their clients are told."""

from __future__ import annotations

import pytest

from clustered import FIRST_PORT, Cluster, Node, connector
from entrepot.cluster.clusters.contact import Opened, State
from entrepot.cluster.clusters.members import SETTLING, Credentials
from entrepot.cluster.clusters.topology import Member
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.packets import ClusterTopology


class Looking(Onlooker):
    """A client that asked for the topology."""

    def __init__(self) -> None:
        self.packets: list[ClusterTopology] = []
        self.slow = False

    def tell(self, packet: ClusterTopology) -> None:
        self.packets.append(packet)

    def is_slow(self) -> bool:
        return self.slow

    def called(self) -> str:
        return "client:1"


def cluster(count: int, seeds: list[list[int]]) -> tuple[Cluster, list[Node]]:
    world = Cluster()
    nodes = [world.node(number, seeds[number]) for number in range(count)]
    for node in nodes:
        node.start()
    return world, nodes


def test_nodes_behind_a_listed_one_are_learnt() -> None:
    world, nodes = cluster(3, [[1], [2], [1]])
    world.wait(1500)
    assert [node.known() for node in nodes] == [["n0", "n1", "n2"]] * 3


def test_who_dials_nobody_knows_who_dialled_it() -> None:
    world, nodes = cluster(3, [[1], [2], []])
    world.wait(1500)
    assert [node.known() for node in nodes] == [["n0", "n1", "n2"], ["n0", "n1", "n2"], ["n0", "n1", "n2"]]
    assert nodes[2].connection.contacts == {}


def test_a_node_that_was_not_there_is_found_when_it_comes() -> None:
    world, [first] = cluster(1, [[1]])
    world.wait(1000)
    assert first.known() == ["n0"]
    second = world.node(1, [])
    second.start()
    world.wait(1000)
    assert first.known() == second.known() == ["n0", "n1"]


def test_an_orderly_leave_is_told_and_a_crash_is_not() -> None:
    world, (a, b, c) = cluster(3, [[1], [2], [0]])
    world.wait(1500)
    c.leave(orderly=False)
    world.wait(500)
    assert a.known() == ["n0", "n1", "n2"], "a dead primary may come back, or its backup may serve"
    b.leave(orderly=True)
    world.wait(500)
    assert a.known() == ["n0", "n2"]


def test_who_has_other_credentials_stays_out_and_both_sides_say_it() -> None:
    world = Cluster()
    a, b = world.node(0, [1]), world.node(1, [], credentials=Credentials("cluster", "other"))
    a.start()
    b.start()
    world.wait(3000)
    assert (a.known(), b.known()) == (["n0", "n1"], ["n1"]), "anybody may ask who is there; nobody else is taken in"
    assert len([one for one in b.said if "is not admitted" in one]) == 1
    assert len([one for one in a.said if "does not admit this broker" in one]) == 1
    (contact,) = a.connection.contacts.values()
    assert contact.state is State.WAITING


def test_a_copied_data_directory_is_refused_with_the_reason() -> None:
    world = Cluster()
    a, b = world.node(0, [1], seed=9), world.node(1, [0], seed=9)
    assert a.uuid == b.uuid
    a.start()
    b.start()
    world.wait(1000)
    assert (a.known(), b.known()) == (["n0"], ["n1"])
    for node in (a, b):
        assert len([one for one in node.said if "data directory is a copy" in one]) == 1


def test_a_node_that_lists_itself_does_not_dial() -> None:
    world, [first] = cluster(1, [[0]])
    world.wait(100)
    assert first.connection.contacts == {}


@pytest.mark.parametrize("first_told", [0, 2])
def test_a_place_that_nobody_calls_his_is_asked_who_it_is(monkeypatch: pytest.MonkeyPatch, first_told: int) -> None:
    """A real Artemis tells of members in any order: the first one need not be itself, and may be who dials."""
    world = Cluster()
    nodes = [world.node(number, seeds) for number, seeds in enumerate(([9], [2], []))]
    world.nodes[FIRST_PORT + 9] = nodes[1]  # as behind a gate, whose place no member says
    greeted = Opened.greeted

    def in_any_order(opened: Opened, client: CoreClient) -> None:
        client.node = nodes[first_told].uuid
        greeted(opened, client)

    monkeypatch.setattr(Opened, "greeted", in_any_order)
    for node in reversed(nodes):
        node.start()
        world.wait(1000)
    world.wait(3000)
    (there,) = [one for one in nodes[0].connection.contacts.values() if one.place.port == FIRST_PORT + 9]
    assert there.node == nodes[1].uuid
    assert nodes[0].known() == ["n0", "n1", "n2"]
    met = [one.node for one in nodes[0].connection.contacts.values() if one.state is State.MET]
    assert sorted(met) == sorted([nodes[1].uuid, nodes[2].uuid])


def test_clients_are_told_all_members_and_then_each_change_once() -> None:
    world, (a, b) = cluster(2, [[1], []])
    world.wait(3000)
    looking = Looking()
    a.connection.members.look(looking)
    assert [one.last for one in looking.packets] == [False, True]
    assert {one.node for one in looking.packets} == {a.uuid, b.uuid}
    looking.packets.clear()
    for event in range(5000):
        b_again = Member(b.uuid, b.connection.topology.own.event + 1 + event, connector(1))
        a.connection.topology.update(b_again)
    a.rig.wait(2 * SETTLING // 1_000_000)
    (told,) = looking.packets
    assert (told.node, told.last, told.event) == (b.uuid, False, b_again.event)


def test_who_does_not_read_waits_with_its_changes_and_not_with_packets() -> None:
    world, (a, b) = cluster(2, [[1], []])
    world.wait(3000)
    looking = Looking()
    a.connection.members.look(looking)
    looking.packets.clear()
    looking.slow = True
    b.leave(orderly=True)
    a.rig.wait(1000)
    assert looking.packets == []
    looking.slow = False
    a.rig.wait(1000)
    assert [(one.exit, one.node) for one in looking.packets] == [(True, b.uuid)]
    a.connection.members.forget(looking)
    a.connection.topology.announce(0)
    a.rig.wait(100)
    assert len(looking.packets) == 1


def test_processes_of_one_broker_meet_and_their_clients_are_told_of_one_node_without_a_place() -> None:
    world = Cluster()
    nodes = [world.node(number, [], ways=[1 - number]) for number in (0, 1)]
    for node in nodes:
        node.start()
    world.wait(1000)
    assert [node.known() for node in nodes] == [["n0", "n1"]] * 2
    for node in nodes:
        client = Looking()
        members = node.connection.members
        members.look(client)
        world.wait(1000)
        [packet] = client.packets
        assert (packet.node, packet.primary, packet.last) == (members.node, None, True)
        members.forget(client)
        [other] = [one for one in node.connection.topology.members.values() if one.node != members.node]
        assert node.connection.place_of(other) is not None, "a drain finds it"
