"""A prepared branch on its way to another node: whoever crashes at whatever step, it is whole, at one of the two."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clustered import Cable, Cluster, Node
from entrepot.base.compiled import is_compiled
from entrepot.base.errors import EntrepotError, StorageError
from entrepot.cluster.clusters.drain_notes import RUNNING, State
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.gift import Step
from entrepot.core.transactions.branches import HAD, NEVER
from entrepot.core.transactions.transaction import Transaction
from entrepot.protocols.artemis.packets import Packet, XaEnd, XaPrepare, XaStart
from entrepot.protocols.artemis.refusals import XA_RMERR, BranchRefused
from entrepot.protocols.artemis.transacting import Transacting
from unit.cluster.clusters.test_draining import begin, drain_of
from unit.cluster.clusters.test_handing import BACK, KEY, LEFT, SENT, ended, ready


def crash(node: Node, how: str = "kill") -> None:
    """End a node, and start it again from its disk."""
    node.leave(orderly=False)
    node.come_back(how)


def left(node: Node) -> int:
    return sum(int(one.count) for one in node.rig.broker.table.queues.values())


def to_the_end(world: Cluster, a: Node, drain: Drain) -> None:
    """Let an operator of ``a`` see to it that all goes to the other node."""
    world.watch = lambda cable: None
    for _ in range(40):
        world.wait(250)
        if drain.broker is not a.rig.broker:
            drain = drain_of(a)
        if drain.state is State.INTERRUPTED:
            a.act(drain.resume)
        elif drain.state not in RUNNING and (a.rig.broker.branches.prepared or left(a)):
            a.act(lambda drain=drain: drain.begin(""))  # type: ignore[misc]
        elif drain.state not in RUNNING:
            return
    pytest.fail(f"it never ends: {drain.report()}")


def check(world: Cluster, a: Node, b: Node, *, commits: bool) -> None:
    """Let the branch, which must be at ``b``, end there as it would have here."""
    assert (list(a.rig.broker.branches.prepared), list(b.rig.broker.branches.prepared)) == ([], [KEY])
    out, taken = ended(world, b, commits=commits)
    assert out == (SENT if commits else [])
    assert [body for body, _ in taken] == (LEFT if commits and not b.foreign else BACK)
    assert a.rig.journal.usage().messages == 0


def at_step(world: Cluster, a: Node, step: Step, then: Callable[[Cable], None]) -> Drain:
    """Begin a drain, and do ``then`` once its gift is at ``step``; at the last one, once the other node has done it."""
    drain = begin(a)
    done: list[Cable] = []

    def look(cable: Cable) -> None:
        gift = drain.handing.current
        if cable.owner is not drain or gift is None or gift.step is not step or done:
            return
        if step is not Step.PREPARING or KEY in cable.far.rig.broker.branches.prepared:
            done.append(cable)
            then(cable)

    world.watch = look
    for _ in range(100):
        world.wait(10)
        if done:
            return drain
    pytest.fail(f"it was never {step.value}")


def trouble(who: str, a: Node, b: Node, cable: Cable, how: str) -> None:
    if who == "cut":
        cable.break_off("cut")
    else:
        crash(a if who == "source" else b, how)


@pytest.mark.parametrize("who", ["source", "target", "cut"])
@pytest.mark.parametrize("commits", [False, True])
def test_whoever_crashes_after_whatever_was_carried_the_branch_is_at_one_of_them(who: str, commits: bool) -> None:
    at, steps = 0, {}
    while True:
        world, a, b = ready()
        drain = begin(a)
        carried: list[Step] = []

        def look(cable: Cable, drain: Drain = drain, carried: list[Step] = carried, a: Node = a, b: Node = b) -> None:
            gift = drain.handing.current
            if cable.owner is drain and (gift or drain.handing.count):
                carried.append(Step.OVER if gift is None else gift.step)
                if len(carried) == at + 1:  # noqa: B023 - it is called within this round
                    trouble(who, a, b, cable, "kill" if at % 2 else "crash")  # noqa: B023

        world.watch = look
        for _ in range(100):
            if len(carried) > at or drain.state is State.DONE:
                break
            world.wait(10)
        steps[carried[at]] = True
        to_the_end(world, a, drain)
        check(world, a, b, commits=commits)
        if carried[at] is Step.OVER:
            break
        at += 1
    assert set(steps) == {Step.FINDING, Step.BEGINNING, Step.SENDING, Step.PREPARING, Step.OVER}, steps


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_who_does_not_hear_that_it_is_prepared_asks(commits: bool, foreign: bool) -> None:
    world, a, b = ready(takes=0 if foreign else 2)
    b.foreign = foreign
    drain = at_step(world, a, Step.PREPARING, lambda cable: cable.break_off("cut"))
    assert (KEY in a.rig.broker.branches.prepared, KEY in b.rig.broker.branches.prepared) == (True, True)
    with pytest.raises(StorageError, match="which may have it"):
        a.rig.broker.branches.commit(KEY)
    to_the_end(world, a, drain)
    check(world, a, b, commits=commits)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_one_that_was_ended_there_before_this_node_heard_of_it_is_not_given_again(
    commits: bool, restarted: bool
) -> None:
    world, a, b = ready()
    drain = at_step(world, a, Step.PREPARING, lambda cable: cable.break_off("cut"))
    b.act(lambda: b.rig.broker.branches.commit(KEY) if commits else b.rig.broker.branches.roll_back(KEY))
    if restarted:
        crash(b)
    to_the_end(world, a, drain)
    assert (a.rig.broker.branches.prepared, b.rig.broker.branches.prepared) == ({}, {})
    assert b.rig.queue("in").count == (3 if commits else 5), "it is not there a second time"
    assert b.rig.queue("out").count == (2 if commits else 0)


def test_an_artemis_that_ended_it_does_not_say_so_and_an_operator_decides() -> None:
    world, a, b = ready(takes=0)
    b.foreign = True
    drain = at_step(world, a, Step.PREPARING, lambda cable: cable.break_off("cut"))
    ended(world, b, commits=True)
    world.wait(5_000)
    assert drain.state is State.DONE, "it holds nothing up"
    (row,) = drain.report()["branches"]  # type: ignore[misc]
    assert row["state"] == f"given to {b.uuid}"
    assert "nobody knows whether it was ended there" in row["why"]
    with pytest.raises(StorageError, match="which may have it"):
        a.rig.broker.branches.commit(KEY)
    a.act(lambda: a.rig.broker.branches.decide(KEY))
    a.act(lambda: a.rig.broker.branches.commit(KEY))
    assert a.rig.broker.branches.prepared == {}


def test_while_it_is_on_its_way_nobody_ends_it_here() -> None:
    world, a, b = ready()
    found: list[str] = []

    def look(cable: Cable) -> None:
        branches = a.rig.broker.branches
        for end in (branches.commit, branches.roll_back, branches.decide):
            with pytest.raises(EntrepotError) as refused:
                end(KEY)  # type: ignore[operator]
            found.append(refused.value.message)

    drain = at_step(world, a, Step.SENDING, look)
    assert len(found) == 3
    assert all("is on its way to another node" in one for one in found)
    to_the_end(world, a, drain)
    check(world, a, b, commits=True)


@pytest.mark.parametrize("step", [Step.FINDING, Step.BEGINNING, Step.SENDING])
def test_one_whose_drain_is_aborted_before_it_is_prepared_is_here_as_before(step: Step) -> None:
    world, a, b = ready()

    def abort(cable: Cable) -> None:
        assert isinstance(cable.owner, Drain)
        a.act(cable.owner.abort)

    at_step(world, a, step, abort)
    world.wait(1_000)
    assert KEY not in b.rig.broker.branches.prepared
    assert a.rig.broker.branches.prepared[KEY].record.given == ""
    out, taken = ended(world, a, commits=True)
    assert (out, [body for body, _ in taken]) == (SENT, LEFT)


def test_a_late_step_prepares_nothing_once_the_other_node_has_said_that_it_never_came() -> None:
    world, _, b = ready()
    token = b"t" * 16
    branches = b.rig.broker.branches
    late, other = Transaction("late"), Transaction("in time")
    late.token, other.token = token, b"u" * 16
    assert branches.came(token) == NEVER
    with pytest.raises(EntrepotError, match="is with the broker that gave it"):
        branches.prepare(late, KEY)
    b.act(lambda: branches.prepare(other, KEY))
    world.wait(20)
    assert branches.came(b"u" * 16) == HAD


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("kind", [XaStart, XaEnd, XaPrepare])
def test_one_that_the_other_node_refuses_stays_here_and_is_given_again(
    monkeypatch: pytest.MonkeyPatch, kind: type[Packet], foreign: bool
) -> None:
    world, a, b = ready(takes=0 if foreign else 2)
    b.foreign = foreign
    refused: list[Packet] = []
    genuine = Transacting._step

    def step(transacting: Transacting, packet: Packet) -> None:
        if isinstance(packet, kind) and not refused:
            refused.append(packet)
            raise BranchRefused("it does not want it", XA_RMERR)
        genuine(transacting, packet)

    monkeypatch.setattr(Transacting, "_step", step)
    drain = begin(a)
    world.wait(2_000)
    assert drain.state is State.DONE, "it holds nothing up"
    (row,) = drain.report()["branches"]  # type: ignore[misc]
    assert (row["state"], "it does not want it" in row["why"]) == ("here", True), row
    assert b.rig.broker.branches.prepared == {}
    with_rest = kind is XaPrepare and foreign  # an Artemis is not asked to clear: its own time limit does that
    assert len(b.acceptor.branches) == (1 if kind is XaPrepare else 0)
    if not with_rest:
        a.act(lambda: drain.begin(""))
        world.wait(2_000)
        check(world, a, b, commits=True)
