"""Names of both families and of STOMP (classic.md 4.1, artemis.md 4.1)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidDestination, InvalidOption
from entrepot.model.address import ANYCAST, MULTICAST, NAME_OCTETS_MAX, UNTYPED, parse, parse_one


@pytest.mark.parametrize(
    ("text", "name", "routing", "temporary", "queue"),
    [
        ("orders", "orders", UNTYPED, False, ""),
        ("queue://orders", "orders", ANYCAST, False, ""),
        ("/queue/orders", "orders", ANYCAST, False, ""),
        ("topic://a.b", "a.b", MULTICAST, False, ""),
        ("/topic/a/b", "a/b", MULTICAST, False, ""),
        ("temp-queue://x", "x", ANYCAST, True, ""),
        ("/temp-queue/x", "x", ANYCAST, True, ""),
        ("/remote-temp-queue/ID:1", "ID:1", ANYCAST, True, ""),
        ("/temp-topic/x", "x", MULTICAST, True, ""),
        ("address::queue", "address", UNTYPED, False, "queue"),
        ("topic://a::s", "a", MULTICAST, False, "s"),
        (" queue://spaced ", "spaced", ANYCAST, False, ""),
    ],
)
def test_names(text, name, routing, temporary, queue):
    found = parse_one(text)
    assert (found.name, found.routing, found.temporary, found.queue) == (name, routing, temporary, queue)


@pytest.mark.parametrize("text", ["queue://A", "topic://A", "temp-queue://A", "temp-topic://A"])
def test_the_qualified_form_is_read_back(text):
    assert parse_one(text).qualified() == text
    assert parse_one(parse_one(text).stomp()) == parse_one(text)


def test_composites_keep_each_parts_prefix_and_name_nothing_twice():
    found = parse("A, topic://B,queue://A,/queue/A,topic://B")
    assert [(one.name, one.routing) for one in found] == [("A", UNTYPED), ("B", MULTICAST)]
    with pytest.raises(InvalidDestination, match="several"):
        parse_one("A,B")


def test_a_routing_type_given_beside_the_name_holds_for_parts_without_a_prefix():
    assert [one.routing for one in parse("A,queue://B", MULTICAST)] == [MULTICAST, ANYCAST]


def test_options_belong_to_every_part():
    found = parse("A,B?consumer.prefetchSize=10&consumer.exclusive=true")
    assert [one.options for one in found] == [{"consumer.prefetchSize": "10", "consumer.exclusive": "true"}] * 2
    for bad in ("A?x", "A?=1", "A?x=1&&y=2"):
        with pytest.raises(InvalidOption):
            parse(bad)


@pytest.mark.parametrize(
    "text", ["", " ", "queue://", "A,,B", "::q", "A::", "a\tb", "a\x7f", "x" * (NAME_OCTETS_MAX + 1), "topic://A,"]
)
def test_names_that_are_none(text):
    with pytest.raises(InvalidDestination):
        parse(text)


def test_a_queue_name_behind_the_address_is_held_to_the_same_rules():
    for bad in ("A::a\nb", "A::" + "x" * (NAME_OCTETS_MAX + 1)):
        with pytest.raises(InvalidDestination):
            parse(bad)
