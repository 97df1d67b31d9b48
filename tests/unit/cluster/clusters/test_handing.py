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

KEY: Final = key_of(Xid(7, b"part", b"whole"))


def prepared(node: Node, key: bytes = KEY, *, sends: int = 2, takes: int = 2, user: str = "jo") -> None:
    """Prepare a branch at ``node``: it sends to ``out``, and takes the first of five of ``in``."""
    node.send("queue://in", [f"in {number}" for number in range(5)])
    rig = node.rig
    reader = rig.reader("in", max(takes, 1))
    transaction = Transaction("x")

    def act() -> None:
        for number in range(sends):
            transaction.send(node.message("out", f"out {number}"), rig.broker.target(names.parse("queue://out")))
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


SENT: Final = ["out 0", "out 1"]
BACK: Final = [f"in {number}" for number in range(5)]
LEFT: Final = BACK[2:]


@pytest.mark.parametrize("restarted", ["", "source", "target"])
@pytest.mark.parametrize("commits", [False, True])
def test_a_branch_goes_with_what_it_sends_and_what_it_has_taken(commits: bool, restarted: str) -> None:
    world, a, b = ready()
    if restarted == "source":
        a.leave(orderly=False)
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
        b.leave(orderly=False)
        b.come_back()
        world.wait(2_000)
    out, taken = ended(world, b, commits=commits)
    assert out == (SENT if commits else [])
    assert [body for body, _ in taken] == (LEFT if commits else BACK)


def test_what_comes_back_at_the_target_was_tried_as_often_as_it_was_here() -> None:
    world, (a, b) = joined(2)
    a.send("queue://in", ["x"])
    reader = a.rig.reader("in", 1)
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


def test_a_branch_that_another_node_may_have_is_ended_by_no_coordinator_here_but_by_an_operator() -> None:
    world, a, _ = ready()
    branches = a.rig.broker.branches
    a.act(lambda: branches.give(branches.prepared[KEY], "n9", b"t" * 16))
    store(a)
    a.leave(orderly=False)
    a.come_back()
    branches = a.rig.broker.branches
    for end in (branches.commit, branches.roll_back):
        with pytest.raises(StorageError, match="was given to the node n9, which may have it"):
            end(KEY)
    world.wait(200)
    drain = begin(a)
    world.wait(3_000)
    assert drain.state is State.DONE
    (row,) = drain.report()["branches"]  # type: ignore[misc]
    assert (row["state"], row["why"]) == (
        "given to n9",
        "the node n9 was given it, and may have it: entrepot drain --to n9",
    )
    a.act(lambda: branches.decide(KEY))
    a.act(lambda: branches.commit(KEY))
    assert branches.prepared == {}


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
        transaction.send(a.message("t", "m"), rig.broker.target(names.parse("queue://t")))
        rig.broker.branches.prepare(transaction, key_of(Xid(7, b"", b"other")))
        rig.broker.branches.prepare(Transaction("y"), b"no xid at all")

    a.act(act)
    made = drain_of(a)
    rows = {str(row["queue"]): (row["messages"], row["stays"]) for row in made.plan()}
    only_ours = "if the other node is an Artemis: it has taken messages, and an Artemis loses them if it is rolled back"
    assert rows["(prepared) XID:[7,globalId=77686f6c65,branchId=70617274]"] == (4, only_ours)
    assert rows["(prepared) XID:[7,globalId=6f74686572,branchId=]"] == (1, "it sends to t, which is temporary")
    assert rows["in"] == (3, ""), "what the branch has taken is counted with the branch"
    a.act(lambda: made.begin(""))
    world.wait(2_000)
    assert made.state is State.DONE, "what stays does not hold the others up"
    assert len(a.rig.broker.branches.prepared) == 2


def test_a_branch_that_an_artemis_would_lose_a_part_of_stays() -> None:
    world, a, b = ready()
    b.foreign = True
    drain = begin(a)
    world.wait(2_000)
    told = drain.report()
    assert (drain.state, told["moved"], told["left"], told["branches_moved"]) == (State.DONE, 3, 0, 0), told
    (row,) = told["branches"]  # type: ignore[misc]
    assert row["why"] == "it has taken messages, and an Artemis loses them if it is rolled back"
    assert b.rig.broker.branches.prepared == {}
    out, taken = ended(world, a, commits=False)
    assert (out, [body for body, _ in taken]) == ([], BACK[:2])


def test_an_empty_branch_and_several_go_too() -> None:
    world, a, b = ready()
    others = [key_of(Xid(7, b"", bytes([number]))) for number in range(20)]
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
        transaction.send(a.message("T", "news"), a.rig.broker.target(names.parse("topic://T")))
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
    out, taken = ended(world, a, commits=True)
    assert (out, [body for body, _ in taken]) == (SENT, LEFT)


def test_a_large_body_goes_with_its_branch() -> None:
    world, a, b = ready()
    body = "y" * 200_000
    key = key_of(Xid(7, b"", b"large"))
    transaction = Transaction("x")

    def act() -> None:
        transaction.send(a.message("out", body), a.rig.broker.target(names.parse("queue://out")))
        a.rig.broker.branches.prepare(transaction, key)

    a.act(act)
    store(a)
    begin(a)
    world.wait(2_000)
    b.act(lambda: b.rig.broker.branches.commit(key))
    assert bodies(b.rig.reader("out")) == [body]
