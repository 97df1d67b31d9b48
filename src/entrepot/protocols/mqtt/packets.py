"""Packets of MQTT as values: all but PUBLISH, which is read and written where its octets are. [C]

Each has `read`, from the body that a `codec.Reader` shows, and `octets`, the whole packet; so both sides are here: the
server's, and that of the clients in tests, in simulation and in measurements.
"""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import MalformedFrame, ProtocolViolation
from entrepot.protocols.mqtt.codec import (
    Properties,
    read_octets,
    read_properties,
    read_short,
    read_text,
    write_octets,
    write_properties,
    write_short,
    write_variable,
)
from entrepot.protocols.mqtt.schema import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PUBLISH,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    V5,
    V31,
    V311,
    WILL,
)


def whole(kind: i64, flags: i64, body: bytes) -> bytes:
    """Return a packet around ``body``."""
    writer = BytesWriter()
    writer.append((kind << 4) | flags)
    write_variable(writer, len(body))
    writer.write(body)
    return writer.getvalue()


class Will:
    """What is published when a client is gone without a word."""

    def __init__(self, topic: str, payload: bytes, qos: i64 = 0, retain: bool = False) -> None:
        self.topic: str = topic
        self.payload: bytes = payload
        self.qos: i64 = qos
        self.retain: bool = retain
        self.properties: Properties = {}


class Connect:
    """CONNECT. ``version`` 0: one that nobody knows, and nothing behind it was read."""

    def __init__(self, client_id: str, version: i64 = V5) -> None:
        self.client_id: str = client_id
        self.version: i64 = version
        self.clean: bool = True
        self.keep_alive: i64 = 0  # seconds
        self.will: Will | None = None
        self.user: str | None = None
        self.password: bytes | None = None
        self.properties: Properties = {}
        self.bridge: bool = False  # the high bit of the level, with which bridges of Mosquitto say what they are

    def octets(self) -> bytes:
        """Return the packet."""
        writer = BytesWriter()
        write_octets(writer, b"MQIsdp" if self.version == V31 else b"MQTT")
        writer.append(self.version)
        flags: i64 = 0
        if self.clean:
            flags |= 2
        will = self.will
        if will is not None:
            flags |= 4 | (will.qos << 3) | (32 if will.retain else 0)
        if self.user is not None:
            flags |= 128
        if self.password is not None:
            flags |= 64
        writer.append(flags)
        write_short(writer, self.keep_alive)
        if self.version == V5:
            write_properties(writer, self.properties)
        write_octets(writer, self.client_id.encode())
        if will is not None:
            if self.version == V5:
                write_properties(writer, will.properties)
            write_octets(writer, will.topic.encode())
            write_octets(writer, will.payload)
        if self.user is not None:
            write_octets(writer, self.user.encode())
        if self.password is not None:
            write_octets(writer, self.password)
        return whole(CONNECT, 0, writer.getvalue())


def read_connect(data: bytes, at: i64, end: i64) -> Connect:
    """Return a CONNECT. Raises MalformedFrame, ProtocolViolation."""
    name, at = read_octets(data, at, end)
    if at >= end:
        raise MalformedFrame("a CONNECT ends before its protocol level")
    level: i64 = data[at]
    at += 1
    made = Connect("")
    if level & 0x80 and name in (b"MQTT", b"MQIsdp"):
        made.bridge = True
        level &= 0x7F
    known = (name == b"MQIsdp" and level == V31) or (name == b"MQTT" and (level in (V311, V5)))
    if not known:
        if name not in (b"MQTT", b"MQIsdp"):
            raise ProtocolViolation(f"a CONNECT names the protocol {name[:20]!r}")
        made.version = 0
        return made
    made.version = level
    if at >= end:
        raise MalformedFrame("a CONNECT ends before its flags")
    flags: i64 = data[at]
    at += 1
    if flags & 1:
        raise MalformedFrame("the reserved flag of CONNECT is set")
    _check_flags(flags, level)
    made.clean = flags & 2 != 0
    made.keep_alive = read_short(data, at, end)
    at += 2
    if level == V5:
        made.properties, at = read_properties(data, at, end, CONNECT)
    made.client_id, at = read_text(data, at, end)
    if flags & 4:
        will = Will("", b"", (flags >> 3) & 3, flags & 32 != 0)
        if level == V5:
            will.properties, at = read_properties(data, at, end, WILL)
        will.topic, at = read_text(data, at, end)
        will.payload, at = read_octets(data, at, end)
        made.will = will
    if flags & 128:
        made.user, at = read_text(data, at, end)
    if flags & 64:
        made.password, at = read_octets(data, at, end)
    if at != end:
        raise MalformedFrame("there is something behind the end of a CONNECT")
    return made


