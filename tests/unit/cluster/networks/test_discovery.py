"""Who is there: URIs of connectors, and ActiveMQ's own datagrams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.cluster.networks.connector import NetworkConnector, connector_of
from entrepot.cluster.networks.discovery import (
    Beacon,
    hearing,
    parse_connector,
)
from entrepot.protocols.announcement import (
    Forgotten,
    Found,
    MulticastOptions,
    announcement,
    parse_announcement,
)

BEACON = Beacon("239.255.2.3", 6155, MulticastOptions(), {"wireFormat.host": "x"})


def test_a_static_list_is_a_bridge_each_with_its_reconnect_options() -> None:
    found = parse_connector("static:(tcp://a:1,ssl://b:2)?initialReconnectDelay=50&discovered.soTimeout=3")
    assert [target.key for target in found.targets] == ["a:1", "b:2"]
    assert found.reconnect.initial_delay == 50 * MILLISECOND
    assert found.reconnect.max_delay == 30 * SECOND
    assert all(target.places[0].options["soTimeout"] == "3" for target in found.targets)


@pytest.mark.parametrize("text", ["masterslave:(tcp://a:1,tcp://b:2)", "static:(failover:(tcp://a:1,tcp://b:2))"])
def test_masters_and_slaves_are_one_bridge_with_several_places(text: str) -> None:
    (target,) = parse_connector(text).targets
    assert [place.host for place in target.places] == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["masterslave:(tcp://a:1)", "static:()", "static:(stomp://a:1)", "peer:(tcp://a:1)", "stomp://a:1"]
)
def test_what_finds_no_broker_is_refused(text: str) -> None:
    with pytest.raises(InvalidURI):
        parse_connector(text)


def test_multicast_has_defaults_of_its_own() -> None:
    found = parse_connector("multicast://default?group=mine")
    (beacon,) = found.beacons
    assert (beacon.host, beacon.port, beacon.options.group) == ("239.255.2.3", 6155, "mine")
    assert found.reconnect.initial_delay == 5 * SECOND
    assert not found.reconnect.exponential


def test_the_datagram_is_that_of_activemq() -> None:
    assert announcement("default", "tcp://h:61616", alive=True) == b"default.ActiveMQ-4.alive.%localhost%tcp://h:61616"
    assert parse_announcement(b"default.ActiveMQ-4.dead.%localhost%tcp://h:1", "default") == (False, "tcp://h:1")
    assert parse_announcement(b"other.ActiveMQ-4.alive.%localhost%tcp://h:1", "default") is None


def test_a_broker_is_found_once_and_forgotten_after_ten_missed_announcements() -> None:
    news = hearing(BEACON)
    data = announcement("default", "tcp://h:1", alive=True)
    (found,) = news.heard(data, 0)
    assert isinstance(found, Found)
    assert found.place.options == {"wireFormat.host": "x"}
    assert news.heard(data, SECOND) == []
    assert news.advance(5 * SECOND) == []
    assert news.deadline() == 6 * SECOND
    (gone,) = news.advance(6 * SECOND)
    assert isinstance(gone, Forgotten)
    assert [type(event) for event in news.heard(data, 7 * SECOND)] == [Found]
    assert [type(event) for event in news.heard(announcement("default", "tcp://h:1", alive=False), 8 * SECOND)] == [
        Forgotten
    ]


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: announcement("default", text, alive=True)))
def test_no_datagram_does_harm(data: bytes) -> None:
    news = hearing(BEACON)
    for event in news.heard(data, 0):
        assert event.place.host


def test_attributes_of_a_connector_may_stand_in_its_uri() -> None:
    options = connector_of("static:(tcp://a:1)?networkTTL=3&initialReconnectDelay=7", 2, duplex=True)
    assert (options.consumer_ttl, options.message_ttl) == (3, 3)
    said = NetworkConnector(connector_of("static:(tcp://a:1)?networkTTL=3&messageTTL=1", 1, duplex=False)).options
    assert (said.consumer_ttl, said.message_ttl) == (3, 1), "what was said is not taken for the default"
    assert options.name == "NC-2"
    assert options.duplex
    assert options.uri == "static:(tcp://a:1)?initialReconnectDelay=7"


@pytest.mark.parametrize(
    "text", ["fanout:(static:(tcp://a:1,tcp://b:1))", "fanout:(tcp://a:1,tcp://b:1)?minAckCount=2"]
)
def test_a_fanout_is_a_bridge_to_each(text: str) -> None:
    assert [target.key for target in parse_connector(text).targets] == ["a:1", "b:1"]


@pytest.mark.parametrize("text", ["zeroconf://eu", "rendezvous:eu", "zeroconf:?group=eu", "discovery:(zeroconf://eu)"])
def test_dns_sd_names_a_group(text: str) -> None:
    (beacon,) = parse_connector(text).beacons
    assert beacon.zeroconf
    assert beacon.options.group == "eu"


def test_places_without_a_port_are_told_apart() -> None:
    targets = parse_connector("static:(vm://a,vm://b,unix:///run/c)").targets
    assert [target.key for target in targets] == ["vm://a", "vm://b", "unix:///run/c"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("static:(tcp://u:p@a:1)", "userName"),
        ("static:(tcp://a:1)?duplex=true", 'duplex="true"'),
        ("static:(failover:(tcp://a:1)?randomise=true)", "did you mean randomize"),
        ("static:(tcp://a:1)?netwrkTTL=2", "did you mean networkTTL"),
    ],
)
def test_what_a_bridge_would_not_heed_is_refused(text: str, word: str) -> None:
    with pytest.raises((InvalidURI, InvalidOption)) as caught:
        parse_connector(text)
    assert word in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("static:(failover:(tcp://a:1,tcp://b:1)?maxReconnectAttempts=0&randomize=false)", []),
        ("static:(failover:(tcp://a:1)?maxReconnectAttempts=9&timeout=5)", ["maxReconnectAttempts=9", "timeout=5"]),
        ("fanout:(static:(tcp://a:1))?minAckCount=2", ["minAckCount=2"]),
        ("zeroconf://g?weight=3", ["weight=3"]),
        ("rendezvous://g", ["rendezvous:"]),
    ],
)
def test_what_has_no_effect_on_a_bridge_is_said(text: str, words: list[str]) -> None:
    notes = parse_connector(text).notes
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


def test_nested_options_go_to_each_place_of_a_failover() -> None:
    (target,) = parse_connector("static:(failover:(tcp://a:1,tcp://b:1?keepAlive=false)?nested.keepAlive=true)").targets
    assert [place.options for place in target.places] == [{"keepAlive": "true"}, {"keepAlive": "true"}]
