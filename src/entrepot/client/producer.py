"""Producers: what a program sends, and how long it waits for that."""

from __future__ import annotations

from typing import Final, Self

from entrepot.base.environment import KIB
from entrepot.base.errors import Inexpressible, InvalidDestination
from entrepot.client.base import ConnectionBase
from entrepot.client.message import DEFAULT_PRIORITY, Message
from entrepot.client.opening import Closing
from entrepot.client.streaming import Source, send_in_pieces
from entrepot.protocols.conversing.bodies import Body
from entrepot.protocols.conversing.content import Outgoing
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.conversing.port import ProducerPort, SessionPort

OUTPUT_OCTETS: Final = 64 * KIB  # sends give the loop a turn when so much waits to be written


class Producer(Closing):
    """Sends messages. Defaults for each send are attributes: ``persistent``, ``priority``, ``time_to_live`` (s)."""

    def __init__(
        self, connection: ConnectionBase, mode: Acknowledge, port: ProducerPort, destination: str | None
    ) -> None:
        self._connection: Final = connection
        self._conversation: Final = connection.conversation
        self._port: Final = port
        self._destination: Final = destination
        self._transacted: Final = mode is Acknowledge.TRANSACTED
        options = connection.options
        self._compress: Final = options.use_compression
        self._dated: Final = not options.disable_time_stamps_by_default
        self._async: Final = options.use_async_send
        self._sync: Final = options.always_sync_send or options.send_timeout > 0
        self.persistent = True
        self.priority = DEFAULT_PRIORITY
        self.time_to_live = 0.0

    @classmethod
    async def open(cls, connection: ConnectionBase, session: SessionPort, destination: str | None, window: int) -> Self:
        """Open one; `Session.producer` is what programs call."""
        made: list[ProducerPort] = []
        try:
            await connection.ask(lambda answer: made.append(session.open_producer(destination, window, answer)))
        except BaseException:
            for port in made:
                port.close()
            raise
        return cls(connection, session.mode, made[0], destination)

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
        if destination is None and self._destination is None:
            raise InvalidDestination("this producer has no destination", remedy="name one in send()")
        durable = self.persistent if persistent is None else persistent
        outgoing = self._outgoing(message, properties, destination, durable, priority, time_to_live)
        if isinstance(message, Message):
            outgoing.body = message.body
            outgoing.headers = message.headers()
            own = message.own_properties()
            if own:
                outgoing.properties = own if properties is None else {**own, **properties}
        port = self._port
        wait, _ = self.waits(durable, wait)
        if wait:
            await self._connection.ask(
                lambda answer: port.send(outgoing, answer), self._connection.options.send_timeout
            )
            return
        while port.is_full() or not port.send(outgoing, None):
            await self._connection.flowing()
        conversation = self._conversation
        if conversation.unwritten() > OUTPUT_OCTETS or not conversation.has_room():
            await self._connection.drained()

    async def send_stream(
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
        where = destination or self._destination
        if where is None:
            raise InvalidDestination("this producer has no destination", remedy="name one in send_stream()")
        if self._transacted:
            raise Inexpressible("a stream is no part of a transaction", remedy="send it in a session without one")
        durable = self.persistent if persistent is None else persistent
        outgoing = self._outgoing(b"", properties, None, durable, priority, time_to_live)
        outgoing.compress = False
        return await send_in_pieces(self._connection, where, outgoing, source)

    def _outgoing(
        self,
        body: object,
        properties: dict[str, object] | None,
        destination: str | None,
        durable: bool,
        priority: int | None,
        time_to_live: float | None,
    ) -> Outgoing:
        """Return a message with what is said of it for each send, or by default."""
        outgoing = Outgoing(
            body,
            properties,
            None,
            destination or "",
            durable,
            self.priority if priority is None else priority,
            0,
            0,
            self._compress,
        )
        if self._dated:
            outgoing.timestamp = wall = self._connection.wall()
            life = self.time_to_live if time_to_live is None else time_to_live
            if life > 0:
                outgoing.expiration = wall + int(life * 1000)
        return outgoing

    def waits(self, persistent: bool | None, wait: bool | None) -> tuple[bool, bool]:
        """Return whether a send waits for the broker, and whether it is part of a transaction."""
        if self._transacted:
            return False, True
        if wait is None:
            wait = ((self.persistent if persistent is None else persistent) and not self._async) or self._sync
        return wait, False

    async def close(self) -> None:
        """Close it. What was sent is not affected."""
        self._port.close()
