"""Redistribution: what waits on one node moves to another one where it is read (artemis.md 1.17)."""

from __future__ import annotations

from typing import Any

import pytest

from clustered import Cluster, Node, joined
from entrepot.cluster.clusters import redistribution
from entrepot.cluster.clusters.moving import BREATH, FIRST, Mover
from entrepot.cluster.clusters.options import Balancing
from entrepot.cluster.clusters.remotes import store_name
from entrepot.cluster.clusters.withheld import Withheld
from entrepot.cluster.flow import NO_CREDIT
from entrepot.core.addressing.binding import ROUTE_TO
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.leases.wanting import LeaseDemand
from entrepot.core.sending.handing import hand_out
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.model.origins import ORIGINAL_ADDRESS, ORIGINAL_QUEUE
from kit import Reader

COUNT = 20


def moving(delay: str = "0", count: int = 2, **given: Any) -> tuple[Cluster, list[Node]]:
    """Return a cluster whose messages move ``delay`` ms after the last consumer has gone."""
    return joined(count, policies={"#": {"redistribution_delay": f"{delay}ms"}}, **given)


def numbers(reader: Reader) -> list[int]:
    return [int(one.body) for one in reader.deliveries]


def stored(node: Node, name: str = "Q") -> int:
    queue = node.rig.broker.table.queues.get(name)
    return 0 if queue is None else int(queue.count)


@pytest.mark.parametrize(
    ("mode", "moves"),
    [
        (Balancing.ON_DEMAND, True),
        (Balancing.OFF_WITH_REDISTRIBUTION, True),
        (Balancing.OFF, False),
    ],
)
def test_what_waits_moves_in_its_order_where_the_mode_says_so(mode: Balancing, moves: bool) -> None:
    world, (a, b) = moving(balancing=mode)
    a.send("queue://Q", range(COUNT))
    world.wait(50)
    reader = b.rig.reader("Q")
    world.wait(200)
    assert numbers(reader) == (list(range(COUNT)) if moves else [])
    assert stored(a) == (0 if moves else COUNT)
    assert stored(a, store_name("c", b.uuid)) == 0


def test_nothing_moves_without_a_delay() -> None:
    world, (a, b) = joined(2)
    a.send("queue://Q", range(COUNT))
    reader = b.rig.reader("Q")
    world.wait(500)
    assert (numbers(reader), stored(a)) == ([], COUNT)


def test_it_begins_when_the_delay_is_over() -> None:
    world, (a, b) = moving("500")
    here, there = a.rig.reader("Q", prefetch=1), b.rig.reader("Q")
    world.wait(50)
    b.rig.broker.table.queues["Q"].gate.pause()
    a.send("queue://Q", range(2 * COUNT))
    world.wait(50)
    waiting = stored(a)
    here.close()
    world.wait(490)
    assert stored(a) == waiting
    world.wait(20)
    assert stored(a) == 0
    assert stored(b) == 2 * COUNT
    assert not there.deliveries


def test_a_consumer_that_comes_in_time_keeps_what_is_here() -> None:
    world, (a, b) = moving("500")
    a.send("queue://Q", range(COUNT))
    b.rig.reader("Q")
    world.wait(400)
    a.rig.reader("Q", prefetch=1)
    world.wait(2_000)
    assert stored(a) == COUNT


def test_a_consumer_that_blinks_does_not_defeat_it() -> None:
    world, (a, b) = moving("500")
    a.send("queue://Q", range(COUNT))
    reader = b.rig.reader("Q")
    for _ in range(4):
        world.wait(140)
        blinking = a.rig.reader("Q", prefetch=1)
        world.wait(10)
        blinking.close()
    world.wait(50)
    assert numbers(reader) == list(range(COUNT))


def test_a_consumer_that_stays_for_the_delay_begins_it_anew() -> None:
    world, (a, b) = moving("200")
    a.send("queue://Q", range(COUNT))
    b.rig.reader("Q")
    world.wait(150)
    reader = a.rig.reader("Q", prefetch=1)
    world.wait(250)
    reader.close()
    world.wait(150)
    assert stored(a) == COUNT
    world.wait(100)
    assert stored(a) == 0


