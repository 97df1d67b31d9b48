"""Processes of ours that end when their standard input does, so with this one, however that ends."""

from __future__ import annotations

import asyncio


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
