"""A journal on a simulated disk, with virtual time, for tests of everything that stands on it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from entrepot.base.errors import EntrepotError
from entrepot.journal.log import JournalCore, JournalOptions, RecoveryReport, RecoverySink, Waiter
from entrepot.model.message import Message, language
from entrepot.simulation.disk import SimulatedDisk

LANGUAGE = language(200)


class Lots:
    """An `Entropy` from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def token(self, octets: int) -> bytes:
        return self.random.randbytes(octets)

    def fraction(self) -> float:
        return self.random.random()


class Timeline:
    """Actions in the order of their time."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, delay: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, self._count, action))

    def step(self) -> bool:
        if not self._heap:
            return False
        self.now, _, action = heapq.heappop(self._heap)
        action()
        return True

    def run(self) -> None:
        while self.step():
            pass


class Told(RecoverySink):
    """What a recovery told."""

    def __init__(self) -> None:
        self.documents: list[tuple[int, bytes, bytes]] = []
        self.messages: list[tuple[int, int, int]] = []
        self.rows: list[tuple[int, int, int, int, int, int, int]] = []

    def document(self, kind: int, key: bytes, value: bytes) -> None:
        assert not self.rows, "documents come before messages"
        self.documents.append((kind, key, value))

    def message(
        self, queue_id: int, number: int, priority: int, expiration: int, deliveries: int, size: int, deliver_at: int
    ) -> None:
        self.messages.append((queue_id, number, deliveries))
        self.rows.append((queue_id, number, priority, expiration, deliveries, size, deliver_at))


class Confirmed(Waiter):
    """Remembers what was confirmed and what was not."""

    def __init__(self) -> None:
        self.tokens: list[bytes] = []
        self.failures: list[tuple[bytes, EntrepotError]] = []

    def stored(self, token: bytes) -> None:
        self.tokens.append(token)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        self.failures.append((token, error))


def message(number: int, size: int = 100, *, durable: bool = True) -> Message:
    """Return a message whose octets follow from its number and size."""
    made = Message(LANGUAGE, f"orders.{number % 3}", octets_of(number, size))
    made.number = number
    made.durable = durable
    made.priority = number % 10
    made.expiration = number * 7
    made.timestamp = number * 11
    return made


def octets_of(number: int, size: int) -> bytes:
    """Return the body that `message` gives to ``number``."""
    return (f"{number}:".encode() * (size // 2 + 1))[:size]


class World:
    """One machine: a disk, the journal above it, and time."""

    def __init__(self, seed: int = 1, *, segment_bytes: int = 4096, reserve: int = 0, **options: int) -> None:
        self.timeline = Timeline()
        self.disk = SimulatedDisk(Lots(seed), self.timeline.later, reserve=reserve)
        self.segment_bytes = segment_bytes
        self.options = options
        self.waiter = Confirmed()
        self.told = Told()
        self.report = RecoveryReport()
        self.journal = self._open()

    def _open(self) -> JournalCore:
        journal = JournalCore(self.disk, JournalOptions(node="n1", segment_bytes=self.segment_bytes, **self.options))
        self.told = Told()
        self.report = journal.recover(self.told)
        journal.check()
        return journal

    def settle_down(self) -> None:
        """Flush and let everything finish."""
        while self.journal.flush() or self.timeline.step():
            if not self.timeline.step():
                break
        self.timeline.run()

    def confirm(self, token: bytes = b"?") -> None:
        """Wait until all that was appended is on disk."""
        self.journal.confirm(self.waiter, token)
        self.settle_down()

    def compact(self, budget: int = 1 << 20) -> None:
        """Compact as much as there is to compact."""
        for _ in range(1000):
            busy = self.journal.compact(budget)
            self.settle_down()
            if not busy and not self.journal.compact(budget):
                return
        raise AssertionError("compaction has no end")

    def crash(self) -> None:
        """Stop the machine and start it again."""
        self.disk.crash()
        self.journal = self._open()

    def kill(self) -> None:
        """Kill the process and start it again."""
        self.disk.stop()
        self.journal = self._open()

    def restart(self) -> None:
        """Stop in good order and start again."""
        self.journal.close()
        self.disk.stop()
        self.journal = self._open()

    def segments(self) -> list[str]:
        """Return the names of the segment files."""
        return [name for name in self.disk.names() if name.endswith(".seg")]
