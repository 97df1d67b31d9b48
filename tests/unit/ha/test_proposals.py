"""What a holder wants in the record of its lock: carried at once, one renewal at a time, known when it is answered."""

from __future__ import annotations

from entrepot.ha.candidate import Candidate, Effect, Memory, Sight, Sleep, Swap
from entrepot.ha.lease import Record
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.proposals import Named, Recorded


def master() -> Candidate:
    """Return one that won at 0 and holds."""
    one = Candidate(Record(name="beta", instance="b1"), SharedStoreOptions())
    one.wake(0)
    one.seen(Sight(None, 0, stranger=True), 0)
    one.recalled(Memory(0, 0, empty=True), 0, 0)
    one.swapped(1, 0)
    return one


def kinds(effects: list[Effect]) -> list[type]:
    return [type(effect) for effect in effects]


def heirs(effects: list[Effect]) -> list[str]:
    return [effect.heir for effect in effects if isinstance(effect, Named)]


def test_an_heir_is_in_the_record_at_once_and_only_then_clients_may_be_told() -> None:
    one = master()
    assert one.proposals.name("c1")
    assert not one.proposals.name("c1"), "nothing new"
    assert kinds(one.wake(10)) == [Swap], "it does not wait for the next renewal"
    assert one.mine.heir == "c1"
    assert one.proposals.named == "", "it is not known yet whether the lock says so"
    assert heirs(one.swapped(2, 20)) == ["c1"]
    assert one.proposals.named == "c1"
    assert kinds(one.wake(30)) == [Sleep], "and nothing is asked for again"
    one.proposals.name("")
    one.wake(40)
    assert heirs(one.swapped(3, 50)) == [""]


def test_an_heir_who_is_another_while_the_lock_is_asked_is_named_by_the_next_renewal() -> None:
    one = master()
    one.proposals.name("c1")
    one.wake(10)
    one.proposals.name("d1")
    assert heirs(one.swapped(2, 20)) == ["c1"]
    assert kinds(one.wake(20)) == [Swap]
    assert one.mine.heir == "d1"


def test_who_is_eligible_and_the_heir_go_together() -> None:
    one = master()
    one.proposals.propose(1, {"b": 1, "c": 1})
    one.proposals.name("c")
    assert kinds(one.wake(10)) == [Swap]
    effects = one.swapped(2, 20)
    assert [effect.serial for effect in effects if isinstance(effect, Recorded)] == [1]
    assert heirs(effects) == ["c"]


def test_a_renewal_of_which_nobody_knows_whether_it_arrived_names_nobody_yet() -> None:
    one = master()
    one.proposals.name("c1")
    one.wake(10)
    assert heirs(one.unanswered(20)) == []
    assert one.proposals.open
