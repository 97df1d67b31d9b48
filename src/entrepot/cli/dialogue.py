"""One STOMP connection for a command that waits: connect, say something, wait until it is so.

Holds the connection and what came in. Never decides what to send; never holds more messages than the session gave it
since the last wait, so a command that does not take them stops the broker.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import click

from entrepot.base.environment import SECOND, Duration
from entrepot.base.errors import InvalidURI, Refused, Unreachable
from entrepot.base.uri import Composite, Endpoint
from entrepot.base.uri import parse as parse_uri
from entrepot.cli.errors import describe_os_error
from entrepot.io.connection import Connection
from entrepot.io.options import no_option
from entrepot.io.runtime import SystemClock
from entrepot.io.tcp import dial, parse_place
from entrepot.io.turns import Turn
from entrepot.protocols.session import Session, Shell
from entrepot.protocols.stomp.client import (
    Connected,
    ConnectOptions,
    Disconnected,
    Error,
    HeartbeatLost,
    Message,
    Receipt,
    StompClient,
    Writable,
    refused,
)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL: Final = "stomp://127.0.0.1:61613"
SPOKEN: Final = ("stomp", "tcp", "auto", "ssl", "nio", "unix")
FAREWELL: Final = 30 * SECOND  # for the broker to do and store all that was sent, and to say so
PARTING: Final = 0.5  # s

LOGIN: Final = "entrepot.login"
PASSCODE: Final = "entrepot.passcode"


def _remember(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
        ctx.meta[name] = value

    return keep


def _default_url() -> str:
    from entrepot.cli.context import url_or  # noqa: PLC0415 - a command that is told the URL needs none

    return url_or(DEFAULT_URL)


def url_option(command: F) -> F:
    """Let a command be told where the broker is, as its parameter ``url``, and who asks, which `talking` finds."""
    place = click.option(
        "--url",
        envvar="ENTREPOT_URL",
        default=_default_url,
        show_default=f"the one of `entrepot context`, else {DEFAULT_URL}",
        show_envvar=True,
        help="Where the broker is: stomp://user:password@host:port, stomp+ssl://..., stomp+unix:///path, or several to "
        "try in turn: failover:(stomp://a:61613,stomp://b:61613).",
    )
    return place(who_options(command))


def who_options(command: F) -> F:
    """Let a command be told who asks, which `talking` finds, whatever brokers it asks."""
    login = click.option(
        "--login",
        envvar="ENTREPOT_LOGIN",
        show_envvar=True,
        expose_value=False,
        callback=_remember(LOGIN),
        help="User to connect as, unless the URL names one.",
    )
    passcode = click.option(
        "--passcode",
        envvar="ENTREPOT_PASSCODE",
        show_envvar=True,
        expose_value=False,
        callback=_remember(PASSCODE),
        help="His password; others on this machine can see an option, not a variable.",
    )
    return login(passcode(command))


def connect_option(command: F) -> F:
    """Let a command speak through the client of Python programs, as its parameter ``place``."""
    return click.option(
        "--connect",
        "place",
        metavar="URL",
        help="Speak CORE or OpenWire instead of STOMP, as the Python client does: core://host:61616, tcp://host:61616, "
        "(tcp://a:61616,tcp://b:61616), udp://231.7.7.7:9876, failover:(...).",
    )(command)


def credentials(endpoint: Endpoint) -> tuple[str | None, str | None]:
    """Return user and password for ``endpoint``: those that it names, else those of the command line."""
    if endpoint.user:
        return endpoint.user, endpoint.password or None
    context = click.get_current_context(silent=True)
    if context is None:
        return None, None
    return context.meta.get(LOGIN), context.meta.get(PASSCODE)


class Dialogue:
    """A connection that was accepted. ``messages`` came in and were not taken; ``unconfirmed`` receipts are awaited.

    A receipt is noted in ``unconfirmed`` with a number, which ``on_confirmed`` gets back when it has come.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.client = StompClient(Shell())
        self.messages: deque[Message] = deque()
        self.unconfirmed: dict[str, int] = {}
        self.on_confirmed: Callable[[int], None] | None = None
        self.on_identified: Callable[[str], None] | None = None  # a RECEIPT told a message id
        self.confirmed: dict[str, dict[str, str]] = {}  # answers that `ask` waits for
        self.connected: Connected | None = None
        self.ended: Disconnected | None = None
        self.refusal: Refused | None = None
        self._connection: Connection | None = None
        self._asked: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._gone = asyncio.Event()

    async def open(self, place: str, options: ConnectOptions) -> None:
        """Dial one place and introduce ourselves. Raises Unreachable, Refused, InvalidURI, InvalidOption."""
        endpoint = parse_place(place)
        for word in endpoint.scheme.split("+"):
            if word not in SPOKEN:
                raise InvalidURI(f"{word}:// is not spoken here", remedy="use stomp://host:port, with +ssl for TLS")

        def make(shell: Shell, peer: str) -> Session:
            self.client = StompClient(shell, options, self._changed.set)
            self.client.connect(self.turn.now)
            return self.client

        shown = endpoint.masked().partition("?")[0]
        try:
            self._connection = await dial(place, self.turn, make, no_option, self._lost)
        except OSError as error:
            raise Unreachable(
                f"no broker answers at {shown}: {describe_os_error(error)}",
                remedy="start one with `entrepot run`, or name another place with --url or ENTREPOT_URL",
            ) from error
        await self.until(lambda: self.connected is not None)

    async def until(self, holds: Callable[[], bool], timeout: Duration | None = None) -> bool:
        """Wait until ``holds``, looking after each event; False when ``timeout`` ns went by first.

        Raises Refused for an ERROR that the broker sent, Unreachable when the connection is lost.
        """
        clock = self.turn.loop.time
        until = None if timeout is None else clock() + timeout / SECOND
        while True:
            self._take_events()
            if self.refusal is not None:
                raise self.refusal
            if holds():
                return True
            if self.ended is not None:
                raise Unreachable(self.ended.why, remedy="see the log of the broker, and try again")
            self._changed.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
            except TimeoutError:
                return False

    async def ask(self, receipt_id: str) -> dict[str, str]:
        """Wait for one receipt and return its headers. Raises as `until`."""
        self._asked[receipt_id] = None
        await self.until(lambda: receipt_id in self.confirmed)
        return self.confirmed.pop(receipt_id)

    async def room(self, unconfirmed_max: int, patience: Duration) -> None:
        """Wait until the socket takes more and at most ``unconfirmed_max`` receipts are awaited.

        Raises Unreachable when no receipt came for ``patience`` ns, and as `until`.
        """
        await self.until(lambda: True)  # refusals and receipts that are here by now
        while not (self.client.ready and len(self.unconfirmed) <= unconfirmed_max):
            before = len(self.unconfirmed)

            def moved(before: int = before) -> bool:
                return len(self.unconfirmed) < before or (before <= unconfirmed_max and self.client.ready)

            if not await self.until(moved, patience):
                raise Unreachable(
                    f"the broker confirmed nothing for {patience / SECOND:g} s; {before} messages may be there or not",
                    remedy="it may wait for space: see its log, consume, or raise --timeout",
                )

    async def close(self) -> None:
        """Leave in order: all that was said is done when this returns. Raises as `until`."""
        self.client.disconnect()
        if not await self.until(lambda: self.ended is not None and self.ended.clean, FAREWELL):
            raise Unreachable("the broker did not confirm our leaving", remedy="see the log of the broker")
        with suppress(TimeoutError):  # both sides close; to reset the socket first would look like a fault over there
            async with asyncio.timeout(PARTING):
                await self._gone.wait()

    async def abandon(self) -> None:
        """Drop the connection, whatever its state, and wait until the socket is closed."""
        if self._connection is not None:
            self._connection.abort()
            await self._gone.wait()

    def _lost(self, connection: Connection) -> None:
        self._gone.set()
        self._changed.set()

    def _take_events(self) -> None:
        for event in self.client.events():
            match event:
                case Message():
                    self.messages.append(event)
                case Receipt(receipt_id, headers):
                    noted = self.unconfirmed.pop(receipt_id, None)
                    if noted is not None and self.on_confirmed is not None:
                        self.on_confirmed(noted)
                    if noted is not None and self.on_identified is not None:
                        self.on_identified(headers.get("message-id", ""))
                    if receipt_id in self._asked:
                        del self._asked[receipt_id]
                        self.confirmed[receipt_id] = headers
                case Error():
                    self.unconfirmed.pop(event.receipt_id, None)
                    self.refusal = refused("the broker", event.headers, event.body)
                case Connected():
                    self.connected = event
                case Disconnected():
                    self.ended = event
                case Writable() | HeartbeatLost():
                    pass


