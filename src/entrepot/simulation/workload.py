"""What happens in one world, drawn from its seed: the broker's settings, who comes when, and what breaks.

A plan is a list of steps that know nothing of one another, so that any subset of them is a plan too. Behind the plan
the world *heals*: faults end, producers come to an end, everything is read out, and the ledger is balanced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from entrepot.base.environment import KIB, MICROSECOND, MILLISECOND, SECOND, Instant
from entrepot.core.broker import BrokerCore
from entrepot.model.address import ANYCAST, Destination
from entrepot.protocols.stomp.client import AUTO, CLIENT, CLIENT_INDIVIDUAL
from entrepot.simulation.blocking import Blocks
from entrepot.simulation.checkers import DEAD_LETTERS, Invariants, Ledger
from entrepot.simulation.clients import COLORS, Client, Producer, ProducerOptions, Stage
from entrepot.simulation.commits import Commits
from entrepot.simulation.consumers import Consumer, ConsumerOptions, drainer
from entrepot.simulation.core_programs import POLICIES as OF_CORE
from entrepot.simulation.core_readers import CoreReader
from entrepot.simulation.core_senders import CoreSender
from entrepot.simulation.decay import Decay
from entrepot.simulation.keepers import POLICIES, Keeper
from entrepot.simulation.machine import Machine, MachineOptions, Parts
from entrepot.simulation.queries import Batches
from entrepot.simulation.readers import Browsing, LeaseReader, TopicReader
from entrepot.simulation.sinks import SinkWriter
from entrepot.simulation.world import Lots, World

STORM: Final = 4 * SECOND  # how long a plan lasts
QUIET_MAX: Final = 300 * SECOND  # virtual time in which everything must have been read out
FIRST_STEP: Final = 100 * MILLISECOND  # the queues that are there from the start are on disk by then
LOOK_EVERY: Final = 8  # events between two looks at the broker's invariants: they walk over every message
ROT_TRIES: Final = 40  # looks for a large body to damage
ROT_PAUSE: Final = 20 * MILLISECOND
SLACK: Final = 160 * KIB  # what one chunk of 64 KiB and one transaction may put on top of a limit

VIRTUAL: Final = "VirtualTopic.news"


class Step(msgspec.Struct, frozen=True):
    """One thing that happens ``at`` ns into the storm. ``name`` is also that of its lots."""

    at: Instant
    kind: str
    name: str


KINDS: Final = (  # kind, how many in one plan at the most, how likely each is
    ("producer", 3, 0.75),
    ("consumer", 4, 0.7),
    ("durable", 2, 0.4),
    ("topic", 1, 0.3),
    ("lease", 2, 0.35),
    ("browser", 1, 0.4),
    ("cut", 6, 0.5),
    ("power", 3, 0.3),
    ("kill", 1, 0.3),
    ("fuse", 3, 0.35),
    ("restart", 1, 0.4),
    ("full", 1, 0.25),
    ("io-error", 1, 0.1),
    ("pause", 1, 0.3),
    ("purge", 1, 0.2),
)
LATE_KINDS: Final = (
    ("sink", 2, 0.35),
    ("shard", 1, 0.3),
    ("rot", 2, 0.4),
    ("clock", 3, 0.2),
    ("crowd", 1, 0.25),
    ("query", 2, 0.3),
    ("commit", 2, 0.25),
    ("keeper", 2, 0.3),
    ("core", 2, 0.3),
    ("block", 3, 0.25),
    ("decay", 3, 0.5),
)  # drawn and numbered behind the others: seeds keep the steps that they had
CROWD_LEAST: Final = 4  # subscribers of a topic that come together
CROWD_MOST: Final = 8
SINK_ROOM: Final = 60_000  # octets: what a broker remembers of a sink stays, and must not keep all others out


class Workload:
    """One plan and its execution."""

    def __init__(self, world: World, parts: Parts, keep: Sequence[int] | None) -> None:
        """``keep``: the numbers of the steps that are done; None: all."""
        self.world = world
        lots = world.lots("settings")
        self.names = [f"q{number}" for number in range(lots.between(1, 3))]
        options = machine_options(lots, self.names)
        self.machine = Machine(world, parts, options)
        self.ledger = Ledger(world)
        self.blocks = self.ledger.blocks = Blocks(world, self.machine)
        self.stage = Stage(world, self.machine, self.ledger)
        self.decay = Decay(world, self.machine, self.ledger)
        self.machine.stage_octets = world.lots("stages").one_of((500, 5_000, 64 * 1024 * KIB))
        self.machine.stage_least = world.lots("referred").one_of((1, 1, 2, 1000))
        turns = world.lots("turns")
        self.machine.turn_units = turns.one_of((1, 3, 20, 0, 0))
        self.machine.loop.rest_after = turns.one_of(
            (10 * MICROSECOND, 10 * MICROSECOND, 300 * MICROSECOND, MILLISECOND)
        )
        self.virtual = [f"Consumer.{who}.{VIRTUAL}" for who in ("a", "b")[: lots.below(3)]]
        self.stage.virtual = {VIRTUAL: self.virtual}
        self.stage.queues = [*self.names, *self.virtual]
        self.stage.dropping = [name for name in self.names if options.policies[name].get("full") == "DROP"]
        self.clients: dict[str, Client] = {}
        self.plan = draw_plan(world.lots("plan"))
        room = SINK_ROOM * sum(step.kind in ("sink", "commit") for step in self.plan)
        self.machine.options = msgspec.structs.replace(options, memory_limit=options.memory_limit + room)
        self.steps = len(self.plan)
        wanted = range(self.steps) if keep is None else keep
        self.chosen = [self.plan[number] for number in wanted]
        self.invariants = Invariants(world, LOOK_EVERY, SLACK)
        self.final_crash = lots.chance(0.3)
        world.after = self._after

    def _after(self) -> None:
        self.ledger.run = self.machine.run
        self.ledger.era = self.machine.era
        self.ledger.stops = self.machine.run - 1
        self.invariants.look(self.machine.broker)

    # -- the course of a world ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Storm, healing, reckoning."""
        world = self.world
        self.machine.boot()
        self.machine.turn(self._found)
        for step in self.chosen:
            world.later(FIRST_STEP + step.at, lambda step=step: self._do(step))  # type: ignore[misc]
        world.run(world.time + FIRST_STEP + STORM)
        if not world.violations:
            self._heal()
        if not world.violations:
            self._reckon()

    def _found(self) -> None:
        """Make what is there before anybody comes."""
        broker = self.machine.broker
        assert broker is not None
        for name in self.stage.queues:
            broker.queues.need(Destination(name, ANYCAST))
        self.machine.disk.sync_delay_max = min(self.machine.disk.sync_delay_max, 20 * MILLISECOND)
        broker.journal.flush()
        self.machine.disk.sync(0)

    def _heal(self) -> None:
        world = self.world
        world.note("healing")
        self.stage.healing = True
        self.world.set_clock(self.world.clock_peak_ms)  # what a broker dated then, and read back since, is due at last
        disk = self.machine.disk
        disk.fuse = 0
        disk.fail_syncs = False
        disk.fail_writes = False
        disk.room.make()
        if self.final_crash and self.machine.broker is not None:
            self.machine.crash(torn=True)
        for client in list(self.clients.values()):
            client.heal()
        deadline = world.time + QUIET_MAX
        self._until(deadline, self._storm_is_over)
        for name in [*self.stage.queues, DEAD_LETTERS]:
            self._come(drainer(self.stage, name))
        self._until(deadline, self._is_empty)
        if not world.violations and not self._is_empty():
            world.violation(f"not empty after {QUIET_MAX // SECOND} s: {self._left()}")

    def _until(self, deadline: Instant, done: object) -> None:
        """Let time pass until ``done``, resuming what an operator paused."""
        assert callable(done)
        world = self.world
        while not world.violations and world.time < deadline:
            self._resume_all()
            world.run(world.time + 20 * MILLISECOND)
            if done():
                return

    def _resume_all(self) -> None:
        broker = self.machine.broker
        if broker is not None:
            for queue in list(broker.table.queues.values()):
                if queue.gate.paused:
                    self.machine.turn(queue.dispatcher.resume)

    def _storm_is_over(self) -> bool:
        """Fleeting consumers are gone, leases are settled; who sends may wait for room until queues are drained."""
        senders = Producer | SinkWriter | Commits | CoreSender
        return self.machine.broker is not None and all(
            client.quiet or isinstance(client, senders) for client in self.clients.values()
        )

    def _is_empty(self) -> bool:
        broker = self.machine.broker
        if broker is None or broker.scheduled.schedules:
            return False
        if any(queue.count for queue in broker.table.queues.values()):
            return False
        self.machine.turn(lambda: self._drop_stages(broker))
        return all(client.quiet for client in self.clients.values())

    def _drop_stages(self, broker: BrokerCore) -> None:
        """Drop, as an operator would, what a writer left whose last words came when it had gone."""
        for client in self.clients.values():
            if isinstance(client, SinkWriter | Commits) and client.quiet:
                broker.stages.abandon(client.name, client.batch, None)

    def _left(self) -> str:
        broker = self.machine.broker
        if broker is None:
            return "the broker is down"
        queues = {name: int(queue.count) for name, queue in broker.table.queues.items() if queue.count}
        clients = [client.name for client in self.clients.values() if not client.quiet]
        return f"queues {queues}, scheduled {len(broker.scheduled.schedules)}, clients {clients}"

    def _reckon(self) -> None:
        """All is read out: nothing may be left in memory or in the journal, and everything must be accounted for."""
        broker = self.machine.broker
        assert broker is not None
        self.world.note("reckoning")
        self.world.run(self.world.time + SECOND)
        self.invariants.check(broker)
        uncalled = broker.memory.used - broker.stages.ledger.octets  # decisions are remembered
        if uncalled:
            self.world.violation(f"{uncalled} octets of memory are charged for nothing")
        files = self.machine.disk.blobs()
        if files:
            self.world.violation(f"files of large bodies are left behind: {files}")
        left = broker.journal.usage().messages
        if left:
            self.world.violation(f"the journal keeps {left} messages that are in no queue")
        self.ledger.finish()

    # -- steps --------------------------------------------------------------------------------------------------------

    def _come(self, client: Client) -> None:
        self.clients[client.name] = client
        client.start()

    def _do(self, step: Step) -> None:
        if self.world.violations:
            return
        self.world.note(f"step {step.name}")
        lots = self.world.lots(f"step/{step.name}")
        if step.kind == "producer":
            self._come(Producer(self.stage, step.name, self._producer(lots)))
        elif step.kind == "consumer":
            self._come(Consumer(self.stage, step.name, self._consumer(lots)))
        elif step.kind == "durable":
            self._come(Consumer(self.stage, step.name, self._durable(lots)))
        elif step.kind == "topic":
            self._come(Consumer(self.stage, step.name, self._topic(lots)))
        elif step.kind == "crowd":
            for number in range(lots.between(CROWD_LEAST, CROWD_MOST)):
                options = self._durable(lots) if lots.chance(0.5) else self._topic(lots)
                self._come(Consumer(self.stage, f"{step.name}-{number}", options))
        elif step.kind == "lease":
            pause = lots.skewed(MILLISECOND, 100 * MILLISECOND)
            self._come(LeaseReader(self.stage, step.name, lots.one_of(self.names), lots.skewed(1, 40), pause))
        elif step.kind == "sink":
            pause = lots.skewed(MILLISECOND, 60 * MILLISECOND)
            writer = SinkWriter(self.stage, step.name, self.names, lots.between(1, 12), lots.between(1, 3), pause)
            self._come(writer)
        elif step.kind == "shard":
            pause = lots.skewed(MILLISECOND, 100 * MILLISECOND)
            self._come(TopicReader(self.stage, step.name, "t", lots.skewed(1, 40), pause))
        elif step.kind == "commit":
            pause = lots.skewed(MILLISECOND, 60 * MILLISECOND)
            self._come(Commits(self.stage, step.name, self.names, lots.between(1, 12), lots.between(1, 3), pause))
        elif step.kind == "query":
            pause = lots.skewed(MILLISECOND, 60 * MILLISECOND)
            self._come(Batches(self.stage, step.name, lots.one_of(self.names), lots.skewed(1, 40), pause))
        elif step.kind == "keeper":
            pause = lots.skewed(MILLISECOND, 40 * MILLISECOND)
            kind = lots.one_of(("last", "ring", "both"))
            self._come(Keeper(self.stage, step.name, kind, lots.skewed(5, 120), pause))
        elif step.kind == "core":
            self._speak_core(step.name, lots)
        elif step.kind == "browser":
            self._come(Browsing(self.stage, step.name, lots.one_of(self.names), lots.between(1, 4)))
        else:
            self._break(step.kind, lots)

    def _speak_core(self, name: str, lots: Lots) -> None:
        """Have programs speak CORE, and a client of STOMP send to the one that reads."""
        own = f"core.{name}"
        pause = lots.skewed(MILLISECOND, 40 * MILLISECOND)
        self._come(CoreReader(self.stage, f"{name}-reader", own))
        self._come(CoreSender(self.stage, f"{name}-sender", [own, own, *self.names], lots.skewed(5, 60), pause))
        if lots.chance(0.6):
            options = msgspec.structs.replace(self._producer(lots), destinations=(f"/queue/{own}",))
            self._come(Producer(self.stage, f"{name}-stomp", options))

    def _break(self, kind: str, lots: Lots) -> None:
        machine = self.machine
        disk = machine.disk
        if kind == "cut":
            linked = [client for client in self.clients.values() if client.linked]
            if linked:
                lots.one_of(linked).cut()
        elif kind in ("power", "kill"):
            if machine.broker is not None:
                machine.crash(torn=kind == "power")
        elif kind == "fuse":
            disk.fuse = lots.skewed(1, 60)
        elif kind == "restart":
            machine.restart()
        elif kind == "full":
            disk.room.capacity = disk.used() + lots.skewed(100, 20_000)
            self.world.later(lots.between(100, 1500) * MILLISECOND, lambda: machine.turn(disk.room.make))
            self.world.later(1600 * MILLISECOND, disk.room.make)
        elif kind == "clock":
            self.world.count("clock set")
            self.world.set_clock(lots.one_of((-7_200_000, -60_000, -3_000, 0, 500, 3_000, 60_000, 7_200_000)))
        elif kind == "block":
            self.blocks.block(lots.one_of(self.names), lots.skewed(20, 1_500) * MILLISECOND)
        elif kind == "decay":
            self.decay.begin(lots, lambda group: isinstance(self.clients.get(group), LeaseReader))
        elif kind == "rot":
            self._rot(lots, ROT_TRIES)
        elif kind == "io-error":
            if lots.chance(0.5):
                disk.fail_syncs = True
            else:
                disk.fail_writes = True
        else:
            self._operate(kind, lots.one_of(self.names), lots)

    def _rot(self, lots: Lots, tries: int) -> None:
        """Damage the large body of a message that is stored, as soon as there is one."""
        broker = self.machine.broker
        found = {} if broker is None else broker.journal.reading.large_bodies()
        found = {number: blob for number, blob in found.items() if number not in self.decay.numbers}
        if broker is not None and found:
            number = lots.one_of(sorted(found))
            identity = broker.journal.reading.load(number).fact("sim-id")
            assert isinstance(identity, str)
            how = lots.one_of(("flip", "flip", "shorten", "lose"))
            if self._damage(f"{found[number]}.blob", int(self.machine.disk.blob_size(found[number])), how, lots):
                self.ledger.records[identity].rotten = True
                self.world.note(f"{how} {found[number]}.blob of {identity}")
                self.world.count("rot")
                return
        if tries:
            self.world.later(ROT_PAUSE, lambda: self._rot(lots, tries - 1))

    def _damage(self, name: str, length: int, how: str, lots: Lots) -> bool:
        """Damage a file of ``length`` octets; False when it is not durable yet."""
        disk = self.machine.disk
        if how == "lose" or length <= 0:
            disk.medium.lose(name)
            return True
        at = lots.below(length)
        return disk.medium.damage(name, at) if how == "flip" else disk.medium.shorten(name, at)

    def _operate(self, kind: str, name: str, lots: Lots) -> None:
        broker = self.machine.broker
        queue = None if broker is None else broker.table.queues.get(name)
        if broker is None or queue is None:
            return
        if kind == "purge":
            self.ledger.purged(name)
            self.machine.turn(queue.taking.purge)
        else:
            self.machine.turn(queue.gate.pause)
            self.machine.turn(lambda: broker.queues.keep(queue))
            self.world.later(lots.between(50, 800) * MILLISECOND, lambda: self._resume(name))

    def _resume(self, name: str) -> None:
        broker: BrokerCore | None = self.machine.broker
        if broker is not None and name in broker.table.queues:
            queue = broker.table.queues[name]
            self.machine.turn(queue.dispatcher.resume)
            self.machine.turn(lambda: broker.queues.keep(queue))

    # -- who comes ----------------------------------------------------------------------------------------------------

    def _destinations(self, lots: Lots) -> tuple[str, ...]:
        queues = [f"/queue/{name}" for name in self.names]
        choices = [[lots.one_of(queues)], queues, [*queues, "/topic/t"], ["/topic/t", f"/topic/{VIRTUAL}"]]
        chosen = list(lots.one_of(choices))
        if lots.chance(0.2):
            chosen.append(",".join([*queues[:2], "/topic/t"]))
        return tuple(chosen)

    def _producer(self, lots: Lots) -> ProducerOptions:
        return ProducerOptions(
            destinations=self._destinations(lots),
            count=lots.skewed(5, 120),
            interval=lots.skewed(300 * MICROSECOND, 40 * MILLISECOND),
            window=lots.skewed(1, 60),
            size_max=lots.one_of((60, 300, 2000, 2000, 20_000)),
            persistent=lots.one_of((1.0, 1.0, 0.7, 0.0)),
            receipts=lots.one_of((1.0, 1.0, 0.5)),
            transactions=lots.one_of((0.0, 0.0, 0.2, 0.5)),
            duplicates=lots.chance(0.4),
            lifetimes=lots.one_of((0.0, 0.0, 0.2)),
            delays=lots.one_of((0.0, 0.0, 0.15)),
            priorities=lots.one_of((0.0, 0.0, 0.5)),
            groups=lots.one_of((0, 1, 5)),
            closes=lots.one_of((0.0, 0.1)),
        )

    def _consumer(self, lots: Lots) -> ConsumerOptions:
        ack = lots.one_of((AUTO, CLIENT, CLIENT_INDIVIDUAL, CLIENT_INDIVIDUAL))
        choices = [f"/queue/{name}" for name in self.stage.queues]
        if ack != CLIENT:
            choices.append("/queue/q>")
        if ack == CLIENT_INDIVIDUAL:
            choices.append(f"/queue/{DEAD_LETTERS}")
        return ConsumerOptions(
            destination=lots.one_of(choices),
            ack=ack,
            prefetch=lots.skewed(1, 200),
            think=lots.skewed(50 * MICROSECOND, 60 * MILLISECOND),
            batch=lots.skewed(1, 20),
            receipts=lots.one_of((1.0, 0.3, 0.0)),
            nacks=lots.one_of((0.0, 0.0, 0.1)),
            transactions=lots.one_of((0.0, 0.0, 0.4)),
            color=lots.one_of(("", "", "", *COLORS)),
            priority=lots.one_of((0, 0, 0, 5)),
            exclusive=lots.chance(0.1),
            life=lots.one_of((0, 0, 5, 40)),
            outputs=lots.one_of(("", self.names[0])),
            departs=lots.one_of((0.0, 0.0, 0.3)),
        )

    def _durable(self, lots: Lots) -> ConsumerOptions:
        return ConsumerOptions(
            destination="/topic/t",
            ack=lots.one_of((CLIENT, CLIENT_INDIVIDUAL)),
            prefetch=lots.skewed(1, 100),
            think=lots.skewed(50 * MICROSECOND, 40 * MILLISECOND),
            batch=lots.skewed(1, 20),
            receipts=lots.one_of((1.0, 0.3)),
            nacks=lots.one_of((0.0, 0.05)),
            transactions=lots.one_of((0.0, 0.3)),
            color=lots.one_of(("", *COLORS)),
            priority=0,
            exclusive=False,
            life=lots.one_of((0, 5, 30)),
            durable="sub",
            departs=lots.one_of((0.0, 0.3)),
        )

    def _topic(self, lots: Lots) -> ConsumerOptions:
        return ConsumerOptions(
            destination=lots.one_of(("/topic/t", "/topic/>")),
            ack=lots.one_of((AUTO, CLIENT_INDIVIDUAL)),
            prefetch=lots.skewed(1, 100),
            think=MILLISECOND,
            batch=1,
            receipts=0.0,
            nacks=0.0,
            transactions=0.0,
            color="",
            priority=0,
            exclusive=False,
            life=0,
        )


