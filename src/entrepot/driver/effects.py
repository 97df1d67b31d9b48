"""What a driver's decisions ask of the world, and how they are put together.

A decision is a *course*: a generator that yields one effect after another and is sent what each came to. Whoever
carries effects out (`entrepot.pipeline.blocking` with sockets, `entrepot.simulation.drivers` with a seed) throws into
the course what failed: Unreachable when a connection was lost, and what a broker refused as it is. A course that is not
finished may be closed at any yield.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from entrepot.base.errors import EntrepotError, TimedOut, Unreachable
from entrepot.base.uri import Endpoint

T = TypeVar("T")

RETRY_FIRST = 0.05  # s
RETRY_MAX = 1.0  # s: a pair takes over in a few seconds, nobody needs to be asked more often

Clock: TypeAlias = Callable[[], float]  # s, only forwards
Answer: TypeAlias = dict[str, str]  # the headers of a RECEIPT


class Line(Protocol):
    """One connection to a broker that has said who it is."""

    broker: str  # identity of the broker
    place: Endpoint  # where it answered
    shown: str  # the place, for people: without password and options

    def close(self) -> None:
        """Drop the connection; what was confirmed stays. May be called again."""


class Scouting(Protocol):
    """A search that goes on beside everything else; read `results` when ``done``."""

    @property
    def done(self) -> bool:
        """Whether all places were tried."""

    @property
    def results(self) -> Sequence[tuple[int, Line | EntrepotError]]:
        """For each place the number of its route, and who answered there or why nobody did."""


class Connect(msgspec.Struct, frozen=True):
    """Connect to a place: a Line. Fails with Unreachable, Refused, InvalidOption."""

    place: Endpoint


class Ask(msgspec.Struct, frozen=True):
    """Say a verb and wait for its RECEIPT: an Answer. Fails with Unreachable, and with what the broker refuses."""

    line: Any  # Line
    command: str
    headers: Mapping[str, str]


class Say(msgspec.Struct, frozen=True):
    """Say a verb, and go on: the token that `Heard` takes. Fails with Unreachable."""

    line: Any  # Line
    command: str
    headers: Mapping[str, str]


class Heard(msgspec.Struct, frozen=True):
    """Look whether a verb was answered, without waiting: an Answer or None. Fails as `Ask`."""

    line: Any  # Line
    token: str


class Wait(msgspec.Struct, frozen=True):
    """Let up to ``seconds`` pass, fewer when something comes on one of ``lines``."""

    seconds: float
    lines: tuple[Any, ...] = ()  # Lines


class Scout(msgspec.Struct, frozen=True):
    """Begin to try places, each route beside the others and its places one by one: a Scouting, at once."""

    routes: tuple[tuple[Endpoint, ...], ...]


class Await(msgspec.Struct, frozen=True):
    """Wait until a search is done."""

    scouting: Any  # Scouting


Effect: TypeAlias = Connect | Ask | Say | Heard | Wait | Scout | Await
Course: TypeAlias = Generator[Effect, Any, T]


def connect(place: Endpoint) -> Course[Line]:
    """Connect to ``place``. Raises Unreachable, Refused, InvalidOption."""
    line: Line = yield Connect(place)
    return line


def ask(line: Line, command: str, headers: Mapping[str, str]) -> Course[Answer]:
    """Say a verb and return its answer. Raises Unreachable, and what the broker refuses."""
    answer: Answer = yield Ask(line, command, headers)
    return answer


def wait(seconds: float, lines: Sequence[Line] = ()) -> Course[None]:
    """Let time pass."""
    yield Wait(seconds, tuple(lines))


def patiently(begin: Callable[[], Course[T]], seconds: float, clock: Clock) -> Course[T]:
    """Return what the course of ``begin`` returns, begun again while brokers are unreachable, for ``seconds`` at most.

    Only for what may be repeated. Raises what it raises.
    """
    until = clock() + seconds
    delay = RETRY_FIRST
    while True:
        try:
            return (yield from begin())
        except (Unreachable, TimedOut):
            if clock() + delay > until:
                raise
        yield from wait(delay)
        delay = min(delay * 2, RETRY_MAX)
