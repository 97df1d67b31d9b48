"""BrokerCore: the verbs that a session may call. [C]

It numbers messages, routes them, keeps what was promised in the journal, and gives queues what they ask of their broker
(`core/ports.py`, Host). Every decision is taken here or below, on one thread; only the sync of the journal happens
elsewhere.

Order of a send: limits are checked, the journal gets the record, queues get the message. A refusal therefore leaves
nothing behind, and a message that a queue has is in the journal's hands. The producer is answered when
`JournalCore.confirm` says that the record is on disk, never before.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MIB, Entropy, Instant, WallTime
from entrepot.base.errors import (
    AddressFull,
    DuplicateRejected,
    Refused,
    SubscriptionInUse,
    TransactionError,
)
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.core import notices
from entrepot.core import trace as facts
from entrepot.core.access import Access
from entrepot.core.address_settings import FULL_BLOCK, FULL_DROP, FULL_FAIL, FULL_PAGE, SLOW_KILL
from entrepot.core.addresses import Addresses, written
from entrepot.core.arrival import Stamps
from entrepot.core.bereaved import DEAD_CAUSE, take_body_off
from entrepot.core.branches import Branches
from entrepot.core.browser import Browser
from entrepot.core.consumer import Consumer, Pause, Window
from entrepot.core.copies import Copies
from entrepot.core.duplicates import Duplicates, Sequences
from entrepot.core.effort import Rest
from entrepot.core.lease import Leases
from entrepot.core.logins import Logins
from entrepot.core.policy import Policies, Policy
from entrepot.core.ports import ClientHolder, Host, Memory, Neighbours, NoticePort
from entrepot.core.queue import ADVISORY, MAYBE_DELIVERED, MOVE_RETRY, NONE_DELIVERED, UNKNOWN_DELIVERED, Queue
from entrepot.core.queues import Queues, QueueWatcher
from entrepot.core.recollection import Recollections
from entrepot.core.records import SCHEDULED_QUEUE
from entrepot.core.repetitions import SAME_DUPLICATE_ID, Repetitions
from entrepot.core.routing import Copy, Plan, RoutingTable, Target, default_routing, passes
from entrepot.core.stage import Stages
from entrepot.core.subscription import DEFAULT_PREFETCH, Subscription, durable_queue_name
from entrepot.core.timed import (
    NEVER,
    SCHEDULED_JOB,
    SCHEDULED_LEFT,
    SCHEDULED_NAMES,
    SCHEDULED_TARGET,
    Alarm,
    Dates,
    Schedule,
    asks_for_schedule,
    rebase_expiration,
    until,
)
from entrepot.core.transaction import Signal, Transaction
from entrepot.journal.log import JournalCore, again
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate, compile_selector

SENT: Final = 0
BLOCKED: Final = 1  # accepted, and the producer should wait for space before it sends more
DROPPED: Final = 2
DUPLICATE: Final = 3
SCHEDULED: Final = 4

SWEEP_EVERY: Final = 1_000_000_000  # ns between two looks at expiry, slow consumers and unused queues
EXPIRED_UNITS: Final = 8  # of `core/effort.py`: a message that expires, and may become a dead letter
SWEEP_MESSAGES: Final = 400  # a queue and sweep: Classic's maxExpirePageSize
ALARMS_A_TURN: Final = 1_000
FIRE_UNITS: Final = 4  # of `core/effort.py`: to read a scheduled message from disk, send it, store it anew
ATTACH_UNITS: Final = 6  # of `core/effort.py`: to give a queue a consumer, or take it away, and tell of it

ORIGIN_ANNOTATIONS: Final = (
    "_AMQ_ORIG_ADDRESS",
    "_AMQ_ORIG_QUEUE",
    "_AMQ_ORIG_MESSAGE_ID",
    "_AMQ_ORIG_ROUTING_TYPE",
    "_AMQ_ACTUAL_EXPIRY",
)
PREFETCH_SHOWN_MAX: Final = (1 << 31) - 1  # Java's int

DEAD_LETTERS: Final = "ActiveMQ.DLQ"  # for what no policy has a place for
DEAD_COUNT: Final = "deliveryCount"
ORIGINAL_EXPIRATION: Final = "originalExpiration"
ORIGINAL_MODE: Final = "originalDeliveryMode"


@mypyc_attr(allow_interpreted_subclasses=True)
class SpaceWaiter:
    """A producer that was told BLOCKED. ``space`` is called once when there is room again."""

    def space(self) -> None:
        """Read on."""


class BrokerOptions:
    """What one broker is started with. Octets unless the name says otherwise."""

    def __init__(self, name: str = "localhost", memory_limit: i64 = 512 * MIB) -> None:
        self.name: str = name
        self.memory_limit: i64 = memory_limit
        self.version: str = "0.1.0"
        self.separator: str = ""  # what clients may write for the dots in names; "": nothing
        self.stamps: Stamps | None = None  # what all that is sent here gets
        self.refuses_durables: bool = False  # rejectDurableConsumers: nobody subscribes durably
        self.scheduler: bool = True  # False: a message that asks for a delay is delivered at once (schedulerSupport)


class _Sweeping(Rest):
    """Looks at all queues once a second, at some in each turn when they are many."""

    def __init__(self, broker: BrokerCore) -> None:
        super().__init__()
        self.broker = broker
        self.queues: list[Queue] = []

    def resume(self) -> None:
        if not self.broker.sweep_on(self.queues):
            self.broker.effort.later(self)


class _Attaching(Rest):
    """Gives a subscription to a wildcard the rest of the queues that were there when it came, ``queues``, last first.

    To its reader it is as if these were made a moment later.
    """

    def __init__(self, broker: BrokerCore, subscription: Subscription, queues: list[Queue]) -> None:
        super().__init__()
        self.broker = broker
        self.subscription = subscription
        self.queues = queues

    def resume(self) -> None:
        if self.subscription in self.broker.followers and not self.broker.attach_on(self.subscription, self.queues):
            self.broker.effort.later(self)


class _Leaving(Rest):
    """Takes the consumers of a subscription to a wildcard that has ended from their queues. They get nothing more."""

    def __init__(
        self, broker: BrokerCore, subscription: Subscription, consumers: list[Consumer], last_delivered: i64
    ) -> None:
        super().__init__()
        self.broker = broker
        self.subscription = subscription
        self.consumers = consumers
        self.last_delivered = last_delivered

    def resume(self) -> None:
        if not self.broker.detach_on(self.subscription, self.consumers, self.last_delivered):
            self.broker.effort.later(self)


class _Readers(QueueWatcher):
    """Lets the subscriptions of one broker follow its queues."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker = broker

    def added(self, queue: Queue) -> None:
        self.broker.queue_added(queue)

    def closed(self, queue: Queue, why: str) -> None:
        self.broker.queue_closed(queue, why)


