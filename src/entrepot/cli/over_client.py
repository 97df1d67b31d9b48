"""`entrepot send`, `receive` and `browse` with ``--connect``: over CORE or OpenWire, by the Python client."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import click

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import TimedOut
from entrepot.base.uri import parse
from entrepot.cli.dialogue import LOGIN, PASSCODE
from entrepot.cli.output import progress
from entrepot.client.connection import Connection, connect
from entrepot.client.message import Message
from entrepot.client.options import is_core
from entrepot.client.written import shown
from entrepot.config.rewriting import sync_name
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.stomp.client import AUTO, CLIENT, CLIENT_INDIVIDUAL
from entrepot.protocols.stomp.client import Message as Shown

MODES: Final = {AUTO: Acknowledge.AUTO, CLIENT: Acknowledge.CLIENT, CLIENT_INDIVIDUAL: Acknowledge.INDIVIDUAL}
BATCH: Final = 100  # written at once
ADVANCE: Final = 100  # sends that wait for their confirmations
SCHEDULED_CORE: Final = "_AMQ_SCHED_DELIVERY"
SCHEDULED: Final = "AMQ_SCHEDULED_DELAY"


def opened(place: str) -> Connection:
    """Return a connection to ``place`` for whom the command line names. Raises InvalidURI, InvalidOption."""
    context = click.get_current_context(silent=True)
    said = {} if context is None else context.meta
    return connect(place, user=said.get(LOGIN), password=said.get(PASSCODE))


def destination_of(text: str) -> str:
    """Return the destination that ``/queue/NAME`` or ``/topic/NAME`` is."""
    for kind in ("queue", "topic"):
        if text.startswith(f"/{kind}/"):
            return f"{kind}://{text.removeprefix(f'/{kind}/')}"
    return text


async def send(
    *,
    place: str,
    destination: str,
    source: AsyncIterator[tuple[str | bytes, dict[str, str]]],
    fields: dict[str, str],
    expires: Duration | None,
    timeout: Duration,
    total: int | None,
) -> int:
    """Send what ``source`` yields; return how many, when the broker has confirmed the last. Raises EntrepotError."""
    core = is_core(parse(place)) or place.startswith(("(", "udp:"))
    sent = 0
    async with (
        opened(place) as connection,
        connection.session() as session,
        session.producer(destination_of(destination)) as producer,
    ):
        with progress("sending", total) as step:
            waiting: list[asyncio.Task[None]] = []
            async for body, headers in source:
                said = {**fields, **headers}
                persistent = said.pop("persistent", "true") != "false"
                priority = said.pop("priority", None)
                waiting.append(
                    asyncio.create_task(
                        producer.send(
                            message_of(body, said, core=core),
                            persistent=persistent,
                            priority=None if priority is None else int(priority),
                            time_to_live=None if expires is None else expires / SECOND,
                            wait=True,
                        )
                    )
                )
                sent += 1
                step()
                if len(waiting) >= ADVANCE:
                    await _confirmed(waiting, timeout)
            await _confirmed(waiting, timeout)
    return sent


async def _confirmed(waiting: list[asyncio.Task[None]], timeout: Duration) -> None:
    """Wait for all of ``waiting``. Raises TimedOut."""
    try:
        async with asyncio.timeout(timeout / SECOND):
            await asyncio.gather(*waiting)
    except TimeoutError:
        raise TimedOut(f"nothing was confirmed for {timeout / SECOND:g} s; messages may be there or not") from None
    waiting.clear()


def message_of(body: str | bytes, said: dict[str, str], *, core: bool) -> Message:
    """Return a message with the headers and properties that the command line or a line of input gives."""
    properties: dict[str, object] = dict(said)
    delay = properties.pop(SCHEDULED, None)
    if delay is not None and core:
        properties[SCHEDULED_CORE] = time.time_ns() // MILLISECOND + int(str(delay))
    elif delay is not None:
        properties[SCHEDULED] = int(str(delay))
    found = {name: properties.pop(name, None) for name in ("correlation-id", "reply-to", "type", "JMSXGroupID")}
    reply = found["reply-to"]
    return Message(
        body,
        properties=properties,
        correlation_id=_text(found["correlation-id"]),
        reply_to=None if reply is None else destination_of(str(reply)),
        type=_text(found["type"]),
        group=_text(found["JMSXGroupID"]),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


async def receive(
    *,
    place: str,
    destination: str,
    selector: str,
    ack: str,
    count: int | None,
    patience: Duration | None,
    write: Callable[[list[Shown]], Awaitable[None]],
) -> int:
    """Receive up to ``count``, until nothing came for ``patience``; settle what was written; return how many."""
    received = 0
    wait = float("inf") if patience is None else patience / SECOND
    async with (
        opened(place) as connection,
        connection.session(MODES[ack]) as session,
        session.consumer(destination_of(destination), selector=selector or None) as consumer,
    ):
        with progress("receiving", count) as step:
            while count is None or received < count:
                most = BATCH if count is None else min(BATCH, count - received)
                batch = await consumer.receive_many(most, wait)
                if not batch:
                    break
                await write([shown(message) for message in batch])
                if ack != AUTO:
                    for message in batch:
                        message.acknowledge()
                received += len(batch)
                step(len(batch))
    return received


async def send_file(
    *, place: str, destination: str, file: Path, fields: dict[str, str], expires: Duration | None
) -> int:
    """Send one message whose body is ``file``, which is read while it is sent; return its octets.

    Raises EntrepotError, OSError.
    """
    said = dict(fields)
    persistent = said.pop("persistent", "true") != "false"
    priority = said.pop("priority", None)
    async with (
        opened(place) as connection,
        connection.session() as session,
        session.producer(destination_of(destination)) as producer,
    ):
        with file.open("rb") as source:
            return await producer.send_stream(
                source,
                properties=dict(said),
                persistent=persistent,
                priority=None if priority is None else int(priority),
                time_to_live=None if expires is None else expires / SECOND,
            )


async def receive_file(
    *, place: str, destination: str, selector: str, file: Path, patience: Duration | None
) -> int | None:
    """Write the body of one message to ``file`` and settle it then; return its octets, None when none came.

    ``file`` has its name when it is whole and on disk. Raises EntrepotError, OSError.
    """
    wait = float("inf") if patience is None else patience / SECOND
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")  # its own, as two may receive to one name
    async with (
        opened(place) as connection,
        connection.session(Acknowledge.INDIVIDUAL) as session,
        session.consumer(destination_of(destination), selector=selector or None, in_pieces=True) as consumer,
    ):
        try:
            with part.open("xb") as target:
                message = await consumer.receive_into(target, wait)
                octets = target.tell()
                target.flush()
                await asyncio.to_thread(os.fsync, target.fileno())
            if message is None:
                return None
            part.replace(file)
            await asyncio.to_thread(sync_name, file)
        finally:
            part.unlink(missing_ok=True)
        await message.acknowledge()
        return octets


async def browse(
    *,
    place: str,
    destination: str,
    selector: str,
    limit: int | None,
    write: Callable[[list[Shown]], Awaitable[None]],
) -> tuple[int, bool]:
    """Show what waits; return how many were shown, and whether there are more."""
    count, more = 0, False
    async with (
        opened(place) as connection,
        connection.session() as session,
        session.browser(destination_of(destination), selector=selector or None) as browser,
    ):
        batch: list[Shown] = []
        async for message in browser:
            if limit is not None and count == limit:
                more = True
                break
            batch.append(shown(message))
            count += 1
            if len(batch) == BATCH:
                await write(batch)
                batch = []
        await write(batch)
    return count, more
