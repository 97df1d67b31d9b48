"""How processes that are one broker ask one another about themselves: values of JSON over a unix socket of each.

::

    u32 length, big-endian | JSON object

What is said, and when, is decided by `core/operators/together/`; here are the sockets and the timer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from typing import Final

from entrepot.base.environment import KIB, SECOND, Clock
from entrepot.core.operators.together.line import NEVER, SILENCE, LineCore, Said
from entrepot.core.operators.together.visit import (
    ANSWER_OCTETS_MAX,
    LENGTH,
    QUESTION_OCTETS_MAX,
    Hear,
    Visit,
    content,
    frame,
)

UNREAD_OCTETS_MAX: Final = 2 * ANSWER_OCTETS_MAX  # of answers; who leaves more is cut off


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

    def _admits(self, password: str) -> bool:
        return compare_digest(password.encode("utf-8", "surrogatepass"), self._password)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visits[writer] = None
        room = asyncio.Event()

        def write(octets: bytes) -> None:
            room.set()
            _write(writer, octets)

        visit = Visit(self._admits, self._hear, write)
        try:
            async with asyncio.timeout(SILENCE / SECOND):
                first = await _read(reader, QUESTION_OCTETS_MAX)
            going = visit.heard(first)
            while going:
                said = await _read(reader, QUESTION_OCTETS_MAX)
                await writer.drain()  # nothing more is heard while answers are unread
                going = visit.heard(said)
                while visit.full:
                    room.clear()
                    await room.wait()
        except (OSError, EOFError, ValueError, RecursionError, TimeoutError):
            pass  # who dialled sees the end, and says so where it matters
        finally:
            del self._visits[writer]
            writer.transport.abort()


def _write(writer: asyncio.StreamWriter, octets: bytes) -> None:
    if writer.transport.is_closing():
        return
    writer.write(octets)
    if writer.transport.get_write_buffer_size() > UNREAD_OCTETS_MAX:
        writer.transport.abort()


class Wire:
    """The sockets and the timer of a line to the reception of another process, at ``path``."""

    def __init__(self, path: str, password: str, clock: Clock) -> None:
        self.core: Final = LineCore(self, password)
        self._path: Final = path
        self._clock: Final = clock
        self._tasks: dict[int, asyncio.Task[None]] = {}  # life -> what dials and reads
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._timer: asyncio.TimerHandle | None = None

    # -- what the line has done for it ---------------------------------------------------------------------------------

    def dial(self, life: int) -> None:
        """Connect, and hear what comes."""
        self._tasks[life] = asyncio.get_running_loop().create_task(self._live(life))

    def write(self, life: int, said: Said) -> None:
        """Say something."""
        writer = self._writers.get(life)
        if writer is not None:
            writer.write(frame(said))

    def hang_up(self, life: int) -> None:
        """End a connection."""
        writer = self._writers.pop(life, None)
        if writer is not None:
            writer.transport.abort()
        task = self._tasks.pop(life, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def wake(self) -> None:
        """Set the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.core.deadline()
        if due < NEVER:
            delay = max(0, due - self._clock.now()) / SECOND
            self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.core.advance(self._clock.now())
        self.wake()

    # -- the connection ------------------------------------------------------------------------------------------------

    async def _live(self, life: int) -> None:
        why = "it is gone"
        try:
            try:
                reader, self._writers[life] = await asyncio.open_unix_connection(self._path, limit=64 * KIB)
            except OSError as error:
                why = f"it does not answer: {error.strerror or error}"
                return
            self.core.opened(life)
            while True:
                self.core.heard(life, await _read(reader, ANSWER_OCTETS_MAX), self._clock.now())
        except (OSError, EOFError, ValueError, RecursionError):
            pass
        finally:
            self.core.lost(life, why)
            self.hang_up(life)


async def _read(reader: asyncio.StreamReader, most: int) -> Said:
    """Return the next object. Raises EOFError at the end; ValueError for what is none, or is longer than ``most``."""
    length = int.from_bytes(await reader.readexactly(LENGTH), "big")
    if length > most:
        raise ValueError(f"{length} octets are announced, and {most} allowed")
    return content(await reader.readexactly(length))
