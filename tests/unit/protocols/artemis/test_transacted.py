"""Transactions over CORE: large bodies wait for the commit, and a branch that is rolled back frees its consumers."""

from __future__ import annotations

import pytest

from entrepot.base.errors import StorageFull
from entrepot.core.transactions.branches import HAD, NEVER
from entrepot.core.transactions.handed import write_handed
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
    XaInDoubtXids,
    XaInDoubtXidsReply,
    XaPrepare,
    XaReply,
    XaRollback,
    XaStart,
)
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.artemis.refusals import XA_NOTA, XA_RMFAIL
from entrepot.protocols.artemis.transacting import key_of

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
    if not rig.broker.effort.waits():
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
            if hub.rig.broker.effort.waits():
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


def given(hub: Hub, *, admitted: bool = True, owner: str = "", deliveries: int = 2) -> Client:
    """Return a broker's connection that has prepared a branch here, as one that scales down does (artemis.md 1.20)."""
    peer = Client(hub)
    peer.open()
    peer.session.admitted = admitted
    for name in ("in", "out"):
        peer.make(name)
    taken, sent = (int(hub.rig.queue(name).identity).to_bytes(8, "big") for name in ("in", "out"))
    said = {"_ENTREPOT_BRANCH": write_handed(b"t" * 16, deliveries, 2, owner)} if owner else {}
    peer.say(XaStart(xid=XID), 10)
    peer.send("in", "taken", _AMQ_ROUTE_TO=taken, _AMQ_ACK_ROUTE_TO=taken, **said)
    peer.send("out", "sent", _AMQ_ROUTE_TO=sent, **said)
    peer.say(XaEnd(xid=XID), 10)
    assert not peer.ask(XaPrepare(xid=XID), XaReply).error
    return peer


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_branch_of_a_node_that_scales_down_ends_here_as_it_would_have_there(
    hub: Hub, commits: bool, restarted: bool
) -> None:
    given(hub, owner="somebody")
    reader = hub.rig.reader("in")
    assert reader.deliveries == [], "what the branch took is in nobody's hands"
    assert (hub.rig.queue("in").count, hub.rig.queue("out").count) == (1, 0)
    assert hub.rig.broker.branches.prepared[key_of(XID)].user == "somebody"
    hub.rig.turn()
    if restarted:
        reader.close()
        hub.rig.restart("kill")
        hub = Hub(hub.rig)
    other = Client(hub)
    other.open()
    step = XaCommit(xid=XID) if commits else XaRollback(xid=XID)
    assert not other.ask(step, XaReply).error
    hub.rig.broker.check()
    if restarted:
        reader = hub.rig.reader("in")
    assert [(one.body, one.deliveries) for one in reader.deliveries] == ([] if commits else [("taken", 3)])
    assert hub.rig.queue("out").count == int(commits)
    assert hub.rig.broker.branches.prepared == {}


def test_a_client_that_is_no_broker_of_the_cluster_says_in_vain_that_it_took_something(hub: Hub) -> None:
    given(hub, admitted=False, owner="somebody")
    branch = hub.rig.broker.branches.prepared[key_of(XID)]
    assert (branch.holds, len(branch.numbers), branch.user) == ([], 2, "")
    client = Client(hub)
    client.open()
    client.ask(XaCommit(xid=XID), XaReply)
    assert (hub.rig.queue("in").count, hub.rig.queue("out").count) == (1, 1)
    first = hub.rig.queue("in").backlog.first()
    assert first is not None
    assert first.message.marked("_AMQ_ACK_ROUTE_TO") is None, "nor is it passed on to the next broker"


def test_what_was_taken_from_a_queue_that_is_not_here_is_not_promised(hub: Hub) -> None:
    peer = Client(hub)
    peer.open()
    peer.session.admitted = True
    nowhere = (99_999).to_bytes(8, "big")
    peer.say(XaStart(xid=XID), 10)
    peer.send("in", "taken", _AMQ_ROUTE_TO=nowhere, _AMQ_ACK_ROUTE_TO=nowhere)
    peer.say(XaEnd(xid=XID), 10)
    assert peer.ask(XaPrepare(xid=XID), XaReply).error
    assert hub.rig.broker.branches.prepared == {}


@pytest.mark.parametrize("step", [XaCommit(xid=XID, one_phase=True), XaRollback(xid=XID)])
def test_a_branch_that_ends_before_it_is_prepared_took_nothing(hub: Hub, step: Packet) -> None:
    peer = Client(hub)
    peer.open()
    peer.session.admitted = True
    peer.make("in")
    taken = int(hub.rig.queue("in").identity).to_bytes(8, "big")
    peer.say(XaStart(xid=XID), 10)
    peer.send("in", "taken", _AMQ_ROUTE_TO=taken, _AMQ_ACK_ROUTE_TO=taken)
    peer.say(XaEnd(xid=XID), 10)
    assert not peer.ask(step, XaReply).error
    assert hub.rig.queue("in").count == 0


