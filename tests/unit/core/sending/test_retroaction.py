"""Retroactive addresses: new queues begin with the last messages (artemis.md 4.5)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import SubscriptionInUse
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.sending.retroaction import PREFIX, queue_of
from entrepot.model.address import ANYCAST, MULTICAST
from kit import Rig


def new(rig: Rig, name: str, routing: int, selector: str = "") -> list[str]:
    rig.broker.queues.create(QueueDefinition(name=name, address="R", routing=routing, selector=selector))
    rig.turn()
    return rig.bodies(f"R::{name}")


def internal(rig: Rig) -> list[str]:
    return [name for name in rig.broker.table.queues if name.startswith(PREFIX)]


@pytest.mark.parametrize("how", ["", "close", "kill"])
def test_a_new_queue_begins_with_the_last_messages_also_after_a_restart(how):
    rig = Rig({"R": {"retroactive": "3"}})
    rig.broker.table.address("R").created_by_operator = True
    for number in range(5):
        rig.send("topic://R", str(number), properties={"n": number})
    rig.send("queue://R", "to the queue")
    if how:
        rig.restart(how)
    assert new(rig, "late", MULTICAST) == ["2", "3", "4"]
    assert new(rig, "filtered", MULTICAST, "n > 3") == ["4"]
    assert new(rig, "any", ANYCAST) == ["to the queue"]
    rig.send("topic://R", "5")
    assert rig.bodies("R::late") == ["5"]
    assert new(rig, "later", MULTICAST) == ["3", "4", "5"]


def test_a_subscriber_gets_them_first_and_what_it_leaves_is_kept_for_the_next():
    rig = Rig({"R": {"retroactive": "2"}})
    early = rig.reader("topic://R", 10)
    rig.send_all("topic://R", range(4))
    late = rig.reader("topic://R", 10)
    rig.send("topic://R", "now")
    assert (early.bodies, late.bodies) == (["0", "1", "2", "3", "now"], ["2", "3", "now"])
    assert late.deliveries[0].message.address == "R"
    early.ack()
    late.ack()
    again = rig.reader("topic://R", 10, durable_name="d", client_id="c")
    assert again.bodies == ["3", "now"]


def test_what_expired_does_not_come_and_nobody_reads_what_is_kept():
    rig = Rig({"R": {"retroactive": "5"}})
    rig.reader("topic://R", 10)
    rig.send("topic://R", "short", ttl=10)
    rig.send("topic://R", "long")
    rig.wait(2_000)
    assert rig.reader("topic://R", 10).bodies == ["long"]
    assert rig.reader("queue://>", 10).bodies == []
    with pytest.raises(SubscriptionInUse):
        rig.reader(f"{PREFIX}R.address.retro::{queue_of('R', MULTICAST)}", 1)


def test_many_messages_cost_as_many_as_are_kept_and_go_with_the_address():
    rig = Rig({"R": {"retroactive": "4", "max_octets": "2000"}})
    reader = rig.reader("topic://R", 500)
    for at in range(20):
        rig.send_all("topic://R", range(at * 50, at * 50 + 50))
        reader.ack()
    assert rig.queue(queue_of("R", MULTICAST)).count == 4
    assert len(internal(rig)) == 2
    reader.close()
    assert internal(rig) == []
    assert rig.broker.table.diverts == {}


def test_another_count_holds_from_the_next_message_on():
    rig = Rig({"R": {"retroactive": "4"}})
    rig.broker.table.address("R").created_by_operator = True
    rig.send_all("topic://R", range(6))
    rig.policies.add("R", {"retroactive": "2"})
    rig.restart("kill")
    rig.send("topic://R", "6")
    rig.broker.table.address("R").created_by_operator = True
    assert new(rig, "late", MULTICAST) == ["5", "6"]
