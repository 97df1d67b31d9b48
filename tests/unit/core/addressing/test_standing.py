"""Addresses without queues and diverts that operators made are there after a restart, as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import composite, divert
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.model.address import ANYCAST, UNTYPED, Destination
from kit import Rig

HOW = ["close", "kill"]


def asking(rig: Rig) -> Callable[..., Any]:
    def ask(resource: str, name: str, *values: object) -> Any:
        found = control(rig.broker, Census(), resource).call(name, list(values))
        rig.turn()
        return found

    return ask


@pytest.mark.parametrize("how", HOW)
def test_a_divert_that_was_made_is_there_after_a_restart_with_all_that_it_says(how: str) -> None:
    rig = Rig()
    wanted = {
        "name": "d", "address": "a", "forwarding-address": "b,c", "exclusive": True, "filter-string": "x = 1",
        "routing-type": "PASS",
    }  # fmt: skip
    asking(rig)("broker", "createDivert", json.dumps(wanted))
    read = control(rig.broker, Census(), "divert.d").attributes()
    before = {name: value() for name, value in read.items()}
    rig.restart(how)
    read = control(rig.broker, Census(), "divert.d").attributes()
    assert {name: value() for name, value in read.items()} == before
    assert before["routingType"] == "PASS"
    rig.send("queue://a", "there", properties={"x": 1})
    rig.send("queue://a", "here", properties={"x": 2})
    assert (rig.bodies("queue://a"), rig.bodies("queue://b"), rig.bodies("queue://c")) == (
        ["here"],
        ["there"],
        ["there"],
    )


@pytest.mark.parametrize("how", HOW)
def test_a_divert_that_was_removed_stays_so_and_one_that_was_made_anew_is_the_newer(how: str) -> None:
    rig = Rig()
    for name, to in (("gone", "x"), ("anew", "x"), ("anew", "y")):
        rig.broker.queues.follow(divert(name, "a", [Destination(to, UNTYPED)]))
    asking(rig)("broker", "destroyDivert", "gone")
    rig.restart(how)
    found = [(one.name, one.forwards[0].target.name) for one in rig.broker.table.diverts["a"]]
    assert found == [("anew", "y")]


@pytest.mark.skipif(is_compiled(), reason="a method of a native class cannot be replaced")
def test_the_same_again_writes_nothing() -> None:
    rig = Rig()
    written: list[bytes] = []
    put = rig.journal.put
    rig.journal.put = lambda kind, key, value: (written.append(key), put(kind, key, value))[1]  # type: ignore[method-assign]
    for _ in range(2):
        rig.broker.queues.follow(divert("d", "a", [Destination("b", UNTYPED)]))
        rig.broker.queues.declare("a", 3)
    assert written == [b"d", b"a"]


def test_composites_of_classic_are_configuration_alone() -> None:
    rig = Rig()
    rig.broker.queues.follow(composite("a", False, [(Destination("b", ANYCAST), None)]))
    rig.restart()
    assert rig.broker.table.diverts == {}


@pytest.mark.parametrize("how", HOW)
def test_an_address_that_was_made_stays_with_its_routing_types_until_it_is_deleted(how: str) -> None:
    rig = Rig()
    ask = asking(rig)
    ask("broker", "createAddress", "both", "ANYCAST,MULTICAST")
    ask("broker", "createAddress", "one", "ANYCAST")
    ask("broker", "createAddress", "gone", "ANYCAST")
    ask("broker", "deleteAddress", "gone")
    rig.broker.queues.create(QueueDefinition(name="q", address="one"))
    rig.broker.queues.delete(rig.queue("q"), "why not")
    rig.restart(how)
    table = rig.broker.table
    assert {name: table.declared.get(name) for name in table.addresses} == {"both": 3, "one": 2}
    asking(rig)("broker", "updateAddress", "one", "MULTICAST")
    rig.restart(how)
    assert rig.broker.table.declared["one"] == 1


def test_an_address_of_a_first_message_goes_with_its_queue_as_before() -> None:
    rig = Rig()
    rig.send("queue://passing", "1")
    rig.reader("topic://passing.too").close()
    assert rig.bodies("queue://passing") == ["1"]
    rig.broker.queues.delete(rig.queue("passing"), "why not")
    rig.restart()
    assert rig.broker.table.addresses == {}
