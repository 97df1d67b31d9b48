"""The effects of a driver's courses in a simulated world: connections that dial once, verbs, waiting, searching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration
from entrepot.base.errors import EntrepotError, ShuttingDown, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Answer, Ask, Await, Connect, Course, Effect, Heard, Line, Say, Scout, Scouting, Wait
from entrepot.protocols.stomp.client import Connected, Error, Event, Message, refused
from entrepot.simulation.clients import Client, Stage

PLACE: Final = Endpoint("stomp", "simulated", 61613)  # where the one broker of a world is
LOOK_AGAIN: Final = 5 * MILLISECOND

Outcome = Any  # what an effect came to: its result, or an EntrepotError that is thrown into the course


class Connection(Client):
    """One connection of a program. It dials once; what comes behind its end nobody hears."""

    def __init__(self, stage: Stage, name: str, opened: Callable[[Outcome], None]) -> None:
        super().__init__(stage, name)
        self.versions = ("1.2",)
        self.broker = ""
        self.place = PLACE
        self.shown = "the simulated broker"
        self.messages: list[Message] = []  # that came since the last verb
        self.woken: Callable[[], None] = _nobody
        self._opened = opened
        self._heard: dict[str, Answer | EntrepotError] = {}
        self._refusal: EntrepotError | None = None  # that is being told

    def start(self) -> None:
        """Dial, once."""
        if self.stage.machine.broker is None:
            self.world.later(self.lots.between(1, 30) * MILLISECOND, lambda: self._open(_unreachable()))
            return
        super().start()
        self.leaving = True

    def happened(self, event: Event) -> None:
        """Take one event of the session."""
        if isinstance(event, Connected):
            self.broker = event.session.rpartition("-")[0]
        self._refusal = self._refused(event) if isinstance(event, Error) else None
        super().happened(event)

    def ready(self) -> None:
        """The broker has said who it is."""
        self._open(self)

    def took(self, message: Message) -> None:
        """One message of what was asked for."""
        self.messages.append(message)

    def lost(self) -> None:
        """It is gone."""
        self._open(_unreachable())
        self.woken()

    def say(self, command: str, headers: dict[str, str]) -> str:
        """Say a verb; `heard` has its answer. Raises Unreachable."""
        if not self.online:
            raise _unreachable()
        self.messages.clear()
        self.world.note(f"{self.name} {command} {headers}")
        token = self.client.request(command, headers)
        self.receipts[token] = lambda code: self._answered(token, code)
        assert self.link is not None
        self.link.flush_client()
        return token

    def heard(self, token: str) -> Answer | None:
        """Return the answer, None while there is none. Raises what the broker refused, Unreachable."""
        found = self._heard.pop(token, None)
        if isinstance(found, EntrepotError):
            raise found
        if found is None and not self.online:
            raise _unreachable()
        return found

    @property
    def has_news(self) -> bool:
        """Whether an answer is here that nobody took, or nothing will come any more."""
        return bool(self._heard) or not self.online

    def close(self) -> None:
        """Drop it."""
        if self.link is not None and self.online:
            self.leave()

    def _answered(self, token: str, code: str) -> None:
        if not code:
            self._heard[token] = dict(self.answer)
        else:
            self._heard[token] = self._refusal or _unreachable()
        self.woken()

    def _open(self, outcome: Outcome) -> None:
        opened, self._opened = self._opened, _nothing
        opened(outcome)

    def _refused(self, event: Error) -> EntrepotError:
        error = refused(self.shown, event.headers, event.body)
        return _unreachable() if isinstance(error, ShuttingDown) else error  # as `pipeline.wire` has it


class _Search(Scouting):
    """Places that are tried beside everything else, each route in its order."""

    def __init__(self, program: Program, routes: Sequence[Sequence[Endpoint]]) -> None:
        self._program = program
        self._found: list[tuple[int, Line | EntrepotError]] = []
        self._left = sum(len(route) for route in routes)
        for number, route in enumerate(routes):
            self._try(number, list(route))

    @property
    def done(self) -> bool:
        """Whether all places were tried."""
        return self._left == 0

    @property
    def results(self) -> Sequence[tuple[int, Line | EntrepotError]]:
        """For each place the number of its route, and who answered there or why nobody did."""
        return self._found

    def _try(self, number: int, route: list[Endpoint]) -> None:
        if route:
            self._program.connect(lambda outcome: self._tried(number, route[1:], outcome))

    def _tried(self, number: int, rest: list[Endpoint], outcome: Outcome) -> None:
        self._left -= 1
        self._found.append((number, outcome))
        self._try(number, rest)


class Program:
    """Runs one course at a time, with a little time between any two effects. `kill` ends it as kill -9 does."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.world = stage.world
        self.name = name
        self.lots = stage.world.lots(name)
        self.connections: list[Connection] = []
        self.saw: Callable[[str, dict[str, str]], None] = lambda command, headers: None  # every verb that is said
        self.answered: Callable[[Answer], None] = _nothing  # every answer
        self._course: Course[Any] | None = None
        self._done: Callable[[Any], None] = _nothing
        self._failed: Callable[[EntrepotError], None] = _nothing
        self._step = 0  # of this program: what was begun for an earlier step is not waited for any more

    def clock(self) -> float:
        """Return the world's time, s."""
        return self.world.time / SECOND

    def run(self, course: Course[Any], done: Callable[[Any], None], failed: Callable[[EntrepotError], None]) -> None:
        """Begin a course; one of the two is called with what it came to."""
        assert self._course is None, "one course at a time"
        self._course, self._done, self._failed = course, done, failed
        self._go_on(None)

    def kill(self) -> None:
        """Drop everything that is not on disk; connections are cut."""
        self._step += 1
        self._course = None
        for connection in self.connections:
            connection.cut()
        self.connections = []

    def connect(self, opened: Callable[[Outcome], None]) -> None:
        """Dial; ``opened`` gets the connection, or why there is none."""
        connection = Connection(self.stage, f"{self.name}.{len(self.connections)}.{self._step}", opened)
        self.connections.append(connection)
        connection.start()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _go_on(self, outcome: Outcome) -> None:
        """Tell the course what its effect came to, and carry out the next one a moment later."""
        course = self._course
        assert course is not None
        try:
            effect = course.throw(outcome) if isinstance(outcome, EntrepotError) else course.send(outcome)
        except StopIteration as end:
            self._course = None
            self._done(end.value)
        except EntrepotError as error:
            self._course = None
            self._failed(error)
        else:
            self._step += 1
            step = self._step
            pause = self.lots.between(0, 500) * MICROSECOND
            self.world.later(pause, lambda: self._if(step, lambda: self._carry_out(effect, step)))

    def _if(self, step: int, action: Callable[[], None]) -> None:
        if step == self._step and self._course is not None:
            action()

    def _then(self, step: int, outcome: Outcome) -> None:
        self._if(step, lambda: self._go_on(outcome))

    def _carry_out(self, effect: Effect, step: int) -> None:
        try:
            if isinstance(effect, Connect):
                self.connect(lambda outcome: self._then(step, outcome))
            elif isinstance(effect, Scout):
                self._then(step, _Search(self, effect.routes))
            elif isinstance(effect, Await):
                self._await(effect.scouting, step)
            elif isinstance(effect, Wait):
                self._wait(effect, step)
            elif isinstance(effect, Heard):
                self._then(step, self._noted(effect.line.heard(effect.token)))
            elif isinstance(effect, Say):
                self._then(step, self._say(effect))
            else:
                self._ask(effect, step)
        except EntrepotError as error:
            self._then(step, error)

    def _say(self, effect: Say | Ask) -> str:
        headers = dict(effect.headers)
        self.saw(effect.command, headers)
        connection: Connection = effect.line
        return connection.say(effect.command, headers)

    def _ask(self, effect: Ask, step: int) -> None:
        connection: Connection = effect.line
        token = self._say(effect)

        def woken() -> None:
            try:
                answer = connection.heard(token)
            except EntrepotError as error:
                self._then(step, error)
            else:
                if answer is not None:
                    self._then(step, self._noted(answer))

        connection.woken = woken

    def _noted(self, answer: Answer | None) -> Answer | None:
        if answer is not None:
            self.answered(answer)
        return answer

    def _wait(self, effect: Wait, step: int) -> None:
        for line in effect.lines:
            line.woken = lambda: self._then(step, None)
        pause = 0 if any(line.has_news for line in effect.lines) else int(effect.seconds * SECOND)
        self.world.later(pause, lambda: self._then(step, None))

    def _await(self, scouting: Scouting, step: int) -> None:
        if scouting.done:
            self._then(step, None)
        else:
            self.world.later(LOOK_AGAIN, lambda: self._if(step, lambda: self._await(scouting, step)))


