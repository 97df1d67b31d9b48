"""Streams between two sessions that are as bad as TCP may be: late, in pieces, stalled, half-closed, cut.

Order within one direction always holds and nothing is lost while a connection lives: that is what TCP promises. A cut
loses what is on its way, and the two ends may find out at different times. A pipe that holds more than its capacity
makes the session that writes into it unwritable, as a full socket does; a session that is not ``readable`` is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from entrepot.base.environment import MICROSECOND, MILLISECOND, Duration
from entrepot.protocols.session import Session, Shell
from entrepot.protocols.stomp.client import ConnectOptions, Event, StompClient
from entrepot.protocols.stomp.server import StompSession
from entrepot.simulation.machine import Machine
from entrepot.simulation.world import Bell, Lots, World

PIECES_MAX: Final = 40  # a long buffer is not read octet by octet: the world would do nothing else
SHOWN: Final = re.compile(rb"\ndestination:([^\n]+)\nmessage-id:[^\0]*?\nsim-id:([^\n]+)")


class Peer(Protocol):
    """Who sits behind a client session."""

    name: str

    def happened(self, event: Event) -> None:
        """Take one event of the session."""
        ...

    def closed(self, link: Link) -> None:
        """Both ends of ``link`` are gone."""
        ...


class Weather:
    """How a connection behaves; drawn once for each."""

    def __init__(self, lots: Lots) -> None:
        self.lots = lots
        self.delay: Duration = lots.skewed(20 * MICROSECOND, 3 * MILLISECOND)
        self.piece_max = lots.one_of((65_536, 65_536, 65_536, 1_500, 200, 20))
        self.capacity = lots.one_of((1 << 20, 65_536, 65_536, 16_384, 2_000))
        self.stalls = 0.01 if lots.chance(0.2) else 0.0
        self.beats = lots.chance(0.15)

    def piece(self, waiting: int) -> int:
        """Return how many of ``waiting`` octets are read at once."""
        return min(waiting, max(1 + self.lots.below(self.piece_max), waiting // PIECES_MAX))

    def wait(self) -> Duration:
        """Return how long the next piece takes."""
        if self.stalls and self.lots.chance(self.stalls):
            return self.lots.between(50, 700) * MILLISECOND
        return self.delay


class Pipe:
    """One direction of one connection."""

    def __init__(
        self,
        world: World,
        weather: Weather,
        receive: Callable[[bytes], None],
        readable: Callable[[], bool],
        writable: Callable[[bool], None],
    ) -> None:
        self.world = world
        self.weather = weather
        self.receive = receive
        self.readable = readable
        self.writable = writable
        self.waiting = bytearray()
        self.ended = False
        self.dead = False
        self.full = False
        self._coming = False

    def write(self, data: bytes) -> None:
        """Send ``data``; may call ``writable`` with False."""
        if self.dead:
            return
        self.waiting += data
        if not self.full and len(self.waiting) > self.weather.capacity:
            self.full = True
            self.writable(False)
        self.kick()

    def end(self) -> None:
        """Send no more: the reader gets b"" behind the rest."""
        self.ended = True
        self.kick()

    def kick(self) -> None:
        """Deliver if there is something: the reader may have become readable."""
        if not self._coming and not self.dead and (self.waiting or self.ended):
            self._coming = True
            self.world.later(self.weather.wait(), self._deliver)

    def _deliver(self) -> None:
        self._coming = False
        if self.dead or not self.readable():
            return
        if self.waiting:
            size = self.weather.piece(len(self.waiting))
            data = bytes(self.waiting[:size])
            del self.waiting[:size]
            self.receive(data)
            if self.full and len(self.waiting) <= self.weather.capacity // 4 and not self.dead:
                self.full = False
                self.writable(True)
        elif self.ended:
            self.ended = False
            self.receive(b"")
        self.kick()


class _ClientShell(Shell):
    def __init__(self, link: Link) -> None:
        self.link = link

    def resumed(self) -> None:
        self.link.inbound.kick()


class _ServerShell(Shell):
    def __init__(self, link: Link) -> None:
        self.link = link
        self.noted = False

    def dirty(self) -> None:
        if not self.noted:
            self.noted = True
            self.link.machine.loop.note(self)

    def resumed(self) -> None:
        self.link.outbound.kick()

    def go_on(self) -> None:
        self.link.go_on()

    def flush(self) -> None:
        self.link.flush_server()


class Link:
    """One connection from ``peer`` to the broker on ``machine``. ``shown``: every message that the broker wrote."""

    def __init__(self, world: World, machine: Machine, peer: Peer, options: ConnectOptions, weather: Weather) -> None:
        self.world = world
        self.machine = machine
        self.peer = peer
        self.shown: list[tuple[str, str]] = []  # (destination, simulated id)
        self.client_gone = False
        self.server_gone = False
        self._client_bell: Final = Bell(self.world, self._ring_client)
        self._server_bell: Final = Bell(self.world, self._ring_server)
        self._shell = _ServerShell(self)
        self.client = StompClient(_ClientShell(self), options)
        self.server: Session = machine.accept(self._shell, peer.name)
        self.number = machine.accepted
        self.outbound = Pipe(world, weather, self._server_receives, self._server_reads, self._client_writable)
        self.inbound = Pipe(world, weather, self._client_receives, lambda: self.client.readable, self._server_writable)
        machine.links[self.number] = self
        self._arm_server()

    # -- the client's side --------------------------------------------------------------------------------------------

    def flush_client(self) -> None:
        """Write what the client has to say; call after every verb."""
        if self.client_gone:
            return
        data = self.client.outgoing()
        while data:  # what the peer says to its events goes out as well
            self.outbound.write(data)
            self._tell()
            data = self.client.outgoing()
        if self.client.closing:
            self.outbound.end()
            self._client_ends()
        else:
            self._arm_client()

    def _tell(self) -> None:
        for event in self.client.events():
            self.peer.happened(event)

    def _client_receives(self, data: bytes) -> None:
        self.client.receive(data, self.world.time)
        self._tell()
        self.flush_client()

    def _client_writable(self, ready: bool) -> None:
        self.client.writable(ready, self.world.time)

    def _client_ends(self) -> None:
        if not self.client_gone:
            self.client_gone = True
            self.inbound.dead = True
            self.client.detach("closed", self.world.time)
            self._tell()
            if self.server_gone:
                self.peer.closed(self)

    def _arm_client(self) -> None:
        self._client_bell.set(self.client.deadline())

    def _ring_client(self) -> None:
        if not self.client_gone:
            if self.client.deadline() <= self.world.time:
                self.client.advance(self.world.time)
            self.flush_client()

    # -- the broker's side --------------------------------------------------------------------------------------------

    def flush_server(self) -> None:
        """Write what the session has; called by the machine at the end of a turn."""
        self._shell.noted = False
        if self.server_gone:
            return
        data = self.server.outgoing()
        if data:
            self._note_shown(data)
            self.inbound.write(data)
        if self.server.closing:
            self.inbound.end()
            self._server_ends("the session closed the connection")
        else:
            self._arm_server()

    def _note_shown(self, data: bytes) -> None:
        for destination, identity in SHOWN.findall(data):
            self.shown.append((destination.decode(), identity.decode()))

    def _server_reads(self) -> bool:
        return self.server.readable and not self.server.unfinished

    def go_on(self) -> None:
        """Let the server do what an earlier turn left; then it may be given more."""
        if self.server_gone:
            return
        self.server.resume(self.world.time)
        if self.server.closing:
            self._shell.dirty()
        else:
            self._arm_server()
        if not self.server.unfinished:
            self.outbound.kick()

    def _server_receives(self, data: bytes) -> None:
        if not self.server_gone:
            self.machine.turn(lambda: self._server_takes(data))

    def _server_takes(self, data: bytes) -> None:
        self.server.receive(data, self.world.time)
        if self.server.closing:
            self._shell.dirty()
        else:
            self._arm_server()

    def _server_writable(self, ready: bool) -> None:
        if self.server_gone:
            return
        if ready:
            self.machine.turn(lambda: self.server.writable(True, self.world.time))
        else:  # said inside of a write, as a real transport does
            self.server.writable(False, self.world.time)

    def _server_ends(self, why: str) -> None:
        if not self.server_gone:
            self._unsent()
            self.server.detach(why, self.world.time)  # power may fail in here: then `crashed` finds this link as it was
            self.server_gone = True
            self.outbound.dead = True
            self.machine.links.pop(self.number, None)
            if self.client_gone:
                self.peer.closed(self)

    def _unsent(self) -> None:
        """Note what the session had written and the socket never got."""
        self._note_shown(self.server.writer.getvalue())
        outflows = self.server.outlet.outflows if isinstance(self.server, StompSession) else None
        outflow = None if outflows is None else outflows.current
        while outflow is not None:
            self._note_shown(outflow.after.getvalue())
            outflow = outflow.following

    def _arm_server(self) -> None:
        self._server_bell.set(self.server.deadline())

    def _ring_server(self) -> None:
        if not self.server_gone:
            self.machine.turn(self._advance_server)

    def _advance_server(self) -> None:
        if self.server.deadline() <= self.world.time:
            self.server.advance(self.world.time)
        self._shell.dirty()

    # -- what the world does to it ------------------------------------------------------------------------------------

    def cut(self, client_after: Duration, server_after: Duration) -> None:
        """Lose what is on its way; each side finds out when its time has come."""
        self.outbound.dead = True
        self.inbound.dead = True
        self.world.later(client_after, self._client_cut)
        self.world.later(server_after, self._server_cut)

    def _client_cut(self) -> None:
        if not self.client_gone:
            self.client.detach("the connection was cut", self.world.time)
            self.flush_client()

    def _server_cut(self) -> None:
        if not self.server_gone:
            self.machine.turn(lambda: self._server_ends("the connection was cut"))

    def half_close(self) -> None:
        """The client sends no more, and goes on reading."""
        if not self.client_gone:
            self.outbound.end()

    def crashed(self) -> None:
        """The broker's process is gone; nobody detaches its sessions. The client finds out a moment later."""
        self._unsent()
        self.server_gone = True
        self.outbound.dead = True
        self.inbound.dead = True
        if self.client_gone:
            self.peer.closed(self)
        self.world.later(MILLISECOND, self._client_cut)

    def stopped(self, why: str) -> None:
        """The broker stops in order: say so, and close."""
        self.server.shut(why, self.world.time)
        data = self.server.outgoing()
        if data:
            self._note_shown(data)
            self.inbound.write(data)
        self._server_ends(why)
        self.inbound.end()
