"""The transactions that one connection has open. [C]"""

from __future__ import annotations

from typing import Generic, TypeVar

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Refused, TransactionError
from entrepot.core.broker import BrokerCore
from entrepot.core.transactions.transaction import State, Transaction

Key = TypeVar("Key")


class Transactions(Generic[Key]):
    """``open`` has them by the names that the client gives them."""

    def __init__(self, broker: BrokerCore, most: i64) -> None:
        self.broker: BrokerCore = broker
        self.most: i64 = most
        self.open: dict[Key, Transaction] = {}

    def begin(self, key: Key, name: str) -> None:
        """Open one. Raises TransactionError."""
        if len(self.open) >= self.most:
            raise TransactionError(f"{self.most} transactions are open on this connection")
        self.open[key] = Transaction(name)

    def roll_back_all(self) -> None:
        """The connection is gone; what is prepared is the broker's."""
        for transaction in list(self.open.values()):
            if transaction.state is not State.PREPARED:
                self.broker.transactions.roll_back(transaction)
        self.open.clear()


def told_before(transaction: Transaction | None, error: EntrepotError) -> bool:
    """A part of ``transaction`` was refused: its commit must not do the rest. Return whether its client knows.

    One word is enough for a transaction, besides answers that are asked for: a client that reads only behind its commit
    would be stopped by the refusals that it has not read.
    """
    if transaction is None:
        return False
    if transaction.state is State.ACTIVE:
        transaction.fail(error if isinstance(error, Refused) else TransactionError(error.message))
    if transaction.state is not State.DOOMED:
        return False
    told = transaction.told
    transaction.told = True
    return told
