"""Store-and-forward queues that nobody empties any more: found, shown, and emptied by command (artemis.md 1.11).

Such a queue belongs to one cluster connection and one node. When the node comes back under another id, for good with
an empty data directory, nobody reads it again and its messages would wait for ever. `Cleaning` sends them anew: to
their address here, where they are shared out as if they had come now. A copy of a topic was meant for subscriptions of
that node alone, and the others had theirs: it becomes a dead letter, or goes. What waits for a queue that nobody knows
(`unresolved.py`) is found and emptied in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from entrepot.base.errors import EntrepotError, InvalidDestination, Refused
from entrepot.base.reasons import GIVEN_UP, Reason
from entrepot.cluster.clusters.connection import ClusterConnection
from entrepot.cluster.clusters.contact import State
from entrepot.cluster.clusters.remotes import NODE_CHARACTERS
from entrepot.cluster.clusters.unresolved import STORE as UNRESOLVED
from entrepot.core.addressing.binding import STORE_PREFIX
from entrepot.core.addressing.routing import default_routing
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.upkeep import Discard
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.queue import Queue
from entrepot.core.sending.flow import DROPPED
from entrepot.core.sending.sending import forget_routes, moved
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import Message

SEPARATOR: Final = "."
NODE_GONE: Final = "it was for subscriptions of a node of the cluster that is gone for good"


def owner_of(queue: str) -> tuple[str, str]:
    """Return for which cluster connection and which node the store-and-forward ``queue`` is; "" twice for another."""
    rest = queue.removeprefix(STORE_PREFIX)
    if rest == queue or len(rest) <= NODE_CHARACTERS + 1 or rest[-NODE_CHARACTERS - 1] != SEPARATOR:
        return "", ""
    return rest[: -NODE_CHARACTERS - 1], rest[-NODE_CHARACTERS:]


def stores_of(broker: BrokerCore) -> Iterable[tuple[Queue, str, str]]:
    """Yield every store-and-forward queue with its cluster connection and its node: "" twice for `UNRESOLVED`."""
    for queue in broker.table.queues.values():
        if queue.name.startswith(STORE_PREFIX):
            cluster, node = owner_of(queue.name)
            if node or queue.name == UNRESOLVED:
                yield queue, cluster, node


def is_orphan(connections: Sequence[ClusterConnection], cluster: str, node: str) -> bool:
    """Return whether nothing here would empty the queue of ``cluster`` for ``node``: nobody knows that node now.

    A node that is away for a while is not known either, after a restart of this broker: only people can tell.
    """
    for one in connections:
        if one.options.name == cluster:
            if node in one.topology.members:
                return False
            flow = one.flows.get(node)
            return flow is None or not flow.way.started
    return True


class Cleaning(Discard):
    """Empties a store-and-forward queue that nobody reads, a step at a time, then deletes it.

    Each message leaves in one atomic batch of the journal: it is there, or where it goes. ``discards``: copies of
    topics go, and do not become dead letters.
    """

    def __init__(
        self, broker: BrokerCore, connections: Sequence[ClusterConnection], name: str, *, discards: bool
    ) -> None:
        """Raises InvalidDestination for a queue that is none of these, Refused for one that is in use."""
        cluster, node = owner_of(name)
        if (not node and name != UNRESOLVED) or name not in broker.table.queues:
            raise InvalidDestination(
                f"there is no store-and-forward queue {name!r}", remedy="`entrepot cluster stores` lists them"
            )
        for one in connections:
            met = any(contact.node == node and contact.state is State.MET for contact in one.contacts.values())
            if one.options.name == cluster and (met or not is_orphan(connections, cluster, node)):
                raise Refused(
                    f"the node {node} is in the cluster {cluster!r}: its queue is emptied by sending to it",
                    remedy="if that node is gone for good, wait until the cluster has forgotten it",
                )
        super().__init__(broker, name)
        self.discards: Final = discards
        self.resent = 0
        self.dead = 0
        self.discarded = 0
        self.why = ""  # what did not go stayed for this

    def one(self, reference: Reference) -> bool:
        """Send one message that was taken out to where it belongs now; False where nothing takes it."""
        broker = self.broker
        granted = broker.flow.granted
        broker.flow.granted = True  # full or not: it was accepted long ago
        broker.journal.begin()
        try:
            self._send_on(reference)
            self.source.stock.finish(reference)
        except Refused as error:
            self.why = error.message
            return False
        finally:
            broker.journal.end()
            broker.flow.granted = granted
        return True

    def _send_on(self, reference: Reference) -> None:
        broker = self.broker
        message = reference.message
        if not _is_of_topic(broker, message):
            target = broker.target([Destination(message.address, ANYCAST)])
            copy = moved(broker.ids, message, self.source.stock.head.keeps(message))
            if broker.send(copy, target) == DROPPED:
                raise Refused(f"{message.address!r} is full, and drops what comes")
            self.resent += 1
        elif self.discards:
            self.discarded += 1
        else:
            forget_routes(message)
            broker.dead_letter(self.source, message, Reason(GIVEN_UP, NODE_GONE), reference.deliveries)
            self.dead += 1


class CleaningWork:
    """That as an operation: its answer is what became of the messages."""

    def __init__(self, cleaning: Cleaning) -> None:
        self._cleaning: Final = cleaning

    def step(self) -> bool:
        """Do a part; the empty queue goes at the end."""
        cleaning = self._cleaning
        if not cleaning.step().done:
            return False
        queue = cleaning.source
        if cleaning.broker.table.queues.get(queue.name) is queue and queue.count == 0:
            cleaning.broker.queues.delete(queue, "an operator cleaned it: its node is gone")
        return True

    def result(self) -> dict[str, object]:
        """Return the counts, and whether the queue is gone."""
        cleaning = self._cleaning
        return {
            "queue": cleaning.source.name,
            "resent": cleaning.resent,
            "dead_letters": cleaning.dead,
            "discarded": cleaning.discarded,
            "left": int(cleaning.source.count),
            "why": cleaning.why,
            "deleted": cleaning.source.name not in cleaning.broker.table.queues,
        }


def _is_of_topic(broker: BrokerCore, message: Message) -> bool:
    """Return whether ``message`` was published, and not sent to a queue."""
    try:
        said = message.fact("JMSDestination")
        if isinstance(said, str) and names.parse_one(said).routing == MULTICAST:
            return True
    except EntrepotError:
        pass  # it does not say
    return default_routing(broker.table, message.address) == MULTICAST
