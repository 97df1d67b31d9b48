"""Leases: a named reader takes a range of messages and may read it again, until it settles it or lets it go. [C]

A lease belongs to one queue and one *group* (the reader's name). Its ledger gives the messages that it claimed dense
positions 0, 1, 2, ...; ``base`` is the first position not settled, ``tail`` the next to be claimed. Claimed messages
are hidden from ordinary consumers and from other groups. An *epoch* fences: attaching raises it, and every other
operation must name the current one, so that a reader which was replaced finds out (the design of the Spark source).

Everything is durable: the ledger is a document per claim, the base another, written before the answer is confirmed.
A lease never expires by itself: giving the range to others while its reader still works on it would double messages.

Invariants (`check`): base <= tail, the ledger holds exactly the positions base..tail.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import CorruptJournal, EntrepotError, LeaseError, LeaseOver
from entrepot.base.reasons import BODY_LOST, Reason
from entrepot.core.events import trace as facts
from entrepot.core.leases import lease_records as records
from entrepot.core.leases.ledger import Ledger
from entrepot.core.leases.lost import LostRecords
from entrepot.core.ports import ClaimWaiter
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.bereaved import load_or_stand_in
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.taking import Drawn, Pick
from entrepot.core.queue.walk import Walk
from entrepot.core.records import KIND_CLAIM, KIND_LEASE
from entrepot.core.scheduling.timed import Alarm
from entrepot.journal.condition import again
from entrepot.journal.locating import Locating
from entrepot.journal.log import JournalCore
from entrepot.journal.reading import Records
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

CLAIM_MESSAGES_MAX: Final = 100_000  # one claim is one document: 800 kB of numbers
LEASED: Final = -1  # who reads by lease, in the trace: no consumer has this key
CLAIM_LOOKS: Final = 100_000  # messages that one claim looks at when it has a selector
LOOK_AGAIN: Final = 100 * MILLISECOND  # a selector passes over the whole queue: not for every message that arrives
RETURN_STEP: Final = 256  # messages whose envelopes are read at a time when a lease goes back ...
RETURN_OCTETS: Final = 1024 * 1024  # ... or fewer: with the one that reaches so many


class _Places:
    """Where messages on disk wait again: level -> their numbers, ascending, and their octets."""

    def __init__(self) -> None:
        self.levels: dict[int, list[int]] = {}
        self.octets: dict[int, int] = {}
        self.expiring: int = 0

    def add(self, message: Message, level: int) -> None:
        """Add one."""
        self.levels.setdefault(level, []).append(int(message.number))
        self.octets[level] = self.octets.get(level, 0) + int(message.size)
        if message.expiration:
            self.expiring += 1


class Lease:
    """One group's hold on one queue. Changed only by its own methods, which the broker calls."""

    def __init__(self, queue: Queue, group: str) -> None:
        self.queue: Queue = queue
        self.group: str = group
        self.epoch: int = 0
        self.base: int = 0
        self.tail: int = 0
        self.selector: Predicate | None = None
        self.after: int = 0  # only messages with higher numbers are claimed
        self.since: int = 0  # only messages with this time stamp or a later one: ms since 1970
        self.until: int = 0  # and none with a later one than this; 0: any
        self.claimed: int = 0  # octets that the last claim added
        self.located: int = 0  # messages that its reader was told the places of, to read them there himself
        self.fresh: bool = True  # nobody has attached yet
        self.numbers: Ledger = Ledger()
        self.kept: dict[int, Reference] = {}  # position -> message, where there is no disk to read it from again
        self.claims: dict[int, int] = {}  # start -> end of each claim that the journal has
        self.made: dict[int, int] = {}  # start -> when that claim was made, ms since 1970; 0 where that is not known
        self.heard: Instant = int(queue.host.now)  # when its reader asked for something last, or the broker started
        self.worked: Instant = self.heard  # when he did something with what it holds, or came for it
        self.advanced: Instant = self.heard  # when something was claimed or settled
        self.lost: LostRecords = LostRecords(queue, group)
        self.walk: Walk | None = None  # how far the selector has looked
        self.ended: str = ""  # why the lease is over, when its queue was deleted
        self.waiting: list[Poll] = []  # claims that wait for something to claim

    @property
    def held(self) -> int:
        """How many messages the lease holds."""
        return self.tail - self.base

    @property
    def held_since(self) -> int:
        """When the oldest of what it holds was claimed, ms since 1970; 0: it holds nothing, or that is not known."""
        for start in self.claims:
            return self.made.get(start, 0)
        return 0

    @property
    def more(self) -> int:
        """How many messages wait in the queue; with a selector perhaps fewer can be claimed: it has not looked."""
        return 0 if self.queue.gate.paused else int(self.queue.backlog.count)

    @property
    def picky(self) -> bool:
        """Whether a claim has to look at messages that it does not take."""
        return self.selector is not None or self.since > 0 or self.until > 0

    @property
    def begins(self) -> str:
        """Where the ledger began, in the words of ATTACH's ``from``."""
        return str(self.since) if self.since else "latest" if self.after else "earliest"

    def begin(self, after: int, since: int) -> None:
        """Say where the ledger begins: behind the number ``after``, at the time stamp ``since``. Once, for good."""
        if self.fresh:
            self.after = after
            self.since = since

    def attach(self, journal: JournalCore, selector: Predicate | None, until: int = 0) -> int:
        """Raise the epoch, which fences every earlier reader; return it.

        ``selector`` and ``until`` (ms since 1970, 0: none) hold for claims from now on.
        """
        self._alive()
        self.heard = self.worked = int(self.queue.host.now)
        self.fresh = False
        self.epoch += 1
        self.selector = selector
        self.until = until
        self.walk = None
        self._write(journal)
        self._fence_waiting()
        return self.epoch

    def claim(self, journal: JournalCore, epoch: int, start: int, most: int, octets: int | None = None) -> int:
        """Extend the ledger to at most ``start + most`` and return its end; asking again gives the same range first.

        ``octets``: what is new ends with the message that reaches so many, of headers and bodies; 0: nothing is new,
        nor where something was claimed behind ``start`` before. How many it has, `claimed` says. It may give fewer than
        there are, or none yet, when bodies are large or a selector passes over many: ask again.
        Raises LeaseError for a stale epoch, or a ``start`` outside of the ledger; StorageFull: nothing is claimed then.
        """
        self.fence(epoch)
        if not self.base <= start <= self.tail:
            raise LeaseError(
                f"claim at {start} is outside of the ledger {self.base}..{self.tail} of {self.group} "
                f"on {self.queue.name}",
                remedy="begin at the base or at the end of the last claim",
            )
        refusal = journal.refusal()
        if refusal is not None:
            raise again(refusal)
        wanted = min(start + most - self.tail, CLAIM_MESSAGES_MAX)
        if octets is not None and (octets == 0 or start < self.tail):
            wanted = 0  # how large what was claimed before is, nobody knows any more
        self.claimed = 0
        if wanted > 0 and not (self.queue.gate.paused or self.queue.host.ceased):
            pick = Pick(self.selector, self.since, self.until, octets or 0)
            drawn = Drawn()
            taken: list[Reference] = []
            try:
                if not self.picky:
                    self.queue.taking.draw(drawn, self.after, wanted, pick)
                if len(drawn.numbers) < wanted and not pick.is_full():
                    taken = self._walk_on(wanted - len(drawn.numbers), pick)
            finally:  # what the disk gave until it gave no more is out of the queue, and so it is held
                self.claimed = int(pick.octets)
                if drawn.numbers or taken:
                    self._take(journal, drawn, taken)
        return min(self.tail, start + most)

    def _walk_on(self, wanted: int, pick: Pick) -> list[Reference]:
        walk = self.walk or self.queue.stock.walk(self.after)
        taken = self.queue.taking.take(walk, wanted, CLAIM_LOOKS, pick)
        # with a selector the next claim goes on where this one ended; behind the end it begins anew
        self.walk = None if walk.done or not self.picky or pick.is_full() else walk
        return taken

    def read(self, journal: JournalCore, epoch: int, low: int, high: int, octets: int = 0) -> list[Message]:
        """Return the messages at positions ``low`` to ``high`` - 1; no side effect, so it may be called again.

        With ``octets`` it ends early, with the message that reaches so many. Where a record is damaged, a message
        without a body stands for it (`lost`).
        """
        self.may_read(epoch, low, high)
        if journal.pages:
            return self.lost.read(journal, low, self.numbers.listed(low, high), octets)
        return [self.kept[position].message for position in range(low, high)]

    def may_read(self, epoch: int, low: int, high: int) -> None:
        """Raise LeaseError for a stale epoch, or a range that is not all held."""
        self.fence(epoch)
        if low < self.base or high > self.tail or low > high:
            raise LeaseError(
                f"read of {low}..{high} is outside of the ledger {self.base}..{self.tail} of {self.group} "
                f"on {self.queue.name}",
                remedy="below the base messages are settled and gone; beyond the tail claim first",
            )
        self.worked = self.heard

    def deliveries(self, position: int) -> int:
        """Return how often the message at ``position`` was given to somebody before it was claimed."""
        kept = self.kept.get(position)
        return int(self.queue.stock.attempts.get(self.numbers[position], 0) if kept is None else kept.deliveries)

    def settle(self, journal: JournalCore, epoch: int, up_to: int) -> int:
        """Settle every position below ``up_to``; return how many messages that were. Below the base it does nothing.

        Raises StorageError when the disk does not say what is lost: what stands before that is settled, and the rest
        can be asked for again.
        """
        self.fence(epoch)
        if up_to > self.tail:
            raise LeaseError(f"cannot settle up to {up_to}: only {self.tail} were claimed by {self.group}")
        settled = 0
        if up_to <= self.base:
            return settled
        self.worked = self.advanced = self.heard
        is_any_lost = len(self.lost.blocks) > 0
        refusal = journal.refusal() if journal.overflow.damaged or is_any_lost else None
        if refusal is not None:
            raise again(refusal)
        journal.begin()
        try:
            while self.base < up_to:
                if is_any_lost and self.lost.has(self.base):
                    self.lost.bury(journal, self.base, self.numbers[self.base])
                elif journal.overflow.damaged:
                    self._mourn(journal, self.base)
                self.queue.note(facts.ACKNOWLEDGED, self.numbers[self.base], LEASED, 0)
                self._forget(journal, self.base)
                self.base += 1
                settled += 1
        finally:  # what was settled until the disk did not say what is lost is settled
            try:
                _settled(self, journal)
                self._write(journal)
            finally:
                journal.end()
            self.queue.count_settled(settled)
        return settled

    def release(self, journal: JournalCore) -> int:
        """Give everything back to the queue, in order, and fence the reader; return how many messages that were.

        Raises StorageError when the disk does not say where they belong: nothing is changed then.
        """
        self._alive()
        returned = self.held
        places = self._places(journal)
        journal.begin()
        try:
            self._return(journal)
            for level in places.levels:
                self.queue.stock.put_back_numbers(level, places.levels[level], places.octets[level])
            self.queue.stock.count_expiring(places.expiring)
            for start in self.claims:
                journal.delete(KIND_CLAIM, _claim_key(self, start))
            self.numbers.clear()
            self.kept.clear()
            self.claims.clear()
            self.made.clear()
            self.lost.clear(journal)
            self.base = self.tail
            self.fresh = True
            self.after = self.since = self.until = 0
            self.epoch += 1  # a reader that is still there is fenced; the record stays so that no epoch comes twice
            self.walk = None
            self._write(journal)
        finally:
            journal.end()
        self._fence_waiting()
        self.queue.dispatcher.dispatch()
        return returned

    def _return(self, journal: JournalCore) -> None:
        """Count what is held as delivered, for its reader may have seen it; what is in memory waits again."""
        queue = self.queue
        for position in range(self.base, self.tail):
            number = self.numbers[position]
            queue.note(facts.RETURNED, number, LEASED, 1)
            queue.unlease(1)
            kept = self.kept.get(position)
            if kept is not None:
                kept.deliveries += 1
                queue.stock.put_back(kept)
                continue
            deliveries = queue.stock.attempts.get(number, 0) + 1
            queue.stock.note_attempts(number, deliveries)
            journal.redelivered(number, queue.identity, deliveries)

    def _places(self, journal: JournalCore) -> _Places:
        """Return where what is held on disk belongs; what is younger and in memory goes there by the order of numbers.

        Changes nothing. Raises StorageError.
        """
        places = _Places()
        numbers = [] if self.kept else sorted(self.numbers.values())
        at = 0
        while at < len(numbers):
            found = load_or_stand_in(journal, numbers[at : at + RETURN_STEP], RETURN_OCTETS)
            for message in found:
                places.add(message, int(self.queue.backlog.level_of(message)))
            at += len(found)
        return places

    def end(self, journal: JournalCore, why: str) -> None:
        """The queue is being deleted: settle what is held, forget the lease, and tell whoever comes ``why``."""
        journal.begin()
        try:
            while self.base < self.tail:
                self.queue.note(facts.REMOVED, self.numbers[self.base], 0, facts.QUEUE_DELETED)
                self._forget(journal, self.base)
                self.base += 1
            for start in self.claims:
                journal.delete(KIND_CLAIM, _claim_key(self, start))
            self.claims.clear()
            self.made.clear()
            self.lost.clear(journal)
            journal.delete(KIND_LEASE, _key(self))
        finally:
            journal.end()
        self.ended = why
        self._fence_waiting()

    def wait(
        self,
        journal: JournalCore,
        epoch: int,
        start: int,
        most: int,
        until: Instant,
        waiter: ClaimWaiter,
        octets: int | None = None,
    ) -> Poll:
        """Let ``waiter`` know when `claim` has something to give, or at ``until``; `Poll.cancel` ends that.

        Put the poll on the timetable. Call it when `claim` gave nothing.
        """
        poll = Poll(until, self, journal, epoch, waiter)
        poll.start = start
        poll.most = most
        poll.octets = octets
        self.waiting.append(poll)
        return poll

    def look(self, now: Instant) -> Instant | None:
        """Something may be there: answer who waits. Return when to look again, None when somebody will tell."""
        again: Instant | None = None
        for poll in list(self.waiting):
            due = poll.look(now)
            if due is not None:
                again = due if again is None else min(again, due)
        return again

    def _fence_waiting(self) -> None:
        """Whoever waits under an epoch that is over learns of it at once."""
        for poll in list(self.waiting):
            if self.ended or poll.epoch != self.epoch:
                poll.try_claim()

    def recovered(self, claim: records.ClaimRecord) -> None:
        """Take back one claim from the journal; claims come in the order in which they were made."""
        end = claim.start + len(claim.numbers)
        self.claims[claim.start] = end
        self.made[claim.start] = claim.made
        for offset, number in enumerate(claim.numbers):
            position = claim.start + offset
            if position >= self.base:
                self.numbers.add(position, number)
        self.tail = max(self.tail, end)

    def _take(self, journal: JournalCore, drawn: Drawn, taken: list[Reference]) -> None:
        start = self.tail
        queue = self.queue
        self.worked = self.advanced = int(queue.host.now)
        numbers = drawn.numbers
        attempts = queue.stock.attempts
        journal.begin()
        try:
            for drawn_number in numbers:
                if queue.trace is not None:
                    deliveries = min(attempts.get(drawn_number, 0), facts.DETAIL_MAX)
                    queue.note(facts.DELIVERED, drawn_number, LEASED, deliveries)
                self.numbers.add(self.tail, drawn_number)
                self.tail += 1
            for reference in taken:
                if journal.pages:
                    number = self._on_disk(journal, reference)
                    queue.note(facts.DELIVERED, number, LEASED, min(reference.deliveries, facts.DETAIL_MAX))
                    if reference.deliveries > 0:
                        self.queue.stock.note_attempts(number, reference.deliveries)
                    self.queue.host.memory.release(reference.message)
                else:
                    number = int(reference.number)
                    queue.note(facts.DELIVERED, number, LEASED, min(reference.deliveries, facts.DETAIL_MAX))
                    self.kept[self.tail] = reference
                self.numbers.add(self.tail, number)
                numbers.append(number)
                self.tail += 1
            self.queue.lease(len(numbers))
            self.claims[start] = self.tail
            self.made[start] = int(queue.host.wall)
            record = records.ClaimRecord(int(self.queue.identity), self.group, start, numbers, self.made[start])
            journal.put(KIND_CLAIM, _claim_key(self, start), records.encode(record))
        finally:
            journal.end()

    def _on_disk(self, journal: JournalCore, reference: Reference) -> int:
        """Make sure that the journal can give the message again after a restart; return the number it has there."""
        message = reference.message
        if message.stored and message.durable and self.queue.durable:
            return int(message.number)
        if reference.paged and journal.reading.keeps(message.number, self.queue.identity):
            return int(message.number)  # not persistent, but leased before: its record, and with it its place, stays
        copy = self.queue.host.ids.renumbered(message)
        self.queue.note_renumbered(message.number, copy)
        journal.store(copy, [int(self.queue.identity)])
        if reference.deliveries > 0:
            journal.redelivered(copy.number, self.queue.identity, reference.deliveries)
        if reference.paged:
            journal.settle(message.number, self.queue.identity)
        return int(copy.number)

    def _mourn(self, journal: JournalCore, position: int) -> None:
        """If the large body at ``position`` was found damaged, its reader was shown none: keep a dead letter of it."""
        kept = self.kept.get(position)
        if kept is not None:
            rare = kept.message.rare
            flaw = "" if rare is None else journal.overflow.damaged.get(rare.large_id, "")
        else:
            flaw = journal.reading.flaw(self.numbers[position])
        if flaw:
            message = load_or_stand_in(journal, [self.numbers[position]])[0] if kept is None else kept.message
            self.queue.returns.bury_copy(message, Reason(BODY_LOST, flaw), 1)

    def _forget(self, journal: JournalCore, position: int) -> None:
        number = self.numbers.take_first(position)
        kept = self.kept.pop(position, None)
        if kept is not None:
            self.queue.stock.finish(kept)
        else:
            self.queue.stock.discard(number)
        self.queue.unlease(1)

    def _alive(self) -> None:
        if self.ended:
            raise LeaseOver(f"the lease of {self.group} on {self.queue.name} is over: {self.ended}")

    def fence(self, epoch: int) -> None:
        """Raise LeaseError when ``epoch`` is not the current one, or the lease is over."""
        self._alive()
        if epoch != self.epoch:
            raise LeaseOver(
                f"epoch {epoch} of {self.group} on {self.queue.name} is over: {self.epoch} is current",
                remedy="another reader attached under this name; stop, or attach again",
            )
        self.heard = int(self.queue.host.now)

    def _write(self, journal: JournalCore) -> None:
        text = "" if self.selector is None else self.selector.text
        record = records.LeaseRecord(
            int(self.queue.identity),
            self.group,
            self.epoch,
            self.base,
            text,
            self.after,
            self.since,
            self.fresh,
            self.until,
        )
        journal.put(KIND_LEASE, _key(self), records.encode(record))

    def check(self) -> None:
        """Assert the invariants at the head of this module."""
        assert self.base <= self.tail, f"{self.group}: base {self.base} above tail {self.tail}"
        positions = range(self.base, self.tail)
        assert not self.kept or list(self.kept) == list(positions), f"{self.group}: messages without a position"
        assert not self.held or self.numbers.base == self.base, f"{self.group}: the ledger begins elsewhere"
        assert len(self.numbers) == self.held, f"{self.group}: the ledger is of other positions"
        assert all(self.numbers.values()), f"{self.group}: the ledger has holes"


