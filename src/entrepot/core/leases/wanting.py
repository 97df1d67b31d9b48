"""Demand by lease: a reader of ranges that other brokers are to hear of as they hear of a consumer. [C]

Messages that wait at another broker come here over a bridge or a cluster connection when somebody reads here. A lease
is nobody: it takes what is in its queue, when it is asked to. A reader that wants to be heard of (CLAIM with
``demand:true``, docs/leases.md) has a consumer on the queue which is never dispatched anything. It ends with the
reader's connection, so that nothing is brought here for a reader that is gone.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.leases.lease import Lease
from entrepot.core.queue.consumer import LEASE, Consumer, Objection, Pause, Window
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import Subscription
from entrepot.model.address import Destination

PREFETCH: Final = 1  # what others are told; a reader whose window is one message is never said to be slow


class LeaseReader(Consumer):
    """Stands for a lease where consumers are counted. Gets nothing."""

    def __init__(self, key: i64, window: Window, group: str) -> None:
        super().__init__(key, window, True)
        self.kind = LEASE
        self.group: str = group

    def called(self) -> str:
        """Return who this is, for people."""
        return f"the lease of {self.group}"

    def halted(self) -> Objection | None:
        """Return why nothing is dispatched to it."""
        return Objection("lease", f"{self.group} reads by lease: it claims what is here, nothing is dispatched to it")


class LeaseDemand(Subscription):
    """The wish of one reader for more. Subscribe it at the broker, and unsubscribe it when the reader goes."""

    def __init__(self, lease: Lease, key: i64) -> None:
        """``key``: what its consumer is called, unique in the broker."""
        queue = lease.queue
        super().__init__([Destination(queue.address, int(queue.routing), False, queue.name)])
        self.lease: Lease = lease
        self.key: i64 = key
        self.kind = LEASE
        self.selector = lease.selector
        self.prefetch = PREFETCH
        self.window.pause(Pause.PULL)

    @property
    def over(self) -> bool:
        """Whether nobody hears of it any more: the queue was deleted, or an operator closed its consumer."""
        return all(consumer.queue is None for consumer in self.consumers)

    def consumer(self, queue: Queue) -> Consumer:
        """Return the consumer that others hear of."""
        return LeaseReader(self.key, self.window, self.lease.group)
