"""Prepared branches of distributed transactions: what was promised to a coordinator, kept over a crash.

Preparing a branch writes its messages under a pseudo queue (`PREPARED_QUEUE`) and one document that names them and what
the branch settles; all of it is one atomic batch of the journal. From then on the messages that it settles are in the
hands of the branch: hidden from everybody, neither in flight nor waiting. Only `commit` and `roll_back` end a branch.

A branch is its user's: he who prepared it is remembered with it, and where there are rights only he, or who may manage
the broker, sees it, commits it or rolls it back. (Classic lets everybody.) One from a journal that does not say whose
it is, is for who may manage.

A node that gives all it has to another one gives its branches, too. While one is on its way nobody ends it here. Before
the other one is told to prepare it, the disk here gets to whom it is given (`give`). From then on it is at one of the
two, and nobody ends it here, after a crash either, until the other one has said that it is prepared there (`let_go`
forgets it here, with all that it settles) or never will be (`reclaim`). Who gets it remembers its token with the
promise: asked for it (`came`), it says that it had it, or that it never will have it, and sees to that.

Invariant: the journal has a document for each prepared branch, and for nothing else of kind `KIND_BRANCH`.
"""

from __future__ import annotations

from typing import Final

import msgspec
from mypy_extensions import i64

from entrepot.base.errors import AccessDenied, EntrepotError, Refused, StorageError, TransactionError
from entrepot.core.addressing.addresses import written
from entrepot.core.effort import Rest
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import MESSAGE_CONSUMED
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.bereaved import load_or_stand_in, record_flaw
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.records import KIND_BRANCH, PREPARED_QUEUE
from entrepot.core.security.access import Access
from entrepot.core.security.directory import Subject
from entrepot.core.transactions.carrying import Transactions, Work
from entrepot.core.transactions.transaction import Signal, Taken, Transaction
from entrepot.journal.log import Waiter
from entrepot.model import address as names
from entrepot.model.message import Message

HAD: Final = "had"
NEVER: Final = "never"
UNSURE: Final = "unsure"
"""What is said of a branch that another broker gave to this one, or wanted to: `Branches.came`."""
TAKEN = "$.entrepot.branches"
"""Under which name the tokens of branches that came from other brokers are remembered."""
TAKEN_MAX = 20_000  # as many as an address remembers ids (artemis.md 4.9); a broker prepares few at a time


class BranchRecord(msgspec.Struct, frozen=True):
    """What the journal keeps of a branch: its sends as (number, destination), its settlements as (queue, number).

    ``user``: who prepared it; None in journals of before that was kept. ``given``: the node that it was given to, and
    may be at; ``token``: by which that knows it.
    """

    name: str
    sends: list[tuple[int, str]]
    settlements: list[tuple[int, int]]
    user: str | None = None
    given: str = ""
    token: bytes = b""


class Hold:
    """One message that a branch settles. ``message`` is None after a restart: the journal has it."""

    def __init__(self, queue: Queue, number: int) -> None:
        self.queue = queue
        self.number = number
        self.reference: Reference | None = None
        self.consumer: Consumer | None = None
        self.ended = False


class Branch:
    """One prepared branch."""

    def __init__(self, key: bytes, transaction: Transaction, user: str | None) -> None:
        self.key = key
        self.transaction = transaction
        self.user = user
        self.numbers: list[int] = []  # of its messages in the journal
        self.recovered: list[tuple[int, str]] = []  # (number, destination) of its sends, after a restart
        self.holds: list[Hold] = []
        self.ending: bool = False  # it is being committed or rolled back, over turns
        self.leaving: bool = False  # it is on its way to another broker
        self.record = BranchRecord(transaction.name, [], [], user)  # what the journal has of it, once it is prepared


