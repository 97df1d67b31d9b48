"""What a hostile peer sends over OpenWire costs it its connection, the broker little memory, and others nothing."""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    ActiveMQMapMessage,
    ActiveMQQueue,
    ActiveMQTextMessage,
    ConnectionId,
    ConnectionInfo,
    DataArrayResponse,
    DataResponse,
    KeepAliveInfo,
    MessageId,
    ProducerId,
    ProducerInfo,
    WireFormatInfo,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, negotiate, offer_of
from shell.daemon import PATIENCE, Daemon, Wire

MIB = 1 << 20
ROOM = 64 * MIB  # by which the broker may grow through all of it: interpreter noise, and buffers of frames
CONNECTION = "ID:hostile"
HEADER = bytes(5)  # command id, no answer wanted
OFFERS = {
    "loose": WireFormatOptions(),
    "tight": WireFormatOptions(tight_encoding_enabled=True),
    "cached": WireFormatOptions(cache_enabled=True),
    "open": WireFormatOptions(size_prefix_disabled=True),
}
LIMITS = "?" + "&".join(
    f"wireFormat.{name}=true" for name in ("tightEncodingEnabled", "cacheEnabled", "sizePrefixDisabled")
)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def nested(depth: int) -> Structure:
    command: Structure = KeepAliveInfo()
    for _ in range(depth):
        command = DataResponse(data=command)
    return command


def written(command: Structure) -> bytes:
    return Encoder(WireFormat()).encode(command)