def test_what_nobody_here_wants_moves_and_the_rest_stays() -> None:
    world, (a, b) = moving(balancing=Balancing.OFF_WITH_REDISTRIBUTION)
    here = a.rig.reader("Q", selector="colour = 'red'", prefetch=1)
    there = b.rig.reader("Q", selector="colour <> 'green'")
    world.wait(50)
    a.send("queue://Q", range(3), colour="red")
    a.send("queue://Q", range(3, 6), colour="blue")
    a.send("queue://Q", range(6, 9), colour="green")
    world.wait(200)
    assert numbers(here) == [0]
    assert numbers(there) == [3, 4, 5]
    assert stored(a) == 6


@pytest.mark.parametrize("selector", ["", "colour IS NULL"])
def test_what_a_consumer_here_wants_stays_though_it_takes_nothing_now(selector: str) -> None:
    """As with Artemis: a consumer without credit is busy, and does not say that it wants none of it (1.17)."""
    world, (a, b) = moving()
    here = a.rig.reader("Q", prefetch=1, selector=selector)
    a.send("queue://Q", range(COUNT))
    world.wait(50)
    there = b.rig.reader("Q")
    world.wait(200)
    assert (numbers(here), numbers(there), stored(a)) == ([0], [], COUNT)
    here.close()
    world.wait(200)
    assert numbers(there) == list(range(COUNT))


def test_a_shared_subscription_that_is_not_durable_is_one_on_two_nodes() -> None:
    world, (a, b) = moving()
    name = "nonDurable.sub"
    for node in (a, b):
        definition = QueueDefinition(name=name, address="T", routing=MULTICAST, durable=False)
        node.rig.broker.queues.create(definition)
    world.wait(50)
    here, there = a.rig.reader(f"T::{name}"), b.rig.reader(f"T::{name}")
    world.wait(50)
    a.send("topic://T", range(COUNT))
    world.wait(200)
    assert sorted(numbers(here) + numbers(there)) == list(range(COUNT)), "each message once"
    assert numbers(here)
    assert numbers(there)
    here.close()
    world.wait(200)
    assert sorted(numbers(there)) == list(range(COUNT)), "what was not settled moves to who reads it elsewhere"


def test_what_a_drain_may_have_given_stays_until_that_is_known() -> None:
    world, (a, b) = moving()
    withheld = Withheld()
    redistribution_of(a).respect(withheld)
    a.send("queue://Q", range(COUNT))
    world.wait(50)
    withheld.begin("Q")
    there = b.rig.reader("Q")
    world.wait(200)
    assert (numbers(there), stored(a)) == ([], COUNT)
    withheld.pause(int(a.rig.broker.ids.number))
    a.send("queue://Q", range(COUNT, COUNT + 1))
    world.wait(200)
    assert stored(a) == COUNT, "what came since is read elsewhere, the rest is still here"
    assert numbers(there) == [COUNT]
    withheld.end()
    world.wait(200)
    assert sorted(numbers(there)) == list(range(COUNT + 1))
    assert stored(a) == 0


def redistribution_of(node: Node) -> redistribution.Redistribution:
    found = node.connection.registry.redistribution
    assert found is not None
    return found


def test_a_queue_whose_name_is_not_its_address_moves() -> None:
    world, (a, b) = moving()
    for node in (a, b):
        node.rig.broker.queues.create(QueueDefinition(name="other", address="Q", routing=ANYCAST))
    world.wait(50)
    a.send("queue://Q", range(COUNT))
    reader = b.rig.reader("Q::other")
    world.wait(200)
    assert numbers(reader) == list(range(COUNT))


