"""The processes of the backups that this node hosts: started, looked after, ended (artemis.md 2.5).

Each is a broker of its own, `entrepot run` with the arguments of this one and the two that make it a backup. It ends
when its standard input does: with this process, however that ends. One that dies is started again, after pauses that
grow; after `DEATHS_MAX` deaths in a row it is given up, and whoever asked for it may ask elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.clusters.connection import ClusterConnection
from entrepot.cluster.clusters.copied import Copy
from entrepot.cluster.clusters.hosted import REFUSED_FOR, Backups, Hosted
from entrepot.cluster.clusters.requesting import Connected, Requester
from entrepot.config.clusters import PASSWORD
from entrepot.config.model import Colocation
from entrepot.ha.lease import decode
from entrepot.io.children import Pauses, end
from entrepot.io.hosted_copies import folder_of, prepared, remembered
from entrepot.io.leases import LOCK, RECORD_OCTETS, now
from entrepot.io.lock import is_held
from entrepot.io.turns import Turn

OPTION: Final = "--backup-of"
NUMBER: Final = "--backup-number"
PAUSE: Final = 1.0  # s before the second start of one that died; each further one doubles it
PAUSE_MOST: Final = 30.0
SETTLED: Final = 60.0  # s after which one that dies was well
STARTING: Final = 1.5  # s in which one that cannot start has ended: its file is read and its lock looked at
DEATHS_MAX: Final = 5
ENDING: Final = 10.0  # s that it has to end by itself: it may serve
LEFT_LOOK: Final = 0.1  # s between two looks whether what ends has left its directory
AGAIN: Final = REFUSED_FOR / SECOND  # s between two looks whether all that was hosted runs
LOOK_PATIENCE: Final = 5.0  # s for a look at a store; one on a file server that is gone takes for ever

OPEN: Final = (
    "cluster-password is the default, which everybody knows: no backup is hosted for who shows it. Set it on every node"
)

if TYPE_CHECKING:
    from entrepot.ha.options import SharedStoreOptions
    from entrepot.io.standby import Standby

T = TypeVar("T")

log: Final = logging.getLogger("entrepot.ha")


def unfit(directory: str, own: str) -> str:
    """Return why no backup can wait for the store in ``directory``, "" if one can. ``own``: the store of this broker.

    It must be a store whose lock somebody has, in that directory: a backup that starts where nobody is master serves at
    once, and one that looks for the lock at another place than the master has it makes two of them.
    """
    path = Path(directory)
    try:
        if path.resolve() == Path(own).resolve():
            return "it is the store of this broker"
        with (path / LOCK).open("rb") as file:
            record = decode(file.read(RECORD_OCTETS))
        if record is None or record.released:
            return "nobody is master of that store"
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            return "it cannot be written by this broker"
    except OSError as error:
        return f"its lock cannot be read: {error.strerror}: it must be the same directory on both machines"
    return ""


async def aside(look_at: Callable[[], T]) -> T:
    """Return what ``look_at`` does, from a thread that may hang with its file server and hold nothing up.

    Raises TimeoutError.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[T] = loop.create_future()

    def settle(found: T) -> None:
        if not told.done():
            told.set_result(found)

    def look() -> None:
        found = look_at()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=look, name="a store", daemon=True).start()
    async with asyncio.timeout(LOOK_PATIENCE):
        return await told


async def looked(look_at: Callable[[], str]) -> str:
    """Return what ``look_at`` says of a store, or that its file system does not answer."""
    try:
        return await aside(look_at)
    except TimeoutError:
        return f"its file system did not answer in {LOOK_PATIENCE:.0f} s"


def closed_by(password: str) -> str:
    """Return why a node whose cluster has ``password`` hosts nothing, "" if it does."""
    return OPEN if password in ("", PASSWORD) else ""


def copy_of(name: str, shared: SharedStoreOptions, standby: Standby | None) -> Copy | None:
    """Return what is to be copied where each broker has a store of its own, None where one is shared."""
    if shared.replication is None or standby is None or standby.copy is None:
        return None
    return Copy(standby.copy.standing.store, name, shared.replication.listen)


