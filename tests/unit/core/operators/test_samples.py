"""Message counters: what they say, what they cost, what bounds them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrepot.base.errors import EntrepotError
from entrepot.core.operators import samples
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.samples import HOUR_MS, Samples, shown
from entrepot.core.operators.sampling_verbs import samples_of
from kit import Rig


class Desk:
    """Asks one broker, again and again of the same census."""

    def __init__(self, **given: Any) -> None:
        self.rig = Rig(**given)
        self.census = Census()

    def ask(self, resource: str, name: str, *values: Any) -> Any:
        found = control(self.rig.broker, self.census, resource).call(name, list(values))
        self.rig.turn()
        return found

    def counter(self, queue: str = "orders") -> dict[str, Any]:
        return dict(json.loads(self.ask(f"queue.{queue}", "listMessageCounter")))

    def history(self, queue: str = "orders") -> list[dict[str, Any]]:
        return list(json.loads(self.ask(f"queue.{queue}", "listMessageCounterHistory"))["dayCounters"])

    @property
    def samples(self) -> Samples:
        return samples_of(self.rig.broker, self.census)


def test_counters_say_what_came_since_they_were_enabled() -> None:
    desk = Desk()
    rig = desk.rig
    rig.send_all("orders", range(3))
    assert not desk.ask("broker", "isMessageCounterEnabled")
    desk.ask("broker", "enableMessageCounters")
    desk.ask("broker", "enableMessageCounters")
    rig.send_all("orders", range(2))
    rig.wait(10_001)
    found = desk.counter()
    assert {name: found[name] for name in ("destinationName", "count", "countDelta", "messageCount")} == {
        "destinationName": "orders", "count": 2, "countDelta": 2, "messageCount": 5,
    }  # fmt: skip
    assert found["lastAddTimestamp"] != shown(0) == found["lastAckTimestamp"]
    assert (desk.counter()["countDelta"], desk.counter()["messageCountDelta"]) == (0, 0)
    (day,) = desk.history()
    assert sum(one for one in day["counters"] if one > 0) == 2
    assert len(day["counters"]) == 24
    desk.ask("queue.orders", "resetMessageCounter")
    assert desk.counter()["count"] == 0
    desk.ask("broker", "resetAllMessageCounterHistories")
    assert desk.history() == []


def test_nothing_is_kept_and_no_alarm_waits_while_they_are_off() -> None:
    desk = Desk()
    desk.rig.send_all("orders", range(3))
    assert (desk.counter()["count"], desk.counter()["messageCount"]) == (0, 3)
    assert not desk.samples.counters
    desk.ask("broker", "enableMessageCounters")
    desk.rig.send_all("orders", range(3))
    desk.rig.wait(10_001)
    assert desk.samples.kept == 1
    desk.ask("broker", "disableMessageCounters")
    assert (desk.samples.counters, desk.samples.hours, desk.samples.kept) == ({}, {}, 0)
    desk.rig.send_all("orders", range(3))
    desk.rig.wait(30_000)
    assert not desk.samples.counters
    assert desk.counter()["count"] == 0


def test_counters_of_queues_that_are_gone_go_and_what_is_set_back_is_counted_anew() -> None:
    desk = Desk()
    desk.ask("broker", "enableMessageCounters")
    desk.rig.send_all("orders", range(3))
    desk.rig.wait(10_001)
    desk.ask("queue.orders", "resetMessagesAdded")
    desk.rig.send_all("orders", range(1))
    desk.rig.wait(10_001)
    assert desk.counter()["count"] == 4
    desk.rig.broker.queues.delete(desk.rig.queue("orders"), "a test")
    desk.rig.wait(10_001)
    assert not desk.samples.counters


def test_memory_is_bounded_by_numbers_and_by_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "HOURS_MOST", 3)
    desk = Desk()
    desk.ask("broker", "enableMessageCounters")
    for hour in range(3):
        for name in ("a", "b"):
            desk.rig.send_all(name, range(hour + 1))
        desk.rig.wait(10_001)
        desk.rig.wall += HOUR_MS
    assert desk.samples.kept <= 3
    kept = [sum(counted.values()) for counted in desk.samples.hours.values()]
    assert kept[-1] == 6, "the oldest hours went"
    desk.ask("broker", "setMessageCounterMaxDayCount", 1)
    desk.rig.wall += 24 * HOUR_MS
    desk.rig.wait(10_001)
    assert desk.samples.kept == 0


def test_a_sample_of_many_queues_takes_several_turns() -> None:
    desk = Desk()
    desk.rig.thorough = False
    for at in range(50):
        desk.rig.send_all(f"q{at}", range(1))
    effort = desk.rig.broker.effort
    effort.units = effort.allowance = 10
    effort.spent = 0
    desk.samples.enable()
    assert 0 < len(desk.samples.counters) <= 10
    for _ in range(20):
        effort.go_on()
    assert len(desk.samples.counters) == 50


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("setMessageCounterSamplePeriod", 0),
        ("setMessageCounterSamplePeriod", 999),
        ("setMessageCounterMaxDayCount", 0),
        ("setMessageCounterMaxDayCount", 367),
        ("setMessageCounterMaxDayCount", "many"),
    ],
)
def test_wrong_numbers_are_refused(name: str, value: object) -> None:
    desk = Desk()
    with pytest.raises(EntrepotError, match="give"):
        desk.ask("broker", name, value)
    assert (
        desk.ask("broker", "getMessageCounterSamplePeriod"),
        desk.ask("broker", "getMessageCounterMaxDayCount"),
    ) == (
        10_000,
        10,
    )


def test_another_period_holds_at_once() -> None:
    desk = Desk()
    desk.ask("broker", "enableMessageCounters")
    desk.ask("broker", "setMessageCounterSamplePeriod", 2_000)
    desk.rig.send_all("orders", range(1))
    desk.rig.wait(2_001)
    assert desk.counter()["count"] == 1
    desk.ask("broker", "resetAllMessageCounters")
    assert desk.counter()["count"] == 0


def test_times_are_written_as_artemis_writes_them() -> None:
    assert shown(0) == "1/1/70, 12:00:00 AM"
    assert shown(13 * HOUR_MS + 61_000) == "1/1/70, 1:01:01 PM"
