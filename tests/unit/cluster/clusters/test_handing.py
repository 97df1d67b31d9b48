"""A node that gives all away gives its prepared branches, too: each is at one node or the other, and ends there."""

from __future__ import annotations

from typing import Final

import pytest

from clustered import Cluster, Node, joined
from entrepot.base.errors import StorageError
from entrepot.cluster.clusters.drain_notes import State
from entrepot.cluster.clusters.draining import Drain
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.transactions.transaction import Transaction
from entrepot.model import address as names
from entrepot.model.address import MULTICAST
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.artemis.transacting import key_of
from unit.cluster.clusters.test_draining import begin, bodies, drain_of, store

KEY: Final = key_of(Xid(7, b"whole", b"part"))


def prepared(node: Node, key: bytes = KEY, *, sends: int = 2, takes: int = 2, user: str = "jo") -> None:
    """Prepare a branch at ``node``: it sends to ``out``, and takes the first of five of ``in``."""
    node.send("queue://in", [f"in {number}" for number in range(5)])
    rig = node.rig
    reader = rig.reader("in", max(takes, 1))
    transaction = Transaction("x")

    def act() -> None:
        for number in range(sends):
            transaction.send(rig.message(f"out {number}", "out"), rig.broker.target(names.parse("queue://out")))
        for each in reader.deliveries[:takes]:
            transaction.settle(each.consumer, each.number)
        rig.broker.branches.prepare(transaction, key, user)

    node.act(act)
    reader.close()
    store(node)


def ready(**given: int) -> tuple[Cluster, Node, Node]:
    world, (a, b) = joined(2)
    prepared(a, **given)
    world.wait(20)
    return world, a, b


def ended(world: Cluster, node: Node, *, commits: bool, key: bytes = KEY) -> tuple[list[str], list[tuple[str, int]]]:
    """End the branch at ``node``; return what is in ``out`` then, and what in ``in``, with how often it was tried."""
    branches = node.rig.broker.branches
    node.act(lambda: branches.commit(key) if commits else branches.roll_back(key))
    world.wait(100)
    node.rig.broker.check()
    queues = node.rig.broker.table.queues
    out = bodies(node.rig.reader("out")) if "out" in queues else []
    taken = [(one.body, one.deliveries) for one in node.rig.reader("in").deliveries] if "in" in queues else []
    return out, sorted(taken)


REST: Final = [("in 2", 0), ("in 3", 0), ("in 4", 0)]
COMMITTED: Final = (["out 0", "out 1"], REST)


@pytest.mark.parametrize("restarted", ["", "source", "target"])
@pytest.mark.parametrize("commits", [False, True])
def test_a_branch_goes_with_what_it_sends_and_what_it_has_taken(commits: bool, restarted: str) -> None:
    world, a, b = ready()
    if restarted == "source":
        a.come_back()
        world.wait(2_000)
    drain = begin(a)
    world.wait(2_000)
    assert (drain.state, a.rig.broker.branches.prepared) == (State.DONE, {}), drain.report()
    assert drain.report()["branches"] == [
        {"xid": "XID:[7,globalId=77686f6c65,branchId=70617274]", "state": "moved", "why": ""}
    ]
    assert b.rig.broker.branches.prepared[KEY].user == "jo"
    assert a.rig.queue("in").count == 0
    assert a.rig.journal.usage().messages == 0
    if restarted == "target":
        b.come_back()
        world.wait(2_000)
    out, taken = ended(world, b, commits=commits)
    assert out == (COMMITTED[0] if commits else [])
    assert [body for body, _ in taken] == [f"in {number}" for number in range(2 if commits else 0, 5)]


