"""The life of a connection on the side of the server: what may follow what. [C]

The table is the whole truth; docs/states/connection.md is drawn from it.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import Fault

# What a connection is. They grow, so that ``life >= LEAVING`` says: nothing is read any more.
OPENING: Final = 0
SERVING: Final = 1
LEAVING: Final = 2
LEFT: Final = 3
ENDED: Final = 4

# What happens to it.
ENTER: Final = 0
PART: Final = 1
LEAVE: Final = 2
END: Final = 3

LIVES: Final = ("OPENING", "SERVING", "LEAVING", "LEFT", "ENDED")
EVENTS: Final = ("ENTER", "PART", "LEAVE", "END")
ABOUT: Final = {
    "OPENING": "it has not said who it is, or that is being looked at",
    "SERVING": "what it says is done",
    "LEAVING": "nothing more is read; answers that are still to come are given",
    "LEFT": "all is said: it is closed when that is written",
    "ENDED": "the connection is gone, and all that it held was given back",
    "ENTER": "the broker lets it in",
    "PART": "it takes leave, or was refused and has a moment to read why",
    "LEAVE": "the last word is said: it took leave, broke a rule, or our side ends it",
    "END": "the socket is closed",
}

TRANSITIONS: Final[dict[tuple[int, int], int]] = {
    (OPENING, ENTER): SERVING,
    (OPENING, PART): LEAVING,
    (OPENING, LEAVE): LEFT,
    (OPENING, END): ENDED,
    (SERVING, PART): LEAVING,
    (SERVING, LEAVE): LEFT,
    (SERVING, END): ENDED,
    (LEAVING, LEAVE): LEFT,
    (LEAVING, END): ENDED,
    (LEFT, LEAVE): LEFT,  # several things went wrong in one turn
    (LEFT, END): ENDED,
}


def following(life: int, event: int) -> int:
    """Return what a connection is after ``event``. Raises Fault for what cannot happen."""
    found = TRANSITIONS.get((life, event))
    if found is None:
        raise Fault(f"{EVENTS[event]} cannot happen to a connection that is {LIVES[life]}")
    return found
