"""How a reader ends decides what the next one is told of its messages: counts, marks, dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.core.queue.queue import MAYBE_DELIVERED, NONE_DELIVERED, UNKNOWN_DELIVERED
from kit import Reader, Rig

SAID = {"unknown": UNKNOWN_DELIVERED, "none": NONE_DELIVERED, "sent away": MAYBE_DELIVERED}


def open_reader(rig: Rig, kind: str, name: str, prefetch: int) -> Reader:
    if kind == "queue":
        return rig.reader("Q", prefetch)
    return rig.reader("topic://T", prefetch, durable_name="sub", client_id=name)


def send(rig: Rig, kind: str, bodies: range) -> None:
    rig.send_all("Q" if kind == "queue" else "topic://T", bodies)


def counts(rig: Rig, kind: str) -> dict[str, int]:
    again = open_reader(rig, kind, "a", 100)
    return {each.body: each.deliveries for each in again.deliveries}


@pytest.mark.parametrize("kind", ["queue", "durable"])
@pytest.mark.parametrize(
    ("settled", "said", "expected"),
    [
        # of six messages four are in flight; ``settled`` are acknowledged, and as many came after them
        ((), "none", {}),
        ((), "unknown", {0: 1, 1: 1, 2: 1, 3: 1}),
        ((), "sent away", {0: 1, 1: 1, 2: 1, 3: 1}),
        ((), 0, {0: 1}),
        ((), 2, {0: 1, 1: 1, 2: 1}),
        ((), 3, {0: 1, 1: 1, 2: 1, 3: 1}),
        ((0,), 0, {}),
        ((0,), 1, {1: 1}),
        ((0, 1, 2), 2, {}),
        ((1,), 2, {0: 1, 2: 1}),
    ],
)
def test_what_was_delivered_is_what_the_reader_says(
    kind: str, settled: tuple[int, ...], said: str | int, expected: dict[int, int]
) -> None:
    rig = Rig()
    reader = open_reader(rig, kind, "a", 4)
    send(rig, kind, range(6))
    numbers = {each.body: each.number for each in reader.deliveries}
    for each in list(reader.open):
        if int(each.body) in settled:
            assert each.consumer.queue is not None
            each.consumer.queue.settle(each.consumer, each.number)
    last = SAID[said] if isinstance(said, str) else numbers[str(said)]
    rig.broker.unsubscribe(reader, last)
    rig.turn()
    left = {str(at): expected.get(at, 0) for at in range(6) if at not in settled}
    assert counts(rig, kind) == left


def test_the_number_of_another_queue_counts_nothing() -> None:
    rig = Rig()
    one, two = rig.reader("one", 10), rig.reader("two", 10)
    rig.send_all("one", range(3))
    rig.send_all("two", range(3))
    last = two.deliveries[1].number
    rig.broker.unsubscribe(one, last)
    rig.broker.unsubscribe(two, last)
    assert [each.deliveries for each in rig.reader("one", 10).deliveries] == [0, 0, 0]
    assert [each.deliveries for each in rig.reader("two", 10).deliveries] == [1, 1, 0]


def test_what_came_back_late_was_not_seen_because_its_number_is_small() -> None:
    rig = Rig()
    away = rig.reader("Q", 1)
    rig.send("Q", "old")
    reader = rig.reader("Q", 10)
    rig.send_all("Q", ["new", "newer"])
    last = reader.deliveries[0].number
    rig.broker.unsubscribe(away, NONE_DELIVERED)
    assert reader.bodies == ["new", "newer", "old"]
    rig.broker.unsubscribe(reader, last)
    again = rig.reader("Q", 10)
    assert {each.body: each.deliveries for each in again.deliveries} == {"old": 0, "new": 1, "newer": 0}


def end_ten_times(said: int, **policy: str) -> tuple[Rig, list[int]]:
    rig = Rig(**policy)
    rig.send_all("Q", range(3))
    seen: list[int] = []
    for _ in range(10):
        reader = rig.reader("Q", 10)
        if reader.deliveries:
            seen.append(reader.deliveries[0].deliveries)
        rig.broker.unsubscribe(reader, said)
        rig.turn()
    return rig, seen


@pytest.mark.parametrize(
    ("said", "seen", "dead"),
    [(NONE_DELIVERED, [0] * 10, 0), (MAYBE_DELIVERED, [0] + [1] * 9, 0), (UNKNOWN_DELIVERED, [0, 1, 2], 3)],
)
def test_only_what_a_reader_saw_ends_among_the_dead_letters(said: int, seen: list[int], dead: int) -> None:
    rig, found = end_ten_times(said, max_deliveries="3")
    assert found == seen
    letters = rig.broker.table.queues.get("ActiveMQ.DLQ")
    assert (0 if letters is None else int(letters.count)) == dead


def test_a_durable_subscription_marks_once_what_it_may_have_seen() -> None:
    """It named a message that is settled already: Classic counts whatever has a lower number, seen or not."""
    rig = Rig(max_deliveries="3")
    rig.reader("topic://T", 0, durable_name="sub", client_id="a").close()
    rig.send_all("topic://T", range(3))
    rig.send("elsewhere", "x")
    last = rig.reader("elsewhere", 1).deliveries[0].number
    found: list[Any] = []
    for _ in range(5):
        reader = rig.reader("topic://T", 10, durable_name="sub", client_id="a")
        found.append([each.deliveries for each in reader.deliveries])
        rig.broker.unsubscribe(reader, last)
        rig.turn()
    assert found == [[0, 0, 0]] + [[1, 1, 1]] * 4


def test_the_mark_of_who_was_sent_away_survives_a_restart() -> None:
    rig = Rig()
    reader = rig.reader("Q", 10)
    rig.send("Q", "a")
    reader.closed = True
    rig.broker.unsubscribe(reader, MAYBE_DELIVERED)
    rig.turn()
    rig.restart("kill")
    assert [each.deliveries for each in rig.reader("Q", 10).deliveries] == [1]


def test_who_goes_because_the_broker_stops_has_harmed_nothing() -> None:
    rig = Rig(max_deliveries="1")
    reader = rig.reader("Q", 10)
    rig.send("Q", "a")
    rig.broker.cease()
    reader.close()
    rig.restart("close")
    assert [each.deliveries for each in rig.reader("Q", 10).deliveries] == [1]


def test_a_slow_reader_that_is_ended_has_harmed_nothing() -> None:
    rig = Rig(slow="kill", slow_after="1000", max_deliveries="1")
    reader = rig.reader("Q", 10)
    rig.send("Q", "a")
    for _ in range(5):
        rig.wait(3_000)
    assert reader.endings
    assert [each.deliveries for each in rig.reader("Q", 10).deliveries] == [1]
