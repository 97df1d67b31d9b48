"""The server side of one STOMP connection: frames in, verbs of the broker out, answers back. [C]

Every frame either takes effect whole or is answered by an ERROR that says why, with the receipt id of what failed. A
refusal (`Refused`) leaves the connection open, as ActiveMQ does; broken frames (`PeerError`) close it, and only it.

A RECEIPT for what the journal must keep (persistent SEND, COMMIT, ACK, durable SUBSCRIBE, leases) is written when it is
on disk, never before.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.environment import KIB, MILLISECOND, SECOND, Instant
from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    BodyLost,
    EntrepotError,
    InvalidDestination,
    PeerError,
    ProtocolViolation,
    Refused,
    ShuttingDown,
    StorageError,
    TransactionError,
)
from entrepot.core import notices
from entrepot.core.bereaved import without_body
from entrepot.core.broker import BLOCKED, BrokerCore, SpaceWaiter
from entrepot.core.consumer import UNLIMITED
from entrepot.core.directory import Subject
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.loans import LOAN_FREE, LOAN_LAST, Loan
from entrepot.core.logins import Knock
from entrepot.core.ports import ClientHolder
from entrepot.core.queue import MAYBE_DELIVERED, UNKNOWN_DELIVERED, Queue
from entrepot.core.routing import Target
from entrepot.core.transaction import Transaction
from entrepot.journal.log import Waiter
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.message import Message
from entrepot.protocols.session import NEVER, STOMP, Session, Shell
from entrepot.protocols.stomp import codec
from entrepot.protocols.stomp.codec import V10, V11, V12, Reader, octets_of, read_decimal, text_of
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.protocols.stomp.delivery import (
    ACK_AUTO,
    ACK_CLIENT,
    ACK_INDIVIDUAL,
    StompConsumer,
    StompSubscription,
    fixed_lines,
    is_plain,
    selector_of,
    tail_for,
    whole_number,
    write_headers,
)
from entrepot.protocols.stomp.large import PACE_OCTETS, Inflow, Outflow
from entrepot.protocols.stomp.leasing import Leasing
from entrepot.protocols.stomp.options import SERVER_MIN_HEARTBEAT_MS, StompOptions
from entrepot.protocols.stomp.staging import Staging
from entrepot.protocols.turns import SessionRest

VERSIONS: Final = {"1.0": V10, "1.1": V11, "1.2": V12}
ACK_MODES: Final = {"auto": ACK_AUTO, "client": ACK_CLIENT, "client-individual": ACK_INDIVIDUAL}
ROUTING_TYPES: Final = {"ANYCAST": ANYCAST, "MULTICAST": MULTICAST}

IN_MEMORY_OCTETS_MAX: Final = 1 << 62  # an ephemeral broker has no disk to stream a body to: no body counts as large
HEARTBEAT_MS_MAX: Final = 1 << 31  # 25 days: as good as never
GROUP_SEQUENCE_MAX: Final = (1 << 31) - 1  # Java's int, and the journal's
WRITER_KEPT_OCTETS: Final = 64 * KIB  # a writer never shrinks: one that a burst made larger is let go
WRITER_QUIET: Final = 5 * SECOND  # but not while there are bursts: growing anew each time cost a tenth of the rate
ASKED_MAX: Final = 2  # one stretch of a large body is on its way to disk while the next one comes in
TARGETS_KEPT: Final = 10_000  # destinations that one connection's cache remembers
RETAINED_BLOCK: Final = 2  # a connection that also consumes is not stopped; its sends fail at twice the memory limit
NOBODY: Final = Subject("")  # who has not connected yet


class _Receipts(Waiter):
    """Writes answers that waited for the disk. A token is the whole RECEIPT frame."""

    def __init__(self, session: StompSession) -> None:
        self.session: StompSession | None = session

    def stored(self, token: bytes) -> None:
        """Write the answer."""
        session = self.session
        if session is not None:
            session.answer(token)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Say that it is not stored."""
        session = self.session
        if session is not None:
            session.answer_failed(token, error)


