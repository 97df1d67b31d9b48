"""A backup that took over gives all to another node, for as long as that takes; whoever comes after it has the rest."""

from __future__ import annotations

import random

import pytest

from clustered import FIRST_PORT, Cluster, Node, joined
from entrepot.base.primitive import LONG, Primitive
from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters.drain_notes import NOTES, State
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.emptying import SAY_EVERY, Emptying, serve_the_rest
from entrepot.journal.ports import Waiter

COUNT = 60


class Told(Waiter):
    """A producer who waits for the disk."""

    def stored(self, token: bytes) -> None:
        pass


class Backup:
    """What of a node gives away; ``said``: what an operator was told, with whether it was bad news."""

    def __init__(self, node: Node, *direct: int, stays: bool = False) -> None:
        places = tuple(Endpoint("tcp", host="h", port=FIRST_PORT + one) for one in direct)
        self.node = node
        self.said: list[tuple[str, bool]] = []
        self.over: list[str] = []
        self.drain = Drain(node.connection, lambda who, what: None, announces=True, direct=places)
        self.drain.connect(node._perform, node._carry)  # type: ignore[arg-type]
        self.held = False
        self.emptying = Emptying(
            self.drain,
            lambda what, bad: self.said.append((what, bad)),
            self.over.append,
            may=lambda: not self.held,
            stays=stays,
        )
        node.act(self.emptying.start)

    def has_begun(self) -> bool:
        """Say whether something is at the target."""
        return any(way.arrived() for way in self.drain.ways.ways.values())

    def bad(self) -> list[str]:
        return [what for what, bad in self.said if bad]


def filled(nodes: int = 2) -> tuple[Cluster, list[Node]]:
    world, made = joined(nodes)
    made[0].send("queue://Q", range(COUNT))
    made[0].act(lambda: made[0].rig.journal.confirm(Told(), b""))
    world.wait(20)
    return world, made