ANY: list[bytes] = [frame(b"\x0d" + HEADER), frame(b"\xff" * 100), b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)]
CASES: dict[str, list[bytes]] = {
    "loose": [
        *ANY,
        frame(b"\x70" + bytes(4) + b"\x01\xff\xff\xff\xff\x00"),  # octets of negative length
        frame(b"\x70" + bytes(4) + b"\x01\x7f\xff\xff\xff\x00"),
        frame(b"\x21" + HEADER + bytes(4) + b"\x01\xff\xff"),  # an array of negative length
        frame(b"\x21" + HEADER + bytes(4) + b"\x01\x7f\xff"),
        frame(b"\x0e" + HEADER + b"\x01\xff\xffA"),  # a text longer than its frame
        written(nested(60)),
        written(DataArrayResponse(data=[DataArrayResponse(data=[ConnectionId("")] * 32_767) for _ in range(4)])),
    ],
    "tight": [
        *ANY,
        frame(b"\x0a\x41\x00" + bytes(4)),  # bits in no form
        frame(b"\x0a\x80\xff\xff\x00" + bytes(4)),  # bits of negative length
        frame(b"\x0a\xc0\xff\x00" + bytes(4)),
    ],
    "cached": [
        *ANY,
        frame(b"\x04" + HEADER + b"\x00\x04\x00"),  # an index above the cache
        frame(b"\x04" + HEADER + b"\x01\x04\x00\x00"),
        frame(b"\x04" + HEADER + b"\x00\x00\x00"),  # one that was never filled
        frame(b"\x04" + HEADER + b"\x00\xff\xff"),
    ],
    "open": [b"\x0d" + HEADER, b"\xff" * 100, b"\x70" + bytes(4) + b"\x01\xff\xff\xff\xff\x00"],
}
BEFORE = [  # instead of an offer: bombs in the one map that a stranger may send
    frame(b"\x01ActiveMQ" + (12).to_bytes(4, "big") + b"\x01" + len(bomb).to_bytes(4, "big") + bomb)
    for bomb in (
        b"\x7f\xff\xff\xff",
        (100).to_bytes(4, "big") + b"\0\1a\0" * 100,
        b"\0\0\0\1\0\1a" + b"\x0b\0\0\0\1\0\1a" * 500 + b"\0",
        b"\0\0\0\1\0\1a\x0c" + b"\x7f\xff\xff\xff",
        b"\0\0\0\1\0\1a\x0a" + b"\xff\xff\xff\xff",
    )
] + [frame(b"\x01ActiveMQ" + bytes(8)), b"\x00\x10\x00\x00\x01ActiveMQ"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all cases: what they leave behind adds up."""
    home: Path = tmp_path_factory.mktemp("hostile")
    daemon = Daemon(home, "--listen", f"openwire://127.0.0.1:0{LIMITS}", ephemeral=True).start()
    yield daemon
    daemon.kill()


def port_of(broker: Daemon) -> int:
    _, place = json.loads(broker.ports.read_text())["uris"]
    return int(place.rpartition(":")[2])


class Peer:
    """One connection, agreed on a format."""

    def __init__(self, broker: Daemon, offer: WireFormatOptions) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=PATIENCE)
        ours = offer_of(offer)
        self.socket.sendall(Encoder(WireFormat.before_agreement(ours)).encode(ours))
        decoder = Decoder(WireFormat())
        theirs: list[Structure] = []
        while not theirs:
            theirs = decoder.feed(self.socket.recv(1 << 16))
        assert isinstance(theirs[0], WireFormatInfo)
        self.encoder = Encoder(negotiate(ours, theirs[0]))

    def say(self, *commands: Structure) -> None:
        self.socket.sendall(b"".join(self.encoder.encode(command) for command in commands))

    def ends(self, octets: bytes) -> bool:
        """Return whether the broker ends the connection upon ``octets``."""
        self.socket.sendall(octets)
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        finally:
            self.socket.close()
        return True


@pytest.fixture
def witness(broker: Daemon) -> Iterator[Wire]:
    """Somebody else, who is served before and after; and the broker has not grown."""
    wire = Wire(broker.port)
    wire.subscribe("/queue/witness")
    before = broker.memory()
    yield wire
    assert wire.send("/queue/witness", b"still here").command == "RECEIPT"
    assert wire.message().body == b"still here"
    assert broker.memory() < before + ROOM
    wire.leave()


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.usefixtures("witness")
def test_a_hostile_frame_ends_its_connection(broker: Daemon, offer: str) -> None:
    for octets in CASES[offer]:
        assert Peer(broker, OFFERS[offer]).ends(octets), octets[:40].hex()


@pytest.mark.usefixtures("witness")
def test_a_hostile_offer_ends_its_connection(broker: Daemon) -> None:
    for octets in BEFORE:
        link = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=PATIENCE)
        link.sendall(octets)
        while link.recv(1 << 16):
            pass
        link.close()


def test_bombs_in_messages_harm_no_reader(broker: Daemon) -> None:
    """They pass closed. Who reads them in another language gets the octets as they came, and why; then the next."""
    before = broker.memory()
    peer = Peer(broker, WireFormatOptions())
    producer = ProducerId(CONNECTION, 1, 1)
    queue = ActiveMQQueue("bombs")
    deep = b"\0\0\0\1\0\1a" + b"\x0b\0\0\0\1\0\1a" * 5000 + b"\0"
    bomb = zlib.compress(bytes(120 * MIB))
    messages = [
        ActiveMQMapMessage(content=deep),
        ActiveMQMapMessage(content=b"\x7f\xff\xff\xff"),
        ActiveMQMapMessage(content=bomb, compressed=True),
        ActiveMQTextMessage(content=bomb, compressed=True),
        ActiveMQTextMessage(content=b"\x7f\xff\xff\xffabc"),
        ActiveMQTextMessage(content=b"\0\0\0\4fine", marshalled_properties=deep),
        ActiveMQTextMessage(content=b"\0\0\0\4last"),
    ]
    for number, message in enumerate(messages):
        message.message_id = MessageId(producer_id=producer, producer_sequence_id=number + 1)
        message.producer_id = producer
        message.destination = queue
    peer.say(
        ConnectionInfo(connection_id=ConnectionId(CONNECTION)),
        ProducerInfo(producer_id=producer, destination=queue),
        *messages,
    )
    reader = Wire(broker.port)
    reader.subscribe("/queue/bombs", transformation="jms-json")
    for message in messages[:-2]:
        frame = reader.message()
        assert frame.body == message.content
        assert frame.headers["unreadable"]
    assert [reader.message().body for _ in range(2)] == [b"fine", b"last"]
    peer.socket.close()
    assert reader.send("/queue/other", b"x").command == "RECEIPT"
    reader.leave()
    assert broker.memory_peak() < before + ROOM
