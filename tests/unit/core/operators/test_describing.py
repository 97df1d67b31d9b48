"""What console and metrics are made of: many queues described in steps, resources in bulk, one message whole."""

from __future__ import annotations

from typing import Any

import msgspec

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators import upkeep
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import DESCRIBED_A_STEP
from entrepot.core.operators.controls import control
from entrepot.core.operators.pace import PART
from entrepot.core.operators.rbac import OWN_VIEWS
from kit import Rig


def make(rig: Rig, count: int) -> None:
    for number in range(count):
        rig.broker.queues.create(QueueDefinition(name=f"q.{number:03d}", address=f"q.{number:03d}"))


def done(work: Any) -> tuple[Any, int]:
    steps = 1
    while not work.step():
        steps += 1
    return work.result(), steps


def test_many_queues_are_described_in_steps_and_pages() -> None:
    rig = Rig()
    make(rig, 120)
    broker = control(rig.broker, Census(), "broker")
    first, steps = done(broker.call("describeQueues", ["", "", 110]))
    looks, each = 2, DESCRIBED_A_STEP // PART  # at names until there are none, then at some
    assert (len(first), steps) == (110, looks + -(-110 // each))
    rest, _ = done(broker.call("describeQueues", ["", first[-1]["name"], 110]))
    assert [row["name"] for row in rest] == [f"q.{number:03d}" for number in range(110, 120)]


def test_what_is_deleted_between_two_steps_is_left_out() -> None:
    rig = Rig()
    make(rig, 60)
    work: Any = control(rig.broker, Census(), "broker").call("describeQueues", [])
    assert not work.step()
    upkeep.delete(rig.broker, "q.055")
    rows, _ = done(work)
    assert len(rows) == 59


def test_attributes_are_read_in_bulk_by_name() -> None:
    rig = Rig()
    make(rig, 3)
    broker = control(rig.broker, Census(), "broker")
    rows, _ = done(broker.call("describeResources", ["queue", "q.*", "q.000", 9, "name,messageCount,none"]))
    assert rows == [{"name": "q.001", "messageCount": 0}, {"name": "q.002", "messageCount": 0}]
    addresses, _ = done(broker.call("describeResources", ["address", "", "", 1, "address"]))
    assert addresses == [{"address": "q.000"}]
    assert broker.call("describeAttributes", ["queueCount"]) == {"queueCount": 3}


def test_operations_of_our_own_that_change_something_are_no_views() -> None:
    rig = Rig()
    make(rig, 1)
    known = set(control(rig.broker, Census(), "broker").operations())
    known |= set(control(rig.broker, Census(), "queue.q.000").operations())
    views = {name for name in known if OWN_VIEWS.fullmatch(name)}
    assert {name for name in views if not name.startswith("describe")} == {"explain", "where"}


def test_addresses_and_messages_are_listed_with_what_consoles_show() -> None:
    rig = Rig({"Half": {"max_messages": "4"}})
    rig.send_all("Half", ["a", "b"])
    page, _ = done(control(rig.broker, Census(), "broker").call("listAddresses", ["", 1, 10]))
    (row,) = msgspec.json.decode(page)["data"]
    names = ("addressLimitPercent", "currentDuplicateIdCacheSize", "retroactiveResource", "messageCount")
    assert [row[name] for name in names] == ["50", "0", "false", "2"]
    found, _ = done(control(rig.broker, Census(), "queue.Half").call("browse", [1, 10, ""]))
    assert [(one["type"], one["largeMessage"]) for one in found] == [(0, False)] * 2  # nobody reads the kit's language


def test_a_broker_and_an_address_say_what_artemis_asks_for() -> None:
    rig = Rig({"Half": {"max_messages": "4"}})
    rig.send_all("Half", range(2))
    rig.send_all("None", range(2))
    rig.broker.access.counts.denied = 7
    told = {
        name: control(rig.broker, Census(), "broker").get(name)
        for name in ("AuthorizationFailureCount", "MessageExpiryScanPeriod", "JournalFileSize")
    }
    assert told == {
        "AuthorizationFailureCount": 7,
        "MessageExpiryScanPeriod": 1000,
        "JournalFileSize": int(rig.journal.options.segment_bytes),
    }
    assert control(Rig(disk=False).broker, Census(), "broker").get("journalFileSize") == 0
    percent = [control(rig.broker, Census(), f"address.{name}").get("addressLimitPercent") for name in ("Half", "None")]
    assert percent == [50, 0]
    octets = Rig(max_octets="100000")
    octets.send_all("Q", ["x" * 1000] * 30)
    used = 100 * int(octets.queue("Q").backlog.octets) // 100_000
    assert used > 30
    assert control(octets.broker, Census(), "address.Q").get("addressLimitPercent") == used
