"""Messages of groups that wait until the nodes of a cluster agreed where they go (`grouping.py`).

They wait in a durable queue of the broker's own, with the queues among which it is to be decided written on them. A
`Mover` reads it and brings them there, in their order.
"""

from __future__ import annotations

from typing import Final, Protocol

from entrepot.cluster.clusters.moving import Mover
from entrepot.core.addressing.binding import ROUTE_TO, Binding, RemoteBinding
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.message import Message

STORE: Final = "$.artemis.internal.sf.grouping"  # other nodes are told of no queue that begins so
KEY: Final = ROUTE_TO + STORE
SIZE_OCTETS: Final = 2


class Ring:
    """Queues of one address, here and on other nodes, of which one gets a message: those of one routing name (1.12)."""

    def __init__(self, address: str, routing_name: str, routing: int) -> None:
        self.address: Final = address
        self.routing_name: Final = routing_name
        self.routing: Final = routing

    def key(self, group: str) -> str:
        """Return what nodes call ``group`` where they speak of these queues."""
        return f"{group}.{self.routing_name}"


def ring_of(binding: Binding) -> Ring:
    """Return the queues of which ``binding`` is one."""
    return Ring(binding.address, binding.routing_name, binding.routing)


class Decisions(Protocol):
    """Who knows what was decided."""

    def is_ready(self, message: Message, rings: list[Ring]) -> bool:
        """Return whether ``message``, which waits for ``rings``, can go on."""

    def place(self, message: Message, ring: Ring) -> Binding | None:
        """Return where ``message`` goes among the queues of ``ring``."""

    def moved(self, message: Message) -> None:
        """``message`` waits no more."""


class _Reader(Mover):
    """Reads what waits."""

    def __init__(self, broker: BrokerCore, source: Queue, decisions: Decisions) -> None:
        super().__init__(broker, source)
        self._decisions: Final = decisions

    def wants(self, message: Message) -> bool:
        """Return whether it is decided where ``message`` goes."""
        return self._decisions.is_ready(message, rings_in(message))

    def called(self) -> str:
        """Return who this is, for people."""
        return "the grouping handler, once it is decided where the group goes"

    def dispose(self, message: Message) -> bool:
        """Bring it there."""
        queues: list[Queue] = []
        routes: dict[str, bytes] = {}
        left: list[Ring] = []
        for ring in rings_in(message):
            binding = self._decisions.place(message, ring)
            if binding is None:
                left.append(ring)
                continue
            if isinstance(binding, RemoteBinding):
                routes[binding.route_key] = binding.route + routes.get(binding.route_key, b"")
            if binding.queue not in queues:
                queues.append(binding.queue)
        if not queues:
            self.give_back(message)
            return True
        if left:
            queues.append(self.source)
            routes[KEY] = _written_all(left)
        self.hand_over(message, queues, routes)
        if not left:
            self._decisions.moved(message)
        return True


class Holder:
    """The queue of one broker."""

    def __init__(self, broker: BrokerCore, decisions: Decisions) -> None:
        self._broker: Final = broker
        self._decisions: Final = decisions
        self._reader: _Reader | None = None

    def count(self) -> int:
        """Return how many messages wait."""
        queue = self._broker.table.queues.get(STORE)
        return 0 if queue is None else int(queue.count)

    def hold(self, rings: list[Ring], queues: list[Queue], routes: dict[str, bytes]) -> None:
        """Let a message, that goes to ``queues``, wait for ``rings``, too."""
        queue = self._broker.table.queues.get(STORE)
        if queue is None:
            queue = self._broker.queues.create(QueueDefinition(name=STORE, address=STORE, routing=MULTICAST))
        routes[KEY] = _written_all(rings)
        queues.append(queue)

    def look_again(self) -> None:
        """Something was decided: look at what waits."""
        queue = self._broker.table.queues.get(STORE)
        if queue is None or not queue.count:
            return
        reader = self._reader
        if reader is None or reader.queue is not queue:
            self._reader = reader = _Reader(self._broker, queue, self._decisions)
            queue.attach(reader)
        else:
            reader.look_again()


def _written_all(rings: list[Ring]) -> bytes:
    return b"".join(_written(one.address) + _written(one.routing_name) for one in rings)


def _written(text: str) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(SIZE_OCTETS, "big") + octets


def rings_in(message: Message) -> list[Ring]:
    """Return for which rings ``message`` waits."""
    octets = message.marked(KEY)
    words: list[str] = []
    at = 0
    while isinstance(octets, bytes) and at < len(octets):
        size = int.from_bytes(octets[at : at + SIZE_OCTETS], "big")
        words.append(octets[at + SIZE_OCTETS : at + SIZE_OCTETS + size].decode())
        at += SIZE_OCTETS + size
    return [
        Ring(address, name, ANYCAST if address == name else MULTICAST)
        for address, name in zip(words[::2], words[1::2], strict=True)
    ]
