"""Processes that are one broker, from one seed (`run --processes`): programs ask one of them, and all answer.

The brokers, their management and their rights are real, and so is all that decides how they ask one another
(`core/operators/together/`). Processes die and come back with another store in the midst of questions, are paused,
work slowly, answer twice; lines are cut, and what is on its way over one that was lost still arrives; some answers are
larger than may be sent. Users with rights ask and users without; a process may have other rules than the others.

What must hold is in `simulation/inquiries.py`. Of each process queue Q has ``(1 + life % 3) * 4 ** number`` messages:
so a sum says who is in it, and of which life.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from entrepot.assembly import Assembly, Plan, Ports
from entrepot.base.environment import MIB, MILLISECOND, SECOND, Duration
from entrepot.base.errors import EntrepotError
from entrepot.core.events.facts import Hub
from entrepot.core.operators.census import Census, Question
from entrepot.core.operators.management import ADDRESS, ATTRIBUTE, MISSING, OPERATION, RESOURCE, SUCCEEDED, Told
from entrepot.core.operators.said import ANSWER_LANGUAGE
from entrepot.core.operators.said import Said as Spoken
from entrepot.core.operators.together.everyone import Everyone
from entrepot.core.operators.together.line import Line, LineCore, Said
from entrepot.core.operators.together.visit import ANSWER_OCTETS_MAX, LENGTH, Visit, content, frame
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import Subscription
from entrepot.core.security.access import EVERYTHING, Rule
from entrepot.core.security.directory import Directory, Subject
from entrepot.journal.memory import MemoryJournal
from entrepot.model import address as names
from entrepot.model.address import UNTYPED
from entrepot.model.message import Message
from entrepot.simulation.answering_bugs import ALL, LINES, PLANTED, VISITS, WHOLES
from entrepot.simulation.courses import Soon, Steps
from entrepot.simulation.inquiries import CHANGES, Inquiries, Inquiry
from entrepot.simulation.turns import TurnLoop
from entrepot.simulation.world import Bell, World

__all__ = ["PLANTED", "Answering"]

LENGTH_OF_RUN: Final[Duration] = 60 * SECOND
QUIET: Final[Duration] = 200 * SECOND
HUNG: Final[Duration] = 150 * SECOND  # longer than any question may take
PASSWORD: Final = "of all processes"
ANSWERS: Final = "answers"
STOCKS: Final = ("Q", "R", "S")
"""Queues with messages: of Q they are only counted, from R they are removed, to S more are sent."""


class Connection:
    """One connection to a process: ``visit`` there, ``channel`` here. What is said arrives in its order."""

    def __init__(self, channel: Channel, life: int, host: Process, latency: Callable[[], Duration]) -> None:
        self.channel: Final = channel
        self.life: Final = life
        self.host: Final = host
        self.open = True
        self._latency: Final = latency
        self._there = 0
        self._back = 0
        self._held: list[Said] = []  # said while the process had as much under way as it takes
        made = VISITS.get(host.world_of.planted, Visit)
        self.visit: Final = made(PASSWORD.__eq__, host.hear, self._answer, host.world_of.most)

    def say(self, said: Said) -> None:
        """Send something to the process."""
        octets = frame(said)[LENGTH:]
        self._there = max(self._there, self.host.world.time + self._latency())
        self.host.at(self._there, lambda: self._arrive(content(octets)))

    def _arrive(self, said: Said) -> None:
        if not self.open:
            return
        self._held.append(said)
        self._hear()

    def _hear(self) -> None:
        while self._held and not self.visit.full and self.open:
            if not self.visit.heard(self._held.pop(0)):
                self.end()

    def _answer(self, octets: bytes) -> None:
        """Send something back. It arrives though the line was lost meanwhile: so it is with what was on its way."""
        channel = self.channel
        self._back = max(self._back, channel.process.world.time + self._latency())
        said = content(octets[LENGTH:])
        channel.process.at(self._back, lambda: channel.core.heard(self.life, said, channel.process.world.time))
        if self._held:
            self.host.at(self.host.world.time, self._hear)

    def end(self) -> None:
        """It is gone, for both."""
        if self.open:
            self.open = False
            self.host.connections.pop(self, None)
            later = self.channel.process.world.time + self._latency()
            self.channel.process.at(later, lambda: self.channel.core.lost(self.life, "it is gone"))


class Channel:
    """The line from one process to another: the port of its core."""

    def __init__(self, process: Process, other: int) -> None:
        self.process: Final = process
        self.other: Final = other
        made = LINES.get(process.world_of.planted, LineCore)
        self.core: Final = made(self, PASSWORD)
        self.line: Final = Line(self.core, process.steps, process.world.now)
        self._connections: dict[int, Connection] = {}
        self._bell: Final = Bell(process.world, process.mine(self._ring))

    def dial(self, life: int) -> None:
        """Connect, if the other one is there: who is paused is."""
        world, lots = self.process.world, self.process.world_of.wire

        def connect() -> None:
            host = self.process.world_of.processes[self.other]
            if not host.alive:
                self.core.lost(life, "it does not answer: nobody listens")
                return
            made = Connection(self, life, host, lambda: lots.skewed(MILLISECOND // 10, 300 * MILLISECOND))
            self._connections[life] = host.connections[made] = made  # type: ignore[assignment]
            self.core.opened(life)

        self.process.at(world.time + lots.skewed(MILLISECOND // 10, 50 * MILLISECOND), connect)

    def write(self, life: int, said: Said) -> None:
        """Say something."""
        if life in self._connections:
            self._connections[life].say(said)

    def hang_up(self, life: int) -> None:
        """End a connection."""
        connection = self._connections.pop(life, None)
        if connection is not None and connection.open:
            connection.open = False
            connection.host.connections.pop(connection, None)

    def cut(self) -> None:
        """The connection breaks."""
        for connection in list(self._connections.values()):
            connection.end()

    def wake(self) -> None:
        """Set the timer."""
        self._bell.set(self.core.deadline())

    def _ring(self) -> None:
        self.core.advance(self.process.world.time)
        self.wake()


class Reading(Consumer):
    """Takes answers."""

    reader: Reader

    def deliver(self, message: Message, deliveries: int) -> None:
        """Note it."""
        self.reader.process.answered(message)


class Reader(Subscription):
    """Who waits for answers at a process."""

    def __init__(self, process: Process) -> None:
        super().__init__(names.parse(ANSWERS))
        self.process: Final = process
        self.tracked = False

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer whose messages are noted."""
        assert self.process.made is not None
        made = Reading(self.process.made.broker.ids.consumer_key(), self.window, False)
        made.reader = self
        return made


