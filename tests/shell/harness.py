"""A session without a protocol, and a listener around it: what the shell is tested with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from entrepot.base.environment import MILLISECOND
from entrepot.io.runtime import SystemClock
from entrepot.io.tcp import Listener, Listening
from entrepot.io.turns import Turn
from entrepot.protocols.session import NEVER, STOMP, Session, Shell

PATIENCE = 5.0  # s: nothing here takes a tenth of it on an idle machine


class Echo(Session):
    """Sends back what it gets. The text of a chunk steers it: see `receive`."""

    def __init__(self, shell: Shell, peer: str) -> None:
        super().__init__(shell)
        self.peer = peer
        self.got = b""
        self.ready = True
        self.changes: list[bool] = []
        self.why = ""
        self.due = NEVER
        self.rung = 0

    def receive(self, data: bytes, now: int) -> None:
        self.got += data
        if not data:
            self.closing = True
        elif data.startswith(b"boom"):
            raise RuntimeError("planted")
        elif data.startswith(b"bye"):
            self.say(b"farewell")
            self.closing = True
        elif data.startswith(b"hold"):
            self.readable = False
        elif data.startswith(b"wake"):
            self.due = now + int(data.split()[1]) * MILLISECOND
        elif data.startswith(b"flood"):
            self.say(b"x" * int(data.split()[1]))
        else:
            self.say(data)

    def say(self, data: bytes) -> None:
        self.writer.write(data)
        self.note()

    def deadline(self) -> int:
        return self.due

    def advance(self, now: int) -> None:
        self.rung += 1
        self.due = NEVER
        self.say(b"rung")

    def writable(self, ready: bool, now: int) -> None:
        self.ready = ready
        self.changes.append(ready)

    def shut(self, why: str, now: int) -> None:
        self.say(why.encode())
        self.closing = True

    def detach(self, why: str, now: int) -> None:
        assert self.why == "", "detached twice"
        self.why = why


class Place:
    """An open listener of echo sessions."""

    def __init__(self, listener: Listener, sessions: list[Echo]) -> None:
        self.listener = listener
        self.sessions = sessions

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        path = self.listener.listening.endpoint.path
        if self.listener.listening.unix:
            return await asyncio.open_unix_connection(path)
        return await asyncio.open_connection("127.0.0.1", self.listener.port)


def no_options(name: str, text: str) -> bool:
    return False


@asynccontextmanager
async def listening(uri: str = "stomp://127.0.0.1:0") -> AsyncIterator[Place]:
    sessions: list[Echo] = []

    def greet(shell: Shell, peer: str) -> Session:
        sessions.append(Echo(shell, peer))
        return sessions[-1]

    turn = Turn(asyncio.get_running_loop(), SystemClock())
    listener = Listener(Listening(uri, no_options, [STOMP]), turn, {STOMP: greet})
    await listener.open()
    try:
        yield Place(listener, sessions)
    finally:
        listener.close()
        await listener.drain("over")
        assert not turn.waiting
        assert turn.depth == 0


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until ``condition`` holds. There is no other event to wait for in these cases."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Return everything up to the end of the stream; a reset counts as its end."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b"<reset>"


async def some_of(reader: asyncio.StreamReader, count: int) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await reader.readexactly(count)
