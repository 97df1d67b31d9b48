"""The server side of CORE on a whole broker: sessions, credit, transactions, reattaching, hostile clients."""

from __future__ import annotations

import pytest

from entrepot.base.primitive import LONG, Primitive
from entrepot.core.security.access import EVERYTHING, SEND, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.model.address import UNTYPED
from entrepot.protocols.artemis.codec import PREFACE
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    BindingQuery,
    BindingQueryReply,
    Close,
    CloseConsumer,
    Commit,
    CreateAddress,
    CreateConsumer,
    CreateQueue,
    CreateSession,
    Credits,
    DeleteQueue,
    Disconnect,
    DisconnectConsumer,
    ExceptionReply,
    FailCredits,
    FlowToken,
    ForceDelivery,
    IndividualAcknowledge,
    NullReply,
    PacketsConfirmed,
    Ping,
    QueueQuery,
    QueueQueryReply,
    ReattachSession,
    ReattachSessionReply,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
    RequestCredits,
    Rollback,
    SendContinuation,
    SendLarge,
    UniqueAddMetadata,
    XaCommit,
    XaEnd,
    XaPrepare,
    XaReply,
    XaRollback,
    XaStart,
)
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.session import CORE, detect
from kit import Rig

from .wired import MULTICAST, Client, Hub, message

FORCED = "_hornetq.forced.delivery.seq"


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def client(hub: Hub) -> Client:
    made = Client(hub)
    made.open()
    return made


def code(client: Client) -> int:
    """Return the code of the one exception that came."""
    found = client.take(ExceptionReply)
    assert len(found) == 1, client.came
    return int(found[0].code)


# -- the connection ----------------------------------------------------------------------------------------------------


def test_its_first_octets_tell_the_protocol() -> None:
    assert detect(b"ART") == ""
    assert detect(PREFACE) == CORE


def test_a_version_that_is_not_spoken_is_refused_and_the_connection_goes_on(hub: Hub) -> None:
    client = Client(hub, opens=False)
    client.say(CreateSession(name="s", session_channel=10, version=128), 1)
    assert code(client) == 108
    client.say(CreateSession(name="s", session_channel=10, version=137), 1)
    assert code(client) == 108
    client.open()
    assert not client.session.closing


@pytest.mark.parametrize("version", [129, 130, 131, 133, 134, 136])
def test_every_version_since_2_0_sends_and_receives(hub: Hub, version: int) -> None:
    client = Client(hub, version=version)
    client.open()
    client.make("q")
    client.send("q", "one", correlation=-2)
    client.consume("q")
    assert client.texts() == ["one"]
    replies = client.take(NullReply)
    assert len(replies) == 2
    assert replies[1].correlation == (-2 if version >= 130 else None)


def test_a_ping_comes_back_and_silence_ends_the_connection(hub: Hub, client: Client) -> None:
    client.say(Ping(ttl=5_000))
    assert [one.ttl for one in client.take(Ping)] == [5_000]
    assert client.session.deadline() == hub.rig.now + 5_000_000_000
    client.session.advance(hub.rig.now + 5_000_000_000)
    assert client.session.closing


def test_a_packet_for_a_channel_that_is_not_there_is_dropped(client: Client) -> None:
    client.say(Commit(correlation=-2), 99)
    client.say(Commit(correlation=-2), 3)
    assert not client.came
    assert not client.session.closing


@pytest.mark.parametrize("octets", [b"\0\0\0\1\x0a", b"\xff" * 40, b"\0\0\0\x09\x01" + bytes(8)])
def test_what_cannot_be_read_closes_this_connection_only(hub: Hub, client: Client, octets: bytes) -> None:
    other = Client(hub)
    other.open()
    client.octets(octets)
    assert client.session.closing
    assert client.session.refused
    other.make("q")
    assert len(other.take(NullReply)) == 1


def test_the_end_of_the_broker_is_said(hub: Hub, client: Client) -> None:
    client.session.shut("the broker stops", hub.rig.now)
    client.read()
    said = client.take(Disconnect)
    assert [(one.reason, one.node) for one in said] == [(2, hub.rig.broker.ids.node.uuid_text)]


def test_another_session_may_not_have_the_same_client_id(hub: Hub, client: Client) -> None:
    client.ask(UniqueAddMetadata(key="jms-client-id", data="c", require_response=True), NullReply)
    other = Client(hub)
    other.open()
    other.say(UniqueAddMetadata(key="jms-client-id", data="c", require_response=True), 10)
    assert code(other) == 114
    client.say(Close(), 10)
    client.cut()
    other.ask(UniqueAddMetadata(key="jms-client-id", data="c", require_response=True), NullReply)


