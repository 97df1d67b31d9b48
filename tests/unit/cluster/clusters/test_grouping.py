"""Message groups over a cluster: a group is read at one node, in its order (artemis.md 1.21)."""

from __future__ import annotations

import pytest

from clustered import Cluster, Node
from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.clusters import agreeing
from entrepot.cluster.clusters.agreeing import NOTES
from entrepot.cluster.clusters.holding import STORE
from entrepot.cluster.clusters.options import GroupingOptions
from kit import Reader

GROUP = "_AMQ_GROUP_ID"
COUNT = 10


def grouped(
    count: int = 3, *, local: int = 0, timeout: int = 1_000, forgets: int = 0, reaper: int = 100, **given: object
) -> tuple[Cluster, list[Node]]:
    """Return a cluster whose node ``local`` decides where groups go, -1 for nobody."""
    world = Cluster()
    nodes = []
    for number in range(count):
        options = GroupingOptions(
            local=number == local,
            timeout=timeout * MILLISECOND,
            forgets=forgets * MILLISECOND,
            reaper=reaper * MILLISECOND,
        )
        seeds = [one for one in range(count) if one != number]
        nodes.append(world.node(number, seeds, grouping=options, **given))
    for node in nodes:
        node.start()
    world.wait(100)
    return world, nodes


def got(readers: list[Reader]) -> list[list[str]]:
    return [[one.body for one in reader.deliveries] for reader in readers]


def waits(node: Node, name: str = STORE) -> int:
    queue = node.rig.broker.table.queues.get(name)
    return 0 if queue is None else int(queue.count)


@pytest.mark.parametrize("local", [0, 1])
def test_a_group_that_is_sent_everywhere_is_read_at_one_node_in_order(local: int) -> None:
    world, nodes = grouped(local=local)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    for number in range(12):
        nodes[number % 3].send("queue://Q", [number], **{GROUP: "g"})
        world.wait(20)
    assert sorted(got(readers)) == [[], [], [str(number) for number in range(12)]]
    assert all(waits(node) == 0 for node in nodes)


def test_groups_are_shared_out() -> None:
    world, nodes = grouped(3)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    for number in range(9):
        nodes[1].send("queue://Q", [number], **{GROUP: f"g{number}"})
    world.wait(200)
    assert [len(each) for each in got(readers)] == [3, 3, 3]


def test_what_comes_before_the_decision_waits_and_keeps_its_order() -> None:
    world, nodes = grouped(2)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    nodes[1].send("queue://Q", range(COUNT), **{GROUP: "g"})
    assert waits(nodes[1]) == COUNT
    world.wait(100)
    assert sorted(got(readers)) == [[], [str(number) for number in range(COUNT)]]


def test_the_rest_does_not_wait() -> None:
    world, nodes = grouped(2)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    nodes[1].send("queue://Q", range(4))
    world.wait(50)
    assert [len(each) for each in got(readers)] == [2, 2]


def test_a_consumer_that_goes_does_not_move_the_group() -> None:
    world, nodes = grouped(2, policies={"#": {"redistribution_delay": "0ms"}})
    here = nodes[0].rig.reader("Q")
    world.wait(50)
    nodes[1].send("queue://Q", [0], **{GROUP: "g"})
    world.wait(50)
    assert got([here]) == [["0"]]
    here.close()
    there = nodes[1].rig.reader("Q")
    world.wait(50)
    nodes[1].send("queue://Q", [1], **{GROUP: "g"})
    nodes[0].send("queue://Q", [2], **{GROUP: "g"})
    world.wait(500)
    assert (waits(nodes[0], "Q"), got([there])) == (3, [[]])


def test_decisions_survive_both_sides() -> None:
    world, nodes = grouped(2, local=0)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    for number in range(6):
        nodes[1].send("queue://Q", [number], **{GROUP: f"g{number}"})
    world.wait(100)
    decided = dict(nodes[0].rig.broker.notes.of(NOTES))
    assert len(decided) == 6
    for node in nodes:
        node.leave(orderly=False)
        node.come_back("crash")
    assert nodes[0].grouping is not None
    assert {key: pin.name for key, pin in nodes[0].grouping.agreement.pins.items()} == decided
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(2_000)
    for number in range(6):
        nodes[number % 2].send("queue://Q", [f"{number} again"], **{GROUP: f"g{number}"})
    world.wait(3_000)
    for at, node in enumerate(nodes):
        groups = {body.split()[0] for body in got(readers)[at]}
        assert groups == {key[1] for key, name in decided.items() if name.endswith(node.uuid)}


def test_what_waits_survives_a_crash_and_goes_on_in_order() -> None:
    world, nodes = grouped(2, local=0)
    nodes[1].rig.reader("Q")
    world.wait(50)
    nodes[0].leave(orderly=False)
    world.wait(50)
    nodes[1].send("queue://Q", range(COUNT), **{GROUP: "g"})
    world.wait(200)
    assert waits(nodes[1]) == COUNT
    nodes[1].leave(orderly=False)
    nodes[1].come_back("kill")
    reader = nodes[1].rig.reader("Q")
    nodes[1].send("queue://Q", range(COUNT, 2 * COUNT), **{GROUP: "g"})
    assert waits(nodes[1]) == 2 * COUNT
    nodes[0].come_back()
    world.wait(3_000)
    assert got([reader]) == [[str(number) for number in range(2 * COUNT)]]
    assert waits(nodes[1]) == 0


