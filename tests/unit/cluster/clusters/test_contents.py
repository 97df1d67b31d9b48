"""What a prepared branch has, and how each of its messages is said to the node that gets it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clustered import Node, joined
from entrepot.base.errors import Refused
from entrepot.base.primitive import LONG, Primitive
from entrepot.cluster.clusters.contents import Contents
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.transactions.handed import read_handed
from entrepot.core.transactions.transaction import Transaction
from entrepot.model import address as names
from entrepot.model.address import MULTICAST
from entrepot.protocols.artemis.headers import headers_at, properties_in, read_headers
from unit.cluster.clusters.test_handing import KEY, prepared

TOKEN = b"0123456789abcdef"


def branch(*sends: tuple[str, dict[str, object]], setup: Callable[[Node], None] = lambda node: None) -> Contents:
    """Return what a branch has that sends one message to each of the destinations."""
    _, (node, _) = joined(2)
    setup(node)
    transaction = Transaction("x")

    def act() -> None:
        for text, properties in sends:
            target = node.rig.broker.target(names.parse(text))
            transaction.send(node.message(names.parse(text)[0].name, "m", **properties), target)
        node.rig.broker.branches.prepare(transaction, KEY)

    node.act(act)
    return Contents(node.rig.broker, node.rig.broker.branches.prepared[KEY])


def said(contents: Contents, at: int, *, ours: bool) -> tuple[str, dict[str, object]]:
    octets = contents.parcel(at, TOKEN, ours=ours).octets
    return read_headers(octets, headers_at(octets)).address or "", properties_in(octets)


def test_ours_is_told_the_token_with_each_message_and_where_what_was_taken_belongs() -> None:
    _, (node, _) = joined(2)
    prepared(node, sends=1, takes=2)
    contents = Contents(node.rig.broker, node.rig.broker.branches.prepared[KEY])
    assert len(contents) == 3
    assert [queue.name for queue in contents.queues()] == ["in", "out"]
    contents.there[int(node.rig.queue("in").identity)] = 77
    for at in range(3):
        address, properties = said(contents, at, ours=True)
        transaction = Transaction("there")
        read_handed(properties["_ENTREPOT_BRANCH"], transaction)  # type: ignore[arg-type]
        assert (transaction.token, transaction.promised, transaction.owner) == (TOKEN, 3, "jo")
        assert properties["_AMQ_ROUTING_TYPE"] == 1
        route = None if at == 0 else (77).to_bytes(8, "big")
        assert (address, properties.get("_AMQ_ACK_ROUTE_TO"), properties.get("_AMQ_ROUTE_TO")) == (
            "out" if at == 0 else "in",
            route,
            route,
        )


def test_an_artemis_is_told_the_queue_and_nothing_of_ours() -> None:
    contents = branch(("queue://out", {}), ("topic://news", {}))
    queue = contents.broker.table.queues["out"]
    contents.there[int(queue.identity)] = 5
    address, properties = said(contents, 0, ours=False)
    assert (address, properties) == ("out", {"_AMQ_ROUTING_TYPE": 1, "_AMQ_ROUTE_TO": (5).to_bytes(8, "big")})
    address, properties = said(contents, 1, ours=False)
    assert (address, properties) == ("news", {"_AMQ_ROUTING_TYPE": 0}), "who subscribes there gets it, too"


def test_subscriptions_and_virtual_queues_to_what_is_sent_are_needed_there_and_what_does_not_last_is_not() -> None:
    def setup(node: Node) -> None:
        made = node.rig.broker.queues.create
        for definition in (
            QueueDefinition(name="sub", address="VirtualTopic.a", routing=MULTICAST),
            QueueDefinition(name="wild", address="VirtualTopic.#", routing=MULTICAST),
            QueueDefinition(name="brief", address="VirtualTopic.a", routing=MULTICAST, durable=False),
            QueueDefinition(name="other", address="elsewhere", routing=MULTICAST),
            QueueDefinition(name="Consumer.c.VirtualTopic.a", address="Consumer.c.VirtualTopic.a"),
        ):
            made(definition)

    contents = branch(("topic://VirtualTopic.a", {}), setup=setup)
    assert sorted(queue.name for queue in contents.queues()) == ["Consumer.c.VirtualTopic.a", "sub", "wild"]


def test_a_message_to_several_places_is_told_for_each() -> None:
    contents = branch(("queue://a,topic://b", {}))
    assert [said(contents, at, ours=True)[0] for at in range(len(contents))] == ["a", "b"]


def test_a_date_is_kept_and_one_in_the_words_of_another_language_is_refused() -> None:
    due = 4_000_000_000_000
    contents = branch(("queue://a", {"_AMQ_SCHED_DELIVERY": Primitive(LONG, due)}))
    assert said(contents, 0, ours=True)[1]["_AMQ_SCHED_DELIVERY"] == due
    message = contents.broker.branches.message(contents.branch, 0)
    message.need_rare().deliver_at = 0
    with pytest.raises(Refused, match="in the words of another language"):
        contents.parcel(0, TOKEN, ours=True)


def test_what_was_taken_after_a_restart_is_read_from_disk() -> None:
    _, (node, _) = joined(2)
    prepared(node, sends=1, takes=1)
    node.leave(orderly=False)
    node.come_back()
    contents = Contents(node.rig.broker, node.rig.broker.branches.prepared[KEY])
    contents.there[int(node.rig.queue("in").identity)] = 7
    assert [said(contents, at, ours=True)[0] for at in range(2)] == ["out", "in"]


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.cluster.clusters.contents.OCTETS_MAX", 10)
    with pytest.raises(Refused, match="more than 10 octets"):
        said(branch(("queue://a", {})), 0, ours=True)


def test_what_went_with_its_queue_is_no_part_of_it() -> None:
    _, (node, _) = joined(2)
    prepared(node, sends=0, takes=2)
    held = node.rig.broker.branches.prepared[KEY]
    assert len(Contents(node.rig.broker, held)) == 2
    node.act(lambda: node.rig.broker.queues.delete(node.rig.queue("in"), "an operator does not want it"))
    assert len(Contents(node.rig.broker, held)) == 0


def test_a_temporary_queue_is_nowhere_else() -> None:
    def setup(node: Node) -> None:
        node.rig.broker.queues.create(QueueDefinition(name="t", address="t", temporary=True))

    assert branch(("queue://t", {}), setup=setup).why_not(ours=True) == "it sends to t, which is temporary"
