"""One broker of a replicated store in the seeded world: its candidate, its copy, and what it does in either part.

Everything that decides is the product's: `Candidate`, `Standing`, `Replication`, `Replica`, the journal with its
recovery and compaction. This plays what `io/` does around them, step by step, on a disk that tears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, assert_never

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration
from entrepot.base.errors import EntrepotError, Refused
from entrepot.ha import candidate
from entrepot.ha.failback import Returns
from entrepot.ha.fence import LeaseFence
from entrepot.ha.fitting import identity
from entrepot.ha.follower import Fetched, Follower
from entrepot.ha.lease import EITHER, PRIMARY, Grant, LeaseOptions, Precedence, Record
from entrepot.ha.mirror import Mirror
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.proposals import Named, Recorded
from entrepot.ha.replica import Replica, Store
from entrepot.ha.replication import Replication
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.standing import Standing, read_standing
from entrepot.ha.stream import HELLO, REFUSED, Frames, greeting
from entrepot.ha.successors import Note, Telling, heir_of
from entrepot.journal.index import segment_range
from entrepot.journal.inspect import Damage, damages
from entrepot.journal.log import JournalCore, JournalOptions
from entrepot.journal.ports import SCRATCH
from entrepot.simulation.greeted import Greeted
from entrepot.simulation.heir_bugs import CANDIDATES, HEIRS, NAMES_ANYBODY, PRECEDENCES, TELLINGS
from entrepot.simulation.process_disk import ProcessDisk
from entrepot.simulation.producing import Producer, Stock
from entrepot.simulation.reads import Reads
from entrepot.simulation.recovered import Found
from entrepot.simulation.replica_bugs import REPLICAS, REPLICATIONS, STANDINGS
from entrepot.simulation.shared import LeaseThread, Process, Service, copied
from entrepot.simulation.wires import End, Network, Wire
from entrepot.simulation.world import World

TICK: Final = 50 * MILLISECOND


class Scene(Stock):
    """What the brokers of one store have around them, and whom they tell. `simulation/replicas.py` plays it."""

    def __init__(self, world: World, planted: str, *, label: str = "", network: Network | None = None) -> None:
        """``label``: before the names of its lots, where there are several stores; ``network``: that all have."""
        super().__init__(world)
        self.planted = planted
        self.lease = LeaseOptions()
        self.options = ReplicationOptions()
        self.service = Service(world, world.lots(f"{label}service"))
        self.network = Network(world, world.lots("network")) if network is None else network
        self.copies: list[Copy] = []
        self.trouble = True

    def swap(self, version: int, record: Record) -> int:
        """Put ``record`` into the lock if that is at ``version``; return its version then, else -1."""
        if self.service.version != version:
            return -1
        self.service.record = copied(record)
        self.service.version += 1
        return self.service.version

    def begun(self, name: str, epoch: int, found: dict[int, int]) -> None:
        """A primary has read its store back."""

    def seen_by(self, copy: Copy) -> list[Copy]:
        """Return whom a replica dials: one of them may be the primary."""
        return [each for each in self.copies if each is not copy]

    def expects(self, copy: Copy) -> str:
        """Return whom a replica follows, "" for any primary of its store. Raises Refused: nobody yet."""
        return ""

    def identity(self, standing: Standing) -> str:
        """Return which store a broker has that is about to serve it."""
        return "store"

    def is_live(self, number: int) -> bool:
        """Say whether a message that a primary finds is still to be read."""
        return number not in self.settling

    def options_of(self, part: str) -> ReplicationOptions:
        """Return how a broker that plays ``part`` replicates its store."""
        return self.options

    def sharing(self, part: str) -> SharedStoreOptions:
        """Return what a broker is told that plays ``part``."""
        return SharedStoreOptions(lease=self.lease, part=part, twins=True)

    def returns(self, standing: Standing) -> Returns:
        """Return when a broker gives its store back."""
        return Returns(standing, allowed=False)

    def gives_back(self, giver: Copy, to: str) -> None:
        """A broker gives its store back to the copy ``to``."""

    def tells(self, copy: Copy) -> bool:
        """Say whether clients may be told of a broker: it has a place where they find it."""
        return True

    def chosen(self, primary: Primary, before: str) -> None:
        """The lock of ``primary`` is asked to name another heir than ``before``."""

    def named(self, copy: Copy, heir: str) -> None:
        """Clients of ``copy`` are told that the copy ``heir``, "" for none, takes over."""


class Copy(Process, Store):
    """One broker. ``disk`` and ``note`` (its standing) outlive its processes."""

    def __init__(self, world: Scene, name: str, part: str = EITHER) -> None:
        super().__init__(world.world, name)
        self.all: Final = world
        self.part: Final = part
        self.disk: Final = ProcessDisk(self.lots, world.world.later)
        self.disk.tear = True
        self.note: bytes | None = None
        self.boots = 0
        self.start()

    # -- the process ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin as a backup, with nothing in memory."""
        self.born()
        made = STANDINGS.get(self.all.planted, Standing)
        boot = f"{self.name}.{self.boots}"
        if self.note is None:
            self.standing = made(f"{self.name}-{self.lots.below(1 << 30)}", part=self.part, boot=boot)
            self.persist(self.standing)
        else:
            self.standing = read_standing(self.note, part=self.part, boot=boot, made=made)
        if self.all.planted != "what a process left is not synced":
            self.disk.medium.settle()
        self.lease = Lease(self)
        self.primary: Primary | None = None
        self.following: Following | None = Following(self)
        self.later(self.lots.skewed(MICROSECOND, 50 * MILLISECOND), self.lease.wake)
        self.later(self.lots.skewed(MICROSECOND, 50 * MILLISECOND), self._tick)

    def _tick(self) -> None:
        if self.primary is not None:
            self.primary.tick()
        elif self.following is not None:
            self.following.tick()
        self.later(TICK, self._tick)

    def kill(self, back: Duration = 5 * SECOND) -> None:
        """The process ends, the machine goes on: what was written may not be on disk yet, and is there to be read.

        Another one begins within ``back``.
        """
        if self.alive:
            self.world.count("kills")
            self._hang_up()
            self.die()
            self.disk.kill()
            self.come_back(self.lots.skewed(MILLISECOND, back))

    def crash(self) -> None:
        """The machine stops."""
        if self.alive:
            self.world.count("crashes")
            self._hang_up()
            self.die()
            self.boots += 1
            self.disk.crash()
            self.come_back(self.lots.skewed(MILLISECOND, 5 * SECOND))

    def come_back(self, delay: Duration) -> None:
        """Another process begins after ``delay``."""
        self.world.later(delay, self.start)

    def stop(self) -> None:
        """The operator stops it, in good order, and starts it again."""
        if self.alive and not self.paused:
            self.world.count("stops")
            if self.primary is not None and self.primary.open:
                self.primary.finish(self._again)
            else:
                self.lease.withdraw()
                self._again()

    def begin_anew(self) -> None:
        """What a process does that lost its place: all it knows is wrong."""
        self._again()

    def _again(self) -> None:
        self._hang_up()
        self.die()
        self.disk.kill()
        self.come_back(self.lots.skewed(MILLISECOND, 2 * SECOND))

    def _hang_up(self) -> None:
        self.primary = None
        for wire in self.all.network.wires:
            if self.name in wire.ends:
                wire.close(self.name)

    # -- Store ---------------------------------------------------------------------------------------------------------

    def persist(self, standing: Standing) -> None:
        """Have it on disk."""
        self.note = standing.encode()

    def keep(self, name: str, first: int) -> None:
        """Keep a file aside."""
        self.world.count("files kept aside")

    # -- the lease -----------------------------------------------------------------------------------------------------

    def won(self, grant: Grant) -> None:
        """The lease is ours: serve, if this copy is whole."""
        following, self.following = self.following, None
        assert following is not None
        following.end("it is primary now")
        if following.copying and self.all.planted != "half a copy is served":
            self.world.count("handed back: half a copy")
            self.standing.epochs = []
            self.persist(self.standing)
            self.lease.release(self.begin_anew)
            return
        self.disk.drain()
        self.disk.medium.settle()  # a sync of all that is here
        self.standing.won(grant.epoch)
        self.persist(self.standing)
        self.disk.stop(durable=False)
        delay = self.lots.skewed(MILLISECOND, SECOND)
        self.later(delay, partial(self._serve, grant))

    def _serve(self, grant: Grant) -> None:
        if not self.lease.candidate.tenure.holds(self.now()):
            self.begin_anew()
            return
        try:
            self.primary = self.serving(grant.epoch)
            self.primary.begin()
        except EntrepotError as error:
            self.world.violation(f"{self.name} cannot read its store as epoch {grant.epoch}: {error}")

    def serving(self, epoch: int) -> Primary:
        """Return what it does as primary."""
        return Primary(self, epoch)

    def lost(self, why: str) -> None:
        """The lease is gone: confirm nothing more."""
        self.world.count("leases lost")
        if self.primary is not None:
            self.primary.over = True
        self.begin_anew()


