"""A simulated disk that keeps what its journal lets go of, as `io/retention.py` does, and the journal above it.

What is kept has another name on the same disk: it takes up room there, and a crash before the next sync may undo that
it was moved. A full disk takes from it first. Which file is kept, and which goes, `journal/keeping.py` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, Entropy
from entrepot.base.errors import StorageError
from entrepot.journal.epoch import Boundary, boundaries_of
from entrepot.journal.index import segment_range
from entrepot.journal.keeping import NS_A_MS, Kept, in_order, newest_of, published_in
from entrepot.journal.log import JournalCore
from entrepot.journal.names import segment_files
from entrepot.journal.ports import SCRATCH, RecoveryReport, RecoverySink
from entrepot.journal.retained import Archive, Extent
from entrepot.simulation.disk import Answers, Later, Room, SimulatedDisk
from entrepot.simulation.machine import FusedDisk
from entrepot.simulation.medium import Effect, Medium

KEPT: Final = "kept/"
LATENCY_MAX: Final = 3 * MILLISECOND


class GivingRoom(Room):
    """Space of a disk that gives up what is kept before it is full."""

    def __init__(self, medium: Medium, answers: Answers, reserve: int, give_up: Callable[[], bool]) -> None:
        super().__init__(medium, answers, reserve)
        self._give_up: Final = give_up

    def _fits(self, growth: int) -> bool:
        free = self.capacity - (0 if self._reserve_used else self.reserve)
        while growth and self._medium.used() + growth > free and self._give_up():
            pass
        return super()._fits(growth)

    def retry(self) -> None:
        """Carry out what was held, as far as it fits when what is kept has gone."""
        while self.held and self._medium.used() + self.held[0][0] > self.capacity and self._give_up():
            pass
        super().retry()


class RetainingDisk(FusedDisk):
    """``kept``: what is kept; ``clock``: ms since 1970; ``grown``: octets that segments and bodies ever grew by.

    ``given_up``: files that went because the disk was full; ``spent``: because they were too old, or too much.
    """

    def __init__(self, entropy: Entropy, later: Later, *, reserve: int = 0) -> None:
        super().__init__(entropy, later, reserve=reserve)
        self.room = GivingRoom(self.medium, self.answers, reserve, self._give_up)
        self.kept = Kept(0, 0)
        self.clock: Callable[[], int] = lambda: 0
        self.grown = 0
        self.given_up = 0
        self.spent = 0
        self._written: Final[dict[str, int]] = {}  # when each file was written to last, ms since 1970
        self._begun: Final[dict[str, None]] = {}  # files that more is to come into
        self._boundaries: list[Boundary] = []
        self._published: Final[dict[int, int]] = {}  # ids of kept segments -> when something of them was published, ns

    # -- what is kept --------------------------------------------------------------------------------------------------

    def before_recovery(self) -> None:
        """A process begins: see what is there."""
        self._begun.clear()
        self.kept = Kept(self.kept.period_ms, self.kept.limit)
        for name, octets in self.medium.view.items():
            if name.startswith(KEPT):
                short = name.removeprefix(KEPT)
                identity = int(segment_range(short)[0])
                self.kept.renew(identity, identity, self._published.get(identity, 0))
                self.kept.add(short, len(octets), self._written.get(short, 0) * NS_A_MS)
        self._boundaries = boundaries_of(self, segment_files(self.names())[0])

    def recovered(self, journal: JournalCore) -> None:
        """Forget what was never confirmed."""
        for name in self.kept.unconfirmed(newest_of(journal), self._boundaries):
            self._remove(name)
        for first, last, name in published_in(journal):
            self._renew(first, last, self._written[name])

    def renewed(self, first: i64, last: i64) -> None:
        """Something of these segments is published."""
        self._renew(int(first), int(last), self.clock())

    def awaited(self, name: str, waits: bool) -> None:
        """Something of this segment may be published later, or nothing any more."""
        self.kept.awaits(name, waits=waits)

    def _renew(self, first: int, last: int, when: int) -> None:
        for identity in self.kept.renew(first, last, when * NS_A_MS):
            self._published[identity] = when * NS_A_MS
            names = [one for one in self.medium.view if segment_range(one.removeprefix(KEPT))[0] == identity]
            self.grown += max((len(self.medium.view[one]) for one in names), default=0)  # it is kept as if it came now

    def limit(self, period_ms: int, octets: int) -> None:
        """Keep no longer than ``period_ms``, and no more than ``octets``; 0: without such a limit."""
        self.kept = Kept(period_ms, octets)

    def look(self) -> None:
        """Remove what is too old or too much."""
        for name in self.kept.spent(self.clock() * NS_A_MS):
            self.spent += 1
            self._remove(name)

    def _give_up(self) -> bool:
        name = self.kept.take()
        if name:
            self.given_up += 1
            self._remove(name)
        return bool(name)

    def _remove(self, name: str) -> None:
        SimulatedDisk.drop(self, KEPT + name)

    def drop(self, name: str) -> None:
        """Keep it, or remove it: what was begun only, and what says nothing new."""
        whole = name not in self._begun
        self._begun.pop(name, None)
        if not whole or not self.kept.takes(name) or name not in self.medium.view:
            self.kept.awaits(name, waits=False)
            super().drop(name)
            return
        octets = len(self.medium.view[name])
        effect = Effect("rename", name, target=KEPT + name)
        effect.apply(self.medium.view)
        self.room.ask(lambda: self.medium.note(effect))
        self.kept.add(name, octets, self._written.get(name, 0) * NS_A_MS)
        self.look()
        self.room.retry()
        self._burn()

    # -- what is written -----------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all segments and scratch files, sorted."""
        return [name for name in super().names() if not name.startswith(KEPT)]

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        mine = [name for name in self.medium.view if name.endswith(".blob") and not name.startswith(KEPT)]
        return sorted(int(name.removesuffix(".blob")) for name in mine)

    def create(self, name: str, expected: i64) -> None:
        """Make an empty file."""
        self._begun[name] = None
        self._written[name] = self.clock()
        super().create(name, expected)

    def write(self, name: str, offset: i64, head: bytes, body: bytes) -> None:
        """Write, not durably."""
        self._written[name] = self.clock()
        if not name.endswith(SCRATCH):
            self.grown += len(head) + len(body)
        super().write(name, offset, head, body)

    def trim(self, name: str, length: i64) -> None:
        """Cut, not durably: nothing more comes."""
        self._begun.pop(name, None)
        super().trim(name, length)

    def publish(self, scratch: str, name: str) -> None:
        """Make ``scratch`` durable, then its name, then tell."""
        self._begun.pop(scratch, None)
        self._written[name] = self._written.pop(scratch, 0)
        super().publish(scratch, name)

    def blob_seal(self, blob_id: i64) -> None:
        """A body is whole."""
        self._begun.pop(f"{int(blob_id)}.blob", None)
        super().blob_seal(blob_id)


