"""Brokers that announce themselves on a multicast group (classic.md 1.4): for clients, and for links.

A broker says twice a second that it lives, and that it is dead when it leaves; one that was not heard for ten of these
is gone. `Hearing` keeps who lives; datagrams are made and read here, sent and received elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.base.errors import InvalidURI
from entrepot.base.settings import Options, Unit, setting
from entrepot.base.uri import Endpoint, parse
from entrepot.protocols.session import NEVER

MULTICAST_HOST: Final = "239.255.2.3"
MULTICAST_PORT: Final = 6155
MISSED_MAX: Final = 10  # announcements that a broker may miss
PLACES_MAX: Final = 1000  # a flood of forged announcements must not fill memory
SERVICE_TYPE: Final = "ActiveMQ-4."


def announcement(group: str, uri: str, *, alive: bool) -> bytes:
    """Return the datagram that announces ``uri``, or takes it back."""
    return f"{group}.{SERVICE_TYPE}{'alive' if alive else 'dead'}.%localhost%{uri}".encode()


def parse_announcement(data: bytes, group: str) -> tuple[bool, str] | None:
    """Return whether a broker lives and its URI, None for a datagram that says nothing about ``group``."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    prefix = f"{group}.{SERVICE_TYPE}"
    if not text.startswith(prefix):
        return None
    state, _, rest = text[len(prefix) :].partition(".%")
    _, mark, uri = rest.partition("%")
    if state not in ("alive", "dead") or not mark or not uri:
        return None
    return state == "alive", uri


class MulticastOptions(Options, frozen=True):
    """How a group is heard and spoken to; the query of ``multicast://``."""

    group: str = setting("default", uri="group", about="whose announcements count")
    keep_alive_interval: Duration = setting(
        500 * MILLISECOND, unit=Unit.DURATION, uri="keepAliveInterval", low=1, about="how often brokers announce"
    )
    time_to_live: int = setting(1, high=255, uri="timeToLive", about="networks that our datagrams may cross")
    loop_back_mode: bool = setting(False, uri="loopBackMode", about="accepted; programs of one machine always hear")
    network_interface: str = setting("", uri="networkInterface", about="address of the network to use")
    join_network_interface: str = setting("", uri="joinNetworkInterface", about="the same for listening")
    interface: str = setting("", uri="interface", about="another name of networkInterface")

    @property
    def address(self) -> str:
        """The address of the network to use, "" for any."""
        return self.join_network_interface or self.network_interface or self.interface


class Found(Struct, frozen=True):
    """A broker announces itself."""

    place: Endpoint


class Forgotten(Struct, frozen=True):
    """It left, or was not heard for too long."""

    place: Endpoint


class Hearing:
    """Who announces itself in one group. ``places`` by the text that they announce.

    ``reached``: makes of a place that which is dialled; raises InvalidURI for one that cannot be. ``forgets``: who is
    silent is gone.
    """

    def __init__(
        self, options: MulticastOptions, reached: Callable[[Endpoint], Endpoint], *, forgets: bool = True
    ) -> None:
        self.options: Final = options
        self.places: dict[str, Endpoint] = {}
        self._reached: Final = reached
        self._patience: Final = MISSED_MAX * options.keep_alive_interval if forgets else NEVER
        self._heard_at: dict[str, Instant] = {}

    def heard(self, data: bytes, now: Instant) -> list[Found | Forgotten]:
        """Take a datagram; what is no announcement of our group is ignored."""
        said = parse_announcement(data, self.options.group)
        return [] if said is None else self.told(said[1], alive=said[0], now=now)

    def told(self, text: str, *, alive: bool, now: Instant) -> list[Found | Forgotten]:
        """Take the news that the broker at ``text`` lives, or leaves."""
        if not alive:
            return self._forget(text)
        if text in self.places:
            self._heard_at[text] = now
            return []
        if len(self.places) >= PLACES_MAX:
            return []
        try:
            place = parse(text)
            if not isinstance(place, Endpoint):
                return []
            place = self._reached(place)
        except InvalidURI:
            return []
        self.places[text] = place
        self._heard_at[text] = now
        return [Found(place)]

    def deadline(self) -> Instant:
        """Return when `advance` must be called."""
        if self._patience == NEVER:
            return NEVER
        return min((at + self._patience for at in self._heard_at.values()), default=NEVER)

    def advance(self, now: Instant) -> list[Found | Forgotten]:
        """Forget who was not heard for ten announcements."""
        gone: list[Found | Forgotten] = []
        for text in [text for text, at in self._heard_at.items() if now - at >= self._patience]:
            gone += self._forget(text)
        return gone

    def _forget(self, text: str) -> list[Found | Forgotten]:
        self._heard_at.pop(text, None)
        place = self.places.pop(text, None)
        return [] if place is None else [Forgotten(place)]