class BrokerCore(Host):
    """One broker. Call `tick` with the time before each stimulus, then a verb, then let the shell flush the journal."""

    def __init__(
        self, journal: JournalCore, options: BrokerOptions, policies: Policies, entropy: Entropy, port: NoticePort
    ) -> None:
        super().__init__(journal, Memory(options.memory_limit), port, entropy)
        self.options: BrokerOptions = options
        self.policies: Policies = policies
        self.table: RoutingTable = RoutingTable()
        self.queues: Queues = Queues(self, policies, self.table)
        self.addresses: Addresses = Addresses(self, self.queues)
        self.duplicates: Duplicates = Duplicates(journal)
        self.copies: Copies = Copies(journal)
        self.repetitions: Repetitions = Repetitions()
        self.leases: Leases = Leases(self, self.queues)
        self.branches: Branches = Branches(self)
        self.stages: Stages = Stages(self)
        self.sequences: Sequences = Sequences(journal)
        self.recollections: Recollections = Recollections(self, policies)
        self.access: Access = Access(self.table, self.addresses.services, Logins(self))
        self.clients: dict[str, ClientHolder] = {}  # client ids in use -> by whom
        self.neighbours: Neighbours = Neighbours()
        self.temporary_prefix: str = "ID:"
        self.dates: Dates = Dates()  # of scheduled messages
        self.chime: _Chime | None = None  # the alarm for the next of them
        self.waiting: dict[
            int, tuple[SpaceWaiter, Queue | None, bool]
        ] = {}  # key -> who, for which queue, for the disk
        self.blocking_disk: bool = False
        self.blocking: Queue | None = None  # the queue on whose account the last BLOCKED was said
        self.granted: bool = False  # a transaction is being carried out whose every send was granted before
        self.followers: list[Subscription] = []  # subscriptions to wildcards of queues
        self.schedules: dict[int, Message | None] = {}  # scheduled message number -> message, None when it is on disk
        self.swept: i64 = 0
        self.sweeping: _Sweeping = _Sweeping(self)
        self.sent: i64 = 0
        self.queues.watchers.append(_Readers(self))
        self.queues.watchers.append(self.leases)

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: Instant, wall: WallTime) -> None:
        """A turn begins: ns on the monotonic clock, ms since 1970."""
        self.now = now
        self.wall = wall
        self.effort.begin()
        if self.trace is not None:
            self.trace.tick(now, wall)

    def deadline(self) -> Instant:
        """Return when `advance` must be called next."""
        sweep = int(self.swept) + SWEEP_EVERY
        due = self.timetable.deadline()
        return sweep if due is None else min(due, sweep)

    def advance(self) -> None:
        """Do what is due: delayed and scheduled messages, and now and then a sweep."""
        self.timetable.advance(self.now, ALARMS_A_TURN, self.effort)
        if self.now - self.swept >= SWEEP_EVERY:
            self.swept = self.now
            if self.dates.adjust(self.wall, self.now):
                self._await_dates()
            self._sweep()

    def cease(self) -> None:
        """The broker stops: hand out nothing any more, before the first consumer is sent away.

        Else what is in flight at one would go to the next, who is there a moment longer: a message group at two
        consumers, a queue at two that are exclusive. Sends are taken and settlements done as before.
        """
        self.ceased = True
        for queue in self.table.queues.values():
            queue.cease()

    def _sweep(self) -> None:
        if not self.sweeping.waiting:
            self.sweeping.queues = list(self.table.queues.values())
            self.sweeping.queues.reverse()
            self.sweeping.resume()

    def sweep_on(self, queues: list[Queue]) -> bool:
        """Sweep ``queues`` from the end of the list on, as far as this turn reaches; return whether that was all."""
        while queues:
            if self.effort.is_over():
                return False
            queue = queues.pop()
            if queue.deleted:
                continue
            self.effort.spent += 1 + EXPIRED_UNITS * queue.sweep(SWEEP_MESSAGES)
            queue.advance()
            if queue.policy.slow_after > 0:
                self._find_slow(queue)
            if queue.policy.advises_slow:
                self._find_crowded(queue)
            if queue.auto_created and queue.policy.auto_delete and queue.is_unused() and not self.leases.on(queue):
                self.queues.delete(queue, "it was not used")
        self.stages.sweep()
        self._free_waiters()
        return True

    def _find_slow(self, queue: Queue) -> None:
        for consumer in list(queue.roster.consumers):
            if not consumer.in_flight:
                consumer.settled_at = self.now  # nothing to settle: it is not slow, and its time begins now
                consumer.slow = False
                continue
            idle = self.now - consumer.settled_at
            if idle <= queue.policy.slow_after:
                consumer.slow = False
                continue
            if not consumer.slow:
                consumer.slow = True
                self._tell_slow(queue, consumer)
            if queue.policy.slow == SLOW_KILL:
                consumer.ended(f"it settled nothing for {idle // 1_000_000} ms and policy says to end slow consumers")
                if consumer.queue is queue:
                    queue.detach(consumer, MAYBE_DELIVERED)
                    self._note_detached(queue, consumer)

    def _find_crowded(self, queue: Queue) -> None:
        """Find consumers that take no more although there is more: Classic's notion of slow (classic.md 4.2)."""
        for consumer in queue.roster.consumers:
            window = consumer.window
            pending = window.messages if queue.routing == MULTICAST else 0
            crowded = window.messages > 1 and not window.is_open() and queue.backlog.count > pending
            if crowded and not consumer.crowded:
                self._tell_slow(queue, consumer)
            consumer.crowded = crowded

    def _tell_slow(self, queue: Queue, consumer: Consumer) -> None:
        detail = {"queue": queue.name, "consumer": str(consumer.key), "unsettled": str(len(consumer.in_flight))}
        self.notices.notice(notices.CONSUMER_SLOW, consumer.connection, detail)

    # -- names --------------------------------------------------------------------------------------------------------

    def target(self, destinations: list[Destination]) -> Target:
        """Return where sends to ``destinations`` go: `Addresses.target`."""
        return self.addresses.target(destinations)

    def need_queue(self, destination: Destination) -> Queue:
        """Return the queue of ``destination``, made if it may be: `Queues.need`."""
        return self.queues.need(destination)

    def delete_queue(self, queue: Queue, why: str) -> i64:
        """Remove ``queue`` with all its messages and leases: `Queues.delete`."""
        return self.queues.delete(queue, why)

    def _follower(self, consumer: Consumer) -> Subscription | None:
        for subscription in self.followers:
            if subscription.window is consumer.window:
                return subscription
        return None

    def queue_added(self, queue: Queue) -> None:
        """Attach the wildcard subscriptions that cover ``queue``."""
        if queue.routing == ANYCAST and not queue.owner:  # a temporary queue is its connection's alone
            for subscription in self.followers:
                for pattern in subscription.patterns:
                    if pattern_matches(pattern, queue.name, MIXED):
                        self._attach(subscription, queue)
                        break

    def queue_closed(self, queue: Queue, why: str) -> None:
        """Take its consumers from ``queue``, which is being deleted, and tell them."""
        for consumer in list(queue.roster.consumers):
            follower = self._follower(consumer)
            if follower is None:
                consumer.ended(why)
            else:
                follower.consumers.remove(consumer)
            if consumer.queue is queue:
                queue.detach(consumer, NONE_DELIVERED)
                self._note_detached(queue, consumer)

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, message: Message, target: Target) -> int:
        """Accept ``message`` for ``target``; return SENT, BLOCKED, DROPPED, DUPLICATE or SCHEDULED.

        Raises AddressFull (policy FAIL), StorageFull, StorageError: nothing of the message is left then. The caller
        asks ``journal.confirm`` to learn when it is on disk.
        """
        message.number = self.ids.next_number()
        self.sent += 1
        if target.version != self.table.version:
            self.addresses.refresh(target)
        if message.rare is None and not target.stamps and not target.careful:
            queue = target.only
            if queue is not None and not target.parts and not queue.is_full():
                if message.durable and queue.durable:
                    self.journal.store(message, target.only_id)
                queue.accept(message)
                return SENT
        return self._send_with_care(message, target)

    def _send_with_care(self, message: Message, target: Target) -> int:
        if target.service is not None:
            target.service.take(message, target.routing)
            return SENT
        if target.stamps and target.policy is not None:
            stamp_expiration(message, target.policy, self.wall)
        if message.rare is not None and message.rare.duplicate_id:
            return self._send_once(message, target, message.rare.duplicate_id)
        return self._admit(message, target)

    def _admit(self, message: Message, target: Target) -> int:
        if self.options.scheduler and asks_for_schedule(message):
            self._schedule(message, target)
            return SCHEDULED
        return self._route(message, target)

    def _send_once(self, message: Message, target: Target, identity: bytes) -> int:
        if self.duplicates.seen(target.name, identity):
            return self.repeated(message, target, SAME_DUPLICATE_ID)
        policy = self.policies.of(target.name, target.routing)
        self.journal.begin()
        try:
            verdict = self._admit(message, target)  # raises when it is refused: then the id is not remembered
            self.duplicates.remember(target.name, identity, policy.id_cache, message.durable)
            return verdict
        finally:
            self.journal.end()

    def repeated(self, message: Message, target: Target, why: str) -> int:
        """Drop ``message``, which ``target`` has or had already, as ``why`` says; count it, tell of it; DUPLICATE."""
        if message.number == 0:
            message.number = self.ids.next_number()
        identity = self.ids.identity_of(message)
        self.repetitions.add(identity, target.name, why, self.wall)
        queue = self.table.queues.get(target.queue_name or target.name)
        if queue is not None:
            queue.repeated += 1
        self.notices.notice(notices.MESSAGE_DUPLICATE, target.name, {"id": identity, "why": why})
        self._note_nowhere(facts.DUPLICATE, message, target)
        return DUPLICATE

    def _route(self, message: Message, target: Target) -> int:
        """Store and hand out ``message`` to all queues of ``target``, its composites and diverts, each queue once."""
        plan = Plan()
        main = plan.main
        self._collect(message, target, plan, main)
        if not main.queues and not plan.copies:
            self.notices.notice(notices.MESSAGE_UNROUTED, target.name, {})
            self._note_nowhere(facts.UNROUTED, message, target)
        if not plan.copies:
            return self._deliver(message, main)
        refusal = self.journal.refusal()
        if refusal is not None and message.durable:
            raise again(refusal)
        for copy in plan.copies:  # a refusal must come before anything is stored
            self._free(copy.queues)
        granted = self.granted
        self.granted = True  # what one copy adds to the broker's memory is no reason to refuse the next
        self.journal.begin()
        try:
            verdict = self._deliver(message, main)
            for copy in plan.copies:
                made = self._diverted(message, copy.address) if copy.fresh else self._part(message, copy.address)
                verdict = max(verdict, self._deliver(made, copy))
            return verdict
        finally:
            self.granted = granted
            self.journal.end()

    def _note_nowhere(self, kind: i64, message: Message, target: Target) -> None:
        """Note that ``message`` came and is in no queue of ``target``, where there is a trace."""
        trace = self.trace
        if trace is not None and not target.name.startswith(ADVISORY):
            identity = self.ids.identity_of(message)
            trace.identity(message.number, identity)
            trace.note(kind, message.number, trace.number_of(facts.NAME_ADDRESS, target.name), message.origin, 0)

    def _deliver(self, message: Message, copy: Copy) -> int:
        """Hand ``message`` to those queues of ``copy`` that take it; SENT, BLOCKED or DROPPED."""
        queues = copy.queues
        for queue in queues:
            if (queue.policy.advises_full or queue.policy.advises_fast) and queue.is_full():
                self.notices.about(notices.QUEUE_FULL, queue, message, {"used": str(queue.backlog.octets)})
        verdict = self._free(queues)
        if verdict == DROPPED:
            full = [queue for queue in queues if self._when_full(queue) == DROPPED]
            for queue in full:
                queue.dropped += 1
                self._note_nowhere(facts.UNROUTED, message, Target(queue.name, queue.routing))
                self.notices.notice(notices.MESSAGE_DROPPED, queue.name, {"why": "full"})
                queue.tell_discarded(message)
            queues = [queue for queue in queues if queue not in full]
        if verdict == SENT and self.journal.pages and not self._room_on_disk(message, queues):
            verdict = BLOCKED
        for target in copy.careful:
            self._attend(message, target, target in copy.unread)
        self._hand_out(message, queues)
        return verdict

    def _attend(self, message: Message, target: Target, unread: bool) -> None:
        """A topic whose policy wants to know gets ``message``: remember it, tell of it."""
        policy = target.policy
        if policy is None or target.routing != MULTICAST:
            return
        self.recollections.add(target.name, message, policy)
        if policy.advises_delivered:
            self.notices.about_topic(notices.MESSAGE_DELIVERED, target.name, message)
        if policy.advises_unread and unread and not message.durable:
            self.notices.about_topic(notices.MESSAGE_UNREAD, target.name, message)

    def _free(self, queues: list[Queue]) -> int:
        """Return the worst that any of ``queues`` says about its room. Raises AddressFull."""
        verdict = SENT
        for queue in queues:
            verdict = max(verdict, self._when_full(queue))
        return verdict

    def _part(self, message: Message, address: str) -> Message:
        """Return the copy for one part of a composite: the same identity, the part's own address (classic.md 4.1)."""
        copy = self.ids.renumbered(message)
        copy.address = address
        return copy

    def _diverted(self, message: Message, address: str) -> Message:
        """Return the copy that a divert of Artemis makes (artemis.md 4.4)."""
        copy = message.twin(address)
        copy.number = self.ids.next_number()
        rare = copy.need_rare()
        rare.identity = ""
        rare.duplicate_id = b""
        copy.annotate("_AMQ_ORIG_ADDRESS", message.address)
        copy.annotate("_AMQ_ORIG_MESSAGE_ID", self.ids.identity_of(message))
        return copy

    def hand_to(self, message: Message, queue: Queue) -> None:
        """Give a numbered message to one queue, whatever its policy says about being full (a move, a retry)."""
        self._hand_out(message, [queue])

    def _hand_out(self, message: Message, queues: list[Queue]) -> None:
        if message.durable:
            durable = [int(queue.identity) for queue in queues if queue.durable]
            if durable:
                self.journal.store(message, durable)
        for queue in queues:
            if queue.policy.is_careful and queue.routing == ANYCAST:
                self._tell_delivered(message, queue)
            queue.accept(message)
            if queue.pending_limit >= 0 and queue.trim() > 0:
                self.notices.notice(notices.MESSAGE_DROPPED, queue.name, {"why": "its subscriber is too far behind"})

    def _tell_delivered(self, message: Message, queue: Queue) -> None:
        """``queue``, whose policy wants to know, gets ``message``."""
        if queue.policy.advises_delivered:
            self.notices.about(notices.MESSAGE_DELIVERED, queue, message, {})
        if queue.policy.advises_unread and not queue.roster.consumers and not message.durable:
            self.notices.about(notices.MESSAGE_UNREAD, queue, message, {})

    def _collect(self, message: Message, target: Target, plan: Plan, copy: Copy, peek: bool = False) -> None:
        """Add the queues that ``message`` goes to, to ``copy``; ``peek`` leaves rotations where they are."""
        for part in target.parts:
            own = Copy(part.name, fresh=False)
            plan.copies.append(own)
            self._collect(message, part, plan, own, peek)
        if target.parts:
            return
        if target.version != self.table.version:
            self.addresses.refresh(target)
        if target.diverts and self._divert(message, target, plan, copy, peek):
            return
        chosen = target.queues + target.turns if peek else target.chosen(message)
        if not copy.queues:  # a target names no queue twice, and to look would cost the square of a topic's readers
            copy.queues.extend(chosen)
        else:
            known = {int(queue.identity) for queue in copy.queues}
            for queue in chosen:
                if int(queue.identity) not in known:
                    copy.queues.append(queue)
        if target.careful:
            copy.careful.append(target)
            if not chosen:
                copy.unread.append(target)

    def _divert(self, message: Message, target: Target, plan: Plan, copy: Copy, peek: bool) -> bool:
        """Follow the diverts of ``target``; return whether the address itself gets nothing."""
        gone = False
        for divert in target.diverts:
            if divert.name in plan.passed:
                continue
            plan.passed[divert.name] = True
            matched = False
            for forward in divert.forwards:
                if forward.condition is not None and not forward.condition.matches(message):
                    continue
                matched = True
                onward = copy
                if divert.marks:
                    onward = Copy(forward.target.name, fresh=True)
                    plan.copies.append(onward)
                self._collect(message, forward.target, plan, onward, peek)
            if divert.exclusive and (matched or not divert.keeps_unmatched):
                gone = True
        return gone

    def _when_full(self, queue: Queue) -> int:
        """Return SENT when ``queue`` may take another message, or what its policy says now that it is full."""
        if not queue.is_full():
            return SENT
        full = queue.policy.full
        if full == FULL_FAIL and not self.granted:
            raise AddressFull(
                f"the queue {queue.name!r} is full ({queue.backlog.octets} octets waiting, "
                f"{self.memory.used} of {self.memory.limit} in the broker)",
                remedy="try again later, consume, or let it page to disk: full=PAGE",
            )
        if full == FULL_DROP:
            return DROPPED
        if self.blocks(queue):
            self.blocking = queue
            self.blocking_disk = False
            return BLOCKED
        return SENT

    def limits_changed(self) -> None:
        """That the journal may store begins or ends (`JournalCore.measure`): have all targets looked at again."""
        self.table.version += 1
        full = self.journal.limits.full
        what = notices.ADDRESS_FULL if full else notices.ADDRESS_FREE
        self.notices.notice(what, "", {"used": str(self.journal.limits.stored), "why": full})

    def _room_on_disk(self, message: Message, queues: list[Queue]) -> bool:
        """Say whether the limits of the disk let ``message`` go to ``queues`` without its producer waiting.

        Raises AddressFull where a queue's policy wants that; nothing is stored then.
        """
        full = self.journal.limits.full
        if full and (self.journal.limits.all or (message.durable and _one_is_durable(queues))):
            for queue in queues:
                if queue.policy.full == FULL_FAIL and not self.granted:
                    raise AddressFull(full, remedy="consume, or raise the limit of the store")
            self.blocking = None
            self.blocking_disk = True
            return False
        if self.journal.temp_full():
            rare = message.rare
            large = rare is not None and rare.large_id != 0
            for queue in queues:
                if not (message.durable and queue.durable) and (large or queue.is_full()):
                    self.blocking = queue
                    self.blocking_disk = True
                    return False
        return True

    def blocks(self, queue: Queue) -> bool:
        """Return whether ``queue`` stops producers when it is full: by policy, or for want of a disk to page to."""
        full = queue.policy.full
        if full == FULL_PAGE:
            return not self.journal.pages or self.journal.refusal() is not None
        return full == FULL_BLOCK

    def lacks_share(self, queue: Queue) -> bool:
        """Return whether ``queue`` is full and what may be lost has no more room on disk: its producers wait."""
        return bool(queue.is_full() and self.journal.pages and self.journal.temp_full())

    def wait_for_space(self, key: i64, waiter: SpaceWaiter) -> None:
        """Call ``waiter.space`` when there is room again: memory at most half full, and so the queue that was full.

        Call it right after the send that was answered BLOCKED.
        """
        if not self.waiting:
            self.notices.notice(notices.ADDRESS_FULL, "", {"used": str(self.memory.used)})
        self.waiting[int(key)] = (waiter, self.blocking, self.blocking_disk)

    def stop_waiting(self, key: i64) -> None:
        """Forget a waiter whose connection is gone."""
        self.waiting.pop(int(key), None)

    def _free_waiters(self) -> None:
        if not self.waiting or self.memory.used > self.memory.limit // 2:
            return
        free: list[SpaceWaiter] = []
        for key, (waiter, queue, disk) in list(self.waiting.items()):
            gone = queue is None or self.table.queues.get(queue.name) is not queue
            if disk and (self.journal.limits.full if queue is None else not gone and self.journal.temp_full()):
                continue
            if queue is None or gone or queue.backlog.octets <= queue.policy.max_octets // 2:
                del self.waiting[key]
                free.append(waiter)
        if free and not self.waiting:
            self.notices.notice(notices.ADDRESS_FREE, "", {"used": str(self.memory.used)})
        for waiter in free:
            waiter.space()

    def space_changed(self) -> None:
        """Something was settled: let blocked producers go on if there is room. The shell calls this once a turn."""
        if self.waiting:
            self._free_waiters()

    # -- what queues ask (Host) ---------------------------------------------------------------------------------------

    def dead_letter(self, queue: Queue, message: Message, reason: str, deliveries: i64) -> None:
        """Send a copy of ``message`` to the dead-letter address of ``queue``; the caller then finishes the original."""
        policy = queue.policy
        name = policy.dead_letters_of(queue.address, queue.routing)
        wanted = message.durable or policy.dead_letter_non_persistent or not reason.startswith("expired")
        rare = message.rare
        flaw = "" if rare is None or rare.large_id == 0 else self.journal.overflow.flaw(message)
        if not name or not wanted or (not flaw and name in (queue.name, queue.address)):
            self.notices.notice(
                notices.MESSAGE_DROPPED, queue.name, {"why": reason, "id": self.ids.identity_of(message)}
            )
            return
        letter = self.ids.renumbered(message)
        letter.address = name
        if flaw:
            take_body_off(letter)
            if reason != flaw:
                reason = f"{reason}; {flaw}"
        letter.annotate(DEAD_CAUSE, reason)
        letter.annotate(DEAD_COUNT, str(deliveries))
        if not letter.durable:  # what was worth keeping is worth keeping over a restart (classic.md 4.6)
            letter.durable = True
            letter.annotate(ORIGINAL_MODE, "NON_PERSISTENT")
        if name == queue.name:  # it lost its body here, among the dead letters, and has its origin already
            self._hand_out(letter, [queue])
        else:
            self._send_on(letter, queue, message, name, policy.dead_letter_expiry_ms)
        detail = {"why": reason, "id": self.ids.identity_of(message), "to": name}
        self.notices.about(notices.MESSAGE_DEAD, queue, message, detail)

    def expire(self, queue: Queue, message: Message) -> None:
        """Send a copy of ``message`` to the expiry address, or treat it as a dead letter, or drop it (policy)."""
        self.notices.about(notices.MESSAGE_EXPIRED, queue, message, {"id": self.ids.identity_of(message)})
        name = queue.policy.expiry_address
        if name and name not in (queue.name, queue.address):
            letter = self.ids.renumbered(message)
            letter.address = name
            self._send_on(letter, queue, message, name)
        elif queue.policy.dead_letter_expired:
            self.dead_letter(queue, message, f"expired at {message.expiration}", 0)

    def _send_on(self, letter: Message, queue: Queue, message: Message, name: str, lives_ms: i64 = 0) -> None:
        mark_origin(letter, message, queue, self.ids.identity_of(message))
        if message.expiration:
            letter.annotate(ORIGINAL_EXPIRATION, str(message.expiration))
            letter.expiration = 0
        if lives_ms > 0:
            letter.expiration = self.wall + lives_ms
        self._hand_out(letter, [self._letters(name)])

    def _letters(self, name: str) -> Queue:
        """Return the queue for dead or expired letters, made whatever the policy of its address says."""
        address = self.table.addresses.get(name)
        if name in self.table.queues or (address is not None and address.anycast):
            return self.queues.need(Destination(name, ANYCAST))
        return self.queues.create(name, name, ANYCAST, durable=True)

    # -- scheduled messages -------------------------------------------------------------------------------------------

    def _schedule(self, message: Message, target: Target) -> None:
        rare = message.need_rare()
        schedule = Schedule(rare.annotations)
        rare.annotations[SCHEDULED_TARGET] = written(target)
        rare.deliver_at = schedule.first(self.wall)
        self._keep_scheduled(message, schedule.elapses)

    def _keep_scheduled(self, message: Message, elapses: bool) -> None:
        """Store ``message`` until its time, on disk even if it is not persistent (classic.md 4.13: its own store)."""
        number = message.number
        deliver_at = message.need_rare().deliver_at
        end = until(deliver_at, self.wall, self.now) if elapses else NEVER
        if self.journal.pages:
            self.journal.store(message, [SCHEDULED_QUEUE])
            self._await(int(number), int(deliver_at), end)
        else:
            self._await(int(number), int(deliver_at), end)
            self.schedules[int(number)] = message
            self.memory.hold(message)

    def recovered_schedule(self, number: i64, deliver_at: i64) -> None:
        """Wait for the time of the scheduled message ``number``."""
        self._await(int(number), int(deliver_at), NEVER)

    def _await(self, number: int, deliver_at: int, end: int) -> None:
        self.schedules[number] = None
        self.dates.add(number, deliver_at, end, self.wall, self.now)
        self._await_dates()

    def _await_dates(self, after: int = 0) -> None:
        """Have an alarm for the earliest date, ``after`` ns from now at the earliest."""
        date = self.dates.earliest()
        if date is None:
            return
        due = max(self.dates.instant(date), int(self.now) + after)
        chime = self.chime
        if chime is not None:
            if chime.due <= due:  # it rings, and looks again
                return
            chime.cancelled = True
        self.chime = _Chime(due, self)
        self.timetable.add(self.chime)

    def keep_dates(self) -> None:
        """Send the scheduled messages whose time has come, as many as one turn may."""
        self.chime = None
        self.dates.adjust(self.wall, self.now)
        while not self.effort.is_over():
            if self.journal.refusal() is not None:  # the disk is full: nothing could be stored, so try again
                self._await_dates(MOVE_RETRY)
                return
            found = self.dates.take(self.wall)
            if found is None:
                break
            self.effort.spent += FIRE_UNITS
            self.fire(found[0], found[1])
        self._await_dates()

    def fire(self, number: int, deliver_at: int) -> None:
        """Send the scheduled message ``number``, whose time has come, and plan its next repetition."""
        if number not in self.schedules:
            return
        kept = self.schedules.pop(number)
        if kept is not None:
            self.memory.release(kept)
        message = self.journal.load(number) if kept is None else kept
        schedule = Schedule(message.need_rare().annotations)
        following = schedule.following(min(deliver_at, int(self.wall)))  # earlier when the wall clock was put back
        self.journal.begin()
        try:
            self._send_scheduled(message, schedule.repeats)
            if following is not None:
                self._plan_again(message, schedule, following)
            self.journal.settle(number, SCHEDULED_QUEUE)
        finally:
            self.journal.end()

    def _send_scheduled(self, message: Message, repeats: bool) -> None:
        product = self.ids.renumbered(message)
        rare = product.need_rare()
        if repeats:
            rare.identity = ""  # a new message each time
        rare.deliver_at = 0
        text = rare.annotations.pop(SCHEDULED_TARGET, message.address)
        rare.annotations.pop(SCHEDULED_LEFT, None)
        for name in SCHEDULED_NAMES:
            rare.annotations.pop(name, None)
        rare.annotations[SCHEDULED_JOB] = self.ids.identity_of(message)
        rebase_expiration(product, self.wall)
        try:
            target = self.target(names.parse(text))
            if target.version != self.table.version:
                self.addresses.refresh(target)
            self._route(product, target)
        except Refused as refusal:
            self.notices.notice(notices.JOB_REFUSED, text, {"why": str(refusal)})
            self._bury_unsendable(product, refusal)

    def bury_unsendable(self, message: Message, text: str, refusal: Refused) -> None:
        """A message that was promised to ``text`` cannot be sent there any more: make it a dead letter."""
        self.notices.notice(notices.MESSAGE_UNROUTED, text, {"why": str(refusal)})
        message.number = self.ids.next_number()
        self._bury_unsendable(message, refusal)

    def _bury_unsendable(self, product: Message, refusal: Refused) -> None:
        name = self.policies.of(product.address).dead_letter_address or DEAD_LETTERS
        product.annotate(DEAD_CAUSE, str(refusal))
        if product.expiration:  # a dead letter does not expire, or nobody would ever see it
            product.annotate(ORIGINAL_EXPIRATION, str(product.expiration))
            product.expiration = 0
        product.address = name
        product.durable = True
        self._hand_out(product, [self._letters(name)])

    def _plan_again(self, message: Message, schedule: Schedule, following: int) -> None:
        again = message.twin(message.address)
        again.number = self.ids.next_number()
        rare = again.need_rare()
        rare.deliver_at = following
        if not message.language.identity(message):
            rare.identity = self.ids.identity_of(message)  # the same job, though it has another number now
        rare.annotations[SCHEDULED_LEFT] = str(schedule.left)
        self._keep_scheduled(again, schedule.elapses)

    # -- transactions -------------------------------------------------------------------------------------------------

    def commit(self, transaction: Transaction) -> None:
        """Do all of it in one atomic batch of the journal. Raises Refused when it cannot: it is rolled back then."""
        try:
            self.check_commit(transaction)
            transaction.signal(Signal.COMMIT)
        except Refused:
            self.roll_back(transaction)
            raise
        self.journal.begin()
        self.granted = True
        try:
            for message, target in transaction.sends:
                self.send(message, target)
            for each in transaction.settlements:
                each.consumer.promised.pop(each.number, "")
                each.queue.settle(each.consumer, each.number)
        finally:
            self.granted = False
            self.journal.end()

    def check_commit(self, transaction: Transaction) -> None:
        """Find out before anything is written whether every operation will be granted. Raises Refused."""
        refusal = self.journal.refusal()
        if refusal is not None:
            raise TransactionError(f"transaction {transaction.name} cannot be stored: {refusal.message}")
        identities: dict[str, bool] = {}
        for message, target in transaction.sends:
            rare = message.rare
            if rare is not None and rare.duplicate_id and self.policies.of(target.name, target.routing).id_cache > 0:
                key = f"{target.name}\0{rare.duplicate_id.hex()}"
                if key in identities or self.duplicates.seen(target.name, rare.duplicate_id):
                    raise DuplicateRejected(f"transaction {transaction.name} repeats a message id on {target.name}")
                identities[key] = True
            self.admits(message, target)

    def admits(self, message: Message, target: Target) -> int:
        """Say what `send` would: SENT, BLOCKED or DROPPED; for what is sent later. Raises Refused as it would."""
        if target.version != self.table.version:
            self.addresses.refresh(target)
        queue = target.only
        if message.rare is None and queue is not None and not target.parts and not queue.is_full():
            return SENT
        rare = message.rare
        if rare is not None and self.options.scheduler and asks_for_schedule(message):
            Schedule(rare.annotations)  # raises for a schedule that nobody can keep
        return self._room(message, target)

    def _room(self, message: Message, target: Target) -> int:
        """Return the worst that any queue says to which ``message`` would go. Raises AddressFull."""
        plan = Plan()
        self._collect(message, target, plan, plan.main, peek=True)
        verdict = self._free(plan.main.queues)
        for copy in plan.copies:
            verdict = max(verdict, self._free(copy.queues))
        return verdict

    def roll_back(self, transaction: Transaction) -> None:
        """Forget the sends; messages whose settlement was asked for stay in flight at their consumers.

        What a consumer had that has left meanwhile goes back to its queue.
        """
        transaction.signal(Signal.ROLL_BACK)
        transaction.sends.clear()
        settlements = transaction.settlements
        transaction.settlements = []
        queues: dict[int, Queue] = {}
        for each in settlements:
            each.queue.release(each.consumer, each.number)
            queues[int(each.queue.identity)] = each.queue
        for queue in queues.values():
            queue.dispatch()

    # -- reading ------------------------------------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Attach ``subscription`` to every queue that it names. Raises Refused; nothing is attached then."""
        if subscription.durable_name and self.options.refuses_durables:
            raise Refused(
                "durable subscriptions are refused on this broker (rejectDurableConsumers)",
                remedy="subscribe without a name, or read a queue of a virtual topic",
            )
        first = subscription.destinations[0]
        window = subscription.window
        window.octets = subscription.octets
        window.messages = subscription.prefetch
        if subscription.prefetch == DEFAULT_PREFETCH:
            window.messages = self._default_prefetch(subscription, first)
        found: list[tuple[Destination, Queue]] = []
        try:
            for destination in subscription.destinations:
                for queue in self._source(subscription, destination):
                    found.append((destination, queue))
            for _, queue in found:
                self._check_readers(queue)
            at = 0
            while at < len(found) and not (subscription.patterns and self.effort.is_over()):
                destination, queue = found[at]
                self._attach(subscription, queue, destination.queue != "")
                at += 1
        except Refused:
            self.unsubscribe(subscription, MAYBE_DELIVERED)
            for _, queue in found:
                if queue.temporary and queue.routing == MULTICAST and not queue.roster.consumers:
                    self.queues.delete(queue, "its subscription was refused")
            raise
        if subscription.patterns:
            self._follow(subscription)
            if at < len(found):
                left = [queue for _, queue in found[at:]]
                left.reverse()
                self.effort.later(_Attaching(self, subscription, left))
        for queue in subscription.recalling:
            self._recall(queue)
        subscription.recalling.clear()

    def attach_on(self, subscription: Subscription, queues: list[Queue]) -> bool:
        """Attach ``subscription`` to ``queues`` from the end on, as far as this turn reaches; return whether to all."""
        while queues:
            if self.effort.is_over():
                return False
            queue = queues.pop()
            if not queue.deleted:
                try:
                    self._attach(subscription, queue)
                except SubscriptionInUse:
                    continue  # others came meanwhile, as many as it admits
        return True

    def _follow(self, subscription: Subscription) -> None:
        """Attach it to queues to come, and say so: other brokers may have messages for it in queues we do not have."""
        self.followers.append(subscription)
        for pattern in subscription.patterns:
            key = int(self.ids.consumer_key())
            subscription.pattern_keys.append(key)
            self.notices.notice(notices.FOLLOWER_ATTACHED, pattern, _who(subscription, key))

    def _recall(self, queue: Queue) -> None:
        """Give a new subscription what its topic remembers, before anything that comes now (classic.md 4.7)."""
        self.journal.begin()
        try:
            for message in self.recollections.recall(queue.address):
                if passes(queue, message):
                    # what a durable subscription keeps over a restart needs a record, and a number, of its own
                    own = self.ids.renumbered(message) if queue.durable else message
                    self._hand_out(own, [queue])
        finally:
            self.journal.end()

    def _default_prefetch(self, subscription: Subscription, destination: Destination) -> i64:
        routing = destination.routing
        if routing == UNTYPED:
            routing = default_routing(self.table, destination.name)
        policy = self.policies.of(destination.name, routing)
        if routing == MULTICAST:
            return policy.durable_prefetch if subscription.durable_name else policy.topic_prefetch
        return policy.queue_prefetch

    def _source(self, subscription: Subscription, destination: Destination) -> list[Queue]:
        """Return the queues that a subscription to ``destination`` reads, made as needed."""
        if destination.queue:
            return [self.queues.need(destination)]
        routing = destination.routing
        if routing == UNTYPED:
            routing = default_routing(self.table, destination.name)
        if routing == MULTICAST:
            return [self._topic_queue(subscription, destination)]
        if is_pattern(destination.name, MIXED):
            subscription.patterns.append(destination.name)
            self.effort.spent += len(self.table.queues)
            found = self.table.matching(destination.name)
            return [queue for queue in found if queue.routing == ANYCAST and not queue.owner]
        return [self.queues.need(destination)]

    def _topic_queue(self, subscription: Subscription, destination: Destination) -> Queue:
        """Return the queue of a topic subscription: its own for a plain one, the named one for a durable one."""
        if not subscription.durable_name:
            name = f"{destination.name}#{self.ids.consumer_key()}"
            queue = self.queues.create(name, destination.name, MULTICAST, False, subscription.selector)
            queue.temporary = True
            queue.pending_limit = queue.policy.pending_limit
            if queue.pending_limit < 0 and queue.policy.pending_rate >= 0.0:
                queue.pending_limit = int(float(subscription.window.messages) * queue.policy.pending_rate)
            if subscription.pending_limit >= 0:
                queue.pending_limit = subscription.pending_limit
            if subscription.no_local:
                queue.filter_origin = subscription.origin
            self._note_recall(subscription, queue)
            return queue
        name = durable_queue_name(subscription.client_id, subscription.durable_name)
        existing = self.table.queues.get(name)
        if existing is not None:
            if existing.roster.consumers and not subscription.shared:
                raise SubscriptionInUse(f"the durable subscription {subscription.durable_name!r} is in use")
            text = "" if subscription.selector is None else subscription.selector.text
            had = "" if existing.filter is None else existing.filter.text
            same = existing.address == destination.name and text == had
            if same and existing.no_local == subscription.no_local:
                return self._own(existing, subscription)
            existing.owner = ""  # the subscription itself lives on
            self.queues.delete(existing, "its selector, topic or no-local changed")  # JMS 2.0 8.3.3: made anew
        owner = f"{subscription.client_id}\t{subscription.durable_name}"
        queue = self.queues.create(
            name, destination.name, MULTICAST, True, subscription.selector, owner, no_local=subscription.no_local
        )
        self._note_recall(subscription, queue)
        return self._own(queue, subscription)

    def _note_recall(self, subscription: Subscription, queue: Queue) -> None:
        if subscription.retroactive or queue.policy.always_retroactive:
            subscription.recalling.append(queue)

    def _own(self, queue: Queue, subscription: Subscription) -> Queue:
        """Let no-local of a durable subscription mean the connection that reads it now."""
        queue.filter_origin = subscription.origin if subscription.no_local else 0
        self.table.version += 1  # targets that were resolved without this filter look again
        return queue

    def _attach(self, subscription: Subscription, queue: Queue, selective: bool = False) -> None:
        """Attach a consumer. A topic's queue has its selector itself, unless it was named directly: ``selective``."""
        self._check_readers(queue)
        self.effort.spent += ATTACH_UNITS + (len(queue.roster.consumers) >> 3)
        consumer = subscription.consumer(queue)
        consumer.priority = subscription.priority
        consumer.exclusive = subscription.exclusive
        consumer.origin = subscription.origin
        consumer.connection = subscription.connection
        if queue.routing == ANYCAST or selective:
            consumer.selector = subscription.selector
            consumer.no_local = subscription.no_local
        subscription.consumers.append(consumer)
        if queue.trace is not None:
            described = f"{consumer.connection}\t{subscription.far}\t{subscription.client_id}"
            queue.trace.define(facts.NAME_CONSUMER, consumer.key, described)
            queue.note(facts.ATTACHED, 0, consumer.key, 0)
        queue.attach(consumer)
        self.notices.notice(notices.CONSUMER_ATTACHED, queue.name, _who(subscription, int(consumer.key)))

    def _check_readers(self, queue: Queue) -> None:
        """Raise SubscriptionInUse when ``queue`` has as many consumers as it admits."""
        limit = queue.policy.max_consumers
        if 0 <= limit <= len(queue.roster.consumers):
            raise SubscriptionInUse(f"the queue {queue.name!r} admits {limit} consumers and has them")

    def unsubscribe(self, subscription: Subscription, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Detach ``subscription``; what it had not settled goes back in order. A plain topic queue goes with it."""
        if subscription in self.followers:
            self.followers.remove(subscription)
            for pattern, key in zip(subscription.patterns, subscription.pattern_keys, strict=True):
                self.notices.notice(notices.FOLLOWER_DETACHED, pattern, _who(subscription, key))
            subscription.pattern_keys.clear()
        subscription.window.pause(Pause.RETIRING)  # what one queue frees of its credit is not for the next one
        subscription.window.consumers.clear()
        consumers = subscription.consumers
        subscription.consumers = []
        consumers.reverse()
        if not self.detach_on(subscription, consumers, last_delivered):
            self.effort.later(_Leaving(self, subscription, consumers, last_delivered))

    def detach_on(self, subscription: Subscription, consumers: list[Consumer], last_delivered: i64) -> bool:
        """Detach ``consumers``, from the end on: of a wildcard as far as this turn reaches. Return whether all."""
        while consumers:
            if subscription.patterns and self.effort.is_over():
                return False
            consumer = consumers.pop()
            queue = consumer.queue
            if queue is None:
                continue
            self.effort.spent += ATTACH_UNITS + len(consumer.in_flight) + (len(queue.roster.consumers) >> 2)
            queue.detach(consumer, last_delivered)
            self._note_detached(queue, consumer)
            self.notices.notice(notices.CONSUMER_DETACHED, queue.name, _who(subscription, int(consumer.key)))
            if queue.temporary and queue.routing == MULTICAST and not queue.roster.consumers:
                self.queues.delete(queue, "its subscriber left")
        return True

    def _note_detached(self, queue: Queue, consumer: Consumer) -> None:
        if queue.trace is not None:
            queue.note(facts.DETACHED, 0, consumer.key, 0)
            queue.trace.forget(facts.NAME_CONSUMER, consumer.key)

    def begin_trace(self) -> None:
        """Note that the broker starts; call it when it has a name and its queues."""
        if self.trace is not None:
            self.trace.note(facts.STARTED, self.ids.run, 0, 0, 0)

    def finish_work(self) -> None:
        """Do all that earlier turns left: the broker stops, and nobody waits for a turn any more."""
        while self.effort.rests:
            self.effort.go_on()

    def end_trace(self) -> None:
        """Note what is still here, as the last word before the journal is closed."""
        trace = self.trace
        if trace is None:
            return
        for queue in self.table.queues.values():
            queue.note_pending()
        for lease in self.leases.held.values():
            for number in lease.numbers.values():
                lease.queue.note(facts.PENDING, number, 0, 0)
        for branch in self.branches.prepared.values():
            for hold in branch.holds:
                hold.queue.note(facts.PENDING, hold.number, 0, 0)
        trace.note(facts.STOPPED, self.ids.run, 0, 0, 0)
        trace.flush()

    def durable(self, client_id: str, name: str) -> Queue | None:
        """Return the queue of a durable subscription, None when there is none."""
        return self.table.queues.get(durable_queue_name(client_id, name))

    def forget_durable(self, client_id: str, name: str) -> bool:
        """Delete a durable subscription; False when there is none. Raises SubscriptionInUse while it is read."""
        queue = self.table.queues.get(durable_queue_name(client_id, name))
        if queue is None:
            return False
        if queue.roster.consumers:
            raise SubscriptionInUse(f"the durable subscription {name!r} is in use", remedy="close its consumer first")
        self.queues.delete(queue, "it was unsubscribed")
        return True

    def browse(self, destination: Destination, selector: Predicate | None) -> Browser:
        """Return a look through the queue that ``destination`` names."""
        return self.browse_all([destination], selector)

    def browse_all(self, destinations: list[Destination], selector: Predicate | None) -> Browser:
        """Return a look through the queues that ``destinations`` name, each once; a wildcard names those there are."""
        found: dict[str, Queue] = {}
        for destination in destinations:
            for queue in self._browsed(destination):
                found[queue.name] = queue
        return Browser(list(found.values()), selector)

    def _browsed(self, destination: Destination) -> list[Queue]:
        if destination.queue or destination.routing == MULTICAST or not is_pattern(destination.name, MIXED):
            return [self.queues.need(destination)]
        self.effort.spent += len(self.table.queues)
        found = self.table.matching(destination.name)
        return [queue for queue in found if queue.routing == ANYCAST and not queue.owner]

    def claim(self, client_id: str, holder: ClientHolder, steal: bool) -> bool:
        """Let ``holder`` have ``client_id``; False when another connection has it. ``steal``: that one gives way.

        "" is no client id, and nobody's.
        """
        if not client_id:
            return True
        before = self.clients.get(client_id)
        if before is not None:
            if not steal:
                return False
            before.give_way(holder.peer)
        self.clients[client_id] = holder
        return True

    def disclaim(self, client_id: str, holder: ClientHolder) -> None:
        """``holder`` needs ``client_id`` no more; nothing happens if another one has it by now."""
        if self.clients.get(client_id) is holder:
            del self.clients[client_id]

    def check(self) -> None:
        """Assert the invariants of every queue, of the memory account and of the journal."""
        held: dict[int, Message] = {}
        for queue in [*self.table.queues.values(), *self.queues.removals.values()]:
            queue.check()
            for reference in queue.backlog.references():
                held[id(reference.message)] = reference.message
            for reference in queue.delayed.values():
                held[id(reference.message)] = reference.message
            for consumer in queue.roster.consumers:
                for reference in consumer.in_flight.values():
                    held[id(reference.message)] = reference.message
            for reference in queue.promised.values():
                held[id(reference.message)] = reference.message
        for lease in self.leases.held.values():
            for reference in lease.kept.values():
                held[id(reference.message)] = reference.message
        for message in self.branches.check() + self.stages.check():
            held[id(message)] = message
        for message in self.recollections.held():
            held[id(message)] = message
        for scheduled in self.schedules.values():
            if scheduled is not None:
                held[id(scheduled)] = scheduled
        octets: i64 = self.stages.ledger.octets
        for message in held.values():
            octets += message.size
        assert octets == self.memory.used, f"memory account says {self.memory.used}, messages held cost {octets}"
        self.copies.check()
        self.journal.check()


def _one_is_durable(queues: list[Queue]) -> bool:
    for queue in queues:  # noqa: SIM110 - a loop compiles to half the time of a generator
        if queue.durable:
            return True
    return False


class _Chime(Alarm):
    def __init__(self, due: int, broker: BrokerCore) -> None:
        super().__init__(due)
        self.broker = broker

    def ring(self, now: int) -> None:
        self.broker.keep_dates()


def stamp_expiration(message: Message, policy: Policy, wall: i64) -> None:
    """Give or bound the expiration as the policy says: expiry-delay, then min and max (artemis.md 4.2)."""
    if message.expiration == 0:
        if policy.expiry_ms >= 0:
            message.expiration = wall + policy.expiry_ms
        elif policy.expiry_ms_max >= 0:
            message.expiration = wall + policy.expiry_ms_max
        elif policy.expiry_ms_min >= 0:
            message.expiration = wall + policy.expiry_ms_min
        return
    if policy.expiry_ms_min >= 0 and message.expiration < wall + policy.expiry_ms_min:
        message.expiration = wall + policy.expiry_ms_min
    if policy.expiry_ms_max >= 0 and message.expiration > wall + policy.expiry_ms_max:
        message.expiration = wall + policy.expiry_ms_max


def mark_origin(copy: Message, message: Message, queue: Queue, identity: str) -> None:
    """Write on ``copy`` where it was: what Artemis calls the original address, queue, id and routing type."""
    copy.annotate("_AMQ_ORIG_ADDRESS", message.address or queue.address)
    copy.annotate("_AMQ_ORIG_QUEUE", queue.name)
    copy.annotate("_AMQ_ORIG_MESSAGE_ID", identity)
    copy.annotate("_AMQ_ORIG_ROUTING_TYPE", str(queue.routing))
    if message.expiration:
        copy.annotate("_AMQ_ACTUAL_EXPIRY", str(message.expiration))


def _who(subscription: Subscription, key: int) -> dict[str, str]:
    selector = subscription.selector
    return {
        "connection": subscription.connection,
        "consumer": str(key),
        "client": subscription.client_id,
        "subscription": subscription.durable_name,
        "selector": "" if selector is None else selector.text,
        "prefetch": str(min(subscription.window.messages, PREFETCH_SHOWN_MAX)),
        "priority": str(subscription.priority),
        "exclusive": "1" if subscription.exclusive else "",
        "no-local": "1" if subscription.no_local else "",
        "announces": "1" if subscription.announces else "",
        "patterns": ",".join(subscription.patterns),
    }


def selector_or_none(text: str) -> Predicate | None:
    """Return the predicate of ``text``, None for an empty one. Raises InvalidSelector."""
    return compile_selector(text) if text.strip() else None


__all__ = [
    "BLOCKED",
    "DROPPED",
    "DUPLICATE",
    "SCHEDULED",
    "SENT",
    "BrokerCore",
    "BrokerOptions",
    "SpaceWaiter",
    "Window",
    "Consumer",
]
