"""Any octets to a session of MQTT on a whole broker: nothing is raised, every invariant of the broker holds, memory
stays within the limits, and another connection is served as if nothing had happened.

The first octet chooses the version and the size of the chunks; what follows goes to one connection, behind CONNECT.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import Subscribe, Wish, acknowledgement, publish
from entrepot.protocols.mqtt.schema import PUBREC, PUBREL, UNSUBSCRIBE, V5, V31, V311
from kit import Rig
from mqtt_peer import Peer

VERSIONS = (V31, V311, V5)
PACKET_MAX = 2000
HELD_MAX = PACKET_MAX + 1024


def _subscribe(version: int, *filters: str, kind: int = 8) -> bytes:
    packet = Subscribe(1)
    packet.wishes = [Wish(text, 1) for text in filters]
    return packet.octets(version, kind)


CORPUS = [
    b"\x02"
    + publish(V5, "t", b"x", 2, 1, properties={0x26: [("k", "v")], 2: 5, 0x23: 1})
    + acknowledgement(PUBREL, 1, V5),
    b"\x01" + publish(V311, "t", b"x", 1, 1, retain=True) + _subscribe(V311, "t", "#", "$share/g/t"),
    b"\x12" + _subscribe(V5, "+/#", "a") + acknowledgement(PUBREC, 1, V5) + _subscribe(V5, "a", kind=UNSUBSCRIBE),
    b"\x00" + _subscribe(V31, "t") + b"\xc0\x00\xe0\x00",
    b"\x22" + publish(V5, "", b"x", 0, properties={0x23: 9}),
]


def fuzz(data: bytes) -> None:
    """Raises AssertionError, or whatever is our mistake."""
    if not data:
        return
    rig = Rig(disk=bool(data[0] & 128))
    house = House(rig.broker)
    options = MqttOptions()
    options.packet_octets_max = PACKET_MAX
    version = VERSIONS[data[0] % 3]
    peer = Peer(rig, house, "fuzz", version, options=options, clean=False, auto=False)
    good = Peer(rig, house, "good", V311)
    good.subscribe("never/named", qos=1)
    size = data[0] >> 4 & 7 or len(data)
    for at in range(1, len(data), size):
        if peer.session.closing:
            break
        peer.session.receive(data[at : at + size], rig.now)
        while rig.broker.effort.waits():
            rig.broker.effort.go_on()
        assert peer.session.reader.waiting() <= HELD_MAX
        peer.session.outgoing()
        rig.turn()
    assert good.publish("never/named", "still here", 1)
    good.hear()
    assert "still here" in good.payloads
    peer.cut()
    good.cut()
