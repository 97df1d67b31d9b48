from __future__ import annotations

from typing import cast

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.base.uri import Endpoint, parse
from entrepot.cluster.connector import NetworkConnector, connector_of
from entrepot.io.links import offered, verify


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


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("static:(tcp://a:1?foo=1)", "'foo'"),
        ("masterslave:(tcp://a:1,tcp://b:1?wireFormat.maxInactivityDuraton=5)", "wireFormat.maxInactivityDuraton"),
        ("static:(tcp://a:1?connectionTimeout=soon)", "'soon'"),
        ("static:(ssl://a:1?trustStorePath=/nowhere.pem)", "/nowhere.pem"),
        ("multicast://default?discovered.foo=1", "'foo'"),
    ],
)
def test_what_no_dialling_could_obey_is_known_before(uri: str, what: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        verify(NetworkConnector(connector_of(uri, 1, duplex=False)))
    assert what in caught.value.message


def test_what_dialling_obeys_passes() -> None:
    uri = "static:(tcp://a:1?wireFormat.maxInactivityDuration=0&soTimeout=3&keepAlive=true,vm://b?create=false)"
    verify(NetworkConnector(connector_of(uri, 1, duplex=False)))
