"""Links by which another broker federates its queues with those of this one: who may, and what it is told."""

from __future__ import annotations

import pytest

from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.model.address import ANYCAST, Destination
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.calling.federating import Fetch, Pace
from entrepot.protocols.amqp.federated import (
    ADDRESS_NAME,
    CONTROL,
    EVENTS,
    MISSING_CHARACTERS,
    OPERATION,
    PRIORITY,
    QUEUE_NAME,
    QUEUES,
    VERSION,
    control_message,
)
from entrepot.protocols.amqp.federating import TOLD_A_TURN, Control, Events
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


def ask(client: Client, name: str, handle: int) -> None:
    """Ask for a link that reads a queue, as one who may be refused before there is an answer."""
    source = said.Source(address=f"{name}::{name}", capabilities=["queue"])
    client.say(said.Attach(name=name, handle=handle, role=True, desired_capabilities=[QUEUES], source=source))
    client.hub.turn()


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
    assert answer.properties[VERSION] == 2
    assert answer.target is not None
    control(client, handle=3)
    assert "has the control link of a federation already" in why(client)


def test_one_connection_is_of_one_federation_and_of_another_when_that_ended() -> None:
    client = Client(Hub())
    control(client)
    client.say(said.Begin(incoming_window=1 << 20, outgoing_window=1 << 20), channel=1)
    wanted = {"desired_capabilities": [CONTROL], "target": said.Target(dynamic=True), "source": said.Source()}
    client.say(said.Attach(name="second", handle=0, role=False, initial_delivery_count=0, **wanted), channel=1)  # type: ignore[arg-type]
    client.hub.turn()
    assert "has the control link of a federation already" in why(client)
    client.say(said.Detach(handle=0, closed=True))
    client.hub.turn()
    client.take(said.Detach)
    assert control(client, handle=4).offered_capabilities == [CONTROL]


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


def test_names_that_are_waited_for_are_bounded() -> None:
    client = Client(Hub())
    control(client)
    client.receiver(None, 2, dynamic=True, desired_capabilities=[EVENTS], snd_settle_mode=1, credit=2_000)
    for number in range(120):  # of 9,000 characters: 116 are a mebicharacter
        fetch(client, "n" * 8_996 + f"{number:04}", handle=10 + number)
    client.take(said.Detach)
    (link,) = [link for link in client.session.channels[0].links.values() if isinstance(link, Control)]
    missing = link.federated.missing
    assert len(missing) == MISSING_CHARACTERS // 9_000
    for number in (0, 119):
        client.hub.fill("n" * 8_996 + f"{number:04}", "x")
    client.hub.turn()
    assert [str(told[QUEUE_NAME])[-4:] for told in client.bodies()] == ["0000"]
    assert link.federated.characters == len(missing) * 9_000


def test_many_queues_that_are_made_are_told_over_turns() -> None:
    client = Client(Hub())
    control(client)
    client.receiver(None, 2, dynamic=True, desired_capabilities=[EVENTS], snd_settle_mode=1, credit=0)
    names = [f"n{number}" for number in range(TOLD_A_TURN + 10)]
    for number, name in enumerate(names):
        fetch(client, name, handle=10 + number)
        client.hub.fill(name, "x")
    client.hub.turn()
    (events,) = [link for link in client.session.channels[0].links.values() if isinstance(link, Events)]
    telling = events.telling
    assert len(telling.due) == len(names)
    telling.credit = 10_000
    telling.tell()
    assert len(telling.due) == 10
    client.hub.turn()
    assert not telling.due
    assert {str(told[QUEUE_NAME]) for told in client.bodies()} == set(names)


def test_who_may_not_read_hears_nothing_of_a_queue() -> None:
    world = World()
    guest = world.amqp("app")
    link = Control(guest.session.channels[0], said.Attach(name="c"), "f")
    guest.session.channels[0].links[0] = link
    guest.session.channels[0].federated = link.federated
    for handle, name in enumerate(("secret", "secret.that.is.not"), 5):  # one is there
        ask(guest, name, handle)
        refused = guest.take(said.Detach)[-1].error
        assert refused is not None
        assert refused.condition == UNAUTHORIZED, name
    assert not link.federated.missing
    ask(guest, "open.that.is.not", 7)
    assert "amqp:not-found" in why(guest)
    assert list(link.federated.missing) == ["open.that.is.not"]


def test_a_queue_of_another_address_is_none() -> None:
    client = Client(Hub())
    client.hub.fill("Q", "a")
    control(client)
    fetch(client, "other::Q")
    assert "there is no queue 'Q' of the address 'other'" in why(client)


def test_what_is_no_command_and_what_nobody_carries_out_ends_the_control_link() -> None:
    for octets, reason in (
        (encoded({"policy-name": "p"}), "has no annotation x-opt-amq-federation-op-type"),
        (control_message(OPERATION, "ADD_QUEUE_POLICY", {"policy-name": "p"}), "no policy of another broker"),
    ):
        client = Client(Hub())
        control(client)
        client.send(octets)
        client.hub.turn()
        assert reason in why(client)


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
    source = Fetch(Destination("A", ANYCAST, False, "Q"), "x = 1", -1, "p", Pace(10, 3, 0, -1)).source([])
    assert source.address == "A::Q"
    selector = filters_of(source).selector
    assert selector is not None
    assert selector.text == "x = 1"
