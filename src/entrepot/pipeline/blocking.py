"""The driver's courses on sockets and threads, and the search for brokers as plain calls.

One course runs at a time, on the thread that calls; only scouts have threads of their own, because a place that does
not answer must not hold up the others.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Ask, Await, Connect, Course, Effect, Heard, Line, Say, Scout, Scouting, Wait
from entrepot.driver.search import Search
from entrepot.pipeline import wire
from entrepot.pipeline.options import Options
from entrepot.pipeline.wire import Wire

T = TypeVar("T")


class Blocking:
    """Carries out effects, and waits for each."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def run(self, course: Course[T]) -> T:
        """Return what ``course`` returns. Raises what it raises."""
        try:
            effect = next(course)
            while True:
                try:
                    result = self._carry_out(effect)
                except EntrepotError as error:
                    effect = course.throw(error)
                else:
                    effect = course.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            course.close()

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Ask):
            return effect.line.ask(effect.command, effect.headers)
        if isinstance(effect, Say):
            return effect.line.say(effect.command, effect.headers)
        if isinstance(effect, Heard):
            return effect.line.answer(effect.token) if effect.line.answered(effect.token) else None
        if isinstance(effect, Connect):
            return wire.Wire(effect.place, self._options)
        if isinstance(effect, Wait):
            return _wait(effect)
        if isinstance(effect, Scout):
            return _Scouting(effect.routes, self._options)
        assert isinstance(effect, Await)
        return effect.scouting.join()


def _wait(effect: Wait) -> None:
    if effect.lines:
        select.select(effect.lines, [], [], effect.seconds)
    else:
        time.sleep(effect.seconds)


class _Scouting(Scouting):
    """Tries each route in a thread of its own."""

    def __init__(self, routes: Sequence[Sequence[Endpoint]], options: Options) -> None:
        self._found: list[tuple[int, Line | EntrepotError]] = []
        self._options = options
        self._threads = [
            threading.Thread(target=self._try, args=(number, route), daemon=True)
            for number, route in enumerate(routes)
            if route
        ]
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        """Whether all places were tried."""
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def results(self) -> Sequence[tuple[int, Line | EntrepotError]]:
        """For each place the number of its route, and who answered there or why nobody did."""
        return self._found

    def join(self) -> None:
        """Wait until it is done."""
        for thread in self._threads:
            thread.join()

    def _try(self, number: int, route: Sequence[Endpoint]) -> None:
        for place in route:
            try:
                self._found.append((number, wire.Wire(place, self._options)))
            except EntrepotError as error:
                self._found.append((number, error))


class Brokers:
    """The brokers of a url, for whoever may wait. Follows one that moved."""

    def __init__(self, options: Options) -> None:
        self._world = Blocking(options)
        self._search = Search(options.reach(), time.monotonic)

    def open(self, broker: str, hint: Endpoint | None = None) -> Wire:
        """Connect to ``broker``, wherever it is, looking for ``failoverTimeout``. Raises Unreachable, Refused."""
        return _wire(self._world.run(self._search.open(broker, hint)))

    def everyone(self) -> list[Wire]:
        """Connect to every broker of ``url`` that answers, at least one, and to those that they announce."""
        return [_wire(line) for line in self._world.run(self._search.everyone())]

    def one_of(self, first: int) -> Wire:
        """Connect to the broker of the member ``first`` of ``url``, or of those behind it. Raises Unreachable."""
        return _wire(self._world.run(self._search.one_of(first)))

    def ask(self, broker: str, command: str, headers: dict[str, str]) -> dict[str, str]:
        """Ask what may be asked again, while ``broker`` is unreachable. Raises Unreachable, and what it refuses."""
        search = self._search
        return self._world.run(search.patiently(lambda: search.ask_once(broker, command, headers)))


def _wire(line: Line) -> Wire:
    assert isinstance(line, Wire)
    return line