class Branches(Waiter):
    """All prepared branches of one broker, by the octets of their XID."""

    def __init__(self, transactions: Transactions, access: Access) -> None:
        self.transactions = transactions
        self.access = access
        self.host = transactions.host
        self.table = transactions.sending.table
        self.prepared: dict[bytes, Branch] = {}
        self.preparing: dict[bytes, Branch] = {}  # the one that is being prepared, over turns
        self.records: list[tuple[bytes, BranchRecord]] = []
        self.unsure: dict[bytes, None] = {}  # tokens of branches that the disk does not have yet
        self.fenced: dict[bytes, None] = {}  # tokens of which their brokers were told that they never came

    def prepare(self, transaction: Transaction, key: bytes, user: str = "", asker: Rest | None = None) -> Work | None:
        """Promise to commit ``transaction`` when asked; confirm the journal before telling. Raises Refused.

        A failover client says all of a branch again that it has prepared already: it is kept as it is. A large one
        takes turns where ``asker`` is given, as `Transactions.commit` does; so do `commit` and `roll_back`.
        """
        self._check_handed(transaction)
        if key in self.prepared:
            self._check_repeated(self.prepared[key], transaction)
            self.transactions.roll_back(transaction)
            return None
        return self.transactions.carry(_Preparing(self, Branch(key, transaction, user)), asker)

    def seen_by(self, subject: Subject) -> list[bytes]:
        """Return the keys of those that ``subject`` may finish."""
        return [key for key, branch in self.prepared.items() if self.access.is_of(subject, branch.user)]

    def check_user(self, key: bytes, subject: Subject) -> None:
        """Raise AccessDenied when there is such a branch, and ``subject`` may not touch it."""
        branch = self.prepared.get(key)
        if branch is not None and not self.access.is_of(subject, branch.user):
            raise AccessDenied(f"User {subject.name} is not authorized to finish: another user's prepared branch")

    # -- branches that go to another broker ----------------------------------------------------------------------------

    def give(self, branch: Branch, node: str, token: bytes) -> None:
        """Note that ``node`` is given a branch; have it prepared there when the disk has that. Raises StorageError."""
        refusal = self.host.journal.refusal()
        if refusal is not None:
            raise StorageError(f"the branch {branch.transaction.name} cannot be given away now: {refusal.message}")
        self._note(branch, node, token)

    def reclaim(self, branch: Branch) -> None:
        """Let a branch be this broker's again: the other one has not prepared it, and never will."""
        if branch.record.given and self.prepared.get(branch.key) is branch:
            self._note(branch, "", b"")

    def _note(self, branch: Branch, node: str, token: bytes) -> None:
        branch.record = msgspec.structs.replace(branch.record, given=node, token=token)
        self.host.journal.put(KIND_BRANCH, branch.key, msgspec.msgpack.encode(branch.record))

    def decide(self, key: bytes) -> None:
        """Who manages this broker ends a branch here, whoever else was given it. Raises TransactionError."""
        branch = self.prepared[key]
        if branch.leaving:
            raise TransactionError(
                f"the branch {branch.transaction.name} is on its way to another node",
                remedy="end it there, or stop that first: entrepot drain --abort",
            )
        self.reclaim(branch)

    def let_go(self, key: bytes, asker: Rest | None = None) -> Work | None:
        """Forget a branch that another broker has: what it settles is settled, what it sends is sent there.

        Large ones take turns, as `commit`. Raises StorageError to try again.
        """
        return self.transactions.carry(_LettingGo(self, self.prepared[key]), asker)

    def message(self, branch: Branch, at: int) -> Message:
        """Return what ``branch`` sends as its send ``at``. Raises StorageError."""
        if branch.recovered:
            return self.host.journal.reading.load(branch.recovered[at][0])
        return branch.transaction.sends[at]

    def held(self, hold: Hold) -> tuple[Message, int]:
        """Return what a branch has taken, and how often it was delivered before. Raises StorageError."""
        if hold.reference is not None:
            return hold.reference.message, int(hold.reference.deliveries)
        attempts = int(hold.queue.stock.attempts.get(hold.number, 0))
        return self.host.journal.reading.load(hold.number), attempts

    def came(self, token: bytes) -> str:
        """Say whether a branch that another broker gives under ``token`` was prepared here, and the disk has that.

        HAD, whatever became of it since; NEVER: nor will it be, a step that is still on its way is refused. UNSURE: it
        is being prepared; ask again.
        """
        if token in self.unsure or any(one.transaction.token == token for one in self.preparing.values()):
            return UNSURE
        if self.transactions.sending.duplicates.seen(TAKEN, token):
            return HAD
        self.fenced[token] = None
        if len(self.fenced) > TAKEN_MAX:  # a step that is on its way comes over a connection that is open
            del self.fenced[next(iter(self.fenced))]
        return NEVER

    def _check_handed(self, transaction: Transaction) -> None:
        """Raise TransactionError when what another broker gives is not all of it, or was here before."""
        if not transaction.token:
            return
        if transaction.came != transaction.promised:
            raise TransactionError(
                f"the branch {transaction.name} has {transaction.promised} messages, and {transaction.came} came"
            )
        if self.transactions.sending.duplicates.seen(TAKEN, transaction.token):
            raise TransactionError(f"the branch {transaction.name} was given to this broker before")
        self.check_fence(transaction)

    def check_fence(self, transaction: Transaction) -> None:
        """Raise TransactionError when the broker that gives it was told that it never came."""
        if transaction.token and transaction.token in self.fenced:
            raise TransactionError(f"the branch {transaction.name} is with the broker that gave it to this one")

    def _check_repeated(self, branch: Branch, transaction: Transaction) -> None:
        """Raise TransactionError unless ``transaction`` sends what ``branch`` has sent, message for message.

        What a record that rotted was is not known any more: where it stands, anything is the same.
        """
        ids = self.host.ids
        sends = [ids.identity_of(message) for message in transaction.sends]
        had = [ids.identity_of(message) for message in branch.transaction.sends]
        for number, _ in branch.recovered:
            message = load_or_stand_in(self.host.journal, [number])[0]
            if record_flaw(message) and len(had) < len(sends):
                had.append(sends[len(had)])
            else:
                had.append(ids.identity_of(message))
        if had != sends or transaction.settlements:  # what a branch settles is in nobody's hands
            raise TransactionError(
                f"the branch {branch.transaction.name} is prepared already, with other work",
                remedy="give every branch an id of its own",
            )

    def commit(self, key: bytes, asker: Rest | None = None) -> Work | None:
        """Do all of a prepared branch. Raises TransactionError when it is not prepared, StorageError to try again."""
        return self.transactions.carry(_Committing(self, self.need(key)), asker)

    def roll_back(self, key: bytes, asker: Rest | None = None) -> Work | None:
        """Forget the sends of a prepared branch; what it settles goes back to its consumer, or to its queue."""
        return self.transactions.carry(_RollingBack(self, self.need(key)), asker)

    def check(self) -> list[Message]:
        """Return the messages that branches hold in memory, for `BrokerCore.check`."""
        held: list[Message] = []
        for branch in [*self.prepared.values(), *self.preparing.values()]:
            for hold in branch.holds:
                if hold.reference is not None and not hold.ended:
                    held.append(hold.reference.message)
        return held

    def stored(self, token: bytes) -> None:
        """The disk has the branch of this token."""
        self.unsure.pop(token, None)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """The disk may never have it: nobody is told that it was here."""

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
            branch.record = record
            branch.recovered = list(record.sends)
            branch.numbers = [number for number, _ in record.sends]
            for identity, number in record.settlements:
                queue = self.table.by_identity.get(identity)
                if queue is not None:
                    branch.holds.append(Hold(queue, number))
                    queue.lease(1)
                    hidden.setdefault(identity, {})[number] = True
            self.prepared[key] = branch
        self.records.clear()
        return hidden

    def forget_lost(self) -> None:
        """Let go of what did not outlive the restart, once all messages are there: it was not persistent."""
        keeps = self.host.journal.reading.keeps
        for branch in self.prepared.values():
            found = [hold for hold in branch.holds if keeps(hold.number, hold.queue.identity)]
            for hold in branch.holds:
                hold.queue.unlease(1)
            for hold in found:
                hold.queue.lease(1)
            branch.holds = found

    # -- parts --------------------------------------------------------------------------------------------------------

    def need(self, key: bytes) -> Branch:
        """Return a branch that may be ended here. Raises TransactionError where there is none.

        Raises StorageError where somebody ends it now, or it may be elsewhere: to ask again.
        """
        branch = self.prepared.get(key)
        if branch is None:
            raise TransactionError("there is no such prepared branch")
        if branch.ending:
            raise StorageError(f"the branch {branch.transaction.name} is being finished by another session: ask again")
        if branch.leaving:
            name = branch.transaction.name
            raise StorageError(f"the branch {name} is on its way to another node: ask again, or there")
        if branch.record.given:
            raise StorageError(
                f"the branch {branch.transaction.name} was given to the node {branch.record.given}, which may have it",
                remedy=f"ask there; entrepot drain --to {branch.record.given} finds out",
            )
        return branch

    def hold(self, branch: Branch, queue: Queue, consumer: Consumer, number: int) -> None:
        """Let ``branch`` have message ``number``, if ``consumer`` has it still."""
        reference = queue.hold(consumer, number)
        if reference is not None:
            hold = Hold(queue, number)
            hold.reference = reference
            hold.consumer = consumer
            branch.holds.append(hold)

    def forget(self, branch: Branch) -> None:
        """Drop what the journal keeps of the branch itself; its messages are settled."""
        self.host.journal.delete(KIND_BRANCH, branch.key)
        del self.prepared[branch.key]

    def settle(self, hold: Hold) -> None:
        """Settle what a branch that is committed holds."""
        hold.ended = True
        queue = hold.queue
        queue.unlease(1)
        queue.count_settled(1)
        queue.note(facts.ACKNOWLEDGED, hold.number, 0, 0)
        if hold.reference is not None:
            queue.stock.finish(hold.reference)
            if queue.fates.tells & MESSAGE_CONSUMED or hold.reference.message.watched:
                queue.fates.consumed(queue.place(), hold.reference.message, 0)
        elif self.table.by_identity.get(int(queue.identity)) is queue:
            queue.stock.discard(hold.number)

    def give_back(self, hold: Hold) -> None:
        """Give back what a branch that is rolled back holds."""
        hold.ended = True
        queue = hold.queue
        queue.unlease(1)
        reference = hold.reference
        if self.table.by_identity.get(int(queue.identity)) is not queue:
            if reference is not None:
                queue.note(facts.REMOVED, hold.number, 0, facts.QUEUE_DELETED)
                queue.stock.finish(reference)
            return
        if reference is None:
            message = load_or_stand_in(self.host.journal, [hold.number])[0]
            reference = Reference(message)
            reference.deliveries = queue.stock.forget_attempts(hold.number)
            reference.paged = True
            queue.returns.count(reference)
            self.host.memory.hold(message)
        consumer = hold.consumer
        if consumer is not None and consumer.queue is queue:
            queue.regain(consumer, reference)  # the client has the message, and delivers it again by itself
        else:
            queue.stock.put_back(reference)


