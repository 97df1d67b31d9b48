"""Keeps a connection's conversation on a wire: performs what `FailoverCore` decides, with real sockets and timers.

Decides nothing but when to move: not while the conversation is busy, and not later than `MOVE_PATIENCE_S`. One
`Lifeline` per connection; it owns the transports, each of which belongs to nobody or to the conversation (the one in
use). It knows no wire by name: its `Dialler` makes them.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.request
from pathlib import Path
from typing import Final, assert_never

from entrepot.base.environment import SECOND
from entrepot.base.errors import EntrepotError, OperatorError, Unreachable
from entrepot.base.uri import Endpoint, authority
from entrepot.io.connection import Connection, Turn
from entrepot.io.tcp import dial
from entrepot.protocols.conversing.port import Conversation, Dialler, Wire, WireEvents
from entrepot.protocols.failover import (
    Dial,
    Drop,
    Effect,
    FailoverCore,
    GiveUp,
    Interrupted,
    ReadAddresses,
    Updated,
    Use,
    Warn,
)
from entrepot.protocols.session import NEVER, Session, Shell

READ_TIMEOUT_S: Final = 5.0  # for the list at updateURIsURL
ADDRESSES_OCTETS_MAX: Final = 65_535
MOVE_PATIENCE_S: Final = 2.0  # for requests and transactions to end before a planned move

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


class _Transport(WireEvents):
    """One dialled or open transport, until its wire is used."""

    def __init__(self, lifeline: Lifeline, attempt: int) -> None:
        self.lifeline = lifeline
        self.attempt = attempt
        self.task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None
        self.wire: Wire | None = None

    def opened(self) -> None:
        self.lifeline.opened(self.attempt)

    def failed(self, why: str) -> None:
        self.lifeline.failed(self.attempt, why)


class Lifeline:
    """Performs effects. ``place`` is the broker in use."""

    def __init__(
        self,
        failover: FailoverCore,
        dialler: Dialler,
        turn: Turn,
        events: LifelineEvents,
    ) -> None:
        """``dialler`` makes the wires, and uses them one after another."""
        self.failover: Final = failover
        self.dialler: Final = dialler
        self.turn: Final = turn
        self.place: Endpoint | None = None
        self._events = events
        self._transports: dict[int, _Transport] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._queue: list[Effect] = []
        self._performing = False
        self._held: list[int] = []
        self._patience: asyncio.TimerHandle | None = None

    # -- what happens --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to dial."""
        self.perform(self.failover.start(self._now()))

    def opened(self, attempt: int) -> None:
        """A transport agreed on its format. It may be one to move to: that waits for a quiet moment, but not long."""
        if self.failover.current and self.dialler.busy():
            self._held.append(attempt)
            if self._patience is None:
                self._patience = self.turn.loop.call_later(MOVE_PATIENCE_S, self._release)
        else:
            self.perform(self.failover.opened(attempt, self._now()))

    def settled(self) -> None:
        """What the broker said is taken in: perhaps the quiet moment."""
        if self._held and not self.dialler.busy():
            self._release()

    def _release(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        held, self._held = self._held, []
        for attempt in held:
            self.perform(self.failover.opened(attempt, self._now()))

    def failed(self, attempt: int, why: str) -> None:
        """A transport did not open, or is lost."""
        transport = self._transports.pop(attempt, None)
        if transport is not None and transport.connection is not None:
            transport.connection.abort()
        self.perform(self.failover.failed(attempt, why, self._now()))

    def lost(self, why: str) -> None:
        """The transport in use is lost."""
        self.failed(self.failover.current, why)

    def control(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        """The broker says where to go."""
        self.perform(self.failover.control(brokers, reconnect_to, rebalance, self._now()))

    def located(self, here: str, zones: dict[str, str]) -> None:
        """The broker says in which zone it is, and others are."""
        self.perform(self.failover.located(here, zones, self._now()))

    def found(self, place: Endpoint) -> None:
        """Discovery found a broker."""
        self.perform(self.failover.add(place, self._now()))

    def vanished(self, place: Endpoint) -> None:
        """Discovery lost one."""
        self.perform(self.failover.remove(place, self._now()))

    @property
    def program(self) -> str:
        """Which program the broker in use says it is; "" without one."""
        current = self._transports.get(self.failover.current)
        return "" if current is None or current.wire is None else current.wire.program()

    async def close(self, grace: float) -> None:
        """Take leave of the broker and drop the rest; wait up to ``grace`` s for the socket to be gone."""
        current = self._transports.get(self.failover.current)
        self.perform(self.failover.close(self._now()))
        for timer in (self._timer, self._patience):
            if timer is not None:
                timer.cancel()
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

    # -- effects -------------------------------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        """Do what was decided, in order; what happens meanwhile is done afterwards."""
        self._queue += effects
        if self._performing:
            return
        self._performing = True
        try:
            while self._queue:
                self._perform(self._queue.pop(0))
        finally:
            self._performing = False
        self._arm()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Dial(attempt, place):
                transport = _Transport(self, attempt)
                self._transports[attempt] = transport
                transport.task = self._spawn(self._dial(transport, place))
            case Use(attempt, place):
                self._use(self._transports.get(attempt), place)
            case Drop(attempt):
                self._drop(attempt)
            case Interrupted(why, planned):
                self._events.interrupted(why, planned)
            case Updated(places):
                self._events.updated(places)
            case ReadAddresses(url):
                self._spawn(self._read(url))
            case Warn(rounds, why):
                log.warning("no broker after %d rounds: %s", rounds, why)
            case GiveUp(why):
                self._events.ended(Unreachable(f"no broker can be reached: {why}", remedy="is one running there?"))
            case _:
                assert_never(effect)

    def _use(self, transport: _Transport | None, place: Endpoint) -> None:
        if transport is not None and transport.wire is not None:
            self.place = place
            transport.wire.use()

    def _drop(self, attempt: int) -> None:
        transport = self._transports.pop(attempt, None)
        if transport is None:
            return
        if transport.task is not None and transport.connection is None:
            transport.task.cancel()
        wire, connection = transport.wire, transport.connection
        if wire is not None:
            wire.leave("this connection moves to another broker")
        if connection is not None:
            connection.shut("this connection moves to another broker")

    async def _dial(self, transport: _Transport, place: Endpoint) -> None:
        def make(shell: Shell, peer: str) -> Session:
            wire = transport.wire = self.dialler.dial(place, shell, self._now(), transport)
            return wire.session

        def lost(connection: Connection) -> None:
            if transport.attempt in self._transports:
                self.failed(transport.attempt, "the connection broke")

        try:
            transport.connection = await dial(place.format(), self.turn, make, self._speaks, lost)
            if transport.attempt not in self._transports:  # dropped while the handshake ended
                transport.connection.abort()
        except OperatorError as error:  # what is written wrong in a URL does not get better by trying again
            self._transports.pop(transport.attempt, None)
            self._events.ended(error)
        except OSError as error:
            self.failed(transport.attempt, f"{authority(place)}: {error.strerror or error or 'it took too long'}")

    def _speaks(self, name: str, text: str) -> bool:
        return self.dialler.speaks(name)

    async def _read(self, url: str) -> None:
        text: str | None = None
        try:
            text = await asyncio.to_thread(read_addresses, url)
        except (OSError, ValueError) as error:
            log.warning("the list of brokers at %s cannot be read: %s", url, error)
        self.perform(self.failover.addresses(text, self._now()))

    def _spawn(self, work: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.turn.loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _arm(self) -> None:
        due = self.failover.deadline()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due < NEVER:
            self._timer = self.turn.loop.call_later(max(0, due - self._now()) / SECOND, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.perform(self.failover.advance(self._now()))

    def _now(self) -> int:
        return self.turn.clock.now()


def read_addresses(url: str) -> str:
    """Return the text at ``url``, which may be a path. Raises OSError, ValueError. Blocks."""
    if "://" not in url:
        return Path(url).read_text(encoding="utf-8")
    with urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as answer:
        text: str = answer.read(ADDRESSES_OCTETS_MAX).decode()
        return text
