"""Brokers that share a store, from one seed: crashes, pauses, drifting clocks, a lock service that fails, slow disks.

The cores under test are `ha.role.RoleCore`, `ha.lease.Tenure` and `ha.lease.Watch`; what the shell does around them is
acted out here step by step, so that a broker may stand still between any two steps. The promise that is checked at
every acknowledgement: **no younger epoch has read the store yet**, and what is acknowledged is in what a younger epoch
will read. A disk may hang for longer than a lease, for one machine or for all, and then carry out what it was asked.

In half of the pairs one member is a primary and the others are backups (artemis.md 2.2): a store that was paused is
left to the primary, one that an active backup was asked for is given back, and in the end the primary serves again.
``planted`` names a bug that a run is to be made with, to see that it would be found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration, Instant
from entrepot.ha.failback import Heard
from entrepot.ha.lease import BACKUP, EITHER, PRIMARY, Grant, LeaseOptions, Record, Rules, Tenure, Watch, patience
from entrepot.ha.role import Effect, Role, RoleCore, Signal
from entrepot.simulation.world import Lots, World

PLANTED: Final = (
    "no fence",  # what is on disk is confirmed without a look at the lease
    "release first",  # the lease goes back before the ports are closed
    "epoch reused",  # a new master takes the number of the old one
    "impatient",  # a challenger waits for half a lease
    "new locks are free",  # a lock that was deleted is taken at once
    "late writes count",  # what an older epoch writes lands in the store of the younger one
    "renews what is another's",  # the holder does not look whether the lock that it renews is still the one that counts
    "paused is free",  # a backup takes the store that its primary has paused
    "keeps the store",  # a backup that is asked for the store goes on
    "takes what was given back",  # a backup does not let the primary go first
)

BLIND: Final = {Rules.PAUSED: "paused is free", Rules.FAILBACK: "takes what was given back"}

CALM: Final = 20 * SECOND
"""Faults end this long before the run does: by then one must serve."""


class Store:
    """What is in the shared directory: records that count, and the epochs that read them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epoch = 0
        self.accepted: dict[tuple[int, int], bool] = {}
        self.promised: dict[tuple[int, int], bool] = {}
        self.refused = 0
        self.credulous = False

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
        """Answer."""
        self.slow = False
        self._until.clear()


