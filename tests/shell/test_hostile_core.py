"""What a hostile peer sends over CORE costs it its connection, the broker little memory, and others nothing."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from entrepot.protocols.artemis.codec import PREFACE, Decoder, Encoder
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    Commit,
    CreateQueue,
    CreateSession,
    CreateSessionReply,
    ExceptionReply,
    FlowToken,
    NullReply,
    Packet,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    ReattachSessionReply,
    SendContinuation,
    SendLarge,
    SubscribeTopology,
    XaCommit,
    XaReply,
)
from entrepot.protocols.artemis.primitives import Xid
from shell.daemon import PATIENCE, Daemon, Wire

MIB = 1 << 20
ROOM = 48 * MIB  # by which the broker may grow through all of it: interpreter noise, and buffers of frames
CHANNEL = 10
Kind = TypeVar("Kind", bound=Packet)


def frame(kind: int, channel: int, body: bytes = b"") -> bytes:
    return (9 + len(body)).to_bytes(4, "big") + bytes([kind]) + channel.to_bytes(8, "big") + body


BROKEN: dict[str, bytes] = {
    "an unknown type": frame(0xFF, CHANNEL),
    "a length below the smallest": (8).to_bytes(4, "big") + bytes(8),
    "a negative length": b"\xff\xff\xff\xff" + bytes(20),
    "a length of 2 GiB": b"\x7f\xff\xff\xff" + bytes(20),
    "a SEND without a message": frame(71, CHANNEL),
    "a SEND whose message is longer than its frame": frame(71, CHANNEL, b"\x7f\xff\xff\xff" + bytes(40)),
    "a SEND whose body ends before it begins": frame(71, CHANNEL, b"\xff\xff\xff\xff" + bytes(40)),
    "a queue whose name is longer than its frame": frame(45, CHANNEL, b"\x7f\xff\xff\xff" + b"\0q"),
    "a queue whose name has a negative length": frame(45, CHANNEL, b"\xff\xff\xff\xff" + b"\0q"),
    "a session as a command of a session": frame(30, CHANNEL, bytes(60)),
    "a confirmation of what was never sent": frame(22, CHANNEL, (12_345).to_bytes(4, "big")),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for all cases: what they leave behind adds up."""
    home: Path = tmp_path_factory.mktemp("hostile")
    daemon = Daemon(home, "--listen", "core://127.0.0.1:0").start()
    yield daemon
    daemon.kill()


class Peer:
    """One connection; `open` makes a session on channel 10."""

    def __init__(self, broker: Daemon, *, greets: bool = True) -> None:
        _, place = json.loads(broker.ports.read_text())["uris"]
        self.socket = socket.create_connection(("127.0.0.1", int(place.rpartition(":")[2])), timeout=PATIENCE)
        self.decoder, self.encoder = Decoder(preface=False), Encoder()
        for codec in (self.decoder, self.encoder):
            codec.speak(136)
        self.came: list[Packet] = []
        if greets:
            self.socket.sendall(PREFACE)
            self.say(Ping(ttl=60_000), SubscribeTopology(version=136), channel=0)

    def say(self, *packets: Packet, channel: int = CHANNEL) -> None:
        for packet in packets:
            packet.channel = channel
        self.socket.sendall(b"".join(self.encoder.encode(packet) for packet in packets))

    def open(self, channel: int = CHANNEL, *, window: int = -1, name: str = "hostile") -> None:
        self.say(
            CreateSession(
                name=name,
                session_channel=channel,
                version=136,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=window,
            ),
            channel=1,
        )
        self.wait(CreateSessionReply)

    def wait(self, kind: type[Kind]) -> Kind:
        """Return the next packet of ``kind``, or of a refusal that is waited for."""
        while True:
            for packet in self.came:
                if isinstance(packet, kind):
                    self.came.remove(packet)
                    return packet
            data = self.socket.recv(1 << 16)
            assert data, f"the broker ended the connection; {self.came}"
            self.came += self.decoder.feed(data)

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


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_frame_ends_its_connection(broker: Daemon, what: str) -> None:
    peer = Peer(broker)
    peer.open(window=1_000, name=what)
    assert peer.ends(BROKEN[what])


def test_a_stranger_may_say_little(broker: Daemon) -> None:
    assert Peer(broker, greets=False).ends(b"ARTEMIT" + bytes(20))
    assert Peer(broker).ends((1 << 20).to_bytes(4, "big") + bytes([30]))  # 1 MiB, before it is known who that is
    peer = Peer(broker)
    peer.say(*[Commit() for _ in range(1_000)])  # to a session that nobody made
    peer.open()
    peer.socket.close()


def test_sessions_have_a_bound(broker: Daemon) -> None:
    peer = Peer(broker)
    for number in range(2_001):
        packet = CreateSession(name=f"s{number}", session_channel=CHANNEL + number, version=136, window=-1)
        packet.channel = 1
        peer.socket.sendall(peer.encoder.encode(packet))
    assert "2000 sessions" in (peer.wait(ExceptionReply).text or "")
    peer.say(CreateQueue(address="flood", queue="flood", durable=True, require_response=True, routing=1))
    peer.wait(NullReply)  # those that it has go on
    peer.socket.close()


def test_a_large_message_that_never_ends_leaves_no_file(broker: Daemon) -> None:
    peer = Peer(broker)
    peer.open()
    peer.say(SendLarge(headers=bytes(4)))
    assert peer.ends(frame(73, CHANNEL, b"\x7f\xff\xff\xff"))
    for _ in range(3):
        half = Peer(broker)
        half.open()
        headers = bytes.fromhex("00000000000000000100000002" + "7100" + "00") + bytes(60)
        half.say(SendLarge(headers=headers))
        for _ in range(30):
            half.say(SendContinuation(body=bytes(100_000), continues=True))
        half.socket.close()
    again = Peer(broker)
    again.open()
    again.socket.close()
    until = time.monotonic() + PATIENCE
    while left := list(broker.home.rglob("*.blob")):
        assert time.monotonic() < until, left
        time.sleep(0.02)


def test_what_was_never_there_is_refused_and_the_session_goes_on(broker: Daemon) -> None:
    peer = Peer(broker)
    peer.open()
    peer.say(Acknowledge(consumer=7, message=1 << 40, require_response=True))
    assert peer.wait(ExceptionReply).code == 104
    peer.say(FlowToken(consumer=99, credits=-5), PacketsConfirmed(command=-1), Commit())
    peer.wait(NullReply)
    peer.say(XaCommit(xid=Xid(-1, b"b" * 60, b"g" * 60)))
    assert peer.wait(XaReply).error
    peer.say(ReattachSession(name="nobody has this", last_confirmed=1 << 30), channel=1)
    assert not peer.wait(ReattachSessionReply).reattached
    peer.socket.close()


def test_half_open_connections_harm_nobody(broker: Daemon) -> None:
    silent = [Peer(broker, greets=False) for _ in range(50)]
    for number, peer in enumerate(silent):
        peer.socket.sendall(PREFACE[: number % len(PREFACE)])
    halves = [Peer(broker) for _ in range(50)]
    for peer in halves:
        peer.open(window=1_000, name=f"half {id(peer)}")
        peer.socket.shutdown(socket.SHUT_WR)
    for peer in (*silent, *halves):
        peer.socket.close()
