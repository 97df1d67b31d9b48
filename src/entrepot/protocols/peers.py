"""The peers of a connection: which are known, where they are, and in which order they are dialled.

`FailoverCore` asks; nothing is decided here about when. Options are ActiveMQ's (classic.md 2.1, 2.2, 2.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Entropy
from entrepot.base.errors import InvalidURI
from entrepot.base.settings import UNLIMITED, Options, Unit, setting
from entrepot.base.uri import NO_PORT, Endpoint, parse_list

DEFAULT_PORT: Final = 61616
ZONE: Final = "zone"


class FailoverOptions(Options, frozen=True):
    """How a lost peer is replaced; the query behind ``failover:(...)``."""

    initial_reconnect_delay: Duration = setting(
        10 * MILLISECOND,
        unit=Unit.DURATION,
        uri="initialReconnectDelay",
        about="wait before the first round of an outage",
    )
    max_reconnect_delay: Duration = setting(
        30 * SECOND, unit=Unit.DURATION, uri="maxReconnectDelay", about="longest wait between two rounds"
    )
    use_exponential_back_off: bool = setting(True, uri="useExponentialBackOff", about="wait longer after each round")
    reconnect_delay_exponent: float = setting(
        2.0, low=1.0, uri="reconnectDelayExponent", about="the wait grows by this factor"
    )
    max_reconnect_attempts: int = setting(
        UNLIMITED, unlimited=True, uri="maxReconnectAttempts", about="rounds in an outage; 0: never reconnect"
    )
    startup_max_reconnect_attempts: int = setting(
        UNLIMITED,
        unlimited=True,
        uri="startupMaxReconnectAttempts",
        about="rounds before the first connection; -1: as maxReconnectAttempts",
    )
    warn_after_reconnect_attempts: int = setting(
        10, unlimited=True, uri="warnAfterReconnectAttempts", about="say so after every so many failed rounds"
    )
    randomize: bool = setting(True, uri="randomize", about="shuffle the list before each round")
    backup: bool = setting(False, uri="backup", about="keep connections to other peers in reserve")
    backup_pool_size: int = setting(1, low=1, uri="backupPoolSize", about="how many reserves")
    priority_backup: bool = setting(False, uri="priorityBackup", about="go back to a priority peer when it answers")
    priority_uris: str = setting("", uri="priorityURIs", about="the priority peers; none: the first of the list")
    timeout: Duration = setting(
        UNLIMITED, unit=Unit.DURATION, unlimited=True, uri="timeout", about="longest that a send waits in an outage"
    )
    track_messages: bool = setting(False, uri="trackMessages", about="keep what was sent last, to send it again")
    max_cache_size: int = setting(
        131_072, unit=Unit.OCTETS, uri="maxCacheSize", about="octets of messages that trackMessages keeps"
    )
    track_transaction_producers: bool = setting(
        True, uri="trackTransactionProducers", about="announce closed producers of an open transaction again"
    )
    update_uris_supported: bool = setting(
        True, uri="updateURIsSupported", about="learn peers from the broker (ConnectionControl.connectedBrokers)"
    )
    update_uris_url: str = setting("", uri="updateURIsURL", about="file or URL of a list of peers, read in each round")
    rebalance_update_uris: bool = setting(
        True, uri="rebalanceUpdateURIs", about="move when the list at updateURIsURL changed"
    )
    reconnect_supported: bool = setting(
        True, uri="reconnectSupported", about="obey the broker that names another (ConnectionControl.reconnectTo)"
    )
    zone: str = setting("", uri="zone", about="where this program is: brokers of other zones are the last resort")


class Peers:
    """The places of one connection: ``configured``, and ``updated`` by a broker. ``failed`` is tried last."""

    def __init__(self, places: Iterable[Endpoint], options: FailoverOptions, entropy: Entropy) -> None:
        """``places``: as configured, nested options applied. Raises InvalidURI for ``priorityURIs`` that are none."""
        self.options: Final = options
        self.zones: dict[tuple[str, int, str], str] = {}
        self.configured: list[Endpoint] = [self.placed(place) for place in places]
        self.updated: list[Endpoint] = []
        self.failed: Endpoint | None = None
        self._entropy: Final = entropy
        self._priorities: Final = [
            key(place) for each in parse_list(options.priority_uris) for place in each.endpoints()
        ]

    def add(self, place: Endpoint) -> bool:
        """Know one more; False when it was known."""
        place = self.placed(place)
        if any(key(place) == key(known) for known in self.configured):
            return False
        self.configured.append(place)
        return True

    def remove(self, place: Endpoint) -> None:
        """Dial it no more."""
        self.configured = [known for known in self.configured if key(known) != key(place)]

    def prefer(self, place: Endpoint) -> Endpoint:
        """Put ``place`` first, with the options that were configured for it, and return it."""
        known = self.known(place)
        # ActiveMQ forgets the others: and with them the way back, when all that it was told of is gone
        self.configured = [known, *(one for one in self.configured if key(one) != key(known))]
        return known

    def update(self, places: list[Endpoint]) -> bool:
        """Take a broker's list. False: it is the same *set*, whatever its order (classic.md 2.4)."""
        if {key(place) for place in places} == {key(place) for place in self.updated}:
            return False
        self.updated = [self.known(place) for place in places]
        return True

    def locate(self, zones: Mapping[str, str]) -> None:
        """Learn in which zone others are, by URI."""
        for text, zone in zones.items():
            for place in leaves(text):
                self.zones[key(place)] = zone

    def in_order(self) -> list[Endpoint]:
        """Return whom to dial, in order: learned, then configured; shuffled if wanted; who failed last comes last."""
        by_key = {key(place): place for place in reversed([*self.updated, *self.configured])}
        places = [by_key[key] for key in dict.fromkeys(key(place) for place in [*self.updated, *self.configured])]
        failed = self.failed
        last = [place for place in places if failed is not None and key(place) == key(failed)]
        others = [place for place in places if place not in last]
        if self.options.randomize:
            for at in range(len(others) - 1, 0, -1):
                other = int(self._entropy.fraction() * (at + 1))
                others[at], others[other] = others[other], others[at]
        if self.options.priority_backup:  # an outage ends at a priority peer if one is there
            others.sort(key=lambda place: not self.preferred(place))
        if self.options.zone:
            others.sort(key=self.distance)
        return others + last

    def known(self, place: Endpoint) -> Endpoint:
        """Return ``place`` with the options that were configured for it: a broker announces only the address."""
        for known in self.configured:
            if key(known) == key(place):
                return known
        return place

    def preferred(self, place: Endpoint) -> bool:
        """Tell whether ``place`` is a priority peer: in ``priorityURIs``, or without these the first of the list."""
        if self._priorities:
            return key(place) in self._priorities
        return bool(self.configured) and key(place) == key(self.configured[0])

    def is_preferred(self, place: Endpoint | None) -> bool:
        """Tell whether there is ``place``, and it is a priority peer."""
        return place is not None and self.preferred(place)

    def is_away(self, place: Endpoint | None) -> bool:
        """Tell whether there is ``place``, and it is known to be in another zone than ours."""
        return bool(self.options.zone) and place is not None and self.distance(place) == 2

    def placed(self, place: Endpoint) -> Endpoint:
        """Take the zone out of the options of a configured place."""
        if ZONE not in place.options:
            return place
        self.zones[key(place)] = place.options[ZONE]
        return structs.replace(place, options={name: text for name, text in place.options.items() if name != ZONE})

    def near(self, place: Endpoint) -> bool:
        """Tell whether ``place`` is known to be in our own zone."""
        return bool(self.options.zone) and self.zones.get(key(place)) == self.options.zone

    def distance(self, place: Endpoint) -> int:
        """Return 0 for our own zone, 1 for nobody knows, 2 for another."""
        if self.near(place):
            return 0
        return 2 if self.zones.get(key(place)) else 1


class Backoff:
    """How long one waits: longer each time, if that is wanted."""

    def __init__(self, options: FailoverOptions) -> None:
        self.delay: Duration = options.initial_reconnect_delay
        self._options: Final = options

    def reset(self) -> None:
        """Begin anew."""
        self.delay = self._options.initial_reconnect_delay

    def grow(self) -> None:
        """Let the next wait be longer."""
        options = self._options
        if options.use_exponential_back_off:
            self.delay = min(int(self.delay * options.reconnect_delay_exponent), options.max_reconnect_delay)

    def take(self) -> Duration:
        """Return the wait, and let the next one be longer."""
        delay = self.delay
        self.grow()
        return delay


def key(place: Endpoint) -> tuple[str, int, str]:
    """Return what makes a place the same place: the address. Names are compared as written, not resolved."""
    port = DEFAULT_PORT if place.port == NO_PORT else place.port
    return (place.host.lower(), port, place.path if not place.host else "")


def leaves(text: str) -> list[Endpoint]:
    """Return the endpoints of a comma list; [] for a text that is none."""
    try:
        return [endpoint for each in parse_list(text) for endpoint in each.endpoints()]
    except InvalidURI:
        return []
