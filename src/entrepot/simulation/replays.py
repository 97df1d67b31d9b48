"""Brokers that keep what their journal lets go of, and operators who have it sent again, from seeds: ``--retention``.

Producers send to two addresses, alone and many in one bracket, some with large bodies, and stage batches that they
publish later; readers settle. A broker loses power between any two steps, stops, has its disk fill up, a file that is
kept is damaged; an operator replays one of the addresses again and again, each time to a queue of its own. What must
hold:

- what was confirmed is read by its reader, whatever is kept, also while the disk is full, and once under one number;
- a replay that ended sent each message that was confirmed before it began, once, with the body that it had, and none
  of another address; but for what had gone because it was too old, too much, or in the way of a full disk;
- what goes is no younger than the period, and fits no more into the limit;
- no replay sends what was lost before it was confirmed, in a crash, or with a bracket that was not whole;
- nobody is refused for a full disk while something is kept;
- in the calm a replay ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from entrepot.base.environment import KIB, MILLISECOND
from entrepot.base.errors import EntrepotError, StageError, StorageFull
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.replaying import Replay, replay
from entrepot.journal.log import Waiter
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.artemis.headers import properties_in
from entrepot.simulation.machine import Parts
from entrepot.simulation.postings import IDENTITY, LARGE_MAX, post, short
from entrepot.simulation.retained import KEPT, RetainedJournal, RetainingDisk, SimulatedArchive
from entrepot.simulation.storms import Driven, StormRun
from entrepot.simulation.subscribers import Reader

REPLAYED: Final = "Q"
OTHER: Final = "other"
SLACK_SEGMENTS: Final = 3  # a file goes as a whole, and one more is begun
FULL_MS: Final = 400


class Post:
    """One message that was sent. ``grown``: what its disk had grown by then, octets; ``wall``: ms since 1970."""

    def __init__(self, address: str, octets: int, grown: int, wall: int) -> None:
        self.address = address
        self.octets = octets
        self.grown = grown
        self.wall = wall
        self.accepted = False
        self.staged: int | None = None  # its ``grown`` when it was staged
        self.numbers: dict[int, None] = {}  # under which it was settled


class Accepting(Waiter):
    """Notes that messages are on disk."""

    def __init__(self, posts: list[Post]) -> None:
        self.posts = posts

    def stored(self, token: bytes) -> None:
        """Their producer is told."""
        for one in self.posts:
            one.accepted = True

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It is told that they are not."""


