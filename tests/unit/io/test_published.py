"""Which address clients are told of a connector (``publishedAddressPolicy``)."""

from __future__ import annotations

import socket

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.base.uri import Endpoint
from entrepot.io.announcing import published_uri
from entrepot.protocols.openwire.options import OpenWireOptions, read_option


def told(place: Endpoint, **options: str) -> str:
    made = OpenWireOptions()
    for name, text in options.items():
        assert read_option(made, name, text)
    return published_uri(place, made.published)


def test_without_a_policy_it_is_the_place_or_the_name_of_this_machine() -> None:
    assert told(Endpoint("tcp", "mq1.example", 61616)) == "tcp://mq1.example:61616"
    assert told(Endpoint("ssl", "", 61617)) == f"ssl://{socket.gethostname()}:61617"


def test_strategies() -> None:
    place = Endpoint("tcp", "mq1.example", 1)
    assert told(place, publishedHostStrategy="hostname") == f"tcp://{socket.gethostname()}:1"
    assert told(place, publishedHostStrategy="FQDN") == f"tcp://{socket.getfqdn()}:1"
    host = told(place, publishedHostStrategy="IPADDRESS").removeprefix("tcp://").removesuffix(":1")
    assert socket.inet_aton(host)


def test_hosts_ports_and_a_query() -> None:
    where = told(
        Endpoint("tcp", "inner", 61616),
        publishedHostMapping="inner=outer.example,other=x",
        publishedPortMapping="61616=7000",
        clusterClientUriQuery="wireFormat.maxInactivityDuration=5000",
    )
    assert where == "tcp://outer.example:7000?wireFormat.maxInactivityDuration=5000"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("publishedHostStrategy", "NAME"),
        ("publishedPortMapping", "1=0"),
        ("publishedPortMapping", "a=b"),
        ("publishedHostMapping", "a"),
    ],
)
def test_what_is_no_policy_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidOption):
        read_option(OpenWireOptions(), name, text)
