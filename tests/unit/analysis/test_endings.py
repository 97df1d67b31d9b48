"""Where a message of a cluster ends, as `entrepot check` predicts it."""

from __future__ import annotations

from entrepot.analysis.endings import endings, tell

from .test_clusters import Cluster, joined, static


def cases(cluster: Cluster, sender: str) -> dict[str, str]:
    return {f"{one.to}: {one.when}": one.ends for one in endings(cluster.network()) if one.sent_at == sender}


def mode(name: str, *, delay: str = "") -> Cluster:
    options = f"<message-load-balancing>{name}</message-load-balancing>"
    return (
        Cluster()
        .node("a", joined(static("b"), options), "b", settings=delay)
        .node("b", joined(static("a"), options), "a", settings=delay)
    )


def test_on_demand_waits_where_it_was_sent_when_nobody_reads() -> None:
    found = cases(mode("ON_DEMAND"), "a")
    assert found["queue: nobody reads it"] == "a, and stays there when somebody reads at b later"
    assert found["queue: read at several of a, b"] == "in turn at those where it is read"
    assert found["topic: it is subscribed anywhere"] == "each subscription at a, b"


def test_with_a_redistribution_delay_it_moves() -> None:
    cluster = Cluster().node("a", joined(static("b")), "b").node("b", joined(static("a")), "a")
    assert cases(cluster, "a")["queue: nobody reads it"] == "a, and moves"


def test_the_other_modes() -> None:
    assert cases(mode("OFF"), "a")["queue: read at any node"] == "a, and stays there"
    assert cases(mode("STRICT"), "b")["queue: somebody reads it, or nobody"].startswith("in turn at b, a")
    moved = cases(mode("OFF_WITH_REDISTRIBUTION"), "a")
    assert moved["queue: read only at b"] == "a, and stays there when somebody reads at b later"


def test_a_chain_that_is_longer_than_max_hops() -> None:
    cluster = (
        Cluster()
        .node("a", joined(static("b", direct=True)), "b")
        .node("b", joined(static("c", direct=True)), "c")
        .node("c", joined())
    )
    found = cases(cluster, "a")
    assert found["queue, topic: read at c (2 nodes away) alone"] == "a: max-hops 1 does not reach there"
    assert found["topic: it is subscribed anywhere"] == "each subscription at a, b"
    assert cases(cluster, "c") == {"queue: anybody reads it": "c: no other node is reached from there"}
    assert tell(cluster.network())[2] == "sent at a"


def test_without_a_cluster_there_is_nothing_to_say() -> None:
    assert tell(Cluster().node("a").network()) == []