def recorded(lease: Lease, journal: JournalCore, epoch: int, low: int, high: int) -> Records:
    """Return the records of what `Lease.read` gives, where `JournalCore.pages`: who needs no message makes none."""
    lease.may_read(epoch, low, high)
    return Records(journal.reading, lease.numbers.listed(low, high))


def located(lease: Lease, journal: JournalCore, epoch: int, low: int, high: int) -> Locating:
    """Return where the records of `recorded` are, for who reads them himself."""
    lease.may_read(epoch, low, high)
    return Locating(journal.tail, lease.numbers.between(low, high))


def recorded_message(lease: Lease, journal: JournalCore, records: Records, position: int) -> Message:
    """Return the message at ``position``, whose record was gone to; what stands for it where that is damaged."""
    try:
        return records.message()
    except CorruptJournal:
        return lease.lost.read(journal, position, [int(records.number)], 0)[0]


class Poll(Alarm):
    """A claim that waits; as an alarm it is the end of its patience. Over when it has told its waiter anything."""

    def __init__(self, due: Instant, lease: Lease, journal: JournalCore, epoch: int, waiter: ClaimWaiter) -> None:
        super().__init__(due)
        self.lease: Lease = lease
        self.journal: JournalCore = journal
        self.epoch: int = epoch
        self.waiter: ClaimWaiter = waiter
        self.start: int = 0
        self.most: int = 0
        self.octets: int | None = None
        self.looked: Instant = 0  # when the selector began its last pass
        self.planned: bool = False  # a further one is

    def ring(self, now: Instant) -> None:
        """The time is over: answer with what there is."""
        if not self.try_claim():
            self.cancel()
            self.waiter.claimed(self.start)

    def look(self, now: Instant) -> Instant | None:
        """Try to claim; return when to try again, None when nothing needs to be done before something arrives."""
        lease = self.lease
        if lease.picky and lease.walk is None:
            if now < self.looked + LOOK_AGAIN:
                planned = self.planned
                self.planned = True
                return None if planned else self.looked + LOOK_AGAIN
            self.looked = now
            self.planned = False
        if self.try_claim() or lease.walk is None or lease.queue.gate.paused:
            return None
        return now

    def try_claim(self) -> bool:
        """Claim; return whether the waiter was told something."""
        try:
            end = self.lease.claim(self.journal, self.epoch, self.start, self.most, self.octets)
        except EntrepotError as error:
            self.cancel()
            self.waiter.refused(error)
            return True
        if end <= self.start:
            return False
        self.cancel()
        self.waiter.claimed(end)
        return True

    def cancel(self) -> None:
        """Wait no more."""
        self.cancelled = True
        if self in self.lease.waiting:
            self.lease.waiting.remove(self)


def _settled(lease: Lease, journal: JournalCore) -> None:
    """Forget what the journal has of all that is below the base."""
    for start, end in list(lease.claims.items()):
        if end <= lease.base:
            del lease.claims[start]
            lease.made.pop(start, 0)
            journal.delete(KIND_CLAIM, _claim_key(lease, start))
    lease.lost.settled(journal, lease.base)


def _key(lease: Lease) -> bytes:
    return records.lease_key(int(lease.queue.identity), lease.group)


def _claim_key(lease: Lease, start: int) -> bytes:
    return records.claim_key(int(lease.queue.identity), lease.group, start)
