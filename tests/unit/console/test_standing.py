"""Stores and leases as pages and metrics show them, and the dashboard: it asks for series that are written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from entrepot.console import scraping
from entrepot.console.metrics import details, metrics, standing
from entrepot.console.standing_pages import _role, _segment, _sums, octets
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.io.sync_times import KEPT, SyncTimes
from kit import Rig
from unit.console.test_jolokia import queue
from unit.console.test_metrics import view

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana.json"
LEASE = {"role": "primary", "since": 1_700_000_000_000, "lease": 10_000, "lease_left_ms": 7_500, "locker": "file"}
MASTER = {"broker": "a", "host": "h", "pid": 7, "epoch": 3}


def told(syncs: SyncTimes) -> Any:
    class Here(Census):
        def syncs(self) -> dict[str, object]:
            return syncs.report()

    return control(Rig().broker, Here(), "broker").call("describeStorage", [])


def test_times_of_syncs_are_of_the_newest_and_counts_of_all() -> None:
    times = SyncTimes()
    assert times.report()["p99_us"] == -1
    for number in range(KEPT + 100):
        times.note(1.0 if number < 100 else number / 1e6)
    report = times.report()
    assert report["count"] == KEPT + 100
    assert (report["p50_us"], report["most_us"]) == (600, KEPT + 99)


def test_every_series_of_the_dashboard_is_written_by_the_console() -> None:
    text = metrics([view(queue("a", 3))], detailed=True)
    bridge = {"connector": "x", "peer": "p", "state": "open", "sent": 3, "received": 1, "canary_us": 5}
    details(text, "b", [{"queue": "a", "messagesInTransit": 1}], [bridge], {"no-consumer": 2})
    times = SyncTimes()
    times.note(0.001)
    row = {"queues": [{"queue": "a", "messages": 1, "octets": 10}]}
    standing(text, "b", {**told(times), "oldest": [row, row]}, LEASE)
    text.family("entrepot_up", "gauge", "as Scrapes adds it", [('{target="b"}', 1)])
    assert '"entrepot_up"' in Path(scraping.__file__).read_text()
    labels: dict[str, set[str]] = {}
    for line in text.text().splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            labels[name] = set(re.findall(r'(\w+)="', rest))
    assert 'entrepot_journal_pinned_bytes{broker="b",queue="a"} 20\n' in text.text()
    assert 'entrepot_ha_lease_left_seconds{broker="b"} 7.5\n' in text.text()
    board = json.loads(DASHBOARD.read_text())
    asked = [target for panel in board["panels"] for target in panel["targets"]]
    assert len(asked) >= 18
    for target in asked:
        names = re.findall(r"\b(?:artemis|entrepot)_\w+", target["expr"])
        assert names, target
        for name in names:
            assert name in labels, f"{name} is no series of the console"
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels[name], target
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_a_store_and_a_lease_are_told_in_words() -> None:
    times = SyncTimes()
    times.note(0.00125)
    row = _sums("b", told(times))
    assert (row["p50"], row["syncs"], row["state"], row["limit"]) == ("1.25 ms", "1", "well", "the disk")
    assert _sums("b", told(SyncTimes()))["p99"] == ""
    segment = {"octets": 3_000_000, "live_octets": 10, "growing": True, "whole": False}
    segment["queues"] = [{"queue": "q", "messages": 1_000, "octets": 2_048}]
    told_of = _segment("b", segment)
    assert told_of["size"] == "2.9 MiB, growing"
    assert told_of["holders"] == "q (1,000, 2.0 KiB) and more that was not looked at"
    lease = _role("b", {**LEASE, "master": MASTER})
    assert (lease["role"], lease["master"], lease["epoch"]) == ("primary", "a on h, process 7", 3)
    assert (lease["lease"], lease["left"], lease["since"]) == ("10 s", "8 s", "2023-11-14 22:13:20")
    assert _role("b", {"role": "alone"})["left"] == ""
    assert (octets(1023), octets(1 << 50)) == ("1023 B", "1024.0 TiB")
