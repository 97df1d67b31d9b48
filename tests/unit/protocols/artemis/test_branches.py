"""Branches of distributed transactions, as a client of CORE asks for them: packet by packet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import EntrepotError, Refused, TransactionError, TransactionInDoubt, TransactionRolledBack
from entrepot.protocols.artemis.conversation.branches import ENDED_MAX, Branch, named, refusal_of
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    CreateSession,
    Packet,
    Send,
    XaCommit,
    XaEnd,
    XaInDoubtXids,
    XaInDoubtXidsReply,
    XaPrepare,
    XaReply,
    XaRollback,
    XaStart,
)
from entrepot.protocols.conversing.content import Outgoing
from entrepot.protocols.conversing.modes import Acknowledge as Mode
from entrepot.protocols.conversing.xid import Xid

from .test_conversation import Answers, Pair, consuming, delivered, only

XID = Xid(7, b"whole", b"part")
STEPS = (XaStart, XaEnd, XaPrepare, XaCommit, XaRollback)
WORK = (*STEPS, Send, Acknowledge)


class Coordinated(Pair):
    """A server that does every step, unless ``codes`` says with which code of XA it refuses one."""

    def __init__(self) -> None:
        self.codes: dict[type[Packet], int] = {}
        self.indoubt: list[Xid] = []
        super().__init__()

    def replies(self, packet: Packet) -> list[Packet]:
        if isinstance(packet, self.withheld):
            return []
        if isinstance(packet, STEPS):
            code = self.codes.get(type(packet), 0)
            return [XaReply(error=code != 0, code=code, text="so it is" if code else None)]
        if isinstance(packet, XaInDoubtXids):
            return [XaInDoubtXidsReply(xids=[named(each) for each in self.indoubt])]
        return super().replies(packet)

    def answered(self, ask: Callable[[Callable[[EntrepotError | None], None]], None]) -> EntrepotError | None:
        """Return the answer to what ``ask`` asks."""
        answers = Answers()
        ask(answers)
        self.turn()
        (answer,) = answers.got
        return answer

    def prepared(self, xid: Xid = XID) -> tuple[bool, EntrepotError | None]:
        """Return what comes of a prepare."""
        told: list[tuple[bool, EntrepotError | None]] = []
        self.core.prepare_branch(xid, lambda something, error: told.append((something, error)))
        self.turn()
        return told[0]


def test_a_branch_has_what_was_sent_and_handed_out_in_it() -> None:
    pair = Coordinated()
    session = pair.core.open_session(Mode.TRANSACTED, True)
    consumer = consuming(pair, session)
    producer = session.open_producer("done", 0, Answers())
    assert [create.xa for create in only(pair.took, CreateSession) if isinstance(create, CreateSession)] == [
        False,
        True,
    ]
    delivered(pair, 11, consumer.number, 1)
    delivered(pair, 11, consumer.number, 2)
    session.begin_branch(XID)
    assert consumer.take(0) is not None
    producer.send(Outgoing("x"), None)
    assert pair.answered(lambda answer: session.end_branch(XID, answer)) is None
    said = [packet for packet in pair.took if isinstance(packet, WORK)]
    assert [type(packet) for packet in said] == [XaStart, Send, Acknowledge, XaEnd]
    assert [packet.message for packet in only(said, Acknowledge) if isinstance(packet, Acknowledge)] == [1]
    assert {packet.channel for packet in said} == {11}
    assert pair.prepared() == (True, None)
    assert pair.answered(lambda answer: pair.core.commit_branch(XID, False, answer)) is None
    steps = [packet for packet in pair.took if isinstance(packet, (XaPrepare, XaCommit))]
    assert {packet.channel for packet in steps} == {12}  # of a session that works for none
    assert [packet.xid for packet in steps] == [named(XID)] * 2


def test_a_branch_waits_for_its_session_and_for_a_wire() -> None:
    pair = Coordinated()
    pair.lose()
    session = pair.core.open_session(Mode.TRANSACTED, True)
    producer = session.open_producer("done", 0, Answers())
    session.begin_branch(XID)
    producer.send(Outgoing("x"), None)
    answers = Answers()
    session.end_branch(XID, answers)
    pair.dial()
    assert answers.got == [None]
    said = [packet for packet in pair.took if isinstance(packet, WORK)]
    assert [type(packet) for packet in said] == [XaStart, Send, XaEnd]
    assert pair.prepared() == (True, None)


def test_what_was_handed_out_between_branches_is_in_none() -> None:
    pair = Coordinated()
    session = pair.core.open_session(Mode.TRANSACTED, True)
    consumer = consuming(pair, session)
    delivered(pair, 11, consumer.number, 1)
    assert consumer.take(0) is not None
    consumer.close()
    pair.turn()
    assert only(pair.took, Acknowledge) == []


def test_a_branch_that_lost_its_wire_is_never_prepared() -> None:
    pair = Coordinated()
    session = pair.core.open_session(Mode.TRANSACTED, True)
    session.begin_branch(XID)
    pair.turn()
    pair.lose()
    assert pair.core.busy()
    pair.dial()
    assert pair.answered(lambda answer: session.end_branch(XID, answer)) is None
    something, error = pair.prepared()
    assert not something
    assert isinstance(error, TransactionRolledBack)
    assert only(pair.took, XaPrepare) == []
    assert len(only(pair.took, XaRollback)) == 1  # the server may have something of it


def test_a_branch_that_ended_and_lost_its_wire_is_never_prepared() -> None:
    pair = Coordinated()
    session = pair.core.open_session(Mode.TRANSACTED, True)
    session.begin_branch(XID)
    assert pair.answered(lambda answer: session.end_branch(XID, answer)) is None
    pair.lose()
    pair.dial()
    assert isinstance(pair.prepared()[1], TransactionRolledBack)
    other = Xid(7, b"of another connection")
    assert pair.prepared(other) == (True, None)


def test_who_loses_the_answer_does_not_know() -> None:
    pair = Coordinated()
    session = pair.core.open_session(Mode.TRANSACTED, True)
    session.begin_branch(XID)
    assert pair.answered(lambda answer: session.end_branch(XID, answer)) is None
    pair.withheld = (XaCommit,)
    answers = Answers()
    pair.core.commit_branch(XID, True, answers)
    pair.turn()
    pair.lose()
    (answer,) = answers.got
    assert isinstance(answer, TransactionInDoubt)


@pytest.mark.parametrize(
    ("code", "kind"), [(-4, Refused), (7, TransactionError), (100, TransactionRolledBack), (-3, TransactionError)]
)
def test_what_a_server_refuses(code: int, kind: type[EntrepotError]) -> None:
    pair = Coordinated()
    pair.codes[XaCommit] = code
    answer = pair.answered(lambda answer: pair.core.commit_branch(XID, False, answer))
    assert type(answer) is kind
    assert "so it is" in str(answer)


def test_a_branch_that_the_server_does_not_begin_is_not_prepared() -> None:
    pair = Coordinated()
    pair.codes[XaStart] = -8
    session = pair.core.open_session(Mode.TRANSACTED, True)
    session.begin_branch(XID)
    pair.turn()
    assert pair.answered(lambda answer: session.end_branch(XID, answer)) is None
    assert isinstance(pair.prepared()[1], TransactionRolledBack)


def test_a_branch_that_did_nothing_is_over() -> None:
    assert refusal_of(XaReply(code=3), None) is None
    pair = Coordinated()
    told: list[bool] = []
    pair.withheld = (XaPrepare,)
    pair.core.prepare_branch(XID, lambda something, error: told.append(something))
    pair.turn()
    pair.say(XaReply(code=3), 11)
    assert told == [False]


def test_what_is_prepared_is_listed() -> None:
    pair = Coordinated()
    pair.indoubt = [XID, Xid(1, b"other")]
    told: list[list[Xid]] = []
    pair.core.recover_branches(lambda found, error: told.append(found))
    pair.turn()
    assert told == [pair.indoubt]


def test_a_session_that_is_closed_within_a_branch_undoes_it() -> None:
    pair = Coordinated()
    session = pair.core.open_session(Mode.TRANSACTED, True)
    session.begin_branch(XID)
    pair.turn()
    session.close()
    pair.turn()
    assert [packet.failed for packet in only(pair.took, XaEnd) if isinstance(packet, XaEnd)] == [True]
    assert len(only(pair.took, XaRollback)) == 1


def filled(pair: Coordinated, arrived: bool = True, doomed: str = "") -> None:
    """Have ``pair`` remember as many ended branches as it may, and two more."""
    for number in range(ENDED_MAX + 2):
        branch = Branch(Xid(7, number.to_bytes(4, "big")), 11)
        branch.arrived = arrived
        branch.doomed = doomed
        pair.core.branches.worked_for(branch)


def test_branches_that_others_end_are_not_remembered_for_ever() -> None:
    pair = Coordinated()
    branches = pair.core.branches
    filled(pair)
    assert len(branches.ended) == ENDED_MAX
    assert next(iter(branches.ended)) == Xid(7, (2).to_bytes(4, "big"))
    pair.turn()
    assert only(pair.took, XaRollback) == []


def test_a_branch_that_is_worked_for_again_takes_no_place_of_another() -> None:
    pair = Coordinated()
    filled(pair)
    pair.core.branches.worked_for(Branch(Xid(7, (5).to_bytes(4, "big")), 11))
    assert len(pair.core.branches.ended) == ENDED_MAX


def test_a_branch_that_is_not_whole_is_never_forgotten_so_that_it_can_be_prepared() -> None:
    pair = Coordinated()
    filled(pair, arrived=False)
    assert len(pair.core.branches.ended) == ENDED_MAX + 2
    pair = Coordinated()
    filled(pair, arrived=False, doomed="it was cut")
    pair.turn()
    assert len(pair.core.branches.ended) == ENDED_MAX
    undone = [each.xid for each in pair.took if isinstance(each, XaRollback)]
    assert undone == [named(Xid(7, number.to_bytes(4, "big"))) for number in range(2)]


@pytest.mark.parametrize("code", [0, -3])
def test_a_branch_has_arrived_when_the_broker_has_said_that_it_ended(code: int) -> None:
    pair = Coordinated()
    pair.codes[XaEnd] = code
    session = pair.core.open_session(Mode.TRANSACTED, True)
    session.begin_branch(XID)
    session.end_branch(XID, Answers())
    branch = pair.core.branches.ended[XID]
    assert not branch.arrived
    pair.turn()
    assert branch.arrived == (code == 0)


def test_what_a_session_may_not() -> None:
    pair = Coordinated()
    own = pair.core.open_session(Mode.TRANSACTED)
    work = pair.core.open_session(Mode.TRANSACTED, True)
    with pytest.raises(TransactionError, match="xa=True"):
        own.begin_branch(XID)
    with pytest.raises(TransactionError, match="TRANSACTED"):
        pair.core.open_session(Mode.AUTO, True)
    with pytest.raises(TransactionError, match="no branch now"):
        work.open_producer("q", 0, Answers()).send(Outgoing("x"), None)
    with pytest.raises(TransactionError, match="branches"):
        work.commit(Answers())
    with pytest.raises(TransactionError, match="octets"):
        work.begin_branch(Xid(1, b""))
    work.begin_branch(XID)
    with pytest.raises(TransactionError, match="already"):
        work.begin_branch(Xid(1, b"other"))
    with pytest.raises(TransactionError, match="does not work"):
        work.end_branch(Xid(1, b"other"), Answers())
