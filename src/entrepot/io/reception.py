"""How processes that are one broker ask one another about themselves: values of JSON over a unix socket of each.

::

    u32 length, big-endian | JSON object

The first one from who dials has the ``password`` that all processes know, and is answered by a sign of life: an empty
object. After that a question has a number, ``id``, and its answer has it too; a sign of life is answered by one. Signs
are asked for while an answer is waited for: a process that says nothing for `SILENCE` is given up, and one that works
may take as long as it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import LimitExceeded, Refused, Unreachable

LENGTH: Final = 4
QUESTION_OCTETS_MAX: Final = 1 * MIB  # arguments have 256 KiB at most, and an octet of those may become three
ANSWER_OCTETS_MAX: Final = 64 * MIB
UNREAD_OCTETS_MAX: Final = 2 * ANSWER_OCTETS_MAX  # of answers; who leaves more is cut off
WAITING_MAX: Final = 200  # questions under way over one connection
SILENCE: Final = 5.0  # s
LOOK: Final = 1.0  # s between two signs of life that are asked for

Said: TypeAlias = dict[str, Any]
Hear = Callable[[Said, Callable[[Said], None]], None]
"""Takes a question, and whom to tell the answer."""


class Reception:
    """Where one process is asked. ``hear``: see `Hear`."""

    def __init__(self, path: str, password: str, hear: Hear) -> None:
        self._path: Final = path
        self._password: Final = password.encode()
        self._hear: Final = hear
        self._server: asyncio.Server | None = None
        self._visits: dict[asyncio.StreamWriter, None] = {}

    async def open(self) -> None:
        """Listen. What an earlier run left at the path goes. Raises OSError."""
        Path(self._path).unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._visited, self._path)

    def close(self) -> None:
        """Listen no more, and hang up."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._visits):
            writer.transport.abort()
        with suppress(OSError):
            Path(self._path).unlink(missing_ok=True)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visits[writer] = None
        try:
            async with asyncio.timeout(SILENCE):
                first = await _read(reader, QUESTION_OCTETS_MAX)
            if compare_digest(str(first.get("password", "")).encode(), self._password):
                writer.write(_frame({}))
                await self._serve(reader, writer)
        except (OSError, EOFError, ValueError, RecursionError, TimeoutError):
            pass  # who dialled sees the end, and says so where it matters
        finally:
            del self._visits[writer]
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hear one question after the other; no more than `WAITING_MAX` at once, and none while answers are unread."""
        places = asyncio.Semaphore(WAITING_MAX)
        while True:
            said = await _read(reader, QUESTION_OCTETS_MAX)
            await writer.drain()
            if "id" not in said:
                writer.write(_frame({}))
                continue
            await places.acquire()
            self._hear(said, partial(_answer, writer, places, said["id"]))


def _answer(writer: asyncio.StreamWriter, places: asyncio.Semaphore, number: object, said: Said) -> None:
    places.release()
    frame = _frame({**said, "id": number})
    if len(frame) > ANSWER_OCTETS_MAX:
        told = f"the answer is longer than {ANSWER_OCTETS_MAX // MIB} MiB"
        frame = _frame({"id": number, "code": LimitExceeded.code, "message": told, "remedy": "ask for less at once"})
    if writer.transport.is_closing():
        return
    writer.write(frame)
    if writer.transport.get_write_buffer_size() > UNREAD_OCTETS_MAX:
        writer.transport.abort()


class Line:
    """A connection to the reception of another process, made when it is needed. ``ready`` comes before ``ask``."""

    def __init__(self, path: str, password: str) -> None:
        self._path: Final = path
        self._password: Final = password
        self._writer: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None
        self._sign = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Said]] = {}
        self._number = 0
        self._looking: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """See that the process is there; who asks at the same time sees it together. Raises Unreachable."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._seen())
            self._looking.add_done_callback(self._looked)
        await asyncio.shield(self._looking)

    def _looked(self, look: asyncio.Task[None]) -> None:
        self._looking = None
        if not look.cancelled():
            look.exception()  # looked at: who waited may have gone

    async def _seen(self) -> None:
        try:
            async with asyncio.timeout(SILENCE):
                await self._look()
        except TimeoutError:
            raise self._lost(f"it does not answer within {SILENCE:g} s") from None
        except OSError as error:
            raise self._lost(f"it does not answer: {error.strerror or error}") from error

    async def _look(self) -> None:
        self._sign.clear()
        if self._writer is None:
            reader, self._writer = await asyncio.open_unix_connection(self._path, limit=64 * KIB)
            self._pump = asyncio.get_running_loop().create_task(self._hear(reader, self._writer))
            self._writer.write(_frame({"password": self._password}))
        else:
            self._writer.write(_frame({}))
        await self._sign.wait()
        if self._writer is None:
            raise ConnectionResetError("it hung up")

    async def ask(self, question: Said) -> Said:
        """Return the answer. Raises Unreachable when the process is gone: it may have been done; Refused."""
        writer = self._writer
        if writer is None:
            raise Unreachable("it does not answer", remedy="try again soon")
        if len(self._waiting) >= WAITING_MAX:
            raise Refused(f"{WAITING_MAX} questions wait for another process", remedy="try again soon")
        self._number += 1
        number = self._number
        future: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            writer.write(_frame({**question, "id": number}))
            while not (await asyncio.wait([future], timeout=LOOK))[0]:
                await self.ready()
            return future.result()
        finally:
            self._waiting.pop(number, None)
            if not future.done():
                future.cancel()

    def close(self) -> None:
        """Hang up."""
        self._lost("this process ends")

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                said = await _read(reader, ANSWER_OCTETS_MAX)
                future = self._waiting.get(said.get("id", 0))
                if future is not None and not future.done():
                    future.set_result(said)
                self._sign.set()
        except (OSError, EOFError, ValueError, RecursionError):
            if self._writer is writer:
                self._lost("it is gone")

    def _lost(self, why: str) -> Unreachable:
        """Hang up, and tell who waits."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()
        pump, self._pump = self._pump, None
        if pump is not None and pump is not asyncio.current_task():
            pump.cancel()
        error = Unreachable(why, remedy="see the log")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unreachable(why, remedy="see the log"))
                future.exception()  # looked at: who waited may have gone
        self._sign.set()
        return error


def _frame(said: Said) -> bytes:
    octets = msgspec.json.encode(said)
    return len(octets).to_bytes(LENGTH, "big") + octets


async def _read(reader: asyncio.StreamReader, most: int) -> Said:
    """Return the next object. Raises EOFError at the end; ValueError for what is none, or is longer than ``most``."""
    length = int.from_bytes(await reader.readexactly(LENGTH), "big")
    if length > most:
        raise ValueError(f"{length} octets are announced, and {most} allowed")
    try:
        return msgspec.json.decode(await reader.readexactly(length), type=Said)
    except msgspec.DecodeError as error:
        raise ValueError(f"it is no object: {error}") from error