def test_a_rollback_that_is_refused_because_the_branch_is_on_its_way_counts_for_nothing(hub: Hub) -> None:
    given(hub, owner="somebody")
    branch = hub.rig.broker.branches.prepared[key_of(XID)]
    branch.leaving = True
    other = Client(hub)
    other.open()
    for _ in range(3):
        answer = other.ask(XaRollback(xid=XID), XaReply)
        assert (answer.error, int(answer.code)) == (True, XA_RMFAIL)
    branch.leaving = False
    assert not other.ask(XaRollback(xid=XID), XaReply).error
    assert [one.deliveries for one in hub.rig.reader("in").deliveries] == [3], "two there, and the one of the branch"


@pytest.mark.parametrize("commits", [False, True])
def test_what_one_of_two_subscribers_took_goes_to_the_other_with_the_commit(hub: Hub, commits: bool) -> None:
    peer = Client(hub)
    peer.open()
    peer.session.admitted = True
    for name in ("first", "second"):
        peer.make(name, address="news", routing=MULTICAST)
    first, second = (int(hub.rig.queue(name).identity).to_bytes(8, "big") for name in ("first", "second"))
    peer.say(XaStart(xid=XID), 10)
    peer.send("news", "m", routing=MULTICAST, _AMQ_ROUTE_TO=first + second, _AMQ_ACK_ROUTE_TO=first)
    peer.say(XaEnd(xid=XID), 10)
    assert not peer.ask(XaPrepare(xid=XID), XaReply).error
    assert (hub.rig.queue("first").count, hub.rig.queue("second").count) == (1, 0)
    peer.ask(XaCommit(xid=XID) if commits else XaRollback(xid=XID), XaReply)
    assert (hub.rig.queue("first").count, hub.rig.queue("second").count) == ((0, 1) if commits else (1, 0))


def test_a_branch_of_which_a_message_is_missing_is_not_promised(hub: Hub) -> None:
    peer = Client(hub)
    peer.open()
    peer.session.admitted = True
    peer.make("out")
    peer.say(XaStart(xid=XID), 10)
    peer.send("out", "sent", _ENTREPOT_BRANCH=write_handed(b"t" * 16, 0, 2, "jo"))
    peer.say(XaEnd(xid=XID), 10)
    answer = peer.ask(XaPrepare(xid=XID), XaReply)
    assert answer.error
    assert "has 2 messages, and 1 came" in (answer.text or "")
    assert hub.rig.broker.branches.came(b"t" * 16) == NEVER


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_branch_that_was_given_and_ended_is_known_and_not_prepared_again(
    hub: Hub, restarted: bool, commits: bool
) -> None:
    peer = given(hub, owner="jo")
    assert hub.rig.broker.branches.came(b"t" * 16) == HAD
    peer.ask(XaCommit(xid=XID) if commits else XaRollback(xid=XID), XaReply)
    if restarted:
        hub.rig.turn()
        hub.rig.restart("kill")
        hub = Hub(hub.rig)
    assert hub.rig.broker.branches.came(b"t" * 16) == HAD
    with pytest.raises(AssertionError):
        given(hub, owner="jo")
    assert hub.rig.broker.branches.prepared == {}


def test_a_branch_whose_end_a_full_disk_did_not_take_is_not_said_to_be_gone(hub: Hub) -> None:
    rig = hub.rig
    client = given(hub, owner="somebody")
    disk = rig.disk
    assert disk is not None
    disk.room.capacity = disk.used()
    answer = client.ask(XaCommit(xid=XID), XaReply)
    assert (answer.error, int(answer.code)) == (True, XA_RMFAIL)
    assert key_of(XID) not in rig.broker.branches.prepared
    client.say(XaCommit(xid=XID), 10)
    client.say(XaInDoubtXids(), 10)
    assert client.take(XaReply) + client.take(XaInDoubtXidsReply) == [], "the disk has the branch"
    disk.room.make()
    hub.turn()
    assert [int(one.code) for one in client.take(XaReply)] == [XA_NOTA]
    assert [one.xids for one in client.take(XaInDoubtXidsReply)] == [[]]
    rig.restart("crash")
    assert rig.broker.branches.prepared == {}


@pytest.mark.parametrize("end", [XaCommit(xid=XID), XaRollback(xid=XID)], ids=["commit", "rollback"])
def test_a_branch_that_another_session_ends_now_is_not_said_to_be_rolled_back(hub: Hub, end: Packet) -> None:
    """XA_RMERR of a commit says that it was; XA_RMFAIL has the coordinator ask again."""
    client = given(hub, owner="somebody")
    (branch,) = hub.rig.broker.branches.prepared.values()
    branch.ending = True
    answer = client.ask(end, XaReply)
    assert (answer.error, int(answer.code)) == (True, XA_RMFAIL)
    assert list(hub.rig.broker.branches.prepared.values()) == [branch]


def test_a_look_for_branches_that_the_disk_does_not_answer_for_is_refused(hub: Hub) -> None:
    client = given(hub, owner="somebody")
    assert hub.rig.disk is not None
    hub.rig.disk.room.capacity = hub.rig.disk.used()
    assert client.ask(XaCommit(xid=XID), XaReply).error
    client.say(XaInDoubtXids(), 10)
    hub.rig.journal.failed(StorageFull("no space is left"))
    hub.turn()
    assert [one.text for one in client.take(ExceptionReply)] == ["no space is left"]
    assert client.take(XaInDoubtXidsReply) == []
