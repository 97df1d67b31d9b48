"""Cables between simulated brokers: octets arrive in order, late, or never, and the ends may be told so or not.

An `End` is the shell of one session. A cable that is cut tells both ends; one that is cut silently is a black hole; one
that is deaf in one direction only is half open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from entrepot.base.environment import Duration, Instant
from entrepot.protocols.session import Session, Shell
from entrepot.simulation.world import Bell, World


class Traffic(Protocol):
    """Who counts what goes over cables."""

    def carried(self, octets: int) -> None:
        """Octets leave a machine on a cable."""


class Machine(Protocol):
    """What stands at an end of a cable: a broker's machine, or a program's."""

    name: str
    world: World

    @property
    def network(self) -> Traffic:
        """Where the machine stands."""

    def turn(self, action: Callable[[], object]) -> None:
        """Do ``action`` as one turn of the loop: what it wrote goes out. Nothing happens on a machine that is down."""

    def note(self, shell: Shell) -> None:
        """Call ``shell.flush`` at the end of this turn."""

    def end(self, delay: Duration) -> End:
        """Return this machine's end of a new cable."""
        ...


class End(Shell):
    """One end of a cable. ``deaf``: what is written here arrives nowhere, and nobody is told."""

    def __init__(self, site: Machine, delay: Duration) -> None:
        """``delay``: of everything that is written here, in ns."""
        self.site = site
        self.delay = delay
        self.session: Session | None = None
        self.other: End | None = None
        self.gone = False
        self.deaf = False
        self.bell: Final = Bell(site.world, self.ring)
        self.noted = False
        self.held: list[bytes] = []  # came while the session had not done what came before; b"" is the end
        self._clear: Instant = 0  # when what was written before has arrived: nothing overtakes when a link gets faster

    def dirty(self) -> None:
        """Ask for a flush at the end of the turn."""
        if not self.noted:
            self.noted = True
            self.site.note(self)

    def resumed(self) -> None:
        """Nothing is held back here."""

    def flush(self) -> None:
        """Send what the session wrote, and the end of the stream when it closes."""
        self.noted = False
        session, other = self.session, self.other
        if session is None or other is None or self.gone:
            return
        data = session.outgoing()
        if data:
            self._send(other, data)
        if session.closing:
            self._send(other, b"")
            self.leave("closed")
        else:
            self.arm()

    def _send(self, other: End, data: bytes) -> None:
        if self.deaf:
            return
        world = self.site.world
        self.site.network.carried(len(data))
        self._clear = max(self._clear, world.time + self.delay)
        world.later(self._clear - world.time, lambda: other.arrive(data))

    def arrive(self, data: bytes) -> None:
        """Octets have come; none are the end of the stream."""
        if self.gone or self.session is None:
            return
        if self.session.unfinished:
            self.held.append(data)
        else:
            self.site.turn(lambda: self._read(data))

    def _read(self, data: bytes) -> None:
        if self.session is not None and not self.gone:
            self.session.receive(data, self.site.world.time)
            self.dirty()

    def go_on(self) -> None:
        """Let the session do what an earlier turn left, then what has come since."""
        session = self.session
        if session is None or self.gone:
            return
        session.resume(self.site.world.time)
        while self.held and not session.unfinished:
            session.receive(self.held.pop(0), self.site.world.time)
        self.dirty()

    def leave(self, why: str) -> None:
        """This end is closed."""
        if not self.gone and self.session is not None:
            self.gone = True
            self.session.detach(why, self.site.world.time)

    def lose(self) -> None:
        """The connection breaks, and this end is told."""
        if not self.gone:
            self.site.turn(lambda: self.leave("cut"))

    def arm(self) -> None:
        """See that `ring` comes at the deadline of the session."""
        assert self.session is not None
        if not self.gone:
            self.bell.set(self.session.deadline())

    def ring(self) -> None:
        """The deadline may have come."""
        session = self.session
        if self.gone or session is None:
            return

        def advance() -> None:
            if session.deadline() <= self.site.world.time:
                session.advance(self.site.world.time)
            self.dirty()

        self.site.turn(advance)