# -- addresses and queues ----------------------------------------------------------------------------------------------


def test_refusals_have_the_codes_of_artemis(client: Client) -> None:
    client.say(CreateConsumer(consumer=1, queue="none", require_response=True), 10)
    assert code(client) == 100
    client.say(DeleteQueue(queue="none"), 10)
    assert code(client) == 100
    client.make("q")
    client.take(NullReply)
    client.make("q")
    assert code(client) == 101
    client.say(CreateConsumer(consumer=1, queue="q", filter="a ==== b", require_response=True), 10)
    assert code(client) == 103
    client.consume("q")
    client.say(DeleteQueue(queue="q"), 10)
    assert code(client) == 104
    client.say(Acknowledge(consumer=0, message=77, require_response=True), 10)
    assert code(client) == 104


def test_what_asks_for_no_answer_hears_of_no_refusal(client: Client) -> None:
    client.make("q")
    client.take(NullReply)
    client.make("q", require_response=False)
    assert not client.came


def test_a_temporary_queue_goes_with_its_connection_not_its_session(hub: Hub, client: Client) -> None:
    client.open(11)
    client.make("temp", temporary=True, channel=11)
    assert client.ask(QueueQuery(queue="temp"), QueueQueryReply).temporary
    client.say(Close(), 11)
    assert "temp" in hub.rig.broker.table.queues
    client.cut()
    assert "temp" not in hub.rig.broker.table.queues


def test_a_shared_subscription_that_is_not_durable_goes_with_its_last_reader(hub: Hub, client: Client) -> None:
    from entrepot.protocols.artemis.packets import CreateSharedQueue

    for _ in range(2):
        client.ask(CreateSharedQueue(address="t", queue="s", routing=0, require_response=True), NullReply)
    client.consume("s", 1)
    client.consume("s", 2)
    client.send("t", "one", routing=MULTICAST)
    assert client.texts() == ["one"]
    client.say(CloseConsumer(consumer=1), 10)
    assert "s" in hub.rig.broker.table.queues
    client.say(CloseConsumer(consumer=2), 10)
    assert "s" not in hub.rig.broker.table.queues
    other = CreateSharedQueue(address="t", queue="s", filter="a = 1", routing=0, require_response=True)
    client.ask(other, NullReply)
    client.say(CreateSharedQueue(address="t", queue="s", routing=0, require_response=True), 10)
    assert client.take(ExceptionReply)[0].code == 118


def test_a_queue_is_described_and_one_that_could_be_made(client: Client) -> None:
    client.make("q", address="a", filter="x = 1")
    known = client.ask(QueueQuery(queue="a::q"), QueueQueryReply)
    assert (known.exists, known.address, known.name, known.filter, known.routing) == (True, "a", "q", "x = 1", 1)
    assert client.ask(QueueQuery(queue="b::q"), QueueQueryReply).address == "a"
    assert not client.ask(QueueQuery(queue="a::z"), QueueQueryReply).exists
    address = client.ask(BindingQuery(address="a"), BindingQueryReply)
    assert (address.exists, address.queues, address.anycast, address.multicast) == (True, ["q"], True, False)


def test_prefixes_of_the_listener_are_cut_off() -> None:
    options = CoreOptions()
    options.anycast_prefixes = ["queue://"]
    options.multicast_prefixes = ["topic://"]
    hub = Hub(options=options)
    client = Client(hub)
    client.open()
    client.make("sub", address="topic://news", routing=-1)
    client.make("queue://q", address="queue://q", routing=-1)
    queues = hub.rig.broker.table.queues
    assert (queues["sub"].address, queues["sub"].routing) == ("news", 1)
    assert (queues["q"].address, queues["q"].routing) == ("q", 0)
    client.send("topic://news", "one")
    client.consume("sub")
    assert client.texts() == ["one"]


# -- credit ------------------------------------------------------------------------------------------------------------


def test_a_consumer_gets_one_message_more_than_its_credit(client: Client) -> None:
    client.make("q")
    for number in range(4):
        client.send("q", str(number))
    client.consume("q", credits=0)
    assert client.texts() == []
    client.say(FlowToken(consumer=0, credits=1), 10)
    assert client.texts() == ["0"]
    client.say(FlowToken(consumer=0, credits=1), 10)
    assert client.texts() == []  # a message has more than one octet
    client.say(FlowToken(consumer=0, credits=0), 10)
    client.say(FlowToken(consumer=0, credits=1), 10)
    assert client.texts() == ["1"]
    client.say(FlowToken(consumer=0, credits=-1), 10)
    assert client.texts() == ["2", "3"]


