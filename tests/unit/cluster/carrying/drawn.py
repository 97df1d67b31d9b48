"""Two brokers, one of which draws from the other, without a socket: octets go over, or are lost."""

from __future__ import annotations

from typing import Any, ClassVar

from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.draw_options import ActiveMQOptions, ArtemisOptions, DrawEntry, DrawOptions
from entrepot.cluster.carrying.drawing import DrawConnector, DrawnBridge
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.leases.wanting import LeaseDemand
from entrepot.core.queue.consumer import BROWSER
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.headers import NO_BODY, TYPE_BYTES, Headers, assembled
from entrepot.protocols.artemis.large import LargeArrival
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.openwire import convert
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.bodies import text_message
from entrepot.protocols.openwire.commands import MessageId, ProducerId
from entrepot.protocols.openwire.ids import DestinationKind, parse_destination
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.server import OpenWireSession
from entrepot.protocols.session import Session
from kit import SECOND, Rig

from ..cables import Cable, Dialling, End, rest
from .crossed import Taker

PLACE = Endpoint("tcp", "far", 61616)


class Drawn(Dialling):
    """``near`` draws what it reads from ``far``, the server, over CORE. Options are attributes of `DrawOptions`."""

    kind: ClassVar[type[DrawOptions]] = ArtemisOptions
    kept_topic = "entrepot.test.T"  # the queue there that keeps the topic T

    def __init__(self, *, near: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__()
        self.near = Rig(seed=1, **(near or {}))
        self.far = Rig(seed=2)
        self.accept()
        self.deaf = False  # what near says is lost, acknowledgements too
        self.stalled = False  # the disk of near answers nothing
        made = self.kind(**{"name": self.kind.SCHEME, "retry": SECOND, **options})
        self.entry = DrawEntry(options=made, places=(PLACE,))
        self.readers: dict[str, Taker] = {}
        self.leases: dict[str, LeaseDemand] = {}
        self.connector = DrawConnector(self.entry)
        self.start()

    def start(self) -> None:
        self.connector.start(self.near.broker, self.perform, lambda who, what: self.said.append(what), self.near.now)
        self.run()

    @property
    def bridge(self) -> DrawnBridge:
        assert self.connector.bridge is not None
        return self.connector.bridge

    def run(self) -> None:
        """Dial, and let octets flow until nothing moves."""
        quiet = 0
        for _ in range(300):
            moved = self.dial()
            for number, cable in list(self.cables.items()):
                moved = self._flow(number, cable) or moved
            for rig in (self.near, self.far):
                if rig.broker.deadline() <= rig.now:
                    rig.broker.advance()
                    moved = True
                if rig is self.far or not self.stalled:
                    rig.turn()
                moved = rest(rig) or moved
            quiet = 0 if moved else quiet + 1
            if quiet > 1:  # what the end of a turn caused was looked at, too
                return
        raise AssertionError("the brokers are never at rest")

    def accept(self) -> None:
        """``far`` begins."""
        self.acceptor = CoreAcceptor(self.far.broker)

    def answer(self, far: End, attempt: int) -> Session:
        return CoreServerSession(far, self.acceptor, CoreOptions(), attempt, "near")

    def reaches(self, cable: Cable) -> bool:
        return not self.deaf

    def cut(self) -> None:
        super().cut()
        self.deaf = False

    def restart_far(self, how: str) -> None:
        self.cut()
        self.far.restart(how)
        self.accept()

    def restart_near(self, how: str) -> None:
        """``near`` ends, and begins anew with what its disk has; nobody reads there."""
        self.cut()
        self.stalled = False
        self.near.restart(how)
        self.readers.clear()
        self.leases.clear()
        self.connector = DrawConnector(self.entry)
        self.start()

    # -- messages ------------------------------------------------------------------------------------------------------

    def create(self, name: str, address: str = "", routing: int = names.ANYCAST) -> None:
        """Make a queue at ``far``."""
        definition = QueueDefinition(name=name, address=address or name, routing=routing)
        self.far.broker.queues.create(definition)
        self.far.turn()

    def send(self, *texts: str, address: str = "Q", routing: int = names.ANYCAST, durable: bool = True) -> None:
        """Send to ``far``, as a client of its language."""
        for text in texts:
            message = self.message(text, address, routing, durable=durable)
            self.far.broker.send(message, self.far.broker.target(names.parse(address, routing)))
        self.run()

    def message(self, text: str, address: str, routing: int, *, durable: bool) -> Message:
        """Return one as ``far`` has it from a client."""
        headers = Headers()
        headers.kind = 3
        headers.address = address
        headers.durable = durable
        return message_of(assembled(text_body(text), headers, {}), "")

    def send_large(self, octets: int, address: str = "Q") -> None:
        headers = Headers()
        headers.address = address
        headers.durable = True
        headers.kind = TYPE_BYTES
        large = LargeArrival(self.far.broker, assembled(b"", headers, {})[len(NO_BODY) :], "")
        for at in range(0, octets, 10_000):
            large.write(b"x" * min(10_000, octets - at))
        self.far.broker.send(large.complete(-1), self.far.broker.target(names.parse(address, names.ANYCAST)))
        large.finish()
        self.run()

    def read(self, text: str = "Q") -> Taker:
        """Somebody reads at ``near`` from now on, and settles nothing by himself."""
        taker = Taker(self.near, text)
        self.near.broker.subscribe(taker)
        taker.window.reopen()
        self.readers[text] = taker
        self.run()
        return taker

    def leave(self, text: str = "Q") -> None:
        """He reads no more."""
        self.near.broker.unsubscribe(self.readers.pop(text))
        self.run()

    def lease(self, text: str = "Q", *, topic: str = "") -> None:
        """Somebody reads by lease, with demand: what comes stays. ``topic``: through a durable subscription."""
        leases = self.near.broker.leases
        place = leases.subscribe(topic, text, "", "spark", None) if topic else names.parse_one(text, names.ANYCAST)
        lease = leases.need(place, "spark", True)
        demand = LeaseDemand(lease, self.near.broker.ids.consumer_key())
        self.near.broker.subscribe(demand)
        self.leases[text] = demand
        self.run()

    def release(self, text: str = "Q") -> None:
        """The connection of the lease ends: there is no demand any more, and all that came is there."""
        self.near.broker.unsubscribe(self.leases.pop(text))
        self.run()

    def there(self, text: str = "Q") -> list[str]:
        """Return the bodies of what waits at ``near``, and take it out."""
        taker = Taker(self.near, text)
        taker.kind = BROWSER  # no demand
        self.near.broker.subscribe(taker)
        taker.window.reopen()
        self.near.turn()
        self.near.broker.unsubscribe(taker)
        self.near.turn()
        return [str(message.common().body) for message in taker.messages]

    def came(self, text: str = "Q") -> list[str]:
        """Return the bodies of what came to whoever reads ``text``."""
        return [str(message.common().body) for message in self.messages(text)]

    def messages(self, text: str = "Q") -> list[Message]:
        return self.readers[text].messages

    def kept(self, name: str = "Q") -> int:
        """Return how many messages a queue of ``far`` has, those on their way too."""
        queue = self.far.queue(name)
        return int(queue.backlog.count) + int(queue.in_flight)


class DrawnByOpenWire(Drawn):
    """The same over OpenWire."""

    kind = ActiveMQOptions
    kept_topic = "entrepot-test.entrepot\\.test\\.T"

    def accept(self) -> None:
        self.doors = Acceptor(self.far.broker)
        self.made = 0

    def answer(self, far: End, attempt: int) -> Session:
        return OpenWireSession(far, self.doors, OpenWireOptions(), attempt, "near")

    def message(self, text: str, address: str, routing: int, *, durable: bool) -> Message:
        self.made += 1
        command = text_message(text)
        producer = ProducerId("ID:somebody", 1, 1)
        command.message_id = MessageId(producer_id=producer, producer_sequence_id=self.made)
        command.producer_id = producer
        topic = routing == names.MULTICAST
        command.destination = parse_destination(address, DestinationKind.TOPIC if topic else DestinationKind.QUEUE)
        command.persistent = durable
        return convert.message_of(command, "")


KINDS = {made.kind.SCHEME: made for made in (Drawn, DrawnByOpenWire)}
