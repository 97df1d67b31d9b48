"""Nothing that a command made room for overtakes the answer to that command.

A Java client whose pool of ServerSessions is used up reads nothing further until one comes back, and the one that is
used waits for the answer to its commit.
"""

from __future__ import annotations

import pytest

from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    Command,
    ConnectionId,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    Response,
    TransactionId,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.ids import AckType, TransactionStep
from kit import Rig

from .wired import Client, Hub, text_in

LOCAL = LocalTransactionId(1, ConnectionId("ID:client-1"))
BRANCH = XATransactionId(1, b"global", b"branch")


def reader(prefetch: int = 1, **policy: str) -> Client:
    client = Hub(Rig(**policy)).client()
    client.send("Q", "one", "two", "three", persistent=True)
    client.consume(ActiveMQQueue("Q"), prefetch=prefetch)
    return client


def step(client: Client, identity: TransactionId, kind: TransactionStep) -> TransactionInfo:
    return TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=identity, type=int(kind))


def order(client: Client, command: Command) -> list[str]:
    """Post ``command``; return what came of it, in order."""
    client.post(command, answer=True)
    client.exchange()
    return [
        text_in(heard) if isinstance(heard, MessageDispatch) else "answer"
        for heard in client.take()
        if isinstance(heard, (MessageDispatch, Response))
    ]


def take(client: Client, identity: TransactionId) -> None:
    client.ask(step(client, identity, TransactionStep.BEGIN))
    (dispatch,) = client.dispatches()
    client.ack(dispatch, dispatch, transaction=identity)


def test_a_commit_is_answered_before_what_it_made_room_for() -> None:
    """Finding D9."""
    client = reader()
    take(client, LOCAL)
    assert order(client, step(client, LOCAL, TransactionStep.COMMIT_ONE_PHASE)) == ["answer", "two"]


def test_and_so_is_a_prepare_and_its_commit() -> None:
    client = reader()
    take(client, BRANCH)
    assert order(client, step(client, BRANCH, TransactionStep.PREPARE)) == ["answer", "two"]
    assert order(client, step(client, BRANCH, TransactionStep.COMMIT_TWO_PHASE)) == ["answer"]


def settling(dispatch: MessageDispatch, kind: AckType) -> MessageAck:
    assert dispatch.message is not None
    return MessageAck(
        destination=dispatch.destination,
        consumer_id=dispatch.consumer_id,
        ack_type=int(kind),
        first_message_id=dispatch.message.message_id,
        last_message_id=dispatch.message.message_id,
        message_count=1,
    )


@pytest.mark.parametrize("kind", [AckType.STANDARD, AckType.INDIVIDUAL, AckType.POISON, AckType.EXPIRED])
def test_and_so_is_an_acknowledgement_that_asks_for_an_answer(kind: AckType) -> None:
    client = reader()
    (dispatch,) = client.dispatches()
    assert order(client, settling(dispatch, kind)) == ["answer", "two"]


@pytest.mark.parametrize("kind", [AckType.STANDARD, AckType.INDIVIDUAL, AckType.POISON, AckType.EXPIRED])
def test_an_acknowledgement_is_answered_when_it_is_on_disk(kind: AckType) -> None:
    client = reader()
    (dispatch,) = client.dispatches()
    number = client.post(settling(dispatch, kind), answer=True)
    client.hear()
    assert client.heard == []
    client.exchange()
    client.answer_to(number)


def test_one_of_what_was_settled_before_without_an_answer_waits_as_well() -> None:
    client = reader()
    (dispatch,) = client.dispatches()
    client.post(settling(dispatch, AckType.INDIVIDUAL))
    number = client.post(settling(dispatch, AckType.INDIVIDUAL), answer=True)
    client.hear()
    assert client.heard_of(Response) == []
    client.exchange()
    client.answer_to(number)


def test_an_acknowledgement_of_what_no_disk_has_is_answered_at_once() -> None:
    client = Hub(Rig()).client()
    client.send("Q", "one", "two")
    client.consume(ActiveMQQueue("Q"), prefetch=1)
    (dispatch,) = client.dispatches()
    client.rig.broker.journal.put(200, b"other", b"work")  # that waits for the disk
    number = client.post(settling(dispatch, AckType.INDIVIDUAL), answer=True)
    client.hear()
    client.answer_to(number)


def test_acknowledgements_that_wait_together_give_all_of_their_room_back() -> None:
    client = reader(2)
    numbers = [client.post(settling(each, AckType.INDIVIDUAL), answer=True) for each in client.dispatches()]
    client.exchange()
    for number in numbers:
        client.answer_to(number)
    assert client.texts() == ["three"]
    client.ask(client.text(ActiveMQQueue("Q"), "four", persistent=True))
    assert client.texts() == ["four"]


def test_a_commit_that_fails_gives_its_room_back() -> None:
    client = reader(2)
    first, _ = client.dispatches()
    client.ask(step(client, LOCAL, TransactionStep.BEGIN))
    client.ack(first, first, transaction=LOCAL)
    client.ack(first, first, AckType.POISON, transaction=LOCAL)  # not possible in a transaction: it can only fail now
    client.take()
    assert order(client, step(client, LOCAL, TransactionStep.COMMIT_ONE_PHASE)) == ["answer"]
    client.ack(first, first)
    assert client.texts() == ["three"]


def test_room_that_was_there_is_used_while_a_commit_waits() -> None:
    hub = Hub(Rig())
    client, other = hub.client(), hub.client()
    client.send("Q", "one", persistent=True)
    client.consume(ActiveMQQueue("Q"), prefetch=2)
    take(client, LOCAL)
    client.take()
    client.post(step(client, LOCAL, TransactionStep.COMMIT_ONE_PHASE), answer=True)
    for text in ("two", "three"):
        other.post(other.text(ActiveMQQueue("Q"), text, persistent=True))
    client.hear()
    assert [text_in(each) for each in client.heard_of(MessageDispatch)] == ["two"]
    client.exchange()
    answer, dispatch = client.take()
    assert isinstance(answer, Response)
    assert isinstance(dispatch, MessageDispatch)
    assert text_in(dispatch) == "three"


def test_who_asks_for_no_answer_waits_for_none() -> None:
    client = reader()
    take(client, LOCAL)
    client.post(step(client, LOCAL, TransactionStep.COMMIT_ONE_PHASE))
    assert client.texts() == ["two"]
