"""This broker's place among those that share a store: waits for the lease, keeps it, notices when it is gone.

A thread of its own talks to the lock, so that neither a long recovery nor a busy loop costs the lease. It does what
`ha/candidate.py` asks for, and decides nothing. What the broker has to do about it comes out of `ha/role.py`; until the
lease is won nothing of a broker is in memory but this.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, assert_never

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import EntrepotError, Refused, StoreLost, StoreUnusable
from entrepot.ha.candidate import (
    AskBack,
    Candidate,
    Effect,
    GiveBack,
    Heed,
    Look,
    Lost,
    Memory,
    Recall,
    Sleep,
    State,
    Swap,
    Won,
)
from entrepot.ha.lease import PRIMARY, Grant, Record, Rules
from entrepot.ha.options import FILE_LOCKER, SharedStoreOptions
from entrepot.ha.proposals import Named, Recorded
from entrepot.ha.role import Role, RoleCore, Signal
from entrepot.ha.successors import Connectors
from entrepot.io.failback import Asked, Asking
from entrepot.io.leases import FileLock, Lock, me, now, wall
from entrepot.io.ledger import Ledger, highest_epoch
from entrepot.io.waiting import Waiting

if TYPE_CHECKING:
    from entrepot.io.copying import CopyDirectory

REPLICATED: Final = "replicated"
"""What a lock in a service belongs to, where each broker has a store of its own: `?name=` tells such locks apart."""

LOOK_AFTER_SYNC_S: Final = 0.05
"""Between two looks at the lock file after a sync: each lets go of the interpreter once more, 8 % when made each time.

