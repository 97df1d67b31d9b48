"""A client of MQTT without a socket, for tests: it talks to one session of a `Rig`, and says what came as text."""

from __future__ import annotations

from typing import Any

from entrepot.protocols.mqtt.codec import Properties, Reader, read_properties
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import (
    Connect,
    Farewell,
    Subscribe,
    Will,
    Wish,
    acknowledgement,
    publish,
    read_answer,
    read_farewell,
)
from entrepot.protocols.mqtt.schema import (
    CONNACK,
    DISCONNECT,
    PACKETS,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    UNSUBSCRIBE,
    V5,
    V311,
)
from entrepot.protocols.mqtt.server import MqttSession
from entrepot.protocols.session import Shell
from kit import Rig


class Published:
    """One PUBLISH that came."""

    def __init__(self, reader: Reader) -> None:
        data = reader.data
        reader.read_publish()
        self.topic = reader.topic.decode()
        self.qos = int(reader.flags >> 1 & 3)
        self.dup = bool(reader.flags & 8)
        self.retain = bool(reader.flags & 1)
        self.packet_id = int(reader.packet_id)
        self.payload = data[int(reader.payload_at) : int(reader.end)]
        self.properties: Properties = {}
        if reader.version == V5:
            self.properties = read_properties(data, reader.properties_at, reader.payload_at, PUBLISH)[0]

    def __repr__(self) -> str:
        flags = (" dup" if self.dup else "") + (" retain" if self.retain else "")
        number = f" id {self.packet_id}" if self.packet_id else ""
        return f"PUBLISH {self.topic} q{self.qos}{number}{flags} {self.payload.decode('utf-8', 'replace')}"


class Peer(Shell):
    """One connection; ``auto``: it acknowledges what comes, as a client does. ``said``: what came, as text."""

    count = 0

    def __init__(
        self,
        rig: Rig,
        house: House,
        client_id: str = "",
        version: int = V311,
        *,
        options: MqttOptions | None = None,
        auto: bool = True,
        connects: bool = True,
        **more: Any,
    ) -> None:
        Peer.count += 1
        self.rig = rig
        self.version = version
        self.auto = auto
        self.house = house
        self.session = MqttSession(self, house, options or MqttOptions(), Peer.count, f"peer-{Peer.count}")
        self.reader = Reader(1 << 28)
        self.reader.version = version
        self.said: list[str] = []
        self.messages: list[Published] = []
        self.properties: Properties = {}
        self.last_id = 0
        self.waiting_on: list[tuple[int, int]] = []
        if connects:
            connect = Connect(client_id, version)
            for name, value in more.items():
                setattr(connect, name, value)
            self.feed(connect.octets())
            self.hear()

    def go_on(self) -> None:
        self.session.resume(self.rig.now)

    def feed(self, octets: bytes, chunk: int = 0) -> None:
        size = chunk or max(len(octets), 1)
        for at in range(0, len(octets), size):
            self.session.receive(octets[at : at + size], self.rig.now)
            while self.rig.broker.effort.waits():
                self.rig.broker.effort.go_on()

    def hear(self) -> list[str]:
        """End the turn and return what came since the last call, as text."""
        before = len(self.said)
        for _ in range(50):
            self.rig.turn()
            while self.rig.broker.effort.waits():
                self.rig.broker.effort.go_on()
            octets = self.session.outgoing()
            if not octets:
                break
            self.reader.feed(octets)
            while self.reader.next():
                self._take()
        return self.said[before:]

    def _take(self) -> None:
        reader = self.reader
        kind = int(reader.kind)
        if kind == PUBLISH:
            made = Published(reader)
            self.messages.append(made)
            self.said.append(repr(made))
            if self.auto and made.qos:
                self.feed(acknowledgement(PUBACK if made.qos == 1 else PUBREC, made.packet_id, self.version))
            return
        if kind == DISCONNECT:
            made_farewell = read_farewell(kind, 0, reader.data, reader.begin, reader.end, self.version)
            self.properties = made_farewell.properties
            self.said.append(f"DISCONNECT {int(made_farewell.code):#04x}")
            return
        if kind == PINGRESP:
            self.said.append("PINGRESP")
            return
        answer = read_answer(kind, reader.data, reader.begin, reader.end, self.version)
        self.properties = answer.properties
        codes = " ".join(str(code) for code in answer.codes)
        if kind == CONNACK:
            self.said.append(f"CONNACK {codes}" + (" present" if answer.present else ""))
            return
        self.said.append(f"{PACKETS[kind]} {int(answer.packet_id)} {codes}".rstrip())
        if self.auto and kind == PUBREL:
            self.feed(acknowledgement(PUBCOMP, answer.packet_id, self.version))

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def publish(self, topic: str, payload: bytes | str, qos: int = 0, **more: Any) -> list[str]:
        """Publish; with QoS 2 the whole exchange, if it is ``auto``."""
        octets = payload.encode() if isinstance(payload, str) else payload
        packet_id = more.pop("packet_id", 0) or (self.next_id() if qos else 0)
        self.feed(publish(self.version, topic, octets, qos, packet_id, **more))
        said = self.hear()
        if qos == 2 and self.auto and any(word.startswith("PUBREC") for word in said):
            self.feed(acknowledgement(PUBREL, packet_id, self.version))
            said += self.hear()
        return said

    def subscribe(self, *filters: str, qos: int = 0, options: int = 0, identifier: int = 0) -> list[str]:
        packet = Subscribe(self.next_id())
        packet.identifier = identifier
        packet.wishes = [Wish(text, qos | options) for text in filters]
        self.feed(packet.octets(self.version))
        return self.hear()

    def unsubscribe(self, *filters: str) -> list[str]:
        packet = Subscribe(self.next_id())
        packet.wishes = [Wish(text, 0) for text in filters]
        self.feed(packet.octets(self.version, UNSUBSCRIBE))
        return self.hear()

    def ack(self, kind: int, packet_id: int, code: int = 0) -> list[str]:
        self.feed(acknowledgement(kind, packet_id, self.version, code))
        return self.hear()

    def ping(self) -> list[str]:
        self.feed(bytes((PINGREQ << 4, 0)))
        return self.hear()

    def leave(self, code: int = 0, properties: Properties | None = None) -> None:
        """DISCONNECT, and close."""
        packet = Farewell(code)
        packet.properties = properties or {}
        self.feed(packet.octets(self.version))
        self.cut()

    def cut(self) -> None:
        """The connection is gone."""
        self.session.detach("closed", self.rig.now)
        self.rig.turn()

    @property
    def payloads(self) -> list[str]:
        return [one.payload.decode("utf-8", "replace") for one in self.messages]


__all__ = ["Peer", "Published", "Will"]
