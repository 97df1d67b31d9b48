"""The life of a connection: the table has no holes that a session could fall into."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Fault
from entrepot.protocols.serving.life import (
    END,
    ENDED,
    ENTER,
    EVENTS,
    LEAVE,
    LEAVING,
    LEFT,
    LIVES,
    OPENING,
    PART,
    SERVING,
    TRANSITIONS,
    following,
)


def test_every_state_but_the_last_can_end_and_the_last_is_the_end() -> None:
    for life in range(len(LIVES)):
        assert ((life, END) in TRANSITIONS) == (life != ENDED)
        assert life == ENDED or following(life, END) == ENDED


def test_nobody_comes_back() -> None:
    assert all(after >= before for (before, _), after in TRANSITIONS.items())


def test_every_state_and_event_is_used() -> None:
    assert {before for before, _ in TRANSITIONS} | set(TRANSITIONS.values()) == set(range(len(LIVES)))
    assert {event for _, event in TRANSITIONS} == set(range(len(EVENTS)))


@pytest.mark.parametrize(
    ("life", "event"), [(SERVING, ENTER), (LEAVING, ENTER), (LEFT, PART), (ENDED, LEAVE), (ENDED, END)]
)
def test_what_cannot_happen_is_a_fault(life: int, event: int) -> None:
    with pytest.raises(Fault, match=f"{EVENTS[event]} cannot happen to a connection that is {LIVES[life]}"):
        following(life, event)


def test_an_ordinary_life() -> None:
    life = OPENING
    for event, expected in ((ENTER, SERVING), (PART, LEAVING), (LEAVE, LEFT), (LEAVE, LEFT), (END, ENDED)):
        life = following(life, event)
        assert life == expected
