"""The transactions of one OpenWire connection: local ones, and branches of distributed ones (XA). [C]

A commit is answered when it is on disk. A prepared branch outlives its connection: the broker keeps it. That it is not
there, or which ones are, is said when the disk knows it, too: a coordinator that hears it forgets the branch, and one
whose end a crash undoes would be in doubt for ever, or be ended the other way.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, ProtocolViolation, Refused, StorageError, TransactionError
from entrepot.core.transactions.carrying import Work
from entrepot.core.transactions.transaction import State, Transaction
from entrepot.protocols.openwire.commands import (
    Command,
    DataArrayResponse,
    IntegerResponse,
    Response,
    TransactionId,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.delivery import OpenWireConsumer, OpenWireSubscription
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import TransactionStep, text_of
from entrepot.protocols.openwire.refusals import (
    XA_DUPID,
    XA_NOTA,
    XA_PROTO,
    XA_RETRY,
    XA_RMFAIL,
    XA_ROLLED_BACK,
    BranchRefused,
    branch_key,
)
from entrepot.protocols.openwire.replies import Replies, Reply
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.serving.transactions import Transactions

XA_OK: Final = 0
XA_RDONLY: Final = 3


class Debt(Reply):
    """Answers what settles once that is on disk, and lets come after the answer what it made room for."""

    def __init__(self, replies: Replies, response: Response) -> None:
        super().__init__(replies, response)
        self.owed: dict[OpenWireSubscription, int] = {}

    def give(self) -> None:
        """Write the answer."""
        super().give()
        self.repay()

    def refuse(self, error: EntrepotError) -> None:
        """Say that it is not stored."""
        super().refuse(error)
        self.repay()

    def repay(self) -> None:
        """Give the credit back."""
        owed = self.owed
        self.owed = {}
        for subscription, count in owed.items():
            subscription.repay(count)


class Commitment:
    """A large step that is being carried out: what asked for it, and what answers it; None: nobody waits for that."""

    def __init__(self, work: Work, command: TransactionInfo, debt: Debt | None) -> None:
        self.work: Work = work
        self.command: TransactionInfo = command
        self.debt: Debt | None = debt


class Transacting:
    """Steps of transactions."""

    def __init__(self, session: ServerSession, replies: Replies, most: i64) -> None:
        self.session: ServerSession = session
        self.replies: Replies = replies
        self.transactions: Transactions[TransactionId] = Transactions(session.broker, most)
        self.commitment: Commitment | None = None

    def step(self, command: TransactionInfo) -> None:
        """Do what ``command`` says, and answer it. Raises TransactionError, BranchRefused, ProtocolViolation."""
        step = command.type
        transaction_id = command.transaction_id
        if step == int(TransactionStep.RECOVER):
            self._recover(command)
            return
        if transaction_id is None:
            raise ProtocolViolation("a step of a transaction does not say which")
        if isinstance(transaction_id, XATransactionId):
            self.session.broker.branches.check_user(branch_key(transaction_id), self.session.subject)
        if step == int(TransactionStep.BEGIN):
            self._begin(transaction_id)
            self.replies.answer(command, False)
        elif step == int(TransactionStep.END):
            self.replies.answer(command, False)
        elif step == int(TransactionStep.PREPARE):
            self._prepare(command, transaction_id)
        elif step == int(TransactionStep.COMMIT_ONE_PHASE):
            self._commit(command, transaction_id)
        elif step == int(TransactionStep.COMMIT_TWO_PHASE):
            self._commit_prepared(command, transaction_id)
        elif step == int(TransactionStep.ROLLBACK) or step == int(TransactionStep.FORGET):
            self._roll_back(command, transaction_id)
        else:
            raise ProtocolViolation(f"a transaction has no step {step}")

    def _begin(self, transaction_id: TransactionId) -> None:
        if transaction_id not in self.transactions.open:  # otherwise replayed by a failover client
            self.transactions.begin(transaction_id, text_of(transaction_id))

    def known(self, transaction_id: TransactionId) -> Transaction:
        """Return the open transaction of that id. Raises TransactionError, BranchRefused."""
        transaction = self.transactions.open.get(transaction_id)
        if transaction is None:
            text = f"Transaction '{text_of(transaction_id)}' has not been started."
            if isinstance(transaction_id, XATransactionId):
                raise BranchRefused(text, XA_NOTA)
            raise TransactionError(text)
        return transaction

    def _commit(self, command: TransactionInfo, transaction_id: TransactionId) -> None:
        session = self.session
        transaction = self._ended(transaction_id)
        debt: Debt | None = None
        if command.response_required:
            debt = self._indebted(transaction, Response(correlation_id=command.command_id))
        try:
            work = session.broker.transactions.commit(transaction, session.rest)
        except EntrepotError as error:
            raise self._undone(command, debt, error) from None
        self._carried(work, command, debt, transaction)

    def is_busy(self) -> bool:
        """Return whether a large transaction is being carried out; its commit is answered when it is done."""
        commitment = self.commitment
        if commitment is None:
            return False
        work = commitment.work
        if not work.done:
            return True
        self.commitment = None
        error = work.error
        if error is None:
            self._done(commitment.command, commitment.debt, work.transaction)
        else:
            self.replies.refuse(commitment.command, self._undone(commitment.command, commitment.debt, error))
        return False

    def _done(self, command: TransactionInfo, debt: Debt | None, transaction: Transaction) -> None:
        """A step was carried out: answer it when that is on disk."""
        if command.type == int(TransactionStep.PREPARE):
            self._forget_settled(transaction)
            transaction_id = command.transaction_id
            if transaction_id is not None:
                self.transactions.open.pop(transaction_id, None)
        if debt is None:
            return
        if command.response_required:
            self.replies.confirmations.ask(debt)
        else:
            debt.repay()

    def _undone(self, command: TransactionInfo, debt: Debt | None, error: EntrepotError) -> EntrepotError:
        """A step was refused, and did nothing: return what to say of it."""
        if debt is not None:
            debt.repay()
        transaction_id = command.transaction_id
        if isinstance(transaction_id, XATransactionId):
            if isinstance(error, StorageError):
                retry = command.type == int(TransactionStep.COMMIT_TWO_PHASE)
                return BranchRefused(error.message, XA_RETRY if retry else XA_RMFAIL)
            if isinstance(error, Refused) and command.type == int(TransactionStep.COMMIT_ONE_PHASE):
                return BranchRefused(error.message, XA_ROLLED_BACK)
            prepared = branch_key(transaction_id) in self.session.broker.branches.prepared
            if isinstance(error, TransactionError) and prepared and command.type == int(TransactionStep.PREPARE):
                return BranchRefused(error.message, XA_DUPID)
        return error

    def _carried(self, work: Work | None, command: TransactionInfo, debt: Debt | None, done: Transaction) -> None:
        """A step was carried out, or is being: ``work``."""
        if work is None:
            self._done(command, debt, done)
        else:
            self.commitment = Commitment(work, command, debt)
            self.session.unfinished = True

    def end(self) -> None:
        """The connection is gone: what is open is rolled back; what is being carried out goes on without it."""
        commitment = self.commitment
        if commitment is not None:
            commitment.work.asker = None
            if commitment.command.type == int(TransactionStep.PREPARE):
                commitment.work.rolls_back = True  # if it is refused: nobody else would
            if commitment.command.transaction_id is not None:
                self.transactions.open.pop(commitment.command.transaction_id, None)  # one that is being prepared
        self.transactions.roll_back_all()

    def _indebted(self, transaction: Transaction, response: Response) -> Debt:
        """Keep the credit that ``transaction`` is about to set free."""
        debt = Debt(self.replies, response)
        for each in transaction.settlements:
            consumer = each.consumer
            if isinstance(consumer, OpenWireConsumer):
                subscription = consumer.subscription
                debt.owed[subscription] = debt.owed.get(subscription, 0) + 1
        for subscription, count in debt.owed.items():
            subscription.owe(count)
        return debt

    def _ended(self, transaction_id: TransactionId) -> Transaction:
        transaction = self.known(transaction_id)
        del self.transactions.open[transaction_id]
        self._forget_settled(transaction)
        return transaction

    def _forget_settled(self, transaction: Transaction) -> None:
        """Take back the credit that was lent for what the transaction settles."""
        for each in transaction.settlements:
            consumer = each.consumer
            if isinstance(consumer, OpenWireConsumer):
                consumer.subscription.settled(1)
                consumer.subscription.forget(each.number)

    def _prepare(self, command: TransactionInfo, transaction_id: TransactionId) -> None:
        if not isinstance(transaction_id, XATransactionId):
            raise TransactionError("a local transaction cannot be prepared")
        correlation = command.command_id
        transaction = self.known(transaction_id)
        branches = self.session.broker.branches
        key = branch_key(transaction_id)
        idle = not transaction.sends and not transaction.settlements and transaction.state is State.ACTIVE
        if idle and key not in branches.prepared:
            del self.transactions.open[transaction_id]
            self.session.broker.transactions.roll_back(transaction)
            self._result(command, Debt(self.replies, IntegerResponse(correlation_id=correlation, result=XA_RDONLY)))
            return
        debt = self._indebted(transaction, IntegerResponse(correlation_id=correlation, result=XA_OK))
        try:
            work = branches.prepare(transaction, key, self.session.subject.name, self.session.rest)
        except EntrepotError as error:
            raise self._undone(command, debt, error) from error
        self._carried(work, command, debt, transaction)

    def _result(self, command: Command, debt: Debt) -> None:
        if command.response_required:
            self.replies.confirmations.ask(debt)
        else:
            debt.repay()

    def _commit_prepared(self, command: TransactionInfo, transaction_id: TransactionId) -> None:
        if not isinstance(transaction_id, XATransactionId):
            self._commit(command, transaction_id)
            return
        key = branch_key(transaction_id)
        if key not in self.session.broker.branches.prepared:
            self.known(transaction_id)  # raises when it is not known at all
            raise BranchRefused("Cannot do 2 phase commit if the transaction has not been prepared.", XA_PROTO)
        try:
            self._end_branch(command, key)
        except StorageError as error:
            raise self._undone(command, None, error) from error

    def _end_branch(self, command: TransactionInfo, key: bytes) -> None:
        """Commit a prepared branch, or roll it back. Raises TransactionError, StorageError."""
        branches = self.session.broker.branches
        transaction = branches.prepared[key].transaction
        if command.type == int(TransactionStep.COMMIT_TWO_PHASE):
            work = branches.commit(key, self.session.rest)
        else:
            work = branches.roll_back(key, self.session.rest)
        self._carried(work, command, Debt(self.replies, Response(correlation_id=command.command_id)), transaction)

    def _roll_back(self, command: TransactionInfo, transaction_id: TransactionId) -> None:
        if isinstance(transaction_id, XATransactionId):
            key = branch_key(transaction_id)
            if key in self.session.broker.branches.prepared:
                try:
                    self._end_branch(command, key)
                except StorageError as error:
                    raise self._undone(command, None, error) from error
                return
        transaction = self.known(transaction_id)
        del self.transactions.open[transaction_id]
        self.session.broker.transactions.roll_back(transaction)
        self.replies.answer(command, True)

    def _recover(self, command: TransactionInfo) -> None:
        """Name the branches that are prepared and not ended, and that this user may end."""
        data: list[Structure] = []
        for key in self.session.broker.branches.seen_by(self.session.subject):
            data.append(
                XATransactionId(
                    format_id=int.from_bytes(key[:4], "big", signed=True),
                    global_transaction_id=key[8 : 8 + int.from_bytes(key[4:8], "big")],
                    branch_qualifier=key[8 + int.from_bytes(key[4:8], "big") :],
                )
            )
        if command.response_required:
            found = DataArrayResponse(correlation_id=command.command_id, data=data)
            self.replies.confirmations.ask(Reply(self.replies, found))
