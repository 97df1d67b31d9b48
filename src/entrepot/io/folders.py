"""The directory of a store: where its files are, and how much room its file system has."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from entrepot.config.rewriting import sync_name
from entrepot.io.descriptors import let_go
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE, close_to_others
from entrepot.journal.ports import SCRATCH, Location, Locator


class Folders(Locator):
    """The folders of one data directory, open until `close`. ``nest``: of scratch files and of the spare one."""

    def __init__(self, directory: Path, epoch: int) -> None:
        """Make them, if need be, and see whether they can be written. Raises OSError.

        ``epoch`` above 0: brokers take turns, and each has scratch files of its own.
        """
        self.directory: Final = directory
        self.journal: Final = directory / "journal"
        self.bodies: Final = directory / "blobs"
        close_to_others(directory)
        self.journal.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
        self.bodies.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
        sync_name(self.journal)  # what is synced in a folder is lost with it, where only the folder's name is not there
        self.nest = self.journal
        if epoch:
            clear_nests(self.journal)
            self.nest = self.journal / f"epoch-{epoch}"
            self.nest.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
        self.spare: Final = self.nest / "spare"
        self.reserve: Final = self.journal / "reserve"
        self._journal_fd = os.open(self.journal, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._bodies_fd = os.open(self.bodies, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.close(os.open(self.journal / "probe.tmp", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE))
        (self.journal / "probe.tmp").unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Return the names of all segments and scratch files, sorted. Raises OSError."""
        found = os.listdir(self.journal)
        if self.nest is not self.journal:
            found = [each for each in found if not each.endswith(SCRATCH)] + os.listdir(self.nest)
        return sorted(each for each in found if each.endswith((".seg", SCRATCH)))

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        found = [each[:-5] for each in os.listdir(self.bodies) if each.endswith(".blob")]
        return sorted(int(each) for each in found if each.isascii() and each.isdigit())

    def path(self, name: str) -> Path:
        """Return where the file ``name`` is."""
        if is_blob(name):
            return self.bodies / name
        return (self.nest if name.endswith(SCRATCH) else self.journal) / name

    def location(self, name: str) -> Location | None:
        """Return where the file ``name`` is; None when it is gone."""
        path = self.path(name)
        try:
            state = path.stat()
        except OSError:
            return None
        return Location(str(path.absolute()), state.st_dev, state.st_ino)

    def sync(self, *, bodies: bool = False) -> None:
        """Make names durable: those of the journal, or those of bodies."""
        os.fsync(self._bodies_fd if bodies else self._journal_fd)

    def free(self) -> int:
        """Return how much an unprivileged writer may write, in octets."""
        state = os.statvfs(self.journal)
        return state.f_bavail * state.f_frsize

    def capacity(self) -> int:
        """Return how large the file system is, in octets."""
        state = os.statvfs(self.journal)
        return state.f_blocks * state.f_frsize

    def close(self) -> None:
        """Let go of them."""
        let_go(self._journal_fd)
        let_go(self._bodies_fd)


def clear_nests(journal: Path) -> None:
    """Remove the scratch directories of all epochs; what is being written there can never become part of the journal.

    A former master that wakes up meanwhile can put at most a few files more into one: as often as it takes.
    """
    for nest in journal.glob("epoch-*"):
        while nest.exists():
            for path in nest.iterdir():
                path.unlink(missing_ok=True)
            try:
                nest.rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
    for leftover in journal.glob("*" + SCRATCH):
        leftover.unlink(missing_ok=True)


def is_blob(name: str) -> bool:
    """Say whether a name is that of a blob."""
    return name.endswith(".blob")
