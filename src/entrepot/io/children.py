"""Processes that end when their standard input does, so with this one, and are started again when they die."""

from __future__ import annotations

import asyncio


class Pauses:
    """How long to wait before one that died is started again. ``deaths``: in a row, the last one included.

    ``first``: before the second start; it doubles with each death, up to ``most``, and begins anew with one that had
    lived longer than ``settled``. Seconds.
    """

    def __init__(self, first: float, most: float, settled: float) -> None:
        self.deaths = 0
        self._first = first
        self._most = most
        self._settled = settled
        self._pause = first

    def died(self, lived: float) -> float:
        """It lived so long; return the pause."""
        well = lived > self._settled
        self.deaths = 1 if well else self.deaths + 1
        self._pause = self._first if well else min(self._most, self._pause * 2)
        return self._pause


async def end(process: asyncio.subprocess.Process, within: float) -> None:
    """End ``process``: it sees that nobody holds its input any more. What does not end ``within`` seconds is killed."""
    if process.returncode is not None:
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(within):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
