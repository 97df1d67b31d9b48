"""What keeps the oldest segments of a journal: counted by queue, bounded."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.core.operators import storage as looked
from entrepot.core.operators.storage import storage
from kit import Rig


def test_an_old_message_keeps_its_segment_and_is_named_with_its_queue() -> None:
    rig = Rig(segment_bytes=4096)
    rig.send("forgotten", "x" * 100)
    for number in range(60):
        rig.send("busy", f"{number} " + "y" * 200)
        rig.turn()
    before = storage(rig.broker)
    assert before["segments"] > 3
    reader = rig.reader("busy", prefetch=1000, auto=True)
    rig.turn()
    rig.wait(1000)
    assert reader
    told = storage(rig.broker)
    assert told["segments"] < before["segments"]
    (first, *_) = told["oldest"]
    assert [one["queue"] for one in first["queues"]] == ["forgotten"]
    assert first["messages"] == 1
    assert first["whole"]
    assert told["oldest"][-1]["growing"]
    assert told["live_octets"] <= told["octets"]
    assert (told["limit_octets"], told["full"]) == (0, "")


def test_a_look_is_bounded_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looked, "SLOTS", 3)
    monkeypatch.setattr(looked, "SEGMENTS", 2)
    rig = Rig(segment_bytes=4096)
    for _ in range(60):
        rig.send("q", "y" * 200)
        rig.turn()
    rows: list[dict[str, Any]] = storage(rig.broker)["oldest"]
    assert len(rows) == 2
    assert [row["whole"] for row in rows] == [False, False]
    assert rows[0]["queues"] == [{"queue": "q", "messages": 3, "octets": rows[0]["queues"][0]["octets"]}]
    assert rows[1]["queues"] == []


def test_a_broker_without_a_disk_has_nothing_there() -> None:
    told = storage(Rig(disk=False).broker)
    assert (told["segments"], told["compacting"]) == (len(told["oldest"]), False)