def test_a_forced_delivery_says_that_there_is_no_more(client: Client) -> None:
    client.make("q")
    client.consume("q", credits=1)
    client.say(ForceDelivery(consumer=0, sequence=5), 10)
    found = client.take(Receive)
    assert len(found) == 1
    assert FORCED.encode("utf-16-le") in found[0].message
    assert found[0].delivery_count == 0
    client.send("q", "one")
    client.say(ForceDelivery(consumer=0, sequence=6), 10)
    first, second = client.take(Receive)
    assert FORCED.encode("utf-16-le") not in first.message
    assert FORCED.encode("utf-16-le") in second.message


def test_a_browser_needs_no_start_and_takes_nothing(client: Client) -> None:
    client.open(11)
    client.make("q")
    for number in range(3):
        client.send("q", str(number))
    client.consume("q", browse=True)
    assert client.texts() == ["0", "1", "2"]
    client.say(ForceDelivery(consumer=0, sequence=1), 10)
    assert len(client.take(Receive)) == 1
    assert client.ask(QueueQuery(queue="q"), QueueQueryReply, 11).message_count == 3


@pytest.mark.parametrize("full", ["BLOCK", "FAIL", "PAGE"])
def test_producers_of_a_full_address_get_their_credits_as_its_policy_says(full: str) -> None:
    hub = Hub(Rig({"q": {"max_octets": "3000", "full": full}}))
    client = Client(hub)
    client.open()
    client.make("q")
    client.take(NullReply)
    client.say(RequestCredits(credits=100, address="q"), 10)
    assert [one.credits for one in client.take(Credits)] == [100]
    for _ in range(12):
        client.send("q", "x" * 100, durable=False)
    client.say(RequestCredits(credits=200, address="q"), 10)
    assert len(client.take(Credits)) == (1 if full == "PAGE" else 0)
    assert len(client.take(FailCredits)) == (1 if full == "FAIL" else 0)
    if full == "FAIL":
        client.send("q", correlation=-2)
        assert code(client) == 210
    client.consume("q")
    for received in client.take(Receive):
        client.say(Acknowledge(consumer=0, message=number_of(received)), 10)
    assert [one.credits for one in client.take(Credits)] == ([] if full == "PAGE" else [200])


@pytest.mark.parametrize("full", ["PAGE", "FAIL", "DROP"])
def test_producers_of_a_blocked_address_get_no_credits_until_it_is_unblocked(full: str) -> None:
    hub = Hub(Rig({"q": {"full": full}}))
    client = Client(hub)
    client.open()
    client.make("q")
    client.make("other")
    client.take(NullReply)
    hub.rig.broker.flow.block("q")
    client.say(RequestCredits(credits=100, address="q"), 10)
    client.say(RequestCredits(credits=100, address="other"), 10)
    assert [one.address for one in client.take(Credits)] == ["other"]
    assert client.take(FailCredits) == []
    client.send("q", correlation=-2)
    assert client.session.readable, "who waits for credits is not stopped: it may have had some"
    hub.rig.broker.flow.unblock("q")
    hub.turn()
    assert [one.address for one in client.take(Credits)] == ["q"]


@pytest.mark.parametrize("transacted", [False, True])
def test_who_asks_for_no_credits_is_stopped_while_an_address_is_blocked(transacted: bool) -> None:
    hub = Hub()
    client = Client(hub)
    client.open(auto_commit_sends=not transacted)
    client.make("q")
    hub.rig.broker.flow.block("q")
    client.send("q")
    assert not client.session.readable
    hub.rig.broker.flow.unblock("q")
    hub.turn()
    assert client.session.readable


@pytest.mark.parametrize("large", [False, True])
def test_who_was_stopped_for_as_long_as_the_policy_allows_is_refused_until_there_is_room(large: bool) -> None:
    hub = Hub(Rig({"q": {"block_ms_max": "500"}}))
    client = Client(hub)
    client.open()
    client.make("q")
    client.take(NullReply)
    hub.rig.broker.flow.block("q")
    client.send("q")
    assert not client.session.readable
    hub.rig.wait(600)
    client.session.advance(hub.rig.now)
    hub.turn()
    assert client.session.readable
    if large:
        octets = message("q", "")
        client.say(SendLarge(headers=octets[int.from_bytes(octets[:4], "big") - 9 :]), 10)
        client.say(SendContinuation(body=b"x" * 10, continues=False, require_response=True, correlation=-2), 10)
    else:
        client.send("q", correlation=-2)
    assert code(client) == 210
    assert hub.rig.queue("q").count == 1
    hub.rig.broker.flow.unblock("q")
    hub.turn()
    client.send("q", correlation=-3)
    assert client.take(NullReply)