class Lease(LeaseThread):
    """The thread that keeps the lease of a copy."""

    def __init__(self, copy: Copy) -> None:
        self.copy: Final = copy
        self.all: Final = copy.all
        record = Record(name=copy.name, instance=f"{copy.name}{copy.life}", lease=self.all.lease.duration)
        planted = self.all.planted
        made = CANDIDATES.get(planted, candidate.Candidate)
        super().__init__(copy, self.all.service, made(record, self.all.sharing(copy.part), copy.standing))
        self.candidate.precedence = PRECEDENCES.get(planted, Precedence)(copy.standing.copy)

    def propose(self, serial: int, eligible: dict[str, int]) -> None:
        """Have the record changed."""
        self.candidate.proposals.propose(serial, eligible)
        self.copy.later(self.copy.lots.skewed(MICROSECOND, MILLISECOND), self.wake)

    def name(self, heir: str) -> str:
        """Have ``heir`` in the record; return whom it names by now."""
        if self.candidate.proposals.name(heir):
            self.copy.later(self.copy.lots.skewed(MICROSECOND, MILLISECOND), self.wake)
        return self.candidate.proposals.named

    def withdraw(self) -> None:
        """Want it no longer."""
        self.perform(self.candidate.withdraw(self.copy.now()))

    def perform(self, effects: Sequence[candidate.Effect]) -> None:
        """Carry out what the candidate asks for."""
        for effect in effects:
            match effect:
                case candidate.Look():
                    self.look()
                case candidate.Recall():
                    slow = SECOND if self.all.trouble else 20 * MILLISECOND  # it reads a ledger and a directory
                    self.copy.later(self.copy.lots.between(0, slow), self._recall)
                case candidate.Swap():
                    self._swap(effect.version)
                case candidate.Sleep():
                    self.sleep(effect.until)
                case candidate.Won():
                    self.copy.won(effect.grant)
                case candidate.Lost():
                    self.copy.lost(self.candidate.tenure.lost)
                case Recorded():
                    if self.copy.primary is not None:
                        self.copy.primary.replication.recorded(effect.serial)
                case Named():
                    if self.copy.primary is not None and self.copy.primary.open:
                        self.copy.primary.named(effect.heir)
                case candidate.AskBack() | candidate.Heed() | candidate.GiveBack():
                    pass
                case _:
                    assert_never(effect)

    def _recall(self) -> None:
        standing = self.copy.standing
        epochs = [segment_range(name)[1] >> 24 for name in self.copy.disk.names() if name.endswith(".seg")]
        epoch = max([standing.seen, *(int(each) for each in epochs)])
        memory = candidate.Memory(epoch, self.all.lease.duration, empty=not epoch)
        self.perform(self.candidate.recalled(memory, self.copy.now(), 0))

    def _swap(self, version: int) -> None:
        record = copied(self.candidate.mine)
        assert record is not None
        if self.candidate.state is candidate.State.CLAIMING and self.all.planted != "claims are not noted":
            self.copy.persist(self.copy.standing)
        result: list[int] = []

        self.ask(lambda: result.append(self.all.swap(version, record)), lambda: self.swapped(result))