def test_what_comes_back_at_the_target_was_tried_as_often_as_it_was_here() -> None:
    world, (a, b) = joined(2)
    a.send("queue://in", ["x"])
    reader = a.rig.reader("in", 1)
    a.act(lambda: reader.fail(reader.deliveries[0]) if hasattr(reader, "fail") else None)
    taken = reader.deliveries[-1]
    transaction = Transaction("x")

    def act() -> None:
        transaction.settle(taken.consumer, taken.number)
        a.rig.broker.branches.prepare(transaction, KEY)

    a.act(act)
    (hold,) = a.rig.broker.branches.prepared[KEY].holds
    assert hold.reference is not None
    hold.reference.deliveries = 3
    reader.close()
    store(a)
    begin(a)
    world.wait(1_000)
    (there,) = b.rig.broker.branches.prepared[KEY].holds
    assert there.reference is not None
    assert there.reference.deliveries == 3


@pytest.mark.parametrize("who", ["source", "target", "cut"])
@pytest.mark.parametrize("after_ms", range(0, 260, 10))
@pytest.mark.parametrize("commits", [False, True])
def test_whoever_crashes_whenever_a_branch_ends_once(who: str, after_ms: int, commits: bool) -> None:
    world, a, b = ready()
    drain = begin(a)
    world.wait(after_ms)
    if who == "cut":
        world.part(a, b)
        world.wait(100)
        world.apart.clear()
    else:
        (a if who == "source" else b).come_back()
    world.wait(3_000)
    if who == "source":
        drain = drain_of(a)
        if drain.state is State.INTERRUPTED:
            a.act(drain.resume)
        elif a.rig.broker.branches.prepared:
            a.act(lambda: drain.begin(""))
    world.wait(8_000)
    holders = [one for one in (a, b) if KEY in one.rig.broker.branches.prepared]
    assert holders == [b], drain.report()
    out, taken = ended(world, b, commits=commits)
    assert out == (COMMITTED[0] if commits else [])
    assert [body for body, _ in taken] == [f"in {number}" for number in range(2 if commits else 0, 5)]


def half_given() -> tuple[Cluster, Node, Node]:
    """Return two nodes of which the second has prepared the branch, and the first was not told so."""
    world, a, b = ready()
    begin(a)
    for _ in range(400):
        world.wait(10)
        if KEY in b.rig.broker.branches.prepared:
            break
    if KEY in a.rig.broker.branches.prepared:
        a.come_back()
        return world, a, b
    pytest.fail("it was let go of in the same step: the test is of no use")


def test_a_branch_that_was_given_is_ended_by_no_coordinator_here() -> None:
    world, a, _ = ready()
    a.act(lambda: a.rig.broker.branches.give(KEY, "n9", b"t" * 16))
    for end in (a.rig.broker.branches.commit, a.rig.broker.branches.roll_back):
        with pytest.raises(StorageError, match="moves to the node n9"):
            end(KEY)
    store(a)
    world.wait(50)
    a.come_back()
    with pytest.raises(StorageError, match="moves to the node n9"):
        a.rig.broker.branches.commit(KEY)
    drain = begin(a)
    world.wait(3_000)
    assert drain.state is State.DONE
    (row,) = drain.report()["branches"]  # type: ignore[misc]
    assert row["state"] == "given to n9"
    assert "was given it, and may have it" in row["why"]
    a.rig.broker.branches.reclaim(KEY)
    a.act(lambda: a.rig.broker.branches.commit(KEY))
    assert a.rig.broker.branches.prepared == {}


@pytest.mark.parametrize("commits", [False, True])
def test_a_branch_that_was_ended_at_the_target_before_this_node_heard_of_it_is_not_given_again(commits: bool) -> None:
    world, a, b = ready()
    token = b"t" * 16
    a.act(lambda: a.rig.broker.branches.give(KEY, b.uuid, token))
    store(a)
    transaction = Transaction("x")
    transaction.token = token
    b.act(lambda: b.rig.broker.branches.prepare(transaction, KEY))
    store(b)
    world.wait(50)
    b.act(lambda: b.rig.broker.branches.commit(KEY) if commits else b.rig.broker.branches.roll_back(KEY))
    drain = begin(a)
    world.wait(2_000)
    assert drain.state is State.DONE
    assert (a.rig.broker.branches.prepared, b.rig.broker.branches.prepared) == ({}, {})
    assert b.rig.queue("in").count == 3, "what the branch had taken is not there a second time"


