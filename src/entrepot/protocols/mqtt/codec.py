"""MQTT's octets: where packets begin and end, the values in them, and properties. [C]

A `Reader` is fed chunks as they came and shows one packet after the other, without copying it; a packet of which not
all is here is collected once, however small the chunks. Everything that is read is checked as the standard asks:
UTF-8 that is well-formed, without NUL and control characters; lengths inside of the packet; properties that may stand
where they stand, once. Errors: MalformedFrame (reason 0x81), ProtocolViolation (0x82), LimitExceeded (0x95).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import LimitExceeded, MalformedFrame, ProtocolViolation
from entrepot.protocols.mqtt.schema import (
    BYTE,
    FLAGS,
    LONG,
    NEVER_ZERO,
    OCTETS,
    PACKETS,
    PAIR,
    PROPERTIES,
    PUBLISH,
    SHORT,
    SUBSCRIPTION_ID,
    TEXT,
    USER_PROPERTY,
    V5,
)

LENGTH_MAX: Final = 268_435_455  # four octets of seven bits (5: 1.5.5)
USER_PROPERTIES_MAX: Final = 1000  # in one packet: more is no message but an attack on whoever reads it

Properties = dict[int, object]
"""Identifier -> value; of `USER_PROPERTY` a list of pairs, of `SUBSCRIPTION_ID` a list of numbers."""


class Reader:
    """The octets of one connection. ``kind``, ``flags``, ``begin`` and ``end`` are of the packet that `next` found.

    Of a PUBLISH `read_publish` sets ``topic``, ``packet_id``, where its properties lie, and where its payload begins.
    """

    def __init__(self, packet_max: i64) -> None:
        self.packet_max: i64 = packet_max
        self.version: i64 = 0
        self.data: bytes = b""
        self.at: i64 = 0
        self.collected: BytesWriter | None = None
        self.need: i64 = 0  # octets of the packet that is collected
        self.kind: i64 = 0
        self.flags: i64 = 0
        self.begin: i64 = 0
        self.end: i64 = 0
        self.topic: bytes = b""
        self.packet_id: i64 = 0
        self.properties_at: i64 = 0  # where their length stands
        self.payload_at: i64 = 0

    def feed(self, data: bytes) -> None:
        """Take a chunk."""
        collected = self.collected
        if collected is not None:
            collected.write(data)
            if len(collected) < self.need:
                return
            self.data = collected.getvalue()
            self.collected = None
            self.at = 0
        elif self.at >= len(self.data):
            self.data = data
            self.at = 0
        else:
            self.data = self.data[self.at :] + data
            self.at = 0

    def waiting(self) -> i64:
        """Return how many octets are held."""
        collected = self.collected
        return len(self.data) - self.at if collected is None else len(collected)

    def has_more(self) -> bool:
        """Return whether there are octets that were not looked at, or an incomplete packet."""
        return self.at < len(self.data)

    def next(self) -> bool:
        """Find the next packet; False when it is not all here. Raises MalformedFrame, LimitExceeded."""
        data = self.data
        at = self.at
        size: i64 = len(data)
        if size - at < 2:
            return False
        first: i64 = data[at]
        length: i64 = 0
        shift: i64 = 0
        index: i64 = at + 1
        while True:
            if index >= size:
                return False
            octet: i64 = data[index]
            index += 1
            length |= (octet & 0x7F) << shift
            if octet < 0x80:
                if octet == 0 and shift > 0:
                    raise MalformedFrame("the length of a packet is not written as briefly as possible")
                break
            shift += 7
            if shift > 21:
                raise MalformedFrame("the length of a packet has more than four octets")
        if index - at + length > self.packet_max:
            raise LimitExceeded(
                f"a packet has {index - at + length} octets, and {self.packet_max} are allowed",
                remedy="send less at once, or raise maximumPacketSize of the listener",
            )
        if index + length > size:
            self.need = index - at + length
            collected = BytesWriter()
            collected.write(data[at:])
            self.collected = collected
            self.data = b""
            self.at = 0
            return False
        self.kind = first >> 4
        self.flags = first & 15
        self.begin = index
        self.end = index + length
        self.at = self.end
        return True

    def read_publish(self) -> None:
        """Find the parts of a PUBLISH. Raises MalformedFrame, ProtocolViolation."""
        data = self.data
        at = self.begin
        end = self.end
        qos = (self.flags >> 1) & 3
        if qos == 3:
            raise MalformedFrame("a PUBLISH has QoS 3, which does not exist")
        if qos == 0 and self.flags & 8:
            raise MalformedFrame("a PUBLISH of QoS 0 has the DUP flag set")
        if at + 2 > end:
            raise MalformedFrame("a PUBLISH ends in its topic")
        first: i64 = data[at]
        second: i64 = data[at + 1]
        topic_end = at + 2 + (first << 8) + second
        if topic_end > end:
            raise MalformedFrame("the topic of a PUBLISH is longer than the packet")
        self.topic = data[at + 2 : topic_end]
        at = topic_end
        self.packet_id = 0
        if qos > 0:
            if at + 2 > end:
                raise MalformedFrame("a PUBLISH ends in its packet identifier")
            first = data[at]
            second = data[at + 1]
            self.packet_id = (first << 8) + second
            if self.packet_id == 0:
                raise ProtocolViolation("a PUBLISH has the packet identifier 0")
            at += 2
        self.properties_at = at
        if self.version == V5:
            if at >= end:
                raise MalformedFrame("a PUBLISH ends before its properties")
            if data[at] == 0:
                at += 1
            else:
                length, start = read_variable(data, at, end)
                at = start + length
                if at > end:
                    raise MalformedFrame("the properties of a PUBLISH are longer than the packet")
        self.payload_at = at


# -- values ------------------------------------------------------------------------------------------------------------


def read_variable(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Return a variable byte integer and where it ends. Raises MalformedFrame."""
    value: i64 = 0
    shift: i64 = 0
    while True:
        if at >= end or shift > 21:
            raise MalformedFrame("a length is cut off, or has more than four octets")
        octet: i64 = data[at]
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            if octet == 0 and shift > 0:
                raise MalformedFrame("a length is not written as briefly as possible")
            return value, at
        shift += 7


