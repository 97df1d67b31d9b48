"""The transactions of one connection."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Refused, StorageFull, TransactionError
from entrepot.core.transactions.transaction import Signal, State, Transaction
from entrepot.protocols.serving.transactions import Transactions, told_before
from kit import Rig


def test_so_many_and_no_more() -> None:
    open_here: Transactions[str] = Transactions(Rig().broker, 1)
    open_here.begin("a", "a")
    with pytest.raises(TransactionError):
        open_here.begin("b", "b")


def test_all_are_rolled_back_but_those_that_were_promised() -> None:
    open_here: Transactions[str] = Transactions(Rig().broker, 9)
    for name in ("a", "b"):
        open_here.begin(name, name)
    both = list(open_here.open.values())
    both[1].signal(Signal.PREPARE)
    open_here.roll_back_all()
    assert [one.state for one in both] == [State.ROLLED_BACK, State.PREPARED]
    assert open_here.open == {}


@pytest.mark.parametrize("error", [Refused("no"), StorageFull("no room")])
def test_a_refusal_dooms_its_transaction_and_is_said_once(error: Refused | StorageFull) -> None:
    transaction = Transaction("t")
    assert [told_before(transaction, error) for _ in range(3)] == [False, True, True]
    assert transaction.state is State.DOOMED
    assert not told_before(None, error)
