"""One consumer at an upstream, and the session that it has there for itself (artemis.md 5.2).

The session says which federation it belongs to, sees that its queue is there (that of an address it makes), and reads.
Each message is acknowledged when this broker has it on disk. A reader that is not wanted any more takes nothing of what
still comes; it waits until what it took is acknowledged, and closes then: what it did not take goes back there.

What cannot be done now, because the queue is not there or this broker has no room, is tried again after a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from entrepot.base.environment import KIB, SECOND, Duration, Entropy, Instant
from entrepot.base.errors import EntrepotError, Fault
from entrepot.cluster.federation.arrival import Arrivals
from entrepot.cluster.federation.options import AddressPolicy
from entrepot.cluster.federation.peer import SESSIONS
from entrepot.cluster.federation.policies import Wish, filter_for
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.naming import FEDERATION
from entrepot.protocols.artemis.packets import (
    AddMetadata,
    Close,
    CloseConsumer,
    CreateConsumer,
    CreateQueue,
    CreateSession,
    DisconnectConsumer,
    ExceptionReply,
    FlowToken,
    IndividualAcknowledge,
    NullReply,
    Packet,
    QueueQuery,
    QueueQueryReply,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
    Start,
)
from entrepot.protocols.artemis.places import CORE_MULTICAST
from entrepot.protocols.artemis.refusals import QUEUE_EXISTS
from entrepot.protocols.artemis.schema import VERSION_MAX

UPSTREAM: Final = "federation-upstream-name"
WINDOW: Final = 1024 * KIB  # octets on their way, as consumerWindowSize of Java's clients
LARGE_OCTETS: Final = 100 * KIB
UNLIMITED: Final = -1
PAUSE_FIRST: Final = SECOND
PAUSE_MOST: Final = 30 * SECOND  # as Artemis waits between two looks for a queue


class State(Enum):
    """Where a reader is."""

    ENTERING = "entering"  # the session is asked for
    ASKING = "asking"  # is the queue there?
    MAKING = "making"  # the queue of an address
    OPENING = "opening"  # the consumer
    READING = "reading"
    WAITING = "waiting"  # for the queue, or for room here; `pause` says how long
    LEAVING = "leaving"  # what it took is not acknowledged yet
    CLOSED = "closed"


class Signal(Enum):
    """What moves it."""

    ENTERED = "the session is open"
    MISSING = "there is no such queue, and one may be made"
    FOUND = "the queue is there"
    OPENED = "the consumer is there"
    REFUSED = "something cannot be done now"
    RETRY = "the pause is over"
    UNWANTED = "nobody here wants it any more, or not now"
    CLOSE = "there is nothing more to say"


TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    (State.ENTERING, Signal.ENTERED): State.ASKING,
    (State.ENTERING, Signal.REFUSED): State.WAITING,
    (State.ASKING, Signal.MISSING): State.MAKING,
    (State.ASKING, Signal.FOUND): State.OPENING,
    (State.ASKING, Signal.REFUSED): State.WAITING,
    (State.MAKING, Signal.FOUND): State.OPENING,
    (State.MAKING, Signal.REFUSED): State.WAITING,
    (State.OPENING, Signal.OPENED): State.READING,
    (State.OPENING, Signal.REFUSED): State.WAITING,
    (State.READING, Signal.REFUSED): State.WAITING,
    (State.READING, Signal.UNWANTED): State.LEAVING,
    (State.WAITING, Signal.RETRY): State.ENTERING,
    **{(state, Signal.CLOSE): State.CLOSED for state in State},
}


class _Again(Alarm):
    def __init__(self, due: Instant, reader: RemoteReader) -> None:
        super().__init__(due)
        self._reader: Final = reader

    def ring(self, now: Instant) -> None:
        self._reader.retry()


class Company:
    """What a reader asks of the upstream that it belongs to."""

    def __init__(self, broker: BrokerCore, federation: str, upstream: str, user: str, password: str) -> None:
        self.broker: Final = broker
        self.entropy: Final[Entropy] = broker.entropy
        self.federation: Final = federation
        self.upstream: Final = upstream
        self.user: Final = user or None
        self.password: Final = password or None
        self.client: CoreClient | None = None  # the connection that is open
        self.node = ""  # the id of the broker there

    def enter(self, reader: RemoteReader) -> int:
        """Have the next answer on the channel of sessions told to ``reader``; return the channel of its session."""
        raise NotImplementedError

    def say(self, what: str) -> None:
        """Tell an operator."""
        raise NotImplementedError

    def left(self, reader: RemoteReader) -> None:
        """``reader`` is closed."""
        raise NotImplementedError


class RemoteReader:
    """One wish of one upstream. ``why``: what it waits for; ``since``: its state is what it is."""

    def __init__(self, wish: Wish, company: Company) -> None:
        self.wish: Final = wish
        self.state = State.WAITING
        self.since: Instant = int(company.broker.now)
        self.why = ""
        self.channel = 0  # of its session; 0: it has none
        self.past = 0  # of the one before
        self.accepted = 0  # of sessions that are over
        self.duplicates = 0
        self.arrivals: Arrivals | None = None
        self._company: Final = company
        self._pause: Duration = PAUSE_FIRST
        self._again: _Again | None = None
        self._owed = 0  # octets that are read and not granted anew
        self._ends = False  # nobody wants it any more
        self._breaks = False  # it takes nothing now, and begins anew later

    # -- its life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The connection is open: make a session."""
        company = self._company
        client = company.client
        if client is None or self.state is not State.WAITING:
            return
        self._stop_waiting()
        self._become(Signal.RETRY)
        self.channel = company.enter(self)
        client.send(
            CreateSession(
                name=uuid_text(company.entropy.token(UUID_OCTETS)),
                session_channel=self.channel,
                version=VERSION_MAX,
                user=company.user,
                password=company.password,
                min_large=LARGE_OCTETS,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=UNLIMITED,
                pre_ack=False,
                channel=SESSIONS,
            )
        )

    def retry(self) -> None:
        """The pause is over."""
        self._again = None
        self.start()

    def unwanted(self) -> None:
        """Nobody here wants it any more: take nothing more, and close when all that was taken is acknowledged."""
        self._ends = True
        self._stop_waiting()
        if self.state is State.READING and self._pending() > 0:
            self._become(Signal.UNWANTED)
        elif self.state is not State.ENTERING:  # its answer says whether there is something to close
            self._close()

    def lost(self, why: str) -> None:
        """The connection is gone, and the session with it."""
        self._stop_waiting()
        self._forget()
        if self._ends:
            self._finish()
            return
        self.why = why
        if self.state not in (State.WAITING, State.CLOSED):
            self._become(Signal.REFUSED)

    def close(self) -> None:
        """The upstream ends: close the session; what is not acknowledged comes again."""
        self._stop_waiting()
        self._close()

    def _close(self) -> None:
        self._leave_session()
        self._forget()
        self._finish()

    def _leave_session(self) -> None:
        if self.state in (State.READING, State.LEAVING):
            self._post(CloseConsumer(consumer=0))
        if self.state not in (State.ENTERING, State.WAITING, State.CLOSED):
            self._post(Close())

    def _finish(self) -> None:
        if self.state is not State.CLOSED:
            self._become(Signal.CLOSE)
            self._company.left(self)

    def _pending(self) -> int:
        return 0 if self.arrivals is None else self.arrivals.pending

    def _forget(self) -> None:
        """There is no session."""
        arrivals, self.arrivals = self.arrivals, None
        self.past, self.channel = self.channel or self.past, 0
        self._owed = 0
        self._breaks = False
        if arrivals is not None:
            self.accepted += arrivals.accepted
            self.duplicates += arrivals.duplicates
            arrivals.end()

    # -- what the upstream says ----------------------------------------------------------------------------------------

    def entered(self) -> None:
        """The session is open."""
        if self.state is not State.ENTERING:
            return
        self._become(Signal.ENTERED)
        if self._ends:
            self._close()
            return
        company = self._company
        self._post(AddMetadata(key=FEDERATION, data=company.federation))
        self._post(AddMetadata(key=UPSTREAM, data=company.upstream))
        self._post(QueueQuery(queue=self.wish.queue))

    def not_entered(self, why: str) -> None:
        """There is no session."""
        if self.state is not State.ENTERING:
            return
        self._forget()
        if self._ends:
            self._finish()
        else:
            self._put_off(f"the upstream opens no session: {why}")

    def told(self, packet: Packet) -> None:
        """Take what comes on the channel of its session."""
        if isinstance(packet, (Receive, ReceiveLarge, ReceiveContinuation)):
            self._receive(packet)
        elif isinstance(packet, QueueQueryReply):
            self._answered(packet)
        elif isinstance(packet, NullReply):
            if self.state is State.MAKING:
                self._open()
        elif isinstance(packet, ExceptionReply):
            self._denied(int(packet.code), packet.text or f"code {packet.code}")
        elif isinstance(packet, DisconnectConsumer):
            self._break_off("the queue was deleted at the upstream")

    def _answered(self, packet: QueueQueryReply) -> None:
        if self.state is State.OPENING:
            self._opened()
        elif self.state is not State.ASKING:
            return
        elif packet.exists:
            self._open()
        elif self.wish.policy is not None:
            self._make(self.wish.policy)
        else:
            self._break_off(f"there is no queue {self.wish.queue} at the upstream yet")

    def _make(self, policy: AddressPolicy) -> None:
        self._become(Signal.MISSING)
        wish = self.wish
        self._post(
            CreateQueue(
                address=wish.address,
                queue=wish.queue,
                filter=filter_for(policy) or None,
                durable=True,
                require_response=True,
                routing=CORE_MULTICAST,
                max_consumers=UNLIMITED,
                auto_delete=policy.auto_delete,
                auto_delete_delay=policy.auto_delete_delay_ms,
                auto_delete_message_count=policy.auto_delete_messages,
            )
        )

    def _open(self) -> None:
        self._become(Signal.FOUND)
        wish = self.wish
        self._post(
            CreateConsumer(
                consumer=0,
                queue=wish.queue,
                filter=wish.selector or None,
                require_response=True,
                priority=wish.priority,
            )
        )

    def _opened(self) -> None:
        self._become(Signal.OPENED)
        self.arrivals = Arrivals(self._company.broker, self.wish, self._company.node, self)
        self.why = ""
        self._post(Start())
        self._post(FlowToken(consumer=0, credits=WINDOW))

    def _denied(self, code: int, why: str) -> None:
        """The upstream refuses what was asked for last."""
        if self.state is State.MAKING and code == QUEUE_EXISTS:
            self._open()
        elif self.state in (State.ASKING, State.MAKING, State.OPENING, State.READING):
            self._break_off(f"the upstream refuses: {why}")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _receive(self, packet: Packet) -> None:
        arrivals = self._taking()
        if arrivals is None:
            return
        size = int(packet.octets)
        try:
            if isinstance(packet, Receive):
                arrivals.take(packet.message, size)
            elif isinstance(packet, ReceiveLarge):
                arrivals.begin(packet.headers, size)
            elif isinstance(packet, ReceiveContinuation):
                arrivals.go_on(packet.body, size, more=packet.continues)
        except EntrepotError as error:
            self._break_off(f"a message cannot be taken here: {error.message}")

    def _taking(self) -> Arrivals | None:
        return None if self.state is not State.READING or self._breaks else self.arrivals

    def acknowledge(self, number: int, octets: int) -> None:
        """The message ``number`` is safe here: the upstream may forget it."""
        self._post(IndividualAcknowledge(consumer=0, message=number))
        self._pause = PAUSE_FIRST
        self.release(octets)
        self._look()

    def release(self, octets: int) -> None:
        """Let so many octets more come, in portions."""
        self._owed += octets
        if self._owed >= WINDOW // 4 and self._taking() is not None:
            self._post(FlowToken(consumer=0, credits=self._owed))
            self._owed = 0

    def refused(self, why: str) -> None:
        """The disk here does not take a message: it stays there."""
        self._break_off(f"a message cannot be taken here: {why}")

    def _break_off(self, why: str) -> None:
        """Take nothing more on this session, end it when what was taken is acknowledged, and try again later."""
        if self.why != why:
            self._company.say(f"{self.wish.queue}: {why}")
        self.why = why
        self._breaks = True
        self._look()

    def _look(self) -> None:
        """Go on with what follows when all that was taken is acknowledged."""
        if self._pending() > 0 or not (self._ends or self._breaks):
            return
        if self._ends:
            self._close()
            return
        self._leave_session()
        self._forget()
        self._put_off(self.why)

    def _put_off(self, why: str) -> None:
        self.why = why
        self._become(Signal.REFUSED)
        self._again = _Again(int(self._company.broker.now) + self._pause, self)
        self._company.broker.timetable.add(self._again)
        self._pause = min(2 * self._pause, PAUSE_MOST)

    def _stop_waiting(self) -> None:
        again, self._again = self._again, None
        if again is not None:
            again.cancelled = True

    def _post(self, packet: Packet) -> None:
        client = self._company.client
        if client is not None and client.live and self.channel:
            packet.channel = self.channel
            client.send(packet)

    def _become(self, signal: Signal) -> None:
        state = TRANSITIONS.get((self.state, signal))
        if state is None:
            raise Fault(f"a reader of {self.wish.queue} that is {self.state.value} cannot take: {signal.value}")
        self.state = state
        self.since = int(self._company.broker.now)
