"""Sessions and what they open: producers, consumers, browsers, transactions, requests with a reply.

One task at a time uses a session, as in JMS: its transactions and acknowledgements are about an order of events.
Destinations are texts: ``queue://A``, ``topic://B``, ``temp-queue://...``; a bare name is a queue. Options of a
consumer may follow, as in Java: ``queue://A?consumer.prefetchSize=10``. Times are in seconds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from entrepot.base.environment import KIB, SECOND
from entrepot.base.errors import EntrepotError, InvalidDestination, InvalidOption, TimedOut, Unreachable
from entrepot.client.branch import Xid
from entrepot.client.message import DEFAULT_PRIORITY, Body, Message, Received, compose
from entrepot.protocols.openwire.bodies import pack_properties
from entrepot.protocols.openwire.commands import ConsumerInfo, Destination, ExceptionResponse, Response
from entrepot.protocols.openwire.consumption import Acknowledge, Delivery, Inbox, RedeliveryPolicy
from entrepot.protocols.openwire.conversation import Answer, ConsumerRecord, ProducerRecord, SessionRecord
from entrepot.protocols.openwire.ids import QUALIFIERS, DestinationKind, is_queue, parse_destination, qualified_name

if TYPE_CHECKING:
    from entrepot.client.connection import Connection

OUTPUT_OCTETS: Final = 64 * KIB  # sends give the loop a turn when so much waits to be written
LIKE_A_KIND: Final = re.compile(r"[A-Za-z-]+://")
TAKEN_IN_A_ROW: Final = 256  # and receives after so many, so that acknowledgements and keep-alives go out
PULL_GRACE: Final = 2.0  # s that the answer to a pull may be late
FOR_EVER: Final = float("inf")

A = TypeVar("A")
T = TypeVar("T", bound="Closing")


class Closing:
    """Something that is opened, used and closed."""

    async def close(self) -> None:
        """Close it. Does nothing the second time."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Opening(Generic[T]):
    """What is being opened: ``await`` it, or use it in ``async with``, which also closes it."""

    def __init__(self, open: Callable[[], Awaitable[T]]) -> None:
        self._open = open
        self._opened: T | None = None

    def __await__(self) -> Generator[object, None, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)


