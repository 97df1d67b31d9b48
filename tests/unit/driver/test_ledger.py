from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import LeaseError, ProtocolViolation
from entrepot.driver.ledger import Ledger


def said(base: int, tail: int, epoch: int = 1) -> dict[str, str]:
    return {"base": str(base), "tail": str(tail), "epoch": str(epoch)}


@given(st.permutations([(0, 0), (0, 5), (3, 5), (3, 9), (9, 9)]))
def test_answers_that_overtook_one_another_take_nothing_back(answers: list[tuple[int, int]]) -> None:
    ledger = Ledger("A", "q at A")
    ledger.attached(said(0, 0))
    for base, tail in answers:
        ledger.answered(said(base, tail))
    assert (ledger.base, ledger.tail, ledger.first) == (9, 9, 0)


def test_attaching_begins_anew() -> None:
    ledger = Ledger("A", "q at A")
    ledger.attached(said(5, 9))
    assert (ledger.begin(None), ledger.begin(7)) == (5, 7)
    with pytest.raises(LeaseError, match="is settled"):
        ledger.begin(4)
    with pytest.raises(LeaseError, match="given out only 9"):
        ledger.begin(10)
    ledger.attached(said(2, 3, 2))  # another broker's data under this name
    assert (ledger.base, ledger.tail, ledger.epoch) == (2, 3, 2)


def test_an_answer_that_is_none_is_the_brokers_fault() -> None:
    with pytest.raises(ProtocolViolation, match="too old"):
        Ledger("A", "q at A").attached({"epoch": "1", "base": "0"})
