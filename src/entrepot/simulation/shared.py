"""What the brokers of a simulated pair share: the store, the lock in front of it, and the disk that both are on.

Each of them keeps a promise of the real one and breaks it on order: requests are late or get lost, a disk hangs and
then carries out what it was asked, somebody deletes the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration, Instant
from entrepot.ha.candidate import Candidate, Effect, Sight, State
from entrepot.ha.lease import Record
from entrepot.simulation.world import Lots, World


class Process:
    """One broker's process on a machine with a clock of its own: dead or alive, and it may stand still.

    What a process asked for reaches it by `mine`: not once it is dead, later while it stands still.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.lots = world.lots(name)
        self.rate = 1_000_000 + self.lots.between(-10_000, 10_000)  # clocks that drift by up to 1 %
        self.offset = self.lots.between(0, 1000 * SECOND)
        self.paused = False
        self.life = 0
        self.alive = False
        self.starved: Instant = 0  # until then the thread that keeps the lease gets no processor
        self._deferred: list[Callable[[], None]] = []

    def now(self) -> Instant:
        """Return the time on this machine's own clock."""
        return self.offset + self.world.time * self.rate // 1_000_000

    def mine(self, action: Callable[[], None]) -> Callable[[], None]:
        """Return ``action`` as something this process does."""
        life = self.life

        def act() -> None:
            if life != self.life:
                return
            if self.paused:
                self._deferred.append(act)
                return
            action()

        return act

    def later(self, delay: Duration, action: Callable[[], None]) -> None:
        """Do ``action`` after ``delay`` on this machine."""
        self.world.later(delay, self.mine(action))

    def born(self) -> None:
        """A new process begins."""
        self.life += 1
        self.alive = True

    def die(self) -> None:
        """Nothing of it happens any more."""
        self.alive = False
        self.life += 1
        self.paused = False
        self._deferred = []

    def pause(self, length: Duration) -> None:
        """Stand still for ``length``."""
        if self.alive and not self.paused:
            self.paused = True
            life = self.life
            self.world.count("pauses")
            self.world.later(length, lambda: self._resume(life))

    def resume(self) -> None:
        """Go on, at once."""
        self._resume(self.life)

    def _resume(self, life: int) -> None:
        if life != self.life or not self.paused:
            return
        self.paused = False
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            action()


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
        eligible=dict(record.eligible),
        heir=record.heir,
    )


class LeaseThread:
    """What the thread of `io/standby.py` is for a simulated broker: it talks to the lock, and decides nothing.

    The subclass carries out the effects of the candidate (`perform`); looking and sleeping are here.
    """

    def __init__(self, process: Process, service: Service, made: Candidate) -> None:
        self.process = process
        self.service = service
        self.candidate = made
        self._slept = 0  # a later sleep takes the place of an earlier one
        self._released: Callable[[], None] = _nothing

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry out what the candidate asks for; answers come later."""
        raise NotImplementedError

    def wake(self) -> None:
        """Let the candidate look at the time."""
        self.perform(self.candidate.wake(self.process.now()))

    def sleep(self, until: Instant) -> None:
        """Wake at ``until``, if no later sleep takes the place of this one."""
        self._slept += 1
        slept = self._slept

        def wake() -> None:
            late = self.process.starved - self.process.now()
            if slept == self._slept and late > 0:
                self.process.later(late, wake)
            elif slept == self._slept:
                self.wake()

        self.process.later(max(0, until - self.process.now()), wake)

    def look(self) -> None:
        """Ask what the record is."""
        service = self.service
        seen: list[Sight] = []

        def answer() -> None:
            self.perform(self.candidate.seen(seen[0], self.process.now()))
            self.over()

        self.ask(lambda: seen.append(Sight(copied(service.record), service.version)), answer)

    def ask(self, request: Callable[[], None], answer: Callable[[], None]) -> None:
        """Have ``request`` carried out by the service, and ``answer`` done when that is known."""
        process = self.process
        self.service.ask(process.name, request, process.mine(answer), process.mine(self.doubted))

    def swapped(self, result: list[int]) -> None:
        """The answer to a swap is there."""
        self.perform(self.candidate.swapped(result[0], self.process.now()))
        self.over()

    def unanswered(self) -> None:
        """No answer came."""
        self.perform(self.candidate.unanswered(self.process.now()))

    def doubted(self) -> None:
        """Nobody knows whether a request was carried out."""
        self.unanswered()
        self.over()

    def release(self, then: Callable[[], None]) -> None:
        """Hand the lock back, and do ``then`` when it is back, or nobody can tell whether it is."""
        self._released = then
        self.perform(self.candidate.release(self.process.now()))
        self.over()

    def over(self) -> None:
        """If the lock was handed back, or whether it was is not known, go on."""
        if self.candidate.state in (State.ENDED, State.LOST):
            released, self._released = self._released, _nothing
            released()


def _nothing() -> None:
    """Nobody waits."""