def read_short(data: bytes, at: i64, end: i64) -> i64:
    """Return a two octet integer. Raises MalformedFrame."""
    if at + 2 > end:
        raise MalformedFrame("a packet ends within a number")
    first: i64 = data[at]
    second: i64 = data[at + 1]
    return (first << 8) + second


def read_octets(data: bytes, at: i64, end: i64) -> tuple[bytes, i64]:
    """Return binary data and where it ends. Raises MalformedFrame."""
    stop = at + 2 + read_short(data, at, end)
    if stop > end:
        raise MalformedFrame("a value is longer than its packet")
    return data[at + 2 : stop], stop


def text_of(octets: bytes) -> str:
    """Return a string as MQTT allows it. Raises MalformedFrame."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedFrame("a string is no UTF-8") from None
    if not text.isprintable() and has_controls(text):
        raise MalformedFrame("a string holds NUL, a control character or a noncharacter")
    return text


def has_controls(text: str) -> bool:
    """Return whether ``text`` has what the standard lets a server refuse (5: 1.5.4)."""
    for character in text:
        code = ord(character)
        if code < 0x20 or 0x7F <= code <= 0x9F or (code & 0xFFFE) == 0xFFFE or 0xFDD0 <= code <= 0xFDEF:
            return True
    return False


def read_text(data: bytes, at: i64, end: i64) -> tuple[str, i64]:
    """Return a string and where it ends. Raises MalformedFrame."""
    octets, stop = read_octets(data, at, end)
    return text_of(octets), stop


def _free_text(octets: bytes) -> str:
    """Return a string in which a program may have line ends: of a user property or a reason. Raises MalformedFrame."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedFrame("a string is no UTF-8") from None
    if "\0" in text:
        raise MalformedFrame("a string holds NUL")
    return text


# -- properties --------------------------------------------------------------------------------------------------------


def read_properties(data: bytes, at: i64, end: i64, packet: i64) -> tuple[Properties, i64]:
    """Return the properties of a packet of type ``packet``, and where they end. Raises PeerError."""
    length, at = read_variable(data, at, end)
    stop = at + length
    if stop > end:
        raise MalformedFrame("properties are longer than their packet")
    found: Properties = {}
    while at < stop:
        identifier: i64 = data[at]  # all known ones have one octet
        at += 1
        known = PROPERTIES.get(int(identifier))
        if known is None:
            raise MalformedFrame(f"there is no property {int(identifier):#04x}")
        name, kind, packets = known
        if int(packet) not in packets:
            raise ProtocolViolation(f"{name} may not stand in {PACKETS[int(packet)]}")
        value, at = _read_value(data, at, stop, kind)
        _keep(found, int(identifier), name, value, packet)
    return found, stop


