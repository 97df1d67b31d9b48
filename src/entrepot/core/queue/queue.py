"""One queue: what is accepted, who gets it, how it is settled, and what happens when a consumer fails. [C]

State: a `Backlog` of what waits, a `Roster` of who reads, what is in flight at each consumer, and what is set aside
for a later time. Only the methods here change it. Invariant (`check`): no consumer that is ready could take a message
that waits in memory; counts add up; what is in flight is not in the backlog.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import UNLIMITED
from entrepot.base.reasons import BODY_LOST, Reason, tries_used_up
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policy
from entrepot.core.effort import OCTETS_SHIFT, Effort
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import (
    MESSAGE_CONSUMED,
    MESSAGE_DISCARDED,
    MESSAGE_DISPATCHED,
    MESSAGE_REDELIVERED,
    Place,
)
from entrepot.core.events.fates import Fates
from entrepot.core.events.trace import Run, Trace
from entrepot.core.ports import ArrivalWatcher, Host
from entrepot.core.queue.backlog import LEVELS, Backlog, Paged, Reference
from entrepot.core.queue.bereaved import load_or_stand_in, record_flaw, without_body
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.dispatch import Roster
from entrepot.core.queue.walk import Found, Walk
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

RELOAD_BELOW: Final = 512  # references in memory below which a paged queue reads on: half of a usual prefetch
RELOAD_MESSAGES: Final = 1024
RELOAD_OCTETS: Final = 4 * 1024 * 1024  # bodies may be large: stop a read-in here, and read on below half of it
RELOAD_STEP: Final = 256
SEARCH_STEP: Final = 2_000  # messages that a selective consumer may look through before others have their turn
EXPIRED_LOOKS: Final = 4  # one message that expires is as much work as looking at so many: it may become a dead letter
TAKE_OCTETS: Final = 16 * 1024 * 1024  # bodies that one `take` may hold at a time
COPY_OCTETS: Final = 1 << OCTETS_SHIFT  # what a delivery copies counts from here on
LOAD_UNITS: Final = 2  # of `core/effort.py`: to read a message from disk, one of many
PAGE_UNITS: Final = 4  # and to write a record of its own for it
SWEEP_LOOKS: Final = 2_000  # messages that one sweep looks at: 0.1 ms compiled

HOLD_DEFAULT: Final = 1_000_000_000  # ns that a queue waits for its consumers when the policy gives 0 (classic.md 4.3)
ADVISORY: Final = "ActiveMQ.Advisory."  # not traced: advisories are about messages, and nobody misses one
MOVE_RETRY: Final = 1_000_000_000  # ns between two tries to move a message while the disk is full

# What a reader that leaves had been delivered of what it holds; a number >= 0 is the last that it saw (classic.md 4.5)
UNKNOWN_DELIVERED: Final = -2  # it does not say: count every message as attempted
NONE_DELIVERED: Final = -1
MAYBE_DELIVERED: Final = -3  # we sent it away: every message is marked, and none counted, for nobody failed

SEARCHED: Final = 0  # what a search on disk comes to: nothing there
FOUND: Final = 1
INTERRUPTED: Final = 2  # the rest after others had their turn


class Search:
    """How far a selective consumer has looked through what waits on disk: the last number seen of each level."""

    def __init__(self) -> None:
        self.seen: list[int] = [0] * LEVELS


class _Retry(Alarm):
    """Brings a reference back at its due time."""

    def __init__(self, queue: Queue, reference: Reference) -> None:
        super().__init__(int(reference.due))
        self.queue = queue
        self.reference = reference

    def ring(self, now: int) -> None:
        self.queue.due(self.reference)


class _Work(Alarm):
    """Lets a queue look at its hold, and go on with a long search after others had their turn."""

    def __init__(self, due: int, queue: Queue) -> None:
        super().__init__(due)
        self.queue = queue

    def ring(self, now: int) -> None:
        self.queue.host.working.pop(int(self.queue.identity), None)
        self.queue.advance()
        self.queue.resume_work()


class Queue:
    """One queue of one address. ``durable`` queues keep durable messages over a restart."""

    def __init__(
        self, host: Host, identity: i64, definition: QueueDefinition, policy: Policy, condition: Predicate | None
    ) -> None:
        """``condition``: the selector of ``definition``, or what stands for one that cannot be written."""
        self.host: Host = host
        self.effort: Effort = host.effort
        self.identity: i64 = identity
        self.definition: Final = definition
        self.name: str = definition.name
        self.address: str = definition.address
        self.policy: Policy = policy
        self.fates: Fates = Fates(host.hub, policy)
        self.trace: Trace | None = None if definition.address.startswith(ADVISORY) else host.trace
        self.arrivals: Run | None = None if self.trace is None else self.trace.arrivals(identity)
        self.routing: int = definition.routing
        self.durable: bool = definition.durable
        self.temporary: bool = definition.temporary
        self.filter: Predicate | None = condition
        self.filter_origin: i64 = 0  # no-local of a topic subscription: messages of this connection are not routed here
        self.backlog: Backlog = Backlog(policy.prioritized)
        self.roster: Roster = Roster(policy.group_buckets)
        self.roster.strict = policy.strict_order
        self.roster.all_exclusive = policy.exclusive
        self.paused: bool = False
        self.held: bool = policy.consumers_before_dispatch > 0 or policy.delay_before_dispatch > 0 or host.ceased
        self.held_until: i64 = 0
        self.deleted: bool = False  # it is being deleted: what goes, goes with it
        self.unused_since: i64 = -1  # ns; -1: it is in use, or was not looked at since
        self.watcher: ArrivalWatcher | None = None  # where somebody waits for a message to claim
        self.used: bool = False  # a consumer or a message was here once: only then may it be deleted by itself
        self.delayed: dict[int, Reference] = {}
        self.leased: i64 = 0
        self.promised: dict[int, Reference] = {}  # kept for a transaction whose consumer has left: counted as leased
        self.attempts: dict[int, i64] = {}  # paged number -> how often it was delivered before the restart
        self.searching: dict[int, Search] = {}  # consumer key -> what its selector has seen on disk
        self.doomed: dict[int, Reason] = {}  # set aside until the disk takes it as a dead letter: by number
        self.stepping: bool = False  # a pass over what waits is not over: `resume_work` goes on with it
        self.swept: Reference | None = None  # where the last sweep for expired messages ended
        self.pending_limit: i64 = -1  # a topic subscriber's: what waits beyond it is discarded, the oldest first
        self.began: i64 = -1  # the number of the last message before it was made; -1: it is from before that was kept
        self.accepted: i64 = 0
        self.delivered: i64 = 0
        self.settled: i64 = 0
        self.expired: i64 = 0
        self.dead: i64 = 0
        self.requeued: i64 = 0
        self.in_flight: i64 = 0
        self.expiring: i64 = 0  # messages in the backlog that have an expiration: the sweep skips queues without

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
        if rare is not None:
            if rare.group:
                self.roster.saw_group()
            if rare.large_id != 0:
                self._accept_large(message)
                return
        if self.roster.ready and not self.paused and not self.held:
            if self.backlog.paged_count > 0 or self.stepping:  # a search goes on: nothing may overtake it
                self._wait(message)
                self.dispatch()
                return
            consumer = self.roster.choose(message)
            if consumer is not None:
                self._hand(consumer, message, None)
                if rare is not None and self.roster.changed:
                    self.dispatch()
                return
        self._wait(message)

    def _accept_large(self, message: Message) -> None:
        """Take a message whose body is a blob: somebody must hold the blob as long as we need it.

        That is a record of the journal, or, without a disk, the reference itself (`_finish` lets go of it).
        """
        own = message
        journal = self.host.journal
        kept = message.stored and message.durable and self.durable
        if not kept and journal.pages:
            if message.stored:
                own = self._renumbered(message)
            journal.page(own, [int(self.identity)])
        if own.expiration:
            self.expiring += 1
        level = self.backlog.level_of(own)
        if self.backlog.is_paging(level):  # it is on disk already, and may not overtake
            self.backlog.page(level, own.number)
        else:
            reference = self._reference(own, 0)
            reference.paged = not kept
            if not journal.pages:
                journal.overflow.hold(own.need_rare().large_id)
            self.backlog.restore(reference)
            if not self.roster.simple:
                self._appended(reference)
        self._announce()
        self.dispatch()

    def is_full(self) -> bool:
        """Return whether this queue or the broker holds as much in memory as it may."""
        return self.backlog.octets >= self.policy.max_octets or self.host.memory.used >= self.host.memory.limit

    def recovered(self, number: i64, priority: i64, expiration: i64, deliveries: i64) -> None:
        """Note at start that message ``number`` waits on disk; numbers come in ascending order."""
        if deliveries > 0:
            self.attempts[int(number)] = deliveries
        self.note(facts.RECOVERED, number, 0, 0)
        level = priority if self.policy.prioritized else 4
        self.backlog.page(level, number)
        if expiration:
            self.expiring += 1
        self.used = True

    def _wait(self, message: Message) -> None:
        """Append ``message`` to the backlog, or page it when memory is full or older ones are paged already."""
        if self.watcher is not None:
            self._announce()
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

    def _announce(self) -> None:
        """Tell whoever waits to claim that there is something to look at."""
        watcher = self.watcher
        if watcher is not None:
            watcher.arrived()

    def _page(self, message: Message, level: i64) -> bool:
        """Leave ``message`` to the disk; False when there is none (ephemeral), or it is full."""
        journal = self.host.journal
        if not journal.pages:
            return False
        if not (message.stored and message.durable and self.durable):
            if journal.refusal() is not None or journal.space.temp_full():
                return False
            if message.stored:  # another queue's record: ours needs a number of its own
                message = self._renumbered(message)
            journal.page(message, [int(self.identity)])
            self.effort.spent += PAGE_UNITS
        self.backlog.page(level, message.number)
        return True

    def watch(self, watcher: ArrivalWatcher | None) -> None:
        """Tell ``watcher`` from now on when there is something to claim; None: tell nobody."""
        self.watcher = watcher

    def trim(self) -> i64:
        """Discard the oldest beyond `pending_limit` (classic.md 4.7); return how many."""
        gone: i64 = 0
        while self.backlog.count > self.pending_limit:
            reference = self.backlog.first()
            if reference is None or (self.backlog.paged_count > 0 and self.backlog.is_starved(0, 0)):
                if not self._reload():
                    return gone
                continue
            self._remove(reference)
            self.note(facts.REMOVED, reference.number, 0, facts.OVERFLOWED)
            self._finish(reference.message, reference)
            self.drop(reference.message)
            gone += 1
        return gone

    def _reference(self, message: Message, deliveries: i64) -> Reference:
        reference = Reference(message)
        reference.deliveries = deliveries
        self.host.memory.hold(message)
        return reference

    # -- what goes out ------------------------------------------------------------------------------------------------

    def _hand(self, consumer: Consumer, message: Message, reference: Reference | None) -> None:
        """Deliver to ``consumer``, which has credit and wants it. ``reference`` is None for one that never waited."""
        self.delivered += 1
        octets: i64 = len(message.raw)
        if octets >= COPY_OCTETS:
            self.effort.spent += octets >> OCTETS_SHIFT
        consumer.delivered += 1
        deliveries: i64 = 0 if reference is None else reference.deliveries
        run = consumer.delivery_run
        if run is not None:
            kind: i64 = facts.DELIVERED if consumer.tracked else facts.DELIVERED | (facts.SETTLED << 8)
            run.note(kind | (min(deliveries, facts.DETAIL_MAX) << 16), message.number)
        grouped = self.roster.groups is not None and message.rare is not None
        if grouped:
            grouped = self._enter_group(consumer, message)
        window = consumer.window
        if consumer.tracked:
            if reference is None:
                reference = self._reference(message, 0)
            if not consumer.in_flight:
                consumer.settled_at = self.host.now  # it had nothing to settle: its time begins now
            consumer.in_flight[message.number] = reference
            self.in_flight += 1
            window.used += 1
            window.used_octets += message.size
            if self.policy.mark_delivered and deliveries == 0:
                self._mark(message, reference)
            consumer.deliver(message, deliveries)
        else:
            consumer.deliver(message, deliveries)
            self.settled += 1
            self._finish(message, reference)
            if self.fates.tells & MESSAGE_CONSUMED:
                self.fates.consumed(self.place(), message, consumer.key)
        if self.fates.tells & MESSAGE_DISPATCHED:
            self.fates.dispatched(self.place(), message, consumer.key, deliveries)
        if grouped:
            message.need_rare().annotations.pop(self.policy.group_first_key, None)
        if consumer.listed and not window.is_open():
            self.roster.unlist(consumer)

    def _enter_group(self, consumer: Consumer, message: Message) -> bool:
        """Note the owner of the group; True when ``message`` is marked as its first there, for this delivery only.

        JMSXGroupFirstForConsumer (classic.md 4.4), or the key that the policy names (artemis.md 4.5 group-first-key).
        """
        first = self.roster.took(consumer, message)
        if self.roster.changed:
            self._rescan()
        key = self.policy.group_first_key
        if not first or not key:
            return False
        message.annotate(key, "true")
        return True

    def _finish(self, message: Message, reference: Reference | None) -> None:
        """The message is done with in this queue: free its memory and tell the journal."""
        if reference is not None:
            self.host.memory.release(message)
            if reference.paged or (message.stored and message.durable and self.durable):
                self.host.journal.settle(message.number, self.identity)
                if reference.paged and not self.host.journal.pages:  # a large body that lives in memory
                    self.host.journal.overflow.release(message.need_rare().large_id)
        elif message.stored and message.durable and self.durable:
            self.host.journal.settle(message.number, self.identity)

    def dispatch(self) -> None:
        """Give what waits to whoever is ready, until one of the two has run out, or this turn has done enough."""
        if self.paused or self.held or self.stepping:
            return
        if self.roster.simple:
            self._dispatch_simply()
        else:
            self._dispatch_with_care()

    def _dispatch_simply(self) -> None:
        backlog = self.backlog
        roster = self.roster
        gone: i64 = 0
        while roster.ready:
            if backlog.paged_count > 0 and backlog.is_starved(RELOAD_BELOW, RELOAD_OCTETS // 2):
                self._reload()
            reference = backlog.first()
            if reference is None:
                break
            if not self._is_live(reference):
                gone += 1
                if gone > self.effort.stride // EXPIRED_LOOKS:
                    self._step_later()
                    break
                continue
            consumer = roster.choose(reference.message)
            if consumer is None:
                break
            self._remove(reference)
            self.effort.spent += 1
            self._hand(consumer, reference.message, reference)

    def _dispatch_with_care(self) -> None:
        """Let ready consumers look through what they have not seen: the highest priority first, equals in turn."""
        consumers = list(self.roster.consumers)
        at = 0
        while at < len(consumers):
            last = at + 1
            while last < len(consumers) and consumers[last].priority == consumers[at].priority:
                last += 1
            self._serve(consumers, at, last)
            if self.stepping:
                return  # from the first again: they have not seen what the others may have
            at = last
            if self.roster.changed:  # a group lost its owner: it may be the turn of the first ones again
                self.roster.changed = False
                at = 0

    def _serve(self, consumers: list[Consumer], at: int, last: int) -> None:
        """Give ``consumers[at:last]``, of one priority, a message each until none of them finds another."""
        progress = True
        while progress:
            progress = False
            if self.backlog.paged_count > 0 and self.backlog.is_starved(RELOAD_BELOW, RELOAD_OCTETS // 2):
                self._reload()
            turn = at
            while turn < last:
                consumer = consumers[turn]
                if consumer.listed and self._scan(consumer):
                    progress = True
                    if self.roster.strict:
                        break
                if self.stepping:
                    return
                turn += 1

    def _scan(self, consumer: Consumer) -> bool:
        """Find and hand over the next message for ``consumer``; False when there is none or it has no credit.

        A long search ends in the middle, ``stepping``, and goes on from there in a later turn.
        """
        if not consumer.window.is_open():
            self.roster.unlist(consumer)
            return False
        backlog = self.backlog
        reference = backlog.first() if consumer.fresh else consumer.cursor
        consumer.fresh = False
        # priorities 9 to 0 (classic.md 4.3): what is on disk goes before what is in memory of a lower level
        ranked = backlog.paged_count > 0 and backlog.levels is not None
        level: i64 = LEVELS
        looks: i64 = 0
        while reference is not None:
            looks += 1
            if looks > self.effort.stride:
                self.effort.spent += looks
                consumer.cursor = reference
                self._step_later()
                return False
            if ranked and backlog.level_of(reference.message) < level:
                level = backlog.level_of(reference.message)
                consumer.cursor = reference
                found = self._search(consumer, level)
                if found != SEARCHED:
                    return found == FOUND
            following = backlog.following(reference)
            if self.roster.may_take(consumer, reference.message):
                consumer.cursor = reference
                if not self._is_live(reference):
                    looks += EXPIRED_LOOKS
                    reference = following
                    continue
                self._remove(reference)
                consumer.cursor = following
                self.effort.spent += 1 + (looks >> 1)
                self._hand(consumer, reference.message, reference)
                return True
            reference = following
        consumer.cursor = None
        return backlog.paged_count > 0 and self._search(consumer, -1) == FOUND

    def _search(self, consumer: Consumer, floor: i64) -> i64:
        """Look through the messages on disk above level ``floor`` for those that ``consumer`` wants.

        FOUND: it was given some. SEARCHED: there is none. INTERRUPTED: the bounded step is over, `resume_work` goes on.
        """
        search = self.searching.get(int(consumer.key))
        if search is None:
            search = Search()
            self.searching[int(consumer.key)] = search
        delivered = consumer.delivered
        examined = 0
        level = LEVELS - 1
        while level > floor and consumer.window.is_open():
            paged = self.backlog.behind(level)
            numbers: list[int] = [] if paged is None else paged.after(search.seen[level], RELOAD_STEP)
            if not numbers:
                level -= 1
                continue
            if examined >= SEARCH_STEP:
                self._work_later()
                return FOUND if consumer.delivered > delivered else INTERRUPTED
            examined += self._search_among(consumer, search, level, numbers)
        return FOUND if consumer.delivered > delivered else SEARCHED

    def _search_among(self, consumer: Consumer, search: Search, level: i64, numbers: list[int]) -> int:
        """Hand ``consumer`` those of ``numbers`` that it may take, until its credit ends; return how many it saw."""
        taken: list[Reference] = []
        examined = 0
        for message in self._load(numbers):
            if self._is_over(message) or self._flaw(message) or self.roster.may_take(consumer, message):
                taken.append(self._read_in(message))
            search.seen[level] = int(message.number)
            examined += 1
            window = consumer.window
            if window.used + len(taken) >= window.messages or window.octets < UNLIMITED:
                break
        self._strike(level, [int(reference.number) for reference in taken])
        for reference in taken:
            message = reference.message
            if message.expiration:
                self.expiring -= 1
            flaw = self._flaw(message)
            if self._is_over(message):
                self._expire(reference)
            elif flaw:
                self._doom(reference, flaw)
            elif consumer.window.is_open() and self.roster.may_take(consumer, message):
                self._hand(consumer, message, reference)
            else:  # its socket or its group was lost to an earlier one
                self._put_back(reference)
        return examined

    def _load(self, numbers: list[int]) -> list[Message]:
        """Return the first of ``numbers`` from disk, as many as make up about RELOAD_OCTETS."""
        found: list[Message] = []
        octets: i64 = 0
        step = 4  # read little until it is known how large they are
        at = 0
        while at < len(numbers) and octets < RELOAD_OCTETS:
            part = numbers[at : at + step]
            for message in load_or_stand_in(self.host.journal, part):
                octets += message.size
                found.append(message)
                self.effort.spent += LOAD_UNITS
            at += len(part)
            step = min(step * 2, RELOAD_STEP) if octets < RELOAD_OCTETS // 4 else 4
        return found

    def _read_in(self, message: Message) -> Reference:
        """Return the reference of a message that was read back from disk."""
        reference = self._reference(message, 0)
        if self.attempts:
            reference.deliveries = self.attempts.pop(int(message.number), 0)
        reference.paged = True
        return reference

    def _is_over(self, message: Message) -> bool:
        return message.expiration != 0 and message.expiration <= self.host.wall

    def resume_work(self) -> None:
        """Go on with a search that was not over when its turn was."""
        self.stepping = False
        self.dispatch()

    def _step_later(self) -> None:
        """Go on with what waits in memory after others had their turn; what comes meanwhile waits behind it."""
        self.stepping = True
        self._work_later()

    def _work_later(self) -> None:
        """Have `resume_work` called in the next turn."""
        host = self.host
        if int(self.identity) not in host.working:
            host.working[int(self.identity)] = True
            host.timetable.add(_Work(int(host.now), self))

    def _reload(self) -> bool:
        """Read the next messages of the highest level that has some on disk into memory; False when there are none."""
        backlog = self.backlog
        level: i64 = LEVELS - 1
        while level >= 0:
            paged = backlog.behind(level)
            if paged is not None:
                read = self._load(paged.after(0, RELOAD_MESSAGES))
                backlog.take_paged(level, len(read))
                for message in read:
                    reference = self._read_in(message)
                    backlog.restore(reference)
                    if not self.roster.simple:
                        self._revisit(reference)  # a lease that was released can put older ones behind a cursor
                    rare = message.rare
                    if rare is not None and rare.group:
                        self.roster.saw_group()
                return len(read) > 0
            level -= 1
        return False

    def _is_live(self, reference: Reference) -> bool:
        """Return whether ``reference`` may be delivered now; one whose time is over leaves for its expiry address."""
        message = reference.message
        if message.expiration == 0 and message.rare is None:
            return True
        if self._is_over(message):
            self._remove(reference)
            self._expire(reference)
            return False
        flaw = self._flaw(message)
        if flaw:
            self._remove(reference)
            self._doom(reference, flaw)
            return False
        return True

    def _flaw(self, message: Message) -> str:
        """Return why the large body of ``message``, or its record, is known to be lost; "" for all others."""
        rare = message.rare
        if rare is None:
            return ""
        return record_flaw(message) if rare.large_id == 0 else self.host.journal.overflow.flaw(message)

    def _doom(self, reference: Reference, flaw: str) -> None:
        """Make ``reference``, which waits no longer, a dead letter as soon as nothing else is being done here."""
        number = int(reference.number)
        self.doomed[number] = Reason(BODY_LOST, flaw)
        self._delay(reference, self.host.now)

    def bereaved(self, message: Message) -> None:
        """A consumer that acknowledges nothing had a part of ``message`` when its body was found damaged."""
        flaw = self._flaw(message)
        if flaw:
            self._doom(self._reference(without_body(message, flaw), 1), flaw)

    def _expire(self, reference: Reference) -> None:
        if self._cannot_move(reference):
            return
        self.expired += 1
        self.note(facts.EXPIRED, reference.number, 0, 0)
        self.host.journal.begin()
        try:
            self.host.expire(self, reference.message)
            self._finish(reference.message, reference)
        finally:
            self.host.journal.end()

    def _cannot_move(self, reference: Reference) -> bool:
        """While the journal takes no records, what should leave for another queue is set aside and tried again."""
        if self.host.journal.refusal() is None:
            return False
        self._delay(reference, self.host.now + MOVE_RETRY)
        return True

    def _delay(self, reference: Reference, due: i64) -> None:
        """Set ``reference``, which waits no longer, aside until ``due`` (ns)."""
        host = self.host
        reference.due = due
        self.delayed[int(reference.number)] = reference
        host.timetable.add(_Retry(self, reference))
        host.fraction = host.entropy.fraction()

    # -- what consumers do --------------------------------------------------------------------------------------------

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
            return len(self.promised) > 0 and self._settle_promised(number)
        message = reference.message
        self.settled += 1
        run = consumer.settlement_run
        if run is not None:
            run.note(facts.ACKNOWLEDGED, number)
        self._returned(consumer, message)
        self._finish(message, reference)
        if self.fates.tells & MESSAGE_CONSUMED:
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
        self._finish(reference.message, reference)
        if self.fates.tells & MESSAGE_CONSUMED:
            self.fates.consumed(self.place(), reference.message, 0)
        return True

    def release(self, consumer: Consumer, number: int) -> None:
        """A transaction that would have settled message ``number`` is rolled back; call `dispatch` after the last one.

        It stays in flight at ``consumer``, who may settle it otherwise; if that has left, it is delivered again.
        """
        consumer.promised.pop(number, "")
        reference = self.promised.pop(number, None)
        if reference is not None:
            self.leased -= 1
            self._retry(reference, True)

    def drop_promised(self) -> None:
        """The queue is being deleted: no commit finds these any more."""
        for reference in list(self.promised.values()):
            self.leased -= 1
            self.note(facts.REMOVED, reference.number, 0, facts.QUEUE_DELETED)
            self._finish(reference.message, reference)
        self.promised.clear()

    def reject(self, consumer: Consumer, number: i64, reason: Reason) -> bool:
        """``consumer`` cannot process message ``number``: dead-letter it now (classic.md 6.3, NACK)."""
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return False
        self._returned(consumer, reference.message)
        self._bury(reference, reason)
        if self.fates.tells & MESSAGE_CONSUMED:
            self.fates.consumed(self.place(), reference.message, consumer.key)
        self._reopen(consumer)
        return True

    def place(self) -> Place:
        """Return what facts say of this queue."""
        flags = (self.durable, self.temporary, self.definition.auto_created)
        return Place(self.name, self.address, self.routing, self.identity, flags, self.definition.owner, self.filter)

    def drop(self, message: Message) -> None:
        """Count ``message`` as thrown away, and tell of it where somebody asks for that."""
        self.fates.dropped += 1
        if self.fates.tells & MESSAGE_DISCARDED:
            self.fates.discarded(self.place(), message, self.roster.last_key())

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

    def hold(self, consumer: Consumer, number: i64) -> Reference | None:
        """Take message ``number`` out of what is in flight at ``consumer``, for a prepared transaction.

        The caller must `finish`, `put_back` or `regain` it. None when ``consumer`` does not have it.
        """
        consumer.promised.pop(int(number), "")
        reference = consumer.in_flight.pop(number, None)
        if reference is None:
            return self.promised.pop(number, None)  # it was counted as leased when its consumer left
        self._returned(consumer, reference.message)
        self.leased += 1
        self._reopen(consumer)
        return reference

    def regain(self, consumer: Consumer, reference: Reference) -> None:
        """Give ``consumer`` back what `hold` took: in flight, and not delivered again."""
        consumer.in_flight[int(reference.number)] = reference
        self.in_flight += 1
        consumer.window.used += 1
        consumer.window.used_octets += reference.message.size

    def detach(self, consumer: Consumer, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Remove a reader; what it had not settled goes back in order, and to others.

        ``last_delivered``: the number of the last message that it saw, or one of the three constants above. What went
        out to it up to that one counts as attempted; nothing does when that one is settled already, or another
        queue's, as in Classic, which then lets a durable subscription count whatever has a lower number. Here that is
        marked, once: it may be what nobody saw. What an open transaction will settle waits for its end.
        """
        self.roster.remove(consumer)
        self.searching.pop(int(consumer.key), None)
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
            self._returned(consumer, reference.message)
            if consumer.promised and int(reference.number) in consumer.promised:
                self.promised[int(reference.number)] = reference
                self.leased += 1
            else:
                if reference.number <= doubtful and reference.deliveries == 0:
                    self._count(reference)
                self._retry(reference, attempted)
            if reference.number == last_delivered:
                attempted = False  # what follows had not been seen
        consumer.queue = None
        window = consumer.window
        if consumer in window.consumers:
            window.consumers.remove(consumer)
        self._rescan()
        if not self.roster.consumers:
            self._deserted()
        else:
            self.dispatch()
        if window.consumers:  # the credit that came free serves the other queues of a wildcard
            window.reopen()

    def _deserted(self) -> None:
        policy = self.policy
        self.held = policy.consumers_before_dispatch > 0 or policy.delay_before_dispatch > 0
        self.held_until = 0

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

    def _mark(self, message: Message, reference: Reference) -> None:
        """Note that ``message`` goes out for the first time: after a crash nobody could say whether it had.

        The record is written with what else the turn writes, and synced with the next confirmation: it survives a
        crash of the process, and may be lost with the machine. To wait for the disk before each delivery would cost
        more than the mark is worth.
        """
        if reference.paged or (message.stored and message.durable and self.durable):
            self.host.journal.redelivered(message.number, self.identity, 1)

    def _retry(self, reference: Reference, attempted: bool) -> None:
        """Put ``reference`` back: at once, after its redelivery delay, or to the dead letters when tried too often."""
        policy = self.policy
        self.requeued += 1
        self.note(facts.RETURNED, reference.number, 0, min(reference.deliveries + i64(attempted), facts.DETAIL_MAX))
        if attempted:
            self._count(reference)
            if 0 <= policy.max_deliveries <= reference.deliveries:
                self._bury(reference, tries_used_up(reference.deliveries))
                return
            if self.fates.tells & MESSAGE_REDELIVERED:
                self.fates.redelivered(self.place(), reference.message, reference.deliveries)
            delay = policy.delay_after(int(reference.deliveries), self.host.fraction)
            if delay > 0:
                self._delay(reference, self.host.now + delay)
                return
        self._put_back(reference)

    def _count(self, reference: Reference) -> None:
        """Count one delivery more, here and in the journal."""
        reference.deliveries += 1
        message = reference.message
        if reference.paged or (message.stored and message.durable and self.durable):
            self.host.journal.redelivered(message.number, self.identity, reference.deliveries)

    def due(self, reference: Reference) -> None:
        """The time for which ``reference`` was set aside is over."""
        number = int(reference.number)
        if self.delayed.get(number) is not reference:
            return
        del self.delayed[number]
        if (reason := self.doomed.pop(number, None)) is not None:
            self._bury(reference, reason)
            return
        self._put_back(reference)
        self.dispatch()

    def _bury(self, reference: Reference, reason: Reason) -> None:
        if self._cannot_move(reference):
            self.doomed[int(reference.number)] = reason
            return
        self.dead += 1
        self.note_dead(reference.number, reason.text)
        self.host.journal.begin()
        try:
            self.host.dead_letter(self, reference.message, reason, reference.deliveries)
            self._finish(reference.message, reference)
        finally:
            self.host.journal.end()

    def _put_back(self, reference: Reference) -> None:
        """Return ``reference`` to its place: in memory, or on disk when older ones of its level wait there."""
        self._announce()
        message = reference.message
        if message.expiration:
            self.expiring += 1
        backlog = self.backlog
        if backlog.paged_count > 0:
            level = backlog.level_of(message)
            paged = backlog.behind(level)
            kept = reference.paged or (message.stored and message.durable and self.durable)
            if paged is not None and kept and paged.front() < reference.number:
                self._page_back(level, [int(reference.number)], reference.deliveries)
                self.host.memory.release(message)
                return
        backlog.restore(reference)
        if not self.roster.simple:
            self._revisit(reference)

    def _page_back(self, level: i64, numbers: list[int], deliveries: i64) -> None:
        """Add ``numbers`` (ascending), which the journal has for this queue, to what waits on disk."""
        backlog = self.backlog
        paged = backlog.paged[level]
        if paged is None:
            paged = Paged()
            backlog.paged[level] = paged
        paged.merge(numbers)
        backlog.paged_count += len(numbers)
        if deliveries > 0:
            for number in numbers:
                self.attempts[number] = deliveries
        for search in self.searching.values():
            search.seen[level] = min(search.seen[level], numbers[0] - 1)

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

    def _revisit(self, reference: Reference) -> None:
        """``reference`` came back: consumers that have passed its place look at it again."""
        for consumer in self.roster.consumers:
            cursor = consumer.cursor
            if self.backlog.levels is not None:
                consumer.fresh = True
            elif not consumer.fresh and (cursor is None or cursor.number > reference.number):
                consumer.cursor = reference

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
        self._announce()
        self._rescan()
        self.dispatch()

    def close(self) -> None:
        """The queue is being deleted: what one consumer gives back is not for the next one, who goes too."""
        self.backlog.complete()
        self.paused = True
        self.deleted = True

    def cease(self) -> None:
        """Deliver nothing any more: the broker stops. What is in flight may still be settled."""
        self.held = True

    def _release_hold(self) -> None:
        """consumersBeforeDispatchStarts / timeBeforeDispatchStarts (classic.md 4.3, step 7; artemis.md 4.5)."""
        if self.host.ceased:
            return
        policy = self.policy
        enough = self.roster.readers() >= policy.consumers_before_dispatch > 0
        waited = self.held_until != 0 and self.host.now >= self.held_until
        if enough or waited:
            self.held = False
            self._rescan()
            self.dispatch()
        elif self.held_until == 0 and policy.delay_before_dispatch >= 0:
            self.held_until = self.host.now + (policy.delay_before_dispatch or HOLD_DEFAULT)
            self.host.timetable.add(_Work(int(self.held_until), self))

    def is_unused(self) -> bool:
        """Say whether the queue was used, is empty and unread, and has been so for its delay (artemis.md 4.1)."""
        busy = self.count > 0 or self.backlog.owed is not None or self.roster.is_read()
        if busy or not (self.used or self.accepted > 0):
            self.unused_since = -1
            return False
        if self.unused_since < 0:
            self.unused_since = self.host.now
        return self.host.now - self.unused_since >= self.policy.auto_delete_delay

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
        """Expire up to ``most`` messages whose time is over, looking at a part of the backlog; return how many."""
        if self.expiring <= 0:
            return 0
        backlog = self.backlog
        if backlog.loaded == 0 and backlog.paged_count > 0:
            self._reload()
        gone: i64 = 0
        looks: i64 = 0
        reference = self.swept
        if reference is None or not reference.linked:
            reference = backlog.first()
        while reference is not None and gone < most and looks < SWEEP_LOOKS:
            following = backlog.following(reference)
            if not self._is_live(reference):
                gone += 1
            looks += 1
            reference = following
        self.swept = reference
        return gone

    def walk(self, floor: i64 = 0) -> Walk:
        """Return a pass through what waits, and came behind the number ``floor``."""
        return Walk(self.backlog, self.host.journal, floor)

    def take(self, walk: Walk, most: i64, looks: i64, selector: Predicate | None, since: i64 = 0) -> list[Reference]:
        """Take up to ``most`` waiting messages out, in order, looking at no more than ``looks``: for a lease or a move.

        ``since``: only those with this time stamp or a later one (ms since 1970). The caller must `finish` or
        `put_back` each. It ends early when bodies are large; ask ``walk.done``.
        """
        taken: list[Reference] = []
        octets: i64 = 0
        while not walk.done and len(taken) < most and looks > 0 and octets < TAKE_OCTETS:
            found = walk.step(min(looks, most - len(taken)))
            looks -= len(found)
            wanted: list[Found] = []
            for each in found:
                message = each.message
                fits = message.timestamp >= since and (selector is None or selector.matches(message))
                if fits or self._is_over(message):
                    wanted.append(each)
                    octets += message.size
            for reference in self._out(wanted):
                flaw = self._flaw(reference.message)
                if self._is_over(reference.message):
                    self._expire(reference)
                elif flaw:
                    self._doom(reference, flaw)
                else:
                    taken.append(reference)
        return taken

    def take_found(self, found: Found) -> Reference:
        """Take out what the last step of a `Walk` found; nothing else may have happened since."""
        return self._out([found])[0]

    def _out(self, found: list[Found]) -> list[Reference]:
        """Take messages that a `Walk` found out of the backlog."""
        references: list[Reference] = []
        numbers: list[int] = []
        level: i64 = -1
        for each in found:
            reference = each.reference
            if reference is not None:
                self._remove(reference)
            else:
                if each.level != level:
                    self._strike(level, numbers)
                    level = each.level
                    numbers = []
                numbers.append(int(each.message.number))
                if each.message.expiration:
                    self.expiring -= 1
                reference = self._read_in(each.message)
            references.append(reference)
        self._strike(level, numbers)
        return references

    def _strike(self, level: i64, numbers: list[int]) -> None:
        """Forget that ``numbers`` (ascending) wait on disk."""
        if numbers:
            paged = self.backlog.paged[level]
            assert paged is not None
            self.backlog.paged_count -= paged.discard(numbers)

    def finish(self, reference: Reference) -> None:
        """Done with a reference from `take`."""
        self._finish(reference.message, reference)

    def put_back(self, reference: Reference) -> None:
        """Return a reference from `take` or `hold` to its place; call `dispatch` after the last one."""
        self._put_back(reference)

    def put_back_numbers(self, level: i64, numbers: list[int]) -> None:
        """Let ``numbers`` (ascending), which the journal has for this queue, wait on disk again; call `dispatch` after.

        ``attempts`` says how often each was delivered. Nothing is read into memory.
        """
        if numbers:
            self._page_back(level, numbers, 0)
            self._announce()

    def purge(self, most: i64 = 1 << 62) -> i64:
        """Remove up to ``most`` of the messages that wait; in flight and leased ones stay with their readers.

        Return how many went; fewer than ``most`` means that nothing waits any more.
        """
        gone: i64 = 0
        why = facts.QUEUE_DELETED if self.deleted else facts.PURGED
        while gone < most:
            reference = self.backlog.first()
            if reference is None:
                break
            self._remove(reference)
            self.note(facts.REMOVED, reference.number, 0, why)
            self._finish(reference.message, reference)
            gone += 1
        level: i64 = 0
        while level < LEVELS and gone < most:
            numbers = self.backlog.take_paged(level, min(RELOAD_MESSAGES, most - gone))
            for number in numbers:
                self.note(facts.REMOVED, number, 0, why)
                self.host.journal.settle(number, self.identity)
                self.attempts.pop(number, 0)
                gone += 1
            if not numbers:
                level += 1
        for reference in list(self.delayed.values()):
            if gone >= most:
                return gone
            del self.delayed[int(reference.number)]
            self.doomed.pop(int(reference.number), "")
            self.note(facts.REMOVED, reference.number, 0, why)
            self._finish(reference.message, reference)
            gone += 1
        if self.backlog.count == 0:
            self.expiring = 0
        return gone

    # -- the trace ----------------------------------------------------------------------------------------------------

    def note(self, kind: i64, number: i64, peer: i64, detail: i64) -> None:
        """Note a fact about message ``number`` (`core/events/trace.py`), where there is a trace."""
        trace = self.trace
        if trace is not None:
            trace.note(kind, number, self.identity, peer, detail)

    def note_accepted(self, message: Message, flags: i64) -> None:
        """Note that ``message`` is in this queue now."""
        run = self.arrivals
        if run is None:
            return
        number = message.number
        rare = message.rare
        if rare is not None and rare.identity:
            flags |= facts.DERIVED
            run.trace.identity(number, rare.identity)
        elif message.language.identifies and number != run.trace.named:
            prefix = message.language.prefix(message)
            if prefix:
                run.trace.identity_of(number, prefix, message.language.sequence(message))
            else:
                identity = message.language.identity(message)
                if identity:
                    run.trace.identity(number, identity)
        if message.durable and self.durable:
            flags |= facts.DURABLE
        head = facts.ACCEPTED | ((flags | (message.priority << 4)) << 8)
        size: i64 = (len(message.raw) + 15) >> 4
        run.note_sized(head, number, (self.identity & facts.LOW) | (message.origin << 32), min(size, facts.DETAIL_MAX))

    def note_dead(self, number: i64, reason: str) -> None:
        """Note that message ``number`` became a dead letter."""
        trace = self.trace
        if trace is not None:
            cause = trace.number_of(facts.NAME_CAUSE, reason)
            trace.note(facts.DEAD, number, self.identity, cause, 0)

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
        for waiting in (self.delayed, self.promised):
            for number in waiting:
                self.note(facts.PENDING, number, 0, 0)
        for consumer in self.roster.consumers:
            for number in consumer.in_flight:
                self.note(facts.PENDING, number, 0, 0)

    def _renumbered(self, message: Message) -> Message:
        """Return ``message`` with a number of its own, as the same message."""
        own = self.host.ids.renumbered(message)
        self.note_renumbered(message.number, own)
        return own

    def note_renumbered(self, number: i64, own: Message) -> None:
        """Note that what was message ``number`` here is ``own`` from now on."""
        if self.trace is not None:
            self.note(facts.REMOVED, number, 0, facts.RENUMBERED)
            self.note_accepted(own, facts.CONTINUED)

    def check(self) -> None:
        """Assert the invariants at the head of this module (simulation and debug builds)."""
        self.backlog.check()
        assert self.leased >= 0
        if self.backlog.paged_count == 0:
            expiring = sum(1 for reference in self.backlog.references() if reference.message.expiration)
            assert expiring == self.expiring, f"{self.name} counts {self.expiring} with an expiration, holds {expiring}"
        in_flight = 0
        for consumer in self.roster.consumers:
            in_flight += len(consumer.in_flight)
            assert consumer.queue is self, f"consumer {consumer.key} does not know its queue {self.name}"
            for number, reference in consumer.in_flight.items():
                assert not reference.linked, f"message {number} is in flight and in the backlog of {self.name}"
        assert len(self.promised) <= self.leased, f"{self.name} keeps more for transactions than it counts as leased"
        assert in_flight == self.in_flight, f"{self.name} counts {self.in_flight} in flight, its consumers {in_flight}"
        if self.paused or self.held or self.stepping:
            return
        for consumer in self.roster.ready:
            if consumer.window.is_open():
                for reference in self.backlog.references():
                    assert not self.roster.may_take(consumer, reference.message), (
                        f"message {reference.number} waits in {self.name} although consumer {consumer.key} is ready"
                    )
