"""Which member of a topology is the broker that was dialled, and where else it is."""

from __future__ import annotations

import pytest

from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters.options import connector_of
from entrepot.protocols.artemis.linking.places import beside, reached, store_at
from entrepot.protocols.artemis.packets import ClusterTopology

HERE = Endpoint("tcp", "a", 61616)
ONE = connector_of("one", HERE)
OTHER = connector_of("other", Endpoint("tcp", "b", 61616))


@pytest.mark.parametrize(
    ("place", "node"), [(HERE, "n1"), (Endpoint("tcp", "b", 61616), "n2"), (Endpoint("tcp", "a", 61617), "")]
)
def test_a_member_is_known_by_its_place_in_whatever_order_they_are_told(place: Endpoint, node: str) -> None:
    assert store_at({"n2": reached(OTHER), "n1": reached(ONE)}, place) == node
    assert store_at({"n1": reached(ONE), "n2": reached(OTHER)}, place) == node


def test_the_only_member_is_the_one_that_was_dialled_whatever_it_calls_its_place() -> None:
    assert store_at({"n2": reached(OTHER)}, HERE) == "n2"
    assert store_at({"n2": []}, None) == "n2"
    assert store_at({}, HERE) == ""


def test_what_is_beside_the_broker_that_was_dialled() -> None:
    packet = ClusterTopology(node="n1", primary=ONE, backup=OTHER)
    assert [(one.host, one.port) for one in beside(packet, HERE, [HERE])] == [("b", 61616)]
    assert beside(packet, HERE, [HERE, Endpoint("tcp", "b", 61616)]) == []
    assert beside(packet, Endpoint("tcp", "c", 1), []) == [], "it is about another member"
    assert beside(ClusterTopology(node="n1", exit=True), HERE, [HERE]) == []
