"""Bodies that are streamed: to disk as their frames come, from disk as the reader takes them, whole or not at all."""

from __future__ import annotations

import pytest

from entrepot.model.message import BODY_BYTES, BODY_TEXT
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.large import find_body
from entrepot.protocols.amqp.options import AmqpOptions

from .wired import Client, Hub, encoded

FOOTER = b"\x00\x53\x78\xc1\x06\x02\xa3\x01a\x54\x07"
DATA_OF_3 = b"\x00\x53\x75\xa0\x03abc"


def small() -> tuple[Hub, Client]:
    """A broker that streams all above 1,000 octets."""
    options = AmqpOptions()
    options.large_octets = 1_000
    hub = Hub(options=options)
    return hub, Client(hub)


def parts(octets: bytes, size: int) -> list[bytes]:
    return [octets[at : at + size] for at in range(0, len(octets), size)]


def blobs(hub: Hub) -> int:
    """Return how many large bodies the messages of all queues have."""
    return sum(
        1
        for queue in hub.rig.broker.table.queues.values()
        for reference in queue.backlog.references()
        if reference.message.rare is not None and reference.message.rare.large_id
    )


@pytest.mark.parametrize("size", [1, 700, 1_500, 50_000])
@pytest.mark.parametrize("footer", [b"", FOOTER])
def test_a_large_body_comes_as_it_went_whatever_its_frames(size: int, footer: bytes) -> None:
    hub, client = small()
    client.sender("orders")
    body = bytes(range(256)) * (12 if size == 1 else 200)
    octets = encoded(body, durable=True, data=True, application={"n": 1}) + footer
    client.send_parts(parts(octets, size))
    assert [state for _, _, state, _ in client.outcomes()] == ["Accepted"]
    streamed = size < len(octets)
    assert blobs(hub) == (1 if streamed else 0)
    client.receiver("orders")
    hub.turn()
    (message,) = client.messages()
    assert message.body == body
    assert message.application == {"n": 1}
    assert message.octets.endswith(footer)
    client.settle(message.id)
    hub.turn()
    assert hub.rig.queue("orders").count == 0


def test_data_behind_the_data_that_is_streamed_is_added() -> None:
    hub, client = small()
    client.sender("orders")
    body = b"x" * 5_000
    client.send_parts(parts(encoded(body, durable=True, data=True) + DATA_OF_3 + DATA_OF_3 + FOOTER, 600))
    client.outcomes()
    client.receiver("orders")
    hub.turn()
    (message,) = client.messages()
    assert message.body == body + b"abcabc"


@pytest.mark.parametrize(("body", "data", "kind"), [("t" * 5_000, False, BODY_TEXT), (b"o" * 5_000, True, BODY_BYTES)])
def test_other_languages_know_what_a_large_body_is(body: object, data: bool, kind: int) -> None:
    hub, client = small()
    client.sender("orders")
    client.send_parts(parts(encoded(body, durable=True, data=data), 600))
    client.outcomes()
    (reference,) = list(hub.rig.queue("orders").backlog.references())
    rare = reference.message.rare
    assert rare is not None
    assert (reference.message.common().body_kind, rare.large_length) == (kind, 5_000)
    assert reference.message.language.exact(reference.message) is None


def test_an_aborted_large_message_is_none_and_the_next_one_comes() -> None:
    hub, client = small()
    client.sender("orders")
    octets = encoded(b"x" * 5_000, durable=True, data=True)
    client.say(said.Transfer(handle=0, delivery_id=0, delivery_tag=b"0", more=True), octets[:3_000])
    link = client.session.channels[0].links[0]
    assert link.large is not None  # type: ignore[attr-defined]
    client.say(said.Transfer(handle=0, aborted=True))
    assert link.large is None  # type: ignore[attr-defined]
    client.next_delivery = 1
    client.send(encoded("y"))
    client.receiver("orders")
    hub.turn()
    assert client.bodies() == ["y"]


@pytest.mark.parametrize("behind", [b"junk", b"\x00\x53\x77\x40", FOOTER + DATA_OF_3])
def test_what_may_not_stand_behind_a_large_body_rejects_it(behind: bytes) -> None:
    hub, client = small()
    client.sender("orders")
    client.send_parts(parts(encoded(b"x" * 5_000, durable=True, data=True) + behind, 600))
    assert [state for _, _, state, _ in client.outcomes()] == ["Rejected"]
    assert blobs(hub) == 0


def test_a_large_body_that_ends_early_is_rejected() -> None:
    _, client = small()
    client.sender("orders")
    client.send_parts(parts(encoded(b"x" * 5_000, durable=True, data=True)[:-1], 600))
    assert [state for _, _, state, _ in client.outcomes()] == ["Rejected"]


def test_what_cannot_be_streamed_is_bounded() -> None:
    _, client = small()
    client.session.options.message_octets_max = 20_000
    client.sender("orders")
    octets = encoded({str(number): number for number in range(5_000)})
    assert len(octets) > 40_000
    client.send_parts(parts(octets, 5_000)[:5])
    (detached,) = client.take(said.Detach)
    assert isinstance(detached.error, said.Error)
    assert detached.error.condition == "amqp:link:message-size-exceeded"


@pytest.mark.parametrize("octets", [b"", b"\x00", b"\x00\x53\x70\x45", encoded("short"), encoded({"a": 1}), b"junk"])
def test_a_body_that_is_not_streamed_is_not_found(octets: bytes) -> None:
    assert find_body(octets) is None


def test_a_large_message_of_a_transaction_comes_with_its_commit() -> None:
    hub, client = small()
    client.sender("orders")
    client.sender(None, 9, target=said.Coordinator())
    client.send(encoded(None, durable=False)[:-1] + b"\x00\x53\x31\x45", 9)
    (declared,) = [one.state for one in client.take(said.Disposition) if isinstance(one.state, said.Declared)]
    octets = encoded(b"x" * 5_000, durable=True, data=True)
    client.send_parts(parts(octets, 600), state=said.TransactionalState(txn_id=declared.txn_id))
    assert "orders" not in hub.rig.broker.table.queues or hub.rig.queue("orders").count == 0
    discharge = b"\x00\x53\x77\x00\x53\x32\xc0\x0c\x02\xa0\x08" + declared.txn_id + b"\x42"
    client.send(discharge, 9)
    assert client.outcomes()[-1][2] == "Accepted"
    client.receiver("orders")
    hub.turn()
    assert client.bodies() == [b"x" * 5_000]
