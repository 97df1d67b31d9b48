"""The client without asyncio: the same connections, sessions, producers and consumers, and their methods block.

Written by ``tools/blocking_client.py`` from `connection`, `session`, `producer` and `consumer`: change those, not this.
A connection lives in a thread of its own (`portal`), which keeps it alive and finds another broker while the program
computes; callbacks run in that thread and must not call back. A session belongs to one thread at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from entrepot.base.errors import EntrepotError
from entrepot.client import connection as _connection
from entrepot.client import consumer as _consumer
from entrepot.client import management as _management
from entrepot.client import producer as _producer
from entrepot.client import session as _session
from entrepot.client.balancing import Balancing
from entrepot.client.management import ADDRESS, PATIENCE_S
from entrepot.client.message import Message, Received
from entrepot.client.parts import FOR_EVER
from entrepot.client.portal import Outbox, Portal
from entrepot.client.streaming import Source
from entrepot.protocols.conversing.bodies import Body
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import DeliveryPort
from entrepot.protocols.conversing.xid import Xid

TAKEN_AHEAD: Final = 64  # messages that an iteration fetches with one call into the connection's thread


class Closing:
    """Something that is opened, used and closed."""

    def __init__(self, portal: Portal) -> None:
        self._portal: Final = portal

    def close(self) -> None:
        """Close it. Does nothing the second time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def bound(portal: Portal, message: Received) -> Received:
    """Return ``message``, to be settled in the portal's thread."""
    message.settled_through(portal)
    return message


class Session(Closing):
    """One order of events on a connection. ``mode`` says when messages count as processed."""

    def __init__(self, portal: Portal, inner: _session.Session) -> None:
        super().__init__(portal)
        self._inner = inner

    def producer(self, destination: str | None = None, *, window: int | None = None) -> Producer:
        """Open a producer to ``destination``, or one that is told with each message where it goes.

        ``window``: octets that may be under way when sends are not confirmed, default ``jms.producerWindowSize``.
        Raises AccessDenied, InvalidDestination, Unreachable.
        """
        return Producer(self._portal, self._portal.call(lambda: self._inner.producer(destination, window=window)))

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
    ) -> Consumer:
        """Open a consumer.

        ``durable``: name of the subscription to a topic that outlives the connection, which needs a client id.
        ``no_local``: not what this connection sends. ``prefetch``: messages under way, 0 to fetch each. ``redelivery``:
        default the policy that the connection has for the destination. ``in_pieces``: for `Consumer.receive_into`, and
        nothing else; over CORE a large body is not held whole then.
        Raises AccessDenied, InvalidDestination, InvalidSelector, SubscriptionInUse, Unreachable.
        """
        return Consumer(
            self._portal,
            self._portal.call(
                lambda: self._inner.consumer(
                    destination,
                    selector=selector,
                    durable=durable,
                    no_local=no_local,
                    exclusive=exclusive,
                    retroactive=retroactive,
                    priority=priority,
                    prefetch=prefetch,
                    redelivery=redelivery,
                    in_pieces=in_pieces,
                )
            ),
        )

    def browser(self, destination: str, *, selector: str | None = None) -> Browser:
        """Open a look at what waits in a queue; nothing is taken out. Raises as `consumer`."""
        return Browser(self._portal, self._portal.call(lambda: self._inner.browser(destination, selector=selector)))

    def commit(self) -> None:
        """Commit what this session sent and received.

        Raises TransactionRolledBack: nothing of it counts; and TransactionInDoubt, which is one of these: nobody knows.
        """
        self._portal.call(self._inner.commit)

    def rollback(self) -> None:
        """Undo what this session sent; what it received is handed out again after the redelivery delay."""
        self._portal.call(self._inner.rollback)

    def begin_branch(self, xid: Xid) -> None:
        """Let all that this session sends and receives from now on belong to a branch of a distributed transaction.

        The session is TRANSACTED, and over CORE opened with ``xa=True``. The other steps are those of the coordinator:
        `Connection.prepare` and its like.
        Raises TransactionError when the session has a transaction that is not ended.
        """
        self._portal.call(lambda: self._inner.begin_branch(xid))

    def end_branch(self, xid: Xid) -> None:
        """End the session's work for a branch; what it received is settled with that. Raises TransactionError."""
        self._portal.call(lambda: self._inner.end_branch(xid))

    def transaction(self) -> TransactionScope:
        """Return what commits at the end of ``with``, or rolls back when that ends with an error."""
        return TransactionScope(self._portal, self._portal.run(self._inner.transaction))

    def acknowledge(self) -> None:
        """Settle all that was received (CLIENT)."""
        self._portal.run(self._inner.acknowledge)

    def recover(self) -> None:
        """Have what was received and not settled handed out again after the redelivery delay (CLIENT, INDIVIDUAL)."""
        self._portal.run(self._inner.recover)

    def temporary_queue(self) -> str:
        """Make a queue that lives as long as this connection, and that only this connection may consume from."""
        return self._portal.call(self._inner.temporary_queue)

    def temporary_topic(self) -> str:
        """Make a topic of that kind."""
        return self._portal.call(self._inner.temporary_topic)

    def request(self, destination: str, message: Message | Body, *, timeout: float = FOR_EVER) -> Received:
        """Send ``message`` and return the reply to it. Raises TimedOut, and as `Producer.send`.

        The reply comes to a temporary queue of this session and is told by its correlation id. Not in a transaction.
        """
        return bound(
            self._portal, self._portal.call(lambda: self._inner.request(destination, message, timeout=timeout))
        )

    def close(self) -> None:
        """Close it with all that it opened; an open transaction is rolled back."""
        self._portal.call(self._inner.close)


