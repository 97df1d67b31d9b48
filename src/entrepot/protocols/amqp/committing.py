"""The end of transactions: a commit that may take several turns, and what a rollback gives back. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import EntrepotError, Refused, StorageError, TransactionError
from entrepot.core.transactions.carrying import Work
from entrepot.core.transactions.transaction import State
from entrepot.protocols.amqp.performatives import Rejected
from entrepot.protocols.amqp.refusals import error_of
from entrepot.protocols.amqp.session import AmqpConnection, Answer, Txn

FAILED: Final = "failed"


class _Commitment:
    """A large transaction that is being carried out, and what answers it."""

    def __init__(self, work: Work, txn: Txn, answer: Answer) -> None:
        self.work: Work = work
        self.txn: Txn = txn
        self.answer: Answer = answer


class Committing:
    """Commits and rolls back what one connection has declared."""

    def __init__(self, connection: AmqpConnection) -> None:
        self.connection: AmqpConnection = connection
        self.busy: _Commitment | None = None

    def carry_out(self, txn: Txn, answer: Answer) -> None:
        """Commit ``txn`` and give ``answer``; a large one takes turns, and the connection waits."""
        transaction = txn.transaction
        try:
            if transaction.state is State.DOOMED:
                cause = transaction.cause
                self.connection.broker.transactions.roll_back(transaction)
                raise cause if cause is not None else TransactionError(transaction.why)
            work = self.connection.broker.transactions.commit(transaction, self.connection.rest)
        except (Refused, StorageError) as error:
            self._not_committed(error, txn, answer)
            return
        if work is None:
            self._committed(txn, answer)
        else:
            self.busy = _Commitment(work, txn, answer)
            self.connection.unfinished = True

    def _committed(self, txn: Txn, answer: Answer) -> None:
        txn.let_go()
        session = answer.session
        if txn.unsettled:
            done = dict.fromkeys(id(sent) for sent in txn.unsettled)
            for delivery, sent in list(session.unsettled.items()):
                if id(sent) in done:
                    del session.unsettled[delivery]
        self.connection.confirmations.ask(answer)

    def _not_committed(self, error: EntrepotError, txn: Txn, answer: Answer) -> None:
        self._give_back(txn)
        said = error_of(error)
        said.condition = FAILED  # as Artemis: of the standard's own, Qpid JMS makes a transaction in doubt
        answer.session.dispose(answer.delivery, Rejected(error=said))

    def is_busy(self) -> bool:
        """Return whether a large transaction is being carried out; it is answered when it is done."""
        busy = self.busy
        if busy is None:
            return False
        if not busy.work.done:
            return True
        self.busy = None
        if busy.work.error is not None:
            self._not_committed(busy.work.error, busy.txn, busy.answer)
        else:
            self._committed(busy.txn, busy.answer)
        return False

    def roll_back(self, txn: Txn) -> None:
        """Forget what ``txn`` would have done; what its peer has settled in it is delivered again."""
        if txn.transaction.state in (State.ACTIVE, State.DOOMED):
            self.connection.broker.transactions.roll_back(txn.transaction)
        self._give_back(txn)

    def _give_back(self, txn: Txn) -> None:
        txn.let_go()
        for sent in txn.answered:
            consumer = sent.consumer
            queue = None if consumer is None else consumer.queue
            if consumer is not None and queue is not None:
                queue.give_back(consumer, sent.number, True)
        txn.answered.clear()
