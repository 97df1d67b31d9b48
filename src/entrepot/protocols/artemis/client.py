"""One CORE connection from the side that dialled: the preface, the topology, liveness, packets out, packets in. [C]

What the packets mean is not decided here: a `ClientPort` gets them (a program's connection, `conversation`). The
session greets (artemis.md 5.2.10), learns the version of the server with the topology, answers nothing by itself, and
sees that the server lives: it pings often enough for its own time to live, and gives up one that is silent for as long.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import PeerError
from entrepot.protocols.artemis.codec import PREFACE, Decoder, Encoder
from entrepot.protocols.artemis.packets import (
    ClusterTopology,
    CreateSessionReply,
    Disconnect,
    DisconnectConsumerKill,
    Packet,
    Ping,
    SubscribeTopology,
)
from entrepot.protocols.artemis.primitives import Connector
from entrepot.protocols.artemis.schema import VERSION_MAX
from entrepot.protocols.session import CORE, NEVER, Session, Shell

GREETING_TIMEOUT: Final = 10 * SECOND
PINGS_PER_TTL: Final = 3
TTL_MS: Final = 60_000
MEMBERS_MAX: Final = 1_000  # that are kept of what a server says
"""What Artemis' clients ask for; how long a server believes that a silent client lives."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientPort:
    """Who hears what a server says. Called while a chunk is being read; `settled` comes after each chunk."""

    def greeted(self, client: CoreClient) -> None:
        """Its version is known: sessions may be opened."""

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Anything that it says."""

    def settled(self, client: CoreClient) -> None:
        """All packets of a chunk were told."""

    def rang(self, client: CoreClient, now: Instant) -> None:
        """The instant `CoreClient.alarm` has come; it is NEVER again."""

    def writable(self, client: CoreClient, ready: bool) -> None:
        """The server does not read fast enough (False), or does again."""

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection ended. Comes once; nothing comes after it."""


class CoreClient(Session):
    """One connection to a server. ``live`` from the greeting on until the end; ``failure`` says why it ended."""

    def __init__(self, shell: Shell, port: ClientPort, now: Instant, ttl_ms: i64 = TTL_MS) -> None:
        super().__init__(shell)
        self.protocol = CORE
        self.port: ClientPort = port
        self.live: bool = False
        self.failure: str = ""
        self.ready: bool = True
        self.alarm: i64 = NEVER
        self.node: str = ""  # of the server, where it tells first of itself: Artemis tells of its members in any order
        self.members: dict[str, Connector] = {}  # node -> where it is, as the greeting said
        self.version: i64 = VERSION_MAX
        self.out: BytesWriter = self.writer  # where whole frames are written now
        self._lost: bool = False
        self._ttl_ms: i64 = ttl_ms
        self._decoder: Decoder = Decoder(preface=False)
        self._encoder: Encoder = Encoder()
        self._greeting_due: i64 = now + GREETING_TIMEOUT
        self._heard_at: i64 = now
        self._ping_due: i64 = now + ttl_ms * MILLISECOND // PINGS_PER_TTL
        self.writer.write(PREFACE)
        self.send(Ping(ttl=ttl_ms))
        self.send(SubscribeTopology(version=VERSION_MAX))

    def send(self, packet: Packet) -> None:
        """Send ``packet``. Raises Inexpressible, and then nothing was sent."""
        self._encoder.encode_into(self.out, packet)
        self.note()

    def frame(self, packet: Packet) -> bytes:
        """Return the frame of ``packet``. Raises Inexpressible."""
        return self._encoder.encode(packet)

    def write(self, frame: bytes) -> None:
        """Send a whole frame."""
        self.writer.write(frame)
        self.note()

    # -- the contract of a session -------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Tell the port what arrived."""
        if self.closing:
            return
        if len(data) == 0:
            self._end("the broker closed the connection")
            return
        self._heard_at = now
        try:
            for packet in self._decoder.feed(data):
                self._take(packet)
                if self.closing:
                    return
            self._decoder.check()
        except PeerError as error:
            self._end(f"the broker broke the protocol: {error}")
            return
        self.port.settled(self)

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, ClusterTopology):
            self._learn(packet)
        elif isinstance(packet, CreateSessionReply):
            self._speak(packet.server_version)
        self.port.told(self, packet)
        if isinstance(packet, DisconnectConsumerKill):
            self._end("the broker sends a slow consumer away")
        elif isinstance(packet, Disconnect):
            self._end("the broker ends the connection")

    def _learn(self, packet: ClusterTopology) -> None:
        """Take the version of the server, with the end of its first list of members."""
        if packet.exit or self.live:
            return
        if packet.primary is not None and len(self.members) < MEMBERS_MAX:
            self.members[packet.node] = packet.primary
        if packet.server_version > 0:
            self._speak(packet.server_version)
        if packet.primary is None or not self.node:
            self.node = packet.node
        if packet.last:
            self.live = True
            self._greeting_due = NEVER
            self.port.greeted(self)

    def _speak(self, server_version: i64) -> None:
        self.version = min(server_version, VERSION_MAX)
        self._decoder.speak(self.version)
        self._encoder.speak(self.version)

    def deadline(self) -> Instant:
        """Return when silence, ours or the server's, must be looked at, or the alarm rings."""
        silence = self._heard_at + self._ttl_ms * MILLISECOND
        return min(self._greeting_due, self._ping_due, silence, self.alarm)

    def advance(self, now: Instant) -> None:
        """Say that we live; find out that the server does not."""
        if self.closing:
            return
        if now >= self._greeting_due:
            self._end("the broker did not greet within 10 s")
        elif now >= self._heard_at + self._ttl_ms * MILLISECOND:
            self._end(f"the broker said nothing for {self._ttl_ms} ms")
        else:
            if now >= self._ping_due:
                self.send(Ping(ttl=self._ttl_ms))
                self._ping_due = now + self._ttl_ms * MILLISECOND // PINGS_PER_TTL
            if now >= self.alarm:
                self.alarm = NEVER
                self.port.rang(self, now)

    def writable(self, ready: bool, now: Instant) -> None:
        """Pass on whether the server reads."""
        self.ready = ready
        self.port.writable(self, ready)

    def shut(self, why: str, now: Instant) -> None:
        """Close; sessions were closed before."""
        self._end(why)

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone."""
        self._end(why)

    def describe(self) -> dict[str, str]:
        """Return the state, for people."""
        return {"protocol": self.protocol, "live": str(self.live), "failure": self.failure}

    def _end(self, why: str) -> None:
        self.closing = True
        self.live = False
        if self._lost:
            return
        self._lost = True
        self.failure = why
        self.note()
        self.port.lost(self, why)
