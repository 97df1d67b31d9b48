"""A client of CORE on a whole broker, without a socket: packets in, packets out, in virtual time."""

from __future__ import annotations

from typing import TypeVar

from entrepot.core.security.access import Rule
from entrepot.core.security.directory import Directory
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.bodies import text_body, text_of
from entrepot.protocols.artemis.codec import PREFACE, Decoder, Encoder
from entrepot.protocols.artemis.headers import Headers, assembled, body_of
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.packets import (
    CreateConsumer,
    CreateQueue,
    CreateSession,
    CreateSessionReply,
    FlowToken,
    Packet,
    Ping,
    Receive,
    Send,
    Start,
    SubscribeTopology,
)
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.session import Shell
from kit import Rig

Kind = TypeVar("Kind", bound=Packet)
NEWEST = 136
ANYCAST, MULTICAST = 1, 0
ROUTING = "_AMQ_ROUTING_TYPE"


class Wire(Shell):
    """The shell of one connection."""

    def __init__(self, rig: Rig) -> None:
        self.session: CoreServerSession
        self.rig = rig

    def go_on(self) -> None:
        self.session.resume(self.rig.now)


class Hub:
    """One broker, and what its CORE connections share."""

    def __init__(self, rig: Rig | None = None, options: CoreOptions | None = None) -> None:
        self.rig = Rig() if rig is None else rig
        self.acceptor = CoreAcceptor(self.rig.broker)
        self.options = CoreOptions() if options is None else options
        self.clients: list[Client] = []

    def protect(self, directory: Directory, rules: list[Rule]) -> None:
        """Let in whom ``directory`` knows."""
        self.rig.broker.access.protect(directory, rules)

    def turn(self) -> None:
        """End a turn."""
        for _ in range(100):
            self.rig.turn()
            while self.rig.broker.effort.waits():
                self.rig.broker.effort.go_on()
            if not sum(client.read() for client in self.clients):
                return


class Client:
    """One connection. `take` returns, and forgets, the packets of one kind that came."""

    def __init__(self, hub: Hub, *, version: int = NEWEST, opens: bool = True) -> None:
        self.hub = hub
        self.version = version
        shell = Wire(hub.rig)
        hub.rig.broker.tick(hub.rig.now, hub.rig.wall)
        number = len(hub.clients) + 1
        self.session = CoreServerSession(shell, hub.acceptor, hub.options, number, f"peer-{number}")
        shell.session = self.session
        self.decoder = Decoder(preface=False)
        self.encoder = Encoder()
        self.decoder.speak(version)
        self.encoder.speak(version)
        self.came: list[Packet] = []
        hub.clients.append(self)
        self.octets(PREFACE)
        if opens:
            self.say(Ping(ttl=60_000))
            self.say(SubscribeTopology(version=version))
            self.came.clear()

    def octets(self, data: bytes) -> None:
        """Send octets as they are, and let the broker do what they say."""
        rig = self.hub.rig
        rig.now += 1_000
        rig.broker.tick(rig.now, rig.wall)
        self.session.receive(data, rig.now)
        self.hub.turn()

    def say(self, packet: Packet, channel: int = 0) -> None:
        """Send one packet."""
        packet.channel = channel
        self.octets(self.encoder.encode(packet))

    def read(self) -> int:
        """Take what is there to be read; return how many octets."""
        data = self.session.outgoing()
        if data:
            self.came += self.decoder.feed(data)
        return len(data)

    def take(self, kind: type[Kind], channel: int | None = None) -> list[Kind]:
        """Return the packets of ``kind`` that came since it was asked last."""
        found = [one for one in self.came if isinstance(one, kind) and channel in (None, one.channel)]
        self.came = [one for one in self.came if one not in found]
        return found

    def ask(self, packet: Packet, kind: type[Kind], channel: int = 10) -> Kind:
        """Send ``packet``, and return its answer."""
        self.take(kind)
        self.say(packet, channel)
        found = self.take(kind)
        assert len(found) == 1, f"{kind.__name__}: {found}, and there was {self.came}"
        return found[0]

    def open(self, channel: int = 10, **fields: object) -> None:
        """Open a session, with automatic commits unless it says otherwise, and start it."""
        given: dict[str, object] = {
            "name": f"session-{len(self.hub.clients)}-{channel}",
            "session_channel": channel,
            "version": self.version,
            "min_large": 102_400,
            "auto_commit_sends": True,
            "auto_commit_acks": True,
            "window": -1,
        }
        given.update(fields)
        self.say(CreateSession(**given), 1)  # type: ignore[arg-type]
        assert self.take(CreateSessionReply), self.came
        self.say(Start(), channel)

    def cut(self) -> None:
        """The connection is lost."""
        self.session.detach("lost", self.hub.rig.now)
        self.hub.clients.remove(self)
        self.hub.turn()

    # -- shorter -------------------------------------------------------------------------------------------------------

    def make(
        self, name: str, *, address: str = "", routing: int = ANYCAST, channel: int = 10, **fields: object
    ) -> None:
        """Make a queue."""
        packet = CreateQueue(address=address or name, queue=name, durable=True, routing=routing, require_response=True)
        for field, value in fields.items():
            setattr(packet, field, value)
        self.say(packet, channel)

    def send(self, address: str, text: str = "x", *, channel: int = 10, correlation: int = 0, **fields: object) -> None:
        """Send a text; with ``correlation`` an answer is asked for."""
        self.say(
            Send(message=message(address, text, **fields), require_response=correlation != 0, correlation=correlation),
            channel,
        )

    def consume(
        self, queue: str, number: int = 0, *, credits: int = 1 << 20, channel: int = 10, **fields: object
    ) -> None:
        """Open a consumer with credit."""
        packet = CreateConsumer(consumer=number, queue=queue, require_response=True)
        for field, value in fields.items():
            setattr(packet, field, value)
        self.say(packet, channel)
        if credits:
            self.say(FlowToken(consumer=number, credits=credits), channel)

    def texts(self) -> list[str]:
        """Return the texts that were delivered since it was asked last."""
        return [text_of(body_of(one.message)) or "" for one in self.take(Receive)]


def message(address: str, text: str, *, durable: bool = True, routing: int = ANYCAST, **properties: object) -> bytes:
    """Return a text message as a SEND carries it."""
    headers = Headers()
    headers.address = address
    headers.kind = 3
    headers.durable = durable
    headers.timestamp = 1_700_000_000_000
    return assembled(text_body(text), headers, {ROUTING: routing, **properties})
