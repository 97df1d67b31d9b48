"""Answers that wait for the disk."""

from __future__ import annotations

from entrepot.base.errors import EntrepotError, StorageFull
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations, Settled
from kit import Rig


class Said(Confirmation):
    """Notes what it would say."""

    def __init__(self, confirmations: Confirmations, said: list[str], name: str) -> None:
        super().__init__(confirmations)
        self.said = said
        self.name = name

    def give(self) -> None:
        self.said.append(self.name)

    def refuse(self, error: EntrepotError) -> None:
        self.said.append(f"{self.name}: {error.message}")


class Rest(Settled):
    """Counts."""

    def __init__(self) -> None:
        self.times = 0

    def settled(self) -> None:
        self.times += 1


def test_answers_come_in_order_when_the_disk_has_what_they_confirm() -> None:
    rig, said, rest = Rig(), list[str](), Rest()
    confirmations = Confirmations(rig.journal)
    confirmations.settled = rest
    rig.journal.put(7, b"k", b"v")
    for name in "ab":
        confirmations.ask(Said(confirmations, said, name))
    assert (said, int(confirmations.waiting)) == ([], 2)
    rig.turn()
    assert (said, int(confirmations.waiting), rest.times) == (["a", "b"], 0, 1)
    confirmations.ask(Said(confirmations, said, "at once"))
    assert said[-1] == "at once"


def test_a_connection_that_is_gone_is_told_nothing() -> None:
    rig, said, rest = Rig(), list[str](), Rest()
    confirmations = Confirmations(rig.journal)
    confirmations.settled = rest
    rig.journal.put(7, b"k", b"v")
    confirmations.ask(Said(confirmations, said, "a"))
    confirmations.end()
    rig.turn()
    assert (said, int(confirmations.waiting), rest.times) == ([], 0, 0)
    Said(confirmations, said, "b").store_failed(b"", StorageFull("no room"))
    assert said == []


def test_what_is_not_stored_is_refused() -> None:
    said = list[str]()
    confirmations = Confirmations(Rig().journal)
    confirmations.waiting = 1
    Said(confirmations, said, "a").store_failed(b"", StorageFull("no room"))
    assert (said, int(confirmations.waiting)) == (["a: no room"], 0)
