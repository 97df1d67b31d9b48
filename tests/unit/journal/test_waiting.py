"""Who waits for which batch."""

from __future__ import annotations

import pytest

from entrepot.base.errors import EntrepotError, StorageError
from entrepot.journal.log import Waiter
from entrepot.journal.waiting import Waiting


class Said(Waiter):
    """Notes what it is told, and asks again where it should."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.said: list[str] = []
        self.again: list[int] = []

    def stored(self, token: bytes) -> None:
        self.said.append(token.decode())
        if self.again:
            self.waiting.ask(self, b"again", self.again.pop())

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        self.said.append(f"{token.decode()}: {error.message}")
        if self.again:
            self.waiting.ask(self, b"again", self.again.pop())


def test_those_of_a_batch_are_called_in_the_order_of_asking_and_no_others() -> None:
    waiting = Waiting()
    said = Said(waiting)
    for token, sequence in ((b"a", 3), (b"b", 3), (b"c", 5)):
        waiting.ask(said, token, sequence)
    waiting.reached(2)
    assert said.said == []
    waiting.reached(4)
    assert said.said == ["a", "b"]
    waiting.reached(5)
    assert said.said == ["a", "b", "c"]


def test_who_asks_while_being_called_waits_for_a_later_batch() -> None:
    waiting = Waiting()
    said = Said(waiting)
    said.again = [4]
    waiting.ask(said, b"a", 3)
    waiting.reached(3)
    assert said.said == ["a"]
    waiting.reached(4)
    assert said.said == ["a", "again"]


def test_who_asks_while_all_is_lost_is_not_told_twice() -> None:
    waiting = Waiting()
    said = Said(waiting)
    said.again = [4]
    waiting.ask(said, b"a", 3)
    waiting.fail(StorageError("the disk is gone"))
    assert said.said == ["a: the disk is gone"]
    waiting.fail(StorageError("still gone"))
    assert said.said == ["a: the disk is gone", "again: still gone"]


def test_nobody_waits_for_what_is_on_disk_or_too_far_ahead() -> None:
    waiting = Waiting()
    waiting.ask(Said(waiting), b"a", 3)
    waiting.check(2, 2)
    with pytest.raises(AssertionError, match="on disk"):
        waiting.check(3, 3)
    with pytest.raises(AssertionError):
        waiting.check(1, 1)
