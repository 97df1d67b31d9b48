"""Transactions over CORE: large bodies wait for the commit, and a branch that is rolled back frees its consumers."""

from __future__ import annotations

import pytest

from entrepot.protocols.artemis.bodies import text_of
from entrepot.protocols.artemis.headers import body_of, headers_at, read_headers
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    Commit,
    Receive,
    ReceiveContinuation,
    Rollback,
    SendContinuation,
    SendLarge,
    XaCommit,
    XaEnd,
    XaPrepare,
    XaReply,
    XaRollback,
    XaStart,
)
from entrepot.protocols.artemis.primitives import Xid

from .wired import Client, Hub, message

XID = Xid(1, b"global", b"branch")
BODY = b"x" * 300_000


@pytest.fixture
def hub() -> Hub:
    return Hub()


def transacted(hub: Hub) -> Client:
    client = Client(hub)
    client.open(auto_commit_sends=False, auto_commit_acks=False)
    client.make("q")
    return client


def send_large(client: Client) -> None:
    octets = message("q", "")
    at = int.from_bytes(octets[:4], "big") - 13 + 4
    client.say(SendLarge(headers=octets[at:]), 10)
    client.say(SendContinuation(body=BODY, continues=False, body_size=len(BODY)), 10)


def received(hub: Hub) -> int:
    """Return how many octets of large bodies another client gets."""
    other = Client(hub)
    other.open()
    other.consume("q", credits=-1)
    return sum(len(one.body) for one in other.take(ReceiveContinuation))


def test_a_large_body_waits_on_disk_for_the_commit(hub: Hub) -> None:
    client = transacted(hub)
    send_large(client)
    assert hub.rig.queue("q").count == 0
    client.say(Commit(correlation=-2), 10)
    assert received(hub) == len(BODY)


def test_a_large_body_goes_with_the_rollback(hub: Hub) -> None:
    client = transacted(hub)
    send_large(client)
    client.say(Rollback(), 10)
    assert not hub.rig.journal.overflow.sizes


def test_a_large_body_goes_with_the_connection(hub: Hub) -> None:
    client = transacted(hub)
    send_large(client)
    client.cut()
    assert not hub.rig.journal.overflow.sizes


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_large_body_waits_for_a_prepared_branch(hub: Hub, end: str) -> None:
    client = transacted(hub)
    client.say(XaStart(xid=XID), 10)
    send_large(client)
    client.say(XaEnd(xid=XID), 10)
    client.ask(XaPrepare(xid=XID), XaReply)
    hub.rig.restart("crash")
    hub = Hub(hub.rig)
    client = Client(hub)
    client.open()
    if end == "commit":
        client.ask(XaCommit(xid=XID, one_phase=False), XaReply)
        assert received(hub) == len(BODY)
    else:
        client.ask(XaRollback(xid=XID), XaReply)
        assert not hub.rig.journal.overflow.sizes


def number_of(received: Receive) -> int:
    """Return the id that the broker gave a message."""
    return int(read_headers(received.message, headers_at(received.message)).number)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_branch_that_is_rolled_back_gives_back_what_lies_in_the_clients_buffer(hub: Hub, prepared: bool) -> None:
    """The client has dropped it, and acknowledges what comes next up to one message (artemis.md 5.2.10)."""
    client = Client(hub)
    client.open()
    client.make("q")
    for text in ("one", "two"):
        client.send("q", text)
    client.consume("q")
    first = client.take(Receive)[0]
    client.say(XaStart(xid=XID), 10)
    client.say(Acknowledge(consumer=0, message=number_of(first)), 10)
    client.say(XaEnd(xid=XID), 10)
    if prepared:
        client.ask(XaPrepare(xid=XID), XaReply)
    client.ask(XaRollback(xid=XID), XaReply)
    again = client.take(Receive)
    assert [(text_of(body_of(one.message)), int(one.delivery_count)) for one in again] == [("one", 2), ("two", 1)]
    client.say(Acknowledge(consumer=0, message=number_of(again[0])), 10)
    assert hub.rig.queue("q").count == 1
