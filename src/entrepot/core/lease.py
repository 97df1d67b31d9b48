"""Leases: a named reader takes a range of messages and may read it again, until it settles it or lets it go.

A lease belongs to one queue and one *group* (the reader's name). Its ledger gives the messages that it claimed dense
positions 0, 1, 2, ...; ``base`` is the first position not settled, ``tail`` the next to be claimed. Claimed messages are
hidden from ordinary consumers and from other groups. An *epoch* fences: attaching raises it, and every other operation
must name the current one, so that a reader which was replaced finds out (the design of the Spark source).

Everything is durable: the ledger is a document per claim, the base another, written before the answer is confirmed.
A lease never expires by itself: giving the range to others while its reader still works on it would double messages.

Invariants (`check`): base <= tail, the ledger holds exactly the positions base..tail.
"""

from __future__ import annotations

from typing import Final

import msgspec

from entrepot.base.errors import LeaseError
from entrepot.core.backlog import Reference
from entrepot.core.queue import Queue
from entrepot.journal.log import JournalCore
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

KIND_LEASE: Final = 4
KIND_CLAIM: Final = 5

CLAIM_MESSAGES_MAX: Final = 100_000  # one claim is one document: 800 kB of numbers


class LeaseRecord(msgspec.Struct, frozen=True):
    """What the journal keeps of a lease itself."""

    queue: int
    group: str
    epoch: int
    base: int
    selector: str = ""


class ClaimRecord(msgspec.Struct, frozen=True):
    """What the journal keeps of one claim: the numbers of the messages at positions ``start``, ``start`` + 1, ..."""

    queue: int
    group: str
    start: int
    numbers: list[int]


