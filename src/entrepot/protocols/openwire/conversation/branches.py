"""Branches of distributed transactions: the steps that a coordinator asks for.

A branch that is not prepared ends with its wire; one that is prepared ends when it is told to, on whatever wire. [C]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError, TransactionError, TransactionRolledBack
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.conversing.port import Answer
from entrepot.protocols.conversing.xid import Xid
from entrepot.protocols.openwire.commands import (
    DataArrayResponse,
    IntegerResponse,
    Response,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.conversation.consuming import Consumers
from entrepot.protocols.openwire.conversation.records import Identity, SessionRecord, Transaction
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.ids import TransactionStep

XA_RDONLY: Final = 3  # the answer of a branch that did nothing: it is over


def branch_id_of(xid: Xid) -> XATransactionId:
    """Return ``xid`` as OpenWire has it. Raises TransactionError for parts of the wrong length."""
    xid.check()
    return XATransactionId(format_id=xid.format_id, global_transaction_id=xid.global_id, branch_qualifier=xid.qualifier)


class Branches:
    """The branches of this connection that ended and are not over."""

    def __init__(self, identity: Identity, requests: Requests, consumers: Consumers) -> None:
        self._identity: Final = identity
        self._requests: Final = requests
        self._consumers: Final = consumers
        self._ended: list[Transaction] = []

    def begin(self, session: SessionRecord, branch_id: XATransactionId) -> None:
        """From now on what the session sends and settles belongs to ``branch_id``. Raises TransactionError."""
        if session.mode is not Acknowledge.TRANSACTED:
            raise TransactionError("this session is not transacted", remedy="open it with Acknowledge.TRANSACTED")
        if session.transaction is not None and session.transaction.begun:
            raise TransactionError("this session has a transaction already", remedy="end that first")
        transaction = Transaction(branch_id)
        transaction.begun = True
        session.transaction = transaction
        if not self._requests.post(self._identity.step(branch_id, TransactionStep.BEGIN)):
            transaction.doomed = "there was no broker when it began"

    def end(self, session: SessionRecord, branch_id: XATransactionId, answer: Answer) -> None:
        """The session is done with ``branch_id``: what it was handed is settled with it. Raises TransactionError."""
        transaction = session.transaction
        if transaction is None or transaction.transaction_id != branch_id:
            raise TransactionError("this session does not work for that branch")
        session.transaction = None
        for record in session.consumers.values():
            handed = list(record.inbox.delivered)
            if record.inbox.acknowledge_all(branch_id):
                transaction.consumed = True
                transaction.settled.append((record.inbox, handed))
        self._consumers.close_waiting(session)
        self._ended.append(transaction)
        if transaction.doomed:
            answer(None)
        else:
            self._requests.ask(self._identity.step(branch_id, TransactionStep.END), answer)

    def prepare(self, branch_id: XATransactionId, answer: Callable[[bool, EntrepotError | None], None]) -> None:
        """Have the broker promise; ``answer`` is told whether there is something to commit."""
        transaction = self._known(branch_id)
        if transaction is not None and transaction.doomed:
            self._ended.remove(transaction)
            answer(False, TransactionRolledBack(transaction.doomed))
            return

        def prepared(response: Response | None, error: EntrepotError | None) -> None:
            nothing = isinstance(response, IntegerResponse) and int(response.result) == XA_RDONLY
            if transaction is not None and (nothing or error is not None) and transaction in self._ended:
                self._ended.remove(transaction)
            answer(not nothing, error)

        self._requests.request(self._identity.step(branch_id, TransactionStep.PREPARE), prepared)

    def commit(self, branch_id: XATransactionId, one_phase: bool, answer: Answer) -> None:
        """Commit a branch that is prepared, or in one phase one that is not."""
        transaction = self._known(branch_id)
        if transaction is not None:
            self._ended.remove(transaction)
            if one_phase and transaction.doomed:
                answer(TransactionRolledBack(transaction.doomed))
                return
        step = TransactionStep.COMMIT_ONE_PHASE if one_phase else TransactionStep.COMMIT_TWO_PHASE
        self._requests.ask(self._identity.step(branch_id, step), answer)

    def roll_back(self, branch_id: XATransactionId, now: Instant, answer: Answer) -> None:
        """Undo a branch; what it settled is handed out again."""
        transaction = self._known(branch_id)
        if transaction is not None:
            self._ended.remove(transaction)

        def undone(response: Response | None, error: EntrepotError | None) -> None:
            if transaction is not None and error is None:
                for inbox, handed in transaction.settled:
                    inbox.take_back(handed)
                    inbox.roll_back(now)
                    inbox.port.arrived(inbox)
            answer(error)

        self._requests.request(self._identity.step(branch_id, TransactionStep.ROLLBACK), undone)

    def recover(self, answer: Callable[[list[Xid], EntrepotError | None], None]) -> None:
        """Ask which branches are prepared and not ended."""

        def told(response: Response | None, error: EntrepotError | None) -> None:
            found: list[Xid] = []
            if isinstance(response, DataArrayResponse):
                for each in response.data or []:
                    if isinstance(each, XATransactionId):
                        whole, part = each.global_transaction_id or b"", each.branch_qualifier or b""
                        found.append(Xid(int(each.format_id), whole, part))
            answer(found, error)

        question = TransactionInfo(connection_id=self._identity.connection_id, type=TransactionStep.RECOVER)
        self._requests.request(question, told)

    def lost(self) -> None:
        """The wire is gone, and what was not prepared with it."""
        for branch in self._ended:
            branch.doomed = "the connection was lost before it was prepared"
            branch.settled.clear()

    def _known(self, branch_id: XATransactionId) -> Transaction | None:
        for transaction in self._ended:
            if transaction.transaction_id == branch_id:
                return transaction
        return None
