"""The connection of a Python program to one broker, or to whichever of several is there.

::

    async with entrepot.connect("failover:(tcp://a:61616,tcp://b:61616)", user="app", password="...") as connection:
        async with connection.session() as session, session.producer("queue://ORDERS") as producer:
            await producer.send("an order")

One event loop owns a connection. Everything it says is decided by `protocols/openwire/conversation.py`, everything
about brokers that come and go by `protocols/failover.py`.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import socket
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Final, Self, TypeVar

from entrepot.base.environment import SECOND, Instant, WallTime
from entrepot.base.errors import EntrepotError, TimedOut, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.client.branch import Xid
from entrepot.client.discovery import Listening
from entrepot.client.fanout import Fanout
from entrepot.client.lifeline import ClientTurn, Lifeline, LifelineEvents
from entrepot.client.options import ClientOptions, Reach, Target, read_target
from entrepot.client.session import FOR_EVER, Closing, Session, answer_into, told_into
from entrepot.io.runtime import SystemClock, SystemEntropy
from entrepot.protocols.failover import FailoverCore
from entrepot.protocols.openwire.commands import (
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    Response,
    XATransactionId,
)
from entrepot.protocols.openwire.consumption import Acknowledge, RedeliveryPolicy
from entrepot.protocols.openwire.conversation import (
    Answer,
    ConversationCore,
    ConversationPort,
    ProducerRecord,
)
from entrepot.protocols.openwire.ids import DestinationKind, parse_destination, qualified_name
from entrepot.protocols.openwire.whereabouts import read_zones

PARTING_S: Final = 0.5  # for the broker to close after our farewell

T = TypeVar("T")


class Connection(Closing):
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
        self.options: Final[ClientOptions] = target.client
        self.client_id = ""
        self.on_interrupted = on_interrupted
        self.on_resumed = on_resumed
        self.on_updated = on_updated
        self.on_error = on_error
        self._target = target
        self._policies = dict(redelivery or {})
        self._clock: Final = SystemClock()
        self._parts: _Parts | None = None
        self._closed = False

    # -- for programs --------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect. Raises Unreachable, AccessDenied, SubscriptionInUse (client id), TimedOut, InvalidOption.

        With ``failover:`` it tries until a broker answers, unless ``startupMaxReconnectAttempts`` says otherwise.
        """
        if self._parts is not None:
            return self
        self._parts = _Parts(self, self._target)
        self.client_id = self._parts.client_id
        try:
            await self._parts.open(self.options.connect_response_timeout)
        except BaseException:
            await self._parts.lifeline.close(0)
            self._parts = None
            raise
        return self

    def session(
        self, mode: Acknowledge = Acknowledge.AUTO, *, redelivery: dict[str, RedeliveryPolicy] | None = None
    ) -> Session:
        """Open a session whose messages count as processed as ``mode`` says. Raises Unreachable."""
        return Session(self, mode, dict(redelivery or {}))

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription of this client id. Raises SubscriptionInUse while a consumer has it."""
        await self.ask(lambda answer: self.core.unsubscribe(name, answer))

    async def remove_temporary(self, destination: str) -> None:
        """Delete a temporary queue or topic before the connection ends."""
        where = parse_destination(destination)
        await self.ask(lambda answer: self.core.remove_temporary(where, answer))

    async def prepare(self, xid: Xid) -> bool:
        """Have the broker promise to commit a branch; the promise outlives this connection and the broker's process.

        False: the branch did nothing and is over. Raises TransactionRolledBack, TransactionError.
        """
        future: asyncio.Future[bool] = self.loop.create_future()
        self.core.prepare_branch(xid.wire(), told_into(future))
        return await self._bounded(future)

    async def commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Commit a prepared branch, whoever prepared it; ``one_phase``: one that was not prepared.

        Raises TransactionError when the broker does not know the branch, TransactionRolledBack (in one phase).
        """
        await self.ask(lambda answer: self.core.commit_branch(xid.wire(), one_phase, answer))

    async def rollback(self, xid: Xid) -> None:
        """Undo a branch, prepared or not; what it received is handed out again. Raises TransactionError."""
        await self.ask(lambda answer: self.core.roll_back_branch(xid.wire(), self.now(), answer))

    async def prepared(self) -> list[Xid]:
        """Return the branches that the broker has promised to commit, and was not told to."""
        future: asyncio.Future[list[XATransactionId]] = self.loop.create_future()
        self.core.recover_branches(told_into(future))
        return [Xid.of(each) for each in await self._bounded(future)]

    async def close(self) -> None:
        """Leave in order: what is processed is settled, the broker is told, the socket is closed."""
        if self._closed or self._parts is None:
            return
        self._closed = True
        await self._parts.close(self.options.close_timeout)

    @property
    def connected(self) -> bool:
        """Whether a broker is there now."""
        return self._parts is not None and self._parts.core.introduced

    @property
    def broker(self) -> str:
        """The URL of the broker in use, or of the last one; credentials hidden."""
        place = None if self._parts is None else self._parts.lifeline.place
        return "" if place is None else place.masked()

    @property
    def program(self) -> str:
        """Which program the broker in use says it is, like ``entrepot`` or ``ActiveMQ 5.17.2``; "" when it does not."""
        return "" if self._parts is None else self._parts.lifeline.program

    def __await__(self) -> Generator[object, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for sessions and what they open -------------------------------------------------------------------------------

    @property
    def core(self) -> ConversationCore:
        """The conversation. Raises Unreachable when the connection was not opened, or ended."""
        parts = self._parts
        if parts is None:
            raise Unreachable("this connection is not open", remedy="use it in `async with`")
        if parts.core.failure is not None:
            raise parts.core.failure
        return parts.core

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that owns this connection."""
        assert self._parts is not None
        return self._parts.loop

    def now(self) -> Instant:
        """Return the monotonic time, ns."""
        return self._clock.now()

    def time(self) -> float:
        """Return the loop's time, s."""
        return self.loop.time()

    def wall(self) -> WallTime:
        """Return ms since 1970."""
        return self._clock.wall()

    def redelivery_policy(self, where: str) -> RedeliveryPolicy:
        """Return the policy of a destination."""
        for pattern, policy in self._policies.items():
            if fnmatch.fnmatchcase(where, qualified_name(parse_destination(pattern)).replace(">", "*")):
                return policy
        return self.options.redelivery_policy()

    async def ask(self, start: Callable[[Answer], object], timeout: int | None = None) -> Response | None:
        """Start something that is answered, and return the answer. ``timeout``: ns, 0 for ever, None the default.

        Raises what the answer says; TimedOut.
        """
        future: asyncio.Future[Response | None] = self.loop.create_future()
        start(answer_into(future))
        return await self._bounded(future, timeout)

    async def _bounded(self, future: asyncio.Future[T], timeout: int | None = None) -> T:
        limit = self.options.request_timeout if timeout is None else timeout
        if future.done():
            return future.result()
        if limit <= 0:
            return await future
        try:
            async with asyncio.timeout(limit / SECOND):
                return await future
        except TimeoutError:
            raise TimedOut(f"the broker did not answer within {limit / SECOND:g} s") from None

    async def add_temporary(self, kind: DestinationKind) -> str:
        """Make a temporary destination and return its name."""
        made: list[str] = []
        await self.ask(lambda answer: made.append(qualified_name(self.core.add_temporary(kind, answer))))
        return made[0]

    def soon(self) -> None:
        """See to it that acknowledgements go out when the program next waits."""
        assert self._parts is not None
        self._parts.turn.schedule()

    async def drained(self) -> None:
        """Let the loop write; wait while the broker does not read."""
        await asyncio.sleep(0)
        wire = self.core.wire
        if wire is not None and not wire.ready and self._parts is not None:
            await self._parts.wait_flowing(FOR_EVER)

    async def flowing(self, producer: ProducerRecord) -> None:
        """Wait until ``producer`` may try again. Raises TimedOut, Unreachable."""
        core = self.core
        assert self._parts is not None
        if core.introduced:
            await self._parts.wait_flowing(FOR_EVER)
            return
        limit = self._target.failover.timeout
        try:
            await self._parts.wait_flowing(FOR_EVER if limit < 0 else limit / SECOND)
        except TimeoutError:
            ms = limit * 1000 // SECOND
            raise TimedOut(f"Failover timeout of {ms} ms reached.", remedy="is a broker running?") from None


class _Parts(ConversationPort, LifelineEvents):
    """What an open connection is made of, and who hears the cores."""

    def __init__(self, connection: Connection, target: Target) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.turn: Final = ClientTurn(self.loop, SystemClock())
        self._connection = connection
        entropy = SystemEntropy()
        options = target.client
        unique = f"{_host_name()}-{os.getpid()}-{self.turn.wall}-{entropy.token(4).hex()}:1"
        identity = f"{options.connection_id_prefix}{unique}"
        self.client_id: Final = options.client_id or f"{options.client_id_prefix}{unique}"
        info = ConnectionInfo(
            connection_id=ConnectionId(identity),
            client_id=self.client_id,
            user_name=options.user_name or None,
            password=options.password or None,
            manageable=True,
            client_master=True,
            fault_tolerant=target.reconnects,
        )
        failover = target.failover
        self.core: Final = ConversationCore(
            info,
            self,
            entropy,
            reconnects=target.reconnects,
            zone=failover.zone,
            watch_advisories=options.watch_topic_advisories,
            audit=options.check_for_duplicates,
            cache_octets=failover.max_cache_size if failover.track_messages else 0,
            track_transaction_producers=failover.track_transaction_producers,
            handling=options.handling(),
        )
        self.turn.conversation = self.core
        self._target = target
        self.lifeline: Final[Lifeline | Fanout] = (
            Lifeline(FailoverCore(target.places, failover, entropy), self.core, self.core, self.turn, self)
            if target.fanout is None
            else Fanout(target, target.fanout, self.core, self.turn, entropy, self.ended)
        )
        self._beacon: Listening | None = None
        self._settling = options.optimized_ack_scheduled_ack_interval if options.optimize_acknowledge else 0
        self._settling_timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] = self.loop.create_future()
        self._waiters: dict[asyncio.Future[None], None] = {}

    async def open(self, timeout: int) -> None:
        """Dial, and wait until a broker accepted us."""
        if self._target.reach is Reach.MULTICAST and self._target.beacon is not None:
            nested = self._target.nested
            self._beacon = await Listening.open(
                self._target.beacon,
                self.loop,
                lambda place: self.lifeline.found(place.with_options(nested)),
                self.lifeline.vanished,
            )
        self.lifeline.start()
        try:
            async with asyncio.timeout(timeout / SECOND if timeout else None):
                await self._opened
        except TimeoutError:
            raise TimedOut(f"no broker accepted the connection within {timeout / SECOND:g} s") from None

    def _settle_lazily(self) -> None:
        """Tell the broker what is processed (optimizedAckScheduledAckInterval), and come back."""
        for record in self.core.inboxes.values():
            record.inbox.flush()
        self._settling_timer = self.loop.call_later(self._settling / SECOND, self._settle_lazily)

    async def close(self, timeout: int) -> None:
        """Take leave of the broker, and wait for its answer for at most ``timeout`` ns; 0 is for ever."""
        if self._settling_timer is not None:
            self._settling_timer.cancel()
        if self._beacon is not None:
            self._beacon.close()
        future: asyncio.Future[Response | None] = self.loop.create_future()
        if self.core.failure is None:
            self.core.leave(answer_into(future))
            try:
                async with asyncio.timeout(timeout / SECOND if timeout else None):
                    await future
            except (TimeoutError, EntrepotError):
                pass  # the broker finds out when the socket closes
        self.core.end(Unreachable("the program closed this connection"))
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

    # -- what the cores say --------------------------------------------------------------------------------------------

    def introduced(self, first: bool) -> None:
        """A broker accepted us."""
        if first:
            if not self._opened.done():
                self._opened.set_result(None)
            if self._settling > 0:
                self._settle_lazily()
        elif self._connection.on_resumed is not None:
            self._connection.on_resumed(self._connection.broker)
        self.flowing()

    def rejected(self, error: EntrepotError, first: bool) -> None:
        """A broker does not want us: fatal at first, else as if it were not there."""
        if first:
            self.ended(error)
        else:
            self.failed(error)
            self.lifeline.lost(str(error))

    def lost(self, why: str) -> None:
        """The wire is gone."""
        self.lifeline.lost(why)

    def settled(self) -> None:
        """What the broker said is taken in."""
        self.lifeline.settled()

    def failed(self, error: EntrepotError) -> None:
        """The broker reports an error."""
        if self._connection.on_error is not None:
            self._connection.on_error(error)

    def control(self, control: ConnectionControl) -> None:
        """The broker says where to go."""
        brokers = control.connected_brokers or ""
        zones = read_zones(control.token)
        if zones is not None and isinstance(self.lifeline, Lifeline):
            self.lifeline.located(zones.here, zones.there)
        self.lifeline.control(brokers, control.reconnect_to or "", control.rebalance_connection)

    def flowing(self) -> None:
        """Senders may try again."""
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)

    def interrupted(self, why: str, planned: bool) -> None:
        """The broker was lost, or is being left."""
        if self._connection.on_interrupted is not None:
            self._connection.on_interrupted(why)

    def updated(self, places: tuple[Endpoint, ...]) -> None:
        """Brokers were announced."""
        if self._connection.on_updated is not None:
            self._connection.on_updated([place.masked() for place in places])

    def ended(self, error: EntrepotError) -> None:
        """There is no broker, for good."""
        self.core.end(error)
        if not self._opened.done():
            self._opened.set_exception(error)
        self.flowing()


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
) -> Connection:
    """Return a connection to ``url``: ``async with`` or ``await`` opens it.

    ``url``: ``tcp://host:61616``, ``ssl://...``, ``failover:(...)?...``, ``discovery:(multicast://default)``, with
    ActiveMQ's options. Raises InvalidURI, InvalidOption.
    """
    given = {"user_name": user, "password": password, "client_id": client_id}
    overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    return Connection(
        read_target(url, overrides),
        redelivery=redelivery,
        on_interrupted=on_interrupted,
        on_resumed=on_resumed,
        on_updated=on_updated,
        on_error=on_error,
    )


def _host_name() -> str:
    return "".join(letter for letter in socket.gethostname() if letter.isalnum() or letter in ".-") or "python"
