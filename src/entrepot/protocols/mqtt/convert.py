"""MQTT as one of the broker's languages: PUBLISH packets kept as they came, and messages said in other tongues.

``Message.raw`` is what stands behind the topic and the packet identifier: from ``body_at`` on the payload, before it
the properties of MQTT 5 with their length, without those that concern one connection (alias, identifiers) or that the
envelope has (expiry); nothing, where there are none. The QoS is in the envelope: not durable 0, durable 1, durable and
``escaped`` 2. So a payload is copied once on its way in, and written as it is. [C]

To JMS: a message of octets, or a text where the publisher says so (Payload Format Indicator); its QoS is the property
`QOS` (classic.md 6.4), its retain flag `RETAIN`. User properties are properties, and back; the response topic is the
JMSReplyTo, correlation data the JMSCorrelationID.
"""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import InvalidDestination, PeerError
from entrepot.base.trace_context import ABSENT, WINDOW, peek
from entrepot.model import address as names
from entrepot.model.message import (
    BODY_BYTES,
    BODY_EMPTY,
    BODY_OBJECT,
    BODY_TEXT,
    LANGUAGE_MQTT,
    Common,
    Language,
    Message,
    register,
)
from entrepot.model.predicate import Value
from entrepot.protocols.mqtt.codec import (
    Properties,
    properties_octets,
    read_properties,
    write_variable,
)
from entrepot.protocols.mqtt.schema import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    PAYLOAD_FORMAT,
    PUBLISH,
    RESPONSE_TOPIC,
    USER_PROPERTY,
)
from entrepot.protocols.mqtt.topics import address_of, topic_of

QOS: Final = "ActiveMQ.MQTT.QoS"
RETAIN: Final = "ActiveMQ.Retain"
KEY: Final = "ActiveMQ.MQTT.Topic"  # by which the retained messages of one topic are told from those of another
RETAINS: Final = "mqtt.retain"  # internal annotation: LIVE or KEPT
LIVE: Final = 1  # it came with the retain flag
KEPT: Final = 2  # it is handed to a new subscription, because it was retained
VALUE_OCTETS_MAX: Final = 65_535


