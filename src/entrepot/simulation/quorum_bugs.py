"""Bugs of registers that voters keep, planted to see that the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.ha.register import Answers, Ask, Course, Found, Proposer, Unknown
from entrepot.ha.votes import Answer, Roster, Value

PLANTED: Final = (
    "a vote counts twice",
    "promise is not kept",  # the ballot is in memory only when it is answered
    "value is not kept",
    "a lost store votes",  # a voter that lost its store goes on as the one that it was
    "a minority is read",
    "the first promise decides",  # and not the one with the highest ballot
    "a doubt is a no",  # a swap that was sent and not confirmed counts as refused
    "any ballot is accepted",  # a voter takes a value though it has promised a higher one
    "a lost write takes both places",  # the disk of a voter forgets what it was told last, though it was synced
    "a cut is a death",  # a connection that broke counts as the end of the process
)


class _CountsTwice(Proposer):
    def _many(self, roster: Roster) -> Callable[[Answers], bool]:
        return lambda answers: 2 * len(self.counted(answers, roster)) >= roster.majority

    def counted(self, answers: Answers, roster: Roster) -> dict[str, Answer]:
        found = super().counted(answers, roster)
        return found | {f"{address} again": answer for address, answer in found.items()}


class _ReadsMinorities(Proposer):
    def _agreement(self, answers: Answers, roster: Roster) -> Value | None:
        voters = self.counted(answers, roster)
        return next(iter(voters.values())).value if voters else None


class _TakesFirst(Proposer):
    def newest(self, promises: Answers) -> Answer:
        return next(iter(promises.values()))


class _DoubtIsNo(Proposer):
    def swap(self, expected: int, octets: bytes) -> Course:
        course = super().swap(expected, octets)
        return _NoDoubt(course)


class _NoDoubt(Course):
    """A course that says no where nobody knows."""

    def __init__(self, course: Course) -> None:
        super().__init__(course._steps)

    def _advance(self, answers: Answers | None) -> list[Ask]:
        asks = super()._advance(answers)
        if isinstance(self.outcome, Unknown):
            self.outcome = Found(-1, b"")
        return asks


PROPOSERS: Final[Mapping[str, type[Proposer]]] = {
    "a vote counts twice": _CountsTwice,
    "a minority is read": _ReadsMinorities,
    "the first promise decides": _TakesFirst,
    "a doubt is a no": _DoubtIsNo,
}
