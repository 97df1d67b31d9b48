"""What was routed at an address, and what was tried to be acknowledged in a queue, as Artemis counts it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from entrepot.base.errors import AddressFull
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import ANYCAST, MULTICAST, parse
from kit import Reader, Rig


def made(rig: Rig, address: str, *queues: str, routing: int = ANYCAST, condition: str = "") -> None:
    for name in queues:
        rig.broker.queues.create(QueueDefinition(name=name, address=address, routing=routing, selector=condition))


def counted(rig: Rig, address: str) -> tuple[Any, Any]:
    told = control(rig.broker, Census(), f"address.{address}")
    return told.get("routedMessageCount"), told.get("unRoutedMessageCount")


def attempts(rig: Rig, name: str = "Q") -> Any:
    return control(rig.broker, Census(), f"queue.{name}").call("getAcknowledgeAttempts", [])


def tried(reader: Reader, *bodies: str) -> Transaction:
    transaction = Transaction("t")
    for each in list(reader.open):
        if each.body in bodies:
            transaction.settle(each.consumer, each.number)
    return transaction


def test_a_message_is_counted_once_at_its_address_however_many_queues_it_goes_to() -> None:
    rig = Rig()
    made(rig, "news", "one", "two", routing=MULTICAST)
    made(rig, "Q", "Q")
    made(rig, "shared", "left", "right")
    rig.send_all("topic://news", range(5))
    rig.send_all("queue://Q", range(3))
    rig.send_all("queue://shared", range(4))
    rig.send("shared::left", "x")
    assert [counted(rig, name) for name in ("news", "Q", "shared")] == [(5, 0), (3, 0), (5, 0)]


def test_what_is_sent_where_nothing_is_bound_is_counted_apart() -> None:
    rig = Rig()
    made(rig, "news", "some", routing=MULTICAST, condition="colour = 'red'")
    rig.send("topic://news", "a", properties={"colour": "red"})
    rig.send("topic://news", "b", properties={"colour": "blue"})
    control(rig.broker, Census(), "broker").call("createAddress", ["silent", "MULTICAST"])
    rig.send("topic://silent", "c")
    assert (counted(rig, "news"), counted(rig, "silent")) == ((2, 0), (0, 1))
    made(rig, "silent", "reader", routing=MULTICAST)
    rig.send("topic://silent", "d")
    assert counted(rig, "silent") == (1, 1)


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_divert_takes_what_is_sent_and_its_copies_are_counted_where_they_go(exclusive: bool) -> None:
    rig = Rig()
    made(rig, "to", "to")
    if exclusive:
        control(rig.broker, Census(), "broker").call("createAddress", ["from", "MULTICAST"])
    else:
        made(rig, "from", "from", routing=MULTICAST)
    arguments = ["d", "d", "from", "to", exclusive, "n = 1", None, "ANYCAST"]
    control(rig.broker, Census(), "broker").call("createDivert", arguments)
    rig.send("topic://from", "a", properties={"n": 1})
    rig.send("topic://from", "b", properties={"n": 2})
    assert counted(rig, "to") == (1, 0)
    assert counted(rig, "from") == (2, 0)


def test_parts_of_a_composite_and_what_is_sent_again_and_in_transactions() -> None:
    rig = Rig()
    made(rig, "a", "a")
    made(rig, "b", "b")
    rig.send("queue://a,queue://b", "x")
    for _ in range(2):
        rig.send("queue://a", "y", duplicate=b"same")
    target = rig.broker.target(parse("queue://b"))
    for ends in (rig.commit, rig.broker.transactions.roll_back):
        transaction = Transaction("t")
        transaction.send(rig.message("z", "b"), target)
        ends(transaction)
    assert (counted(rig, "a"), counted(rig, "b")) == ((2, 0), (2, 0))


def test_what_is_refused_is_not_counted() -> None:
    rig = Rig({"#": {"full": "FAIL", "max_octets": "1k"}})
    made(rig, "Q", "Q")
    refused = 0
    for _ in range(20):
        try:
            rig.send("queue://Q", "x" * 200)
        except AddressFull:
            refused += 1
    assert refused
    assert counted(rig, "Q") == (20 - refused, 0)


def test_attempts_are_acknowledgements_whatever_became_of_them() -> None:
    rig = Rig({"#": {"max_deliveries": "1"}})
    rig.send_all("queue://Q", ["a", "b", "c", "d", "e"])
    reader = rig.reader("Q", 10)
    rig.commit(tried(reader, "a"))
    assert attempts(rig) == 1
    open_one = tried(reader, "b", "c")
    assert attempts(rig) == 3, "what an open transaction has acknowledged"
    rig.broker.transactions.roll_back(open_one)
    rig.turn()
    assert attempts(rig) == 3, "what it gave back was tried all the same"
    assert rig.queue("Q").settled == 1
    before = attempts(rig)
    del reader.open[0]
    reader.ack(1)
    assert attempts(rig) == before + 1
    reader.close()
    rig.turn()
    assert (attempts(rig), int(rig.queue("Q").returns.dead)) == (before + 4, 3)
    rig.send("queue://Q", "late", ttl=10)
    rig.wait(1500)
    assert attempts(rig) == before + 5, "what expires is acknowledged"
    told = control(rig.broker, Census(), "queue.Q")
    total = attempts(rig)
    for name in ("resetMessagesAcknowledged", "resetMessagesExpired", "resetMessagesKilled"):
        told.call(name, [])
    assert (attempts(rig), told.get("messagesAcknowledged")) == (total, 0)


def test_a_transaction_whose_consumer_has_left_was_tried_once() -> None:
    rig = Rig()
    rig.send_all("queue://Q", ["a", "b"])
    reader = rig.reader("Q", 10)
    transaction = tried(reader, "a", "b")
    reader.close()
    assert attempts(rig) == 2
    rig.broker.transactions.roll_back(transaction)
    rig.turn()
    assert attempts(rig) == 2
    with suppress(KeyError):
        rig.drain("queue://Q")
    assert attempts(rig) == 4