Whoever finds another file there waits for a lease, 200 ms at the least, before he believes in it: so a moment does no
harm.
"""

ANSWER_WITHIN_S: Final = 0.2
"""Until a broker that steps down begins to stop: for the answer to who asked for that."""

log: Final = logging.getLogger("entrepot.ha")

SLAVE_MODE: Final = "this broker is in slave mode"  # by these words `known_codes` knows the line


class Standby:
    """Call `win`, then serve as long as `holds`; `lost` is called on the loop when that is over. End with `release`."""

    def __init__(self, directory: Path, name: str, options: SharedStoreOptions) -> None:
        """Raises InvalidOption, InvalidURI, StoreUnusable."""
        self.directory: Final = directory
        self.options: Final = options
        self.role: Final = RoleCore()
        self.mine: Final = me(options.holder or name, store="", options=options.lease)
        self.copy: CopyDirectory | None = None
        place = directory  # of the lock, and of the ledger that goes with it
        if options.replication is not None:
            from entrepot.io.copying import CopyDirectory, lock_directory  # noqa: PLC0415 - few brokers need it

            place = lock_directory(options.locker) or directory
            self.copy = CopyDirectory(directory, name, options)
        standing = None if self.copy is None else self.copy.standing
        self.candidate: Final = Candidate(self.mine, options, standing)
        self.tenure: Final = self.candidate.tenure
        self.ledger: Final = Ledger(place)
        if self.copy is not None:
            self.copy.kept_aside = lambda epoch, what: self.ledger.note("kept aside", self.mine, epoch, what)
        self.answered: Callable[[Recorded | Named], None] = lambda effect: None  # on the loop
        self.about: Callable[[], dict[str, Any]] = dict  # what is to be said of replication
        self.more: Final[dict[str, Callable[[], dict[str, object]]]] = {}  # that the status page says, by name
        self.successor: Callable[[], bool] = lambda: False  # of a replicated store: whether a replica is in sync
        self.would_return: Callable[[], bool] = lambda: True  # whether who takes over gives the store back
        self.lost: Callable[[str], None] = lambda why: None
        self.asked_back: Callable[[str], None] = lambda why: None
        self._asking: Final = Asking(directory, self.mine)
        self._asked: Final = Asked(directory)
        told = options.connectors if self.copy is None else {}
        self.waiting: Final = Waiting(directory, self.mine, told, owns=options.part == PRIMARY)
        self.grant: Grant | None = None
        self.since = wall()
        self._wake = threading.Event()
        self._quit = False
        self._told = ""
        self._next_look = 0.0  # s
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._won: asyncio.Future[Grant] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waited = False  # the lock could be used
        self._lock: Lock
        if options.locker == FILE_LOCKER or place != directory:
            self._lock = FileLock(place, self._wake.set)
        else:
            from entrepot.io.registers import RegisterLock, open_register  # noqa: PLC0415 - 2 MB that few need

            register = open_register(options.locker, options.lease, self.mine.instance)
            shared = options.replication is None
            self._lock = RegisterLock(register, directory, self.mine, store="" if shared else REPLICATED)

    @property
    def holder(self) -> Record | None:
        """Return who was seen to be master last; ourselves when we are."""
        return self.mine if self.grant is not None and not self.tenure.lost else self.candidate.holder

    async def win(self) -> Grant:
        """Wait until this broker is the master. Raises OperatorError when that can never be. May be cancelled."""
        self._loop = asyncio.get_running_loop()
        self._won = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="entrepot-lease", daemon=True)
        self._thread.start()
        try:
            self.grant = await self._won
        except BaseException:
            self._end()
            raise
        self.since = self.mine.since
        if self.options.part == PRIMARY:
            self._asking.over()
        self.role.signal(Signal.WON)
        before = "it was a backup; " if SLAVE_MODE in self._told else ""
        log.info("%s is the master now, epoch %d: %s", self.mine.name, self.grant.epoch, before + self.grant.why)
        self._watch_out()
        return self.grant

    def holds(self) -> bool:
        """Say whether this broker still is the master, for certain; a comparison of two numbers."""
        return self.tenure.holds(now())

    def look(self) -> None:
        """After a sync, by the thread that made it: see now and then whether another lock is in the place of ours."""
        at = monotonic()  # half the price of the clock of leases, and a pause does no harm here
        if at < self._next_look:
            return
        self._next_look = at + LOOK_AFTER_SYNC_S
        if self._lock.replaced():
            self.tenure.lose("the lock file was deleted or replaced")
            self._wake.set()

    def release(self, why: str) -> None:
        """Hand the lease back. The ports and the store are closed by now."""
        self._end()
        if self.grant is not None and not self.tenure.lost:
            self.ledger.append("released", self.mine, why)
        self._perform(self.candidate.release(now()))
        self._lock.close()

    def hand_back(self, why: str) -> None:
        """The lease was won and is of no use: let another have it. Nothing was opened."""
        self.role.signal(Signal.FAILED)
        self.release(why)

    def step_down(self, why: str) -> None:
        """Let another broker serve, as soon as who asked has his answer; this one begins anew behind it.

        Raises Refused where nobody could take over, or where this broker would ask for its store at once.
        """
        if self.copy is not None and not self.successor():
            raise Refused(
                f"no other copy of the store of {self.mine.name} is in sync: nobody could take over",
                remedy="see `entrepot ha status URL` for how far its replicas are",
            )
        if self.options.part == PRIMARY and self.would_return():
            raise Refused(
                f"{self.mine.name} is the primary by its configuration: it would ask for its store at once",
                remedy="stop it, or give the brokers of the pair no parts",
            )
        loop = asyncio.get_running_loop()
        self.candidate.steps_down = True
        log.warning("%s steps down: %s", self.mine.name, why)
        loop.call_later(ANSWER_WITHIN_S, self.asked_back, why)

    def forfeit(self, why: str) -> None:
        """The lease is lost: let go of it without touching it."""
        self._end()
        self.ledger.append("lost", self.mine, why)
        self._lock.close()

    def propose(self, serial: int, eligible: dict[str, int]) -> None:
        """Have ``eligible`` in the record of the lock, at once; `answered` is told `Recorded` when it is."""
        self.candidate.proposals.propose(serial, eligible)
        self._wake.set()

    def tell_clients(self, told: Callable[[Connectors], object]) -> None:
        """It serves a shared store: ``told`` is called on the loop when another broker would take over."""
        self.answered = self.waiting.answered
        self.waiting.serve(self.name, told)

    def name(self, heir: str) -> str:
        """Have ``heir`` in the record, at once; return whom it names by now. `answered` is told `Named` then."""
        if self.candidate.proposals.name(heir):
            self._wake.set()
        return self.candidate.proposals.named

    def facts(self) -> dict[str, Any]:
        """Return what the status page says. Times in ms."""
        holder = self.holder
        facts: dict[str, Any] = {
            "broker": self.mine.name,
            "role": self.role.role.value,
            "part": self.options.part,
            "ready": self.role.role is Role.PRIMARY and self.holds(),
            "since": self.since,
            "data": str(self.directory),
            "locker": self.options.locker.partition(":")[0],
            "lease": self.options.lease.duration // MILLISECOND,
        }
        if self.options.connectors and self.copy is None:
            facts["successor"] = self.waiting.successor()
        facts.update({name: tell() for name, tell in self.more.items()})
        if self.copy is not None:
            facts["replication"] = self.about()
        if holder is not None and not holder.released:
            facts["master"] = {
                "broker": holder.name,
                "host": holder.host,
                "pid": holder.pid,
                "epoch": holder.epoch,
                "since": holder.since,
                "renewals": holder.beat,
            }
        return facts

    def left(self) -> int:
        """Return for how many ms the lease holds if it is not renewed; 0 when it does not."""
        return 0 if self.tenure.lost else max(0, (self.tenure.until - now()) // MILLISECOND)

    # -- on the loop ---------------------------------------------------------------------------------------------------

    def _watch_out(self) -> None:
        """Notice the end of the lease even if the thread hangs in a system call and cannot say anything."""
        if self._quit or self._loop is None:
            return
        left = self.tenure.until - now()
        if left <= 0 or self.tenure.lost:
            self._over()
            return
        self._timer = self._loop.call_later(min(left, SECOND) / SECOND, self._watch_out)

    def _over(self) -> None:
        if self._quit:
            return
        self._quit = True
        if not self.tenure.lost:
            self.tenure.lose("it could not be renewed in time: the lock service or the disk does not answer")
        why = self.tenure.lost
        log.critical("%s is not the master any more: %s", self.mine.name, why)
        self.lost(why)

    def withdraw(self) -> None:
        """Wait no longer: the broker ends before it was ever master."""
        self.role.signal(Signal.STOP)
        self._end()
        if self.tenure.holds(now()):  # it was won at the moment at which nobody wanted it any more
            self.ledger.append("released", self.mine, "the broker stops before it served")
        self._perform(self.candidate.withdraw(now()))
        self._lock.close()

    def _end(self) -> None:
        self._quit = True
        self._wake.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            # It may hang in a system call of a dead server; then it is left behind, as a daemon.
            self._thread.join(self.options.lease.renew_every / SECOND)
        self.waiting.over()

    def _tell(self, action: Callable[[], None]) -> None:
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop is closed
            self._quit = True

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            effects = self.candidate.wake(now())
            while effects and not self._quit:
                effects = self._perform(effects)
        except EntrepotError as error:
            self._tell(partial(self._settle, None, error))
        except Exception as bug:
            log.exception("the thread that keeps the lease met a bug")
            self.tenure.lose(f"the thread that keeps the lease met a bug: {bug!r}")
            self._tell(partial(self._settle, None, StoreLost(self.tenure.lost)))
            self._tell(self._over)

    def _settle(self, grant: Grant | None, error: EntrepotError | None) -> None:
        won = self._won
        if won is None or won.done():
            return
        if grant is not None:
            won.set_result(grant)
        elif error is not None:
            won.set_exception(error)

    def _perform(self, effects: Sequence[Effect]) -> list[Effect]:
        """Do what the candidate asks for, and return what it asks for then. Raises OperatorError; no OSError."""
        further: list[Effect] = []
        for effect in effects:
            try:
                further += self._do(effect)
            except OSError as error:
                self._say(f"could not ask the lock: {error}", logging.WARNING)
                further += self.candidate.unanswered(now())
            except StoreUnusable as error:
                if not self._waited:
                    raise
                # It could be used before, so perhaps it can again: a server that is down, a disk that is read-only.
                self._say(f"waits: {error.message}")
                further += self.candidate.unanswered(now())
        return further

    def _do(self, effect: Effect) -> list[Effect]:
        candidate = self.candidate
        match effect:
            case Look():
                effects = candidate.seen(self._lock.look(), now())
                self._waited = True
                return effects
            case Recall():
                epoch = max(highest_epoch(place) for place in (self.directory, self.ledger.path.parent))
                if self.copy is not None:
                    epoch = max(epoch, self.copy.standing.seen)
                memory = Memory(epoch, self.ledger.lease(), empty=self.ledger.empty(self.mine.instance))
                return candidate.recalled(memory, now(), wall())
            case Swap(version=version):
                if candidate.state is State.CLAIMING:
                    if self.copy is not None:
                        self.copy.persist(self.copy.standing)
                    if not self.ledger.claim(self.mine):
                        return candidate.swapped(-1, now())
                return candidate.swapped(self._lock.swap(version, self.mine), now())
            case Sleep(until=until, watching=watching):
                return self._sleep(until, watching)
            case Won(grant=grant):
                self.waiting.waits.over()
                self.ledger.append("master", self.mine, grant.why)
                self._tell(partial(self._settle, grant, None))
            case Lost():
                self._tell(self._over)
            case AskBack():
                if self.copy is None:  # else a replica asks its primary
                    self._asking.ask()
            case Heed():
                return candidate.asked(self._asked.look()) if self.copy is None else []
            case Recorded() | Named():
                self._tell(partial(self.answered, effect))
            case GiveBack():
                self._tell(partial(self.asked_back, f"the primary asks for its store back: {self._asked.who}"))
            case _:
                assert_never(effect)
        return []

    def _sleep(self, until: Instant, watching: bool) -> list[Effect]:
        """Wait until it is time, the lock has changed, or somebody wakes us."""
        if watching:
            self._say_who()
            self.waiting.say()
        seconds = max(0, until - now()) / SECOND
        try:
            if watching:
                self._lock.pause(self._wake, seconds)
            else:
                self._wake.wait(seconds)
        except OSError:  # the next look will say so
            self._wake.wait(seconds)
        self._wake.clear()
        return [] if self._quit else self.candidate.wake(now())

    def _say_who(self) -> None:
        holder = self.candidate.holder
        standing = self.candidate.standing
        if standing is not None and standing.refusal:
            self._say(f"waits: it may not be primary: {standing.refusal}", logging.WARNING)
        elif holder is not None and holder.released and holder.reserved == Rules.OTHERS:
            self._say(f"waits: {holder.describe()} stepped down; another broker may serve the store {self.directory}")
        elif holder is not None and holder.released and holder.reserved:
            self._say(f"waits: {holder.describe()} left the store {self.directory} to its primary ({holder.reserved})")
        elif holder is None:
            self._say(f"waits: the store {self.directory} is locked by another server; {SLAVE_MODE}")
        elif not holder.released:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(holder.since / 1000))
            self._say(
                f"waits: the store {self.directory} is locked by another server, {holder.describe()}, epoch "
                f"{holder.epoch}, since {since}; {SLAVE_MODE}"
            )

    def _say(self, text: str, level: int = logging.INFO) -> None:
        """Log it once, not at every look."""
        if text != self._told:
            self._told = text
            log.log(level, "%s %s", self.mine.name, text)