class SlowOctets:
    """Octets that take a while."""

    def __init__(self, disk: RetainingDisk, name: str, offset: int, length: int) -> None:
        self.disk = disk
        self.name = name
        self.offset = offset
        self.length = length
        self.came = False

    def done(self) -> bool:
        """Return whether they are there."""
        return self.came

    def octets(self) -> bytes:
        """Return them, from wherever the file is by now. Raises StorageError."""
        view = self.disk.medium.view
        found = view.get(KEPT + self.name, view.get(self.name))
        if found is None:
            raise StorageError(f"cannot read {self.name}: no such file")
        return bytes(found[self.offset : self.offset + self.length])


class SimulatedArchive(Archive):
    """What is kept on such a disk, to be read again."""

    def __init__(self, disk: RetainingDisk, later: Later, entropy: Entropy) -> None:
        self._disk: Final = disk
        self._later: Final = later
        self._entropy: Final = entropy

    def extents(self) -> list[Extent]:
        """Return the segments in the order of the log."""
        names = in_order([name.removeprefix(KEPT) for name in self._disk.medium.view])
        return [Extent(name, self._disk._written.get(name, 0)) for name in names]

    def fetch(self, name: str, offset: int, length: int) -> SlowOctets:
        """Begin to read octets of a file."""
        octets = SlowOctets(self._disk, name, offset, length)

        def come() -> None:
            octets.came = True

        self._later(int(LATENCY_MAX * self._entropy.fraction()), come)
        return octets

    def report(self) -> dict[str, object]:
        """Return how much is kept."""
        return {"files": len(self._disk.kept.sizes), "octets": self._disk.kept.octets}


class RetainedJournal(JournalCore):
    """A journal on such a disk: what recovery lets go of is kept, but for what was never confirmed."""

    def recover(self, sink: RecoverySink) -> RecoveryReport:
        """Read it back."""
        disk = self.port
        assert isinstance(disk, RetainingDisk)
        disk.before_recovery()
        report = super().recover(sink)
        disk.recovered(self)
        return report
