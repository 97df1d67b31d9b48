"""The limits and habits of one MQTT connector; names and defaults are Artemis' (artemis.md 5.3) if it has them. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.environment import MIB
from entrepot.protocols.mqtt.schema import KEEPS_FOR_EVER


class MqttOptions:
    """Octets for sizes, ms for times, where nothing else is said."""

    def __init__(self) -> None:
        self.packet_octets_max: i64 = 268_435_455  # maximumPacketSize
        self.receive_maximum: i64 = 65_535  # of what a client sends and we have not answered
        self.in_flight_max: i64 = 65_535  # defaultMaximumInFlightPublishMessages: to a client that does not say
        self.in_flight_octets: i64 = 16 * MIB  # of one subscription, unanswered: they stay in memory
        self.topic_aliases_max: i64 = 1000  # Artemis has 65535; each alias of each connection is a name in memory
        self.aliases_out_max: i64 = 1000  # that we use, if the client allows them
        self.keep_alive_server: i64 = 60  # s, MQTT 5: for clients that say 0 or more; -1 as they say, 0 none
        self.keep_alive_default: i64 = 0  # s, before MQTT 5: for clients that say 0
        self.session_expiry: i64 = KEEPS_FOR_EVER  # s: of sessions before MQTT 5 that are not clean
        self.session_expiry_max: i64 = KEEPS_FOR_EVER  # s
        self.link_stealing: bool = True  # who comes with a client id in use takes it over, as the standard says
        self.closes_on_denial: bool = True  # closeMqttConnectionOnPublishAuthorizationFailure, before MQTT 5
        self.dollar_topics: bool = False  # publishDollarTopics: else what is published to $... goes nowhere
        self.virtual_topics: bool = False  # subscriptionStrategy: topics are Classic's virtual ones
        self.router: str = ""  # the connection router that says who serves a client
        self.connect_timeout_ms: i64 = 30_000
        self.subscriptions_max: i64 = 10_000  # of one session
        self.write_high_octets: i64 = 1 * MIB  # what may wait for a slow reader before its subscriptions pause