class _Preparing(Work):
    """Makes the promise: its messages under the pseudo queue, then what names all of it."""

    def __init__(self, branches: Branches, branch: Branch) -> None:
        super().__init__(branches.transactions.sending, branches.transactions.letters, branch.transaction)
        self.signal = Signal.PREPARE
        self.to_settle = len(branch.transaction.settlements) + len(branch.transaction.takes)
        self.rolls_back = False
        self.branches = branches
        self.branch = branch
        self.names: list[tuple[int, str]] = []

    def look(self, most: i64) -> bool:
        """Look whether all of it can be granted; nobody else may have prepared it meanwhile."""
        branch = self.branch
        if branch.key in self.branches.prepared:
            raise TransactionError(f"the branch {branch.transaction.name} is prepared already")
        complete = super().look(most)
        if complete:
            self.branches.check_fence(self.transaction)
            self.branches.preparing[branch.key] = branch
        return complete

    def send_one(self, at: i64) -> None:
        """Store a copy that nobody sees."""
        host = self.host
        message = self.transaction.sends[at]
        kept = message.twin(message.address)
        kept.number = host.ids.next_number()
        if host.journal.pages:
            host.journal.store(kept, [PREPARED_QUEUE])
        self.branch.numbers.append(int(kept.number))
        self.names.append((int(kept.number), written(self.transaction.targets[at])))

    def settle_one(self, at: i64) -> None:
        """Take it out of its consumer's hands."""
        own = len(self.transaction.settlements)
        if at >= own:
            self.take_in(self.transaction.takes[at - own])
            return
        each = self.transaction.settlements[at]
        self.branches.hold(self.branch, each.queue, each.consumer, each.number)

    def take_in(self, taken: Taken) -> None:
        """Store a message that was taken where the branch comes from, and let the branch have it."""
        host, queue = self.host, taken.queue
        if self.branches.table.by_identity.get(int(queue.identity)) is not queue:
            return  # it was deleted while the branch came, and what it held would have gone with it
        kept = taken.message.twin(taken.message.address)
        kept.number = host.ids.next_number()
        journal = host.journal
        rare = kept.rare
        paged = False
        if kept.durable and queue.durable:
            journal.store(kept, [int(queue.identity)])
        elif rare is not None and rare.large_id != 0 and journal.pages:
            journal.page(kept, [int(queue.identity)])
            paged = True
        if taken.deliveries and kept.stored:
            journal.redelivered(kept.number, queue.identity, taken.deliveries)
        queue.accepted += 1
        if queue.arrivals is not None:
            queue.note_accepted(kept, 0)
        hold = Hold(queue, int(kept.number))
        hold.reference = queue.stock.reference(kept, taken.deliveries)
        hold.reference.paged = paged
        queue.lease(1)
        self.branch.holds.append(hold)

    def close(self) -> None:
        """Write what names it."""
        branches, branch = self.branches, self.branch
        if branch.transaction.owner:
            branch.user = branch.transaction.owner
        settlements = [(int(hold.queue.identity), hold.number) for hold in branch.holds]
        branch.record = BranchRecord(branch.transaction.name, self.names, settlements, branch.user)
        journal = self.host.journal
        journal.put(KIND_BRANCH, branch.key, msgspec.msgpack.encode(branch.record))
        token = branch.transaction.token
        if token:
            branches.unsure[token] = None
            branches.transactions.sending.duplicates.remember(TAKEN, token, TAKEN_MAX, True)
            journal.confirm(branches, token)
        branches.preparing.pop(branch.key, None)
        branches.prepared[branch.key] = branch