class Following:
    """A replica's connection to whoever is primary (`io/following.py`)."""

    def __init__(self, copy: Copy) -> None:
        self.copy: Final = copy
        self.all: Final = copy.all
        self.wire: Wire | None = None
        self.replica: Replica | None = None
        self._frames = Frames()
        self._heard = 0
        self.over = False

    @property
    def copying(self) -> bool:
        """Say whether the files are neither what they were nor what they will be."""
        return not self.copy.standing.whole

    def tick(self) -> None:
        """Look for a primary, or give up one that says nothing."""
        now = self.copy.now()
        if self.wire is not None:
            if now - self._heard > self.all.options.patience:
                self._gone("silence")
            return
        others = self.all.seen_by(self.copy)
        if not others:
            return
        other = self.copy.lots.one_of(others)
        if self.copy.lots.chance(0.3) and other.primary is not None and other.primary.open and not self.over:
            self._dial(other)

    def _dial(self, other: Copy) -> None:
        primary = other.primary
        cut = self.all.network.cut
        if primary is None or (self.copy.name, other.name) in cut or (other.name, self.copy.name) in cut:
            return
        try:
            expects = self.all.expects(self.copy)
        except Refused:
            return
        near, far = End(self.copy.name), End(other.name)
        self.wire = wire = self.all.network.connect(near, far)
        life = self.copy.life
        near.take = lambda octets: self.copy.mine(partial(self._take, wire, octets))()
        near.lost = lambda why: self.copy.mine(partial(self._lost, wire))()
        primary.welcome(wire, far)
        self._heard = self.copy.now()
        self._frames = Frames()
        send = partial(self._send, wire, life)
        made = REPLICAS.get(self.all.planted, Replica)
        self.copy.disk.let_go()  # as at the end of the last connection
        self.replica = made(self.copy.disk, self.copy.standing, self.copy, send, self.copy.disk.elsewhere)
        self.replica.wants_back = self.copy.part == PRIMARY
        self.replica.expects = expects
        facts = self.replica.greeting(self.copy.name)
        facts.update(identity(self.all.options_of(self.copy.part)))
        facts["connectors"] = {"copies": f"tcp://{self.copy.name}:61616"} if self.all.tells(self.copy) else {}
        send(greeting(HELLO, facts))

    def _send(self, wire: Wire, life: int, octets: bytes) -> None:
        if life == self.copy.life:
            wire.send(self.copy.name, octets)

    def _take(self, wire: Wire, octets: bytes) -> None:
        if wire is not self.wire or self.replica is None or self.over:
            return
        self._heard = self.copy.now()
        try:
            frames = self._frames.feed(octets)
            if frames and frames[0].kind == REFUSED:
                self.world_count("replicas refused")
                self._gone("refused")
                return
            self.replica.take(frames)
        except Refused:
            self.world_count("primaries refused")
            self._gone("refused")

    def world_count(self, what: str) -> None:
        """Count what happened."""
        self.copy.world.count(what)

    def _lost(self, wire: Wire) -> None:
        if wire is self.wire:
            self._gone("lost")

    def _gone(self, why: str) -> None:
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.close(self.copy.name)
        if self.replica is not None:
            self.replica.end(why)
            self.replica = None

    def end(self, why: str) -> None:
        """Take nothing more."""
        self.over = True
        self._gone(why)


