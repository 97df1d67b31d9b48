"""What the brokers of a simulated pair share: the store, the lock in front of it, and the disk that both are on.

Each of them keeps a promise of the real one and breaks it on order: requests are late or get lost, a disk hangs and
then carries out what it was asked, somebody deletes the lock.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration, Instant
from entrepot.ha.lease import Record
from entrepot.simulation.world import Lots, World


class Store:
    """What is in the shared directory: records that count, and the epochs that read them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epoch = 0
        self.claims: dict[int, str] = {}  # epoch -> who claimed it first
        self.accepted: dict[tuple[int, int], bool] = {}
        self.promised: dict[tuple[int, int], bool] = {}
        self.refused = 0
        self.credulous = False

    def claim(self, epoch: int, instance: str) -> bool:
        """``instance`` is about to ask for the lock with ``epoch``; False: somebody else has that."""
        return self.claims.setdefault(epoch, instance) == instance

    def begin(self, epoch: int) -> bool:
        """A new master reads everything back: from now on older ones write in vain. False: a younger one was here.

        A disk that hung may let a master in only after its successor has begun: recovery refuses it (`journal/`).
        """
        if epoch < self.epoch:
            self.world.count("late masters")
            return False
        if epoch == self.epoch:
            self.world.violation(f"epoch {epoch} begins a second time")
        for record in self.promised:
            if record not in self.accepted:
                self.world.violation(f"{record} was promised and is not there for epoch {epoch}")
        self.epoch = epoch
        return True

    def write(self, epoch: int, number: int) -> None:
        """Take a record, or refuse it as late."""
        if epoch < self.epoch and not self.credulous:
            self.refused += 1
            self.world.count("late writes")
        else:
            self.accepted[epoch, number] = True
            if epoch < self.epoch:
                self.world.violation(f"{number} of epoch {epoch} lands in the store of epoch {self.epoch}")

    def acknowledged(self, name: str, epoch: int, number: int) -> None:
        """Somebody was promised that the record is kept."""
        self.world.count("acknowledged")
        self.promised[epoch, number] = True
        if epoch != self.epoch:
            self.world.violation(f"{name} acknowledges in epoch {epoch}, epoch {self.epoch} is under way")
        if (epoch, number) not in self.accepted:
            self.world.violation(f"{name} acknowledges {number} of epoch {epoch}, which is not in the store")


class Service:
    """Where the lease is: a register with compare-and-swap. Requests take time, get lost, or only their answers do."""

    def __init__(self, world: World, lots: Lots) -> None:
        self.world = world
        self.lots = lots
        self.record: Record | None = None
        self.version = 0
        self.down = False
        self.cut: dict[str, bool] = {}  # who alone does not reach it
        self.slow = False
        self.flaky = True
        self.disk: Disk | None = None  # that the lock is a file on; None: it has a service of its own

    def reach(self, who: str) -> None:
        """Let ``who`` reach it again."""
        self.cut.pop(who, None)

    def delete(self) -> None:
        """Somebody removes the lock."""
        self.record = None
        self.version += 1
        self.world.count("locks deleted")

    def ask(
        self, who: str, request: Callable[[], None], answer: Callable[[], None], timeout: Callable[[], None]
    ) -> None:
        """Carry out ``request`` after a while and ``answer`` after another; or ``timeout``, not knowing which."""
        draw = self.lots.between if self.slow else self.lots.skewed
        most = 2 * SECOND if self.slow else 20 * MILLISECOND
        there, back = self.lots.skewed(100 * MICROSECOND, 20 * MILLISECOND), draw(100 * MICROSECOND, most)
        lost = self.down or who in self.cut or (self.lots.chance(0.01) and self.flaky)
        reached = not lost or self.lots.chance(0.5)

        def arrive() -> None:
            hung = self.disk.hangs(who) if self.disk is not None else 0
            if hung:  # the lock is a file on it: the call does not return
                self.world.later(hung + there, arrive)
                return
            if reached:
                request()
            self.world.later(back, answer if not lost else timeout)

        self.world.later(there if not lost else SECOND, arrive)


class Disk:
    """What the store is on: slow at times, and at times it answers nobody, or one machine not."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.slow = False
        self._until: dict[str, Instant] = {}  # machine, "" for all -> end of the hang

    def hang(self, who: str, length: Duration) -> None:
        """Answer ``who``, "" for everybody, only after ``length``."""
        self._until[who] = max(self._until.get(who, 0), self.world.time + length)
        self.world.count("hangs")

    def hangs(self, who: str) -> Duration:
        """Return for how long ``who`` gets no answer from now on."""
        return max(0, max(self._until.get(who, 0), self._until.get("", 0)) - self.world.time)

    def mend(self) -> None:
        """Answer everybody, at once, from now on."""
        self.slow = False
        self._until.clear()


def copied(record: Record | None) -> Record | None:
    """Return a record of its own with the same facts."""
    if record is None:
        return None
    return Record(
        name=record.name,
        instance=record.instance,
        epoch=record.epoch,
        beat=record.beat,
        lease=record.lease,
        released=record.released,
        reserved=record.reserved,
    )
