"""The transactions of sessions: begun with the first work, told again after a loss, never committed by halves.

A transaction that consumed on a lost wire never commits: `TransactionRolledBack`, and the broker delivers again. A
commit without an answer is repeated only in the store that was asked, and only if it did nothing but send; else it is
`TransactionInDoubt` (`requests`). [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.base.environment import Instant
from entrepot.base.errors import TransactionError, TransactionRolledBack
from entrepot.protocols.conversing.port import Answer, of_commit
from entrepot.protocols.openwire.commands import LocalTransactionId, Message
from entrepot.protocols.openwire.conversation.consuming import Consumers
from entrepot.protocols.openwire.conversation.records import Identity, SessionRecord, Transaction
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.ids import TransactionStep


@mypyc_attr(allow_interpreted_subclasses=True)
class Transactions:
    """Local transactions: each session has at most one."""

    def __init__(self, identity: Identity, requests: Requests, consumers: Consumers) -> None:
        self._identity: Final = identity
        self._requests: Final = requests
        self._consumers: Final = consumers

    def begun(self, session: SessionRecord) -> Transaction:
        """Return the transaction of ``session``; the broker knows it from now on."""
        transaction = self.of(session)
        if not transaction.begun:
            transaction.begun = True
            self._requests.post(self._identity.step(transaction.transaction_id, TransactionStep.BEGIN))
        return transaction

    def of(self, session: SessionRecord) -> Transaction:
        """Return the transaction of ``session``, a new one if it has none."""
        if session.transaction is None:
            identity = self._identity
            session.transaction = Transaction(LocalTransactionId(identity.fresh(), identity.connection_id))
        return session.transaction

    def sends(self, session: SessionRecord, message: Message) -> bool:
        """Send ``message`` within the transaction; False when there is no wire and it would be forgotten."""
        requests = self._requests
        if self.of(session).doomed:
            return True  # the broker knows nothing of it any more; who commits or prepares it is told
        transaction = self.begun(session)
        message.transaction_id = transaction.transaction_id
        if requests.reconnects and not transaction.is_branch:
            transaction.sends.append(message)
        return requests.post(message) or requests.reconnects

    def commit(self, session: SessionRecord, now: Instant, answer: Answer) -> None:
        """Commit what the session did; ``answer`` gets TransactionRolledBack when that did not come about."""
        transaction = self.of(session)
        _refuse_branch(transaction)
        if transaction.doomed:
            why = transaction.doomed
            self.roll_back(session, now, lambda error: answer(TransactionRolledBack(why)))
            return
        if any(record.inbox.delivered for record in session.consumers.values()):
            self.begun(session)
            for record in session.consumers.values():
                consumed = record.inbox.acknowledge_all(transaction.transaction_id) > 0
                transaction.consumed = consumed or transaction.consumed
        session.transaction = None
        self._consumers.close_waiting(session)
        if not transaction.begun:
            answer(None)
            return
        commit = self._identity.step(transaction.transaction_id, TransactionStep.COMMIT_ONE_PHASE)
        self._requests.ask(commit, lambda error: answer(of_commit(error)), transaction)

    def roll_back(self, session: SessionRecord, now: Instant, answer: Answer) -> None:
        """Undo what the session sent, and hand out again what it consumed."""
        if session.transaction is not None:
            _refuse_branch(session.transaction)
        transaction, session.transaction = session.transaction, None
        for record in session.consumers.values():
            record.inbox.roll_back(now)
        self._consumers.close_waiting(session)
        if transaction is None or not transaction.begun or transaction.doomed or self._requests.wire is None:
            answer(None)
            return
        self._requests.ask(self._identity.step(transaction.transaction_id, TransactionStep.ROLLBACK), answer)

    def abandon(self, session: SessionRecord) -> None:
        """The session is closed: undo its transaction, nobody waits for that."""
        transaction, session.transaction = session.transaction, None
        if transaction is not None and transaction.begun:
            self._requests.post(self._identity.step(transaction.transaction_id, TransactionStep.ROLLBACK))

    def replay(self, transaction: Transaction) -> None:
        """Tell a broker again of a transaction that goes on: that it began, and what was sent."""
        if transaction.doomed or not transaction.begun or transaction.is_branch:
            return
        self._requests.post(self._identity.step(transaction.transaction_id, TransactionStep.BEGIN))
        for message in transaction.sends:
            self._requests.post(message)


def _refuse_branch(transaction: Transaction) -> None:
    if transaction.is_branch:
        raise TransactionError("a branch of a distributed transaction is under way", remedy="end it first")
