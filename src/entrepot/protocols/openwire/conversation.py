"""A program's connection, which outlives its sockets: what it opened, what it asked, what a new broker must be told.

Owns identities, sessions, producers, inboxes, transactions and unanswered requests. Holds at most one `OpenWireClient`
(``wire``); `use` gives it one, its loss takes it away. Whether and whither to dial is `protocols/failover.py`'s matter.

Replay on a new wire (classic.md 2.3): ConnectionControl, ConnectionInfo, temporary destinations, then per session its
producers and consumers, open transactions (BEGIN and what was sent), cached messages, pulls, and every request without
an answer, in order, sends with their old sequence, so that a broker that stored one swallows it. Invariants:

- a transaction that consumed on a lost wire never commits: `TransactionRolledBack`, and the broker delivers again;
- a commit whose answer was lost is sent again, with the same messages, only to the same store (the broker has the same
  name, or the same identity, as those that take turns at one store have) and only if it did nothing but send; otherwise
  it is reported as `TransactionInDoubt`. Never silently;
- a branch of a distributed transaction that is not prepared ends with its wire; one that is prepared ends when it is
  told to, on whatever wire. [C]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from mypy_extensions import mypyc_attr

from entrepot.base.environment import Entropy, Instant, WallTime
from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    EntrepotError,
    InvalidDestination,
    InvalidSelector,
    Refused,
    SubscriptionInUse,
    TransactionError,
    TransactionInDoubt,
    TransactionRolledBack,
    Unreachable,
)
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import (
    ActiveMQTopic,
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DataArrayResponse,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    IntegerResponse,
    LocalTransactionId,
    Message,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionId,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.consumption import (
    USUAL,
    Acknowledge,
    Delivery,
    Handling,
    Inbox,
    InboxPort,
    RedeliveryPolicy,
)
from entrepot.protocols.openwire.frames import Structure, Throwable
from entrepot.protocols.openwire.ids import (
    DestinationKind,
    DestinationOperation,
    LastDelivered,
    TransactionStep,
    destination,
    is_temporary,
    text_of,
)
from entrepot.protocols.openwire.whereabouts import ZONE_TOKEN

if TYPE_CHECKING:
    from entrepot.protocols.openwire.fanout import FanoutWire

    Wire: TypeAlias = OpenWireClient | FanoutWire

Answer = Callable[[Response | None, EntrepotError | None], None]
"""Called once: with the response, None where nothing had to be asked, or with what went wrong."""

TEMPORARY_ADVISORIES: Final = "ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"
ADVISORY_SESSION: Final = -1
ADVISORY_PREFETCH: Final = 1000
GONE_MAX: Final = 10_000  # deleted temporary destinations that are remembered
MESSAGE_OVERHEAD: Final = 1024  # what a message weighs at least in a producer's window, as ActiveMQ counts

ERRORS: Final[dict[str, type[Refused]]] = {
    "InvalidClientIDException": SubscriptionInUse,
    "JMSSecurityException": AccessDenied,
    "SecurityException": AccessDenied,
    "InvalidDestinationException": InvalidDestination,
    "DestinationDoesNotExistException": InvalidDestination,
    "InvalidSelectorException": InvalidSelector,
    "ActiveMQInvalidFilterExpressionException": InvalidSelector,  # Artemis
    "ResourceAllocationException": AddressFull,
    "TransactionRolledBackException": TransactionRolledBack,
    "TransactionInProgressException": TransactionError,
    "XAException": TransactionError,
}
XA_RDONLY: Final = 3  # the answer of a branch that did nothing: it is over


def in_doubt(why: str) -> Unreachable:
    """Return what is raised where nobody knows whether an acknowledgement is stored."""
    return Unreachable(
        f"the acknowledgement is in doubt: {why}",
        remedy="expect the message again: it comes unless the broker had read and stored the acknowledgement",
    )


def refusal(exception: Throwable | None) -> Refused:
    """Return what a broker's exception means here; its class is only compared by name."""
    if exception is None:
        return Refused("the broker refused without a reason")
    name = (exception.class_name or "").rpartition(".")[2]
    if name == "DestinationDoesNotExistException" and exception.message:
        return InvalidDestination(f"the destination {exception.message} does not exist")
    return ERRORS.get(name, Refused)(exception.message or name or "the broker gave no reason")


@mypyc_attr(allow_interpreted_subclasses=True)
class ConversationPort:
    """What a conversation tells its owner."""

    def introduced(self, first: bool) -> None:
        """The broker accepted us; everything is told again."""

    def rejected(self, error: EntrepotError, first: bool) -> None:
        """The broker does not accept us: the wire was taken away, and is to be closed."""

    def lost(self, why: str) -> None:
        """The wire is gone."""

    def settled(self) -> None:
        """What the broker said is taken in; a good moment to look at `ConversationCore.busy`."""

    def failed(self, error: EntrepotError) -> None:
        """The broker reports an error that answers no request."""

    def control(self, control: ConnectionControl) -> None:
        """The broker says where to go."""

    def flowing(self) -> None:
        """A producer may send again: the socket drained, or a window opened."""


