"""Messages whose bodies are read from somewhere, or written there, in pieces, so that none is ever held whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import BinaryIO, Final

from entrepot.base.errors import Inexpressible
from entrepot.client.base import ConnectionBase
from entrepot.protocols.conversing.content import Outgoing
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.conversing.port import DeliveryPort, ProducerPort, StreamPort

Source = BinaryIO | Iterable[bytes] | AsyncIterable[bytes]
"""Where a body comes from: a file that is open for reading, or what yields octets. It is read in a thread."""

NO_MORE: Final = b""


async def send_in_pieces(connection: ConnectionBase, destination: str, outgoing: Outgoing, source: Source) -> int:
    """Send ``outgoing`` with the body that ``source`` has; return its octets when the broker has the message.

    The session is its own: what is incomplete, because ``source`` failed or somebody gave up, goes with it.
    Raises what ``source`` raises, and as `Producer.send`.
    """
    session = connection.conversation.open_session(Acknowledge.AUTO)
    try:
        made: list[ProducerPort] = []
        await connection.ask(lambda answer: made.append(session.open_producer(destination, 0, answer)))
        stream = made[0].stream(outgoing)
        return await _carried(connection, stream, source)
    finally:
        session.close()
        connection.soon()


async def _carried(connection: ConnectionBase, stream: StreamPort, source: Source) -> int:
    """Send the pieces, one read ahead: the last one is another packet."""
    octets = 0
    ahead = NO_MORE
    async for piece in _pieces(source, stream.piece_octets()):
        if ahead:
            await _ready(connection, stream)
            stream.write(ahead)
        ahead = piece
        octets += len(piece)
    await _ready(connection, stream)
    await connection.ask(lambda answer: stream.end(ahead, answer), connection.options.send_timeout)
    return octets


async def _ready(connection: ConnectionBase, stream: StreamPort) -> None:
    """Wait for credit, and while the broker reads more slowly than we write."""
    while stream.is_full():
        await connection.flowing()
    await connection.drained()


async def _pieces(source: Source, most: int) -> AsyncIterator[bytes]:
    """Yield what ``source`` has, in pieces of at most ``most`` octets, none of which is empty."""
    async for data in _read(source, most):
        view = memoryview(data)
        for at in range(0, len(view), most):
            yield bytes(view[at : at + most])


async def _read(source: Source, most: int) -> AsyncIterator[bytes]:
    if isinstance(source, AsyncIterable):
        async for data in source:
            yield data
    elif hasattr(source, "read"):
        while data := await asyncio.to_thread(source.read, most):
            yield data
    else:
        items: Iterator[bytes] = iter(source)
        while (item := await asyncio.to_thread(next, items, None)) is not None:
            yield item


async def write_body(
    connection: ConnectionBase, delivery: DeliveryPort, target: BinaryIO, arrival: Callable[[], Awaitable[None]]
) -> None:
    """Write the body of ``delivery`` to ``target``, which is written to in a thread; ``arrival``: more may have come.

    Raises what ``target`` raises, Inexpressible for a body that has no octets of its own, Unreachable.
    """
    if not delivery.comes_in_pieces():
        await asyncio.to_thread(target.write, _octets_of(delivery.body()))
        return
    try:
        while not delivery.is_whole():
            piece = delivery.piece()
            if piece:
                connection.soon()  # the credit of it goes out
                await asyncio.to_thread(target.write, piece)
            elif not delivery.is_whole():
                await arrival()
    except BaseException:
        delivery.skip()
        raise


def _octets_of(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, bytes):
        return body
    if body is None:
        return b""
    raise Inexpressible(f"a {type(body).__name__} has no octets to write", remedy="receive it without in_pieces")
