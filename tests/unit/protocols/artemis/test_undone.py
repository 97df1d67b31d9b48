"""What is undone, or settled alone, and when its answer comes: found by programs of CORE in the simulation."""

from __future__ import annotations

from entrepot.protocols.artemis.packets import (
    Acknowledge,
    Commit,
    FlowToken,
    IndividualAcknowledge,
    NullReply,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
    Rollback,
    SendContinuation,
    SendLarge,
)
from entrepot.protocols.conversing.modes import Acknowledge as Mode

from .test_conversation import Pair, consuming, delivered, only
from .wired import Client, Hub, message


def large(client: Client, body: bytes) -> None:
    octets = message("q", "")
    at = int.from_bytes(octets[:4], "big") - 13 + 4
    client.say(SendLarge(headers=octets[at:]), 10)
    client.say(SendContinuation(body=body, continues=False, body_size=len(body)), 10)


def test_a_rollback_breaks_off_a_large_message_that_it_gives_back() -> None:
    hub = Hub()
    sender, client = Client(hub), Client(hub)
    sender.open()
    sender.make("q")
    large(sender, b"x" * 300_000)
    client.open(auto_commit_sends=False, auto_commit_acks=False)
    client.consume("q", credits=120_000)
    before = [one.continues for one in client.take(ReceiveContinuation)]
    assert before
    assert all(before)  # it has begun, and waits for credit
    client.came.clear()
    client.say(Rollback(), 10)
    client.say(FlowToken(consumer=0, credits=1 << 20), 10)
    assert [type(one) for one in client.came[:2]] == [NullReply, ReceiveLarge]  # it begins anew
    assert sum(len(one.body) for one in client.take(ReceiveContinuation)) == 300_000
    hub.rig.broker.check()


def test_a_commit_with_nothing_to_do_waits_for_what_was_settled_before_it() -> None:
    hub = Hub()
    client = Client(hub)
    client.open()
    client.make("q")
    client.send("q", "one")
    client.consume("q")
    (got,) = client.take(Receive)
    client.take(NullReply)
    encoder, rig = client.encoder, hub.rig
    number = int.from_bytes(got.message[int.from_bytes(got.message[:4], "big") - 13 + 4 :][:8], "big")
    for packet in (Acknowledge(consumer=0, message=number), Commit(correlation=-7)):
        packet.channel = 10
        rig.broker.tick(rig.now, rig.wall)
        client.session.receive(encoder.encode(packet), rig.now)
    client.read()
    assert rig.queue("q").count == 0
    assert not client.take(NullReply)  # the disk has not answered
    hub.turn()
    assert [one.correlation for one in client.take(NullReply)] == [-7]


def test_what_overtakes_another_is_settled_alone() -> None:
    pair = Pair()
    session = pair.core.open_session(Mode.AUTO)
    consumer = consuming(pair, session)
    for number in (5, 6, 7):
        delivered(pair, 11, 1, number)
    first, second, third = (consumer.take(0) for _ in range(3))
    second.done()
    (alone,) = only(pair.turn(), IndividualAcknowledge)
    assert isinstance(alone, IndividualAcknowledge)
    assert alone.message == 6
    first.done()
    third.done()
    pair.core.flush()
    (both,) = only(pair.turn(), Acknowledge)
    assert isinstance(both, Acknowledge)
    assert both.message == 7


def test_what_a_lost_wire_brought_settles_nothing_on_the_next() -> None:
    pair = Pair()
    session = pair.core.open_session(Mode.AUTO)
    consumer = consuming(pair, session)
    delivered(pair, 11, 1, 5)
    first = consumer.take(0)
    pair.lose()
    pair.dial()
    first.done()
    pair.core.flush()
    assert not only(pair.turn(), Acknowledge, IndividualAcknowledge)
