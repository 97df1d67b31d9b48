"""Which links a connection has to have: one for each queue that is sent from, one for each address that is filled. [C]

Queues come and go while a broker runs, and links with them. Temporary queues, and those about one broker alone, are
never meant. Several queues of one address that a receiver means make one link: its messages go to the address, which
gives one to each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.cluster.broker_connections.options import Element, Way
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import QUEUE_ADDED, QUEUE_REMOVED, Fact, Listener, Place, QueueFact
from entrepot.core.observing import ignore, observe_all
from entrepot.protocols.amqp.calling.federating import Fetch


class Refused:
    """How often a message was refused for what it is, one time after the other. It outlives links."""

    def __init__(self) -> None:
        self.number: int = 0
        self.times: int = 0

    def again(self, number: int) -> int:
        """Message ``number`` was refused; return how often that was so by now."""
        if self.number != number:
            self.number = number
            self.times = 0
        self.times += 1
        return self.times


class Wish:
    """One link to have. ``queue``: that it reads here, of a sender; ``queues``: that make a receiver wanted."""

    def __init__(self, address: str, routing: int, queue: str, waypoint: bool, mirrors: bool = False) -> None:
        self.address: str = address
        self.routing: int = routing
        self.queue: str = queue
        self.waypoint: bool = waypoint  # of a router, which is told so
        self.mirrors: bool = mirrors  # what waits there are the events of this broker
        self.queues: dict[str, None] = {}
        self.refused: Refused = Refused()

    @property
    def sends(self) -> bool:
        """Return whether messages go from here."""
        return self.queue != ""

    @property
    def key(self) -> str:
        """Return what tells it from others of one connection."""
        return f"to {self.queue}" if self.queue else f"from {self.address}"


class FetchWish(Wish):
    """A queue, or an address, that is read at the other side, as a federation does."""

    def __init__(self, fetch: Fetch) -> None:
        super().__init__(fetch.where.name, fetch.where.routing, "", False)
        self.fetch: Fetch = fetch

    @property
    def key(self) -> str:
        """Return what tells it from others of one connection."""
        return self.fetch.called()


class ControlWish(Wish):
    """The link by which a connection is one of a federation; nothing is fetched before it is there."""

    def __init__(self, federation: str) -> None:
        super().__init__("", 0, "", False)
        self.federation: str = federation

    @property
    def key(self) -> str:
        """Return what tells it from others of one connection."""
        return f"federation {self.federation}"


@mypyc_attr(allow_interpreted_subclasses=True)
class Wanted(Listener):
    """Keeps them. ``changed`` is called when one came or went; that may be in the midst of what it is about."""

    def __init__(self, elements: list[Element], changed: Callable[[], None], mirror: str = "") -> None:
        """``mirror``: the queue with the events of this broker, "" where they do not go over this connection."""
        super().__init__(QUEUE_ADDED | QUEUE_REMOVED)
        self.mirror: Final = mirror
        self.elements: Final = elements
        self.changed: Final = changed
        self.wishes: dict[str, Wish] = {}

    def begin(self, broker: BrokerCore) -> None:
        """Look at the queues that there are, and hear what becomes of them."""
        for fact in observe_all(broker, self):
            self.heard(fact)

    def end(self, broker: BrokerCore) -> None:
        """Hear nothing more; nothing is wanted."""
        ignore(broker, self)
        self.wishes.clear()

    def heard(self, fact: Fact) -> None:
        """A queue comes or goes."""
        if isinstance(fact, QueueFact):
            if fact.kind == QUEUE_ADDED:
                self._added(fact.place)
            else:
                self._removed(fact.place)

    def _added(self, place: Place) -> None:
        if place.temporary:
            return
        found = False
        if self.mirror and place.name == self.mirror:
            found = self._wish(Wish(place.address, int(place.routing), place.name, False, mirrors=True), place)
        for element in self.elements:
            if not element.means(place.address, place.name):
                continue
            waypoint = element.way is Way.PEER
            if element.way is not Way.RECEIVER:
                found = self._wish(Wish(place.address, int(place.routing), place.name, waypoint), place) or found
            if element.way is not Way.SENDER:
                found = self._wish(Wish(place.address, int(place.routing), "", waypoint), place) or found
        if found:
            self.changed()

    def _wish(self, wish: Wish, place: Place) -> bool:
        known = self.wishes.setdefault(wish.key, wish)
        known.queues[place.name] = None
        return known is wish

    def _removed(self, place: Place) -> None:
        found = False
        for key in (f"to {place.name}", f"from {place.address}"):
            wish = self.wishes.get(key)
            if wish is None or wish.queues.pop(place.name, 1) is not None or wish.queues:
                continue
            del self.wishes[key]
            found = True
        if found:
            self.changed()
