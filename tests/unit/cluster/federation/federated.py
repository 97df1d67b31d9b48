"""A broker and its upstream without a socket: octets go over, or are lost, when a test says so."""

from __future__ import annotations

from typing import Any

from entrepot.base.uri import Endpoint
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.options import AddressPolicy, QueuePolicy, UpstreamEntry, UpstreamOptions
from entrepot.cluster.federation.reader import RemoteReader
from entrepot.cluster.federation.upstream import Upstream
from entrepot.core.queue.queue import Queue
from entrepot.journal.log import Waiter
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body, text_of
from entrepot.protocols.artemis.headers import Headers, assembled, body_of
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.server import CoreServerSession
from kit import SECOND, Reader, Rig

from ..cables import Dialling, End, rest


class Pair(Dialling):
    """``near`` has the federation, ``far`` is its upstream; both ``durable`` on simulated disks."""

    def __init__(
        self,
        *,
        queues: tuple[QueuePolicy, ...] = (),
        addresses: tuple[AddressPolicy, ...] = (),
        near: Rig | None = None,
        far: Rig | None = None,
        name: str = "F",
        start: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self.near = Rig(seed=1) if near is None else near
        self.far = Rig(seed=2) if far is None else far
        self.acceptor = CoreAcceptor(self.far.broker)
        self.made = 0
        made = UpstreamOptions(**{"name": "U", "retry_interval": SECOND, **options})
        place = Endpoint("tcp", "far", 61616)
        self.entry = UpstreamEntry(federation=name, options=made, places=(place,), queues=queues, addresses=addresses)
        self.connector = FederationConnector(self.entry)
        if start:
            self.start()

    def start(self) -> None:
        self.connector.start(self.near.broker, self.perform, lambda who, what: self.said.append(what), self.near.now)
        self.run()

    @property
    def upstream(self) -> Upstream:
        assert self.connector.upstream is not None
        return self.connector.upstream

    @property
    def reader(self) -> RemoteReader:
        (reader,) = self.upstream.readers.values()
        return reader

    def run(self) -> None:
        """Dial, and let octets flow until nothing moves."""
        for _ in range(400):
            if not self.step():
                return
        raise AssertionError("the brokers are never at rest")

    def step(self) -> bool:
        """Bring over what is written; return whether something moved."""
        moved = False
        for rig in (self.near, self.far):
            rig.broker.tick(rig.now, rig.wall)
            rig.broker.advance()
            rig.turn()
            moved = rest(rig) or moved
        moved = self.dial() or moved
        for number, cable in list(self.cables.items()):
            moved = self._flow(number, cable) or moved
        return moved

    def flow(self) -> None:
        """Bring over what is written, and give the disk of ``near`` no turn."""
        for number, cable in list(self.cables.items()):
            self._flow(number, cable)

    def answer(self, far: End, attempt: int) -> CoreServerSession:
        self.made += 1
        return CoreServerSession(far, self.acceptor, CoreOptions(), self.made, "near")

    def mute(self) -> None:
        """What the near broker says is lost from now on, until the connection is cut."""
        for cable in self.cables.values():
            cable.heard = False

    def fell(self, rig: Rig, how: str = "kill") -> None:
        """The broker of ``rig`` falls and is started again from its disk; what it had to say is lost."""
        assert rig in (self.near, self.far)
        for cable in self.cables.values():  # nobody hears anything of a broker that is gone
            (cable.near if rig is self.near else cable.far).session = None
        others = list(self.cables.values())
        self.cables.clear()
        rig.restart(how)
        for cable in others:
            left = cable.far if rig is self.near else cable.near
            if left.session is not None:
                left.session.detach("cut", left.rig.now)
        if rig is self.far:
            self.acceptor = CoreAcceptor(self.far.broker)
        else:
            self.connector = FederationConnector(self.entry)
            self.dials.clear()
            self.start()


class Told(Waiter):
    """A producer that wants to know that its message is on disk: so it gets there."""

    def stored(self, token: bytes) -> None:
        pass

    def store_failed(self, token: bytes, error: Exception) -> None:
        raise AssertionError("the disk of a test takes everything")


def made(rig: Rig, text: str, routing: int = ANYCAST) -> Queue:
    """Return the queue ``text`` of a broker, made if need be."""
    return rig.broker.addresses.queues.need(names.parse_one(text, routing))


def send(
    rig: Rig, address: str, *texts: str, routing: int = ANYCAST, durable: bool = True, **properties: object
) -> None:
    """Send as a client of CORE."""
    for text in texts:
        headers = Headers()
        headers.kind = 3
        headers.address = address
        headers.durable = durable
        headers.timestamp = rig.wall
        headers.user_id = text.encode().rjust(16, b"\0")[:16]
        message = message_of(assembled(text_body(text), headers, dict(properties)), "")
        rig.broker.send(message, rig.broker.target(names.parse(address, routing)))
        rig.journal.confirm(Told(), b"")


def texts(reader: Reader) -> list[str]:
    """Return what a reader got."""
    return [str(text_of(body_of(one.message.raw))) for one in reader.deliveries]


def waiting(rig: Rig, name: str) -> int:
    """Return how many messages a queue has, in delivery too; -1: there is no such queue."""
    queue = rig.broker.table.queues.get(name)
    return -1 if queue is None else int(queue.count)


__all__ = ["ANYCAST", "MULTICAST", "Pair", "made", "send", "texts", "waiting"]
