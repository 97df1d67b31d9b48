"""What an address leads to: bindings to queues, and the groups of which one binding gets a message. [C]

All bindings of one address that share a *routing name* are a group: a message goes to one of them (artemis.md 1.12).
The routing name of an anycast queue is the address, so that all of them are one group; that of a multicast queue is the
queue's name, so that each subscription is a group. A `LocalBinding` is a queue of this broker. A `RemoteBinding` is one
of another node of a cluster: ``queue`` is then the store-and-forward queue here that keeps its messages until they are
over there, ``distance`` how many nodes away it is, ``connected`` whether the way is open, and `is_wanted` asks for the
consumers that were announced. `core/addressing/choice.py` asks nothing else of a binding.
"""

from __future__ import annotations

from sys import intern
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Fault
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.core.queue.consumer import REDISTRIBUTOR
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.ids import NUMBERED_OCTETS
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate


def passes(queue: Queue, message: Message) -> bool:
    """Return whether the filter of ``queue`` lets ``message`` in, and the queue is not barred."""
    if queue.barred:
        return False
    if queue.filter_origin != 0 and queue.filter_origin == message.origin:
        return False
    condition = queue.filter
    return condition is None or condition.matches(message)


@mypyc_attr(allow_interpreted_subclasses=True)
class Binding:
    """One place to which messages of ``address`` can go. ``queue``: the queue of this broker that they wait in."""

    def __init__(self, address: str, routing: int, routing_name: str, queue: Queue, distance: i64) -> None:
        """``distance``: 0 for a queue of this broker, otherwise how many nodes away the queue is."""
        self.address: str = address
        self.routing: int = routing
        self.routing_name: str = routing_name
        self.queue: Queue = queue
        self.distance: i64 = distance
        self.connected: bool = True

    def passes(self, message: Message) -> bool:
        """Return whether the filter of the queue that is bound lets ``message`` in."""
        raise Fault("a binding without a filter was asked for one")

    def is_wanted(self, message: Message) -> bool:
        """Return whether a consumer would take ``message`` there: Artemis' high accept priority (artemis.md 1.12)."""
        raise Fault("a binding without consumers was asked for them")

    def consumers(self) -> int:
        """Return how many consumers read there."""
        raise Fault("a binding without consumers was asked for them")


class LocalBinding(Binding):
    """A queue of this broker."""

    def __init__(self, queue: Queue) -> None:
        name = queue.name if queue.routing == MULTICAST else queue.address
        super().__init__(queue.address, queue.routing, name, queue, 0)

    def passes(self, message: Message) -> bool:
        """Return whether the filter of the queue lets ``message`` in."""
        return passes(self.queue, message)

    def is_wanted(self, message: Message) -> bool:
        """Return whether a consumer that is attached would take ``message``; the broker's own is none."""
        for consumer in self.queue.roster.consumers:
            if consumer.kind != REDISTRIBUTOR and consumer.would_take(message):
                return True
        return False

    def consumers(self) -> int:
        """Return how many consumers read from the queue; the broker's own does not count."""
        return self.queue.roster.readers()


STRICT: Final = 1
ON_DEMAND: Final = 2
OFF: Final = 3
OFF_WITH_REDISTRIBUTION: Final = 4
"""How a cluster connection spreads what is sent to queues (``message-load-balancing``, artemis.md 1.12)."""

ROUTE_TO: Final = "_AMQ_ROUTE_TO"
"""The internal annotation with the ids, of 8 octets each, of the bindings that a message goes to at the next node.

With the name of a store-and-forward queue behind it, it is for the messages in that queue; alone, for this broker.
"""
STORE_PREFIX: Final = "$.artemis.internal.sf."
"""How store-and-forward queues begin, and others in which messages wait until it is known where they go on."""
SCALED_DOWN: Final = "_AMQ_SCALEDOWN_TO"
"""The same of what waits for a third node, where a node gives it away: the ids of its bindings (artemis.md 1.20)."""
ONWARD_ID: Final = ROUTE_TO + " id"
"""The internal annotation with the id by which the third node knows such a message, from whoever it comes, and who
that node is, as the name of its store-and-forward queue ends with it."""
MOVED: Final = "entrepot.moved"
"""The internal annotation with the address at which a message is a copy of one that this broker stored and moved on."""
NODE_OCTETS: Final = 36  # of a node's UUID as text
ACK_ROUTE: Final = "_AMQ_ACK_ROUTE_TO"
"""Those of ``ROUTE_TO`` from which a prepared branch, that comes with its node's messages, has taken it (1.20)."""
BRANCH: Final = "_ENTREPOT_BRANCH"
"""What a node of ours says in a branch that it gives away: see `core/transactions/handed.py`."""


