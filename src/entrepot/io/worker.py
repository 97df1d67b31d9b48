"""The thread that changes the files of a store, what it does when the disk is full, and how it tells the loop.

Operations are done one by one, in order. A disk without room is tried again, after what was kept for that is given up;
any other error is the end: nothing more is done.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from entrepot.base.environment import MIB
from entrepot.base.errors import EntrepotError, StorageError, StorageFull
from entrepot.io.folders import Folders
from entrepot.io.lock import NO_SPACE, OWNER_FILE
from entrepot.journal.ports import JournalEvents

RESERVE_BYTES: Final = 8 * MIB
"""Room for the settlements of about half a million messages."""
RESERVE_SHARE: Final = 16
"""The reserve takes no more than this part of the file system."""
RETRY_SECONDS: Final = 0.2
"""How often a full disk is tried again."""

Notify = Callable[[Callable[[], None]], None]
Operation = Callable[[], None]


class Reserve:
    """Space that is set aside, and given up when the disk is full. Belongs to the thread. ``tight``: it is given up."""

    def __init__(self, worker: Worker, octets: int) -> None:
        self.tight = False
        self.lost_spare: Operation = lambda: None  # the next segment that was filled ahead is given up, too
        self.others: Callable[[], bool] = lambda: False  # gives up what is kept for other reasons, a part of it
        self._worker: Final = worker
        self._folders: Final = worker.folders
        self._octets: Final = min(octets, worker.folders.capacity() // RESERVE_SHARE)

    def give_up(self) -> bool:
        """Delete what was kept for this, or for less; False when there is nothing left to delete."""
        if self.others():
            return True
        freed = False
        for path in (self._folders.spare, self._folders.reserve):
            if path.exists():
                path.unlink(missing_ok=True)
                freed = True
        self.lost_spare()
        if freed and not self.tight:
            self.tight = True
            error = full(self._folders.directory)
            self._worker.tell(lambda: self._worker.events.tight(error))
        return freed

    def take(self) -> None:
        """Set space aside, if there is any; that is how a full disk is found to have room again."""
        path = self._folders.reserve
        if self._octets > 0 and not path.exists():
            if self._folders.free() < 2 * self._octets:
                return
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
                try:
                    os.posix_fallocate(descriptor, 0, self._octets)
                finally:
                    os.close(descriptor)
            except OSError:
                path.unlink(missing_ok=True)
                return
        if self.tight:
            self.tight = False
            self._worker.tell(self._relieved)

    def _relieved(self) -> None:
        self._worker.events.relieved()


class Worker:
    """The thread of one store. ``failure``: why nothing is done, None while all is well.

    ``space``: what was free when the thread looked last, in octets.
    """

    def __init__(self, folders: Folders, notify: Notify, reserve_octets: int) -> None:
        """``notify`` runs a function on the loop. Call `start` when operations may begin."""
        self.folders: Final = folders
        self.events = JournalEvents()
        self.failure: EntrepotError | None = None
        self.space = folders.free()
        self.stopping = False
        self.wake: Final = threading.Condition()
        self.reserve: Final = Reserve(self, reserve_octets)
        self._notify: Final = notify
        # Shared, under `wake`:
        self._queue: Final[deque[Operation]] = deque()
        self._busy = False
        self.done: Final[deque[Operation]] = deque()
        self._thread: Final = threading.Thread(target=self._run, name="entrepot-disk", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.ask(self.reserve.take)
        self._thread.start()

    def stop(self) -> None:
        """Do what was asked for, and end."""
        with self.wake:
            self.stopping = True
            self.wake.notify_all()
        self._thread.join()

    def abandon(self, error: EntrepotError) -> None:
        """Begin nothing more of what was asked for: the files may be somebody else's."""
        with self.wake:
            self._queue.clear()
            self.failure = error
            self.wake.notify_all()

    # -- between the loop and the thread -------------------------------------------------------------------------------

    def ask(self, operation: Operation) -> None:
        """Have ``operation`` done behind all that was asked for before."""
        with self.wake:
            self._queue.append(operation)
            self.wake.notify_all()

    def elsewhere(self, work: Operation, then: Operation) -> None:
        """Do ``work`` on the thread, behind all that was asked for; then ``then`` where completions are run."""

        def do() -> None:
            work()
            self.tell(then)

        self.ask(do)

    def wait_idle(self) -> None:
        """Wait until all is done, or waits for room on the disk. The thread itself has done all that came before."""
        if threading.current_thread() is self._thread:
            return
        with self.wake:
            while (self._queue or self._busy) and not self.held():
                self.wake.wait()

    def held(self) -> bool:
        """Say whether the thread waits for space: then nothing that is waited for will come soon."""
        return isinstance(self.failure, StorageFull)

    def tell(self, completion: Operation) -> None:
        """Hand a completion over to the loop."""
        self.done.append(completion)
        try:
            self._notify(self.deliver)
        except RuntimeError:  # the loop is closed: close() delivers what is left
            return

    def deliver(self) -> None:
        """Run the completions."""
        while self.done:
            self.done.popleft()()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self.wake:
                self._busy = False
                self.wake.notify_all()
                while not self._queue and not self.stopping:
                    if not self.wake.wait(1.0 if self.reserve.tight else None):
                        break
                if self._queue:
                    operation = self._queue.popleft()
                    self._busy = True
                elif self.stopping:
                    return
                else:
                    operation = self.reserve.take
                    self._busy = True
            self._perform(operation)

    def _perform(self, operation: Operation) -> None:
        """Carry out one operation; on a full disk, as often as it takes."""
        while self.failure is None or self.held():
            try:
                operation()
            except OSError as error:
                if error.errno not in NO_SPACE:
                    self.fail(StorageError(f"the disk failed: {error.strerror}", remedy="check the disk, then restart"))
                    return
                if self.reserve.give_up():
                    continue
                if not self._hold():
                    return
            except Exception as bug:
                # A thread that dies in silence would let everybody wait for ever.
                self.fail(StorageError(f"the journal's writer thread met a bug: {bug!r}", remedy="restart, and report"))
                raise
            else:
                self._resume()
                if self.reserve.tight:
                    self.reserve.take()
                return

    def _resume(self) -> None:
        """After waiting for space: it could be written, but only just."""
        error = self.failure
        if error is not None:
            self.failure = None
            self.tell(lambda: self.events.tight(error))

    def fail(self, error: EntrepotError) -> None:
        """Do nothing more, and tell the journal why."""
        self.failure = error
        self.tell(lambda: self.events.failed(error))

    def _hold(self) -> bool:
        """Wait a moment for space; False when the port is closing."""
        if not self.held():
            self.reserve.tight = True
            self.fail(full(self.folders.directory))
        self.space = self.folders.free()
        with self.wake:
            self.wake.notify_all()
            if self.stopping:
                return False
            self.wake.wait(RETRY_SECONDS)
            return not self.stopping


def full(directory: Path) -> StorageFull:
    """Return the error for a disk without space."""
    return StorageFull(
        f"no space is left for the journal in {directory}",
        remedy="make room on that disk, or consume messages: what they occupied is given back",
    )
