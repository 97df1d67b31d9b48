"""Once a second: what expired goes, slow consumers are found, unused queues are deleted. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Instant
from entrepot.core.addressing.address_settings import SLOW_KILL
from entrepot.core.addressing.lingering import Lingering
from entrepot.core.addressing.queues import Queues
from entrepot.core.addressing.routing import RoutingTable
from entrepot.core.effort import Rest
from entrepot.core.events import announcing
from entrepot.core.leases.leases import Leases
from entrepot.core.ports import Host
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import MAYBE_DELIVERED, Queue
from entrepot.core.reading.reading import Reading
from entrepot.core.sending.flow import FlowControl
from entrepot.core.stages.stage import Stages
from entrepot.model.address import MULTICAST

SWEEP_EVERY: Final = 1_000_000_000  # ns between two looks at expiry, slow consumers and unused queues
SWEEP_MESSAGES: Final = 400  # a queue and sweep: Classic's maxExpirePageSize


class Pace:
    """What a queue and its consumers had done at one instant (ns): accepted, and settled by the key of a consumer."""

    def __init__(self, queue: Queue, at: i64) -> None:
        self.queue: Queue = queue
        self.at: i64 = at
        self.accepted: i64 = queue.accepted
        self.settled: dict[int, i64] = {int(one.key): settled_by(one) for one in queue.roster.consumers}


def settled_by(consumer: Consumer) -> i64:
    """Return how many messages ``consumer`` got and has no more."""
    return consumer.delivered - len(consumer.in_flight)


class _Sweeping(Rest):
    """Looks at all queues once a second, at some in each turn when they are many."""

    def __init__(self, maintenance: Maintenance) -> None:
        super().__init__()
        self.maintenance = maintenance
        self.queues: list[Queue] = []

    def resume(self) -> None:
        if not self.maintenance.sweep_on(self.queues):
            self.maintenance.host.effort.later(self)


class Maintenance:
    """The sweep over all queues of one broker."""

    def __init__(
        self, host: Host, reading: Reading, leases: Leases, stages: Stages, flow: FlowControl, lingering: Lingering
    ) -> None:
        self.host: Host = host
        self.reading: Reading = reading
        self.queues: Queues = reading.queues
        self.table: RoutingTable = reading.table
        self.leases: Leases = leases
        self.stages: Stages = stages
        self.flow: FlowControl = flow
        self.lingering: Lingering = lingering
        self.swept: i64 = 0
        self.paces: dict[int, Pace] = {}  # of queues whose slow consumers are found by their rate
        self.sweeping: _Sweeping = _Sweeping(self)

    def due(self) -> Instant:
        """Return when the next sweep begins (ns)."""
        return int(self.swept) + SWEEP_EVERY

    def sweep(self) -> None:
        """Begin to look at all queues, unless the last look is not over."""
        self.swept = self.host.now
        if not self.sweeping.waiting:
            self.sweeping.queues = list(self.table.queues.values())
            self.sweeping.queues.reverse()
            self.sweeping.resume()

    def sweep_on(self, queues: list[Queue]) -> bool:
        """Sweep ``queues`` from the end of the list on, as far as this turn reaches; return whether that was all."""
        while queues:
            if self.host.effort.is_over():
                return False
            queue = queues.pop()
            if queue.deleted:
                continue
            self.host.effort.spent += 1
            queue.taking.sweep(SWEEP_MESSAGES)
            queue.dispatcher.advance()
            if queue.policy.slow_after > 0:
                self._find_slow(queue)
            if queue.policy.slow_rate >= 0.0:
                self._find_slow_by_rate(queue)
            if queue.policy.advises_slow:
                self._find_crowded(queue)
            if queue.traits.auto_delete and queue.is_unused() and not self.leases.on(queue):
                self.queues.delete(queue, "it was not used")
        if self.paces:
            self._forget_paces()
        self.stages.sweep()
        if self.lingering.since:
            self.lingering.sweep()
        self.flow.free_waiters()
        return True

    def _find_slow(self, queue: Queue) -> None:
        for consumer in list(queue.roster.consumers):
            if not consumer.in_flight:
                consumer.settled_at = self.host.now  # nothing to settle: it is not slow, and its time begins now
                consumer.slow = False
                continue
            idle = self.host.now - consumer.settled_at
            if idle <= queue.policy.slow_after:
                consumer.slow = False
                continue
            self._note_slow(queue, consumer, f"it settled nothing for {idle // 1_000_000} ms")

    def _note_slow(self, queue: Queue, consumer: Consumer, what: str) -> None:
        """Tell once that ``consumer`` is slow; end it, where the policy says so."""
        if not consumer.slow:
            consumer.slow = True
            announcing.slow(self.host.hub, queue, consumer)
        if queue.policy.slow == SLOW_KILL:
            consumer.ended(f"{what} and policy says to end slow consumers")
            if consumer.queue is queue:
                self.reading.detach(queue, consumer, MAYBE_DELIVERED)

    def _find_slow_by_rate(self, queue: Queue) -> None:
        """Find consumers that settle fewer messages a second than the policy wants of them (artemis.md 4.2).

        Nobody is slow where less comes, and less waits, than all of them together should take.
        """
        now = self.host.now
        pace = self.paces.get(int(queue.identity))
        if pace is None or pace.queue is not queue:
            self.paces[int(queue.identity)] = Pace(queue, now)
            return
        passed = now - pace.at
        if passed < queue.policy.slow_check:
            return
        seconds = float(passed) / 1e9
        rate = queue.policy.slow_rate
        consumers = list(queue.roster.consumers)
        wanted = rate * len(consumers)
        come = float(queue.accepted - pace.accepted) / seconds
        before = pace.settled
        self.paces[int(queue.identity)] = Pace(queue, now)
        if come < wanted and float(queue.count) < wanted:
            return
        for consumer in consumers:
            last = before.get(int(consumer.key))
            if last is None:
                continue  # it came meanwhile
            own = float(settled_by(consumer) - last) / seconds
            if own < rate or (own == 0.0 and rate == 0.0):
                self._note_slow(queue, consumer, f"it settled {own:.1f} messages a second")
            else:
                consumer.slow = False

    def _forget_paces(self) -> None:
        """Forget the queues that are gone."""
        for identity, pace in list(self.paces.items()):
            if pace.queue.deleted:
                del self.paces[identity]

    def _find_crowded(self, queue: Queue) -> None:
        """Find consumers that take no more although there is more: Classic's notion of slow (classic.md 4.2)."""
        for consumer in queue.roster.consumers:
            window = consumer.window
            pending = window.messages if queue.routing == MULTICAST else 0
            crowded = window.messages > 1 and not window.is_open() and queue.backlog.count > pending
            if crowded and not consumer.crowded:
                announcing.slow(self.host.hub, queue, consumer)
            consumer.crowded = crowded
