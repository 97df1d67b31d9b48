"""The client of ActiveMQ's ``http:`` transport: commands posted one after the other, the broker's fetched one by one.

It stands in the place of a socket beneath a `Connection`, so a bridge and a client's connection do not know. Two
connections to the place are used, one for each direction; one that was idle for `IDLE_S` is not used again, because the
other side may be closing it at this moment (Jetty does after 30 s), and a POST must not be sent twice. Whatever goes
wrong ends the connection, as a broken socket would: who dialled dials again.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, cast

from entrepot.base.environment import MIB
from entrepot.base.errors import MalformedFrame, PeerError
from entrepot.io.connection import Connection
from entrepot.io.options import TransportOptions
from entrepot.io.polled import Unattached
from entrepot.io.turns import Turn
from entrepot.protocols.http import Answers, Field, Message, deflate, inflate
from entrepot.protocols.openwire.relay import Relay

IDLE_S: Final = 20.0
ANSWER_S: Final = 90.0  # ActiveMQ's soTimeout; a GET is answered after 30 s at the latest
LAST_WORDS_S: Final = 3.0  # for what is still to be posted when the connection closes
BODY_OCTETS_MAX: Final = 256 * MIB
HIGH_OCTETS: Final = 1 * MIB
LOW_OCTETS: Final = 256 * 1024
GZIPPED: Final = ("Content-Type", "application/x-gzip")

Opener = Callable[[Callable[[], asyncio.Protocol]], Awaitable[None]]

log: Final = logging.getLogger("entrepot.poller")


class Wire(asyncio.Protocol):
    """One connection that carries one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Final = loop
        self.transport: asyncio.Transport | None = None
        self.used = loop.time()
        self._http: Final = Answers(lambda head: BODY_OCTETS_MAX)
        self._answer: asyncio.Future[Message] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses

    def data_received(self, data: bytes) -> None:
        """Part of an answer came; b"" is the end of it all."""
        self._http.feed(data)
        try:
            answer = self._http.next()
        except PeerError as error:
            self._fail(ConnectionResetError(0, error.message))
            return
        if answer is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
        elif answer is not None:
            self._fail(ConnectionResetError(0, "an answer came that nobody asked for"))

    def eof_received(self) -> None:
        """The other side says no more: an answer without a length ends with that."""
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """It is closed."""
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError(0, f"the connection broke before the answer: {error}"))

    @property
    def usable(self) -> bool:
        """Say whether another request may go this way."""
        fresh = self.loop.time() - self.used < IDLE_S
        return fresh and self.transport is not None and not self.transport.is_closing()

    async def ask(self, method: str, path: str, host: str, fields: list[Field], body: bytes) -> Message:
        """Return the answer to a request. Raises OSError, MalformedFrame."""
        if self.transport is None:
            raise ConnectionResetError(0, "the connection is closed")
        octets = self._http.ask(method, path, host, fields, body)
        self._answer = self.loop.create_future()
        self.transport.write(octets)
        async with asyncio.timeout(ANSWER_S):
            answer = await self._answer
        self.used = self.loop.time()
        if not self._http.ready():
            self.close()
        return answer

    def close(self) -> None:
        """Use it no more."""
        if self.transport is not None:
            self.transport.close()

    def _fail(self, error: OSError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        if self.transport is not None:
            self.transport.abort()


class _Way:
    """One direction, and the connection that serves it now."""

    def __init__(self) -> None:
        self.wire: Wire | None = None


class Poller(Unattached):
    """A transport without a socket of its own: what is written to it is posted, what is fetched is received."""

    def __init__(self, turn: Turn, opener: Opener, options: TransportOptions, host: str, path: str) -> None:
        super().__init__()
        self.turn: Final = turn
        self._opener: Final = opener
        self._options: Final = options
        self._host: Final = host
        self._path: Final = path
        self._client_id: Final = ("clientID", f"ID:entrepot-{uuid.uuid4()}")
        self._relay: Final = Relay()
        self._connection: Connection | None = None
        self._fetching: Final = _Way()
        self._posting: Final = _Way()
        self._packs = False
        self._posts: deque[bytes] = deque()
        self._octets = 0
        self._full = False
        self._closing = False
        self._ended = False
        self._wanted: Final = asyncio.Event()  # there is something to post, or nothing ever again
        self._reading: Final = asyncio.Event()
        self._reading.set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, connection: Connection) -> Connection:
        """Open a session and drive ``connection`` with it. Raises OSError."""
        try:
            answer = await self._ask(self._fetching, "HEAD", self._client_id)
            if answer.status != 200:
                raise ConnectionRefusedError(0, f"it answers {_shown(answer)} instead of opening a session")
            if self._options.compressed:
                answer = await self._ask(self._fetching, "OPTIONS")
                self._packs = b"gzip" in answer.fields.get(b"accepts-encoding", b"")
        except BaseException as error:
            self._close_wires()
            if isinstance(error, MalformedFrame):
                raise ConnectionRefusedError(0, error.message) from error
            raise
        self._connection = connection
        self.beneath = self._fetching.wire.transport if self._fetching.wire is not None else None
        connection.connection_made(self)
        connection.data_received(self._relay.greeting)
        loop = self.turn.loop
        self._tasks = [loop.create_task(self._fetch()), loop.create_task(self._post())]
        return connection

    # -- a transport of its connection --------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Post it."""
        if self._closing:
            return
        for text in self._relay.to_text(bytes(data)):
            self._posts.append(text)
            self._octets += len(text)
        self._wanted.set()
        if self._octets > HIGH_OCTETS and not self._full and self._connection is not None:
            self._full = True
            self.turn.loop.call_soon(self._connection.pause_writing)

    def get_write_buffer_size(self) -> int:
        """Return how many octets are to be posted."""
        return self._octets

    def is_closing(self) -> bool:
        """Say whether it will take nothing more."""
        return self._closing

    def pause_reading(self) -> None:
        """Fetch nothing more."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Fetch again."""
        self._reading.set()

    def close(self) -> None:
        """End once everything is posted."""
        if not self._closing:
            self._closing = True
            self._wanted.set()
            self.turn.loop.call_later(LAST_WORDS_S, self._end, None)

    def abort(self) -> None:
        """End now."""
        self.turn.loop.call_soon(self._end, None)

    # -- the two directions -------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        try:
            while not self._ended:
                await self._reading.wait()
                answer = await self._ask(self._fetching, "GET", self._client_id, ("Accept-Encoding", "gzip"))
                if answer.status == 408:  # there was nothing to fetch
                    continue
                if answer.status != 200:
                    raise ConnectionResetError(0, f"a GET is answered with {_shown(answer)}")
                body = answer.body
                if answer.fields.get(b"content-encoding", b"").lower() == b"gzip":
                    body = inflate(body, BODY_OCTETS_MAX)
                if not body:
                    self._end(None)
                    return
                self._receive(body)
        except (OSError, PeerError) as error:
            self._end(error)

    def _receive(self, body: bytes) -> None:
        """Give the connection one command: a length in four octets, then its XML."""
        if int.from_bytes(body[:4], "big") != len(body) - 4:
            raise MalformedFrame(f"an answer of {len(body)} octets does not hold one command")
        frame = self._relay.to_frame(body[4:])
        if frame and self._connection is not None and not self._ended:
            self._connection.data_received(frame)

    async def _post(self) -> None:
        try:
            while not self._ended:
                await self._wanted.wait()
                if not self._posts:
                    self._wanted.clear()
                    if self._closing:
                        self._end(None)
                        return
                    continue
                text = self._posts.popleft()
                answer = await self._posted(text)
                if answer.status != 200:
                    raise ConnectionResetError(0, f"a POST is answered with {_shown(answer)}")
                self._octets -= len(text)
                if self._full and self._octets <= LOW_OCTETS and self._connection is not None:
                    self._full = False
                    self._connection.resume_writing()
        except OSError as error:
            self._end(error)

    async def _posted(self, text: bytes) -> Message:
        if self._packs and len(text) > self._options.compressed_from:
            return await self._ask(self._posting, "POST", self._client_id, GZIPPED, body=deflate(text))
        return await self._ask(self._posting, "POST", self._client_id, body=text)

    async def _ask(self, way: _Way, method: str, *fields: Field, body: bytes = b"") -> Message:
        wire = way.wire
        if wire is None or not wire.usable:
            if wire is not None:
                wire.close()
            made = wire = Wire(self.turn.loop)
            async with asyncio.timeout(ANSWER_S):
                await self._opener(lambda: made)
            way.wire = wire
            if self._ended:
                self._close_wires()
        return await wire.ask(method, self._path, self._host, list(fields), body)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self, error: Exception | None) -> None:
        if self._ended:
            return
        if error is not None:
            log.debug("%s: %s", self._host, error)
        self._ended = self._closing = True
        self._close_wires()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            self.turn.loop.call_soon(connection.connection_lost, error)

    def _close_wires(self) -> None:
        for way in (self._fetching, self._posting):
            if way.wire is not None:
                way.wire.close()


def _shown(answer: Message) -> str:
    return f"'{answer.status} {answer.reason.decode('latin-1')[:100]}'"