class Member:
    """One broker: a process that may be dead or stand still, with a clock of its own."""

    def __init__(self, pair: Pair, name: str, part: str) -> None:
        self.pair = pair
        self.part = part
        self.world = pair.world
        self.name = name
        self.lots = pair.world.lots(name)
        self.rate = 1_000_000 + self.lots.between(-10_000, 10_000)  # clocks that drift by up to 1 %
        self.offset = self.lots.between(0, 1000 * SECOND)
        self.paused = False
        self.life = 0
        self._deferred: list[Callable[[], None]] = []
        self.alive = False
        self.start()

    # -- the process ---------------------------------------------------------------------------------------------------

    def now(self) -> Instant:
        """Return the time on this machine's own clock."""
        return self.offset + self.world.time * self.rate // 1_000_000

    def mine(self, action: Callable[[], None]) -> Callable[[], None]:
        """Return ``action`` as something this process does: not once it is dead, later while it stands still."""
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

    def start(self) -> None:
        """Begin as a backup, with nothing in memory."""
        self.life += 1
        self.alive = True
        self.role = RoleCore()
        self.tenure = Tenure(self.pair.options)
        self.watch = Watch()
        self.record = Record(name=self.name, instance=f"{self.name}{self.life}", lease=self.pair.options.duration)
        self.version = 0
        self.numbers = 0
        self.writing = 0
        self.ports = False
        self.rules = Rules(self.part)
        self.heard = Heard()
        self.gave_back = False
        self.asked = 0
        self.later(self.lots.skewed(MICROSECOND, 50 * MILLISECOND), self._look)

    def crash(self) -> None:
        """Kill it; its lock of the system, where there is one, is free at once."""
        if not self.alive:
            return
        self.alive = False
        self.life += 1
        self.paused = False
        self._deferred = []
        service = self.pair.service
        if self.pair.frees and service.record is not None and service.record.instance == self.record.instance:
            service.record.released = True
        self.world.count("crashes")
        self.world.later(self.lots.skewed(MILLISECOND, 5 * SECOND), self.start)

    def pause(self, length: Duration) -> None:
        """Stand still for ``length``."""
        if self.alive and not self.paused:
            self.paused = True
            life = self.life
            self.world.count("pauses")
            self.world.later(length, lambda: self._resume(life))

    def _resume(self, life: int) -> None:
        if life != self.life:
            return
        self.paused = False
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            action()

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self.role.role is not Role.BACKUP:
            return
        asked = self.now()
        seen: list[Record | None] = []
        service = self.pair.service
        versions: list[int] = []

        def read() -> None:
            seen.append(copied(service.record))
            versions.append(service.version)

        self._ask(read, lambda: self._seen(seen[0], versions[0], asked), self._again)

    def _again(self) -> None:
        self.watch.forget()
        self.later(100 * MILLISECOND, self._look)

    def _seen(self, record: Record | None, version: int, asked: Instant) -> None:
        left_alone = record is not None and self.rules.leaves_alone(record, self.watch, self.now())
        if left_alone and record is not None and self.pair.planted == BLIND.get(record.reserved, ""):
            left_alone = False
        if left_alone:
            self.later(100 * MILLISECOND, self._look)
            return
        if record is not None and not record.released and self.part == PRIMARY:
            self._ask_back()
        if record is not None and not record.released:
            self.watch.observe(record, self.now())
            half = self.watch.unchanged(asked) * 2 >= record.lease and self.pair.planted == "impatient"
            if not self.watch.expired(record, asked) and not half:
                self.later(100 * MILLISECOND, self._look)
                return
        if record is None and self.pair.store.epoch:  # somebody deleted the lock: its holder may not know yet
            self.watch.missed(self.now())
            if self.watch.unchanged(asked) < patience(self.record.lease) and self.pair.planted != "new locks are free":
                self.later(100 * MILLISECOND, self._look)
                return
        before = self.pair.store.epoch if record is None else record.epoch
        reserved = "" if record is None or not record.released else record.reserved
        self.record.reserved = ""
        self.record.epoch = before + (0 if self.pair.planted == "epoch reused" and before else 1)
        self.record.beat = 1
        self.record.released = False
        asked = self.now()
        self._swap(version, lambda: self._claimed(asked, reserved), self._again)

    def _ask_back(self) -> None:
        """Ask for the store, now and then, as `io/failback.py` does."""
        if self.now() - self.asked >= 500 * MILLISECOND:
            self.asked = self.now()
            instance, count = self.record.instance, self.pair.request[1] + 1 if self.pair.request else 1
            delay = self.lots.skewed(100 * MICROSECOND, 5 * MILLISECOND) + self.pair.disk.hangs(self.name)
            self.world.later(delay, lambda: self.pair.ask(instance, count))

    def _claimed(self, asked: Instant, reserved: str) -> None:
        if self.version < 0:
            self._again()
            return
        if self.part == BACKUP and reserved == Rules.PAUSED:
            self.world.violation(f"{self.name} takes the store that its primary has paused")
        waited = self.world.time - self.pair.given_at
        if self.part == BACKUP and reserved == Rules.FAILBACK and waited < self.pair.options.duration:
            self.world.violation(f"{self.name} takes what was given back {waited // MILLISECOND} ms ago")
        if self.part == PRIMARY:
            self.pair.request = None
        self.tenure.won(Grant(self.record.epoch, asked, ""))
        if not self.tenure.holds(self.now()):
            self._again()
            return
        self._carry_out(self.role.signal(Signal.WON))
        self._keep()
        self._watch_out()

    def _watch_out(self) -> None:
        """Notice the end of the lease although no answer comes, as the loop of `io/standby.py` does."""
        if self.tenure.lost or self.role.ended:
            return
        left = self.tenure.until - self.now()
        if left <= 0:
            self._lost("no answer comes")
        else:
            self.later(left, self._watch_out)

    # -- keeping it ----------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        if self.tenure.lost or self.role.ended:
            return
        now = self.now()
        if not self.tenure.holds(now):
            self._lost("time is up")
        elif now >= self.tenure.deadline():
            self.record.beat += 1
            self._swap(self.version, lambda: self._renewed(now), self._unsure)
        else:
            self.later(self.tenure.deadline() - now, self._keep)

    def _renewed(self, asked: Instant) -> None:
        if self.tenure.lost or self.role.ended:
            return
        if self.version < 0 and self.pair.planted != "renews what is another's":
            self._lost("it is another's")
            return
        if not self.tenure.renewed(asked, self.now()):
            self._lost(self.tenure.lost)
            return
        self._look_who_asks()
        self._keep()

    def _look_who_asks(self) -> None:
        """A backup that is asked for the store gives it back."""
        pair = self.pair
        if self.part != BACKUP or not pair.allow_failback or self.gave_back or self.role.role is not Role.PRIMARY:
            return
        asks = self.heard.look(pair.request)
        if asks and pair.planted != "keeps the store":
            self.gave_back = True
            self.world.count("given back")
            self._carry_out(self.role.signal(Signal.STOP))

    def _unsure(self) -> None:
        """An answer was lost: find out what the register says, then go on."""
        service = self.pair.service
        found: list[int] = []

        def read() -> None:
            ours = service.record is not None and service.record.instance == self.record.instance
            found.append(service.version if ours else -1)

        def known() -> None:
            self.version = found[0]
            if self.version < 0:
                self._lost("it is another's")
            else:
                self.tenure.failed(self.now())
                self._keep()

        if self.tenure.holds(self.now()):
            self._ask(read, known, lambda: self.later(50 * MILLISECOND, self._unsure))
        else:
            self._keep()

    def _lost(self, why: str) -> None:
        self.tenure.lose(why)
        self.world.count("leases lost")
        self._carry_out(self.role.signal(Signal.LOST))

    # -- what the role asks for ----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop in good order, and come back after a while."""
        if self.alive and not self.paused and self.role.role in (Role.PRIMARY, Role.ACTIVATING):
            self.world.count("stops")
            effects = self.role.signal(Signal.STOP)
            if self.pair.planted == "release first":
                effects = (Effect.RELEASE, *(each for each in effects if each is not Effect.RELEASE))
            self._carry_out(effects)

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        """Do one effect, then the others when it is done."""
        if not effects:
            if self.role.role in (Role.STOPPING, Role.FENCED):
                self.role.signal(Signal.DONE)  # REJOIN, or the end of this process: in either case a new one begins
                self._reborn()
            elif self.role.role is Role.STOPPED:
                self._reborn()
            return
        effect, rest = effects[0], effects[1:]
        if effect is Effect.OPEN_STORE:
            self._open_store()
        elif effect is Effect.OPEN_PORTS:
            self.ports = True
            self.world.count("masters")
            self._serve()
        elif effect is Effect.CLOSE_PORTS:
            self.later(self.lots.skewed(MICROSECOND, 300 * MILLISECOND), lambda: self._close_ports(rest))
        elif effect is Effect.RELEASE:
            self.record.released = True
            if self.gave_back:
                self.record.reserved = Rules.FAILBACK
            elif not self.pair.failover_on_shutdown:
                self.record.reserved = Rules.PAUSED
            self._swap(self.version, lambda: self._carry_out(rest), lambda: self._carry_out(rest))
        elif effect is Effect.CLOSE_STORE and self.writing:
            self.later(MILLISECOND, lambda: self._carry_out(effects))
        else:
            self._carry_out(rest)

    def _open_store(self) -> None:
        """Read everything back, as soon as the disk answers."""
        hung = self.pair.disk.hangs(self.name)
        if hung:
            self.later(hung, self._open_store)
            return
        if self.role.role is not Role.ACTIVATING:
            return
        if self.pair.store.begin(self.tenure.epoch):
            self.later(self.lots.skewed(MILLISECOND, 3 * SECOND), self._read_back)
        else:
            self._lost("the store has seen a younger epoch")

    def _reborn(self) -> None:
        self.ports = False
        if self.gave_back and not self.pair.restart_backup:
            self.alive = False  # it ends; an operator may start it again
            self.life += 1
            self.world.count("backups that end")
            return
        self.later(self.lots.skewed(MILLISECOND, 2 * SECOND), self.start)

    def _close_ports(self, rest: tuple[Effect, ...]) -> None:
        self.ports = False
        self._carry_out(rest)

    def _read_back(self) -> None:
        if self.role.role is not Role.ACTIVATING:
            return
        if self.tenure.holds(self.now()):
            self._carry_out(self.role.signal(Signal.RECOVERED))
        else:
            self._lost("it took too long to read the store back")

    # -- serving -------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Take a message, write it, sync it, confirm it: each takes its time."""
        if not self.ports:
            return
        self.numbers += 1
        number = self.numbers
        epoch = self.tenure.epoch
        slow = 6 * SECOND if self.pair.disk.slow else 5 * MILLISECOND
        self.writing += 1
        self._write(epoch, number, self.lots.skewed(100 * MICROSECOND, slow))
        self.later(self.lots.skewed(MILLISECOND, 300 * MILLISECOND), self._serve)

    def _write(self, epoch: int, number: int, delay: Duration) -> None:
        """Have it written after ``delay``, or when the disk answers: by then this process may stand still, or be gone.

        What a kernel was asked for is done all the same.
        """
        synced = self.mine(lambda: self._synced(epoch, number))

        def land() -> None:
            hung = self.pair.disk.hangs(self.name)
            if hung:
                self.world.later(hung + self.lots.skewed(MICROSECOND, MILLISECOND), land)
                return
            self.pair.store.write(epoch, number)
            self.world.later(self.lots.skewed(MICROSECOND, MILLISECOND), synced)

        self.world.later(delay, land)

    def _synced(self, epoch: int, number: int) -> None:
        self.writing -= 1
        if self.pair.planted == "no fence" or (self.tenure.holds(self.now()) and self.role.confirming):
            self.pair.store.acknowledged(self.name, epoch, number)

    # -- the register --------------------------------------------------------------------------------------------------

    def _ask(self, request: Callable[[], None], answer: Callable[[], None], timeout: Callable[[], None]) -> None:
        self.pair.service.ask(self.name, request, self.mine(answer), self.mine(timeout))

    def _swap(self, version: int, answer: Callable[[], None], timeout: Callable[[], None]) -> None:
        service = self.pair.service
        octets = copied(self.record)
        result: list[int] = []

        def swap() -> None:
            if service.version == version:
                service.record = octets
                if octets is not None and octets.released:
                    self.pair.given_at = self.world.time
                service.version += 1
                result.append(service.version)
            else:
                result.append(-1)

        def answered() -> None:
            self.version = result[0]
            answer()

        self._ask(swap, answered, timeout)


