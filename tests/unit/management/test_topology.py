"""What several brokers tell of their links, made one network: who is who, what is counted once, what is ill."""

from __future__ import annotations

from typing import Any

from entrepot.management.topology import AT_REST, SILENT, UNASKED, Topology, places_of, topology
from entrepot.management.view import Glance, Moved, link_named, link_rates
from unit.console.test_jolokia import FACTS


def glance(name: str, *bridges: dict[str, Any], clusters: Any = (), at: float = 1.0, **facts: Any) -> Glance:
    told = {**FACTS, "name": name, "nodeID": f"node-{name}", "zone": "", **facts}
    return Glance(told, {}, [], list(bridges), list(clusters), at, 0.0)


def bridge(peer: str, sent: int = 0, received: int = 0, **more: Any) -> dict[str, Any]:
    counts = {"sent": sent, "received": received, "under_way": 0, "canary_us": -1, "error": ""}
    named = {"connector": "nc", "peer": peer, "peer_id": f"ID:{peer}", "place": "tcp://10.0.0.9:1", "state": "open"}
    return {**named, **counts, "initiator": True, **more}


def arrival(peer: str) -> dict[str, Any]:
    return {"connector": "nc", "peer": peer, "peer_id": f"ID:{peer}", "place": "", "state": "open", "initiator": False}


def urls(*names: str) -> dict[str, str]:
    return {name: f"tcp://{name}.example:61616" for name in names}


def rated(views: dict[str, Glance], before: dict[str, Glance]) -> Topology:
    moved = {name: link_rates(before.get(name), view) for name, view in views.items()}
    return topology(views, moved, {}, urls(*views))


def test_both_ends_of_a_duplex_bridge_are_one_link_and_its_messages_are_counted_once() -> None:
    def both(ab: int, ba: int, at: float) -> dict[str, Glance]:
        return {
            "here": glance("a", bridge("b", ab, ba, canary_us=900, under_way=3), at=at),
            "there": glance("b", bridge("a", ba, ab, initiator=False), at=at),
        }

    net = rated(both(120, 35, 3.0), both(100, 30, 1.0))
    (link,) = net.links.values()
    assert link.ends == ("here", "there")  # as the console calls them, not as they call each other
    assert (link.rate("here"), link.rate("there")) == (10.0, 2.5)
    assert (link.lag("here"), link.lag("there"), link.canary_us) == (3, 0, 900)
    assert (link.state, link.ill, link.kinds) == ("open", False, ["network connector"])


def test_who_is_not_asked_is_counted_by_the_end_that_is() -> None:
    net = rated({"a": glance("a", bridge("c", 8, 40), at=3.0)}, {"a": glance("a", bridge("c", 4, 0), at=1.0)})
    assert net.spots["c"].state == UNASKED
    link = net.between("c", "a")
    assert link is not None
    assert (link.rate("a"), link.rate("c")) == (2.0, 20.0)


def test_one_end_that_is_opened_by_the_other_adds_nothing_and_a_federation_adds_what_it_fetches() -> None:
    fetched = bridge("10.0.0.1:61616", 0, 50, kind="federation", peer_id="node-a", connector="up")
    before = bridge("10.0.0.1:61616", 0, 30, kind="federation", peer_id="node-a", connector="up")
    views = {"a": glance("a", bridge("b", 9, 1), at=3.0), "b": glance("b", arrival("a"), fetched, at=3.0)}
    earlier = {"a": glance("a", bridge("b", 5, 1), at=1.0), "b": glance("b", arrival("a"), before, at=1.0)}
    (link,) = rated(views, earlier).links.values()
    assert (link.rate("a"), link.rate("b")) == (12.0, 0.0)
    assert link.kinds == ["federation, upstream", "network connector"]


