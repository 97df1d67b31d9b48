"""Connectors: what they offer where they dial."""

from __future__ import annotations

from typing import cast

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.uri import Endpoint, parse
from entrepot.cluster.carrying.draw_options import draw_of
from entrepot.cluster.networks.connector import connector_back
from entrepot.cluster.networks.lists import Place
from entrepot.cluster.networks.opening import offered


@pytest.mark.parametrize(
    ("options", "interval", "expected"),
    [
        ("", 10 * SECOND, 30_000),
        ("", 60 * SECOND, 30_000),
        ("", 500 * MILLISECOND, 1_500),
        ("?wireFormat.maxInactivityDuration=0", 500 * MILLISECOND, 0),
        ("?wireFormat.maxInactivityDuration=90000", SECOND, 90_000),
    ],
)
def test_a_quiet_peer_is_heard_in_each_interval_of_supervision(options: str, interval: int, expected: int) -> None:
    place = cast("Endpoint", parse(f"tcp://b:61616{options}"))
    offer = offered(place, interval)
    assert offer.max_inactivity_duration == expected
    assert offer.host == "b"


def test_the_way_back_to_an_activemq_is_one_connector() -> None:
    entry = draw_of("activemq:(tcp://a:1,ssl://b:2)?userName=me&password=it&back=results,more&retryInterval=250", 1)
    made = connector_back(entry)
    assert made is not None
    options = made.options
    assert (options.name, options.user, options.password, options.duplex) == ("activemq-back", "me", "it", False)
    assert options.uri == "masterslave:(tcp://a:1,ssl://b:2)?initialReconnectDelay=250&maxReconnectDelay=30000"
    assert options.static
    assert [one.pattern for one in made.lists.static] == ["results", "more"]
    assert made.lists.static[0].covers(Place("results", topic=False))


@pytest.mark.parametrize("text", ["activemq:(tcp://a:1)", "artemis:(tcp://a:1)?back=results"])
def test_no_way_back(text: str) -> None:
    assert connector_back(draw_of(text, 1)) is None
