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


class _ServerShell(Shell):
    def __init__(self, end: ServerEnd) -> None:
        self.end = end
        self.noted = False
        self.beside = True

    def dirty(self) -> None:
        if not self.noted:
            self.noted = True
            self.end.machine.loop.note(self)

    def resumed(self) -> None:
        self.end.outbound.kick()

    def go_on(self) -> None:
        self.end.go_on()

    def flush(self) -> None:
        self.end.flush()


class ServerEnd:
    """The broker's end of one connection: its session in the machine's turns. The subclass is the other end."""

    outbound: Pipe
    inbound: Pipe

    def __init__(self, world: World, machine: Machine, name: str, accept: Callable[[Shell, str], Session]) -> None:
        """``accept`` makes the session of the peer ``name``; call `serve` next."""
        self.world = world
        self.machine = machine
        self.server_gone = False
        self._shell = _ServerShell(self)
        self._bell: Final = Bell(world, self._ring)
        self.server: Session = accept(self._shell, name)
        self.number = machine.accepted

    def serve(self, outbound: Pipe, inbound: Pipe) -> None:
        """Begin: ``outbound`` leads to the session, ``inbound`` away from it."""
        self.outbound = outbound
        self.inbound = inbound
        self.machine.links[self.number] = self
        self._arm()

    # -- of the other end ----------------------------------------------------------------------------------------------

    def client_cut(self) -> None:
        """The other end finds out that the connection is gone."""
        raise NotImplementedError

    def wrote(self, data: bytes) -> None:
        """The session has written ``data``."""

    def unsent(self) -> None:
        """The session ends, or its process is gone: note what it had and the socket never got."""

    def server_ended(self) -> None:
        """The session is gone."""

    # -- turns ---------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what the session has; called by the machine at the end of a turn."""
        self._shell.noted = False
        if self.server_gone:
            return
        self._write()
        if self.server.closing:
            self.inbound.end()
            self._server_ends("the session closed the connection")
        else:
            self._arm()

    def _write(self) -> None:
        data = self.server.outgoing()
        if data:
            self.wrote(data)
            self.inbound.write(data)

    def server_reads(self) -> bool:
        """Return whether the session takes more."""
        return self.server.readable and not self.server.unfinished

    def go_on(self) -> None:
        """Let the session do what an earlier turn left; then it may be given more."""
        if self.server_gone:
            return
        self.server.resume(self.world.time)
        if self.server.closing:
            self._shell.dirty()
        else:
            self._arm()
        if not self.server.unfinished:
            self.outbound.kick()

    def server_receives(self, data: bytes) -> None:
        """Give it ``data``, in a turn."""
        if not self.server_gone:
            self.machine.turn(lambda: self._takes(data))

    def _takes(self, data: bytes) -> None:
        self.server.receive(data, self.world.time)
        if self.server.closing:
            self._shell.dirty()
        else:
            self._arm()

    def server_writable(self, ready: bool) -> None:
        """Tell it whether the pipe takes more."""
        if self.server_gone:
            return
        if ready:
            self.machine.turn(lambda: self.server.writable(True, self.world.time))
        else:  # said inside of a write, as a real transport does
            self.server.writable(False, self.world.time)

    def _server_ends(self, why: str) -> None:
        if not self.server_gone:
            self.unsent()
            self.server.detach(why, self.world.time)  # power may fail in here: then `crashed` finds this as it was
            self.server_gone = True
            self.outbound.dead = True
            self.machine.links.pop(self.number, None)
            self.server_ended()

    def _arm(self) -> None:
        self._bell.set(self.server.deadline())

    def _ring(self) -> None:
        if not self.server_gone:
            self.machine.turn(self._advance)

    def _advance(self) -> None:
        if self.server.deadline() <= self.world.time:
            self.server.advance(self.world.time)
        self._shell.dirty()

    # -- what the world does to it -------------------------------------------------------------------------------------

    def cut(self, client_after: Duration, server_after: Duration) -> None:
        """Lose what is on its way; each side finds out when its time has come."""
        self.outbound.dead = True
        self.inbound.dead = True
        self.world.later(client_after, self.client_cut)
        self.world.later(server_after, self._server_cut)

    def _server_cut(self) -> None:
        if not self.server_gone:
            self.machine.turn(lambda: self._server_ends("the connection was cut"))

    def crashed(self) -> None:
        """The broker's process is gone; nobody detaches its sessions. The other end finds out a moment later."""
        self.unsent()
        self.server_gone = True
        self.outbound.dead = True
        self.inbound.dead = True
        self.server_ended()
        self.world.later(MILLISECOND, self.client_cut)

    def stopped(self, why: str) -> None:
        """The broker stops in order: say so, and close."""
        self.server.shut(why, self.world.time)
        self._write()
        self._server_ends(why)
        self.inbound.end()


class _ClientShell(Shell):
    def __init__(self, link: Link) -> None:
        self.link = link

    def resumed(self) -> None:
        self.link.inbound.kick()


class Link(ServerEnd):
    """One connection from ``peer`` to the broker on ``machine``. ``shown``: every message that the broker wrote."""

    def __init__(self, world: World, machine: Machine, peer: Peer, options: ConnectOptions, weather: Weather) -> None:
        self.peer = peer
        self.shown: list[tuple[str, str]] = []  # (destination, simulated id)
        self.client_gone = False
        self._client_bell: Final = Bell(world, self._ring_client)
        self.client = StompClient(_ClientShell(self), options)
        super().__init__(world, machine, peer.name, machine.accept)
        self.serve(
            Pipe(world, weather, self.server_receives, self.server_reads, self._client_writable),
            Pipe(world, weather, self._client_receives, lambda: self.client.readable, self.server_writable),
        )

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

    def wrote(self, data: bytes) -> None:
        """Note every message in it."""
        for destination, identity in SHOWN.findall(data):
            self.shown.append((destination.decode(), identity.decode()))

    def unsent(self) -> None:
        """Note the messages in it."""
        self.wrote(self.server.writer.getvalue())
        outflows = self.server.outlet.outflows if isinstance(self.server, StompSession) else None
        outflow = None if outflows is None else outflows.current
        while outflow is not None:
            self.wrote(outflow.after.getvalue())
            outflow = outflow.following

    def server_ended(self) -> None:
        """Tell the peer when both ends are gone."""
        if self.client_gone:
            self.peer.closed(self)

    # -- what the world does to it ------------------------------------------------------------------------------------

    def client_cut(self) -> None:
        """The client finds out."""
        if not self.client_gone:
            self.client.detach("the connection was cut", self.world.time)
            self.flush_client()

    def half_close(self) -> None:
        """The client sends no more, and goes on reading."""
        if not self.client_gone:
            self.outbound.end()
