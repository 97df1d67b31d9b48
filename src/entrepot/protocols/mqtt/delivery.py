"""How messages leave over MQTT: subscriptions, their consumers, PUBLISH packets and what clients answer to them. [C]

One `Outgoing` a connection. A PUBLISH of QoS 2 of a session that outlives its connection goes out when the disk has its
identifier, PUBREL when the disk knows of PUBREC: whatever crashes, the client is asked about the same identifier again.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import BodyLost, EntrepotError, LimitExceeded
from entrepot.base.trace_context import TRACEPARENT
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.queue.consumer import Consumer, Measurement, Pause
from entrepot.core.queue.queue import Queue
from entrepot.model.address import Destination
from entrepot.model.message import LANGUAGE_MQTT, Message
from entrepot.protocols.large_body import COMMON, CommonBody, Fit, known_length, length_of
from entrepot.protocols.mqtt.codec import properties_octets, read_variable, write_octets, write_short, write_variable
from entrepot.protocols.mqtt.convert import KEPT, LIVE, MQTT_LANGUAGE, RETAINS, Said, qos_of, said_in_mqtt
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.packets import acknowledgement
from entrepot.protocols.mqtt.schema import (
    ID_NOT_FOUND,
    MESSAGE_EXPIRY,
    PUBLISH,
    PUBREL,
    SUBSCRIPTION_ID,
    TOPIC_ALIAS,
    USER_PROPERTY,
    V5,
)
from entrepot.protocols.mqtt.state import Flight, MqttState
from entrepot.protocols.mqtt.topics import topic_of
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.serving.outlet import Outlet, ServedSubscription
from entrepot.protocols.serving.session import ServerSession

NO_LIMIT: Final = 1 << 62
BODY_MAX: Final = (1 << 28) - 1  # octets: no packet is longer


class Outgoing:
    """What one connection is sent. ``quota``: PUBLISH packets of QoS 1 and 2 that may go out before one is answered."""

    def __init__(self, session: ServerSession, house: House, state: MqttState, version: i64, quota: i64) -> None:
        self.session: ServerSession = session
        self.broker: BrokerCore = session.broker
        self.outlet: Outlet = session.outlet
        self.house: House = house
        self.state: MqttState = state
        self.version: i64 = version
        self.quota: i64 = quota
        self.packet_max: i64 = NO_LIMIT
        self.aliases_max: i64 = 0
        self.aliases: dict[str, int] = {}
        self.sent: i64 = 0
        self.paused: bool = False
        self.done: list[tuple[MqttConsumer, int]] = []  # delivered, and not to be acknowledged by the client
        self.settling: _Settling | None = None

    def finish_soon(self, consumer: MqttConsumer, number: i64) -> None:
        """Message ``number`` is done with as far as its client is concerned: settle it, but not in its delivery."""
        self.done.append((consumer, int(number)))
        settling = self.settling
        if settling is None:
            settling = _Settling(self)
            self.settling = settling
        self.broker.effort.later(settling)

    def settle_done(self) -> None:
        """Settle what waits for that."""
        done = self.done
        self.done = []
        for consumer, number in done:
            queue = consumer.queue
            if queue is not None:
                queue.settle(consumer, number)

    # -- quota ---------------------------------------------------------------------------------------------------------

    def spend(self) -> None:
        """A PUBLISH of QoS 1 or 2 goes out."""
        self.quota -= 1
        if self.quota <= 0:
            self.paused = True
            self.outlet.pause(Pause.QUOTA)

    def earn(self) -> None:
        """One is answered."""
        self.quota += 1
        if self.paused and self.quota > 0:
            self.paused = False
            for subscription in self.outlet.subscriptions:
                subscription.window.lift(Pause.QUOTA)
            for subscription in list(self.outlet.subscriptions):
                if self.paused:
                    return
                subscription.window.reopen()

    # -- what the client answers ---------------------------------------------------------------------------------------

    def puback(self, packet_id: i64) -> bool:
        """PUBACK; False when nothing of that identifier was on its way."""
        state = self.state
        flight = state.flights.get(int(packet_id))
        if flight is None or flight.qos != 1:
            return False
        del state.flights[int(packet_id)]
        self._settle(flight)
        return True

    def pubrec(self, packet_id: i64, code: i64) -> None:
        """PUBREC: the client has the message, or (``code`` from 0x80 on) will not."""
        state = self.state
        flight = state.flights.get(int(packet_id))
        if flight is None or flight.qos != 2:
            if int(packet_id) in state.releasing:
                self.write(acknowledgement(PUBREL, packet_id, self.version))
            elif code < 0x80:
                self.write(acknowledgement(PUBREL, packet_id, self.version, ID_NOT_FOUND))
            return
        del state.flights[int(packet_id)]
        journal = self.broker.journal
        if code >= 0x80:
            self.house.forget_sent(state, packet_id, flight.kept)
            self._settle(flight)
            return
        journal.begin()
        try:
            self.house.note_released(state, flight)
            consumer = flight.consumer
            queue = None if consumer is None else consumer.queue
            if queue is not None and consumer is not None:
                queue.settle(consumer, flight.number)
        finally:
            journal.end()
        if flight.kept:
            self.session.confirmations.ask(_Released(self, packet_id))
        else:
            self.write(acknowledgement(PUBREL, packet_id, self.version))

    def pubcomp(self, packet_id: i64) -> None:
        """PUBCOMP."""
        kept = self.state.releasing.pop(int(packet_id), None)
        if kept is None:
            return
        self.house.forget_sent(self.state, packet_id, kept)
        self.earn()

    def _settle(self, flight: Flight) -> None:
        consumer = flight.consumer
        queue = None if consumer is None else consumer.queue
        if queue is not None and consumer is not None:
            queue.settle(consumer, flight.number)
        self.earn()

    def resume(self) -> None:
        """The session goes on over this connection: say again which identifiers are released."""
        for packet_id in self.state.releasing:
            self.quota -= 1
            self.write(acknowledgement(PUBREL, packet_id, self.version))

    def end(self) -> None:
        """The connection is gone."""
        self.settle_done()

    def write(self, octets: bytes) -> None:
        """Write a packet."""
        self.outlet.out.write(octets)
        self.outlet.note()


class _Settling(Rest):
    def __init__(self, outgoing: Outgoing) -> None:
        super().__init__()
        self.outgoing: Outgoing = outgoing

    def resume(self) -> None:
        self.outgoing.settle_done()


class _Released(Confirmation):
    """PUBREL, once the disk knows that the client has the message."""

    def __init__(self, outgoing: Outgoing, packet_id: i64) -> None:
        super().__init__(outgoing.session.confirmations)
        self.outgoing: Outgoing = outgoing
        self.packet_id: i64 = packet_id

    def give(self) -> None:
        """Write it."""
        self.outgoing.write(acknowledgement(PUBREL, self.packet_id, self.outgoing.version))

    def refuse(self, error: EntrepotError) -> None:
        """End the connection: what it was told cannot be kept."""
        self.outgoing.session.fail(error)


class _Numbered(Confirmation):
    """A PUBLISH of QoS 2, once the disk has its identifier."""

    def __init__(self, consumer: MqttConsumer, message: Message, flight: Flight) -> None:
        super().__init__(consumer.outgoing.session.confirmations)
        self.consumer: MqttConsumer = consumer
        self.message: Message = message
        self.flight: Flight = flight

    def give(self) -> None:
        """Write it, unless it went back to its queue meanwhile."""
        if self.flight.consumer is self.consumer:
            self.consumer.write(self.message, 2, self.flight)

    def refuse(self, error: EntrepotError) -> None:
        """End the connection: nothing can be promised any more."""
        self.consumer.outgoing.session.fail(error)


class MqttSubscription(ServedSubscription):
    """One filter of one connection. ``options`` and ``identifier`` as in SUBSCRIBE; ``text`` as the client wrote it."""

    def __init__(self, outgoing: Outgoing, destination: Destination, text: str) -> None:
        super().__init__(outgoing.outlet, outgoing.broker, [destination])
        self.outgoing: Outgoing = outgoing
        self.text: str = text
        self.options: i64 = 0
        self.marks: bytes = b""  # its identifier as a property
        self.queue: Queue | None = None

    def let(self, options: i64, identifier: i64) -> None:
        """Deliver in this way from now on."""
        self.options = options
        if identifier > 0:
            writer = BytesWriter()
            writer.append(SUBSCRIPTION_ID)
            write_variable(writer, identifier)
            self.marks = writer.getvalue()
        else:
            self.marks = b""

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to this connection."""
        self.queue = queue
        return MqttConsumer(self, queue)

    def relieved(self) -> None:
        """The peer reads again."""
        self.window.reopen()


