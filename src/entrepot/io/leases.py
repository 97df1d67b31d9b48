"""The lock of a shared directory: a lease in a file that also holds a lock of the operating system.

Each of the two is what the other is not. The operating system frees its lock the moment the holder's process dies, so a
successor need not wait; but it knows nothing of a process that stands still, and NFS, a deleted file or a copy may let
two have it. The lease in the file knows both; it only takes its time. So:

- whoever gets the lock of the system on the file that carries the last record takes over at once;
- whoever finds that record unchanged for longer than its lease puts a *new file* in its place: the old holder, should
  it wake up, finds that the file at that path is not his;
- whoever gets the lock on a file that does not carry the record written to it (deleted, replaced, restored from a
  backup) waits as long as a lease may last, because the holder may not know yet;
- on a file system of other machines a lock counts when it was refused to us once, or the record says that it was handed
  back. Else there is no telling whether it is a lock at all (NFS with ``nolock``, most of FUSE have locks that no other
  machine sees), so a lease is waited for, and a holder that goes on renewing meanwhile shows that it is none.

``DIR/LOCK.guard`` is locked for the few milliseconds of a claim, so that of two who claim one is first.

Which of these is the case is decided by `ha.candidate`; `FileLock` reads, swaps and sleeps. The wait costs nothing: a
thread sleeps in `flock`, but for FUSE. Beside it the record is looked at now and then.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from entrepot.base.environment import MILLISECOND, Instant, WallTime
from entrepot.base.errors import InvalidOption, StoreUnusable
from entrepot.ha.candidate import Sight, System
from entrepot.ha.lease import LeaseOptions, Record, decode
from entrepot.io.descriptors import let_go
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK: Final = "LOCK"
GUARD: Final = "LOCK.guard"
RECORD_OCTETS: Final = 1024
"""The record is written over itself in one sector or two: no new block, so a full disk does not end a lease."""

CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Of leases: on Linux the one that goes on while the machine sleeps; the monotonic one does not."""

REMOTE: Final = ("nfs", "cifs", "smb", "fuse", "ceph", "gluster", "lustre", "9p", "afs")
"""File systems on which a write is seen by other machines only after a sync."""

LOCKLESS: Final = ("nolock", "local_lock=flock", "local_lock=all", "nobrl")
"""Options of nfs(5) and mount.cifs(8) with which flock stays on this machine."""


def now() -> Instant:
    """Return what the clock of leases says."""
    return time.clock_gettime_ns(CLOCK)


def wall() -> WallTime:
    """Return what the clock on the wall says."""
    return time.time_ns() // MILLISECOND


def me(name: str, *, store: str, options: LeaseOptions) -> Record:
    """Return the record of this process; ``instance`` is new each time."""
    return Record(
        name=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        instance=os.urandom(8).hex(),
        store=store,
        lease=options.duration,
    )


class Waiter:
    """A thread that sleeps until the lock of one file is ours. What nobody wants any more is let go of at once."""

    def __init__(self, descriptor: int, wake: Callable[[], None]) -> None:
        self.place = os.fstat(descriptor).st_ino
        self.locked = False
        self._descriptor = descriptor
        self._wake = wake
        self._unwanted = False
        self._lock = threading.Lock()
        threading.Thread(target=self._wait, name="entrepot-lock", daemon=True).start()

    def _wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError:  # a file system that lost its server: the look that is taken now and then finds out what is
            self._unwanted = True
        with self._lock:
            if self._unwanted:
                os.close(self._descriptor)
                return
            self.locked = True
        self._wake()

    def take(self) -> int:
        """Return the descriptor that has the lock; once."""
        self._unwanted = True
        return self._descriptor

    def abandon(self) -> None:
        """Wait no longer, as far as anybody can tell."""
        with self._lock:
            if self.locked and not self._unwanted:
                os.close(self._descriptor)
            self._unwanted = True


class Lock:
    """The port: a lock that brokers compete for, for a shell of `ha.candidate`. Calls may block, and raise OSError."""

    def look(self) -> Sight:
        """Read it. Raises OperatorError for what waiting will not mend, StoreUnusable for what it may."""
        raise NotImplementedError

    def swap(self, version: int, record: Record) -> int:
        """Put ``record`` there and return the version, if the lock is as `look` or `swap` said last; else -1.

        One that is released is free for others from then on.
        """
        raise NotImplementedError

    def replaced(self) -> bool:
        """Say whether it is another lock by now; a microsecond, for after every sync."""
        raise NotImplementedError

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Wait until another look is worth it, or ``wake`` is set."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go without a word: what was ours may be another's."""
        raise NotImplementedError


