"""One queue: what is accepted, who gets it, how it is settled, and what happens when a consumer fails. [C]

State: a `Backlog` of what waits, a `Roster` of who reads, what is in flight at each consumer, and what is set aside for a
later time. Only the methods here change it. Invariant (`check`): no consumer that is ready could take a message that
waits in memory; counts add up; what is in flight is not in the backlog.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.backlog import LEVELS, Backlog, Reference
from entrepot.core.consumer import Consumer
from entrepot.core.dispatch import Roster
from entrepot.core.policy import FULL_PAGE, Policy
from entrepot.core.ports import Host
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

RELOAD_BELOW: Final = 512  # references in memory below which a paged queue reads on: half of a usual prefetch
RELOAD_MESSAGES: Final = 1024
RELOAD_OCTETS: Final = 4 * 1024 * 1024  # bodies may be large: stop a read-in here
RELOAD_STEP: Final = 64
SEARCH_STEP: Final = 2_000  # messages that a selective consumer may look through before others have their turn

MOVE_RETRY: Final = 1_000_000_000  # ns between two tries to move a message while the disk is full

UNKNOWN_DELIVERED: Final = -2  # RemoveInfo.lastDeliveredSequenceId: count every message as attempted (classic.md 4.5)
NONE_DELIVERED: Final = -1


class Queue:
    """One queue of one address. ``durable`` queues keep durable messages over a restart."""

    def __init__(self, host: Host, identity: i64, name: str, address: str, policy: Policy) -> None:
        self.host: Host = host
        self.identity: i64 = identity
        self.name: str = name
        self.address: str = address
        self.policy: Policy = policy
        self.routing: int = ANYCAST
        self.durable: bool = True
        self.temporary: bool = False
        self.auto_created: bool = False
        self.filter: Predicate | None = None
        self.filter_origin: i64 = 0  # no-local of a topic subscription: messages of this connection are not routed here
        self.owner: str = ""  # the connection of a temporary queue, the key of a durable subscription
        self.backlog: Backlog = Backlog(policy.prioritized)
        self.roster: Roster = Roster(policy.group_buckets)
        self.roster.strict = policy.strict_order
        self.roster.all_exclusive = policy.exclusive
        self.paused: bool = False
        self.held: bool = policy.consumers_before_dispatch > 0 or policy.delay_before_dispatch > 0
        self.held_until: i64 = 0
        self.used: bool = False  # a consumer or a message was here once: only then may it be deleted by itself
        self.delayed: dict[int, Reference] = {}
        self.leased: i64 = 0
        self.attempts: dict[int, i64] = {}  # paged number -> how often it was delivered before the restart
        self.searching: dict[int, i64] = {}  # consumer key -> last paged number that its selector has seen
        self.accepted: i64 = 0
        self.delivered: i64 = 0
        self.settled: i64 = 0
        self.expired: i64 = 0
        self.dead: i64 = 0
        self.dropped: i64 = 0
        self.requeued: i64 = 0
        self.in_flight: i64 = 0
        self.expiring: i64 = 0  # messages in the backlog that have an expiration: the sweep skips queues without

    # -- what comes in ------------------------------------------------------------------------------------------------

    def accept(self, message: Message) -> None:
        """Take a routed message: straight to a ready consumer, else to the backlog. The journal has it already."""
        self.accepted += 1
        rare = message.rare
        if rare is not None:
            if rare.group:
                self.roster.saw_group()
            if rare.large_id != 0:
                self._accept_large(message)
                return
        if self.roster.ready and not self.paused and not self.held:
            consumer = self.roster.choose(message)
            if consumer is not None:
                self._hand(consumer, message, None)
                return
        self._wait(message)

    def _accept_large(self, message: Message) -> None:
        """Take a message whose body is a blob: a record of the journal must refer to the blob as long as we need it."""
        reference: Reference
        if message.stored and message.durable and self.durable:
            reference = self._reference(message, 0)
        else:
            own = self.host.renumbered(message) if message.stored else message
            self.host.journal.page(own, [int(self.identity)])
            reference = self._reference(own, 0)
            reference.paged = True
        self._put_back(reference)
        self.dispatch()

    def is_full(self) -> bool:
        """Return whether this queue or the broker holds as much in memory as it may."""
        return self.backlog.octets >= self.policy.max_octets or self.host.memory.used >= self.host.memory.limit

    def restore(self, message: Message, deliveries: i64) -> None:
        """Put a message back that was in this queue before: to its place by number, then to whoever is ready."""
        self._put_back(self._reference(message, deliveries))
        self.dispatch()

    def recovered(self, number: i64, priority: i64, expiration: i64, deliveries: i64) -> None:
        """Note at start that message ``number`` waits on disk; numbers come in ascending order."""
        if deliveries > 0:
            self.attempts[int(number)] = deliveries
        level = priority if self.policy.prioritized else 4
        self.backlog.page(level, number)
        if expiration:
            self.expiring += 1
        self.used = True

    def _wait(self, message: Message) -> None:
        """Append ``message`` to the backlog, or page it when memory is full or older ones are paged already."""
        backlog = self.backlog
        if message.expiration:
            self.expiring += 1
        if backlog.paged_count > 0 or self.is_full():
            level = backlog.level_of(message)
            if (backlog.is_paging(level) or self.is_full()) and self._page(message, level):
                return
        reference = self._reference(message, 0)
        backlog.append(reference)
        if not self.roster.simple:
            self._appended(reference)

    def _page(self, message: Message, level: i64) -> bool:
        """Leave ``message`` to the disk; False when there is none (ephemeral) or the policy is not to page."""
        journal = self.host.journal
        if not journal.pages or journal.refusal() is not None or self.policy.full != FULL_PAGE:
            return False
        if not (message.stored and message.durable and self.durable):
            if message.stored:  # another queue's record: ours needs a number of its own
                message = self.host.renumbered(message)
            journal.page(message, [int(self.identity)])
        self.backlog.page(level, message.number)
        return True

    def _reference(self, message: Message, deliveries: i64) -> Reference:
        reference = Reference(message)
        reference.deliveries = deliveries
        self.host.memory.hold(message)
        return reference

    # -- what goes out ------------------------------------------------------------------------------------------------

    def _hand(self, consumer: Consumer, message: Message, reference: Reference | None) -> None:
        """Deliver to ``consumer``, which has credit and wants it. ``reference`` is None for one that never waited."""
        self.delivered += 1
        consumer.delivered += 1
        deliveries: i64 = 0 if reference is None else reference.deliveries
        if self.roster.groups is not None and self.roster.took(consumer, message):
            self._mark_first(message)
        window = consumer.window
        if consumer.tracked:
            if reference is None:
                reference = self._reference(message, 0)
            consumer.in_flight[message.number] = reference
            self.in_flight += 1
            window.used += 1
            window.used_octets += message.size
            consumer.deliver(message, deliveries)
        else:
            consumer.deliver(message, deliveries)
            self.settled += 1
            self._finish(message, reference)
        if consumer.listed and not window.is_open():
            self.roster.unlist(consumer)

    def _mark_first(self, message: Message) -> None:
        """JMSXGroupFirstForConsumer, or the key that the policy names (artemis.md 4.5 group-first-key)."""
        key = self.policy.group_first_key
        if key:
            message.annotate(key, "true")

    def _finish(self, message: Message, reference: Reference | None) -> None:
        """The message is done with in this queue: free its memory and tell the journal."""
        if reference is not None:
            self.host.memory.release(message)
            if reference.paged or (message.stored and message.durable and self.durable):
                self.host.journal.settle(message.number, self.identity)
        elif message.stored and message.durable and self.durable:
            self.host.journal.settle(message.number, self.identity)

    def dispatch(self) -> None:
        """Give what waits to whoever is ready, until one of the two has run out."""
        if self.paused or self.held:
            return
        if self.roster.simple:
            self._dispatch_simply()
        else:
            self._dispatch_with_care()

    def _dispatch_simply(self) -> None:
        backlog = self.backlog
        roster = self.roster
        while roster.ready:
            if backlog.paged_count > 0 and backlog.loaded < RELOAD_BELOW:
                self._reload()
            reference = backlog.first()
            if reference is None:
                break
            if not self._is_live(reference):
                continue
            consumer = roster.choose(reference.message)
            if consumer is None:
                break
            self._remove(reference)
            self._hand(consumer, reference.message, reference)
        if backlog.count == 0 and self.policy.auto_delete:
            self.host.idle(self)

    def _dispatch_with_care(self) -> None:
        """Let each ready consumer look through what it has not seen, highest priority first, in turns."""
        progress = True
        while progress:
            progress = False
            if self.backlog.paged_count > 0 and self.backlog.loaded < RELOAD_BELOW:
                self._reload()
            for consumer in list(self.roster.consumers):
                if consumer.listed and self._scan(consumer):
                    progress = True

    def _scan(self, consumer: Consumer) -> bool:
        """Find and hand over the next message for ``consumer``; False when there is none or it has no credit."""
        if not consumer.window.is_open():
            self.roster.unlist(consumer)
            return False
        backlog = self.backlog
        reference = backlog.first() if consumer.fresh else consumer.cursor
        consumer.fresh = False
        while reference is not None:
            following = backlog.following(reference)
            if self.roster.may_take(consumer, reference.message):
                consumer.cursor = reference
                if not self._is_live(reference):
                    reference = following
                    continue
                self._remove(reference)
                consumer.cursor = following
                self._hand(consumer, reference.message, reference)
                return True
            reference = following
        consumer.cursor = None
        return backlog.paged_count > 0 and self._search(consumer)

    def _search(self, consumer: Consumer) -> bool:
        """Look through the messages on disk for one that ``consumer`` wants, a bounded step at a time."""
        seen = self.searching.get(int(consumer.key), 0)
        level = LEVELS - 1
        examined = 0
        while level >= 0:
            paged = self.backlog.paged[level]
            numbers: list[int] = [] if paged is None else paged.after(seen, SEARCH_STEP)
            for message in self.host.journal.load_range(numbers):
                examined += 1
                if self.roster.may_take(consumer, message):
                    self.searching[int(consumer.key)] = message.number
                    assert paged is not None
                    self.backlog.paged_count -= paged.discard({int(message.number): True})
                    reference = self._reference(message, self.attempts.pop(int(message.number), 0))
                    reference.paged = True
                    self._hand(consumer, message, reference)
                    return True
            if numbers:
                self.searching[int(consumer.key)] = numbers[-1]
                self.host.later(self)
                return False
            level -= 1
        return False

    def resume_work(self) -> None:
        """Go on with a search that `Host.later` was asked to bring back."""
        self.dispatch()

    def _reload(self) -> None:
        """Read the next paged messages of the highest level into memory."""
        backlog = self.backlog
        level: i64 = LEVELS - 1
        while level >= 0:
            if backlog.is_paging(level):
                waiting = backlog.waiting(level)
                if waiting is None or waiting.count < RELOAD_BELOW:
                    self._reload_level(level)
                if backlog.loaded >= RELOAD_BELOW:
                    return
            level -= 1

    def _reload_level(self, level: i64) -> None:
        journal = self.host.journal
        octets: i64 = 0
        loaded: i64 = 0
        while loaded < RELOAD_MESSAGES and octets < RELOAD_OCTETS:
            numbers = self.backlog.take_paged(level, RELOAD_STEP)
            if not numbers:
                return
            for message in journal.load_range(numbers):
                reference = self._reference(message, self.attempts.pop(int(message.number), 0))
                reference.paged = True
                self.backlog.restore(reference)
                if not self.roster.simple:
                    self._appended(reference)
                octets += message.size
                loaded += 1
                rare = message.rare
                if rare is not None and rare.group:
                    self.roster.saw_group()

    def _is_live(self, reference: Reference) -> bool:
        """Return whether ``reference`` may be delivered now; one whose time is over leaves for its expiry address."""
        message = reference.message
        if message.expiration == 0 or message.expiration > self.host.wall:
            return True
        self._remove(reference)
        self._expire(reference)
        return False

    def _expire(self, reference: Reference) -> None:
        if self._cannot_move(reference):
            return
        self.expired += 1
        self.host.journal.begin()
        self.host.expire(self, reference.message)
        self._finish(reference.message, reference)
        self.host.journal.end()

    def _cannot_move(self, reference: Reference) -> bool:
        """While the journal takes no records, what should leave for another queue is set aside and tried again."""
        if self.host.journal.refusal() is None:
            return False
        reference.due = self.host.now + MOVE_RETRY
        self.delayed[int(reference.number)] = reference
        self.host.delay(self, reference)
        return True

    # -- what consumers do --------------------------------------------------------------------------------------------

    def attach(self, consumer: Consumer) -> None:
        """Add a reader. It is served as soon as it has credit and the queue is not held."""
        consumer.queue = self
        consumer.fresh = True
        consumer.opened_at = self.host.now
        consumer.settled_at = self.host.now
        self.used = True
        roster = self.roster
        roster.add(consumer)
        if self.policy.group_rebalance and roster.groups is not None:
            roster.groups.reset()
            self._rescan()
        if self.held:
            self._release_hold()
        self.opened(consumer)

    def opened(self, consumer: Consumer) -> None:
        """``consumer`` may take messages again: give it what waits."""
        if consumer.listed or not consumer.window.is_open():
            return
        self.roster.list(consumer)
        if self.backlog.loaded > 0 or self.backlog.paged_count > 0:
            self.dispatch()

    def settle(self, consumer: Consumer, number: i64) -> bool:
        """``consumer`` is done with message ``number``; False when it did not have it (a stale acknowledgement)."""
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return False
        message = reference.message
        self.settled += 1
        self._returned(consumer, message)
        self._finish(message, reference)
        self._reopen(consumer)
        return True

    def reject(self, consumer: Consumer, number: i64, reason: str) -> bool:
        """``consumer`` cannot process message ``number``: dead-letter it now (classic.md 6.3, NACK)."""
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return False
        self._returned(consumer, reference.message)
        self._bury(reference, reason)
        self._reopen(consumer)
        return True

    def give_back(self, consumer: Consumer, number: i64, attempted: bool) -> bool:
        """``consumer`` returns message ``number`` to be delivered again; ``attempted`` counts it as a try."""
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return False
        self._returned(consumer, reference.message)
        self._retry(reference, attempted)
        self._reopen(consumer)
        self.dispatch()
        return True

    def detach(self, consumer: Consumer, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Remove a reader; what it had not settled goes back in order, and to others.

        ``last_delivered``: messages up to this number count as attempted; -2 all of them, -1 none (classic.md 4.5).
        """
        self.roster.remove(consumer)
        self.searching.pop(int(consumer.key), None)
        returned = list(consumer.in_flight.values())
        consumer.in_flight.clear()
        for reference in returned:
            self._returned(consumer, reference.message)
            attempted = last_delivered == UNKNOWN_DELIVERED or reference.number <= last_delivered
            self._retry(reference, attempted)
        consumer.queue = None
        if consumer in consumer.window.consumers:
            consumer.window.consumers.remove(consumer)
        self._rescan()
        if not self.roster.consumers:
            self._deserted()
        else:
            self.dispatch()

    def _deserted(self) -> None:
        policy = self.policy
        self.held = policy.consumers_before_dispatch > 0 or policy.delay_before_dispatch > 0
        self.held_until = 0
        self.host.idle(self)

    def _returned(self, consumer: Consumer, message: Message) -> None:
        self.in_flight -= 1
        consumer.settled_at = self.host.now
        window = consumer.window
        window.used -= 1
        window.used_octets -= message.size

    def _reopen(self, consumer: Consumer) -> None:
        window = consumer.window
        if len(window.consumers) > 1:
            window.reopen()
        elif not consumer.listed:
            self.opened(consumer)

    def _retry(self, reference: Reference, attempted: bool) -> None:
        """Put ``reference`` back: at once, after its redelivery delay, or to the dead letters when tried too often."""
        policy = self.policy
        self.requeued += 1
        if attempted:
            reference.deliveries += 1
            message = reference.message
            if reference.paged or (message.stored and message.durable and self.durable):
                self.host.journal.redelivered(message.number, self.identity, reference.deliveries)
            if 0 <= policy.max_deliveries <= reference.deliveries:
                self._bury(reference, f"delivered {reference.deliveries} times without acknowledgement")
                return
            delay = policy.delay_after(int(reference.deliveries))
            if delay > 0:
                reference.due = self.host.now + delay
                self.delayed[int(reference.number)] = reference
                self.host.delay(self, reference)
                return
        self._put_back(reference)

    def due(self, reference: Reference) -> None:
        """The redelivery delay of ``reference`` is over."""
        if self.delayed.pop(int(reference.number), None) is not None:
            self._put_back(reference)
            self.dispatch()

    def _bury(self, reference: Reference, reason: str) -> None:
        if self._cannot_move(reference):
            return
        self.dead += 1
        self.host.journal.begin()
        self.host.dead_letter(self, reference.message, reason, reference.deliveries)
        self._finish(reference.message, reference)
        self.host.journal.end()

    def _put_back(self, reference: Reference) -> None:
        if reference.message.expiration:
            self.expiring += 1
        self.backlog.restore(reference)
        self._rescan()

    def _remove(self, reference: Reference) -> None:
        """Take ``reference`` out of the backlog; cursors that stand on it step on."""
        if reference.message.expiration:
            self.expiring -= 1
        if not self.roster.simple:
            for consumer in self.roster.consumers:
                if consumer.cursor is reference:
                    consumer.cursor = self.backlog.following(reference)
        self.backlog.remove(reference)

    def _appended(self, reference: Reference) -> None:
        """Let consumers that have seen everything look at ``reference`` when they come back."""
        for consumer in self.roster.consumers:
            if consumer.cursor is None:
                if self.backlog.levels is not None:
                    consumer.fresh = True
                else:
                    consumer.cursor = reference
            elif self.backlog.levels is not None:
                consumer.fresh = True

    def _rescan(self) -> None:
        """Somebody's right to a waiting message may have changed: every consumer looks from the head again."""
        self.searching.clear()
        for consumer in self.roster.consumers:
            consumer.fresh = True
            consumer.cursor = None

    # -- holding back -------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop delivery; sends are accepted."""
        self.paused = True

    def resume(self) -> None:
        """Deliver again."""
        self.paused = False
        self._rescan()
        self.dispatch()

    def _release_hold(self) -> None:
        """consumersBeforeDispatchStarts / timeBeforeDispatchStarts (classic.md 4.3, step 7; artemis.md 4.5)."""
        policy = self.policy
        enough = len(self.roster.consumers) >= policy.consumers_before_dispatch > 0
        waited = self.held_until != 0 and self.host.now >= self.held_until
        if enough or waited:
            self.held = False
            self._rescan()
            self.dispatch()
        elif self.held_until == 0 and policy.delay_before_dispatch > 0:
            self.held_until = self.host.now + policy.delay_before_dispatch

    def advance(self) -> None:
        """Let go of a hold whose time is over."""
        if self.held and self.held_until:
            self._release_hold()

    def close_group(self, group: str) -> None:
        """Forget who owns ``group``; '' forgets all owners."""
        groups = self.roster.groups
        if groups is not None:
            if group:
                groups.close(group)
            else:
                groups.reset()
            self._rescan()
            self.dispatch()

    # -- what operators do --------------------------------------------------------------------------------------------

    @property
    def count(self) -> i64:
        """Messages in the queue: waiting, delayed, in flight and leased."""
        return self.backlog.count + self.in_flight + len(self.delayed) + self.leased

    def sweep(self, most: i64) -> i64:
        """Expire up to ``most`` messages whose time is over, from the backlog in memory; return how many."""
        if self.expiring <= 0:
            return 0
        gone: i64 = 0
        reference = self.backlog.first()
        while reference is not None and gone < most:
            following = self.backlog.following(reference)
            if not self._is_live(reference):
                gone += 1
            reference = following
        if self.backlog.loaded == 0 and self.backlog.paged_count > 0:
            self._reload()
        return gone

    def take(self, most: i64, selector: Predicate | None) -> list[Reference]:
        """Take up to ``most`` waiting messages out, in order, for a move, a lease or a retry.

        The caller must `finish` or `put_back` each. Messages on disk are looked through without staying in memory.
        """
        taken: list[Reference] = []
        reference = self.backlog.first()
        while reference is not None and len(taken) < most:
            following = self.backlog.following(reference)
            if self._is_live(reference) and (selector is None or selector.matches(reference.message)):
                self._remove(reference)
                taken.append(reference)
            reference = following
        level: i64 = LEVELS - 1
        while level >= 0 and len(taken) < most:
            self._take_paged(level, most, selector, taken)
            level -= 1
        return taken

    def _take_paged(self, level: i64, most: i64, selector: Predicate | None, taken: list[Reference]) -> None:
        paged = self.backlog.paged[level]
        if paged is None:
            return
        journal = self.host.journal
        seen: i64 = 0
        while len(taken) < most:
            numbers = paged.after(seen, min(RELOAD_STEP, most - len(taken)))
            if not numbers:
                return
            seen = numbers[-1]
            found: dict[int, bool] = {}
            for message in journal.load_range(numbers):
                if selector is None or selector.matches(message):
                    reference = self._reference(message, self.attempts.pop(int(message.number), 0))
                    reference.paged = True
                    if message.expiration:
                        self.expiring -= 1
                    found[int(message.number)] = True
                    taken.append(reference)
            self.backlog.paged_count -= paged.discard(found)

    def finish(self, reference: Reference) -> None:
        """Done with a reference from `take`."""
        self._finish(reference.message, reference)
        if self.backlog.count == 0 and self.policy.auto_delete:
            self.host.idle(self)

    def put_back(self, reference: Reference) -> None:
        """Return a reference from `take` to its place."""
        self._put_back(reference)
        self.dispatch()

    def purge(self) -> i64:
        """Remove every message that waits; in flight and leased ones stay with their readers. Return how many went."""
        gone: i64 = 0
        for reference in self.backlog.references():
            self._remove(reference)
            self._finish(reference.message, reference)
            gone += 1
        level: i64 = 0
        while level < LEVELS:
            numbers = self.backlog.take_paged(level, RELOAD_MESSAGES)
            for number in numbers:
                self.host.journal.settle(number, self.identity)
                gone += 1
            if not numbers:
                level += 1
        self.expiring = 0
        for reference in list(self.delayed.values()):
            del self.delayed[int(reference.number)]
            self._finish(reference.message, reference)
            gone += 1
        return gone

    def check(self) -> None:
        """Assert the invariants at the head of this module (simulation and debug builds)."""
        self.backlog.check()
        in_flight = 0
        for consumer in self.roster.consumers:
            in_flight += len(consumer.in_flight)
            assert consumer.queue is self, f"consumer {consumer.key} does not know its queue {self.name}"
            for number, reference in consumer.in_flight.items():
                assert not reference.linked, f"message {number} is in flight and in the backlog of {self.name}"
        assert in_flight == self.in_flight, f"{self.name} counts {self.in_flight} in flight, its consumers {in_flight}"
        if self.paused or self.held:
            return
        for consumer in self.roster.ready:
            if consumer.window.is_open():
                for reference in self.backlog.references():
                    assert not self.roster.may_take(consumer, reference.message), (
                        f"message {reference.number} waits in {self.name} although consumer {consumer.key} is ready for it"
                    )