def _read_value(data: bytes, at: i64, stop: i64, kind: int) -> tuple[object, i64]:
    if kind == TEXT:
        octets, at = read_octets(data, at, stop)
        return _free_text(octets), at
    if kind == OCTETS:
        return read_octets(data, at, stop)
    if kind == PAIR:
        key, at = read_octets(data, at, stop)
        octets, at = read_octets(data, at, stop)
        return (_free_text(key), _free_text(octets)), at
    if kind == BYTE:
        if at >= stop:
            raise MalformedFrame("properties end within a value")
        octet: i64 = data[at]
        return int(octet), at + 1
    if kind == SHORT:
        return int(read_short(data, at, stop)), at + 2
    if kind == LONG:
        high = read_short(data, at, stop)
        low = read_short(data, at + 2, stop)
        return int((high << 16) + low), at + 4
    value, at = read_variable(data, at, stop)
    return int(value), at


def _keep(found: Properties, identifier: int, name: str, value: object, packet: i64) -> None:
    if identifier in NEVER_ZERO and value == 0:
        raise ProtocolViolation(f"{name} is 0")
    if identifier in FLAGS and value not in (0, 1):
        raise ProtocolViolation(f"{name} is {value}, not 0 or 1")
    if identifier == USER_PROPERTY or (identifier == SUBSCRIPTION_ID and packet == PUBLISH):
        several = found.setdefault(identifier, [])
        assert isinstance(several, list)
        if len(several) >= USER_PROPERTIES_MAX:
            raise LimitExceeded(f"a packet has more than {USER_PROPERTIES_MAX} of {name}")
        several.append(value)
    elif identifier in found:
        raise ProtocolViolation(f"{name} stands twice in one packet")
    else:
        found[identifier] = [value] if identifier == SUBSCRIPTION_ID else value


def write_variable(writer: BytesWriter, value: i64) -> None:
    """Append a variable byte integer."""
    while value >= 0x80:
        writer.append((value & 0x7F) | 0x80)
        value >>= 7
    writer.append(value)


def write_short(writer: BytesWriter, value: i64) -> None:
    """Append a two octet integer."""
    writer.append(value >> 8)
    writer.append(value & 0xFF)


def write_octets(writer: BytesWriter, octets: bytes) -> None:
    """Append binary data, or a string's octets, behind its length. Raises LimitExceeded for more than 65,535."""
    size: i64 = len(octets)
    if size > 65_535:
        raise LimitExceeded(f"a value has {size} octets, and MQTT can say 65535")
    writer.append(size >> 8)
    writer.append(size & 0xFF)
    writer.write(octets)


def write_properties(writer: BytesWriter, properties: Properties) -> None:
    """Append properties behind their length."""
    body = properties_octets(properties)
    write_variable(writer, len(body))
    writer.write(body)


def properties_octets(properties: Properties) -> bytes:
    """Return properties without their length."""
    if not properties:
        return b""
    writer = BytesWriter()
    for identifier, value in properties.items():
        kind = PROPERTIES[identifier][1]
        values = value if isinstance(value, list) else [value]
        for one in values:
            writer.append(identifier)
            _write_value(writer, kind, one)
    return writer.getvalue()


def _write_value(writer: BytesWriter, kind: int, value: object) -> None:
    if isinstance(value, tuple):
        write_octets(writer, str(value[0]).encode("utf-8", "replace"))
        write_octets(writer, str(value[1]).encode("utf-8", "replace"))
    elif isinstance(value, str):
        write_octets(writer, value.encode("utf-8", "replace"))
    elif isinstance(value, bytes):
        write_octets(writer, value)
    else:
        assert isinstance(value, int)
        if kind == BYTE:
            writer.append(value)
        elif kind == SHORT:
            write_short(writer, value)
        elif kind == LONG:
            write_short(writer, value >> 16)
            write_short(writer, value & 0xFFFF)
        else:
            write_variable(writer, value)
