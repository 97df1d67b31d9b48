"""`JournalPort` on files: one thread that writes and syncs, so that the loop never waits for a disk.

Layout of a data directory::

    DIR/LOCK              held with flock while a broker runs, like DIR itself; says who (`io/lock.py`)
    DIR/journal/*.seg     segments (docs/formats/journal.md); *.tmp is a compaction that is not finished
    DIR/journal/spare     the next segment, filled with zeros ahead of time
    DIR/journal/epoch-N/  *.tmp and spare of epoch N, where brokers take turns: the next epoch removes the directory,
                          and with it whatever a former master might still give a name in the journal
    DIR/journal/reserve   space that is given up when the disk is full, so that settlements can still be written
    DIR/blobs/*.blob      large bodies

Writing into zeros that are already on disk makes an fdatasync 1.5 to 2 times cheaper than growing a file, because no
length and no extent has to be recorded; so a segment begins as the spare file, or is filled a step ahead.

Syncing on the loop itself when a single request waits was tried and brings nothing (0.16 against 0.14 ms for one record
a sync): the way to the thread and back is 0.02 ms of the 0.125 ms that one record takes at the median, and a slow disk
would stop every connection. So only the writer thread changes files.

Completions are collected and run where ``notify`` runs them: pass ``loop.call_soon_threadsafe``. Must never: call
fdatasync again after it failed and believe the answer.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import BodyLost, EntrepotError, StorageError, StorageFull, StoreLost
from entrepot.io.descriptors import let_go
from entrepot.io.lock import NO_SPACE, OWNER_DIRECTORY, OWNER_FILE, DirectoryLock, close_to_others, unusable
from entrepot.journal.ports import SCRATCH, JournalEvents, JournalPort

ZERO_STEP: Final = 1 * MIB
"""How far a growing segment is filled ahead when no spare was ready: 1 MiB costs under a millisecond."""
RESERVE_BYTES: Final = 8 * MIB
"""Room for the settlements of about half a million messages."""
RESERVE_SHARE: Final = 16
"""The reserve takes no more than this part of the file system."""
RETRY_SECONDS: Final = 0.2
"""How often a full disk is tried again."""
READ_FILES_MAX: Final = 128

GONE: Final = (errno.ENOENT, errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA, errno.EREMOTEIO)
"""Errors of reading that will come again: the file, or what the disk had of it, is lost."""
ZEROS: Final = bytes(256 * KIB)

Notify = Callable[[Callable[[], None]], None]
Operation = Callable[[], None]


class WrittenFile:
    """A file that the writer thread has open."""

    def __init__(self, descriptor: int, *, expected: int, zeroed: int) -> None:
        self.descriptor = descriptor
        self.expected = expected
        self.zeroed = zeroed
        self.finished = False


class Disk(JournalPort):
    """The files of one data directory, locked for this process until `close`."""

    def __init__(
        self,
        directory: Path,
        notify: Notify,
        *,
        name: str = "",
        reserve_bytes: int = RESERVE_BYTES,
        preallocate: bool = True,
        epoch: int = 0,
        look: Operation | None = None,
    ) -> None:
        """Lock ``directory``, made if need be, and start the thread. Raises StoreLocked, StoreUnusable.

        ``epoch`` above 0: the caller holds the lock, and others may come after him while this process still writes.
        ``look``: called by the thread after each sync and before its completion, to see whether the lock is there.
        """
        self._look = look
        self.directory = directory
        self._journal = directory / "journal"
        self._blobs = directory / "blobs"
        self._notify = notify
        self._preallocate = preallocate
        self._events = JournalEvents()
        self._lock = DirectoryLock(directory, name) if epoch == 0 else None
        try:
            close_to_others(directory)
            self._journal.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
            self._blobs.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
            self._nest = self._journal
            if epoch:
                clear_nests(self._journal)
                self._nest = self._journal / f"epoch-{epoch}"
                self._nest.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
            self._spare = self._nest / "spare"
            self._journal_fd = os.open(self._journal, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._blobs_fd = os.open(self._blobs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            os.close(os.open(self._journal / "probe.tmp", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE))
            (self._journal / "probe.tmp").unlink(missing_ok=True)
        except OSError as error:
            self._unlock()
            raise unusable(directory, error) from error
        self._reserve_bytes = min(reserve_bytes, self._capacity() // RESERVE_SHARE)
        self._space = self._free()
        self._looking_at_space = False
        # Shared with the writer thread, under _wake:
        self._wake = threading.Condition()
        self._queue: deque[Operation] = deque()
        self._busy = False
        self._stopping = False
        self._done: deque[Operation] = deque()
        # Appended to by the loop, taken from by the thread after the octets are in the file:
        self._unwritten: dict[str, deque[tuple[int, bytes, bytes]]] = {}
        # The writer thread's own:
        self._files: dict[str, WrittenFile] = {}
        self._dirty: dict[str, WrittenFile] = {}
        self._names_dirty = False
        self._blob_names_dirty = False
        self._given_up: dict[str, bool] = {}  # blobs whose removal has been asked for
        self._spoiled: dict[str, bool] = {}
        self._spare_size = 0
        self._filler: threading.Thread | None = None
        self._tight = False
        self._failure: EntrepotError | None = None
        # The loop's own:
        self._read_files: dict[str, int] = {}
        self._blob_ends: dict[int, int] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="entrepot-disk", daemon=True)
        self._ask(self._take_reserve)
        self._thread.start()

    # -- asked by the core, on the loop --------------------------------------------------------------------------------

    def attach(self, events: JournalEvents) -> None:
        """Send completions to ``events``."""
        self._events = events

    def names(self) -> list[str]:
        """Return the names of all segments and scratch files, sorted."""
        try:
            found = os.listdir(self._journal)
            if self._nest is not self._journal:
                found = [each for each in found if not each.endswith(SCRATCH)] + os.listdir(self._nest)
            return sorted(each for each in found if each.endswith((".seg", SCRATCH)))
        except OSError as error:
            raise unusable(self.directory, error) from error

    def size(self, name: str) -> int:
        """Return the length of a file in octets."""
        try:
            return self._path(name).stat().st_size
        except OSError as error:
            raise read_failed(name, error) from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return up to ``length`` octets at ``offset``, including what is still to be written."""
        waiting = list(self._unwritten.get(name, ()))  # before the file: what is written meanwhile is seen twice
        try:
            data = self._pread(name, offset, length)
        except FileNotFoundError as error:
            if not waiting:
                raise read_failed(name, error) from error
            data = b""
        except OSError as error:
            raise read_failed(name, error) from error
        return overlay(data, offset, length, waiting) if waiting else data

    def _pread(self, name: str, offset: int, length: int) -> bytes:
        descriptor = self._read_files.get(name)
        if descriptor is None:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
            if len(self._read_files) >= READ_FILES_MAX:
                os.close(self._read_files.pop(next(iter(self._read_files))))
            self._read_files[name] = descriptor
        data = os.pread(descriptor, length, offset)
        while 0 < len(data) < length:  # Linux returns at most 2 GiB at a time
            more = os.pread(descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def create(self, name: str, expected: int) -> None:
        """Make an empty file, from the spare one when that fits."""
        self._ask(lambda: self._do_create(name, expected))

    def write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Write ``head`` and ``body`` at ``offset``."""
        self._unwritten.setdefault(name, deque()).append((offset, head, body))
        self._ask(lambda: self._do_write(name, offset, head, body))

    def sync(self, token: int) -> None:
        """Sync all that was asked for."""
        self._ask(lambda: self._do_sync(token))

    def trim(self, name: str, length: int) -> None:
        """Give back what is behind ``length``."""
        self._ask(lambda: self._do_trim(name, length))

    def cut(self, name: str, length: int) -> None:
        """Cut and sync before returning. Raises StorageError."""
        self._wait_idle()
        if self._failure is not None:
            raise self._failure
        try:
            descriptor = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_size > length:
                    os.ftruncate(descriptor, length)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.fsync(self._journal_fd)
        except OSError as error:
            raise StorageError(f"cannot cut {name}: {error.strerror}", remedy="check the disk") from error

    def publish(self, scratch: str, name: str) -> None:
        """Sync ``scratch`` and give it its name."""
        self._ask(lambda: self._do_publish(scratch, name))

    def drop(self, name: str) -> None:
        """Remove a file."""
        descriptor = self._read_files.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)
        self._ask(lambda: self._do_drop(name))

    def space(self) -> int:
        """Return what was free for an unprivileged writer when the thread looked last; see `look_at_space`."""
        return self._space

    def look_at_space(self) -> None:
        """Let the thread see what is free: a file system that hangs holds up who asks it, and that is not the loop."""
        if not self._looking_at_space:
            self._looking_at_space = True
            self._ask(self._note_space)

    def _note_space(self) -> None:
        self._looking_at_space = False
        self._space = self._free()

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        found = [each[:-5] for each in os.listdir(self._blobs) if each.endswith(".blob")]
        return sorted(int(each) for each in found if each.isascii() and each.isdigit())

    def blob_create(self, blob_id: int) -> None:
        """Make an empty blob."""
        self._blob_ends[int(blob_id)] = 0
        self.create(blob_name(blob_id), 0)

    def blob_write(self, blob_id: int, chunk: bytes) -> None:
        """Append to a blob that this process made."""
        end = self._blob_ends[int(blob_id)]
        self._blob_ends[int(blob_id)] = end + len(chunk)
        self.write(blob_name(blob_id), end, chunk, b"")

    def blob_seal(self, blob_id: int) -> None:
        """Sync the blob before anything that is asked for behind this: a record that refers to it comes later."""
        self._blob_ends.pop(int(blob_id), None)
        name = blob_name(blob_id)
        self._ask(lambda: self._do_seal(name))

    def blob_read(self, blob_id: int, offset: int, length: int) -> bytes:
        """Return up to ``length`` octets of a blob."""
        try:
            return self.read(blob_name(blob_id), offset, length)
        except StorageError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in GONE:
                raise BodyLost(f"it cannot be read: {cause.strerror}") from error
            raise

    def blob_size(self, blob_id: int) -> int:
        """Return the length of a blob, with what is still to be written; -1 when there is none."""
        name = blob_name(blob_id)
        waiting = list(self._unwritten.get(name, ()))  # before the file: what is written meanwhile is seen twice
        try:
            size = self._path(name).stat().st_size
        except FileNotFoundError:
            size = -1
        except OSError as error:
            raise read_failed(name, error) from error
        return max([size, *(offset + len(head) + len(body) for offset, head, body in waiting)])

    def blob_set_aside(self, blob_id: int) -> None:
        """Rename a blob to N.damaged; removing that is up to people."""
        self._blob_ends.pop(int(blob_id), None)
        name = blob_name(blob_id)
        descriptor = self._read_files.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)
        self._ask(lambda: self._do_set_aside(name))

    def blob_drop(self, blob_id: int) -> None:
        """Remove a blob."""
        self._blob_ends.pop(int(blob_id), None)
        name = blob_name(blob_id)
        self._given_up[name] = True
        self.drop(name)

    def look_at_lock(self) -> None:
        """Let the thread see whether the lock is still there: for while nothing is written."""
        if self._lock is not None:
            self._ask(self._look_at_lock)

    def _look_at_lock(self) -> None:
        self._still_locked()

    def drain(self) -> None:
        """Wait until all is done or has failed, and call the completions."""
        self._wait_idle()
        while self._done:
            self._deliver()  # which may ask for more
            self._wait_idle()

    def close(self) -> None:
        """Do what was asked for, stop the thread, release the directory. Holds nothing back on a full disk."""
        if self._closed:
            return
        self._closed = True
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join()
        if self._filler is not None:
            self._filler.join()
        self._deliver()
        for written in self._files.values():
            let_go(written.descriptor)
        for descriptor in [*self._read_files.values(), self._journal_fd, self._blobs_fd]:
            let_go(descriptor)
        self._unlock()

    def abandon(self, error: EntrepotError) -> None:
        """Begin nothing more of what was asked for: the files may be somebody else's."""
        with self._wake:
            self._queue.clear()
            self._failure = error
            self._wake.notify_all()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- between the loop and the thread -------------------------------------------------------------------------------

    def _ask(self, operation: Operation) -> None:
        with self._wake:
            self._queue.append(operation)
            self._wake.notify_all()

    def _wait_idle(self) -> None:
        with self._wake:
            while (self._queue or self._busy) and not self._held():
                self._wake.wait()

    def _held(self) -> bool:
        """Say whether the thread waits for space: then nothing that is waited for will come soon."""
        return isinstance(self._failure, StorageFull)

    def _tell(self, completion: Operation) -> None:
        """Hand a completion over to the loop."""
        self._done.append(completion)
        try:
            self._notify(self._deliver)
        except RuntimeError:  # the loop is closed: close() delivers what is left
            return

    def _deliver(self) -> None:
        while self._done:
            self._done.popleft()()

    # -- the writer thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                self._busy = False
                self._wake.notify_all()
                while not self._queue and not self._stopping:
                    if not self._wake.wait(1.0 if self._tight else None):
                        break
                if self._queue:
                    operation = self._queue.popleft()
                    self._busy = True
                elif self._stopping:
                    return
                else:
                    operation = self._take_reserve
                    self._busy = True
            self._perform(operation)

    def _perform(self, operation: Operation) -> None:
        """Carry out one operation; on a full disk, as often as it takes."""
        while self._failure is None or self._held():
            try:
                operation()
            except OSError as error:
                if error.errno not in NO_SPACE:
                    self._fail(
                        StorageError(f"the disk failed: {error.strerror}", remedy="check the disk, then restart")
                    )
                    return
                if self._give_up_reserve():
                    continue
                if not self._hold():
                    return
            except Exception as bug:
                # A thread that dies in silence would let everybody wait for ever.
                self._fail(
                    StorageError(f"the journal's writer thread met a bug: {bug!r}", remedy="restart, and report")
                )
                raise
            else:
                self._resume()
                if self._tight:
                    self._take_reserve()
                return

    def _resume(self) -> None:
        """After waiting for space: it could be written, but only just."""
        error = self._failure
        if error is not None:
            self._failure = None
            self._tell(lambda: self._events.tight(error))

    def _fail(self, error: EntrepotError) -> None:
        self._failure = error
        self._tell(lambda: self._events.failed(error))

    def _hold(self) -> bool:
        """Wait a moment for space; False when the port is closing."""
        if not self._held():
            self._tight = True
            self._fail(full(self.directory))
        self._space = self._free()
        with self._wake:
            self._wake.notify_all()
            if self._stopping:
                return False
            self._wake.wait(RETRY_SECONDS)
            return not self._stopping

    def _give_up_reserve(self) -> bool:
        """Delete what was kept for this; False when there is nothing left to delete."""
        freed = False
        for path in (self._spare, self._journal / "reserve"):
            if path.exists():
                path.unlink(missing_ok=True)
                freed = True
        self._spare_size = 0
        if freed and not self._tight:
            self._tight = True
            error = full(self.directory)
            self._tell(lambda: self._events.tight(error))
        return freed

    def _take_reserve(self) -> None:
        """Set space aside, if there is any; that is how a full disk is found to have room again."""
        path = self._journal / "reserve"
        if self._reserve_bytes > 0 and not path.exists():
            if self._free() < 2 * self._reserve_bytes:
                return
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
                try:
                    os.posix_fallocate(descriptor, 0, self._reserve_bytes)
                finally:
                    os.close(descriptor)
            except OSError:
                path.unlink(missing_ok=True)
                return
        if self._tight:
            self._tight = False
            self._tell(self._relieved)

    def _relieved(self) -> None:
        self._events.relieved()

    def _do_create(self, name: str, expected: int) -> None:
        if not self._tight:
            self._take_reserve()  # there may have been no room for it when this began
        path = self._path(name)
        zeroed = 0
        if self._spare_size > 0 and expected == self._spare_size:
            os.rename(self._spare, path)
            zeroed = self._spare_size
            self._spare_size = 0
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
        self._files[name] = WrittenFile(descriptor, expected=expected if self._preallocate else 0, zeroed=zeroed)
        self._name_changed(name)

    def _name_changed(self, name: str) -> None:
        if is_blob(name):
            self._blob_names_dirty = True
        else:
            self._names_dirty = True

    def _do_write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        if name in self._given_up:
            # Its removal is behind this in the queue. On a full disk it may be the very thing that makes room.
            self._unwritten[name].popleft()
            return
        if name not in self._spoiled:
            try:
                self._put(name, offset, head, body)
            except OSError as error:
                if error.errno not in NO_SPACE or not name.endswith(SCRATCH):
                    raise
                self._spoil(name)
                return
        elif name in self._unwritten:
            del self._unwritten[name]
            return
        self._unwritten[name].popleft()

    def _put(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        written = self._files.get(name)
        if written is None:  # a segment of an earlier run: recovery puts its end mark
            descriptor = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
            written = WrittenFile(descriptor, expected=0, zeroed=0)
            self._files[name] = written
        self._dirty[name] = written
        end = offset + len(head) + len(body)
        if written.zeroed < end and written.zeroed < written.expected:
            self._fill_ahead(written, end)
        done = os.pwritev(written.descriptor, [head, body], offset)
        rest = memoryview(head + body)[done:] if done < end - offset else None
        while rest:
            done = os.pwrite(written.descriptor, rest, end - len(rest))
            rest = rest[done:]
        if self._preallocate and self._spare_size == 0 and written.expected and end * 2 > written.expected:
            self._prepare_spare(written.expected)

    def _fill_ahead(self, written: WrittenFile, end: int) -> None:
        goal = min(written.expected, end + ZERO_STEP)
        while written.zeroed < goal:
            written.zeroed += os.pwrite(written.descriptor, ZEROS[: goal - written.zeroed], written.zeroed)

    def _prepare_spare(self, size: int) -> None:
        """Fill the next segment with zeros in the background; a disk without room for it goes without."""
        self._spare_size = -1
        self._filler = threading.Thread(target=self._fill_spare, args=(size,), name="entrepot-spare", daemon=True)
        self._filler.start()

    def _fill_spare(self, size: int) -> None:
        path = self._spare
        ready = False
        try:
            if self._free() > 2 * size:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
                try:
                    done = 0
                    while done < size and not self._stopping:
                        done += os.pwrite(descriptor, ZEROS[: size - done], done)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                ready = done == size
        except OSError:
            ready = False
        if not ready:
            path.unlink(missing_ok=True)
        with self._wake:
            self._spare_size = size if ready else 0

    def _spoil(self, name: str) -> None:
        self._spoiled[name] = True
        self._do_drop(name)
        self._tell(lambda: self._events.spoiled(name))

    def _do_sync(self, token: int) -> None:
        self._sync_dirty()
        if self._look is not None:
            self._look()
        if self._still_locked():
            self._tell(lambda: self._events.synced(token))

    def _still_locked(self) -> bool:
        """Say whether the lock file is ours; if not, all is over: another broker may take its absence for leave."""
        why = "" if self._lock is None else self._lock.gone()
        if why and not isinstance(self._failure, StoreLost):
            self._fail(
                StoreLost(
                    f"the lock file {self.directory / 'LOCK'} {why} while this broker ran",
                    remedy="start it again; a lock that is in use is not to be removed, and another one need not be",
                )
            )
        return not why

    def _sync_dirty(self) -> None:
        """Make all that was written durable; whatever goes wrong here is final."""
        try:
            for name, written in list(self._dirty.items()):
                os.fdatasync(written.descriptor)
                del self._dirty[name]
                if written.finished:
                    os.close(written.descriptor)
                    self._files.pop(name, None)
            if self._names_dirty:
                os.fsync(self._journal_fd)
                self._names_dirty = False
            if self._blob_names_dirty:
                os.fsync(self._blobs_fd)
                self._blob_names_dirty = False
        except OSError as error:
            raise OSError(errno.EIO, f"a sync failed ({error.strerror})") from error

    def _do_trim(self, name: str, length: int) -> None:
        written = self._files.get(name)
        if written is not None:
            os.ftruncate(written.descriptor, length)
            self._do_finish(name)

    def _do_finish(self, name: str) -> None:
        """Nothing more comes into this file: close it with the next sync."""
        written = self._files.get(name)
        if written is not None:
            written.finished = True
            self._dirty[name] = written

    def _do_seal(self, name: str) -> None:
        """A blob is whole: it is on disk before the record that refers to it can be, or that would outlive it."""
        self._do_finish(name)
        self._sync_dirty()

    def _do_publish(self, scratch: str, name: str) -> None:
        if self._spoiled.pop(scratch, False):
            return
        self._do_finish(scratch)
        self._sync_dirty()
        if not self._still_locked():
            return
        os.rename(self._path(scratch), self._path(name))
        self._unwritten.pop(scratch, None)
        try:
            os.fsync(self._journal_fd)
        except OSError as error:
            raise OSError(errno.EIO, f"a sync failed ({error.strerror})") from error
        self._tell(lambda: self._events.published(name))

    def _do_drop(self, name: str) -> None:
        written = self._files.pop(name, None)
        self._dirty.pop(name, None)
        if written is not None:
            os.close(written.descriptor)
        self._unwritten.pop(name, None)
        self._path(name).unlink(missing_ok=True)
        self._given_up.pop(name, None)
        self._name_changed(name)

    def _do_set_aside(self, name: str) -> None:
        written = self._files.pop(name, None)
        self._dirty.pop(name, None)
        if written is not None:
            os.close(written.descriptor)
        self._unwritten.pop(name, None)
        with suppress(FileNotFoundError):
            os.rename(self._path(name), self._blobs / (name[: -len(".blob")] + ".damaged"))
        self._name_changed(name)

    # -- small things --------------------------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        if is_blob(name):
            return self._blobs / name
        return (self._nest if name.endswith(SCRATCH) else self._journal) / name

    def _free(self) -> int:
        state = os.statvfs(self._journal)
        return state.f_bavail * state.f_frsize

    def capacity(self) -> int:
        """Return how large the file system is, in octets."""
        return self._capacity()

    def _capacity(self) -> int:
        state = os.statvfs(self._journal)
        return state.f_blocks * state.f_frsize


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


def blob_name(blob_id: int) -> str:
    """Return the file name of a blob."""
    return f"{int(blob_id)}.blob"


def is_blob(name: str) -> bool:
    """Say whether a name is that of a blob."""
    return name.endswith(".blob")


def overlay(data: bytes, offset: int, length: int, waiting: list[tuple[int, bytes, bytes]]) -> bytes:
    """Return ``data``, read at ``offset``, with what is still to be written laid over it, at most ``length`` octets."""
    result = bytearray(data)
    for start, head, body in waiting:
        octets = head + body
        low = max(start, offset)
        high = min(start + len(octets), offset + length)
        if low < high:
            if len(result) < high - offset:
                result.extend(bytes(high - offset - len(result)))
            result[low - offset : high - offset] = octets[low - start : high - start]
    return bytes(result)


def read_failed(name: str, error: OSError) -> StorageError:
    """Return the error for a file that cannot be read."""
    return StorageError(f"cannot read {name}: {error.strerror}", remedy="check the disk and the data directory")


def full(directory: Path) -> StorageFull:
    """Return the error for a disk without space."""
    return StorageFull(
        f"no space is left for the journal in {directory}",
        remedy="make room on that disk, or consume messages: what they occupied is given back",
    )