class MqttLanguage(Language):
    """Messages that came over MQTT."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_MQTT, "MQTT")
        self.identifies = False

    def common(self, message: Message) -> Common:
        """Return the message in the common form."""
        payload = message.raw[int(message.body_at) :]
        found = properties_of(message)
        said = Common(BODY_BYTES, payload)
        if found.get(PAYLOAD_FORMAT) == 1:
            try:
                said = Common(BODY_TEXT, payload.decode("utf-8"))
            except UnicodeDecodeError:  # the publisher was wrong: octets they are
                said = Common(BODY_BYTES, payload)
        kind = found.get(CONTENT_TYPE)
        if isinstance(kind, str):
            said.content_type = kind
        place = found.get(RESPONSE_TOPIC)
        if isinstance(place, str) and place:
            said.reply_to = "topic://" + address_of(place)
        data = found.get(CORRELATION_DATA)
        if isinstance(data, bytes):
            said.correlation_id = _as_text(data)
        pairs = found.get(USER_PROPERTY)
        if isinstance(pairs, list):
            for name, value in pairs:
                said.properties[name] = value
        said.properties[QOS] = int(qos_of(message))
        if message.marked(RETAINS) is not None:
            said.properties[RETAIN] = True
        return said

    def context(self, message: Message) -> i64:
        """Look into the properties, where there are some."""
        end = message.body_at
        return ABSENT if end == 0 else peek(message.raw, 0, min(end, WINDOW), 2)

    def fact(self, message: Message, name: str) -> Value:
        """Return a user property, the QoS, the topic."""
        if name == KEY:
            return message.address
        if name == QOS:
            return int(qos_of(message))
        if message.body_at == 0:
            return True if name == RETAIN and message.marked(RETAINS) is not None else None
        said = self.common(message)
        if name == "JMSCorrelationID":
            return said.correlation_id
        if name == "JMSReplyTo":
            return said.reply_to
        return said.properties.get(name)


MQTT_LANGUAGE: Final = MqttLanguage()
register(MQTT_LANGUAGE)


def qos_of(message: Message) -> i64:
    """Return the QoS with which a message of MQTT was published."""
    if not message.durable:
        return 0
    return 2 if message.escaped else 1


def set_qos(message: Message, qos: i64) -> None:
    """Note with which QoS a message of MQTT was published."""
    message.durable = qos > 0
    message.escaped = qos == 2


def properties_of(message: Message) -> Properties:
    """Return the properties of a message of MQTT; what cannot be read is none."""
    if message.body_at == 0:
        return {}
    try:
        return read_properties(message.raw, 0, message.body_at, PUBLISH)[0]
    except PeerError:
        return {}


def packed(properties: Properties, payload: bytes) -> tuple[bytes, i64]:
    """Return ``raw`` and ``body_at`` of a message with these properties."""
    octets = properties_octets(properties)
    if not octets:
        return payload, 0
    writer = BytesWriter()
    write_variable(writer, len(octets))
    writer.write(octets)
    at: i64 = len(writer)
    writer.write(payload)
    return writer.getvalue(), at


class Said:
    """What a PUBLISH of a message says: its QoS, properties without their length, payload."""

    def __init__(self, qos: i64, properties: bytes, payload: bytes) -> None:
        self.qos: i64 = qos
        self.properties: bytes = properties
        self.payload: bytes = payload


def said_in_mqtt(message: Message, wanted: bool) -> Said:
    """Return what a message of another language says in MQTT; ``wanted``: its properties too (MQTT 5).

    Text is UTF-8, octets are as they are, maps and streams are JSON (classic.md 6.4: their text form). The QoS is what
    `QOS` says, for a message that was bridged; else 1 for a persistent one and 0 for others, for Classic has that
    the wrong way round.
    """
    said = message.common()
    asked = said.properties.get(QOS)
    qos: i64 = 1 if message.durable else 0
    if isinstance(asked, int) and 0 <= asked <= 2:
        qos = asked
    found: Properties = {}
    body = said.body
    if said.body_kind == BODY_TEXT and isinstance(body, str):
        payload = body.encode("utf-8", "replace")
        if "\0" not in body:
            found[PAYLOAD_FORMAT] = 1
    elif said.body_kind == BODY_EMPTY or body is None:
        payload = b""
    elif said.body_kind in (BODY_BYTES, BODY_OBJECT) and isinstance(body, bytes):
        payload = body
    else:
        payload = json.dumps(body, default=_jsonable, ensure_ascii=False).encode("utf-8", "replace")
        found[PAYLOAD_FORMAT] = 1
        found[CONTENT_TYPE] = "application/json"
    if not wanted:
        return Said(qos, b"", payload)
    _describe(message, said, found)
    return Said(qos, properties_octets(found), payload)


def _describe(message: Message, said: Common, found: Properties) -> None:
    if said.content_type is not None and _fits(said.content_type):
        found[CONTENT_TYPE] = said.content_type
    if said.correlation_id is not None and _fits(said.correlation_id):
        found[CORRELATION_DATA] = said.correlation_id.encode()
    if said.reply_to:
        try:
            topic = topic_of(names.parse_one(said.reply_to).name)
            if _fits(topic):
                found[RESPONSE_TOPIC] = topic
        except InvalidDestination:
            pass
    pairs: list[tuple[str, str]] = []
    rare = message.rare
    if rare is not None:
        pairs.extend(rare.annotations.items())
    if said.type is not None:
        pairs.append(("JMSType", said.type))
    for name, value in said.properties.items():
        if value is None or name in (QOS, RETAIN) or (rare is not None and name in rare.annotations):
            continue  # what the broker added takes the place of what was sent
        pairs.append((name, _written(value)))
    kept = [pair for pair in pairs if _fits(pair[0]) and _fits(pair[1])]
    if kept:
        found[USER_PROPERTY] = kept


def _fits(text: str) -> bool:
    return "\0" not in text and len(text.encode("utf-8", "replace")) <= VALUE_OCTETS_MAX


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return "" if value is None else str(value)


def _as_text(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.hex()


def _jsonable(value: object) -> object:
    return list(value) if isinstance(value, (bytes, bytearray)) else str(value)
