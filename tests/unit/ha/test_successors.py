"""Whom clients of a shared store's master are told of; what befalls those who wait is drawn in simulation/noted.py."""

from __future__ import annotations

import pytest

from entrepot.base.environment import SECOND
from entrepot.ha.catchup import CatchUp
from entrepot.ha.follower import Follower
from entrepot.ha.successors import FRESH, SAY_EVERY, Note, Roll, Saying, Telling, heir_of

from .primaries import Told

PLACES = {"pair": "tcp://b:61616"}


def test_a_note_is_due_at_once_and_then_once_a_second() -> None:
    saying = Saying()
    assert [saying.due(at) for at in (-5, -4, SAY_EVERY - 6, SAY_EVERY - 5, SAY_EVERY - 4)] == [1, 0, 0, 1, 0]
    assert saying.count == 2


def test_a_note_that_is_removed_and_comes_back_is_one_that_was_left() -> None:
    roll, note = Roll(), Note("beta", 1, PLACES)
    assert roll.look({"b": note}, 0) is None
    assert roll.look({"b": note._replace(said=2)}, SECOND) == note._replace(said=2)
    assert roll.look({}, 2 * SECOND) is None
    assert roll.look({"b": note._replace(said=3)}, 3 * SECOND) is None


def test_a_note_that_is_too_old_is_named_and_who_kept_it_counts_for_nobody() -> None:
    roll, note = Roll(keeps=FRESH), Note("beta", 1, PLACES)
    roll.look({"b": note}, 0)
    assert roll.forgotten == []
    assert roll.look({"b": note}, FRESH + 1) is None
    assert roll.forgotten == ["b"]


def test_clients_are_told_of_places_and_of_none_each_once_and_not_before_the_lock_names_them() -> None:
    telling, note = Telling(), Note("beta", 1, PLACES)
    looks = (("", None), ("b", note), ("b", note._replace(said=2)), ("c", note._replace(who="gamma")), ("", None))
    told = []
    for heir, found in looks:
        before = telling.heir
        telling.found(heir, found)
        told += [telling.news(before), telling.news(heir)]
    assert told == [False, False, False, True, False, False, False, False, False, True]
    assert (telling.who, telling.known) == ("", {})


def test_the_broker_whose_store_it_is_goes_before_whom_clients_know() -> None:
    roll, note = Roll(), Note("beta", 1, PLACES)
    for said in (1, 2):
        roll.look({"b": note._replace(said=said)}, said * SECOND)
    assert roll.first == "b"
    owner = Note("alpha", 1, PLACES, owns=True)
    for said in (3, 4):
        roll.look({"b": note._replace(said=said), "a": owner._replace(said=said)}, said * SECOND)
    assert roll.first == "a"
    roll.look({"b": note._replace(said=5)}, 5 * SECOND)
    assert roll.first == "b", "and others when it is gone"


def replica(copy: str, *, owns: bool = False, known: bool = True) -> Follower:
    told = Told()
    made = Follower(told, copy, f"broker of {copy}", 0, CatchUp())
    made.introduced({"owns": owns, "connectors": PLACES if known else {}})
    return made


@pytest.mark.parametrize(
    ("in_sync", "before", "chosen"),
    [
        ([], "b", None),
        ([replica("a", known=False)], "", None),
        ([replica("a", known=False), replica("b"), replica("c")], "", "b"),
        ([replica("a"), replica("b")], "b", "b"),
        ([replica("a"), replica("b")], "c", "a"),
        ([replica("a"), replica("b", owns=True)], "a", "b"),
        ([replica("a"), replica("b", owns=True, known=False)], "a", "a"),
    ],
    ids=["nobody", "nobody that clients find", "the first", "who was named", "who was is gone", "owner", "mute owner"],
)
def test_of_replicas_in_sync_one_is_named(in_sync: list[Follower], before: str, chosen: str | None) -> None:
    heir = heir_of(in_sync, before)
    assert (None if heir is None else heir.copy) == chosen
