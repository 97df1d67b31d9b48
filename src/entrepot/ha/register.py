"""One record that a majority of voters keeps: read it, or swap it against a version; no I/O and no clock.

The algorithm is CASPaxos (Rystsov 2018): a swap is a *prepare*, which has a majority promise a ballot and tell what it
accepted last, and an *accept*, which has a majority take the value that follows from that. There is no log and no
leader. Two things are ours:

- **A read writes nothing** as long as a majority reports the same accepted ballot: that value was chosen, and no later
  one was before the read began, since a majority that accepted it would share a voter with this one. Where they differ
  a few reads in a row, the read rewrites the value, as a swap would.
- **What is not known is said.** A swap whose value was sent to anybody and did not come back as chosen is neither done
  nor refused: `Unknown`. `ha/candidate.py` looks again then, as after a lock service that gave no answer.

A `Course` is one operation. Its shell sends what it says, tells it the answers, and gives up when it has no more time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from entrepot.base.errors import Fault, InvalidOption
from entrepot.ha.votes import OCTETS_MAX, SEATS_MAX, Answer, Ballot, Kind, Request, Roster, Seat, Value, Verdict

READS_MAX: Final = 3
"""Reads that may differ before the value is rewritten: a swap under way explains one or two."""

Answers = Mapping[str, Answer]


class Round(NamedTuple):
    """Ask each address its question. ``enough``: the others need not be waited for; ``tolerable``: not for long."""

    requests: dict[str, Request]
    enough: Callable[[Answers], bool]
    tolerable: Callable[[Answers], bool]


class Pause(NamedTuple):
    """Somebody else is at it, or too few answer: go on after a while that nobody can foresee."""

    why: str


class Found(NamedTuple):
    """What an operation came to. ``version`` -1: the register was not at the version that was expected.

    ``gone``: a majority is sure that the process asked about has ended.
    """

    version: int
    octets: bytes
    gone: bool = False


class Unknown(NamedTuple):
    """Nobody can tell whether the swap was carried out."""

    why: str


Outcome = Found | Unknown
Steps = Generator[Round | Pause, Answers, Outcome]


class Ask(NamedTuple):
    """Send ``request`` to ``address``; tell the answer with ``tag``."""

    address: str
    tag: int
    request: Request


class Course:
    """One operation under way, over when ``outcome`` is there. While ``pausing`` call `again`, after a while.

    While ``lapses`` the round is good enough: call `lapse` when nobody else has answered for a moment.
    """

    def __init__(self, steps: Steps) -> None:
        self.outcome: Outcome | None = None
        self.pausing = ""
        self.silent: list[str] = []  # who did not answer in the round that ended last
        self._paused = ""  # why it paused last
        self._steps: Final = steps
        self._round: Round | None = None
        self._tag = 0
        self._answers: dict[str, Answer] = {}
        self._failed: dict[str, bool] = {}

    def begin(self) -> list[Ask]:
        """Return what to send first."""
        return self._advance(None)

    def answered(self, address: str, tag: int, answer: Answer) -> list[Ask]:
        """An answer is there. What belongs to a round that is over is ignored; so is a second one."""
        if self._round is None or tag != self._tag or address in self._answers or address in self._failed:
            return []
        self._answers[address] = answer
        return self._look()

    def failed(self, address: str, tag: int) -> list[Ask]:
        """``address`` cannot be asked now, or will not answer."""
        if self._round is None or tag != self._tag or address in self._answers:
            return []
        self._failed[address] = True
        return self._look()

    def again(self) -> list[Ask]:
        """The pause is over."""
        if not self.pausing:
            return []
        self.pausing = ""
        return self._advance({})

    @property
    def lapses(self) -> bool:
        """Say whether those who did not answer yet need not be waited for much longer."""
        return self._round is not None and self._round.tolerable(self._answers)

    def lapse(self) -> list[Ask]:
        """Nobody else has answered for a moment."""
        return self._end_round() if self.lapses else []

    def complaint(self) -> str:
        """Return why it takes so long, for people: less is known of the round under way than of the last one."""
        if not self._paused and self._round is not None:
            silent = [each for each in self._round.requests if each not in self._answers]
            if silent:
                return "no answer from " + ", ".join(silent)
        return self._paused or "the voters are busy"

    def _look(self) -> list[Ask]:
        assert self._round is not None
        whole = len(self._answers) + len(self._failed) == len(self._round.requests)
        return self._end_round() if whole or self._round.enough(self._answers) else []

    def _end_round(self) -> list[Ask]:
        assert self._round is not None
        self.silent = [each for each in self._round.requests if each not in self._answers]
        self._round = None
        return self._advance(dict(self._answers))

    def _advance(self, answers: Answers | None) -> list[Ask]:
        try:
            step = next(self._steps) if answers is None else self._steps.send(answers)
        except StopIteration as end:
            self.outcome = end.value
            return []
        self._answers = {}
        self._failed = {}
        if isinstance(step, Pause):
            self.pausing = self._paused = step.why
            return []
        self._tag += 1
        self._round = step
        return [Ask(address, self._tag, request) for address, request in step.requests.items()]


class Proposer:
    """The side of one process. One course at a time; ``roster`` is what it knows of who votes.

    ``who``: an identity that no other process ever has, not even this one after a restart: it is part of each ballot.
    """

    def __init__(self, who: str, addresses: tuple[str, ...]) -> None:
        """``addresses``: of the voters, as configured. Raises InvalidOption for too many, or one twice."""
        refuse_addresses(addresses)
        self.who: Final = who
        self.addresses: Final = addresses
        self.roster: Roster | None = None
        self.highest = 0  # round of a ballot that was seen
        self.strangers: dict[str, str] = {}  # address -> store that nobody has admitted, as seen last
        self.silent: list[str] = []  # who did not answer lately

    def read(self, about: str = "") -> Course:
        """Read the register; ``about``: the instance of a process whose end is of interest."""
        return Course(self._read(about))

    def swap(self, expected: int, octets: bytes) -> Course:
        """Write ``octets`` if the version still is ``expected``. Raises Fault for more than `OCTETS_MAX`."""
        if len(octets) > OCTETS_MAX:
            raise Fault(f"a record of {len(octets)} octets")
        return Course(self._swap(expected, octets))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _read(self, about: str) -> Steps:
        yield from self._meet()
        for _ in range(READS_MAX):
            roster = self._known()
            requests = self.to_all(Request(Kind.READ, roster.number, about=about))
            answers = yield Round(requests, self._agreed(roster), self._many(roster))
            agreed = self._agreement(answers, roster)
            if agreed is not None:
                voters = self.counted(answers, roster)
                gone = sum(answer.gone for answer in voters.values()) >= roster.majority
                return Found(agreed.version, agreed.octets, gone)
            yield from self._mend(answers, roster)
            yield Pause(self._shortage(answers, roster))
        value = yield from self.rewrite(lambda value, ballot: value)
        return Found(value.version, value.octets)

    def _swap(self, expected: int, octets: bytes) -> Steps:
        yield from self._meet()
        mine: dict[Ballot, bool] = {}  # ballots with which our value was sent

        def change(value: Value, ballot: Ballot) -> Value:
            if value.origin in mine or value.version != expected:
                return value
            mine[ballot] = True
            return Value(expected + 1, ballot, octets, value.following)

        value = yield from self.rewrite(change)
        if value.origin in mine:
            return Found(value.version, octets)
        return Unknown("somebody else has swapped since") if mine else Found(-1, b"")

    def rewrite(self, change: Callable[[Value, Ballot], Value]) -> Generator[Round | Pause, Answers, Value]:
        """Have a majority take ``change`` of what is there, under a new ballot; return it. Never gives up."""
        while True:
            roster = self._known()
            ballot = self.bid()
            requests = self.to_all(Request(Kind.PREPARE, roster.number, ballot))
            answers = yield Round(requests, self._many(roster), self._many(roster))
            promises = self.counted(answers, roster)
            if len(promises) >= roster.majority:
                value = self.cleaned(change(self.newest(promises).value, ballot), roster)
                requests = self.to_all(Request(Kind.ACCEPT, roster.number, ballot, value=value))
                answers = yield Round(requests, self._many(roster), self._many(roster))
                if len(self.counted(answers, roster)) >= roster.majority:
                    return value
            yield from self._mend(answers, roster)
            yield Pause(self._shortage(answers, roster))

    def _meet(self) -> Generator[Round | Pause, Answers, None]:
        """Learn who votes; where nobody ever did, and all are there, found the register."""
        while self.roster is None:
            hello = {address: Request(Kind.HELLO) for address in self.addresses}
            answers = yield Round(hello, lambda answers: False, lambda answers: any(map(_has_roster, answers.values())))
            known = [answer.roster for answer in answers.values() if answer.roster is not None]
            if known:
                self._adopt(max(known))
                return
            absent = [each for each in self.addresses if each not in answers]
            if absent:
                yield Pause(f"voters begin all together, and {', '.join(absent)} did not answer yet")
                continue
            seats = tuple(Seat(address, answers[address].store) for address in sorted(answers))
            if len({seat.store for seat in seats}) < len(seats):
                raise InvalidOption(
                    f"two of the addresses {', '.join(self.addresses)} lead to the same voter",
                    remedy="name each voter once",
                )
            roster = Roster(1, seats)
            found = {address: Request(Kind.FOUND, roster=roster) for address in self.addresses}
            yield Round(found, lambda answers: False, self._many(roster))
            self._adopt(roster)

    def _mend(self, answers: Answers, roster: Roster) -> Generator[Round | Pause, Answers, None]:
        """Tell those who are behind who votes; learn it from those who know better."""
        later = [each.roster for each in answers.values() if each.verdict is Verdict.MOVED and each.roster is not None]
        if later and max(later).number > roster.number:
            self.roster = max(later)
            return
        requests = {
            seat.address: Request(Kind.FOUND if answers[seat.address].roster is None else Kind.INSTALL, roster=roster)
            for seat in roster.seats
            if seat.address in answers
            and answers[seat.address].store == seat.store
            and answers[seat.address].verdict in (Verdict.BEHIND, Verdict.NEW)
        }
        if requests:
            yield Round(requests, lambda answers: False, bool)

    # -- what answers mean ---------------------------------------------------------------------------------------------

    def bid(self) -> Ballot:
        """Return a ballot that is higher than all that were seen."""
        self.highest += 1
        return Ballot(self.highest, self.who)

    def to_all(self, request: Request) -> dict[str, Request]:
        """Return ``request`` for each voter."""
        return {seat.address: request for seat in self._known().seats}

    def counted(self, answers: Answers, roster: Roster) -> dict[str, Answer]:
        """Return the answers that count: a yes from the very store that was admitted. Notes what else was learnt."""
        found: dict[str, Answer] = {}
        for seat in roster.seats:
            answer = answers.get(seat.address)
            if answer is None:
                continue
            self.highest = max(self.highest, answer.promised.round)
            if answer.store != seat.store:
                self.strangers[seat.address] = answer.store
                continue
            self.strangers.pop(seat.address, None)
            if answer.verdict is Verdict.YES:
                found[seat.address] = answer
        self.silent = [seat.address for seat in roster.seats if seat.address not in answers]
        return found

    def newest(self, promises: Answers) -> Answer:
        """Return the one that accepted the highest ballot."""
        return max(promises.values(), key=lambda answer: answer.accepted)

    @staticmethod
    def cleaned(value: Value, roster: Roster) -> Value:
        """Return ``value`` without a next roster that is in force by now."""
        done = value.following is not None and value.following.number <= roster.number
        return value._replace(following=None) if done else value

    def _agreement(self, answers: Answers, roster: Roster) -> Value | None:
        """Return the value that a majority accepted with one ballot."""
        voters = self.counted(answers, roster)
        counts: dict[Ballot, int] = {}
        for answer in voters.values():
            counts[answer.accepted] = counts.get(answer.accepted, 0) + 1
            if counts[answer.accepted] >= roster.majority:
                return answer.value
        return None

    def _agreed(self, roster: Roster) -> Callable[[Answers], bool]:
        return lambda answers: self._agreement(answers, roster) is not None

    def _many(self, roster: Roster) -> Callable[[Answers], bool]:
        return lambda answers: len(self.counted(answers, roster)) >= roster.majority

    def _known(self) -> Roster:
        assert self.roster is not None
        return self.roster

    def _adopt(self, roster: Roster) -> None:
        """Take ``roster`` for what is in force. Raises InvalidOption when it is not what was configured."""
        if sorted(roster.addresses()) != sorted(self.addresses):
            raise InvalidOption(
                f"the voters of this register are {', '.join(roster.addresses())}, and not {', '.join(self.addresses)}",
                remedy="name the same voters everywhere, as they were first named or changed to (entrepot ha voters)",
            )
        self.roster = roster

    def _shortage(self, answers: Answers, roster: Roster) -> str:
        """Return why there was no majority, for people."""
        voters = self.counted(answers, roster)
        if len(voters) >= roster.majority:
            return "somebody else is at it"
        parts = [f"{len(voters)} of {len(roster.seats)} voters count, {roster.majority} are needed"]
        if self.silent:
            parts.append(f"no answer from {', '.join(self.silent)}")
        if self.strangers:
            parts.append(f"not admitted: {', '.join(self.strangers)}")
        return "; ".join(parts)


def refuse_addresses(addresses: tuple[str, ...]) -> None:
    """Raise InvalidOption for voters of which there cannot be a register."""
    if not 0 < len(addresses) <= SEATS_MAX:
        raise InvalidOption(f"{len(addresses)} voters", remedy=f"name 3 of them, or 5; at most {SEATS_MAX}")
    twice = [each for each in addresses if addresses.count(each) > 1]
    if twice:
        raise InvalidOption(f"the voter {twice[0]} is named twice", remedy="name each voter once")


def _has_roster(answer: Answer) -> bool:
    return answer.roster is not None
