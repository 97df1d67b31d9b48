"""Brokers that announce themselves, heard by a client.

``discovery:(multicast://default)`` (classic.md 1.4), and ``udp://group:port`` of Artemis (artemis.md 1.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import Unreachable
from entrepot.base.settings import Dialect
from entrepot.base.uri import NO_PORT, Endpoint, parse
from entrepot.client.options import GroupOptions
from entrepot.cluster.clusters import groups
from entrepot.io.datagram import Group, join, listen
from entrepot.protocols.announcement import (
    MULTICAST_HOST,
    MULTICAST_PORT,
    Forgotten,
    Found,
    Hearing,
    MulticastOptions,
)
from entrepot.protocols.artemis.conversation.core import place_of
from entrepot.protocols.artemis.primitives import Connector


class _Listening:
    """Hears a group of UDP, with a timer, and tells who is found and who is lost."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, found: Callable[[Endpoint], None], lost: Callable[[Endpoint], None]
    ) -> None:
        self._loop = loop
        self._found = found
        self._lost = lost
        self._group: Group | None = None
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Stop listening."""
        if self._timer is not None:
            self._timer.cancel()
        if self._group is not None:
            self._group.close()

    def _now(self) -> Instant:
        return int(self._loop.time() * SECOND)


class Listening(_Listening):
    """Hears brokers of one group and tells who is found and who is lost."""

    def __init__(
        self,
        options: MulticastOptions,
        loop: asyncio.AbstractEventLoop,
        found: Callable[[Endpoint], None],
        lost: Callable[[Endpoint], None],
    ) -> None:
        self._hearing = Hearing(options, lambda place: place)
        super().__init__(loop, found, lost)

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
        host = MULTICAST_HOST if beacon.host in ("", "default") else beacon.host
        port = MULTICAST_PORT if beacon.port == NO_PORT else beacon.port
        interface = options.address
        made._group = await join(host, port, made.heard, time_to_live=options.time_to_live, interface=interface)
        made._sweep()
        return made

    def heard(self, data: bytes, sender: str) -> None:
        """Take one datagram; what is no announcement of our group is ignored."""
        self._tell(self._hearing.heard(data, self._now()))

    def _sweep(self) -> None:
        self._tell(self._hearing.advance(self._now()))
        self._timer = self._loop.call_later(self._hearing.options.keep_alive_interval / SECOND, self._sweep)

    def _tell(self, news: list[Found | Forgotten]) -> None:
        for event in news:
            if isinstance(event, Found):
                self._found(event.place)
            else:
                self._lost(event.place)


class GroupListening(_Listening):
    """Hears brokers of one group of Artemis."""

    def __init__(
        self,
        options: GroupOptions,
        loop: asyncio.AbstractEventLoop,
        found: Callable[[Endpoint], None],
        lost: Callable[[Endpoint], None],
    ) -> None:
        self._options = options
        super().__init__(loop, found, lost)
        self._hearing: groups.Hearing | None = None
        self._anybody: asyncio.Future[None] = loop.create_future()

    async def open(self, beacon: Endpoint) -> None:
        """Listen at ``beacon``, and return when somebody was heard. Raises OperatorError, Unreachable."""
        options = self._options
        heard = groups.DiscoveryGroup(
            name="client", address=beacon.host, port=beacon.port, refresh=options.refresh_timeout
        )
        self._hearing = groups.Hearing(heard, "", {})
        self._group = await listen(
            beacon.host,
            beacon.port,
            self.heard,
            interface=options.local_bind_address,
            octets_max=groups.DATAGRAM_OCTETS_MAX,
        )
        try:
            async with asyncio.timeout(options.initial_wait_timeout / SECOND):
                await self._anybody
        except asyncio.CancelledError:
            self.close()  # who asked waits no more, and knows of no socket to close
            raise
        except TimeoutError:
            self.close()
            raise Unreachable(
                f"no broker announced itself at udp://{beacon.host}:{beacon.port} "
                f"within {options.initial_wait_timeout / SECOND:g} s",
                remedy="does one have a <broadcast-group> there? raise initialWaitTimeout, or name the brokers",
            ) from None

    def heard(self, data: bytes, sender: str) -> None:
        """Take one datagram; what is no announcement is ignored."""
        if self._hearing is not None:
            self._tell(self._hearing.heard(data, self._now()))

    def _sweep(self) -> None:
        if self._hearing is not None:
            self._tell(self._hearing.advance(self._now()))

    def _tell(self, events: list[groups.Event]) -> None:
        for event in events:
            place = None if isinstance(event, groups.Twin) else _place(event.connector)
            if place is None:
                continue
            if isinstance(event, groups.Found):
                self._found(place)
                if not self._anybody.done():
                    self._anybody.set_result(None)
            else:
                self._lost(place)
        hearing = self._hearing
        if self._timer is not None:
            self._timer.cancel()
        if hearing is not None and hearing.report():
            self._timer = self._loop.call_later(max(0.01, (hearing.deadline() - self._now()) / SECOND), self._sweep)


def _place(connector: Connector) -> Endpoint | None:
    """Return where a connector that was announced is dialled; None for one that is not TCP."""
    text = place_of(connector)
    place = parse(text) if text else None
    return place if isinstance(place, Endpoint) else None