def until_over(world: Cluster, backup: Backup, ms: int = 60_000) -> None:
    for _ in range(ms // 100):
        if backup.over:
            return
        world.wait(100)
    raise AssertionError(f"it does not end: {backup.drain.report()} {backup.said}")


def read(node: Node) -> list[str]:
    return [one.body for one in node.rig.reader("Q").deliveries]


def wanted() -> list[str]:
    return [str(one) for one in range(COUNT)]


def test_it_is_over_when_all_is_at_the_other_node() -> None:
    world, (a, b) = filled()
    backup = Backup(a)
    until_over(world, backup)
    assert read(b) == wanted()
    assert len(backup.over) == 1
    assert f"{COUNT} messages" in backup.over[0]
    assert backup.emptying.facts()["left"] == 0
    assert not backup.bad()


def test_without_a_target_it_waits_and_says_so_and_goes_on_when_there_is_one() -> None:
    world = Cluster()
    a = world.node(0, [1])
    a.start()
    a.send("queue://Q", range(COUNT))
    backup = Backup(a)
    world.wait(3 * SAY_EVERY // 1_000_000)
    assert len(backup.bad()) == 3
    assert f"{COUNT} messages wait here" in backup.bad()[0]
    assert backup.emptying.facts()["left"] == COUNT
    assert a.rig.queue("Q").count == COUNT
    b = world.node(1, [0])
    b.start()
    until_over(world, backup)
    assert read(b) == wanted()


def test_a_target_that_goes_is_waited_for_and_no_other_is_taken() -> None:
    world, (a, b, c) = filled(3)
    backup = Backup(a)
    while not backup.has_begun():
        world.wait(10)
    target, other = (b, c) if backup.drain.ways.node == b.uuid else (c, b)
    target.leave(orderly=False)
    world.wait(70_000)
    assert backup.bad()
    assert not backup.over
    assert "Q" not in other.rig.broker.table.queues
    target.come_back("kill")
    until_over(world, backup)
    assert read(target) == wanted()


@pytest.mark.parametrize("seed", range(8))
def test_one_that_is_killed_goes_on_with_whom_it_began(seed: int) -> None:
    """Of two places that it may give to, in whatever order they answer after each death."""
    lots = random.Random(seed)
    world, (a, b, c) = filled(3)
    a.send("queue://Q", ["later"], _AMQ_SCHED_DELIVERY=Primitive(LONG, a.rig.wall + 900_000))
    a.act(lambda: a.rig.journal.confirm(Told(), b""))
    backup = Backup(a, 1, 2)
    for _ in range(lots.randrange(1, 4)):
        for _ in range(lots.randrange(1, 12)):
            world.wait(10)
        a.leave(orderly=False)
        absent = lots.choice([b, c, None])
        if absent is not None:
            absent.leave(orderly=False)
        a.come_back(lots.choice(["kill", "crash"]))
        backup = Backup(a, *lots.sample([1, 2], 2))
        world.wait(lots.choice([10, 1_500]))
        if absent is not None:
            absent.come_back("kill")
        world.wait(lots.choice([10, 1_500]))
    until_over(world, backup)
    found = [read(one) if "Q" in one.rig.broker.table.queues else [] for one in (b, c)]
    assert sorted(found) == [[], wanted()]
    assert sorted(len(one.rig.broker.scheduled.schedules) for one in (b, c)) == [0, 1]


@pytest.mark.parametrize("crash", [False, True])
def test_whoever_has_the_store_after_it_serves_the_rest(crash: bool) -> None:
    world, (a, b) = filled()
    due = a.rig.wall + 50_000
    a.send("queue://Q", ["later"], _AMQ_SCHED_DELIVERY=Primitive(LONG, due))
    a.act(lambda: a.rig.journal.confirm(Told(), b""))
    world.part(a, b)  # nothing is on its way: what that may do is said in docs/clusters.md
    backup = Backup(a)
    a.act(backup.drain.ways.dated.take)
    assert len(a.rig.broker.scheduled.schedules) == 0, "it waits for the drain now"
    if not crash:
        a.act(backup.emptying.stop)
        assert backup.drain.state is State.INTERRUPTED
    a.act(lambda: a.rig.journal.confirm(Told(), b""))
    world.wait(20)
    a.leave(orderly=False)
    a.come_back("kill")
    drain = Drain(a.connection, lambda who, what: None)
    assert drain.state is State.INTERRUPTED
    said: list[str] = []
    a.act(lambda: said.append(serve_the_rest(a.rig.broker, drain)))
    assert "the rest is served here" in said[0]
    assert drain.report()["state"] == "aborted"
    assert not a.rig.broker.notes.of(NOTES)
    assert len(a.rig.broker.scheduled.schedules) == 1, "it has its date again"
    assert read(a) == wanted()
    assert serve_the_rest(a.rig.broker, None) == ""


def test_a_broker_in_no_cluster_serves_the_rest_too() -> None:
    world, (a, b) = filled()
    a.send("queue://Q", ["later"], _AMQ_SCHED_DELIVERY=Primitive(LONG, a.rig.wall + 50_000))
    world.part(a, b)
    a.act(Backup(a).drain.ways.dated.take)
    a.act(lambda: a.rig.journal.confirm(Told(), b""))
    world.wait(20)
    a.leave(orderly=False)
    a.come_back("kill")
    said: list[str] = []
    a.act(lambda: said.append(serve_the_rest(a.rig.broker, None)))
    assert said[0]
    assert len(a.rig.broker.scheduled.schedules) == 1


def test_what_an_operator_began_stays_his() -> None:
    world, (a, b) = filled()
    world.part(a, b)
    drain = Drain(a.connection, lambda who, what: None)
    drain.connect(a._perform, a._carry)  # type: ignore[arg-type]
    a.act(drain.begin)
    world.wait(100)
    a.leave(orderly=False)
    a.come_back("kill")
    assert serve_the_rest(a.rig.broker, None) == ""
    assert Drain(a.connection, lambda who, what: None).state is State.INTERRUPTED


def test_a_stop_in_order_lets_arrive_what_is_on_its_way_and_begins_nothing_more() -> None:
    world, (a, b) = filled()
    backup = Backup(a)
    while not backup.has_begun():
        world.wait(10)
    a.act(backup.emptying.stop)
    ended = False
    while not ended:  # as `Links.stop` does
        ended = all([way.drain(a.rig.now) for way in a.ways])  # noqa: C419 - each of them, whatever the others say
        world.wait(10)
    world.wait(5_000)
    there, here = b.rig.queue("Q").count, a.rig.queue("Q").count
    assert there + here == COUNT, "nothing is at both"
    assert not backup.over


def test_it_does_not_say_where_it_is() -> None:
    world = Cluster()
    a, b = world.node(0, [1]), world.node(1, [])
    b.start()
    a.connection.members.hidden = True
    a.start()
    a.send("queue://Q", range(COUNT))
    backup = Backup(a)
    until_over(world, backup)
    assert read(b) == wanted()
    assert a.uuid not in b.connection.topology.members


def test_nothing_moves_while_no_copy_would_know_of_it() -> None:
    world, (a, b) = filled()
    backup = Backup(a, stays=True)
    while not backup.has_begun():
        world.wait(10)
    backup.held = True
    world.wait(1_000)
    left = a.rig.queue("Q").count
    assert backup.drain.state is State.INTERRUPTED
    a.send("queue://Q", range(COUNT, COUNT + 5))
    world.wait(5_000)
    assert a.rig.queue("Q").count == left + 5
    assert "no other copy" in backup.bad()[0]
    assert len(backup.bad()) == 1
    backup.held = False
    until_over(world, backup)
    assert read(b) == [str(one) for one in range(COUNT + 5)]


def test_a_broker_that_stays_gives_away_what_comes_by_itself() -> None:
    world, (a, b) = filled()
    backup = Backup(a, stays=True)
    until_over(world, backup)
    assert "it waits for its primary" in backup.said[-1][0]
    a.send("queue://Q", range(COUNT, COUNT + 5))
    world.wait(3_000)
    assert read(b) == [str(one) for one in range(COUNT + 5)]
    assert len(backup.over) == 1
    world.wait(2 * SAY_EVERY // 1_000_000)
    assert not backup.bad(), "an empty store is nothing to complain of"
