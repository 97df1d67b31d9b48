"""Consumers and browsers: what a program receives, and when it counts as processed."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import BinaryIO, Final, Self

from entrepot.base.environment import SECOND
from entrepot.base.errors import Refused, Unreachable
from entrepot.client.base import ConnectionBase
from entrepot.client.message import Received
from entrepot.client.opening import Closing
from entrepot.client.parts import FOR_EVER
from entrepot.client.streaming import write_body
from entrepot.protocols.conversing.content import Wish
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import Answer, ConsumerPort, DeliveryPort, SessionPort

TAKEN_IN_A_ROW: Final = 256  # then a receive gives the loop a turn, so that acknowledgements and keep-alives go out
PULL_GRACE: Final = 2.0  # s that the answer to a pull may be late


class Consumer(Closing):
    """Receives messages: `receive`, `receive_many`, or ``async for``, which ends when the consumer is closed."""

    def __init__(self, connection: ConnectionBase, mode: Acknowledge) -> None:
        self._connection: Final = connection
        self._conversation: Final = connection.conversation
        self._port: ConsumerPort | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._current: DeliveryPort | None = None
        self._automatic: Final = mode in (Acknowledge.AUTO, Acknowledge.DUPS_OK)
        self._taken = 0
        self._closed = False
        self._in_pieces = False

    async def open(self, session: SessionPort, wish: Wish, policy: RedeliveryPolicy) -> None:
        """Announce it to the broker; `Session.consumer` is what programs call."""
        self._in_pieces = wish.in_pieces

        def announce(answer: Answer) -> None:
            self._port = session.open_consumer(wish, policy, self._wake, answer)

        try:
            await self._connection.ask(announce)
        except BaseException:  # given up: what the broker delivers to it would wait here for nobody
            await self.close()
            raise

    async def receive(self, timeout: float = FOR_EVER) -> Received | None:
        """Return the next message, None when none came within ``timeout`` s. It counts as processed (AUTO, DUPS_OK).

        Raises Unreachable when the connection has ended.
        """
        self._check_whole()
        self._finish_current()
        delivery = await self._next(timeout)
        if delivery is None:
            return None
        if self._automatic:
            delivery.done()
            self._connection.soon()
        return Received(delivery, self._connection)

    async def receive_into(self, target: BinaryIO, timeout: float = FOR_EVER) -> Received | None:
        """Write the body of the next message to ``target``; None when none came within ``timeout`` s.

        For a consumer that was opened with ``in_pieces``: over CORE a large bytes message is written while it comes,
        and not held. A text is written in UTF-8. The message counts as processed (AUTO, DUPS_OK) when all is written.
        If the connection is lost before that, a part is written, Unreachable is raised, and the message comes again.
        Raises what ``target`` raises, Inexpressible for a body that is neither octets nor text; Unreachable.
        """
        if not self._in_pieces:
            raise Refused("this consumer hands messages out whole", remedy="open it with in_pieces=True")
        delivery = await self._next(timeout)
        if delivery is None:
            return None
        await write_body(self._connection, delivery, target, self._arrival)
        if self._automatic:
            delivery.done()
            self._connection.soon()
        return Received(delivery, self._connection)

    async def _arrival(self) -> None:
        """Wait until something came."""
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _check_whole(self) -> None:
        if self._in_pieces:
            raise Refused("this consumer hands bodies out in pieces", remedy="call receive_into()")

    async def receive_many(self, most: int, timeout: float = FOR_EVER) -> list[Received]:
        """Return what is there, at most ``most`` messages, waiting up to ``timeout`` s for the first. As `receive`."""
        received: list[Received] = []
        first = await self.receive(timeout)
        if first is None:
            return received
        received.append(first)
        port = self._opened()
        now = self._connection.now()
        while len(received) < most and (delivery := port.take(now)) is not None:
            if self._automatic:
                delivery.done()
            received.append(Received(delivery, self._connection))
        return received

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        """Return the next message; the one before counts as processed now (AUTO, DUPS_OK)."""
        self._check_whole()
        self._finish_current()
        self._taken += 1
        if self._taken == TAKEN_IN_A_ROW:
            self._taken = 0
            await asyncio.sleep(0)
        port = self._port
        delivery = None if port is None else port.take(self._connection.now())
        if delivery is None:
            delivery = await self._next(FOR_EVER)
            if delivery is None:
                raise StopAsyncIteration
        if self._automatic:
            self._current = delivery
        return Received(delivery, self._connection)

    async def take_ahead(self, most: int) -> list[DeliveryPort]:
        """Return what is there, at least one and at most ``most``, [] at the end; none of it counts as processed.

        For iterations that run in another thread, which tell `finished` of each.
        """
        self._check_whole()
        delivery = await self._next(FOR_EVER)
        taken: list[DeliveryPort] = []
        now = self._connection.now()
        while delivery is not None:
            taken.append(delivery)
            delivery = self._opened().take(now) if len(taken) < most else None
        return taken

    def received(self, delivery: DeliveryPort) -> Received:
        """Return ``delivery`` as programs have it; for iterations that run in another thread."""
        return Received(delivery, self._connection)

    def finished(self, delivery: DeliveryPort) -> None:
        """``delivery`` counts as processed (AUTO, DUPS_OK)."""
        if self._automatic:
            delivery.done()
            self._connection.soon()

    async def close(self) -> None:
        """Close it. What is not settled goes back to the broker; the message of a running iteration is settled."""
        if self._closed or self._port is None:
            return
        self._finish_current()
        self._closed = True
        self._port.close()
        self._wake()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._current = None  # it was not processed to the end
        await self.close()

    def _opened(self) -> ConsumerPort:
        if self._port is None:
            raise Unreachable("this consumer is not open")
        return self._port

    def _finish_current(self) -> None:
        current = self._current
        if current is not None:
            self._current = None
            current.done()
            self._connection.soon()

    async def _next(self, timeout: float) -> DeliveryPort | None:
        port = self._opened()
        connection = self._connection
        until = connection.time() + timeout
        if port.wants_pull():
            port.pull(0 if timeout == FOR_EVER else max(1, int(timeout * 1000)) if timeout > 0 else -1)
            until += PULL_GRACE
        while True:
            now = connection.now()
            delivery = port.take(now)
            if delivery is not None:
                return delivery
            if self._closed or port.exhausted:
                return None
            if port.ended:
                raise self._conversation.failure or Unreachable(port.ended)
            if port.pulled_nothing:
                port.pulled_nothing = False
                return None
            wait = until - connection.time()
            if wait <= 0 and timeout != 0:
                return None
            due = port.deadline(now)
            self._waiter = connection.loop.create_future()
            try:
                async with asyncio.timeout(min(max(wait, 0.0), max(0, due - now) / SECOND)):
                    await self._waiter
            except TimeoutError:
                if timeout == 0:
                    return port.take(connection.now())
            finally:
                self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Browser(Consumer):
    """Looks at the messages of a queue; ``async for`` ends behind the last. Brokers show a part of a long queue."""