class _Pace(Waiter):
    """Lets a large body come in as fast as the disk takes it."""

    def __init__(self, session: StompSession) -> None:
        self.session: StompSession | None = session

    def stored(self, token: bytes) -> None:
        """Read on."""
        session = self.session
        if session is not None:
            session.paced()

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Read on, to throw away what comes: the body is refused when it is complete."""
        self.stored(token)


class _Space(SpaceWaiter):
    """Lets a stopped producer go on."""

    def __init__(self, session: StompSession) -> None:
        self.session: StompSession = session

    def space(self) -> None:
        """Read on."""
        self.session.space()


class _Holder(ClientHolder):
    """Ends a connection whose client id another one takes over."""

    def __init__(self, session: StompSession) -> None:
        super().__init__(session.peer)
        self.session: StompSession = session

    def give_way(self, successor: str) -> None:
        """Say why, give everything back, close."""
        self.session.superseded(successor)


class StompSession(Session):
    """One accepted connection. ``number`` is unique in this run of the broker; ``peer`` is for people."""

    def __init__(self, shell: Shell, broker: BrokerCore, options: StompOptions, number: i64, peer: str) -> None:
        super().__init__(shell)
        self.protocol = STOMP
        self.broker: BrokerCore = broker
        self.options: StompOptions = options
        self.number: i64 = number
        self.peer: str = peer
        self.reader: Reader = Reader(options)
        if not broker.journal.pages:
            self.reader.large_octets = IN_MEMORY_OCTETS_MAX
        self.out: BytesWriter = self.writer
        self.high: i64 = options.write_high_octets
        self.connected: bool = False
        self.detached: bool = False
        self.dismissed: bool = False  # our side ends this connection: that is no failure of its consumers
        self.blocked: bool = False
        self.blocked_at: i64 = 0
        self.block_ms_max: i64 = 0
        self.choked: bool = False
        self.socket_full: bool = False
        self.client_id: str = ""
        self.login: str = ""
        self.subject: Subject = NOBODY
        self.holder: _Holder | None = None
        self.id_prefix: bytes = b""
        self.targets: dict[bytes, Target] = {}
        self.subscriptions: dict[str, StompSubscription] = {}
        self.consumers: dict[int, StompConsumer] = {}
        self.transactions: dict[str, Transaction] = {}
        self.temporary: dict[str, str] = {}  # alias -> queue or topic name that only this connection reads
        self.receipts: _Receipts = _Receipts(self)
        self.stamp: i64 = -1
        self.stamp_lines: bytes = b""
        self.inflow: Inflow | None = None
        self.pace: _Pace | None = None
        self.wide_at: i64 = 0  # when more than WRITER_KEPT_OCTETS were written last; 0: the writer is small
        self.asked: i64 = 0  # how often the disk was asked how far it is and has not answered
        self.loan: Loan = Loan(broker.memory)
        self.rest: SessionRest = SessionRest(shell)
        self.knock: Knock | None = None  # it is being looked at who this is
        self.entering: dict[str, str] = {}  # the headers of CONNECT
        self.outflow: Outflow | None = None  # the body that is being written
        self.leasing: Leasing | None = None
        self.staging: Staging | None = None
        self.outflow_last: Outflow | None = None  # and the last of those that wait behind it
        self.heard: i64 = 0
        self.wrote: i64 = 0
        self.opened: i64 = broker.now
        self.beat_send: i64 = 0
        self.beat_receive: i64 = 0
        self.leaving: bool = False  # it ends after what is still to be written: nothing more is read
        self.said_all: bool = False  # and all of that has been given to the writers
        self.refused: str = ""  # why we ended it
        self.wary: bool = False  # the broker was full when this connection sent last, and has not said otherwise
        self.overdue: bool = False  # and it stayed full for longer than the policy lets a producer wait
        self.received: i64 = 0
        self.sent: i64 = 0

    # -- what the shell calls -----------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Take the next chunk; b"" is the end of the stream."""
        if not data:
            self.closing = True
        if self.closing or self.leaving:
            return
        self.reader.feed(data)
        self.broker.effort.spent += len(data) >> OCTETS_SHIFT
        self.resume(now)

    def resume(self, now: Instant) -> None:
        """Do what was received, as far as this turn reaches."""
        self.unfinished = False
        if self.closing or self.leaving:
            return
        self.heard = now
        try:
            if self.knock is None or self._is_answered():
                self._work()
        except PeerError as error:
            self._fail(error, b"")
        held: i64 = self.reader.waiting()
        if held > LOAN_FREE or self.loan.octets > 0:
            self._borrow(held)

    def _borrow(self, held: i64) -> None:
        """A long frame is incomplete: its octets are counted, and when all of them are too many it cannot be held."""
        loan = self.loan
        loan.owe(held)
        self.reader.pressed = loan.is_pressing()
        if self.reader.pressed and held > LOAN_LAST and not self.leaving and not self.closing:
            self.fail(loan.refusal())

    def outgoing(self) -> bytes:
        """Return what is to be written; what waited for room in the writer goes on after it."""
        writer = self.writer
        outflow = self.outflow
        if outflow is not None:
            self._flow(outflow)
        self.noted = False
        if len(writer) == 0:
            return b""
        data = writer.getvalue()
        writer.truncate(0)
        if len(data) > WRITER_KEPT_OCTETS:
            self.wide_at = self.broker.now
        self.wrote = self.broker.now
        if self.outflow is not None:
            if not self.socket_full:
                self.note()
        elif self.choked and not self.socket_full and not self.leaving:
            self._unchoke()
        return data

    def deadline(self) -> Instant:
        """Return when a heart-beat is due or overdue, or the CONNECT frame is."""
        due = NEVER
        if not self.connected:
            due = int(self.opened) + int(self.options.connect_timeout_ms) * MILLISECOND
        if self.beat_send > 0:
            due = min(due, int(self.wrote) + int(self.beat_send))
        if self.beat_receive > 0 and self.readable and not self.unfinished:
            due = min(due, int(self.heard) + int(self.beat_receive))
        if self.wide_at > 0:
            due = min(due, int(self.wide_at) + WRITER_QUIET)
        if self.blocked and self.block_ms_max > 0:
            due = min(due, int(self.blocked_at) + int(self.block_ms_max) * MILLISECOND)
        return due

    def advance(self, now: Instant) -> None:
        """Beat, or give up on a peer that does not."""
        if self.closing:
            return
        if not self.connected:
            if now >= self.opened + self.options.connect_timeout_ms * MILLISECOND:
                self.fail(ProtocolViolation(f"no CONNECT frame within {self.options.connect_timeout_ms} ms"))
            return
        listens = self.readable and not self.unfinished
        if self.beat_receive > 0 and listens and now >= self.heard + self.beat_receive:
            if self.leaving:
                self.closing = True
                return
            quiet = (now - self.heard) // MILLISECOND
            self.fail(ProtocolViolation(f"nothing came for {quiet} ms, although heart-beats were agreed"))
            return
        if self.blocked and self.block_ms_max > 0 and now >= self.blocked_at + self.block_ms_max * MILLISECOND:
            self._give_up_waiting()
        if self.wide_at > 0 and now >= self.wide_at + WRITER_QUIET:
            self._let_go_of_writer(now)
        if self.beat_send > 0 and now >= self.wrote + self.beat_send:
            self.out.append(10)
            self.wrote = now
            self.note()

    def _let_go_of_writer(self, now: Instant) -> None:
        """Give back the memory of the last burst."""
        writer = self.writer
        if len(writer) > 0:
            self.wide_at = now
            return
        self.wide_at = 0
        self.writer = BytesWriter()
        if self.out is writer:
            self.out = self.writer

    def writable(self, ready: bool, now: Instant) -> None:
        """The socket is full, or has room again."""
        self.socket_full = not ready
        if not ready:
            self.choke()
        elif self.outflow is not None:
            self.note()
        else:
            self._unchoke()

    def shut(self, why: str, now: Instant) -> None:
        """Our side ends the connection: say why, and close."""
        if self.connected and not self.leaving:
            self._error(ShuttingDown(f"the broker ends this connection: {why}", remedy="connect again"), b"")
        self.closing = True
        self.dismissed = True
        self._pause()  # what others give back on their way out is not for this one

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone: roll back, give back, and delete what was temporary."""
        if self.detached:
            return
        self.detached = True
        self.closing = True
        self.loan.owe(0)
        if self.knock is not None:
            self.knock.gone = True
        for transaction in list(self.transactions.values()):
            self.broker.roll_back(transaction)
        self.transactions.clear()
        self._end_subscriptions()
        if self.leasing is not None:
            self.leasing.detach()
            self.leasing = None
        if self.staging is not None:
            self.staging.detach()
            self.staging = None
        if self.inflow is not None:
            self.inflow.finish()
            self.inflow = None
        outflow = self.outflow
        while outflow is not None:
            outflow.finish()
            outflow = outflow.following
        self.outflow = None
        for alias, name in self.temporary.items():
            queue = self.broker.table.queues.get(name)
            if names.parse_one(alias).routing == MULTICAST:
                self.broker.notices.notice(notices.TEMPORARY_TOPIC_DELETED, name, {})
            elif queue is not None:
                self.broker.delete_queue(queue, "its connection is gone")
        if self.pace is not None:
            self.pace.session = None
        self.receipts.session = None  # it points back at us: without this both wait for the cyclic collector
        self.broker.stop_waiting(self.number)
        if self.holder is not None:
            self.broker.disclaim(self.client_id, self.holder)
            self.holder = None  # it points back at us

    def superseded(self, successor: str) -> None:
        """Another connection takes the client id over (allowLinkStealing): end, with all that this one holds."""
        self._fail(ShuttingDown(f"the client id {self.client_id!r} is used by a newer connection, {successor}"), b"")
        self.note()
        self.detach("its client id was taken over", self.broker.now)

    def _end_subscriptions(self) -> None:
        """Stop reading from queues; what is not settled goes back, and what one gives back is not for the next."""
        self._pause()
        for subscription in list(self.subscriptions.values()):
            subscription.browser = None
            self.broker.unsubscribe(subscription, MAYBE_DELIVERED if self.dismissed else UNKNOWN_DELIVERED)
        self.subscriptions.clear()
        self.consumers.clear()

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know."""
        version = int(self.reader.version)
        return {
            "protocol": f"stomp {version // 10}.{version % 10}",
            "peer": self.peer,
            "client-id": self.client_id,
            "login": self.login,
            "subscriptions": str(len(self.subscriptions)),
            "received": str(self.received),
            "sent": str(self.sent),
            "refused": self.refused,
        }

    # -- frames -------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        reader = self.reader
        effort = self.broker.effort
        while not self.leaving:
            if effort.spent >= effort.allowance and reader.has_more():
                self.unfinished = True
                effort.later(self.rest)
                return
            if self.inflow is not None:
                if not self._take_large(self.inflow):
                    return
                continue
            command = reader.next()
            if command == codec.NEED_MORE:
                return
            if not self.connected and command != codec.CONNECT:
                raise ProtocolViolation("the first frame must be CONNECT or STOMP")
            self.received += 1
            effort.spent += 1
            try:
                if command == codec.SEND:
                    self._send()
                elif command == codec.ACK:
                    self._ack(False)
                else:
                    self._command(command)
                    if self.unfinished:  # who this is, is being looked at
                        return
            except (Refused, StorageError) as error:
                if command not in (codec.SEND, codec.LARGE, codec.ACK) or self._doom(error, reader.receipt()):
                    self._error(error, reader.receipt())
            except PeerError as error:
                self._fail(error, reader.receipt())

    def _doom(self, error: EntrepotError, receipt: bytes) -> bool:
        """A frame of a transaction was refused: its COMMIT must not do the rest of it; nor must a stage be closed.

        Return whether to say so: one ERROR is enough for a transaction, besides answers that are asked for. A peer
        that reads only behind its COMMIT would be stopped by the errors that it has not read.
        """
        special = self.reader.special
        if special is not None and b"stage" in special and self.staging is not None:
            self.staging.doom(text_of(special[b"stage"], self.reader.version), error)
        if special is not None and b"transaction" in special:
            transaction = self.transactions.get(text_of(special[b"transaction"], self.reader.version))
            if transaction is not None:
                transaction.fail(TransactionError(error.message))
                told = transaction.told
                transaction.told = True
                return len(receipt) > 0 or not told
        return True

    def _command(self, command: i64) -> None:
        if command == codec.LARGE:
            self.inflow = self._begin_large()
            return
        if command == codec.NACK:
            self._ack(True)
            return
        headers = self.reader.headers()
        if command == codec.SUBSCRIBE:
            self._subscribe(headers)
        elif command == codec.UNSUBSCRIBE:
            self._unsubscribe(headers)
        elif command == codec.BEGIN:
            self._begin(headers)
        elif command == codec.COMMIT:
            self._commit(headers)
        elif command == codec.ABORT:
            self.broker.roll_back(self._ended(headers))
            self._receipt()
        elif command == codec.CONNECT:
            self._connect(headers)
        elif command == codec.DISCONNECT:
            self._disconnect()
        elif command == codec.BROKERS:
            self.answer_with({"brokers": self.broker.neighbours.places()}, self.reader.receipt())
        else:
            self._lease(command, headers)

    def _connect(self, headers: dict[str, str]) -> None:
        if self.connected:
            raise ProtocolViolation("CONNECT came a second time")
        offered = [word.strip() for word in headers.get("accept-version", "1.0").split(",")]
        known = [VERSIONS[word] for word in offered if word in VERSIONS]
        if not known:
            raise ProtocolViolation(
                f"none of the versions {', '.join(offered)} is spoken here", remedy="offer 1.0, 1.1 or 1.2"
            )
        self.entering = headers
        self.knock = Knock(
            headers.get("login"),
            headers.get("passcode"),
            self.shell.certificate(),
            self.peer,
            self.broker.effort,
            self.rest,
        )
        self.broker.access.knock(self.knock)
        self._is_answered()

    def _is_answered(self) -> bool:
        """Go on with CONNECT, if it is known who this is; what came behind it waits until then."""
        knock = self.knock
        assert knock is not None
        if not knock.answered:
            self.unfinished = True
            return False
        self.knock = None
        try:
            self.subject = knock.subject()
        except AccessDenied as refusal:
            self._fail(refusal, b"")
            return True
        self._enter(self.entering)
        return True

    def _enter(self, headers: dict[str, str]) -> None:
        """Begin to serve this user."""
        self._claim(headers.get("client-id", ""))
        self.login = headers.get("login", "")
        offered = [word.strip() for word in headers.get("accept-version", "1.0").split(",")]
        version = max([VERSIONS[word] for word in offered if word in VERSIONS])
        self.reader.version = version
        self.reader.connected = True
        self.connected = True
        self.id_prefix = octets_of(self.broker.ids.node.message_prefix, version)
        answer = {
            "version": f"{version // 10}.{version % 10}",
            "session": f"{self.broker.ids.node_id}-{self.number}",
            "server": "entrepot/" + self.broker.options.version,
            "heart-beat": self._agree(headers.get("heart-beat", self.options.heartbeat_default)),
        }
        if "request-id" in headers:
            answer["response-id"] = headers["request-id"]
        self.out.write(b"CONNECTED\n")
        write_headers(self.out, answer, V10)  # never escaped (STOMP 1.2, CONNECT and CONNECTED)
        self.out.write(b"\n\0\n")
        self.wrote = self.broker.now
        self.note()

    def _claim(self, client_id: str) -> None:
        """Take a client id for this connection. Raises ProtocolViolation when another one has it."""
        if not client_id:
            return
        holder = _Holder(self)
        if not self.broker.claim(client_id, holder, self.options.link_stealing):
            raise ProtocolViolation(
                f"client id {client_id!r} is already connected from {self.broker.clients[client_id].peer}",
                remedy="use another client-id, or close the other connection",
            )
        self.holder = holder
        self.client_id = client_id

    def _agree(self, text: str) -> str:
        """Return our half of the heart-beat header: what we will send, what we want (ms)."""
        first, _, second = text.encode().partition(b",")
        can = min(read_decimal(first.strip(), 0, len(first.strip())), HEARTBEAT_MS_MAX)
        wants = min(read_decimal(second.strip(), 0, len(second.strip())), HEARTBEAT_MS_MAX)
        if can < 0 or wants < 0:
            raise ProtocolViolation(f"heart-beat is {text[:40]!r}, not two numbers of milliseconds")
        send = max(int(wants), int(self.options.heartbeat_send_ms), SERVER_MIN_HEARTBEAT_MS) if wants else 0
        hear = max(int(can), int(self.options.heartbeat_receive_ms), SERVER_MIN_HEARTBEAT_MS) if can else 0
        self.beat_send = send * MILLISECOND * 9 // 10  # a little early, so that transport delay does not make it late
        self.beat_receive = int(hear * self.options.heartbeat_grace) * MILLISECOND
        return f"{send},{hear}"

    def _disconnect(self) -> None:
        """Answer after everything that was received is on disk, then close (STOMP 1.2, DISCONNECT).

        A peer that said this reads on for its receipt only: messages that are settled by writing them would be lost.
        """
        self.leaving = True
        self._end_subscriptions()
        if self.reader.receipt_end:
            self.broker.journal.confirm(self.receipts, self._receipt_frame(self.reader.receipt()) + b"\0")
        else:
            self._leave()
            self.note()

    # -- SEND ---------------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        reader = self.reader
        target = self.targets.get(reader.destination())
        if target is None or reader.special is not None or reader.escaped:
            self._send_with_care()
            return
        broker = self.broker
        if self.wary:
            self._check_room()
        tail = reader.tail()
        message = Message(STOMP_LANGUAGE, target.name, tail)
        message.body_at = len(tail) - (reader.body_end + 1 - reader.body_at)
        message.timestamp = broker.wall
        message.origin = self.number
        message.durable = reader.persistent
        stamps = broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, self.subject.name)
        if broker.send(message, target) == BLOCKED:
            self._block(target)
        if reader.receipt_end:
            self._confirm(message.durable)

    def _send_with_care(self) -> None:
        reader = self.reader
        tail = reader.tail()
        message = Message(STOMP_LANGUAGE, "", tail)
        message.body_at = len(tail) - (reader.body_end + 1 - reader.body_at)
        self._submit(message, reader.destination(), reader.receipt())

    def _submit(self, message: Message, written: bytes, receipt: bytes) -> None:
        """Give ``message`` what its headers ask for, and send it to ``written``, now or with its transaction.

        The octets of its headers may be gone from the reader: behind a large body other octets stand there.
        """
        reader = self.reader
        special: dict[bytes, bytes] = {} if reader.special is None else reader.special
        target = self._target(written, special)
        message.address = target.name
        message.timestamp = self.broker.wall
        message.origin = self.number
        message.durable = reader.persistent
        if reader.escaped:
            self._settle_escapes(message)
        if special:
            self._apply(message, special)
        stamps = self.broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, self.subject.name)
        if target.service is not None:
            self._check_answers(message)
        if b"stage" in special and self.staging is not None:
            if b"transaction" in special:
                raise TransactionError("a SEND cannot be part of a stage and of a transaction", remedy="choose one")
            if self.wary:
                self._check_room()
            if self.staging.send(text_of(special[b"stage"], reader.version), message, target) == BLOCKED:
                self._block(target)
            self._answer(receipt, True)
            return
        if b"transaction" in special:
            transaction = self._transaction(text_of(special[b"transaction"], reader.version))
            try:
                if message.rare is not None and message.rare.large_id:
                    raise TransactionError(
                        f"a body of {message.rare.large_length} octets is too long for a transaction",
                        remedy="send it outside of one",
                    )
                transaction.send(message, target)
            except Refused as refusal:
                transaction.fail(refusal)  # or its COMMIT would do the rest without this
                raise
            self._answer(receipt, False)
            return
        if self.wary:
            self._check_room()
        if self.broker.send(message, target) == BLOCKED:
            self._block(target)
        if special.get(b"receipt-message-id") == b"true":
            self.answer_with({"message-id": self.broker.ids.identity_of(message)}, receipt)
        else:
            self._answer(receipt, message.durable or message.rare is not None)

    def _check_answers(self, message: Message) -> None:
        """Raise AccessDenied for a question whose answers would go where this user may not send."""
        place = message.fact("JMSReplyTo")
        if isinstance(place, str) and place:
            self.broker.access.answer(self.subject, names.parse(place))

    def _settle_escapes(self, message: Message) -> None:
        """Bring a tail with backslashes to the form of STOMP 1.2, which is how escaped tails are kept."""
        body_at = int(message.body_at)
        version = self.reader.version
        headers = codec.decode_headers(message.raw[:body_at], version, False)  # also checks every escape sequence
        if version == V10 or (version == V11 and b"\r" in message.raw[:body_at]):
            writer = BytesWriter()
            write_headers(writer, headers, V12)
            writer.append(10)
            message.raw = writer.getvalue() + message.raw[body_at:]
            message.body_at = len(writer)
        message.escaped = True

    def _apply(self, message: Message, special: dict[bytes, bytes]) -> None:
        """Obey the headers that the broker reads (classic.md 6.3, artemis.md 5.3)."""
        for name, octets in special.items():
            value = text_of(octets, self.reader.version)
            if name == b"priority":
                message.priority = min(9, max(0, whole_number(value, "priority")))
            elif name == b"expires":
                message.expiration = max(0, whole_number(value, "expires"))
            elif name == b"timestamp":
                message.timestamp = max(0, whole_number(value, "timestamp"))
            elif name in (b"JMSXGroupID", b"_AMQ_GROUP_ID"):
                message.need_rare().group = value
            elif name in (b"JMSXGroupSeq", b"_AMQ_GROUP_SEQUENCE"):
                sequence = whole_number(value, name.decode())
                if abs(sequence) > GROUP_SEQUENCE_MAX:
                    raise Refused(f"{name.decode()} is {sequence}, which does not fit 32 bits")
                message.need_rare().group_sequence = sequence
            elif name == b"_AMQ_DUPL_ID":
                message.need_rare().duplicate_id = octets
            elif name.startswith(b"AMQ_SCHEDULED_"):
                message.annotate(name.decode(), value)
            elif name == b"reply-to" and value.startswith("/temp-"):
                line = b"reply-to:" + octets_of(self._reply_to(value), V12) + b"\n"
                message.raw = line + message.raw
                message.escaped = True  # the real name holds colons
                message.body_at += len(line)

    def _reply_to(self, alias: str) -> str:
        """Return the name under which others reach this connection's temporary destination."""
        destination = self.real(names.parse_one(alias))
        kind = "topic" if destination.routing == MULTICAST else "queue"
        return f"/remote-temp-{kind}/{destination.name}"

    def _confirm(self, on_disk: bool) -> None:
        """Answer the frame: at once, or when all of it is on disk."""
        if self.reader.receipt_end:
            self._answer(self.reader.receipt(), on_disk)

    def _answer(self, receipt: bytes, on_disk: bool) -> None:
        """Write the RECEIPT that was asked for, if one was."""
        if receipt:
            frame = self._receipt_frame(receipt)
            if on_disk:
                self.broker.journal.confirm(self.receipts, frame)
            else:
                self.answer(frame)

    def _target(self, octets: bytes, special: dict[bytes, bytes]) -> Target:
        wanted = special.get(b"destination-type", b"")
        target = None if wanted else self.targets.get(octets)
        if target is not None:
            return target
        if not octets:
            raise InvalidDestination(
                "a SEND frame has no destination", remedy="add a header like destination:/queue/orders"
            )
        routing = UNTYPED
        if wanted:
            kind = text_of(wanted, self.reader.version)
            if kind not in ROUTING_TYPES:
                raise InvalidDestination(f"destination-type is {kind!r}", remedy="use ANYCAST or MULTICAST")
            routing = ROUTING_TYPES[kind]
        parsed = [self.real(one) for one in names.parse(text_of(octets, self.reader.version), routing)]
        self.broker.access.send(self.subject, parsed)
        target = self.broker.target(parsed)
        if len(self.targets) >= TARGETS_KEPT:
            self.targets.clear()
        if not wanted and target.service is None:  # where each answer goes is looked at
            self.targets[octets] = target
        return target

    def real(self, destination: Destination) -> Destination:
        """Return ``destination`` under its real name: with dots, where others are used for them.

        A temporary one is made on first use, and private to this connection.
        """
        separator = self.broker.options.separator
        if separator and not destination.temporary:
            destination.name = destination.name.replace(separator, ".")
        if not destination.temporary or destination.name.startswith(self.broker.temporary_prefix):
            return destination
        alias = destination.stomp()
        name = self.temporary.get(alias)
        if name is None:
            name = self.broker.ids.temporary_name(self.number, destination.name)
            self.broker.access.create(self.subject, Destination(name, destination.routing, True))
            self.temporary[alias] = name
            if destination.routing != MULTICAST:
                queue = self.broker.queues.create(name, name, ANYCAST, durable=False, owner=str(self.number))
                queue.temporary = True
            else:
                self.broker.notices.notice(notices.TEMPORARY_TOPIC_CREATED, name, {})
        return Destination(name, destination.routing, True)

    def _block(self, target: Target) -> None:
        """Stop reading until there is room; one who also consumes reads on, or his acknowledgements never come."""
        self.wary = True
        self.broker.wait_for_space(self.number, _Space(self))
        if not self.consumers and not self.blocked:
            self.blocked = True
            self.blocked_at = self.broker.now
            self.block_ms_max = 0 if target.policy is None else target.policy.block_ms_max
            self.readable = False

    def _check_room(self) -> None:
        """The broker was full: refuse what cannot wait any more. Raises AddressFull before anything is accepted."""
        memory = self.broker.memory
        if self.overdue or (self.consumers and memory.used >= memory.limit * RETAINED_BLOCK):
            raise AddressFull("the broker has no room", remedy="acknowledge messages, or raise the memory limit")

    def _give_up_waiting(self) -> None:
        """There was no room for as long as the policy lets a producer wait: say no to what he sends until there is."""
        self.overdue = True
        self.blocked = False
        self._read_on()

    def space(self) -> None:
        """There is room again."""
        self.wary = False
        self.overdue = False
        if self.blocked:
            self.blocked = False
            self._read_on()

    # -- large bodies -------------------------------------------------------------------------------------------------

    def _begin_large(self) -> Inflow:
        """Begin to stream a body to disk; the headers of its SEND are complete."""
        reader = self.reader
        message = Message(STOMP_LANGUAGE, "", reader.head())
        message.body_at = len(message.raw)
        return Inflow(self.broker, message, reader.destination(), reader.receipt())

    def _take_large(self, inflow: Inflow) -> bool:
        """Pass on what came of a large body; True when it is complete and its message has been sent."""
        reader = self.reader
        inflow.write(reader.large_piece())
        if inflow.written >= PACE_OCTETS and inflow.refusal is None:
            self._ask_the_disk(inflow)
        if reader.large_left > 0:
            return False
        self.inflow = None
        try:
            if inflow.refusal is not None:
                raise inflow.refusal
            self._submit(inflow.message_now(), inflow.destination, inflow.receipt)
        except (Refused, StorageError) as error:
            if self._doom(error, inflow.receipt):
                self._error(error, inflow.receipt)
        except PeerError as error:
            self._fail(error, inflow.receipt)
        finally:
            inflow.finish()
        return True

    def _ask_the_disk(self, inflow: Inflow) -> None:
        """Stop reading when the disk is far behind: what it has not written yet is in memory."""
        pace = self.pace
        if pace is None:
            pace = _Pace(self)
            self.pace = pace
        self.asked += 1
        self.readable = self.asked < ASKED_MAX and not self.blocked
        inflow.ask_the_disk(pace)

    def paced(self) -> None:
        """The disk came nearer."""
        self.asked -= 1
        if not self.blocked:
            self._read_on()

    def _read_on(self) -> None:
        if not self.readable and self.asked < ASKED_MAX:
            self.readable = True
            self.heard = self.broker.now
            self.shell.resumed()

    def begin_outflow(self, message: Message, owner: Queue | None) -> None:
        """Write the body of ``message`` from disk as the socket takes it; all else, other bodies too, waits."""
        outflow = Outflow(self.broker, message, owner)
        last = self.outflow_last
        if self.outflow is None or last is None:
            self.outflow = outflow
        else:
            last.following = outflow
        self.outflow_last = outflow
        self.out = outflow.after
        self.choke()

    def _flow(self, outflow: Outflow) -> None:
        if not self.socket_full:
            try:
                self.writer.write(outflow.piece())
            except StorageError as error:
                # In the middle of a frame nothing can be said any more; that it ends before its length says enough.
                if isinstance(error, BodyLost):
                    outflow.lost()
                self.refused = str(error)
                self.closing = True
                return
        if outflow.done:
            self.writer.write(b"\0")
            self.writer.write(outflow.after.getvalue())
            self.outflow = outflow.following
            if self.outflow is None:
                self.out = self.writer
                self.closing = self.said_all
            outflow.finish()

    # -- ACK, NACK, transactions --------------------------------------------------------------------------------------

    def _ack(self, negative: bool) -> None:
        reader = self.reader
        consumer: StompConsumer | None = None
        number: i64 = -1
        if reader.id_end and reader.version == V12:
            dash = reader.data.find(b"-", reader.id_at, reader.id_end)
            if dash > 0:
                consumer = self.consumers.get(read_decimal(reader.data, reader.id_at, dash))
                number = read_decimal(reader.data, dash + 1, reader.id_end)
        else:
            consumer, number = self._by_message_id()
        if consumer is None or number < 0 or int(number) not in consumer.in_flight:
            stale = TransactionError(
                "an ACK or NACK for a message that is not in flight here (settled already, redelivered, or never sent)",
                remedy="use the ack header of the MESSAGE (1.2), or its message-id and subscription (1.0, 1.1)",
            )
            if reader.special is not None and b"transaction" in reader.special:
                self._transaction(text_of(reader.special[b"transaction"], reader.version)).fail(stale)
            raise stale
        special = reader.special
        if special is None and not negative and consumer.subscription.ack != ACK_CLIENT:
            queue = consumer.queue
            if queue is not None:
                queue.settle(consumer, number)
            if consumer.subscription.foreign:
                consumer.subscription.forget(number)
        else:
            self._ack_with_care(consumer, number, negative, {} if special is None else special)
        if reader.receipt_end:
            self._confirm(True)

    def _ack_with_care(self, last: StompConsumer, number: i64, negative: bool, special: dict[bytes, bytes]) -> None:
        transaction: Transaction | None = None
        if b"transaction" in special:
            transaction = self._transaction(text_of(special[b"transaction"], self.reader.version))
            if negative:
                raise TransactionError("NACK cannot be part of a transaction", remedy="send it without one")
            holder = last.promised.get(int(number), transaction.name)
            if holder != transaction.name:
                raise TransactionError(f"the transaction {holder!r} settles this message already")
        subscription = last.subscription
        affected: list[tuple[StompConsumer, int]] = [(last, int(number))]
        if subscription.ack == ACK_CLIENT:
            affected = subscription.up_to(int(number))
        for consumer, each in affected:
            queue = consumer.queue
            if transaction is not None:  # remembered until it is committed: after an ABORT it may be acknowledged again
                if queue is not None:
                    transaction.settle(consumer, each)
                continue
            subscription.forget(each)
            if queue is None:
                continue
            if not negative:
                queue.settle(consumer, each)
            elif special.get(b"requeue", b"true" if queue.policy.nack_redelivers else b"false") == b"true":
                queue.give_back(consumer, each, True)
            else:
                queue.reject(consumer, each, f"rejected by {self.client_id or self.peer} (NACK)")

    def _by_message_id(self) -> tuple[StompConsumer | None, i64]:
        """Find a delivery by message-id and, from 1.1 on, subscription."""
        reader = self.reader
        octets = reader.data[reader.message_id_at : reader.message_id_end] if reader.message_id_end else b""
        named: list[StompSubscription] = list(self.subscriptions.values())
        if reader.subscription_end:
            text = text_of(reader.data[reader.subscription_at : reader.subscription_end], reader.version)
            found = self.subscriptions.get(text)
            named = [] if found is None else [found]
        prefix = self.id_prefix
        own: i64 = -1
        if not octets.startswith(prefix) and b"\\" not in octets:
            octets = octets_of(text_of(octets, V10), reader.version)  # some clients leave the colons as they are
        if octets.startswith(prefix):
            own = read_decimal(octets, len(prefix), len(octets))
        for subscription in named:
            # A copy with a number of its own (dead letter, leased, scheduled) keeps the id of its original.
            numbers = subscription.foreign.get(octets, [int(own)]) if subscription.foreign else [int(own)]
            for number in numbers:
                for consumer in subscription.consumers:
                    if number in consumer.in_flight:
                        assert isinstance(consumer, StompConsumer)
                        return consumer, number
        return None, -1

    def _begin(self, headers: dict[str, str]) -> None:
        name = headers.get("transaction", "")
        if not name:
            raise TransactionError("BEGIN has no transaction header")
        if name in self.transactions:
            raise TransactionError(f"the transaction {name!r} has already been started")
        if len(self.transactions) >= self.options.transactions_max:
            raise TransactionError(f"{self.options.transactions_max} transactions are open on this connection")
        self.transactions[name] = Transaction(name)
        self._receipt()

    def _transaction(self, name: str) -> Transaction:
        transaction = self.transactions.get(name)
        if transaction is None:
            raise TransactionError(f"the transaction {name!r} has not been started", remedy="BEGIN it first")
        return transaction

    def _ended(self, headers: dict[str, str]) -> Transaction:
        transaction = self._transaction(headers.get("transaction", ""))
        del self.transactions[transaction.name]
        return transaction

    def _commit(self, headers: dict[str, str]) -> None:
        transaction = self._ended(headers)
        self.broker.commit(transaction)
        for each in transaction.settlements:
            consumer = each.consumer
            assert isinstance(consumer, StompConsumer)
            consumer.subscription.forget(each.number)
        self._confirm(True)

    # -- SUBSCRIBE ----------------------------------------------------------------------------------------------------

    def _subscribe(self, headers: dict[str, str]) -> None:
        identity = headers.get("id", "")
        written = headers.get("destination", "")
        if not identity and self.reader.version != V10:
            raise ProtocolViolation("SUBSCRIBE has no id, which STOMP 1.1 and 1.2 require")
        if not written:
            raise InvalidDestination("SUBSCRIBE has no destination")
        key = identity or written
        if key in self.subscriptions:
            raise ProtocolViolation(f"there is already a subscription {key!r} on this connection")
        if len(self.subscriptions) >= self.options.subscriptions_max:
            raise Refused(f"{self.options.subscriptions_max} subscriptions are open on this connection")
        mode = headers.get("ack", "auto")
        if mode not in ACK_MODES:
            raise ProtocolViolation(f"ack is {mode!r}", remedy="use auto, client or client-individual")
        routing = ROUTING_TYPES.get(headers.get("subscription-type", headers.get("destination-type", "")), UNTYPED)
        destinations = [self.real(one) for one in names.parse(written, routing)]
        subscription = StompSubscription(self, destinations, identity, ACK_MODES[mode])
        subscription.selector = selector_of(headers.get("selector", ""))
        subscription.transformation = headers.get("transformation", "")
        if any(one.temporary for one in destinations):
            subscription.shown = written
        if headers.get("browser", "") == "true":
            for one in destinations:
                self.broker.access.browse(self.subject, one)
            self.check_owner(destinations)
            self._browse(subscription, key)
            return
        self._options(subscription, headers, destinations[0].options)
        if subscription.durable_name and not subscription.client_id:
            raise ProtocolViolation("a durable subscription needs a client-id on CONNECT")
        self.may_consume(destinations, subscription.durable_name)
        subscription.window.paused = True  # the RECEIPT comes before the first message (classic.md 6.3)
        try:
            self.broker.subscribe(subscription)
        except EntrepotError:
            self._release(subscription)
            raise
        self.subscriptions[key] = subscription
        self._confirm(bool(subscription.durable_name))
        subscription.window.paused = self.choked
        subscription.window.reopen()

    def may_consume(self, destinations: list[Destination], durable: str) -> None:
        """Raise AccessDenied unless this connection may read ``destinations``; temporary ones must be its own."""
        access = self.broker.access
        access.consume(self.subject, destinations, bool(durable))
        if durable:  # one of that name may be about another topic: it would be removed
            access.forget(self.subject, self.broker.durable(self.client_id, durable))
        self.check_owner(destinations)

    def check_owner(self, destinations: list[Destination]) -> None:
        """Raise AccessDenied for a temporary destination that another connection made, however it is to be read."""
        for one in destinations:
            if one.temporary and one.name not in self.temporary.values():
                raise AccessDenied(f"the temporary destination {one.name!r} is read by the connection that made it")

    def _options(self, subscription: StompSubscription, headers: dict[str, str], query: dict[str, str]) -> None:
        """Read the extension headers of both families, and Classic's ``?consumer.*`` in the destination (4.1)."""
        found = {name[len("consumer.") :]: value for name, value in query.items() if name.startswith("consumer.")}
        unknown = [name for name in query if not name.startswith("consumer.")]
        for name, value in headers.items():
            if name.startswith("activemq."):
                found[name[len("activemq.") :]] = value
        if unknown:
            raise Refused(f"unknown destination options: {', '.join(unknown)}", remedy="they begin with consumer.")
        if "prefetchSize" in found:
            subscription.prefetch = max(0, whole_number(found["prefetchSize"], "prefetchSize"))
        if "consumer-window-size" in headers:
            octets = whole_number(headers["consumer-window-size"], "consumer-window-size")
            subscription.octets = octets if octets > 0 else UNLIMITED
        subscription.priority = whole_number(found.get("priority", "0"), "priority")
        subscription.exclusive = found.get("exclusive", "false") == "true"
        subscription.no_local = found.get("noLocal", headers.get("no-local", "false")) == "true"
        subscription.retroactive = found.get("retroactive", "false") == "true"
        if "maximumPendingMessageLimit" in found:
            subscription.pending_limit = whole_number(found["maximumPendingMessageLimit"], "maximumPendingMessageLimit")
        subscription.durable_name = headers.get(
            "durable-subscription-name", headers.get("durable-subscriber-name", found.get("subscriptionName", ""))
        )
        if "selector" in found and subscription.selector is None:
            subscription.selector = selector_of(found["selector"])
        subscription.client_id = self.client_id
        subscription.origin = self.number
        subscription.connection = self.client_id or self.peer

    def _browse(self, subscription: StompSubscription, key: str) -> None:
        subscription.browser = self.broker.browse_all(subscription.destinations, subscription.selector)
        if not subscription.shown:
            subscription.shown = subscription.destinations[0].stomp()
        self.subscriptions[key] = subscription
        self._receipt()
        subscription.pump()

    def _unsubscribe(self, headers: dict[str, str]) -> None:
        key = headers.get("id") or headers.get("destination", "")
        durable = headers.get("durable-subscription-name", headers.get("activemq.subscriptionName", ""))
        subscription = self.subscriptions.pop(key, None)
        if subscription is not None:
            self._release(subscription)
        if durable:
            self.broker.access.forget(self.subject, self.broker.durable(self.client_id, durable))
            if not self.broker.forget_durable(self.client_id, durable) and subscription is None:
                raise InvalidDestination(f"there is no durable subscription {durable!r} of client {self.client_id!r}")
        elif subscription is None:
            raise InvalidDestination(f"there is no subscription {key!r} on this connection")
        self._confirm(bool(durable))

    def subscription_ended(self, subscription: StompSubscription, why: str) -> None:
        """The broker took a subscription away: say so once, and forget it."""
        for key, known in list(self.subscriptions.items()):
            if known is subscription:
                del self.subscriptions[key]
                self._release(subscription, MAYBE_DELIVERED)
                self._error(Refused(f"the subscription {key!r} ended: {why}"), b"")

    def _release(self, subscription: StompSubscription, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Detach a subscription; what it had not settled goes back."""
        subscription.browser = None
        for consumer in subscription.consumers:
            self.consumers.pop(int(consumer.key), None)
        self.broker.unsubscribe(subscription, last_delivered)

    def new_key(self) -> i64:
        """Return a key for a consumer of this connection."""
        return self.broker.ids.consumer_key()

    # -- leases and stages --------------------------------------------------------------------------------------------

    def _lease(self, command: i64, headers: dict[str, str]) -> None:
        """Entrepot's extensions: reading by lease, and staged commits."""
        if command >= codec.STAGE:
            staging = self.staging
            if staging is None:
                staging = Staging(self)
                self.staging = staging
                self.reader.staging = True
            staging.command(command, headers)
            return
        leasing = self.leasing
        if leasing is None:
            leasing = Leasing(self)
            self.leasing = leasing
        leasing.command(command, headers)

    def answer_with(self, fields: dict[str, str], receipt: bytes) -> None:
        """Write a RECEIPT with further headers, once all that was done so far is on disk. Nothing for no receipt."""
        if not receipt:
            return
        frame = BytesWriter()
        frame.write(b"RECEIPT\nreceipt-id:" + receipt + b"\n")
        write_headers(frame, fields, self.reader.version)
        frame.write(b"\n\0\n")
        self.broker.journal.confirm(self.receipts, frame.getvalue())

    def refuse(self, error: EntrepotError, receipt: bytes) -> None:
        """Answer a frame of before with an ERROR."""
        if not self.detached:
            self._error(error, receipt)

    def wrote_leased(self, count: i64) -> None:
        """So many messages were written in one frame."""
        self.sent += count
        self.note()
        if len(self.out) > self.high:
            self.choke()

    # -- what goes out ------------------------------------------------------------------------------------------------

    def write_fixed(self, writer: BytesWriter, message: Message, deliveries: i64) -> None:
        """Append the lines that every MESSAGE has behind its ids."""
        if message.timestamp == self.stamp and is_plain(message):
            writer.write(self.stamp_lines)
        else:
            lines = fixed_lines(message)
            if is_plain(message):
                self.stamp = message.timestamp
                self.stamp_lines = lines
            writer.write(lines)
        if message.durable:
            writer.write(b"persistent:true\n")
        if deliveries > 0 or message.redelivered:
            writer.write(b"redelivered:true\n")
        self.sent += 1

    def write_rest(self, writer: BytesWriter, message: Message, asked: str = "", owner: Queue | None = None) -> None:
        """Append annotations and the tail of a message that cannot be written as it is. ``owner``: see `Outflow`."""
        rare = message.rare
        if rare is not None and rare.large_id:
            flaw = self.broker.journal.overflow.flaw(message)
            if flaw:
                message = without_body(message, flaw)
                rare = message.rare
        version = self.reader.version
        tail = tail_for(message, version, asked)
        if rare is not None:
            if rare.annotations:
                write_headers(writer, rare.annotations, version)
            if message.address and "_AMQ_ORIG_ADDRESS" in rare.annotations:
                origin = octets_of(rare.annotations["_AMQ_ORIG_ADDRESS"], version)
                writer.write(b"original-destination:" + origin + b"\n")
            if rare.large_id:
                writer.write(tail)
                self.begin_outflow(message, owner)
                return
        writer.write(tail)

    def write_message(self, message: Message, headers: dict[str, str], asked: str = "") -> None:
        """Write a MESSAGE that is no delivery: browsed or leased."""
        version = self.reader.version
        writer = self.out
        writer.write(b"MESSAGE\n")
        write_headers(writer, headers, version)
        writer.write(b"message-id:" + octets_of(self.broker.ids.identity_of(message), version))
        self.write_fixed(writer, message, 0)
        self.write_rest(writer, message, asked)
        self.note()
        if len(self.out) > self.high:
            self.choke()

    def write_browsed(self, subscription: StompSubscription, message: Message) -> None:
        """Write what a browser shows."""
        where = subscription.shown
        browser = subscription.browser
        if browser is not None and len(browser.queues) > 1 and browser.queue is not None:
            queue = browser.queue
            where = Destination(queue.name, ANYCAST, queue.temporary).stomp()
        headers = {"subscription": subscription.identity, "destination": where}
        self.write_message(message, headers, subscription.transformation)

    def write_browse_end(self, subscription: StompSubscription) -> None:
        """Mark the end of what a browser shows (classic.md 6.3)."""
        headers = {"subscription": subscription.identity, "destination": subscription.shown, "browser": "end"}
        self.out.write(b"MESSAGE\n")
        write_headers(self.out, headers, self.reader.version)
        self.out.write(b"message-id:\n\n\0")
        self.note()

    def choke(self) -> None:
        """The peer reads too slowly: deliver no more until what is written has gone."""
        if not self.choked:
            self.choked = True
            self._pause()

    def _pause(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.window.paused = True

    def _unchoke(self) -> None:
        if self.choked and not self.detached and not self.dismissed:
            self.choked = False
            for subscription in list(self.subscriptions.values()):
                subscription.window.paused = False
            for subscription in list(self.subscriptions.values()):
                if self.choked:
                    return
                subscription.window.reopen()
                subscription.pump()
            if self.leasing is not None:
                self.leasing.pump()

    def answer(self, frame: bytes) -> None:
        """Write a RECEIPT; one that ends in a NUL too many answers DISCONNECT: the last thing said."""
        if self.detached:
            return
        if frame.endswith(b"\0\n\0"):
            frame = frame[:-1]
            self._leave()
        self.out.write(frame)
        self.note()

    def answer_failed(self, token: bytes, error: EntrepotError) -> None:
        """Say that what was asked for is not on disk."""
        if not self.detached:
            receipt = token[len(b"RECEIPT\nreceipt-id:") :].split(b"\n", 1)[0]
            self._error(error, receipt)
            if token.endswith(b"\0\n\0"):
                self._leave()

    def _receipt(self) -> None:
        self._confirm(False)

    def _receipt_frame(self, receipt: bytes) -> bytes:
        return b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0\n"

    def _error(self, error: EntrepotError, receipt: bytes) -> None:
        """Write an ERROR frame: what happened in the header, what to do in the body."""
        version = self.reader.version
        first = error.message.splitlines()[0] if error.message else error.code
        self.out.write(b"ERROR\nmessage:" + octets_of(first, version) + b"\ncode:" + error.code.encode())
        if receipt:
            self.out.write(b"\nreceipt-id:" + receipt)
        body = str(error).encode()
        self.out.write(b"\ncontent-type:text/plain\ncontent-length:%d\n\n" % len(body) + body + b"\0\n")
        self.note()

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong and close this connection."""
        self._fail(error, b"")

    def _fail(self, error: EntrepotError, receipt: bytes) -> None:
        self._error(error, receipt)
        self.refused = str(error)
        self._leave()

    def _leave(self) -> None:
        """Close once all is written, a body from disk that has been begun included: half of it would be no message."""
        self.leaving = True
        self.said_all = True
        self.closing = self.outflow is None
