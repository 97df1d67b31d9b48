"""The checker of histories sees each fault that is planted in one."""

from __future__ import annotations

import pytest

from promised import CONFIRMED, DOUBTFUL, UNDONE, History
from voters import two_at_once


@pytest.fixture
def history() -> History:
    made = History()
    made.add(CONFIRMED, "a1", "a2")
    made.add(UNDONE, "b1", "b2")
    made.add(DOUBTFUL, "c1", "c2")
    made.add(DOUBTFUL, "d1", "d2")
    return made


RIGHT = ["a1", "a2", "d1", "d2"]


def test_what_is_right_is_right(history: History) -> None:
    assert history.wrong(RIGHT) == []
    assert history.figures() == "1 confirmed, 1 rolled back, 2 in doubt"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (["a1", "d1", "d2"], "a1, a2: confirmed, and there [1, 0] times"),
        (["d1", "d2"], "a1, a2: confirmed, and there [0, 0] times"),
        ([*RIGHT, "a2"], "a1, a2: confirmed, and there [1, 2] times"),
        ([*RIGHT, "b1"], "b1, b2: rolled back, and there [1, 0] times"),
        ([*RIGHT, "c2"], "c1, c2: in doubt, and there [0, 1] times"),
        ([*RIGHT, *RIGHT[2:]], "d1, d2: in doubt, and there [2, 2] times"),
        ([*RIGHT, "e1"], "nobody sent e1"),
    ],
    ids=["half is lost", "lost", "twice", "back again", "torn", "doubt twice", "made up"],
)
def test_a_fault_in_what_is_there_is_seen(history: History, found: list[str], told: str) -> None:
    assert history.wrong(found) == [told]


def test_many_faults_are_said_shortly() -> None:
    made = History()
    for number in range(9):
        made.add(CONFIRMED, f"m{number}")
    assert len(made.wrong([])) == 6
    assert made.wrong([])[-1] == "and 4 more like these"


def test_two_primaries_are_seen() -> None:
    assert two_at_once([(0.0, 0.1, 1, "a"), (1.0, 1.1, 2, "b")]) == []
    assert two_at_once([(0.0, 0.1, 1, "a"), (1.0, 1.1, 2, "b"), (1.2, 1.3, 1, "a")]) != []
    assert two_at_once([(0.0, 0.1, 1, "a"), (1.0, 1.1, 1, "b")]) == ["b and a both with epoch 1"]
