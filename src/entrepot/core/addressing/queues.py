"""The queues of one broker: made when something is sent or read, found by name, deleted with all that they hold. [C]"""

from __future__ import annotations

from msgspec.structs import replace
from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import InvalidDestination
from entrepot.core.addressing.binding import Address
from entrepot.core.addressing.definition import QueueDefinition, QueueRecord, encode
from entrepot.core.addressing.policy import Policies, Policy
from entrepot.core.addressing.routing import Divert, RoutingTable
from entrepot.core.addressing.standing import Standing
from entrepot.core.effort import Rest
from entrepot.core.events import announcing
from entrepot.core.events.facts import ADDRESS_ADDED, ADDRESS_REMOVED, BINDING_ADDED, BINDING_REMOVED, AddressFact
from entrepot.core.ports import Host
from entrepot.core.queue.queue import Queue
from entrepot.core.records import FIRST_QUEUE, KIND_QUEUE
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.predicate import Predicate, compile_selector


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueWatcher:
    """Wants to know when queues come and go."""

    def added(self, queue: Queue) -> None:
        """``queue`` is bound to its address."""

    def created(self, queue: Queue) -> None:
        """``queue`` is new, and its definition is kept: it did not come back from the journal."""

    def closing(self, queue: Queue) -> None:
        """``queue`` is about to be deleted: what is half done with it is to be completed."""

    def closed(self, queue: Queue, why: str) -> None:
        """``queue`` is deleted and gives nothing any more; its consumers are attached still."""

    def emptied(self, queue: Queue, why: str) -> None:
        """What ``queue`` holds is being settled, in one batch of the journal: so is what others hold of it."""


class _Removal(Rest):
    """Empties a queue that was deleted. Its definition is gone: after a crash nothing of it comes back."""

    def __init__(self, queues: Queues, queue: Queue) -> None:
        super().__init__()
        self.queues = queues
        self.queue = queue

    def resume(self) -> None:
        effort = self.queues.host.effort
        removals = self.queues.removals
        while True:
            gone = self.queue.taking.purge(effort.stride)
            effort.spent += gone
            if gone < effort.stride:
                removals.pop(int(self.queue.identity), None)
                return
            if effort.is_over():
                removals[int(self.queue.identity)] = self.queue
                effort.later(self)
                return


class _Governing(Rest):
    """Gives every queue the policy that its address has now, as many in a turn as it allows."""

    def __init__(self, queues: Queues) -> None:
        super().__init__()
        self.queues = queues
        self.left: list[Queue] = []

    def resume(self) -> None:
        effort = self.queues.host.effort
        policies = self.queues.policies
        left = self.left
        while left:
            if effort.is_over():
                effort.later(self)
                return
            effort.spent += 1
            queue = left.pop()
            if queue.deleted or queue.remembers:
                continue
            policy = policies.of(queue.address, queue.routing)
            if policy.given != queue.policy.given:
                queue.govern(policy)
                self.queues.table.version += 1


