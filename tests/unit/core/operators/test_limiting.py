"""Limits that an operator sets on a running broker: what holds at once, what goes with the broker, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrepot.base.environment import MIB
from entrepot.base.errors import EntrepotError, InvalidOption, LimitExceeded
from entrepot.core.addressing import policy as policies
from entrepot.core.addressing.address_settings import Full
from entrepot.core.addressing.policy import Policies
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.limiting import OCTETS_MOST
from entrepot.core.room import UNREAD_SHARE
from entrepot.core.sending.flow import BLOCKED, SENT
from entrepot.core.stages.stage_ledger import SHARE
from entrepot.model.address import ANYCAST, MULTICAST
from kit import Rig


def do(rig: Rig, resource: str, name: str, *values: Any) -> Any:
    found = control(rig.broker, Census(), resource).call(name, list(values))
    rig.turn()
    return found


def test_less_memory_stops_producers_and_more_lets_them_go_on() -> None:
    rig = Rig(full="BLOCK")
    rig.send_all("orders", ["x" * 1000] * 10)
    do(rig, "broker", "setMemoryLimit", 5_000)
    broker = rig.broker
    assert (broker.room.most, broker.stages.ledger.limit) == (5_000 // UNREAD_SHARE, MIB)
    assert rig.send("orders") == BLOCKED
    do(rig, "broker", "setMemoryLimit", 8 * MIB)
    assert broker.stages.ledger.limit == 8 * MIB // SHARE
    assert rig.send("orders") == SENT
    rig.restart()
    assert rig.broker.memory.limit == 512 * MIB, "what was set goes with the broker"
    assert len(rig.bodies("orders")) == 12


def test_limits_of_the_disk_hold_from_the_next_look_on() -> None:
    rig = Rig()
    rig.send_all("orders", ["x" * 1000] * 10)
    do(rig, "broker", "setStoreLimit", 2_000)
    do(rig, "broker", "setTempLimit", 3_000)
    space = rig.broker.journal.space
    assert space.limits.full == ""
    assert space.measure(), "it begins to be full"
    assert "may hold 2000" in space.limits.full
    assert space.limits.temp_now == 3_000
    do(rig, "broker", "setStoreLimit", 2 * MIB)
    assert space.measure()
    assert space.limits.full == ""


@pytest.mark.parametrize("octets", [0, -1, OCTETS_MOST + 1, 1.5, "many", None, True])
@pytest.mark.parametrize("verb", ["setMemoryLimit", "setStoreLimit", "setTempLimit"])
def test_what_is_no_limit_is_refused_and_nothing_changes(verb: str, octets: object) -> None:
    rig = Rig()
    limits = rig.broker.journal.space.limits
    before = rig.broker.memory.limit, limits.store, limits.temp
    with pytest.raises(EntrepotError):
        do(rig, "broker", verb, octets)
    assert (rig.broker.memory.limit, limits.store, limits.temp) == before


def test_one_address_is_tuned_over_all_patterns_for_one_routing_type_until_the_broker_stops() -> None:
    rig = Rig({"orders": {"max-size-bytes": "900"}, "#": {"max-size-bytes": "100"}})
    rig.reader("orders", routing=MULTICAST)
    rig.send("orders", routing=ANYCAST)
    topic = next(one for one in rig.broker.table.queues.values() if one.routing == MULTICAST)
    said = json.loads(do(rig, "address.orders", "tune", "anycast", '{"maxSizeBytes": 50, "pageSizeBytes": 1}'))
    assert said == {"maxSizeBytes": 50}
    assert (rig.queue("orders").policy.max_octets, topic.policy.max_octets) == (50, 900)
    do(rig, "address.orders", "tune", "ANYCAST", '{"addressFullMessagePolicy": "BLOCK"}')
    assert (rig.queue("orders").policy.max_octets, int(rig.queue("orders").policy.full)) == (50, Full.BLOCK)
    do(rig, "broker", "addAddressSettings", "#", '{"maxSizeBytes": 7}')
    assert rig.queue("orders").policy.max_octets == 50, "what is said of a pattern is beside it"
    rows = do(rig, "broker", "describeTuned")
    assert rows == [
        {
            "address": "orders",
            "routing": "ANYCAST",
            "settings": {"maxSizeBytes": 50, "addressFullMessagePolicy": "BLOCK"},
        }
    ]


def test_what_is_tuned_is_told_in_pages_by_address() -> None:
    rig = Rig()
    for number in range(1200):
        rig.policies.tune(f"a.{number:04}", ANYCAST, {"max_octets": number + 1})
    rig.policies.tune("a.0002", MULTICAST, {"max_octets": 7})
    first = do(rig, "broker", "describeTuned")
    assert (len(first), first[0]["address"]) == (500, "a.0000")
    seen, after = [], ""
    while page := do(rig, "broker", "describeTuned", after, 400):
        seen += [(row["address"], row["routing"]) for row in page]
        after = page[-1]["address"]
    assert [address for address, _ in seen] == sorted(address for address, _ in set(seen))
    assert len(seen) == 1201
    both = [row["routing"] for row in do(rig, "broker", "describeTuned", "a.0001", 1)]
    assert sorted(both) == ["ANYCAST", "MULTICAST"], "an address is never cut in two"
    assert do(rig, "broker", "describeTuned", "", 0) == []


def test_a_configuration_that_is_read_again_leaves_what_was_tuned() -> None:
    known = Policies()
    known.add("a", {"max-size-bytes": "10"})
    known.tune("a", ANYCAST, {"max_octets": 20})
    renewed = Policies()
    renewed.add("a", {"max-size-bytes": "30"})
    known.take_over(renewed)
    assert [known.of("a", routing).max_octets for routing in (ANYCAST, MULTICAST)] == [20, 30]
    known.tune("a", ANYCAST, {"full": Full.FAIL})
    assert known.of("a", ANYCAST).max_octets == 20, "what was tuned before stays"


def test_what_cannot_be_is_not_tuned() -> None:
    rig = Rig()
    rig.send("a")
    for routing, text in (("ANYCAST", "{"), ("ANYCAST", '{"maxSizeByte": 1}'), ("BOTH", "{}"), ("ANYCAST", "[1]")):
        with pytest.raises(EntrepotError):
            do(rig, "address.a", "tune", routing, text)
    with pytest.raises(InvalidOption):
        rig.policies.tune("a", ANYCAST, {"max_octets": -5})
    with pytest.raises(EntrepotError):
        do(rig, "address.none", "tune", "ANYCAST", "{}")
    assert not rig.policies.tuned
    rig.policies.tune("a", ANYCAST, {"max_octets": 5})
    for number in range(policies.TUNED_MOST - 1):
        rig.policies.tune(f"one.{number}", ANYCAST, {"max_octets": 5})
    with pytest.raises(LimitExceeded):
        rig.policies.tune("b", ANYCAST, {"max_octets": 5})
    rig.policies.tune("a", ANYCAST, {"max_octets": 6})
    assert rig.policies.of("a").max_octets == 6