def test_a_branch_of_the_same_name_at_the_target_is_another_one() -> None:
    world, a, b = ready()
    prepared(b, sends=1, takes=0)
    drain = begin(a)
    world.wait(3_000)
    assert drain.state is State.DONE
    assert list(a.rig.broker.branches.prepared) == [KEY]
    (row,) = drain.report()["branches"]  # type: ignore[misc]
    assert (row["state"], row["why"]) == (
        "here",
        f"the target does not begin it: the branch {row['xid']} exists already",
    )
    a.act(lambda: a.rig.broker.branches.commit(KEY))


def test_what_cannot_go_stays_and_says_why() -> None:
    world, a, _ = ready()
    rig = a.rig
    rig.broker.queues.create(QueueDefinition(name="t", address="t", temporary=True))
    transaction = Transaction("x")

    def act() -> None:
        transaction.send(rig.message("m", "t"), rig.broker.target(names.parse("queue://t")))
        rig.broker.branches.prepare(transaction, key_of(Xid(7, b"other", b"")))
        rig.broker.branches.prepare(Transaction("y"), b"no xid at all")

    a.act(act)
    made = drain_of(a)
    rows = {str(row["queue"]): (row["messages"], row["stays"]) for row in made.plan()}
    assert rows["(prepared) XID:[7,globalId=77686f6c65,branchId=70617274]"] == (4, "")
    assert rows["(prepared) XID:[7,globalId=6f74686572,branchId=]"] == (1, "it sends to t, which is temporary")
    assert rows["in"] == (3, ""), "what the branch has taken is counted with the branch"
    a.act(lambda: made.begin(""))
    world.wait(2_000)
    assert made.state is State.DONE, "what stays does not hold the others up"
    assert len(a.rig.broker.branches.prepared) == 2


def test_an_empty_branch_and_several_go_too() -> None:
    world, a, b = ready()
    others = [key_of(Xid(7, bytes([number]), b"")) for number in range(20)]
    for key in others:
        a.act(lambda key=key: a.rig.broker.branches.prepare(Transaction("x"), key))
    begin(a)
    world.wait(4_000)
    assert sorted(b.rig.broker.branches.prepared) == sorted([KEY, *others])
    assert a.rig.broker.branches.prepared == {}


def test_a_subscription_to_what_a_branch_sends_is_made_at_the_target() -> None:
    world, (a, b) = joined(2)
    a.rig.broker.queues.create(QueueDefinition(name="sub", address="T", routing=MULTICAST))
    transaction = Transaction("x")

    def act() -> None:
        transaction.send(a.rig.message("news", "T"), a.rig.broker.target(names.parse("topic://T")))
        a.rig.broker.branches.prepare(transaction, KEY)

    a.act(act)
    store(a)
    begin(a)
    world.wait(2_000)
    b.act(lambda: b.rig.broker.branches.commit(KEY))
    world.wait(1_000)
    assert [one.rig.queue("sub").count for one in (a, b)] in ([0, 1], [1, 0]), "to one of two of the same name"


def test_an_abort_leaves_what_was_not_begun_there_here() -> None:
    world, a, b = ready()
    drain: Drain = begin(a)
    a.act(drain.abort)
    world.wait(500)
    assert KEY not in b.rig.broker.branches.prepared
    assert ended(world, a, commits=True) == COMMITTED


def test_a_large_body_goes_with_its_branch() -> None:
    world, a, b = ready()
    body = "y" * 200_000
    key = key_of(Xid(7, b"large", b""))
    transaction = Transaction("x")

    def act() -> None:
        transaction.send(a.rig.message(body, "out"), a.rig.broker.target(names.parse("queue://out")))
        a.rig.broker.branches.prepare(transaction, key)

    a.act(act)
    store(a)
    begin(a)
    world.wait(2_000)
    b.act(lambda: b.rig.broker.branches.commit(key))
    assert bodies(b.rig.reader("out")) == [body]