class Session(Closing):
    """One order of events on a connection. ``mode`` says when messages count as processed."""

    def __init__(self, connection: Connection, mode: Acknowledge, policies: dict[str, RedeliveryPolicy]) -> None:
        self._connection: Final = connection
        self._policies = policies
        self.mode: Final = mode
        self._core: Final = connection.core
        self._record: SessionRecord = self._core.open_session(mode)
        self._closed = False
        self._requester: _Requester | None = None

    def producer(self, destination: str | None = None, *, window: int | None = None) -> Opening[Producer]:
        """Open a producer to ``destination``, or one that is told with each message where it goes.

        ``window``: octets that may be under way when sends are not confirmed, default ``jms.producerWindowSize``.
        Raises AccessDenied, InvalidDestination, Unreachable.
        """
        return Opening(lambda: self._open_producer(destination, window))

    def consumer(
        self,
        destination: str,
        *,
        selector: str | None = None,
        durable: str | None = None,
        no_local: bool = False,
        exclusive: bool | None = None,
        retroactive: bool | None = None,
        priority: int = 0,
        prefetch: int | None = None,
        redelivery: RedeliveryPolicy | None = None,
    ) -> Opening[Consumer]:
        """Open a consumer.

        ``durable``: name of the subscription to a topic that outlives the connection, which needs a client id.
        ``no_local``: not what this connection sends. ``prefetch``: messages under way, 0 to fetch each. ``redelivery``:
        default the policy that the connection has for the destination.
        Raises AccessDenied, InvalidDestination, InvalidSelector, SubscriptionInUse, Unreachable.
        """
        info, where = self._describe(destination, browser=False, durable=durable is not None)
        info.selector = selector
        info.subscription_name = durable
        info.no_local = no_local or info.no_local
        info.priority = priority or info.priority
        if exclusive is not None:
            info.exclusive = exclusive
        if retroactive is not None:
            info.retroactive = retroactive
        if prefetch is not None:
            info.prefetch_size = prefetch
        policy = redelivery or self._policies.get(where) or self._connection.redelivery_policy(where)
        return Opening(lambda: self._open_consumer(info, policy))

    def browser(self, destination: str, *, selector: str | None = None) -> Opening[Browser]:
        """Open a look at what waits in a queue; nothing is taken out. Raises as `consumer`."""
        info, _ = self._describe(destination, browser=True, durable=False)
        info.selector = selector
        return Opening(lambda: self._open_browser(info))

    async def commit(self) -> None:
        """Commit what this session sent and received. Raises TransactionRolledBack: nothing of it counts."""
        await self._connection.ask(lambda answer: self._connection.core.commit(self._record, answer))

    async def rollback(self) -> None:
        """Undo what this session sent; what it received is handed out again after the redelivery delay."""
        core = self._connection.core
        await self._connection.ask(lambda answer: core.roll_back(self._record, self._connection.now(), answer))
        self._wake()

    async def begin_branch(self, xid: Xid) -> None:
        """Let all that this session sends and receives from now on belong to a branch of a distributed transaction.

        The session is TRANSACTED. The other steps are those of the coordinator: `Connection.prepare` and its like.
        Raises TransactionError when the session has a transaction that is not ended.
        """
        self._connection.core.begin_branch(self._record, xid.wire())

    async def end_branch(self, xid: Xid) -> None:
        """End the session's work for a branch; what it received is settled with that. Raises TransactionError."""
        branch_id = xid.wire()
        await self._connection.ask(lambda answer: self._connection.core.end_branch(self._record, branch_id, answer))

    def transaction(self) -> TransactionScope:
        """Return what commits at the end of ``async with``, or rolls back when that ends with an error."""
        return TransactionScope(self)

    def acknowledge(self) -> None:
        """Settle all that was received (CLIENT)."""
        for record in self._record.consumers.values():
            record.inbox.acknowledge_all()

    def recover(self) -> None:
        """Have what was received and not settled handed out again after the redelivery delay (CLIENT, INDIVIDUAL)."""
        for record in self._record.consumers.values():
            record.inbox.roll_back(self._connection.now())
        self._wake()

    async def temporary_queue(self) -> str:
        """Make a queue that lives as long as this connection, and that only this connection may consume from."""
        return await self._connection.add_temporary(DestinationKind.TEMPORARY_QUEUE)

    async def temporary_topic(self) -> str:
        """Make a topic of that kind."""
        return await self._connection.add_temporary(DestinationKind.TEMPORARY_TOPIC)

    async def request(self, destination: str, message: Message | Body, *, timeout: float = FOR_EVER) -> Received:
        """Send ``message`` and return the reply to it. Raises TimedOut, and as `Producer.send`.

        The reply comes to a temporary queue of this session and is told by its correlation id. Not in a transaction.
        """
        if self._requester is None:
            self._requester = await _Requester.open(self)
        return await self._requester.request(destination, message, timeout)

    async def close(self) -> None:
        """Close it with all that it opened; an open transaction is rolled back."""
        if not self._closed:
            self._closed = True
            self._core.close_session(self._record)

    def _describe(self, text: str, *, browser: bool, durable: bool) -> tuple[ConsumerInfo, str]:
        name, _, query = text.partition("?")
        where = _destination(name)
        options = self._connection.options
        queue = is_queue(where)
        prefetch = options.queue_prefetch
        if browser:
            prefetch = options.queue_browser_prefetch
        elif not queue:
            prefetch = options.topic_prefetch
            if durable:
                lazily = options.optimize_acknowledge and self.mode is Acknowledge.AUTO
                prefetch = options.optimize_durable_topic_prefetch if lazily else options.durable_topic_prefetch
        if options.all_prefetch >= 0:
            prefetch = options.all_prefetch
        info = ConsumerInfo(
            destination=where,
            browser=browser,
            prefetch_size=prefetch,
            dispatch_async=options.dispatch_async,
            exclusive=options.exclusive_consumer and queue,
            retroactive=options.use_retroactive_consumer and not queue,
            maximum_pending_message_limit=0 if queue else options.maximum_pending_message_limit,
        )
        for part in query.split("&") if query else []:
            _take_option(info, part)
        return info, qualified_name(where)

    async def _open_producer(self, text: str | None, window: int | None) -> Producer:
        where = None if text is None else _destination(text.partition("?")[0])
        octets = self._connection.options.producer_window_size if window is None else window
        return await Producer.open(self._connection, self._record, where, octets)

    async def _open_consumer(self, info: ConsumerInfo, policy: RedeliveryPolicy) -> Consumer:
        consumer = Consumer(self._connection, self.mode)
        await consumer.open(self._record, info, policy)
        return consumer

    async def _open_browser(self, info: ConsumerInfo) -> Browser:
        browser = Browser(self._connection, Acknowledge.AUTO)
        await browser.open(self._record, info, RedeliveryPolicy())
        return browser

    def _wake(self) -> None:
        for record in self._record.consumers.values():
            record.inbox.port.arrived(record.inbox)


