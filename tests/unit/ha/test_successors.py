"""Whom clients of a shared store's master are told of; what befalls those who wait is drawn in simulation/noted.py."""

from __future__ import annotations

from entrepot.base.environment import SECOND
from entrepot.ha.successors import FRESH, SAY_EVERY, Note, Roll, Saying, Telling

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


def test_clients_are_told_of_places_and_of_none_each_once() -> None:
    telling, note = Telling(), Note("beta", 1, PLACES)
    looks = (None, note, note._replace(said=2), note._replace(who="gamma"), None, None)
    assert [telling.news(each) for each in looks] == [False, True, False, False, True, False]
    assert (telling.who, telling.known) == ("", {})