class Primary(Producer):
    """A broker that serves: takes messages, settles some, tells its replicas."""

    def __init__(self, copy: Copy, epoch: int) -> None:
        super().__init__(epoch)
        self.copy: Copy = copy
        self.all: Scene = copy.all
        self.mirror: Final = Mirror(copy.disk)
        made = REPLICATIONS.get(self.all.planted, Replication)
        store = copy.standing.store = self.all.identity(copy.standing)
        self.replication = made(
            self.mirror,
            self,
            self.all.options_of(copy.part),
            copy=copy.standing.copy,
            name=copy.name,
            store=store,
        )
        options = JournalOptions(node="node", segment_bytes=8192, epoch=epoch, segments_min=2, batch_bytes=2048)
        self.journal = JournalCore(self.mirror, options)
        self.journal.fence = LeaseFence(copy.lease.candidate.tenure, copy.now)
        self.returns: Final = self.all.returns(copy.standing)
        self.telling: Final = TELLINGS.get(self.all.planted, Telling)()
        self._reads: Final = Reads(copy, copy.disk, lambda: self.open and not self.over)
        self.coincidences: Final = self.all.world.lots(f"coincidences/{copy.name}/{epoch}")

    def begin(self) -> None:
        """Read the store back, and serve."""
        found = Found()
        self.journal.recover(found)
        self.copy.persist(self.copy.standing)
        self.all.begun(self.copy.name, self.epoch, found.messages)
        self.recall(found)
        eligible = self.copy.lease.candidate.mine.eligible
        self.replication.begin(self.epoch, eligible, self.copy.now())
        self.open = True
        self.work()

    def recall(self, found: Found) -> None:
        """Know what is to be read yet."""
        self.live = {number: queue for number, queue in found.messages.items() if self.all.is_live(number)}

    def tick(self) -> None:
        """Time goes by, and who would take over may be another one (`io/replicating.py`)."""
        self.replication.tick(self.copy.now())
        telling = self.telling
        of = self.replication.followers if self.all.planted == NAMES_ANYBODY else self.replication.pieces.in_sync
        heir = HEIRS.get(self.all.planted, heir_of)(of, telling.heir)
        before = telling.heir
        telling.found("" if heir is None else heir.copy, None if heir is None else Note(heir.name, 0, heir.connectors))
        if telling.heir != before:
            self.all.chosen(self, before)
        self.named(self.copy.lease.name(telling.heir))

    def named(self, heir: str) -> None:
        """The lock names ``heir``: clients may be told."""
        if self.telling.news(heir):
            self.all.named(self.copy, self.telling.heir)

    # -- replicas ------------------------------------------------------------------------------------------------------

    def welcome(self, wire: Wire, end: End) -> None:
        """A replica connects."""
        greeted, life = Greeted(self, wire), self.copy.life

        def does(action: Callable[[], None]) -> None:
            if life == self.copy.life:  # the wire is of that process, and may end when it is gone
                self.copy.mine(action)()

        end.take = lambda octets: does(partial(greeted.take, octets))
        end.lost = lambda why: does(partial(greeted.lost, why))

    def record(self, serial: int, eligible: dict[str, int]) -> None:
        """Have the lock's record changed."""
        self.copy.lease.propose(serial, eligible)

    def say(self, text: str, *, loud: bool) -> None:
        """Tell the operator."""
        self.copy.world.note(text)
        self.copy.world.count("said aloud" if loud else "said")

    def asked_back(self, follower: Follower) -> None:
        """The primary is in sync and wants its store (`io/replicating.py`)."""
        copy = self.copy
        wall = copy.world.time // MILLISECOND
        if not self.returns.due(follower.since, copy.now(), wall):
            return
        self.returns.note(wall)
        copy.persist(copy.standing)
        copy.lease.candidate.gave_back = True
        self.all.gives_back(copy, follower.copy)
        copy.later(copy.lots.skewed(MICROSECOND, 10 * MILLISECOND), copy.stop)

    def fetch(self, name: str, offset: int, length: int, then: Fetched) -> None:
        """Read at some moment, and tell at another, one after the other."""
        if self.all.coincide and name.endswith(SCRATCH):
            self.copy.later(self.coincidences.skewed(20 * MICROSECOND, MILLISECOND), self._end_compaction)
        self._reads.fetch(name, offset, length, then)

    def examine(self, name: str, then: Callable[[list[Damage]], None]) -> None:
        """Look at a file at some moment, and tell at another."""
        growing = name in self.mirror.growing

        def look(found: bytes | EntrepotError) -> None:
            octets = found if isinstance(found, bytes) else b""
            then(damages(name, lambda at, size: octets[at : at + size], len(octets), growing=growing))

        self.fetch(name, 0, self.mirror.ends.get(name, 0), look)

    def finish(self, then: Callable[[], None]) -> None:
        """Stop in good order."""
        self.open = False
        self.journal.close()
        self.replication.end()
        self.copy.later(100 * MILLISECOND, lambda: self.copy.lease.release(then))
