"""What a way does to messages, hop by hop: each risk as it is found, and a way without any."""

from __future__ import annotations

import pytest

from entrepot.analysis.hops import Grade, Hop, ends, way, weakest
from entrepot.base.errors import InvalidOption

from .networks import Files, connector, listed
from .test_clusters import MOVES, Cluster, joined, static

STORE = '<persistenceAdapter><kahaDB directory="/mq/{}"/></persistenceAdapter>'
REPLAY = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><networkBridgeFilterFactory>'
    '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/></networkBridgeFilterFactory></policyEntry>'
    "</policyEntries></policyMap></destinationPolicy>"
)
SAFE = 'conduitSubscriptions="false"'


def sound(name: str, *connectors: str) -> Files:
    return Files().add(name, *connectors, body=STORE.format(name) + REPLAY)


def unaudited(files: Files) -> Files:
    for file, text in files.texts.items():
        files.texts[file] = text.replace("<transportConnector ", '<transportConnector auditNetworkProducers="false" ')
    return files


def two(attributes: str = SAFE, inner: str = "", *, body: str | None = None, settings: str = "") -> Files:
    files = sound("a", connector("b:61616", attributes, inner))
    return files.add("b", body=STORE.format("b") + REPLAY if body is None else body, attributes=settings)


def hops(files: Files, text: str = "a:b") -> list[Hop]:
    network = files.network()
    return way(network, *ends(network, text))


def risks(files: Files, text: str = "a:b") -> dict[Grade, str]:
    (hop,) = hops(files, text)
    found = {risk.grade: risk.what for risk in hop.risks}
    assert all(risk.remedy for risk in hop.risks)
    assert [risk.grade for risk in hop.risks] == sorted((risk.grade for risk in hop.risks), reverse=True)
    return found


def test_a_hop_that_adds_no_risk() -> None:
    (hop,) = hops(two())
    assert hop.risks == ()
    assert hop.grade is Grade.KEEPS


def test_what_is_lost() -> None:
    assert "b keeps nothing on disk: what has come" in risks(two(body=REPLAY))[Grade.LOSES]
    assert "non-persistent messages under way" in risks(two(SAFE + ' alwaysSyncSend="false"'))[Grade.LOSES]
    files = Files().add("a", connector("b:61616", SAFE)).add("b", body=STORE.format("b") + REPLAY)
    assert "a keeps nothing on disk: what was not sent on yet" in risks(files)[Grade.LOSES]


def test_what_comes_twice() -> None:
    files = sound("a", connector("b:61616", SAFE)).add("b", body=STORE.format("b") + REPLAY)
    assert hops(files)[0].risks == ()
    (hop,) = hops(unaudited(files))
    assert [(risk.grade, risk.remedy) for risk in hop.risks] == [
        (Grade.DOUBLES, 'take out auditNetworkProducers="false" at b')
    ]
    back = sound("a", connector("b:61616", SAFE + ' duplex="true"')).add("b", body=STORE.format("b") + REPLAY)
    assert hops(back, "b:a")[0].risks == ()
    unchecked = SAFE + ' duplex="true" checkDuplicateMessagesOnDuplex="false"'
    back = sound("a", connector("b:61616", unchecked)).add("b", body=STORE.format("b") + REPLAY)
    (hop,) = hops(back, "b:a")
    assert [risk.remedy for risk in hop.risks] == ['take out checkDuplicateMessagesOnDuplex="false"']


def test_what_is_stranded() -> None:
    assert "do not go on or back when its consumers leave" in risks(two(body=STORE.format("b")))[Grade.STRANDS]
    always = listed("staticallyIncludedDestinations", "queue:q")
    assert "cross without consumers at b" in risks(two(inner=always))[Grade.STRANDS]
    chosen = STORE.format("b") + REPLAY + "<plugins><virtualSelectorCacheBrokerPlugin/></plugins>"
    assert "no selector at b wants" in risks(two("", body=chosen))[Grade.STRANDS]


def test_a_ttl_that_is_too_short_stops_what_goes_further() -> None:
    files = sound("a", connector("b:61616", SAFE))
    files.add("b", connector("c:61616", SAFE), body=STORE.format("b") + REPLAY)
    files.add("c", body=STORE.format("c") + REPLAY)
    found = hops(files, "a:c")
    assert [hop.grade for hop in found] == [Grade.STOPS, Grade.STOPS]
    assert [hop.grade for hop in hops(files, "a:b")] == [Grade.KEEPS]
    assert found[0].risks[0].remedy == 'networkTTL="2" on every connector of the way'


def test_the_weakest_is_the_first_of_the_worst() -> None:
    files = sound("a", connector("b:61616", SAFE + ' networkTTL="3"'))
    files.add("b", connector("c:61616", SAFE + ' networkTTL="3"'), body=STORE.format("b") + REPLAY)
    files.add("c", connector("d:61616", SAFE + ' networkTTL="3"'), body=REPLAY)
    files.add("d", body=REPLAY)
    found = hops(files, "a:d")
    assert [hop.grade for hop in found] == [Grade.KEEPS, Grade.LOSES, Grade.LOSES]
    assert weakest(found) == 1


def test_in_clusters() -> None:
    def cluster(options: str = "", settings: str = MOVES.format("#", 0)) -> Cluster:
        files = Cluster().node("a", joined(static("b"), options), "b", settings=settings)
        files.node("b", joined(static("a")), "a")
        for file, text in files.texts.items():
            files.texts[file] = text.replace("<persistence-enabled>false</persistence-enabled>", "")
        return files

    assert risks(cluster()) == {}
    assert "redistribution-delay is -1" in risks(cluster(settings=""))[Grade.STRANDS]
    way_of = "<message-load-balancing>{}</message-load-balancing>"
    assert "OFF: messages of queues stay on a" in risks(cluster(way_of.format("OFF")))[Grade.STOPS]
    assert risks(cluster(way_of.format("OFF_WITH_REDISTRIBUTION"))) == {}
    assert Grade.STOPS in risks(cluster(way_of.format("OFF_WITH_REDISTRIBUTION"), MOVES.format("eu", 0)))
    assert "STRICT" in risks(cluster(way_of.format("STRICT")))[Grade.STRANDS]
    twice = "<use-duplicate-detection>false</use-duplicate-detection>"
    assert "comes again" in risks(cluster(twice))[Grade.DOUBLES]
    assert "max-hops" in risks(cluster("<max-hops>0</max-hops>"))[Grade.STOPS]


def test_names_of_brokers_may_hold_colons_and_unknown_ones_are_refused() -> None:
    files = sound("x:1", connector("b:61616")).add("b")
    network = files.network()
    assert ends(network, "x:1:b") == (0, 1)
    with pytest.raises(InvalidOption, match="write FROM:TO with x:1, b"):
        ends(network, "x:b")
    assert way(network, *ends(network, "b:x:1")) == []
