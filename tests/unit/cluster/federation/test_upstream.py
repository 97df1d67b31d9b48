"""Which broker an upstream is, as far as the cluster that it is in says: repetitions are known by that."""

from __future__ import annotations

import pytest

from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters.options import connector_of
from entrepot.cluster.federation.options import QueuePolicy
from entrepot.protocols.artemis.membership import Membership, Onlooker
from entrepot.protocols.artemis.options import VERSION_NEWEST
from entrepot.protocols.artemis.packets import ClusterTopology

from .federated import Pair, made, send, texts, waiting


class Several(Membership):
    """A cluster whose ``members`` are told in their order: node -> the host that it calls its own."""

    def __init__(self, members: dict[str, str]) -> None:
        super().__init__("n1", 0)
        self.members = members

    def look(self, onlooker: Onlooker) -> None:
        for node, host in self.members.items():
            last = node == list(self.members)[-1]
            primary = connector_of(node, Endpoint("tcp", host, 61616))
            onlooker.tell(ClusterTopology(node=node, primary=primary, last=last, server_version=VERSION_NEWEST))


def both(members: dict[str, str]) -> Pair:
    """Return two brokers with the queue Q, the upstream in a cluster, dialled as ``far``."""
    found = Pair(queues=(QueuePolicy(name="P"),), start=False)
    found.acceptor.membership = Several(members)
    made(found.far, "Q")
    made(found.near, "Q")
    found.start()
    return found


@pytest.mark.parametrize("members", [{"n1": "far", "n2": "b"}, {"n2": "b", "n1": "far"}, {"n1": "some.other.name"}])
def test_it_is_the_member_whose_place_was_dialled_or_the_only_one(members: dict[str, str]) -> None:
    pair = both(members)
    reader = pair.near.reader("Q")
    send(pair.far, "Q", "a")
    pair.run()
    assert texts(reader) == ["a"]
    assert pair.upstream.report(pair.near.now)["peer_id"] == "n1"


def test_of_a_cluster_that_says_nothing_of_our_place_nothing_is_fetched() -> None:
    """By another id a message that comes again, over the next connection, would be a new one."""
    pair = both({"n1": "a", "n2": "b"})
    reader = pair.near.reader("Q")
    send(pair.far, "Q", "a")
    for _ in range(5):
        pair.pass_ms(2_000)
    assert (texts(reader), waiting(pair.far, "Q"), pair.cables) == ([], 1, {})
    (said,) = pair.said
    assert said.startswith("2 brokers are in its cluster")
    assert pair.made > 2, "it is tried again: its cluster may say so one day"
    assert "2 brokers" in str(pair.upstream.report(pair.near.now))
    pair.acceptor.membership = Several({"n2": "b", "n1": "far"})
    for _ in range(5):
        pair.pass_ms(2_000)
    assert texts(reader) == ["a"]
