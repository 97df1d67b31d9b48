"""A client id of MQTT is one connection's in a cluster: an older one elsewhere gives way."""

from __future__ import annotations

import pytest

from clustered import Cluster, Node, joined
from entrepot.core.events.facts import CONNECTION_OPENED, ConnectionFact
from entrepot.core.ports import ClientHolder
from entrepot.protocols.session import MQTT, OPENWIRE


class Holder(ClientHolder):
    """A connection that notes to whom it gave way."""

    def __init__(self, **given: object) -> None:
        super().__init__("127.0.0.1:1", **{"protocol": MQTT, **given})  # type: ignore[arg-type]
        self.successors: list[str] = []

    def give_way(self, successor: str) -> None:
        self.successors.append(successor)


def enter(node: Node, client_id: str, user: str = "", protocol: str = MQTT, **given: object) -> Holder:
    """A client connects to ``node``, as a session tells it."""
    holder = Holder(user=user, protocol=protocol, **given)
    fact = ConnectionFact(CONNECTION_OPENED, 7, protocol, "127.0.0.1:1", client_id, user)
    node.act(lambda: node.rig.broker.clients.claim(client_id, holder, True))
    node.act(lambda: node.rig.broker.hub.announce(fact))
    return holder


def chain(count: int, max_hops: int) -> tuple[Cluster, list[Node]]:
    """Return nodes each of which knows the next one and the one before, and nobody else."""
    world = Cluster()
    seeds = [[one for one in (number - 1, number + 1) if 0 <= one < count] for number in range(count)]
    nodes = [world.node(number, seeds[number], max_hops=max_hops, direct=True) for number in range(count)]
    for node in nodes:
        node.start()
    world.wait(100)
    return world, nodes


def test_who_is_at_another_node_gives_way() -> None:
    world, (one, other) = joined(2)
    older = enter(one, "meter")
    world.wait(100)
    newer = enter(other, "meter")
    world.wait(100)
    assert older.successors == [f"at the node {other.uuid}"]
    assert newer.successors == []


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"protocol": OPENWIRE}, {}),
        ({}, {"protocol": OPENWIRE}),
        ({"yields": False}, {}),
    ],
    ids=["the older speaks another protocol", "the newer does", "it does not let its id be taken"],
)
def test_others_stay(older: dict[str, object], newer: dict[str, object]) -> None:
    world, (one, other) = joined(2)
    holder = enter(one, "meter", **older)  # type: ignore[arg-type]
    world.wait(100)
    enter(other, "meter", **newer)  # type: ignore[arg-type]
    enter(other, "another")
    enter(other, "")
    world.wait(100)
    assert holder.successors == []


def test_where_there_are_rights_only_the_same_user_has_it_taken() -> None:
    world, (one, other) = joined(2)
    one.rig.broker.access.protect(None, [])
    holder = enter(one, "meter", user="anna")
    enter(other, "meter", user="bert")
    world.wait(100)
    assert holder.successors == []
    enter(other, "meter", user="anna")
    world.wait(100)
    assert len(holder.successors) == 1


def test_nodes_several_hops_away_hear_of_it_and_nobody_hears_of_himself() -> None:
    world, (first, _, last) = chain(3, max_hops=2)
    older = enter(last, "meter")
    world.wait(200)
    newer = enter(first, "meter")
    world.wait(200)
    assert older.successors == [f"at the node {first.uuid}"]
    assert newer.successors == [], "what the middle tells on comes back to whom it began with"
    world, (first, _, last) = chain(3, max_hops=1)
    older = enter(last, "meter")
    enter(first, "meter")
    world.wait(200)
    assert older.successors == []


def test_what_was_told_on_without_an_origin_is_not_obeyed() -> None:
    _, (one, _) = joined(2)
    holder = enter(one, "meter")
    said = {"_AMQ_Client_ID": "meter", "_AMQ_Protocol_Name": "MQTT5"}  # as a real Artemis says it
    contact = next(iter(one.connection.contacts.values()))
    for distance in (1, None, "0"):
        one.act(lambda distance=distance: one.connection.hears(contact, _told(said, distance)))  # type: ignore[misc]
    assert holder.successors == []
    one.act(lambda: one.connection.hears(contact, _told(said, 0)))
    assert len(holder.successors) == 1


def _told(said: dict[str, str], distance: object) -> dict[str, object]:
    return {**said, "_AMQ_NotifType": "SESSION_CREATED", "_AMQ_Distance": distance}
