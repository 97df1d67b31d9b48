"""All leases of one broker, and who of them looks when something arrives. [C]

What a lease is, `core/leases/lease.py` says.
"""

from __future__ import annotations

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import LeaseError
from entrepot.core.addressing.definition import durable_subscription
from entrepot.core.addressing.queues import Queues, QueueWatcher
from entrepot.core.leases.lease import Lease, Poll
from entrepot.core.owners import ReaderOwner, SubscriptionOwner
from entrepot.core.ports import ArrivalWatcher, ClaimWaiter, Host
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import durable_queue_name
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.predicate import Predicate


class _Arrivals(ArrivalWatcher):
    """Lets the leases on one queue look when something has arrived there."""

    def __init__(self, leases: Leases, queue: Queue) -> None:
        self.leases = leases
        self.queue = queue

    def arrived(self) -> None:
        self.leases.arrived(self.queue)


class _Look(Alarm):
    """The leases on one queue look what has arrived."""

    def __init__(self, due: int, leases: Leases, queue: Queue) -> None:
        super().__init__(due)
        self.leases = leases
        self.queue = queue

    def ring(self, now: int) -> None:
        if self.leases.planned.get(self.queue.name) == self.due:
            del self.leases.planned[self.queue.name]
        self.leases.look(self.queue, now)


class Leases(QueueWatcher):
    """All leases of one broker, by queue and group."""

    def __init__(self, host: Host, queues: Queues) -> None:
        self.host: Host = host
        self.queues: Queues = queues
        self.held: dict[tuple[str, str], Lease] = {}
        self.planned: dict[str, int] = {}  # queue -> when its leases will look at it

    def need(self, destination: Destination, group: str, create: bool) -> Lease:
        """Return the lease of ``group`` on the queue of ``destination``. Raises LeaseError when there is none."""
        queue = self.queues.table.queues.get(destination.queue or destination.name)
        if queue is None:
            if not create:
                raise LeaseError(f"there is no queue {destination.name!r}", remedy="ATTACH first")
            queue = self.queues.need(destination)
        lease = self.held.get((queue.name, group))
        if lease is None:
            if not create:
                raise LeaseError(f"{group!r} holds no lease on {queue.name!r}", remedy="ATTACH first")
            if queue.traits.non_destructive or queue.traits.last_value_key:
                raise LeaseError(
                    f"{queue.name!r} keeps last values, or what is read there: no reader can have a lease on it",
                    remedy="subscribe to it",
                )
            lease = Lease(queue, group)
            if queue.definition.made_for_reader:
                lease.epoch = int(self.host.wall)  # its record goes with its queue, and no epoch may come twice
            self.held[(queue.name, group)] = lease
        return lease

    def subscribe(self, topic: str, name: str, client_id: str, group: str, condition: Predicate | None) -> Destination:
        """Return the queue of a durable subscription to ``topic``, as a destination; made when there is none.

        Without ``name`` it is made for ``group`` alone, and `release` deletes it with all that it holds. Raises
        LeaseError when it exists with another topic or selector: to make it anew would lose what it holds.
        """
        found = self.subscribed(topic, name, client_id, group)
        queue_name = found.queue
        queue = self.queues.table.queues.get(queue_name)
        if queue is None:
            text = "" if condition is None else condition.text
            owner = SubscriptionOwner(client_id, name) if name else ReaderOwner(group, topic)
            self.queues.create(durable_subscription(queue_name, topic, text, owner), condition)
            return found
        had = queue.definition.selector
        wanted = had if condition is None else condition.text
        if queue.address != topic or had != wanted or queue.routing != MULTICAST:
            raise LeaseError(
                f"the subscription {queue_name!r} is one to {queue.address!r} with the selector {had!r}",
                remedy="name another subscription, or delete this one first",
            )
        return found

    def subscribed(self, topic: str, name: str, client_id: str, group: str) -> Destination:
        """Return what `subscribe` gives for the same names, whether it is there or not."""
        queue_name = durable_queue_name(client_id, name) if name else durable_queue_name(group, topic)
        return Destination(topic, MULTICAST, False, queue_name)

    def release(self, lease: Lease, epoch: int | None = None) -> int:
        """Give back what ``lease`` holds; a subscription that was made for its reader alone goes. Return how many.

        Raises LeaseError when ``epoch`` is given and over.
        """
        queue = lease.queue
        if epoch is not None:
            lease.fence(epoch)
        if queue.definition.made_for_reader:
            held = lease.held
            self.queues.delete(queue, f"{lease.group} released it, for whom it was made")
            return held
        return lease.release(self.host.journal)

    def wait(
        self,
        lease: Lease,
        epoch: int,
        start: int,
        most: int,
        wait_ms: int,
        waiter: ClaimWaiter,
        octets: int | None = None,
    ) -> Poll:
        """Let ``waiter`` hear what can be claimed, at the latest after ``wait_ms``. Call it when a claim is empty."""
        host = self.host
        until = int(host.now) + wait_ms * MILLISECOND
        poll = lease.wait(host.journal, epoch, start, most, until, waiter, octets)
        lease.queue.stock.watch(_Arrivals(self, lease.queue))
        host.timetable.add(poll)
        if lease.walk is not None:
            self.arrived(lease.queue)  # the selector has not seen all that is there
        return poll

    def look(self, queue: Queue, now: int) -> None:
        """Something arrived in ``queue``: let its leases look, and again when one of them wants to."""
        again: int | None = None
        watched = False
        for lease in self.on(queue):
            due = lease.look(now)
            if due is not None:
                again = due if again is None else min(again, due)
            watched = watched or len(lease.waiting) > 0
        if not watched:
            queue.stock.watch(None)
        if again is not None:
            self._look_at(queue, again)

    def arrived(self, queue: Queue) -> None:
        """Let leases look at ``queue`` in the next turn: what arrives in this one is claimed at one go."""
        self._look_at(queue, int(self.host.now))

    def _look_at(self, queue: Queue, due: int) -> None:
        """Let leases look at ``queue`` at ``due`` (ns)."""
        if self.host.ceased:
            return
        planned = self.planned.get(queue.name)
        if planned is None or due < planned:
            self.planned[queue.name] = due
            self.host.timetable.add(_Look(due, self, queue))

    def on(self, queue: Queue) -> list[Lease]:
        """Return the leases on ``queue``."""
        return [lease for lease in self.held.values() if lease.queue is queue]

    def emptied(self, queue: Queue, why: str) -> None:
        """``queue`` is being deleted: settle what its leases hold and forget them."""
        for lease in self.on(queue):
            lease.end(self.host.journal, why)
            del self.held[(queue.name, lease.group)]