class Lease:
    """One group's hold on one queue. Changed only by its own methods, which the broker calls."""

    def __init__(self, queue: Queue, group: str) -> None:
        self.queue = queue
        self.group = group
        self.epoch = 0
        self.base = 0
        self.tail = 0
        self.selector: Predicate | None = None
        self.numbers: dict[int, int] = {}  # position -> message number
        self.kept: dict[int, Message] = {}  # position -> message, where there is no disk to read it from again
        self.claims: dict[int, int] = {}  # start -> end of each claim that the journal has

    @property
    def held(self) -> int:
        """How many messages the lease holds."""
        return self.tail - self.base

    def attach(self, journal: JournalCore, selector: Predicate | None) -> int:
        """Raise the epoch, which fences every earlier reader; return it. ``selector`` holds for claims from now on."""
        self.epoch += 1
        self.selector = selector
        self._write(journal)
        return self.epoch

    def claim(self, journal: JournalCore, epoch: int, start: int, most: int) -> int:
        """Extend the ledger to at most ``start + most`` and return its end; asking again gives the same range first.

        Raises LeaseError for a stale epoch, or a ``start`` outside of the ledger.
        """
        self._fence(epoch)
        if not self.base <= start <= self.tail:
            raise LeaseError(
                f"claim at {start} is outside of the ledger {self.base}..{self.tail} of {self.group} on {self.queue.name}",
                remedy="begin at the base or at the end of the last claim",
            )
        wanted = min(start + most - self.tail, CLAIM_MESSAGES_MAX)
        if wanted > 0 and not self.queue.paused:
            taken = self.queue.take(wanted, self.selector)
            if taken:
                self._take(journal, taken)
        return min(self.tail, start + most)

    def read(self, journal: JournalCore, epoch: int, low: int, high: int) -> list[Message]:
        """Return the messages at positions ``low`` to ``high`` - 1; no side effect, so it may be called again."""
        self._fence(epoch)
        if low < self.base or high > self.tail or low > high:
            raise LeaseError(
                f"read of {low}..{high} is outside of the ledger {self.base}..{self.tail} of {self.group} "
                f"on {self.queue.name}",
                remedy="below the base messages are settled and gone; beyond the tail claim first",
            )
        if journal.pages:
            return journal.load_range([self.numbers[position] for position in range(low, high)])
        return [self.kept[position] for position in range(low, high)]

    def settle(self, journal: JournalCore, epoch: int, up_to: int) -> int:
        """Settle every position below ``up_to``; return how many messages that were. Below the base it does nothing."""
        self._fence(epoch)
        if up_to > self.tail:
            raise LeaseError(f"cannot settle up to {up_to}: only {self.tail} were claimed by {self.group}")
        settled = 0
        journal.begin()
        while self.base < up_to:
            self._forget(journal, self.base)
            self.base += 1
            settled += 1
        for start, end in list(self.claims.items()):
            if end <= self.base:
                del self.claims[start]
                journal.delete(KIND_CLAIM, _claim_key(self, start))
        self._write(journal)
        journal.end()
        self.queue.settled += settled
        return settled

    def release(self, journal: JournalCore) -> int:
        """Give everything back to the queue, in order, and fence the reader; return how many messages that were."""
        journal.begin()
        returned = self.held
        for position in range(self.base, self.tail):
            number = self.numbers[position]
            message = self.kept[position] if position in self.kept else journal.load(number)
            reference = Reference(message)
            reference.deliveries = 1  # its reader may have seen it
            reference.paged = position not in self.kept
            self.queue.host.memory.hold(message)
            self.queue.leased -= 1
            self.queue.put_back(reference)
        for start in self.claims:
            journal.delete(KIND_CLAIM, _claim_key(self, start))
        self.numbers.clear()
        self.kept.clear()
        self.claims.clear()
        self.base = self.tail
        self.epoch += 1  # a reader that is still there is fenced; the record stays so that no epoch comes twice
        self._write(journal)
        journal.end()
        return returned

    def recovered(self, claim: ClaimRecord) -> None:
        """Take back one claim from the journal; claims come in the order in which they were made."""
        end = claim.start + len(claim.numbers)
        self.claims[claim.start] = end
        for offset, number in enumerate(claim.numbers):
            position = claim.start + offset
            if position >= self.base:
                self.numbers[position] = number
        self.tail = max(self.tail, end)

    def _take(self, journal: JournalCore, taken: list[Reference]) -> None:
        start = self.tail
        numbers: list[int] = []
        journal.begin()
        for reference in taken:
            message = reference.message
            if journal.pages:
                number = self._on_disk(journal, reference)
            else:
                number = int(message.number)
                self.kept[self.tail] = message
            self.queue.host.memory.release(message)
            self.numbers[self.tail] = number
            numbers.append(number)
            self.tail += 1
        self.queue.leased += len(taken)
        self.claims[start] = self.tail
        record = ClaimRecord(int(self.queue.identity), self.group, start, numbers)
        journal.put(KIND_CLAIM, _claim_key(self, start), msgspec.msgpack.encode(record))
        journal.end()

    def _on_disk(self, journal: JournalCore, reference: Reference) -> int:
        """Make sure that the journal can give the message again after a restart; return the number that it has there."""
        message = reference.message
        if reference.paged and message.durable and self.queue.durable:
            return int(message.number)
        if message.stored and message.durable and self.queue.durable:
            return int(message.number)
        copy = self.queue.host.renumbered(message)
        journal.store(copy, [int(self.queue.identity)])
        if reference.paged:
            journal.settle(message.number, self.queue.identity)
        return int(copy.number)

    def _forget(self, journal: JournalCore, position: int) -> None:
        journal.settle(self.numbers.pop(position), self.queue.identity)
        self.kept.pop(position, None)
        self.queue.leased -= 1

    def _fence(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise LeaseError(
                f"epoch {epoch} of {self.group} on {self.queue.name} is over: {self.epoch} is current",
                remedy="another reader attached under this name; stop, or attach again",
            )

    def _write(self, journal: JournalCore) -> None:
        text = "" if self.selector is None else self.selector.text
        record = LeaseRecord(int(self.queue.identity), self.group, self.epoch, self.base, text)
        journal.put(KIND_LEASE, _key(self), msgspec.msgpack.encode(record))

    def check(self) -> None:
        """Assert the invariants at the head of this module."""
        assert self.base <= self.tail, f"{self.group}: base {self.base} above tail {self.tail}"
        assert list(self.numbers) == list(range(self.base, self.tail)), f"{self.group}: the ledger has holes"


def _key(lease: Lease) -> bytes:
    return int(lease.queue.identity).to_bytes(4, "big") + lease.group.encode()


def _claim_key(lease: Lease, start: int) -> bytes:
    return _key(lease) + b"\0" + start.to_bytes(8, "big")
