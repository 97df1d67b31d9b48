"""Who does not ask, or does not read what he asked for, is not waited for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from entrepot.config.console import ConsolePlace
from entrepot.console import door
from entrepot.console.door import Door

PIECE = b"x" * 65_536
PIECES = 200  # more than the kernel keeps for somebody
PAUSE = 0.05  # s between two looks


async def _long(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(PIECES):
            yield PIECE

    return StreamingResponse(pieces())


async def _late(request: Request) -> Response:
    await asyncio.sleep(10 * PAUSE)
    return PlainTextResponse("well")


APP = Starlette(routes=[Route("/long", _long), Route("/late", _late)])


def served(do: Callable[[Door, int], Awaitable[None]]) -> None:
    """Run ``do`` while a door is open; it gets its port."""

    async def run() -> None:
        opened = Door(ConsolePlace(host="127.0.0.1", port=0), APP)
        await opened.open()
        serving = asyncio.create_task(opened.serve())
        await do(opened, int(opened.url.rpartition(":")[2].strip("/")))
        opened.ask_to_close()
        await serving

    asyncio.run(run())


async def asking(port: int, path: str) -> socket.socket:
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(link, ("127.0.0.1", port))
    await loop.sock_sendall(link, f"GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
    return link


async def looked(opened: Door, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(PAUSE)
        opened.end_slow()


def connections(opened: Door) -> int:
    assert opened._server is not None
    return len(opened._server.server_state.connections)


def test_an_answer_that_nobody_reads_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "UNREAD", 4 * PAUSE)

    async def do(opened: Door, port: int) -> None:
        with await asking(port, "/long"):
            await looked(opened, 3)
            assert connections(opened) == 1  # he may still read it
            await looked(opened, 5)
            assert connections(opened) == 0

    served(do)


def test_who_reads_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "UNREAD", 4 * PAUSE)

    async def do(opened: Door, port: int) -> None:
        loop = asyncio.get_running_loop()
        read = 0
        with await asking(port, "/long") as link:
            while some := await loop.sock_recv(link, 1 << 20):
                read += len(some)
                if read < 20 * len(PIECE):
                    await looked(opened, 1)
        assert read > PIECES * len(PIECE)

    served(do)


def test_who_waits_for_his_answer_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "UNREAD", PAUSE)
    monkeypatch.setattr(door, "SLOW", PAUSE)

    async def do(opened: Door, port: int) -> None:
        with await asking(port, "/late") as link:
            await looked(opened, 6)
            assert (await asyncio.get_running_loop().sock_recv(link, 100)).startswith(b"HTTP/1.1 200")

    served(do)


def test_a_request_whose_rest_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "SLOW", 2 * PAUSE)

    async def do(opened: Door, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /late HTTP/1.1\r\nHo")
        await looked(opened, 4)
        assert await reader.read() == b""
        writer.close()

    served(do)
