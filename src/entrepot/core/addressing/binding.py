"""What an address leads to: bindings to queues, and the groups of which one binding gets a message. [C]

All bindings of one address that share a *routing name* are a group: a message goes to one of them (artemis.md 1.12).
The routing name of an anycast queue is the address, so that all of them are one group; that of a multicast queue is the
queue's name, so that each subscription is a group. Here every binding is a `LocalBinding`. A queue of another node of a
cluster will be one more class: ``queue`` is then the queue here that keeps its messages until they are over there,
``distance`` how many nodes away it is, ``connected`` whether the way is open, and `is_wanted` asks for the consumers
that were announced. `core/addressing/choice.py` asks nothing else of a binding.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Fault
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.core.queue.consumer import REDISTRIBUTOR
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.message import Message


def passes(queue: Queue, message: Message) -> bool:
    """Return whether the filter of ``queue`` lets ``message`` in."""
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


class Group:
    """The bindings of one address with one routing name, in the order in which they came."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []
        self.turn: i64 = 0  # where the next choice begins: of all who send to it together


class Address:
    """One address: its bindings, by routing type and group. ``pattern`` addresses hold wildcard subscriptions."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.anycasts: Group = Group()
        self.multicasts: dict[str, Group] = {}  # by routing name
        self.pattern: bool = is_pattern(name, MIXED)
        self.created_by_operator: bool = False

    def bind(self, binding: Binding) -> None:
        """Let ``binding`` have messages, in the group of its routing name."""
        group = self.anycasts
        if binding.routing == MULTICAST:
            group = self.multicasts.setdefault(binding.routing_name, Group())
        group.bindings.append(binding)

    def unbind(self, queue: Queue) -> None:
        """Remove the bindings to ``queue``."""
        self.anycasts.bindings = [one for one in self.anycasts.bindings if one.queue is not queue]
        group = self.multicasts.get(queue.name)
        if group is not None:
            group.bindings = [one for one in group.bindings if one.queue is not queue]
            if not group.bindings:
                del self.multicasts[queue.name]

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