def _check_flags(flags: i64, level: i64) -> None:
    if (flags >> 3) & 3 == 3:
        raise MalformedFrame("a will has QoS 3, which does not exist")
    if not flags & 4 and flags & 0x38:
        raise MalformedFrame("a CONNECT has flags of a will, and none")
    if flags & 64 and not flags & 128 and level != V5:
        raise MalformedFrame("a CONNECT has a password and no user name")


def connack(version: i64, present: bool, code: i64, properties: Properties) -> bytes:
    """Return a CONNACK."""
    if version != V5:
        return bytes((CONNACK << 4, 2, 1 if present else 0, int(code)))
    writer = BytesWriter()
    writer.append(1 if present else 0)
    writer.append(code)
    write_properties(writer, properties)
    return whole(CONNACK, 0, writer.getvalue())


class Answer:
    """CONNACK, SUBACK, UNSUBACK and acknowledgements as a client reads them."""

    def __init__(self, packet_id: i64 = 0) -> None:
        self.packet_id: i64 = packet_id
        self.present: bool = False
        self.codes: list[int] = []
        self.properties: Properties = {}


def read_answer(kind: i64, data: bytes, at: i64, end: i64, version: i64) -> Answer:
    """Return a CONNACK, SUBACK, UNSUBACK or one of PUBACK to PUBCOMP. Raises PeerError."""
    made = Answer()
    if kind == CONNACK:
        if end - at < 2:
            raise MalformedFrame("a CONNACK is too short")
        made.present = data[at] == 1
        made.codes.append(data[at + 1])
        if version == V5 and end - at > 2:
            made.properties, at = read_properties(data, at + 2, end, CONNACK)
        return made
    made.packet_id = read_short(data, at, end)
    at += 2
    if kind in (SUBACK, UNSUBACK):
        if version == V5:
            made.properties, at = read_properties(data, at, end, kind)
        made.codes = list(data[at:end])
        return made
    made.codes.append(data[at] if at < end else 0)
    if end - at > 1:
        made.properties, at = read_properties(data, at + 1, end, kind)
    return made


def acknowledgement(kind: i64, packet_id: i64, version: i64, code: i64 = 0, why: str = "") -> bytes:
    """Return PUBACK, PUBREC, PUBREL or PUBCOMP: as short as it can be (5: 3.4.2.1)."""
    first = (kind << 4) | (2 if kind == PUBREL else 0)
    if version != V5 or code == 0:
        return bytes((int(first), 2, int(packet_id >> 8), int(packet_id & 0xFF)))
    writer = BytesWriter()
    write_short(writer, packet_id)
    writer.append(code)
    if why:
        write_properties(writer, {0x1F: why})
    return whole(kind, 2 if kind == PUBREL else 0, writer.getvalue())


