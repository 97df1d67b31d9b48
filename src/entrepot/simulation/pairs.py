"""Brokers that share a store, from one seed: crashes, pauses, drifting clocks, a lock service that fails, slow disks.

The cores under test are `ha.candidate.Candidate` and `ha.role.RoleCore`; what they ask for is acted out here step by
step, so that a broker may stand still between any two steps. The promise that is checked at
every acknowledgement: **no younger epoch has read the store yet**, and what is acknowledged is in what a younger epoch
will read. A disk may hang for longer than a lease, for one machine or for all, and then carry out what it was asked.

In half of the pairs one member is a primary and the others are backups (artemis.md 2.2): a store that was paused is
left to the primary, one that an active backup was asked for is given back, and in the end the primary serves again.
Who waits leaves notes, and whom clients are told of must be one who waits (`simulation/noted.py`).
``planted`` names a bug of `pair_bugs.py` that a run is to be made with, to see that it would be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration, Instant
from entrepot.ha import candidate
from entrepot.ha.lease import BACKUP, EITHER, PRIMARY, Grant, LeaseOptions, Record, Rules
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.proposals import Named, Recorded
from entrepot.ha.role import Effect, Role, RoleCore, Signal
from entrepot.simulation.noted import Noted, Noting
from entrepot.simulation.pair_bugs import BUGS, PLANTED
from entrepot.simulation.shared import Disk, LeaseThread, Process, Service, Store, copied
from entrepot.simulation.world import World

__all__ = ["PLANTED", "Member", "Pair"]

CLAIMS_DELETED: Final = 0.2  # of the claims that stand in the lock: somebody removes it before the winner knows
CLAIMS_DOUBTED: Final = 0.2  # of the claims: the answer is lost, half of the time the question too

CALM: Final = 20 * SECOND
"""Faults end this long before the run does: by then one must serve."""

SUCCESSION: Final = 16 * SECOND
"""Until a process is back, a lease, what others let its heir go first for, and until the store is read back."""


class Member(Process):
    """One broker of the pair."""

    def __init__(self, pair: Pair, name: str, part: str) -> None:
        super().__init__(pair.world, name)
        self.pair = pair
        self.part = part
        self.start()

    # -- the process ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin as a backup, with nothing in memory."""
        self.born()
        self.role = RoleCore()
        self.standby = self.pair.standby_of(self)
        self.numbers = 0
        self.writing = 0
        self.ports = False
        self.noting = Noting(self.pair.noted, self)
        self.later(self.lots.skewed(MICROSECOND, 50 * MILLISECOND), self.standby.wake)

    def crash(self) -> None:
        """Kill it; its lock of the system, where there is one, is free at once."""
        if not self.alive:
            return
        self.die()
        self.pair.died(self)
        self.world.count("crashes")
        self.world.later(self.lots.skewed(MILLISECOND, 5 * SECOND), self.start)

    @property
    def waits(self) -> bool:
        """Say whether it waits for the store."""
        return self.alive and self.role.role is Role.BACKUP and not self.role.ended

    # -- the lease -----------------------------------------------------------------------------------------------------

    def won(self, grant: Grant) -> None:
        """Look whether it may have the store, and serve."""
        pair = self.pair
        self.noting.over()
        pair.succeeded(self)
        reserved, given_at = pair.reserved_before.pop(self.standby.record.instance, ("", 0))
        if self.part == BACKUP and reserved == Rules.PAUSED:
            self.world.violation(f"{self.name} takes the store that its primary has paused")
        waited = self.world.time - given_at
        if self.part != PRIMARY and reserved == Rules.FAILBACK and waited < pair.lease.duration:
            self.world.violation(f"{self.name} takes what was given back {waited // MILLISECOND} ms ago")
        if self.part == PRIMARY:
            pair.request = None
        self._carry_out(self.role.signal(Signal.WON))
        self._watch_out()

    def _watch_out(self) -> None:
        """Notice the end of the lease although no answer comes, as the loop of `io/standby.py` does."""
        tenure = self.standby.candidate.tenure
        if tenure.lost or self.role.ended:
            return
        left = tenure.until - self.now()
        if left <= 0:
            self.lost("no answer comes")
        else:
            self.later(left, self._watch_out)

    def heir(self, name: str) -> str:
        """Have the lock name the process ``name``, "" for none; return whom it names by now."""
        proposals = self.standby.candidate.proposals
        if proposals.name(name):
            self.later(self.lots.skewed(MICROSECOND, MILLISECOND), self.standby.wake)
        return proposals.named

    def tells(self, heir: str) -> None:
        """Clients are told of the process ``heir``, "" for none: the lock says so by then."""
        record, mine = self.pair.service.record, self.standby.record
        its = record is not None and (record.instance, record.epoch) == (mine.instance, mine.epoch)
        if record is not None and its and record.heir != heir:
            self.world.violation(f"{self.name} tells its clients of {heir or 'nobody'}, not of {record.heir!r}")

    def give_back(self) -> None:
        """The primary asks for its store."""
        if self.role.role is Role.STOPPING:
            return  # it does, for another reason
        self.world.count("given back")
        self._carry_out(self.role.signal(Signal.STOP))

    def lost(self, why: str) -> None:
        """Another may have the store: serve no more."""
        self.standby.candidate.tenure.lose(why)
        if self.role.ended or self.role.role is Role.BACKUP:
            return
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
            self.noting.serve()
            self._serve()
        elif effect is Effect.CLOSE_PORTS:
            self.later(self.lots.skewed(MICROSECOND, 300 * MILLISECOND), lambda: self._close_ports(rest))
        elif effect is Effect.RELEASE:
            self.standby.release(lambda: self._carry_out(rest))
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
        if self.pair.store.begin(self.standby.candidate.tenure.epoch):
            self.later(self.lots.skewed(MILLISECOND, 3 * SECOND), self._read_back)
        else:
            self.lost("the store has seen a younger epoch")

    def _reborn(self) -> None:
        self.ports = False
        if self.standby.candidate.gave_back and not self.pair.restart_backup:
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
        if self.standby.candidate.tenure.holds(self.now()):
            self._carry_out(self.role.signal(Signal.RECOVERED))
        else:
            self.lost("it took too long to read the store back")

    # -- serving -------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Take a message, write it, sync it, confirm it: each takes its time."""
        if not self.ports:
            return
        self.numbers += 1
        number = self.numbers
        epoch = self.standby.candidate.tenure.epoch
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
        if self.pair.planted == "no fence" or (
            self.standby.candidate.tenure.holds(self.now()) and self.role.confirming
        ):
            self.pair.store.acknowledged(self.name, epoch, number)


