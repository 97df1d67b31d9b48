"""Temporary destinations of the far side, made known here so that replies find their way (classic.md 1.12). [C]"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import Refused
from entrepot.cluster.link import State
from entrepot.cluster.networks.inbound import address_of
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Neighbourhood
from entrepot.core.addressing.definition import temporary
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.openwire.commands import BrokerId, ConnectionId, Destination, DestinationInfo
from entrepot.protocols.openwire.ids import DestinationOperation, is_queue

ADOPT_AFTER: Final = SECOND  # far longer than the news that something is gone takes through a network
ADD: Final = int(DestinationOperation.ADD)


class _Adopt(Alarm):
    def __init__(self, due: int, neighbourhood: Neighbourhood, where: Destination) -> None:
        super().__init__(due)
        self.neighbourhood = neighbourhood
        self.where = where

    def ring(self, now: int) -> None:
        for bridge in list(self.neighbourhood.bridges):
            if bridge.adopt_temporary(self.where):
                return


class Temporaries:
    """Of one connection. ``known``: those that this bridge made here."""

    def __init__(self, end: BridgeEnd) -> None:
        self.end: Final = end
        self.known: dict[Destination, DestinationInfo] = {}
        self._implied: dict[Destination, None] = {}  # those that only a consumer has told of so far

    def imply(self, where: Destination, path: Sequence[object]) -> None:
        """Make a temporary destination known here because somebody beyond reads it; it is told on by nobody but him.

        Advisories of different topics may overtake one another, so a reader may come before his destination; and he may
        be reached another way than the one over which his destination was told of.
        """
        if where not in self.known:
            self._implied[where] = None
            passed = [one for one in path if isinstance(one, BrokerId)]
            self.make(DestinationInfo(destination=where, operation_type=ADD, broker_path=list(passed)))
            if where not in self.known:
                del self._implied[where]  # it is here already

    def told(self, info: DestinationInfo) -> None:
        """The other broker tells of a temporary destination."""
        where = info.destination
        if where is None:
            return
        if where in self._implied:
            del self._implied[where]
            self.known[where].broker_path = info.broker_path
            self.end.advisories.temporary_added(self.known[where])
        else:
            self.make(info)

    def make(self, info: DestinationInfo) -> None:
        """Make the destination here, unless it is there or the peer's user may not."""
        where = info.destination
        if where is None or where in self.known:
            return
        end = self.end
        name = where.physical_name or ""
        acceptor = end.neighbourhood.acceptor
        if name in acceptor.temporaries or name in end.broker.table.queues:
            return  # it came along another way, or is our own
        if end.subject is not None:
            try:
                end.broker.access.create(end.subject, address_of(where))
            except Refused as refusal:
                end.say(f"a temporary destination of the other broker is not made: {refusal}")
                return
        acceptor.temporaries[name] = end.names.connection
        if is_queue(where):
            end.advisories.bridged[name] = None
            end.broker.queues.create(temporary(name, end.names.connection))
        info.connection_id = ConnectionId(end.names.connection)
        self.known[where] = info
        if where not in self._implied:
            end.advisories.temporary_added(info)
        for bridge in list(end.neighbourhood.bridges):
            bridge.serve_again(where)

    def drop(self, where: Destination) -> None:
        """It is gone on the far side; somebody else may know a way to its readers (`adopt`)."""
        self._implied.pop(where, None)
        info = self.known.pop(where, None)
        if info is None:
            return
        end = self.end
        name = where.physical_name or ""
        end.neighbourhood.acceptor.temporaries.pop(name, None)
        queue = end.broker.table.queues.get(name)
        if queue is not None and queue.temporary:
            end.broker.queues.delete(queue, "it is gone on the other broker")
        end.advisories.temporary_removed(where, info.connection_id)
        end.broker.timetable.add(_Adopt(int(end.broker.now) + ADOPT_AFTER, end.neighbourhood, where))

    def unread(self, where: Destination) -> None:
        """A demand for ``where`` ended: drop what is here only because somebody read it, if nobody does any more."""
        if where in self._implied and not any(one.where == where for one in self.end.demand.demands):
            self.drop(where)

    def adopt(self, where: Destination) -> bool:
        """The way by which ``where`` was told of is gone; if somebody is said to read it beyond us, serve him.

        Classic refuses replies until its own way is back (a decision of ours). A while lies between: who is gone is
        gone everywhere before anybody believes in a way around.
        """
        if self.end.link.state is not State.OPEN:
            return False
        for demand in self.end.demand.demands:
            if demand.where == where:
                self.imply(where, demand.info.broker_path or ())
                return True
        return False

    def clear(self) -> None:
        """The connection is gone."""
        for where in list(self.known):
            self.drop(where)