def number_of(received: Receive) -> int:
    """Return the number of a message that was delivered."""
    from entrepot.protocols.artemis.headers import headers_at, read_headers

    return int(read_headers(received.message, headers_at(received.message)).number)


# -- settling and transactions -----------------------------------------------------------------------------------------


def test_an_acknowledgement_settles_all_before_it_and_one_only_one(hub: Hub, client: Client) -> None:
    client.make("q")
    for number in range(4):
        client.send("q", str(number))
    client.consume("q")
    numbers = [number_of(one) for one in client.take(Receive)]
    client.say(IndividualAcknowledge(consumer=0, message=numbers[2]), 10)
    assert hub.rig.queue("q").count == 3
    client.say(Acknowledge(consumer=0, message=numbers[1]), 10)
    assert hub.rig.queue("q").count == 1


def test_who_settles_early_has_nothing_to_settle(hub: Hub) -> None:
    client = Client(hub)
    client.open(pre_ack=True)
    client.make("q")
    client.send("q", "one")
    client.consume("q")
    assert client.texts() == ["one"]
    assert hub.rig.queue("q").count == 0


def test_a_rollback_counts_what_was_settled_and_not_what_lay_in_a_buffer(hub: Hub) -> None:
    client = Client(hub)
    client.open(auto_commit_acks=False, auto_commit_sends=False)
    client.make("q")
    for number in range(3):
        client.send("q", str(number))
    client.say(Commit(correlation=-2), 10)
    client.consume("q")
    first = client.take(Receive)
    client.say(Acknowledge(consumer=0, message=number_of(first[0])), 10)
    client.send("q", "never")
    client.say(Rollback(), 10)
    again = client.take(Receive)
    assert [int(one.delivery_count) for one in again] == [2, 1, 1]
    client.say(Rollback(consider_last_delivered=True), 10)
    assert [int(one.delivery_count) for one in client.take(Receive)] == [3, 1, 1]
    client.say(Commit(), 10)
    assert hub.rig.queue("q").count == 3


def test_a_commit_is_answered_when_it_is_on_disk_and_does_all_of_it(hub: Hub) -> None:
    client = Client(hub)
    client.open(auto_commit_acks=False, auto_commit_sends=False)
    client.make("q")
    client.take(NullReply)
    client.send("q", "one")
    assert hub.rig.queue("q").count == 0
    rig = hub.rig
    rig.now += 1_000
    rig.broker.tick(rig.now, rig.wall)
    packet = Commit(correlation=-9)
    packet.channel = 10
    client.session.receive(client.encoder.encode(packet), rig.now)
    client.read()
    assert not client.take(NullReply)  # the disk does not have it yet
    hub.turn()
    assert [one.correlation for one in client.take(NullReply)] == [-9]
    assert hub.rig.queue("q").count == 1


def test_what_could_not_be_done_in_a_transaction_dooms_it(hub: Hub) -> None:
    client = Client(hub)
    client.open(auto_commit_acks=False, auto_commit_sends=False)
    client.make("q")
    client.take(NullReply)
    for _ in range(2):
        client.send("q", _AMQ_DUPL_ID="same")
    client.say(Commit(correlation=-3), 10)
    refused = client.take(ExceptionReply)
    assert [(one.code, one.correlation) for one in refused] == [(113, -3)]
    assert hub.rig.queue("q").count == 0


def test_a_branch_is_prepared_by_one_session_and_ended_by_another(hub: Hub, client: Client) -> None:
    branch = Xid(1, b"b", b"g")
    client.make("q")
    client.take(NullReply)
    assert not client.ask(XaStart(xid=branch), XaReply).error
    client.send("q", "one")
    assert client.ask(XaPrepare(xid=branch), XaReply).code == -6  # a session works on it still
    client.ask(XaEnd(xid=branch), XaReply)
    assert client.ask(XaStart(xid=branch), XaReply).code == -8
    assert not client.ask(XaPrepare(xid=branch), XaReply).error
    client.cut()
    assert hub.rig.queue("q").count == 0
    other = Client(hub)
    other.open(xa=True)
    assert not other.ask(XaCommit(xid=branch), XaReply).error
    assert hub.rig.queue("q").count == 1
    assert other.ask(XaRollback(xid=branch), XaReply).code == -4


