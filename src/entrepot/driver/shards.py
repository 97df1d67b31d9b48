"""Who is there: the shards of a query, and the brokers that are looked for while it runs.

A broker of ``url`` that does not answer is looked for again every two seconds, beside everything else; one that the
others announce is met once they do. A refusal of a broker that ``url`` names ends the query; one that it does not name
is passed over, and that is said once.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from entrepot.base.errors import EntrepotError, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Await, Clock, Course, Line, Scout, Scouting
from entrepot.driver.search import Reach, Search
from entrepot.driver.shard import Shard, Subject

LOOK_EVERY: Final = 2.0  # s between looks for brokers that are not there
AGAIN_AFTER: Final = 15.0  # s that an announced broker which refuses is left alone

log: Final = logging.getLogger("entrepot.pipeline")


class Shards:
    """The shards by broker. ``starting`` returns the headers with which a lease begins that is new."""

    def __init__(self, subject: Subject, reach: Reach, clock: Clock, starting: Callable[[], Mapping[str, str]]) -> None:
        self.search = Search(reach, clock)
        self.all: dict[str, Shard] = {}
        self._subject = subject
        self._clock = clock
        self._starting = starting
        self._scouting: Scouting | None = None
        self._wanted: list[str] = []  # by route of the search: the announced broker; "" for those of the url
        self._looked = 0.0
        self._same: dict[str, str] = {}  # further places of a broker that has another connection
        self._passed_over: dict[str, float] = {}  # announced brokers that cannot be read -> when to try again

    def live(self) -> list[Shard]:
        """Return the shards whose connection stands, as far as we know."""
        return [shard for shard in self.all.values() if shard.live]

    def is_live(self, broker: str) -> bool:
        """Return whether the connection to ``broker`` stands."""
        shard = self.all.get(broker)
        return shard is not None and shard.live

    def meet(self) -> Course[None]:
        """Attach to brokers that are new or back. Raises Unreachable when none of the first search answers."""
        if not self.all:
            answering = yield from self.search.all()
            yield from self._welcome(answering)
            self._looked = self._clock()
            yield from self._explore()
            return
        if self._scouting is not None and self._scouting.done:
            yield from self._return_of_the_scout(self._scouting)
        if self._scouting is None and self._clock() - self._looked >= LOOK_EVERY:
            self._looked = self._clock()
            yield from self._look()

    def look_at_once(self) -> None:
        """Look for brokers in the next `meet`."""
        self._looked = self._clock() - LOOK_EVERY

    def need(self, broker: str) -> Course[Shard]:
        """Return the shard on ``broker``, looking for it. Raises Unreachable."""
        shard = self.all.get(broker)
        if shard is not None and shard.live:
            return shard
        if shard is None and not self.all:
            yield from self.meet()
            if broker in self.all:
                return self.all[broker]
        line = yield from self.search.open(broker)
        yield from self._welcome([line])
        if broker not in self.all:
            raise Unreachable(f"the broker {broker} went away when it was found", remedy="see its log")
        return self.all[broker]

    def close(self) -> None:
        """Drop all connections; the brokers keep what is held."""
        for shard in self.all.values():
            shard.close()

    # -- looking ------------------------------------------------------------------------------------------------------

    def _look(self) -> Course[None]:
        yield from self._learn()
        taken = {shard.place.format() for shard in self.live()}
        taken.update(place for place, broker in self._same.items() if self.is_live(broker))
        places = tuple(place for place in self.search.places if place.format() not in taken)
        announced = self._not_met()
        if places or announced:
            yield from self._send_a_scout(places, announced)
            if not self.live() and self._scouting is not None:
                yield Await(self._scouting)  # nothing else to do meanwhile

    def _explore(self) -> Course[None]:
        """Attach to all brokers of the network, at once: a query that takes what is there now must know them."""
        tried: dict[str, None] = {}
        while (yield from self._learn()):
            announced = [broker for broker in self._not_met() if broker not in tried]
            if not announced:
                return
            tried.update(dict.fromkeys(announced))
            scouting = yield from self._send_a_scout((), announced)
            yield Await(scouting)
            yield from self._return_of_the_scout(scouting)

    def _learn(self) -> Course[bool]:
        """Ask every broker for the others. Return whether brokers of the network are to be found at all."""
        if self.search.reach.discovers:
            for shard in self.live():
                with contextlib.suppress(Unreachable):  # it is gone: noted
                    yield from shard.learn(self.search)
        return self.search.reach.discovers

    def _not_met(self) -> list[str]:
        """Return the brokers that were announced, are not connected, and were not found wanting a moment ago."""
        now = self._clock()
        return [
            broker
            for broker in self.search.announced
            if not self.is_live(broker) and self._passed_over.get(broker, now) <= now
        ]

    def _send_a_scout(self, places: tuple[Endpoint, ...], announced: Sequence[str]) -> Course[Scouting]:
        """Try the places of ``url`` one by one, and each announced broker beside them."""
        routes = [places, *((self.search.announced[broker],) for broker in announced)]
        self._wanted = ["", *announced]
        scouting: Scouting = yield Scout(tuple(routes))
        self._scouting = scouting
        return scouting

    def _return_of_the_scout(self, scouting: Scouting) -> Course[None]:
        self._scouting = None
        found: list[Line] = []
        for route, result in scouting.results:
            broker = self._wanted[route]
            if not broker:
                if not isinstance(result, EntrepotError):  # else asked again later, by name when a batch needs it
                    found.append(result)
                continue
            try:
                if isinstance(result, EntrepotError):
                    raise result
                yield from self._welcome_announced(broker, result)
            except EntrepotError as error:  # a right is missing there, or it is too old; the url does not name it
                self._pass_over(broker, error)
        yield from self._welcome(found)

    def _welcome_announced(self, broker: str, line: Line) -> Course[None]:
        """Attach to a broker that ``url`` does not name. Raises what it refuses, and Unreachable when it is another."""
        self.search.as_announced(broker, line)
        try:
            yield from self._welcome([line])
        except EntrepotError:
            line.close()
            raise
        if not self.is_live(broker):
            self._passed_over[broker] = self._clock() + LOOK_EVERY  # it went away again

    def _pass_over(self, broker: str, error: EntrepotError) -> None:
        """Say once that a broker which the url does not name cannot be read; one that refuses is left alone a while."""
        if broker not in self._passed_over and broker not in self.all:
            log.warning("the broker %s of the network is not read: %s", broker, error)
        self._passed_over[broker] = self._clock() + (0 if isinstance(error, Unreachable) else AGAIN_AFTER)

    def _welcome(self, lines: Sequence[Line]) -> Course[None]:
        for line in lines:
            shard = self.all.get(line.broker)
            if shard is None:
                shard = Shard(line, self._subject)
                try:
                    yield from shard.attach(self._starting())
                except Unreachable:
                    continue
                self.all[line.broker] = shard
            elif shard.live:
                self._same[line.place.format()] = line.broker
                line.close()
            else:
                shard.found(line)
