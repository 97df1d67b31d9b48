"""A body that is read before its message is shown: over turns, held meanwhile, and let go of whatever happens."""

from __future__ import annotations

import pytest

from entrepot.core.queue.consumer import Measurement
from entrepot.protocols.serving.looking import Looking
from kit import Rig
from unit.core.queue.test_measuring import STEP_UNITS, STEPS, Slow, large


def slow(rig: Rig, flaw: str = "") -> Slow:
    made = Slow(flaw)
    made.rig = rig
    return made


class Look:
    """Somebody who shows the only message of Q."""

    def __init__(self, flaw: str = "") -> None:
        self.rig = rig = Rig()
        large(rig, "large")
        reference = rig.queue("Q").backlog.first()
        assert reference is not None
        self.blob = int(reference.message.need_rare().large_id)
        self.wanted = True
        self.told: list[str] = []
        self.measurement: Measurement = slow(rig, flaw)
        Looking(rig.broker, reference.message, self.measurement, lambda: self.wanted, self.told.append)

    def is_held(self) -> bool:
        return self.blob in self.rig.broker.journal.overflow.sizes


@pytest.mark.parametrize("flaw", ["", "it is damaged"])
def test_it_takes_turns_and_tells_what_it_found_once(flaw: str) -> None:
    look = Look(flaw)
    effort = look.rig.broker.effort
    turns = 0
    while effort.waits():
        assert look.told == []
        effort.go_on()
        assert effort.spent <= effort.allowance + STEP_UNITS
        turns += 1
    assert turns >= STEPS * STEP_UNITS // effort.units
    assert look.told == [flaw]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_message_that_is_settled_meanwhile_keeps_its_body_as_long_as_it_is_wanted(wanted: bool) -> None:
    look = Look()
    look.rig.broker.effort.go_on()
    look.rig.drain("queue://Q")
    look.rig.turn()
    assert look.is_held()
    look.wanted = wanted
    while look.rig.broker.effort.waits():
        look.rig.broker.effort.go_on()
    assert look.told == ([""] if wanted else [])
    assert not look.is_held()
