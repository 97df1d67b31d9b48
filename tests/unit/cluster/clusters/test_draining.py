"""A node gives all to another one: nothing is lost, nothing comes twice, whoever crashes in the middle of it."""

from __future__ import annotations

import random

import pytest

from clustered import FIRST_PORT, Cable, Cluster, Node, joined
from entrepot.base.errors import Refused
from entrepot.base.primitive import BYTE, LONG, Primitive
from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters import draining
from entrepot.cluster.clusters.dated import SCHEDULED, Dated
from entrepot.cluster.clusters.drain_notes import State
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.remotes import store_name
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.journal.ports import Waiter
from entrepot.model.address import MULTICAST
from entrepot.protocols.artemis.linking.crossing import DATED, Crossing
from kit import Reader


class Told(Waiter):
    """A producer who waits for the disk."""

    def stored(self, token: bytes) -> None:
        pass


def store(node: Node) -> None:
    """Let whoever sent something be told that it is on disk."""
    node.act(lambda: node.rig.journal.confirm(Told(), b""))


def drain_of(node: Node, group: str = "", *, announces: bool = False) -> Drain:
    made = Drain(node.connection, lambda who, what: node.said.append(what), group, announces=announces)
    made.connect(node._perform, node._carry)  # type: ignore[arg-type]
    return made


def begin(node: Node, to: str = "") -> Drain:
    made = drain_of(node)
    node.act(lambda: made.begin(to))
    return made


def bodies(reader: Reader) -> list[str]:
    return [one.body for one in reader.deliveries]


def numbers(count: int, first: int = 0) -> list[str]:
    return [str(one) for one in range(first, first + count)]


def filled(count: int = 30, nodes: int = 2) -> tuple[Cluster, list[Node]]:
    world, made = joined(nodes)
    made[0].send("queue://Q", range(count))
    made[0].send("queue://R", range(count, count + 5))
    store(made[0])
    world.wait(20)
    return world, made


def test_all_queues_go_to_the_other_node_in_order() -> None:
    world, (a, b) = filled()
    drain = begin(a)
    world.wait(1_000)
    told = drain.report()
    assert (drain.state, told["moved"], told["left"]) == (State.DONE, 35, 0), told
    assert bodies(b.rig.reader("Q")) == numbers(30)
    assert bodies(b.rig.reader("R")) == numbers(5, 30)
    assert a.rig.queue("Q").count == 0


def test_a_node_can_be_named_by_id_and_place() -> None:
    for name in (lambda node: node.uuid, lambda node: "h:7002"):
        world, (a, b, c) = filled(5, nodes=3)
        begin(a, name(c))
        world.wait(1_000)
        assert [c.rig.queue("Q").count, "Q" in b.rig.broker.table.queues] == [5, False]
    with pytest.raises(Refused, match="has no other node 'x'"):
        drain_of(a).begin("x")


def test_subscriptions_and_their_filters_go_too() -> None:
    world, (a, b) = joined(2)
    for name, selector in (("s1", ""), ("s2", "i > 2")):
        a.rig.broker.queues.create(QueueDefinition(name=name, address="T", routing=MULTICAST, selector=selector))
    world.wait(50)
    for number in range(5):
        a.send("topic://T", [number], i=number)
    world.part(a, b)  # what is sent must not be shared out by the cluster: it waits here
    a.said.clear()
    world.apart.clear()
    world.wait(1_000)
    begin(a)
    world.wait(2_000)
    assert [b.rig.queue("s1").count, b.rig.queue("s2").count] == [5, 2]
    assert b.rig.queue("s2").definition.selector == "i > 2"
    assert b.rig.queue("s1").definition.routing == a.rig.queue("s1").definition.routing


