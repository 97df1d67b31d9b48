"""The connection of a Python program to one broker, or to whichever of several is there.

::

    async with entrepot.connect("failover:(tcp://a:61616,tcp://b:61616)", user="app", password="...") as connection:
        async with connection.session() as session, session.producer("queue://ORDERS") as producer:
            await producer.send("an order")

One event loop owns a connection. Everything it says is decided by a conversation (`protocols/conversing/port.py`),
everything about brokers that come and go by `protocols/failover.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Self

from entrepot.base.errors import EntrepotError
from entrepot.client.balancing import Balancing
from entrepot.client.base import ConnectionBase, told_into
from entrepot.client.management import ADDRESS, PATIENCE_S, Management
from entrepot.client.options import Target, read_target
from entrepot.client.parts import Parts
from entrepot.client.session import Session
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.xid import Xid


class Connection(ConnectionBase):
    """A connection. ``async with`` opens and closes it; so do ``await`` and `close`.

    Callbacks are plain functions, called in the event loop: ``on_interrupted(why)``, ``on_resumed(url)``,
    ``on_updated(urls)``, ``on_error(error)`` for what a broker reports about no request in particular.
    """

    def __init__(
        self,
        target: Target,
        *,
        redelivery: dict[str, RedeliveryPolicy] | None = None,
        on_interrupted: Callable[[str], None] | None = None,
        on_resumed: Callable[[str], None] | None = None,
        on_updated: Callable[[list[str]], None] | None = None,
        on_error: Callable[[EntrepotError], None] | None = None,
    ) -> None:
        """Programs call `connect`. ``redelivery``: policies by destination, wildcards (``queue://A.*``) allowed."""
        super().__init__(target, redelivery)
        self.client_id = ""
        self.on_interrupted = on_interrupted
        self.on_resumed = on_resumed
        self.on_updated = on_updated
        self.on_error = on_error
        self._closed = False

    async def open(self) -> Self:
        """Connect. Raises Unreachable, AccessDenied, SubscriptionInUse (client id), TimedOut, InvalidOption.

        With ``failover:`` it tries until a broker answers, unless ``startupMaxReconnectAttempts`` says otherwise.
        """
        if self._parts is not None:
            return self
        self._parts = Parts(self, self._target)
        self.client_id = self._parts.client_id
        try:
            await self._parts.open(self.options.connect_response_timeout)
        except BaseException:
            await self._parts.lifeline.close(0)
            self._parts = None
            raise
        return self

    def session(
        self,
        mode: Acknowledge = Acknowledge.AUTO,
        *,
        redelivery: dict[str, RedeliveryPolicy] | None = None,
        xa: bool = False,
    ) -> Session:
        """Open a session whose messages count as processed as ``mode`` says. Raises Unreachable.

        ``xa``: a TRANSACTED one works for branches of distributed transactions, instead of transactions of its own.
        Over OpenWire each may do either.
        """
        return Session(self, mode, dict(redelivery or {}), xa=xa)

    def management(self, address: str = ADDRESS, *, timeout: float = PATIENCE_S) -> Management:
        """Return what asks the broker for attributes and operations by name, over messages (docs/managing.md).

        The broker is one of ours, or an Artemis over CORE. ``timeout``: s for one answer. ``async with`` closes it.
        """
        return Management(self.session, address, timeout)

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription of this client id. Raises SubscriptionInUse while a consumer has it."""
        await self.ask(lambda answer: self.conversation.unsubscribe(name, answer))

    async def remove_temporary(self, destination: str) -> None:
        """Delete a temporary queue or topic before the connection ends."""
        await self.ask(lambda answer: self.conversation.remove_temporary(destination, answer))

    async def prepare(self, xid: Xid) -> bool:
        """Have the broker promise to commit a branch; the promise outlives this connection and the broker's process.

        False: the branch did nothing and is over. Raises TransactionRolledBack, TransactionError.
        """
        future: asyncio.Future[bool] = self.loop.create_future()
        self.conversation.prepare_branch(xid, told_into(future))
        return await self.bounded(future)

    async def commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Commit a prepared branch, whoever prepared it; ``one_phase``: one that was not prepared.

        Raises TransactionError when the broker does not know the branch, TransactionRolledBack (in one phase).
        """
        await self.ask(lambda answer: self.conversation.commit_branch(xid, one_phase, answer))

    async def rollback(self, xid: Xid) -> None:
        """Undo a branch, prepared or not; what it received is handed out again. Raises TransactionError."""
        await self.ask(lambda answer: self.conversation.roll_back_branch(xid, self.now(), answer))

    async def prepared(self) -> list[Xid]:
        """Return the branches that the broker has promised to commit, and was not told to."""
        future: asyncio.Future[list[Xid]] = self.loop.create_future()
        self.conversation.recover_branches(told_into(future))
        return await self.bounded(future)

    async def close(self) -> None:
        """Leave in order: what is processed is settled, the broker is told, the socket is closed."""
        if self._closed or self._parts is None:
            return
        self._closed = True
        await self._parts.close(self.options.close_timeout)

    @property
    def connected(self) -> bool:
        """Whether a broker is there now."""
        return self._parts is not None and self._parts.conversation.introduced

    @property
    def broker(self) -> str:
        """The URL of the broker in use, or of the last one; credentials hidden."""
        return "" if self._parts is None else self._parts.broker()

    @property
    def program(self) -> str:
        """Which program the broker in use says it is, like ``entrepot`` or ``ActiveMQ 5.17.2``; "" when it does not."""
        return "" if self._parts is None else self._parts.reach.program()

    def __await__(self) -> Generator[object, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def connect(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    client_id: str | None = None,
    redelivery: dict[str, RedeliveryPolicy] | None = None,
    on_interrupted: Callable[[str], None] | None = None,
    on_resumed: Callable[[str], None] | None = None,
    on_updated: Callable[[list[str]], None] | None = None,
    on_error: Callable[[EntrepotError], None] | None = None,
    balancing: Balancing | None = None,
) -> Connection:
    """Return a connection to ``url``: ``async with`` or ``await`` opens it.

    ``url``: ``tcp://host:61616``, ``ssl://...``, ``failover:(...)?...``, ``discovery:(multicast://default)``, with
    ActiveMQ's options; ``core://host:61616``, ``(tcp://a:61616,tcp://b:61616)?...``, ``udp://231.7.7.7:9876?...``,
    with those of Artemis. ``balancing``: chooses among several brokers of Artemis (`client/balancing.py`).
    Raises InvalidURI, InvalidOption.
    """
    given = {"user_name": user, "password": password, "client_id": client_id}
    overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    return Connection(
        read_target(url, overrides, balancing),
        redelivery=redelivery,
        on_interrupted=on_interrupted,
        on_resumed=on_resumed,
        on_updated=on_updated,
        on_error=on_error,
    )
