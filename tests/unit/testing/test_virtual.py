from __future__ import annotations

import pytest

from entrepot import InvalidOption, InvalidSelector, Message
from entrepot.testing import VirtualBroker, VirtualCluster


@pytest.fixture
def cluster() -> VirtualCluster:
    return VirtualCluster()


def alone() -> VirtualBroker:
    return VirtualCluster(("a",))["a"]


def test_an_hour_of_life_passes_without_an_hour() -> None:
    broker = alone()
    sent = broker.send("queue://orders", "soon too late", time_to_live=3600)
    broker.send("queue://orders", "for ever")
    assert not sent.confirmed
    broker.settle()
    assert sent.confirmed
    broker.advance(3590)
    assert broker.waiting("orders") == 2
    broker.advance(60)
    assert broker.waiting("orders") == 1
    assert broker.waiting("ActiveMQ.DLQ") == 1
    assert broker.cluster.time > 3600


def test_what_was_confirmed_is_there_after_the_power_went() -> None:
    broker = alone()
    kept = broker.send("queue://q", "kept")
    broker.settle()
    lost = broker.send("queue://q", "lost", persistent=False)
    broker.settle()
    assert kept.confirmed
    assert lost.refused is None
    broker.kill(power=True)
    assert not broker.running
    with pytest.raises(InvalidOption, match="down"):
        broker.send("queue://q", "to nobody")
    broker.start()
    inbox = broker.consumer("queue://q")
    broker.settle()
    assert inbox.bodies == ["kept"]


def test_bodies_properties_selectors_and_priorities() -> None:
    broker = alone()
    with pytest.raises(InvalidSelector):
        broker.consumer("queue://q", selector="age >")
    red = broker.consumer("queue://q", selector="colour = 'red'")
    sent = broker.send("queue://q", {"item": "lamp"}, properties={"colour": "red"})
    broker.send("queue://q", Message(b"\x00\x01", properties={"colour": "blue"}), properties={"size": 3})
    broker.settle()
    assert [(one.body, one.message_id) for one in red.messages] == [({"item": "lamp"}, sent.message_id)]
    blue = broker.consumer("queue://q")
    broker.settle()
    assert [(one.body, one.properties) for one in blue.messages] == [(b"\x00\x01", {"colour": "blue", "size": 3})]
    blue.close()
    for priority in (1, 9):
        broker.send("queue://p", str(priority), priority=priority)
    late = broker.consumer("queue://p")
    broker.settle()
    assert late.bodies == ["9", "1"]


def test_a_durable_subscription_collects_and_another_does_not() -> None:
    broker = alone()
    broker.consumer("topic://news", durable="kept").close()
    broker.consumer("topic://news").close()
    broker.send("topic://news", "it rains")
    broker.settle()
    inbox = broker.consumer("topic://news", durable="kept")
    broker.settle()
    assert inbox.bodies == ["it rains"]


def test_a_message_finds_the_consumer_at_another_broker(cluster: VirtualCluster) -> None:
    inbox = cluster["c"].consumer("queue://orders")
    cluster.settle()
    cluster["a"].send("queue://orders", "coffee")
    cluster.settle()
    assert [(one.body, one.broker, one.hops) for one in inbox.messages] == [("coffee", "c", 1)]


def test_a_cut_holds_messages_back_until_it_heals(cluster: VirtualCluster) -> None:
    inbox = cluster["b"].consumer("queue://orders")
    cluster.settle()
    for one, other in (("a", "b"), ("c", "b")):
        cluster.chaos.cut(one, other)
    cluster.advance(1)
    cluster["a"].send("queue://orders", "tea")
    cluster.advance(600)
    assert inbox.bodies == []
    assert cluster["a"].waiting("orders") == 1
    assert cluster["a"].why("orders")
    cluster.chaos.heal()
    cluster.settle()
    assert inbox.bodies == ["tea"]
    with pytest.raises(InvalidOption, match="there are a, b, c"):
        cluster.chaos.cut("a", "d")


def test_a_broker_that_was_killed_goes_on_where_it_was(cluster: VirtualCluster) -> None:
    inbox = cluster["b"].consumer("queue://orders")
    cluster.settle()
    cluster.chaos.kill("b", power=True)
    sent = [cluster["a"].send("queue://orders", str(number)) for number in range(20)]
    cluster.advance(5)
    assert all(one.confirmed for one in sent)
    cluster.chaos.heal()
    cluster.settle()
    assert inbox.bodies == [str(number) for number in range(20)]


def test_the_same_seed_is_the_same_run_and_another_is_another() -> None:
    def story(seed: int) -> list[str]:
        cluster = VirtualCluster(seed=seed)
        inboxes = [cluster[name].consumer("queue://q") for name in ("a", "b", "c")]
        for number in range(60):
            cluster["a" if number % 2 else "b"].send("queue://q", str(number))
            cluster.advance(0.001)
        cluster.settle()
        assert sorted(int(str(body)) for inbox in inboxes for body in inbox.bodies) == list(range(60))
        return [f"{message.broker} {message.body}" for inbox in inboxes for message in inbox.messages]

    assert story(5) == story(5)
    assert len({tuple(story(seed)) for seed in range(6, 10)}) > 1


def test_policies_hold_for_every_broker() -> None:
    cluster = VirtualCluster(("a", "b"), policies={"brief.>": {"dead_letter_expired": False}})
    assert cluster.names == ["a", "b"]
    for queue in ("brief.q", "other"):
        cluster["b"].send(f"queue://{queue}", queue, time_to_live=1)
    cluster.advance(120)
    assert (cluster["b"].waiting("brief.q"), cluster["b"].waiting("other")) == (0, 0)
    assert cluster["b"].waiting("ActiveMQ.DLQ") == 1
