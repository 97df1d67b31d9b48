"""Large transactions over OpenWire take turns: others are served in between, and the answer comes behind all of it."""

from __future__ import annotations

import pytest

from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    Command,
    ConnectionId,
    LocalTransactionId,
    Response,
    TransactionInfo,
)
from entrepot.protocols.openwire.ids import TransactionStep
from kit import Rig

from .wired import Client, Hub

IN = ActiveMQQueue("in")
OUT = ActiveMQQueue("out")
MANY = 60


@pytest.fixture
def hub() -> Hub:
    return Hub(Rig())


def a_turn(hub: Hub, *clients: Client) -> None:
    """Have one turn for what earlier ones left."""
    rig = hub.rig
    rig.now += 1000
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.effort.go_on()
    for client in clients:
        if client.session.unfinished:
            client.session.resume(rig.now)
    rig.turn()
    for client in clients:
        client.hear()


def posted(hub: Hub, client: Client, *commands: Command) -> list[int]:
    """Post ``commands`` in one write, in a turn of its own, with little to spend from then on."""
    effort = hub.rig.broker.effort
    effort.units, effort.stride = 12, 5
    effort.begin()
    octets = b""
    numbers: list[int] = []
    for command in commands:
        client.numbers += 1
        command.command_id = client.numbers
        command.response_required = True
        numbers.append(client.numbers)
        octets += client.encoder.encode(command)
    client.post_octets(octets)
    return numbers


def committing(client: Client, identity: LocalTransactionId) -> TransactionInfo:
    kind = int(TransactionStep.COMMIT_ONE_PHASE)
    return TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=identity, type=kind)


def filled(client: Client, number: int = 1) -> LocalTransactionId:
    """Begin a transaction that moves all of a queue to another."""
    identity = LocalTransactionId(number, ConnectionId(client.name))
    begin = TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=identity, type=0)
    assert type(client.ask(begin)) is Response
    taken = client.dispatches()
    for each in taken:
        client.post(client.text(OUT, "moved", persistent=True, transaction=identity))
        client.ack(each, each, transaction=identity)
    assert len(taken) == MANY
    return identity


def answers(client: Client) -> list[int]:
    return [one.correlation_id for one in client.heard if isinstance(one, Response)]


def test_others_have_their_turn_in_a_large_commit_and_its_answer_comes_last(hub: Hub) -> None:
    client, other = hub.client(), hub.client()
    client.send("in", *(str(number) for number in range(MANY)), persistent=True)
    client.consume(IN)
    identity = filled(client)
    behind = client.text(ActiveMQQueue("behind"), "x", persistent=True)
    numbers = posted(hub, client, committing(client, identity), behind)
    for number in range(3):  # while it is under way
        a_turn(hub, client, other)
        assert hub.rig.queue("out").count < MANY  # nobody sees any of it before all is stored
        hub.rig.broker.tick(hub.rig.now, hub.rig.wall)
        other.post(other.text(ActiveMQQueue("other"), str(number)), answer=True)
        assert other.heard_of(Response), "another client waits for the whole commit"
    assert "behind" not in hub.rig.broker.table.queues
    assert answers(client) == []
    while client.session.unfinished:
        a_turn(hub, client)
    for _ in range(3):
        a_turn(hub, client)
    assert answers(client) == numbers
    assert (hub.rig.queue("out").count, hub.rig.queue("in").count) == (MANY, 0)
    hub.rig.restart("kill")
    assert (hub.rig.queue("out").count, hub.rig.queue("behind").count) == (MANY, 1)


def test_a_client_that_is_gone_in_the_middle_of_its_commit_has_committed_all_of_it(hub: Hub) -> None:
    client, other = hub.client(), hub.client()
    client.send("in", *(str(number) for number in range(MANY)), persistent=True)
    client.consume(IN)
    posted(hub, client, committing(client, filled(client)))
    a_turn(hub, client)
    assert hub.rig.queue("out").count < MANY
    client.session.detach("cut", hub.rig.now)
    for _ in range(100):
        a_turn(hub, other)
    assert (hub.rig.queue("out").count, hub.rig.queue("in").count) == (MANY, 0)


def test_a_crash_in_the_middle_of_a_commit_leaves_nothing_of_it(hub: Hub) -> None:
    client = hub.client()
    client.send("in", *(str(number) for number in range(MANY)), persistent=True)
    client.consume(IN)
    posted(hub, client, committing(client, filled(client)))
    a_turn(hub, client)
    hub.rig.restart("kill")
    assert hub.rig.queue("in").count == MANY
    assert "out" not in hub.rig.broker.table.queues or hub.rig.queue("out").count == 0
