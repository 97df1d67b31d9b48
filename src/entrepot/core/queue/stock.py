"""What a queue keeps: what waits in memory, what is left to the disk, and how both stay in order. [C]

State: the `Backlog`, how often what is on disk was delivered, how many messages have an expiration, and who waits for
an arrival. A message is charged to the broker's memory while a reference to it is here or in flight; `done` ends that.
A ring (artemis.md 4.5) keeps so many messages, the newest, in memory and on disk together; what is in flight, leased or
set aside is not counted. `core/queue/values.py` is the stock of a last-value queue.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.addressing.address_settings import FULL_PAGE
from entrepot.core.addressing.policy import Policy
from entrepot.core.effort import Effort
from entrepot.core.events import trace as facts
from entrepot.core.ports import ArrivalWatcher, Host, Memory
from entrepot.core.queue.backlog import LEVELS, Backlog, Paged, Reference
from entrepot.core.queue.bereaved import load_or_stand_in, record_flaw
from entrepot.core.queue.dispatch import Roster
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.walk import Walk
from entrepot.journal.log import JournalCore
from entrepot.journal.reading import Heads
from entrepot.model.message import DEFAULT_PRIORITY, Message

RELOAD_MESSAGES: Final = 1024
RELOAD_OCTETS: Final = 4 * 1024 * 1024  # bodies may be large: stop a read-in here, and read on below half of it
RELOAD_STEP: Final = 256
LOAD_UNITS: Final = 2  # of `core/effort.py`: to read a message from disk, one of many
PAGE_UNITS: Final = 4  # and to write a record of its own for it


def holds_enough(backlog: Backlog, policy: Policy) -> bool:
    """Return whether as many messages wait as may: in memory, where others go to disk, and there as well."""
    if messages_held(backlog, policy) >= policy.max_messages:
        return True
    return policy.full == FULL_PAGE and has_paged_enough(backlog, policy)


def octets_held(backlog: Backlog, policy: Policy) -> i64:
    """Return how much counts for ``max_octets``: all that waits; with PAGE what is in memory.

    On disk waits, whatever the policy, what was there at the start and what a staged batch brought.
    """
    if policy.full == FULL_PAGE:
        return backlog.octets
    return backlog.octets + backlog.paged_octets


def messages_held(backlog: Backlog, policy: Policy) -> i64:
    """Return how many messages count for ``max_messages``: as `octets_held`."""
    if policy.full == FULL_PAGE:
        return backlog.count - backlog.paged_count
    return backlog.count


def has_paged_enough(backlog: Backlog, policy: Policy) -> bool:
    """Return whether as much waits on disk as may (artemis.md 4.8); ``policy`` says what holds then."""
    return backlog.paged_count >= policy.page_messages or backlog.paged_octets >= policy.page_octets


class Stock:
    """What waits in one queue, and the accounts of it."""

    def __init__(self, host: Host, head: QueueHead, roster: Roster) -> None:
        self.host: Host = host
        self.head: QueueHead = head
        self.journal: JournalCore = host.journal
        self.memory: Memory = host.memory
        self.effort: Effort = host.effort
        self.roster: Roster = roster
        self.backlog: Backlog = Backlog(head.policy.prioritized)
        self.attempts: dict[int, i64] = {}  # number of what is on disk -> how often it was delivered before
        self.expiring: i64 = 0  # messages in the backlog that have an expiration: the sweep skips queues without
        self.ring: i64 = head.traits.ring_size  # messages that wait at the most; -1: any number
        self.moved: i64 = 0  # the last number that `_renumbered` gave: who comes behind that one may not be before it
        self.queued: bool = False  # all that comes waits first, though somebody is ready
        self.numbered: bool = True  # what leaves is known by its number alone
        self.watcher: ArrivalWatcher | None = None  # where somebody waits for a message to claim

    def is_full(self) -> bool:
        """Return whether this queue or the broker holds as much as it may, or the queue as many messages."""
        memory = self.memory
        policy = self.head.policy
        if octets_held(self.backlog, policy) >= policy.max_octets or memory.used >= memory.limit or memory.crowded:
            return True
        return policy.counts and holds_enough(self.backlog, policy)

    # -- what comes in ------------------------------------------------------------------------------------------------

    def wait(self, message: Message) -> None:
        """Append ``message`` to the backlog, or page it when memory is full or older ones are paged already."""
        if self.watcher is not None:
            self.announce()
        backlog = self.backlog
        if message.number < self.moved and not self.head.keeps(message):
            message = self._renumbered(message)
        if message.expiration:
            self.expiring += 1
        if backlog.paged_count > 0 or self.is_full():
            level = backlog.level_of(message)
            if (backlog.is_paging(level) or self.is_full()) and self._page(message, level):
                if self.ring >= 0:
                    trim(self)
                return
            backlog.mixed = backlog.mixed or backlog.is_paging(level)
        reference = self.reference(message, 0)
        last = backlog.append(reference)
        if not self.roster.simple:
            if last:
                self.roster.appended(reference, backlog.levels is not None)
            else:
                self.roster.revisit(reference, backlog.levels is not None)
        if self.ring >= 0:
            trim(self)

    def wait_large(self, message: Message) -> None:
        """Append ``message``, whose body is a blob: somebody must hold the blob as long as we need it.

        That is a record of the journal, or, without a disk, the reference itself (`done` lets go of it).
        """
        own = message
        journal = self.journal
        kept = self.head.keeps(message)
        if not kept and journal.pages:
            if not may_share(self, message):
                own = self._renumbered(message)
            journal.page(own, [int(self.head.identity)])
        if own.expiration:
            self.expiring += 1
        level = self.backlog.level_of(own)
        if self.backlog.is_paging(level):  # it is on disk already, and may not overtake
            if not self.backlog.page(level, own.number, own.size):
                self.roster.rewind(level, own.number - 1)
        else:
            reference = self.reference(own, 0)
            reference.paged = not kept
            if not journal.pages:
                journal.overflow.hold(own.need_rare().large_id)
            self.backlog.restore(reference)
            if not self.roster.simple:
                self.roster.appended(reference, self.backlog.levels is not None)
        self.announce()
        if self.ring >= 0:
            trim(self)

    def recovered(self, number: i64, priority: i64, expiration: i64, deliveries: i64, octets: i64) -> None:
        """Note at start that message ``number`` waits on disk; numbers come in ascending order."""
        if deliveries > 0:
            self.attempts[int(number)] = deliveries
        self.head.note(facts.RECOVERED, number, 0, 0)
        level = priority if self.head.policy.prioritized else 4
        self.backlog.page(level, number, octets)
        if expiration:
            self.expiring += 1

    def _page(self, message: Message, level: i64) -> bool:
        """Leave ``message`` to the disk; False when there is none (ephemeral), or it is full."""
        journal = self.journal
        if not journal.pages:
            return False
        if not self.head.keeps(message):
            if journal.refusal() is not None or journal.space.temp_full():
                return False
            if not may_share(self, message):
                message = self._renumbered(message)
            journal.page(message, [int(self.head.identity)])
            self.effort.spent += PAGE_UNITS
        if not self.backlog.page(level, message.number, message.size):
            self.roster.rewind(level, message.number - 1)
        return True

    def _renumbered(self, message: Message) -> Message:
        """Return ``message`` with a number of its own, as the same message.

        What was numbered before it, and comes behind it, as of a large commit, gets one too. What the journal keeps has
        its number for good: it may overtake what the journal does not.
        """
        own = self.host.ids.renumbered(message)
        self.moved = own.number
        self.head.note_renumbered(message.number, own)
        return own

    def reference(self, message: Message, deliveries: i64) -> Reference:
        """Return a reference to ``message``, which is charged to the broker's memory from now on."""
        reference = Reference(message)
        reference.deliveries = deliveries
        self.memory.hold(message)
        return reference

    def watch(self, watcher: ArrivalWatcher | None) -> None:
        """Tell ``watcher`` from now on when there is something to claim; None: tell nobody."""
        self.watcher = watcher

    def announce(self) -> None:
        """Tell whoever waits to claim that there is something to look at."""
        watcher = self.watcher
        if watcher is not None:
            watcher.arrived()

    # -- what comes back ----------------------------------------------------------------------------------------------

    def put_back(self, reference: Reference) -> None:
        """Return ``reference`` to its place: in memory, or on disk when older ones of its level wait there.

        The caller lets the queue dispatch after the last one.
        """
        message = reference.message
        if reference.shown:
            self.memory.release(message)
            return
        self.announce()
        if message.expiration:
            self.expiring += 1
        backlog = self.backlog
        if backlog.paged_count > 0:
            level = backlog.level_of(message)
            paged = backlog.behind(level)
            kept = reference.paged or self.head.keeps(message)
            older = paged is not None and paged.front() < reference.number
            if older and not kept:
                backlog.mixed = True
            elif older:
                self._page_back(level, [int(reference.number)], message.size)
                if reference.deliveries > 0:
                    self.attempts[int(reference.number)] = reference.deliveries
                self.memory.release(message)
                if self.ring >= 0:
                    trim(self)
                return
        backlog.restore(reference)
        if not self.roster.simple:
            self.roster.revisit(reference, backlog.levels is not None)
        if self.ring >= 0:
            trim(self)

    def put_back_numbers(self, level: i64, numbers: list[int], octets: i64) -> None:
        """Let ``numbers`` (ascending), which the journal has for this queue, wait on disk again; they weigh ``octets``.

        `count_expiring` says how many have an expiration, `note_attempts` how often each was delivered. Nothing is read
        into memory. The caller lets the queue dispatch after the last one.
        """
        if numbers:
            self._page_back(level, numbers, octets)
            self.announce()
            if self.ring >= 0:
                trim(self)

    def _page_back(self, level: i64, numbers: list[int], octets: i64) -> None:
        """Add ``numbers`` (ascending), which the journal has for this queue, to what waits on disk."""
        backlog = self.backlog
        paged = backlog.paged[level]
        if paged is None:
            paged = Paged()
            backlog.paged[level] = paged
        paged.merge(numbers)
        backlog.paged_count += len(numbers)
        backlog.paged_octets += octets
        self.roster.rewind(level, numbers[0] - 1)

    def count_expiring(self, count: i64) -> None:
        """Count ``count`` messages more that have an expiration."""
        self.expiring += count

    def note_attempts(self, number: int, deliveries: i64) -> None:
        """Remember that message ``number``, which is on disk, was delivered ``deliveries`` times."""
        self.attempts[number] = deliveries

    def forget_attempts(self, number: int) -> i64:
        """Return how often message ``number`` was delivered when it was on disk, and forget it."""
        return self.attempts.pop(number, 0)

    # -- what goes ----------------------------------------------------------------------------------------------------

    def remove(self, reference: Reference) -> None:
        """Take ``reference`` out of the backlog; cursors that stand on it step on."""
        if reference.message.expiration:
            self.expiring -= 1
        if not self.roster.simple:
            self.roster.step_on(reference, self.backlog.following(reference))
        self.backlog.remove(reference)

    def strike(self, level: i64, numbers: list[int]) -> None:
        """Forget that ``numbers`` (ascending) wait on disk."""
        if numbers:
            paged = self.backlog.paged[level]
            assert paged is not None
            self.backlog.left_disk(paged.discard(numbers))

    def done(self, message: Message, reference: Reference | None) -> None:
        """The message is done with in this queue: free its memory and tell the journal, and who mirrors this broker."""
        mirrors = self.host.mirrors
        if mirrors is None or (reference is not None and reference.shown):
            let_go(self, message, reference)
            return
        self.journal.begin()
        try:
            mirrors.left(self.head, message)
            let_go(self, message, reference)
        finally:
            self.journal.end()

    def finish(self, reference: Reference) -> None:
        """Be done with ``reference``, which waits no longer."""
        self.done(reference.message, reference)

    def discard(self, number: i64) -> None:
        """Be done with message ``number``, which was on disk and is not read; unless other brokers are told which."""
        mirrors = self.host.mirrors
        self.attempts.pop(int(number), 0)
        if mirrors is None or self.head.deleted:
            self.journal.settle(number, self.head.identity)
            return
        self.journal.begin()
        try:
            for message in load_or_stand_in(self.journal, [int(number)]):
                mirrors.left(self.head, message)
            self.journal.settle(number, self.head.identity)
        finally:
            self.journal.end()

    # -- what is read -------------------------------------------------------------------------------------------------

    def walk(self, floor: i64 = 0) -> Walk:
        """Return a pass through what waits, and came behind the number ``floor``."""
        return Walk(self.backlog, self.journal, floor)

    def reload(self) -> bool:
        """Read the next messages of the highest level that has some on disk into memory; False when there are none."""
        backlog = self.backlog
        level: i64 = LEVELS - 1
        while level >= 0:
            paged = backlog.behind(level)
            if paged is not None:
                read = self.load(paged.after(0, RELOAD_MESSAGES))
                backlog.take_paged(level, len(read))
                for message in read:
                    reference = self.read_in(message)
                    backlog.restore(reference)
                    if not self.roster.simple:  # a lease that was released can put older ones behind a cursor
                        self.roster.revisit(reference, backlog.levels is not None)
                    rare = message.rare
                    if rare is not None and rare.group:
                        self.roster.saw_group()
                return len(read) > 0
            level -= 1
        return False

    def load(self, numbers: list[int]) -> list[Message]:
        """Return the first of ``numbers`` from disk, until they make up RELOAD_OCTETS; the one that does is in it."""
        found: list[Message] = []
        octets: i64 = 0
        step = 4  # read little until it is known how large they are
        at = 0
        while at < len(numbers) and octets < RELOAD_OCTETS:
            part = numbers[at : at + step]
            read = load_or_stand_in(self.journal, part, RELOAD_OCTETS - octets)
            for message in read:
                octets += message.size
                found.append(message)
                self.effort.spent += LOAD_UNITS
            at += len(read)
            step = min(step * 2, RELOAD_STEP) if octets < RELOAD_OCTETS // 4 else 4
        return found

    def read_in(self, message: Message) -> Reference:
        """Return the reference of a message that was read back from disk."""
        self.backlog.lighten(message.size)
        reference = self.reference(message, 0)
        if self.attempts:
            reference.deliveries = self.attempts.pop(int(message.number), 0)
        reference.paged = True
        return reference

    def draw(self, message: Message) -> Reference:
        """Return the reference of a message on disk that is taken out; call `strike` for its number."""
        if message.expiration:
            self.expiring -= 1
        return self.read_in(message)

    def emptied(self) -> None:
        """All that waited was removed, unread where it was on disk."""
        if self.backlog.count == 0:
            self.expiring = 0

    def is_over(self, message: Message) -> bool:
        """Return whether the time to live of ``message`` is over."""
        return message.expiration != 0 and message.expiration <= self.host.wall

    def flaw(self, message: Message) -> str:
        """Return why the large body of ``message``, or its record, is known to be lost; "" for all others."""
        rare = message.rare
        if rare is None:
            return ""
        return record_flaw(message) if rare.large_id == 0 else self.journal.overflow.flaw(message)

    def check(self) -> None:
        """Assert that the accounts fit what waits (simulation and debug builds)."""
        self.backlog.check()
        if self.backlog.paged_count == 0:
            expiring = sum(1 for reference in self.backlog.references() if reference.message.expiration)
            name = self.head.name
            assert expiring == self.expiring, f"{name} counts {self.expiring} with an expiration, holds {expiring}"


