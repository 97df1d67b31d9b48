"""Sessions and what they open: producers, consumers, browsers, transactions, requests with a reply.

One task at a time uses a session, as in JMS: its transactions and acknowledgements are about an order of events.
Destinations are texts: ``queue://A``, ``topic://B``, ``temp-queue://...``; a bare name is a queue. Options of a
consumer may follow, as in Java: ``queue://A?consumer.prefetchSize=10``. Times are in seconds.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

from entrepot.base.errors import InvalidOption, TimedOut
from entrepot.client.base import ConnectionBase
from entrepot.client.consumer import Browser, Consumer
from entrepot.client.message import Message, Received
from entrepot.client.opening import Closing, Opening
from entrepot.client.parts import FOR_EVER
from entrepot.client.producer import Producer
from entrepot.protocols.conversing.bodies import Body
from entrepot.protocols.conversing.content import Wish
from entrepot.protocols.conversing.destinations import full_name, is_queue
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import SessionPort
from entrepot.protocols.conversing.xid import Xid


class Session(Closing):
    """One order of events on a connection. ``mode`` says when messages count as processed."""

    def __init__(
        self, connection: ConnectionBase, mode: Acknowledge, policies: dict[str, RedeliveryPolicy], *, xa: bool = False
    ) -> None:
        self._connection: Final = connection
        self._policies = policies
        self.mode: Final = mode
        self._port: Final = connection.conversation.open_session(mode, xa)
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
        in_pieces: bool = False,
    ) -> Opening[Consumer]:
        """Open a consumer.

        ``durable``: name of the subscription to a topic that outlives the connection, which needs a client id.
        ``no_local``: not what this connection sends. ``prefetch``: messages under way, 0 to fetch each. ``redelivery``:
        default the policy that the connection has for the destination. ``in_pieces``: for `Consumer.receive_into`, and
        nothing else; over CORE a large body is not held whole then.
        Raises AccessDenied, InvalidDestination, InvalidSelector, SubscriptionInUse, Unreachable.
        """
        wish = self._wish(destination, browser=False, durable=durable is not None)
        wish.selector = selector
        wish.durable = durable
        wish.no_local = no_local or wish.no_local
        wish.priority = priority or wish.priority
        wish.in_pieces = in_pieces
        if exclusive is not None:
            wish.exclusive = exclusive
        if retroactive is not None:
            wish.retroactive = retroactive
        if prefetch is not None:
            wish.prefetch = prefetch
        where = wish.destination
        policy = redelivery or self._policies.get(where) or self._connection.redelivery_policy(where)
        return Opening(lambda: self._open_consumer(wish, policy))

    def browser(self, destination: str, *, selector: str | None = None) -> Opening[Browser]:
        """Open a look at what waits in a queue; nothing is taken out. Raises as `consumer`."""
        wish = self._wish(destination, browser=True, durable=False)
        wish.selector = selector
        return Opening(lambda: self._open_browser(wish))

    async def commit(self) -> None:
        """Commit what this session sent and received.

        Raises TransactionRolledBack: nothing of it counts; and TransactionInDoubt, which is one of these: nobody knows.
        """
        await self._connection.ask(self._checked().commit)

    async def rollback(self) -> None:
        """Undo what this session sent; what it received is handed out again after the redelivery delay."""
        port = self._checked()
        await self._connection.ask(lambda answer: port.roll_back(self._connection.now(), answer))

    async def begin_branch(self, xid: Xid) -> None:
        """Let all that this session sends and receives from now on belong to a branch of a distributed transaction.

        The session is TRANSACTED, and over CORE opened with ``xa=True``. The other steps are those of the coordinator:
        `Connection.prepare` and its like.
        Raises TransactionError when the session has a transaction that is not ended.
        """
        self._checked().begin_branch(xid)

    async def end_branch(self, xid: Xid) -> None:
        """End the session's work for a branch; what it received is settled with that. Raises TransactionError."""
        port = self._checked()
        await self._connection.ask(lambda answer: port.end_branch(xid, answer))

    def transaction(self) -> TransactionScope:
        """Return what commits at the end of ``async with``, or rolls back when that ends with an error."""
        return TransactionScope(self)

    def acknowledge(self) -> None:
        """Settle all that was received (CLIENT)."""
        self._port.acknowledge()

    def recover(self) -> None:
        """Have what was received and not settled handed out again after the redelivery delay (CLIENT, INDIVIDUAL)."""
        self._port.recover(self._connection.now())

    async def temporary_queue(self) -> str:
        """Make a queue that lives as long as this connection, and that only this connection may consume from."""
        return await self._connection.add_temporary(topic=False)

    async def temporary_topic(self) -> str:
        """Make a topic of that kind."""
        return await self._connection.add_temporary(topic=True)

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
            self._port.close()

    def _checked(self) -> SessionPort:
        """Return the session of the conversation. Raises what ended the connection."""
        _ = self._connection.conversation
        return self._port

    def _wish(self, text: str, *, browser: bool, durable: bool) -> Wish:
        name, _, query = text.partition("?")
        queue = is_queue(name)
        options = self._connection.options
        wish = Wish(
            full_name(name),
            self._prefetch(queue=queue, browser=browser, durable=durable),
            browser=browser,
            dispatch_async=options.dispatch_async,
            exclusive=options.exclusive_consumer and queue,
            retroactive=options.use_retroactive_consumer and not queue,
            pending_max=0 if queue else options.maximum_pending_message_limit,
        )
        for part in query.split("&") if query else []:
            _take_option(wish, part)
        return wish

    def _prefetch(self, *, queue: bool, browser: bool, durable: bool) -> int:
        options = self._connection.options
        if options.all_prefetch >= 0:
            return options.all_prefetch
        if browser:
            return options.queue_browser_prefetch
        if queue:
            return options.queue_prefetch
        if not durable:
            return options.topic_prefetch
        lazily = options.optimize_acknowledge and self.mode is Acknowledge.AUTO
        return options.optimize_durable_topic_prefetch if lazily else options.durable_topic_prefetch

    async def _open_producer(self, text: str | None, window: int | None) -> Producer:
        where = None if text is None else full_name(text.partition("?")[0])
        octets = self._connection.options.producer_window_size if window is None else window
        return await Producer.open(self._connection, self._checked(), where, octets)

    async def _open_consumer(self, wish: Wish, policy: RedeliveryPolicy) -> Consumer:
        consumer = Consumer(self._connection, self.mode)
        await consumer.open(self._checked(), wish, policy)
        return consumer

    async def _open_browser(self, wish: Wish) -> Browser:
        browser = Browser(self._connection, Acknowledge.AUTO)
        await browser.open(self._checked(), wish, RedeliveryPolicy())
        return browser


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


_FLAGS: Final = {
    "exclusive": "exclusive",
    "retroactive": "retroactive",
    "noLocal": "no_local",
    "dispatchAsync": "dispatch_async",
}
_NUMBERS: Final = {
    "prefetchSize": "prefetch",
    "priority": "priority",
    "maximumPendingMessageLimit": "pending_max",
}


def _take_option(wish: Wish, part: str) -> None:
    name, _, text = part.partition("=")
    name = name.removeprefix("consumer.")
    if name in _FLAGS:
        setattr(wish, _FLAGS[name], text.lower() == "true")
    elif name in _NUMBERS and text.removeprefix("-").isdigit():
        setattr(wish, _NUMBERS[name], int(text))
    elif name == "selector":
        wish.selector = text
    else:
        raise InvalidOption(f"{part!r} is no option of a consumer", remedy="known: " + ", ".join([*_FLAGS, *_NUMBERS]))
