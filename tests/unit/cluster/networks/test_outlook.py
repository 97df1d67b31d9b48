"""Why messages of one broker do not reach consumers of another: each reason provoked in a network of real cores."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import bridged
from bridged import Network, Reader, Site, SiteCensus
from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.networks.admission import BrokerPath, Replay
from entrepot.cluster.networks.connector import NetworkConnector
from entrepot.cluster.networks.lists import Included, Lists
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.cluster.networks.outlook import across
from entrepot.core.broker import selector_or_none
from entrepot.core.operators.explaining import explained
from entrepot.core.operators.where import Search

Q = "queue://Q"


def told(network: Network, name: str, destination: str = Q) -> dict[str, Any]:
    site = network.sites[name]
    assert site.broker is not None
    return explained(site.broker, SiteCensus(site), destination)


def everyone(network: Network, destination: str = Q) -> list[dict[str, Any]]:
    return [told(network, name, destination) for name, site in network.sites.items() if site.broker is not None]


def local(network: Network, name: str) -> list[str]:
    return [reason["code"] for queue in told(network, name)["queues"] for reason in queue["reasons"]]


def network_wide(network: Network) -> list[tuple[object, object]]:
    return [(reason["broker"], reason["code"]) for reason in across(everyone(network))]


def test_nobody_anywhere_wants_it() -> None:
    network = Network(1, [("A", "B")]).start()
    network.run(300)
    network.sites["A"].send(Q, "m")
    network.run(300)
    assert local(network, "A") == ["no-consumer"]
    assert network_wide(network) == []


def test_the_next_message_goes_over_the_bridge() -> None:
    network = Network(2, [("A", "B")]).start()
    network.sites["B"].read(Q)
    network.run(500)
    (queue,) = told(network, "A")["queues"]
    assert queue["next"]["peer"] == "B"
    (row,) = told(network, "A")["bridges"]
    assert (row["peer"], row["state"], row["demand"], row["permitted"]) == ("B", "open", True, True)


def test_the_bridge_is_down_since_then() -> None:
    network = Network(3, [("A", "B")]).start()
    network.sites["B"].read(Q)
    network.run(500)
    network.cut("A", "B")
    network.run(2000)
    network.sites["A"].send(Q, "m")
    network.run(100)
    found = across(everyone(network))
    assert {reason["code"] for reason in found} == {"bridge-down", "no-way"}
    text = next(str(reason["text"]) for reason in found if reason["code"] == "bridge-down")
    assert "to B (" in text
    assert "down since 2." in text


def test_the_bridge_is_stalled_since_then() -> None:
    interval = 5 * SECOND  # two of them are less than the 15 s after which B gives a silent A up
    network = Network(7, [("A", "B")], options="prefetchSize=2", interval=interval).start()
    network.sites["B"].read(Q)
    network.run(500)
    for number in range(3):
        network.sites["A"].send(Q, f"before {number}")
    network.run(1_000)
    assert network_wide(network) == []
    network.deafen("A", "B")  # and what B writes still comes: it lives
    for number in range(5):
        network.sites["A"].send(Q, f"m{number}")
    network.run(14_000)
    assert local(network, "A") == ["bridge-busy"]
    (reason,) = across(everyone(network))
    assert (reason["broker"], reason["code"]) == ("A", "bridge-stalled")
    assert re.search(r"to B is stalled since 1\d\.\d s: its broker lives and confirms nothing", str(reason["text"]))
    (row,) = told(network, "A")["bridges"]
    assert (row["state"], row["error"]) == ("stalled", "")
    assert told(network, "A", "queue://other")["bridges"][0]["state"] == "stalled"
    assert across(everyone(network, "queue://other")) == []  # nothing of it is held up
    network.run(3_000)  # B heard nothing for three intervals, and says so; then all of them arrive
    assert network_wide(network) == []
    assert all(network.seen[f"m{number}"] == ["B"] for number in range(5))


def test_a_stopped_connector_is_named_with_what_starts_it() -> None:
    network = Network(4, [("A", "B")]).start()
    network.sites["B"].read(Q)
    network.run(500)
    site = network.sites["A"]
    site.turn(lambda: site.connectors[0].stop(network.world.time))
    site.send(Q, "m")
    network.run(100)
    (reason,) = [one for one in across(everyone(network)) if one["code"] == "bridge-down"]
    assert "entrepot bridge start" in str(reason["remedy"])
    assert "is down since 0.1 s, stopped" in str(reason["text"])


def test_demand_that_is_too_far_away() -> None:
    network = Network(5, [("A", "B"), ("B", "C")], options="consumerTTL=1&messageTTL=-1").start()
    network.sites["C"].read(Q)
    network.run(500)
    network.sites["A"].send(Q, "m")
    network.run(300)
    assert network_wide(network) == [("A", "consumer-ttl")]
    assert "networkTTL=2" in str(across(everyone(network))[0]["remedy"])


def test_a_message_whose_hops_are_used_up() -> None:
    network = Network(6, [("A", "B"), ("B", "C")], options="consumerTTL=-1&messageTTL=1").start()
    network.sites["C"].read(Q)
    network.run(500)
    network.sites["A"].send(Q, "m")
    network.run(500)
    assert local(network, "B") == ["ttl"]


def test_replay_is_off() -> None:
    network = Network(7, [("A", "B"), ("B", "A")]).start()
    a, b = network.sites["A"], network.sites["B"]
    b.read(Q)
    network.run(500)
    pause(b)
    a.send(Q, "m")
    network.run(500)
    b.leave(Q)
    a.read(Q)
    resume(b)
    network.run(500)
    assert local(network, "B") == ["path"]
    (queue,) = told(network, "B")["queues"]
    assert "replayWhenNoConsumers" in queue["reasons"][0]["remedy"]
    assert queue["next"]["who"] == ""


def test_a_conduit_brings_what_no_selector_wants() -> None:
    network = Network(8, [("A", "B")]).start()
    select(network.sites["B"], "colour = 'red'")
    network.run(500)
    network.sites["A"].send(Q, "m")
    network.run(500)
    assert local(network, "B") == ["conduit"]
    (queue,) = told(network, "B")["queues"]
    assert queue["head_path"] == [network.sites["A"].broker.ids.node_id]  # type: ignore[union-attr]
    assert "conduitSubscriptions=false" in queue["reasons"][0]["remedy"]


def select(site: Site, selector: str) -> None:

    assert site.broker is not None
    broker = site.broker
    reader = Reader(site, Q, 10)
    reader.selector = selector_or_none(selector)
    reader.tracked = True
    site.readers[Q] = reader
    site.turn(lambda: broker.subscribe(reader))


def test_lists_that_do_not_let_it_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = Lists(excluded=(Included("Q", topic=False),))
    monkeypatch.setattr(bridged, "NetworkConnector", lambda options: NetworkConnector(options, lists))
    network = Network(9, [("A", "B")]).start()
    network.sites["B"].read(Q)
    network.run(500)
    network.sites["A"].send(Q, "m")
    network.run(300)
    assert network_wide(network) == [("A", "excluded")]


def test_brokers_that_do_not_answer_are_named() -> None:
    network = Network(10, [("A", "B")]).start()
    network.run(300)
    network.sites["A"].send(Q, "m")
    (reason,) = across([told(network, "A")], ["tcp://b:61616"])
    assert reason["code"] == "silent"
    assert "tcp://b:61616" in str(reason["text"])


def test_asking_takes_nothing_from_a_rate_limit() -> None:

    network = Network(11, [("A", "B")]).start()
    network.run(300)
    site = network.sites["A"]
    site.send(Q, "m")
    network.run(100)
    assert site.broker is not None
    queue = site.broker.table.queues["Q"]
    first = queue.backlog.first()
    assert first is not None
    options = BridgeFilterOptions(rate_limit=1, rate_duration=10_000 * MILLISECOND)
    rule = Replay(BrokerPath("B", -1), options)
    assert [rule.refusal(first.message, queue) for _ in range(3)] == ["", "", ""]
    assert rule.crossing(first.message, queue) == ""
    found = rule.objection(first.message, queue)
    assert found is not None
    assert found.code == "replay-waits"


def test_a_message_is_found_on_its_way_with_its_path() -> None:
    network = Network(12, [("A", "B"), ("B", "C")], options="networkTTL=3").start()
    network.sites["C"].read(Q)
    network.run(500)
    pause(network.sites["C"])
    network.sites["A"].send(Q, "m")
    network.run(500)
    site = network.sites["C"]
    assert site.broker is not None
    search = Search(site.broker, SiteCensus(site), "ID:A-m:1:1:1")
    until_done(search.step)
    result: Any = search.result()
    (place,) = result["places"]
    assert place["state"] == "waiting"
    nodes = [network.sites[name].broker.ids.node_id for name in "AB"]  # type: ignore[union-attr]
    assert place["path"] == nodes


def pause(site: Site) -> None:
    assert site.broker is not None
    site.broker.table.queues["Q"].gate.pause()


def resume(site: Site) -> None:
    assert site.broker is not None
    site.turn(site.broker.table.queues["Q"].dispatcher.resume)


def until_done(step: Callable[[], bool]) -> None:
    while not step():
        pass


def test_what_came_the_long_way_round_is_kept_where_the_shorter_way_leads_back() -> None:
    ring = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "A")]
    options = "networkTTL=4&suppressDuplicateQueueSubscriptions=true"
    network = Network(30, [*ring, *((b, a) for a, b in ring)], options=options).start()
    network.sites["C"].read(Q)
    network.run(1500)
    network.cut("B", "C")
    network.run(1000)
    network.sites["B"].send(Q, "m")  # it goes the long way round, over A and D
    network.cut("D", "A")
    network.run(1000)
    assert local(network, "A") == ["no-consumer"]
    del network.cuts["B", "C"]
    network.run(1000)
    network.heal()
    network.run(1000)
    assert not network.seen
    assert local(network, "A") == ["path"]
    assert network_wide(network) == [("A", "suppressed")]