@pytest.mark.parametrize("cut", [True, False])
def test_a_place_is_the_node_that_it_says_it_is_whatever_it_tells_of_members_first(
    cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Artemis tells of members in any order, and none of them may call its place what is dialled."""
    told = iter(range(100))
    monkeypatch.setattr(draining, "node_at", lambda client, place: f"member {next(told)}")
    world, (a, b) = filled(400)
    place = Endpoint("tcp", host="h", port=FIRST_PORT + b.number)
    drain = Drain(a.connection, lambda who, what: a.said.append(what), direct=(place,))
    drain.connect(a._perform, a._carry)  # type: ignore[arg-type]
    a.act(drain.begin)
    for _ in range(100):
        if drain.ways.moved:
            break
        world.wait(10)
    if cut:
        for cable in world.cables:
            if cable.near is a:
                cable.break_off("cut")
    world.wait(3_000)
    assert (drain.state, drain.ways.node) == (State.DONE, b.uuid), drain.report()
    assert bodies(b.rig.reader("Q")) == numbers(400)


def test_what_waits_for_its_date_keeps_it() -> None:
    world, (a, b) = joined(2)
    due = a.rig.wall + 5_000
    a.send("queue://Q", ["later"], _AMQ_SCHED_DELIVERY=Primitive(LONG, due))
    assert len(a.rig.broker.scheduled.schedules) == 1
    drain = begin(a)
    world.wait(1_000)
    assert (drain.state, len(a.rig.broker.scheduled.schedules), len(b.rig.broker.scheduled.schedules)) == (
        State.DONE,
        0,
        1,
    )
    reader = b.rig.reader("Q")
    world.wait(2_000)
    assert bodies(reader) == []
    world.wait(3_000)
    assert bodies(reader) == ["later"]


def test_an_aborted_drain_leaves_the_rest_and_its_dates_here() -> None:
    world, (a, b) = filled()
    due = a.rig.wall + 5_000
    a.send("queue://Q", ["later"], _AMQ_SCHED_DELIVERY=Primitive(LONG, due))
    world.part(a, b)
    drain = begin(a)
    world.wait(500)
    assert drain.report()["left"] == 36
    with pytest.raises(Refused, match="is under way"):
        drain.begin()
    a.act(drain.abort)
    assert drain.state is State.ABORTED
    assert a.rig.queue("Q").count == 30
    assert len(a.rig.broker.scheduled.schedules) == 1
    with pytest.raises(Refused, match="nothing to abort"):
        drain.abort()
    with pytest.raises(Refused, match="nothing to resume"):
        drain.resume()


def test_a_drain_that_is_aborted_while_it_dials_moves_nothing() -> None:
    world, (a, b) = filled()
    drain = begin(a)
    a.act(drain.abort)
    world.wait(1_000)
    assert drain.state is State.ABORTED
    assert (a.rig.queue("Q").count, b.rig.broker.table.queues.get("Q")) == (30, None)


def test_without_another_node_it_fails_and_can_be_resumed() -> None:
    world = Cluster()
    a = world.node(0, [1])
    a.start()
    a.send("queue://Q", range(3))
    drain = begin(a)
    world.wait(11_000)
    assert drain.state is State.FAILED
    assert "AMQ222181" in drain.why
    b = world.node(1, [0])
    b.start()
    world.wait(3_000)
    a.act(drain.resume)
    world.wait(1_000)
    assert drain.state is State.DONE
    assert b.rig.queue("Q").count == 3


def test_a_queue_is_made_there_as_it_is_here() -> None:
    world, (a, b) = joined(2)
    made = QueueDefinition(
        name="s",
        address="T",
        routing=MULTICAST,
        selector="i > 2",
        user="lisa",
        max_consumers=1,
        ring_size=9,
        exclusive=True,
    )
    a.rig.broker.queues.create(made)
    world.part(a, b)
    a.send("topic://T", [1], i=3)
    world.apart.clear()
    world.wait(1_000)
    begin(a)
    world.wait(2_000)
    assert b.rig.queue("s").definition == made
    assert b.rig.queue("s").count == 1


def test_what_the_disk_here_does_not_know_has_not_moved_and_a_crash_may_bring_it_back() -> None:
    """It was counted when the target's disk had it: after a crash it was here, and whoever had it next served it."""
    world, (a, b) = filled(400)
    drain = begin(a)
    disk = a.rig.disk
    assert disk is not None

    def spoil(cable: Cable) -> None:
        disk.fail_syncs = disk.fail_syncs or bool(drain.ways.ways)

    world.watch = spoil
    world.wait(200)
    there = int(b.rig.queue("Q").count)
    told = drain.report()
    assert there > 0, "it is on its way"
    assert (told["moved"], told["left"]) == (0, 405), told
    world.watch = lambda cable: None
    a.leave(orderly=False)
    disk.fail_syncs = False
    a.come_back("crash")
    world.wait(1_000)
    drain = drain_of(a)
    a.act(drain.resume)
    world.wait(1_000)
    assert drain.state is State.DONE, drain.report()
    assert bodies(b.rig.reader("Q")) == numbers(400), "each is there once"


def test_what_cannot_move_is_named() -> None:
    world, (a, _) = filled(2)
    a.rig.broker.queues.create(QueueDefinition(name="t", address="t", temporary=True))
    a.send("queue://t", range(2), _AMQ_ROUTING_TYPE=Primitive(BYTE, 1))
    drain = begin(a)
    assert [(row["queue"], row["messages"], bool(row["stays"])) for row in drain.plan()] == [
        ("Q", 2, False),
        ("R", 5, False),
        ("t", 2, True),
    ]
    world.wait(1_000)
    assert (drain.state, a.rig.queue("t").count) == (State.DONE, 2)


def test_the_target_is_told_that_it_stands_for_the_node() -> None:
    world, (a, b) = filled(2)
    b.connection.members.awaits = True
    assert not b.connection.members.stands_for(a.uuid)
    drain = drain_of(a, announces=True)
    a.act(drain.begin)
    world.wait(1_000)
    assert drain.state is State.DONE
    assert b.connection.members.stands_for(a.uuid)


@pytest.mark.parametrize("at_once", [False, True])
def test_two_nodes_do_not_give_each_other_all_that_they_have(at_once: bool) -> None:
    world, (a, b) = filled(30)
    b.send("queue://S", range(10))
    first, second = drain_of(a), drain_of(b)
    a.drain, b.drain = first, second
    a.act(lambda: first.begin(b.uuid))
    world.wait(0 if at_once else 30)
    b.act(lambda: second.begin(a.uuid))
    world.wait(3_000)
    states = {first.state, second.state}
    assert State.FAILED in states
    assert states <= {State.FAILED, State.DONE}
    failed = second if second.state is State.FAILED else first
    assert "gives all that it has to" in failed.why
    queues = [node.rig.broker.table.queues.get(name) for node in (a, b) for name in "QRS"]
    assert sum(int(one.count) for one in queues if one is not None) == 45


def test_who_gives_all_away_is_no_target_where_none_was_named() -> None:
    world, (a, b, c) = filled(30, nodes=3)
    b.drain = drain_of(b)
    b.drain.state = State.MOVING
    c.drain = drain_of(c)
    drain = begin(a)
    world.wait(3_000)
    assert (drain.state, drain.ways.node, c.rig.queue("Q").count) == (State.DONE, c.uuid, 30)


@pytest.mark.parametrize("on_its_way", [False, True])
@pytest.mark.parametrize("crash", ["", "a", "b"])
def test_what_waits_for_a_third_node_goes_on_to_it_and_to_nobody_else(on_its_way: bool, crash: str) -> None:
    world, (a, b, c) = joined(3)
    for node, name in ((b, "near"), (c, "far")):
        node.rig.broker.queues.create(QueueDefinition(name=name, address="T", routing=MULTICAST))
    world.wait(100)
    if on_its_way:  # c has them already, and its answers are lost
        a.send("topic://T", range(10))
    world.part(a, c)
    a.send("topic://T", range(10, 40))
    world.wait(100)
    drain = begin(a, b.uuid)
    for node in (a, b):
        if crash == node.name:
            world.wait(20)
            node.leave(orderly=False)
            world.wait(100)
            node.come_back("kill")
            world.wait(100)
    if crash == "a":
        drain = drain_of(a)
        if drain.state is State.INTERRUPTED:
            a.act(drain.resume)
        elif drain.state is State.IDLE:
            a.act(lambda: drain.begin(b.uuid))
    world.wait(40_000)
    told = drain.report()
    assert (drain.state, told["left"]) == (State.DONE, 0), told
    assert bodies(b.rig.reader("near")) == numbers(40 if on_its_way else 30, 0 if on_its_way else 10)
    far = bodies(c.rig.reader("far"))
    assert sorted(set(far), key=int) == numbers(40 if on_its_way else 30, 0 if on_its_way else 10)
    assert on_its_way or len(far) == 30


def test_what_waits_for_a_third_node_that_the_target_does_not_know_waits_there_for_it() -> None:
    """It went to all subscriptions of the target, and never to its own."""
    world, (a, b, c) = joined(3)
    for node, name in ((b, "near"), (c, "far")):
        node.rig.broker.queues.create(QueueDefinition(name=name, address="T", routing=MULTICAST))
    world.wait(100)
    c.leave(orderly=False)
    a.send("topic://T", range(10))
    world.wait(100)
    b.leave(orderly=False)
    b.come_back("kill")  # it has not met c since
    world.wait(1_000)
    drain = begin(a, b.uuid)
    world.wait(5_000)
    assert (drain.state, drain.report()["left"]) == (State.DONE, 0)
    c.come_back("kill")
    world.wait(10_000)
    assert bodies(b.rig.reader("near")) == numbers(10)
    assert bodies(c.rig.reader("far")) == numbers(10)


def test_what_has_a_date_is_known_by_one_id_when_an_aborted_drain_begins_anew() -> None:
    """It had another number then: what had arrived unsaid before the abort came there twice."""
    _, (a, _) = joined(2)
    broker = a.rig.broker
    a.send("queue://Q", ["later"], _AMQ_SCHED_DELIVERY=Primitive(LONG, a.rig.wall + 50_000))
    crossing = Crossing(broker, "", "PASS", deduplicates=True, mark=SCHEDULED.encode(), route=DATED)
    made = Dated(broker)
    ids = []
    for _ in range(3):
        a.act(made.take)
        ids.append(crossing.duplicate_id(broker.table.queues[SCHEDULED].stock.walk().step(1)[0].message))
        a.act(made.give_back)
    assert len(set(ids)) == 1


def test_a_drain_is_done_when_the_disk_here_knows_it() -> None:
    """A crash brought back what the target had, and consumers here were given it again."""
    world, (a, b) = filled(5)
    drain = begin(a)
    for _ in range(200):
        world.wait(10)
        if drain.state is State.DONE:
            break
    a.leave(orderly=False)
    a.come_back("crash")
    left = a.rig.broker.table.queues.get("Q")
    assert left is None or left.count == 0
    assert b.rig.queue("Q").count == 5


@pytest.mark.parametrize("seed", range(8))
def test_whoever_crashes_nothing_is_lost_and_nothing_comes_twice(seed: int) -> None:
    lots = random.Random(seed)
    world, (a, b) = filled(200)
    due = a.rig.wall + 25_000
    a.send("queue://Q", ["later"], _AMQ_SCHED_DELIVERY=Primitive(LONG, due))
    store(a)
    drain = begin(a)
    for _ in range(lots.randrange(1, 4)):
        for _ in range(lots.randrange(1, 12)):
            world.wait(10)
            if lots.random() < 0.3 and world.cables:
                world.cables[lots.randrange(len(world.cables))].break_off("cut")
        victim = lots.choice([a, b])
        victim.leave(orderly=False)
        world.wait(lots.choice([10, 700]))
        victim.come_back(lots.choice(["kill", "crash"]))
        world.wait(lots.choice([10, 1_500]))
        if victim is a:
            drain = drain_of(a)
            if drain.state is State.INTERRUPTED:
                a.act(drain.resume)
            else:
                assert drain.state in (State.IDLE, State.DONE)
                if any(one.count for one in a.rig.broker.table.queues.values()):
                    a.act(drain.begin)
    world.wait(7_000)
    left = [a.rig.broker.table.queues.get(name) for name in "QR"]  # what is empty may be gone after a restart
    assert [one for one in left if one is not None and one.count] == [], drain.report()
    assert bodies(b.rig.reader("R")) == numbers(5, 200)
    reader = b.rig.reader("Q")
    world.wait(25_000)
    assert bodies(reader) == [*numbers(200), "later"]


def test_it_is_not_done_while_a_bridge_of_the_cluster_has_something_for_the_target() -> None:
    world, (a, b) = joined(2)
    reader = b.rig.reader("Q")
    world.wait(50)
    stored = a.rig.queue(store_name("c", b.uuid))
    stored.gate.pause()
    a.send("queue://Q", range(30))
    drain = begin(a)
    world.wait(3_000)
    assert (drain.state, drain.report()["left"], bodies(reader)) == (State.MOVING, 30, [])
    assert "30 messages wait for nodes of the cluster" in drain.why
    progress = drain.progress
    a.act(stored.dispatcher.resume)
    world.wait(1_000)
    assert (drain.state, drain.report()["left"], bodies(reader)) == (State.DONE, 0, numbers(30))
    assert drain.progress != progress, "who waits for a standstill sees that something moves"
