"""Messages for queues of other nodes that this node was told of, and does not know now.

In a chain a message comes with the id of a queue behind this node (artemis.md 1.16). When this node was started again
and the next one has not told yet what it has, nobody knows where that is. Nor is it known where a message goes that
waited for a third node at one that gave all away, as long as that third node was not met. Such messages wait in a
durable queue of the broker's own, and go on as soon as the queue is told of. Artemis drops them (AMQ222196). One whose
queue is gone for good stays there until it expires, or an operator takes it out.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.clusters.moving import Mover
from entrepot.core.addressing.binding import ONWARD_ID, ROUTE_TO, RemoteBinding, node_in
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.routing import Copy
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.sending.sending import Detour
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message

STORE: Final = "$.artemis.internal.sf.unresolved"  # other nodes are told of no queue that begins so
KEY: Final = ROUTE_TO + STORE
ONWARD_KEY: Final = f"{ROUTE_TO}{STORE} onward"
ID_OCTETS: Final = 8


class Resolver(Mover):
    """Reads what waits."""

    def wants(self, message: Message) -> bool:
        """Return whether it is known now where a part of ``message`` goes."""
        return any(self._found(message, key, one) is not None for key, one in _ids(message))

    def called(self) -> str:
        """Return who this is, for people."""
        return "the cluster, once the queue is known"

    def dispose(self, message: Message) -> bool:
        """Let it go where it can."""
        queues: list[Queue] = []
        routes: dict[str, bytes] = {}
        known = message.marked(ONWARD_ID)
        if isinstance(known, bytes):
            routes[ONWARD_ID] = known
        for waiting, one in _ids(message):
            remote = self._found(message, waiting, one)
            queue = self.source if remote is None else remote.queue
            key = waiting if remote is None else remote.route_key
            route = one if remote is None else remote.route
            routes[key] = routes.get(key, b"") + route
            if queue not in queues:
                queues.append(queue)
        if queues == [self.source]:
            self.give_back(message)
        else:
            self.hand_over(message, queues, routes)
        return True

    def _found(self, message: Message, key: str, one: bytes) -> RemoteBinding | None:
        """Return the queue that is called ``one``: here, or by its own node."""
        table = self.broker.table
        if key == ONWARD_KEY:
            known = message.marked(ONWARD_ID)
            node = node_in(known) if isinstance(known, bytes) else ""
            return table.beyond(message.address, [one], node).get(one)
        remote = table.remotes.get(int.from_bytes(one, "big", signed=True))
        return remote if remote is not None and matches(remote.address, message.address, MIXED) else None


def _ids(message: Message) -> list[tuple[str, bytes]]:
    """Return each id for which ``message`` waits, behind the annotation that has it."""
    found: list[tuple[str, bytes]] = []
    for key in (KEY, ONWARD_KEY):
        ids = message.marked(key)
        if isinstance(ids, bytes):
            found += [(key, ids[at : at + ID_OCTETS]) for at in range(0, len(ids) - ID_OCTETS + 1, ID_OCTETS)]
    return found


class Unresolved(Detour):
    """All of one broker."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker: Final = broker
        self._reader: Resolver | None = None

    def park(self, ids: bytes, copy: Copy) -> None:
        """Let the message of ``copy`` wait until it is known what ``ids`` are."""
        self._park(KEY, ids, copy)

    def park_onward(self, ids: bytes, copy: Copy) -> None:
        """The same of ``ids`` as a third node calls its queues, whatever they are called here."""
        self._park(ONWARD_KEY, ids, copy)

    def _park(self, key: str, ids: bytes, copy: Copy) -> None:
        queue = self._broker.table.queues.get(STORE)
        if queue is None:
            queue = self._broker.queues.create(QueueDefinition(name=STORE, address=STORE, routing=MULTICAST))
        copy.add_routes({key: ids})
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
