"""Messages that were acknowledged at another broker, taken out of the queue here. [C]

Consumers take what came first, so nearly always the message stands near the head: so far is looked at once. What is not
there is looked for through all that waits, in memory and on disk, together with all others of its queue and a part in
each turn. It may come later than its acknowledgement, which a mirror sends by another priority, or be with a consumer
here: so it is looked for several times, with a pause in between.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MILLISECOND
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.events import trace as facts
from entrepot.core.mirrors.identity import named
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.walk import Found, Walk
from entrepot.core.scheduling.timed import Alarm

NEAR: Final = 32  # messages behind the head that are looked at for one acknowledgement
STEP: Final = 200  # messages of one step of a search
ATTEMPTS: Final = 5  # mirror-ack-manager-queue-attempts
PAUSE_MS: Final = 100  # mirror-ack-manager-retry-delay


@mypyc_attr(allow_interpreted_subclasses=True)
class Acknowledged:
    """One acknowledgement of another broker. ``left``: passes through the queue that it has yet.

    ``doer``: the broker where it was acknowledged.
    """

    def __init__(self, origin: str, number: i64, doer: str) -> None:
        self.doer: str = doer
        self.key: tuple[str, int] = (origin, int(number))
        self.left: i64 = 0
        self.began: i64 = -1  # the pass that has looked for it from its beginning

    def done(self, found: bool) -> None:
        """It was carried out, or its message was not ``found``."""


class Removing:
    """All of these of one mirror. ``waiting``: acknowledgements whose messages are looked for."""

    def __init__(self, broker: BrokerCore, source: str, attempts: i64 = ATTEMPTS, pause_ms: i64 = PAUSE_MS) -> None:
        """``source``: the broker that tells; ``attempts``: passes through a queue, one at least, ``pause_ms`` apart."""
        self.broker: BrokerCore = broker
        self.source: str = source
        self.own: str = broker.ids.node.uuid_text
        self.attempts: i64 = max(attempts, i64(1))
        self.pause: i64 = max(pause_ms, i64(1)) * MILLISECOND
        self.searches: dict[str, Search] = {}
        self.waiting: i64 = 0
        self.ended: bool = False

    def remove(self, queue: Queue, acknowledged: Acknowledged) -> None:
        """Take the message that is meant out of ``queue``, now or later; `Acknowledged.done` tells."""
        search = self.searches.get(queue.name)
        if search is None and self._is_near(queue, acknowledged):
            acknowledged.done(True)
            return
        acknowledged.left = self.attempts
        self.waiting += 1
        if search is None:
            search = Search(self, queue)
            self.searches[queue.name] = search
            search.wanted[acknowledged.key] = acknowledged
            self.broker.effort.later(search)
            return
        same = search.wanted.get(acknowledged.key)
        search.wanted[acknowledged.key] = acknowledged
        if same is not None:  # it was said twice: one answer is enough to look for it, and both are given
            self.finished(same, True)

    def end(self) -> None:
        """Nobody waits for answers any more."""
        self.ended = True
        self.searches.clear()

    def finished(self, acknowledged: Acknowledged, found: bool) -> None:
        """One that waited does so no longer."""
        self.waiting -= 1
        acknowledged.done(found)

    def take_away(self, queue: Queue, found: list[Found], doer: str) -> None:
        """Settle what the last step of a walk found in ``queue``, as if a consumer of the broker ``doer`` had."""
        if not found:
            return
        mirrors = self.broker.mirrors
        if mirrors is not None:
            mirrors.acting = self.source
            mirrors.doer = doer
        try:
            for reference in queue.taking.take_all(found):
                queue.settled += 1
                queue.note(facts.ACKNOWLEDGED, reference.number, 0, 0)
                queue.stock.finish(reference)
        finally:
            if mirrors is not None:
                mirrors.acting = mirrors.doer = ""

    def _is_near(self, queue: Queue, acknowledged: Acknowledged) -> bool:
        queue.backlog.complete()
        walk = queue.stock.walk()
        looked: i64 = 0
        most: i64 = 1
        while not walk.done and looked < NEAR:
            found = walk.step(most)
            looked += len(found)
            most = 8
            for each in found:
                if named(each.message, self.own) == acknowledged.key:
                    self.take_away(queue, [each], acknowledged.doer)
                    return True
        self.broker.effort.spent += looked
        return False


class Search(Rest):
    """Looks through one queue, a part in each turn, until nothing is ``wanted`` any more."""

    def __init__(self, removing: Removing, queue: Queue) -> None:
        super().__init__()
        self.removing: Removing = removing
        self.queue: Queue = queue
        self.wanted: dict[tuple[str, int], Acknowledged] = {}
        self.walk: Walk | None = None
        self.passes: i64 = 0

    def resume(self) -> None:
        """Look at the next."""
        effort = self.removing.broker.effort
        while not self.removing.ended:
            if self.queue.deleted:
                self._give_up(True)
                return
            walk = self.walk
            if walk is None:
                walk = self._begin()
            found = walk.step(STEP)
            effort.spent += len(found) + 1
            self._take(found)
            if not self.wanted:
                self._end()
                return
            if walk.done:
                self.walk = None
                self._give_up(False)
                return
            if effort.is_over():
                effort.later(self)
                return

    def _begin(self) -> Walk:
        self.queue.backlog.complete()
        self.passes += 1
        for acknowledged in self.wanted.values():
            if acknowledged.began < 0:
                acknowledged.began = self.passes
        self.walk = self.queue.stock.walk()
        return self.walk

    def _take(self, found: list[Found]) -> None:
        own = self.removing.own
        meant: dict[str, list[Found]] = {}
        answered: list[Acknowledged] = []
        for each in found:
            acknowledged = self.wanted.pop(named(each.message, own), None)
            if acknowledged is not None:
                meant.setdefault(acknowledged.doer, []).append(each)
                answered.append(acknowledged)
        for doer, some in meant.items():
            self.removing.take_away(self.queue, some, doer)
        for acknowledged in answered:
            self.removing.finished(acknowledged, True)

    def _give_up(self, all_of_it: bool) -> None:
        """A pass is over: give up what was looked for often enough, and look for the rest later."""
        lost: list[Acknowledged] = []
        for acknowledged in self.wanted.values():
            if acknowledged.began >= 0:
                acknowledged.left -= 1
            if all_of_it or acknowledged.left <= 0:
                lost.append(acknowledged)
        for acknowledged in lost:
            del self.wanted[acknowledged.key]
        if not self.wanted:
            self._end()
        else:
            broker = self.removing.broker
            broker.timetable.add(_Again(broker.now + self.removing.pause, self))
        for acknowledged in lost:
            self.removing.finished(acknowledged, False)

    def _end(self) -> None:
        self.removing.searches.pop(self.queue.name, None)


class _Again(Alarm):
    """The next pass."""

    def __init__(self, due: int, search: Search) -> None:
        super().__init__(due)
        self.search: Search = search

    def ring(self, now: int) -> None:
        """Begin it."""
        self.search.removing.broker.effort.later(self.search)
