"""A vote on a node is by connections: who was killed is gone though it is a member, and who is connected is here."""

from __future__ import annotations

import pytest

from clustered import Cluster, Node
from entrepot.base.environment import MILLISECOND
from entrepot.cluster.clusters.sight import GRACE, LAPSE
from entrepot.protocols.artemis.packets import QuorumVote
from entrepot.protocols.artemis.schema import WHO_IS_PRIMARY

ASKS = "whether its backup may take over"
MARGIN_MS = 600


def takes_over(asked: Node, primary: str) -> bool:
    """Return what ``asked`` votes when the backup of ``primary`` asks."""
    reply = asked.connection.members.vote(QuorumVote(handler=WHO_IS_PRIMARY[0], vote=False, node=primary))
    assert reply is not None
    return reply.vote


def stays(asked: Node, primary: str) -> bool:
    """Return what ``asked`` votes when ``primary`` lost its backup, and asks."""
    reply = asked.connection.members.vote(QuorumVote(handler=WHO_IS_PRIMARY[0], vote=True, node=primary))
    assert reply is not None
    return reply.vote and bool(reply.connector)


def pair(asked_dials: bool, primary_dials: bool) -> tuple[Cluster, Node, Node]:
    """Return a node that is asked, and a primary; connected, for long."""
    world = Cluster()
    asked = world.node(0, [1] if asked_dials else [])
    primary = world.node(1, [0] if primary_dials else [])
    asked.start()
    primary.start()
    world.wait((GRACE + LAPSE) // MILLISECOND + MARGIN_MS)
    return world, asked, primary


@pytest.mark.parametrize(("asked_dials", "primary_dials"), [(True, False), (False, True), (True, True)])
def test_a_primary_is_gone_when_nothing_leads_to_it(asked_dials: bool, primary_dials: bool) -> None:
    world, asked, primary = pair(asked_dials, primary_dials)
    assert not takes_over(asked, primary.uuid)
    assert stays(asked, primary.uuid)
    primary.leave(orderly=False)
    world.wait(100)
    assert not takes_over(asked, primary.uuid), "it is dialled again first"
    world.wait(LAPSE // MILLISECOND + MARGIN_MS)
    assert asked.known() == ["n0", "n1"], "it stays a member: it may come back"
    assert takes_over(asked, primary.uuid)
    assert not stays(asked, primary.uuid)
    said = [one for one in asked.said if ASKS in one]
    assert [one.rpartition(": ")[2] for one in said] == [
        "that node is here, so no",
        "that node is looked for, so no",
        "that node is not seen from here, so yes",
    ]
    primary.come_back()
    world.wait(4000)
    assert not takes_over(asked, primary.uuid)
    assert stays(asked, primary.uuid)


def test_a_cut_that_is_mended_at_once_is_no_ground() -> None:
    world, asked, primary = pair(True, True)
    for cable in world.cables:
        cable.break_off("cut")
    for _ in range(40):
        assert not takes_over(asked, primary.uuid)
        world.wait(100)
    assert asked.connection.leads(primary.uuid)


def test_one_way_is_enough() -> None:
    """What this node dials does not arrive; the primary's own connection goes on."""
    world, asked, primary = pair(True, True)
    primary.world.nodes.pop(7001)  # nobody accepts there any more
    for cable in world.cables:
        if cable.near is asked:
            cable.break_off("cut")
    for _ in range(60):
        world.wait(100)
        assert not takes_over(asked, primary.uuid)
    assert not asked.connection.leads(primary.uuid)
    primary.connection.stop()
    world.wait(LAPSE // MILLISECOND + MARGIN_MS)
    assert takes_over(asked, primary.uuid)


def test_one_who_says_that_it_is_gone_is_not_believed_while_it_is_connected() -> None:
    world, asked, primary = pair(True, True)
    assert asked.connection.topology.remove(primary.uuid, 1 << 60)
    assert not takes_over(asked, primary.uuid)
    assert stays(asked, primary.uuid), "its own connection says where it is"
    world.wait(100)


def test_a_node_that_has_just_begun_calls_nobody_gone() -> None:
    world = Cluster()
    asked = world.node(0, [])
    asked.start()
    assert not takes_over(asked, "unheard of")
    world.wait(GRACE // MILLISECOND + MARGIN_MS)
    assert takes_over(asked, "unheard of")


def test_a_node_that_an_operator_stopped_calls_nobody_gone_and_looks_anew_when_it_goes_on() -> None:
    world, asked, primary = pair(True, False)
    asked.connection.suspend()
    world.wait(GRACE // MILLISECOND + MARGIN_MS)
    assert not takes_over(asked, primary.uuid)
    asked.connection.resume()
    for _ in range(30):
        assert not takes_over(asked, primary.uuid)
        world.wait(100)
    assert asked.connection.leads(primary.uuid)
    primary.leave(orderly=False)
    world.wait(LAPSE // MILLISECOND + MARGIN_MS)
    assert takes_over(asked, primary.uuid)


def test_an_orderly_leave_is_believed_at_once() -> None:
    world, asked, primary = pair(True, True)
    primary.leave(orderly=True)
    world.wait(100)
    assert takes_over(asked, primary.uuid)


def test_a_node_sees_itself() -> None:
    _, asked, _ = pair(True, True)
    assert not takes_over(asked, asked.uuid)
