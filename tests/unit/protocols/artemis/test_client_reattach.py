"""The client's side of reattaching: what it counts, keeps and sends again, and what it says when a session is gone."""

from __future__ import annotations

from functools import partial

from entrepot.base.errors import TransactionInDoubt, TransactionRolledBack
from entrepot.protocols.artemis.conversation.identity import Windows
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    Close,
    Commit,
    CreateSession,
    NullReply,
    Packet,
    PacketsConfirmed,
    ReattachSession,
    ReattachSessionReply,
    Send,
)
from entrepot.protocols.conversing.content import Outgoing, Wish
from entrepot.protocols.conversing.modes import Acknowledge as Mode
from entrepot.protocols.conversing.modes import RedeliveryPolicy

from .test_conversation import Answers, Pair, consuming, delivered, only


class Keeping(Pair):
    """A server that keeps sessions. ``done``: the last command that it says it did; -2: it has no session."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        super().__init__(Windows(confirmation=10_000))

    def replies(self, packet: Packet) -> list[Packet]:
        if isinstance(packet, ReattachSession):
            done = self.done.get(packet.name, -2)
            return [ReattachSessionReply(reattached=done > -2, last_confirmed=max(done, -1))]
        return super().replies(packet)

    def names(self) -> list[str]:
        return [packet.name for packet in only(self.took, CreateSession) if isinstance(packet, CreateSession)]


def transacting(pair: Keeping):  # type: ignore[no-untyped-def]
    """Return a session that has sent one message, and how many packets its server heard of it."""
    session = pair.core.open_session(Mode.TRANSACTED)
    producer = session.open_producer("orders", 0, Answers())
    pair.turn()
    producer.send(Outgoing("x"), None)
    pair.turn()
    return session, sum(packet.channel == 11 for packet in pair.took)


def test_a_session_asks_for_reattaching_and_goes_on() -> None:
    pair = Keeping()
    session, heard = transacting(pair)
    pair.withheld = (Commit,)
    answers = Answers()
    session.commit(answers)
    pair.turn()
    pair.lose()
    assert answers.got == []
    own, name = pair.names()
    pair.done = {own: 0, name: heard - 1}  # all but the commit
    pair.withheld = ()
    pair.took.clear()
    pair.dial()
    (again,) = [packet for packet in pair.took if packet.channel == 11]
    assert isinstance(again, Commit)
    assert answers.got == [None]


def test_what_is_asked_meanwhile_goes_out_behind_it() -> None:
    pair = Keeping()
    session, heard = transacting(pair)
    producer = session.open_producer("orders", 0, Answers())
    pair.turn()
    heard = sum(packet.channel == 11 for packet in pair.took)
    pair.lose()
    answers = Answers()
    producer.send(Outgoing("y"), None)
    session.commit(answers)
    own, name = pair.names()
    pair.done = {own: 0, name: heard - 1}
    pair.took.clear()
    pair.dial()
    said = [type(packet) for packet in pair.took if packet.channel == 11]
    assert [kind for kind in said if kind in (Send, Commit)] == [Send, Commit]
    assert answers.got == [None]


def test_a_session_that_is_gone_leaves_its_commit_in_doubt_or_says_that_it_was_never_sent() -> None:
    for at_once in (True, False):
        pair = Keeping()
        session, _ = transacting(pair)
        pair.withheld = (Commit,)
        answers = Answers()
        if at_once:
            session.commit(answers)
            pair.turn()
        pair.lose()
        if not at_once:
            session.commit(answers)
        pair.dial()
        assert [type(one) for one in answers.got] == [TransactionInDoubt if at_once else TransactionRolledBack]
        assert len(pair.names()) == 4  # both sessions were made anew


def test_what_was_handed_out_settles_behind_a_reattachment_and_not_without_one() -> None:
    for kept in (True, False):
        pair = Keeping()
        session = pair.core.open_session(Mode.CLIENT)
        consumer = consuming(pair, session)
        delivered(pair, 11, 1, 7)
        delivery = consumer.take(0)
        own, name = pair.names()
        heard = sum(packet.channel == 11 for packet in pair.took)
        if kept:
            pair.done = {own: 0, name: heard - 1}
        pair.lose()
        assert not delivery.is_lost()  # nobody knows yet
        pair.took.clear()
        pair.dial()
        assert delivery.is_lost() is not kept
        delivery.acknowledge()
        pair.turn()
        assert len(only(pair.took, Acknowledge)) == int(kept)


def test_what_lies_in_the_buffer_is_handed_out_when_it_is_known_whose_it_is() -> None:
    for kept in (True, False):
        pair = Keeping()
        session = pair.core.open_session(Mode.CLIENT)
        rings = Answers()
        consumer = session.open_consumer(Wish("orders", 100), RedeliveryPolicy(), partial(rings, None), Answers())
        pair.turn()
        delivered(pair, 11, 1, 7)
        own, name = pair.names()
        if kept:
            heard = sum(packet.channel == 11 for packet in pair.took)
            pair.done = {own: 0, name: heard - 1}
        pair.lose()
        assert consumer.take(0) is None
        rings.got.clear()
        pair.dial()
        assert (len(rings.got), consumer.take(0) is not None) == (int(kept), kept)


def test_it_confirms_a_window_of_what_came() -> None:
    pair = Keeping()
    session = pair.core.open_session(Mode.AUTO)
    consuming(pair, session)
    for number in range(5):
        delivered(pair, 11, 1, number + 1, "x" * 2_000)
    confirmed = only(pair.turn(), PacketsConfirmed)
    assert len(confirmed) == 1
    replay = session.requests.replay
    assert replay is not None
    kept = len(replay.kept)
    pair.say(PacketsConfirmed(command=int(replay.sent) - 2), 11)
    assert (kept, len(replay.kept)) == (int(replay.sent), 1)


def test_who_moves_to_another_broker_ends_its_sessions_here() -> None:
    pair = Keeping()
    transacting(pair)
    pair.core.leave_wire(pair.client)
    assert [packet.channel for packet in only(pair.turn(), Close)] == [10, 11]
    pair.say(NullReply(), 11)
