from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cluster.networks.connector import NetworkConnector, connector_of
from entrepot.io.links import verify


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