def test_a_cluster_says_what_waits_and_its_bridge_what_goes() -> None:
    member = {"node": "node-b", "place": "10.0.0.2:61616", "state": "met", "why": "", "queues": 4, "consumers": 7}
    own = {**member, "node": "node-a", "state": "here"}
    lone = {**member, "node": "node-c", "place": "10.0.0.3:61616", "state": "behind others", "waiting": 0}
    cluster = {"name": "cc", "members": [own, {**member, "waiting": 11}, lone]}
    way = bridge("10.0.0.2:61616", 5, kind="core", peer_id="node-b", connector="cc to node-b", depth=99)
    net = topology({"a": glance("a", way, clusters=[cluster]), "b": glance("b")}, {}, {}, urls("a", "b"))
    link = net.between("a", "b")
    assert link is not None
    assert (link.kinds, link.lag("a"), link.rate("a")) == (["cluster connection"], 11, None)
    other = net.between("a", "10.0.0.3:61616")
    assert other is not None
    assert (other.state, other.ill) == ("behind others", False)
    assert other.state in AT_REST


def test_one_that_does_not_answer_is_found_by_its_place_and_one_of_two_namesakes_is_not_taken_for_the_other() -> None:
    views = {
        "x": glance("localhost", bridge("localhost", place="tcp://127.0.0.1:61618", peer_id=""), nodeID="n1"),
        "y": glance("localhost", nodeID="n2"),
    }
    places = {"x": "tcp://localhost:61616", "y": "tcp://localhost:61618", "z": "failover:(ssl://h:1,tcp://z:7)?a=b"}
    down = bridge("", place="tcp://z:7", state="waiting", error="refused", peer_id="", connector="other")
    views["x"].bridges.append(down)
    net = topology(views, {}, {"z": "it is away"}, places)
    assert set(net.links) == {("x", "y"), ("x", "z")}
    assert (net.spots["z"].state, net.spots["z"].why) == (SILENT, "it is away")
    assert net.links["x", "z"].ill
    stranger = glance("q", bridge("x", peer_id=""))  # x here is a broker called localhost
    net = topology({"x": views["y"], "q": stranger}, {}, {}, urls("x", "q"))
    assert net.between("q", "x (10.0.0.9:1)") is not None


def test_zones_are_told_by_the_broker_or_by_who_is_joined_to_it_and_a_connector_without_a_peer_is_loose() -> None:
    searching = {"connector": "multi", "peer": "", "peer_url": "", "place": "", "state": "waiting", "initiator": True}
    views = {"a": glance("a", bridge("c", zone="fra"), searching, zone="ams"), "b": glance("b")}
    net = topology(views, {}, {}, urls("a", "b"))
    told = {zone: [spot.key for spot in spots] for zone, spots in net.zones().items()}
    assert told == {"ams": ["a"], "fra": ["c"], "": ["b"]}
    assert list(net.zones())[-1] == ""
    assert [(way.teller, way.connector) for way in net.loose] == [("a", "multi")]


def test_rates_need_two_looks_of_one_run_and_a_count_that_began_anew_is_none() -> None:
    first, second = glance("a", bridge("b", 10), at=1.0), glance("a", bridge("b", 30), at=5.0)
    assert link_rates(None, second) == {}
    assert link_rates(first, second) == {link_named(bridge("b")): Moved(5.0, 0.0)}
    assert link_rates(second, glance("a", bridge("b", 2), at=9.0)) == {}
    first.facts["uptimeMillis"], second.facts["uptimeMillis"] = 90_000, 1_000
    assert link_rates(first, second) == {}


def test_places_are_read_out_of_urls_of_every_kind() -> None:
    assert places_of("failover:(tcp://LocalHost:1,ssl://10.0.0.1:2?x=y)") == ["127.0.0.1:1", "10.0.0.1:2"]
    assert places_of("auto://[::1]:5") == ["127.0.0.1:5"]
    assert places_of("tcp://0.0.0.0:61616") == []
    assert places_of("unix:///run/x") == []
