"""Where the console asks brokers: one connection for each broker and user, many questions at a time.

A user of the console is a user of the broker: his connection is opened with his name and password, and the broker
decides about each request what he may (docs/security.md). Nothing is done in anybody else's name.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final

from entrepot.base.errors import EntrepotError, LimitExceeded, Refused, TimedOut, Unreachable, kinds
from entrepot.client.connection import Connection, connect
from entrepot.client.consumer import Browser, Consumer
from entrepot.client.management import ALONE
from entrepot.client.message import Message, Received
from entrepot.client.producer import Producer
from entrepot.client.session import Session
from entrepot.core.operators.together.whole import Whole
from entrepot.management.whole import sockets_of, whole_of

MANAGEMENT: Final = "queue://activemq.management"
PATIENCE: Final = 30.0  # s for an answer; a broker that is alive has a short one in milliseconds
OPENING: Final = 20.0  # s to connect
IDLE: Final = 300.0  # s after which a connection that nobody needs is closed
DESKS_MOST: Final = 64  # connections that the console has open at most
OPENING_MOST: Final = 64  # connections that are being opened at a time
WAITING_MOST: Final = 200  # questions under way on one of them

Key = tuple[str, str, bytes]
"""Broker, user, and a keyed hash of his password."""


class Desk:
    """One connection to one broker, as one user. `open` it first; what fails closes it."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url: Final = url
        self.user: Final = user
        self.used = time.monotonic()
        self._password: Final = password
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._producer: Producer | None = None
        self._replies = ""
        self._pump: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._asked = 0
        self._may = False  # ask: the first question waits to hear whether it may be asked, there is no answer else

    async def open(self) -> None:
        """Connect. Raises AccessDenied, Unreachable, TimedOut."""
        user = self.user or None
        connection = connect(quiet(self.url), user=user, password=self._password if user else None)
        async with asyncio.timeout(OPENING):
            try:
                await connection.open()
                self._connection = connection
                self._session = connection.session()
                self._replies = await self._session.temporary_queue()
                consumer = await connection.session().consumer(self._replies)
                self._producer = await self._session.producer()
            except BaseException:
                await self.close()
                raise
        self._pump = asyncio.create_task(self._receive(consumer))

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return (
            self._pump is not None and not self._pump.done() and bool(self._connection and self._connection.connected)
        )

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        """Return the result of an operation. Raises what the broker refused, TimedOut, Unreachable, LimitExceeded."""
        properties: dict[str, object] = {
            "_AMQ_ResourceName": resource,
            "_AMQ_OperationName": operation,
            ALONE: True,  # `Desks.whole` asks the others itself
        }
        return await self._question(properties, json.dumps(values))

    async def _question(self, properties: dict[str, object], body: str) -> Any:
        producer = self._producer
        if producer is None or not self.alive:
            raise Unreachable(f"the connection to {self.url} is lost", remedy="try again")
        if len(self._waiting) >= WAITING_MOST:
            raise LimitExceeded(f"{WAITING_MOST} questions wait for {self.url}", remedy="try again soon")
        self.used = time.monotonic()
        self._asked += 1
        number = f"{self._asked}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            message = Message(body, properties=properties, correlation_id=number, reply_to=self._replies)
            await producer.send(message, destination=MANAGEMENT, persistent=False, wait=not self._may)
            self._may = True
            async with asyncio.timeout(PATIENCE):
                return await future
        except TimeoutError:
            raise TimedOut(f"no answer came within {PATIENCE:g} s", remedy="see the log of the broker") from None
        finally:
            self._waiting.pop(number, None)

    async def send(
        self, destination: str, body: str, properties: Mapping[str, object], headers: Mapping[str, Any]
    ) -> None:
        """Send a message as this user, stored when this returns. Raises EntrepotError."""
        if self._connection is None:
            raise Unreachable(f"the connection to {self.url} is lost", remedy="try again")
        for name, value in properties.items():
            if not isinstance(value, str | int | float | None):
                raise Refused(f"the property {name[:40]!r} is neither a text nor a number nor a boolean")
        priority = headers.get("priority")
        message = Message(
            body,
            properties=dict(properties),
            correlation_id=headers.get("correlation_id"),
            reply_to=headers.get("reply_to"),
            type=headers.get("type"),
            group=headers.get("group"),
        )
        async with self._connection.session() as session, session.producer(destination) as producer:
            await producer.send(
                message,
                priority=4 if priority is None else int(priority),
                time_to_live=float(headers.get("time_to_live") or 0),
                persistent=bool(headers.get("persistent", True)),
            )

    async def receive(
        self, destination: str, selector: str, patience: float
    ) -> tuple[str | bytes, dict[str, object]] | None:
        """Take one message out of a queue; None when none comes within ``patience`` s. Raises EntrepotError."""
        if self._connection is None:
            raise Unreachable(f"the connection to {self.url} is lost", remedy="try again")
        async with (
            self._connection.session() as session,
            session.consumer(destination, selector=selector or None, prefetch=1) as consumer,
        ):
            got = await consumer.receive(timeout=patience)
            if got is None:
                return None
            body = got.body
            shown = body if isinstance(body, str | bytes) else json.dumps(body, default=str)
            facts: dict[str, object] = {"id": got.message_id, **got.properties}
            return shown, facts

    async def look(self, destination: str, selector: str) -> Look:
        """Begin to look through a queue as this user, and leave what is there. Raises EntrepotError."""
        if self._connection is None:
            raise Unreachable(f"the connection to {self.url} is lost", remedy="try again")
        session = self._connection.session()
        try:
            return Look(self, session, await session.browser(destination, selector=selector or None))
        except BaseException:
            await session.close()
            raise

    async def close(self) -> None:
        """Leave."""
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(EntrepotError, OSError, TimeoutError):
                async with asyncio.timeout(2):
                    await connection.close()
        self._fail(Unreachable(f"the connection to {self.url} is closed", remedy="try again"))

    async def _receive(self, consumer: Consumer) -> None:
        failure: EntrepotError = Unreachable(f"the connection to {self.url} is lost", remedy="try again")
        try:
            async for message in consumer:
                future = self._waiting.get(message.correlation_id or "")
                if future is not None and not future.done():
                    self._settle(future, message.body, message.properties)
        except EntrepotError as error:
            failure = error
        finally:
            self._fail(failure)

    def _settle(self, future: asyncio.Future[Any], body: object, properties: Mapping[str, object]) -> None:
        try:
            (result,) = json.loads(body if isinstance(body, str | bytes) else "")
        except ValueError:
            future.set_exception(Refused("the answer of the broker cannot be read", remedy="is it an entrepot broker?"))
            return
        if properties.get("_AMQ_OperationSucceeded"):
            future.set_result(result)
            return
        kind = kinds(EntrepotError).get(str(properties.get("entrepot_code", "")), Refused)
        future.set_exception(kind(str(result), remedy=str(properties.get("entrepot_remedy", ""))))

    def _fail(self, error: EntrepotError) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