class Request:
    """A command that wants an answer. ``transaction``: it commits that one. ``confirms``: what went before it."""

    def __init__(
        self, command: Command, answer: Answer, transaction: Transaction | None = None, confirms: bool = False
    ) -> None:
        self.command: Final = command
        self.answer: Final = answer
        self.transaction: Final = transaction
        self.confirms: Final = confirms


class Transaction:
    """Work that counts together. ``doomed``: why it cannot commit any more.

    ``settled``: what a branch of a distributed transaction settled, by inbox, in case that it is rolled back.
    """

    def __init__(self, transaction_id: TransactionId) -> None:
        self.transaction_id: Final = transaction_id
        self.is_branch: Final = isinstance(transaction_id, XATransactionId)
        self.settled: list[tuple[Inbox, list[Delivery]]] = []
        self.sends: list[Message] = []
        self.closed_producers: list[ProducerInfo] = []
        self.begun = False
        self.consumed = False
        self.doomed = ""


class ProducerRecord:
    """A producer. ``outstanding``: octets sent that the broker's ProducerAck did not give back."""

    def __init__(self, info: ProducerInfo, session: SessionRecord) -> None:
        self.info: Final = info
        self.session: Final = session
        self.sequence = 0
        self.outstanding = 0
        self.confirmed = False

    @property
    def full(self) -> bool:
        """Whether the window is used up."""
        return 0 < self.info.window_size <= self.outstanding


class ConsumerRecord:
    """A consumer. ``closing``: its program is done with it, its transaction is not."""

    def __init__(self, info: ConsumerInfo, inbox: Inbox, session: SessionRecord | None) -> None:
        self.info: Final = info
        self.inbox: Final = inbox
        self.session: Final = session
        self.confirmed = False
        self.closing = False
        self.pull: MessagePull | None = None


class SessionRecord:
    """A session and what it opened, by number."""

    def __init__(self, info: SessionInfo, mode: Acknowledge) -> None:
        self.info: Final = info
        self.mode: Final = mode
        self.producers: dict[int, ProducerRecord] = {}
        self.consumers: dict[int, ConsumerRecord] = {}
        self.transaction: Transaction | None = None

    @property
    def number(self) -> int:
        """The number of the session within the connection."""
        return int(self.info.session_id.value) if self.info.session_id is not None else 0


class _Outlet(InboxPort):
    def __init__(self, conversation: ConversationCore, wake: Callable[[], None]) -> None:
        self._conversation = conversation
        self._wake = wake

    def acknowledge(self, ack: MessageAck) -> None:
        self._conversation.post(ack)

    def acknowledge_session(self, inbox: Inbox) -> None:
        self._conversation.acknowledge_session(inbox)

    def reports(self) -> int:
        return self._conversation.reports

    def arrived(self, inbox: Inbox) -> None:
        self._wake()


