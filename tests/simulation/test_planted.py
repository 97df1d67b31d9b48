"""The simulation bites: each bug that is planted as a part of a world is found, and the same seed passes without it.

Those that replace methods are in `test_planted_methods`.
"""

from __future__ import annotations

from typing import Final

import pytest
from planted import BUGS, hunt

FOUND: Final = {  # what is not found at once, by a seed that is tried before all others
    "a transaction is written in pieces": 44,
    "acknowledge before sync": 22,
    "decisions are not journaled": 57,
    "not every message is stored": 2,
    "publications are not journaled": 14,
    "what is published by one record is not on disk": 7,
    "who counts a sink is not journaled": 37,
}


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if not bug.patches])
def test_a_planted_bug_is_found(name: str) -> None:
    hunt(name, FOUND.get(name, 1))