class Office(Census):
    """Whose connections there are: their number is the user's."""

    def __init__(self, process: Process) -> None:
        self.process: Final = process
        self.together = process

    def subjects(self, connection: str) -> list[Subject]:
        """Return for whom a connection speaks."""
        return [Subject(name, [name]) for number, name in self.process.world_of.users.items() if number == connection]


class Process:
    """One of them: a real broker, dead or alive, and its lines to the others."""

    def __init__(self, world_of: Answering, number: int) -> None:
        self.world_of: Final = world_of
        self.world: Final = world_of.world
        self.number: Final = number
        self.life = 0
        self.alive = False
        self.denies: tuple[str, ...] = ()
        self.slow: Duration = 0
        self.steps = Steps(self._soon(0))
        self.connections: dict[Connection, None] = {}
        self.channels: dict[int, Channel] = {}
        self.made: Assembly | None = None
        self.everyone: Everyone | None = None
        self.paused_until = 0
        self._loop: Final = TurnLoop(self.world, self.turn)

    # -- what happens in it --------------------------------------------------------------------------------------------

    def mine(self, action: Callable[[], None]) -> Callable[[], None]:
        """Return what does ``action`` in this life of the process, or not at all; when it is paused, behind that."""
        life = self.life

        def act() -> None:
            if not self.alive or self.life != life:
                return
            if self.world.time < self.paused_until:
                self.world.later(self.paused_until - self.world.time, act)
            else:
                action()

        return act

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Do ``action`` then, in this life."""
        self.world.later(max(0, when - self.world.time), self.mine(action))

    def _soon(self, life: int) -> Soon:
        """Return what does something as an event of its own in that ``life``.

        Courses of a life that is over end when Python finds them, which is no event: they ask for nothing any more.
        """

        def soon(action: Callable[[], None]) -> None:
            if self.alive and self.life == life:
                self.at(self.world.time, action)

        return soon

    def turn(self, action: Callable[[], object]) -> None:
        """Do something in a turn of the broker."""
        if self.alive and self.world.time >= self.paused_until:
            self._loop.run(action)
            self._loop.arm()
        else:
            self.at(self.paused_until, lambda: self.turn(action))

    # -- life ----------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Begin a life, with a store of its own."""
        self.life += 1
        self.world_of.inquiries.born(self.number, self.life)
        self.alive = True
        self.steps = Steps(self._soon(self.life))
        self.paused_until = 0
        entropy = self.world.lots(f"broker {self.number} {self.life}")
        made = Assembly(Plan("p", 64 * MIB), Ports(MemoryJournal(), entropy, Hub(strict=True)))
        made.recover(self.world.time, self.world.wall())
        made.equip(Office(self))
        self.made = made
        self._protect(made)
        self._loop.begin(made.broker)
        count = self.world_of.count
        self.channels = {other: Channel(self, other) for other in range(count) if other != self.number}
        lines = {other: channel.line for other, channel in self.channels.items()}
        self.everyone = self.world_of.all_of(self, lines)
        self.turn(self._furnish)

    def _protect(self, made: Assembly) -> None:
        groups = [name for name in self.world_of.users.values() if name not in self.denies]
        granted = {name: EVERYTHING for name in groups if name != "poor" or "poor" in self.world_of.trusted}
        made.broker.access.protect(Directory([]), [Rule("#", UNTYPED, granted)])

    def _furnish(self) -> None:
        assert self.made is not None
        reader = Reader(self)
        self.made.broker.subscribe(reader)
        reader.window.reopen()
        for stock in STOCKS:
            target = self.made.broker.target(names.parse(stock))
            for _ in range(share(self.number, self.life)):
                self.made.broker.send(spoken("x", {}, ""), target)
        for number in range(self.world_of.many if self.number == 0 else 0):
            target = self.made.broker.target(names.parse(f"many.{number}"))
            self.made.broker.send(spoken("x", {}, ""), target)

    def die(self) -> None:
        """End at once."""
        self.alive = False
        self._loop.end()
        for connection in list(self.connections):
            connection.end()
        for channel in self.channels.values():
            for life in list(channel._connections):
                channel.hang_up(life)
        self.made = self.everyone = None

    # -- management asks (`census.Together`), and other processes ------------------------------------------------------

    def uuids(self) -> list[bytes]:
        """Nobody asks here."""
        return []

    def ask(self, asker: str, question: Question) -> object | None:
        """Have all answer."""
        assert self.everyone is not None
        return self.everyone.ask(question)

    def hear(self, said: Said, answer: Callable[[Said], None]) -> None:
        """Take what another process asks."""
        assert self.everyone is not None
        self.everyone.hear(said, answer)

    def ask_one(self, question: Question, told: Told) -> None:
        """Have this process alone answer; slow ones do so later, some twice."""
        management = None if self.made is None else self.made.management
        assert management is not None
        inquiries = self.world_of.inquiries

        def answered(value: object, failure: EntrepotError | None) -> None:
            inquiries.done(self.number, self.life, question, value, failure)

            def tell() -> None:
                told(value, failure)
                if self.world_of.wire.chance(0.1):
                    told(value, failure)

            if failure is None and self.world_of.dies_now(self, question):
                self.world.later(0, lambda: self.world_of.kill(self))
            else:
                self.at(self.world.time + self.slow, tell)

        self.turn(lambda: management.ask(question, answered))

    # -- a program here ------------------------------------------------------------------------------------------------

    def inquire(self, inquiry: Inquiry) -> None:
        """Ask as a program does."""
        assert self.made is not None
        management = self.made.management
        assert management is not None
        words = {RESOURCE: inquiry.resource, "JMSReplyTo": ANSWERS}
        words[ATTRIBUTE if inquiry.attribute else OPERATION] = inquiry.name
        message = spoken(msgspec.json.encode(inquiry.values).decode(), words, inquiry.identity)
        message.origin = int(next(number for number, name in self.world_of.users.items() if name == inquiry.user))
        message.number = self.made.broker.ids.next_number()
        self.turn(lambda: management.take(message, UNTYPED))

    def answered(self, message: Message) -> None:
        """A program is answered."""
        told = msgspec.json.decode(message.raw, type=Spoken)
        [body] = msgspec.json.decode(told.body)
        missing = str(told.properties.get(MISSING, ""))
        self.world_of.inquiries.answered(str(told.correlation_id), bool(told.properties[SUCCEEDED]), body, missing)


