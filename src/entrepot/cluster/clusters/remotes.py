"""The queues of one other node, as it tells of them, and as bindings of this broker's routing table (artemis.md 1.15).

A node that is met tells first all that it has: what stands between RESET and its end. A binding of before that is not
told again is gone; one that is, is connected again. Then it tells what happens. While the connection is lost its
bindings stay and are not connected; they are removed when the node takes leave, or comes back without them.

What a peer tells of queues behind it (``max-hops`` above 1) is bound too: they are one node further away, what is sent
to them goes to the peer, and they are told on, one further still. A peer that comes back without them may not have met
their node yet, and one that takes leave says nothing of it: nothing leads there any more, and nobody said that they are
gone (`LOST`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from entrepot.base.errors import InvalidSelector
from entrepot.core.addressing.binding import STORE_PREFIX, RemoteBinding
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.predicate import Predicate
from entrepot.model.told import remote_as
from entrepot.protocols.artemis.notifying import (
    ADDRESS,
    BINDING_ID,
    CLUSTER_NAME,
    DISTANCE,
    FILTER,
    LOST,
    RESET,
    RESET_COMPLETE,
    ROUTING_NAME,
)

NOTIFICATION_TYPE: Final = "_AMQ_NotifType"
BINDINGS_MAX: Final = 200_000  # of one node
NODE_CHARACTERS: Final = 36  # of a UUID, which ends a cluster name

Properties = dict[str, object]


def store_name(cluster: str, node: str) -> str:
    """Return the name of the store-and-forward queue for ``node`` (artemis.md 1.11)."""
    return f"{STORE_PREFIX}{cluster}.{node}"


class Bindings:
    """Those that one node told of, by cluster name. No text is kept for that: of most of them the name of the queue and
    the id of the node, which it is made of, are kept anyway.
    """

    def __init__(self) -> None:
        self._nodes: Final[dict[str, dict[str, RemoteBinding]]] = {}  # id of the queue's node -> name of the queue

    def get(self, name: str) -> RemoteBinding | None:
        """Return the one called ``name``; None for none."""
        of_node = self._nodes.get(name[-NODE_CHARACTERS:])
        return None if of_node is None else of_node.get(name[:-NODE_CHARACTERS])

    def add(self, binding: RemoteBinding) -> None:
        """Know ``binding``, in place of one of the same name."""
        self._nodes.setdefault(binding.node, {})[binding.queue_name] = binding

    def remove(self, binding: RemoteBinding) -> None:
        """Forget ``binding``, if it is known."""
        of_node = self._nodes.get(binding.node, {})
        if of_node.get(binding.queue_name) is binding:
            del of_node[binding.queue_name]
            if not of_node:
                del self._nodes[binding.node]

    def values(self) -> Iterator[RemoteBinding]:
        """Yield each, those of one node together."""
        for of_node in self._nodes.values():
            yield from of_node.values()

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (one.cluster_name for one in self.values())

    def __len__(self) -> int:
        return sum(len(of_node) for of_node in self._nodes.values())


class Registry:
    """What all nodes of one cluster told: a queue that two tell of is bound once. ``own``: this node's id.

    ``tellers``: those who told of one that is known.
    """

    def __init__(self, broker: BrokerCore, cluster: str, mode: int, own: str, say: Callable[[str], None]) -> None:
        self.broker: Final = broker
        self.cluster: Final = cluster
        self.mode: Final = mode
        self.own: Final = own
        self.say: Final = say
        self.tellers: Final[dict[RemoteQueues, None]] = {}

    def teller(self, name: str) -> RemoteQueues | None:
        """Return who told of the queue that the cluster calls ``name``; None where it is not known."""
        return next((one for one in self.tellers if name in one.bindings), None)

    def all(self) -> Iterator[RemoteBinding]:
        """Yield the queues of all."""
        for teller in self.tellers:
            yield from teller.bindings.values()

    def added(self, binding: RemoteBinding) -> None:
        """A queue of another node is known."""

    def removed(self, binding: RemoteBinding, *, lost: bool) -> None:
        """It is not any more. ``lost``: it may be there still, beyond a node that does not know it."""

    def complete(self, node: str) -> None:
        """``node`` told all that it has."""

    def wanted(self, binding: RemoteBinding, selector: str, came: bool) -> None:
        """A consumer came to it, or went."""

    def changed(self, binding: RemoteBinding) -> None:
        """Who reads it, its filter, or whether it is connected, is another than before."""


class RemoteQueues:
    """The queues of ``node``, and of those behind it."""

    def __init__(self, registry: Registry, node: str) -> None:
        self.node: Final = node
        self.bindings: Final = Bindings()
        self._registry: Final = registry
        self._broker: Final = registry.broker
        self._heard = False  # RESET came: from there on it counts
        self._unconfirmed: dict[RemoteBinding, None] = {}  # bindings that were not told again yet
        self._told_twice: dict[str, None] = {}

    def store(self) -> Queue:
        """Return the queue that keeps messages for the node, made if there is none."""
        name = store_name(self._registry.cluster, self.node)
        queue = self._broker.table.queues.get(name)
        if queue is None:
            definition = QueueDefinition(name=name, address=name, routing=MULTICAST)
            queue = self._broker.queues.create(definition)
        return queue

    # -- what becomes of the connection --------------------------------------------------------------------------------

    def disconnected(self) -> None:
        """The connection is lost: its queues are the last choice until it is back."""
        self._heard = False
        for binding in self.bindings.values():
            binding.connected = False
            self._registry.changed(binding)

    def departed(self) -> None:
        """The node took leave: its queues get nothing more."""
        self._heard = False
        for binding in list(self.bindings.values()):
            self._remove(binding, lost=binding.node != self.node)
        self._unconfirmed.clear()

    # -- what it tells -------------------------------------------------------------------------------------------------

    def take(self, said: Properties) -> None:
        """Take one notification."""
        if said.get(RESET) is True:
            self._heard = True
            self._unconfirmed = dict.fromkeys(self.bindings.values())
            for each in self.bindings.values():
                self._forget_consumers(each)
                self._registry.changed(each)
            return
        if not self._heard:
            return
        if said.get(RESET_COMPLETE) is True:
            lost, self._unconfirmed = self._unconfirmed, {}
            for gone in lost:
                if self.bindings.get(gone.cluster_name) is gone:
                    self._remove(gone, lost=gone.node != self.node)
            self._registry.complete(self.node)
            return
        kind = said.get(NOTIFICATION_TYPE)
        name = said.get(CLUSTER_NAME)
        if not isinstance(name, str) or not isinstance(kind, str):
            return
        if kind == "BINDING_ADDED":
            self._add(name, said)
            return
        binding = self.bindings.get(name)
        if binding is None:
            return
        selector = said.get(FILTER)
        text = selector if isinstance(selector, str) else ""
        if kind == "BINDING_REMOVED":
            self._remove(binding, lost=said.get(LOST) is True)
        elif kind == "BINDING_UPDATED":
            binding.filter = self._condition(binding, text)
            self._registry.changed(binding)
        elif kind == "CONSUMER_CREATED":
            binding.add_consumer(self._condition(binding, text))
            self._registry.wanted(binding, text, True)
            self._registry.changed(binding)
        elif kind == "CONSUMER_CLOSED":
            binding.remove_consumer(text)
            self._registry.wanted(binding, text, False)
            self._registry.changed(binding)

    def _is_nearer(self, name: str, distance: int, owner: RemoteQueues) -> bool:
        """Return whether the queue is nearer over this node than over ``owner``, who told of it, and loses it then.

        What a node told others comes back from them, of a chain that leads both ways; after a restart it may come back
        before the queue's own node says anything.
        """
        known = owner.bindings.get(name)
        if known is None or distance >= known.distance:
            return False
        owner.yield_to_nearer(known)
        return True

    def yield_to_nearer(self, binding: RemoteBinding) -> None:
        """Another node is nearer to the queue of ``binding``."""
        self._remove(binding)

    def _forget_consumers(self, binding: RemoteBinding) -> None:
        """Its consumers are told anew: nodes behind this one forget those of before, or they would count them twice."""
        filters = binding.filters()
        filters[""] = int(binding.count - binding.filtered)
        binding.reset()
        for text, count in filters.items():
            for _ in range(count):
                self._registry.wanted(binding, text, False)

    def _add(self, name: str, said: Properties) -> None:
        address, routing_name = said.get(ADDRESS), said.get(ROUTING_NAME)
        far, distance = said.get(BINDING_ID), said.get(DISTANCE)
        if not (isinstance(address, str) and isinstance(routing_name, str) and address and routing_name):
            return
        if not isinstance(far, int) or not isinstance(distance, int) or name.endswith(self._registry.own):
            return
        known = self.bindings.get(name)
        confirmed = known is None or known not in self._unconfirmed
        if known is not None:
            self._unconfirmed.pop(known, None)
        if known is not None and known.far == far and known.address == address:
            if not confirmed or not known.connected:
                known.connected = True
                self._registry.changed(known)
            else:
                self._warn(name)
            return
        if known is not None:
            self._remove(known)
        elif (owner := self._registry.teller(name)) is not None:
            if not self._is_nearer(name, distance + 1, owner):
                self._warn(name)
                return
        elif len(self.bindings) >= BINDINGS_MAX:
            self._registry.say(f"the node {self.node} has more than {BINDINGS_MAX} queues: {name} gets nothing")
            return
        self._bind(name, address, routing_name, far, distance, said.get(FILTER))

    def _bind(self, name: str, address: str, routing_name: str, far: int, distance: int, selector: object) -> None:
        registry = self._registry
        bound = self._broker.table.addresses.get(address)
        if bound is not None:
            address = bound.name  # one text where names are the same, as they mostly are, at all nodes
        node, queue_name = name[-NODE_CHARACTERS:], name[:-NODE_CHARACTERS]
        binding = RemoteBinding(
            address,
            address if routing_name == address else routing_name,
            self.store(),
            distance + 1,
            identity=remote_as(name, ANYCAST if routing_name == address else MULTICAST, far),
            far=far,
            node=self.node if node == self.node else node,
            queue_name=next((one for one in (address, routing_name) if one == queue_name), queue_name),
            mode=registry.mode,
        )
        binding.filter = self._condition(binding, selector if isinstance(selector, str) else "")
        self.bindings.add(binding)
        registry.tellers[self] = None
        self._broker.table.add_remote(binding)
        registry.added(binding)

    def _remove(self, binding: RemoteBinding, *, lost: bool = False) -> None:
        self._unconfirmed.pop(binding, None)
        self.bindings.remove(binding)
        if not self.bindings:
            self._registry.tellers.pop(self, None)
        self._broker.table.remove_remote(binding)
        self._registry.removed(binding, lost=lost)

    def _condition(self, binding: RemoteBinding, text: str) -> Predicate | None:
        """Return the filter ``text``; one that cannot be read here lets everything pass, and its node filters."""
        try:
            return selector_or_none(text)
        except InvalidSelector as error:
            self._registry.say(f"the filter of {binding.cluster_name} cannot be read: {error.message}")
            return None

    def _warn(self, name: str) -> None:
        if name not in self._told_twice and len(self._told_twice) < BINDINGS_MAX:
            self._told_twice[name] = None
            self._registry.say(
                f"AMQ222139: {name} is told of twice: two cluster connections overlap, or max-hops is too large for "
                "this topology"
            )