def test_when_nobody_decides_a_group_goes_to_one_queue_at_last() -> None:
    world, nodes = grouped(2, local=-1, timeout=100)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    nodes[0].send("queue://Q", range(COUNT), **{GROUP: "g"})
    world.wait(800)
    assert got(readers) == [[], []]
    world.wait(600)
    assert sorted(got(readers)) == [[], [str(number) for number in range(COUNT)]]
    assert any("AMQ222209" in one for one in nodes[0].said)


def test_a_group_whose_node_takes_leave_is_decided_anew() -> None:
    world, nodes = grouped(3, local=0)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    nodes[1].send("queue://Q", range(3), **{GROUP: "a"})
    nodes[1].send("queue://Q", range(3), **{GROUP: "b"})
    nodes[1].send("queue://Q", range(3), **{GROUP: "c"})
    world.wait(100)
    assert [len(each) for each in got(readers)] == [3, 3, 3]
    nodes[2].leave(orderly=True)
    world.wait(100)
    for group in ("a", "b", "c"):
        nodes[1].send("queue://Q", range(3, 6), **{GROUP: group})
    world.wait(3_000)
    assert sum(len(each) for each in got(readers[:2])) == 15
    assert waits(nodes[1]) == 0


@pytest.mark.parametrize("orderly", [False, True])
def test_a_group_beyond_a_node_that_goes_stays_where_it_is(orderly: bool) -> None:
    world = Cluster()
    nodes = []
    for number, seeds in enumerate([[1], [0, 2], [1, 3], [2]]):  # a line; the first one decides
        options = GroupingOptions(local=number == 0, timeout=60 * SECOND)
        nodes.append(world.node(number, seeds, grouping=options, max_hops=3, direct=True))
    for node in nodes:
        node.start()
    world.wait(100)
    readers = {3: nodes[3].rig.reader("Q")}
    world.wait(50)
    nodes[3].send("queue://Q", [0], **{GROUP: "g"})
    world.wait(50)
    assert got([readers[3]]) == [["0"]]
    readers[0] = nodes[0].rig.reader("Q")
    world.part(nodes[2], nodes[3])
    nodes[2].leave(orderly=orderly)
    nodes[2].come_back()
    world.wait(3_000)
    assert nodes[2].remote("Q") == [("Q", 2, 1)]  # of the first one: what is beyond it is not met yet
    nodes[0].send("queue://Q", [1], **{GROUP: "g"})
    nodes[2].send("queue://Q", [2], **{GROUP: "g"})
    world.wait(1_000)
    assert got([readers[0], readers[3]]) == [[], ["0"]]
    world.apart.clear()
    world.wait(5_000)
    (none, there) = got([readers[0], readers[3]])
    assert (none, sorted(there)) == ([], ["0", "1", "2"])
    assert not any("LOCAL grouping-handler too" in one for one in nodes[0].said)  # others told on what it had decided


def test_a_group_that_nobody_uses_is_forgotten() -> None:
    world, nodes = grouped(2, forgets=500)
    for node in nodes:
        node.rig.reader("Q")
    world.wait(50)
    nodes[1].send("queue://Q", [0], **{GROUP: "g"})
    world.wait(100)
    handlers = [node.grouping for node in nodes]
    assert all(one is not None and one.agreement.pins for one in handlers)
    world.wait(1_000)
    assert all(one is not None and not one.agreement.pins for one in handlers)
    assert not nodes[0].rig.broker.notes.of(NOTES)


def test_two_that_decide_are_noticed() -> None:
    world, nodes = grouped(2, local=0)
    world.node(2, [0, 1], grouping=GroupingOptions(local=True, timeout=SECOND)).start()
    third = next(node for node in world.nodes.values() if node.number == 2)
    world.wait(200)
    nodes[1].rig.reader("Q")
    world.wait(50)
    nodes[1].send("queue://Q", [0], **{GROUP: "g"})
    world.wait(200)
    assert any("LOCAL grouping-handler too" in one for one in [*nodes[0].said, *third.said])


def test_the_memory_of_a_handler_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreeing, "PINS_MAX", 5)
    world, nodes = grouped(2)
    readers = [node.rig.reader("Q") for node in nodes]
    world.wait(50)
    for number in range(20):
        nodes[1].send("queue://Q", [number], **{GROUP: f"g{number}"})
    world.wait(2_000)
    assert sum(len(each) for each in got(readers)) == 20
    assert all(node.grouping is not None and len(node.grouping.agreement.pins) <= 5 for node in nodes)


def test_a_subscription_in_one_place_does_not_wait() -> None:
    world, nodes = grouped(2, local=-1)
    reader = nodes[1].rig.reader("topic://T")
    world.wait(50)
    nodes[0].send("topic://T", range(3), **{GROUP: "g"})
    world.wait(50)
    assert got([reader]) == [["0", "1", "2"]]


@pytest.mark.parametrize(("node", "kind"), [(0, agreeing.PROPOSAL), (1, agreeing.RESPONSE)])
def test_what_another_node_says_of_groups_has_a_size(node: int, kind: str) -> None:
    _, nodes = grouped(2)
    handler = nodes[node].grouping
    assert handler is not None
    good = {agreeing.GROUP_ID: "g" * 1_000 + ".Q", agreeing.VALUE: "Q" * 100, agreeing.DISTANCE: 0}
    for more in ({}, {agreeing.GROUP_ID: "g" * 1_000_000}, {agreeing.VALUE: "Q" * 1_000_000}):
        handler.agreement.heard(kind, {**good, **more})
    handler.agreement.heard(kind, {**good, agreeing.GROUP_ID: "h", agreeing.OTHER_VALUE: "Q" * 1_000_000})
    assert list(handler.agreement.pins) == [good[agreeing.GROUP_ID]]