class Look:
    """A walk through the messages of a queue, which stay where they are. `close` it."""

    def __init__(self, desk: Desk, session: Session, browser: Browser) -> None:
        self._desk: Final = desk
        self._session: Final = session
        self._browser: Final = browser

    async def messages(self) -> AsyncIterator[Received]:
        """Yield one after the other. Raises EntrepotError, TimedOut when none comes for `PATIENCE` s."""
        walk = aiter(self._browser)
        while True:
            self._desk.used = time.monotonic()  # a connection that is idle is closed, and this one is not
            try:
                async with asyncio.timeout(PATIENCE):
                    message = await anext(walk)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise TimedOut(f"no message came within {PATIENCE:g} s", remedy="see the log of the broker") from None
            yield message

    async def close(self) -> None:
        """End it."""
        with suppress(EntrepotError, OSError, TimeoutError):
            async with asyncio.timeout(2):
                await self._session.close()


class WholeDesk:
    """Where all processes of one broker are asked as one, by one user. ``url``: of the one that messages go to."""

    def __init__(self, whole: Whole, desk: Desk) -> None:
        self.whole: Final = whole
        self.desk: Final = desk
        self.url: Final = desk.url
        self.ask: Final = whole.ask
        self.send: Final = desk.send


def quiet(url: str) -> str:
    """Return ``url`` so that the console does not subscribe to advisories, which would be seen as its consumers."""
    kind = url.partition("://")[0]
    if kind not in ("tcp", "ssl", "openwire") or "watchTopicAdvisories" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}jms.watchTopicAdvisories=false"


