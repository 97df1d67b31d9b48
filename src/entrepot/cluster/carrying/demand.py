"""Which queues of another broker somebody here wants to read: what facts about consumers say. [C]

A client that consumes is demand, and so is a lease that asks for it (docs/leases.md): for the queue of the same name
there, or for a topic where it reads a durable subscription. A browser takes nothing, and a bridge of this broker reads
for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entrepot.base.patterns import MIXED, is_pattern, matches
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import (
    CONSUMER_ATTACHED,
    CONSUMER_DETACHED,
    ConsumerFact,
    Fact,
    Listener,
    Place,
    Reader,
)
from entrepot.core.events.watching import OWN
from entrepot.core.observing import ignore, observe_all
from entrepot.core.queue.consumer import DEMAND
from entrepot.model.address import MULTICAST, Destination


class Wanted:
    """One queue or topic. ``name``: of the queue, or the topic; ``readers``: keys of who reads it here."""

    def __init__(self, name: str, place: Destination) -> None:
        self.name: str = name
        self.place: Destination = place  # where what is drawn is sent here
        self.readers: dict[int, None] = {}

    @property
    def is_topic(self) -> bool:
        """Return whether it is a topic."""
        return self.place.queue == ""


class ReaderDemand(Listener):
    """Keeps it. ``changed`` is called when something is wanted that was not, or the other way round."""

    def __init__(self, only: Sequence[str], never: Sequence[str], changed: Callable[[], None]) -> None:
        """``only``: names and wildcards, () for everything; ``never``: names that are not drawn."""
        super().__init__(CONSUMER_ATTACHED | CONSUMER_DETACHED)
        self.only: list[str] = list(only)
        self.never: list[str] = list(never)
        self.changed: Callable[[], None] = changed
        self.wanted: dict[str, Wanted] = {}

    def begin(self, broker: BrokerCore) -> None:
        """Look at who reads now, and hear who comes and goes."""
        for fact in observe_all(broker, self):
            self.heard(fact)

    def end(self, broker: BrokerCore) -> None:
        """Hear nothing more; nothing is wanted."""
        ignore(broker, self)
        self.wanted = {}

    def heard(self, fact: Fact) -> None:
        """A consumer comes or goes."""
        if not isinstance(fact, ConsumerFact):
            return
        place = fact.place
        key = self.key_of(place, fact.reader)
        if not key:
            return
        wanted = self.wanted.get(key)
        if fact.kind == CONSUMER_ATTACHED:
            if wanted is None:
                wanted = _wanted(place)
                self.wanted[key] = wanted
            wanted.readers[int(fact.key)] = None
            if len(wanted.readers) == 1:
                self.changed()
        elif wanted is not None:
            wanted.readers.pop(int(fact.key), None)
            if not wanted.readers:
                del self.wanted[key]
                self.changed()

    def key_of(self, place: Place, reader: Reader) -> str:
        """Return under what the queue ``place`` is wanted by ``reader``; "" where it is no demand."""
        if int(reader.kind) not in DEMAND or place.temporary or not place.durable:
            return ""
        topic = place.routing == MULTICAST
        name = place.address if topic else place.name
        if is_own(name) or is_pattern(name, MIXED):
            return ""
        names = (name, place.address)
        if any(one in names for one in self.never):
            return ""
        if self.only and not any(matches(one, each, MIXED) for one in self.only for each in names):
            return ""
        return key_for(name, topic=topic)


def key_for(name: str, *, topic: bool) -> str:
    """Return under what a queue, or a topic, of this ``name`` is wanted."""
    return f"topic://{name}" if topic else f"queue://{name}"


def is_own(name: str) -> bool:
    """Return whether a queue or address is about one broker alone: nobody else's is read on its account."""
    return name.startswith("$") or any(name.startswith(own) for own in OWN)


def _wanted(place: Place) -> Wanted:
    if place.routing == MULTICAST:
        return Wanted(place.address, Destination(place.address, MULTICAST))
    return Wanted(place.name, Destination(place.address, int(place.routing), False, place.name))
