"""What goes to a collector: in batches, on a thread of its own; what finds no room is counted, and told once."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from entrepot.io.outbox import Outbox

PATIENCE = 20.0


def until(met: object) -> None:
    assert callable(met)
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_items_are_sent_in_order_and_in_batches() -> None:
    batches: list[list[int]] = []
    outbox = Outbox("b", lambda batch: batches.append(batch) is None, limit=100, batch=4, delay=0.01)
    for number in range(10):
        outbox.put(number)
    outbox.start()
    until(lambda: outbox.sent == 10)
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    outbox.put(10)
    outbox.close()
    assert batches[-1] == [10]
    assert (outbox.sent, outbox.dropped) == (11, 0)


def test_a_collector_that_hangs_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()
    outbox: Outbox[int] = Outbox("b", lambda batch: go_on.wait(PATIENCE), limit=8, batch=2, delay=0.001)
    outbox.start()
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            outbox.put(number)
        assert time.monotonic() - began < 2
        assert outbox.dropped >= 990
        outbox.close(0.05)
    go_on.set()
    told = [record.getMessage() for record in caplog.records]
    assert [text for text in told if "dropped, and counted" in text] == [
        "b: spans are dropped, and counted from now on: the collector does not keep up"
    ]
    assert told[-1] == f"b: 0 spans exported, {outbox.dropped} dropped"


def test_what_is_not_taken_is_counted_and_the_next_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    answers = [False, True]

    def send(batch: list[int]) -> bool:
        if not answers:
            raise OSError("gone")
        return answers.pop(0)

    outbox = Outbox("b", send, batch=2, delay=0.001)
    for number in range(6):
        outbox.put(number)
    with caplog.at_level(logging.WARNING):
        outbox.start()
        until(lambda: outbox.sent + outbox.dropped == 6)
        outbox.close()
    assert (outbox.sent, outbox.failed, outbox.overflowed) == (2, 4, 0)
    assert len(caplog.records) == 2
