"""Transactions over CORE: large bodies wait for the commit, and a branch that is rolled back frees its consumers."""

from __future__ import annotations

import pytest

from entrepot.protocols.artemis.bodies import text_of
from entrepot.protocols.artemis.headers import body_of, headers_at, read_headers
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    Commit,
    ExceptionReply,
    Packet,
    Receive,
    ReceiveContinuation,
    Rollback,
    Send,
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

from .wired import MULTICAST, Client, Hub, message

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


MANY = 60


def branch_of_many(hub: Hub) -> Client:
    """Return a client that has ended its work on a branch, which moves many messages from one queue to another."""
    client = Client(hub)
    client.open()
    for name in ("in", "out", "other"):
        client.make(name)
    for number in range(MANY):
        client.send("in", f"m{number}")
    client.consume("in")
    came = client.take(Receive)
    client.say(XaStart(xid=XID), 10)
    for number in range(MANY):
        client.say(Send(message=message("out", f"n{number}")), 10)
    client.say(Acknowledge(consumer=0, message=number_of(came[-1])), 10)
    client.say(XaEnd(xid=XID), 10)
    client.take(XaReply)
    hub.rig.broker.effort.units, hub.rig.broker.effort.stride = 12, 5
    return client


def begins(hub: Hub, client: Client, packet: Packet) -> None:
    """Say ``packet``, and let the turn end."""
    packet.channel = 10
    rig = hub.rig
    rig.now += 1_000
    rig.broker.tick(rig.now, rig.wall)
    client.session.receive(client.encoder.encode(packet), rig.now)
    rig.turn()


def goes_on(hub: Hub) -> bool:
    """Give a turn to what earlier ones left; return whether there was something."""
    rig = hub.rig
    if not rig.broker.effort.rests:
        return False
    rig.now += 1_000
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.effort.go_on()
    rig.turn()
    return True


def left(hub: Hub) -> tuple[int, int]:
    queues = hub.rig.broker.table.queues
    return int(queues["in"].count - queues["in"].leased), int(queues["out"].count)


@pytest.mark.parametrize("end", [XaCommit(xid=XID, one_phase=False), XaRollback(xid=XID)], ids=["commit", "rollback"])
def test_a_large_branch_takes_turns(hub: Hub, end: Packet) -> None:
    client = branch_of_many(hub)
    hub.rig.reader("other", 1000)
    for packet in (XaPrepare(xid=XID), end):
        begins(hub, client, packet)
        turns = 0
        while goes_on(hub):
            turns += 1
            client.read()
            if hub.rig.broker.effort.rests:
                assert not client.take(XaReply)
            hub.rig.send("other", "between")
        assert turns > 8
        assert len(hub.rig.queue("other").roster.consumers) == 1
        client.read()
        (answer,) = client.take(XaReply)
        assert not answer.error
    assert hub.rig.broker.branches.prepared == {}
    assert left(hub) == ((0, MANY) if isinstance(end, XaCommit) else (MANY, 0))
    hub.rig.restart("kill")
    assert left(hub) == ((0, MANY) if isinstance(end, XaCommit) else (MANY, 0))


@pytest.mark.parametrize("turns", [1, 4, 9, 40])
@pytest.mark.parametrize("lost", ["connection", "broker"])
def test_a_branch_that_is_being_prepared_is_whole_whoever_is_lost(hub: Hub, turns: int, lost: str) -> None:
    client = branch_of_many(hub)
    begins(hub, client, XaPrepare(xid=XID))
    for _ in range(turns):
        goes_on(hub)
    complete = bool(hub.rig.broker.branches.prepared)
    if lost == "broker":
        hub.rig.restart("kill")
        assert len(hub.rig.broker.branches.prepared) == complete
        assert left(hub) == ((0, 0) if complete else (MANY, 0))
        return
    client.session.detach("lost", hub.rig.now)
    hub.clients.remove(client)
    while goes_on(hub):
        pass
    assert len(hub.rig.broker.branches.prepared) == 1
    assert hub.acceptor.branches == {}


def test_nobody_else_does_anything_with_a_branch_that_is_being_prepared(hub: Hub) -> None:
    other = Client(hub)
    other.open()
    client = branch_of_many(hub)
    begins(hub, client, XaPrepare(xid=XID))
    (branch,) = hub.acceptor.branches.values()
    for packet in (XaRollback(xid=XID), XaPrepare(xid=XID), XaStart(xid=XID)):
        begins(hub, other, packet)
        other.read()
        (answer,) = other.take(XaReply)
        assert answer.error
    hub.acceptor.time_out(int(branch.due) + 1)
    while goes_on(hub):
        pass
    client.read()
    (answer,) = client.take(XaReply)
    assert not answer.error
    assert len(hub.rig.broker.branches.prepared) == 1


def two_subscribers(hub: Hub, **fields: object) -> Client:
    """Return a client whose session has been delivered one message on two queues of an address."""
    client = Client(hub)
    client.open(auto_commit_sends=True, auto_commit_acks=False, **fields)
    for name in ("first", "second"):
        client.make(name, address="news", routing=MULTICAST)
    client.consume("first", 0)
    client.consume("second", 1)
    client.send("news", "one", routing=MULTICAST)
    return client


def test_a_commit_that_fails_gives_back_to_each_of_two_subscribers(hub: Hub) -> None:
    client = two_subscribers(hub)
    number = number_of(client.take(Receive)[0])
    for consumer in (0, 1):
        client.say(Acknowledge(consumer=consumer, message=number), 10)
    client.say(Acknowledge(consumer=1, message=number + 1_000), 10)  # it is not there: the commit must fail
    client.say(Commit(), 10)
    assert client.take(ExceptionReply)
    again = client.take(Receive)
    assert [(int(one.consumer), int(one.delivery_count)) for one in again] == [(0, 2), (1, 2)]


def test_a_rollback_counts_for_the_subscriber_that_settled_and_for_no_other(hub: Hub) -> None:
    client = two_subscribers(hub)
    number = number_of(client.take(Receive)[0])
    client.say(Acknowledge(consumer=0, message=number), 10)
    client.say(Rollback(), 10)
    again = client.take(Receive)
    assert sorted((int(one.consumer), int(one.delivery_count)) for one in again) == [(0, 2), (1, 1)]


@pytest.mark.parametrize("prepared", [False, True])
def test_a_branch_that_is_rolled_back_gives_back_to_each_of_two_subscribers(hub: Hub, prepared: bool) -> None:
    client = two_subscribers(hub)
    number = number_of(client.take(Receive)[0])
    client.say(XaStart(xid=XID), 10)
    for consumer in (0, 1):
        client.say(Acknowledge(consumer=consumer, message=number), 10)
    client.say(XaEnd(xid=XID), 10)
    if prepared:
        client.ask(XaPrepare(xid=XID), XaReply)
    other = Client(hub)
    other.open()
    other.ask(XaRollback(xid=XID), XaReply)
    again = client.take(Receive)
    assert [(int(one.consumer), int(one.delivery_count)) for one in again] == [(0, 2), (1, 2)]