class TransactionScope(Closing):
    """``async with session.transaction():`` commits, or rolls back after an error."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._session.commit()
        else:
            await self._session.rollback()


class Producer(Closing):
    """Sends messages. Defaults for each send are attributes: ``persistent``, ``priority``, ``time_to_live`` (s)."""

    def __init__(self, connection: Connection, record: ProducerRecord, where: Destination | None) -> None:
        self._connection: Final = connection
        self._core: Final = connection.core
        self._record: Final = record
        self._where: Final = where
        self._transacted: Final = record.session.mode is Acknowledge.TRANSACTED
        options = connection.options
        self._compress: Final = options.use_compression
        self._dated: Final = not options.disable_time_stamps_by_default
        self._async: Final = options.use_async_send
        self._sync: Final = options.always_sync_send or options.send_timeout > 0
        self.persistent = True
        self.priority = DEFAULT_PRIORITY
        self.time_to_live = 0.0

    @classmethod
    async def open(cls, connection: Connection, session: SessionRecord, where: Destination | None, window: int) -> Self:
        """Open one; `Session.producer` is what programs call."""
        made: list[ProducerRecord] = []
        await connection.ask(lambda answer: made.append(connection.core.open_producer(session, where, window, answer)))
        return cls(connection, made[0], where)

    async def send(
        self,
        message: Message | Body,
        *,
        properties: dict[str, object] | None = None,
        destination: str | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        wait: bool | None = None,
    ) -> None:
        """Send ``message``, or a body; ``properties`` come on top of those that a message has.

        ``wait`` for the broker's confirmation: by default for persistent messages outside of transactions, which are
        then stored. Without it this returns when the message is on its way; it waits while the broker reads too
        slowly, the window is used up, or there is no broker (for the failover option ``timeout``).
        Raises InvalidDestination, AccessDenied, AddressFull, Inexpressible, TimedOut, Unreachable.
        """
        if properties is not None:
            own = message.properties if isinstance(message, Message) else {}
            made = message if isinstance(message, Message) else Message(message)
            command = made.command(compress=self._compress)
            command.marshalled_properties = pack_properties({**own, **properties})
        elif isinstance(message, Message):
            command = message.command(compress=self._compress)
        elif self._compress:
            command = Message(message).command(compress=True)
        else:
            command = compose(message)
        where = self._where if destination is None else _destination(destination)
        if where is None:
            raise InvalidDestination("this producer has no destination", remedy="name one in send()")
        durable = self.persistent if persistent is None else persistent
        command.destination = where
        command.persistent = durable
        command.priority = self.priority if priority is None else priority
        if self._dated:
            wall = self._connection.wall()
            command.timestamp = wall
            life = self.time_to_live if time_to_live is None else time_to_live
            if life > 0:
                command.expiration = wall + int(life * 1000)
        core = self._core
        core.identify(self._record, command)
        wait, _ = self.waits(durable, wait)
        if wait:
            await self._connection.ask(
                lambda answer: core.send(self._record, command, answer), self._connection.options.send_timeout
            )
            return
        while (self._record.full and not self._transacted) or not core.send(self._record, command, None):
            await self._connection.flowing(self._record)
        wire = core.wire
        if wire is not None and (not wire.ready or wire.pending() > OUTPUT_OCTETS):
            await self._connection.drained()

    def waits(self, persistent: bool | None, wait: bool | None) -> tuple[bool, bool]:
        """Return whether a send waits for the broker, and whether it is part of a transaction."""
        if self._transacted:
            return False, True
        if wait is None:
            wait = ((self.persistent if persistent is None else persistent) and not self._async) or self._sync
        return wait, False

    async def close(self) -> None:
        """Close it. What was sent is not affected."""
        self._core.close_producer(self._record)


class Consumer(Closing):
    """Receives messages: `receive`, `receive_many`, or ``async for``, which ends when the consumer is closed."""

    def __init__(self, connection: Connection, mode: Acknowledge) -> None:
        self._connection: Final = connection
        self._core: Final = connection.core
        self._record: ConsumerRecord | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._current: Delivery | None = None
        self._automatic: Final = mode in (Acknowledge.AUTO, Acknowledge.DUPS_OK)
        self._taken = 0
        self._closed = False

    async def open(self, session: SessionRecord, info: ConsumerInfo, policy: RedeliveryPolicy) -> None:
        """Announce it to the broker; `Session.consumer` is what programs call."""

        def announce(answer: Answer) -> None:
            self._record = self._connection.core.open_consumer(session, info, policy, self._wake, answer)

        await self._connection.ask(announce)

    async def receive(self, timeout: float = FOR_EVER) -> Received | None:
        """Return the next message, None when none came within ``timeout`` s. It counts as processed (AUTO, DUPS_OK).

        Raises Unreachable when the connection has ended.
        """
        self._finish_current()
        delivery = await self._next(timeout)
        if delivery is None:
            return None
        if self._automatic:
            delivery.inbox.done(delivery)
            self._connection.soon()
        return Received(delivery, self._connection)

    async def receive_many(self, most: int, timeout: float = FOR_EVER) -> list[Received]:
        """Return what is there, at most ``most`` messages, waiting up to ``timeout`` s for the first. As `receive`."""
        received: list[Received] = []
        first = await self.receive(timeout)
        if first is None:
            return received
        received.append(first)
        inbox = self._inbox()
        now = self._connection.now()
        while len(received) < most and (delivery := inbox.take(now)) is not None:
            if self._automatic:
                inbox.done(delivery)
            received.append(Received(delivery, self._connection))
        return received

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        """Return the next message; the one before counts as processed now (AUTO, DUPS_OK)."""
        self._finish_current()
        self._taken += 1
        if self._taken == TAKEN_IN_A_ROW:
            self._taken = 0
            await asyncio.sleep(0)
        record = self._record
        delivery = None if record is None else record.inbox.take(self._connection.now())
        if delivery is None:
            delivery = await self._next(FOR_EVER)
            if delivery is None:
                raise StopAsyncIteration
        if self._automatic:
            self._current = delivery
        return Received(delivery, self._connection)

    async def take_ahead(self, most: int) -> list[Delivery]:
        """Return what is there, at least one and at most ``most``, [] at the end; none of it counts as processed.

        For iterations that run in another thread, which tell `finished` of each.
        """
        delivery = await self._next(FOR_EVER)
        taken: list[Delivery] = []
        now = self._connection.now()
        while delivery is not None:
            taken.append(delivery)
            delivery = self._inbox().take(now) if len(taken) < most else None
        return taken

    def received(self, delivery: Delivery) -> Received:
        """Return ``delivery`` as programs have it; for iterations that run in another thread."""
        return Received(delivery, self._connection)

    def finished(self, delivery: Delivery) -> None:
        """``delivery`` counts as processed (AUTO, DUPS_OK)."""
        if self._automatic:
            delivery.inbox.done(delivery)
            self._connection.soon()

    async def close(self) -> None:
        """Close it. What is not settled goes back to the broker; the message of a running iteration is settled."""
        if self._closed or self._record is None:
            return
        self._finish_current()
        self._closed = True
        self._core.close_consumer(self._record)
        self._wake()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._current = None  # it was not processed to the end
        await self.close()

    def _inbox(self) -> Inbox:
        if self._record is None:
            raise Unreachable("this consumer is not open")
        return self._record.inbox

    def _finish_current(self) -> None:
        current = self._current
        if current is not None:
            self._current = None
            current.inbox.done(current)
            self._connection.soon()

    async def _next(self, timeout: float) -> Delivery | None:
        inbox = self._inbox()
        connection = self._connection
        until = connection.time() + timeout
        if inbox.prefetch == 0 and not inbox.buffer and not inbox.pulling:
            self._pull(timeout)
            until += PULL_GRACE
        while True:
            now = connection.now()
            delivery = inbox.take(now)
            if delivery is not None:
                return delivery
            if self._closed or inbox.exhausted:
                return None
            if inbox.ended:
                raise self._core.failure or Unreachable(inbox.ended)
            if inbox.pulled_nothing:
                inbox.pulled_nothing = False
                return None
            wait = until - connection.time()
            if wait <= 0 and timeout != 0:
                return None
            due = inbox.deadline(now)
            self._waiter = connection.loop.create_future()
            try:
                async with asyncio.timeout(min(max(wait, 0.0), max(0, due - now) / SECOND)):
                    await self._waiter
            except TimeoutError:
                if timeout == 0:
                    return inbox.take(connection.now())
            finally:
                self._waiter = None

    def _pull(self, timeout: float) -> None:
        if self._record is not None:
            ms = 0 if timeout == FOR_EVER else max(1, int(timeout * 1000)) if timeout > 0 else -1
            self._connection.core.pull(self._record, ms)

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Browser(Consumer):
    """Looks at the messages of a queue; ``async for`` ends behind the last. Brokers show a part of a long queue."""


class _Requester:
    """Waits for the replies to one session's requests."""

    def __init__(self, session: Session, reply_to: str, consumer: Consumer, producer: Producer) -> None:
        self._session = session
        self._reply_to = reply_to
        self._consumer = consumer
        self._producer = producer
        self._asked = 0

    @classmethod
    async def open(cls, session: Session) -> _Requester:
        reply_to = await session.temporary_queue()
        return cls(session, reply_to, await session.consumer(reply_to), await session.producer())

    async def request(self, destination: str, message: Message | Body, timeout: float) -> Received:
        self._asked += 1
        asked = message if isinstance(message, Message) else Message(message)
        asked.reply_to = self._reply_to
        asked.correlation_id = asked.correlation_id or f"{self._reply_to}:{self._asked}"
        await self._producer.send(asked, destination=destination, persistent=False)
        until = asyncio.get_running_loop().time() + timeout
        while True:
            reply = await self._consumer.receive(max(0.0, until - asyncio.get_running_loop().time()))
            if reply is None:
                raise TimedOut(f"no reply came from {destination} within {timeout:g} s")
            reply.acknowledge()
            if reply.correlation_id == asked.correlation_id:
                return reply  # another is a late reply to a request that was given up


