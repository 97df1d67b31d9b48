"""One voter of a register: what it promises, and what it accepts. No I/O; nothing is answered before it is kept.

`Voter.weigh` says what would be answered and what must be on disk before; the shell writes that, then calls `settle`,
then answers. So a voter that is killed between any two steps has promised nothing that it does not remember.

It is stricter than Paxos asks for: a value is accepted only with the very ballot that was promised last. A voter that
lost its store and was admitted anew has promised nothing of before, so no proposer can count it for what it forgot.
"""

from __future__ import annotations

from typing import NamedTuple

from entrepot.ha.votes import Answer, Kind, Request, State, Verdict


class Weighed(NamedTuple):
    """``answer`` may be given once ``state`` is on disk; None: there is nothing new to keep."""

    answer: Answer
    state: State | None = None


class Voter:
    """The rules. ``state`` is what is on disk."""

    def __init__(self, state: State) -> None:
        self.state = state

    def weigh(self, request: Request) -> Weighed:
        """Return what ``request`` is answered, and what must be kept before. Changes nothing."""
        kind = request.kind
        if kind is Kind.HELLO:
            return self._says(Verdict.YES if self.state.roster is not None else Verdict.NEW)
        if kind is Kind.FOUND:
            return self._found(request)
        if kind is Kind.ADMIT:
            return self._admitted(request)
        roster = self.state.roster
        if roster is None:
            return self._says(Verdict.NEW)
        if kind is Kind.INSTALL:
            return self._installed(request)
        if roster.number != request.number:
            return self._says(Verdict.MOVED if roster.number > request.number else Verdict.BEHIND)
        if kind is Kind.READ:
            return self._says(Verdict.YES)
        return self._promised(request) if kind is Kind.PREPARE else self._accepted(request)

    def settle(self, state: State) -> None:
        """``state`` is on disk."""
        self.state = state

    def _promised(self, request: Request) -> Weighed:
        if request.ballot <= self.state.promised:
            return self._says(Verdict.OUTBID)
        return self._keeps(self.state._replace(promised=request.ballot))

    def _accepted(self, request: Request) -> Weighed:
        if request.ballot != self.state.promised:
            return self._says(Verdict.OUTBID)
        return self._keeps(self.state._replace(accepted=request.ballot, value=request.value))

    def _found(self, request: Request) -> Weighed:
        """From the beginning: only the first roster may begin without knowing what there was before."""
        roster, state = request.roster, self.state
        if roster is None or roster.number != 1 or not roster.has(state.store):
            return self._says(Verdict.NO)
        if state.roster is not None:
            return self._says(Verdict.YES if state.roster == roster else Verdict.MOVED)
        return self._keeps(state._replace(roster=roster))

    def _installed(self, request: Request) -> Weighed:
        roster, mine = request.roster, self.state.roster
        if roster is None or mine is None:
            return self._says(Verdict.NO)
        if roster == mine:
            return self._says(Verdict.YES)
        if roster.number != mine.number + 1:
            return self._says(Verdict.MOVED if roster.number <= mine.number else Verdict.BEHIND)
        return self._keeps(self.state._replace(roster=roster))

    def _admitted(self, request: Request) -> Weighed:
        roster, state = request.roster, self.state
        if roster is None or not roster.has(state.store):
            return self._says(Verdict.NO)
        if state.roster is not None:
            return self._says(Verdict.YES if state.roster == roster else Verdict.NO)
        return self._keeps(
            state._replace(roster=roster, promised=request.ballot, accepted=request.accepted, value=request.value)
        )

    def _says(self, verdict: Verdict) -> Weighed:
        return Weighed(_answer(verdict, self.state))

    def _keeps(self, state: State) -> Weighed:
        return Weighed(_answer(Verdict.YES, state), state)


def _answer(verdict: Verdict, state: State) -> Answer:
    return Answer(verdict, state.store, state.promised, state.accepted, state.value, state.roster)
