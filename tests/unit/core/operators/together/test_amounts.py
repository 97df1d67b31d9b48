"""Where the arguments of an operation say to how many messages it is meant."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.errors import Refused
from entrepot.core.operators.together.amounts import Amount


@pytest.mark.parametrize(
    ("operation", "values", "left", "then"),
    [
        ("purge", [9], 9, [6]),
        ("removeMessages", [3, "a", 9], 9, [3, "a", 6]),
        ("moveMessages", ["", "to", True, 9], 9, ["", "to", True, 6]),
        ("moveMessages", ["", "to", 9], 9, ["", "to", 6]),
        ("moveMessages", [3, "", "to", True], None, [3, "", "to", True]),
        ("retryMessages", [], None, []),
        ("purge", [-1], None, [-1]),
    ],
)
def test_the_next_process_has_the_rest(operation: str, values: list[Any], left: int | None, then: list[Any]) -> None:
    amount = Amount(operation, tuple(values))
    assert amount.left == left
    assert amount.values() == values
    amount.count(3)
    assert amount.values() == then
    amount.count(20)
    assert (amount.done, amount.left) == (23, None if left is None else 0)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(Refused, match="argument 1 of purge"):
        Amount("purge", (True,))
