"""Bugs of pairs, planted to see that the simulation finds them: those of a candidate as subclasses of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.environment import Instant
from entrepot.ha.candidate import Candidate, Effect, Memory, Sight, State
from entrepot.ha.lease import EITHER, Precedence, Record, Rules, Watch
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.successors import Note, Roll, Saying, Telling

PLANTED: Final = (
    "no fence",  # what is on disk is confirmed without a look at the lease
    "release first",  # the lease goes back before the ports are closed
    "epoch reused",  # a new master takes the number of the old one
    "impatient",  # a challenger waits for half a lease
    "new locks are free",  # a lock that was deleted is taken at once
    "late writes count",  # what an older epoch writes lands in the store of the younger one
    "renews what is another's",  # the holder does not look whether the lock that it renews is still the one that counts
    "paused is free",  # a backup takes the store that its primary has paused
    "keeps the store",  # a backup that is asked for the store goes on
    "takes what was given back",  # a backup does not let the primary go first
    "equals take what was given back",  # a broker without a part does not let the primary go first
    "misses who came and went",  # a challenger does not ask the store whether there was a master between two looks
    "claims leave no line",  # the epoch of a claim is noted when it was won only
    "takes a doubt for a yes",  # a claim that was not answered is taken for one that was carried out
    "what was left counts",  # clients are told of somebody who is gone, whose note was there before
    "a note counts for ever",  # clients are told of somebody who died while he waited
    "another one each time",  # of two who wait clients are told of the first by name, whoever they know
    "the owner is not named",  # clients know another one when the store is given back
    "old notes stay",  # of each process that ever waited
    "told again and again",  # clients are told of whom they know
    "nobody is no news",  # clients are not told that nobody waits any more
    "clients are told before the lock is",  # and who succeeds in between is another one
    "said once",  # who waits says so when it begins
    "whoever is first",  # clients were sent to one who waits, and another takes over
    "after you for ever",  # whom clients know is dead, too, and the others wait for him
)


class _ReusesEpochs(Candidate):
    def recalled(self, memory: Memory, now: Instant, wall: int) -> list[Effect]:
        before = memory.epoch or (0 if self._sight.record is None else self._sight.record.epoch)
        effects = super().recalled(memory, now, wall)
        if self.state is State.CLAIMING and before:
            self.mine.epoch = before
        return effects


class _Impatient(Candidate):
    def _is_over(self, record: Record, now: Instant) -> bool:
        over = super()._is_over(record, now)
        return over or self._watch.unchanged(self._asked) * 2 >= record.lease


class _TakesNewLocks(Candidate):
    def _is_missing(self, sight: Sight, now: Instant) -> bool:
        super()._is_missing(sight, now)
        self._unchanged = None
        return True


class _RenewsAnothers(Candidate):
    def swapped(self, version: int, now: Instant) -> list[Effect]:
        return super().swapped(self.version if version < 0 and self.state is State.RENEWING else version, now)


class _Blind(Rules):
    """Does not see one kind of reservation."""

    def __init__(self, part: str, kind: str) -> None:
        super().__init__(part, twins=True)
        self.kind: Final = kind

    def leaves_alone(self, record: Record, watch: Watch, now: Instant) -> bool:
        return super().leaves_alone(record, watch, now) and record.reserved != self.kind


class _TakesWhatIsPaused(Candidate):
    def __init__(self, mine: Record, options: SharedStoreOptions) -> None:
        super().__init__(mine, options)
        self.rules = _Blind(options.part, Rules.PAUSED)


class _TakesWhatWasGivenBack(Candidate):
    def __init__(self, mine: Record, options: SharedStoreOptions) -> None:
        super().__init__(mine, options)
        self.rules = _Blind(options.part, Rules.FAILBACK)


class _EqualsTakeWhatWasGivenBack(Candidate):
    def __init__(self, mine: Record, options: SharedStoreOptions) -> None:
        super().__init__(mine, options)
        if options.part == EITHER:
            self.rules = _Blind(options.part, Rules.FAILBACK)


class _KeepsTheStore(Candidate):
    def asked(self, request: tuple[str, int] | None) -> list[Effect]:
        return []


class _MissesMasters(Candidate):
    def _is_news(self, memory: Memory, now: Instant) -> bool:
        return False


class _Pushes(Candidate):
    def __init__(self, mine: Record, options: SharedStoreOptions) -> None:
        super().__init__(mine, options)
        self.precedence = _NoManners(mine.instance)


class _NoManners(Precedence):
    def another(self, record: Record | None, now: Instant) -> bool:
        return False


class _StandsBack(Candidate):
    def __init__(self, mine: Record, options: SharedStoreOptions) -> None:
        super().__init__(mine, options)
        self.precedence = _Patient(mine.instance)


class _Patient(Precedence):
    def another(self, record: Record | None, now: Instant) -> bool:
        self.forget()
        return super().another(record, now)


class _TakesDoubtForYes(Candidate):
    def unanswered(self, now: Instant) -> list[Effect]:
        if self.state is State.CLAIMING:
            return self.swapped(self.version + 1, now)
        return super().unanswered(now)


class _TrustsWhatWasLeft(Roll):
    def _compare(self, name: str, note: Note, at: Instant) -> None:
        if name not in self._seen:
            super()._compare(name, note._replace(said=-1), at)
        super()._compare(name, note, at)


class _NeverEnds(Roll):
    def _choose(self, waiting: list[str]) -> str:
        return super()._choose([name for name, seen in self._seen.items() if seen.fresh])


class _Fickle(Roll):
    def _choose(self, waiting: list[str]) -> str:
        return min(waiting, default="")


class _Selfish(Roll):
    def _choose(self, waiting: list[str]) -> str:
        return self.first if self.first in waiting else min(waiting, default="")


class _Hoards(Roll):
    def look(self, found: Mapping[str, Note], at: Instant) -> Note | None:
        note = super().look(found, at)
        self.forgotten = []
        return note


class _Repeats(Telling):
    def news(self, named: str) -> bool:
        super().news(named)
        return True


class _KeepsQuiet(Telling):
    def news(self, named: str) -> bool:
        return bool(self.heir) and super().news(named)


class _Hasty(Telling):
    def news(self, named: str) -> bool:
        return super().news(self.heir)


class _SaysOnce(Saying):
    def due(self, at: Instant) -> bool:
        return not self.count and super().due(at)


ROLLS: Final[Mapping[str, type[Roll]]] = {
    "what was left counts": _TrustsWhatWasLeft,
    "a note counts for ever": _NeverEnds,
    "another one each time": _Fickle,
    "the owner is not named": _Selfish,
    "old notes stay": _Hoards,
}

TELLINGS: Final[Mapping[str, type[Telling]]] = {
    "told again and again": _Repeats,
    "nobody is no news": _KeepsQuiet,
    "clients are told before the lock is": _Hasty,
}

SAYINGS: Final[Mapping[str, type[Saying]]] = {"said once": _SaysOnce}

BUGS: Final[Mapping[str, type[Candidate]]] = {
    "epoch reused": _ReusesEpochs,
    "impatient": _Impatient,
    "new locks are free": _TakesNewLocks,
    "renews what is another's": _RenewsAnothers,
    "paused is free": _TakesWhatIsPaused,
    "keeps the store": _KeepsTheStore,
    "takes what was given back": _TakesWhatWasGivenBack,
    "equals take what was given back": _EqualsTakeWhatWasGivenBack,
    "misses who came and went": _MissesMasters,
    "takes a doubt for a yes": _TakesDoubtForYes,
    "whoever is first": _Pushes,
    "after you for ever": _StandsBack,
}