class Queues:
    """Makes, keeps and deletes the queues of one broker."""

    def __init__(self, host: Host, policies: Policies, table: RoutingTable) -> None:
        self.host: Host = host
        self.policies: Policies = policies
        self.table: RoutingTable = table
        self.next_queue: i64 = FIRST_QUEUE
        self.removals: dict[int, Queue] = {}  # deleted, and not yet empty
        self.watchers: list[QueueWatcher] = []
        self.standing: Standing = Standing(host.journal)
        self.governing: _Governing = _Governing(self)

    def govern(self, policies: Policies) -> None:
        """Let ``policies`` hold for every address from now on, and in the next turns for queues that exist."""
        self.policies.take_over(policies)
        self.regovern()

    def regovern(self) -> None:
        """Give every queue its policy anew in the next turns: what holds for addresses was changed."""
        self.table.version += 1
        self.governing.left = list(self.table.queues.values())
        if not self.governing.waiting:
            self.governing.resume()

    def need(self, destination: Destination) -> Queue:
        """Return the queue of ``destination``, made if it may be: the one that an FQQN names, or the anycast one."""
        name = destination.queue or destination.name
        queue = self.table.queues.get(name)
        if queue is not None:
            return queue
        address = self.table.addresses.get(destination.name)
        if address is not None and address.anycast and not destination.queue:
            return address.anycast[0]
        policy = self.policies.of(destination.name, destination.routing)
        if destination.temporary:
            raise InvalidDestination(f"the temporary destination {name!r} does not exist (any more)")
        if not policy.auto_create:
            raise InvalidDestination(
                f"there is no queue {name!r} and its policy forbids to create it",
                remedy="create it, or set auto_create",
            )
        self.check_address(destination.name, policy)
        routing = MULTICAST if destination.queue and destination.routing == MULTICAST else ANYCAST
        return self.create(QueueDefinition(name=name, address=destination.name, routing=routing, auto_created=True))

    def check_address(self, name: str, policy: Policy) -> None:
        """See that the address of a queue that a client makes exists, or may be made. Raises InvalidDestination."""
        if not policy.given.auto_create_addresses and name not in self.table.addresses:
            raise InvalidDestination(
                f"AMQ229203: Address Does Not Exist: {name}",
                remedy="create it, or set auto_create_addresses",
            )

    def need_own(self, destination: Destination) -> None:
        """As `need`, for sends. Raises InvalidDestination too for the bare name of another address's queue.

        Nothing that is sent to an address comes into a queue that only has its name: it would be lost.
        """
        if self.table.remotes and self._is_elsewhere(destination):
            return
        queue = self.need(destination)
        if not destination.queue and queue.address != destination.name:
            raise InvalidDestination(
                f"{destination.name!r} is a queue of {queue.address!r}",
                remedy=f"send to {queue.address}, or to {queue.address}::{queue.name}",
            )

    def _is_elsewhere(self, destination: Destination) -> bool:
        """Return whether another node of a cluster has the queue, and this one has none and would not make one."""
        name = destination.queue or destination.name
        address = self.table.addresses.get(destination.name)
        if address is None or name in self.table.queues:
            return False
        made = self.policies.of(destination.name, destination.routing).auto_create
        for remote in address.remotes():
            if destination.queue:
                if remote.queue_name == name:
                    return True
            elif remote.routing == ANYCAST and (destination.temporary or not made):
                return True
        return False

    def create(self, definition: QueueDefinition, condition: Predicate | None = None) -> Queue:
        """Make a queue. A durable one is in the journal before anything is routed to it.

        ``condition``: what filters, where it is compiled already, or cannot be written as a selector. Raises
        InvalidDestination when there is a queue of that name, InvalidSelector, Refused for what queues do not obey yet.
        """
        if definition.name in self.table.queues:
            raise InvalidDestination(f"there is already a queue {definition.name!r}")
        definition.check()
        if condition is None and definition.selector:
            condition = compile_selector(definition.selector)
            definition = replace(definition, selector=condition.text)
        identity = self.next_queue
        self.next_queue = identity + 1
        policy = self.policies.of(definition.address, definition.routing)
        queue = Queue(self.host, identity, definition, policy, condition)
        queue.began = self.host.ids.number
        known = definition.address in self.table.addresses
        self.add(queue)
        self.keep(queue)
        announcing.created(self.host.hub, queue, self.host.ids.node, known)
        for watcher in self.watchers:
            watcher.created(queue)
        return queue

    def redefine(self, queue: Queue, definition: QueueDefinition) -> bool:
        """Let ``queue`` be what ``definition`` says, as far as a queue that exists can; return whether that is new.

        Name, address, routing type, durability and owner stay, and so do what it keeps of each key and whether reading
        removes: they are chosen when a queue is made (artemis.md 4.5). A ring that got smaller loses messages only when
        the next one comes. Raises InvalidSelector, Refused.
        """
        had = queue.definition
        definition.check()
        condition = compile_selector(definition.selector) if definition.selector else None
        renewed = replace(
            definition,
            name=had.name,
            address=had.address,
            routing=had.routing,
            durable=had.durable,
            temporary=had.temporary,
            auto_created=had.auto_created,
            no_local=had.no_local,
            owner=had.owner,
            user=definition.user or had.user,
            selector="" if condition is None else condition.text,
            last_value=had.last_value,
            last_value_key=had.last_value_key,
            non_destructive=had.non_destructive,
        )
        if renewed == had:
            return False
        queue.redefine(renewed, condition if renewed.selector != had.selector else queue.filter)
        self.table.version += 1  # what was resolved without its filter, or while it was barred, looks again
        self.keep(queue)
        return True

    def add(self, queue: Queue) -> None:
        """Bind ``queue``, and tell those who watch."""
        self.table.add(queue)
        for watcher in self.watchers:
            watcher.added(queue)

    def follow(self, divert: Divert) -> None:
        """Follow ``divert`` from now on, in place of one of the same name, and tell of it."""
        gone = self.table.remove_divert(divert.name)
        if gone is not None:
            announcing.diverts(self.host.hub, BINDING_REMOVED, gone.address, divert.name, self.host.ids.node)
        self.table.add_divert(divert)
        self.standing.keep_divert(divert)
        announcing.diverts(self.host.hub, BINDING_ADDED, divert.address, divert.name, self.host.ids.node)

    def forget(self, name: str) -> bool:
        """Follow the divert ``name`` no longer, and tell of it; False when there is none."""
        gone = self.table.remove_divert(name)
        if gone is None:
            return False
        self.standing.drop_divert(name)
        announcing.diverts(self.host.hub, BINDING_REMOVED, gone.address, name, self.host.ids.node)
        return True

    def declare(self, name: str, types: int) -> None:
        """Let the address ``name`` stay until `undeclare`, restarts included; ``types``: 1 multicast, 2 anycast."""
        new = name not in self.table.addresses
        self.table.address(name).created_by_operator = True
        self.table.declared[name] = types
        if new:
            self.host.hub.announce(AddressFact(ADDRESS_ADDED, name, MULTICAST if types & 1 else ANYCAST))
        self.standing.keep_address(name, types)

    def undeclare(self, address: Address) -> None:
        """Let ``address`` go: with its last queue, or now."""
        address.created_by_operator = False
        types = self.table.declared.pop(address.name, 0)
        self.standing.drop_address(address.name)
        self.table.abandon(address.name)
        if address.name not in self.table.addresses:
            self.host.hub.announce(AddressFact(ADDRESS_REMOVED, address.name, MULTICAST if types & 1 else ANYCAST))

    def keep(self, queue: Queue) -> None:
        """Write the definition of a durable queue to the journal (again, after a change)."""
        if not queue.durable:
            return
        record = QueueRecord(queue.definition, queue.gate.paused, int(queue.began))
        self.host.journal.put(KIND_QUEUE, int(queue.identity).to_bytes(4, "big"), encode(record))

    def delete(self, queue: Queue, why: str, *, renewed: bool = False) -> i64:
        """Remove ``queue`` with all its messages and leases; its consumers are told ``why``.

        Return how many messages went. A subscription to a wildcard loses this queue only and goes on. ``renewed``: the
        durable subscription that it is gets another queue at once, so nobody hears that it ends.
        """
        if self.table.queues.get(queue.name) is not queue:
            return 0
        for watcher in self.watchers:
            watcher.closing(queue)
        queue.close()
        self.table.remove(queue)
        gone = queue.count
        for watcher in self.watchers:
            watcher.closed(queue, why)
        journal = self.host.journal
        effort = self.host.effort
        journal.begin()
        try:
            for watcher in self.watchers:
                watcher.emptied(queue, why)
            queue.drop_promised()
            if queue.durable:
                journal.delete(KIND_QUEUE, int(queue.identity).to_bytes(4, "big"))
            if gone <= effort.stride:
                queue.taking.purge()
        finally:
            journal.end()
        if gone > effort.stride:
            _Removal(self, queue).resume()
        queue.end_trace()
        known = queue.address in self.table.addresses
        announcing.deleted(self.host.hub, queue, self.host.ids.node, known, gone, why, renewed)
        return gone
