"""Another set of voters, one voter at a time: added, removed, replaced, or admitted again after it lost its store.

1. All voters that stay must answer, and so must the new one, who must be new. Else nothing is begun.
2. A majority of the voters that are decides the next roster, as part of the register's value: so there is one only.
3. **Every** voter that stays installs it. From then on it takes no question under the old one, so that the old roster
   has no majority any more that would not be seen.
4. Every voter that stays promises a ballot and tells what it accepted. The newest of that is what the new voter begins
   with, and that ballot is what it has promised: only now may it vote.

A change that stops half-way is carried on by whoever asks for the same one again; another one is refused until then.
While a voter that stays is away nothing changes, which is the price of being sure.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from entrepot.base.errors import InvalidOption, Unreachable
from entrepot.ha.register import Answers, Course, Found, Pause, Proposer, Round, Steps, refuse_addresses
from entrepot.ha.votes import Answer, Ballot, Kind, Request, Roster, Seat, Value, Verdict


def reform(proposer: Proposer, wanted: tuple[str, ...]) -> Course:
    """Return the course that has the voters at ``wanted`` vote. Its steps raise InvalidOption and Unreachable."""
    refuse_addresses(wanted)
    return Course(_Reform(proposer, wanted).steps())


def go_on_without(proposer: Proposer, lost: tuple[str, ...]) -> Course:
    """Return the course that has the voters vote without those at ``lost``, by the word of an operator.

    He vouches that these are gone for good. It takes every voter that is left, and no majority: what a majority with
    lost voters in it decided, and no voter that is left has heard of, is forgotten. Its steps raise InvalidOption.
    """
    return Course(_go_on(proposer, lost))


def _go_on(proposer: Proposer, lost: tuple[str, ...]) -> Steps:
    left = tuple(each for each in proposer.addresses if each not in lost)
    unknown = [each for each in lost if each not in proposer.addresses]
    if unknown or not left:
        raise InvalidOption(
            f"{unknown[0]} is none of the voters" if unknown else "no voter would be left", remedy="name those to leave"
        )
    hello = yield from ask_each(left, Request(Kind.HELLO))
    was = _last_known(left, hello)
    seats = tuple(seat for seat in was.seats if seat.address in left and hello[seat.address].store == seat.store)
    if sorted(seat.address for seat in seats) != sorted(left):
        raise InvalidOption("one that is left lost its store, or does not vote", remedy="name it among the lost, too")
    following = Roster(was.number + 1, seats)
    yield from tell_all(left, Request(Kind.INSTALL, roster=was))
    yield from tell_all(left, Request(Kind.INSTALL, roster=following))
    proposer.roster = following
    value = yield from _agree(proposer, left)
    return Found(value.version, value.octets)


def _last_known(left: tuple[str, ...], hello: Answers) -> Roster:
    """Return the newest roster that those who are left know of. Raises Unreachable unless all of them know one."""
    silent = [each for each in left if each not in hello or hello[each].roster is None]
    if silent:
        raise Unreachable(
            f"{', '.join(silent)} did not answer, or never voted", remedy="every voter that is left must be there"
        )
    return max(answer.roster for answer in hello.values() if answer.roster is not None)


def _agree(proposer: Proposer, left: tuple[str, ...]) -> Generator[Round | Pause, Answers, Value]:
    """Have all who are left take the newest value: any may be the only one that knows what was decided last."""
    following = proposer.roster
    assert following is not None
    while True:
        ballot = proposer.bid()
        answers = yield from ask_each(left, Request(Kind.PREPARE, following.number, ballot))
        promises = proposer.counted(answers, following)
        if len(promises) == len(left):
            value = proposer.newest(promises).value._replace(following=None)
            answers = yield from ask_each(left, Request(Kind.ACCEPT, following.number, ballot, value=value))
            if len(proposer.counted(answers, following)) == len(left):
                return value
        yield Pause("somebody else is at it, or does not answer")


def ask_each(addresses: tuple[str, ...], request: Request) -> Generator[Round | Pause, Answers, dict[str, Answer]]:
    """Ask all of them, and return what they answer."""
    answers = yield Round(dict.fromkeys(sorted(addresses), request), lambda answers: False, lambda answers: False)
    return dict(answers)


def tell_all(addresses: tuple[str, ...], request: Request) -> Generator[Round | Pause, Answers, None]:
    """Ask until each has said yes. Raises InvalidOption when one says no."""
    left = dict.fromkeys(addresses, True)
    while left:
        answers = yield from ask_each(tuple(left), request)
        for address, answer in answers.items():
            if answer.verdict is Verdict.YES:
                left.pop(address, None)
            elif answer.verdict is Verdict.NO:
                raise InvalidOption(
                    f"{address} refuses: it is not the voter that it was a moment ago", remedy="ask once more"
                )
        if left:
            yield Pause(f"no answer from {', '.join(left)}")


class _Reform:
    def __init__(self, proposer: Proposer, wanted: tuple[str, ...]) -> None:
        self.proposer: Final = proposer
        self.wanted: Final = tuple(sorted(wanted))
        self.was: Roster = Roster(0, ())
        self.next: Roster = Roster(0, ())

    @property
    def staying(self) -> tuple[Seat, ...]:
        """Return who votes before and after."""
        return tuple(seat for seat in self.was.seats if seat in self.next.seats)

    @property
    def coming(self) -> tuple[Seat, ...]:
        """Return who is new."""
        return tuple(seat for seat in self.next.seats if seat not in self.was.seats)

    def steps(self) -> Steps:
        """Do it."""
        yield from self._prepare()
        if not self.coming and len(self.staying) == len(self.was.seats):
            return Found(0, b"")
        if self.was.number < self.next.number:
            yield from self._decide()
        yield from self._install()
        for seat in self.coming:
            yield from self._admit(seat)
        self.proposer.roster = self.next
        value = yield from self.proposer.rewrite(lambda value, ballot: value)  # without the roster that is in force now
        return Found(value.version, value.octets)

    def _prepare(self) -> Generator[Round | Pause, Answers, None]:
        """Find out who there is, and refuse what cannot be. Raises InvalidOption, Unreachable."""
        hello = yield from ask_each(self.wanted, Request(Kind.HELLO))
        rosters = [answer.roster for answer in hello.values() if answer.roster is not None]
        if not rosters:
            raise InvalidOption("none of these voters has ever voted", remedy="start a broker with this locker first")
        self.was = max(rosters)
        after = yield from ask_each(tuple({*self.wanted, *self.was.addresses()}), Request(Kind.HELLO))
        self.proposer.roster = self.was
        silent = [each for each in self.wanted if each not in after]
        if silent:
            raise Unreachable(
                f"{', '.join(silent)} did not answer", remedy="the voters change only while all that stay are there"
            )
        seats = tuple(Seat(address, after[address].store) for address in self.wanted)
        self.next = Roster(self.was.number + 1, seats)
        unfinished = self._unfinished(after)
        if unfinished:
            self.next, self.was = self.was, Roster(self.was.number, unfinished)
            return
        self._refuse(after)

    def _refuse(self, after: Answers) -> None:
        """Raise InvalidOption or Unreachable for a change that cannot be made, or not now."""
        following = [
            answer.value.following
            for answer in after.values()
            if answer.value.following is not None and answer.value.following.number > self.was.number
        ]
        if following and following[0] != self.next:
            raise InvalidOption(
                f"the voters are about to become {', '.join(following[0].addresses())}",
                remedy="ask for that once more: it is carried on, and then another change can be made",
            )
        left = [seat for seat in self.was.seats if seat not in self.next.seats]
        if len(self.coming) > 1 or len(left) > 1:
            raise InvalidOption(
                f"{len(self.coming)} voters would come and {len(left)} would go", remedy="change one voter at a time"
            )
        self._refuse_used(after)
        waiting = [seat.address for seat in self.staying if after[seat.address].roster != self.was]
        if waiting:
            raise Unreachable(
                f"{', '.join(waiting)} has not caught up with who votes now", remedy="ask again in a moment"
            )

    def _unfinished(self, after: Answers) -> tuple[Seat, ...]:
        """Return who stays, where the voter that comes was not admitted in the end; () where nothing is unfinished."""
        if sorted(self.wanted) != sorted(self.was.addresses()):
            return ()
        waiting = [
            seat
            for seat in self.was.seats
            if after[seat.address].roster is None and self.was.has(after[seat.address].store)
        ]
        if self.was.number == 1 or len(waiting) != 1:
            return ()
        return tuple(seat for seat in self.was.seats if seat not in waiting)

    def _refuse_used(self, after: Answers) -> None:
        for seat in self.coming:
            if after[seat.address].roster is not None:
                raise InvalidOption(
                    f"{seat.address} has voted before, for another set of voters",
                    remedy="stop it, remove its store, and start it again: then it is a new one",
                )

    def _decide(self) -> Generator[Round | Pause, Answers, None]:
        value = yield from self.proposer.rewrite(self._with_next)
        if value.following != self.next:
            raise InvalidOption(
                "somebody else changes the voters at this moment", remedy="ask once more when that is done"
            )

    def _with_next(self, value: Value, ballot: Ballot) -> Value:
        following = value.following
        if following is not None and following.number > self.was.number:
            return value
        return value._replace(following=self.next)

    def _install(self) -> Generator[Round | Pause, Answers, None]:
        addresses = tuple(seat.address for seat in self.staying)
        yield from tell_all(addresses, Request(Kind.INSTALL, roster=self.next))

    def _admit(self, seat: Seat) -> Generator[Round | Pause, Answers, None]:
        """Give a new voter what it would have, had it been there all the time."""
        addresses = tuple(each.address for each in self.staying)
        while True:
            ballot = self.proposer.bid()
            answers = yield from ask_each(addresses, Request(Kind.PREPARE, self.next.number, ballot))
            self.proposer.highest = max(self.proposer.highest, *(each.promised.round for each in answers.values()), 0)
            voters = {address: each for address, each in answers.items() if each.verdict is Verdict.YES}
            if len(voters) == len(addresses):
                break
            yield Pause("somebody else is at it, or does not answer")
        newest = self.proposer.newest(voters)
        value = self.proposer.cleaned(newest.value, self.next)
        request = Request(Kind.ADMIT, 0, ballot, newest.accepted, value, self.next)
        yield from tell_all((seat.address,), request)
