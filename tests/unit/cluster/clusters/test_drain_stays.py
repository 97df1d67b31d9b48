"""What readers hold by lease, and what writers have staged, stays at a node that gives all away, and is named."""

from __future__ import annotations

import pytest

from clustered import Cluster, Node, joined
from entrepot.base.environment import MILLISECOND
from entrepot.cluster.clusters import drain_stays
from entrepot.cluster.clusters.drain_notes import State
from entrepot.core.leases.lease import Lease
from entrepot.model.address import parse
from unit.cluster.clusters.test_draining import begin, bodies, drain_of, numbers, store

PATIENCE_MS = 1_500
QUIET_MS = PATIENCE_MS + 500


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_stays, "PATIENCE", PATIENCE_MS * MILLISECOND)


def leased(node: Node, many: int = 10) -> tuple[Lease, int]:
    """Let a reader claim the first ``many`` of ``Q``; return its lease and its epoch."""
    rig = node.rig
    made: list[tuple[Lease, int]] = []

    def act() -> None:
        lease = rig.broker.leases.need(parse("queue://Q")[0], "spark", create=True)
        epoch = lease.attach(rig.journal, None)
        lease.claim(rig.journal, epoch, 0, many)
        made.append((lease, epoch))

    node.act(act)
    store(node)
    return made[0]


def ready(count: int = 100, many: int = 10) -> tuple[Cluster, Node, Node, Lease, int]:
    world, (a, b) = joined(2)
    a.send("queue://Q", range(count))
    store(a)
    world.wait(20)
    return world, a, b, *leased(a, many)


def test_a_drain_ends_though_a_reader_that_is_gone_holds_messages_and_says_what_stays() -> None:
    world, a, b, lease, _ = ready()
    planned = drain_of(a).plan()
    assert [(row["queue"], row["messages"]) for row in planned] == [("Q", 90), ("Q", 10)]
    assert "spark" in str(planned[1]["stays"])
    drain = begin(a)
    world.wait(1_000)
    told = drain.report()
    assert (drain.state, told["moved"], told["left"]) == (State.MOVING, 90, 0), told
    assert "waits" in str(told["why"]), told
    world.wait(QUIET_MS)
    told = drain.report()
    assert (drain.state, told["moved"], told["left"]) == (State.DONE, 90, 0), told
    [row] = told["stays"]  # type: ignore[misc]
    assert (row["queue"], row["messages"], row["who"]) == ("Q", 10, "spark"), row
    assert "entrepot lease release Q spark" in row["stays"], row
    assert bodies(b.rig.reader("Q")) == numbers(90, 10)
    assert lease.held == 10
    a.rig.broker.check()


def test_a_drain_does_not_wait_for_a_reader_that_was_not_heard_of_for_long() -> None:
    world, a, _, _, _ = ready()
    world.wait(QUIET_MS)
    drain = begin(a)
    world.wait(1_000)
    assert drain.state is State.DONE, drain.report()