class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP of a client."""

    def __init__(self, packet_id: i64, code: i64) -> None:
        self.packet_id: i64 = packet_id
        self.code: i64 = code


def read_ack(kind: i64, flags: i64, data: bytes, at: i64, end: i64, version: i64) -> Ack:
    """Return an acknowledgement. Raises MalformedFrame, ProtocolViolation."""
    if flags != (2 if kind == PUBREL else 0):
        raise MalformedFrame("reserved flags of an acknowledgement are wrong")
    packet_id = read_short(data, at, end)
    if packet_id == 0:
        raise ProtocolViolation("an acknowledgement has the packet identifier 0")
    at += 2
    code: i64 = 0
    if at < end:
        if version != V5:
            raise MalformedFrame("an acknowledgement is too long")
        code = data[at]
        if at + 1 < end:
            _, at = read_properties(data, at + 1, end, kind)
            if at != end:
                raise MalformedFrame("there is something behind the end of an acknowledgement")
    return Ack(packet_id, code)


class Wish:
    """One filter of a SUBSCRIBE, with its options: ``qos``, and those of MQTT 5."""

    def __init__(self, text: str, options: i64) -> None:
        self.filter: str = text
        self.options: i64 = options

    @property
    def qos(self) -> i64:
        """Return the QoS that is asked for."""
        return self.options & 3

    @property
    def no_local(self) -> bool:
        """Return whether it wants none of its own messages."""
        return self.options & 4 != 0

    @property
    def as_published(self) -> bool:
        """Return whether the retain flag stays as the publisher set it."""
        return self.options & 8 != 0

    @property
    def handling(self) -> i64:
        """Return the retain handling: 0 always, 1 if it is new, 2 never."""
        return (self.options >> 4) & 3


class Subscribe:
    """SUBSCRIBE, or UNSUBSCRIBE, whose ``wishes`` have no options. ``identifier`` 0: none."""

    def __init__(self, packet_id: i64) -> None:
        self.packet_id: i64 = packet_id
        self.wishes: list[Wish] = []
        self.identifier: i64 = 0
        self.properties: Properties = {}

    def octets(self, version: i64, kind: i64 = SUBSCRIBE) -> bytes:
        """Return the packet; ``kind``: SUBSCRIBE or UNSUBSCRIBE."""
        writer = BytesWriter()
        write_short(writer, self.packet_id)
        if version == V5:
            properties = dict(self.properties)
            if self.identifier:
                properties[0x0B] = int(self.identifier)
            write_properties(writer, properties)
        for wish in self.wishes:
            write_octets(writer, wish.filter.encode())
            if kind == SUBSCRIBE:
                writer.append(wish.options)
        return whole(kind, 2, writer.getvalue())


def read_subscribe(kind: i64, flags: i64, data: bytes, at: i64, end: i64, version: i64) -> Subscribe:
    """Return a SUBSCRIBE or UNSUBSCRIBE. Raises MalformedFrame, ProtocolViolation."""
    if flags != 2:
        raise MalformedFrame("reserved flags of SUBSCRIBE or UNSUBSCRIBE are wrong")
    made = Subscribe(read_short(data, at, end))
    if made.packet_id == 0:
        raise ProtocolViolation("a SUBSCRIBE or UNSUBSCRIBE has the packet identifier 0")
    at += 2
    if version == V5:
        made.properties, at = read_properties(data, at, end, kind)
        found = made.properties.get(0x0B)
        if isinstance(found, list):
            made.identifier = found[0]
    while at < end:
        text, at = read_text(data, at, end)
        options: i64 = 0
        if kind == SUBSCRIBE:
            if at >= end:
                raise MalformedFrame("a SUBSCRIBE ends before the options of a filter")
            options = data[at]
            at += 1
            _check_options(options, version)
        made.wishes.append(Wish(text, options))
    if not made.wishes:
        raise ProtocolViolation("a SUBSCRIBE or UNSUBSCRIBE has no filter")
    return made


def _check_options(options: i64, version: i64) -> None:
    if options & 3 == 3:
        raise MalformedFrame("a filter asks for QoS 3, which does not exist")
    if options & (0xC0 if version == V5 else 0xFC):
        raise MalformedFrame("reserved bits of a filter's options are set")
    if (options >> 4) & 3 == 3:
        raise ProtocolViolation("retain handling is 3, which does not exist")


def suback(packet_id: i64, codes: list[int], version: i64, kind: i64 = SUBACK) -> bytes:
    """Return a SUBACK or UNSUBACK; that of UNSUBSCRIBE before MQTT 5 has no codes."""
    writer = BytesWriter()
    write_short(writer, packet_id)
    if version == V5:
        writer.append(0)
    if version == V5 or kind == SUBACK:
        writer.write(bytes(codes))
    return whole(kind, 0, writer.getvalue())


class Farewell:
    """DISCONNECT, or AUTH."""

    def __init__(self, code: i64 = 0) -> None:
        self.code: i64 = code
        self.properties: Properties = {}

    def octets(self, version: i64, kind: i64 = DISCONNECT) -> bytes:
        """Return the packet."""
        if version != V5 or (self.code == 0 and not self.properties):
            return bytes((int(kind << 4), 0))
        writer = BytesWriter()
        writer.append(self.code)
        if self.properties:
            write_properties(writer, self.properties)
        return whole(kind, 0, writer.getvalue())


def read_farewell(kind: i64, flags: i64, data: bytes, at: i64, end: i64, version: i64) -> Farewell:
    """Return a DISCONNECT or AUTH. Raises MalformedFrame, ProtocolViolation."""
    if flags != 0:
        raise MalformedFrame("reserved flags of DISCONNECT or AUTH are set")
    made = Farewell()
    if at < end:
        if version != V5:
            raise MalformedFrame("a DISCONNECT is too long")
        made.code = data[at]
        if at + 1 < end:
            made.properties, at = read_properties(data, at + 1, end, kind)
            if at != end:
                raise MalformedFrame("there is something behind the end of a DISCONNECT or AUTH")
    return made


def publish(
    version: i64,
    topic: str,
    payload: bytes,
    qos: i64 = 0,
    packet_id: i64 = 0,
    *,
    retain: bool = False,
    dup: bool = False,
    properties: Properties | None = None,
) -> bytes:
    """Return a PUBLISH."""
    writer = BytesWriter()
    write_octets(writer, topic.encode())
    if qos > 0:
        write_short(writer, packet_id)
    if version == V5:
        write_properties(writer, {} if properties is None else properties)
    writer.write(payload)
    return whole(PUBLISH, (8 if dup else 0) | (qos << 1) | (1 if retain else 0), writer.getvalue())