class _Filter:
    """What several remote consumers ask for."""

    def __init__(self, condition: Predicate) -> None:
        self.condition: Predicate = condition
        self.count: i64 = 1


def node_in(known: bytes) -> str:
    """Return the node in ``known``, what `ONWARD_ID` says."""
    return known[NUMBERED_OCTETS:].decode("ascii", "replace")


class RemoteBinding(Binding):
    """A queue of another node. ``identity``: what it is called here; ``far``: at the next node on the way there.

    ``queue_name``: of the queue, on its node; ``cluster_name``: that with ``node``, the id of its node. It wants a
    message if a consumer without a filter was announced, or one whose filter matches; Artemis looks at the filters
    alone once one consumer has one (artemis.md 1.12), so that what only the others would take is not sent to them.

    A node of a large cluster knows 100,000 of them: what can be made of the rest is made when it is asked for.
    """

    def __init__(
        self,
        address: str,
        routing_name: str,
        queue: Queue,
        distance: i64,
        *,
        identity: i64,
        far: i64,
        node: str,
        queue_name: str,
        mode: i64,
    ) -> None:
        """``queue``: that of the next node's messages. An address whose name is the group's has queues (1.12)."""
        routing = ANYCAST if routing_name == address else MULTICAST
        super().__init__(address, routing, routing_name, queue, distance)
        self.identity: i64 = identity
        self.far: i64 = far
        self.route_key: str = intern(ROUTE_TO + queue.name)  # one text for all that the next node told of
        self.node: str = node
        self.queue_name: str = queue_name
        self.mode: i64 = mode
        self._route: bytes = b""  # of one to which something went
        self.filter: Predicate | None = None
        self.count: i64 = 0  # of the consumers that were announced
        self._filters: dict[str, _Filter] | None = None
        self.filtered: i64 = 0  # of these consumers, those that have one

    @property
    def cluster_name(self) -> str:
        """What all nodes of the cluster call the queue."""
        return self.queue_name + self.node

    @property
    def route(self) -> bytes:
        """The id of the queue at the next node, as `ROUTE_TO` says it."""
        route = self._route
        if not route:
            route = self._route = int(self.far).to_bytes(8, "big", signed=True)
        return route

    def filters(self) -> dict[str, int]:
        """Return how many of the consumers that were announced have which filter."""
        return {} if self._filters is None else {text: int(one.count) for text, one in self._filters.items()}

    def passes(self, message: Message) -> bool:
        """Return whether the filter of the queue lets ``message`` in."""
        condition = self.filter
        return condition is None or condition.matches(message)

    def is_wanted(self, message: Message) -> bool:
        """Return whether a consumer that was announced would take ``message``."""
        if self.count > self.filtered:
            return True
        filters = self._filters
        if filters is not None:
            for each in filters.values():
                if each.condition.matches(message):
                    return True
        return False

    def consumers(self) -> int:
        """Return how many consumers were announced."""
        return int(self.count)

    def add_consumer(self, condition: Predicate | None) -> None:
        """A consumer reads there, with a filter or without."""
        self.count += 1
        if condition is None:
            return
        self.filtered += 1
        filters = self._filters
        if filters is None:
            filters = self._filters = {}
        known = filters.get(condition.text)
        if known is None:
            filters[condition.text] = _Filter(condition)
        else:
            known.count += 1

    def remove_consumer(self, selector: str) -> None:
        """One with this filter, "" for none, reads there no more."""
        if self.count > 0:
            self.count -= 1
        filters = self._filters
        known = None if filters is None else filters.get(selector)
        if filters is not None and selector and known is not None:
            self.filtered -= 1
            known.count -= 1
            if known.count <= 0:
                del filters[selector]
        self.filtered = min(self.filtered, self.count)

    def reset(self) -> None:
        """Nothing is known of consumers any more."""
        self.count = 0
        self.filtered = 0
        self._filters = None