@asynccontextmanager
async def talking(
    url: str,
    *,
    client_id: str = "",
    heartbeat: Duration = 10 * SECOND,
    who: tuple[str | None, str | None] | None = None,
) -> AsyncIterator[Dialogue]:
    """Connect to the first place of ``url`` that answers; leave in order at the end, at once after an error.

    ``who``: user and password, None for whom the URL or the command line names.

    Raises InvalidURI, InvalidOption, Unreachable, Refused.
    """
    turn = Turn(asyncio.get_running_loop(), SystemClock())
    failure: Exception | None = None
    for endpoint in places(url):
        dialogue = Dialogue(turn)
        login, passcode = credentials(endpoint) if who is None else who
        options = ConnectOptions(
            host=endpoint.host or "localhost",
            login=login,
            passcode=passcode,
            client_id=client_id,
            heartbeat_send=heartbeat,
            heartbeat_receive=heartbeat,
        )
        try:
            await dialogue.open(endpoint.format(), options)
        except Unreachable as error:
            await dialogue.abandon()
            failure = failure or error
            continue
        except BaseException:
            await dialogue.abandon()
            raise
        try:
            yield dialogue
            await dialogue.close()
        finally:
            await dialogue.abandon()
        return
    raise failure or InvalidURI("the URL names no place", remedy=f"write something like {DEFAULT_URL}")


def places(url: str) -> list[Endpoint]:
    """Return the places that ``url`` names, in order. Raises InvalidURI."""
    if "://" not in url and ":(" not in url:
        url = f"stomp://{url}"  # host:port is what people type
    if "unix" in url.partition("://")[0]:
        return [parse_place(url)]
    parsed = parse_uri(url)
    return list(parsed.endpoints()) if isinstance(parsed, Composite) else [parsed]


async def in_thread(call: Callable[[], T]) -> T:
    """Do what may block (a pipe, a terminal) in a thread of its own, so that heart-beats go on.

    The thread is a daemon: a program that ends does not wait for a line that nobody will type.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        problem: BaseException | None = None
        try:
            result = call()
        except BaseException as error:
            problem = error
        try:
            loop.call_soon_threadsafe(settle, result, problem)
        except RuntimeError:  # the loop has ended, nobody waits any more
            return

    threading.Thread(target=run, daemon=True).start()
    return await future