class Mortal(Client):
    """A program that dies at any moment and is started again by somebody; it keeps only what outlives a process."""

    def __init__(self, stage: Stage, name: str, pause: Duration) -> None:
        """``pause``: the most that it waits between two steps, ns."""
        super().__init__(stage, name)
        self.pause = pause
        self.dies = 0.0  # at each step
        self.runs = 0
        self.finished = False
        self.program: Program

    def start(self) -> None:
        """Start a process."""
        self.runs += 1
        self.program = Program(self.stage, f"{self.name}/{self.runs}")
        self.started()

    def started(self) -> None:
        """Begin to work: everything in memory is new."""
        raise NotImplementedError

    def soon(self, action: Callable[[], None]) -> None:
        """Do ``action`` in a while, unless the process dies before."""
        program = self.program
        if self.lots.chance(self.dies):
            self.world.later(self.lots.between(0, self.pause), lambda: self._die(program))

        def run() -> None:
            if program is self.program:
                action()

        self.world.later(self.lots.between(0, self.pause), run)

    def failed(self, error: EntrepotError) -> None:
        """The program fails; somebody starts it again."""
        self.world.note(f"{self.name} failed: {error}")
        self._again()

    def finish(self) -> None:
        """Be done for good."""
        self.finished = True
        self.program.kill()

    def _die(self, program: Program) -> None:
        if program is self.program:
            self.world.count("process deaths")
            self._again()

    def _again(self) -> None:
        self.program.kill()
        self.program = Program(self.stage, f"{self.name}/{self.runs}/dead")
        if not self.finished:
            self.world.later(self.lots.between(1, 200) * MILLISECOND, self.start)

    @property
    def linked(self) -> bool:
        """Whether there is a connection that can be lost."""
        return any(connection.online for connection in self.program.connections)

    def cut(self) -> None:
        """Lose one connection."""
        online = [connection for connection in self.program.connections if connection.online]
        if online:
            self.lots.one_of(online).cut()

    @property
    def quiet(self) -> bool:
        """Whether it is done for good."""
        return self.finished


def _nobody() -> None:
    """Nobody waits."""


def _nothing(outcome: Any) -> None:
    """Nobody waits for this."""


def _unreachable() -> Unreachable:
    return Unreachable("the simulated broker does not answer")
