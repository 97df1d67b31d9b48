"""The queues of a node that gives all away: what prepared branches hold is not counted, and holds nothing up."""

from __future__ import annotations

from clustered import joined
from entrepot.cluster.clusters.drain_notes import Notebook
from entrepot.cluster.clusters.drain_ways import Ways, held_in, movable
from unit.cluster.clusters.test_handing import KEY, prepared


def test_what_a_branch_holds_is_counted_with_the_branch() -> None:
    _, (a, _) = joined(2)
    prepared(a, sends=1, takes=2)
    broker = a.rig.broker
    queue = a.rig.queue("in")
    assert (int(queue.count), movable(queue, held_in(broker))) == (5, 3)
    ways = Ways(a.connection, Notebook(broker), a.said.append)
    assert [(row["queue"], row["messages"], row["stays"]) for row in ways.plan()] == [("in", 3, "")]
    assert ways.report()["left"] == 3
    a.act(lambda: broker.branches.roll_back(KEY))
    assert (movable(queue, held_in(broker)), ways.report()["left"]) == (5, 5)


def test_a_queue_that_branches_hold_all_of_does_not_move() -> None:
    _, (a, _) = joined(2)
    prepared(a, sends=0, takes=5)
    ways = Ways(a.connection, Notebook(a.rig.broker), a.said.append)
    assert (int(a.rig.queue("in").count), ways.sources(held_in(a.rig.broker)), ways.plan()) == (5, [], [])
    assert ways.move(), "nothing is left that could"
