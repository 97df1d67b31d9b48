"""Steps are short between messages, and long in the few turns of a flood."""

from __future__ import annotations

from entrepot.core.operators.pace import PART, Pace
from kit import Rig


def test_a_step_is_a_part_where_there_is_time() -> None:
    rig = Rig()
    effort = rig.broker.effort
    pace = Pace(rig.broker)
    effort.go_on()
    effort.begin()
    effort.go_on()
    assert (pace.of(PART * 10), pace.of(5)) == (10, 1)
    effort.begin()
    effort.begin()  # of somebody's message
    effort.go_on()
    assert pace.of(PART * 10) == PART * 10