class Housing:
    """The backups that this node hosts: who gets one, and their processes. ``command``: what runs this broker, without
    what makes it a backup. ``own``: its directory. ``closed``: why nobody gets one, "" else.

    ``store``: what this broker's own store is called, where each broker has one; None where they are shared. Then it is
    there before this broker serves: what it hosts may be the last copy of a store that is to be served, and this
    broker may wait for one whose last copy another node hosts in the same way.
    """

    def __init__(
        self,
        most: int,
        command: Sequence[str],
        own: str,
        *,
        store: Callable[[], str] | None = None,
        closed: str = "",
    ) -> None:
        self.run: Callable[[Callable[[], object]], object] = lambda action: action()  # in a turn, once there are any
        self.say: Callable[[str], None] = log.info
        self._command: Final = list(command)
        self._own: Final = own
        self._store: Final = store
        self._tasks: dict[Hosted, asyncio.Task[None]] = {}
        self._going: asyncio.Task[None] | None = None
        self.backups: Final = Backups(most, self, now, self._say, closed, copies=store is not None)

    def _say(self, what: str) -> None:
        self.say(what)

    def go_on(self) -> None:
        """Go on with what was hosted, now and whenever it runs no more: nobody may be left who could ask for it."""
        if self._going is not None:
            self._going.cancel()
        self._going = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                for one, node, number in await aside(partial(remembered, Path(self._own))):
                    self.run(partial(self.backups.remember, one.text(), node, number))
            await asyncio.sleep(AGAIN)

    def start(self, hosted: Hosted) -> None:
        """Look at the store, and start a broker on it."""
        self._tasks[hosted] = asyncio.get_running_loop().create_task(self._keep(hosted))

    async def stop(self) -> None:
        """End all that runs, and start no more."""
        if self._going is not None:
            self._going.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def facts(self) -> dict[str, object]:
        """Return what the status page says of it, before this broker asks for a host itself."""
        return {"backup": None, "hosts": self.backups.facts(), "max": self.backups.most}

    def _unfit(self, hosted: Hosted) -> str:
        """Have all that the backup needs; return why it cannot be."""
        if hosted.copy is None:
            return unfit(hosted.directory, self._own)
        store = "" if self._store is None else self._store()
        return prepared(Path(self._own), store, hosted.copy, hosted.node, hosted.number)

    async def _keep(self, hosted: Hosted) -> None:
        refused, why = True, ""
        try:
            why = await looked(partial(self._unfit, hosted))
            if not why and hosted.copy is not None:
                await self._left(folder_of(Path(self._own), hosted.copy))
            if not why:
                refused, why = await self._run(hosted)
        finally:
            self._tasks.pop(hosted, None)
            self.run(partial(self.backups.ended, hosted, why or "this broker ends", refused=refused))

    async def _left(self, folder: Path) -> None:
        """Wait until nobody has ``folder``, for as long as a backup may take to end.

        That of an earlier process ends with it, and not at once: a node that was killed may be back before.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING):
                while await aside(partial(is_held, folder)):
                    await asyncio.sleep(LEFT_LOOK)

    async def _run(self, hosted: Hosted) -> tuple[bool, str]:
        """Run it until it ends in order, or is given up. Return whether it should not be tried again, and why."""
        pauses = Pauses(PAUSE, PAUSE_MOST, SETTLED)
        while True:
            began = time.monotonic()
            code, how = await self._live(hosted)
            if code == 0:
                return False, "it ended"
            if not hosted.runs:
                return True, how
            pause = pauses.died(time.monotonic() - began)
            if pauses.deaths >= DEATHS_MAX:
                return True, f"{how}; given up after {pauses.deaths} deaths in a row"
            hosted.restarts += 1
            log.warning("backup %d, of %s, %s: started again in %.0f s", hosted.number, hosted.called, how, pause)
            await asyncio.sleep(pause)

    async def _live(self, hosted: Hosted) -> tuple[int, str]:
        """Run it once; return its exit code, and how it ended."""
        copy = hosted.copy
        directory = hosted.directory if copy is None else str(folder_of(Path(self._own), copy))
        arguments = [*self._command, OPTION, directory, NUMBER, str(hosted.number), "--until-eof"]
        try:
            process = await asyncio.create_subprocess_exec(*arguments, stdin=asyncio.subprocess.PIPE)
        except OSError as error:  # no memory, no process left
            return -1, f"could not be started: {error}"
        try:
            hosted.pid = process.pid
            if not hosted.runs:
                try:
                    async with asyncio.timeout(STARTING):
                        await process.wait()
                except TimeoutError:
                    self.run(partial(self.backups.started, hosted))
            code = await process.wait()
            return code, f"ended with {code}"
        finally:
            await end(process, ENDING)


class Colocated:
    """Hosts the backups of others, and asks others to host this broker's. ``housing``: what hosts them; ``own``: the
    directory of this broker. ``copy``: what a copy of its store is made from, None where it is shared."""

    def __init__(
        self,
        turn: Turn,
        cluster: ClusterConnection,
        options: Colocation,
        housing: Housing,
        own: str,
        copy: Copy | None = None,
    ) -> None:
        self.housing: Final = housing
        housing.run, housing.say = turn.run, cluster.say
        cluster.members.backups = housing.backups
        self.requester: Requester | None = None
        if options.requests:
            interval = options.retry_ms * MILLISECOND
            retries = options.retries
            asks = own if copy is None else copy.text()
            self.requester = Requester(Connected(cluster), asks, retries=retries, interval=interval, say=cluster.say)
            turn.run(self.requester.start)
        if copy is not None:
            housing.go_on()

    async def stop(self) -> None:
        """Ask no more, and end all that runs."""
        if self.requester is not None:
            self.requester.stop()
        await self.housing.stop()

    def facts(self) -> dict[str, object]:
        """Return what the status page says of it."""
        return {**self.housing.facts(), "backup": None if self.requester is None else self.requester.facts()}


def begin(
    turn: Turn,
    cluster: ClusterConnection,
    options: Colocation,
    own: str,
    copy: Copy | None,
    housing: Housing | None,
    command: Sequence[str],
) -> Colocated:
    """Return what `Colocated` does for a broker that serves from now on. ``housing``: what hosted while it waited."""
    if housing is None:
        store = None if copy is None else lambda: copy.store
        closed = closed_by(cluster.credentials.password)
        housing = Housing(options.backups_max, command, own, store=store, closed=closed)
    return Colocated(turn, cluster, options, housing, own, copy)
