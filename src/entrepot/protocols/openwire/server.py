"""OpenWire as a dialect of the server session: commands in, verbs of the broker out, answers back. [C]

Every command takes effect whole or is refused: by an ExceptionResponse when it asked for an answer, otherwise by a
ConnectionError. A refusal (`Refused`) leaves the connection open; broken frames (`PeerError`) close it, and only it.

What the journal must keep (persistent messages, that they are settled, commits, durable subscriptions) is answered when
it is on disk, never before.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import EntrepotError, ProtocolViolation, Refused, StorageError
from entrepot.core.guiding import HERE, THERE
from entrepot.core.transactions.transaction import State
from entrepot.model.connected import SessionView
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    BrokerId,
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    KeepAliveInfo,
    MessageAck,
    MessagePull,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionId,
    ShutdownInfo,
    TransactionInfo,
    WireFormatInfo,
)
from entrepot.protocols.openwire.consuming import Consuming
from entrepot.protocols.openwire.convert import LAYOUT
from entrepot.protocols.openwire.destinations import Destinations
from entrepot.protocols.openwire.dispatching import Dispatching
from entrepot.protocols.openwire.elements import FirstEncoding
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.identity import Identity
from entrepot.protocols.openwire.negotiation import WireFormat, offer_of
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.replies import Replies
from entrepot.protocols.openwire.sending import Sending
from entrepot.protocols.openwire.separators import dot
from entrepot.protocols.openwire.settling import Settling
from entrepot.protocols.openwire.steering import Steering
from entrepot.protocols.openwire.transacting import Transacting
from entrepot.protocols.serving.guiding import guided
from entrepot.protocols.serving.life import ENTER
from entrepot.protocols.serving.session import CommandSession
from entrepot.protocols.serving.transactions import told_before
from entrepot.protocols.session import OPENWIRE, Shell

SIGNED: Final = "\t"  # between a producer and its user


@mypyc_attr(allow_interpreted_subclasses=True)
class Peering:
    """What is different about a connection at whose other end is a broker."""

    def heard(self) -> None:
        """Octets came."""

    def entering(self, info: ConnectionInfo) -> None:
        """It is known who this is; the connection is about to be let in."""

    def take(self, command: Command) -> bool:
        """Do ``command``, or return False: the session does it as for anybody."""
        return False

    def done(self, command: Command) -> None:
        """The session did ``command``."""

    def released(self) -> None:
        """The session gives back all that it holds."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Door:
    """Who is asked about a connection that says, before it is let in, that another broker opened it."""

    def peering(self, session: OpenWireSession, peer: BrokerInfo) -> Peering | None:
        """Return what is different about it; None: it is treated as a client."""
        return None


