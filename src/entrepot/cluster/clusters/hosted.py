"""The backups that a node hosts for others of its cluster, and who gets one (artemis.md 2.5, ``colocated``).

A node asks with BACKUP_REQUEST over a connection that showed the credentials of the cluster. It gets a backup when one
more may be hosted; the same store asked for again gets the answer for the backup that is there, and never a second one.
What is decided here costs a slot, a number; a `Keeper` starts the process and looks after it. A store whose backup was
refused or given up is refused for `REFUSED_FOR` without another look, so who asks on and on starts nothing.

Where each broker has a store of its own the request says whose copy it is to be (`copied.py`), in the place of the
directory. What is hosted then outlives this process, for it has a copy that counts: it is begun anew with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.cluster.clusters.copied import is_copy, read_copy
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.packets import BackupRequest

REFUSED_FOR: Final[Duration] = 30 * SECOND
REFUSED_MAX: Final = 100  # stores whose refusal is remembered
WAITING_MAX: Final = 16  # who waits for the start of one backup: the node that asked, and asked again
PATH_MAX: Final = 4096  # characters: PATH_MAX of Linux


class Hosted:
    """One backup: of the store in ``directory``, of the node that says it is ``node``. ``number``: from 1.

    ``copy``: ``directory`` is what `copied.py` reads instead; None for a store that is shared.
    ``state``, ``pid`` and ``restarts`` are for operators; who keeps it writes them.
    """

    def __init__(self, directory: str, node: str, number: int) -> None:
        self.directory: Final = directory
        self.node: Final = node
        self.number: Final = number
        self.copy: Final = read_copy(directory)
        self.waiting: list[Onlooker] = []
        self.runs = False
        self.pid = 0
        self.restarts = 0

    @property
    def called(self) -> str:
        """Return what is hosted, for people."""
        return f"the store in {self.directory}" if self.copy is None else f"a copy of the store of {self.copy.owner}"

    def facts(self) -> dict[str, object]:
        """Return what an operator sees of it."""
        return {
            "number": self.number,
            "directory": self.directory if self.copy is None else "",
            "of": "" if self.copy is None else self.copy.owner,
            "node": self.node,
            "state": "runs" if self.runs else "starts",
            "pid": self.pid,
            "restarts": self.restarts,
        }


class Keeper(Protocol):
    """Who starts a backup and looks after it: answers with `Backups.started` or `Backups.ended`."""

    def start(self, hosted: Hosted) -> None:
        """See whether the store may be had, and start a broker on it."""


class Backups:
    """Up to ``most`` of them. ``say``: takes what an operator should know. ``closed``: why nobody gets one, "" else.

    ``copies``: each has a store of its own, else all have that of who asks.
    """

    def __init__(
        self,
        most: int,
        keeper: Keeper,
        now: Callable[[], Instant],
        say: Callable[[str], None],
        closed: str = "",
        *,
        copies: bool = False,
    ) -> None:
        self.copies: Final = copies
        self.most: Final = most
        self.hosted: dict[str, Hosted] = {}  # by directory
        self._keeper: Final = keeper
        self._now: Final = now
        self._say: Final = say
        self._closed: Final = closed
        self._refused: dict[str, Instant] = {}  # directory -> until when
        self._said: dict[str, None] = {}

    def asked(self, onlooker: Onlooker, packet: BackupRequest) -> None:
        """A node of the cluster wants a backup; ``onlooker`` is answered now, or once it is known."""
        directory, node = packet.journal_dir or "", packet.node or ""
        had = self.hosted.get(directory)
        if had is not None and had.runs:
            onlooker.hosted(True)
            return
        if had is not None:
            if len(had.waiting) < WAITING_MAX:
                had.waiting.append(onlooker)
            else:
                onlooker.hosted(False)
            return
        why = self._refusal(directory)
        if why:
            self._say_once(f"{onlooker.called().rpartition(':')[0]} gets no backup here: {why}")
            onlooker.hosted(False)
            return
        hosted = Hosted(directory, node, self._free())
        hosted.waiting.append(onlooker)
        self.hosted[directory] = hosted
        self._keeper.start(hosted)

    def _refusal(self, directory: str) -> str:
        """Return why the store in ``directory`` gets no backup, "" if it may."""
        if self._closed:
            return self._closed
        unfit = self._unfit_copy(directory) if self.copies else self._unfit_path(directory)
        if unfit:
            return unfit
        if len(self.hosted) >= self.most:
            return f"max-backups is {self.most}, and as many are hosted"
        if self._refused.get(directory, 0) > self._now():
            short, ago = self._short(directory), REFUSED_FOR // SECOND
            return f"the backup of {short} was refused or given up less than {ago} s ago"
        return ""

    def _unfit_path(self, directory: str) -> str:
        if not directory or is_copy(directory):
            return "it names no directory: it wants a copy of its store, and only backups on a shared one are hosted"
        if not directory.startswith("/") or len(directory) > PATH_MAX or "\0" in directory:
            return "the directory that it names is no absolute path"
        return ""

    def _unfit_copy(self, said: str) -> str:
        if not said:
            return "it wants a copy in the way of Artemis, whose protocol of replication is not spoken here"
        if not is_copy(said):
            return "it shares its store, and copies are hosted here: let both say <replication>, or both <shared-store>"
        copy = read_copy(said) if len(said) <= PATH_MAX else None
        if copy is None:
            return "what it says of its store makes no sense"
        for each in self.hosted.values():
            if each.copy is not None and each.copy.store == copy.store:
                return (
                    f"its copy is hosted, as that of {each.copy.owner} at {each.copy.place}: it says {copy.owner} at "
                    f"{copy.place} now. Start this node anew"
                )
        return ""

    def remember(self, directory: str, node: str, number: int) -> None:
        """Go on with what an earlier process hosted, before anybody asks: nobody may be left who could."""
        if directory in self.hosted or self._refusal(directory):
            return
        taken = any(each.number == number for each in self.hosted.values())
        hosted = Hosted(directory, node, self._free() if taken or not 1 <= number <= self.most else number)
        self.hosted[directory] = hosted
        self._keeper.start(hosted)

    def _free(self) -> int:
        taken = [one.number for one in self.hosted.values()]
        return next(number for number in range(1, self.most + 1) if number not in taken)

    def started(self, hosted: Hosted) -> None:
        """The backup runs."""
        hosted.runs = True
        self._say(f"hosts backup {hosted.number}, of {hosted.called} of the node {hosted.node}")
        self._answer(hosted, True)

    def ended(self, hosted: Hosted, why: str, *, refused: bool) -> None:
        """There is no such backup any more, or never was: its place is free. ``refused``: do not try again at once."""
        if self.hosted.get(hosted.directory) is not hosted:
            return
        del self.hosted[hosted.directory]
        if refused:
            self._refused.pop(hosted.directory, None)
            self._refused[hosted.directory] = self._now() + REFUSED_FOR
            while len(self._refused) > REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
        said = f"hosts no backup of {hosted.called}: {why}"
        if refused and not hosted.runs:
            self._say_once(said)  # who asks has not changed its mind
        else:
            self._say(said)
        self._answer(hosted, False)

    @staticmethod
    def _short(directory: str) -> str:
        copy = read_copy(directory)
        return directory if copy is None else f"the store of {copy.owner}"

    def _answer(self, hosted: Hosted, started: bool) -> None:
        waiting, hosted.waiting = hosted.waiting, []
        for onlooker in waiting:
            onlooker.hosted(started)

    def _say_once(self, what: str) -> None:
        if what not in self._said and len(self._said) < REFUSED_MAX:
            self._said[what] = None
            self._say(what)

    def facts(self) -> list[dict[str, object]]:
        """Return what an operator sees, a backup each."""
        return [one.facts() for one in self.hosted.values()]
