"""Connections of the broker that have no socket of their own: the sessions of ActiveMQ's ``http:`` transport.

An OpenWire session is driven by the same `Connection` as on a socket, so that its listener counts it, a console sees
it and a stop ends it; in place of a socket it has an `Exchange`, from which requests take what it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from entrepot.base.environment import MIB
from entrepot.base.machines import machine_of
from entrepot.io.connection import Connection
from entrepot.io.turns import Turn
from entrepot.protocols.openwire.polling import Exchange, Exchanges, Inner
from entrepot.protocols.session import Shell

TEXT_FACTOR: Final = 2  # a command in XML is 4/3 of its octets, and its names
FRAME_OCTETS_MAX: Final = 100 * MIB  # where the connector has no limit of its own

Carry = Callable[[str], Connection | None]
"""Makes a connection of OpenWire for a peer; None when there are as many as there may be."""


class Unattached(asyncio.Transport):
    """What a connection writes to that has no socket. Its owner overrides what it wants to know."""

    def __init__(self, beneath: asyncio.BaseTransport | None = None) -> None:
        """``beneath``: the transport that is asked for names and certificates."""
        super().__init__()
        self.beneath = beneath

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return what the socket beneath knows."""
        return default if self.beneath is None else self.beneath.get_extra_info(name, default)

    def can_write_eof(self) -> bool:
        """Say that it cannot be closed by halves."""
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Its owner has limits of its own."""


class ExchangeTransport(Unattached, Inner):
    """One session: a transport for its connection, and a session for its exchange."""

    def __init__(self, turn: Turn, connection: Connection, ended: Callable[[], None], body_max: int) -> None:
        super().__init__()
        self.turn = turn
        self.connection = connection
        self.ended = ended
        self.exchange: Final = Exchange(self, body_max=body_max)

    def begin(self, beneath: asyncio.BaseTransport | None) -> None:
        """Let the session greet, and be greeted."""
        self.beneath = beneath
        self.connection.connection_made(self)
        self.connection.data_received(self.exchange.relay.greeting)

    # -- a transport of its connection --------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Let requests take it."""
        self.exchange.written(bytes(data), self.turn.now)

    def get_write_buffer_size(self) -> int:
        """Return how many octets wait for requests."""
        return self.exchange.octets

    def is_closing(self) -> bool:
        """Say whether it will take nothing more."""
        return self.exchange.closing

    def pause_reading(self) -> None:
        """Answer POSTs no more."""
        self.exchange.hold(True, self.turn.now)

    def resume_reading(self) -> None:
        """Answer them."""
        self.turn.run(lambda: self.exchange.hold(False, self.turn.now))

    def close(self) -> None:
        """End once requests have taken everything."""
        self.turn.run(lambda: self.exchange.close(self.turn.now))

    def abort(self) -> None:
        """End now."""
        self.turn.run(lambda: self.exchange.end("it was broken off", self.turn.now))

    # -- what its exchange asks ---------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Give the session a command."""
        self.connection.data_received(data)

    def writable(self, ready: bool) -> None:
        """Tell the session whether its client takes what it is sent, not in the middle of its writing."""
        self.turn.loop.call_soon(self.connection.resume_writing if ready else self.connection.pause_writing)

    def lost(self, why: str) -> None:
        """The session is over; its connection hears of it in a turn of its own."""
        self.ended()
        self.turn.loop.call_soon(self.connection.connection_lost, None)


class PolledSessions(Exchanges):
    """The sessions of one listener, whose ``carry`` it is."""

    def __init__(self, turn: Turn, carry: Carry, *, frame_max: int) -> None:
        self.turn: Final = turn
        self.carry: Final = carry
        self._body_max: Final = TEXT_FACTOR * min(frame_max, FRAME_OCTETS_MAX)
        self._open: dict[bytes, Exchange] = {}

    def open(self, client_id: bytes, peer: str, shell: Shell) -> str:
        """Open one; return why not, or ""."""
        if client_id in self._open:
            return "a session of this clientID is open already"
        connection = self.carry(peer)
        if connection is None:
            return "this listener admits no more connections"
        made = ExchangeTransport(self.turn, connection, partial(self._forget, client_id), self._body_max)
        made.exchange.machine = machine_of(peer)
        self._open[client_id] = made.exchange
        made.begin(shell.transport if isinstance(shell, Connection) else None)
        return ""

    def _forget(self, client_id: bytes) -> None:
        del self._open[client_id]

    def find(self, client_id: bytes) -> Exchange | None:
        """Return one that is open."""
        return self._open.get(client_id)
