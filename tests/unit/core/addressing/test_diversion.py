"""Diverts: where their copies go, and what those say of themselves (artemis.md 4.4)."""

from __future__ import annotations

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import divert
from entrepot.core.broker import selector_or_none
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.origins import original_number
from kit import Rig


def both(rig: Rig, name: str, selector: str = "") -> None:
    """Make an address with a queue of either routing type."""
    for routing, queue in ((ANYCAST, f"{name}.q"), (MULTICAST, f"{name}.t")):
        rig.broker.queues.create(QueueDefinition(name=queue, address=name, routing=routing, selector=selector))


def bodies(rig: Rig, name: str) -> tuple[list[str], list[str]]:
    return rig.bodies(f"{name}::{name}.q"), rig.bodies(f"{name}::{name}.t")


def test_a_copy_goes_by_the_routing_type_that_the_divert_says():
    rig = Rig()
    rig.broker.table.address("S").created_by_operator = True
    for name, routing, passes in (
        ("strip", UNTYPED, False),
        ("any", ANYCAST, False),
        ("multi", MULTICAST, False),
        ("pass", UNTYPED, True),
    ):
        both(rig, name)
        rig.broker.table.add_divert(divert(name, "S", [Destination(name, routing)], passes=passes))
    rig.send("queue://S", "q")
    rig.send("topic://S", "t")
    assert bodies(rig, "strip") == (["q", "t"], ["q", "t"])
    assert bodies(rig, "any") == (["q", "t"], [])
    assert bodies(rig, "multi") == ([], ["q", "t"])
    assert bodies(rig, "pass") == (["q"], ["t"])
    assert rig.bodies("queue://S") == ["q"]


def test_each_divert_of_a_chain_writes_where_its_copy_came_from():
    rig = Rig()
    rig.broker.table.add_divert(divert("one", "A", [Destination("B", UNTYPED)]))
    rig.broker.table.add_divert(divert("two", "B", [Destination("C", UNTYPED), Destination("D", ANYCAST)], True))
    rig.send("queue://A", "x", duplicate=b"once", ttl=60_000)
    first = rig.drain("A")[0].message
    assert rig.bodies("B") == []
    rig.restart("kill")  # what they say is on disk
    for name in ("C", "D"):
        (copy,) = rig.drain(name)
        assert (copy.annotations["_AMQ_ORIG_ADDRESS"], copy.annotations["_AMQ_ORIG_QUEUE"]) == ("B", "two")
        assert copy.annotations["_AMQ_ORIG_ROUTING_TYPE"] == "1"
        assert original_number(copy.message) not in (0, first.number)
        assert copy.message.expiration == first.expiration
        assert copy.message.address == name


def test_filters_behind_a_divert_see_its_copy():
    rig = Rig()
    both(rig, "F", "_AMQ_ORIG_ADDRESS = 'A'")
    rig.broker.table.add_divert(divert("one", "A", [Destination("F", UNTYPED)]))
    rig.broker.table.add_divert(divert("two", "B", [Destination("F", UNTYPED)]))
    onward = selector_or_none("_AMQ_ORIG_QUEUE = 'one'")
    rig.broker.table.add_divert(divert("on", "F", [Destination("G", UNTYPED)], condition=onward))
    rig.send("queue://A", "a")
    rig.send("queue://B", "b")
    assert bodies(rig, "F") == (["a"], ["a"])
    assert rig.bodies("G") == ["a"]


def test_the_lifetime_of_a_copy_is_bounded_by_where_it_goes():
    rig = Rig({"B": {"expiry_ms": "1000"}, "C": {"no_expiry": "true"}})
    rig.broker.table.add_divert(divert("d", "A", [Destination("B", UNTYPED), Destination("C", UNTYPED)]))
    rig.send("queue://A", "x")
    rig.send("queue://A", "y", ttl=5)
    (first, _) = rig.drain("B")
    assert first.message.expiration == rig.wall + 1000
    assert [each.message.expiration for each in rig.drain("C")] == [0, 0]
    assert rig.drain("A")[0].message.expiration == 0


def test_asking_whether_there_is_room_makes_nothing():
    rig = Rig()
    rig.broker.table.add_divert(divert("d", "A", [Destination("B", UNTYPED)]))
    target = rig.broker.target([Destination("A", ANYCAST)])
    number = rig.broker.ids.number
    assert rig.broker.sending.admits(rig.message("x", "A", identity="i"), target) == 0
    assert rig.broker.ids.number == number
    assert rig.bodies("B") == []
