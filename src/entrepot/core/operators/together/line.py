"""How one process asks another one: questions with numbers over a line that is made when it is needed, without sockets.

Whoever is asked says something within `SILENCE`, a sign of life at least, or counts as gone; one that says something
may take as long as it needs for an answer. While anything is waited for, a sign is asked for every `LOOK`. When a line
is lost, whoever waits is told at once, each once; what comes of a line that was lost is not listened to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError, Refused, Unreachable
from entrepot.core.operators.together.loop import Loop, Promise

SILENCE: Final[Duration] = 5 * SECOND
LOOK: Final[Duration] = 1 * SECOND  # between two signs of life that are asked for
WAITING_MAX: Final = 200  # questions under way over one line
NEVER: Final[Instant] = (1 << 63) - 1

Said: TypeAlias = dict[str, Any]
Told = Callable[["Said | EntrepotError"], None]
"""Takes an answer, or why there is none."""
Seen = Callable[[str], None]
"""Takes why a process is not there; "" where it is."""


class Port(Protocol):
    """What a line has done for it. ``life``: which connection; each that is dialled has a number of its own."""

    def dial(self, life: int) -> None:
        """Connect; `LineCore.opened` or `LineCore.lost` is called later."""

    def write(self, life: int, said: Said) -> None:
        """Say something over a connection that is open."""

    def hang_up(self, life: int) -> None:
        """End a connection, or the dialling of it."""

    def wake(self) -> None:
        """Look at `LineCore.deadline` again."""


class LineCore:
    """What is decided about one line. ``password``: what all processes know. Times are given; see `deadline`."""

    def __init__(self, port: Port, password: str) -> None:
        self._port: Final = port
        self._password: Final = password
        self._life = 0  # of the connection; 0: none
        self._lives = 0
        self._open = False
        self._waiting: dict[int, Told] = {}
        self._number = 0
        self._lookers: list[Seen] = []
        self._due: Instant = NEVER  # when it counts as gone, while it is looked for
        self._next: Instant = NEVER  # when it is looked for again, while something is waited for

    @property
    def waiting(self) -> int:
        """How many questions are under way."""
        return len(self._waiting)

    def look(self, seen: Seen, now: Instant) -> None:
        """Tell ``seen`` whether the process is there; who asks at the same time sees it together."""
        self._lookers.append(seen)
        if len(self._lookers) > 1:
            return
        self._due = now + SILENCE
        if not self._life:
            self._lives += 1
            self._life = self._lives
            self._port.dial(self._life)
        elif self._open:
            self._port.write(self._life, {})
        self._port.wake()

    def ask(self, question: Said, told: Told, now: Instant) -> int:
        """Ask, and return the number for `forget`. Raises Unreachable where no line is open; Refused for too many."""
        if not self._open:
            raise Unreachable("it does not answer", remedy="try again soon")
        if len(self._waiting) >= WAITING_MAX:
            raise Refused(f"{WAITING_MAX} questions wait for another process", remedy="try again soon")
        self._number += 1
        self._waiting[self._number] = told
        self._next = min(self._next, now + LOOK)
        self._port.write(self._life, {**question, "id": self._number})
        self._port.wake()
        return self._number

    def forget(self, number: int) -> None:
        """Nobody wants the answer any more."""
        self._waiting.pop(number, None)

    def close(self, why: str = "this process ends") -> None:
        """Hang up, and tell who waits."""
        self._lose(why)

    # -- what happens to the connection --------------------------------------------------------------------------------

    def opened(self, life: int) -> None:
        """The connection is there."""
        if life == self._life:
            self._open = True
            self._port.write(life, {"password": self._password})

    def heard(self, life: int, said: Said, now: Instant) -> None:
        """Something came over it: an answer, or a sign of life, which an answer is too."""
        if life != self._life:
            return
        number = said.get("id")
        told = self._waiting.pop(number, None) if isinstance(number, int) else None
        self._next = now + LOOK if self._waiting else NEVER
        self._saw("")
        if told is not None:
            told(said)
        self._port.wake()

    def lost(self, life: int, why: str) -> None:
        """It is gone, or never came to be."""
        if life == self._life:
            self._lose(why)

    # -- time ----------------------------------------------------------------------------------------------------------

    def deadline(self) -> Instant:
        """Return when `advance` has something to do; `NEVER` while nothing is waited for."""
        if self._lookers:
            return self._due
        return self._next if self._waiting else NEVER

    def advance(self, now: Instant) -> None:
        """Give up who has been silent for too long, or ask for a sign of life."""
        if self._lookers:
            if now >= self._due:
                self._lose(f"it does not answer within {SILENCE / SECOND:g} s")
        elif self._waiting and now >= self._next:
            self.look(_nobody, now)

    def _saw(self, why: str) -> None:
        lookers, self._lookers = self._lookers, []
        self._due = NEVER
        for seen in lookers:
            seen(why)

    def _lose(self, why: str) -> None:
        life, self._life = self._life, 0
        self._open = False
        waiting, self._waiting = self._waiting, {}
        self._next = NEVER
        if life:
            self._port.hang_up(life)
        self._saw(why)
        for told in waiting.values():
            told(Unreachable(why, remedy="see the log"))
        self._port.wake()


def _nobody(why: str) -> None:
    """Takes what a look says whose question is told by the line itself."""


class Line:
    """A line as courses use it. ``now``: the time."""

    def __init__(self, core: LineCore, loop: Loop, now: Callable[[], Instant]) -> None:
        self.core: Final = core
        self._loop: Final = loop
        self._now: Final = now

    async def ready(self) -> None:
        """See that the process is there. Raises Unreachable."""
        promise: Promise[str] = self._loop.promise()
        self.core.look(lambda why: _keep(promise, why), self._now())
        why = await promise
        if why:
            raise Unreachable(why, remedy="see the log")

    async def ask(self, question: Said) -> Said:
        """Return the answer. Raises Unreachable when the process is gone: it may have been done; Refused."""
        promise: Promise[Said | EntrepotError] = self._loop.promise()
        number = self.core.ask(question, lambda said: _keep(promise, said), self._now())
        try:
            said = await promise
        finally:
            self.core.forget(number)
        if isinstance(said, EntrepotError):
            raise said
        return said


def _keep(promise: Promise[Any], value: object) -> None:
    if not promise.done():
        promise.set_result(value)
