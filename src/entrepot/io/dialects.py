"""What one listener says to each language that it may speak: their options, read from its URI."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.uri import read_option as read_amqp_option
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.uri import read_option as read_core_option
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.uri import read_option as read_mqtt_option
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.options import read_option as read_openwire_option
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.uri import read_option as read_stomp_option


class Dialects:
    """The options of one listener, by language."""

    def __init__(self, ttl_override_ms: int = -1) -> None:
        """``ttl_override_ms``: of connections of CORE, whatever clients say; -1: they are asked.

        Of STOMP, as long as no heart-beats are agreed on; of AMQP, where the listener says nothing else.
        """
        self.stomp: Final = StompOptions()
        self.openwire: Final = OpenWireOptions()
        self.core: Final = CoreOptions()
        self.core.ttl_ms_always = ttl_override_ms
        self.mqtt: Final = MqttOptions()
        self.amqp: Final = AmqpOptions()
        if ttl_override_ms >= 0:
            self.stomp.ttl_ms = ttl_override_ms
            self.amqp.idle_ms = ttl_override_ms

    def read(self, written: str, text: str) -> bool:
        """Ask each language about an option; some, like maxFrameSize, several have. Raises InvalidOption."""
        known = read_openwire_option(self.openwire, written, text)
        known = read_core_option(self.core, written, text) or known
        known = read_mqtt_option(self.mqtt, written, text) or known
        known = read_amqp_option(self.amqp, written, text) or known
        return read_stomp_option(self.stomp, written, text) or known