class _Ending(Work):
    """Ends a prepared branch."""

    def __init__(self, branches: Branches, branch: Branch) -> None:
        super().__init__(branches.transactions.sending, branches.transactions.letters, branch.transaction)
        self.rolls_back = False
        self.branches = branches
        self.branch = branch
        self.journal = self.host.journal
        branch.ending = True
        self.to_send = len(branch.numbers)
        self.to_settle = len(branch.holds)

    def look(self, most: i64) -> bool:
        """Begin at once: all of it was promised. Raises StorageError."""
        try:
            self.check()
        except StorageError:
            self.branch.ending = False
            raise
        return True

    def check(self) -> None:
        """Raise what stands against it now."""

    def forget_copy(self, at: i64) -> None:
        """Forget the copy of a message that was kept with the promise."""
        if self.journal.pages:
            self.journal.settle(self.branch.numbers[at], PREPARED_QUEUE)

    def close(self) -> None:
        """Forget the promise."""
        self.branches.forget(self.branch)


class _Committing(_Ending):
    """Does what was promised."""

    def check(self) -> None:
        """Raise StorageError when it cannot be stored now."""
        refusal = self.journal.refusal()
        if refusal is not None:
            name = self.branch.transaction.name
            raise StorageError(f"the branch {name} cannot be stored now: {refusal.message}")

    def send_one(self, at: i64) -> None:
        """Send it: from memory, or as the journal kept it."""
        if self.branch.recovered:
            self._send_kept(*self.branch.recovered[at])
        else:
            super().send_one(at)
        self.forget_copy(at)

    def _send_kept(self, number: int, text: str) -> None:
        """Send what the promise kept. A record that rotted is a dead letter: the rest was promised all the same."""
        message = load_or_stand_in(self.journal, [number])[0]
        message.stored = False  # only the copy of the promise is on disk, and that goes
        target = self.sending.addresses.target(names.parse(text))
        lost = record_flaw(message)
        if not lost:
            self.send(message, target)
            return
        message.need_rare().identity = self.host.ids.identity_of(message)
        message.address = target.name
        self.letters.bury_unsendable(message, text, Refused(f"{lost}; it was on its way to {text}"))

    def settle_one(self, at: i64) -> None:
        """Settle it."""
        self.branches.settle(self.branch.holds[at])


