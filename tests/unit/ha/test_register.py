"""A register that voters keep: what is promised, chosen and known, voter by voter and message by message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import Fault, InvalidOption, Unreachable
from entrepot.ha.reform import go_on_without, reform
from entrepot.ha.register import Ask, Course, Found, Outcome, Proposer, Unknown
from entrepot.ha.voter import Voter
from entrepot.ha.votes import (
    OCTETS_MAX,
    Ballot,
    Kind,
    Request,
    Roster,
    Seat,
    State,
    Value,
    Verdict,
    dump_answer,
    dump_request,
    dump_state,
    load_answer,
    load_request,
    load_state,
)

ADDRESSES = ("a:1", "b:1", "c:1")


class Room:
    """Voters that answer at once. ``deaf``: who is asked in vain; ``drops``: what else does not get through."""

    def __init__(self, *addresses: str) -> None:
        self.voters = {address: Voter(State(f"{address}/1")) for address in addresses or ADDRESSES}
        self.deaf: dict[str, bool] = {}
        self.drops: Callable[[Ask], bool] = lambda ask: False
        self.asked: list[Ask] = []
        self.why = ""  # it took so long

    def carry_out(self, course: Course, most: int = 50) -> Outcome | None:
        """Return what it came to; None when it would go on for ever."""
        asks = course.begin()
        for _ in range(most):
            while asks:
                ask = asks.pop(0)
                self.asked.append(ask)
                if ask.address in self.deaf or self.drops(ask):
                    asks += course.failed(ask.address, ask.tag)
                    continue
                voter = self.voters[ask.address]
                weighed = voter.weigh(load_request(dump_request(ask.request)))
                if weighed.state is not None:
                    voter.settle(load_state(dump_state(weighed.state)))
                asks += course.answered(ask.address, ask.tag, load_answer(dump_answer(weighed.answer)))
            if course.outcome is not None:
                return course.outcome
            self.why = course.pausing or self.why
            asks = course.lapse() if course.lapses else course.again()
        return None

    def read(self, proposer: Proposer) -> Outcome | None:
        return self.carry_out(proposer.read())

    def swap(self, proposer: Proposer, expected: int, octets: bytes) -> Outcome | None:
        return self.carry_out(proposer.swap(expected, octets))


def one(who: str = "one", addresses: tuple[str, ...] = ADDRESSES) -> Proposer:
    return Proposer(who, addresses)


def test_what_one_swaps_in_another_reads() -> None:
    room = Room()
    assert room.read(one()) == Found(0, b"")
    assert room.swap(one(), 0, b"first") == Found(1, b"first")
    assert room.read(one("two")) == Found(1, b"first")
    assert room.swap(one("two"), 0, b"late") == Found(-1, b"")
    assert room.swap(one("two"), 1, b"second") == Found(2, b"second")
    assert room.read(one()) == Found(2, b"second")


def test_a_read_writes_nothing() -> None:
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"x")
    before = {address: voter.state for address, voter in room.voters.items()}
    room.asked.clear()
    assert room.read(proposer) == Found(1, b"x")
    assert {ask.request.kind for ask in room.asked} == {Kind.READ}
    assert {address: voter.state for address, voter in room.voters.items()} == before


def test_it_begins_only_when_all_are_there() -> None:
    room = Room()
    room.deaf["c:1"] = True
    assert room.swap(one(), 0, b"x") is None
    assert all(voter.state.roster is None for voter in room.voters.values())
    del room.deaf["c:1"]
    assert room.swap(one(), 0, b"x") == Found(1, b"x")


def test_who_runs_out_of_time_hears_what_was_short_and_not_that_nobody_answered() -> None:
    """The time is over when the next round has just been asked for, as often as not."""
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"x")
    course = proposer.read()
    asks = course.begin()
    assert course.complaint() == "no answer from a:1, b:1, c:1"
    for ask in asks[:2]:
        course.failed(ask.address, ask.tag)
    assert course.complaint() == "no answer from a:1, b:1, c:1"
    answer = room.voters["c:1"].weigh(asks[2].request).answer
    course.answered("c:1", asks[2].tag, answer)
    short = "1 of 3 voters count, 2 are needed; no answer from a:1, b:1"
    assert course.complaint() == short
    again = course.again()
    assert course.complaint() == short
    course.failed("a:1", again[0].tag)
    assert course.complaint() == short


@pytest.mark.parametrize("away", ADDRESSES)
def test_a_majority_is_enough_and_a_minority_is_not(away: str) -> None:
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"x")
    room.deaf[away] = True
    assert room.swap(proposer, 1, b"y") == Found(2, b"y")
    room.deaf[next(each for each in ADDRESSES if each != away)] = True
    assert room.read(proposer) is None
    assert room.swap(proposer, 2, b"z") is None


def test_who_was_away_does_not_bring_back_what_is_over() -> None:
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"old")
    room.deaf["a:1"] = True
    room.swap(proposer, 1, b"new")
    room.deaf = {"b:1": True}
    assert room.read(one("two")) == Found(2, b"new")


def test_what_reached_one_voter_only_is_not_known_and_may_yet_count() -> None:
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"x")
    room.drops = lambda ask: ask.request.kind is Kind.ACCEPT and ask.address != "a:1"
    assert room.swap(proposer, 1, b"y") is None
    room.drops = lambda ask: ask.address == "c:1"
    assert room.read(one("two")) == Found(2, b"y")  # it is seen by whoever asks the one that has it


def test_a_swap_that_somebody_overtook_is_neither_done_nor_refused() -> None:
    room = Room()
    first, second = one(), one("two")
    room.swap(first, 0, b"x")
    room.read(second)
    overtaken = False

    def drops(ask: Ask) -> bool:
        nonlocal overtaken
        if ask.request.kind is Kind.ACCEPT and not overtaken:
            if ask.address == "a:1":
                return False
            if ask.address == "c:1":
                overtaken = True
                room.deaf["a:1"] = True
                room.drops = lambda ask: False
                assert room.swap(second, 1, b"other") == Found(2, b"other")
                room.deaf.clear()
            return True
        return False

    room.drops = drops
    assert isinstance(room.swap(first, 1, b"mine"), Unknown)
    assert room.read(second) == Found(2, b"other")


def test_a_voter_that_lost_its_store_does_not_count_as_if_it_were_new() -> None:
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"x")
    room.deaf["a:1"] = True
    room.swap(proposer, 1, b"y")
    room.deaf = {"b:1": True}
    room.voters["c:1"] = Voter(State("c:1/2"))  # "y" was with b and c
    assert room.read(proposer) is None
    assert proposer.strangers == {"c:1": "c:1/2"}
    assert room.why == "1 of 3 voters count, 2 are needed; no answer from b:1; not admitted: c:1"
    assert room.read(one("two")) is None


def test_it_is_admitted_again_when_all_others_are_there_and_knows_what_they_know() -> None:
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"x")
    room.deaf["a:1"] = True
    room.swap(proposer, 1, b"y")
    room.voters["c:1"] = Voter(State("c:1/2"))
    with pytest.raises(Unreachable, match="a:1 did not answer"):
        room.carry_out(reform(one("three"), ADDRESSES))
    room.deaf.clear()
    assert room.carry_out(reform(one("three"), ADDRESSES)) == Found(2, b"y")
    room.deaf["b:1"] = True
    assert room.read(proposer) == Found(2, b"y")
    assert room.swap(proposer, 2, b"z") == Found(3, b"z")
    assert proposer.roster is not None
    assert proposer.roster.number == 2


def test_voters_change_one_at_a_time() -> None:
    room = Room(*ADDRESSES, "d:1", "e:1")
    proposer = one()
    room.swap(proposer, 0, b"x")
    with pytest.raises(InvalidOption, match="one voter at a time"):
        room.carry_out(reform(one("two"), ("a:1", "d:1", "e:1")))
    assert room.carry_out(reform(one("two"), ("a:1", "b:1", "d:1"))) == Found(1, b"x")
    room.deaf["a:1"] = True
    assert room.swap(proposer, 1, b"y") == Found(2, b"y")  # it hears of the change on the way
    assert proposer.roster is not None
    assert proposer.roster.addresses() == ("a:1", "b:1", "d:1")
    room.deaf.clear()
    with pytest.raises(InvalidOption, match=r"the voters of this register are a:1, b:1, d:1, and not a:1, b:1, c:1"):
        room.read(one("three"))
    assert room.carry_out(reform(one("four"), ("a:1", "b:1", "d:1", "e:1"))) == Found(2, b"y")
    assert room.carry_out(reform(one("five"), ("a:1", "b:1", "e:1"))) == Found(2, b"y")
    with pytest.raises(InvalidOption, match="d:1 has voted before"):
        room.carry_out(reform(one("six"), ("a:1", "b:1", "e:1", "d:1")))


def test_a_change_that_stopped_half_way_is_carried_on_and_another_one_is_refused() -> None:
    room = Room(*ADDRESSES, "d:1")
    proposer = one()
    room.swap(proposer, 0, b"x")
    room.drops = lambda ask: ask.request.kind is Kind.INSTALL
    assert room.carry_out(reform(one("two"), ("a:1", "b:1", "d:1"))) is None
    room.drops = lambda ask: False
    assert room.swap(proposer, 1, b"y") == Found(2, b"y")  # the voters that are go on
    with pytest.raises(InvalidOption, match="are about to become a:1, b:1, d:1"):
        room.carry_out(reform(one("three"), ("a:1", "c:1", "d:1")))
    room.drops = lambda ask: ask.request.kind is Kind.ADMIT
    assert room.carry_out(reform(one("four"), ("a:1", "b:1", "d:1"))) is None
    assert room.swap(proposer, 2, b"z") == Found(3, b"z")
    room.drops = lambda ask: False
    assert room.carry_out(reform(one("five"), ("a:1", "b:1", "d:1"))) == Found(3, b"z")
    room.deaf["a:1"] = True
    assert room.read(proposer) == Found(3, b"z")


def test_a_value_is_accepted_with_the_ballot_that_was_promised_and_no_other() -> None:
    roster = Roster(1, (Seat("a:1", "s"),))
    voter = Voter(State("s", roster, promised=Ballot(5, "p")))
    for ballot in (Ballot(4, "z"), Ballot(5, "a"), Ballot(6, "a")):
        weighed = voter.weigh(Request(Kind.ACCEPT, 1, ballot, value=Value(1, ballot, b"x")))
        assert weighed.answer.verdict is Verdict.OUTBID
        assert weighed.state is None
    assert voter.weigh(Request(Kind.PREPARE, 1, Ballot(5, "p"))).answer.verdict is Verdict.OUTBID
    weighed = voter.weigh(Request(Kind.ACCEPT, 1, Ballot(5, "p"), value=Value(1, Ballot(5, "p"), b"x")))
    assert weighed.answer.verdict is Verdict.YES
    assert voter.state.accepted == Ballot(0, "")  # not before it is on disk
    assert weighed.state is not None
    assert weighed.state.accepted == Ballot(5, "p")


def test_a_voter_is_founded_once_and_only_as_itself() -> None:
    voter = Voter(State("s"))
    assert voter.weigh(Request(Kind.FOUND, roster=Roster(1, (Seat("a:1", "other"),)))).answer.verdict is Verdict.NO
    assert voter.weigh(Request(Kind.FOUND, roster=Roster(2, (Seat("a:1", "s"),)))).answer.verdict is Verdict.NO
    weighed = voter.weigh(Request(Kind.FOUND, roster=Roster(1, (Seat("a:1", "s"),))))
    assert weighed.state is not None
    voter.settle(weighed.state)
    again = voter.weigh(Request(Kind.FOUND, roster=Roster(1, (Seat("b:1", "s"),))))
    assert again.answer.verdict is Verdict.MOVED
    assert voter.weigh(Request(Kind.ADMIT, roster=Roster(2, (Seat("b:1", "s"),)))).answer.verdict is Verdict.NO


def test_an_answer_counts_once() -> None:
    room = Room()
    room.swap(one(), 0, b"x")
    proposer = one("two")
    room.read(proposer)
    course = proposer.read()
    asks = course.begin()
    answer = room.voters["a:1"].weigh(asks[0].request).answer
    for _ in range(3):
        assert course.answered("a:1", asks[0].tag, answer) == []
    assert course.outcome is None
    assert course.answered("b:1", asks[0].tag - 1, answer) == []
    assert course.outcome is None


def test_two_voters_need_both() -> None:
    room = Room("a:1", "b:1")
    proposer = one(addresses=("a:1", "b:1"))
    assert room.swap(proposer, 0, b"x") == Found(1, b"x")
    room.deaf["b:1"] = True
    assert room.swap(proposer, 1, b"y") is None
    assert room.read(proposer) is None


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidOption, match="named twice"):
        one(addresses=("a:1", "a:1"))
    with pytest.raises(InvalidOption, match="0 voters"):
        one(addresses=())
    with pytest.raises(Fault, match="octets"):
        one().swap(0, bytes(OCTETS_MAX + 1))
    room = Room()
    room.voters["b:1"] = room.voters["a:1"]
    with pytest.raises(InvalidOption, match="lead to the same voter"):
        room.read(one())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"kind": "read"}',
        b"[" * 100_000,
        b'{"kind":"read","number":-1,"ballot":[0,""],"accepted":[0,""],"value":[0,[0,""],"",null]}',
        b'{"kind":"read","number":1,"ballot":[true,""],"accepted":[0,""],"value":[0,[0,""],"",null]}',
        b'{"kind":"found","number":1,"ballot":[0,""],"accepted":[0,""],"value":[0,[0,""],"",null],"roster":[1,[]]}',
        b'{"kind":"read","number":1,"ballot":[0,""],"accepted":[0,""],"value":[0,[0,""],"!",null],"roster":[1,[["a"]]]}',
    ],
)
def test_what_is_no_question_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any will do
        load_request(text)


def test_an_operator_may_go_on_without_those_that_are_gone() -> None:
    room = Room()
    proposer = one()
    room.swap(proposer, 0, b"x")
    room.deaf = {"a:1": True, "b:1": True}
    assert room.swap(proposer, 1, b"y") is None
    with pytest.raises(Unreachable, match="b:1 did not answer"):
        room.carry_out(go_on_without(one("two"), ("a:1",)))
    with pytest.raises(InvalidOption, match="no voter would be left"):
        room.carry_out(go_on_without(one("two"), ADDRESSES))
    with pytest.raises(InvalidOption, match="d:1 is none of the voters"):
        room.carry_out(go_on_without(one("two"), ("d:1",)))
    assert room.carry_out(go_on_without(one("two"), ("a:1", "b:1"))) == Found(1, b"x")
    assert room.swap(proposer, 1, b"y") == Found(2, b"y")
    room.deaf.clear()
    room.voters["b:1"] = Voter(State("b:1/2"))  # it comes back, new
    assert room.carry_out(reform(one("three"), ("b:1", "c:1"))) == Found(2, b"y")
    room.deaf["c:1"] = True
    assert room.swap(proposer, 2, b"z") is None  # two of two
