"""What incomplete frames hold is counted over all connections, and bounded."""

from __future__ import annotations

from entrepot.base.environment import KIB, MIB
from entrepot.core.ports import Memory
from entrepot.core.sending.loans import LOAN_FREE, Loan


def test_small_pieces_are_not_counted_and_all_is_given_back() -> None:
    memory = Memory(512 * MIB)
    one, other = Loan(memory), Loan(memory)
    one.owe(LOAN_FREE)
    assert memory.lent == 0
    one.owe(LOAN_FREE + 1)
    other.owe(100 * KIB)
    assert memory.lent == LOAN_FREE + 1 + 100 * KIB
    one.owe(0)
    other.owe(0)
    assert memory.lent == 0


def test_half_of_the_memory_may_be_lent_and_one_large_frame_in_any_case() -> None:
    for limit, most in ((1024 * MIB, 512 * MIB), (64 * MIB, 128 * MIB)):
        loan = Loan(Memory(limit))
        loan.owe(most)
        assert not loan.is_pressing()
        loan.owe(most + 1)
        assert loan.is_pressing()
        assert str(most + 1) in str(loan.refusal())
        assert str(most) in str(loan.refusal())
