"""PUBLISH: packets that become messages, and their answers. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import AccessDenied, AddressFull, EntrepotError, InvalidDestination, Refused, StorageError
from entrepot.base.trace_context import ABSENT
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import BLOCKED
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.mqtt.codec import Properties, Reader, read_properties, text_of
from entrepot.protocols.mqtt.convert import MQTT_LANGUAGE, packed
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import acknowledgement
from entrepot.protocols.mqtt.refusals import Connected, broken
from entrepot.protocols.mqtt.schema import (
    MESSAGE_EXPIRY,
    NOT_AUTHORIZED,
    PAYLOAD_FORMAT,
    PROTOCOL_ERROR,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    QUOTA,
    RESPONSE_TOPIC,
    SUBSCRIPTION_ID,
    TOO_MANY,
    TOPIC_ALIAS,
    UNSPECIFIED,
    USER_PROPERTY,
    V5,
    WRONG_ALIAS,
    WRONG_FORMAT,
    WRONG_TOPIC,
)
from entrepot.protocols.mqtt.state import MqttState
from entrepot.protocols.mqtt.topics import address_of, check_topic
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.serving.targets import keep_target

NO_PROPERTIES: Final = 1


class Sending:
    """What one connection publishes. ``waiting``: PUBLISH packets of QoS 1 that are not answered yet."""

    def __init__(
        self, session: Connected, house: House, state: MqttState, options: MqttOptions, reader: Reader
    ) -> None:
        self.session: Connected = session
        self.broker: BrokerCore = session.broker
        self.house: House = house
        self.state: MqttState = state
        self.options: MqttOptions = options
        self.reader: Reader = reader
        self.targets: dict[bytes, Target] = {}
        self.aliases: dict[int, bytes] = {}
        self.waiting: i64 = 0

    def publish(self) -> None:
        """Do a PUBLISH. Raises PeerError; refusals are answered where MQTT has an answer to that."""
        reader = self.reader
        reader.read_publish()
        qos = (reader.flags >> 1) & 3
        packet_id = reader.packet_id
        state = self.state
        if qos == 2 and int(packet_id) in state.received:  # it came again: its message is here
            mirrors = self.session.broker.mirrors
            if mirrors is not None:
                mirrors.again(self.session.number, "")
            self.session.confirmations.ask(_Received(self, packet_id))
            return
        if qos > 0 and self.waiting + len(state.received) >= self.options.receive_maximum:
            raise broken(
                self.session, TOO_MANY, f"more than {self.options.receive_maximum} PUBLISH packets wait for us"
            )
        self.house.published += 1
        topic = reader.topic
        properties: Properties = {}
        if reader.payload_at - reader.properties_at > NO_PROPERTIES:
            properties = self._properties()
            topic = self._topic(topic, properties)
        elif not topic:
            raise broken(self.session, PROTOCOL_ERROR, "a PUBLISH has neither a topic nor an alias")
        try:
            target = self.targets.get(topic)
            if target is None:
                target = self._target(topic)
            stored = target is not NOWHERE and self._send(target, properties, qos, packet_id)
        except (Refused, StorageError) as error:
            self._refuse(error, qos, packet_id)
            return
        if qos == 1:
            confirmations = self.session.confirmations
            if not stored and confirmations.waiting == 0 and not confirmations.owes():
                self.session.say(acknowledgement(PUBACK, packet_id, reader.version, self._code(target)))
            else:
                self.waiting += 1
                self.session.confirmations.ask(_Stored(self, packet_id))
        elif qos == 2:
            if target is NOWHERE:
                self.session.say(acknowledgement(PUBREC, packet_id, reader.version, self._code(target)))
                if reader.version != V5:
                    state.received[int(packet_id)] = False
            else:
                self.session.confirmations.ask(_Received(self, packet_id))

    def _code(self, target: Target) -> i64:
        return NOT_AUTHORIZED if target is NOWHERE else 0

    def _send(self, target: Target, properties: Properties, qos: i64, packet_id: i64) -> bool:
        """Send the message; return whether the journal has it. Raises Refused, StorageError."""
        reader = self.reader
        session = self.session
        broker = self.broker
        if session.patience is not None:
            session.patience.check(False)
        message = Message(MQTT_LANGUAGE, target.name, b"")
        expiry = properties.pop(MESSAGE_EXPIRY, None)
        if properties:
            payload = reader.data[reader.payload_at : reader.end]
            message.raw, message.body_at = packed(properties, payload)
        else:
            message.raw = reader.data[reader.payload_at : reader.end]
        if USER_PROPERTY not in properties:
            message.context = ABSENT
        message.timestamp = broker.wall
        message.origin = session.number
        if qos > 0:
            message.durable = True
            message.escaped = qos == 2
        if isinstance(expiry, int):
            message.expiration = broker.wall + max(expiry * 1000, 1)
        stamps = broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, session.subject.name)
        if qos == 2:
            broker.journal.begin()
            try:
                verdict = self._hand_over(message, target)
                self.house.note_received(self.state, packet_id)
            finally:
                broker.journal.end()
        else:
            verdict = self._hand_over(message, target)
        if verdict == BLOCKED:
            session.stop_for(target)
        return message.stored or qos == 2 or message.rare is not None

    def _hand_over(self, message: Message, target: Target) -> int:
        if self.reader.flags & 1:
            return self.house.send(message, True, target)
        return self.broker.sending.send(message, target)

    def pubrel(self, packet_id: i64) -> None:
        """PUBREL: the identifier may be used for another message, once the disk has forgotten it."""
        if self.house.release_received(self.state, packet_id):
            self.session.confirmations.ask(_Forgotten(self, packet_id))
        else:
            self.session.say(acknowledgement(PUBCOMP, packet_id, self.reader.version))

    # -- what a packet says --------------------------------------------------------------------------------------------

    def _properties(self) -> Properties:
        reader = self.reader
        found, _ = read_properties(reader.data, reader.properties_at, reader.payload_at, PUBLISH)
        if SUBSCRIPTION_ID in found:
            raise broken(self.session, PROTOCOL_ERROR, "a client sends a subscription identifier in a PUBLISH")
        place = found.get(RESPONSE_TOPIC)
        if isinstance(place, str) and ("+" in place or "#" in place):
            raise broken(self.session, PROTOCOL_ERROR, "a response topic holds a wildcard")
        if found.get(PAYLOAD_FORMAT) == 1:
            try:
                reader.data[reader.payload_at : reader.end].decode("utf-8")
            except UnicodeDecodeError:
                raise broken(self.session, WRONG_FORMAT, "a payload that is said to be UTF-8 is not") from None
        return found

    def _topic(self, topic: bytes, properties: Properties) -> bytes:
        """Return the topic that is meant; an alias is noted, or stands for one (5: 3.3.2.3.4)."""
        alias = properties.pop(TOPIC_ALIAS, None)
        if not isinstance(alias, int):
            if not topic:
                raise broken(self.session, PROTOCOL_ERROR, "a PUBLISH has neither a topic nor an alias")
            return topic
        if alias > self.options.topic_aliases_max:
            raise broken(
                self.session, WRONG_ALIAS, f"the topic alias {alias} is above {self.options.topic_aliases_max}"
            )
        if topic:
            self.aliases[alias] = topic
            return topic
        known = self.aliases.get(alias)
        if known is None:
            raise broken(self.session, PROTOCOL_ERROR, f"the topic alias {alias} stands for nothing")
        return known

    def _target(self, octets: bytes) -> Target:
        """Return where a topic leads. Raises PeerError for what is no topic, AccessDenied."""
        topic = text_of(octets)
        try:
            check_topic(topic)
        except InvalidDestination as error:
            raise broken(self.session, WRONG_TOPIC, error.message) from None
        if topic[0] == "$" and not self.options.dollar_topics:
            self.house.dropped += 1
            return NOWHERE
        destination = Destination(address_of(topic, self.state.virtual), MULTICAST)
        self.broker.access.send(self.session.subject, [destination])
        target = self.broker.target([destination])
        self.broker.access.keep(target, self.session.subject, [destination])
        keep_target(self.targets, octets, target)
        return target

    def _refuse(self, error: EntrepotError, qos: i64, packet_id: i64) -> None:
        """Say why a PUBLISH has no effect, where its answer can; else end the connection (3: 3.3.5)."""
        denied = isinstance(error, AccessDenied)
        code = NOT_AUTHORIZED if denied else QUOTA if isinstance(error, AddressFull) else UNSPECIFIED
        version = self.reader.version
        if qos > 0 and version == V5:
            kind = PUBACK if qos == 1 else PUBREC
            bare = acknowledgement(kind, packet_id, V5, code)
            self.session.say_why(bare, acknowledgement(kind, packet_id, V5, code, error.message[:200]))
        elif denied and (version == V5 or not self.options.closes_on_denial):
            self.house.dropped += 1
            if qos > 0:
                self.session.say(acknowledgement(PUBACK if qos == 1 else PUBREC, packet_id, version))
        elif qos == 0 and not denied:
            self.house.dropped += 1  # QoS 0 promises nothing, and what comes next may find room
        else:
            self.session.reason = code
            self.session.fail(error)


NOWHERE: Final = Target("", MULTICAST)


class _Answer(Confirmation):
    """An answer to one packet, once the disk has what it confirms."""

    def __init__(self, sending: Sending, packet_id: i64) -> None:
        super().__init__(sending.session.confirmations)
        self.sending: Sending = sending
        self.packet_id: i64 = packet_id

    def answer(self, kind: i64) -> None:
        """Write it."""
        sending = self.sending
        sending.session.say(acknowledgement(kind, self.packet_id, sending.reader.version))

    def refuse(self, error: EntrepotError) -> None:
        """The disk failed: nothing is confirmed, and the connection ends, so that the client asks again."""
        self.sending.session.fail(error)


class _Stored(_Answer):
    """PUBACK."""

    def give(self) -> None:
        """Write it."""
        self.sending.waiting -= 1
        self.answer(PUBACK)


class _Received(_Answer):
    """PUBREC."""

    def give(self) -> None:
        """Write it."""
        self.answer(PUBREC)


class _Forgotten(_Answer):
    """PUBCOMP."""

    def give(self) -> None:
        """Write it."""
        self.answer(PUBCOMP)
