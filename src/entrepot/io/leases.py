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

The wait costs nothing: a thread sleeps in `flock`, but for FUSE. Beside it the record is looked at now and then.
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

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import InvalidOption, StoreLost, StoreUnusable
from entrepot.ha.lease import Grant, Lease, LeaseOptions, Record, Watch, decode, patience
from entrepot.io.descriptors import let_go
from entrepot.io.ledger import Ledger, highest_epoch
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


def refuse_twin(record: Record, mine: Record) -> None:
    """Raise InvalidOption when a master that lives has our name: nobody could tell the two apart."""
    if record.name == mine.name and record.instance != mine.instance and not record.released:
        raise InvalidOption(
            f"the master of this store is called {record.name}, too: {record.describe()}",
            remedy="give each broker of a pair a name of its own with --name",
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


class FileLease(Lease):
    """The lock of a data directory that brokers share."""

    def __init__(self, directory: Path, mine: Record, options: LeaseOptions, wake: Callable[[], None]) -> None:
        """``wake`` is called, by another thread, when `attempt` may succeed.

        Raises StoreUnusable, and InvalidOption for a mount whose locks end at this machine.
        """
        self.holder: Record | None = None  # who was seen last
        self._directory = directory
        self._path = directory / LOCK
        self._mine = mine
        self._options = options
        self._wake = wake
        self._watch = Watch()
        self._waiter: Waiter | None = None
        self._held = -1
        self._stamp: tuple[int, int, int] = (0, 0, 0)
        self._distrusted: dict[tuple[int, str, int, int], Instant] = {}  # what the lock was got on -> when, first
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
        self._ledger = Ledger(directory)

    # -- winning it ----------------------------------------------------------------------------------------------------

    def attempt(self, now: Instant) -> Grant | None:
        """Take it when it is free or has run out; else see to it that we are woken when it becomes free."""
        waiter = self._waiter
        if waiter is not None and (waiter.locked or waiter.place != self._place()):
            self._waiter = None
            if waiter.locked:
                return self._freed(waiter.take(), now)
            waiter.abandon()
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
        except OSError as error:
            raise StoreUnusable(
                f"the lock {self._path} cannot be opened: {error.strerror}",
                remedy="let the user who runs the broker read and write it",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(descriptor)
                raise StoreUnusable(
                    f"the file system of {self._directory} has no locks: {error.strerror}",
                    remedy="mount it with locks (NFS version 4), or use another locker",
                ) from error
            self._proved = True
            return self._held_by_another(descriptor, now)
        return self._freed(descriptor, now)

    def _place(self) -> int:
        try:
            return self._path.stat().st_ino
        except OSError:
            return 0

    def _held_by_another(self, descriptor: int, asked: Instant) -> Grant | None:
        record = self._read(descriptor)
        self.holder = record
        if record is not None:
            self._watch.observe(record, now())
            if self._watch.alive and not self.rules.twins:
                refuse_twin(record, self._mine)
            if self._watch.expired(record, asked):
                os.close(descriptor)
                return self._replace(record)
        if self._waiter is None and self._sleeps:
            self._waiter = Waiter(descriptor, self._wake)
        else:
            os.close(descriptor)
        return None

    def _freed(self, descriptor: int, asked: Instant) -> Grant | None:
        """The lock of the system is ours; whether it means anything is for the record to say."""
        with self._guarded():
            place = os.fstat(descriptor).st_ino
            if place != self._place():
                os.close(descriptor)  # somebody put another file there
                return None
            record = self._read(descriptor)
            self.holder = record
            reserved = record is not None and self.rules.leaves_alone(record, self._watch, now())
            if reserved or not self._trusted(descriptor, record, place, asked):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)
                return None
            why = "the store is new"
            if record is not None and record.released:
                why = f"{record.describe()} handed over"
            elif record is not None:
                why = f"{record.describe()} has ended without handing over"
            elif self._distrusted:
                why = "the lock file was not the one that the last master wrote, and its lease has run out"
            try:
                return self._claim(descriptor, record, why)
            except OSError:  # a disk that is full or cannot be written: not for ever, perhaps
                os.close(descriptor)
                raise

    def _trusted(self, descriptor: int, record: Record | None, place: int, asked: Instant) -> bool:
        """Say whether a holder that we cannot see is impossible: else wait for what a lease may last.

        Raises InvalidOption when there is such a holder.
        """
        if record is not None and record.place == place and (record.released or self._proved):
            return True
        if record is None and (os.fstat(descriptor).st_size > 0 or self._ledger.empty()):
            return True  # the file of a broker that stood alone, or a store that nobody ever had
        mark = (place, "", 0, 0) if record is None else (place, record.instance, record.epoch, record.beat)
        if mark not in self._distrusted:
            if any(mark[:3] == known[:3] for known in self._distrusted) and record is not None:
                raise InvalidOption(
                    f"locks keep nobody out of {self._directory}: {record.describe()} renews its lease while this "
                    "broker has the lock",
                    remedy="mount it with locks that all machines see (NFS version 4), or use another locker",
                )
            self._distrusted = {mark: asked}
        return asked - self._distrusted[mark] >= patience(max(self._options.duration, self._ledger.lease()))

    def _replace(self, expired: Record) -> Grant | None:
        """The holder has shown no life for longer than its lease: put a new lock in the place of his."""
        with self._guarded():
            current = self._read_path()
            if current is None or (current.instance, current.beat) != (expired.instance, expired.beat):
                return None
            draft = self._directory / f"{LOCK}.{self._mine.instance}"
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self._claim(
                    descriptor,
                    current,
                    f"the lease of {current.describe()} has run out: it gives no sign of life",
                    draft,
                )
            except OSError:
                os.close(descriptor)
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
                raise

    def _claim(self, descriptor: int, before: Record | None, why: str, draft: Path | None = None) -> Grant:
        """Write our record, with an epoch that nobody had. The guard is held."""
        asked = now()
        mine = self._mine
        mine.epoch = 1 + max(highest_epoch(self._directory), 0 if before is None else before.epoch)
        mine.beat = 1
        mine.since = time.time_ns() // MILLISECOND
        mine.place = os.fstat(descriptor).st_ino
        mine.released = False
        mine.reserved = ""
        mine.store = store_identity(self._directory)
        self._write(descriptor, sync=True)
        if draft is not None:
            os.rename(draft, self._path)
        self._sync_directory()
        self._held = descriptor
        self._stamp = self._look_at_path()
        self._ledger.append("master", mine, why)
        if self._waiter is not None:
            self._waiter.abandon()
            self._waiter = None
        return Grant(mine.epoch, asked, why)

    # -- keeping it ----------------------------------------------------------------------------------------------------

    def verify(self) -> None:
        """See whether the file at the path is still ours and as we left it. Raises StoreLost."""
        try:
            stamp = self._look_at_path()
        except FileNotFoundError:
            raise StoreLost("the lock file was deleted") from None
        if stamp == self._stamp:
            return
        if stamp[0] != self._stamp[0]:
            there = self._read_path()
            whose = f" by {there.describe()}" if there is not None and there.instance != self._mine.instance else ""
            raise StoreLost(f"the lock file was replaced{whose}")
        raise StoreLost("the lock file was touched by somebody else")

    def replaced(self) -> bool:
        """Say whether the file at the path is another one; a microsecond, for after every sync."""
        try:
            return os.stat(self._path).st_ino != self._stamp[0]
        except OSError as error:
            return error.errno == errno.ENOENT

    def renew(self) -> None:
        """Write the next beat into the record. Raises StoreLost; OSError when it may work later."""
        self.verify()
        self._mine.beat += 1
        self._write(self._held, sync=self._remote)
        stamp = os.fstat(self._held)
        self._stamp = (stamp.st_ino, stamp.st_mtime_ns, stamp.st_size)
        self.verify()

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Wait until another `attempt` is worth it: the thread that sleeps in `flock` sets ``wake``."""
        wake.wait(seconds)

    def release(self) -> None:
        """Say in the record that it is free, and free it: whoever waits wakes up."""
        if self._held < 0:
            return
        try:
            self.verify()
            self._mine.released = True
            self._write(self._held, sync=self._remote)
        except (OSError, StoreLost):
            pass  # then it is somebody else's, or the lock of the system has to be enough
        let_go(self._held)
        self._held = -1

    def close(self) -> None:
        """Let go without a word: what was ours may be another's."""
        if self._waiter is not None:
            self._waiter.abandon()
            self._waiter = None
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

    def _read(self, descriptor: int) -> Record | None:
        return decode(os.pread(descriptor, 2 * RECORD_OCTETS, 0))

    def _read_path(self) -> Record | None:
        """Read by name: on NFS that asks the server, where a file that is open already answers from memory."""
        try:
            return decode(self._path.read_bytes())
        except OSError:
            return None

    def _write(self, descriptor: int, *, sync: bool) -> None:
        octets = self._mine.encode()
        os.pwrite(descriptor, octets.ljust(RECORD_OCTETS, b"\0"), 0)
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