class _LettingGo(_Ending):
    """Forgets a branch that another broker has."""

    def __init__(self, branches: Branches, branch: Branch) -> None:
        super().__init__(branches, branch)
        self.signal = Signal.COMMIT

    def check(self) -> None:
        """Raise StorageError when it cannot be stored now."""
        refusal = self.journal.refusal()
        if refusal is not None:
            raise StorageError(f"the branch {self.branch.transaction.name} is not forgotten: {refusal.message}")

    def send_one(self, at: i64) -> None:
        """Send nothing: that is done where it is now."""
        self.forget_copy(at)

    def settle_one(self, at: i64) -> None:
        """Settle it."""
        self.branches.settle(self.branch.holds[at])


class _RollingBack(_Ending):
    """Takes the promise back."""

    def __init__(self, branches: Branches, branch: Branch) -> None:
        super().__init__(branches, branch)
        self.signal = Signal.ROLL_BACK

    def send_one(self, at: i64) -> None:
        """Send nothing."""
        self.forget_copy(at)

    def settle_one(self, at: i64) -> None:
        """Give it back."""
        self.branches.give_back(self.branch.holds[at])

    def close(self) -> None:
        """Let those go out that were given back: not sooner, for a branch settles in any order."""
        super().close()
        for queue in {int(hold.queue.identity): hold.queue for hold in self.branch.holds}.values():
            queue.dispatcher.dispatch()
