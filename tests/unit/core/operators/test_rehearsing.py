"""What an operation would come to, asked before it is done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrepot.base.errors import EntrepotError, Refused
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from kit import Rig


def would(rig: Rig, *values: Any) -> Any:
    return control(rig.broker, Census(), "broker").call("describeOutcome", list(values))


def do(rig: Rig, name: str, *values: Any) -> None:
    control(rig.broker, Census(), "broker").call(name, list(values))


def test_what_is_missing_there_alike_or_another_is_told_and_nothing_is_done() -> None:
    rig = Rig(disk=False)
    queue = {"name": "q", "address": "a", "routing-type": "ANYCAST"}
    divert = json.dumps({"name": "d", "address": "a", "forwarding-address": "b"})
    makes = [["createQueue", json.dumps(queue)], ["createAddress", "a", "ANYCAST"], ["createDivert", divert]]
    changes = [
        ["updateQueue", json.dumps({"name": "q", "max-consumers": 3})],
        ["destroyQueue", "q"],
        ["updateAddress", "a", "ANYCAST"],
        ["deleteAddress", "a", True],
        ["updateDivert", divert],
    ]
    assert [would(rig, *one) for one in makes + changes] == ["missing"] * 8
    assert not rig.broker.table.addresses
    do(rig, "createQueue", json.dumps(queue))
    do(rig, "createDivert", divert)
    assert [would(rig, *one) for one in changes] == ["there"] * 5
    assert would(rig, "createQueue", json.dumps(queue), True) == "same"
    assert would(rig, "createQueue", json.dumps(queue | {"max-consumers": 3}), True) == "other"
    assert (list(rig.broker.table.queues), rig.queue("q").definition.max_consumers) == (["q"], None)
    assert list(rig.broker.table.addresses) == ["a"]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (["createQueue", "a", "q", "ANYCAST"], "AMQ229019"),
        (["createAddress", "a", "ANYCAST"], "AMQ229204"),
        (["createDivert", '{"name": "d", "address": "a", "forwarding-address": "b"}'], "there is a divert"),
        (["updateAddress", "a", "MULTICAST"], "AMQ229209"),
        (["deleteAddress", "a"], "AMQ229205"),
        (["destroyQueue", "q", False, False, True], "AMQ229215"),
        (["updateQueue", '{"name": "q", "filter-string": "a ="}'], "selector"),
        (["updateDivert", '{"name": "d", "filter-string": "a ="}'], "selector"),
    ],
)
def test_what_would_be_refused_is_refused_in_the_same_words(refused: list[Any], why: str) -> None:
    rig = Rig(disk=False)
    do(rig, "createQueue", "a", "q", "ANYCAST")
    do(rig, "createDivert", '{"name": "d", "address": "a", "forwarding-address": "b"}')
    rig.send_all("a", range(1))
    with pytest.raises(EntrepotError, match=why) as asked:
        would(rig, *refused)
    with pytest.raises(EntrepotError) as done:
        do(rig, *refused)
    assert asked.value.message == done.value.message


def test_of_other_operations_nothing_is_said() -> None:
    with pytest.raises(Refused, match="nothing can be said of 'pause'"):
        would(Rig(disk=False), "pause")