class Standby(LeaseThread):
    """The thread of a member of a pair that shares a store."""

    def __init__(self, member: Member) -> None:
        pair = member.pair
        self.member: Final = member
        self.pair: Final = pair
        self.world: Final = member.world
        instance = f"{member.name}{member.life}"
        self.record: Final = Record(name=member.name, instance=instance, lease=pair.lease.duration)
        made = BUGS.get(pair.planted, candidate.Candidate)
        super().__init__(member, pair.service, made(self.record, pair.options_of(member.part)))

    def perform(self, effects: Sequence[candidate.Effect]) -> None:
        """Carry out what the candidate asks for, as the thread of `io/standby.py` does; answers come later."""
        for effect in effects:
            match effect:
                case candidate.Look():
                    self.look()
                case candidate.Recall():
                    hung = self.pair.disk.hangs(self.member.name)  # it is a file on the disk of the store
                    self.member.later(hung, self._recall)
                case candidate.Swap():
                    self._swap(effect.version)
                case candidate.Sleep():
                    self.sleep(effect.until)
                case candidate.Won():
                    self.member.won(effect.grant)
                case candidate.Lost():
                    self.member.lost(self.candidate.tenure.lost)
                case candidate.AskBack():
                    self._ask_back()
                case candidate.Heed():
                    self.perform(self.candidate.asked(self.pair.request))
                case candidate.GiveBack():
                    self.member.give_back()
                case Named():
                    self.member.noting.named(effect.heir)
                case Recorded():
                    pass  # of replicated stores
                case _:
                    assert_never(effect)

    def _recall(self) -> None:
        store = self.pair.store
        epoch = max([store.epoch, *store.claims])
        claimed = any(instance != self.record.instance for instance in store.claims.values())
        memory = candidate.Memory(epoch, self.pair.lease.duration, empty=not store.epoch and not claimed)
        self.perform(self.candidate.recalled(memory, self.member.now(), 0))

    def _ask_back(self) -> None:
        """Write a request beside the lock, as `io/failback.py` does."""
        instance, count = self.record.instance, self.pair.request[1] + 1 if self.pair.request else 1
        delay = self.member.lots.skewed(100 * MICROSECOND, 5 * MILLISECOND) + self.pair.disk.hangs(self.member.name)
        self.world.later(delay, lambda: self.pair.ask(instance, count))

    def _swap(self, version: int) -> None:
        octets = copied(self.record)
        assert octets is not None
        result: list[int] = []

        if self.candidate.state is candidate.State.CLAIMING and self.pair.planted != "claims leave no line":
            hung = self.pair.disk.hangs(self.member.name)
            self.member.later(hung, lambda: self._claimed(version, octets, result))
        else:
            self.ask(lambda: result.append(self.pair.swap(version, octets)), lambda: self.swapped(result))

    def _claimed(self, version: int, octets: Record, result: list[int]) -> None:
        """Ask for the lock, if the line that claims the epoch is the first of it."""
        pair, name = self.pair, self.member.name
        if pair.trouble and pair.deletions.chance(CLAIMS_DOUBTED):
            pair.service.cut[name] = True
            self.world.later(SECOND, lambda: pair.service.reach(name))
        if pair.store.claim(octets.epoch, octets.instance):
            self.ask(lambda: result.append(self.pair.swap(version, octets)), lambda: self.swapped(result))
        else:
            self.world.count("epochs claimed before")
            result.append(-1)
            self.swapped(result)