class Desks:
    """The desks that are open.

    By broker and user; `DESKS_MOST` of them, the one that was used longest ago goes first.
    """

    def __init__(self, brokers: Mapping[str, str]) -> None:
        """``brokers``: name -> URL, in the order in which they are shown."""
        self.brokers: Final = dict(brokers)
        self._desks: dict[Key, Desk] = {}
        self._opening: dict[Key, asyncio.Task[Desk]] = {}
        self._key: Final = secrets.token_bytes(32)

    async def at(self, name: str, user: str, password: str) -> Desk:
        """Return where the broker ``name`` is asked by a user. Raises Refused, AccessDenied, Unreachable, TimedOut."""
        url = self.brokers.get(name)
        if url is None:
            raise Refused(f"there is no broker {name!r} here", remedy="there are: " + ", ".join(self.brokers))
        return await self._at(name, url, user, password)

    async def whole(self, name: str, user: str, password: str) -> WholeDesk | Desk:
        """Return where the broker is asked of which ``name`` is one process (`run --processes`); where it is asked.

        Raises as `at`. A process that cannot be asked takes nothing away from the others; see `Whole`.
        """
        desk = await self.at(name, user, password)
        try:
            facts = await desk.ask("broker", "describeAvailability")
        except Refused:  # he may not ask this: the process decides about what he asks
            return desk
        sockets = sockets_of(facts)
        if not sockets:
            return desk
        own = int(facts["process"])
        others = {number: f"unix://{path}" for number, path in enumerate(sockets) if number != own}
        opened = await asyncio.gather(
            *(self._part(url, user, password, str(facts["together"])) for url in others.values()),
            return_exceptions=True,
        )
        parts: dict[int, Desk] = {own: desk}
        failures: dict[int, str] = {}
        for number, part in zip(others, opened, strict=True):
            if isinstance(part, Desk):
                parts[number] = part
            elif isinstance(part, EntrepotError):
                failures[number] = part.message
            else:
                raise part
        ordered = {number: parts[number] for number in sorted(parts)}
        whole = whole_of(str(facts["name"]), ordered, failures, lambda number: f"unix://{sockets[number]}")
        return WholeDesk(whole, desk)

    async def _part(self, url: str, user: str, password: str, together: str) -> Desk:
        """Return where one of several processes is asked. Raises Unreachable: another broker is there."""
        desk = await self._at(url, url, user, password)
        if (await desk.ask("broker", "describeAvailability")).get("together") != together:
            raise Unreachable("another broker is there", remedy="see the log of the first process")
        return desk

    async def _at(self, name: str, url: str, user: str, password: str) -> Desk:
        key = self._key_of(name, user, password)
        desk = self._desks.get(key)
        if desk is None or not desk.alive:
            opening = self._opening.get(key)
            if opening is None:
                if len(self._opening) >= OPENING_MOST:
                    raise LimitExceeded(f"{OPENING_MOST} connections are being opened", remedy="try again soon")
                opening = asyncio.create_task(self._open(key, Desk(url, user, password)))
                self._opening[key] = opening
                opening.add_done_callback(lambda done: self._opened(key, done))
            desk = await asyncio.shield(opening)  # who goes away takes it from nobody else who waits for it
        desk.used = time.monotonic()
        return desk

    def is_open(self, name: str, user: str, password: str) -> bool:
        """Say whether a user can ask a broker at once."""
        desk = self._desks.get(self._key_of(name, user, password))
        return desk is not None and desk.alive

    async def _open(self, key: Key, desk: Desk) -> Desk:
        before = self._desks.pop(key, None)
        if before is not None:
            await before.close()
        try:
            await desk.open()
        except TimeoutError:
            raise TimedOut(f"{key[0]} does not answer within {OPENING:g} s", remedy="see its log") from None
        except OSError as error:
            raise Unreachable(f"{key[0]} does not answer: {error}", remedy="is it running?") from error
        self._desks[key] = desk
        await self._shrink()
        return desk

    def _opened(self, key: Key, done: asyncio.Task[Desk]) -> None:
        self._opening.pop(key, None)
        if not done.cancelled():
            done.exception()  # looked at: everybody who waited for it may have gone

    def _key_of(self, name: str, user: str, password: str) -> Key:
        return name, user, hmac.new(self._key, password.encode(), hashlib.sha256).digest()

    async def tidy(self) -> None:
        """Close what nobody has used for a while."""
        limit = time.monotonic() - IDLE
        for key, desk in list(self._desks.items()):
            if desk.used < limit or not desk.alive:
                del self._desks[key]
                await desk.close()

    async def close(self) -> None:
        """Close all of them."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        while self._desks:
            _, desk = self._desks.popitem()
            await desk.close()

    async def _shrink(self) -> None:
        while len(self._desks) > DESKS_MOST:
            key = min(self._desks, key=lambda one: self._desks[one].used)
            await self._desks.pop(key).close()
