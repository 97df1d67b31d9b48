"""What goes to a collector on a thread of its own, from a queue that has an end.

The loop never waits for it: `Outbox.put` appends or counts what found no room. A collector that hangs, or is away,
costs what it does not take, and one line in the log.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LIMIT: Final = 2048  # these three are OpenTelemetry's own (OTEL_BSP_...), but for the delay: 5 s there
BATCH: Final = 512
DELAY: Final = 1.0
CLOSE_WITHIN: Final = 2.0  # s; a broker that stops does not wait longer for its collector

log: Final = logging.getLogger("entrepot.telemetry")


class Outbox(Generic[T]):
    """Items that wait to be sent. ``send`` gets a batch, on the thread; False, or an exception: it was not taken.

    ``limit``: how many may wait; ``batch``: how many are sent at once; ``delay``: s until fewer than that are.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[list[T]], bool],
        *,
        limit: int = LIMIT,
        batch: int = BATCH,
        delay: float = DELAY,
    ) -> None:
        self.name: Final = name
        self.sent = 0
        self.overflowed = 0  # counted by the loop's thread alone, and the next by the other one alone
        self.failed = 0
        self._send: Final = send
        self._limit: Final = limit
        self._batch: Final = min(batch, limit)
        self._delay: Final = delay
        self._waiting: Final[deque[T]] = deque()
        self._look: Final = threading.Event()
        self._closing = False
        self._told = threading.Lock()
        self._thread: Final = threading.Thread(target=self._run, name="entrepot-telemetry", daemon=True)

    @property
    def dropped(self) -> int:
        """Return how many were not sent: the queue was full, or the collector did not take them."""
        return self.overflowed + self.failed

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, item: T) -> None:
        """Have ``item`` sent, or count it as dropped. Never waits."""
        waiting = self._waiting
        if len(waiting) >= self._limit:
            self.overflowed += 1
            self._tell("the collector does not keep up")
            return
        waiting.append(item)
        if len(waiting) == self._batch:
            self._look.set()

    def close(self, within: float = CLOSE_WITHIN) -> None:
        """Send what waits, for ``within`` seconds at most, and end. What is left then is dropped."""
        self._closing = True
        self._look.set()
        if self._thread.is_alive():
            self._thread.join(within)
        self.overflowed += len(self._waiting)
        if self.dropped:
            log.warning("%s: %d spans exported, %d dropped", self.name, self.sent, self.dropped)

    def _run(self) -> None:
        while not self._closing:
            self._look.wait(self._delay)
            self._look.clear()
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        waiting = self._waiting
        while waiting:
            batch = [waiting.popleft() for _ in range(min(self._batch, len(waiting)))]
            try:
                taken = self._send(batch)
                why = "the collector does not take them"
            except Exception as error:
                taken, why = False, f"{type(error).__name__}: {error}"
            if taken:
                self.sent += len(batch)
            else:
                self.failed += len(batch)
                self._tell(why)

    def _tell(self, why: str) -> None:
        """Say it once: either thread may be the first."""
        if self._told.acquire(blocking=False):
            log.warning("%s: spans are dropped, and counted from now on: %s", self.name, why)
