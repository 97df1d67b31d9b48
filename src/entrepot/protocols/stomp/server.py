"""STOMP as a dialect of the server session: frames in, verbs of the broker out, answers back. [C]

Every frame either takes effect whole or is answered by an ERROR that says why, with the receipt id of what failed. A
refusal (`Refused`) leaves the connection open, as ActiveMQ does; broken frames (`PeerError`) close it, and only it.

A RECEIPT for what the journal must keep (persistent SEND, COMMIT, ACK, durable SUBSCRIBE, leases) is written when it is
on disk, never before.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import (
    EntrepotError,
    PeerError,
    ProtocolViolation,
    Refused,
    ShuttingDown,
    StorageError,
)
from entrepot.core.broker import BrokerCore
from entrepot.core.guiding import HERE, THERE
from entrepot.protocols.serving.guiding import guided
from entrepot.protocols.serving.life import ENTER, LEAVING, OPENING
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.session import STOMP, Shell
from entrepot.protocols.stomp import commands
from entrepot.protocols.stomp.answers import Answers, LastReceipt
from entrepot.protocols.stomp.codec import Reader, read_decimal
from entrepot.protocols.stomp.consuming import Consuming
from entrepot.protocols.stomp.escapes import V10, V11, V12, octets_of
from entrepot.protocols.stomp.headers import write_headers
from entrepot.protocols.stomp.leasing import Leasing
from entrepot.protocols.stomp.listing import listed
from entrepot.protocols.stomp.options import SERVER_MIN_HEARTBEAT_MS, StompOptions
from entrepot.protocols.stomp.places import Places
from entrepot.protocols.stomp.sending import Sending
from entrepot.protocols.stomp.settling import Settling
from entrepot.protocols.stomp.transacting import Transacting
from entrepot.protocols.stomp.writing import Writing

VERSIONS: Final = {"1.0": V10, "1.1": V11, "1.2": V12}

IN_MEMORY_OCTETS_MAX: Final = 1 << 62  # an ephemeral broker has no disk to stream a body to: no body counts as large
HEARTBEAT_MS_MAX: Final = 1 << 31  # 25 days: as good as never


class StompSession(ServerSession):
    """One accepted connection. Its parts are made when they are needed first: most connections use few of them."""

    def __init__(self, shell: Shell, broker: BrokerCore, options: StompOptions, number: i64, peer: str) -> None:
        super().__init__(shell, broker, number, peer, options.write_high_octets, options.connect_timeout_ms)
        self.protocol = STOMP
        self.options: StompOptions = options
        self.reader: Reader = Reader(options)
        if not broker.journal.pages:
            self.reader.large_octets = IN_MEMORY_OCTETS_MAX
        self.login: str = ""
        self.entering: dict[str, str] | None = None  # the headers of CONNECT, until it is known who that is
        self.answers: Answers = Answers(self.outlet, self.confirmations, self.reader)
        self.writing: Writing = Writing(broker, self.outlet, self.reader)
        self.places: Places | None = None
        self.sending: Sending | None = None
        self.consuming: Consuming | None = None
        self.settling: Settling | None = None
        self.transacting: Transacting | None = None
        self.leasing: Leasing | None = None

    # -- the parts -----------------------------------------------------------------------------------------------------

    def need_places(self) -> Places:
        """Return what this connection calls destinations."""
        places = self.places
        if places is None:
            places = Places(self, self.reader)
            self.places = places
        return places

    def need_sending(self) -> Sending:
        """Return what this connection sends."""
        sending = self.sending
        if sending is None:
            sending = Sending(self, self.reader, self.answers, self.need_places(), self.need_transacting())
            self.sending = sending
        return sending

    def need_consuming(self) -> Consuming:
        """Return what this connection is subscribed to."""
        consuming = self.consuming
        if consuming is None:
            most = self.options.subscriptions_max
            consuming = Consuming(self, self.reader, self.answers, self.writing, self.need_places(), most)
            self.consuming = consuming
        return consuming

    def need_settling(self) -> Settling:
        """Return what this connection settles."""
        settling = self.settling
        if settling is None:
            consuming = self.need_consuming()
            transacting = self.need_transacting()
            settling = Settling(self, self.reader, self.answers, self.writing, consuming, transacting)
            self.settling = settling
        return settling

    def need_transacting(self) -> Transacting:
        """Return the transactions and stages of this connection."""
        transacting = self.transacting
        if transacting is None:
            transacting = Transacting(self, self.reader, self.answers, self.options.transactions_max)
            self.transacting = transacting
        return transacting

    def need_leasing(self) -> Leasing:
        """Return what this connection does with leases."""
        leasing = self.leasing
        if leasing is None:
            leasing = Leasing(self, self.reader, self.answers, self.writing, self.need_places())
            self.leasing = leasing
        return leasing

    # -- what the machine asks -----------------------------------------------------------------------------------------

    def work(self, data: bytes) -> i64:
        """Do the frames that came, as far as this turn reaches."""
        reader = self.reader
        if data:
            reader.feed(data)
        try:
            if self.entering is None or self._is_answered():
                transacting = self.transacting
                if transacting is None or transacting.is_done():
                    self._work()
        except PeerError as error:
            self.fail(error)
        return reader.waiting()

    def borrow(self, held: i64) -> bool:
        """A long frame is incomplete; a body that may be streamed is, when there are too many."""
        self.reader.pressed = super().borrow(held)
        return self.reader.pressed

    def beat(self) -> None:
        """Write a line end."""
        self.outlet.out.append(10)

    def unopened(self) -> str:
        """Return what did not come in time."""
        return "no CONNECT frame"

    def consumes(self) -> bool:
        """Return whether messages go to this peer whose acknowledgement makes room."""
        consuming = self.consuming
        return consuming is not None and any(len(one.consumers) > 0 for one in consuming.named.values())

    def farewell(self, why: str) -> None:
        """Say that our side ends the connection."""
        if OPENING < self.life < LEAVING:
            self.answers.error(
                ShuttingDown(f"the broker ends this connection: {why}", remedy="connect again"),
                b"",
            )

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong and close this connection."""
        self._fail(error, b"")

    def _fail(self, error: EntrepotError, receipt: bytes) -> None:
        self.answers.error(error, receipt)
        self.refused = str(error)
        self.leave()

    def superseded(self, why: str) -> None:
        """Another connection takes the client id over (allowLinkStealing): end, with all that this one holds."""
        self.fail(ShuttingDown(why))
        self.note()
        self.detach("its client id was taken over", self.broker.now)

    def give_back(self) -> None:
        """Roll back, give back, and delete what was temporary. Parts point back at us: they are let go of."""
        if self.transacting is not None:
            self.transacting.end()
        if self.consuming is not None:
            self.consuming.end(self.last_delivered)
        if self.leasing is not None:
            self.leasing.detach()
        if self.sending is not None:
            self.sending.end()
        if self.places is not None:
            self.places.end()
        self.outlet.sources = None
        self.places = None
        self.sending = None
        self.consuming = None
        self.settling = None
        self.transacting = None
        self.leasing = None

    def readers(self) -> int:
        """Return how many subscriptions it has."""
        return 0 if self.consuming is None else len(self.consuming.named)

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know."""
        version = int(self.reader.version)
        return {
            "protocol": f"stomp {version // 10}.{version % 10}",
            "peer": self.peer,
            "client-id": self.client_id,
            "login": self.login,
            "subscriptions": str(0 if self.consuming is None else len(self.consuming.named)),
            "received": str(self.received),
            "sent": str(self.writing.sent),
            "refused": self.refused,
        }

    # -- frames --------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        reader = self.reader
        effort = self.broker.effort
        while self.life < LEAVING:
            if effort.spent >= effort.allowance and reader.has_more():
                self.unfinished = True
                effort.later(self.rest)
                return
            sending = self.sending
            if sending is not None and sending.inflow is not None:
                if not sending.take_large(sending.inflow):
                    return
                continue
            command = reader.next()
            if command == commands.NEED_MORE:
                return
            if self.life == OPENING and command != commands.CONNECT:
                raise ProtocolViolation("the first frame must be CONNECT or STOMP")
            self.received += 1
            effort.spent += 1
            try:
                if command == commands.SEND:
                    if sending is None:
                        sending = self.need_sending()
                    sending.send()
                elif command == commands.ACK:
                    settling = self.settling
                    if settling is None:
                        settling = self.need_settling()
                    settling.settle(False)
                else:
                    self._command(command)
                    if self.unfinished:  # who this is, is being looked at, or a transaction is being carried out
                        return
            except (Refused, StorageError) as error:
                self._refuse(command, error)
            except PeerError as error:
                self._fail(error, reader.receipt())

    def _refuse(self, command: i64, error: EntrepotError) -> None:
        receipt = self.reader.receipt()
        grouped = command in (commands.SEND, commands.LARGE, commands.ACK)
        if not grouped or self.transacting is None or self.transacting.doom(error, receipt):
            self.answers.error(error, receipt)

    def _command(self, command: i64) -> None:
        if command == commands.LARGE:
            self.need_sending().begin_large()
            return
        if command == commands.NACK:
            self.need_settling().settle(True)
            return
        headers = self.reader.headers()
        if command == commands.SUBSCRIBE:
            self.need_consuming().subscribe(headers)
        elif command == commands.UNSUBSCRIBE:
            self.need_consuming().unsubscribe(headers)
        elif command == commands.BEGIN:
            self.need_transacting().begin(headers)
        elif command == commands.COMMIT:
            self.need_transacting().commit(headers)
        elif command == commands.ABORT:
            self.need_transacting().abort(headers)
        elif command == commands.CONNECT:
            self._connect(headers)
        elif command == commands.DISCONNECT:
            self._disconnect()
        elif command == commands.BROKERS:
            self.answers.answer_with({"brokers": self.broker.neighbours.places()}, self.reader.receipt())
        elif command == commands.QUEUES:
            self.answers.answer_with(listed(self, headers), self.reader.receipt())
        elif command >= commands.STAGE:
            self.need_transacting().stage(command, headers)
        else:
            self.need_leasing().command(command, headers)

    # -- CONNECT and DISCONNECT ----------------------------------------------------------------------------------------

    def _connect(self, headers: dict[str, str]) -> None:
        if self.life != OPENING:
            raise ProtocolViolation("CONNECT came a second time")
        offered = [word.strip() for word in headers.get("accept-version", "1.0").split(",")]
        known = [VERSIONS[word] for word in offered if word in VERSIONS]
        if not known:
            raise ProtocolViolation(
                f"none of the versions {', '.join(offered)} is spoken here", remedy="offer 1.0, 1.1 or 1.2"
            )
        self.entering = headers
        self._is_answered()

    def _is_answered(self) -> bool:
        """Go on with CONNECT, if it is known who this is; what came behind it waits until then."""
        headers = self.entering
        assert headers is not None
        try:
            if not self.ask_who(headers.get("login"), headers.get("passcode")):
                return False
            if self.options.router and not self._is_served(headers.get("client-id", "")):
                return False
        except Refused as refusal:
            self.entering = None
            self.fail(refusal)
            return True
        self.entering = None
        self._enter(headers)
        return True

    def _is_served(self, client_id: str) -> bool:
        """Ask the router of the listener; False: it is not known yet. Raises Refused for elsewhere, too."""
        guidance = guided(self, self.options.router, client_id)
        if guidance is None or guidance.verdict == HERE:
            return guidance is not None
        remedy = f"connect to {guidance.host}:{guidance.port}" if guidance.verdict == THERE else "try another broker"
        raise Refused(guidance.why, remedy=remedy)

    def _enter(self, headers: dict[str, str]) -> None:
        """Begin to serve this user. Raises ProtocolViolation when another connection has his client id."""
        client_id = headers.get("client-id", "")
        taken = self.claim(client_id, self.options.link_stealing)
        if taken:
            raise ProtocolViolation(
                f"client id {client_id!r} is already connected from {taken}",
                remedy="use another client-id, or close the other connection",
            )
        self.login = headers.get("login", "")
        offered = [word.strip() for word in headers.get("accept-version", "1.0").split(",")]
        version = max([VERSIONS[word] for word in offered if word in VERSIONS])
        self.reader.version = version
        self.reader.connected = True
        self.become(ENTER)
        broker = self.broker
        self.writing.id_prefix = octets_of(broker.ids.node.message_prefix, version)
        answer = {
            "version": f"{version // 10}.{version % 10}",
            "session": f"{broker.ids.node_id}-{self.number}",
            "server": "entrepot/" + broker.options.version,
            "heart-beat": self._agree(headers.get("heart-beat", self.options.heartbeat_default)),
        }
        if "request-id" in headers:
            answer["response-id"] = headers["request-id"]
        out = self.outlet.out
        out.write(b"CONNECTED\n")
        write_headers(out, answer, V10)  # never escaped (STOMP 1.2, CONNECT and CONNECTED)
        out.write(b"\n\0\n")
        self.outlet.wrote = broker.now
        self.note()

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
        self.beat_receive = int(hear * self.options.heartbeat_grace if hear else self.options.ttl_ms) * MILLISECOND
        return f"{send},{hear}"

    def _disconnect(self) -> None:
        """Answer after everything that was received is on disk, then close (STOMP 1.2, DISCONNECT).

        A peer that said this reads on for its receipt only: messages that are settled by writing them would be lost.
        """
        if self.consuming is not None:
            self.consuming.end(self.last_delivered)
        receipt = self.reader.receipt()
        if receipt:
            self.part()
            self.confirmations.ask(LastReceipt(self.answers, receipt, self))
        else:
            self.leave()
            self.note()
