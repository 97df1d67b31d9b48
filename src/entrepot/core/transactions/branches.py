"""Prepared branches of distributed transactions: what was promised to a coordinator, kept over a crash.

Preparing a branch writes its messages under a pseudo queue (`PREPARED_QUEUE`) and one document that names them and what
the branch settles; all of it is one atomic batch of the journal. From then on the messages that it settles are in the
hands of the branch: hidden from everybody, neither in flight nor waiting. Only `commit` and `roll_back` end a branch.

A branch is its user's: he who prepared it is remembered with it, and where there are rights only he, or who may manage
the broker, sees it, commits it or rolls it back. (Classic lets everybody.) One from a journal that does not say whose
it is, is for who may manage.

Invariant: the journal has a document for each prepared branch, and for nothing else of kind `KIND_BRANCH`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from entrepot.base.errors import AccessDenied, StorageError, TransactionError
from entrepot.core.addressing.addresses import written
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import MESSAGE_CONSUMED
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.records import KIND_BRANCH, PREPARED_QUEUE
from entrepot.core.security.directory import Subject
from entrepot.core.transactions.transaction import Signal, Transaction
from entrepot.model import address as names
from entrepot.model.message import Message

if TYPE_CHECKING:
    from entrepot.core.broker import BrokerCore


class BranchRecord(msgspec.Struct, frozen=True):
    """What the journal keeps of a branch: its sends as (number, destination), its settlements as (queue, number).

    ``user``: who prepared it; None in journals of before that was kept.
    """

    name: str
    sends: list[tuple[int, str]]
    settlements: list[tuple[int, int]]
    user: str | None = None


class Hold:
    """One message that a branch settles. ``message`` is None after a restart: the journal has it."""

    def __init__(self, queue: Queue, number: int) -> None:
        self.queue = queue
        self.number = number
        self.reference: Reference | None = None
        self.consumer: Consumer | None = None


class Branch:
    """One prepared branch."""

    def __init__(self, key: bytes, transaction: Transaction, user: str | None) -> None:
        self.key = key
        self.transaction = transaction
        self.user = user
        self.numbers: list[int] = []  # of its messages in the journal
        self.recovered: list[tuple[int, str]] = []  # (number, destination) of its sends, after a restart
        self.holds: list[Hold] = []


class Branches:
    """All prepared branches of one broker, by the octets of their XID."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker = broker
        self.prepared: dict[bytes, Branch] = {}
        self.records: list[tuple[bytes, BranchRecord]] = []

    def prepare(self, transaction: Transaction, key: bytes, user: str = "") -> None:
        """Promise to commit ``transaction`` when asked; confirm the journal before telling. Raises Refused.

        A failover client says all of a branch again that it has prepared already: it is kept as it is.
        """
        broker = self.broker
        if key in self.prepared:
            self._check_repeated(self.prepared[key], transaction)
            broker.transactions.roll_back(transaction)
            return
        broker.transactions.check(transaction)
        transaction.signal(Signal.PREPARE)
        branch = Branch(key, transaction, user)
        sends: list[tuple[int, str]] = []
        journal = broker.journal
        journal.begin()
        try:
            for message, target in zip(transaction.sends, transaction.targets, strict=True):
                kept = message.twin(message.address)
                kept.number = broker.ids.next_number()
                if journal.pages:
                    journal.store(kept, [PREPARED_QUEUE])
                branch.numbers.append(int(kept.number))
                sends.append((int(kept.number), written(target)))
            for each in transaction.settlements:
                self._hold(branch, each.queue, each.consumer, each.number)
            settlements = [(int(hold.queue.identity), hold.number) for hold in branch.holds]
            record = BranchRecord(transaction.name, sends, settlements, user)
            journal.put(KIND_BRANCH, key, msgspec.msgpack.encode(record))
        finally:
            journal.end()
        self.prepared[key] = branch

    def seen_by(self, subject: Subject) -> list[bytes]:
        """Return the keys of those that ``subject`` may finish."""
        access = self.broker.access
        return [key for key, branch in self.prepared.items() if access.is_of(subject, branch.user)]

    def check_user(self, key: bytes, subject: Subject) -> None:
        """Raise AccessDenied when there is such a branch, and ``subject`` may not touch it."""
        branch = self.prepared.get(key)
        if branch is not None and not self.broker.access.is_of(subject, branch.user):
            raise AccessDenied(f"User {subject.name} is not authorized to finish: another user's prepared branch")

    def _check_repeated(self, branch: Branch, transaction: Transaction) -> None:
        """Raise TransactionError unless ``transaction`` sends what ``branch`` has sent, message for message."""
        broker = self.broker
        had = [broker.ids.identity_of(message) for message in branch.transaction.sends]
        had += [broker.ids.identity_of(message) for message, _ in self._sends(branch)]
        sends = [broker.ids.identity_of(message) for message in transaction.sends]
        if had != sends or transaction.settlements:  # what a branch settles is in nobody's hands
            raise TransactionError(
                f"the branch {branch.transaction.name} is prepared already, with other work",
                remedy="give every branch an id of its own",
            )

    def commit(self, key: bytes) -> None:
        """Do all of a prepared branch. Raises TransactionError when it is not prepared, StorageError to try again."""
        branch = self._need(key)
        broker = self.broker
        refusal = broker.journal.refusal()
        if refusal is not None:
            raise StorageError(f"the branch {branch.transaction.name} cannot be stored now: {refusal.message}")
        journal = broker.journal
        sends = self._sends(branch)
        journal.begin()
        broker.flow.granted = True
        try:
            for message, text in sends:
                broker.send(message, broker.target(names.parse(text)))
            for message, target in zip(branch.transaction.sends, branch.transaction.targets, strict=True):
                broker.send(message, target)
            for hold in branch.holds:
                self._settle(hold)
            self._end(branch)
        finally:
            broker.flow.granted = False
            journal.end()
        branch.transaction.signal(Signal.COMMIT)

    def roll_back(self, key: bytes) -> None:
        """Forget the sends of a prepared branch; what it settles goes back to its consumer, or to its queue."""
        branch = self._need(key)
        journal = self.broker.journal
        journal.begin()
        try:
            self._end(branch)
            for hold in branch.holds:
                self._return(hold)
        finally:
            journal.end()
        for queue in {int(hold.queue.identity): hold.queue for hold in branch.holds}.values():
            queue.dispatch()  # not sooner: a branch may settle in any order, and they go out in that of the queue
        branch.transaction.signal(Signal.ROLL_BACK)

    def check(self) -> list[Message]:
        """Return the messages that branches hold in memory, for `BrokerCore.check`."""
        held: list[Message] = []
        for branch in self.prepared.values():
            for hold in branch.holds:
                if hold.reference is not None:
                    held.append(hold.reference.message)
        return held

    # -- recovery -----------------------------------------------------------------------------------------------------

    def recovered(self, key: bytes, value: bytes) -> None:
        """Take back a document of the journal; `rebuild` comes when all of them are there."""
        self.records.append((key, msgspec.msgpack.decode(value, type=BranchRecord)))

    def rebuild(self) -> dict[int, dict[int, bool]]:
        """Make the branches again; return queue identity -> numbers that they hold."""
        hidden: dict[int, dict[int, bool]] = {}
        for key, record in self.records:
            transaction = Transaction(record.name)
            transaction.signal(Signal.PREPARE)
            branch = Branch(key, transaction, record.user)
            branch.recovered = list(record.sends)
            branch.numbers = [number for number, _ in record.sends]
            for identity, number in record.settlements:
                queue = self.broker.table.by_identity.get(identity)
                if queue is not None:
                    branch.holds.append(Hold(queue, number))
                    queue.leased += 1
                    hidden.setdefault(identity, {})[number] = True
            self.prepared[key] = branch
        self.records.clear()
        return hidden

    def forget_lost(self) -> None:
        """Let go of what did not outlive the restart, once all messages are there: it was not persistent."""
        keeps = self.broker.journal.reading.keeps
        for branch in self.prepared.values():
            found = [hold for hold in branch.holds if keeps(hold.number, hold.queue.identity)]
            for hold in branch.holds:
                hold.queue.leased -= 1
            for hold in found:
                hold.queue.leased += 1
            branch.holds = found

    # -- parts --------------------------------------------------------------------------------------------------------

    def _need(self, key: bytes) -> Branch:
        branch = self.prepared.get(key)
        if branch is None:
            raise TransactionError("there is no such prepared branch")
        return branch

    def _hold(self, branch: Branch, queue: Queue, consumer: Consumer, number: int) -> None:
        reference = queue.hold(consumer, number)
        if reference is not None:
            hold = Hold(queue, number)
            hold.reference = reference
            hold.consumer = consumer
            branch.holds.append(hold)

    def _sends(self, branch: Branch) -> list[tuple[Message, str]]:
        return [(self.broker.journal.reading.load(number), text) for number, text in branch.recovered]

    def _end(self, branch: Branch) -> None:
        """Drop what the journal keeps for the branch itself."""
        journal = self.broker.journal
        if journal.pages:
            for number in branch.numbers:
                journal.settle(number, PREPARED_QUEUE)
        journal.delete(KIND_BRANCH, branch.key)
        del self.prepared[branch.key]

    def _settle(self, hold: Hold) -> None:
        queue = hold.queue
        queue.leased -= 1
        queue.settled += 1
        queue.note(facts.ACKNOWLEDGED, hold.number, 0, 0)
        if hold.reference is not None:
            queue.finish(hold.reference)
            if queue.fates.tells & MESSAGE_CONSUMED:
                queue.fates.consumed(queue.place(), hold.reference.message, 0)
        elif self.broker.table.by_identity.get(int(queue.identity)) is queue:
            self.broker.journal.settle(hold.number, queue.identity)
            queue.attempts.pop(hold.number, 0)

    def _return(self, hold: Hold) -> None:
        queue = hold.queue
        queue.leased -= 1
        reference = hold.reference
        if self.broker.table.by_identity.get(int(queue.identity)) is not queue:
            if reference is not None:
                queue.note(facts.REMOVED, hold.number, 0, facts.QUEUE_DELETED)
                queue.finish(reference)
            return
        if reference is None:
            message = self.broker.journal.reading.load(hold.number)
            reference = Reference(message)
            reference.deliveries = queue.attempts.pop(hold.number, 0) + 1
            reference.paged = True
            self.broker.memory.hold(message)
        consumer = hold.consumer
        if consumer is not None and consumer.queue is queue:
            queue.regain(consumer, reference)  # the client has the message, and delivers it again by itself
        else:
            queue.put_back(reference)