class ConversationCore(ClientPort):
    """One connection of a program. ``failure``: why it ended for good; every later request gets that."""

    def __init__(
        self,
        info: ConnectionInfo,
        port: ConversationPort,
        entropy: Entropy,
        *,
        reconnects: bool,
        zone: str = "",
        watch_advisories: bool = True,
        audit: bool = True,
        cache_octets: int = 0,
        track_transaction_producers: bool = True,
        handling: Handling = USUAL,
    ) -> None:
        """``audit``: do not hand out again what was settled just before the wire was lost.

        ``cache_octets``: of messages sent without an answer that are sent again (trackMessages).
        """
        self.info: Final = info
        self.port: Final = port
        self.reconnects: Final = reconnects
        self.zone: Final = zone
        self.wire: Wire | None = None
        self.introduced = False
        self.broker_name = ""
        self.broker_identity = ""  # "" where it does not say
        self.broker_url = ""
        self.failure: EntrepotError | None = None
        self.sessions: dict[int, SessionRecord] = {}
        self.inboxes: dict[int, ConsumerRecord] = {}
        self.producers: dict[int, ProducerRecord] = {}
        self.temporaries: dict[str, Destination] = {}
        self.gone: dict[str, None] = {}
        self.losses: int = 0  # of wires
        self.reports: int = 0  # errors that answered no request
        self._report: EntrepotError | None = None  # the last of them
        self.wall: WallTime = 0
        self.now: Instant = 0
        self._entropy = entropy
        self._handling = handling
        self._branches: list[Transaction] = []  # ended and not over
        self._watch = watch_advisories
        self._audit = audit and reconnects
        self._track_producers = track_transaction_producers
        self._pending: dict[int, Request] = {}
        self._parked: list[Request] = []
        self._doubtful: list[tuple[Request, str, str]] = []  # with the name and the identity of the broker
        self._cache: deque[Message] = deque()
        self._cache_max = cache_octets
        self._cached = 0
        self._numbers = 0
        self._first = True
        self._introduction = 0

    # -- the wire ------------------------------------------------------------------------------------------------------

    def use(self, wire: Wire) -> None:
        """Take ``wire``, which has agreed on a format: introduce ourselves and tell again what was."""
        self.wire = wire
        *said, introduction = self.opening()
        for command in said:
            self.post(command)
        self._introduction = wire.ask(introduction)
        if not self._first:
            self._replay()

    def opening(self) -> list[Command]:
        """Return what introduces us; the last of it is to be answered."""
        self.info.failover_reconnect = not self._first
        if not self.reconnects:
            return [self.info]
        token = ZONE_TOKEN + self.zone.encode() if self.zone else None
        return [ConnectionControl(fault_tolerant=True, token=token), self.info]

    def opened(self, *, consumers: bool) -> list[Command]:
        """Return what is open for a broker that joins: all but consumers, or the consumers."""
        if consumers:
            return [record.info for record in self.inboxes.values() if record.confirmed]
        commands: list[Command] = [_add(self.info.connection_id, where) for where in self.temporaries.values()]
        for session in self.sessions.values():
            commands.append(session.info)
            commands += [producer.info for producer in session.producers.values() if producer.confirmed]
            transaction = session.transaction
            if transaction is not None and transaction.begun and not transaction.doomed:
                commands.append(self._step(transaction.transaction_id, TransactionStep.BEGIN))
                commands += transaction.sends
        return commands

    def lost(self, client: Wire, why: str) -> None:
        """The wire is gone: see what that means for what was under way."""
        if client is self.wire:
            self._withdraw()
            self.port.lost(why)

    def leave_wire(self, client: Wire, why: str) -> None:
        """Settle what is processed, and use this wire no more; whoever calls this knows why it goes."""
        if client is self.wire:
            for record in self.inboxes.values():
                record.inbox.flush()
            self._withdraw()

    def _withdraw(self) -> None:
        self.wire = None
        self.introduced = False
        self.losses += 1
        for record in list(self.inboxes.values()):
            unsettled = record.inbox.interrupted()
            record.inbox.era = self.losses
            session = record.session
            if unsettled and session is not None and session.mode is Acknowledge.TRANSACTED:
                self._transaction(session).doomed = "the connection was lost while it consumed"
            if record.closing or record.inbox.browser:
                self._forget_consumer(record)
            if record.inbox.browser and not record.inbox.exhausted:
                record.inbox.end("the connection was lost while it browsed")
        for producer in self.producers.values():
            producer.outstanding = 0
        for session in self.sessions.values():
            if session.transaction is not None and session.transaction.is_branch:
                session.transaction.doomed = "the connection was lost"
        for branch in self._branches:
            branch.doomed = "the connection was lost before it was prepared"
            branch.settled.clear()
        pending, self._pending = self._pending, {}
        parked: list[Request] = []
        for request in pending.values():
            self._orphan(request, parked)
        self._parked = parked + self._parked

    def end(self, error: EntrepotError) -> None:
        """The connection is over: everything that waits gets ``error``."""
        if self.failure is not None:
            return
        self.failure = error
        waiting = [*self._pending.values(), *self._parked, *[each[0] for each in self._doubtful]]
        self._pending, self._parked, self._doubtful = {}, [], []
        for request in waiting:
            request.answer(None, error)
        for record in list(self.inboxes.values()):
            record.inbox.end(str(error))

    @property
    def busy(self) -> bool:
        """Whether to leave the broker now would repeat or undo something: requests, a transaction, what came in."""
        if self._pending:
            return True
        for session in self.sessions.values():
            if session.transaction is not None and session.transaction.begun:
                return True
            if any(record.inbox.delivered for record in session.consumers.values()):
                return True
        return False

    def post(self, command: Command) -> bool:
        """Send ``command`` without wanting an answer; False when there is no wire, and it is dropped."""
        wire = self.wire
        if wire is None or not wire.live:
            return False
        wire.post(command)
        return True

    def request(self, command: Command, answer: Answer, transaction: Transaction | None = None) -> None:
        """Send ``command`` and pass on what comes of it; it waits for a wire if there is none.

        Raises Inexpressible, and then ``answer`` is not called.
        """
        if self.failure is not None:
            answer(None, self.failure)
            return
        request = Request(command, answer, transaction)
        if self.wire is not None and self.wire.live:
            self._ask(self.wire, request)
        else:
            self._parked.append(request)

    def _ask(self, wire: Wire, request: Request) -> None:
        self._pending[wire.ask(request.command)] = request

    def _orphan(self, request: Request, parked: list[Request]) -> None:
        """Decide about a request whose answer is lost: ask again, answer ourselves, or find it in doubt."""
        command = request.command
        transaction = request.transaction
        if request.confirms or isinstance(command, MessageAck):
            request.answer(None, in_doubt("the connection was lost before the broker confirmed it"))
        elif not self.reconnects:
            request.answer(None, Unreachable("the connection to the broker was lost before it answered"))
        elif transaction is not None:
            if transaction.consumed:
                request.answer(None, TransactionInDoubt("in doubt: the broker was lost while it was to commit"))
            else:
                self._doubtful.append((request, self.broker_name, self.broker_identity))
        elif isinstance(command, TransactionInfo) and isinstance(command.transaction_id, XATransactionId):
            self._orphan_branch(request, command, parked)
        elif isinstance(command, (RemoveInfo, TransactionInfo)):
            if isinstance(command, TransactionInfo) and command.type == TransactionStep.RECOVER:
                parked.append(request)
            else:
                request.answer(None, None)  # the end of the connection did it
        else:
            parked.append(request)

    def _orphan_branch(self, request: Request, command: TransactionInfo, parked: list[Request]) -> None:
        """Decide about a step of a branch: what is prepared outlives the connection, what is not ended with it."""
        step = command.type
        if step == TransactionStep.PREPARE or step == TransactionStep.COMMIT_ONE_PHASE:
            text = text_of(command.transaction_id) if command.transaction_id is not None else ""
            error = TransactionInDoubt(
                f"in doubt: the broker was lost while it was to end {text}", remedy="ask which branches are prepared"
            )
            request.answer(None, error)
        elif step == TransactionStep.END:
            request.answer(None, None)
        else:
            parked.append(request)

    def _replay(self) -> None:
        connection_id = self.info.connection_id
        for where in self.temporaries.values():
            self.post(_add(connection_id, where))
        closed: list[ProducerInfo] = []
        for session in self.sessions.values():
            self.post(session.info)
            transaction = session.transaction
            if transaction is not None:
                closed += transaction.closed_producers
            for producer in session.producers.values():
                if producer.confirmed:
                    self.post(producer.info)
        for info in closed:
            self.post(info)
        for record in self.inboxes.values():
            if record.confirmed:
                self.post(record.info)
        for session in self.sessions.values():
            if session.transaction is not None:
                self._replay_transaction(session.transaction)
        for info in closed:
            self.post(RemoveInfo(object_id=info.producer_id, last_delivered_sequence_id=LastDelivered.UNKNOWN))
        for message in self._cache:
            self.post(message)
        for record in self.inboxes.values():
            if record.pull is not None and record.inbox.pulling:
                self.post(record.pull)
        parked, self._parked = self._parked, []
        for request in parked:
            if request.transaction is not None:
                self._replay_transaction(request.transaction)
            if self.wire is not None and self.wire.live:
                self._ask(self.wire, request)

    def _replay_transaction(self, transaction: Transaction) -> None:
        if transaction.doomed or not transaction.begun or transaction.is_branch:
            return
        self.post(self._step(transaction.transaction_id, TransactionStep.BEGIN))
        for message in transaction.sends:
            self.post(message)

    def _resolve_doubts(self) -> None:
        """Repeat, in the store that they may be in, the transactions whose commit was not answered; report the others.

        The same messages with the same sequences: a store that has them swallows them all and commits nothing.
        """
        doubtful, self._doubtful = self._doubtful, []
        for request, broker_name, identity in doubtful:
            transaction = request.transaction
            wire = self.wire
            if transaction is None or wire is None:
                continue
            if broker_name != self.broker_name and (identity != self.broker_identity or not identity):
                why = f"in doubt: {broker_name!r} was lost while it was to commit, and {self.broker_name!r} cannot know"
                request.answer(None, TransactionInDoubt(why))
                continue
            self._replay_transaction(transaction)
            self._ask(wire, request)

    # -- what the broker says ------------------------------------------------------------------------------------------

    def dispatched(self, client: Wire, dispatch: MessageDispatch) -> None:
        """Put a message into its inbox."""
        consumer_id = dispatch.consumer_id
        record = self.inboxes.get(consumer_id.value) if consumer_id is not None else None
        if record is None or client is not self.wire:
            return
        record.inbox.arrive(dispatch, self.wall)

    def responded(self, client: Wire, response: Response) -> None:
        """Answer the request."""
        if client is not self.wire:
            return
        error = refusal(response.exception) if isinstance(response, ExceptionResponse) else None
        number = int(response.correlation_id)
        if number == self._introduction:
            self._introduction = 0
            self._be_introduced(error)
            return
        request = self._pending.pop(number, None)
        if request is not None:
            request.answer(None if error is not None else response, error)

    def told(self, client: Wire, command: Command) -> None:
        """Take what answers nothing."""
        if isinstance(command, BrokerInfo):
            self.broker_name = command.broker_name or ""
            self.broker_identity = "" if command.broker_id is None else command.broker_id.value or ""
            self.broker_url = command.broker_url or ""
        elif client is not self.wire:
            return
        elif isinstance(command, ConnectionControl):
            self.port.control(command)
        elif isinstance(command, ConnectionError):
            self._report = refusal(command.exception)
            self.reports += 1
            self.port.failed(self._report)
        elif isinstance(command, ProducerAck):
            self._widen(command)
        elif isinstance(command, ConsumerControl):
            self._control_consumer(command)

    def settled(self, client: Wire) -> None:
        """A chunk is taken in."""
        if client is self.wire:
            self.port.settled()

    def writable(self, client: Wire, ready: bool) -> None:
        """The socket drained, or is full."""
        if ready:
            self.port.flowing()

    def _be_introduced(self, error: EntrepotError | None) -> None:
        first = self._first
        if error is not None:
            self._withdraw()  # first of all: what was said behind the introduction is refused as well
            self.port.rejected(error, first)
            return
        self._first = False
        self.introduced = True
        if first:
            self._watch_temporaries()
            self._replay()
        self._resolve_doubts()
        self.port.introduced(first)

    def _widen(self, ack: ProducerAck) -> None:
        producer = self.producers.get(ack.producer_id.value) if ack.producer_id is not None else None
        if producer is not None:
            producer.outstanding = max(0, producer.outstanding - int(ack.size))
            self.port.flowing()

    def _control_consumer(self, control: ConsumerControl) -> None:
        record = self.inboxes.get(control.consumer_id.value) if control.consumer_id is not None else None
        if record is None:
            return
        if control.close:
            self._forget_consumer(record)
            record.inbox.end("the broker closed this consumer")
        elif control.prefetch >= 0 and not (control.flush or control.start or control.stop):
            record.info.prefetch_size = control.prefetch
            record.inbox.prefetch = int(control.prefetch)

    def _watch_temporaries(self) -> None:
        """Hear of temporary destinations that end, so that a send to one is refused (classic.md 4.15, 5.8)."""
        if not self._watch:
            return
        info = ConsumerInfo(
            consumer_id=ConsumerId(self._text(), ADVISORY_SESSION, self._fresh()),
            destination=ActiveMQTopic(TEMPORARY_ADVISORIES),
            prefetch_size=ADVISORY_PREFETCH,
            no_local=True,
            dispatch_async=True,
        )
        inbox = Inbox(info, Acknowledge.AUTO, RedeliveryPolicy(), InboxPort(), self._entropy, False)
        inbox.port = _Outlet(self, lambda: self._note_temporaries(inbox))
        record = ConsumerRecord(info, inbox, None)
        self._announce_consumer(record, lambda response, error: None)

    def _note_temporaries(self, inbox: Inbox) -> None:
        while (delivery := inbox.take(self.now)) is not None:
            inbox.done(delivery)
            advice = delivery.message.data_structure
            if isinstance(advice, DestinationInfo) and advice.destination is not None:
                name = advice.destination.physical_name or ""
                if advice.operation_type == DestinationOperation.REMOVE:
                    self.gone[name] = None
                    if len(self.gone) > GONE_MAX:
                        del self.gone[next(iter(self.gone))]
                else:
                    self.gone.pop(name, None)
        inbox.flush()

    # -- sessions, producers, consumers --------------------------------------------------------------------------------

    def open_session(self, mode: Acknowledge) -> SessionRecord:
        """Open a session."""
        session = SessionRecord(SessionInfo(session_id=SessionId(self._text(), self._fresh())), mode)
        self.sessions[session.number] = session
        self.post(session.info)
        return session

    def close_session(self, session: SessionRecord) -> None:
        """Close a session with all that it opened; what it did in an open transaction is undone."""
        if self.sessions.pop(session.number, None) is None:
            return
        transaction, session.transaction = session.transaction, None
        if transaction is not None and transaction.begun:
            self.post(self._step(transaction.transaction_id, TransactionStep.ROLLBACK))
        for record in list(session.consumers.values()):
            record.inbox.delivered.clear()
            self.close_consumer(record)
        for producer in list(session.producers.values()):
            self.close_producer(producer)
        self.post(RemoveInfo(object_id=session.info.session_id, last_delivered_sequence_id=LastDelivered.UNKNOWN))

    def open_producer(
        self, session: SessionRecord, where: Destination | None, window: int, answer: Answer
    ) -> ProducerRecord:
        """Open a producer; ``window`` octets may be under way when it sends without answers, 0 for any number."""
        number = self._fresh()
        info = ProducerInfo(
            producer_id=ProducerId(self._text(), number, session.number),
            destination=where,
            window_size=window,
            dispatch_async=True,
        )
        record = ProducerRecord(info, session)
        session.producers[number] = self.producers[number] = record

        def opened(response: Response | None, error: EntrepotError | None) -> None:
            record.confirmed = error is None
            if error is not None:
                self._forget_producer(record)
            answer(response, error)

        self.request(info, opened)
        return record

    def close_producer(self, record: ProducerRecord) -> None:
        """Close a producer; an open transaction may need it again on another broker."""
        transaction = record.session.transaction
        if transaction is not None and self._track_producers and self.reconnects:
            transaction.closed_producers.append(record.info)
        if self._forget_producer(record):
            self.post(RemoveInfo(object_id=record.info.producer_id, last_delivered_sequence_id=LastDelivered.UNKNOWN))

    def open_consumer(
        self,
        session: SessionRecord,
        info: ConsumerInfo,
        policy: RedeliveryPolicy,
        wake: Callable[[], None],
        answer: Answer,
    ) -> ConsumerRecord:
        """Open a consumer described by ``info``, which gets its identity here. ``wake``: something may be taken."""
        info.consumer_id = ConsumerId(self._text(), session.number, self._fresh())
        if info.subscription_name is not None:
            info.client_id = self.info.client_id  # Artemis names the subscription after this, not after the connection
        inbox = Inbox(info, session.mode, policy, _Outlet(self, wake), self._entropy, self._audit, self._handling)
        inbox.era = self.losses
        record = ConsumerRecord(info, inbox, session)
        session.consumers[info.consumer_id.value] = record
        self._announce_consumer(record, answer)
        return record

    def close_consumer(self, record: ConsumerRecord) -> None:
        """Close a consumer; one that consumed in an open transaction stays until that ends."""
        if record.inbox.mode == Acknowledge.TRANSACTED and record.inbox.delivered:
            record.closing = True
            return
        record.inbox.flush()
        if self._forget_consumer(record):
            sequence = int(record.inbox.last_sequence)
            last = sequence if sequence >= 0 else int(LastDelivered.UNSET)
            self.post(RemoveInfo(object_id=record.info.consumer_id, last_delivered_sequence_id=last))

    def acknowledge_session(self, inbox: Inbox) -> None:
        """Settle all that the session of ``inbox`` was handed (CLIENT)."""
        consumer_id = inbox.info.consumer_id
        record = self.inboxes.get(consumer_id.value) if consumer_id is not None else None
        if record is not None and record.session is not None:
            for each in record.session.consumers.values():
                each.inbox.acknowledge_all()

    def confirm(self, era: int, reports: int, answer: Answer) -> None:
        """Let ``answer`` come when the broker has stored what it was told without an answer before this.

        ``era``: what `losses` was then; ``reports``: what `reports` was, for an error that the broker reports since may
        be about it. An empty transaction asks: its commit is answered behind all that came before, and after the disk.
        """
        wire = self.wire
        if era != self.losses or wire is None or not wire.live:
            answer(None, in_doubt("the connection was lost before the broker was asked"))
            return
        if not isinstance(wire, OpenWireClient):
            answer(
                None, Refused("several brokers at once cannot confirm an acknowledgement", remedy="do not wait for it")
            )
            return
        transaction_id = LocalTransactionId(self._fresh(), self.info.connection_id)
        self.post(self._step(transaction_id, TransactionStep.BEGIN))

        def confirmed(response: Response | None, error: EntrepotError | None) -> None:
            if error is None and self.reports != reports:
                error = self._report
            answer(response, error)

        self._ask(wire, Request(self._step(transaction_id, TransactionStep.COMMIT_ONE_PHASE), confirmed, confirms=True))

    def pull(self, record: ConsumerRecord, timeout_ms: int) -> None:
        """Ask for one message (prefetch 0): -1 what is there now, 0 wait for ever, else so long."""
        record.inbox.pulling = True
        record.inbox.pulled_nothing = False
        record.pull = MessagePull(
            consumer_id=record.info.consumer_id, destination=record.info.destination, timeout=timeout_ms
        )
        self.post(record.pull)

    def _announce_consumer(self, record: ConsumerRecord, answer: Answer) -> None:
        consumer_id = record.info.consumer_id
        number = int(consumer_id.value) if consumer_id is not None else 0
        self.inboxes[number] = record

        def opened(response: Response | None, error: EntrepotError | None) -> None:
            record.confirmed = error is None
            if error is not None:
                self._forget_consumer(record)
            answer(response, error)

        self.request(record.info, opened)

    def _forget_consumer(self, record: ConsumerRecord) -> bool:
        consumer_id = record.info.consumer_id
        if consumer_id is None or self.inboxes.pop(consumer_id.value, None) is None:
            return False
        record.inbox.closed = True
        if record.session is not None:
            record.session.consumers.pop(consumer_id.value, None)
        return True

    def _forget_producer(self, record: ProducerRecord) -> bool:
        producer_id = record.info.producer_id
        if producer_id is None or self.producers.pop(producer_id.value, None) is None:
            return False
        record.session.producers.pop(producer_id.value, None)
        return True

    # -- messages ------------------------------------------------------------------------------------------------------

    def identify(self, producer: ProducerRecord, message: Message) -> None:
        """Give ``message`` its producer and its number."""
        producer.sequence += 1
        message.producer_id = producer.info.producer_id
        message.message_id = MessageId(producer_id=producer.info.producer_id, producer_sequence_id=producer.sequence)

    def send(self, producer: ProducerRecord, message: Message, answer: Answer | None) -> bool:
        """Send; with ``answer`` the broker confirms. False: there is no wire and nothing was sent; wait and repeat.

        In a transaction nothing is confirmed before the commit, ``answer`` is not used, and a wire is not needed.
        Raises Inexpressible, InvalidDestination.
        """
        where = message.destination
        if self.gone and where is not None and is_temporary(where) and where.physical_name in self.gone:
            raise InvalidDestination(f"{where.physical_name} was a temporary destination and is deleted")
        session = producer.session
        if session.mode is Acknowledge.TRANSACTED:
            transaction = self._begun(session)
            message.transaction_id = transaction.transaction_id
            if transaction.is_branch and transaction.doomed:
                return True  # the broker knows nothing of the branch any more; who prepares it is told
            if self.reconnects and not transaction.doomed and not transaction.is_branch:
                transaction.sends.append(message)
            return self.post(message) or self.reconnects
        if answer is not None:
            self.request(message, answer)
            return True
        if not self.post(message):
            return False
        if producer.info.window_size > 0:
            producer.outstanding += _weight(message)
        if self._cache_max > 0:
            self._remember(message)
        return True

    def _remember(self, message: Message) -> None:
        self._cache.append(message)
        self._cached += _weight(message)
        while self._cached > self._cache_max:
            self._cached -= _weight(self._cache.popleft())

    # -- transactions --------------------------------------------------------------------------------------------------

    def commit(self, session: SessionRecord, answer: Answer) -> None:
        """Commit what the session did; ``answer`` gets TransactionRolledBack when that did not come about."""
        transaction = self._transaction(session)
        _refuse_branch(transaction)
        if transaction.doomed:
            why = transaction.doomed
            self.roll_back(session, self.now, lambda response, error: answer(None, TransactionRolledBack(why)))
            return
        if any(record.inbox.delivered for record in session.consumers.values()):
            self._begun(session)
            for record in session.consumers.values():
                transaction.consumed = (
                    bool(record.inbox.acknowledge_all(transaction.transaction_id)) or transaction.consumed
                )
        session.transaction = None
        self._close_waiting(session)
        if not transaction.begun:
            answer(None, None)
            return
        self.request(self._step(transaction.transaction_id, TransactionStep.COMMIT_ONE_PHASE), answer, transaction)

    def roll_back(self, session: SessionRecord, now: Instant, answer: Answer) -> None:
        """Undo what the session sent, and hand out again what it consumed."""
        if session.transaction is not None:
            _refuse_branch(session.transaction)
        transaction, session.transaction = session.transaction, None
        for record in session.consumers.values():
            record.inbox.roll_back(now)
        self._close_waiting(session)
        if transaction is None or not transaction.begun or transaction.doomed or self.wire is None:
            answer(None, None)
            return
        self.request(self._step(transaction.transaction_id, TransactionStep.ROLLBACK), answer)

    # -- branches of distributed transactions --------------------------------------------------------------------------

    def begin_branch(self, session: SessionRecord, branch_id: XATransactionId) -> None:
        """From now on what the session sends and settles belongs to ``branch_id``. Raises TransactionError."""
        if session.mode is not Acknowledge.TRANSACTED:
            raise TransactionError("this session is not transacted", remedy="open it with Acknowledge.TRANSACTED")
        if session.transaction is not None and session.transaction.begun:
            raise TransactionError("this session has a transaction already", remedy="end that first")
        transaction = Transaction(branch_id)
        transaction.begun = True
        session.transaction = transaction
        if not self.post(self._step(branch_id, TransactionStep.BEGIN)):
            transaction.doomed = "there was no broker when it began"

    def end_branch(self, session: SessionRecord, branch_id: XATransactionId, answer: Answer) -> None:
        """The session is done with ``branch_id``: what it was handed is settled with it. Raises TransactionError."""
        transaction = session.transaction
        if transaction is None or transaction.transaction_id != branch_id:
            raise TransactionError("this session does not work for that branch")
        session.transaction = None
        for record in session.consumers.values():
            handed = list(record.inbox.delivered)
            if record.inbox.acknowledge_all(branch_id):
                transaction.consumed = True
                transaction.settled.append((record.inbox, handed))
        self._close_waiting(session)
        self._branches.append(transaction)
        if transaction.doomed:
            answer(None, None)
        else:
            self.request(self._step(branch_id, TransactionStep.END), answer)

    def prepare_branch(self, branch_id: XATransactionId, answer: Callable[[bool, EntrepotError | None], None]) -> None:
        """Have the broker promise; ``answer`` is told whether there is something to commit."""
        transaction = self._branch(branch_id)
        if transaction is not None and transaction.doomed:
            self._branches.remove(transaction)
            answer(False, TransactionRolledBack(transaction.doomed))
            return

        def prepared(response: Response | None, error: EntrepotError | None) -> None:
            nothing = isinstance(response, IntegerResponse) and int(response.result) == XA_RDONLY
            if transaction is not None and (nothing or error is not None) and transaction in self._branches:
                self._branches.remove(transaction)
            answer(not nothing, error)

        self.request(self._step(branch_id, TransactionStep.PREPARE), prepared)

    def commit_branch(self, branch_id: XATransactionId, one_phase: bool, answer: Answer) -> None:
        """Commit a branch that is prepared, or in one phase one that is not."""
        transaction = self._branch(branch_id)
        if transaction is not None:
            if one_phase and transaction.doomed:
                self._branches.remove(transaction)
                answer(None, TransactionRolledBack(transaction.doomed))
                return
            self._branches.remove(transaction)
        step = TransactionStep.COMMIT_ONE_PHASE if one_phase else TransactionStep.COMMIT_TWO_PHASE
        self.request(self._step(branch_id, step), answer)

    def roll_back_branch(self, branch_id: XATransactionId, now: Instant, answer: Answer) -> None:
        """Undo a branch; what it settled is handed out again."""
        transaction = self._branch(branch_id)
        if transaction is not None:
            self._branches.remove(transaction)

        def undone(response: Response | None, error: EntrepotError | None) -> None:
            if transaction is not None and error is None:
                for inbox, handed in transaction.settled:
                    inbox.take_back(handed)
                    inbox.roll_back(now)
                    inbox.port.arrived(inbox)
            answer(response, error)

        self.request(self._step(branch_id, TransactionStep.ROLLBACK), undone)

    def recover_branches(self, answer: Callable[[list[XATransactionId], EntrepotError | None], None]) -> None:
        """Ask which branches are prepared and not ended."""

        def told(response: Response | None, error: EntrepotError | None) -> None:
            found: list[XATransactionId] = []
            if isinstance(response, DataArrayResponse):
                for each in response.data or []:
                    if isinstance(each, XATransactionId):
                        found.append(each)
            answer(found, error)

        self.request(TransactionInfo(connection_id=self.info.connection_id, type=TransactionStep.RECOVER), told)

    def _branch(self, branch_id: XATransactionId) -> Transaction | None:
        for transaction in self._branches:
            if transaction.transaction_id == branch_id:
                return transaction
        return None

    def _close_waiting(self, session: SessionRecord) -> None:
        for record in list(session.consumers.values()):
            if record.closing:
                record.closing = False
                self.close_consumer(record)

    def _transaction(self, session: SessionRecord) -> Transaction:
        if session.transaction is None:
            session.transaction = Transaction(LocalTransactionId(self._fresh(), self.info.connection_id))
        return session.transaction

    def _begun(self, session: SessionRecord) -> Transaction:
        transaction = self._transaction(session)
        if not transaction.begun:
            transaction.begun = True
            self.post(self._step(transaction.transaction_id, TransactionStep.BEGIN))
        return transaction

    def _step(self, transaction_id: TransactionId, step: TransactionStep) -> TransactionInfo:
        return TransactionInfo(connection_id=self.info.connection_id, transaction_id=transaction_id, type=step)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def add_temporary(self, kind: DestinationKind, answer: Answer) -> Destination:
        """Make a temporary destination of this connection."""
        where = destination(kind, f"{self._text()}:{self._fresh()}")

        def made(response: Response | None, error: EntrepotError | None) -> None:
            if error is None:
                self.temporaries[where.physical_name or ""] = where
            answer(response, error)

        self.request(_add(self.info.connection_id, where), made)
        return where

    def remove_temporary(self, where: Destination, answer: Answer) -> None:
        """Delete a temporary destination of this connection."""
        self.temporaries.pop(where.physical_name or "", None)
        info = DestinationInfo(
            connection_id=self.info.connection_id, destination=where, operation_type=DestinationOperation.REMOVE
        )
        self.request(info, answer)

    def unsubscribe(self, name: str, answer: Answer) -> None:
        """Delete a durable subscription."""
        info = RemoveSubscriptionInfo(
            connection_id=self.info.connection_id, subscription_name=name, client_id=self.info.client_id
        )
        self.request(info, answer)

    def leave(self, answer: Answer) -> None:
        """Tell the broker that we end; shut the wire when it answered."""
        for record in list(self.inboxes.values()):
            record.inbox.flush()
        if self.wire is None or not self.wire.live:
            answer(None, None)
            return
        last = int(LastDelivered.UNSET)
        for record in list(self.inboxes.values()):
            if record.session is not None and record.inbox.mode != Acknowledge.TRANSACTED:
                self.close_consumer(record)  # each says what it saw: a connection can name one message only
            else:
                last = max(last, int(record.inbox.last_sequence))
        info = RemoveInfo(object_id=self.info.connection_id, last_delivered_sequence_id=last)
        self.request(info, answer)

    def _fresh(self) -> int:
        self._numbers += 1
        return self._numbers

    def _text(self) -> str:
        connection_id = self.info.connection_id
        return text_of(connection_id) if connection_id is not None else ""


def _add(connection_id: ConnectionId | None, where: Structure) -> DestinationInfo:
    assert isinstance(where, Destination)
    return DestinationInfo(connection_id=connection_id, destination=where, operation_type=DestinationOperation.ADD)


def _refuse_branch(transaction: Transaction) -> None:
    if transaction.is_branch:
        raise TransactionError("a branch of a distributed transaction is under way", remedy="end it first")


def _weight(message: Message) -> int:
    return MESSAGE_OVERHEAD + len(message.content or b"") + len(message.marshalled_properties or b"")
