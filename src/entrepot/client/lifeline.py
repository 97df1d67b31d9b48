"""A connection's lifeline in the real world: real sockets and timers for what `LifelineCore` asks."""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from pathlib import Path
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import EntrepotError, OperatorError
from entrepot.base.uri import Endpoint, authority
from entrepot.io.connection import Connection
from entrepot.io.tcp import dial
from entrepot.io.tls import trouble
from entrepot.io.turns import Turn
from entrepot.protocols.conversing.port import Conversation, Dialler
from entrepot.protocols.failover import FailoverCore
from entrepot.protocols.lifeline import LifelineCore, LifelinePort
from entrepot.protocols.session import NEVER, Session, Shell

READ_TIMEOUT_S: Final = 5.0  # for the list at updateURIsURL
ADDRESSES_OCTETS_MAX: Final = 65_535

log: Final = logging.getLogger("entrepot.client")


class ClientTurn(Turn):
    """The turns of one connection: its conversation learns the time, its consumers tell what they processed."""

    conversation: Conversation | None = None

    def opened(self) -> None:
        """Tell the time."""
        conversation = self.conversation
        if conversation is not None:
            conversation.now = self.now
            conversation.wall = self.wall

    def finishing(self) -> None:
        """Send the acknowledgements of this turn, many messages in one."""
        conversation = self.conversation
        if conversation is not None:
            conversation.settle_turn(self.now)


class LifelineEvents:
    """What the owner hears."""

    def interrupted(self, why: str, planned: bool) -> None:
        """The broker was lost, or is being left for another."""

    def updated(self, places: tuple[Endpoint, ...]) -> None:
        """The brokers announced these."""

    def ended(self, error: EntrepotError) -> None:
        """No broker can be reached any more."""


class _Transport:
    """One transport, from the dialling on."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None


class Lifeline(LifelinePort):
    """Dials, hangs up, and keeps the timer of ``core``."""

    def __init__(self, failover: FailoverCore, dialler: Dialler, turn: Turn, events: LifelineEvents) -> None:
        """``dialler`` makes the wires, and uses them one after another."""
        self.core: Final = LifelineCore(failover, dialler, self)
        self.turn: Final = turn
        self._events: Final = events
        self._transports: dict[int, _Transport] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def close(self, grace: float) -> None:
        """Take leave of the broker and drop the rest; wait up to ``grace`` s for the socket to be gone."""
        current = self._transports.get(self.core.failover.current)
        self.core.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if current is None or current.connection is None:
            return
        connection = current.connection
        connection.shut("the program closed the connection")
        until = self.turn.loop.time() + grace
        while connection.transport is not None and self.turn.loop.time() < until:
            await asyncio.sleep(0.001)
        connection.abort()

    # -- what the core asks --------------------------------------------------------------------------------------------

    def now(self) -> Instant:
        """Return the monotonic time."""
        return self.turn.clock.now()

    def dial(self, attempt: int, place: Endpoint) -> None:
        """Open a transport."""
        transport = self._transports[attempt] = _Transport()
        transport.task = self._spawn(self._dial(attempt, transport, place))

    def hang_up(self, attempt: int, why: str) -> None:
        """Close a transport."""
        transport = self._transports.pop(attempt, None)
        if transport is None:
            return
        if transport.connection is not None:
            transport.connection.shut(why)
        elif transport.task is not None:
            transport.task.cancel()

    def let_go(self, attempt: int) -> None:
        """Forget a transport."""
        transport = self._transports.pop(attempt, None)
        if transport is not None and transport.connection is not None:
            transport.connection.abort()

    def read(self, url: str) -> None:
        """Read a list of brokers."""
        self._spawn(self._read(url))

    def arm(self, due: Instant) -> None:
        """Keep the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due < NEVER:
            self._timer = self.turn.loop.call_later(max(0, due - self.now()) / SECOND, self._ring)

    def interrupted(self, why: str, planned: bool) -> None:
        """The broker was lost, or is being left."""
        self._events.interrupted(why, planned)

    def updated(self, places: tuple[Endpoint, ...]) -> None:
        """Brokers were announced."""
        self._events.updated(places)

    def warned(self, rounds: int, why: str) -> None:
        """The outage lasts."""
        log.warning("no broker after %d rounds: %s", rounds, why)

    def ended(self, error: EntrepotError) -> None:
        """There is no broker, for good."""
        self._events.ended(error)

    async def _dial(self, attempt: int, transport: _Transport, place: Endpoint) -> None:
        core = self.core

        def make(shell: Shell, peer: str) -> Session:
            return core.wire(attempt, place, shell).session

        def lost(connection: Connection) -> None:
            if core.is_wanted(attempt):
                core.failed(attempt, "the connection broke")

        try:
            transport.connection = await dial(place.format(), self.turn, make, self._speaks, lost)
            if not core.is_wanted(attempt):  # dropped while the handshake ended
                transport.connection.abort()
        except OperatorError as error:
            self._transports.pop(attempt, None)
            core.refused(attempt, error)
        except OSError as error:
            core.failed(attempt, f"{authority(place)}: {trouble(error)}")

    def _speaks(self, name: str, text: str) -> bool:
        return self.core.dialler.speaks(name)

    async def _read(self, url: str) -> None:
        text: str | None = None
        try:
            text = await asyncio.to_thread(read_addresses, url)
        except (OSError, ValueError) as error:
            log.warning("the list of brokers at %s cannot be read: %s", url, error)
        self.core.addresses(text)

    def _spawn(self, work: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.turn.loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _ring(self) -> None:
        self._timer = None
        self.core.advance()


def read_addresses(url: str) -> str:
    """Return the text at ``url``, which may be a path. Raises OSError, ValueError. Blocks."""
    if "://" not in url:
        return Path(url).read_text(encoding="utf-8")
    with urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as answer:
        text: str = answer.read(ADDRESSES_OCTETS_MAX).decode()
        return text