def test_a_drain_waits_for_a_reader_that_settles() -> None:
    world, a, _, lease, epoch = ready()
    drain = begin(a)
    for end in (3, 6, 7, 10):
        world.wait(PATIENCE_MS // 2)
        assert drain.state is State.MOVING, drain.report()
        before = drain.progress
        a.act(lambda end=end: lease.settle(a.rig.journal, epoch, end))  # type: ignore[misc]
        assert drain.progress != before, "at a node that stops, whoever waits sees that something happens"
    world.wait(1_000)
    assert (drain.state, drain.report()["stays"]) == (State.DONE, []), drain.report()


def test_what_a_lease_gives_back_while_the_drain_waits_moves() -> None:
    world, a, b, lease, _ = ready()
    drain = begin(a)
    world.wait(1_000)
    a.act(lambda: lease.release(a.rig.journal))
    world.wait(1_000)
    assert (drain.state, drain.report()["moved"], drain.report()["stays"]) == (State.DONE, 100, [])
    assert sorted(bodies(b.rig.reader("Q")), key=int) == numbers(100)


def test_a_drain_that_waits_for_a_reader_can_be_aborted() -> None:
    world, a, _, lease, _ = ready()
    drain = begin(a)
    world.wait(1_000)
    a.act(drain.abort)
    assert (drain.state, lease.held) == (State.ABORTED, 10)


def test_a_node_that_serves_nobody_waits_for_no_reader() -> None:
    world, a, _, _, _ = ready()
    drain = drain_of(a)
    drain.ways.stays.serve_nobody()
    a.act(drain.begin)
    world.wait(1_000)
    assert drain.state is State.DONE, drain.report()
    assert [row["messages"] for row in drain.report()["stays"]] == [10]  # type: ignore[attr-defined]


def test_a_reader_is_not_forgotten_over_a_crash_and_its_range_stays() -> None:
    world, a, b, _, _ = ready()
    begin(a)
    world.wait(1_000)
    a.leave(orderly=False)
    a.come_back()
    world.wait(1_000)
    drain = drain_of(a)
    assert drain.state is State.INTERRUPTED
    a.act(drain.resume)
    world.wait(2 * QUIET_MS)
    assert (drain.state, [row["messages"] for row in drain.report()["stays"]]) == (State.DONE, [10])  # type: ignore[attr-defined]
    assert bodies(b.rig.reader("Q")) == numbers(90, 10)


def test_what_is_staged_stays_and_is_named_until_its_batch_is_published() -> None:
    world, a, _, _, _ = ready(many=0)
    broker = a.rig.broker

    def act() -> None:
        stage = broker.stages.open("sink", 7, "part")
        broker.stages.send(stage, a.message("Q", "staged"), broker.target(parse("queue://Q")))
        broker.stages.close(stage)

    a.act(act)
    store(a)
    [row] = [row for row in drain_of(a).plan() if row["stays"]]
    assert (row["queue"], row["messages"]) == ("(staged) sink", 1)
    drain = begin(a)
    world.wait(1_000)
    assert drain.state is State.MOVING, "whoever staged it may be about to publish it"
    world.wait(QUIET_MS)
    assert (drain.state, [row["messages"] for row in drain.report()["stays"]]) == (State.DONE, [1])  # type: ignore[attr-defined]


def test_a_drain_ends_though_a_reader_goes_on_asking_for_more_and_settles_nothing() -> None:
    world, a, _, lease, epoch = ready()
    drain = begin(a)
    for _ in range(8):
        world.wait(PATIENCE_MS // 3)
        a.act(lambda: lease.claim(a.rig.journal, epoch, lease.tail, 10))
    assert (drain.state, lease.held) == (State.DONE, 10), drain.report()


def test_a_drain_waits_for_a_reader_that_reads_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_stays, "REPEATING", 4 * PATIENCE_MS * MILLISECOND)
    world, a, _, lease, epoch = ready()
    drain = begin(a)
    for at in range(18):
        world.wait(PATIENCE_MS // 3)
        a.act(lambda: lease.read(a.rig.journal, epoch, 0, 10))
        assert (drain.state is State.DONE) == (at > 11), at
    assert [row["messages"] for row in drain.report()["stays"]] == [10]  # type: ignore[attr-defined]


@pytest.mark.parametrize("closed", [True, False])
def test_a_drain_does_not_wait_for_a_writer_that_is_silent_whatever_the_clock_says(closed: bool) -> None:
    world, a, _, _, _ = ready(many=0)
    broker = a.rig.broker

    def act() -> None:
        stage = broker.stages.open("sink", 7, "part")
        broker.stages.send(stage, a.message("Q", "staged"), broker.target(parse("queue://Q")))
        if closed:
            broker.stages.close(stage)
        stage.created += 3_600_000  # the clock was set back since

    a.act(act)
    drain = begin(a)
    world.wait(1_000)
    assert drain.state is State.MOVING
    world.wait(QUIET_MS)
    assert (drain.state, [row["messages"] for row in drain.report()["stays"]]) == (State.DONE, [1])  # type: ignore[attr-defined]
