"""Two brokers with a connection of AMQP between them, without a socket: octets go over, or are lost, as it says."""

from __future__ import annotations

from typing import Any

from entrepot.base.uri import Endpoint
from entrepot.cluster.broker_connections.connection import BrokerConnection
from entrepot.cluster.broker_connections.connector import AmqpConnector
from entrepot.cluster.broker_connections.obeying import Obeyed
from entrepot.cluster.broker_connections.options import (
    AmqpConnectionEntry,
    AmqpConnectionOptions,
    Element,
    FederationEntry,
    MirrorOptions,
    Way,
)
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.amqp.convert import message_of
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.server import AmqpServerSession
from kit import SECOND, Rig

from ..cables import Dialling, End
from ..carrying.crossed import Taker

PLACE = Endpoint("tcp", "far", 5672)
TO_Q = Element(way=Way.SENDER, queue="Q")
FROM_Q = Element(way=Way.RECEIVER, queue="Q")


class Called(Dialling):
    """``near`` dials ``far``. Options are attributes of `AmqpConnectionOptions`."""

    def __init__(
        self,
        *elements: Element,
        queues: tuple[str, ...] = ("Q",),
        near: dict[str, dict[str, Any]] | None = None,
        far: dict[str, dict[str, Any]] | None = None,
        start: bool = True,
        mirror: MirrorOptions | None = None,
        federation: FederationEntry | None = None,
        wire: tuple[tuple[str, str], ...] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        self.near = Rig(near or {}, seed=1)
        self.far = Rig(far or {}, seed=2)
        self.server_options = AmqpOptions()
        self.said_there: list[str] = []
        made = AmqpConnectionOptions(**{"name": "A", "retry_interval": SECOND, **options})
        self.entry = AmqpConnectionEntry(
            options=made, places=(PLACE,), wire=wire, elements=elements, mirror=mirror, federation=federation
        )
        self.connector = AmqpConnector(self.entry)
        for queue in queues:
            self.make(queue)
        if start:
            self.start()

    def make(self, queue: str) -> None:
        self.near.broker.addresses.queues.need(names.parse_one(queue, names.ANYCAST))

    def start(self) -> None:
        self.connector.start(self.near.broker, self.perform, lambda who, what: self.said.append(what), self.near.now)
        self.run()

    @property
    def connection(self) -> BrokerConnection:
        assert self.connector.connection is not None
        return self.connector.connection

    def check(self) -> None:
        if self.connector.connection is not None:
            self.connector.connection.link.check()

    def answer(self, far: End, attempt: int) -> AmqpServerSession:
        session = AmqpServerSession(far, self.far.broker, self.server_options, attempt, "near")
        session.obeys = lambda of, said: Obeyed(of, said, lambda who, what: self.said_there.append(what))
        return session

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, *bodies: str, rig: Rig | None = None, to: str = "Q", durable: bool = True) -> None:
        """Send to a queue of ``near``, or of another broker, as a client of AMQP."""
        broker = (rig or self.near).broker
        target = broker.target(names.parse(to, names.ANYCAST))
        for body in bodies:
            message = message_of(octets_of(body, durable), broker.wall).message
            message.address = target.name
            broker.send(message, target)
        self.run()

    def there(self, rig: Rig | None = None, queue: str = "Q") -> list[str]:
        """Return what is in a queue of ``far``, or of another broker, and take it out."""
        return [body_in(message.raw) for message in self.messages(rig, queue)]

    def messages(self, rig: Rig | None = None, queue: str = "Q") -> list[Message]:
        owner = rig or self.far
        taker = Taker(owner, queue)
        owner.broker.subscribe(taker)
        taker.window.reopen()
        owner.turn()
        owner.broker.unsubscribe(taker)
        owner.turn()
        return taker.messages

    def waiting(self, queue: str = "Q", rig: Rig | None = None) -> int:
        """Return how many messages a queue of ``near`` has, those on their way too."""
        found = (rig or self.near).queue(queue)
        return int(found.backlog.count) + int(found.in_flight)


def octets_of(body: str, durable: bool = True) -> bytes:
    """Return a message of AMQP: a header, and a text of less than 256 octets as its value."""
    text = body.encode()
    header = b"\x00\x53\x70\xc0\x02\x01" + (b"\x41" if durable else b"\x42")
    if len(text) < 256:
        return header + b"\x00\x53\x77\xa1" + bytes([len(text)]) + text
    return header + b"\x00\x53\x77\xb1" + len(text).to_bytes(4, "big") + text


def body_in(raw: bytes) -> str:
    """Return the text that a message of AMQP carries."""
    text = raw[raw.index(b"\x00\x53\x77") + 3 :]
    return text[2:].decode() if text[0] == 0xA1 else text[5:].decode()