class OpenWireSession(CommandSession[Structure]):
    """One accepted connection. ``number`` is unique in this run of the broker; ``peer`` is for people."""

    def __init__(
        self,
        shell: Shell,
        acceptor: Acceptor,
        options: OpenWireOptions,
        number: i64,
        peer: str,
        door: Door | None = None,
    ) -> None:
        broker = acceptor.broker
        super().__init__(shell, broker, number, peer, options.write_high_octets, options.connect_timeout_ms)
        self.protocol = OPENWIRE
        self.acceptor: Acceptor = acceptor
        self.options: OpenWireOptions = options
        self.door: Door | None = door
        self.peering: Peering | None = None  # another broker opened it
        offer = offer_of(options.wire)
        unagreed = WireFormat.before_agreement(offer, version_min=options.version_min)
        self.decoder: Decoder = Decoder(unagreed)
        self.encoder: Encoder = Encoder(unagreed)
        self.separator: str = broker.options.separator
        self.agreed: bool = False
        self.identity: Identity = Identity(acceptor, options)
        self.replies: Replies = Replies(self.outlet, self.encoder, self.confirmations)
        self.dispatching: Dispatching = Dispatching(broker, self.outlet, self.replies)
        self.steering: Steering = Steering(self, options, self.replies)
        self.transacting: Transacting | None = None
        self.consuming: Consuming | None = None
        self.sending: Sending | None = None
        self.settling: Settling | None = None
        self.destinations: Destinations | None = None
        self.outlet.wrote = broker.now
        self.encoder.encode_into(self.outlet.out, offer)
        self.note()

    # -- the parts: an idle connection has none ------------------------------------------------------------------------

    def need_transacting(self) -> Transacting:
        """Return the transactions of this connection."""
        transacting = self.transacting
        if transacting is None:
            transacting = Transacting(self, self.replies, self.options.transactions_max)
            self.transacting = transacting
            self.steering.transactions = transacting.transactions
        return transacting

    def need_consuming(self) -> Consuming:
        """Return the consumers of this connection."""
        consuming = self.consuming
        if consuming is None:
            consuming = Consuming(self, self.identity, self.replies, self.dispatching)
            self.consuming = consuming
        return consuming

    def need_sending(self) -> Sending:
        """Return what this connection sends."""
        sending = self.sending
        if sending is None:
            sending = Sending(self, self.identity, self.replies, self.need_transacting())
            self.sending = sending
        return sending

    def need_settling(self) -> Settling:
        """Return what this connection settles."""
        settling = self.settling
        if settling is None:
            settling = Settling(self.broker, self.replies, self.need_consuming(), self.need_transacting())
            self.settling = settling
        return settling

    def need_destinations(self) -> Destinations:
        """Return what this connection says about destinations."""
        destinations = self.destinations
        if destinations is None:
            destinations = Destinations(self, self.identity, self.replies, self.need_consuming())
            self.destinations = destinations
            self.steering.temporary = destinations.temporary
        return destinations

    # -- what the machine asks -----------------------------------------------------------------------------------------

    def work(self, data: bytes) -> i64:
        """Do the commands that came, as far as this turn reaches."""
        if self.peering is not None and data:
            self.peering.heard()
        if self.transacting is not None and self.transacting.is_busy():
            self.unfinished = True
            return self.decoder.buffered()
        if self.take_all(self.decoder.feed(data) if data else self.undone):
            self.decoder.check()
        return self.decoder.buffered()

    def outgoing(self) -> bytes:
        """Return what is to be written."""
        if self.dispatching.failed is not None:
            self.dispatching.bury()
        return super().outgoing()

    def deadline(self) -> Instant:
        """Return when something is due: pulls, and what is due in every protocol."""
        due = super().deadline()
        if self.consuming is not None:
            for subscription in self.consuming.pullers.values():
                due = min(due, int(subscription.pull_due))
        return due

    def advance(self, now: Instant) -> None:
        """Do what is due; end pulls whose time is over."""
        super().advance(now)
        if self.closing or self.consuming is None:
            return
        for subscription in list(self.consuming.pullers.values()):
            if now >= subscription.pull_due:
                subscription.pull_ended()
                self.dispatching.show_none(subscription.consumer_id)

    def beat(self) -> None:
        """Say that we are there."""
        self.replies.write(KeepAliveInfo())

    def unopened(self) -> str:
        """Return what did not come in time."""
        return "no connection was opened"

    def consumes(self) -> bool:
        """Return whether messages go to this peer whose acknowledgement makes room.

        Every connection of a Java client reads advisories about temporary destinations: settling those frees nothing.
        """
        consuming = self.consuming
        return consuming is not None and not all(one.advises for one in consuming.consumers.values())

    def farewell(self, why: str) -> None:
        """Say that our side ends the connection. A failover client goes elsewhere by itself."""
        if self.agreed and not self.closing:
            self.replies.write(ShutdownInfo())

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong and close this connection."""
        self.refused = error.message
        if self.agreed and not self.closing:
            self.replies.fail(error)
        self.leave()
        self.note()

    def superseded(self, why: str) -> None:
        """Another socket brought the same connection or client id: it takes over, this one ends (classic.md 4.18)."""
        self.refused = why
        self.release()
        self.outlet.break_off()
        self.leave()
        self.note()

    def give_back(self) -> None:
        """Roll back, give back, and delete what was temporary."""
        peering, self.peering = self.peering, None
        if peering is not None:
            peering.released()
        if self.transacting is not None:
            self.transacting.end()
        if self.consuming is not None:
            self.consuming.end_all(list(self.consuming.consumers.values()), self.last_delivered)
        if self.sending is not None:
            self.sending.end_producers()
        if self.destinations is not None:
            self.destinations.end()
        self.acceptor.leave(self.steering, self.identity.connection_id)
        info = self.identity.info
        if info is not None and info.connection_id is not None:
            self.acceptor.advisories.disconnected(info.connection_id)

    def readers(self) -> int:
        """Return how many consumers it has."""
        return 0 if self.consuming is None else len(self.consuming.consumers)

    def sessions(self, opened: int) -> list[SessionView]:
        """Return the connection as one session, with its producers: those of OpenWire are the client's own matter."""
        number = str(self.number)
        open_ones = {} if self.sending is None else self.sending.described()
        return [SessionView(number, number, self.subject.name, self.client_id, self.readers(), open_ones, opened)]

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know."""
        return {
            "protocol": f"openwire {self.decoder.wire_format.version}" if self.agreed else "openwire",
            "peer": self.peer,
            "client-id": self.client_id,
            "connection-id": self.identity.connection_id,
            "login": self.subject.name,
            "subscriptions": str(0 if self.consuming is None else len(self.consuming.consumers)),
            "received": str(self.received),
            "sent": str(self.dispatching.sent),
            "refused": self.refused,
        }

    # -- commands ------------------------------------------------------------------------------------------------------

    def take(self, command: Structure) -> None:
        """Do one command."""
        self.received += 1
        if self.separator:
            dot(command, self.separator)
        if isinstance(command, WireFormatInfo):
            self._agree()
            return
        if not isinstance(command, Command):
            raise ProtocolViolation(f"type {command.type_id} is no command")
        peering = self.peering
        if peering is None:
            self._do(command)
        elif not peering.take(command):
            self._do(command)
            peering.done(command)

    def _do(self, command: Command) -> None:
        if self.steering.sent_away and command.response_required and not isinstance(command, MessageAck):
            return
        try:
            if isinstance(command, commands.Message):
                self.need_sending().send(command)
            elif isinstance(command, MessageAck):
                if command.response_required:
                    self.need_settling().settle_and_answer(command)
                else:
                    self.need_settling().settle(command)
            else:
                self._obey(command)
        except (Refused, StorageError) as error:
            self._refuse(command, error)

    def _obey(self, command: Command) -> None:
        """Do what is not done for each message."""
        if isinstance(command, KeepAliveInfo):
            self.replies.answer(command, False)
        elif isinstance(command, ConnectionInfo):
            self._connect(command)
        elif isinstance(command, ShutdownInfo):
            self.leave()
            self.note()
        elif isinstance(command, ConnectionControl):
            self.steering.controlled(command)
            self.replies.answer(command, False)
        elif isinstance(command, BrokerInfo):
            if command.network_connection and self.identity.info is None and self.door is not None:
                self.peering = self.door.peering(self, command)
            self.replies.answer(command, False)
        elif isinstance(command, (commands.ControlCommand, commands.FlushCommand)):
            self.replies.answer(command, False)
        elif self.identity.info is None:
            raise ProtocolViolation(f"a {type(command).__name__} came before the connection was opened")
        elif isinstance(command, TransactionInfo):
            self.need_transacting().step(command)
        elif isinstance(command, MessagePull):
            self.need_consuming().pull(command)
        elif isinstance(command, ConsumerInfo):
            self.need_consuming().consume(command)
        elif isinstance(command, ProducerInfo):
            self.need_sending().produce(command)
        elif isinstance(command, RemoveInfo):
            self._remove(command)
        elif isinstance(command, DestinationInfo):
            self.need_destinations().step(command)
        elif isinstance(command, RemoveSubscriptionInfo):
            self.need_consuming().unsubscribe(command)
        elif isinstance(command, ConsumerControl):
            self.need_consuming().control(command)
        else:  # SessionInfo, MessageDispatchNotification and other words that a server hears and needs not heed
            self.replies.answer(command, False)

    def _refuse(self, command: Command, error: EntrepotError) -> None:
        """Tell the client that ``command`` had no effect; of a transaction once, besides answers that are asked for."""
        if isinstance(command, (commands.Message, MessageAck)) and command.transaction_id is not None:
            transaction = self.need_transacting().transactions.open.get(command.transaction_id)
            if transaction is not None and transaction.state in (State.ACTIVE, State.DOOMED):
                told = told_before(transaction, error)
                if told and not command.response_required:
                    if isinstance(command, commands.Message):
                        self.need_sending().open_window(command)
                    return
        self.replies.refuse(command, error)

    def _agree(self) -> None:
        """Both offers are known: speak what they say, and tell who we are."""
        wire = self.decoder.wire_format
        self.encoder.switch(wire)
        self.agreed = True
        self.dispatching.frame_octets_max = wire.max_frame_size
        self.dispatching.plain = wire.size_prefix and self.encoder.passes(FirstEncoding(b"", LAYOUT, 0, 0))
        self.beat_receive = wire.max_inactivity_ms * MILLISECOND
        self.beat_send = self.beat_receive // 3
        self.replies.write(
            BrokerInfo(
                broker_id=BrokerId(value=self.broker.ids.node_id),
                broker_url=self.acceptor.url,
                peer_broker_infos=list(self.acceptor.cluster.infos(self.options)),
                broker_name=self.broker.options.name,
                fault_tolerant_configuration=self.broker.journal.pages,
                network_properties=self.acceptor.introduction,
            )
        )

    def _connect(self, info: ConnectionInfo) -> None:
        identity = self.identity
        if identity.info is not None:  # a failover client may say it twice
            identity.by_failover = identity.by_failover or info.failover_reconnect
            self.replies.answer(info, False)
            return
        connection_id = info.connection_id
        if connection_id is None or not connection_id.value:
            raise ProtocolViolation("a connection has no id")
        try:
            if not self.ask_who(info.user_name, info.password):
                self.received -= 1  # he says it again
                return
            if self.options.router and self.peering is None and not self._is_served(info):
                return
            if self.broker.access.guarded:
                identity.signature = SIGNED + self.subject.name
            if self.peering is not None:
                self.peering.entering(info)
            self.acceptor.enter(self.steering, connection_id.value, info.client_id or "")
        except Refused as refusal:
            self.refused = refusal.message
            self.part()
            self.leave_at = self.broker.now + self.options.refusal_grace_ms * MILLISECOND
            raise
        identity.info = info
        identity.connection_id = connection_id.value
        identity.by_failover = info.failover_reconnect
        self.replies.connection_id = connection_id
        self.become(ENTER)
        self.steering.fault_tolerant = self.steering.fault_tolerant or info.fault_tolerant
        self.acceptor.cluster.entered(self.steering)
        self.acceptor.advisories.connected(info)
        self.replies.answer(info, False)
        self.steering.introduce(self.acceptor.cluster, info)

    def _is_served(self, info: ConnectionInfo) -> bool:
        """Ask the router of the listener; False where another broker serves the client, or it is not known yet.

        Raises Refused when nobody does, or the client does not obey when it is told to go elsewhere.
        """
        guidance = guided(self, self.options.router, info.client_id or "")
        if guidance is None:
            self.received -= 1  # he says it again
            return False
        if guidance.verdict == HERE:
            return True
        if guidance.verdict != THERE:
            raise Refused(guidance.why, remedy="try again later, or at another broker")
        place = f"tcp://{guidance.host}:{guidance.port}"
        if not (info.fault_tolerant or self.steering.fault_tolerant):
            raise Refused(guidance.why, remedy=f"connect to {place}, or by failover:(...), which goes there by itself")
        self.replies.write(ConnectionControl(fault_tolerant=True, connected_brokers=place))
        self.replies.write(ConnectionControl(fault_tolerant=True, reconnect_to=place))
        self.leave_at = self.broker.now + self.options.refusal_grace_ms * MILLISECOND
        return False

    def _remove(self, command: RemoveInfo) -> None:
        what = command.object_id
        last = command.last_delivered_sequence_id
        if isinstance(what, ConsumerId):
            subscription = self.need_consuming().consumers.get(what)
            if subscription is not None:
                self.need_consuming().end(subscription, last)
        elif isinstance(what, ProducerId):
            self.need_sending().remove_producer(what)
        elif isinstance(what, SessionId):
            number = what.value
            consumers = self.need_consuming().consumers
            self.need_consuming().end_all([one for key, one in consumers.items() if key.session_id == number], last)
            self.need_sending().end_session(what)
        elif isinstance(what, ConnectionId):
            self.need_sending().forget_all()
            self.last_delivered = last
            self.release()
        self.replies.answer(command, False)
