"""The files of a store as the writer thread has them open: written, filled ahead, synced, given their names.

Every method is called by that thread alone (`io/worker.py`), but `_fill_spare`, which has one of its own, and `reader`,
which the loop calls. What cannot be done is an OSError. Must never: call fdatasync again after it failed and believe
the answer.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import StorageError, StoreLost
from entrepot.io.descriptors import let_go
from entrepot.io.folders import is_blob
from entrepot.io.lock import NO_SPACE, OWNER_FILE, DirectoryLock
from entrepot.io.sync_times import SyncTimes
from entrepot.io.worker import Operation, Worker
from entrepot.journal.ports import SCRATCH

ZERO_STEP: Final = 1 * MIB
"""How far a growing segment is filled ahead when no spare was ready: 1 MiB costs under a millisecond."""
PARTS_MAX: Final = 512
"""Of one system call; the system takes 1,024."""
ZEROS: Final = bytes(256 * KIB)
SPARE_STEP: Final = 1 * MIB
"""How much of the spare file is under way to the disk at once: a sync of the journal waits for all that is."""


class Keeper:
    """Keeps what is not needed any more, or nothing of it, as here. Belongs to the thread of the store.

    ``keeps``: whether it keeps anything.
    """

    keeps = False

    def keep(self, name: str, path: Path) -> bool:
        """Take a file away; False when it is to be removed."""
        return False

    def renew(self, first: int, last: int, when: int) -> None:
        """Take segments, by their ids, for as young as ``when``, ns since 1970, in what is kept of them."""

    def awaited(self, name: str, *, waits: bool) -> None:
        """Keep what the compacted segment ``name`` was made of, however old; or no more."""

    def sync(self) -> None:
        """Make the names of what was taken durable."""

    def look(self, *, force: bool = False) -> None:
        """Now and then: remove what was kept long enough."""

    def close(self) -> None:
        """Let go of everything. The thread has ended."""


class WrittenFile:
    """A file that the writer thread has open."""

    def __init__(self, descriptor: int, *, expected: int, zeroed: int) -> None:
        self.descriptor = descriptor
        self.expected = expected
        self.zeroed = zeroed
        self.finished = False


class Write:
    """One operation of the thread: ``parts``, in this order, at ``offset`` of a file, and what comes behind them.

    Writes that follow one another in the queue and in the file are one system call: between the two the interpreter
    would change hands twice.
    """

    def __init__(self, files: WrittenFiles, name: str, offset: int, parts: list[bytes]) -> None:
        self.name: Final = name
        self.offset: Final = offset
        self.parts: Final = parts
        self.end = offset + sum(map(len, parts))
        self.count = 1  # writes that this is
        self._files: Final = files

    def __call__(self) -> None:
        """Write, along with what fits behind it. Tried again on a full disk."""
        while len(self.parts) < PARTS_MAX:
            more = self._files.worker.take(self._continued)
            if not isinstance(more, Write):
                break
            self.parts.extend(more.parts)
            self.end = more.end
            self.count += more.count
        self._files.write(self)

    def _continued(self, other: Operation) -> bool:
        return isinstance(other, Write) and other.name == self.name and other.offset == self.end


class WrittenFiles:
    """The files that are written to.

    ``unwritten``: name -> what is to be written; appended to by the loop, taken from when the octets are in the file.
    ``given_up``: blobs whose removal has been asked for.
    """

    def __init__(
        self, worker: Worker, lock: DirectoryLock | None, look: Operation | None, *, preallocate: bool
    ) -> None:
        """``lock``: of the directory, None where the caller has one; ``look``: called after each sync."""
        self.worker: Final = worker
        self.folders: Final = worker.folders
        self.lock = lock
        self.keeper = Keeper()
        self.unwritten: Final[dict[str, deque[tuple[int, bytes, bytes]]]] = {}
        self.given_up: Final[dict[str, bool]] = {}
        self._look: Final = look
        self._preallocate: Final = preallocate
        self._files: Final[dict[str, WrittenFile]] = {}
        self._dirty: Final[dict[str, WrittenFile]] = {}
        self.sync_times: Final = SyncTimes()
        self._names_dirty = False
        self._blob_names_dirty = False
        self._spoiled: Final[dict[str, bool]] = {}
        self._spare_size = 0
        self._filler: threading.Thread | None = None
        worker.reserve.lost_spare = self._forget_spare

    def close(self) -> None:
        """Let go of all of them. The thread has ended."""
        if self._filler is not None:
            self._filler.join()
        for written in self._files.values():
            let_go(written.descriptor)
        self.keeper.close()

    def _forget_spare(self) -> None:
        self._spare_size = 0

    def reader(self, name: str) -> Callable[[int, int], bytes]:
        """Return what reads octets from an offset on, in any thread, as asked for by now. It raises StorageError."""
        waiting = list(self.unwritten.get(name, ()))  # before the file: what is written meanwhile is seen twice
        path = self.folders.path(name)

        def read(offset: int, length: int) -> bytes:
            def from_file() -> bytes:
                with path.open("rb", buffering=0) as file:
                    file.seek(offset)
                    return file.read(length)

            return read_over(from_file, waiting, name, offset, length)

        return read

    def create(self, name: str, expected: int) -> None:
        """Make an empty file, from the spare one when that fits."""
        if not self.worker.reserve.tight:
            self.worker.reserve.take()  # there may have been no room for it when this began
        path = self.folders.path(name)
        zeroed = 0
        if self._spare_size > 0 and expected == self._spare_size:
            os.rename(self.folders.spare, path)
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

    def write(self, asked: Write) -> None:
        """Write what the loop put into ``unwritten``."""
        name = asked.name
        if name in self.given_up:
            # Its removal is behind this in the queue. On a full disk it may be the very thing that makes room.
            self._taken(asked)
            return
        if name not in self._spoiled:
            try:
                self._put(asked)
            except OSError as error:
                if error.errno not in NO_SPACE or not name.endswith(SCRATCH):
                    raise
                self._spoil(name)
                return
        elif name in self.unwritten:
            del self.unwritten[name]
            return
        self._taken(asked)

    def _taken(self, asked: Write) -> None:
        unwritten = self.unwritten[asked.name]
        for _ in range(asked.count):
            unwritten.popleft()

    def _put(self, asked: Write) -> None:
        name, end = asked.name, asked.end
        written = self._files.get(name)
        if written is None:  # a segment of an earlier run: recovery puts its end mark, and nothing comes behind that
            descriptor = os.open(self.folders.path(name), os.O_RDWR | os.O_CLOEXEC)
            written = WrittenFile(descriptor, expected=0, zeroed=0)
            written.finished = True
            self._files[name] = written
        self._dirty[name] = written
        if written.zeroed < end and written.zeroed < written.expected:
            self._fill_ahead(written, end)
        done = os.pwritev(written.descriptor, asked.parts, asked.offset)
        rest = memoryview(b"".join(asked.parts))[done:] if done < end - asked.offset else None
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
        path = self.folders.spare
        ready = False
        try:
            if self.folders.free() > 2 * size:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
                try:
                    done = 0
                    synced = 0
                    while done < size and not self.worker.stopping:
                        done += os.pwrite(descriptor, ZEROS[: size - done], done)
                        if done - synced >= SPARE_STEP:
                            os.fdatasync(descriptor)
                            synced = done
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                ready = done == size
        except OSError:
            ready = False
        if not ready:
            path.unlink(missing_ok=True)
        with self.worker.wake:
            self._spare_size = size if ready else 0

    def _spoil(self, name: str) -> None:
        self._spoiled[name] = True
        self.drop(name)
        self.worker.tell(lambda: self.worker.events.spoiled(name))

    def sync(self, token: int) -> None:
        """Make everything durable, and tell the journal that all up to ``token`` is."""
        began = time.perf_counter()
        self._sync_dirty()
        self.sync_times.note(time.perf_counter() - began)
        if self._look is not None:
            self._look()
        if self.still_locked():
            self.worker.tell(lambda: self.worker.events.synced(token))

    def look_at_lock(self) -> None:
        """See whether the lock file is ours; if not, all is over."""
        self.still_locked()

    def still_locked(self) -> bool:
        """Say whether the lock file is ours; if not, all is over: another broker may take its absence for leave."""
        why = "" if self.lock is None else self.lock.gone()
        if why and not isinstance(self.worker.failure, StoreLost):
            self.worker.fail(
                StoreLost(
                    f"the lock file {self.folders.directory / 'LOCK'} {why} while this broker ran",
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
                self.folders.sync()
                self._names_dirty = False
            if self._blob_names_dirty:
                self.folders.sync(bodies=True)
                self._blob_names_dirty = False
            self.keeper.sync()
        except OSError as error:
            raise OSError(errno.EIO, f"a sync failed ({error.strerror})") from error

    def trim(self, name: str, length: int) -> None:
        """Give back what is behind ``length``."""
        written = self._files.get(name)
        if written is not None:
            os.ftruncate(written.descriptor, length)
            self._finish(name)

    def _finish(self, name: str) -> None:
        """Nothing more comes into this file: close it with the next sync."""
        written = self._files.get(name)
        if written is not None:
            written.finished = True
            self._dirty[name] = written

    def seal(self, name: str) -> None:
        """A blob is whole: it is on disk before the record that refers to it can be, or that would outlive it."""
        self._finish(name)
        self._sync_dirty()

    def publish(self, scratch: str, name: str) -> None:
        """Make ``scratch`` durable, and give it its name."""
        if self._spoiled.pop(scratch, False):
            return
        self._finish(scratch)
        self._sync_dirty()
        if not self.still_locked():
            return
        os.rename(self.folders.path(scratch), self.folders.path(name))
        self.unwritten.pop(scratch, None)
        try:
            self.folders.sync()
        except OSError as error:
            raise OSError(errno.EIO, f"a sync failed ({error.strerror})") from error
        self.worker.tell(lambda: self.worker.events.published(name))

    def drop(self, name: str) -> None:
        """Remove a file, or let it be kept where that is asked for: what was begun only is not."""
        written = self._files.pop(name, None)
        self._dirty.pop(name, None)
        if written is not None:
            os.close(written.descriptor)
        self.unwritten.pop(name, None)
        path = self.folders.path(name)
        whole = written is None or written.finished
        if not whole or not self.keeper.keep(name, path):
            path.unlink(missing_ok=True)
        self.given_up.pop(name, None)
        self._name_changed(name)

    def set_aside(self, name: str) -> None:
        """Rename a blob: removing it is up to people."""
        written = self._files.pop(name, None)
        self._dirty.pop(name, None)
        if written is not None:
            os.close(written.descriptor)
        self.unwritten.pop(name, None)
        with suppress(FileNotFoundError):
            os.rename(self.folders.path(name), self.folders.bodies / (name[: -len(".blob")] + ".damaged"))
        self._name_changed(name)


def read_over(
    read: Callable[[], bytes], waiting: list[tuple[int, bytes, bytes]], name: str, offset: int, length: int
) -> bytes:
    """Return what ``read`` finds in the file ``name``, with what is still to be written to it. Raises StorageError."""
    try:
        data = read()
    except FileNotFoundError as error:
        if not waiting:
            raise read_failed(name, error) from error
        data = b""
    except OSError as error:
        raise read_failed(name, error) from error
    return overlay(data, offset, length, waiting) if waiting else data


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
