"""Doors of the brokers in this process, by name: how ``vm://name`` reaches one without a port.

A broker may live on another loop, in another thread, than who comes in; a pair of sockets joins them, so nothing else
is shared. The broker that was started last has the name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Final

_lock: Final = Lock()
_doors: Final[dict[str, list[Door]]] = {}


class Door:
    """The way into one broker. `open` when it serves, `close` when it stops."""

    def __init__(
        self, name: str, loop: asyncio.AbstractEventLoop, adopt: Callable[[socket.socket], Awaitable[None]]
    ) -> None:
        """``adopt`` serves one end of a pair of sockets, on ``loop``."""
        self.name: Final = name
        self._loop = loop
        self._adopt = adopt
        self._tasks: set[asyncio.Future[None]] = set()

    def open(self) -> None:
        """Let others in."""
        with _lock:
            _doors.setdefault(self.name, []).append(self)

    def close(self) -> None:
        """Let nobody in any more."""
        with _lock:
            mine = _doors.get(self.name, [])
            if self in mine:
                mine.remove(self)
            if not mine:
                _doors.pop(self.name, None)

    def take(self, sock: socket.socket) -> None:
        """Serve ``sock``. May be called from any thread. Raises RuntimeError when the loop is closed."""
        self._loop.call_soon_threadsafe(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        task = asyncio.ensure_future(self._adopt(sock), loop=self._loop)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def enter(name: str) -> socket.socket:
    """Return a socket whose other end the broker ``name`` serves. Raises ConnectionRefusedError when there is none."""
    with _lock:
        doors = _doors.get(name, [])
        door = doors[-1] if doors else None
    if door is None:
        raise ConnectionRefusedError(0, f"no broker called {name!r} runs in this process")
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    try:
        door.take(far)
    except RuntimeError:
        near.close()
        far.close()
        raise ConnectionRefusedError(0, f"the broker {name!r} has stopped") from None
    return near
