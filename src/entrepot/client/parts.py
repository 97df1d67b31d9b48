"""What an open connection is made of: its conversation, its lifeline, its turns; and who hears them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import EntrepotError, TimedOut, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.client.discovery import GroupListening, Listening
from entrepot.client.fanout import Fanout
from entrepot.client.lifeline import ClientTurn, Lifeline, LifelineEvents
from entrepot.client.options import Reach, Target
from entrepot.client.wires import conversation_of, fan_of
from entrepot.io.runtime import SystemClock, SystemEntropy
from entrepot.protocols.conversing.port import Conversation, ConversationEvents
from entrepot.protocols.failover import FailoverCore
from entrepot.protocols.lifeline import LifelineCore
from entrepot.protocols.peers import leaves

PARTING_S: Final = 0.5  # for the broker to close after our farewell
FOR_EVER: Final = float("inf")


class Listeners:
    """What a program hears of a connection: plain functions, called in the event loop."""

    def __init__(self) -> None:
        self.on_interrupted: Callable[[str], None] | None = None
        self.on_resumed: Callable[[str], None] | None = None
        self.on_updated: Callable[[list[str]], None] | None = None
        self.on_error: Callable[[EntrepotError], None] | None = None


class Parts(ConversationEvents, LifelineEvents):
    """An open connection. `open` dials, `close` takes leave."""

    def __init__(self, listeners: Listeners, target: Target) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.turn: Final = ClientTurn(self.loop, SystemClock())
        self._listeners: Final = listeners
        entropy = SystemEntropy()
        options = target.client
        unique = f"{_host_name()}-{os.getpid()}-{self.turn.wall}-{entropy.token(4).hex()}:1"
        self.client_id: Final = options.client_id or f"{options.client_id_prefix}{unique}"
        name = f"{options.connection_id_prefix}{unique}"
        self.conversation: Final[Conversation] = conversation_of(target, name, self.client_id, self, entropy)
        self.turn.conversation = self.conversation
        self._target: Final = target
        self.lifeline: Lifeline | Fanout
        self.reach: LifelineCore | Fanout  # what is told and asked about brokers
        if target.fanout is None:
            lifeline = Lifeline(
                FailoverCore(self._first(target), target.failover, entropy, self.conversation.busy),
                self.conversation,
                self.turn,
                self,
            )
            self.lifeline, self.reach = lifeline, lifeline.core
        else:
            fan = fan_of(self.conversation, target.fanout, target)
            self.lifeline = self.reach = Fanout(target, fan, self.turn, entropy, self.ended)
        self._beacon: Listening | GroupListening | None = None
        self._settling = options.optimized_ack_scheduled_ack_interval if options.optimize_acknowledge else 0
        self._settling_timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] = self.loop.create_future()
        self._waiters: dict[asyncio.Future[None], None] = {}

    def broker(self) -> str:
        """Return the URL of the broker in use, or of the last one; credentials hidden."""
        place = self.reach.place
        return "" if place is None else place.masked()

    async def open(self, timeout: int) -> None:
        """Dial, and wait until a broker accepted us. ``timeout``: ns, 0 for ever. Raises TimedOut, or its refusal."""
        if self._target.reach is Reach.MULTICAST and self._target.beacon is not None:
            nested = self._target.nested
            self._beacon = await Listening.open(
                self._target.beacon,
                self.loop,
                lambda place: self.reach.found(place.with_options(nested)),
                self.reach.vanished,
            )
        if self._target.reach is Reach.GROUP:
            await self._hear()
        self.reach.start()
        try:
            async with asyncio.timeout(timeout / SECOND if timeout else None):
                await self._opened
        except TimeoutError:
            raise TimedOut(f"no broker accepted the connection within {timeout / SECOND:g} s") from None

    @staticmethod
    def _first(target: Target) -> tuple[Endpoint, ...]:
        """Return whom to dial, in order."""
        return target.places if target.locator is None else target.locator.order(target.places)

    async def _hear(self) -> None:
        """Listen to the group of the URL until somebody is heard. Raises Unreachable."""
        target = self._target
        if target.beacon is None or target.group is None:
            return
        heard = GroupListening(target.group, self.loop, self.reach.found, self.reach.vanished)
        self._beacon = heard
        await heard.open(target.beacon)

    def _settle_lazily(self) -> None:
        """Tell the broker what is processed (optimizedAckScheduledAckInterval), and come back."""
        self.conversation.flush()
        self._settling_timer = self.loop.call_later(self._settling / SECOND, self._settle_lazily)

    async def close(self, timeout: int) -> None:
        """Take leave of the broker, and wait for its answer for at most ``timeout`` ns; 0 is for ever."""
        if self._settling_timer is not None:
            self._settling_timer.cancel()
        if self._beacon is not None:
            self._beacon.close()
        if self.conversation.failure is None:
            left = asyncio.Event()
            self.conversation.leave(lambda error: left.set())
            try:
                async with asyncio.timeout(timeout / SECOND if timeout else None):
                    await left.wait()
            except TimeoutError:
                pass  # the broker finds out when the socket closes
        self.conversation.end(Unreachable("the program closed this connection"))
        await self.lifeline.close(PARTING_S)
        self.flowing()

    async def wait_flowing(self, timeout: float) -> None:
        """Wait until something changed that a sender may wait for. Raises TimeoutError."""
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout(None if timeout == FOR_EVER else timeout):
                await waiter
        finally:
            self._waiters.pop(waiter, None)

    # -- what the conversation and the lifeline say --------------------------------------------------------------------

    def introduced(self, first: bool) -> None:
        """A broker accepted us."""
        if first:
            if not self._opened.done():
                self._opened.set_result(None)
            if self._settling > 0:
                self._settle_lazily()
        elif self._listeners.on_resumed is not None:
            self._listeners.on_resumed(self.broker())
        self.flowing()

    def rejected(self, error: EntrepotError, first: bool) -> None:
        """A broker does not want us: fatal at first, else as if it were not there."""
        if first:
            self.ended(error)
        else:
            self.failed(error)
            self.reach.lost(str(error))

    def lost(self, why: str) -> None:
        """The wire is gone."""
        self.reach.lost(why)

    def settled(self) -> None:
        """What the broker said is taken in."""
        self.reach.settled()

    def failed(self, error: EntrepotError) -> None:
        """The broker reports an error."""
        if self._listeners.on_error is not None:
            self._listeners.on_error(error)

    def located(self, here: str, zones: dict[str, str]) -> None:
        """The broker says in which zone it is."""
        self.reach.located(here, zones)

    def directed(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        """The broker says where to go."""
        locator = self._target.locator
        if locator is not None and brokers:
            locator.learn(leaves(brokers))
        self.reach.control(brokers, reconnect_to, rebalance)

    def flowing(self) -> None:
        """Senders may try again."""
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)

    def interrupted(self, why: str, planned: bool) -> None:
        """The broker was lost, or is being left."""
        if self._listeners.on_interrupted is not None:
            self._listeners.on_interrupted(why)

    def updated(self, places: tuple[Endpoint, ...]) -> None:
        """Brokers were announced."""
        if self._listeners.on_updated is not None:
            self._listeners.on_updated([place.masked() for place in places])

    def ended(self, error: EntrepotError) -> None:
        """There is no broker, for good."""
        self.conversation.end(error)
        if not self._opened.done():
            self._opened.set_exception(error)
        self.flowing()


def _host_name() -> str:
    return "".join(letter for letter in socket.gethostname() if letter.isalnum() or letter in ".-") or "python"
