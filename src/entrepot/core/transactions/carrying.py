"""Carrying transactions out: a small one at once, a large one over turns, all of it or nothing. [C]

A commit of 100,000 messages is 0.2 s of work, and everything happens on one thread. So it is done in portions; others
have their turns in between, and send what they send. What holds meanwhile:

- What it says to the journal is a bracket in parts (`journal/parts.py`): there whole or not at all, after a crash at
  whatever point. What others have stored meanwhile is in batches of their own, and is confirmed when those are on disk.
- Its messages enter their queues when all of it is stored (`Postponement`): so nobody does anything, and is told that
  it is done, because of a message that a crash may still take back.
- What can be refused is refused before the first message is stored. From then on limits are not asked (``granted``,
  within a portion only), nor whether the disk is short of space (`StoreLimits.pledged`): the port holds its batches as
  it holds any other. A queue that is to be deleted is deleted when the commit is complete: `finish`.
- It does not run ahead of the disk (`JournalCore.is_behind`): what others store is synced with what is before it.
- One transaction at a time is carried out so; those that come meanwhile wait for their turn. A small one is done at
  once, in one batch.
- Who asked, a session, does nothing else until it is done: nothing of it overtakes its commit, or the answer to it.
  When it is gone, the work goes on all the same.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import DuplicateRejected, EntrepotError, Refused, StorageError, TransactionError
from entrepot.core.addressing.addresses import written
from entrepot.core.addressing.queues import QueueWatcher
from entrepot.core.addressing.routing import Target
from entrepot.core.effort import Effort, Rest
from entrepot.core.ports import Host
from entrepot.core.queue.dead_letters import DeadLetters
from entrepot.core.queue.queue import Queue
from entrepot.core.records import KIND_BRANCH, KIND_DUPLICATE, KIND_SEQUENCE
from entrepot.core.sending.duplicates import Sequences, cache_of
from entrepot.core.sending.handing import Postponement
from entrepot.core.sending.sending import Sending
from entrepot.core.transactions.transaction import Settlement, Signal, Transaction
from entrepot.journal.log import Waiter
from entrepot.model.message import Message

PRIVATE: Final = {KIND_DUPLICATE: True, KIND_SEQUENCE: True, KIND_BRANCH: True}  # what a commit says of itself
SEND_UNITS: Final = 2  # of `core/effort.py`: to lay out a record, besides what its queue counts
SETTLE_UNITS: Final = 2
LIGHT_SHIFT: Final = 2  # to look whether a message can be sent, or to forget it, is a quarter of a unit


@mypyc_attr(allow_interpreted_subclasses=True)
class Work:
    """A transaction that is being carried out. When it is ``done``, all of it was, or nothing: then ``error`` is why.

    ``asker`` goes on then; None: nobody does. What is refused before it has ``begun`` is rolled back if it
    ``rolls_back``. What is done with a prepared branch is another kind of work (`core/transactions/branches.py`).
    """

    def __init__(self, sending: Sending, letters: DeadLetters, transaction: Transaction) -> None:
        self.host: Host = sending.host
        self.sending: Sending = sending
        self.sequences: Sequences | None = None  # to know messages that are sent again
        self.letters: DeadLetters = letters
        self.transaction: Transaction = transaction
        self.asker: Rest | None = None
        self.owner: i64 = 0  # the connection that is answered when it is done
        self.done: bool = False
        self.error: EntrepotError | None = None
        self.begun: bool = False  # the bracket is open
        self.decided: bool = False  # and closed: all is stored, and counts
        self.postponed: Postponement | None = None  # of one that takes turns: what is stored, for its queues
        self.patient: bool = True  # a portion ends when the turn is over
        self.looked: i64 = 0
        self.sent: i64 = 0
        self.settled: i64 = 0
        self.signal: Signal = Signal.COMMIT  # what it is for its transaction
        self.rolls_back: bool = True
        self.to_send: i64 = len(transaction.sends)
        self.to_settle: i64 = len(transaction.settlements)
        self.identities: dict[str, bool] = {}

    def portion(self, most: i64) -> bool:
        """Do about ``most`` steps; return whether that was all. Raises Refused before anything was done."""
        if not self.begun:
            if self.look(most):
                self._begin()
            return False
        postponed = self.postponed
        if self.decided and postponed is not None:
            return postponed.hand_out(most, self.patient)
        journal = self.host.journal
        flow = self.sending.flow
        granted = flow.granted
        flow.granted = True
        journal.space.limits.pledged = True
        if postponed is not None:
            journal.parts.enter()
        mirrors = self.host.mirrors
        if mirrors is not None:
            mirrors.committing = self.owner
        try:
            most -= self._send(most)
            if self.sent == self.to_send:
                self._settle(most)
            if self.sent == self.to_send and self.settled == self.to_settle:
                self.close()
                self.decided = True
        finally:
            if postponed is not None:
                if self.decided:
                    journal.parts.end()
                else:
                    journal.parts.leave()
            journal.space.limits.pledged = False
            flow.granted = granted
            if mirrors is not None:
                mirrors.committing = 0
        return self.is_complete()

    def is_complete(self) -> bool:
        """Return whether nothing is left to be done."""
        return self.decided and (self.postponed is None or self.postponed.is_done())

    def close(self) -> None:
        """All of it is done: write what comes last, within the bracket."""

    def look(self, most: i64) -> bool:
        """Look whether the next ``most`` sends can be done; return whether all can be. Raises Refused."""
        host = self.host
        transaction = self.transaction
        if self.looked == 0:
            refusal = host.journal.refusal()
            if refusal is not None:
                raise TransactionError(f"transaction {transaction.name} cannot be stored: {refusal.message}")
        sends = transaction.sends
        targets = transaction.targets
        first: i64 = self.looked
        last: i64 = min(first + most, len(sends))
        while self.looked < last:
            self._check(sends[self.looked], targets[self.looked])
            self.looked += 1
        host.effort.spent += (last - first) >> LIGHT_SHIFT
        return last == len(sends)

    def _begin(self) -> None:
        self.transaction.signal(self.signal)
        self.identities.clear()
        self.begun = True
        journal = self.host.journal
        if self.postponed is None:
            journal.begin()
        else:
            self.host.carrying = True
            journal.parts.begin(PRIVATE)
        sequences = self.sequences
        noted = self.transaction.sequences
        if sequences is not None and noted:
            journal.parts.enter()
            for producer, sequence in noted.items():
                sequences.note(producer, sequence, self.transaction.durable)
            journal.parts.leave()

    def _check(self, message: Message, target: Target) -> None:
        sending = self.sending
        rare = message.rare
        cache = "" if rare is None or not rare.duplicate_id else cache_of(target.name, message, rare)
        if cache and rare is not None and sending.policies.of(target.name, target.routing).id_cache > 0:
            key = f"{cache}\0{rare.duplicate_id.hex()}"
            if key in self.identities or sending.duplicates.seen(cache, rare.duplicate_id):
                raise DuplicateRejected(f"transaction {self.transaction.name} repeats a message id on {target.name}")
            self.identities[key] = True
        sending.admits(message, target)

    def _send(self, most: i64) -> i64:
        """Send the next messages; return how many."""
        effort = self.host.effort
        first: i64 = self.sent
        last: i64 = min(first + most, self.to_send)
        while self.sent < last:
            self.sent += 1
            effort.spent += SEND_UNITS
            self.send_one(self.sent - 1)
            if self.patient and effort.is_over():
                break
        return self.sent - first

    def send_one(self, at: i64) -> None:
        """Send message ``at`` of those that are to be sent."""
        message = self.transaction.sends[at]
        target = self.transaction.targets[at]
        if target.permit is not None and target.permit.is_stale():
            target = target.bare()  # it was looked at before this was promised: nothing of it is refused now
        self.send(message, target)

    def send(self, message: Message, target: Target) -> None:
        """Send ``message``."""
        try:
            if self.postponed is None:
                self.sending.send(message, target)
            else:
                self.sending.send_later(message, target, self.postponed)
        except Refused as refusal:  # where it was to go is gone, since that was looked at
            self.letters.bury_unsendable(message, written(target), refusal)

    def _settle(self, most: i64) -> None:
        effort = self.host.effort
        last: i64 = min(self.settled + most, self.to_settle)
        while self.settled < last and not (self.patient and effort.is_over()):
            self.settled += 1
            effort.spent += SETTLE_UNITS
            self.settle_one(self.settled - 1)

    def settle_one(self, at: i64) -> None:
        """Settle message ``at`` of those that are to be settled."""
        each = self.transaction.settlements[at]
        each.consumer.promised.pop(each.number, "")
        each.queue.settle(each.consumer, each.number)


class Forgetting(Rest):
    """Lets go of the messages of a transaction that was rolled back."""

    def __init__(self, effort: Effort, sends: list[Message]) -> None:
        super().__init__()
        self.effort: Effort = effort
        self.sends: list[Message] = sends

    def resume(self) -> None:
        """Let go of some."""
        effort = self.effort
        while self.sends and not effort.is_over():
            del self.sends[-effort.stride :]
            effort.spent += effort.stride >> LIGHT_SHIFT
        if self.sends:
            effort.later(self)


class Completing(QueueWatcher):
    """Completes what is under way before a queue is deleted: half of a commit would go with it."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions: Transactions = transactions

    def closing(self, queue: Queue) -> None:
        """Complete it."""
        self.transactions.finish()