class FileLock(Lock):
    """The lock of a data directory that brokers share."""

    def __init__(self, directory: Path, wake: Callable[[], None]) -> None:
        """``wake`` is called, by another thread, when another look is worth it.

        Raises StoreUnusable, and InvalidOption for a mount whose locks end at this machine.
        """
        self._directory = directory
        self._path = directory / LOCK
        self._wake = wake
        self._waiter: Waiter | None = None
        self._seen = -1  # descriptor of the file that was looked at last; with the lock of the system, or not
        self._locked = False  # with it
        self._found: Record | None = None
        self._held = -1
        self._mine: Record | None = None  # what we wrote
        self._version = 0
        self._stamp: tuple[int, int, int] = (0, 0, 0)
        mount = mount_of(directory)
        self._remote = mount.remote
        self._sleeps = not mount.fuse
        self._proved = not mount.remote  # the lock keeps others out
        if mount.lockless:
            raise InvalidOption(
                f"{directory} is mounted with {mount.lockless}: a lock on it is seen by this machine only",
                remedy="mount it without that option (NFS version 4 has locks), or use another locker",
            )
        try:
            directory.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
            self._guard = os.open(directory / GUARD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
        except OSError as error:
            raise StoreUnusable(
                f"the lock directory {directory} cannot be written: {error.strerror}",
                remedy="let the user who runs the broker write it; all brokers of a pair need the same directory",
            ) from error

    # -- reading -------------------------------------------------------------------------------------------------------

    def look(self) -> Sight:
        """Read the record, and try to get the lock of the system; else see to it that we are woken when it is free."""
        if self._held >= 0:
            return self._look_at_ours()
        self._forget()
        self._version += 1
        waiter = self._waiter
        if waiter is not None and (waiter.locked or waiter.place != self._place()):
            self._waiter = None
            if waiter.locked:
                self._seen, self._locked = waiter.take(), True
                return self._sight()
            waiter.abandon()
        try:
            self._seen = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
        except OSError as error:
            raise StoreUnusable(
                f"the lock {self._path} cannot be opened: {error.strerror}",
                remedy="let the user who runs the broker read and write it",
            ) from error
        try:
            fcntl.flock(self._seen, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._locked = True
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreUnusable(
                    f"the file system of {self._directory} has no locks: {error.strerror}",
                    remedy="mount it with locks (NFS version 4), or use another locker",
                ) from error
            self._proved = True
        return self._sight()

    def _sight(self) -> Sight:
        state = os.fstat(self._seen)
        record = self._found = self._read(self._seen)
        if self._locked:
            system = System.PROVED if self._proved else System.OURS
            stranger = record is None and state.st_size > 0  # the file of a broker that stood alone
            return Sight(record, self._version, system=system, place=state.st_ino, stranger=stranger)
        if self._waiter is None and self._sleeps:
            self._waiter = Waiter(os.dup(self._seen), self._wake)
        return Sight(record, self._version, system=System.OTHERS, place=state.st_ino)

    def _look_at_ours(self) -> Sight:
        """See whether the file at the path is still ours and as we left it."""
        wrong = ""
        there = self._mine
        try:
            stamp = self._look_at_path()
        except FileNotFoundError:
            return Sight(None, self._version, wrong="the lock file was deleted")
        if stamp[0] != self._stamp[0]:
            there = self._read_path()
            mine = self._mine
            whose = mine is not None and there is not None and there.instance != mine.instance
            wrong = "the lock file was replaced" + (f" by {there.describe()}" if whose and there is not None else "")
        elif stamp != self._stamp:
            wrong = "the lock file was touched by somebody else"
        return Sight(there, self._version, place=stamp[0], wrong=wrong)

    def replaced(self) -> bool:
        """Say whether the file at the path is another one."""
        try:
            return os.stat(self._path).st_ino != self._stamp[0]
        except OSError as error:
            return error.errno == errno.ENOENT

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Wait: the thread that sleeps in `flock` sets ``wake``."""
        self._forget()  # or nobody else could get it meanwhile
        wake.wait(seconds)

    # -- writing -------------------------------------------------------------------------------------------------------

    def swap(self, version: int, record: Record) -> int:
        """Write over the record that is ours, over the one whose lock we have, or in a new file in its place."""
        if version != self._version:
            return -1
        if self._held >= 0:
            return self._rewrite(record)
        if self._seen < 0:
            return -1
        try:
            with self._guarded():
                return self._write_first(record) if self._locked else self._replace(record)
        finally:
            self._forget()

    def _rewrite(self, record: Record) -> int:
        if self._look_at_ours().wrong:
            return -1
        self._write(self._held, record, sync=self._remote and not record.released)
        stamp = os.fstat(self._held)
        self._stamp = (stamp.st_ino, stamp.st_mtime_ns, stamp.st_size)
        if self._look_at_ours().wrong:
            return -1
        self._mine = record
        if record.released:
            self._let_go()
        self._version += 1
        return self._version

    def _write_first(self, record: Record) -> int:
        """Whoever puts another file there has the guard; whoever writes into this one has its lock."""
        if os.fstat(self._seen).st_ino != self._place():
            return -1
        self._claim(self._seen, record, None)
        self._seen = -1
        return self._version

    def _replace(self, record: Record) -> int:
        """Put a new lock in the place of one whose holder has shown no life for longer than its lease."""
        current, found = self._read_path(), self._found
        if current is None or found is None or (current.instance, current.beat) != (found.instance, found.beat):
            return -1
        draft = self._directory / f"{LOCK}.{record.instance}"
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._claim(descriptor, record, draft)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        return self._version

    def _claim(self, descriptor: int, record: Record, draft: Path | None) -> None:
        record.place = os.fstat(descriptor).st_ino
        record.store = store_identity(self._directory)
        self._write(descriptor, record, sync=True)
        if draft is not None:
            os.rename(draft, self._path)
        self._sync_directory()
        self._held = descriptor
        self._mine = record
        self._stamp = self._look_at_path()
        self._version += 1
        if self._waiter is not None:
            self._waiter.abandon()
            self._waiter = None

    def _let_go(self) -> None:
        let_go(self._held)
        self._held = -1

    def _forget(self) -> None:
        """Let go of what a look had opened."""
        if self._seen >= 0:
            os.close(self._seen)
        self._seen = -1
        self._locked = False

    def close(self) -> None:
        """Let go of all files, without a word."""
        if self._waiter is not None:
            self._waiter.abandon()
            self._waiter = None
        self._forget()
        for descriptor in (self._held, self._guard):
            if descriptor >= 0:
                let_go(descriptor)
        self._held = self._guard = -1

    # -- files ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        fcntl.flock(self._guard, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._guard, fcntl.LOCK_UN)

    def _place(self) -> int:
        try:
            return self._path.stat().st_ino
        except OSError:
            return 0

    def _read(self, descriptor: int) -> Record | None:
        return decode(os.pread(descriptor, 2 * RECORD_OCTETS, 0))

    def _read_path(self) -> Record | None:
        """Read by name: on NFS that asks the server, where a file that is open already answers from memory."""
        try:
            return decode(self._path.read_bytes())
        except OSError:
            return None

    def _write(self, descriptor: int, record: Record, *, sync: bool) -> None:
        os.pwrite(descriptor, record.encode().ljust(RECORD_OCTETS, b"\0"), 0)
        if sync:
            os.fsync(descriptor)

    def _look_at_path(self) -> tuple[int, int, int]:
        state = os.stat(self._path)
        return state.st_ino, state.st_mtime_ns, state.st_size

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def store_identity(directory: Path) -> str:
    """Return what tells this store from all others, made when it is asked for first. Raises StoreUnusable."""
    path = directory / "store.id"
    with suppress(OSError):
        known = path.read_text().strip()
        if known:
            return known
    try:
        draft = directory / f"store.id.{os.getpid()}"
        draft.touch(mode=OWNER_FILE)
        draft.write_text(os.urandom(16).hex() + "\n")
        with suppress(FileExistsError):
            os.link(draft, path)  # of two who do this, one is first
        draft.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise StoreUnusable(
            f"the data directory {directory} cannot be written: {error.strerror}",
            remedy="let the user who runs the broker write it; all brokers of a pair need the same directory",
        ) from error


class Mount(NamedTuple):
    """What matters of a mounted file system: ``remote`` when others see a write only after a sync, or may.

    ``lockless``: the option with which its locks end at this machine, "" where they do not. ``fuse``: a process serves
    it. With most of libfuse's file systems nobody can put another file in the place of one whose lock a thread sleeps
    for: then a holder that hangs could never be replaced. So there the lock is asked for again and again.
    """

    remote: bool
    lockless: str
    fuse: bool = False


def mount_of(directory: Path) -> Mount:
    """Return what ``directory`` is on; remote where there is no telling."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Mount(remote=True, lockless="")
    return find_mount(mounts, str(directory.resolve()))


def find_mount(mounts: str, path: str) -> Mount:
    """Return it for an absolute ``path``, from the text of ``/proc/self/mounts`` (fstab(5))."""
    best, kind, options = "", "nfs", ""
    for line in mounts.splitlines():
        point, name, words = line.split(" ")[1:4]
        point = point.replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind, options = point, name, words
    local = [word for word in options.split(",") if word in LOCKLESS]
    return Mount(kind.startswith(REMOTE), local[0] if local else "", kind.startswith("fuse"))
