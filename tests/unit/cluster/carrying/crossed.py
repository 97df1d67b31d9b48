"""Two brokers with a core bridge between them, without a socket: octets go over, or are lost, when a test says so."""

from __future__ import annotations

from typing import Any

from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.bridge import CoreBridge
from entrepot.cluster.carrying.connector import CoreConnector
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.cluster.link import State
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import Subscription
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body, text_of
from entrepot.protocols.artemis.headers import Headers, assembled, body_of, properties_in
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.server import CoreServerSession
from kit import SECOND, Rig

from ..cables import Cable, Dialling, End

PLACE = Endpoint("tcp", "far", 61616)


class Taken(Consumer):
    taker: Taker

    def deliver(self, message: Message, deliveries: int) -> None:
        self.taker.messages.append(message)


class Taker(Subscription):
    """Reads a queue, and keeps what came."""

    def __init__(self, rig: Rig, text: str) -> None:
        super().__init__(names.parse(text, names.ANYCAST))
        self.rig = rig
        self.prefetch = 1 << 30
        self.tracked = False
        self.messages: list[Message] = []

    def consumer(self, queue: Queue) -> Consumer:
        made = Taken(self.rig.broker.ids.consumer_key(), self.window, self.tracked)
        made.taker = self
        return made


class Crossed(Dialling):
    """``near`` has the bridge, ``far`` the server. Options are attributes of `CoreBridgeOptions`."""

    def __init__(
        self,
        *,
        selector: str = "",
        group: str = "",
        letters: str = "",
        start: bool = True,
        far: dict[str, str] | None = None,
        **options: Any,
    ):
        super().__init__()
        self.near = Rig({"Q": {"dead-letter-address": letters}}, seed=1)
        self.far = Rig(seed=2, **(far or {}))
        self.server_options = CoreOptions()
        self.acceptor = CoreAcceptor(self.far.broker)
        self.mute = False  # what the far broker says on an open link is lost
        made = CoreBridgeOptions(**{"name": "B", "queue": "Q", "retry_interval": SECOND, **options})
        self.entry = CoreBridgeEntry(options=made, places=() if group else (PLACE,), selector=selector, group=group)
        self.connector = CoreConnector(self.entry)
        if start:
            self.start()

    def start(self) -> None:
        self.near.broker.target(names.parse("Q", names.ANYCAST))
        self.near.broker.addresses.queues.need(names.parse_one("Q", names.ANYCAST))
        self.connector.start(self.near.broker, self.perform, lambda who, what: self.said.append(what), self.near.now)
        self.run()

    @property
    def bridge(self) -> CoreBridge:
        return next(iter(self.connector.bridges.values()))

    def check(self) -> None:
        for bridge in self.connector.bridges.values():
            bridge.link.check()

    def answer(self, far: End, attempt: int) -> CoreServerSession:
        return CoreServerSession(far, self.acceptor, self.server_options, attempt, "near")

    def arrives(self, cable: Cable) -> bool:
        return super().arrives(cable) and not (self.mute and self.bridge.link.state is State.OPEN)

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, *texts: str, address: str = "Q", durable: bool = True, **properties: object) -> None:
        """Send to ``near``, as a client of CORE."""
        for text in texts:
            headers = Headers()
            headers.kind = 3
            headers.address = address
            headers.durable = durable
            headers.user_id = text.encode().rjust(16, b"\0")[:16]
            message = message_of(assembled(text_body(text), headers, dict(properties)), "")
            self.near.broker.send(message, self.near.broker.target(names.parse(address, names.ANYCAST)))
        self.run()

    def there(self, text: str = "Q") -> list[str]:
        """Return what is in a queue of ``far``, and take it out."""
        return [str(text_of(body_of(message.raw))) for message in self.messages(text)]

    def messages(self, text: str = "Q") -> list[Message]:
        taker = Taker(self.far, text)
        self.far.broker.subscribe(taker)
        taker.window.reopen()
        self.far.turn()
        self.far.broker.unsubscribe(taker)
        self.far.turn()
        return taker.messages

    def waiting(self) -> int:
        """Return how many messages the queue of the bridge has, those on their way too."""
        queue = self.near.queue("Q")
        return int(queue.backlog.count) + int(queue.in_flight)


def properties(message: Message) -> dict[str, object]:
    return properties_in(message.raw)