def test_a_durable_subscription_moves_and_no_other_copy() -> None:
    world, (a, b) = moving()
    for node in (a, b):
        node.rig.reader("topic://T", client_id="one", durable_name="sub").close()
        node.rig.reader("topic://T", client_id="two", durable_name="sub").close()
    world.wait(50)
    a.send("topic://T", range(COUNT))
    world.wait(50)
    reader = b.rig.reader("topic://T", client_id="one", durable_name="sub")
    world.wait(200)
    assert sorted(numbers(reader)) == list(range(COUNT))
    assert stored(a, "two.sub") + stored(b, "two.sub") == COUNT
    again = a.rig.reader("topic://T", client_id="one", durable_name="sub")
    world.wait(50)
    assert not again.deliveries, "it can be read here too: what moves messages is no reader"


def test_a_group_moves_as_one() -> None:
    world, nodes = moving(count=4)
    a, *others = nodes
    for group in range(6):
        a.send("queue://Q", range(group * 10, group * 10 + 5), _AMQ_GROUP_ID=f"g{group}")
    readers = [node.rig.reader("Q") for node in others]
    world.wait(500)
    got = [numbers(reader) for reader in readers]
    assert sorted(one for each in got for one in each) == sorted(g * 10 + n for g in range(6) for n in range(5))
    for group in range(6):
        mine = [[one for one in each if one // 10 == group] for each in got]
        assert sorted(mine) == [[], [], [group * 10 + n for n in range(5)]], "one node, in order"


def test_a_paused_queue_moves_when_it_goes_on() -> None:
    world, (a, b) = moving()
    a.send("queue://Q", range(COUNT))
    a.rig.queue("Q").gate.pause()
    reader = b.rig.reader("Q")
    world.wait(200)
    assert stored(a) == COUNT
    a.act(a.rig.queue("Q").dispatcher.resume)
    world.wait(100)
    assert numbers(reader) == list(range(COUNT))


def test_what_waited_before_a_restart_moves() -> None:
    world, (a, b) = moving()
    a.send("queue://Q", range(COUNT))
    a.leave(orderly=True)
    world.wait(50)
    reader = b.rig.reader("Q")
    world.wait(50)
    a.come_back()
    world.wait(3_000)
    assert numbers(reader) == list(range(COUNT))


def test_a_node_that_is_away_gets_nothing_and_all_when_it_is_back() -> None:
    world, (a, b) = moving()
    reader = b.rig.reader("Q")
    world.wait(50)
    world.part(a, b)
    a.send("queue://Q", range(COUNT))
    world.wait(500)
    assert (stored(a), stored(a, store_name("c", b.uuid))) == (COUNT, 0)
    world.apart.clear()
    world.wait(3_000)
    assert numbers(reader) == list(range(COUNT))


def test_what_expires_on_its_way_goes_where_its_own_address_says() -> None:
    world, (a,) = joined(1, policies={"Q": {"expiry_address": "late"}})
    broker, store = a.rig.broker, store_name("c", "another node")
    queue = broker.queues.create(QueueDefinition(name=store, address=store, routing=MULTICAST))
    message = broker.ids.renumbered(a.message("Q", 1))
    message.expiration = broker.wall + 300
    message.mark(f"{ROUTE_TO}{store}", bytes(8))
    a.act(lambda: hand_out(broker, message, [queue]))
    world.wait(3_000)
    assert (stored(a, store), stored(a, "late")) == (0, 1)
    reader = a.rig.reader("late")
    world.wait(50)
    assert numbers(reader) == [1]
    rare = reader.deliveries[0].message.need_rare()
    assert (rare.annotations[ORIGINAL_ADDRESS], rare.annotations[ORIGINAL_QUEUE]) == ("Q", "")
    assert reader.deliveries[0].message.marked(f"{ROUTE_TO}{store}") is None


def test_what_expired_on_another_node_comes_to_its_reader() -> None:
    world, (a, b) = joined(2, policies={"Q": {"expiry_address": "late", "dead_letter_routed": True}})
    over = a.rig.reader("late")
    world.wait(50)
    broker = b.rig.broker
    queue = broker.queues.need(Destination("Q", ANYCAST))
    message = broker.ids.renumbered(b.message("Q", 1))
    message.expiration = broker.wall + 300
    b.act(lambda: hand_out(broker, message, [queue]))
    world.wait(3_000)
    assert (stored(b), numbers(over)) == (0, [1])


def test_little_waits_for_a_node_that_is_slow() -> None:
    world, (a, b) = moving("50", balancing=Balancing.OFF_WITH_REDISTRIBUTION)
    redistribution_of(a).stored_max = 30
    b.rig.reader("Q")
    here = a.rig.reader("Q", prefetch=1)
    world.wait(50)
    for bridge in [bridge for way in a.ways for bridge in way.bridges.values()]:
        bridge.link.flow.hold(NO_CREDIT)
    a.send("queue://Q", range(COUNT * 10))
    here.close()
    world.wait(200)
    assert stored(a, store_name("c", b.uuid)) == 30
    assert stored(a) == COUNT * 10 - 30
    here = a.rig.reader("Q")
    world.wait(20)
    assert len(here.deliveries) == COUNT * 10 - 30, "the rest is for who comes here"


class Everything(Mover):
    """Moves all to one queue."""

    def wants(self, message: Message) -> bool:
        return True

    def dispose(self, message: Message) -> bool:
        self.hand_over(message, [self.broker.table.queues["other"]], {})
        return True


def test_the_first_messages_do_not_wait_for_those_behind_them() -> None:
    """One turn moves few of them at first, so that they are written and sent; each later one twice as many."""
    _, (a, _) = moving()
    broker = a.rig.broker
    for name in ("Q", "other"):
        broker.queues.create(QueueDefinition(name=name, address=name, routing=ANYCAST))
    a.send("queue://Q", range(100))
    mover = Everything(broker, broker.table.queues["Q"])
    mover.source.attach(mover)
    moved: list[int] = []
    while stored(a) > 0:
        before = int(mover.moved)
        broker.advance()
        broker.effort.go_on()
        moved.append(int(mover.moved) - before)
        broker.effort.go_on()
        assert int(mover.moved) == before + moved[-1], "the disk has a moment for these"
        broker.tick(int(broker.now) + BREATH, int(broker.wall) + 1)
    assert moved == [FIRST, 2 * FIRST, 4 * FIRST, 100 - 7 * FIRST]
    assert stored(a, "other") == 100


def test_what_comes_back_from_who_leaves_goes_first() -> None:
    world, (a, b) = moving("100")
    here = a.rig.reader("Q", prefetch=5)
    a.send("queue://Q", range(COUNT))
    there = b.rig.reader("Q")
    world.wait(50)
    assert len(here.deliveries) == 5
    here.close()
    world.wait(300)
    assert numbers(there) == list(range(COUNT))


def test_a_queue_that_is_deleted_while_it_moves_leaves_nothing() -> None:
    world, (a, b) = moving()
    a.send("queue://Q", range(COUNT))
    b.rig.reader("Q", selector="colour = 'red'")
    world.wait(100)
    queue = a.rig.queue("Q")
    assert queue.roster.consumers
    assert not queue.roster.is_read()
    a.act(lambda: a.rig.broker.queues.delete(queue, "a test"))
    world.wait(100)
    assert "Q" not in a.rig.broker.table.queues
    assert not a.connection.registry.redistribution.watches  # type: ignore[union-attr]


def test_a_reader_by_lease_that_is_demand_draws_what_waits_and_one_that_is_none_does_not() -> None:
    world, (a, b) = moving()
    a.send("queue://Q", range(COUNT))
    broker = b.rig.broker
    lease = broker.leases.need(Destination("Q", ANYCAST), "etl", create=True)
    world.wait(200)
    assert (stored(a), stored(b)) == (COUNT, 0)
    wish = LeaseDemand(lease, broker.ids.consumer_key())
    broker.subscribe(wish)
    world.wait(200)
    assert (stored(a), stored(b)) == (0, COUNT)
    broker.unsubscribe(wish)
    world.wait(50)
    a.send("queue://Q", range(COUNT))
    world.wait(200)
    assert (stored(a), stored(b)) == (COUNT, COUNT)