def draw_plan(lots: Lots) -> list[Step]:
    """Return the steps of one world, in order of time."""
    plan: list[Step] = []
    calm = lots.chance(0.15)  # some worlds never lose power, so that what only a crash would excuse cannot hide
    for kind, most, likely in KINDS:
        for number in range(most):
            at = int(STORM * lots.fraction() ** (2.0 if kind in ("producer", "consumer", "durable") else 1.0))
            if lots.chance(likely) and not (calm and kind in ("power", "kill", "fuse", "restart", "io-error")):
                plan.append(Step(at, kind, f"{kind}{number}"))
    plan.sort(key=lambda step: (step.at, step.name))
    for kind, most, likely in LATE_KINDS:
        for number in range(most):
            at = int(STORM * lots.fraction() ** 2.0)
            if lots.chance(likely):
                plan.append(Step(at, kind, f"{kind}{number}"))
    return plan


def machine_options(lots: Lots, names: list[str]) -> MachineOptions:
    """Return the settings of one broker: small limits, so that everything that they cause happens all the time."""
    policies: dict[str, dict[str, str]] = {**POLICIES, **OF_CORE}
    for name in names:
        settings = {
            "full": lots.one_of(("PAGE", "PAGE", "PAGE", "BLOCK", "FAIL", "DROP")),
            "max_octets": str(lots.skewed(2_000, 200_000)),
            "max_deliveries": lots.one_of(("3", "10", "-1")),
            "redelivery_delay": lots.one_of(("0", "0", "50")),
            "nack_redelivers": lots.one_of(("true", "false")),
            "prioritized": lots.one_of(("true", "true", "false")),
        }
        if settings["full"] == "BLOCK":
            settings["block_ms_max"] = lots.one_of(("0", "500"))
        if settings["prioritized"] == "true" and lots.chance(0.2):
            settings["exclusive"] = "true"
        policies[name] = settings
    return MachineOptions(
        policies=policies,
        memory_limit=lots.skewed(10_000, 2_000_000),
        segment_bytes=lots.one_of((4 * KIB, 8 * KIB, 32 * KIB, 256 * KIB)),
        batch_bytes=lots.one_of((512, 4 * KIB, 64 * KIB)),
        garbage_percent=lots.one_of((10, 30, 50)),
        compact_every=lots.skewed(20 * MILLISECOND, 400 * MILLISECOND),
        compact_octets=lots.skewed(200, 20_000),
        sync_delay_max=lots.skewed(200 * MICROSECOND, 30 * MILLISECOND),
        reserve=lots.one_of((0, 0, 4 * KIB)),
    )