class Accepted(Accepting):
    """Notes that a step of a staged commit is on disk. ``asked``: in which run of the machine that was asked for."""

    def __init__(self) -> None:
        super().__init__([])
        self.told = False
        self.asked = -1

    def stored(self, token: bytes) -> None:
        """The program is told."""
        self.told = True
        super().stored(token)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It asks again."""
        self.asked = -1


class Attempt:
    """One replay. ``wanted``: what was confirmed when it began; ``ended``: all that it sent is on disk."""

    def __init__(self, target: str, wanted: list[str]) -> None:
        self.target = target
        self.wanted = wanted
        self.ended = False
        self.grown = 0
        self.wall = 0
        self.calm = False  # it began when all was sent
        self.waits = False  # it is over, and the disk is to say so
        self.exact = False  # nothing had gone by its end
        self.told: dict[str, object] = {}
        self.came: dict[str, dict[int, None]] = {}


class Ending(Waiter):
    """Notes that all that a replay sent is on disk."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def stored(self, token: bytes) -> None:
        """Its operator is told."""
        self.attempt.ended = True
        self.attempt.waits = False

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It is told that it was not."""
        self.attempt.waits = False


class Poster:
    """Sends ``count`` messages."""

    def __init__(self, run: ReplayRun, name: str, count: int) -> None:
        self.run = run
        self.lots = run.world.lots(name)
        self.name = name
        self.left = count
        self.pace = self.lots.skewed(2, 40)

    def start(self) -> None:
        """Send the next ones, and go on."""
        if self.run.machine.broker is not None:
            self.run.machine.turn(self._send)
        if self.left > 0:
            self.run.world.later(self.lots.between(1, self.pace) * MILLISECOND, self.start)

    def cut(self) -> None:
        """It has no connection."""

    def _send(self) -> None:
        broker, lots = self.run.machine.broker, self.lots
        assert broker is not None
        count = min(self.left, lots.skewed(2, 60)) if lots.chance(0.1) else 1
        self.left -= count
        posts: list[Post] = []
        broker.journal.begin()
        try:
            for number in range(count):
                posts.append(self._post(broker, f"{self.name}-{self.left + number}"))
        except EntrepotError as error:
            self.run.world.note(f"refused: {error.message}")
            self.run.world.count("refused")
        finally:
            broker.journal.end()
        broker.journal.confirm(Accepting(posts), b"")

    def _post(self, broker: BrokerCore, identity: str) -> Post:
        lots, run = self.lots, self.run
        address = REPLAYED if lots.chance(0.7) else OTHER
        octets = lots.between(1, LARGE_MAX) if run.large and lots.chance(0.06) else 0
        padding = "." * lots.skewed(10, 3_000)
        one = run.posts[identity] = Post(address, octets, run.disk.grown, int(run.world.wall()))
        run.world.count("sent")
        post(broker, Destination(address, ANYCAST), identity, octets, {"padding": padding})
        return one


class Stager:
    """Stages batches, one at a time, and publishes each a while later."""

    def __init__(self, run: ReplayRun, name: str, batches: int, patience: int) -> None:
        """``patience``: ms between the two at the most."""
        self.run = run
        self.lots = run.world.lots(name)
        self.name = name
        self.left = batches
        self.patience = patience
        self.posts: list[Post] = []
        self.closed = Accepted()
        self.published = Accepted()
        self.due = 0

    def start(self) -> None:
        """Take the next step, and go on."""
        machine = self.run.machine
        if self.left > 0:
            if machine.broker is not None:
                machine.turn(self._step)
            self.run.world.later(self.lots.between(5, 60) * MILLISECOND, self.start)

    def cut(self) -> None:
        """It has no connection."""

    def _step(self) -> None:
        broker = self.run.machine.broker
        assert broker is not None
        if self.published.told:
            self.left -= 1
            self.posts = []
            self.closed, self.published = Accepted(), Accepted()
            return
        try:
            if not self.posts:
                self._stage(broker)
            elif self.run.world.wall() >= self.due:
                self._publish(broker)
        except EntrepotError as error:
            self.run.world.note(f"refused: {error.message}")
            self.run.world.count("stagings that were refused")
            self._lost(error)

    def _lost(self, error: EntrepotError) -> None:
        """What was not closed for good is staged anew, under other names."""
        if not isinstance(error, StageError):
            return
        if self.closed.told:
            self.run.world.violation(f"{self.name} cannot publish what was staged for good: {error.message}")
        self.posts = []
        self.left -= 1
        self.closed = Accepted()

    def _stage(self, broker: BrokerCore) -> None:
        run, lots = self.run, self.lots
        stage = broker.stages.open(self.name, -self.left + 1_000_000, "part")
        address = REPLAYED if lots.chance(0.7) else OTHER
        destination = Destination(address, ANYCAST)
        target = broker.target([destination])
        for number in range(lots.skewed(1, 30)):
            identity = f"{self.name}-{self.left}-{number}"
            padding = "." * lots.skewed(10, 1_000)
            broker.stages.send(stage, short(destination, identity, {"padding": padding}), target)
            one = run.posts[identity] = Post(address, 0, run.disk.grown, int(run.world.wall()))
            one.staged = one.grown
            self.posts.append(one)
        broker.stages.close(stage)
        broker.journal.confirm(self.closed, b"")
        self.due = int(run.world.wall()) + lots.between(1, self.patience)
        run.world.count("staged", len(self.posts))

    def _publish(self, broker: BrokerCore) -> None:
        run = self.run
        if self.published.asked == run.machine.run:
            return
        batch = -self.left + 1_000_000
        if broker.stages.of(self.name, batch):  # else it was published before a crash, and is asked for again
            for one in self.posts:
                one.grown, one.wall = run.disk.grown, int(run.world.wall())
                one.numbers.clear()  # of a publication that a crash undid
        publication = broker.stages.publish(self.name, batch, ["part"])
        if publication.done:
            self.published.asked = run.machine.run
            self.published.posts = self.posts
            broker.journal.confirm(self.published, b"")
            run.world.count("published", len(self.posts))


class Chair:
    """Where readers sit while one broker runs."""

    def __init__(self, run: ReplayRun, broker: BrokerCore) -> None:
        self.run = run
        self.broker: BrokerCore | None = broker

    def consumed(self, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        self.run.consumed(reader.key, message)


class Drinker:
    """Reads ``queues``, and takes its seat again at each broker that starts."""

    def __init__(self, run: ReplayRun, name: str, queues: list[str]) -> None:
        self.run = run
        self.lots = run.world.lots(name)
        self.queues = queues
        self.prefetch = self.lots.one_of((1, 10, 1_000))
        self.seated: BrokerCore | None = None

    def start(self) -> None:
        """Sit down where a broker runs that it does not know."""
        machine = self.run.machine
        if machine.broker is not self.seated and machine.broker is not None:
            self.seated = machine.broker
            machine.turn(self._sit)
        self.run.world.later(self.lots.between(5, 60) * MILLISECOND, self.start)

    def cut(self) -> None:
        """It has no connection."""

    def _sit(self) -> None:
        broker = self.run.machine.broker
        assert broker is not None
        for queue in self.queues:
            reader = Reader(Chair(self.run, broker), f"queue://{queue}", self.prefetch, key=queue)
            broker.subscribe(reader)
            reader.window.reopen()


class Operator:
    """Has `REPLAYED` sent again, to another queue each time. ``attempts``: all of them."""

    def __init__(self, run: ReplayRun) -> None:
        self.run = run
        self.lots = run.world.lots("operator")
        self.attempts: list[Attempt] = []
        self.work: Replay | None = None
        self.boot = 0
        self.census = Census()

    def start(self) -> None:
        """Go on with a replay, or begin one, until one has ended in the calm."""
        machine = self.run.machine
        if self.is_done():
            return
        if self.boot != machine.run:
            self.run.world.count("replays that were broken off", int(self.work is not None))
            self.work = None
        waits = self.boot == machine.run and bool(self.attempts) and self.attempts[-1].waits
        if machine.broker is not None and not waits:
            machine.turn(self._begin if self.work is None else self._step)
        busy = self.work is not None
        self.run.world.later(self.lots.between(1, 3 if busy else 400) * MILLISECOND, self.start)

    def cut(self) -> None:
        """It has no connection."""

    def is_done(self) -> bool:
        """Return whether one has ended that began when all was sent, in the calm."""
        return self.run.calm and bool(self.attempts) and self.attempts[-1].ended and self.attempts[-1].calm

    def _begin(self) -> None:
        run, machine = self.run, self.run.machine
        broker = machine.broker
        assert broker is not None
        if self.boot != machine.run:
            self.boot = machine.run
            self.census = Census()
            self.census.archive = SimulatedArchive(run.disk, run.world.later, self.lots)
        wanted = [name for name, one in run.posts.items() if one.accepted and one.address == REPLAYED]
        attempt = Attempt(f"again.{len(self.attempts)}", wanted)
        attempt.calm = run.is_all_sent()
        try:
            self.work = replay(broker, self.census, Arguments("replay", [REPLAYED, attempt.target, None]))
        except StorageFull:
            run.world.count("replays that a full disk refused")
            return
        run.world.note(f"replay {attempt.target} of {len(wanted)}")
        self.attempts.append(attempt)

    def _step(self) -> None:
        run, work = self.run, self.work
        broker = run.machine.broker
        assert work is not None
        assert broker is not None
        try:
            done = work.step()
        except StorageFull:
            run.world.count("replays that a full disk ended")
            self.work = None
            return
        if done:
            attempt = self.attempts[-1]
            self.work = None
            attempt.waits = True
            attempt.told = work.report()
            attempt.grown, attempt.wall = run.disk.grown, int(run.world.wall())
            attempt.exact = run.disk.spent + run.disk.given_up + run.damaged == 0
            run.world.count("replays")
            broker.journal.confirm(Ending(attempt), b"")


class ReplayRun(StormRun):
    """The run of one seed. Call `run` once, then read ``world``. ``damaged``: files that were kept, and are damaged."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        parts = Parts(disk=RetainingDisk, journal=RetainedJournal)
        super().__init__(seed, "retention", {"#": {"max_deliveries": "-1"}}, parts=parts, lines=lines)
        lots, world = self.lots, self.world
        segment = lots.one_of((4 * KIB, 8 * KIB, 32 * KIB))
        self.machine.options = msgspec.structs.replace(self.machine.options, segment_bytes=segment)
        disk = self.machine.disk
        assert isinstance(disk, RetainingDisk)
        self.disk: Final = disk
        disk.clock = world.wall
        kind = lots.below(10)  # most keep all, and there it is known what must come
        self.period_ms: Final = lots.between(300, 3_000) if kind in (0, 1) else 0
        self.limit: Final = lots.between(20, 200) * KIB if kind in (2, 3) else 0
        self.fills: Final = kind in (4, 5)
        self.rots: Final = kind == 6
        disk.limit(self.period_ms, self.limit)
        self.large: Final = lots.chance(0.5)
        self.posts: Final[dict[str, Post]] = {}
        self.calm = False
        self.damaged = 0
        self.posters: Final = [Poster(self, f"p{one}", lots.skewed(20, 250)) for one in range(lots.between(1, 3))]
        patience = 2 * self.period_ms or 1_000
        self.stagers: Final = [
            Stager(self, f"s{one}", lots.skewed(1, 8), patience) for one in range(lots.between(0, 2))
        ]
        self.drinkers: Final = [Drinker(self, "d", [REPLAYED, OTHER])]
        self.operator: Final = Operator(self)
        self.last: Drinker | None = None
        checks = world.after

        def check() -> None:
            checks()
            if disk.room.held and any(name.startswith(KEPT) for name in disk.medium.view):
                world.violation("the disk is full, and what is kept takes up room")

        world.after = check

    def programs(self) -> Sequence[Driven]:
        """Return those who read, send and have sent again."""
        return [*self.drinkers, *self.posters, *self.stagers, self.operator]

    def is_all_sent(self) -> bool:
        """Return whether the storm is over, and all is sent and has its answer."""
        left = [*(one.left for one in self.posters), *(one.left for one in self.stagers)]
        return self.calm and max(left) <= 0 and not self.disk.answers.dead

    def consumed(self, queue: str, message: Message) -> None:
        """A reader settled a message."""
        identity = str(properties_in(message.raw)[IDENTITY])
        one, number = self.posts[identity], int(message.number)
        rare = message.rare
        octets = int(rare.large_length) if rare is not None else 0
        self.world.note(f"consumed {identity} of {queue} as {number}")
        self.world.count("consumed")
        if octets != one.octets:
            self.world.violation(f"{identity} came to {queue} with {octets} octets of {one.octets}")
        if queue in (REPLAYED, OTHER):
            one.numbers[number] = None
            if one.address != queue or len(one.numbers) > 1:
                self.world.violation(f"{identity}, sent to {one.address}, came to {queue} as {list(one.numbers)}")
            return
        attempt = next(each for each in self.operator.attempts if each.target == queue)
        attempt.came.setdefault(identity, {})[number] = None
        if one.address != REPLAYED:
            self.world.violation(f"a replay of {REPLAYED} sent {identity} of {one.address}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        """Return whether a last replay ended, and all is read."""
        self.calm = True
        if not self.operator.is_done():
            return False
        if self.last is None:
            self.last = Drinker(self, "last", [one.target for one in self.operator.attempts])
            self.last.start()
        broker = self.machine.broker
        return (
            broker is not None
            and self.last.seated is broker
            and all(one.seated is broker for one in self.drinkers)
            and not any(int(queue.count) for queue in broker.table.queues.values())
        )

    def judge(self) -> None:
        """Say what never came, and what replays sent that they should not have, or did not."""
        world = self.world
        missing = [name for name, one in self.posts.items() if one.accepted and not one.numbers]
        if missing:
            world.violation(f"{len(missing)} never came: {missing[:4]}")
        if not self.operator.is_done():
            world.violation(f"no replay ends in the calm: {[one.told for one in self.operator.attempts[-1:]]}")
            return
        for attempt in self.operator.attempts:
            self._judge(attempt)

    def _judge(self, attempt: Attempt) -> None:
        world = self.world
        for identity, numbers in attempt.came.items():
            one = self.posts[identity]
            if not one.accepted and not one.numbers:
                world.violation(f"{attempt.target} has {identity}, which was lost before it was confirmed")
            if len(numbers) > 1:
                world.violation(f"{attempt.target} has {identity} {len(numbers)} times")
        if not attempt.ended:
            return
        missing = [identity for identity in attempt.wanted if identity not in attempt.came]
        told = attempt.told
        if attempt.exact and (missing or told["bodies_lost"] or told["passed_over_count"]):
            world.violation(f"{attempt.target} lacks {len(missing)} of {len(attempt.wanted)}: {missing[:3]}, {told}")
        late = [identity for identity in missing if self._must_be_kept(attempt, self.posts[identity])]
        if late:
            world.violation(f"{attempt.target} lacks {late[:3]}, which were to be kept still")

    def _must_be_kept(self, attempt: Attempt, one: Post) -> bool:
        """Return whether ``one`` is younger than the period, or so little came behind it that it is within the limit.

        Its body is older than the file that names it, by no more than that file is long.
        """
        if one.staged is not None:
            grown = one.staged
            waited = one.grown - grown + SLACK_SEGMENTS * self.machine.options.segment_bytes
            if 0 < self.limit <= waited:
                return False  # a file that was compacted meanwhile had gone when it was published
        if self.period_ms:
            return attempt.wall - one.wall < self.period_ms
        behind = attempt.grown - one.grown + SLACK_SEGMENTS * self.machine.options.segment_bytes + LARGE_MAX
        return bool(self.limit) and behind < self.limit

    # -- what happens --------------------------------------------------------------------------------------------------

    def _break(self) -> None:
        lots, machine = self.lots, self.machine
        kind = lots.below(10)
        if kind < 2 and self.fills:
            self.world.count("disks that fill up")
            kept = self.disk.kept.octets if lots.chance(0.5) else 0  # all that is kept has to go, and more
            self.disk.room.make(self.disk.used() - kept + lots.skewed(1, 8 * KIB))
            self.world.later(lots.between(20, FULL_MS) * MILLISECOND, self.disk.room.make)
        elif kind < 3 and self.rots:
            self._rot()
        elif kind < 6:
            if machine.broker is not None:
                machine.crash(torn=lots.chance(0.6))
        elif kind < 9:
            machine.disk.fuse = lots.skewed(1, 80)
        else:
            machine.restart()

    def _rot(self) -> None:
        """Damage one file that is kept."""
        medium = self.disk.medium
        names = [name for name in sorted(medium.durable) if name.startswith(KEPT) and medium.durable[name]]
        if names:
            name = self.lots.one_of(names)
            if name in medium.view and medium.damage(name, self.lots.below(len(medium.durable[name]))):
                self.damaged += 1
                self.world.count("files that rot")
