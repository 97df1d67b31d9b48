"""A letter box: what is put in goes out from a thread of its own, in order, so that who writes never waits.

It holds `ROOM` letters. Where nobody takes them for long, the oldest are dropped, counted, and said in the log: they
tell what was done, and are no part of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

ROOM: Final = 1_000
WHY_MAX: Final = 200  # characters of a reason
SAID_EVERY: Final = 60.0  # s between two lines that say that it does not go

log: Final = logging.getLogger("entrepot.pipeline.lineage")

T = TypeVar("T")


class Post(Generic[T]):
    """``deliver`` is called with each letter; what it raises is said, and the letter is lost. `close` it."""

    def __init__(self, deliver: Callable[[T], None], room: int = ROOM) -> None:
        self._deliver: Final = deliver
        self._letters: Final[deque[T]] = deque()
        self._room: Final = room
        self._lost = 0
        self._said = -SAID_EVERY
        self._closing = False
        self._news: Final = threading.Condition()
        self._thread: Final = threading.Thread(target=self._run, name="post", daemon=True)
        self._thread.start()

    def put(self, letter: T) -> None:
        """Take ``letter``; it goes out later."""
        with self._news:
            if len(self._letters) >= self._room:
                self._letters.popleft()
                self._lost += 1
            self._letters.append(letter)
            self._news.notify()

    def close(self, patience: float) -> None:
        """Deliver what is there, for at most ``patience`` s."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(patience)
        left = len(self._letters) + self._lost
        if left:
            log.warning("%d events were not delivered before the end", left)

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._letters and not self._closing:
                    self._news.wait()
                if not self._letters:
                    return
                letter = self._letters.popleft()
            why = "too many waited"
            try:
                self._deliver(letter)
            except Exception as error:
                why = str(error)[:WHY_MAX] or repr(error)
                with self._news:
                    self._lost += 1
            if self._lost and time.monotonic() - self._said >= SAID_EVERY:
                self._complain(why)

    def _complain(self, why: str) -> None:
        with self._news:
            lost, self._lost = self._lost, 0
        self._said = time.monotonic()
        log.warning("%d events were not delivered: %s", lost, why)
