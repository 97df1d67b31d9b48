"""Browsers over OpenWire: several queues, what others have, and who may look."""

from __future__ import annotations

from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ConsumerId,
    MessageDispatch,
    RemoveInfo,
)
from kit import Rig

from .wired import Client, Hub, text_in


def look(client: Client, name: str, value: int = 9) -> list[str]:
    client.consume(ActiveMQQueue(name), value, browser=True)
    dispatches = client.dispatches()
    assert dispatches[-1].message is None, "the end is said"
    return [f"{text_in(each)}@{each.destination.physical_name}" for each in dispatches[:-1] if each.destination]


def test_what_a_consumer_has_prefetched_is_browsed() -> None:
    hub = Hub(Rig())
    reader, client = hub.client(), hub.client()
    reader.consume(ActiveMQQueue("q"))
    client.send("q", "1", "2", "3")
    assert look(client, "q") == ["1@q", "2@q", "3@q"]
    first, *_ = reader.dispatches()
    reader.ack(first, first)
    assert look(client, "q", 10) == ["2@q", "3@q"]


def test_a_wildcard_and_a_composite_name_the_queue_of_each_message() -> None:
    """Finding D4."""
    client = Hub(Rig()).client()
    client.send("p.a", "x")
    client.send("p.b", "y", "z")
    assert look(client, "p.*") == ["x@p.a", "y@p.b", "z@p.b"]
    assert look(client, "p.b,p.a", 10) == ["y@p.b", "z@p.b", "x@p.a"]
    assert look(client, "nothing.*", 11) == []


def test_a_browse_goes_on_when_its_turn_is_over() -> None:
    hub = Hub(Rig())
    client = hub.client()
    for name in ("a", "b"):
        client.send(f"q.{name}", *(f"{name}{at}" for at in range(30)))
    effort = hub.rig.broker.effort
    effort.units = 20
    effort.begin()
    info = client.consumer_info(ActiveMQQueue("q.*"), ConsumerId(client.name, 1, 9), 100)
    info.browser = True
    client.post(info)
    heard = [text_in(each) for each in client.heard_of(MessageDispatch)]
    assert 0 < len(heard) < 60
    turns = 0
    while effort.waits():
        effort.go_on()
        client.hear()
        turns += 1
    heard += [text_in(each) for each in client.heard_of(MessageDispatch)]
    assert heard == [*(f"{name}{at}" for name in ("a", "b") for at in range(30)), "(nothing)"]
    assert turns > 0


def test_a_browser_that_closes_shows_no_more() -> None:
    hub = Hub(Rig())
    client = hub.client()
    client.send("q", *(str(at) for at in range(300)))
    hub.rig.broker.effort.units = 50
    hub.rig.broker.effort.begin()
    info = client.consumer_info(ActiveMQQueue("q"), ConsumerId(client.name, 1, 9), 100)
    info.browser = True
    client.post(info)
    hub.rig.broker.effort.begin()
    client.post(RemoveInfo(object_id=info.consumer_id))
    client.take()
    while hub.rig.broker.effort.waits():
        hub.rig.broker.effort.go_on()
    client.hear()
    assert client.heard_of(MessageDispatch) == []
