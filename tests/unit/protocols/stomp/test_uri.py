"""Options of a listener for STOMP: Classic's names behind its prefixes, and Artemis'."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.uri import FRAME_OCTETS_MAX, PREFIXES, read_option


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("maxFrameSize", "1000", "frame_octets_max", 1000),
        ("maxDataLength", str((1 << 63) - 1), "frame_octets_max", FRAME_OCTETS_MAX),
        ("stompMaxFramePayloadLength", "5", "frame_octets_max", 5),
        ("maxCommandLength", "30", "command_octets_max", 30),
        ("maxHeaderLength", "40", "line_octets_max", 40),
        ("maxHeaders", "50", "headers_max", 50),
        ("maximumConsumersAllowedPerConnection", "2", "subscriptions_max", 2),
        ("stompMinLargeMessageSize", "9", "large_octets", 9),
        ("defaultHeartBeat", "100,0", "heartbeat_default", "100,0"),
        ("router", "by-key", "router", "by-key"),
        ("allowLinkStealing", "true", "link_stealing", True),
        ("hbGracePeriodMultiplier", "1.5", "heartbeat_grace", 1.5),
        ("heartBeatToConnectionTtlModifier", "2", "heartbeat_grace", 2.0),
    ],
)
@pytest.mark.parametrize("prefix", ["", *PREFIXES])
def test_an_option_is_obeyed_behind_each_prefix(
    prefix: str, name: str, text: str, attribute: str, value: object
) -> None:
    options = StompOptions()
    assert read_option(options, prefix + name, text)
    assert getattr(options, attribute) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("maxFrameSize", "0"), ("maxHeaders", "-1"), ("defaultHeartBeat", "100"), ("hbGracePeriodMultiplier", "0.5")],
)
def test_a_value_that_is_none_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        read_option(StompOptions(), name, text)


def test_what_is_another_protocols_is_left_to_it() -> None:
    assert not read_option(StompOptions(), "maximumPacketSize", "100")
