"""A machine with a disk, on which a broker runs, crashes and is started again.

The broker is put together by `assembly.py`, as that of a process is. A `PowerCut` may come out of any call of the disk,
so a crash happens in the middle of a turn, of recovery, or of compaction, not only between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from mypy_extensions import i64

from entrepot.assembly import Assembly, Plan, Ports
from entrepot.base.environment import KIB, MILLISECOND, Duration, Entropy
from entrepot.base.errors import EntrepotError, StorageFull
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import EVERY_KIND, Fact, Hub, Listener
from entrepot.journal.log import JournalCore, JournalOptions
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.session import Session, Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.simulation.disk import Later, SimulatedDisk
from entrepot.simulation.turns import TurnLoop
from entrepot.simulation.world import World

LARGE_OCTETS: Final = 6 * KIB  # bodies from here on are streamed to disk: small, so that it happens often
CRASH_IN_COMMIT: Final = 0.05  # a turn, while a transaction is being carried out over several
HOPELESS: Final = 20  # crashes in a row during recovery, after which the fuse is taken out


class PowerCut(Exception):
    """The machine stops here."""


class Caller(Protocol):
    """One who is connected to a machine, and notices when its broker ends."""

    def crashed(self) -> None:
        """The machine is gone without a word."""

    def stopped(self, why: str) -> None:
        """The broker ends the connection."""


class FusedDisk(SimulatedDisk):
    """A disk during the use of which the machine may stop: after ``fuse`` further calls; 0 never. It may decay, too."""

    def __init__(self, entropy: Entropy, later: Later, *, reserve: int = 0) -> None:
        super().__init__(entropy, later, reserve=reserve)
        self.fuse = 0
        self._decayed: list[tuple[str, int, int]] = []  # file, offset, bits

    def decay(self, name: str, offset: int, mask: int) -> bool:
        """Flip bits of an octet that is durable, until the process ends; False when it is not durable."""
        durable = self.medium.durable.get(name, b"")
        if offset >= len(durable) or durable[offset] != self.medium.view[name][offset]:
            return False
        self._decayed.append((name, offset, mask))
        return self.medium.damage(name, offset, mask)

    def _restore(self) -> None:
        for name, offset, mask in self._decayed:
            for files in (self.medium.durable, self.medium.view):
                if name in files:  # else it was removed meanwhile, durably or not
                    files[name][offset] ^= mask
        self._decayed.clear()

    def crash(self) -> None:
        """The machine stops, and somebody restores what decayed."""
        self._restore()
        super().crash()

    def stop(self, *, durable: bool = True) -> None:
        """The process ends, and somebody restores what decayed."""
        self._restore()
        super().stop(durable=durable)

    def _burn(self) -> None:
        if self.fuse > 0:
            self.fuse -= 1
            if self.fuse == 0:
                raise PowerCut

    def create(self, name: str, expected: i64) -> None:
        """Make an empty file."""
        self._burn()
        super().create(name, expected)

    def write(self, name: str, offset: i64, head: bytes, body: bytes) -> None:
        """Write, not durably."""
        super().write(name, offset, head, body)
        self._burn()

    def sync(self, token: i64) -> None:
        """Make all that was asked for durable, after a while."""
        self._burn()
        super().sync(token)

    def cut(self, name: str, length: i64) -> None:
        """Cut and make the file durable."""
        self._burn()
        super().cut(name, length)

    def publish(self, scratch: str, name: str) -> None:
        """Make ``scratch`` durable, then its name, then tell."""
        self._burn()
        super().publish(scratch, name)

    def drop(self, name: str) -> None:
        """Remove, not durably."""
        super().drop(name)
        self._burn()


class Facts(Listener):
    """Counts the facts that the core announces."""

    def __init__(self, world: World) -> None:
        super().__init__(EVERY_KIND)
        self.world = world

    def heard(self, fact: Fact) -> None:
        """Count it, and write it into the trace."""
        self.world.count(fact.name)
        self.world.note(f"fact {fact.name} {fact.subject()}")


class Parts:
    """What a machine is built of. Planted bugs put subclasses here; every other world takes the real ones."""

    def __init__(self, disk: type[FusedDisk] = FusedDisk, journal: type[JournalCore] = JournalCore) -> None:
        self.disk = disk
        self.journal = journal


class MachineOptions(msgspec.Struct, frozen=True):
    """Octets, and ns for times. ``policies``: pattern -> setting -> text."""

    policies: dict[str, dict[str, str]]
    memory_limit: int
    segment_bytes: int
    batch_bytes: int
    garbage_percent: int
    compact_every: Duration
    compact_octets: int
    sync_delay_max: Duration
    reserve: int


class Machine:
    """One broker on one disk. ``run`` counts starts, ``era`` those that came after a crash."""

    def __init__(self, world: World, parts: Parts, options: MachineOptions) -> None:
        self.world = world
        self.parts = parts
        self.options = options
        self.lots = world.lots("machine")
        self.disk = parts.disk(world.lots("disk"), self._from_disk, reserve=options.reserve)
        self.disk.sync_delay_max = options.sync_delay_max
        self.broker: BrokerCore | None = None
        self.stage_octets = 64 * 1024 * KIB  # what a publication may do in one step
        self.stage_least = 1  # messages that are published by one record at the least
        self.links: dict[int, Caller] = {}
        self.accepted = 0
        self.run = 0
        self.era = 0
        self.crashes_in_a_row = 0
        self.stomp = StompOptions()
        self.stomp.large_octets = LARGE_OCTETS
        self.stomp.write_high_octets = 16 * KIB
        self.mqtt = MqttOptions()
        self.amqp = AmqpOptions()
        self.core = CoreOptions()
        self.core.write_high_octets = 16 * KIB
        self._facts = Facts(world)
        self._commit_lots = world.lots("commits")
        self.turn_units = 0  # what a turn may do (`core/effort.py`); 0: as much as in the real world
        self.loop: Final = TurnLoop(world, self.turn)
        self._made: Assembly | None = None
        self._booting = False

    # -- starting and stopping ----------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start the broker: recover. Raises CorruptJournal, a finding: the disk keeps what it synced."""
        if self.broker is not None:
            return
        self._booting = False
        options = self.options
        self.run += 1
        journal = self.parts.journal(
            self.disk,
            JournalOptions(
                node="sim",
                created=self.world.wall(),
                segment_bytes=options.segment_bytes,
                batch_bytes=options.batch_bytes,
                garbage_percent=options.garbage_percent,
                segments_min=2,
                unsynced_bytes_max=4 * options.batch_bytes,
            ),
        )
        plan = Plan("sim", options.memory_limit, policies=options.policies)
        made = Assembly(plan, Ports(journal, self.world.lots(f"broker{self.run}"), Hub([self._facts], strict=True)))
        broker = made.broker
        if self.turn_units:
            broker.effort.units = broker.effort.stride = self.turn_units
        broker.stages.publishing.atomic_octets = broker.stages.publishing.step_octets = self.stage_octets
        broker.stages.publishing.load_messages = broker.stages.publishing.refer_messages = 3
        broker.stages.publishing.refer_least = self.stage_least
        broker.stages.document_runs = 6
        broker.stages.drop_step = 5
        if self.crashes_in_a_row > HOPELESS:
            self.disk.fuse = 0
        try:
            report = made.recover(self.world.time, self.world.wall())
            made.equip()  # sessions of MQTT that were connected are written down as left: the disk is asked here, too
        except PowerCut:
            self.world.count("crash in recovery")
            self.crash(torn=True)
            return
        except StorageFull:
            self.world.count("no room to start")  # the process says so and ends; somebody starts it again
            self.crash(torn=False)
            return
        self.crashes_in_a_row = 0
        self.world.note(f"boot {self.run}: {report.describe()}")
        if report.torn_segment:
            self.world.count("torn tail")
        self._made = made
        self.broker = broker
        self.loop.begin(broker)
        self.turn(lambda: None)
        self.world.later(options.compact_every, lambda: self._compact(broker))

    def crash(self, *, torn: bool) -> None:
        """Stop at once. ``torn``: the machine loses power; otherwise only the process dies."""
        self.world.note(f"crash torn={torn}")
        self.world.count("crash")
        self.era += 1
        self.crashes_in_a_row += 1
        self.broker = None
        self.loop.end()
        links = list(self.links.values())
        self.links.clear()
        for link in links:
            link.crashed()
        if torn:
            self.disk.crash()
        else:
            self.disk.stop()
        self.disk.fail_syncs = False
        self.disk.fail_writes = False
        self._reboot()

    def _reboot(self) -> None:
        if not self._booting:
            self._booting = True
            self.world.later(self.lots.between(1, 200) * MILLISECOND, self.boot)

    def restart(self) -> None:
        """Stop in order, and start again."""
        if self.broker is None:
            return
        self.world.note("restart")
        self.world.count("clean restart")
        self.turn(self._tell_peers)
        if self.broker is not None:
            self.turn(self.broker.finish_work)
        broker = self.broker
        if broker is None:  # the fuse blew meanwhile
            return
        if broker.journal.refusal() is not None:
            self.era += 1  # what the disk does not take is not promised: not the redelivered mark either
        try:
            broker.journal.close()
        except PowerCut:
            self.crash(torn=True)
            return
        self.broker = None
        self.disk.stop()
        self._reboot()

    def _tell_peers(self) -> None:
        """Stop as `io` does; nothing may be handed out from the moment on at which the first peer is told."""
        broker = self.broker
        assert broker is not None
        assert self._made is not None
        self._made.take_leave()
        queues = list(broker.table.queues.values())
        before = sum(int(queue.dispatcher.delivered) for queue in queues)
        for link in list(self.links.values()):
            link.stopped("the broker stops")
        self.links.clear()
        after = sum(int(queue.dispatcher.delivered) for queue in queues)
        if after > before:
            self.world.violation(f"{after - before} messages went from one reader to the next of a broker that stops")

    # -- turns --------------------------------------------------------------------------------------------------------

    def turn(self, action: Callable[[], object]) -> None:
        """Let one stimulus happen."""
        broker = self.broker
        if broker is None:
            return
        try:
            self.loop.run(action)
        except PowerCut:
            self.world.count("crash in a turn")
            self.crash(torn=True)
            return
        refusal = broker.journal.refusal()
        if refusal is not None and not isinstance(refusal, StorageFull):
            self.world.count("journal died")
            self.crash(torn=True)
            return
        if broker.transactions.under_way is not None and self._commit_lots.chance(CRASH_IN_COMMIT):
            self.world.count("crash in a commit")
            self.crash(torn=self._commit_lots.chance(0.5))
            return
        self.loop.arm()

    def accept(self, shell: Shell, peer: str) -> Session:
        """Make the session of a new connection. The broker must be there."""
        assert self.broker is not None
        assert self._made is not None
        self.accepted += 1
        self.broker.tick(self.world.time, self.world.wall())
        return self._made.greet_stomp(shell, self.stomp, peer)

    def accept_core(self, shell: Shell, peer: str) -> Session:
        """Make the session of a new connection that speaks CORE."""
        assert self.broker is not None
        assert self._made is not None
        self.accepted += 1
        self.broker.tick(self.world.time, self.world.wall())
        return self._made.greet_core(shell, self.core, peer)

    def accept_mqtt(self, shell: Shell, peer: str) -> Session:
        """Make the session of a new connection that speaks MQTT."""
        assert self.broker is not None
        assert self._made is not None
        self.accepted += 1
        self.broker.tick(self.world.time, self.world.wall())
        return self._made.greet_mqtt(shell, self.mqtt, peer)

    def accept_amqp(self, shell: Shell, peer: str) -> Session:
        """Make the session of a new connection that speaks AMQP."""
        assert self.broker is not None
        assert self._made is not None
        self.accepted += 1
        self.broker.tick(self.world.time, self.world.wall())
        return self._made.greet_amqp(shell, self.amqp, peer)

    def _from_disk(self, delay: Duration, action: Callable[[], None]) -> None:
        self.world.later(delay, lambda: self.turn(action))

    def _compact(self, broker: BrokerCore) -> None:
        if self.broker is not broker:
            return
        more: list[bool] = []
        self.turn(lambda: more.append(self._compact_some(broker)))
        if self.broker is broker:
            delay = MILLISECOND if more and more[0] else self.options.compact_every
            self.world.later(delay, lambda: self._compact(broker))

    def _compact_some(self, broker: BrokerCore) -> bool:
        if self._made is not None and self._made.measure():
            self.world.count("limit of the disk")
        try:
            more = broker.journal.compact(self.options.compact_octets)
        except EntrepotError as error:
            self.world.note(f"compaction: {error.message}")
            return False
        if more:
            self.world.count("compaction steps")
        return more
