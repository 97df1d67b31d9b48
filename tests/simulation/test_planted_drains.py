"""The simulation bites: each bug of a drain that replaces a method is found, and the same seed passes without it.

On the plain build alone: native code calls past what replaces its methods.
"""

from __future__ import annotations

from typing import Final

import pytest

from drain_bugs import BESIDE, BUGS, planted
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_drains

pytestmark = pytest.mark.skipif(is_compiled(), reason="native callers do not see a replaced method")

FOUND: Final = {  # the first seed that finds it
    "a drain is done before the disk knows it": 720,
    "ids that come while ids are told are not told": 9,
    "no ids are told": 3,
    "what has a date loses it": 3,
    "a branch is given without what it has taken": 5,
    "a branch is given anew without asking": 28,
    "nobody notes that a branch is given": 28,
    "an aborted drain goes on": 8,
    "on the way: a message is settled before the answer": 1,
    "a drain waits for what a lease holds": 1,
    "a drain waits for whoever asks for more": 1,
    "a drain says nothing of what a lease holds": 1,
    "redistribution takes what a drain may have given": 1,
    "a queue is given away before the disk knows it": 1,
    "what waits for a third node goes to one with a queue of that number": 6,
    "what waits for a third node goes there under another id": 6,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    beside = bug in BESIDE
    assert not run_drains(FOUND[bug], beside=beside).violations
    with planted(bug):
        assert run_drains(FOUND[bug], beside=beside).violations
