"""Shares of the disk: what may be lost never takes the room of what is stored, and limits are obeyed."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.errors import AddressFull
from entrepot.core.operators.census import Census
from entrepot.core.operators.explain import explain
from entrepot.core.sending.flow import BLOCKED, SENT, SpaceWaiter
from entrepot.model.address import MULTICAST
from kit import Rig

KIB = 1024


class Waiting(SpaceWaiter):
    def __init__(self) -> None:
        self.called = 0

    def space(self) -> None:
        self.called += 1


def looked(rig: Rig) -> None:
    """What the node does twice a second."""
    if rig.journal.space.measure():
        rig.broker.flow.limits_changed()
    rig.turn()


def small_disk(capacity: int = 3000 * KIB) -> Rig:
    rig = Rig(memory_limit=200 * KIB)
    assert rig.disk is not None
    rig.disk.room.capacity = capacity
    rig.disk.room.reserve = 64 * KIB
    looked(rig)
    return rig


@pytest.mark.parametrize("durable", [True, False])
def test_a_slow_reader_of_a_topic_never_makes_a_persistent_send_fail(durable: bool) -> None:
    rig = small_disk()
    slow = rig.reader("T", 1, routing=MULTICAST)
    blocked = 0
    for number in range(4000):
        if rig.send("T", "x" * KIB, routing=MULTICAST, durable=durable) == BLOCKED:
            blocked = number
            break
        if number % 50 == 0:
            looked(rig)
    assert blocked > 500, "it went to disk for long"
    assert rig.journal.space.temp_full()
    assert rig.journal.refusal() is None
    waiter = Waiting()
    rig.broker.flow.wait(1, waiter)
    for _ in range(500):  # memory is full, and these go to disk as before
        assert rig.send("Q", "y" * KIB) == SENT
        looked(rig)
    assert rig.journal.refusal() is None
    assert "what may be lost has" in str(said(rig, "T"))
    assert waiter.called == 0
    seen = 1
    while slow.open:
        slow.ack()
        looked(rig)
        seen += 1
    assert len(slow.deliveries) == blocked + 1
    assert waiter.called == 1
    assert len(rig.bodies("Q")) == 500
    assert rig.journal.space.paged() == 0


def said(rig: Rig, name: str) -> Any:
    queue = next(queue for queue in rig.broker.table.queues.values() if queue.address == name)
    return explain(rig.broker, queue, Census())


def test_a_reader_that_leaves_gives_its_share_back() -> None:
    rig = small_disk()
    slow = rig.reader("T", 1, routing=MULTICAST)
    while rig.send("T", "x" * KIB, routing=MULTICAST, durable=False) == SENT:
        looked(rig)
    waiter = Waiting()
    rig.broker.flow.wait(1, waiter)
    slow.close()
    looked(rig)
    assert waiter.called == 1
    assert rig.journal.space.paged() == 0


@pytest.mark.parametrize("rare", [False, True])
def test_producers_wait_where_the_store_is_full(rare: bool) -> None:
    rig = Rig()
    rig.journal.space.limits.store = 100 * KIB
    fields: dict[str, Any] = {"group": "g"} if rare else {}
    sent = 0
    while rig.send("Q", "x" * KIB, **fields) == SENT:
        sent += 1
        looked(rig)
        assert sent < 200
    assert 60 < sent < 110
    waiter = Waiting()
    rig.broker.flow.wait(1, waiter)
    assert rig.send("Q", "x", durable=False) == SENT, "it is not stored"
    looked(rig)
    assert waiter.called == 0
    assert "may hold" in str(said(rig, "Q"))
    reader = rig.reader("Q", 10)
    reader.ack(30)
    looked(rig)
    assert waiter.called == 1
    assert rig.send("Q", "x" * KIB) == SENT


def test_a_policy_that_fails_fails_and_keeps_nothing() -> None:
    rig = Rig(full="FAIL")
    rig.journal.space.limits.store = 10 * KIB
    while not rig.journal.space.limits.full:
        assert rig.send("Q", "x" * KIB) == SENT
        looked(rig)
    with pytest.raises(AddressFull, match="and may hold 10240"):
        rig.send("Q", "x" * KIB)
    count = rig.queue("Q").count
    with pytest.raises(AddressFull):
        rig.send("Q", "x" * KIB)
    assert rig.queue("Q").count == count


def test_what_must_stay_free_stops_all_that_is_sent() -> None:
    rig = small_disk()
    rig.journal.space.limits.free_min = 3001 * KIB
    looked(rig)
    assert rig.send("Q", "x", durable=False) == BLOCKED
    rig.journal.space.limits.free_min = 0
    looked(rig)
    assert rig.send("Q", "x", durable=False) == SENT
