"""Who has a data directory: the lock of a broker that shares it with nobody, and the modes of what lies in it.

Two locks are taken: one on the file LOCK, which says for people who holds it, and one on the directory itself, which
keeps others out even after somebody removed a LOCK that he took for stale. Where a file system cannot lock a directory
(NFS), the file alone has to do; so its holder looks at it after each sync and twice a second, and gives up when it was
removed or replaced, as ActiveMQ's `keepAlive` of a locker does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from pathlib import Path
from typing import Final

from entrepot.base.errors import StoreLocked, StoreUnusable

log: Final = logging.getLogger(__name__)

OWNER_DIRECTORY: Final = 0o700
"""Mode of every directory with messages in it: their bodies are nobody else's."""
OWNER_FILE: Final = 0o600
OTHERS: Final = 0o077

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
HELD: Final = (errno.EWOULDBLOCK, errno.EACCES)


class DirectoryLock:
    """A data directory that this process has until `release`."""

    def __init__(self, directory: Path, name: str) -> None:
        """Create ``directory`` if need be, and lock it. Raises StoreUnusable, or StoreLocked naming the holder."""
        self._path = directory / "LOCK"
        self._descriptors: list[int] = []
        try:
            directory.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
            self._descriptors.append(descriptor)
            self._place = _place(os.fstat(descriptor))
        except OSError as error:
            self.release()
            raise unusable(directory, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder = "a broker whose LOCK file was removed while it ran"
            self._lock_directory(directory)
        except OSError as error:
            if len(self._descriptors) == 1:
                holder = holder_of(descriptor)
            self.release()
            if error.errno not in HELD:
                raise unusable(directory, error) from error
            raise StoreLocked(
                f"the data directory {directory} is in use by {holder}",
                remedy="stop that broker, or give this one a directory of its own with --data",
            ) from error
        try:
            _sign(descriptor, f"broker {name or 'without a name'}, process {os.getpid()}\n".encode())
        except OSError as error:
            self.release()
            raise unusable(directory, error) from error

    def _lock_directory(self, directory: Path) -> None:
        """Lock the directory itself, where its file system can. Raises OSError of HELD when another has it."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in HELD:
                raise

    def gone(self) -> str:
        """Return what happened to the lock file, "" while it is there and ours; a microsecond, for after every sync.

        What cannot be looked at is not gone.
        """
        try:
            place = _place(os.stat(self._path))
        except OSError as error:
            return "was removed" if error.errno == errno.ENOENT else ""
        return "" if place == self._place else "was replaced by another one"

    def release(self) -> None:
        """Let others have the directory."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def is_held(directory: Path) -> bool:
    """Return whether a process has the data directory; False where there is none, or it cannot be looked at."""
    try:
        descriptor = os.open(directory / "LOCK", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in HELD
    finally:
        os.close(descriptor)
    return False


def _place(state: os.stat_result) -> tuple[int, int]:
    return state.st_dev, state.st_ino


def holder_of(descriptor: int) -> str:
    """Return who holds a lock file, in his own words."""
    return os.pread(descriptor, 4096, 0).decode(errors="replace").partition("\n")[0] or "another process"


def _sign(descriptor: int, holder: bytes) -> None:
    """Say in a lock file who holds it. That is for people: a broker starts on a full disk too, to be emptied."""
    try:
        os.pwrite(descriptor, holder, 0)
        os.ftruncate(descriptor, len(holder))  # afterwards: the block it stands in is not given away
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        os.ftruncate(descriptor, 0)


def unusable(directory: Path, error: OSError) -> StoreUnusable:
    """Return the error for a directory that cannot be used, with what to do about it."""
    remedies = {
        errno.EACCES: "let the user who runs the broker read and write it, or choose another one with --data",
        errno.EPERM: "let the user who runs the broker read and write it, or choose another one with --data",
        errno.EROFS: "mount its file system for writing, or choose another one with --data",
        errno.ENOTDIR: "something on the path is a file: choose another directory with --data",
        errno.EEXIST: "something on the path is a file: choose another directory with --data",
        errno.ENOSPC: "make room on that disk, or choose another directory with --data",
    }
    remedy = remedies.get(error.errno or 0, "choose another directory with --data")
    return StoreUnusable(f"the data directory {directory} cannot be used: {error.strerror}", remedy=remedy)


def close_to_others(directory: Path) -> None:
    """Take from everybody else what an older version, or a person, let them read in a data directory; say so.

    The directory itself is closed when it is a data directory already; what is below it is entrepot's own in any case.
    """
    for folder in (directory, directory / "journal", directory / "blobs"):
        try:
            loose = folder.stat().st_mode & OTHERS
            if not loose or not (directory / "journal").is_dir():
                continue
            for path in folder.iterdir():
                if path.is_file() and not path.is_symlink() and (folder != directory or path.name.startswith("LOCK")):
                    with contextlib.suppress(FileNotFoundError):
                        path.chmod(path.stat().st_mode & ~OTHERS & 0o777)
            folder.chmod(OWNER_DIRECTORY)
            log.warning("%s could be read by other users of this machine (mode %03o): now it cannot", folder, loose)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("%s can be read by other users of this machine: %s", folder, error.strerror)
