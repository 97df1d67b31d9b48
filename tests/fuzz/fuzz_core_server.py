"""Any octets to a whole CORE session on a whole broker: nothing is raised, every invariant of the broker holds after
each chunk, memory stays within the limits, and another connection is served as if nothing had happened.

The first octet chooses the size of the chunks, the second the channel version (its high bit: a broker with a disk).
What follows is what one client says behind its preface, up to the first `SPLIT`; then a second one, which may reattach.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from entrepot.base.primitive import BYTE, Primitive
from entrepot.protocols.artemis import packets as core
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.codec import PREFACE, Encoder
from entrepot.protocols.artemis.headers import Headers, assembled, headers_at
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.packets import Packet
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.session import Shell
from kit import Rig

SPLIT = b"\xfeSPLIT\xfe"
VERSIONS = (129, 130, 132, 134, 136)
FRAME_OCTETS_MAX = 3000
TIMES_WRITTEN_MAX = 60  # a query of a few octets is answered by some hundred
WRITTEN_FIXED_MAX = 100_000
NEWEST = 4
BRANCH = Xid(1, b"b", b"g")


def said(*spoken: Packet | tuple[int, Packet]) -> bytes:
    """Return what a client says on channel 10, or on the channel given."""
    encoder = Encoder()
    encoder.speak(VERSIONS[NEWEST])
    octets = b""
    for one in spoken:
        channel, packet = one if isinstance(one, tuple) else (10, one)
        packet.channel = channel
        octets += encoder.encode(packet)
    return octets


def session(name: str = "s", window: int = -1, **fields: bool) -> tuple[int, Packet]:
    """Return what opens a session on channel 10."""
    given = {"auto_commit_sends": True, "auto_commit_acks": True, **fields}
    return 1, core.CreateSession(name=name, session_channel=10, version=136, window=window, min_large=500, **given)


def message(text: str = "x", **properties: object) -> bytes:
    """Return a text message to the queue q."""
    headers = Headers()
    headers.address = "q"
    headers.kind = 3
    headers.durable = True
    return assembled(text_body(text), headers, {"_AMQ_ROUTING_TYPE": Primitive(BYTE, 1), **properties})


LARGE = message()[headers_at(message()) :]
OPENED = (
    (0, core.Ping(ttl=60_000)),
    (0, core.SubscribeTopology(version=136)),
    session(),
    core.CreateQueue(address="q", queue="q", durable=True, routing=1, require_response=True),
    core.Start(),
)
READ = (core.CreateConsumer(consumer=1, queue="q", require_response=True), core.FlowToken(consumer=1, credits=-1))
SENT = core.Send(message=message(), require_response=True, correlation=-2)

CORPUS = [
    b"\x00\x84" + said(*OPENED, core.RequestCredits(credits=9, address="q"), SENT, *READ, core.ForceDelivery()),
    b"\x00\x84" + said(*OPENED, SENT, *READ, core.Acknowledge(consumer=1, message=1), core.CloseConsumer(consumer=1)),
    b"\x07\x84" + said((0, core.Ping(ttl=1)), session(auto_commit_sends=False), SENT, core.Commit(correlation=-3)),
    b"\x00\x84" + said(session(auto_commit_acks=False), SENT, *READ, core.Start(), core.Rollback()),
    b"\x00\x84"
    + said(*OPENED, core.XaStart(xid=BRANCH), SENT, core.XaEnd(xid=BRANCH), core.XaPrepare(xid=BRANCH))
    + said(core.XaInDoubtXids(), core.XaCommit(xid=BRANCH), core.XaRollback(xid=BRANCH)),
    b"\x00\x84"
    + said(*OPENED, core.SendLarge(headers=LARGE), core.SendContinuation(body=bytes(900), continues=True))
    + said(core.SendContinuation(body=bytes(900), require_response=True, correlation=-2), *READ),
    b"\x00\x84"
    + said(session(window=100), core.Start(), SENT, *READ)
    + SPLIT
    + said((1, core.ReattachSession(name="s", last_confirmed=1)), core.PacketsConfirmed(command=2), SENT),
    b"\x00\x04" + said(*OPENED, core.QueueQuery(queue="q"), core.BindingQuery(address="q"), core.Close()),
    b"\x00\x04"
    + said(*OPENED, core.CreateSharedQueue(address="t", queue="t.s", filter="a > 1", routing=0))
    + said(core.CreateAddress(address="a", routing_types=[0, 1]), core.DeleteQueue(queue="q")),
    b"\x00\x04"
    + said(
        *OPENED,
        SENT,
        core.CreateConsumer(consumer=2, queue="q", browse=True),
        core.FlowToken(consumer=2, credits=9),
    )
    + said(core.UniqueAddMetadata(key="jms-client-id", data="c", require_response=True), core.Stop()),
    b"\x00\x84" + said(*OPENED, core.Send(message=message(_AMQ_DUPL_ID="d", _AMQ_GROUP_ID="g", _AMQ_SCHED_DELIVERY=9))),
]


class Peer:
    """One connection, and how much was written to it."""

    def __init__(self, rig: Rig, acceptor: CoreAcceptor, number: int) -> None:
        self.rig = rig
        options = CoreOptions()
        options.frame_octets_max = FRAME_OCTETS_MAX
        options.unconfirmed_octets_max = 50_000
        self.session = CoreServerSession(Shell(), acceptor, options, number, f"peer-{number}")
        self.written = 0
        self.gone = False

    def receive(self, data: bytes) -> None:
        if self.gone:
            return
        if self.session.readable:
            self.session.receive(data, self.rig.now)
        self.rig.turn()
        while self.rig.broker.effort.waits():
            self.rig.broker.effort.go_on()
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
    acceptor = CoreAcceptor(rig.broker)
    first, _, second = data[2:].partition(SPLIT)
    peers = []
    for number, octets in enumerate((first, second), 1):
        peer = Peer(rig, acceptor, number)
        peers.append(peer)
        peer.session.decoder.speak(VERSIONS[data[1] % len(VERSIONS)])
        peer.receive(PREFACE)
        for at in range(0, len(octets), chunk):
            peer.receive(octets[at : at + chunk])
        if number == 1 and second:
            peer.leave()
    rig.wait(600)
    for peer in peers:
        if not peer.gone and peer.session.deadline() <= rig.now:
            peer.session.advance(rig.now)
        peer.take()
    written = sum(peer.written for peer in peers)
    assert written <= WRITTEN_FIXED_MAX + TIMES_WRITTEN_MAX * len(data), f"{written} octets answer {len(data)}"
    others_are_served(rig, acceptor)
    for peer in peers:
        peer.leave()
    rig.wait(400_000)
    assert not acceptor.sessions
    assert not acceptor.metadata
    assert not acceptor.branches
    assert not rig.broker.flow.waiting
    assert not rig.broker.clients.held


def others_are_served(rig: Rig, acceptor: CoreAcceptor) -> None:
    """An honest client makes a queue, sends and receives."""
    honest = Peer(rig, acceptor, 3)
    honest.receive(PREFACE)
    headers = Headers()
    headers.address = "honest\u00e9"
    honest.receive(
        said(
            session("honest"),
            core.CreateQueue(address="honest\u00e9", queue="honest\u00e9", routing=1, require_response=True),
            core.Start(),
            core.CreateConsumer(consumer=1, queue="honest\u00e9"),
            core.FlowToken(consumer=1, credits=-1),
            core.Send(message=assembled(b"", headers, {}), require_response=True, correlation=-2),
        )
    )
    assert not honest.gone
    assert rig.queue("honest\u00e9").in_flight == 1
    honest.leave()
