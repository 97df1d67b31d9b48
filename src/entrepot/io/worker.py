"""The thread that changes the files of a store, what it does when the disk is full, and how it tells the loop.

Operations are done one by one, in order. A disk without room is tried again, after what was kept for that is given up;
any other error is the end: nothing more is done.

To wake the thread costs more than to write a message: two threads and one lock of the interpreter change hands several
times. So what nobody waits for (`Worker.ask_soon`) wakes it from its sleep only when it has been asleep for `LINGER_S`,
or when `SOON_OCTETS` have come together; else it is found when the thread looks again, or behind it something is asked
for that cannot wait, as a sync (1 to 1, persistent, over CORE: a fifth to a quarter less processor time a message).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from entrepot.base.environment import KIB, MIB
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
RETAKE_SECONDS: Final = 1.0
"""How often the reserve is wanted back."""
LINGER_S: Final = 0.002
"""So long may a write stay with this process for which nobody waits: kill -9 takes that, a power cut all unsynced."""
SOON_OCTETS: Final = 256 * KIB
"""More than so much does not wait for others: the disk works while the loop goes on."""

AWAKE: Final = 0
LINGERS: Final = 1  # it looks again soon, by itself
SLEEPS: Final = 2

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
        # Shared: each is read and written in one step, and each side writes its own before it looks at the other's.
        self._queue: Final[deque[Operation]] = deque()
        self._busy = False
        self._state = AWAKE
        self._bell: Final[SimpleQueue[None]] = SimpleQueue()
        self._soon = 0  # octets that were asked for without waking it; a hint, no ledger
        self._watched = 0  # who waits for it to have done everything; under `wake`
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
        self._bell.put(None)
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
        self._queue.append(operation)
        if self._state != AWAKE:
            self._ring()

    def ask_soon(self, operation: Operation, octets: int) -> None:
        """Have it done within `LINGER_S`: nobody waits for it. ``octets``: that it writes."""
        self._queue.append(operation)
        self._soon += octets
        if self._state == SLEEPS or (self._soon >= SOON_OCTETS and self._state == LINGERS):
            self._ring()

    def _ring(self) -> None:
        self._state = AWAKE
        self._bell.put(None)

    def take(self, fits: Callable[[Operation], bool]) -> Operation | None:
        """Return what comes next if it ``fits``: the operation that runs does it along. Called by the thread."""
        try:
            if fits(self._queue[0]):
                return self._queue.popleft()
        except IndexError:  # there is none, or `abandon` was here
            pass
        return None

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
            self._watched += 1
            self._ring()
            while (self._queue or self._busy) and not self.held():
                self.wake.wait()
            self._watched -= 1

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
        lingers = True
        while True:
            self._busy = True
            try:
                operation = self._queue.popleft()
            except IndexError:
                self._busy = False
                if self._watched:
                    with self.wake:
                        self.wake.notify_all()
                if self.stopping:
                    return
                lingers = self._rest(lingers)
            else:
                lingers = True
                self._perform(operation)

    def _rest(self, lingers: bool) -> bool:
        """Wait for more. First for `LINGER_S`, then until the bell rings; return whether it is to linger again."""
        wait = LINGER_S if lingers else RETAKE_SECONDS if self.reserve.tight else None
        self._soon = 0
        self._state = LINGERS if lingers else SLEEPS
        rang = True
        if not self._queue and not self.stopping:  # what came before it said that it rests rang no bell
            try:
                self._bell.get(timeout=wait)
            except Empty:
                rang = False
        self._state = AWAKE
        if not rang and not lingers and not self._queue:
            self._perform(self.reserve.take)
        return False

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
