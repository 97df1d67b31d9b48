"""A broker that is not the master of its store any more says nothing: clients ask the one that is, by failover."""

from __future__ import annotations

from entrepot.base.errors import EntrepotError, StorageFull, StoreLost
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ConnectionError,
    ConnectionId,
    ExceptionResponse,
    LocalTransactionId,
    Response,
    TransactionInfo,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import TransactionStep
from kit import Rig

from .wired import Client, Hub

QUEUE = ActiveMQQueue("q")
SPOKEN = (Response, ExceptionResponse, ConnectionError)


def answers(client: Client) -> list[Structure]:
    client.hear()
    return [heard for heard in client.heard if isinstance(heard, SPOKEN)]


def step(client: Client, kind: TransactionStep) -> TransactionInfo:
    connection = ConnectionId(client.name)
    return TransactionInfo(connection_id=connection, transaction_id=LocalTransactionId(1, connection), type=int(kind))


def committing(hub: Hub) -> Client:
    """A client whose commit waits for the disk."""
    client = hub.client()
    client.producer()
    client.ask(step(client, TransactionStep.BEGIN))
    transaction = LocalTransactionId(1, ConnectionId(client.name))
    assert type(client.ask(client.text(QUEUE, "in doubt", persistent=True, transaction=transaction))) is Response
    client.heard.clear()
    client.post(step(client, TransactionStep.COMMIT_ONE_PHASE), answer=True)
    return client


def lose(hub: Hub, error: EntrepotError) -> None:
    hub.rig.journal.failed(error)


def test_a_commit_that_waits_is_in_doubt_and_gets_no_answer() -> None:
    hub = Hub(Rig())
    client = committing(hub)
    assert answers(client) == []
    lose(hub, StoreLost("this broker is not the master of its store any more"))
    assert answers(client) == []


def test_what_comes_afterwards_gets_none_either() -> None:
    hub = Hub(Rig())
    client = committing(hub)
    lose(hub, StoreLost("this broker is not the master of its store any more"))
    client.post(client.text(QUEUE, "late", persistent=True), answer=True)
    client.post(client.text(QUEUE, "later", persistent=True))
    assert answers(client) == []


def test_a_full_disk_is_said() -> None:
    hub = Hub(Rig())
    client = committing(hub)
    lose(hub, StorageFull("no space is left"))
    (answer,) = answers(client)
    assert isinstance(answer, ExceptionResponse)