def test_a_branch_that_nobody_prepares_is_rolled_back_when_its_time_is_over(hub: Hub, client: Client) -> None:
    branch = Xid(1, b"b", b"g")
    client.make("q")
    client.send("q", "one")
    client.consume("q")
    number = number_of(client.take(Receive)[0])
    client.ask(XaStart(xid=branch), XaReply)
    client.say(Acknowledge(consumer=0, message=number), 10)
    client.ask(XaEnd(xid=branch), XaReply)
    client.cut()
    assert hub.rig.queue("q").count == 1
    hub.rig.wait(301_000)
    assert not hub.acceptor.branches
    other = Client(hub)
    other.open()
    other.consume("q")
    assert [int(one.delivery_count) for one in other.take(Receive)] == [2]


def test_a_message_with_a_date_waits_for_it_and_then_goes_out_as_it_came(hub: Hub) -> None:
    client = Client(hub)
    client.open(auto_commit_sends=False)
    client.make("q")
    due = Primitive(LONG, hub.rig.wall + 5_000)
    client.send("q", "later", _AMQ_SCHED_DELIVERY=due)
    client.send("q", "now", _AMQ_SCHED_DELIVERY=Primitive(LONG, 1))
    client.say(Commit(correlation=-2), 10)
    client.consume("q")
    assert client.texts() == ["now"]
    hub.rig.wait(4_000)
    hub.turn()
    assert client.texts() == []
    hub.rig.restart("crash")
    hub.rig.wait(2_000)
    assert hub.rig.queue("q").count == 2  # nobody acknowledged the other one


# -- large messages ----------------------------------------------------------------------------------------------------


def large(client: Client, pieces: list[bytes], **fields: object) -> None:
    """Send a large message."""
    octets = message("q", "", **fields)  # type: ignore[arg-type]
    at = int.from_bytes(octets[:4], "big") - 13 + 4
    client.say(SendLarge(headers=octets[at:]), 10)
    for number, piece in enumerate(pieces, 1):
        last = number == len(pieces)
        client.say(
            SendContinuation(
                body=piece, continues=not last, body_size=sum(map(len, pieces)), require_response=last, correlation=-2
            ),
            10,
        )


def test_a_large_message_goes_to_disk_and_from_it_in_pieces(hub: Hub, client: Client) -> None:
    client.make("q")
    client.take(NullReply)
    body = [bytes([number]) * 100_000 for number in range(8)]
    large(client, body)
    assert [one.correlation for one in client.take(NullReply)] == [-2]
    assert hub.rig.broker.memory.used < 20_000
    client.consume("q", credits=150_000)
    head = client.take(ReceiveLarge)
    assert [int(one.body_size) for one in head] == [800_000]
    got = [one.body for one in client.take(ReceiveContinuation)]
    assert 150_000 < sum(map(len, got)) < 300_000  # it pauses when the credit is used up
    client.say(FlowToken(consumer=0, credits=1 << 20), 10)
    rest = client.take(ReceiveContinuation)
    assert b"".join([*got, *(one.body for one in rest)]) == b"".join(body)
    assert [one.continues for one in rest][-2:] == [True, False]


def test_large_messages_of_a_transaction_are_there_when_it_is_committed(hub: Hub) -> None:
    client = Client(hub)
    client.open(auto_commit_sends=False)
    client.make("q")
    for byte in (b"x", b"y"):
        large(client, [byte * 150_000, byte * 1])
        client.say(Commit(correlation=-5) if byte == b"y" else Rollback(), 10)
    assert len(hub.rig.journal.overflow.sizes) == 1
    client.consume("q", credits=-1)
    assert [int(one.body_size) for one in client.take(ReceiveLarge)] == [150_001]
    assert b"".join(one.body for one in client.take(ReceiveContinuation)) == b"y" * 150_001


def test_large_messages_of_a_branch_are_there_when_it_is_committed(hub: Hub, client: Client) -> None:
    branch, other = Xid(1, b"b", b"g"), Xid(1, b"c", b"g")
    client.make("q")
    for xid in (branch, other):
        client.ask(XaStart(xid=xid), XaReply)
        large(client, [b"x" * 150_000])
        client.ask(XaEnd(xid=xid), XaReply)
        assert not client.ask(XaPrepare(xid=xid), XaReply).error
    client.ask(XaCommit(xid=branch), XaReply)
    client.ask(XaRollback(xid=other), XaReply)
    assert len(hub.rig.journal.overflow.sizes) == 1
    client.consume("q", credits=-1)
    assert sum(len(one.body) for one in client.take(ReceiveContinuation)) == 150_000