class Group:
    """The bindings of one address with one routing name, in the order in which they came."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []
        self.turn: i64 = 0  # where the next choice begins: of all who send to it together

    def add(self, binding: Binding) -> None:
        """Add ``binding``. Most groups have one, for which no list is made that could hold more."""
        if self.bindings:
            self.bindings.append(binding)
        else:
            self.bindings = [binding]


class Address:
    """One address: its bindings, by routing type and group. ``pattern`` addresses hold wildcard subscriptions."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.anycasts: Group = Group()
        self._multicasts: dict[str, Group] | None = None
        self.pattern: bool = is_pattern(name, MIXED)
        self.created_by_operator: bool = False
        self.routed: i64 = 0  # messages sent here, in this run, while there was a queue or a divert
        self.unrouted: i64 = 0  # those that came while there was none

    @property
    def multicasts(self) -> dict[str, Group]:
        """The groups of subscriptions, by routing name; to be looked at."""
        known = self._multicasts
        return {} if known is None else known

    def bind(self, binding: Binding) -> None:
        """Let ``binding`` have messages, in the group of its routing name."""
        if binding.routing != MULTICAST:
            self.anycasts.add(binding)
            return
        known = self._multicasts
        if known is None:
            known = self._multicasts = {}
        group = known.get(binding.routing_name)
        if group is None:
            group = known[binding.routing_name] = Group()
        group.add(binding)

    def unbind(self, queue: Queue) -> None:
        """Remove the bindings to ``queue``."""
        self.anycasts.bindings = [one for one in self.anycasts.bindings if one.queue is not queue]
        group = self.multicasts.get(queue.name)
        if group is not None:
            group.bindings = [one for one in group.bindings if one.queue is not queue]
            self._tidy(queue.name, group)

    def unbind_remote(self, binding: RemoteBinding) -> None:
        """Remove ``binding``."""
        self.anycasts.bindings = [one for one in self.anycasts.bindings if one is not binding]
        group = self.multicasts.get(binding.routing_name)
        if group is not None:
            group.bindings = [one for one in group.bindings if one is not binding]
            self._tidy(binding.routing_name, group)

    def _tidy(self, routing_name: str, group: Group) -> None:
        """Forget ``group`` if it has nothing."""
        known = self._multicasts
        if known is not None and not group.bindings:
            del known[routing_name]
            if not known:
                self._multicasts = None

    def group_of(self, binding: Binding) -> Group:
        """Return the group that ``binding`` is one of."""
        return self.anycasts if binding.routing == ANYCAST else self.multicasts.get(binding.routing_name, Group())

    def remotes(self) -> list[RemoteBinding]:
        """Return the queues of other nodes, in the order in which they came."""
        found: list[RemoteBinding] = []
        for group in [self.anycasts, *self.multicasts.values()]:
            for one in group.bindings:
                if isinstance(one, RemoteBinding):
                    found.append(one)
        return found

    @property
    def anycast(self) -> list[Queue]:
        """The anycast queues of this broker."""
        return [one.queue for one in self.anycasts.bindings if one.distance == 0]

    @property
    def multicast(self) -> list[Queue]:
        """The multicast queues of this broker."""
        found: list[Queue] = []
        for group in self.multicasts.values():
            for one in group.bindings:
                if one.distance == 0:
                    found.append(one.queue)
        return found

    def has(self, routing: int) -> bool:
        """Return whether anything is bound under ``routing``."""
        return len(self.anycasts.bindings) > 0 if routing == ANYCAST else len(self.multicasts) > 0

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is bound."""
        return not self.has(ANYCAST) and not self.has(MULTICAST)
