"""One broker that wants the lease of a store, has it, and gives it back: every decision about that, and no I/O.

The core says what to do (`Effect`), one question at a time; the shell asks the lock and reports: `seen`, `recalled`,
`swapped`, or `unanswered` when it does not know. So a process and a simulated one win, keep and lose in the same way.

- **The epoch is chosen here**, in `_claim`: one more than whatever the lock or the store remembers.
- **A swap whose fate is not known** (no answer, or the lock was not as expected: perhaps an earlier swap arrived after
  all) is resolved in one way: look. Where our own claim stands, it counts from when it was asked for; else it is
  another's.

Invariants (`check`): only a tenure that was won holds, and a candidate that has lost never asks the lock again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from entrepot.base.environment import MILLISECOND, Duration, Instant, WallTime
from entrepot.base.errors import Fault, InvalidOption
from entrepot.ha.failback import Heard
from entrepot.ha.lease import BACKUP, PRIMARY, Grant, Precedence, Record, Rules, Tenure, Watch, patience, refuse_twin
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.proposals import Named, Proposals, Recorded
from entrepot.ha.standing import Standing

LOOK_EVERY: Final[Duration] = 100 * MILLISECOND
"""Between two looks at a lock that does not wake us: a tenth of what a takeover may take."""

ASK_EVERY: Final[Duration] = 500 * MILLISECOND
"""Between two requests for the store: half of the time between two looks of a holder with the default lease."""


class State(Enum):
    """What it does."""

    WAITING = "waiting"  # until the next look
    LOOKING = "looking"
    RECALLING = "recalling"  # the lock may be had: asks what the store remembers of its masters
    CLAIMING = "claiming"  # asked to have its claim put into the lock
    DOUBTING = "doubting"  # looks whether its claim is there
    RETURNING = "returning"  # won too late to use it: hands it back and waits
    HOLDING = "holding"  # until the next renewal
    RENEWING = "renewing"
    UNSURE = "unsure"  # looks whether the lock is still its own
    LOST = "lost"
    RELEASING = "releasing"
    PARTING = "parting"  # looks whether the lock that it hands back is still its own
    ENDED = "ended"


class Signal(Enum):
    """What moves it."""

    LOOK = "it is time to look"
    WAIT = "somebody has the lock, or may have it"
    FREE = "nobody has the lock any more"
    CLAIM = "the store remembers nobody who could"
    DONE = "the lock was changed as asked for"
    DOUBT = "whether the lock was changed is not known"
    OURS = "the lock is ours"
    OTHERS = "the lock is not ours"
    LATE = "the lease is over before it was used"
    RENEW = "it is time to renew"
    LOSE = "the lease is not ours any more, or might not be"
    RELEASE = "the broker ends"


TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    (State.WAITING, Signal.LOOK): State.LOOKING,
    (State.LOOKING, Signal.WAIT): State.WAITING,
    (State.LOOKING, Signal.FREE): State.RECALLING,
    (State.RECALLING, Signal.WAIT): State.WAITING,
    (State.RECALLING, Signal.CLAIM): State.CLAIMING,
    (State.CLAIMING, Signal.DONE): State.HOLDING,
    (State.CLAIMING, Signal.LATE): State.RETURNING,
    (State.CLAIMING, Signal.DOUBT): State.DOUBTING,
    (State.DOUBTING, Signal.OURS): State.HOLDING,
    (State.DOUBTING, Signal.LATE): State.RETURNING,
    (State.DOUBTING, Signal.OTHERS): State.WAITING,
    (State.DOUBTING, Signal.DOUBT): State.WAITING,
    (State.RETURNING, Signal.DONE): State.WAITING,
    (State.RETURNING, Signal.DOUBT): State.WAITING,
    (State.HOLDING, Signal.RENEW): State.RENEWING,
    (State.HOLDING, Signal.LOSE): State.LOST,
    (State.HOLDING, Signal.RELEASE): State.RELEASING,
    (State.RENEWING, Signal.DONE): State.HOLDING,
    (State.RENEWING, Signal.DOUBT): State.UNSURE,
    (State.RENEWING, Signal.LOSE): State.LOST,
    (State.RENEWING, Signal.RELEASE): State.RELEASING,
    (State.UNSURE, Signal.OURS): State.HOLDING,
    (State.UNSURE, Signal.DOUBT): State.UNSURE,
    (State.UNSURE, Signal.OTHERS): State.LOST,
    (State.UNSURE, Signal.LOSE): State.LOST,
    (State.UNSURE, Signal.RELEASE): State.RELEASING,
    (State.RELEASING, Signal.DONE): State.ENDED,
    (State.RELEASING, Signal.DOUBT): State.PARTING,
    (State.PARTING, Signal.OURS): State.RELEASING,
    (State.PARTING, Signal.OTHERS): State.ENDED,
    (State.PARTING, Signal.DOUBT): State.ENDED,
}

WAITS: Final = (State.WAITING, State.LOOKING, State.RECALLING, State.CLAIMING, State.DOUBTING, State.RETURNING)
HOLDS: Final = (State.HOLDING, State.RENEWING, State.UNSURE)


class System(Enum):
    """What a lock of the operating system, beside the record, says."""

    NONE = "none"  # the lock is a record only
    OTHERS = "others"  # a process has it
    OURS = "ours"  # nobody else has it
    PROVED = "proved"  # and it is known to keep others out


class Sight:
    """What one look at the lock found.

    ``record``: None where none stands; ``version``: what a swap must find unchanged. ``place``: identity of the file,
    to be compared with the record's. ``stranger``: what stands there is of a broker that shares with nobody.
    ``wrong``: why what stands there is not as we left it, though it may look like it.
    """

    def __init__(
        self,
        record: Record | None,
        version: int,
        *,
        system: System = System.NONE,
        place: int = 0,
        stranger: bool = False,
        wrong: str = "",
    ) -> None:
        self.record: Final = record
        self.version: Final = version
        self.system: Final = system
        self.place: Final = place
        self.stranger: Final = stranger
        self.wrong: Final = wrong


class Memory:
    """What the store itself remembers: the highest ``epoch``, the longest ``lease`` of a master that may live yet.

    ``empty``: nobody was master yet.
    """

    def __init__(self, epoch: int, lease: Duration, *, empty: bool) -> None:
        self.epoch: Final = epoch
        self.lease: Final = lease
        self.empty: Final = empty


class Look:
    """Read the lock, then call `Candidate.seen`."""


class Recall:
    """Ask the store, then call `Candidate.recalled`."""


class Swap:
    """Put ``Candidate.mine`` into the lock if it still is at ``version``, then call `Candidate.swapped`."""

    def __init__(self, version: int) -> None:
        self.version: Final = version


class Sleep:
    """Call `Candidate.wake` at ``until``, or earlier. ``watching``: also when the lock changes."""

    def __init__(self, until: Instant, *, watching: bool) -> None:
        self.until: Final = until
        self.watching: Final = watching


class Won:
    """The lease is ours."""

    def __init__(self, grant: Grant) -> None:
        self.grant: Final = grant


class Lost:
    """The lease is not ours any more, or might not be; ``Candidate.tenure`` says why."""


class AskBack:
    """Ask whoever has the store for it."""


class Heed:
    """Look whether a primary asks for the store, then call `Candidate.asked`."""


class GiveBack:
    """The primary asks for its store: stop, and release."""


Effect = Look | Recall | Swap | Sleep | Won | Lost | AskBack | Heed | GiveBack | Recorded | Named


class Candidate:
    """One broker and the lease of one store. Call `wake` to begin; carry out effects in order, each to its end."""

    def __init__(self, mine: Record, options: SharedStoreOptions, standing: Standing | None = None) -> None:
        """``mine``: our record; changed here, and put into the lock by the shell.

        ``standing``: of this broker's copy, where the store is replicated; None where it is shared.
        """
        self.mine: Final = mine
        self.standing: Final = standing
        self.options: Final = options
        self.rules = Rules(options.part, twins=options.twins, mine=mine)
        self.tenure: Final = Tenure(options.lease)
        self.precedence = Precedence(mine.instance if standing is None else standing.copy)
        self.state = State.WAITING
        self.holder: Record | None = None  # who was seen to have it last
        self.gave_back = False
        self.steps_down = False  # an operator wants another one to serve
        self.emptied = False  # all that it took over is at another broker
        self.version = 0  # of what we put into the lock last
        self._watch: Final = Watch()  # of a record whose holder may live
        self._unproved: Final = Watch()  # of one whose lock of the system is ours, for what that is worth
        self._place = 0  # of the file that `_unproved` watches
        self._sight = Sight(None, 0)
        self._why = ""
        self._unchanged: Duration | None = None  # for how long; None: it need not be
        self._remembered = -1  # the epoch that the store remembered when the wait began
        self._asked: Instant = 0  # when the question was put that is open
        self._claimed: Instant = 0
        self._asked_back: Instant | None = None
        self._heard: Final = Heard()
        self.proposals: Final = Proposals()

    # -- what happens --------------------------------------------------------------------------------------------------

    def wake(self, now: Instant) -> list[Effect]:
        """It is time, or something may have changed."""
        if self.state is State.WAITING:
            self._move(Signal.LOOK)
            return self._ask(Look(), now)
        if self.state is State.UNSURE:
            return self._held_on(now) or self._ask(Look(), now)
        if self.state is State.HOLDING:
            return self._hold(now)
        return []

    def seen(self, sight: Sight, now: Instant) -> list[Effect]:
        """A look found ``sight``; ``now`` is after it was taken. Raises InvalidOption: waiting will not mend it."""
        if self.state is State.LOOKING:
            return self._consider(sight, now)
        ours = self._is_ours(sight)
        if ours:
            self.version = sight.version
        if self.state is State.DOUBTING:
            return self._in_office(Signal.OURS, now) if ours else self._wait(Signal.OTHERS, now)
        if self.state is State.UNSURE:
            return self._found_out(sight, ours, now)
        if self.state is State.PARTING:
            self._move(Signal.OURS if ours else Signal.OTHERS)
            return self._ask(Swap(self.version), now) if ours else []
        return []

    def recalled(self, memory: Memory, now: Instant, wall: WallTime) -> list[Effect]:
        """The store remembers ``memory``."""
        if self.state is not State.RECALLING:
            return []
        if self._unchanged is not None:
            new = self._sight.record is None and memory.empty
            if not new and (self._is_news(memory, now) or self._unchanged < self._patience(memory)):
                return self._wait(Signal.WAIT, now)
            self._why = "the store is new" if new else self._why
        return self._claim(memory, now, wall)

    def swapped(self, version: int, now: Instant) -> list[Effect]:
        """The lock is at ``version`` with our record in it; -1: it was not at the version that was expected."""
        if version < 0:
            return self._doubt(now)
        self.version = version
        if self.state is State.CLAIMING:
            return self._in_office(Signal.DONE, now)
        if self.state is State.RENEWING:
            return self._renewed(now)
        if self.state is State.RETURNING:
            return self._wait(Signal.DONE, now)
        if self.state is State.RELEASING:
            self._move(Signal.DONE)
        return []

    def unanswered(self, now: Instant) -> list[Effect]:
        """Whether the question that was open was carried out is not known."""
        if self.state in (State.LOOKING, State.RECALLING):
            self._forget()
            return self._wait(Signal.WAIT, now)
        if self.state is State.DOUBTING:
            return self._wait(Signal.DOUBT, now)
        if self.state is State.UNSURE:
            return self._held_on(now) or [Sleep(now + self._soon, watching=False)]
        if self.state is State.PARTING:
            self._move(Signal.DOUBT)
            return []
        return self._doubt(now)

    def asked(self, request: tuple[str, int] | None) -> list[Effect]:
        """``request`` for the store is there: who asks, and how often he did."""
        if self._heard.look(request) and not self.gave_back:
            self.gave_back = True
            return [GiveBack()]
        return []

    def release(self, now: Instant) -> list[Effect]:
        """Hand the lease back, if it is ours: the ports and the store are closed by now. The end in any case."""
        if self.state not in HOLDS or not self.tenure.holds(now):
            self.state = State.LOST if self.tenure.lost else State.ENDED
            return []
        self._move(Signal.RELEASE)
        self.mine.released = True
        if self.gave_back:
            self.mine.reserved = Rules.FAILBACK
        elif self.steps_down:
            self.mine.reserved = Rules.OTHERS
        elif self.emptied or not (self.options.failover_on_shutdown or self.options.drains):
            self.mine.reserved = Rules.PAUSED
        return self._ask(Swap(self.version), now)

    def withdraw(self, now: Instant) -> list[Effect]:
        """Wait no longer; what was won at the same moment is handed back, to anybody."""
        if self.state in HOLDS and self.tenure.holds(now):
            self._move(Signal.RELEASE)
            self.mine.released = True
            return self._ask(Swap(self.version), now)
        self.state = State.ENDED
        return []

    def check(self) -> None:
        """Assert what must be true at any moment. Raises AssertionError."""
        self.tenure.check()
        assert self.state not in HOLDS or self.tenure.epoch == self.mine.epoch, "in office with another epoch"
        assert self.state not in WAITS or not self.tenure.lost, "it lost the lease and wants it again"

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _consider(self, sight: Sight, now: Instant) -> list[Effect]:
        """Decide whether the lock may be had."""
        record = self.holder = sight.record
        self._sight = sight
        self._unchanged = None
        barred = sight.system is System.OTHERS
        if record is None:
            free = not barred and self._is_missing(sight, now)
        elif record.released and not barred and self.rules.leaves_alone(record, self._watch, now):
            free = False
        elif record.released and not barred and record.place == sight.place:
            self._why = f"{record.describe()} handed over"
            free = True
        elif sight.system in (System.OURS, System.PROVED):
            free = self._is_dead(record, sight, now)
        else:
            free = self._is_over(record, now)
        if not free or not (self.standing is None or self.standing.may_claim(record)):
            self.precedence.forget()
            return self._wait(Signal.WAIT, now)
        if self.precedence.another(record, now):
            return self._wait(Signal.WAIT, now)
        self._move(Signal.FREE)
        return self._ask(Recall(), now)

    def _is_missing(self, sight: Sight, now: Instant) -> bool:
        """No record stands there: the store is new, or its holder does not know yet."""
        if sight.stranger:
            self._why = "the store is new"
            return True
        self._watched(sight).missed(now)
        self._unchanged = self._watched(sight).unchanged(self._asked)
        self._why = "the lock had been deleted or replaced, and the lease of its last holder has run out"
        return True

    def _is_dead(self, record: Record, sight: Sight, now: Instant) -> bool:
        """Nobody has the lock of the system: proof of a death, if that lock keeps others out. Raises InvalidOption."""
        self._why = f"{record.describe()} has ended without handing over"
        if record.place == sight.place and sight.system is System.PROVED:
            return True
        watch = self._watched(sight)
        watch.observe(record, now)
        if watch.alive:
            raise InvalidOption(
                f"locks keep nobody out of this directory: {record.describe()} renews its lease while this broker has "
                "the lock",
                remedy="mount it with locks that all machines see (NFS version 4), or use another locker",
            )
        self._unchanged = watch.unchanged(self._asked)
        return True

    def _is_over(self, record: Record, now: Instant) -> bool:
        """Somebody has it, and must have shown no life for longer than his lease. Raises InvalidOption for a twin."""
        self._watch.observe(record, now)
        if self._watch.alive and not self.rules.twins:
            refuse_twin(record, self.mine)
        self._why = f"the lease of {record.describe()} has run out: it gives no sign of life"
        return self._watch.expired(record, self._asked)

    def _watched(self, sight: Sight) -> Watch:
        """Return the watch of what is not known to be free; another file in its place is another lock."""
        if sight.system is System.NONE:
            return self._watch
        if sight.place != self._place:
            self._place = sight.place
            self._unproved.forget()
        return self._unproved

    def _is_news(self, memory: Memory, now: Instant) -> bool:
        """Say whether somebody came and went between two looks, and begin the wait anew then."""
        if memory.epoch == self._remembered:
            return False
        self._remembered = memory.epoch
        self._forget()
        watch, record = self._watched(self._sight), self._sight.record
        if record is None:
            watch.missed(now)
        else:
            watch.observe(record, now)
        return True

    def _forget(self) -> None:
        """What happened since the last look is not known: whatever was seen says nothing any more."""
        self._watch.forget()
        self._unproved.forget()

    def _patience(self, memory: Memory) -> Duration:
        return patience(max(self.options.lease.duration, memory.lease))

    def _wait(self, signal: Signal, now: Instant) -> list[Effect]:
        self._move(signal)
        holder = self.holder
        effects: list[Effect] = []
        asks = self.options.part == PRIMARY and holder is not None and not holder.released
        if asks and (self._asked_back is None or now - self._asked_back >= ASK_EVERY):
            self._asked_back = now
            effects.append(AskBack())
        return [*effects, Sleep(now + LOOK_EVERY, watching=True)]

    def _claim(self, memory: Memory, now: Instant, wall: WallTime) -> list[Effect]:
        """Ask for it, with an epoch that nobody had."""
        self._move(Signal.CLAIM)
        mine, record = self.mine, self._sight.record
        mine.epoch = 1 + max(memory.epoch, 0 if record is None else record.epoch)
        mine.beat = 1
        mine.since = wall
        mine.released = False
        mine.reserved = mine.heir = ""
        if self.standing is not None:
            mine.eligible = self.standing.claimed(record, mine.epoch)
            self.standing.claims(mine.epoch)
        self._claimed = now
        return self._ask(Swap(self._sight.version), now)

    def _in_office(self, signal: Signal, now: Instant) -> list[Effect]:
        """Our claim stands in the lock. It counts from when it was asked for, and may be over by now."""
        if now >= self._claimed + self.options.lease.trusted:
            self._move(Signal.LATE)
            self.mine.released = True
            return self._ask(Swap(self.version), now)
        self._move(signal)
        grant = Grant(self.mine.epoch, self._claimed, self._why)
        self.tenure.won(grant)
        return [Won(grant), Sleep(self.tenure.deadline(), watching=False)]

    # -- keeping it ----------------------------------------------------------------------------------------------------

    def _held_on(self, now: Instant) -> list[Effect]:
        """Return nothing while the lease lasts, else what to do about it."""
        if self.tenure.holds(now):
            return []
        self._move(Signal.LOSE)
        self.tenure.lose("the broker stood still for longer than its lease")
        return [Lost()]

    def _hold(self, now: Instant) -> list[Effect]:
        lost = self._held_on(now)
        if lost:
            return lost
        if now < self.tenure.deadline() and (self.tenure.failing or not self.proposals.open):
            return [Sleep(self.tenure.deadline(), watching=False)]
        self._move(Signal.RENEW)
        self.mine.beat += 1
        self.proposals.send(self.mine)
        return self._ask(Swap(self.version), now)

    def _renewed(self, now: Instant) -> list[Effect]:
        if not self.tenure.renewed(self._asked, now):
            self._move(Signal.LOSE)
            return [Lost()]
        self._move(Signal.DONE)
        recorded = self.proposals.answered(self.mine)
        would = self.options.allow_failback or self.options.drains  # who serves nobody has no reason to keep a store
        heeds = self.options.part == BACKUP and would and not self.gave_back
        until = now if self.proposals.open else self.tenure.deadline()  # it was made while the lock was asked
        return [*recorded, *([Heed()] if heeds else []), Sleep(until, watching=False)]

    def _doubt(self, now: Instant) -> list[Effect]:
        """Whether the lock was changed is not known: find out."""
        if self.state is State.RETURNING:
            return self._wait(Signal.DOUBT, now)
        if self.state is State.RENEWING:
            lost = self._held_on(now)
            if lost:
                return lost
        if self.state not in (State.CLAIMING, State.RENEWING, State.RELEASING):
            return []
        self._move(Signal.DOUBT)
        return self._ask(Look(), now)

    def _found_out(self, sight: Sight, ours: bool, now: Instant) -> list[Effect]:
        if not ours:
            self._move(Signal.OTHERS)
            whose = "nobody" if sight.record is None else sight.record.describe()
            self.tenure.lose(sight.wrong or f"the lease now belongs to {whose}")
            return [Lost()]
        lost = self._held_on(now)
        if lost:
            return lost
        self._move(Signal.OURS)
        self.tenure.failed(now)
        return [Sleep(self.tenure.deadline(), watching=False)]

    def _is_ours(self, sight: Sight) -> bool:
        """Say whether what stands in the lock is what we put there."""
        there = sight.record
        return (
            there is not None
            and not sight.wrong
            and not there.released
            and (there.instance, there.epoch) == (self.mine.instance, self.mine.epoch)
        )

    @property
    def _soon(self) -> Duration:
        return self.options.lease.renew_every // 4

    # -- states --------------------------------------------------------------------------------------------------------

    def _ask(self, question: Effect, now: Instant) -> list[Effect]:
        self._asked = now
        return [question]

    def _move(self, signal: Signal) -> None:
        state = TRANSITIONS.get((self.state, signal))
        if state is None:
            raise Fault(f"a candidate that is {self.state.value} was told {signal.value!r}")
        self.state = state