def test_a_branch_that_is_rolled_back_gives_back_what_lay_in_the_buffer_too(hub: Hub, client: Client) -> None:
    branch = Xid(1, b"b", b"g")
    client.make("q")
    for number in range(2):
        client.send("q", str(number))
    client.consume("q")
    first = client.take(Receive)[0]
    client.ask(XaStart(xid=branch), XaReply)
    client.say(Acknowledge(consumer=0, message=number_of(first)), 10)
    client.ask(XaEnd(xid=branch), XaReply)
    client.ask(XaRollback(xid=branch), XaReply)
    again = client.take(Receive)
    assert [int(one.delivery_count) for one in again] == [2, 1]
    client.say(Acknowledge(consumer=0, message=number_of(again[0])), 10)
    assert hub.rig.queue("q").count == 1


def test_what_was_half_sent_was_not_sent(hub: Hub, client: Client) -> None:
    client.make("q")
    octets = message("q", "")
    at = int.from_bytes(octets[:4], "big") - 13 + 4
    client.say(SendLarge(headers=octets[at:]), 10)
    client.say(SendContinuation(body=b"x" * 1000, continues=True), 10)
    client.cut()
    assert hub.rig.queue("q").count == 0
    assert not hub.rig.journal.overflow.sizes


def test_a_large_message_that_nobody_read_to_its_end_is_given_back(hub: Hub, client: Client) -> None:
    client.make("q")
    large(client, [b"x" * 300_000])
    client.consume("q", credits=1)
    assert len(client.take(ReceiveLarge)) == 1
    client.cut()
    other = Client(hub)
    other.open()
    other.consume("q", credits=-1)
    assert [int(one.delivery_count) for one in other.take(ReceiveLarge)] == [2]
    assert sum(len(one.body) for one in other.take(ReceiveContinuation)) == 300_000


# -- reattaching -------------------------------------------------------------------------------------------------------


def test_a_session_with_a_window_outlives_its_connection_and_nothing_is_done_twice(hub: Hub) -> None:
    client = Client(hub)
    client.open(name="s", window=1_000_000)
    client.make("q")
    client.consume("q")
    client.send("q", "one", correlation=5)
    assert client.texts() == ["one"]
    seen = last_seen(client)
    client.cut()
    other = Client(hub)
    found = other.ask(ReattachSession(name="s", last_confirmed=seen), ReattachSessionReply, 1)
    assert found.reattached
    assert found.last_confirmed == 4  # START, CREATE_QUEUE, CREATECONSUMER, FLOWTOKEN, SEND
    other.send("q", "two", correlation=6)
    assert other.texts() == ["two"]
    assert [one.correlation for one in other.take(NullReply)] == [6]


def last_seen(client: Client) -> int:
    """Return the id of the last packet that the server counts on channel 10, all of which came: see `Channel`."""
    return int(client.session.channels[10].session.channel.written) - 1


def test_what_was_not_seen_is_written_again(hub: Hub) -> None:
    client = Client(hub)
    client.open(name="s", window=1_000_000)
    client.make("q")
    client.consume("q")
    seen = last_seen(client)
    for number in range(3):
        client.send("q", str(number))
    client.cut()
    other = Client(hub)
    other.ask(ReattachSession(name="s", last_confirmed=seen), ReattachSessionReply, 1)
    found = other.take(Receive)
    assert [int(one.delivery_count) for one in found] == [1, 1, 1]
    other.say(Acknowledge(consumer=0, message=number_of(found[-1])), 10)
    assert hub.rig.queue("q").count == 0


def test_a_session_that_nobody_comes_for_ends_when_its_connection_would_have(hub: Hub) -> None:
    client = Client(hub)
    client.open(name="s", window=1_000)
    client.make("q")
    client.make("temp", temporary=True)
    client.send("q", "one")
    client.consume("q")
    client.cut()
    assert hub.rig.queue("q").in_flight == 1
    hub.rig.wait(61_000)
    assert hub.rig.queue("q").in_flight == 0
    assert "temp" not in hub.rig.broker.table.queues
    other = Client(hub)
    assert not other.ask(ReattachSession(name="s", last_confirmed=0), ReattachSessionReply, 1).reattached
    assert not hub.acceptor.sessions


