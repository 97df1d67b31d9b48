"""Frames that take effect together: BEGIN, COMMIT, ABORT, and the stages that SENDs go into. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, TransactionError
from entrepot.core.transactions.carrying import Work
from entrepot.core.transactions.transaction import Transaction
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.serving.transactions import Transactions, told_before
from entrepot.protocols.stomp.answers import Answers
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.delivery import StompConsumer
from entrepot.protocols.stomp.escapes import text_of
from entrepot.protocols.stomp.staging import Staging


class Transacting:
    """The transactions and stages of one connection."""

    def __init__(self, session: ServerSession, reader: Reader, answers: Answers, most: i64) -> None:
        self.session: ServerSession = session
        self.reader: Reader = reader
        self.answers: Answers = answers
        self.transactions: Transactions[str] = Transactions(session.broker, most)
        self.staging: Staging | None = None
        self.committing: Work | None = None  # a large transaction that is being carried out

    def begin(self, headers: dict[str, str]) -> None:
        """BEGIN. Raises TransactionError."""
        name = headers.get("transaction", "")
        if not name:
            raise TransactionError("BEGIN has no transaction header")
        if name in self.transactions.open:
            raise TransactionError(f"the transaction {name!r} has already been started")
        self.transactions.begin(name, name)
        self.answers.confirm(False)

    def need(self, name: str) -> Transaction:
        """Return the open transaction ``name``. Raises TransactionError."""
        transaction = self.transactions.open.get(name)
        if transaction is None:
            raise TransactionError(f"the transaction {name!r} has not been started", remedy="BEGIN it first")
        return transaction

    def _ended(self, headers: dict[str, str]) -> Transaction:
        transaction = self.need(headers.get("transaction", ""))
        del self.transactions.open[transaction.name]
        return transaction

    def commit(self, headers: dict[str, str]) -> None:
        """COMMIT. Raises TransactionError, StorageError."""
        transaction = self._ended(headers)
        self.committing = self.session.broker.transactions.commit(transaction, self.session.rest)
        if self.committing is None:
            self._committed(transaction)
        else:
            self.session.unfinished = True

    def is_done(self) -> bool:
        """Answer the COMMIT that is under way, if it is done; what came behind it waits until then."""
        work = self.committing
        if work is None:
            return True
        if not work.done:
            self.session.unfinished = True
            return False
        self.committing = None
        if work.error is None:
            self._committed(work.transaction)
        else:
            self.answers.error(work.error, self.reader.receipt())
        return True

    def _committed(self, transaction: Transaction) -> None:
        for each in transaction.settlements:
            consumer = each.consumer
            assert isinstance(consumer, StompConsumer)
            consumer.subscription.forget(each.number)
        self.answers.confirm(True)

    def abort(self, headers: dict[str, str]) -> None:
        """ABORT. Raises TransactionError."""
        self.session.broker.transactions.roll_back(self._ended(headers))
        self.answers.confirm(False)

    def stage(self, command: i64, headers: dict[str, str]) -> None:
        """STAGE and what goes with it. Raises Refused."""
        staging = self.staging
        if staging is None:
            staging = Staging(self.session, self.reader, self.answers)
            self.staging = staging
            self.reader.staging = True
        staging.command(command, headers)

    def doom(self, error: EntrepotError, receipt: bytes) -> bool:
        """A frame was refused: the COMMIT of its transaction must not do the rest; nor must its stage be closed.

        Return whether to say so: one ERROR is enough for a transaction, besides answers that are asked for.
        """
        special = self.reader.special
        if special is None:
            return True
        version = self.reader.version
        if b"stage" in special and self.staging is not None:
            self.staging.doom(text_of(special[b"stage"], version), error)
        if b"transaction" not in special:
            return True
        transaction = self.transactions.open.get(text_of(special[b"transaction"], version))
        return not told_before(transaction, error) or len(receipt) > 0

    def end(self) -> None:
        """The connection is gone: what is open is rolled back, and dropped."""
        if self.committing is not None:
            self.committing.asker = None
        self.transactions.roll_back_all()
        if self.staging is not None:
            self.staging.detach()
            self.staging = None
