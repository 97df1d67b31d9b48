"""Links by which another broker federates its queues with those of this one: who may, and what it is told."""

from __future__ import annotations

import pytest

from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.model.address import ANYCAST, Destination
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.calling.federating import Fetch
from entrepot.protocols.amqp.federating import (
    ADDRESS_NAME,
    CONTROL,
    EVENTS,
    PRIORITY,
    QUEUE_NAME,
    QUEUES,
    VERSION,
)
from entrepot.protocols.amqp.naming import filters_of

from .test_rights import UNAUTHORIZED, World
from .wired import Client, Hub, encoded


def control(client: Client, **fields: object) -> said.Attach:
    """Ask for a control link; return the answer."""
    wanted = {"desired_capabilities": [CONTROL], "target": said.Target(dynamic=True), **fields}
    return client.sender(None, **wanted)


def fetch(client: Client, address: str = "Q::Q", **fields: object) -> said.Attach:
    """Ask for a link that reads a queue; return the answer."""
    return client.receiver(address, **{"desired_capabilities": [QUEUES], "capabilities": ["queue"], **fields})


def why(client: Client) -> str:
    """Return what the last detach says."""
    error = client.take(said.Detach)[-1].error
    assert error is not None
    return f"{error.condition} {error.description}"


def test_a_control_link_says_that_this_is_a_federation() -> None:
    client = Client(Hub())
    answer = control(client)
    assert answer.offered_capabilities == [CONTROL]
    assert answer.properties is not None
    assert answer.properties[VERSION] == 1
    assert answer.target is not None
    control(client, handle=3)
    assert "has the control link of a federation already" in why(client)


@pytest.mark.parametrize("capability", [QUEUES, EVENTS])
def test_nothing_is_read_before_the_control_link(capability: str) -> None:
    client = Client(Hub())
    client.hub.fill("Q", "a")
    fetch(client, desired_capabilities=[capability])
    assert "no control link" in why(client)
    assert client.bodies() == []


def test_a_queue_is_read_as_by_a_broker() -> None:
    client = Client(Hub())
    client.hub.fill("Q", "a", "b")
    control(client)
    answer = fetch(client, properties={PRIORITY: -7})
    assert answer.offered_capabilities == [QUEUES]
    assert client.bodies() == ["a", "b"]
    (consumer,) = client.hub.rig.queue("Q").roster.consumers
    assert (consumer.kind, consumer.priority) == (INCOMING_BRIDGE, -7)


def test_what_is_not_there_is_not_made_and_told_of_when_it_is() -> None:
    client = Client(Hub())
    broker = client.hub.rig.broker
    control(client)
    client.receiver(None, 2, dynamic=True, desired_capabilities=[EVENTS], snd_settle_mode=1)
    fetch(client)
    assert "amqp:not-found there is no queue 'Q'" in why(client)
    assert "Q" not in broker.table.queues
    client.hub.fill("other", "x")
    client.hub.fill("Q", "x")
    client.hub.turn()
    assert client.bodies() == [{ADDRESS_NAME: "Q", QUEUE_NAME: "Q"}]
    fetch(client, handle=3)
    broker.queues.delete(client.hub.rig.queue("Q"), "a test")
    client.hub.turn()
    client.take(said.Detach)
    client.hub.fill("Q", "y")
    client.hub.turn()
    assert {ADDRESS_NAME: "Q", QUEUE_NAME: "Q"} in client.bodies()


def test_a_queue_of_another_address_is_none() -> None:
    client = Client(Hub())
    client.hub.fill("Q", "a")
    control(client)
    fetch(client, "other::Q")
    assert "there is no queue 'Q' of the address 'other'" in why(client)


def test_addresses_and_policies_to_carry_out_are_refused_by_name() -> None:
    client = Client(Hub())
    control(client)
    fetch(client, desired_capabilities=["AMQ_FEDERATION_ADDRESS_RECEIVER"])
    assert "amqp:not-implemented" in why(client)
    client.send(encoded({"policy-name": "p"}))
    client.hub.turn()
    assert "has a policy that this broker is to carry out" in why(client)


def test_who_may_not_send_to_the_federation_may_not_federate() -> None:
    world = World()
    for user, allowed in (("boss", True), ("app", False)):
        client = world.amqp(user)
        control(client)
        refused = client.take(said.Detach)
        assert (not refused) == allowed, user
        if refused:
            assert refused[0].error is not None
            assert refused[0].error.condition == UNAUTHORIZED


def test_a_selector_is_a_filter_of_the_source() -> None:
    source = Fetch(Destination("A", ANYCAST, False, "Q"), "x = 1", -1, "p", 10, 3).source([])
    assert source.address == "A::Q"
    selector = filters_of(source).selector
    assert selector is not None
    assert selector.text == "x = 1"
