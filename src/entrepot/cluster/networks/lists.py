"""The lists of destinations of a network connector, and the advisories that follow from them (classic.md 1.2, 1.6)."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from entrepot.base.errors import InvalidDestination
from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.networks.admission import ADVISORY, CONSUMER_ADVISORY, TEMPORARY_ADVISORIES, VIRTUAL_ADVISORY
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.model.address import ANYCAST, MULTICAST, Destination


class Place(NamedTuple):
    """What a consumer of the far side reads, whatever it speaks: one destination, which may be a wildcard."""

    name: str
    topic: bool
    temporary: bool = False


def address_of(place: Place) -> Destination:
    """Return what ``place`` names here. Raises InvalidDestination."""
    name, _, queue = place.name.partition("::")
    if not name:
        raise InvalidDestination("a destination has no name")
    return Destination(name, MULTICAST if place.topic else ANYCAST, place.temporary, queue)


class Included(Struct, frozen=True):
    """One entry of a list of a network connector. ``force_durable``: a plain topic consumer counts as a durable one."""

    pattern: str
    topic: bool
    force_durable: bool = False

    def covers(self, place: Place) -> bool:
        """Return whether this entry means ``place``."""
        return self.topic == place.topic and matches(self.pattern, place.name, MIXED)


class Lists(Struct, frozen=True):
    """The three lists of a network connector."""

    excluded: tuple[Included, ...] = ()
    dynamic: tuple[Included, ...] = ()
    static: tuple[Included, ...] = ()

    def permits(self, place: Place, *, temporary: bool) -> bool:
        """Return whether demand for ``place`` may cross; the order of the tests is Classic's (1.2)."""
        if place.temporary:
            return temporary
        if any(one.covers(place) for one in self.excluded):
            return False
        if any(one.covers(place) for one in self.static):
            return True
        if self.dynamic:
            return any(one.covers(place) for one in self.dynamic)
        return True

    def forces_durable(self, place: Place) -> bool:
        """Return whether a plain consumer of the topic ``place`` shall be a durable one (forceDurable)."""
        if not place.topic or place.temporary or place.name.startswith(ADVISORY):
            return False
        return any(one.force_durable and one.covers(place) for one in (*self.dynamic, *self.static))


def destination_filter(options: NetworkConnectorOptions, lists: Lists) -> str:
    """Return the advisory topics to listen to, a comma list (classic.md 1.6)."""
    if options.destination_filter:
        given = options.destination_filter
        topics = [given if given.startswith(ADVISORY) else CONSUMER_ADVISORY + given]
    elif lists.dynamic:
        topics = []
        for one in lists.dynamic:
            name = f"{'Topic' if one.topic else 'Queue'}.{one.pattern}"
            topics.append(CONSUMER_ADVISORY + name)
            if options.use_virtual_destination_subscriptions:
                topics.append(VIRTUAL_ADVISORY + name)
    else:
        topics = [CONSUMER_ADVISORY + ">"]
        if options.use_virtual_destination_subscriptions:
            topics.append(VIRTUAL_ADVISORY + ">")
    if options.bridge_temporary:
        topics += TEMPORARY_ADVISORIES
    return ",".join(dict.fromkeys(topics))