@lru_cache(maxsize=4096)
def _destination(text: str) -> Destination:
    """Return the destination. Raises InvalidDestination, also for what looks like a kind and is none."""
    where = parse_destination(text)
    found = LIKE_A_KIND.match(where.physical_name or "")
    if found is not None:
        raise InvalidDestination(
            f"{found[0]} in {text!r} is no kind of destination", remedy=f"write one of {', '.join(QUALIFIERS)}"
        )
    return where


_FLAGS: Final = {
    "exclusive": "exclusive",
    "retroactive": "retroactive",
    "noLocal": "no_local",
    "dispatchAsync": "dispatch_async",
}
_NUMBERS: Final = {
    "prefetchSize": "prefetch_size",
    "priority": "priority",
    "maximumPendingMessageLimit": "maximum_pending_message_limit",
}


def _take_option(info: ConsumerInfo, part: str) -> None:
    name, _, text = part.partition("=")
    name = name.removeprefix("consumer.")
    if name in _FLAGS:
        setattr(info, _FLAGS[name], text.lower() == "true")
    elif name in _NUMBERS and text.removeprefix("-").isdigit():
        setattr(info, _NUMBERS[name], int(text))
    elif name == "selector":
        info.selector = text
    else:
        raise InvalidOption(f"{part!r} is no option of a consumer", remedy="known: " + ", ".join([*_FLAGS, *_NUMBERS]))


def answer_into(future: asyncio.Future[Response | None]) -> Answer:
    """Return an `Answer` that settles ``future``, unless nobody waits for it any more."""

    def answer(response: Response | None, error: EntrepotError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            assert not isinstance(response, ExceptionResponse)
            future.set_result(response)

    return answer


def told_into(future: asyncio.Future[A]) -> Callable[[A, EntrepotError | None], None]:
    """Return what settles ``future`` with an answer that was read, or with what went wrong."""

    def tell(told: A, error: EntrepotError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(told)

    return tell