class _Synced(Waiter):
    """Lets a commit go on that was ahead of the disk."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions: Transactions = transactions

    def stored(self, token: bytes) -> None:
        """The disk has what was written so far."""
        self.transactions.go_on()

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It may never have it: the next portion says what becomes of that."""
        self.transactions.go_on()


class Transactions(Rest):
    """Ends the transactions of one broker. ``under_way``: the large one that is being carried out."""

    def __init__(self, sending: Sending, letters: DeadLetters, sequences: Sequences) -> None:
        super().__init__()
        self.host: Host = sending.host
        self.sending: Sending = sending
        self.sequences: Sequences = sequences
        self.letters: DeadLetters = letters
        self.under_way: Work | None = None
        self.queued: list[Work] = []
        self._at_it: bool = False
        self._held: bool = False  # until the disk has what was written so far
        self._ended_at: i64 = -1  # ns: when the last large one was done
        self._synced: _Synced = _Synced(self)

    def commit(self, transaction: Transaction, asker: Rest | None = None) -> Work | None:
        """Do all of ``transaction`` in one atomic batch of the journal; None when that is done.

        A large one takes turns, where ``asker`` is given: it goes on when the work that is returned is ``done``.
        Raises Refused when it cannot be done: it is rolled back then.
        """
        work = Work(self.sending, self.letters, transaction)
        work.sequences = self.sequences
        return self.carry(work, asker)

    def carry(self, work: Work, asker: Rest | None) -> Work | None:
        """Do all of ``work``, as `commit` does."""
        size: i64 = work.to_send + work.to_settle
        if asker is not None:
            work.owner = asker.owner
        if asker is not None and (size > self.host.effort.stride or self.queued):
            return self._begin(work, asker)
        work.patient = False
        try:
            while not work.begun:
                work.portion(size + 1)
        except Refused:
            if work.rolls_back:
                self.roll_back(work.transaction)
            raise
        try:
            while not work.portion(size + 1):
                pass
        finally:
            self.host.journal.end()
        return None

    def _begin(self, work: Work, asker: Rest) -> Work | None:
        """Begin a large one, or let it wait until those before it are done and handed over."""
        work.postponed = Postponement(self.host)
        self.queued.append(work)
        if self.under_way is None and len(self.queued) == 1 and self.host.now != self._ended_at:
            self.resume()
        else:
            self.host.effort.later(self)
        if not work.done:
            work.asker = asker
            return work
        if work.error is not None:
            raise work.error
        return None

    def check(self, transaction: Transaction) -> None:
        """Find out before anything is written whether every operation will be granted. Raises Refused."""
        work = Work(self.sending, self.letters, transaction)
        work.look(len(transaction.sends))

    def roll_back(self, transaction: Transaction) -> None:
        """Forget the sends; messages whose settlement was asked for stay in flight at their consumers.

        What a consumer had that has left meanwhile goes back to its queue.
        """
        transaction.signal(Signal.ROLL_BACK)
        sends = transaction.sends
        transaction.sends = []
        transaction.targets = []
        settlements: list[Settlement] = transaction.settlements
        transaction.settlements = []
        queues: dict[int, Queue] = {}
        for each in settlements:
            each.queue.release(each.consumer, each.number)
            queues[int(each.queue.identity)] = each.queue
        for queue in queues.values():
            queue.dispatcher.dispatch()
        if len(sends) > self.host.effort.stride:
            Forgetting(self.host.effort, sends).resume()

    def resume(self) -> None:
        """Go on with what is under way, or with the next."""
        if self._held:
            return
        work = self.under_way
        if work is None:
            if not self.queued:
                return
            work = self.queued.pop(0)
            self.under_way = work
        effort = self.host.effort
        self._carry_out(work, effort.stride)
        if (not work.done and not self._held) or (work.done and self.queued):
            effort.later(self)

    def go_on(self) -> None:
        """Go on with what waited for the disk."""
        self._held = False
        self.host.effort.later(self)

    def finish(self) -> None:
        """Complete what is under way now: what is to happen next may not happen in the middle of it."""
        work = self.under_way
        while work is not None and work.begun and not work.done and not self._at_it:
            work.patient = False
            self._carry_out(work, 1 << 30)

    def _carry_out(self, work: Work, stride: i64) -> None:
        """Do portions of ``work`` as long as this turn lasts."""
        effort = self.host.effort
        self._at_it = True
        try:
            while not work.is_complete():
                work.portion(stride)
                if work.patient and work.begun and not work.decided and self.host.journal.is_behind():
                    self._held = True
                    self.host.journal.confirm(self._synced, b"")
                    return
                if work.patient and effort.is_over():
                    return
        except (Refused, StorageError) as error:
            self._end(work, error)
            return
        finally:
            self._at_it = False
        self._end(work, None)

    def _end(self, work: Work, error: EntrepotError | None) -> None:
        self.under_way = None
        self._ended_at = self.host.now
        self.host.carrying = False
        postponed = work.postponed
        if work.begun and error is not None:  # a disk that failed in the middle: what was stored is there
            self.host.journal.parts.end()
            if postponed is not None:
                postponed.hand_out(1 << 30, False)
        elif error is not None and work.rolls_back:
            self.roll_back(work.transaction)
        work.error = error
        work.done = True
        asker = work.asker
        if asker is not None:
            self.host.effort.later(asker)