class MqttConsumer(Consumer):
    """One queue read by one subscription."""

    def __init__(self, subscription: MqttSubscription, queue: Queue) -> None:
        outgoing = subscription.outgoing
        super().__init__(outgoing.broker.ids.consumer_key(), subscription.window, subscription.tracked)
        self.speaks = LANGUAGE_MQTT
        self.subscription: MqttSubscription = subscription
        self.outgoing: Outgoing = outgoing
        self.outlet: Outlet = outgoing.outlet
        self.identity: i64 = queue.identity
        self.address: str = ""
        self.topic: bytes = b""
        self.body: CommonBody | None = None  # of the message that is being written
        self.fit: Fit | None = None  # of the large message that was counted last

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is delivered."""
        outgoing = self.outgoing
        most = int(min(outgoing.packet_max, BODY_MAX))
        self.fit = None if known_length(outgoing.broker, message, COMMON) >= 0 else Fit(outgoing.broker, message, most)
        return self.fit

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Write a PUBLISH, or have it written once the disk has its identifier."""
        outgoing = self.outgoing
        qos = self.subscription.options & 3
        if message.language is MQTT_LANGUAGE:
            qos = min(qos, qos_of(message))
        elif qos > 0:
            qos = min(qos, said_in_mqtt(message, False).qos)
        if qos == 0:
            self.write(message, 0, None)
            if self.tracked:
                outgoing.finish_soon(self, message.number)
            return
        state = outgoing.state
        flight: Flight | None = None
        if state.returned:
            flight = state.returned.pop((int(self.identity), int(message.number)), None)
        if flight is None:
            packet_id = state.take_id()
            assert packet_id > 0, "more is on its way than there are identifiers"
            flight = Flight(packet_id, message.number, self.identity, qos)
            flight.written = deliveries > 0 and not self.subscription.shared
            state.flights[int(packet_id)] = flight
        flight.consumer = self
        outgoing.spend()
        if flight.qos == 2 and not flight.kept and state.persistent and message.stored and message.durable:
            outgoing.house.note_sent(state, flight)
            outgoing.session.confirmations.ask(_Numbered(self, message, flight))
        else:
            self.write(message, flight.qos, flight)

    def write(self, message: Message, qos: i64, flight: Flight | None) -> None:
        """Write a PUBLISH."""
        first: i64 = (PUBLISH << 4) | (qos << 1)
        if message.rare is not None and self._retains(message):
            first |= 1
        if message.address is not self.address:
            self.address = message.address
            self.topic = topic_of(message.address, self.outgoing.state.virtual).encode("utf-8", "replace")
        if self.outgoing.version == V5:
            self._write_5(message, first, flight)
        elif message.language is not MQTT_LANGUAGE:
            payload = self._payload(message, said_in_mqtt(message, False))
            if payload is None:
                self._skip(flight)
            else:
                self._put(first, self.topic, flight, b"", b"", payload)
        elif message.body_at > 0:
            self._put(first, self.topic, flight, b"", b"", message.raw[message.body_at :])
        else:
            self._put(first, self.topic, flight, b"", b"", message.raw)

    def _write_5(self, message: Message, first: i64, flight: Flight | None) -> None:
        """Write it with the properties of MQTT 5."""
        outgoing = self.outgoing
        payload = message.raw
        properties = b""
        if message.language is not MQTT_LANGUAGE:
            said = said_in_mqtt(message, True)
            shown = self._payload(message, said)
            if shown is None:
                self._skip(flight)
                return
            payload = shown
            properties = said.properties
        elif message.body_at > 0:
            _, at = read_variable(payload, 0, len(payload))
            properties = payload[at : message.body_at]
            payload = payload[message.body_at :]
        topic = self.topic
        extra = self.subscription.marks
        if message.watched and message.language is MQTT_LANGUAGE:
            extra += _begun(message)
        if message.expiration > 0:
            extra += _expiry(message, outgoing.broker.wall)
        if outgoing.aliases_max > 0:
            topic, alias = self._aliased(message.address, topic)
            extra += alias
        if not self._put(first, topic, flight, properties, extra, payload) and topic:
            outgoing.aliases.pop(message.address, None)  # nobody told the client of it

    def _payload(self, message: Message, said: Said) -> bytes | None:
        """Return what is published of a message of another language; None: it is too long, or lost on the disk.

        A large body is not in it: `_put` lets that follow, at the pace of the socket.
        """
        rare = message.rare
        if rare is None or rare.large_id == 0:
            return said.payload
        fit = self.fit
        if fit is not None and fit.unfit and fit.message is message:
            return None
        broker = self.outgoing.broker
        try:
            length = length_of(broker, message, COMMON, int(min(self.outgoing.packet_max, BODY_MAX)))
            self.body = CommonBody(broker, message, length)
        except (BodyLost, LimitExceeded):
            return None
        return b""

    def _put(
        self, first: i64, topic: bytes, flight: Flight | None, properties: bytes, extra: bytes, payload: bytes
    ) -> bool:
        """Write the octets of a PUBLISH; False when they are too many for the client."""
        outgoing = self.outgoing
        inner: i64 = len(properties) + len(extra)
        size: i64 = 2 + len(topic) + len(payload)
        body = self.body
        if body is not None:
            self.body = None
            size += body.length
        if flight is not None:
            size += 2
        if outgoing.version == V5:
            size += inner + octets_of_length(inner)
        if size + 1 + octets_of_length(size) > outgoing.packet_max or size > BODY_MAX:
            if body is not None:
                body.finish(False)
            self._skip(flight)
            return False
        if flight is not None:
            if flight.written:
                first |= 8
            flight.written = True
        outlet = self.outlet
        out = outlet.out
        out.append(first)
        write_variable(out, size)
        write_octets(out, topic)
        if flight is not None:
            write_short(out, flight.packet_id)
        if outgoing.version == V5:
            write_variable(out, inner)
            if inner > 0:
                out.write(properties)
                out.write(extra)
        out.write(payload)
        if body is not None:
            outlet.pour(body)
        outgoing.sent += 1
        outgoing.house.delivered += 1
        if not outlet.noted:
            outlet.note()
        if len(out) > outlet.high:
            outlet.choke()
        return True

    def _retains(self, message: Message) -> bool:
        """Return whether the retain flag is set (5: 3.3.1.3)."""
        mark = message.marked(RETAINS)
        return mark == KEPT or (mark == LIVE and self.subscription.options & 8 != 0)

    def _aliased(self, address: str, topic: bytes) -> tuple[bytes, bytes]:
        """Return what stands as the topic, and the property beside it (5: 3.3.2.3.4)."""
        outgoing = self.outgoing
        alias = outgoing.aliases.get(address)
        if alias is not None:
            return b"", bytes((TOPIC_ALIAS, alias >> 8, alias & 0xFF))
        if len(outgoing.aliases) >= outgoing.aliases_max:
            return topic, b""
        alias = len(outgoing.aliases) + 1
        outgoing.aliases[address] = alias
        return topic, bytes((TOPIC_ALIAS, alias >> 8, alias & 0xFF))

    def _skip(self, flight: Flight | None) -> None:
        """The client takes no packet of that size: it counts as delivered (5: 3.1.2.11.4)."""
        outgoing = self.outgoing
        outgoing.house.dropped += 1
        if flight is not None:
            outgoing.state.flights.pop(int(flight.packet_id), None)
            outgoing.house.forget_sent(outgoing.state, flight.packet_id, flight.kept)
            flight.consumer = None
            outgoing.quota += 1
            outgoing.finish_soon(self, flight.number)


def octets_of_length(length: i64) -> i64:
    """Return in how many octets a length is written."""
    if length < 128:
        return 1
    if length < 16_384:
        return 2
    return 3 if length < 2_097_152 else 4


def _expiry(message: Message, wall: i64) -> bytes:
    """Return how long a message lives yet, as a property: whole seconds, at least one."""
    left = max((int(message.expiration) - int(wall) + 999) // 1000, 1)
    return bytes((MESSAGE_EXPIRY,)) + min(left, 0xFFFF_FFFF).to_bytes(4, "big")


def _begun(message: Message) -> bytes:
    """Return the context of a trace that began here as a property; the others have theirs from their producers."""
    rare = message.rare
    text = None if rare is None else rare.annotations.get(TRACEPARENT)
    return b"" if text is None else properties_octets({USER_PROPERTY: [(TRACEPARENT, text)]})
