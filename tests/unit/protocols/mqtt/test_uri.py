"""Options of a listener for MQTT: names of both families, bounds of MQTT."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.schema import KEEPS_FOR_EVER
from entrepot.protocols.mqtt.uri import DEFAULT_STRATEGY, OPTION_NAMES, PREFIXES, read_option


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("maximumPacketSize", "1000", "packet_octets_max", 1000),
        ("maxFrameSize", str(1 << 60), "packet_octets_max", 268_435_455),
        ("receiveMaximum", "7", "receive_maximum", 7),
        ("defaultMaximumInFlightPublishMessages", "7", "in_flight_max", 7),
        ("activeMQSubscriptionPrefetch", "100000", "in_flight_max", 65_535),
        ("topicAliasMaximum", "0", "topic_aliases_max", 0),
        ("serverKeepAlive", "-1", "keep_alive_server", -1),
        ("defaultKeepAlive", "30000", "keep_alive_default", 30),
        ("defaultMqttSessionExpiryInterval", "-1", "session_expiry", KEEPS_FOR_EVER),
        ("closeMqttConnectionOnPublishAuthorizationFailure", "false", "closes_on_denial", False),
        ("publishDollarTopics", "true", "dollar_topics", True),
        ("allowLinkStealing", "false", "link_stealing", False),
        ("maximumConsumersAllowedPerConnection", "3", "subscriptions_max", 3),
    ],
)
@pytest.mark.parametrize("prefix", ["", *PREFIXES])
def test_an_option_is_obeyed_behind_each_prefix(prefix: str, name: str, text: str, attribute: str, value: int) -> None:
    options = MqttOptions()
    assert read_option(options, prefix + name, text)
    assert getattr(options, attribute) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("receiveMaximum", "0"),
        ("receiveMaximum", "65536"),
        ("maximumPacketSize", "19"),
        ("publishDollarTopics", "perhaps"),
        ("subscriptionStrategy", "mqtt-no-such-subscriptions"),
    ],
)
def test_a_value_beyond_the_limits_of_mqtt_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name}|strategy"):
        read_option(MqttOptions(), name, text)


def test_the_names_that_are_documented_are_known() -> None:
    texts = {"subscriptionStrategy": DEFAULT_STRATEGY} | dict.fromkeys(
        ("closeMqttConnectionOnPublishAuthorizationFailure", "publishDollarTopics"), "true"
    )
    assert all(read_option(MqttOptions(), name, texts.get(name, "100")) for name in OPTION_NAMES)
    assert not read_option(MqttOptions(), "maxHeaders", "1")