@pytest.mark.parametrize("lost", [True, False])
def test_a_session_comes_elsewhere_when_its_large_commit_is_answered(hub: Hub, lost: bool) -> None:
    """Before that its client would be asked for the COMMIT once more, and both sides counted differently from then on.

    ``lost``: the broker knows that the first connection is gone.
    """
    client, other = Client(hub), Client(hub)
    client.open(name="s", window=1_000_000, auto_commit_sends=False, auto_commit_acks=False)
    client.make("q")
    for number in range(60):
        client.send("q", str(number))
    seen = last_seen(client)
    rig = hub.rig
    rig.broker.effort.units, rig.broker.effort.stride = 12, 5
    rig.broker.tick(rig.now, rig.wall)
    commit = Commit(correlation=-2)
    commit.channel = 10
    client.session.receive(client.encoder.encode(commit), rig.now)
    assert rig.broker.effort.waits()
    if lost:
        client.session.detach("lost", rig.now)
        hub.clients.remove(client)
    reattach = ReattachSession(name="s", last_confirmed=seen)
    reattach.channel = 1
    other.session.receive(other.encoder.encode(reattach), rig.now)
    rig.turn()
    other.read()
    assert other.take(ReattachSessionReply) == []
    hub.turn()
    hub.turn()  # the first one found nothing to read until the disk had it all
    (found,) = other.take(ReattachSessionReply)
    assert found.reattached
    assert found.last_confirmed == 62  # START, CREATE_QUEUE, sixty SEND, COMMIT
    assert [one.correlation for one in other.take(NullReply)] == [-2]
    assert rig.queue("q").count == 60
    other.say(Commit(correlation=-3), 10)
    assert [one.correlation for one in other.take(NullReply)] == [-3]


def test_who_comes_for_a_session_that_ends_in_its_large_commit_is_told_so(hub: Hub) -> None:
    client, other = Client(hub), Client(hub)
    client.open(name="s", window=1_000_000, auto_commit_sends=False, auto_commit_acks=False)
    client.make("q")
    for number in range(60):
        client.send("q", str(number))
    rig = hub.rig
    rig.broker.effort.units, rig.broker.effort.stride = 12, 5
    rig.broker.tick(rig.now, rig.wall)
    commit = Commit(correlation=-2)
    commit.channel = 10
    client.session.receive(client.encoder.encode(commit), rig.now)
    reattach = ReattachSession(name="s", last_confirmed=0)
    reattach.channel = 1
    other.session.receive(other.encoder.encode(reattach), rig.now)
    client.session.close_session("s")
    hub.turn()
    (found,) = other.take(ReattachSessionReply)
    assert not found.reattached
    assert rig.queue("q").count == 60


def test_a_session_without_a_window_ends_at_once(hub: Hub, client: Client) -> None:
    client.make("q")
    client.send("q", "one")
    client.consume("q")
    client.cut()
    assert hub.rig.queue("q").in_flight == 0
    other = Client(hub)
    assert not other.ask(ReattachSession(name="session-1-10"), ReattachSessionReply, 1).reattached


def test_commands_are_confirmed_after_a_while_though_the_window_is_not_full(hub: Hub) -> None:
    """A client before 2.8 knows no other answer to a send that does not block."""
    client = Client(hub)
    client.open(window=1 << 20)
    client.make("q")
    client.send("q", "a")
    assert not client.take(PacketsConfirmed)
    hub.rig.wait(2_100)
    client.say(Ping(ttl=60_000))
    assert [one.command for one in client.take(PacketsConfirmed)] == [2], "START, CREATE_QUEUE, SEND"
    hub.rig.wait(2_100)
    client.say(Ping(ttl=60_000))
    assert not client.take(PacketsConfirmed), "there is nothing to say"


def test_commands_are_confirmed_when_the_window_is_full(hub: Hub) -> None:
    client = Client(hub)
    client.open(name="s", window=500)
    client.make("q")
    client.take(PacketsConfirmed)
    for _ in range(10):
        client.send("q")
    confirmed = [int(one.command) for one in client.take(PacketsConfirmed)]
    assert confirmed
    assert confirmed == sorted(confirmed)
    client.say(Close(), 10)
    assert int(client.take(PacketsConfirmed)[-1].command) == 12  # START, CREATE_QUEUE, ten SEND, CLOSE


def test_a_session_taken_elsewhere_ends_nothing_with_its_old_connection(hub: Hub) -> None:
    client = Client(hub)
    client.open(name="s", window=1_000_000)
    client.make("q")
    client.consume("q")
    seen = last_seen(client)
    other = Client(hub)
    other.ask(ReattachSession(name="s", last_confirmed=seen), ReattachSessionReply, 1)
    client.cut()
    other.send("q", "one")
    assert other.texts() == ["one"]


# -- who may, and floods -----------------------------------------------------------------------------------------------