class Answering:
    """Two to four processes. ``planted``: a bug of `PLANTED`."""

    def __init__(self, seed: int, planted: str = "", *, lines: bool = False) -> None:
        self.world: Final = World(seed, lines=lines)
        self.planted: Final = planted
        self.lots: Final = self.world.lots("processes")
        self.wire: Final = self.world.lots("wires")
        self.count: Final = self.lots.between(2, 4)
        self.users: Final = {"1": "boss", "2": "poor"}
        self.trusted: Final = ("poor",) if self.lots.chance(0.3) else ()
        self.most: Final = 4_000 if self.lots.chance(0.3) else ANSWER_OCTETS_MAX
        self.many: Final = 40 if self.most < ANSWER_OCTETS_MAX else 0
        self.trouble = True
        self.inquiries: Final = Inquiries(self)
        self.processes: Final = [Process(self, number) for number in range(self.count)]
        self.strict: Final = self.lots.below(self.count) if self.trusted and self.lots.chance(0.6) else -1
        if self.strict >= 0:
            self.processes[self.strict].denies = ("poor",)

    def all_of(self, process: Process, lines: dict[int, Line]) -> Everyone:
        """Return how ``process`` asks all of them."""
        made = ALL.get(self.planted, Everyone)(process.number, "p", lines, process.steps, process.ask_one, process.turn)
        other = WHOLES.get(self.planted)
        if other is not None:
            made.made = lambda parts, failures: other("p", parts, failures)  # type: ignore[method-assign]
        return made

    def may(self, user: str, number: int) -> bool:
        """Return whether process ``number`` gives ``user`` rights."""
        return user == "boss" or (user in self.trusted and user not in self.processes[number].denies)

    # -- a run ---------------------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Return what is wrong."""
        for process in self.processes:
            process.boot()
        self.world.later(SECOND, self._inquire)
        self.world.later(2 * SECOND, self._befall)
        self.world.run(self.world.time + LENGTH_OF_RUN)
        self.trouble = False
        for process in self.processes:
            process.slow = 0
            if not process.alive:
                process.boot()
        self.world.run(self.world.time + QUIET)
        if not self.world.violations:
            self.inquiries.ended()
            self._at_rest()
        return self.world.violations

    def _inquire(self) -> None:
        if not self.trouble:
            return
        for _ in range(self.lots.one_of((1, 1, 1, 2, 5))):
            process = self.lots.one_of(self.processes)
            user = "poor" if self.lots.chance(0.25) else "boss"
            inquiry = self.inquiries.draw(process, user)
            if inquiry is not None:
                process.inquire(inquiry)
        self.world.later(self.lots.skewed(5 * MILLISECOND, 3 * SECOND), self._inquire)

    def _befall(self) -> None:
        if not self.trouble:
            return
        lots = self.lots
        process = lots.one_of(self.processes)
        what = lots.fraction()
        if process.alive and what < 0.25:
            self.kill(process)
        elif process.alive and what < 0.5:
            length = HUNG if lots.chance(0.1) else lots.skewed(50 * MILLISECOND, 12 * SECOND)
            process.paused_until = max(process.paused_until, self.world.time + length)
            self.inquiries.trouble(process.number, length)
            self.inquiries.paused(process.number, length)
            self.world.count("pauses")
        elif process.alive and what < 0.75:
            for channel in process.channels.values():
                channel.cut()
                self.inquiries.trouble(channel.other, 0)
            self.inquiries.trouble(process.number, 0)
            self.world.count("cuts")
        elif what < 0.9:
            process.slow = lots.skewed(10 * MILLISECOND, 9 * SECOND)
            self.world.count("slow processes")
        else:
            process.slow = 0
        self.world.later(lots.skewed(20 * MILLISECOND, 4 * SECOND), self._befall)

    def dies_now(self, process: Process, question: Question) -> bool:
        """Return whether a process dies when it has changed something, and before it can say so."""
        changes = question.operation in CHANGES and self.inquiries.asked_elsewhere(question, process.number)
        return self.trouble and changes and self.lots.chance(0.1)

    def kill(self, process: Process) -> None:
        """End a process; it comes back."""
        if not process.alive:
            return
        process.die()
        self.world.count("deaths")
        self.inquiries.died(process.number)
        length = self.lots.skewed(10 * MILLISECOND, 10 * SECOND)
        self.inquiries.trouble(process.number, length)

        def back() -> None:
            if not process.alive:
                process.boot()

        self.world.later(length, back)

    def _at_rest(self) -> None:
        """Nothing is left of questions that were answered."""
        for process in self.processes:
            assert process.everyone is not None
            assert process.made is not None
            management = process.made.management
            assert management is not None
            left: dict[str, Any] = {
                "questions to all": process.everyone.under_way,
                "questions to others": sum(one.core.waiting for one in process.channels.values()),
                "answers owed": sum(abs(one.visit.under_way) for one in process.connections),
                "requests": len(management.open) + len(management.ready) + management.storing + management.resting,
                "connections": max(0, len(process.connections) - self.count + 1),
            }
            for what, count in left.items():
                if count:
                    self.world.violation(f"process {process.number} has {count} {what} left")


def share(number: int, life: int) -> int:
    """Return how many messages a life of a process has in each queue."""
    return int((1 + life % 3) * 4**number)


def spoken(body: str, words: dict[str, Any], identity: str) -> Message:
    """Return a message as the broker itself writes them."""
    return Message(ANSWER_LANGUAGE, ADDRESS, msgspec.json.encode(Spoken(body, words, identity)))
