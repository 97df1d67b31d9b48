"""Transport options: obeyed, accepted with a note, or refused by name."""

from __future__ import annotations

import logging

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.base.uri import Endpoint, parse
from entrepot.io.options import BACKLOG, NO_EFFECT, TAKERS, UNLIMITED, TransportOptions, read


def options_of(query: str, *spoken: str) -> TransportOptions:
    endpoint = parse(f"stomp://h:1?{query}")
    assert isinstance(endpoint, Endpoint)
    return read(endpoint, lambda name, text: name in spoken)


def test_the_defaults_are_classics() -> None:
    options = options_of("")
    assert options.connections_max == UNLIMITED
    assert options.backlog == BACKLOG
    assert options.detection_timeout == 30 * SECOND
    assert not options.proxied
    assert not options.secure


@pytest.mark.parametrize(
    ("query", "attribute", "value"),
    [
        ("maximumConnections=1000", "connections_max", 1000),
        ("connectionsAllowed=-1", "connections_max", UNLIMITED),
        ("backlog=7", "backlog", 7),
        ("socketBufferSize=4096", "send_octets", 4096),
        ("socketBufferSize=4096", "receive_octets", 4096),
        ("tcpSendBufferSize=-1", "send_octets", None),
        ("transport.soWriteTimeout=250", "write_timeout", 250 * MILLISECOND),
        ("transport.soLinger=5", "linger_seconds", 5),
        ("transport.keepAlive=true", "keep_alive", True),
        ("transport.tcpNoDelay=false", "no_delay", False),
        ("socket.trafficClass=8", "traffic_class", 8),
        ("diffServ=46", "traffic_class", 184),
        ("protocolDetectionTimeOut=10", "detection_timeout", 10 * MILLISECOND),
        ("handshake-timeout=10", "detection_timeout", 10 * SECOND),
        ("auto.protocols=default,stomp", "protocols", ["openwire", "stomp"]),
        ("proxyProtocolEnabled=true", "proxied", True),
        ("sslEnabled=TRUE", "secure", True),
    ],
)
def test_an_option_is_obeyed(query: str, attribute: str, value: object) -> None:
    assert getattr(options_of(query), attribute) == value


@pytest.mark.parametrize("name", ["needClientAuth", "transport.needClientAuth"])
def test_tls_options_stand_with_or_without_their_prefix(name: str) -> None:
    assert options_of(f"{name}=true").tls.need_client


@pytest.mark.parametrize("name", [*sorted(NO_EFFECT), "wireFormat.cacheSize", "wireFormat.default.version"])
def test_what_has_no_effect_is_accepted_and_said(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        options_of(f"{name}=1")
    assert name in caplog.text
    assert "no effect" in caplog.text


def test_an_option_of_a_protocol_is_the_protocols() -> None:
    options_of("wireFormat.maxFrameSize=5", "wireFormat.maxFrameSize")
    with pytest.raises(InvalidOption, match=r"wireFormat\.maxFrameSize"):
        options_of("wireFormat.maxFrameSize=5")


def test_an_unknown_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidOption, match=r"'maximumConections'.*did you mean 'maximumConnections'"):
        options_of("maximumConections=5")


@pytest.mark.parametrize(
    "query",
    [
        "maximumConnections=many",
        "maximumConnections=-2",
        "keepAlive=yes",
        "backlog=0",
        "trafficClass=256",
        "soLinger=70000",
        "writeBufferHighWaterMark=10&writeBufferLowWaterMark=10",
    ],
)
def test_a_bad_value_is_refused(query: str) -> None:
    with pytest.raises(InvalidOption):
        options_of(query)


def test_nothing_is_both_obeyed_and_without_effect() -> None:
    assert TAKERS.keys() & NO_EFFECT.keys() == set()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("updateClusterClient", "updateClusterClients"),
        ("wireFormat.maxInactivityDuraton", "wireFormat.maxInactivityDuration"),
    ],
)
def test_what_openwire_would_have_read_is_guessed_too(written: str, meant: str) -> None:
    with pytest.raises(InvalidOption, match=f"did you mean '{meant}'"):
        options_of(f"{written}=1")
