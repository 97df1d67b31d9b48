"""Connections that speak HTTP: an upgrade to OpenWire or WebSocket, or ActiveMQ's ``http:`` transport.

What speaks HTTP is imported with the first such connection: a broker that nobody asks in HTTP does not load h11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from entrepot.core.ports import Memory
from entrepot.io.connection import Connection
from entrepot.io.turns import Turn
from entrepot.protocols.session import Session, Shell

if TYPE_CHECKING:
    from entrepot.io.polled import PolledSessions

Greeter = Callable[[Shell, str], Session]


class WebGreeter:
    """Greets for one listener. ``greet``: its greeter for OpenWire; ``frame_max``: octets of a command.

    ``carry`` makes a connection of OpenWire for a peer, None when there are as many as there may be; set it once the
    listener is there.
    """

    def __init__(self, turn: Turn, greet: Greeter, *, frame_max: int) -> None:
        self.carry: Callable[[str], Connection | None] = lambda peer: None
        self._turn: Final = turn
        self._greet: Final = greet
        self._frame_max: Final = frame_max
        self._sessions: PolledSessions | None = None
        self.socket: Greeter | None = None  # greets who asks for a WebSocket; None: nobody may

    def __call__(self, shell: Shell, peer: str) -> Session:
        """Return the session that finds out what is asked for."""
        from entrepot.protocols.tunnel import TunnelServer  # noqa: PLC0415 - see above

        socket = self.socket
        return TunnelServer(
            shell,
            lambda inner: self._greet(inner, peer),
            self._turn.now,
            partial(self._poll, peer=peer),
            sockets=None if socket is None else lambda inner: socket(inner, peer),
        )

    def _poll(self, shell: Shell, *, peer: str) -> Session:
        from entrepot.io.polled import PolledSessions  # noqa: PLC0415 - see above
        from entrepot.protocols.openwire.polling import PollSession  # noqa: PLC0415 - see above

        if self._sessions is None:
            self._sessions = PolledSessions(self._turn, self.carry, frame_max=self._frame_max)
        return PollSession(shell, self._sessions, self._turn.now, peer)


class SocketGreeter:
    """Greets who speaks WebSocket. ``inside``: who greets what may be spoken inside."""

    def __init__(self, turn: Turn, memory: Memory, inside: Mapping[str, Greeter]) -> None:
        self._turn: Final = turn
        self._memory: Final = memory
        self._inside: Final = inside

    def __call__(self, shell: Shell, peer: str) -> Session:
        """Return the session that reads the request."""
        from entrepot.protocols.websocket import WebSocketSession  # noqa: PLC0415 - see above

        makers = {name: partial(_greeted, greet, peer) for name, greet in self._inside.items()}
        return WebSocketSession(shell, makers, self._memory, self._turn.now)


def _greeted(greet: Greeter, peer: str, shell: Shell) -> Session:
    return greet(shell, peer)
