"""Two sessions back to back: what one writes the other reads, with no socket, no clock and no thread.

Feeding one octet at a time must give the same events as feeding all at once, so tests take ``chunk`` as a parameter.
Time stands still unless `Pair.advance` moves it, from deadline to deadline.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import Duration, Instant
from entrepot.protocols.session import NEVER, Session

TURNS_MAX = 100_000  # two sessions that still talk after so many turns will never stop


class _End:
    """One of the two, and what is on its way to it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.arriving = bytearray()
        self.ended = False  # the other side has closed
        self.gone = False  # detached

    def deliver(self, chunk: int, now: Instant) -> bool:
        """Let the session read; return whether it did."""
        read = False
        while self.arriving and self.session.readable and not self.session.closing:
            size = chunk or len(self.arriving)
            data = bytes(self.arriving[:size])
            del self.arriving[:size]
            self.session.receive(data, now)
            read = True
        if self.ended and not self.arriving and not self.session.closing and self.session.readable:
            self.ended = False
            self.session.receive(b"", now)
            read = True
        return read


class Pair:
    """Joins two sessions. ``settle`` runs in each turn: for a server, let its journal write and confirm."""

    def __init__(
        self,
        client: Session,
        server: Session,
        *,
        chunk: int = 0,
        now: Instant = 0,
        settle: Callable[[Instant], None] = lambda now: None,
    ) -> None:
        self.now = now
        self.chunk = chunk
        self.settle = settle
        self.sent: dict[Session, bytearray] = {client: bytearray(), server: bytearray()}
        self._ends = (_End(client), _End(server))

    def run(self) -> None:
        """Carry octets both ways until both sides are quiet."""
        for _ in range(TURNS_MAX):
            self.settle(self.now)
            moved = False
            for near, far in (self._ends, self._ends[::-1]):
                moved = self._write(near, far) or moved
                moved = far.deliver(self.chunk, self.now) or moved
            if not moved:
                return
        raise AssertionError(f"the two still talk after {TURNS_MAX} turns")

    def advance(self, duration: Duration) -> None:
        """Let time pass, stopping at each deadline on the way."""
        until = self.now + duration
        self.run()
        for _ in range(TURNS_MAX):
            due = min((end.session.deadline() for end in self._ends if not end.gone), default=NEVER)
            if due > until:
                break
            self.now = max(self.now, due)
            for end in self._ends:
                if not end.gone and end.session.deadline() <= self.now:
                    end.session.advance(self.now)
            self.run()
        else:
            raise AssertionError("a deadline is always in the past")
        self.now = until
        self.run()

    def cut(self, why: str = "the cable was cut") -> None:
        """Lose the connection and what is on its way."""
        for end in self._ends:
            self._detach(end, why)

    def _write(self, near: _End, far: _End) -> bool:
        if near.gone:
            return False
        data = near.session.outgoing()
        self.sent[near.session] += data
        if not far.gone:
            far.arriving += data
        if near.session.closing:
            far.ended = True
            self._detach(near, "closed")
            return True
        if far.gone:
            self._detach(near, "the peer closed the connection")
            return True
        return bool(data)

    def _detach(self, end: _End, why: str) -> None:
        if not end.gone:
            end.gone = True
            end.arriving.clear()
            end.session.detach(why, self.now)
