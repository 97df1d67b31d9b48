"""One queue: what comes in, who reads, and what is acknowledged. [C]

The queue owns what is in flight, what is leased or kept for a transaction, and its readers' coming and going; the rest
is a part with its own state:

- `core/queue/head.py`: what it is, without what is in it; what is said of it
- `core/queue/stock.py`: what waits, in memory and on disk, and what a ring keeps; `values.py`: last values
- `core/queue/dispatch.py`: who may have a message, whose turn it is: priority, exclusive, groups and their settings
- `core/queue/dispatcher.py`: the walk through what waits, and the handing out; `showing.py`: non-destructive queues
- `core/queue/gate.py`: an operator's pause, consumers-before-dispatch and its delay
- `core/queue/returns.py`: what comes back, and when; dead letters, expiry
- `core/queue/taking.py`: what is taken out without a consumer: sweeps, purges, moves, limits

What a definition and the settings of the address make of a queue are its traits, chosen once. purge-on-no-consumers is
in `attach` and `detach`, auto-delete in `is_unused`. Filters, whether it is on, and whether a queue that purges has a
reader are asked before it is: `core/addressing/binding.py`.

Invariant (`check`): no consumer that is ready could take a message that waits in memory; counts add up; what is in
flight is not in the backlog.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import UNLIMITED
from entrepot.base.reasons import Reason
from entrepot.core.addressing.address_settings import FULL_DROP
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policy
from entrepot.core.effort import Effort
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import MESSAGE_CONSUMED, QUEUE_FULL
from entrepot.core.ports import Host
from entrepot.core.queue.backlog import Backlog, Reference
from entrepot.core.queue.consumer import Consumer, Source
from entrepot.core.queue.dispatch import Roster
from entrepot.core.queue.dispatcher import Dispatcher
from entrepot.core.queue.gate import Gate
from entrepot.core.queue.returns import Returns
from entrepot.core.queue.showing import Showing
from entrepot.core.queue.stock import Stock, wait_on_disk
from entrepot.core.queue.taking import Emptying, Taking
from entrepot.core.queue.values import LastValues
from entrepot.journal.reading import Heads
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

# What a reader that leaves had been delivered of what it holds; a number >= 0 is the last that it saw (classic.md 4.5)
UNKNOWN_DELIVERED: Final = -2  # it does not say: count every message as attempted
NONE_DELIVERED: Final = -1
MAYBE_DELIVERED: Final = -3  # we sent it away: every message is marked, and none counted, for nobody failed


class Queue(Source):
    """One queue of one address. ``durable`` queues keep durable messages over a restart."""

    def __init__(
        self, host: Host, identity: i64, definition: QueueDefinition, policy: Policy, condition: Predicate | None
    ) -> None:
        """``condition``: the selector of ``definition``, or what stands for one that cannot be written."""
        super().__init__(host, identity, definition, policy, condition)
        self.effort: Effort = host.effort
        traits = self.traits
        self.roster: Roster = Roster(0 if traits.non_destructive else traits.group_buckets)
        self.roster.strict = policy.strict_order
        self.roster.all_exclusive = traits.exclusive
        self.stock: Stock = (
            LastValues(host, self, self.roster) if traits.last_value_key else Stock(host, self, self.roster)
        )
        self.backlog: Backlog = self.stock.backlog
        self.gate: Gate = Gate(traits, host.ceased)
        self.returns: Returns = Returns(host, self, self.stock)
        dispatching = Showing if traits.non_destructive else Dispatcher
        self.dispatcher: Dispatcher = dispatching(self, self.stock, self.gate, self.returns)
        self.taking: Taking = Taking(self, self.stock, self.returns)
        self.leased: i64 = 0
        self.promised: dict[int, Reference] = {}  # kept for a transaction whose consumer has left: counted as leased
        self.accepted: i64 = 0
        self.used: bool = False  # a consumer or a message was here once: only then may it be deleted by itself
        self.unused_since: i64 = -1  # ns; -1: it is in use, or was not looked at since

    @property
    def count(self) -> i64:
        """Messages in the queue: waiting, delayed, in flight and leased. What readers are shown waits all the time."""
        if self.traits.non_destructive:
            return self.backlog.count + len(self.returns.delayed)
        return self.backlog.count + self.in_flight + len(self.returns.delayed) + self.leased

    # -- what comes in ------------------------------------------------------------------------------------------------

    def accept(self, message: Message) -> None:
        """Take a routed message: straight to a ready consumer, else to the backlog. The journal has it already."""
        if self.backlog.owed is not None and self.backlog.owed.before(message):
            return
        self.accepted += 1
        self.effort.spent += 1
        rare = message.rare
        if self.arrivals is not None:
            self.note_accepted(message, 0)
        roster = self.roster
        if rare is not None:
            if rare.group:
                roster.saw_group()
            if rare.large_id != 0:
                self.stock.wait_large(message)
                self.dispatcher.dispatch()
                return
        if roster.ready and not self.gate.shut:
            dispatcher = self.dispatcher
            over = message.expiration != 0 and self.stock.is_over(message)
            # a search goes on: nothing may overtake it
            if over or self.backlog.paged_count > 0 or dispatcher.stepping or self.stock.queued:
                self.stock.wait(message)
                dispatcher.dispatch()
                return
            consumer = roster.choose(message)
            if consumer is not None:
                dispatcher.hand(consumer, message, None)
                if rare is not None and roster.changed:
                    dispatcher.dispatch()
                return
        self.stock.wait(message)

    def takes_stored(self) -> bool:
        """Return whether `accept_stored` does for a plain message what `accept` would, and nobody would miss anything.

        Not where the queue may have to drop what comes or what it has, by number, by value or because nobody reads; nor
        where each arrival is told of.
        """
        policy, traits = self.policy, self.traits
        return (
            self.durable
            and not self.deleted
            and self.stock.ring < 0
            and not traits.last_value_key
            and not traits.non_destructive
            and self.pending_limit < 0
            and self.arrivals is None
            and not self.fates.careful
            and self.fates.tells & QUEUE_FULL == 0
            and policy.full != FULL_DROP
            and not policy.counts
        )

    def accept_stored(self, first: i64, heads: Heads) -> None:
        """Take messages, of which nothing but ``heads`` is read, numbered from ``first`` on: the journal has them here.

        Only where `takes_stored`. Whoever is ready is given them, read from disk.
        """
        self.backlog.complete()
        self.accepted += len(heads.sizes)
        self.effort.spent += len(heads.sizes)
        self.used = True
        wait_on_disk(self.stock, first, heads)
        self.dispatcher.dispatch()

    def recovered(self, number: i64, priority: i64, expiration: i64, deliveries: i64, octets: i64) -> None:
        """Note at start that message ``number`` waits on disk; numbers come in ascending order."""
        self.stock.recovered(number, priority, expiration, deliveries, octets)
        self.used = True

    # -- who reads ----------------------------------------------------------------------------------------------------

    def attach(self, consumer: Consumer) -> None:
        """Add a reader. It is served as soon as it has credit and the queue is not held."""
        consumer.queue = self
        consumer.fresh = True
        consumer.opened_at = self.host.now
        consumer.settled_at = self.host.now
        if self.trace is not None:
            consumer.delivery_run = self.trace.deliveries(self.identity, consumer.key)
            consumer.settlement_run = self.trace.settlements(self.identity, consumer.key)
        self.used = True
        self.unused_since = -1
        roster = self.roster
        roster.add(consumer)
        if self.traits.purges:
            self.barred = not self.traits.enabled
        if self.traits.group_rebalance and roster.groups is not None:
            roster.groups.reset()
            roster.rescan()
            if self.traits.group_rebalance_pause and self.in_flight > 0:
                self.gate.drain()
        if self.gate.held:
            self.dispatcher.release_hold()
        self.opened(consumer)

    def opened(self, consumer: Consumer) -> None:
        """``consumer`` may take messages again: give it what waits."""
        self.dispatcher.opened(consumer)

    def detach(self, consumer: Consumer, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Remove a reader; what it had not settled goes back in order, and to others.

        ``last_delivered``: the number of the last message that it saw, or one of the three constants above. What went
        out to it up to that one counts as attempted; nothing does when that one is settled already, or another
        queue's, as in Classic, which then lets a durable subscription count whatever has a lower number. Here that is
        marked, once: it may be what nobody saw. What an open transaction will settle waits for its end.
        """
        self.roster.remove(consumer)
        consumer.search = None
        if last_delivered == UNKNOWN_DELIVERED and self.host.ceased:
            last_delivered = MAYBE_DELIVERED  # it goes because we stop
        known = last_delivered >= 0 and int(last_delivered) in consumer.in_flight
        attempted = known or last_delivered == UNKNOWN_DELIVERED
        doubtful: i64 = -1
        if last_delivered == MAYBE_DELIVERED:
            doubtful = UNLIMITED
        elif self.routing == MULTICAST and not known:
            doubtful = last_delivered
        returned = list(consumer.in_flight.values())
        consumer.in_flight.clear()
        for reference in returned:
            self.returned(consumer, reference.message)
            if consumer.promised and int(reference.number) in consumer.promised:
                self.promised[int(reference.number)] = reference
                self.leased += 1
            else:
                seen = reference.number != consumer.unwritten
                if seen and reference.number <= doubtful and reference.deliveries == 0:
                    self.returns.count(reference)
                self.returns.retry(reference, attempted and seen)
            if reference.number == last_delivered:
                attempted = False  # what follows had not been seen
        consumer.queue = None
        window = consumer.window
        if consumer in window.consumers:
            window.consumers.remove(consumer)
        self._left()
        if window.consumers:  # the credit that came free serves the other queues of a wildcard
            window.reopen()

    def _left(self) -> None:
        """A consumer has left, and what it had is here again."""
        if self.gate.draining and self.in_flight == 0:
            self.gate.drained()
        if self.traits.purges and not self.roster.is_read() and not self.host.ceased:
            self.barred = True
            Emptying(self.effort, self.taking).begin()
        if self.roster.consumers:
            self.dispatcher.rescan()
        else:
            self.gate.hold()

    def _reopen(self, consumer: Consumer) -> None:
        """``consumer`` has got credit back."""
        if self.gate.draining and self.in_flight == 0:
            self.gate.drained()
            self.dispatcher.dispatch()
        window = consumer.window
        if len(window.consumers) > 1:
            window.reopen()
        elif not consumer.listed:
            self.dispatcher.opened(consumer)

    def redefine(self, definition: QueueDefinition, condition: Predicate | None) -> None:
        """Be what ``definition`` says from now on; ``condition``: its selector. See `Queues.redefine`."""
        self.definition = definition
        self.filter = condition
        self.govern(self.policy)

    def govern(self, policy: Policy) -> None:
        """Follow ``policy`` from now on, as far as a queue that exists can. See `Queues.govern`."""
        self.policy = policy
        self.fates.policy = policy
        self.fates.refresh()
        self.roster.strict = policy.strict_order
        traits = policy.traits_of(self.definition, self.traits)
        self.traits = traits
        self.stock.ring = traits.ring_size
        self.gate.traits = traits
        self.barred = not traits.enabled or (traits.purges and not self.roster.is_read())
        self.roster.redefine(traits.exclusive, 0 if traits.non_destructive else traits.group_buckets)
        self.dispatcher.rescan()

    def is_unused(self) -> bool:
        """Say whether the queue was used, is unread and empty enough, and has been for its delay (artemis.md 4.1)."""
        traits = self.traits
        busy = self.count > traits.auto_delete_messages >= 0 or self.backlog.owed is not None or self.roster.is_read()
        if busy or self.host.carrying or not (self.used or self.accepted > 0 or traits.auto_delete_unused):
            self.unused_since = -1
            return False
        if self.unused_since < 0:
            self.unused_since = self.host.now
        return self.host.now - self.unused_since >= traits.auto_delete_delay

    def close(self) -> None:
        """The queue is being deleted: what one consumer gives back is not for the next one, who goes too."""
        self.backlog.complete()
        self.gate.pause()
        self.deleted = True

    # -- what consumers say -------------------------------------------------------------------------------------------

    def settle(self, consumer: Consumer, number: i64) -> bool:
        """``consumer`` is done with message ``number``; False when it did not have it (a stale acknowledgement)."""
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return len(self.promised) > 0 and self._settle_promised(number)
        message = reference.message
        self.settled += 1
        run = consumer.settlement_run
        if run is not None:
            run.note(facts.ACKNOWLEDGED, number)
        self.returned(consumer, message)
        mirrors = self.stock.host.mirrors
        if mirrors is None:
            self.stock.finish(reference)
        else:
            mirrors.settling = consumer.origin
            self.stock.finish(reference)
            mirrors.settling = 0
        if self.fates.tells & MESSAGE_CONSUMED or message.watched:
            self.fates.consumed(self.place(), message, consumer.key)
        self._reopen(consumer)
        return True

    def _settle_promised(self, number: i64) -> bool:
        """A transaction is committed whose consumer has left."""
        reference = self.promised.pop(number, None)
        if reference is None:
            return False
        self.leased -= 1
        self.settled += 1
        self.note(facts.ACKNOWLEDGED, number, 0, 0)
        self.stock.finish(reference)
        if self.fates.tells & MESSAGE_CONSUMED or reference.message.watched:
            self.fates.consumed(self.place(), reference.message, 0)
        return True

    def release(self, consumer: Consumer, number: int) -> None:
        """A transaction that would have settled message ``number`` is rolled back; dispatch after the last one.

        It stays in flight at ``consumer``, who may settle it otherwise; if that has left, it is delivered again.
        """
        kept = consumer.promised.pop(number, "")
        reference = self.promised.pop(number, None)
        if kept or reference is not None:
            self.returns.attempts += 1
        if reference is not None:
            self.leased -= 1
            self.returns.retry(reference, True)

    def drop_promised(self) -> None:
        """The queue is being deleted: no commit finds these any more."""
        for reference in list(self.promised.values()):
            self.leased -= 1
            self.note(facts.REMOVED, reference.number, 0, facts.QUEUE_DELETED)
            self.stock.finish(reference)
        self.promised.clear()

    def reject(self, consumer: Consumer, number: i64, reason: Reason) -> bool:
        """``consumer`` cannot process message ``number``: dead-letter it now (classic.md 6.3, NACK)."""
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return False
        self.returned(consumer, reference.message)
        self.returns.bury(reference, reason)
        if self.fates.tells & MESSAGE_CONSUMED or reference.message.watched:
            self.fates.consumed(self.place(), reference.message, consumer.key)
        self._reopen(consumer)
        return True

    def give_back(self, consumer: Consumer, number: i64, attempted: bool) -> bool:
        """``consumer`` returns message ``number`` to be delivered again; ``attempted`` counts it as a try."""
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return False
        self.returned(consumer, reference.message)
        if reference.shown:
            self.dispatcher.show_again(consumer, reference, attempted)
        else:
            self.returns.retry(reference, attempted)
        self._reopen(consumer)
        self.dispatcher.dispatch()
        return True

    def hold(self, consumer: Consumer, number: i64) -> Reference | None:
        """Take message ``number`` out of what is in flight at ``consumer``, for a prepared transaction.

        The caller must `Stock.finish`, `Stock.put_back` or `regain` it. None when ``consumer`` does not have it.
        """
        if consumer.promised:
            consumer.promised.pop(int(number), "")
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return self.promised.pop(number, None)  # it was counted as leased when its consumer left
        self.returned(consumer, reference.message)
        self.leased += 1
        self._reopen(consumer)
        return reference

    def regain(self, consumer: Consumer, reference: Reference) -> None:
        """Give ``consumer`` back what `hold` took: in flight, and not delivered again."""
        self.sent(consumer, reference)

    def lease(self, count: i64) -> None:
        """Count ``count`` messages more as leased: out of the backlog, and not in flight."""
        self.leased += count

    def unlease(self, count: i64) -> None:
        """Count ``count`` messages fewer as leased."""
        self.leased -= count

    # -- the last word, and invariants --------------------------------------------------------------------------------

    def note_pending(self) -> None:
        """Note every message that is here, as the last word of a broker that stops."""
        if self.trace is None:
            return
        for reference in self.backlog.references():
            self.note(facts.PENDING, reference.number, 0, 0)
        for paged in self.backlog.paged:
            numbers: list[int] = [] if paged is None else paged.after(0, 1 << 62)
            for number in numbers:
                self.note(facts.PENDING, number, 0, 0)
        for waiting in (self.returns.delayed, self.promised):
            for number in waiting:
                self.note(facts.PENDING, number, 0, 0)
        for consumer in self.roster.consumers:
            for number in consumer.in_flight:
                self.note(facts.PENDING, number, 0, 0)

    def check(self) -> None:
        """Assert the invariants at the head of this module (simulation and debug builds)."""
        self.stock.check()
        assert self.leased >= 0
        in_flight = 0
        for consumer in self.roster.consumers:
            in_flight += len(consumer.in_flight)
            assert consumer.queue is self, f"consumer {consumer.key} does not know its queue {self.name}"
            for number, reference in consumer.in_flight.items():
                assert not reference.linked, f"message {number} is in flight and in the backlog of {self.name}"
        assert len(self.promised) <= self.leased, f"{self.name} keeps more for transactions than it counts as leased"
        assert in_flight == self.in_flight, f"{self.name} counts {self.in_flight} in flight, its consumers {in_flight}"
        assert self.gate.shut == (self.gate.paused or self.gate.held or self.gate.draining)
        assert not self.gate.draining or self.in_flight > 0, f"{self.name} waits for what is in flight, and nothing is"
        if self.gate.shut or self.dispatcher.stepping or self.traits.non_destructive:
            return
        for consumer in self.roster.ready:
            if consumer.window.is_open():
                for reference in self.backlog.references():
                    assert not self.roster.might_take(consumer, reference.message), (
                        f"message {reference.number} waits in {self.name} although consumer {consumer.key} is ready"
                    )


def queue_of(consumer: Consumer) -> Queue | None:
    """Return the queue that ``consumer`` reads; None when it is attached to none."""
    queue = consumer.queue
    return queue if isinstance(queue, Queue) else None
