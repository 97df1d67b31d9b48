"""Messages for queues of other nodes that this node was told of, and does not know now.

In a chain a message comes with the id of a queue behind this node (artemis.md 1.16). When this node was started again
and the next one has not told yet what it has, nobody knows where that is. Such messages wait in a durable queue of the
broker's own, and go on as soon as the queue is told of. Artemis drops them (AMQ222196). One whose queue is gone for
good stays there until it expires, or an operator takes it out.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.clusters.moving import Mover
from entrepot.core.addressing.binding import ROUTE_TO
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.routing import Copy
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.sending.sending import Detour
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message

STORE: Final = "$.artemis.internal.sf.unresolved"  # other nodes are told of no queue that begins so
KEY: Final = ROUTE_TO + STORE
ID_OCTETS: Final = 8


class Resolver(Mover):
    """Reads what waits."""

    def wants(self, message: Message) -> bool:
        """Return whether it is known now where a part of ``message`` goes."""
        return any(self._leads(message, one) for one in _ids(message))

    def called(self) -> str:
        """Return who this is, for people."""
        return "the cluster, once the queue is known"

    def dispose(self, message: Message) -> bool:
        """Let it go where it can."""
        queues: list[Queue] = []
        routes: dict[str, bytes] = {}
        for one in _ids(message):
            remote = self.broker.table.remotes.get(one)
            known = remote is not None and self._leads(message, one)
            queue = self.source if remote is None or not known else remote.queue
            key = KEY if remote is None or not known else remote.route_key
            route = one.to_bytes(ID_OCTETS, "big", signed=True) if remote is None or not known else remote.route
            routes[key] = routes.get(key, b"") + route
            if queue not in queues:
                queues.append(queue)
        if queues == [self.source]:
            self.give_back(message)
        else:
            self.hand_over(message, queues, routes)
        return True

    def _leads(self, message: Message, identity: int) -> bool:
        remote = self.broker.table.remotes.get(identity)
        return remote is not None and bool(matches(remote.address, message.address, MIXED))


def _ids(message: Message) -> list[int]:
    ids = message.marked(KEY)
    if not isinstance(ids, bytes):
        return []
    return [
        int.from_bytes(ids[at : at + ID_OCTETS], "big", signed=True)
        for at in range(0, len(ids) - ID_OCTETS + 1, ID_OCTETS)
    ]


class Unresolved(Detour):
    """All of one broker."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker: Final = broker
        self._reader: Resolver | None = None

    def park(self, ids: bytes, copy: Copy) -> None:
        """Let the message of ``copy`` wait until it is known what ``ids`` are."""
        queue = self._broker.table.queues.get(STORE)
        if queue is None:
            queue = self._broker.queues.create(QueueDefinition(name=STORE, address=STORE, routing=MULTICAST))
        copy.add_routes({KEY: ids})
        copy.queues.append(queue)

    def known(self) -> None:
        """A queue of another node is known: look at what waits."""
        queue = self._broker.table.queues.get(STORE)
        if queue is None or not queue.count:
            return
        reader = self._reader
        if reader is None or reader.queue is not queue:
            self._reader = reader = Resolver(self._broker, queue)
            queue.attach(reader)
        else:
            reader.look_again()
