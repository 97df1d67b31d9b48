"""Connections dealt out to the processes of one broker in turn, where the kernel deals them out by chance.

The first one goes to process 0, the second one to process 1, and so on: what a program with several connections sees
is the same each time, and each two that it opens one after the other are at different processes.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

import ours

READ_OCTETS: Final = 1 << 16
PATIENCE_S: Final = 30.0


@contextmanager
def dealt(broker: ours.Entrepot, processes: int = 2) -> Iterator[str]:
    """Run ``broker``, which is not started, as so many processes; yields the URL at which they are dealt out."""
    ports = broker.home / "ports.json"
    broker.arguments += ("--processes", str(processes), "--ports-file", str(ports))
    broker.start().await_ready()
    try:
        sockets = Path(_facts(ports)["sockets"])
        with _dealing([sockets / f"{number}.sock" for number in range(processes)]) as port:
            yield f"tcp://127.0.0.1:{port}"
    finally:
        broker.stop()


def _facts(file: Path) -> dict[str, str]:
    """Return what the broker says of itself once all its processes are ready."""
    until = time.monotonic() + PATIENCE_S
    while not file.exists():
        assert time.monotonic() < until, "the processes are not ready"
        time.sleep(0.02)
    found = json.loads(file.read_text())
    assert isinstance(found, dict)
    return found


@contextmanager
def _dealing(paths: list[Path]) -> Iterator[int]:
    """Listen in a thread of its own; yields the port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    numbers = count()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = paths[next(numbers) % len(paths)]
        with suppress(OSError):
            there, back = await asyncio.open_unix_connection(path)
            await asyncio.gather(_pour(reader, back), _pour(there, writer))

    listening = asyncio.start_server(carry, "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(listening, loop).result(PATIENCE_S)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one direction until its end; then the other side is told."""
    with suppress(OSError):
        while octets := await reader.read(READ_OCTETS):
            writer.write(octets)
            await writer.drain()
    writer.close()
