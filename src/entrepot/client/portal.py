"""What `blocking` stands on: one thread with an event loop, into which other threads call.

Everything that touches a connection happens in that thread, so keep-alives go out and brokers are replaced while the
program computes. Two paths do not wait for it: sends that nobody confirms (`Outbox`), and iterations, which take
several messages at a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from entrepot.base.errors import Fault

T = TypeVar("T")

OUTBOX_MAX: Final = 1000  # messages that a thread may be ahead of its connection
_lock: Final = threading.Lock()


class Portal:
    """The thread. One serves all blocking connections of a process; it ends with the process."""

    _shared: Portal | None = None

    def __init__(self) -> None:
        self.pid: Final = os.getpid()
        self.loop: Final = asyncio.new_event_loop()
        self._posted: deque[Callable[[], object]] = deque()
        self._awake = False
        self._thread: Final = threading.Thread(target=self._run, name="entrepot", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> Portal:
        """Return the portal of this process: a forked child gets one of its own."""
        with _lock:
            if cls._shared is None or cls._shared.pid != os.getpid():
                cls._shared = cls()
            return cls._shared

    def call(self, start: Callable[[], Awaitable[T]]) -> T:
        """Await what ``start`` returns, over there, and return its result. An interrupt of the caller cancels it."""
        if threading.current_thread() is self._thread:
            raise Fault("a callback of a blocking connection cannot wait for it: it runs in the connection's thread")

        async def awaited() -> T:
            return await start()

        future = asyncio.run_coroutine_threadsafe(awaited(), self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(self, action: Callable[[], T]) -> T:
        """Call ``action`` over there and return its result."""
        if threading.current_thread() is self._thread:
            return action()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def perform() -> None:
            try:
                future.set_result(action())
            except BaseException as error:
                future.set_exception(error)

        self.post(perform)
        return future.result()

    def post(self, action: Callable[[], object]) -> None:
        """Call ``action`` over there soon, in the order of posting; what it raises goes to the loop's handler."""
        self._posted.append(action)
        if not self._awake:
            self._awake = True
            self.loop.call_soon_threadsafe(self._perform)

    def _perform(self) -> None:
        self._awake = False  # first: what is posted from now on wakes us again
        posted = self._posted
        for _ in range(len(posted)):
            posted.popleft()()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


class Outbox:
    """Sends that nobody waits for, in order. A send that failed raises in a later call."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()
        self._sending = False
        self._failure: BaseException | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._room = threading.Condition()

    def put(self, start: Callable[[], Awaitable[None]]) -> None:
        """Have ``start`` awaited after all that was put before. Blocks while too much waits. Raises as it did."""
        self._raise_failure()
        if len(self._waiting) >= OUTBOX_MAX:
            with self._room:
                self._room.wait_for(lambda: len(self._waiting) < OUTBOX_MAX or self._failure is not None)
        self._waiting.append(start)
        if not self._sending:
            self._sending = True
            self._idle.clear()
            self._portal.post(self._begin)

    def flush(self) -> None:
        """Wait until all is sent. Raises what a send raised."""
        self._idle.wait()
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _begin(self) -> None:
        task = self._portal.loop.create_task(self._drain())
        task.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._sending = False
        if self._waiting:  # put between the last look and now
            self._sending = True
            self._begin()
        else:
            self._idle.set()
        with self._room:
            self._room.notify_all()

    async def _drain(self) -> None:
        waiting = self._waiting
        while waiting:
            try:
                await waiting.popleft()()
            except Exception as error:
                self._failure = error
                waiting.clear()
            if len(waiting) == OUTBOX_MAX // 2:
                with self._room:
                    self._room.notify_all()
