"""What a listener's URI may say about MQTT: Artemis' parameters of acceptors, and Classic's options (classic.md 6.4).

The names may stand behind ``transport.``, ``wireFormat.`` or, on a port that detects, ``wireFormat.mqtt.`` and
``auto.mqtt.``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from entrepot.base.errors import InvalidOption
from entrepot.base.uri import set_option
from entrepot.base.values import boolean, whole
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.schema import KEEPS_FOR_EVER

PREFIXES: Final = ("wireFormat.mqtt.", "auto.mqtt.", "wireFormat.", "transport.")
DEFAULT_STRATEGY: Final = "mqtt-default-subscriptions"
VIRTUAL_STRATEGY: Final = "mqtt-virtual-topic-subscriptions"
OPTION_NAMES: Final = (
    "maximumPacketSize",
    "receiveMaximum",
    "defaultMaximumInFlightPublishMessages",
    "topicAliasMaximum",
    "serverKeepAlive",
    "defaultKeepAlive",
    "defaultMqttSessionExpiryInterval",
    "closeMqttConnectionOnPublishAuthorizationFailure",
    "publishDollarTopics",
    "subscriptionStrategy",
    "router",
    "activeMQSubscriptionPrefetch",
)


def read_option(options: MqttOptions, written: str, text: str) -> bool:
    """Set what ``written`` names from ``text``; False when MQTT has no such option. Raises InvalidOption."""
    remedy = "use a number within the limits of MQTT; true or false for a choice"
    return set_option(partial(_take, options), written, text, PREFIXES, remedy)


def _take(options: MqttOptions, name: str, text: str) -> bool:
    if name in ("maximumPacketSize", "maxFrameSize"):
        options.packet_octets_max = min(whole(text, 20, 1 << 62), 268_435_455)
    elif name == "receiveMaximum":
        options.receive_maximum = whole(text, 1, 65_535)
    elif name == "defaultMaximumInFlightPublishMessages":
        options.in_flight_max = whole(text, 1, 65_535)
    elif name == "activeMQSubscriptionPrefetch":
        if text != "-1":
            options.in_flight_max = min(whole(text, 1, 1 << 31), 65_535)
    elif name == "topicAliasMaximum":
        options.topic_aliases_max = whole(text, 0, 65_535)
    elif name == "serverKeepAlive":
        options.keep_alive_server = -1 if text == "-1" else whole(text, 0, 65_535)
    elif name == "defaultKeepAlive":
        options.keep_alive_default = whole(text, 0, 65_535_000) // 1000
    elif name == "defaultMqttSessionExpiryInterval":
        options.session_expiry = KEEPS_FOR_EVER if text == "-1" else whole(text, 0, KEEPS_FOR_EVER)
    elif name == "allowLinkStealing":
        options.link_stealing = boolean(text)
    elif name == "closeMqttConnectionOnPublishAuthorizationFailure":
        options.closes_on_denial = boolean(text)
    elif name == "publishDollarTopics":
        options.dollar_topics = boolean(text)
    elif name == "maximumConsumersAllowedPerConnection":
        options.subscriptions_max = min(whole(text, 1, 1 << 31), int(options.subscriptions_max))
    elif name == "router":
        options.router = text
    elif name == "subscriptionStrategy":
        options.virtual_topics = text == VIRTUAL_STRATEGY
        if text not in (DEFAULT_STRATEGY, VIRTUAL_STRATEGY):
            raise InvalidOption(
                f"the subscription strategy {text!r} is not done here",
                remedy=f"use {DEFAULT_STRATEGY} or {VIRTUAL_STRATEGY}",
            )
    else:
        return False
    return True