class Pair:
    """Two or three members, their store and their lock, and what befalls them."""

    def __init__(self, seed: int, planted: str = "") -> None:
        self.world = World(seed)
        self.planted = planted
        self.lots = self.world.lots("faults")
        self.options = LeaseOptions(self.lots.one_of((SECOND, 2 * SECOND, 5 * SECOND)))
        self.frees = self.lots.chance(0.5)
        more = self.world.lots("parts")
        self.parted = more.chance(0.5)
        self.allow_failback = more.chance(0.7)
        self.restart_backup = more.chance(0.7)
        self.failover_on_shutdown = not self.parted or more.chance(0.6)
        self.request: tuple[str, int] | None = None  # who asks for the store back, and how often it did
        self.given_at: Instant = 0  # the lock was handed back
        self.disk = Disk(self.world)
        self.store = Store(self.world)
        self.store.credulous = planted == "late writes count"
        self.service = Service(self.world, self.world.lots("service"))
        if more.chance(0.5):
            self.service.disk = self.disk
        self.more = self.world.lots("more faults")
        self.members: list[Member] = []
        for number in range(self.lots.between(2, 3)):
            part = EITHER if not self.parted else BACKUP if number else PRIMARY
            self.members.append(Member(self, f"broker{number}", part))
        self.world.after = self._check
        self.trouble = True
        self.world.later(self.lots.skewed(MILLISECOND, 3 * SECOND), self._befall)

    def run(self, length: Duration = 60 * SECOND) -> list[str]:
        """Let it run, faults first, calm at the end; return what went wrong."""
        self.world.later(length - CALM, self._calm)
        self.world.run(self.world.time + length)
        if not self.world.violations and not any(member.ports and not member.paused for member in self.members):
            self.world.violation("it is calm, and nobody serves")
        if not self.world.violations and self.parted and self.allow_failback and not self.members[0].ports:
            self.world.violation("it is calm, and the primary does not have its store back")
        return self.world.violations

    def _befall(self) -> None:
        if not self.trouble:
            return
        member = self.lots.one_of(self.members)
        what = self.lots.fraction()
        length = self.lots.skewed(10 * MILLISECOND, 12 * SECOND)
        if what < 0.2:
            member.crash()
        elif what < 0.6:
            member.pause(length)
        elif what < 0.75:
            member.stop()
        elif what < 0.82:
            self.service.cut[member.name] = True
            self.world.later(length, lambda: self.service.reach(member.name))
        elif what < 0.87:
            self.service.down = True
            self.world.later(length, self._service_up)
        elif what < 0.93:
            self.service.slow = True
            self.world.later(length, self._service_up)
        else:
            self.disk.slow = not self.disk.slow
        if self.more.chance(0.15):
            who = self.more.one_of(self.members).name if self.more.chance(0.6) else ""
            self.disk.hang(who, self.more.skewed(100 * MILLISECOND, 15 * SECOND))
        if self.more.chance(0.03):
            self.service.delete()
        self.world.later(self.lots.skewed(5 * MILLISECOND, 4 * SECOND), self._befall)

    def ask(self, instance: str, count: int) -> None:
        """A primary asks for its store."""
        self.request = (instance, count)

    def _service_up(self) -> None:
        self.service.down = False
        self.service.slow = False

    def _calm(self) -> None:
        self.trouble = False
        self.disk.mend()
        self.service.flaky = False
        self.service.cut.clear()
        self._service_up()

    def _check(self) -> None:
        for member in self.members:
            member.tenure.check()


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