class TransactionScope(Closing):
    """``with session.transaction():`` commits, or rolls back after an error."""

    def __init__(self, portal: Portal, inner: _session.TransactionScope) -> None:
        super().__init__(portal)
        self._inner = inner

    def close(self) -> None:
        """Nothing is open."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(lambda: self._inner.__aexit__(kind, error, trace))


class Producer(Closing):
    """Sends messages. Defaults for each send are attributes: ``persistent``, ``priority``, ``time_to_live`` (s)."""

    def __init__(self, portal: Portal, inner: _producer.Producer) -> None:
        super().__init__(portal)
        self._inner = inner
        self._outbox = Outbox(portal)

    def flush(self) -> None:
        """Wait until what was sent without waiting is on its way. Raises what one of these sends raised."""
        self._outbox.flush()

    def _ahead(self, persistent: bool | None, wait: bool | None) -> bool:
        return self._inner.waits(persistent, wait) == (False, False)

    def send(
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
        if self._ahead(persistent, wait):
            self._outbox.put(
                lambda: self._inner.send(
                    message,
                    properties=properties,
                    destination=destination,
                    persistent=persistent,
                    priority=priority,
                    time_to_live=time_to_live,
                    wait=wait,
                )
            )
            return
        self._outbox.flush()
        self._portal.call(
            lambda: self._inner.send(
                message,
                properties=properties,
                destination=destination,
                persistent=persistent,
                priority=priority,
                time_to_live=time_to_live,
                wait=wait,
            )
        )

    def send_stream(
        self,
        source: Source,
        *,
        properties: dict[str, object] | None = None,
        destination: str | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
    ) -> int:
        """Send a bytes message whose body is read from ``source``, and never held whole; return its octets.

        ``source``: a file open for reading octets, or what yields them. Over CORE only, and not in a transaction. This
        returns when the broker has the message; if ``source`` raises before its end, nothing of it is sent. A
        connection that is lost meanwhile is not repaired: Unreachable, and the message may be there if all was sent.
        Raises what ``source`` raises, Inexpressible, and as `send`.
        """
        self._outbox.flush()
        return self._portal.call(
            lambda: self._inner.send_stream(
                source,
                properties=properties,
                destination=destination,
                persistent=persistent,
                priority=priority,
                time_to_live=time_to_live,
            )
        )

    def close(self) -> None:
        """Close it. What was sent is not affected."""
        self._outbox.flush()
        self._portal.call(self._inner.close)

    @property
    def persistent(self) -> bool:
        """Whether messages survive the broker."""
        return self._inner.persistent

    @persistent.setter
    def persistent(self, value: bool) -> None:
        self._inner.persistent = value

    @property
    def priority(self) -> int:
        """0 to 9."""
        return self._inner.priority

    @priority.setter
    def priority(self, value: int) -> None:
        self._inner.priority = value

    @property
    def time_to_live(self) -> float:
        """Seconds until a message expires; 0: never."""
        return self._inner.time_to_live

    @time_to_live.setter
    def time_to_live(self, value: float) -> None:
        self._inner.time_to_live = value


class Consumer(Closing):
    """Receives messages: `receive`, `receive_many`, or ``for``, which ends when the consumer is closed."""

    def __init__(self, portal: Portal, inner: _consumer.Consumer) -> None:
        super().__init__(portal)
        self._inner = inner
        self._taken: deque[DeliveryPort] = deque()
        self._current: DeliveryPort | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Received:
        """Return the next message; the one before counts as processed now (AUTO, DUPS_OK)."""
        current, self._current = self._current, None
        if current is not None:
            self._portal.post(lambda: self._inner.finished(current))
        if not self._taken:
            self._taken.extend(self._portal.call(lambda: self._inner.take_ahead(TAKEN_AHEAD)))
            if not self._taken:
                raise StopIteration
        self._current = self._taken.popleft()
        return bound(self._portal, self._inner.received(self._current))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._current = None  # it was not processed to the end
        self.close()

    def receive(self, timeout: float = FOR_EVER) -> Received | None:
        """Return the next message, None when none came within ``timeout`` s. It counts as processed (AUTO, DUPS_OK).

        Raises Unreachable when the connection has ended.
        """
        current, self._current = self._current, None
        if current is not None:
            self._portal.post(lambda: self._inner.finished(current))
        if self._taken:  # an iteration took it ahead
            delivery = self._taken.popleft()
            self._portal.post(lambda: self._inner.finished(delivery))
            return bound(self._portal, self._inner.received(delivery))
        message = self._portal.call(lambda: self._inner.receive(timeout))
        return None if message is None else bound(self._portal, message)

    def receive_into(self, target: BinaryIO, timeout: float = FOR_EVER) -> Received | None:
        """Write the body of the next message to ``target``; None when none came within ``timeout`` s.

        For a consumer that was opened with ``in_pieces``: over CORE a large bytes message is written while it comes,
        and not held. A text is written in UTF-8. The message counts as processed (AUTO, DUPS_OK) when all is written.
        If the connection is lost before that, a part is written, Unreachable is raised, and the message comes again.
        Raises what ``target`` raises, Inexpressible for a body that is neither octets nor text; Unreachable.
        """
        message = self._portal.call(lambda: self._inner.receive_into(target, timeout))
        return None if message is None else bound(self._portal, message)

    def receive_many(self, most: int, timeout: float = FOR_EVER) -> list[Received]:
        """Return what is there, at most ``most`` messages, waiting up to ``timeout`` s for the first. As `receive`."""
        current, self._current = self._current, None
        if current is not None:
            self._portal.post(lambda: self._inner.finished(current))
        if self._taken:
            return [message for _ in range(min(most, len(self._taken))) if (message := self.receive(0)) is not None]
        return [
            bound(self._portal, message)
            for message in self._portal.call(lambda: self._inner.receive_many(most, timeout))
        ]

    def close(self) -> None:
        """Close it. What is not settled goes back to the broker; the message of a running iteration is settled."""
        current, self._current = self._current, None
        if current is not None:
            self._portal.post(lambda: self._inner.finished(current))
        self._portal.call(self._inner.close)


class Browser(Consumer):
    """Looks at the messages of a queue; ``for`` ends behind the last. Brokers show a part of a long queue."""


class Management(Closing):
    """Asks the broker of one connection, one question after the other; any number of tasks may ask.

    Resources are ``broker``, ``queue.NAME``, ``address.NAME``, ``bridge.NAME`` and so on (docs/managing.md). Arguments
    and results are values of JSON.
    """

    def __init__(self, portal: Portal, inner: _management.Management) -> None:
        super().__init__(portal)
        self._inner = inner

    def get(self, resource: str, attribute: str) -> Any:
        """Return an attribute. Raises Refused and what is below it, InvalidDestination say; TimedOut; Unreachable."""
        return self._portal.call(lambda: self._inner.get(resource, attribute))

    def call(self, resource: str, operation: str, *arguments: object) -> Any:
        """Do ``operation`` and return its result, None for none. Raises as `get`.

        After TimedOut or Unreachable it may have been done all the same.
        """
        return self._portal.call(lambda: self._inner.call(resource, operation, *arguments))

    def close(self) -> None:
        """End the session that answers come to. Does nothing the second time."""
        self._portal.call(self._inner.close)


class Connection(Closing):
    """A connection. ``with`` closes it.

    Callbacks are plain functions, called in the connection's thread: ``on_interrupted(why)``, ``on_resumed(url)``,
    ``on_updated(urls)``, ``on_error(error)`` for what a broker reports about no request in particular.
    """

    def __init__(self, portal: Portal, inner: _connection.Connection) -> None:
        super().__init__(portal)
        self._inner = inner

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
        return Session(self._portal, self._portal.run(lambda: self._inner.session(mode, redelivery=redelivery, xa=xa)))

    def management(self, address: str = ADDRESS, *, timeout: float = PATIENCE_S) -> Management:
        """Return what asks the broker for attributes and operations by name, over messages (docs/managing.md).

        The broker is one of ours, or an Artemis over CORE. ``timeout``: s for one answer. ``with`` closes it.
        """
        return Management(self._portal, self._portal.run(lambda: self._inner.management(address, timeout=timeout)))

    def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription of this client id. Raises SubscriptionInUse while a consumer has it."""
        self._portal.call(lambda: self._inner.unsubscribe(name))

    def remove_temporary(self, destination: str) -> None:
        """Delete a temporary queue or topic before the connection ends."""
        self._portal.call(lambda: self._inner.remove_temporary(destination))

    def prepare(self, xid: Xid) -> bool:
        """Have the broker promise to commit a branch; the promise outlives this connection and the broker's process.

        False: the branch did nothing and is over. Raises TransactionRolledBack, TransactionError.
        """
        return self._portal.call(lambda: self._inner.prepare(xid))

    def commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Commit a prepared branch, whoever prepared it; ``one_phase``: one that was not prepared.

        Raises TransactionError when the broker does not know the branch, TransactionRolledBack (in one phase).
        """
        self._portal.call(lambda: self._inner.commit(xid, one_phase=one_phase))

    def rollback(self, xid: Xid) -> None:
        """Undo a branch, prepared or not; what it received is handed out again. Raises TransactionError."""
        self._portal.call(lambda: self._inner.rollback(xid))

    def prepared(self) -> list[Xid]:
        """Return the branches that the broker has promised to commit, and was not told to."""
        return self._portal.call(self._inner.prepared)

    def close(self) -> None:
        """Leave in order: what is processed is settled, the broker is told, the socket is closed."""
        self._portal.call(self._inner.close)

    @property
    def connected(self) -> bool:
        """Whether a broker is there now."""
        return self._inner.connected

    @property
    def broker(self) -> str:
        """The URL of the broker in use, or of the last one; credentials hidden."""
        return self._inner.broker

    @property
    def program(self) -> str:
        """Which program the broker in use says it is, like ``entrepot`` or ``ActiveMQ 5.17.2``; "" when it does not."""
        return self._inner.program


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
    """Connect to ``url`` and return the connection; ``with`` closes it.

    ``url``: as `entrepot.connect` has it. Raises as `Connection.open` of the asyncio client.
    """
    portal = Portal.shared()
    made = _connection.connect(
        url,
        user=user,
        password=password,
        client_id=client_id,
        redelivery=redelivery,
        on_interrupted=on_interrupted,
        on_resumed=on_resumed,
        on_updated=on_updated,
        on_error=on_error,
        balancing=balancing,
    )
    return Connection(portal, portal.call(made.open))
