"""Hashes of passwords, looked at in a thread: OpenSSL lets go of the interpreter meanwhile, so that nobody waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from entrepot.core.security.logins import Hasher
from entrepot.core.security.passwords import Kept
from entrepot.io.turns import Turn

log: Final = logging.getLogger(__name__)


class ThreadHasher(Hasher):
    """One thread, made when it is needed first; what it finds is told in a turn of the broker."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Final = turn
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    def look(self, kept: Kept, password: str, done: Callable[[bool], None]) -> None:
        """Have the thread look; ``done`` is called in a turn of its own."""
        if self._closed:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "entrepot-passwords")
        self._pool.submit(kept.matches, password).add_done_callback(partial(self._looked, done))

    def _looked(self, done: Callable[[bool], None], found: Future[bool]) -> None:
        """The thread is done with one."""
        if not self._closed and not found.cancelled():
            self.turn.loop.call_soon_threadsafe(self._tell, done, found)

    def _tell(self, done: Callable[[bool], None], found: Future[bool]) -> None:
        error = found.exception()
        if error is not None:
            log.error("a password could not be looked at: %s", error)
        if not self._closed:
            self.turn.run(partial(done, error is None and found.result()))

    def close(self) -> None:
        """Look at nothing more, and tell nobody."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
