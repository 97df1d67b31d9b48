"""The search for the broker that is wanted: which places are tried, in which order, and who is believed.

Knows the places of the option ``url`` and those that brokers announce of others; finds out which broker is at which
place, and follows a broker that moved (the backup of a pair took over). Does not retry what it does not understand: a
refusal is raised as the broker gave it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from entrepot.base.errors import EntrepotError, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver import places
from entrepot.driver.effects import Answer, Clock, Course, Line, ask, connect, patiently

T = TypeVar("T")

log: Final = logging.getLogger("entrepot.pipeline")


class Reach(msgspec.Struct, frozen=True):
    """Where brokers are looked for, and for how long."""

    groups: tuple[tuple[Endpoint, ...], ...]  # members of the url: each one broker, and where it may be
    discovers: bool  # brokers that others announce count too
    tls: Mapping[str, str]  # options of connections to those
    patience: float  # s that a broker is looked for


class Search:
    """Remembers who was where; asks again."""

    def __init__(self, reach: Reach, clock: Clock) -> None:
        self.reach = reach
        self.clock = clock
        self.places = [place for group in reach.groups for place in group]
        self.known: dict[str, Endpoint] = {}  # broker -> where it was last
        self.announced: dict[str, Endpoint] = {}  # broker -> where another one says that it is

    def learn(self, line: Line) -> Course[None]:
        """Ask a broker for the others, if they are to be found. Raises Unreachable, and what the broker refuses."""
        if not self.reach.discovers:
            return
        answer = yield from ask(line, "BROKERS", {})
        for broker, found in places.read_list(answer.get("brokers", "")).items():
            place = places.reachable(found, line.place, self.reach.tls)
            if place is not None and broker != line.broker:
                self.announced[broker] = place

    def everyone(self) -> Course[list[Line]]:
        """Connect to every broker of ``url`` that answers, at least one, and to those that they announce."""
        answering = yield from self.all()
        found = {line.broker: line for line in answering}
        asked: dict[str, None] = {}
        tried: dict[str, None] = {}
        while new := [line for broker, line in found.items() if broker not in asked]:
            for line in new:
                asked[line.broker] = None
                yield from self.learn(line)
            for broker, place in self.announced.items():
                if broker not in found and broker not in tried:
                    tried[broker] = None
                    try:
                        found[broker] = self.as_announced(broker, (yield from connect(place)))
                    except EntrepotError as error:
                        log.warning("the broker %s of the network is not read: %s", broker, error)
        return list(found.values())

    def as_announced(self, broker: str, line: Line) -> Line:
        """Return the connection that leads to ``broker``. Raises Unreachable when somebody else answered."""
        if line.broker != broker:
            line.close()
            raise Unreachable(f"{line.shown} is another broker: {line.broker}", remedy="name its place in the url")
        self.known[broker] = line.place
        return line

    def open(self, broker: str, hint: Endpoint | None = None) -> Course[Line]:
        """Connect to ``broker``, wherever it is, for as long as we are patient. Raises Unreachable, Refused."""
        return (yield from self.patiently(lambda: self.open_once(broker, hint)))

    def open_once(self, broker: str, hint: Endpoint | None = None) -> Course[Line]:
        """Connect to ``broker`` if it can be found now. Raises Unreachable, Refused."""
        line, why = yield from self._find(broker, hint)
        if line is None:
            raise Unreachable(
                f"the broker {broker} is at none of the places that are known; {why}",
                remedy="start it, or name its place in the url; failoverTimeout says how long to look for it",
            )
        return line

    def all(self) -> Course[list[Line]]:
        """Connect to every broker of ``url`` that answers, at least one, for as long as we are patient.

        Raises Unreachable, Refused.
        """
        return (yield from self.patiently(self._all_once))

    def one_of(self, first: int) -> Course[Line]:
        """Connect to one broker: that of the member ``first`` of ``url``, or of those behind it. Raises Unreachable."""
        groups = self.reach.groups
        order = [place for step in range(len(groups)) for place in groups[(first + step) % len(groups)]]
        return (yield from self.patiently(lambda: self._one_of(order)))

    def ask_once(self, broker: str, command: str, headers: Mapping[str, str]) -> Course[Answer]:
        """Ask ``broker`` over a connection of its own. Raises Unreachable, and what the broker refuses."""
        line = yield from self.open(broker)
        try:
            return (yield from ask(line, command, headers))
        finally:
            line.close()

    def patiently(self, begin: Callable[[], Course[T]]) -> Course[T]:
        """Return what the course of ``begin`` returns, repeated for as long as we are patient."""
        return (yield from patiently(begin, self.reach.patience, self.clock))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _all_once(self) -> Course[list[Line]]:
        found: list[Line] = []
        failure: Unreachable | None = None
        for place in self.places:
            try:
                line = yield from connect(place)
            except Unreachable as error:
                failure = failure or error
                continue
            self.known[line.broker] = place
            found.append(line)
        if not found:
            raise failure or Unreachable("the url names no place")
        return found

    def _one_of(self, order: Sequence[Endpoint]) -> Course[Line]:
        failure: Unreachable | None = None
        for place in order:
            try:
                line = yield from connect(place)
            except Unreachable as error:
                failure = failure or error
                continue
            self.known[line.broker] = place
            return line
        raise failure or Unreachable("the url names no place")

    def _find(self, broker: str, hint: Endpoint | None) -> Course[tuple[Line | None, str]]:
        order = self._likely_first(broker, hint)
        why = ""
        for place in order:  # grows while we go through it
            try:
                line = yield from connect(place)
            except Unreachable as error:
                why = why or error.message
                continue
            self.known[line.broker] = place
            if line.broker == broker:
                return line, ""
            with contextlib.suppress(Unreachable):
                yield from self.learn(line)
            line.close()
            told = self.announced.get(broker)
            if told is not None and told not in order:
                order.append(told)
        return None, why or "other brokers answer there"

    def _likely_first(self, broker: str, hint: Endpoint | None) -> list[Endpoint]:
        first: list[Endpoint] = []
        for likely in (self.known.get(broker), hint, self.announced.get(broker)):
            if likely is not None and likely not in first:
                first.append(likely)
        elsewhere = [place for name, place in self.known.items() if name != broker]
        rest = [place for place in self.places if place not in first]
        rest.sort(key=lambda place: place in elsewhere)  # where another broker was seen comes last
        return [*first, *rest]
