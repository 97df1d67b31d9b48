"""When the producers of `entrepot perf` send, and how much each."""

from __future__ import annotations

from typing import Any

from entrepot.base.environment import SECOND
from entrepot.cli.load import LoadPlan, Schedule


def plan(**changes: Any) -> LoadPlan:
    """Return a plan of two producers without rate, count and end, with ``changes``."""
    said: dict[str, Any] = {
        "url": "",
        "destination": "/queue/q",
        "topic": False,
        "producers": 2,
        "consumers": 1,
        "size": 10,
        "persistent": False,
        "rate": 0.0,
        "duration": 0,
        "count": 0,
        "ack": "auto",
        "window": 0,
        "patience": SECOND,
        "run": "r",
    }
    return LoadPlan(**(said | changes))


def test_the_shares_of_the_producers_are_the_count() -> None:
    shares = [Schedule(plan(producers=3, count=8), number, 0).most for number in range(3)]
    assert shares == [3, 3, 2]


def test_a_producer_whose_share_is_nothing_sends_nothing() -> None:
    schedules = [Schedule(plan(producers=3, count=1), number, 0) for number in range(3)]
    assert [schedule.is_complete() for schedule in schedules] == [False, True, True]


def test_without_a_count_nobody_is_ever_done() -> None:
    schedule = Schedule(plan(duration=SECOND), 0, 5)
    schedule.sent = 1_000_000
    assert not schedule.is_complete()
    assert schedule.end == 5 + SECOND


def test_producers_of_one_rate_take_turns() -> None:
    first, second = (Schedule(plan(rate=10.0), number, SECOND) for number in range(2))
    assert [first.due(0), second.due(0)] == [SECOND, SECOND + SECOND // 10]
    first.sent = 3
    assert first.due(0) == SECOND + 3 * SECOND // 5


def test_without_a_rate_a_message_is_due_now() -> None:
    assert Schedule(plan(), 1, 0).due(77) == 77