def may_share(stock: Stock, message: Message) -> bool:
    """Return whether ``message``, which the journal does not keep for this queue, may be on disk by its own number.

    It may not where its record was another queue's and is gone, or outlives this one's need; one that pages serves all.
    Nor may it where one that is before it got a higher number (`Stock.moved`).
    """
    if message.number < stock.moved:
        return False
    return not message.stored or (not message.durable and stock.journal.tail.index.alive(message.number))


def let_go(stock: Stock, message: Message, reference: Reference | None) -> None:
    """Free the memory of ``message``, which has left, and tell the journal; ``reference`` None: it was never kept."""
    journal = stock.journal
    if reference is not None:
        stock.memory.release(message)
        if reference.shown:
            return
        if reference.paged or (message.stored and message.durable and stock.head.durable):
            journal.settle(message.number, stock.head.identity)
            if reference.paged and not journal.pages:  # a large body that lives in memory
                journal.overflow.release(message.need_rare().large_id)
    elif message.stored and message.durable and stock.head.durable:
        journal.settle(message.number, stock.head.identity)


def wait_on_disk(stock: Stock, first: i64, heads: Heads) -> None:
    """Let messages from number ``first`` on, which the journal has for this queue by now, wait where they are.

    Their numbers are higher than those of all that waits here. The caller lets the queue dispatch.
    """
    backlog = stock.backlog
    at = 0
    while at < len(heads.sizes):
        level: i64 = i64(heads.priorities[at]) if backlog.prioritized else DEFAULT_PRIORITY
        backlog.page(level, first + at, i64(heads.sizes[at]))
        if heads.expirations[at] != 0:
            stock.expiring += 1
        at += 1
    stock.announce()


def replace(stock: Stock, reference: Reference) -> None:
    """Be done with ``reference``, which waits: a newer message takes its place."""
    stock.remove(reference)
    stock.head.note(facts.REMOVED, reference.number, 0, facts.REPLACED)
    stock.finish(reference)


def trim(stock: Stock) -> None:
    """Remove the first of what waits, until the ring holds no more than it may."""
    backlog = stock.backlog
    while backlog.count > stock.ring:
        reference = backlog.first()
        if reference is None or (backlog.paged_count > 0 and backlog.is_starved(0, 0)):
            if not stock.reload():
                return
            continue
        replace(stock, reference)
