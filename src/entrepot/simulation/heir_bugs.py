"""Bugs of whom clients know, and of who lets him go first, planted to see that the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from entrepot.base.environment import Instant
from entrepot.ha.candidate import Candidate, Effect
from entrepot.ha.follower import Follower
from entrepot.ha.lease import Precedence, Record, Rules
from entrepot.ha.successors import Telling, heir_of

NAMES_ANYBODY: Final = "one who copies is named"

PLANTED: Final = (
    "clients are told before the lock is",  # and who succeeds in between is another one
    "nobody lets the heir go first",
    "the heir is let go first for ever",  # he is dead, and so is the store
    "an heir out of sync goes first",  # others wait for him, though his copy does not count
    "the heir of an older record counts",  # of two takeovers, the second one goes by the first one's
    "a new primary names no heir",  # who succeeds somebody does not
    "each goes first once",  # who has waited for one heir waits for no other
    "the owner is not named",  # clients know another one when the store is given back
    "another heir each time",  # who connected last is named, whom clients know or not
    NAMES_ANYBODY,  # clients are sent to who copies yet, and may not serve
)


class _Hasty(Telling):
    def news(self, named: str) -> bool:
        return super().news(self.heir)


class _Rude(Precedence):
    def another(self, record: Record | None, now: Instant) -> bool:
        return False


class _Patient(Precedence):
    def another(self, record: Record | None, now: Instant) -> bool:
        self.forget()
        return super().another(record, now)


class _Credulous(Precedence):
    def another(self, record: Record | None, now: Instant) -> bool:
        if record is not None and record.heir not in record.eligible:
            record.eligible = {}
        return super().another(record, now)


class _Nostalgic(Precedence):
    """Goes by the first heir that it ever waited for, or was."""

    heir = ""

    def another(self, record: Record | None, now: Instant) -> bool:
        if record is not None and record.heir:
            self.heir = record.heir = self.heir or record.heir
        return super().another(record, now)


class _Once(Precedence):
    waited = ""

    def another(self, record: Record | None, now: Instant) -> bool:
        if record is not None and record.reserved in ("", Rules.OTHERS):
            self.waited = self.waited or record.heir
            if record.heir != self.waited:
                return False
        return super().another(record, now)


class _Silent(Candidate):
    def wake(self, now: Instant) -> list[Effect]:
        if self.holder is not None:
            self.proposals.name("")
        return super().wake(now)


def _first(in_sync: Sequence[Follower], before: str) -> Follower | None:
    known = [each for each in in_sync if each.connectors]
    return next((each for each in known if each.copy == before), known[0] if known else None)


def _latest(in_sync: Sequence[Follower], before: str) -> Follower | None:
    return heir_of(list(reversed(in_sync)), "")


CANDIDATES: Final[Mapping[str, type[Candidate]]] = {"a new primary names no heir": _Silent}

PRECEDENCES: Final[Mapping[str, type[Precedence]]] = {
    "nobody lets the heir go first": _Rude,
    "the heir is let go first for ever": _Patient,
    "an heir out of sync goes first": _Credulous,
    "the heir of an older record counts": _Nostalgic,
    "each goes first once": _Once,
}

TELLINGS: Final[Mapping[str, type[Telling]]] = {"clients are told before the lock is": _Hasty}

HEIRS: Final[Mapping[str, Callable[[Sequence[Follower], str], Follower | None]]] = {
    "the owner is not named": _first,
    "another heir each time": _latest,
}