class Pair:
    """Two or three members, their store and their lock, and what befalls them."""

    def __init__(self, seed: int, planted: str = "") -> None:
        self.world = World(seed)
        self.planted = planted
        self.lots = self.world.lots("faults")
        self.lease = LeaseOptions(self.lots.one_of((SECOND, 2 * SECOND, 5 * SECOND)))
        self.frees = self.lots.chance(0.5)
        more = self.world.lots("parts")
        self.parted = more.chance(0.5)
        self.allow_failback = more.chance(0.7)
        self.restart_backup = more.chance(0.7)
        self.failover_on_shutdown = not self.parted or more.chance(0.6)
        self.request: tuple[str, int] | None = None  # who asks for the store back, and how often it did
        self.given_at: Instant = 0  # the lock was handed back
        self.reserved_before: dict[
            str, tuple[str, Instant]
        ] = {}  # instance -> what its claim replaced, given back when
        self.disk = Disk(self.world)
        self.store = Store(self.world)
        self.store.credulous = planted == "late writes count"
        self.service = Service(self.world, self.world.lots("service"))
        if more.chance(0.5):
            self.service.disk = self.disk
        self.more = self.world.lots("more faults")
        self.deletions = self.world.lots("deletions")
        self.orphaned: Record | None = None  # in the lock when who held it was killed, and nobody has succeeded him
        self.noted = Noted(self.world, self.disk, planted)
        self.prepare()
        self.members: list[Member] = []
        for number in range(self.lots.between(2, 3)):
            self.members.append(Member(self, f"broker{number}", self._part(number)))
        self.world.after = self._check
        self.trouble = True
        self.world.later(self.lots.skewed(MILLISECOND, 3 * SECOND), self._befall)

    def _part(self, number: int) -> str:
        """Return what a member is to the others: beside a primary and its backup there may be one that is neither."""
        if not self.parted or (number == 2 and self.world.lots("third").chance(0.5)):
            return EITHER
        return BACKUP if number else PRIMARY

    def run(self, length: Duration = 60 * SECOND) -> list[str]:
        """Let it run, faults first, calm at the end; return what went wrong."""
        self.world.later(length - CALM, self._calm)
        self.world.run(self.world.time + length)
        if not self.world.violations and not any(member.ports and not member.paused for member in self.members):
            self.world.violation("it is calm, and nobody serves")
        backups = [member for member in self.members if member.ports and member.part == BACKUP]
        if not self.world.violations and self.parted and self.allow_failback and backups:
            self.world.violation("it is calm, and the primary does not have its store back")
        if not self.world.violations:
            self._see_who_is_told()
            self._see_who_succeeds()
        return self.world.violations

    def _see_who_succeeds(self) -> None:
        """Kill who serves, and at times whom his clients know: who lives of those, else another, serves soon."""
        record, lots = self.service.record, self.world.lots("last kill")
        serving = next((each for each in self.members if each.ports and not each.paused), None)
        if serving is None or record is None or record.instance != serving.noting.name or lots.chance(0.5):
            return
        self.orphaned = copied(record)
        both = lots.chance(0.3)
        for member in self.members:
            if member is serving or (both and member.noting.name == record.heir):
                member.crash()
        self.world.run(self.world.time + SUCCESSION)
        if not any(member.ports for member in self.members):
            self.world.violation("it was calm, who served was killed, and nobody succeeds him")

    def succeeded(self, member: Member) -> None:
        """``member`` has won: where clients were sent to somebody who lives, it is he."""
        record, self.orphaned = self.orphaned, None
        for each in self.members:
            if record is not None and each.alive and each.noting.name == record.heir:
                self.world.count("heirs")
                if each is not member:
                    self.world.violation(f"{member.name} takes over, and clients were sent to {each.name}")

    def _see_who_is_told(self) -> None:
        """Clients know of one who waits, if there is any: of the primary, where it waits."""
        waits = [member for member in self.members if member.waits]
        owners = [member.name for member in waits if member.part == PRIMARY]
        waiting = owners or [member.name for member in waits]
        for member in self.members:
            if member.ports and not member.paused:
                member.noting.judge(waiting)

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

    def options_of(self, part: str) -> SharedStoreOptions:
        """Return how a member that plays ``part`` shares the store."""
        return SharedStoreOptions(
            lease=self.lease,
            part=part,
            failover_on_shutdown=self.failover_on_shutdown,
            allow_failback=self.allow_failback,
            twins=True,  # a late write of a process that is dead looks like a twin of the next one
        )

    def prepare(self) -> None:
        """Have everything there that members reach, before there are members."""

    def standby_of(self, member: Member) -> Standby:
        """Return what talks to the lock for ``member``."""
        return Standby(member)

    def died(self, member: Member) -> None:
        """The process of ``member`` has ended: its lock of the system, where there is one, is free at once."""
        service = self.service
        if self.frees and service.record is not None and service.record.instance == member.standby.record.instance:
            service.record.released = True

    def swap(self, version: int, record: Record) -> int:
        """Put ``record`` into the lock if that is at ``version``; return its version then, else -1."""
        service = self.service
        if service.version != version:
            return -1
        before = service.record
        if record.beat == 1 and not record.released:
            self.reserved_before[record.instance] = (
                before.reserved if before is not None and before.released else "",
                self.given_at,
            )
        service.record = record
        if record.beat == 1 and not record.released and self.trouble and self.deletions.chance(CLAIMS_DELETED):
            self.world.later(self.deletions.skewed(10 * MICROSECOND, 10 * MILLISECOND), service.delete)
        if record.released:
            self.given_at = self.world.time
        service.version += 1
        return service.version

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
            member.standby.candidate.check()
