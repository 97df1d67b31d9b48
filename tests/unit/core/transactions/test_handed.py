"""What is said of a branch that one broker gives to another."""

from __future__ import annotations

import pytest

from entrepot.core.transactions.handed import TOKEN_OCTETS, is_among, read_handed, write_handed
from entrepot.core.transactions.transaction import Transaction

TOKEN = b"0123456789abcdef"


@pytest.mark.parametrize("owner", ["", "jo", "Jürgen"])
def test_what_is_written_is_read(owner: str) -> None:
    transaction = Transaction("x")
    assert read_handed(write_handed(TOKEN, 7, 3, owner), transaction) == 7
    assert (transaction.token, transaction.owner, transaction.promised, transaction.came) == (TOKEN, owner, 3, 1)


@pytest.mark.parametrize("length", range(TOKEN_OCTETS + 8))
def test_what_is_cut_off_says_nothing(length: int) -> None:
    transaction = Transaction("x")
    assert read_handed(write_handed(TOKEN, 7, 3, "jo")[:length], transaction) == 0
    assert (transaction.token, transaction.owner, transaction.came) == (b"", "", 0)


def test_an_owner_that_is_no_text_and_a_count_that_is_too_large_do_no_harm() -> None:
    transaction = Transaction("x")
    assert read_handed(TOKEN + b"\xff" * 8 + b"\xff", transaction) == (1 << 31) - 1
    assert transaction.owner == "\ufffd"
    assert read_handed(write_handed(TOKEN, 1 << 40, 1, ""), transaction) == (1 << 31) - 1


def test_an_id_is_found_at_its_place_alone() -> None:
    one, other = (5).to_bytes(8, "big"), (6).to_bytes(8, "big")
    assert is_among(other, one + other)
    assert not is_among(b"\0" * 7 + b"\5", b"\0" + one + other)
    assert not is_among(other, one + other[:7])
