"""Brokers that announce themselves: ``discovery:(multicast://default)``.

A broker says twice a second ``<group>.ActiveMQ-4.alive.%localhost%<uri>``, and ``dead`` when it leaves; one that was
not heard for ten of these is gone (classic.md 1.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import InvalidURI
from entrepot.base.settings import Dialect, Options, Unit, setting
from entrepot.base.uri import NO_PORT, Endpoint, parse
from entrepot.io.datagram import Group, join
from entrepot.protocols.announcement import parse_announcement

DEFAULT_GROUP_HOST: Final = "239.255.2.3"
DEFAULT_GROUP_PORT: Final = 6155
MISSED_MAX: Final = 10
PLACES_MAX: Final = 1000  # a flood of forged announcements must not fill memory


class MulticastOptions(Options, frozen=True):
    """How announcements are heard; the query of ``multicast://``."""

    group: str = setting("default", uri="group", about="whose announcements count")
    keep_alive_interval: Duration = setting(
        500 * MILLISECOND, unit=Unit.DURATION, uri="keepAliveInterval", low=1, about="how often brokers announce"
    )
    time_to_live: int = setting(1, high=255, uri="timeToLive", about="networks that our own datagrams may cross")
    loop_back_mode: bool = setting(False, uri="loopBackMode", about="accepted; programs of one machine always hear")
    network_interface: str = setting("", uri="networkInterface", about="address of the network to use")
    join_network_interface: str = setting("", uri="joinNetworkInterface", about="the same for listening")
    interface: str = setting("", uri="interface", about="another name of networkInterface")


class Listening:
    """Hears brokers of one group and tells who is found and who is lost."""

    def __init__(
        self,
        options: MulticastOptions,
        loop: asyncio.AbstractEventLoop,
        found: Callable[[Endpoint], None],
        lost: Callable[[Endpoint], None],
    ) -> None:
        self._options = options
        self._loop = loop
        self._found = found
        self._lost = lost
        self._heard_at: dict[str, float] = {}
        self._places: dict[str, Endpoint] = {}
        self._group: Group | None = None
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        beacon: Endpoint,
        loop: asyncio.AbstractEventLoop,
        found: Callable[[Endpoint], None],
        lost: Callable[[Endpoint], None],
    ) -> Listening:
        """Listen at ``beacon``, ``multicast://default`` or ``multicast://host:port``. Raises OperatorError."""
        options = MulticastOptions.read(beacon.options, Dialect.URI)
        made = cls(options, loop, found, lost)
        host = DEFAULT_GROUP_HOST if beacon.host in ("", "default") else beacon.host
        port = DEFAULT_GROUP_PORT if beacon.port == NO_PORT else beacon.port
        interface = options.join_network_interface or options.network_interface or options.interface
        made._group = await join(host, port, made.heard, time_to_live=options.time_to_live, interface=interface)
        made._sweep()
        return made

    def close(self) -> None:
        """Stop listening."""
        if self._timer is not None:
            self._timer.cancel()
        if self._group is not None:
            self._group.close()

    def heard(self, data: bytes, sender: str) -> None:
        """Take one datagram; what is no announcement of our group is ignored."""
        announced = parse_announcement(data, self._options.group)
        if announced is None:
            return
        alive, text = announced
        if not alive:
            self._forget(text)
            return
        if text not in self._places:
            if len(self._places) >= PLACES_MAX:
                return
            try:
                place = parse(text)
            except InvalidURI:
                return
            if not isinstance(place, Endpoint):
                return
            self._places[text] = place
            self._found(place)
        self._heard_at[text] = self._loop.time()

    def _sweep(self) -> None:
        interval = self._options.keep_alive_interval / SECOND
        limit = self._loop.time() - MISSED_MAX * interval
        for text in [text for text, at in self._heard_at.items() if at < limit]:
            self._forget(text)
        self._timer = self._loop.call_later(interval, self._sweep)

    def _forget(self, text: str) -> None:
        self._heard_at.pop(text, None)
        place = self._places.pop(text, None)
        if place is not None:
            self._lost(place)
