"""The server side of one OpenWire connection: commands in, verbs of the broker out, answers back. [C]

Every command takes effect whole or is refused: by an ExceptionResponse when it asked for an answer, otherwise by a
ConnectionError. A refusal (`Refused`) leaves the connection open; broken frames (`PeerError`) close it, and only it.

What the journal must keep (persistent messages, that they are settled, commits, durable subscriptions) is answered when
it is on disk, never before. A producer that must wait for space gets its answer, or its ProducerAck, when there is
some; what asks for neither stops the reading of its connection, unless that consumes too: acknowledgements must come
through.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import (
    AddressFull,
    EntrepotError,
    InvalidDestination,
    LimitExceeded,
    PeerError,
    ProtocolViolation,
    Refused,
    StorageError,
    TransactionError,
)
from entrepot.base.reasons import SENT_AGAIN, UNSENDABLE, Reason
from entrepot.core.consumer import Pause
from entrepot.core.directory import Subject
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.flow import BLOCKED, SpaceWaiter
from entrepot.core.loans import LOAN_FREE, LOAN_LAST, Loan
from entrepot.core.logins import Knock
from entrepot.core.ports import ClientHolder
from entrepot.core.queue import MAYBE_DELIVERED, UNKNOWN_DELIVERED
from entrepot.core.routing import Target
from entrepot.core.transaction import State, Transaction
from entrepot.journal.log import Waiter
from entrepot.model.address import ANYCAST, MULTICAST, NAME_OCTETS_MAX
from entrepot.model.address import Destination as Address
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    BrokerId,
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    KeepAliveInfo,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    ShutdownInfo,
    TransactionId,
    TransactionInfo,
    WireFormatInfo,
)
from entrepot.protocols.openwire.consuming import Consuming
from entrepot.protocols.openwire.convert import LAYOUT, message_of, presented
from entrepot.protocols.openwire.delivery import OpenWireConsumer, OpenWireSubscription
from entrepot.protocols.openwire.departure import Departure
from entrepot.protocols.openwire.destinations import Destinations
from entrepot.protocols.openwire.frames import FirstEncoding, Structure
from entrepot.protocols.openwire.ids import AckType, components, is_queue, is_temporary, text_of
from entrepot.protocols.openwire.negotiation import WireFormat, offer_of
from entrepot.protocols.openwire.options import UNCOUNTED, OpenWireOptions
from entrepot.protocols.openwire.refusals import check_count, shown, throwable_of
from entrepot.protocols.openwire.separators import dot
from entrepot.protocols.openwire.settlement import beginning, check_held, expire, poison, waits_for_disk
from entrepot.protocols.openwire.transacting import Debt, Transacting
from entrepot.protocols.openwire.whereabouts import ZONE_OCTETS_MAX, ZONE_TOKEN
from entrepot.protocols.session import NEVER, OPENWIRE, Session, Shell
from entrepot.protocols.turns import SessionRest

TARGETS_KEPT: Final = 10_000  # destinations that one connection's cache remembers
RETAINED_BLOCK: Final = 2  # a connection that also consumes is not stopped; its sends fail at twice the memory limit
WRITER_KEPT_OCTETS: Final = 4 * 1024 * 1024
MESSAGE_OVERHEAD: Final = 1024  # what ActiveMQ charges a message beyond its octets: the currency of producer windows
STEERED_SINCE: Final = 6  # version of OpenWire whose ConnectionControl names brokers
SIGNED: Final = "\t"  # between a producer and its user
NOBODY: Final = Subject("")  # who has not connected yet


class _Answers(Waiter):
    """Writes answers that waited for the disk. A token is the whole frame, its correlation in the last four octets."""

    def __init__(self, session: OpenWireSession) -> None:
        self.session: OpenWireSession = session

    def stored(self, token: bytes) -> None:
        """Write the answer."""
        session = self.session
        session.write_octets(token)
        session.unconfirmed -= 1
        if session.departure is not None and session.unconfirmed == 0:
            session.departure.advance(int(session.broker.now))

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Say that it is not stored."""
        self.session.unconfirmed -= 1
        self.session.answer_failed(token, error)


class _Space(SpaceWaiter):
    """Lets a producer that waits go on."""

    def __init__(self, session: OpenWireSession) -> None:
        self.session: OpenWireSession = session

    def space(self) -> None:
        """Read on."""
        self.session.space()


class _Holder(ClientHolder):
    """Ends a connection whose client id another one takes over."""

    def __init__(self, session: OpenWireSession) -> None:
        super().__init__(session.peer)
        self.session: OpenWireSession = session

    def give_way(self, successor: str) -> None:
        """Give everything back, close. A client of ActiveMQ learns by the end of its socket."""
        self.session.superseded(f"its client id is used by a newer connection, {successor}")


class _Failed:
    """A message that could not be said to its consumer; it goes to the dead letters once the core is done."""

    def __init__(self, consumer: OpenWireConsumer, number: int, reason: str) -> None:
        self.consumer: OpenWireConsumer = consumer
        self.number: int = number
        self.reason: str = reason


