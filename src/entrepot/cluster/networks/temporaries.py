"""Temporary destinations of the far side, made known here so that replies find their way (classic.md 1.12). [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import Refused
from entrepot.cluster.link import State
from entrepot.cluster.networks.admission import Path
from entrepot.cluster.networks.lists import Place, address_of
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Neighbourhood
from entrepot.core.addressing.definition import temporary
from entrepot.core.scheduling.timed import Alarm

ADOPT_AFTER: Final = SECOND  # far longer than the news that something is gone takes through a network


class _Adopt(Alarm):
    def __init__(self, due: int, neighbourhood: Neighbourhood, where: Place) -> None:
        super().__init__(due)
        self.neighbourhood = neighbourhood
        self.where = where

    def ring(self, now: int) -> None:
        for bridge in list(self.neighbourhood.bridges):
            if bridge.adopt_temporary(self.where):
                return


class Temporaries:
    """Of one connection. ``known``: those that this bridge made here, each with the connection that it had then."""

    def __init__(self, end: BridgeEnd) -> None:
        self.end: Final = end
        self.known: dict[Place, str] = {}
        self._implied: dict[Place, None] = {}  # those that only a consumer has told of so far

    def imply(self, where: Place, path: Path) -> None:
        """Make a temporary destination known here because somebody beyond reads it; it is told on by nobody but him.

        Advisories of different topics may overtake one another, so a reader may come before his destination; and he may
        be reached another way than the one over which his destination was told of.
        """
        if where not in self.known:
            self._implied[where] = None
            self.make(where, path)
            if where not in self.known:
                del self._implied[where]  # it is here already

    def told(self, where: Place, path: Path) -> None:
        """The other broker tells of a temporary destination, which it knows over ``path``."""
        if where in self._implied:
            del self._implied[where]
            self.end.advising.temporary_added(where, path, self.known[where])
        else:
            self.make(where, path)

    def make(self, where: Place, path: Path) -> None:
        """Make the destination here, unless it is there or the peer's user may not."""
        if where in self.known:
            return
        end = self.end
        if end.advising.knows_temporary(where.name) or where.name in end.broker.table.queues:
            return  # it came along another way, or is our own
        if end.subject is not None:
            try:
                end.broker.access.create(end.subject, address_of(where))
            except Refused as refusal:
                end.say(f"a temporary destination of the other broker is not made: {refusal}")
                return
        connection = end.names.connection
        end.advising.hold_temporary(where, connection)
        if not where.topic:
            end.broker.queues.create(temporary(where.name, connection))
        self.known[where] = connection
        if where not in self._implied:
            end.advising.temporary_added(where, path, connection)
        for bridge in list(end.neighbourhood.bridges):
            bridge.serve_again(where)

    def drop(self, where: Place) -> None:
        """It is gone on the far side; somebody else may know a way to its readers (`adopt`)."""
        self._implied.pop(where, None)
        connection = self.known.pop(where, None)
        if connection is None:
            return
        end = self.end
        end.advising.release_temporary(where)
        queue = end.broker.table.queues.get(where.name)
        if queue is not None and queue.temporary:
            end.broker.queues.delete(queue, "it is gone on the other broker")
        end.advising.temporary_removed(where, connection)
        end.broker.timetable.add(_Adopt(int(end.broker.now) + ADOPT_AFTER, end.neighbourhood, where))

    def unread(self, where: Place) -> None:
        """A demand for ``where`` ended: drop what is here only because somebody read it, if nobody does any more."""
        if where in self._implied and not any(one.where == where for one in self.end.demand.demands):
            self.drop(where)

    def adopt(self, where: Place) -> bool:
        """The way by which ``where`` was told of is gone; if somebody is said to read it beyond us, serve him.

        Classic refuses replies until its own way is back (a decision of ours). A while lies between: who is gone is
        gone everywhere before anybody believes in a way around.
        """
        if self.end.link.state is not State.OPEN:
            return False
        for demand in self.end.demand.demands:
            if demand.where == where:
                self.imply(where, demand.reader.path)
                return True
        return False

    def clear(self) -> None:
        """The connection is gone."""
        for where in list(self.known):
            self.drop(where)
