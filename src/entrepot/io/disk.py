"""`JournalPort` on files: one thread that writes and syncs, so that the loop never waits for a disk.

Layout of a data directory::

    DIR/LOCK              held with flock while a broker runs, like DIR itself; says who (`io/lock.py`)
    DIR/journal/*.seg     segments (docs/formats/journal.md); *.tmp is a compaction that is not finished
    DIR/journal/spare     the next segment, filled with zeros ahead of time
    DIR/journal/epoch-N/  *.tmp and spare of epoch N, where brokers take turns: the next epoch removes the directory,
                          and with it whatever a former master might still give a name in the journal
    DIR/journal/reserve   space that is given up when the disk is full, so that settlements can still be written
    DIR/blobs/*.blob      large bodies

What is not needed any more is removed, or kept elsewhere for a while (`io/retention.py`).

Writing into zeros that are already on disk makes an fdatasync 1.5 to 2 times cheaper than growing a file, because no
length and no extent has to be recorded; so a segment begins as the spare file, or is filled a step ahead.

Syncing on the loop itself when a single request waits was tried and brings nothing (0.16 against 0.14 ms for one record
a sync): the way to the thread and back is 0.02 ms of the 0.125 ms that one record takes at the median, and a slow disk
would stop every connection. So only the writer thread changes files.

Completions are collected and run where ``notify`` runs them: pass ``loop.call_soon_threadsafe``. The thread is
`io/worker.py`, the files that it has open are `io/written.py`, where they are is `io/folders.py`.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from pathlib import Path
from typing import Final

from entrepot.base.errors import BodyLost, EntrepotError, StorageError
from entrepot.io.descriptors import let_go
from entrepot.io.folders import Folders
from entrepot.io.lock import DirectoryLock, unusable
from entrepot.io.worker import RESERVE_BYTES, Notify, Operation, Worker
from entrepot.io.written import Write, WrittenFiles, read_failed, read_over
from entrepot.journal.ports import JournalEvents, JournalPort

READ_FILES_MAX: Final = 128

GONE: Final = (errno.ENOENT, errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA, errno.EREMOTEIO)
"""Errors of reading that will come again: the file, or what the disk had of it, is lost."""


class Disk(JournalPort):
    """The files of one data directory, locked for this process until `close`.

    ``worker``: the thread that changes them. ``files``: those that it has open.
    """

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
        self.directory = directory
        self._lock = DirectoryLock(directory, name) if epoch == 0 else None
        try:
            self._folders: Final = Folders(directory, epoch)
        except OSError as error:
            self._unlock()
            raise unusable(directory, error) from error
        self.worker: Final = Worker(self._folders, notify, reserve_bytes)
        self.files: Final = WrittenFiles(self.worker, self._lock, look, preallocate=preallocate)
        self.sync_times: Final = self.files.sync_times
        self.locator = self._folders
        self._looking_at_space = False
        self._going: Final[dict[str, None]] = {}  # files whose removal is asked for
        self._read_files: dict[str, int] = {}
        self._blob_ends: dict[int, int] = {}
        self._closed = False
        self.worker.start()

    # -- asked by the core, on the loop --------------------------------------------------------------------------------

    def attach(self, events: JournalEvents) -> None:
        """Send completions to ``events``."""
        self.worker.events = events

    def names(self) -> list[str]:
        """Return the names of all segments and scratch files, sorted; none that is to be removed."""
        going = set(self._going)  # before the directory: what goes meanwhile is in neither
        try:
            return [name for name in self._folders.names() if name not in going]
        except OSError as error:
            raise unusable(self.directory, error) from error

    def size(self, name: str) -> int:
        """Return the length of a file in octets."""
        try:
            return self._folders.path(name).stat().st_size
        except OSError as error:
            raise read_failed(name, error) from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return up to ``length`` octets at ``offset``, including what is still to be written."""
        waiting = list(self.files.unwritten.get(name, ()))  # before the file: what is written meanwhile is seen twice
        return read_over(
            lambda: _pread(self._read_files, self._folders.path(name), offset, length), waiting, name, offset, length
        )

    def create(self, name: str, expected: int) -> None:
        """Make an empty file, from the spare one when that fits."""
        self.worker.ask(lambda: self.files.create(name, expected))

    def write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Write ``head`` and ``body`` at ``offset``."""
        self.files.unwritten.setdefault(name, deque()).append((offset, head, body))
        self.worker.ask_soon(Write(self.files, name, offset, [head, body]), len(head) + len(body))

    def sync(self, token: int) -> None:
        """Sync all that was asked for."""
        self.worker.ask(lambda: self.files.sync(token))

    def trim(self, name: str, length: int) -> None:
        """Give back what is behind ``length``."""
        self.worker.ask(lambda: self.files.trim(name, length))

    def cut(self, name: str, length: int) -> None:
        """Cut and sync before returning. Raises StorageError."""
        self.worker.wait_idle()
        if self.worker.failure is not None:
            raise self.worker.failure
        try:
            descriptor = os.open(self._folders.path(name), os.O_RDWR | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_size > length:
                    os.ftruncate(descriptor, length)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._folders.sync()
        except OSError as error:
            raise StorageError(f"cannot cut {name}: {error.strerror}", remedy="check the disk") from error

    def publish(self, scratch: str, name: str) -> None:
        """Sync ``scratch`` and give it its name."""
        self.worker.ask(lambda: self.files.publish(scratch, name))

    def drop(self, name: str) -> None:
        """Remove a file."""
        descriptor = self._read_files.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)
        self._going[name] = None

        def remove() -> None:
            self.files.drop(name)
            self._going.pop(name, None)

        self.worker.ask(remove)

    def renewed(self, first: int, last: int) -> None:
        """Let who keeps files know how young they are."""
        keeper = self.files.keeper
        if keeper.keeps:
            self.worker.ask(lambda: keeper.renew(int(first), int(last), time.time_ns()))

    def awaited(self, name: str, waits: bool) -> None:
        """Let who keeps files know what may still be published."""
        keeper = self.files.keeper
        if keeper.keeps:
            self.worker.ask(lambda: keeper.awaited(name, waits=waits))

    def space(self) -> int:
        """Return what was free for an unprivileged writer when the thread looked last; see `look_at_space`."""
        return self.worker.space

    def look_at_space(self) -> None:
        """Let the thread see what is free: a file system that hangs holds up who asks it, and that is not the loop."""
        if self._looking_at_space:
            return
        self._looking_at_space = True

        def note() -> None:
            self._looking_at_space = False
            self.files.keeper.look()
            self.worker.space = self._folders.free()

        self.worker.ask(note)

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        return self._folders.blobs()

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
        self.worker.ask(lambda: self.files.seal(name))

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
        waiting = list(self.files.unwritten.get(name, ()))  # before the file: what is written meanwhile is seen twice
        try:
            size = self._folders.path(name).stat().st_size
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
        self.worker.ask(lambda: self.files.set_aside(name))

    def blob_drop(self, blob_id: int) -> None:
        """Remove a blob."""
        self._blob_ends.pop(int(blob_id), None)
        name = blob_name(blob_id)
        self.files.given_up[name] = True
        self.drop(name)

    def look_at_lock(self) -> None:
        """Let the thread see whether the lock is still there: for while nothing is written."""
        if self._lock is not None:
            self.worker.ask(self.files.look_at_lock)

    def drain(self) -> None:
        """Wait until all is done or has failed, and call the completions."""
        self.worker.wait_idle()
        while self.worker.done:
            self.worker.deliver()  # which may ask for more
            self.worker.wait_idle()

    def close(self) -> None:
        """Do what was asked for, stop the thread, release the directory. Holds nothing back on a full disk."""
        if self._closed:
            return
        self._closed = True
        self.worker.stop()
        self.worker.deliver()
        self.files.close()
        for descriptor in self._read_files.values():
            let_go(descriptor)
        self._folders.close()
        self._unlock()

    def abandon(self, error: EntrepotError) -> None:
        """Begin nothing more of what was asked for: the files may be somebody else's."""
        self.worker.abandon(error)

    def capacity(self) -> int:
        """Return how large the file system is, in octets."""
        return self._folders.capacity()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _pread(open_files: dict[str, int], path: Path, offset: int, length: int) -> bytes:
    """Return octets of a file, which stays open; of those that are, the oldest is closed where there are many."""
    descriptor = open_files.get(path.name)
    if descriptor is None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if len(open_files) >= READ_FILES_MAX:
            os.close(open_files.pop(next(iter(open_files))))
        open_files[path.name] = descriptor
    data = os.pread(descriptor, length, offset)
    while 0 < len(data) < length:  # Linux returns at most 2 GiB at a time
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def blob_name(blob_id: int) -> str:
    """Return the file name of a blob."""
    return f"{int(blob_id)}.blob"
