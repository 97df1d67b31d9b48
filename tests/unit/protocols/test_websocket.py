"""WebSocket around MQTT and STOMP: handshakes, frames in any pieces, pings, closing, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import Connect, Subscribe, Wish, publish
from entrepot.protocols.mqtt.schema import V311
from entrepot.protocols.mqtt.server import MqttSession
from entrepot.protocols.session import MQTT, STOMP, Session, Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from entrepot.protocols.websocket import HANDSHAKE, MESSAGE_OCTETS_MAX, Maker, WebSocketSession
from kit import Rig

HELLO = Connect("w", V311).octets()


class Browser(Shell):
    """A client of WebSocket, by the same library; ``frames``: what came."""

    def __init__(self, rig: Rig, *names: str, makers: Mapping[str, Maker] | None = None) -> None:
        self.rig = rig
        self.session: Session = WebSocketSession(
            self, inside(rig) if makers is None else makers, rig.broker.memory, rig.now
        )
        self.wire = ClientProtocol(parse_uri("ws://broker/"), subprotocols=list(names) or None)  # type: ignore[arg-type]
        self.frames: list[Frame] = []
        self.wire.send_request(self.wire.connect())
        self.flush()

    def go_on(self) -> None:
        self.session.resume(self.rig.now)

    def flush(self, piece: int = 0) -> None:
        """Send what the client has to say, and take what comes."""
        for octets in self.wire.data_to_send():
            size = piece or max(len(octets), 1)
            for at in range(0, len(octets), size):
                self.session.receive(octets[at : at + size], self.rig.now)
                while self.rig.broker.effort.waits():
                    self.rig.broker.effort.go_on()
        for _ in range(20):
            self.rig.turn()
            while self.rig.broker.effort.waits():
                self.rig.broker.effort.go_on()
            came = self.session.outgoing()
            if not came:
                break
            self.wire.receive_data(came)
            self.frames += [one for one in self.wire.events_received() if isinstance(one, Frame)]

    def say(self, octets: bytes, piece: int = 0) -> None:
        self.wire.send_binary(octets)
        self.flush(piece)

    def heard(self) -> bytes:
        found = b"".join(bytes(one.data) for one in self.frames if one.opcode in (Opcode.TEXT, Opcode.BINARY))
        self.frames.clear()
        return found


def inside(rig: Rig) -> dict[str, Maker]:
    house = House(rig.broker)
    return {
        MQTT: lambda shell: MqttSession(shell, house, MqttOptions(), 1, "web"),
        STOMP: lambda shell: StompSession(shell, rig.broker, StompOptions(), 2, "web"),
    }


def subscribed() -> bytes:
    packet = Subscribe(1)
    packet.wishes = [Wish("t", 0)]
    return packet.octets(V311)


@pytest.mark.parametrize("piece", [0, 1, 7])
def test_mqtt_inside(piece: int) -> None:
    browser = Browser(Rig(), "mqtt")
    assert browser.wire.subprotocol == "mqtt"
    browser.say(HELLO + subscribed(), piece)
    browser.say(publish(V311, "t", b"x" * 5000), piece)
    assert browser.heard() == b"\x20\x02\x00\x00" + b"\x90\x03\x00\x01\x00" + publish(V311, "t", b"x" * 5000)
    assert browser.session.describe()["transport"] == "websocket"
    assert browser.session.readers() == 1


def test_a_packet_may_lie_in_several_fragments_and_messages() -> None:
    browser = Browser(Rig(), "mqtt")
    whole = HELLO + subscribed() + publish(V311, "t", b"hello")
    browser.wire.send_binary(whole[:9], fin=False)
    browser.wire.send_continuation(whole[9:20], fin=False)
    browser.wire.send_ping(b"p")
    browser.wire.send_continuation(whole[20:21], fin=True)
    browser.wire.send_binary(whole[21:])
    browser.flush()
    assert [one.opcode for one in browser.frames if one.opcode is Opcode.PONG] == [Opcode.PONG]
    assert browser.heard().endswith(publish(V311, "t", b"hello"))


@pytest.mark.parametrize("names", [("v12.stomp",), ("v10.stomp", "v11.stomp"), ()])
def test_stomp_inside_is_text(names: tuple[str, ...]) -> None:
    browser = Browser(Rig(), *names)
    assert (browser.wire.subprotocol or "") in ("", *names)
    browser.wire.send_text(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    browser.flush()
    assert [one.opcode for one in browser.frames] == [Opcode.TEXT]
    assert browser.heard().startswith(b"CONNECTED\n")


def test_a_text_frame_is_no_mqtt() -> None:
    browser = Browser(Rig(), "mqtt")
    browser.wire.send_text(b"hello")
    browser.flush()
    assert browser.session.closing
    assert browser.wire.close_rcvd is not None
    assert browser.wire.close_rcvd.code == 1003


def test_what_is_no_upgrade_is_answered_in_http() -> None:
    rig = Rig()
    session = WebSocketSession(Shell(), inside(rig), rig.broker.memory, rig.now)
    session.receive(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", rig.now)
    assert session.outgoing().startswith(b"HTTP/1.1 426 ")
    assert session.closing


def test_a_sub_protocol_that_is_not_spoken_here() -> None:
    rig = Rig()
    stomp = {STOMP: inside(rig)[STOMP]}
    browser = Browser(rig, "mqtt", makers=stomp)
    assert browser.session.closing or browser.wire.subprotocol is None


def test_a_frame_that_is_too_long_ends_it_before_it_is_held() -> None:
    browser = Browser(Rig(), "mqtt")
    browser.session.receive(b"\x82\xff" + (MESSAGE_OCTETS_MAX + 1).to_bytes(8, "big") + b"abcd", browser.rig.now)
    browser.flush()
    assert browser.session.closing
    assert browser.wire.close_rcvd is not None
    assert browser.wire.close_rcvd.code == 1009


def test_an_unmasked_frame_breaks_the_rules() -> None:
    browser = Browser(Rig(), "mqtt")
    browser.session.receive(b"\x82\x01x", browser.rig.now)
    browser.flush()
    assert browser.session.closing


def test_what_ends_inside_ends_the_connection_and_gives_all_back() -> None:
    rig = Rig()
    browser = Browser(rig, "mqtt")
    browser.say(HELLO + subscribed())
    browser.say(b"\x36\x05\x00\x01a\x00\x01")  # QoS 3
    assert browser.session.closing
    browser.session.detach("closed", rig.now)
    rig.turn()
    assert not [queue for queue in rig.broker.table.queues.values() if queue.roster.consumers]


def test_who_says_nothing_is_sent_away() -> None:
    rig = Rig()
    session = WebSocketSession(Shell(), inside(rig), rig.broker.memory, rig.now)
    assert session.deadline() == rig.now + HANDSHAKE
    session.advance(rig.now + HANDSHAKE)
    assert session.closing


def test_the_broker_says_that_it_goes() -> None:
    rig = Rig()
    browser = Browser(rig, "mqtt")
    browser.say(HELLO)
    browser.session.shut("the broker stops", rig.now)
    browser.flush()
    assert browser.wire.close_rcvd is not None
    assert browser.wire.close_rcvd.code == 1001
