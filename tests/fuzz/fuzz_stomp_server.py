"""Any octets to a whole session on a whole broker: nothing is raised, every invariant of the broker holds after each
chunk, memory stays within the limits, and another connection is served as if nothing had happened.

The first octet chooses the size of the chunks, the second the version (its high bit: a broker with a disk); what
follows goes to one connection, and behind the first 0xFE to a second one.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.frames import FrameParser, encode_frame
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from kit import MILLISECOND, Rig

SPLIT = b"\xfe"  # in no UTF-8 text
VERSIONS = (b"1.0", b"1.1", b"1.2")
LINE_OCTETS_MAX = 300
HELD_OCTETS_MAX = 16 * LINE_OCTETS_MAX + 1024
TIMES_WRITTEN_MAX = 40  # a frame of a few octets is answered by an ERROR of a few hundred
WRITTEN_FIXED_MAX = 100_000

CORPUS = [
    b"\x00\x82SEND\ndestination:/queue/q\npersistent:true\nreceipt:1\n\nbody\0SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\0",
    b"\x07\x02SUBSCRIBE\nid:1\ndestination:/queue/q\nack:client\n\n\0SEND\ndestination:/queue/q\n\nx\0ACK\nid:1-1\n\n\0",
    b"\x01\x01BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/q\ntransaction:t\n\nx\0COMMIT\ntransaction:t\n\n\0",
    b"\x00\x82SEND\ndestination:/queue/q\ncontent-length:600\n\n" + bytes(600) + b"\0SUBSCRIBE\nid:1\n"
    b"destination:/queue/q\nack:client-individual\n\n\0NACK\nid:1-1\n\n\0",
    b"\x00\x00SUBSCRIBE\ndestination:/queue/q\nbrowser:true\nselector:a > 1 AND b LIKE 'x%'\n\n\0",
    b"\x00\x82SUBSCRIBE\nid:1\ndestination:/topic/t\nactivemq.subscriptionName:s\n\n\0UNSUBSCRIBE\nid:1\n\n\0",
    b"\x00\x82ATTACH\nqueue:/queue/q\ngroup:g\nreceipt:1\n\n\0CLAIM\nqueue:/queue/q\ngroup:g\nepoch:1\nreceipt:2\n\n\0"
    b"READ\nqueue:/queue/q\ngroup:g\nepoch:1\nreceipt:3\n\n\0SETTLE\nqueue:/queue/q\ngroup:g\nepoch:1\nend:1\n\n\0BROKERS\nreceipt:4\n\n\0QUEUES\nmatch:a.>,q\nknown:2.0,7\nreceipt:5\n\n\0",
    b"\x00\x02SEND\ndestination:/temp-queue/x\nreply-to:/temp-queue/y\n\nx\0SUBSCRIBE\nid:1\ndestination:/temp-queue/x\n\n\0",
    b"\x00\x02SEND\ndestination:/queue/a,/topic/b\nJMSXGroupID:g\nJMSXGroupSeq:-1\nexpires:1\npriority:9\n\nx\0",
    b"\x00\x82SEND\ndestination:/queue/q\nAMQ_SCHEDULED_DELAY:10\nAMQ_SCHEDULED_REPEAT:2\n_AMQ_DUPL_ID:d\n\nx\0",
    b"\x00\x02SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\0\xfeSUBSCRIBE\nid:1\ndestination:/queue/*\n\n\0"
    b"SEND\ndestination:/queue/q\n\nx\0DISCONNECT\nreceipt:bye\n\n\0",
]


def options() -> StompOptions:
    limits = StompOptions()
    limits.line_octets_max = LINE_OCTETS_MAX
    limits.headers_max = 40
    limits.frame_octets_max = 2000
    limits.large_octets = 500
    return limits


class Peer:
    """One connection, and how much was written to it."""

    def __init__(self, rig: Rig, number: int, version: bytes) -> None:
        self.rig = rig
        self.session = StompSession(Shell(), rig.broker, options(), number, f"peer-{number}")
        self.written = 0
        self.gone = False
        self.receive(b"CONNECT\naccept-version:%b\nclient-id:c%d\nheart-beat:1000,1000\n\n\0" % (version, number))

    def receive(self, data: bytes) -> None:
        if self.gone:
            return
        session = self.session
        if session.readable:
            session.receive(data, self.rig.now)
        assert session.reader.waiting() <= HELD_OCTETS_MAX + len(data), "more is held than a frame may have"
        self.rig.turn()
        self.take()

    def take(self) -> bytes:
        """Do as the shell does: write, and detach what is closing."""
        taken = b""
        while not self.gone and (data := self.session.outgoing()):
            taken += data
        self.written += len(taken)
        if self.session.closing:
            self.leave()
        return taken

    def leave(self) -> None:
        if not self.gone:
            self.gone = True
            self.session.describe()
            self.session.detach("the end", self.rig.now)
            self.rig.turn()


def fuzz(data: bytes) -> None:
    """Raises AssertionError, or whatever is our mistake."""
    if len(data) < 2:
        return
    chunk = data[0] or len(data)
    rig = Rig(disk=data[1] >= 0x80)
    first, _, second = data[2:].partition(SPLIT)
    peers = [Peer(rig, number, VERSIONS[data[1] % 3]) for number in (1, 2)]
    for peer, octets in zip(peers, (first, second), strict=True):
        for at in range(0, len(octets), chunk):
            peer.receive(octets[at : at + chunk])
    rig.wait(600)
    for peer in peers:
        if not peer.gone and peer.session.deadline() <= rig.now:
            peer.session.advance(rig.now)
        peer.take()
    written = sum(peer.written for peer in peers)
    assert written <= WRITTEN_FIXED_MAX + TIMES_WRITTEN_MAX * len(data), f"{written} octets answer {len(data)}"
    others_are_served(rig)
    peers[0].receive(b"")
    for peer in peers:
        peer.leave()
    assert not rig.broker.flow.waiting
    assert not rig.broker.clients.held


def others_are_served(rig: Rig) -> None:
    """An honest client sends to a topic, and receives; a queue might have a hostile reader too."""
    honest = Peer(rig, 3, b"1.2")
    parser = FrameParser("1.2")
    said = encode_frame("SUBSCRIBE", {"id": "s", "destination": "/topic/honest\u00e9"})
    said += encode_frame("SEND", {"destination": "/topic/honest\u00e9", "receipt": "r"}, b"hello")
    honest.session.receive(said, rig.now)
    rig.turn()
    parser.feed(honest.take())
    found = []
    while frame := parser.take():
        found.append(frame.command)
    assert "RECEIPT" in found, found
    assert "MESSAGE" in found, found
    honest.leave()
    assert rig.now >= 5 * MILLISECOND
