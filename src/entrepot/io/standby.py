"""This broker's place among those that share a store: waits for the lease, keeps it, notices when it is gone.

A thread of its own talks to the lock, so that neither a long recovery nor a busy loop costs the lease. What the broker
has to do about it comes out of `ha/role.py`; until the lease is won nothing of a broker is in memory but this.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import EntrepotError, StoreLost, StoreUnusable
from entrepot.ha.lease import BACKUP, PRIMARY, Grant, Record, Rules, Tenure
from entrepot.ha.options import FILE_LOCKER, SharedStoreOptions
from entrepot.ha.role import Role, RoleCore, Signal
from entrepot.io.failback import Asked, Asking
from entrepot.io.leases import FileLease, me, now
from entrepot.io.ledger import Ledger

if TYPE_CHECKING:
    from entrepot.io.registers import RegisterLease

LOOK: Final = 0.1
"""s between two looks at a lock that does not wake us: a tenth of what a takeover may take."""

LOOK_AFTER_SYNC_S: Final = 0.05
"""Between two looks at the lock file after a sync: each lets go of the interpreter once more, 8 % when made each time.

Whoever finds another file there waits for a lease, 200 ms at the least, before he believes in it: so a moment does no
harm.
"""

log: Final = logging.getLogger("entrepot.ha")


class Standby:
    """Call `win`, then serve as long as `holds`; `lost` is called on the loop when that is over. End with `release`."""

    def __init__(self, directory: Path, name: str, options: SharedStoreOptions) -> None:
        """Raises InvalidOption, InvalidURI, StoreUnusable."""
        self.directory: Final = directory
        self.options: Final = options
        self.role: Final = RoleCore()
        self.tenure: Final = Tenure(options.lease)
        self.mine: Final = me(options.holder or name, store="", options=options.lease)
        self.ledger: Final = Ledger(directory)
        self.lost: Callable[[str], None] = lambda why: None
        self.asked_back: Callable[[str], None] = lambda why: None
        self.gave_back = False
        self._asking: Final = Asking(directory, self.mine)
        self._asked: Final = Asked(directory)
        self.grant: Grant | None = None
        self.since = time.time_ns() // MILLISECOND
        self._wake = threading.Event()
        self._quit = False
        self._told = ""
        self._next_look = 0.0  # s
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._won: asyncio.Future[Grant] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lease: FileLease | RegisterLease
        if options.locker == FILE_LOCKER:
            self._lease = FileLease(directory, self.mine, options.lease, self._wake.set)
        else:
            from entrepot.io.registers import RegisterLease, open_register  # noqa: PLC0415 - 2 MB that few need

            register = open_register(options.locker, options.lease)
            self._lease = RegisterLease(register, directory, self.mine, options.lease)
        self._lease.rules = Rules(options.part, twins=options.twins)

    @property
    def holder(self) -> Record | None:
        """Return who was seen to be master last; ourselves when we are."""
        return self.mine if self.grant is not None and not self.tenure.lost else self._lease.holder

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
        log.info("%s is the master now, epoch %d: %s", self.mine.name, self.grant.epoch, self.grant.why)
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
        if self._lease.replaced():
            self.tenure.lose("the lock file was deleted or replaced")
            self._wake.set()

    def release(self, why: str) -> None:
        """Hand the lease back. The ports and the store are closed by now."""
        self._end()
        if self.grant is not None and not self.tenure.lost:
            self.ledger.append("released", self.mine, why)
            if self.gave_back:
                self.mine.reserved = Rules.FAILBACK
            elif not self.options.failover_on_shutdown:
                self.mine.reserved = Rules.PAUSED
            if self.holds():
                self._lease.release()
        self._lease.close()

    def forfeit(self, why: str) -> None:
        """The lease is lost: let go of it without touching it."""
        self._end()
        self.ledger.append("lost", self.mine, why)
        self._lease.close()

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
            "locker": self.options.locker.partition("://")[0],
            "lease": self.options.lease.duration // MILLISECOND,
        }
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
            self._lease.release()
        self._lease.close()

    def _end(self) -> None:
        self._quit = True
        self._wake.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            # It may hang in a system call of a dead server; then it is left behind, as a daemon.
            self._thread.join(self.options.lease.renew_every / SECOND)

    def _tell(self, action: Callable[[], None]) -> None:
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop is closed
            self._quit = True

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            grant = self._wait()
            if grant is not None:
                self._tell(partial(self._settle, grant, None))
                self._keep()
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

    def _wait(self) -> Grant | None:
        waited = False
        while not self._quit:
            self._wake.clear()
            try:
                grant = self._lease.attempt(now())
            except OSError as error:
                self._say(f"waits: the lock cannot be asked: {error}")
                grant = None
            except StoreUnusable as error:
                if not waited:
                    raise
                # It could be used before, so perhaps it can again: a server that is down, a disk that is read-only.
                self._say(f"waits: {error.message}")
                grant = None
            else:
                if grant is not None:
                    self.tenure.won(grant)
                    if self.tenure.holds(now()):
                        return grant
                    self._lease.release()  # it took too long to be told
                self._say_who()
                self._ask_back()
                waited = True
            self._pause()
        return None

    def _pause(self) -> None:
        try:
            self._lease.pause(self._wake, LOOK)
        except OSError:  # the next attempt will say so
            self._wake.wait(LOOK)

    def _ask_back(self) -> None:
        """A primary that finds its store taken asks for it; whoever has it decides."""
        holder = self._lease.holder
        if self.options.part == PRIMARY and holder is not None and not holder.released:
            self._asking.ask(now())

    def _say_who(self) -> None:
        holder = self._lease.holder
        if holder is not None and holder.released and holder.reserved:
            self._say(f"waits: {holder.describe()} left the store {self.directory} to its primary ({holder.reserved})")
        elif holder is None:
            self._say(f"waits: the store {self.directory} is locked by another server; this broker is in slave mode")
        elif not holder.released:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(holder.since / 1000))
            self._say(
                f"waits: the store {self.directory} is locked by another server, {holder.describe()}, epoch "
                f"{holder.epoch}, since {since}; this broker is in slave mode"
            )

    def _say(self, text: str) -> None:
        """Log it once, not at every look."""
        if text != self._told:
            self._told = text
            log.info("%s %s", self.mine.name, text)

    def _keep(self) -> None:
        tenure = self.tenure
        while not self._quit and not tenure.lost:
            left = tenure.deadline() - now()
            if left > 0:
                self._wake.wait(left / SECOND)
                self._wake.clear()
                continue
            self._renew(now())
        if tenure.lost:
            self._tell(self._over)

    def _renew(self, asked: Instant) -> None:
        tenure = self.tenure
        if not tenure.holds(asked):
            tenure.lose("the broker stood still for longer than its lease")
            return
        try:
            self._lease.renew()
        except StoreLost as lost:
            tenure.lose(lost.message)
        except OSError as error:
            log.warning("%s could not renew its lease: %s", self.mine.name, error)
            tenure.failed(now())
        else:
            tenure.renewed(asked, now())
            self._look_who_asks()

    def _look_who_asks(self) -> None:
        options = self.options
        if options.part == BACKUP and options.allow_failback and not self.gave_back:
            who = self._asked.look()
            if who:
                self.gave_back = True
                self._tell(partial(self.asked_back, f"the primary asks for its store back: {who}"))
