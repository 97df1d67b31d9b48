"""Slow consumers by rate (artemis.md 4.2)."""

from __future__ import annotations

import pytest

from kit import Rig


def slow(rig: Rig) -> int:
    return sum(1 for each in rig.broker.table.queues["Q"].roster.consumers if each.slow)


def run(rig: Rig, seconds: int, a_second: int) -> None:
    """Send so many messages a second; the first reader settles as many, the others nothing."""
    for _ in range(seconds):
        rig.send_all("Q", range(a_second))
        for _ in range(a_second):
            if rig.readers[0].open:
                rig.readers[0].ack()
        rig.wait(1_000)


@pytest.mark.parametrize(("threshold", "unit"), [("2", "messages_per_second"), ("120", "messages_per_minute")])
def test_who_settles_less_than_that_is_slow(threshold, unit):
    rig = Rig(slow_threshold=threshold, slow_unit=unit, slow_check_s="3")
    quick, idle = rig.reader("Q", 5), rig.reader("Q", 5)
    run(rig, 8, 10)
    assert slow(rig) == 1
    assert not quick.endings
    assert not idle.endings


def test_nobody_is_slow_where_little_comes():
    rig = Rig(slow_threshold="10", slow_check_s="1")
    rig.reader("Q", 5)
    run(rig, 5, 2)
    assert slow(rig) == 0


def test_a_slow_one_is_ended_where_that_is_wanted_and_what_it_had_goes_on():
    rig = Rig(slow_threshold="2", slow_check_s="2", slow="kill")
    quick, idle = rig.reader("Q", 5), rig.reader("Q", 5)
    run(rig, 6, 10)
    assert idle.endings
    assert not quick.endings
    rig.broker.queues.delete(rig.queue("Q"), "no longer wanted")
    rig.wait(2_000)
    assert rig.broker.maintenance.paces == {}