def protected() -> Hub:
    """Return a broker where ``app`` may do everything below ``open``, and with names that nobody else guesses."""
    hub = Hub()
    users = [User(name, "plain:secret", [name]) for name in ("app", "other")]
    rules = [Rule("open.>", UNTYPED, {"app": EVERYTHING}), Rule("open.>", UNTYPED, {"other": SEND})]
    hub.protect(Directory(users), rules)
    return hub


def test_who_is_not_known_does_not_come_in_and_may_try_again() -> None:
    client = Client(protected())
    client.say(CreateSession(name="s", session_channel=10, version=136, user="app", password="wrong"), 1)
    assert code(client) == 105
    client.open(user="app", password="secret")
    assert client.session.subject.name == "app"


def test_sessions_of_one_connection_may_be_those_of_several_users() -> None:
    client = Client(protected())
    client.open(10, user="app", password="secret")
    client.open(11, user="other", password="secret")
    client.make("open.q")
    client.send("open.q", correlation=-2, channel=11)
    assert [one.correlation for one in client.take(NullReply, 11)] == [-2]
    client.say(CreateConsumer(consumer=0, queue="open.q", require_response=True), 11)
    assert code(client) == 105
    client.consume("open.q")
    assert client.texts() == ["x"]
    client.send("secret", correlation=-3, channel=11)
    assert code(client) == 105
    client.make("secret")
    assert code(client) == 105


def test_an_answer_goes_to_the_temporary_queue_of_somebody_else() -> None:
    hub = protected()
    asks, answers = Client(hub), Client(hub)
    asks.open(user="app", password="secret")
    answers.open(user="other", password="secret")
    asks.make("open.temporary", temporary=True)
    asks.consume("open.temporary")
    answers.send("open.temporary", "answer", correlation=-2)
    assert asks.texts() == ["answer"]


def test_a_consumer_whose_queue_is_deleted_is_told(hub: Hub, client: Client) -> None:
    client.make("q")
    client.consume("q")
    hub.rig.broker.queues.delete(hub.rig.queue("q"), "an operator did it")
    hub.turn()
    assert [int(one.consumer) for one in client.take(DisconnectConsumer)] == [0]


def test_who_opens_too_much_is_refused_and_others_are_not(hub: Hub) -> None:
    hub.options.sessions_max = 3
    hub.options.consumers_max = 2
    client = Client(hub)
    for channel in (10, 11, 12):
        client.open(channel)
    client.say(CreateSession(name="more", session_channel=13, version=136), 1)
    assert code(client) == 999
    client.make("q")
    for number in range(3):
        client.consume("q", number)
    assert code(client) == 999
    other = Client(hub)
    other.open()
    assert hub.rig.broker.access.counts.sessions == 4, "those that were opened, and not those that were refused"


def test_nothing_is_done_for_a_session_behind_its_close(hub: Hub, client: Client) -> None:
    octets = b""
    for packet in (Close(), UniqueAddMetadata(key="k", data="d"), CreateQueue(address="q", queue="q", routing=1)):
        packet.channel = 10
        octets += client.encoder.encode(packet)
    client.octets(octets)
    assert len(client.take(NullReply)) == 1
    assert not hub.acceptor.metadata
    assert "q" not in hub.rig.broker.table.queues


def test_addresses_without_queues_do_not_pile_up(hub: Hub, client: Client) -> None:
    hub.acceptor.addresses_max = 3
    client.make("a0")
    for number in range(10):
        client.say(CreateAddress(address=f"a{number}", routing_types=[1], auto_created=True), 10)
    assert list(hub.rig.broker.table.addresses) == ["a0", "a7", "a8", "a9"]


def test_addresses_that_are_made_to_stay_do_and_their_number_has_a_limit(hub: Hub, client: Client) -> None:
    hub.acceptor.addresses_max = 3
    for number in range(10):
        client.say(CreateAddress(address=f"a{number}", routing_types=[1]), 10)
    table = hub.rig.broker.table
    assert [name for name, one in table.addresses.items() if one.created_by_operator] == ["a0", "a1", "a2"]
    assert len(table.addresses) == 3
    hub.rig.restart()
    assert list(hub.rig.broker.table.addresses) == ["a0", "a1", "a2"]


def test_who_never_confirms_what_is_kept_for_him_is_sent_away(hub: Hub) -> None:
    hub.options.unconfirmed_octets_max = 10_000
    client = Client(hub)
    client.open(name="s", window=100_000_000)
    client.make("q")
    client.consume("q", credits=-1)
    for _ in range(200):
        client.send("q", "x" * 100)
        if client.session.closing:
            break
    assert client.session.closing
    client.cut()
    assert not hub.acceptor.sessions
    assert hub.rig.queue("q").in_flight == 0
