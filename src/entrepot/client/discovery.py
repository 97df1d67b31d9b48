"""Brokers that announce themselves, heard by a client: ``discovery:(multicast://default)`` (classic.md 1.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from entrepot.base.environment import SECOND, Instant
from entrepot.base.settings import Dialect
from entrepot.base.uri import NO_PORT, Endpoint
from entrepot.io.datagram import Group, join
from entrepot.protocols.announcement import (
    MULTICAST_HOST,
    MULTICAST_PORT,
    Forgotten,
    Found,
    Hearing,
    MulticastOptions,
)


class Listening:
    """Hears brokers of one group and tells who is found and who is lost."""

    def __init__(
        self,
        options: MulticastOptions,
        loop: asyncio.AbstractEventLoop,
        found: Callable[[Endpoint], None],
        lost: Callable[[Endpoint], None],
    ) -> None:
        self._hearing = Hearing(options, lambda place: place)
        self._loop = loop
        self._found = found
        self._lost = lost
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
        host = MULTICAST_HOST if beacon.host in ("", "default") else beacon.host
        port = MULTICAST_PORT if beacon.port == NO_PORT else beacon.port
        interface = options.address
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
        self._tell(self._hearing.heard(data, self._now()))

    def _sweep(self) -> None:
        self._tell(self._hearing.advance(self._now()))
        self._timer = self._loop.call_later(self._hearing.options.keep_alive_interval / SECOND, self._sweep)

    def _now(self) -> Instant:
        return int(self._loop.time() * SECOND)

    def _tell(self, news: list[Found | Forgotten]) -> None:
        for event in news:
            if isinstance(event, Found):
                self._found(event.place)
            else:
                self._lost(event.place)