class OpenWireSession(Session):
    """One accepted connection. ``number`` is unique in this run of the broker; ``peer`` is for people."""

    def __init__(self, shell: Shell, acceptor: Acceptor, options: OpenWireOptions, number: i64, peer: str) -> None:
        super().__init__(shell)
        self.protocol = OPENWIRE
        self.acceptor: Acceptor = acceptor
        self.broker = acceptor.broker
        self.advisories = acceptor.advisories
        self.options: OpenWireOptions = options
        self.number: i64 = number
        self.peer: str = peer
        offer = offer_of(options.wire)
        unagreed = WireFormat.before_agreement(offer, version_min=options.version_min)
        self.decoder: Decoder = Decoder(unagreed)
        self.encoder: Encoder = Encoder(unagreed)
        self.out: BytesWriter = self.writer
        self.high: i64 = options.write_high_octets
        self.frame_octets_max: i64 = 0
        self.separator: str = self.broker.options.separator
        self.agreed: bool = False
        self.plain: bool = False  # the peer reads messages as they are kept
        self.info: ConnectionInfo | None = None
        self.connection_id: str = ""
        self.client_id: str = ""
        self.subject: Subject = NOBODY
        self.signature: str = ""  # behind the names of its producers: what they sent is remembered of them and him
        self.holder: _Holder = _Holder(self)
        self.resumed_by_failover: bool = False
        self.detached: bool = False
        self.released: bool = False
        self.last_delivered: i64 = UNKNOWN_DELIVERED  # what its end says of what it holds (`Queue.detach`)
        self.refused: str = ""
        self.leave_at: i64 = NEVER
        self.blocked: bool = False
        self.blocked_at: i64 = 0
        self.block_ms_max: i64 = 0
        self.overdue: bool = False
        self.choked: bool = False
        self.socket_full: bool = False
        self.fault_tolerant: bool = False  # a failover client: it goes elsewhere when told so, or when we are gone
        self.told_zone: str = ""  # where the client says that it is
        self.held_back: bool = False  # nothing is delivered: the client is to move
        self.departure: Departure | None = None
        self.unconfirmed: i64 = 0  # answers that wait for the disk
        self.sent_away: bool = False  # it was told; what it asks for now, it will ask another broker again
        self.targets: dict[Destination, Target] = {}
        self.consumers: dict[ConsumerId, OpenWireSubscription] = {}
        self.browsers: dict[ConsumerId, OpenWireSubscription] = {}
        self.pullers: dict[ConsumerId, OpenWireSubscription] = {}
        self.producers: dict[ProducerId, ProducerInfo] = {}
        self.transactions: dict[TransactionId, Transaction] = {}
        self.transacting: Transacting = Transacting(self)
        self.consuming: Consuming = Consuming(self)
        self.destinations: Destinations = Destinations(self)
        self.temporary: dict[Destination, bool] = {}
        self.answers: _Answers = _Answers(self)
        self.space_waiter: _Space = _Space(self)
        self.held: list[tuple[bytes, bool]] = []  # answers that wait for space, and whether for the disk as well
        self.failed: list[_Failed] = []
        self.loan: Loan = Loan(self.broker.memory)
        self.rest: SessionRest = SessionRest(shell)
        self.knock: Knock | None = None  # it is being looked at who this is
        self.undone: list[Structure] = []  # commands that came, while it is unfinished
        self.heard: i64 = self.broker.now
        self.wrote: i64 = self.broker.now
        self.opened: i64 = self.broker.now
        self.inactivity: i64 = 0
        self.received: i64 = 0
        self.sent: i64 = 0
        self.encoder.encode_into(self.out, offer)
        self.note()

    # -- what the shell calls -----------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Take the next chunk; b"" is the end of the stream."""
        if not data:
            self.closing = True
        if self.closing or self.leave_at != NEVER:
            return
        self.broker.effort.spent += len(data) >> OCTETS_SHIFT
        self.heard = now
        try:
            self._work(self.decoder.feed(data))
        except PeerError as error:
            self.fail(error)
        held: i64 = self.decoder.buffered()
        if held > LOAN_FREE or self.loan.octets > 0:
            self._borrow(held)

    def _borrow(self, held: i64) -> None:
        """A long frame is incomplete: its octets are counted, and when all of them are too many it cannot be held."""
        loan = self.loan
        loan.owe(held)
        if loan.is_pressing() and held > LOAN_LAST and not self.closing:
            self.fail(loan.refusal())

    def resume(self, now: Instant) -> None:
        """Go on with the commands that came and were not done."""
        self.unfinished = False
        undone = self.undone
        self.undone = []
        if self.closing or self.leave_at != NEVER:
            return
        self.heard = now
        try:
            self._work(undone)
        except PeerError as error:
            self.fail(error)

    def _work(self, came: list[Structure]) -> None:
        """Do what ``came``, as far as this turn reaches."""
        effort = self.broker.effort
        at = 0
        while at < len(came):
            if effort.spent >= effort.allowance:
                self.unfinished = True
                self.undone = came[at:] if at > 0 else came
                effort.later(self.rest)
                return
            command = came[at]
            at += 1
            effort.spent += 1
            if self.separator:
                dot(command, self.separator)
            self._take(command)
            if self.knock is not None:  # who this is, is being looked at: then he says it again
                self.unfinished = True
                self.received -= 1
                self.undone = came[at - 1 :]
                return
            if self.closing or self.leave_at != NEVER:
                return
        self.decoder.check()

    def outgoing(self) -> bytes:
        """Return what is to be written; what waited for room in the writer goes on after it."""
        if self.failed:
            self._bury()
        writer = self.out
        self.noted = False
        if len(writer) == 0:
            return b""
        data = writer.getvalue()
        if len(data) <= WRITER_KEPT_OCTETS:
            writer.truncate(0)
        else:
            self.writer = BytesWriter()
            self.out = self.writer
        self.wrote = self.broker.now
        if self.choked and not self.socket_full:
            self._unchoke()
        return data

    def pending(self) -> i64:
        """Return how many octets wait."""
        return len(self.out)

    def deadline(self) -> Instant:
        """Return when something is due: keep-alives, pulls, the end of patience."""
        due = int(self.leave_at)
        if self.info is None:
            due = min(due, int(self.opened) + int(self.options.connect_timeout_ms) * MILLISECOND)
        if self.inactivity > 0:
            due = min(due, int(self.wrote) + int(self.inactivity) // 3)
            if self.readable and not self.unfinished:
                due = min(due, int(self.heard) + int(self.inactivity))
        for subscription in self.pullers.values():
            due = min(due, int(subscription.pull_due))
        if self.blocked and self.block_ms_max > 0 and not self.overdue:
            due = min(due, int(self.blocked_at) + int(self.block_ms_max) * MILLISECOND)
        return due

    def advance(self, now: Instant) -> None:
        """Keep the connection alive, or give up on a peer that does not; end pulls whose time is over."""
        if self.closing:
            return
        if now >= self.leave_at:
            self.closing = True
            return
        if self.info is None and now >= self.opened + self.options.connect_timeout_ms * MILLISECOND:
            self.fail(ProtocolViolation(f"no connection was opened within {self.options.connect_timeout_ms} ms"))
            return
        if self.inactivity > 0:
            if self.readable and not self.unfinished and now >= self.heard + self.inactivity:
                quiet = (now - self.heard) // MILLISECOND
                self.fail(ProtocolViolation(f"nothing came for {quiet} ms, although {self._agreed_ms()} were agreed"))
                return
            if now >= self.wrote + self.inactivity // 3:
                self.wrote = now
                self.write(KeepAliveInfo())
        for subscription in list(self.pullers.values()):
            if now >= subscription.pull_due:
                subscription.pull_ended()
                self.write_null_dispatch(subscription)
        if self.blocked and self.block_ms_max > 0 and now >= self.blocked_at + self.block_ms_max * MILLISECOND:
            self.overdue = True  # what was accepted is accepted; what comes while it stays full is refused
            self._release_held()

    def writable(self, ready: bool, now: Instant) -> None:
        """The socket is full, or has room again."""
        self.socket_full = not ready
        if ready:
            self._unchoke()
        else:
            self.choke()

    def shut(self, why: str, now: Instant) -> None:
        """Our side ends the connection. A failover client goes elsewhere by itself.

        What others give back on their way out is not for this one, and that it goes is no failure of its own.
        """
        if self.agreed and not self.closing:
            self.write(ShutdownInfo())
        self.closing = True
        self.last_delivered = MAYBE_DELIVERED
        self.hold_back(self.departure)

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone: roll back, give back, and delete what was temporary."""
        if self.detached:
            return
        self.detached = True
        self.closing = True
        self.loan.owe(0)
        self.release()

    def release(self) -> None:
        """Give back all that this connection holds in the broker."""
        if self.released:
            return
        self.released = True
        if self.knock is not None:
            self.knock.gone = True
        broker = self.broker
        for transaction in list(self.transactions.values()):
            if transaction.state is not State.PREPARED:
                broker.roll_back(transaction)
        self.transactions.clear()
        self.consuming.end_all(list(self.consumers.values()), self.last_delivered)
        for producer_id in list(self.producers):
            self._end_producer(producer_id)
        for where in list(self.temporary):
            self.destinations.delete_temporary(where)
        broker.flow.stop_waiting(self.number)
        self.acceptor.leave(self)
        info = self.info
        if info is not None and info.connection_id is not None:
            self.advisories.disconnected(info.connection_id)

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know."""
        return {
            "protocol": f"openwire {self.decoder.wire_format.version}" if self.agreed else "openwire",
            "peer": self.peer,
            "client-id": self.client_id,
            "connection-id": self.connection_id,
            "login": self.subject.name,
            "subscriptions": str(len(self.consumers)),
            "received": str(self.received),
            "sent": str(self.sent),
            "refused": self.refused,
        }

    # -- commands -----------------------------------------------------------------------------------------------------

    def _take(self, command: Structure) -> None:
        self.received += 1
        if isinstance(command, WireFormatInfo):
            self._agree()
            return
        if not isinstance(command, Command):
            raise ProtocolViolation(f"type {command.type_id} is no command")
        if self.sent_away and command.response_required and not isinstance(command, MessageAck):
            return
        try:
            if isinstance(command, commands.Message):
                self._send(command)
            elif isinstance(command, MessageAck):
                if command.response_required:
                    self._acknowledge_and_answer(command)
                else:
                    self._acknowledge(command)
            else:
                self._obey(command)
        except (Refused, StorageError) as error:
            self._refuse(command, error)

    def _obey(self, command: Command) -> None:
        """Do what is not done for each message."""
        if isinstance(command, KeepAliveInfo):
            if command.response_required:
                self.answer(command, False)
            return
        if isinstance(command, ConnectionInfo):
            self._connect(command)
        elif isinstance(command, ShutdownInfo):
            self.closing = True
            self.note()
        elif isinstance(command, ConnectionControl):
            self._controlled(command)
            self.answer(command, False)
        elif isinstance(command, (commands.ControlCommand, commands.FlushCommand, BrokerInfo)):
            self.answer(command, False)
        elif self.info is None:
            raise ProtocolViolation(f"a {type(command).__name__} came before the connection was opened")
        elif isinstance(command, TransactionInfo):
            self.transacting.step(command)
        elif isinstance(command, MessagePull):
            self.consuming.pull(command)
        elif isinstance(command, ConsumerInfo):
            self.consuming.consume(command)
        elif isinstance(command, ProducerInfo):
            self._produce(command)
        elif isinstance(command, RemoveInfo):
            self._remove(command)
        elif isinstance(command, DestinationInfo):
            self.destinations.step(command)
        elif isinstance(command, RemoveSubscriptionInfo):
            self.consuming.unsubscribe(command)
        elif isinstance(command, ConsumerControl):
            self.consuming.control(command)
        else:  # SessionInfo, MessageDispatchNotification and other words that a server hears and needs not heed
            self.answer(command, False)

    def _agree(self) -> None:
        """Both offers are known: speak what they say, and tell who we are."""
        wire = self.decoder.wire_format
        self.encoder.switch(wire)
        self.agreed = True
        self.frame_octets_max = wire.max_frame_size
        self.plain = wire.size_prefix and self.encoder.passes(FirstEncoding(b"", LAYOUT, 0, 0))
        self.inactivity = wire.max_inactivity_ms * MILLISECOND
        self.write(
            BrokerInfo(
                broker_id=BrokerId(value=self.broker.ids.node_id),
                broker_url=self.acceptor.url,
                peer_broker_infos=list(self.acceptor.cluster.infos(self.options)),
                broker_name=self.broker.options.name,
                fault_tolerant_configuration=self.broker.journal.pages,
                network_properties=self.acceptor.introduction,
            )
        )

    def _agreed_ms(self) -> str:
        return f"{self.inactivity // MILLISECOND} ms"

    # -- connection ---------------------------------------------------------------------------------------------------

    def _connect(self, info: ConnectionInfo) -> None:
        if self.info is not None:  # a failover client may say it twice
            self.answer(info, False)
            return
        connection_id = info.connection_id
        if connection_id is None or not connection_id.value:
            raise ProtocolViolation("a connection has no id")
        knock = self.knock
        if knock is None:
            knock = Knock(
                info.user_name,
                info.password,
                self.shell.certificate(),
                self.peer,
                self.broker.effort,
                self.rest,
            )
            self.broker.access.knock(knock)
        self.knock = None if knock.answered else knock
        if self.knock is not None:
            return
        try:
            self.subject = knock.subject()
            if self.broker.access.guarded:
                self.signature = SIGNED + self.subject.name
            self.entering(info)
            self.acceptor.enter(self, connection_id.value, info.client_id or "")
        except Refused as refusal:
            self.refused = refusal.message
            self.leave_at = self.broker.now + self.options.refusal_grace_ms * MILLISECOND
            raise
        self.info = info
        self.connection_id = connection_id.value
        self.client_id = info.client_id or ""
        self.resumed_by_failover = info.failover_reconnect
        self.fault_tolerant = self.fault_tolerant or info.fault_tolerant
        self.acceptor.cluster.entered(self)
        self.advisories.connected(info)
        self.answer(info, False)
        if info.manageable:
            self.write(
                ConnectionControl(
                    fault_tolerant=self.broker.journal.pages,
                    connected_brokers=self.acceptor.cluster.list_for(self),
                    reconnect_to="",
                    token=self.acceptor.cluster.zones_for(self),
                )
            )
        elif self.follows:
            brokers = self.acceptor.cluster.list_for(self)
            if brokers:
                self.tell_brokers(brokers)

    def entering(self, info: ConnectionInfo) -> None:
        """It is known who this is; he is about to be let in."""

    # -- other brokers (classic.md 2.4) -------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Whether this is a client that obeys when it is told of other brokers."""
        return (
            self.fault_tolerant
            and self.info is not None
            and not self.closing
            and self.encoder.wire_format.version >= STEERED_SINCE
        )

    def _controlled(self, control: ConnectionControl) -> None:
        """The client says that it survives its broker, and perhaps where it is."""
        self.fault_tolerant = self.fault_tolerant or control.fault_tolerant
        token = control.token
        if token is not None and token.startswith(ZONE_TOKEN) and len(token) <= ZONE_OCTETS_MAX:
            self.told_zone = token[len(ZONE_TOKEN) :].decode("utf-8", "replace")

    def tell_brokers(self, brokers: str, place: str = "") -> None:
        """Say which brokers there are, and to which of them the client should go; "" to none."""
        self.write(
            ConnectionControl(
                fault_tolerant=self.broker.journal.pages,
                connected_brokers=brokers,
                reconnect_to=place,
                token=self.acceptor.cluster.zones_for(self),
            )
        )

    def hold_back(self, departure: Departure | None) -> None:
        """Deliver nothing more, since the client is to move; None: go on, unless we end this connection."""
        self.departure = departure
        self.held_back = departure is not None or self.closing
        for subscription in list(self.consumers.values()):
            subscription.settle_credit()

    def unsettled(self) -> int:
        """Return how many messages the client holds, and answers that it waits for."""
        count = int(self.unconfirmed)
        for subscription in self.consumers.values():
            for consumer in subscription.consumers:
                count += len(consumer.in_flight)
        return count

    def send_away(self, place: str, brokers: str) -> None:
        """Tell the client to go to ``place``; ``brokers``: what it should know from now on."""
        self.tell_brokers(brokers)  # first: who is told to go dials by its list at once
        self.tell_brokers("", place)
        self.sent_away = True
        self.last_delivered = MAYBE_DELIVERED

    def superseded(self, why: str) -> None:
        """Another socket brought the same connection or client id: it takes over, this one ends (classic.md 4.18)."""
        self.refused = why
        self.release()
        self.closing = True
        self.note()

    def _remove(self, command: RemoveInfo) -> None:
        what = command.object_id
        if isinstance(what, ConsumerId):
            subscription = self.consumers.get(what)
            if subscription is not None:
                self.consuming.end(subscription, command.last_delivered_sequence_id)
        elif isinstance(what, ProducerId):
            self._end_producer(what)
            self.broker.sequences.forget(text_of(what) + self.signature)
        elif isinstance(what, SessionId):
            self._end_session(what, command.last_delivered_sequence_id)
        elif isinstance(what, ConnectionId):
            for producer_id in list(self.producers):
                self.broker.sequences.forget(text_of(producer_id) + self.signature)
            self.last_delivered = command.last_delivered_sequence_id
            self.release()
        self.answer(command, False)

    def _end_session(self, session_id: SessionId, last_delivered: i64) -> None:
        number = session_id.value
        self.consuming.end_all([one for key, one in self.consumers.items() if key.session_id == number], last_delivered)
        for producer_id in list(self.producers):
            if producer_id.session_id == session_id.value:
                self._end_producer(producer_id)
                self.broker.sequences.forget(text_of(producer_id) + self.signature)

    # -- producers ----------------------------------------------------------------------------------------------------

    def _produce(self, info: ProducerInfo) -> None:
        producer_id = info.producer_id
        if producer_id is None:
            raise ProtocolViolation("a producer has no id")
        if producer_id not in self.producers:
            if len(self.producers) >= self.options.producers_max:
                raise Refused(f"{self.options.producers_max} producers are open on this connection")
            if self.acceptor.is_elsewhere(self, producer_id.connection_id):
                raise Refused("the id of a producer begins with that of another connection")
            if self.options.producers_allowed < UNCOUNTED:
                known = [one.destination for one in self.producers.values()]
                check_count("producer", known, info.destination, self.options.producers_allowed)
            if info.destination is not None:
                self._target(info.destination)
            self.producers[producer_id] = info
            self.advisories.producer_added(info)
        self.answer(info, False)

    def _end_producer(self, producer_id: ProducerId) -> None:
        if self.producers.pop(producer_id, None) is not None:
            self.advisories.producer_removed(producer_id)

    def _send(self, command: commands.Message) -> None:
        destination = command.destination
        if destination is None or command.message_id is None or self.info is None:
            raise ProtocolViolation("a message has no destination, no id, or no connection")
        target = self.targets.get(destination)
        if target is None:
            target = self._target(destination)
            if target.service is not None and command.reply_to is not None:
                self.broker.access.answer(self.subject, self.addresses(command.reply_to))
        elif target.temporary:
            self.acceptor.check_temporary(target.name)
        broker = self.broker
        transaction_id = command.transaction_id
        if transaction_id is not None:
            self._send_in(command, target, transaction_id)
            return
        if self.blocked:
            self._check_room()
        if command.response_required:
            self._send_and_answer(command, target)
            return
        message = self._arrived(command, target)
        verdict = broker.sending.send(message, target)
        window = 0
        producer_id = command.producer_id
        if producer_id is not None:
            info = self.producers.get(producer_id)
            if info is not None:
                window = int(info.window_size)
        if window > 0:
            frame = self.encoder.encode(ProducerAck(producer_id=producer_id, size=_charged(command)))
            if verdict == BLOCKED:
                self._hold(frame, False, target)
            else:
                self.write_octets(frame)
        elif verdict == BLOCKED:
            self._block(target)

    def _send_and_answer(self, command: commands.Message, target: Target) -> None:
        """Send what waits for its answer; one that came before is answered and not sent again (classic.md 2.3)."""
        broker = self.broker
        message_id = command.message_id
        assert message_id is not None
        producer = "" if message_id.producer_id is None else text_of(message_id.producer_id)
        if self.signature:
            producer += self.signature
        sequence = message_id.producer_sequence_id
        frame = self.response(command)
        message = self._arrived(command, target)
        if self.resumed_by_failover and broker.sequences.seen(producer, sequence):
            broker.sending.repeated(message, target, SENT_AGAIN)
            self.confirm(frame)
            return
        durable = message.durable and not is_temporary_target(target)
        if durable:
            broker.journal.begin()
            try:
                verdict = broker.sending.send(message, target)
                broker.sequences.note(producer, sequence, True)
            finally:
                broker.journal.end()
        else:
            verdict = broker.sending.send(message, target)
            broker.sequences.note(producer, sequence, False)
        self._answer_sent(frame, verdict, durable, target)

    def _answer_sent(self, frame: bytes, verdict: int, durable: bool, target: Target) -> None:
        """Answer with ``frame`` as what `BrokerCore.send` said allows."""
        if verdict == BLOCKED:
            self._hold(frame, durable, target)
        elif durable:
            self.confirm(frame)
        else:
            self.write_octets(frame)

    def _arrived(self, command: commands.Message, target: Target) -> Message:
        message = message_of(command, target.name)
        message.origin = self.number
        stamps = self.broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, self.author())
        return message

    def author(self) -> str | None:
        """Return the user whom a message is from; None where another broker brings those of others."""
        return self.subject.name

    def _send_in(self, command: commands.Message, target: Target, transaction_id: TransactionId) -> None:
        transaction = self.transacting.known(transaction_id)
        try:
            message = self._arrived(command, target)
            transaction.send(message, target)
        except Refused as refusal:
            transaction.fail(refusal)  # or its commit would do the rest without this
            raise
        self._open_window(command)
        self.answer(command, False)

    def _open_window(self, command: commands.Message) -> None:
        """Let the producer of a message that waits for no answer send as much again."""
        producer_id = command.producer_id
        info = None if producer_id is None else self.producers.get(producer_id)
        if info is not None and info.window_size > 0 and not command.response_required:
            self.write(ProducerAck(producer_id=producer_id, size=_charged(command)))

    def _check_room(self) -> None:
        """Refuse a send of a connection that cannot be stopped, or has waited as long as its policy allows."""
        full = self.broker.memory.used >= RETAINED_BLOCK * self.broker.memory.limit
        if full and not self.overdue and self.may_be_left_unread():
            self.readable = False
            return
        if full or self.overdue:
            raise AddressFull("the broker has no room for this message", remedy="consume, or raise the limit")

    def may_be_left_unread(self) -> bool:
        """Whether nothing that frees memory can come over this connection, although it consumes."""
        return False

    def _hold(self, frame: bytes, durable: bool, target: Target) -> None:
        """Keep an answer until there is space: its producer waits, others on this connection go on."""
        self.held.append((frame, durable))
        self._wait(target)

    def _block(self, target: Target) -> None:
        """Stop reading until there is space, unless this connection consumes.

        Every connection of a Java client reads advisories about temporary destinations: settling those frees nothing.
        """
        if all(subscription.advises for subscription in self.consumers.values()):
            self.readable = False
        self._wait(target)

    def _wait(self, target: Target) -> None:
        if not self.blocked:
            self.blocked = True
            self.blocked_at = self.broker.now
            policy = target.policy
            self.block_ms_max = 0 if policy is None else policy.block_ms_max
        self.broker.flow.wait(self.number, self.space_waiter)

    def space(self) -> None:
        """There is room again."""
        self.blocked = False
        self.overdue = False
        self._release_held()

    def _release_held(self) -> None:
        held = self.held
        self.held = []
        for frame, durable in held:
            if durable:
                self.confirm(frame)
            else:
                self.write_octets(frame)
        if not self.readable:
            self.readable = True
            self.heard = self.broker.now  # nobody listened meanwhile
            self.shell.resumed()

    def _target(self, destination: Destination) -> Target:
        target = self.targets.get(destination)
        if target is not None:
            return target
        addresses = self.addresses(destination)
        for one in addresses:
            if one.temporary:
                self.acceptor.check_temporary(one.name)
        self.broker.access.send(self.subject, addresses, shown(destination, addresses))
        target = self.broker.target(addresses)
        for one in addresses:
            if one.routing == MULTICAST and not one.temporary:
                self.advisories.topic_used(one.name)
        if target.service is not None:
            return target  # where each answer goes is looked at
        if len(self.targets) >= TARGETS_KEPT:
            self.targets.clear()
        self.targets[destination] = target
        return target

    def addresses(self, destination: Destination) -> list[Address]:
        """Return what ``destination`` names; composites give several. Raises InvalidDestination."""
        found: list[Address] = []
        for part in components(destination):
            name, _, queue = (part.physical_name or "").partition("::")
            if not name or len(name.encode("utf-8", "replace")) > NAME_OCTETS_MAX:
                raise InvalidDestination(f"a destination has no name, or one of more than {NAME_OCTETS_MAX} octets")
            routing = ANYCAST if is_queue(part) else MULTICAST
            address = Address(name, routing, is_temporary(part), queue)
            if address not in found:
                found.append(address)
        return found

    # -- consumers (those of `consuming.py`) --------------------------------------------------------------------------

    def opening(self, subscription: OpenWireSubscription, info: ConsumerInfo, first: Address) -> None:
        """A consumer of ``first`` is about to be opened: what the session of a bridge adds."""

    def subscription_ended(self, subscription: OpenWireSubscription, why: str) -> None:
        """The broker took a subscription away: tell the client to close its consumer."""
        if subscription.closed or self.released:
            return
        where = None if subscription.info is None else subscription.info.destination
        self.consuming.end(subscription, MAYBE_DELIVERED)
        if not self.detached:
            self.write(ConsumerControl(destination=where, close=True, consumer_id=subscription.consumer_id))

    # -- acknowledgement ----------------------------------------------------------------------------------------------

    def _acknowledge_and_answer(self, ack: MessageAck) -> None:
        """Do what it says, answer when that is on disk; what it makes room for comes after the answer (`Debt`)."""
        consumer_id = ack.consumer_id
        subscription = None if consumer_id is None else self.consumers.get(consumer_id)
        if subscription is None:
            self._acknowledge(ack)
            self.answer(ack, False)
            return
        window = subscription.window
        window.pause(Pause.ANSWER)
        try:
            waits = waits_for_disk(ack, subscription)
            used = window.used
            self._acknowledge(ack)
            if waits:
                self._owe_answer(ack, subscription, used - window.used)
            else:
                self.answer(ack, False)
        finally:
            if not subscription.closed:
                subscription.settle_credit()

    def _owe_answer(self, ack: MessageAck, subscription: OpenWireSubscription, settled: i64) -> None:
        """Answer when all that was taken so far is on disk, and keep the credit of what is ``settled`` until then."""
        debt = Debt(self)
        debt.owed[subscription] = int(settled)
        subscription.owe(settled)
        self.confirm_to(debt, self.response(ack))

    def _acknowledge(self, ack: MessageAck) -> None:
        """Do what an acknowledgement says. One for a consumer or a message that is not here is stale, and ignored."""
        consumer_id = ack.consumer_id
        last_id = ack.last_message_id
        subscription = None if consumer_id is None else self.consumers.get(consumer_id)
        if subscription is None or last_id is None:
            return
        kind = ack.ack_type
        if kind == int(AckType.DELIVERED):
            subscription.extend(i64(ack.message_count))
            return
        if kind == int(AckType.REDELIVERED):
            return
        last = int(last_id.broker_sequence_id)
        first = beginning(ack, last)
        covered = subscription.covered(first, last)
        if ack.transaction_id is not None:
            transaction = self.transacting.known(ack.transaction_id)
            if kind == int(AckType.POISON):
                raise TransactionError("a poison acknowledgement cannot be part of a transaction")
            check_held(transaction, subscription, first, last)
            for consumer, number in covered:
                transaction.settle(consumer, number)
            return
        if not covered:
            return
        subscription.settled(len(covered))
        if kind == int(AckType.POISON):
            poison(covered, subscription, ack.poison_cause)
        elif kind == int(AckType.EXPIRED):
            expire(covered, subscription, self.broker.wall)
        else:
            for consumer, number in covered:
                subscription.forget(number)
                queue = consumer.queue
                if queue is not None:
                    queue.settle(consumer, number)

    # -- what goes out ------------------------------------------------------------------------------------------------

    def dispatch_head(self, consumer_id: ConsumerId, where: Destination) -> bytes:
        """Return what stands between the size of a dispatch and its message; b"" when each must be encoded anew."""
        if not self.plain:
            return b""
        frame = self.encoder.encode(MessageDispatch(consumer_id=consumer_id, destination=where))
        return frame[4:-5] + b"\x01"  # without "there is no message" and the redelivery counter

    def dispatch_anew(self, consumer: OpenWireConsumer, message: Message, deliveries: i64) -> None:
        """Write a dispatch whose message has to be encoded."""
        counter = int(deliveries)
        if counter == 0 and message.redelivered:
            counter = 1
        try:
            self._write_dispatch(consumer.subscription, consumer.where, message, counter)
        except EntrepotError as error:
            self.failed.append(_Failed(consumer, int(message.number), f"it cannot be said in OpenWire: {error}"))
            self.note()

    def _write_dispatch(
        self, subscription: OpenWireSubscription, where: Destination | None, message: Message, counter: int
    ) -> None:
        assert where is not None
        broker = self.broker
        made = presented(message, where, broker.ids.identity_of(message), broker.ids.node_id, self._large_body(message))
        made.broker_out_time = broker.wall
        dispatch = MessageDispatch(
            consumer_id=subscription.consumer_id, destination=where, message=made, redelivery_counter=counter
        )
        self.write(dispatch)
        self.sent += 1
        if len(self.out) > self.high:
            self.choke()

    def _large_body(self, message: Message) -> bytes | None:
        """Return a body that lies on disk, whole: a message of OpenWire is one frame."""
        rare = message.rare
        if rare is None or rare.large_id == 0:
            return None
        if rare.large_length > self.frame_octets_max:
            raise LimitExceeded(f"its body of {rare.large_length} octets is larger than a frame may be")
        return self.broker.journal.overflow.whole(message)

    def _bury(self) -> None:
        failed = self.failed
        self.failed = []
        for each in failed:
            queue = each.consumer.queue
            each.consumer.subscription.forget(each.number)
            if queue is not None:
                queue.reject(each.consumer, each.number, Reason(UNSENDABLE, each.reason))

    def write_browsed(self, subscription: OpenWireSubscription, where: Destination | None, message: Message) -> None:
        """Write what a browser shows, from the queue ``where``."""
        try:
            self._write_dispatch(subscription, where, message, int(message.redelivered))
        except EntrepotError:
            return  # one that cannot be said cannot be shown

    def write_null_dispatch(self, subscription: OpenWireSubscription) -> None:
        """Say that there is nothing (more) to deliver."""
        self.write(MessageDispatch(consumer_id=subscription.consumer_id))

    def write(self, command: Structure) -> None:
        """Write one command."""
        if not self.detached:
            self.encoder.encode_into(self.out, command)
            self.note()

    def write_octets(self, frame: bytes) -> None:
        """Write a frame that was encoded before."""
        if not self.detached:
            self.out.write(frame)
            if not self.noted:
                self.note()

    def confirm(self, frame: bytes) -> None:
        """Write ``frame`` when all that was taken so far is on disk."""
        self.confirm_to(self.answers, frame)

    def confirm_to(self, waiter: Waiter, frame: bytes) -> None:
        """Let ``waiter``, who tells `answers`, write ``frame`` when all that was taken so far is on disk."""
        self.unconfirmed += 1
        self.broker.journal.confirm(waiter, frame)

    def response(self, command: Command) -> bytes:
        """Return the frame that says that ``command`` was done."""
        return self.encoder.encode(Response(correlation_id=command.command_id))

    def answer(self, command: Command, on_disk: bool) -> None:
        """Answer ``command`` if it asked for that: at once, or when all of it is on disk."""
        if command.response_required:
            if on_disk:
                self.confirm(self.response(command))
            else:
                self.write(Response(correlation_id=command.command_id))

    def answer_failed(self, token: bytes, error: EntrepotError) -> None:
        """Say that what was asked for is not on disk. Every frame that waits for it has the same head."""
        at = 4 if self.decoder.wire_format.size_prefix else 0
        if not self.decoder.wire_format.tight:  # type, command id, response required, correlation
            correlation = int.from_bytes(token[at + 6 : at + 10], "big", signed=True)
        else:  # type, one octet of bits and its length, command id, correlation
            correlation = int.from_bytes(token[at + 7 : at + 11], "big", signed=True)
        self.write(ExceptionResponse(correlation_id=correlation, exception=throwable_of(error)))

    def _refuse(self, command: Command, error: EntrepotError) -> None:
        """Tell the client that ``command`` had no effect; of a transaction once, besides answers that are asked for."""
        if isinstance(command, (commands.Message, MessageAck)) and command.transaction_id is not None:
            transaction = self.transactions.get(command.transaction_id)
            if transaction is not None and transaction.state is State.ACTIVE and isinstance(error, Refused):
                transaction.fail(error)
            if transaction is not None and transaction.state is State.DOOMED:
                told = transaction.told
                transaction.told = True
                if told and not command.response_required:
                    if isinstance(command, commands.Message):
                        self._open_window(command)
                    return
        throwable = throwable_of(error)
        if command.response_required:
            self.write(ExceptionResponse(correlation_id=command.command_id, exception=throwable))
        else:
            connection_id = None if self.info is None else self.info.connection_id
            self.write(ConnectionError(exception=throwable, connection_id=connection_id))

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong and close this connection."""
        self.refused = error.message
        if self.agreed and not self.closing:
            connection_id = None if self.info is None else self.info.connection_id
            self.write(ConnectionError(exception=throwable_of(error), connection_id=connection_id))
        self.closing = True
        self.note()

    def choke(self) -> None:
        """The peer reads too slowly: deliver no more until what is written has gone."""
        if not self.choked:
            self.choked = True
            for subscription in self.consumers.values():
                subscription.window.pause(Pause.SOCKET)

    def _unchoke(self) -> None:
        if self.choked and not self.detached:
            self.choked = False
            for subscription in list(self.consumers.values()):
                if self.choked:
                    return
                subscription.settle_credit()
                if subscription.browser is not None:
                    subscription.pump()


def is_temporary_target(target: Target) -> bool:
    """Return whether nothing of what goes to ``target`` is kept on disk."""
    return target.temporary and not target.parts


def _charged(command: commands.Message) -> int:
    """Return what a message takes of its producer's window."""
    content = command.content
    properties = command.marshalled_properties
    size = MESSAGE_OVERHEAD
    if content is not None:
        size += len(content)
    if properties is not None:
        size += len(properties)
    return size
