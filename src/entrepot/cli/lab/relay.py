"""A TCP relay on loopback: a link that can be cut and healed, while both brokers live."""

from __future__ import annotations

import asyncio
from typing import Final

CHUNK: Final = 65_536


class Relay:
    """Listens at ``port`` and passes everything on to ``target``; nothing while it is cut."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target: Final = target
        self.octets = 0
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def cut_off(self) -> bool:
        """Whether nothing passes."""
        return self._server is None

    async def heal(self) -> None:
        """Listen (again). Raises OSError when the port is taken."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = int(self._server.sockets[0].getsockname()[1])

    async def cut(self) -> None:
        """Break every connection, as a pulled cable that both ends notice, and refuse new ones."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        self._writers[writer] = None
        onward: asyncio.StreamWriter | None = None
        try:
            back, onward = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers[onward] = None
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, onward))
                both.create_task(self._pass(back, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, onward):
                if one is not None:
                    self._writers.pop(one, None)
                    one.transport.abort()
            self._tasks.pop(task, None)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on until one side ends, which ends both."""
        while data := await reader.read(CHUNK):
            self.octets += len(data)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
