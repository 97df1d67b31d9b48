"""Links by which a broker mirrors itself into this one: who may, what they carry, and what is wrong with it."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from entrepot.core.mirrors.identity import MIRROR
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.calling.mirroring import event_of, header_end
from entrepot.protocols.amqp.mirroring import (
    BROKER_ID,
    CAPABILITY,
    DESTINATION,
    EVENT,
    MESSAGE_ID,
    PENDING_MOST,
    QUEUE,
    TARGET_QUEUES,
    Mirrored,
)
from entrepot.protocols.amqp.primitives import symbol
from entrepot.protocols.amqp.sections import DELIVERY_ANNOTATIONS, write_table

from .test_rights import UNAUTHORIZED, World
from .wired import Client, Hub, encoded

ORIGIN = "the other broker"


def attached(client: Client, **fields: object) -> said.Attach:
    """Ask for a mirror; return the answer."""
    wanted = {"desired_capabilities": [CAPABILITY], "properties": {BROKER_ID: ORIGIN}, **fields}
    return client.sender(f"{MIRROR}A", **wanted)


def link_of(client: Client) -> Mirrored:
    (link,) = client.session.channels[0].links.values()
    assert isinstance(link, Mirrored)
    return link


def mirrored(
    body: object, number: int, more: dict[str, object] | None = None, annotations: dict[str, object] | None = None
) -> bytes:
    """Return a message as a mirror says it."""
    octets = encoded(body, durable=True, annotations=annotations)
    at = header_end(octets)
    out = BytesWriter()
    out.write(octets[:at])
    write_table(out, DELIVERY_ANNOTATIONS, {MESSAGE_ID: number, DESTINATION: "Q", **(more or {})}, True)
    out.write(octets[at:])
    return out.getvalue()


def test_each_side_says_who_it_is() -> None:
    client = Client(Hub())
    answer = attached(client)
    assert answer.offered_capabilities == [CAPABILITY]
    assert answer.properties == {BROKER_ID: client.hub.rig.broker.ids.node.uuid_text}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"desired_capabilities": []}, "does not ask for the capability amq.mirror"),
        ({"properties": None}, "does not say by x-opt-amq-bkr-id"),
        ({"properties": {BROKER_ID: 7}}, "does not say by x-opt-amq-bkr-id"),
    ],
)
def test_others_are_told_why_they_may_not(fields: dict[str, object], why: str) -> None:
    client = Client(Hub())
    attached(client, **fields)
    (detach,) = client.take(said.Detach)
    assert detach.error is not None
    assert why in detach.error.description


def test_a_broker_is_not_mirrored_into_itself() -> None:
    client = Client(Hub())
    attached(client, properties={BROKER_ID: client.hub.rig.broker.ids.node.uuid_text})
    (detach,) = client.take(said.Detach)
    assert detach.error is not None
    assert "into itself" in detach.error.description


def test_who_may_only_send_may_not_mirror() -> None:
    world = World()
    for user, allowed in (("boss", True), ("app", False)):
        client = world.amqp(user)
        attached(client)
        refused = client.take(said.Detach)
        assert (not refused) == allowed, user
        if refused:
            assert refused[0].error is not None
            assert refused[0].error.condition == UNAUTHORIZED


def test_a_message_comes_once_and_to_the_queues_that_it_names() -> None:
    client = Client(Hub())
    broker = client.hub.rig.broker
    attached(client)
    client.send(event_of("createQueue", "Q", "Q", '{"name":"Q","address":"Q","routing-type":"ANYCAST"}'))
    client.send(mirrored("a", 1))
    client.send(mirrored("a", 1))
    client.send(mirrored("b", 2, {TARGET_QUEUES: ["nothing"]}))
    client.send(mirrored("c", 3, {BROKER_ID: broker.ids.node.uuid_text}))  # it was sent here first
    client.hub.turn()
    link = link_of(client)
    assert {state for _, _, state, _ in client.outcomes()} == {"Accepted"}
    assert client.hub.rig.queue("Q").count == 1
    assert (link.messages, link.duplicates, link.unrouted, link.events) == (1, 2, 1, 1)


def test_what_cannot_be_understood_is_rejected_and_the_link_goes_on() -> None:
    client = Client(Hub())
    attached(client)
    client.send(encoded("neither a message nor an event"))
    client.send(event_of("postAck", "Q", "Q", "no number"))
    client.send(event_of("somethingNew", "Q", "Q", "{}"))
    client.send(event_of("postAck", "gone", "gone", 7))
    client.hub.turn()
    assert [state for _, _, state, _ in client.outcomes()] == ["Rejected", "Rejected", "Rejected", "Accepted"]
    assert link_of(client).unmatched == 1
    assert "somethingNew" in link_of(client).why


def test_an_application_cannot_say_an_event() -> None:
    client = Client(Hub())
    attached(client)
    client.send(event_of("createQueue", "Q", "Q", '{"name":"Q","address":"Q","routing-type":"ANYCAST"}'))
    forged = mirrored("x", 5, annotations={EVENT: symbol("deleteQueue"), QUEUE: "Q"})
    client.send(forged)
    client.hub.turn()
    assert client.hub.rig.queue("Q").count == 1


def test_what_is_looked_for_bounds_the_credit() -> None:
    client = Client(Hub())
    attached(client)
    link = link_of(client)
    link.credit = 0
    link.removing.waiting = PENDING_MOST + 1
    link.replenish()
    assert link.credit == 0
    link.removing.waiting = 0
    link.replenish()
    assert link.credit > 0
