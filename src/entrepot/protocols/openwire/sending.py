"""Producers and what they send. [C]

A producer that must wait for space gets its answer, or its ProducerAck, when there is some; what asks for neither stops
the reading of its connection, unless that consumes too: acknowledgements must come through.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import ProtocolViolation, Refused
from entrepot.base.reasons import SENT_AGAIN
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import BLOCKED
from entrepot.core.transactions.transaction import KEEP_UNITS
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import (
    Destination,
    MessageId,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    Response,
    SessionId,
    TransactionId,
)
from entrepot.protocols.openwire.convert import message_of
from entrepot.protocols.openwire.identity import Identity, addresses_of
from entrepot.protocols.openwire.ids import text_of
from entrepot.protocols.openwire.options import UNCOUNTED
from entrepot.protocols.openwire.refusals import check_count, shown
from entrepot.protocols.openwire.replies import HeldReply, Replies, Reply
from entrepot.protocols.openwire.transacting import Transacting
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.serving.targets import keep_target

MESSAGE_OVERHEAD: Final = 1024  # what ActiveMQ charges a message beyond its octets: the currency of producer windows


@mypyc_attr(allow_interpreted_subclasses=True)
class Arrivals:
    """Whoever looks at messages that are to be answered before they are sent: of a broker that may bring one twice."""

    def arrive(self, command: commands.Message, message: Message, target: Target, durable: bool) -> int:
        """Send ``message``, or not. Return what `BrokerCore.send` says of it."""
        raise NotImplementedError


class Sending:
    """What one connection sends. ``arrivals``: who looks at it first, if anybody."""

    def __init__(self, session: ServerSession, identity: Identity, replies: Replies, transacting: Transacting) -> None:
        self.session: ServerSession = session
        self.broker: BrokerCore = session.broker
        self.number: i64 = session.number
        self.identity: Identity = identity
        self.replies: Replies = replies
        self.transacting: Transacting = transacting
        self.arrivals: Arrivals | None = None
        self.targets: dict[Destination, Target] = {}
        self.producers: dict[ProducerId, ProducerInfo] = {}

    # -- producers -----------------------------------------------------------------------------------------------------

    def produce(self, info: ProducerInfo) -> None:
        """Open a producer, and answer. Raises Refused and what is below it, ProtocolViolation."""
        producer_id = info.producer_id
        if producer_id is None:
            raise ProtocolViolation("a producer has no id")
        if producer_id not in self.producers:
            identity = self.identity
            options = identity.options
            if len(self.producers) >= options.producers_max:
                raise Refused(f"{options.producers_max} producers are open on this connection")
            if identity.acceptor.is_elsewhere(self.session, producer_id.connection_id):
                raise Refused("the id of a producer begins with that of another connection")
            if options.producers_allowed < UNCOUNTED:
                known = [one.destination for one in self.producers.values()]
                check_count("producer", known, info.destination, options.producers_allowed)
            if info.destination is not None:
                self._target(info.destination)
            self.producers[producer_id] = info
            identity.advisories.producer_added(info)
        self.replies.answer(info, False)

    def described(self) -> dict[str, str]:
        """Return the addresses of the producers that are open, by their ids; "" for one that names none."""
        known: dict[str, str] = {}
        for producer_id, info in self.producers.items():
            where = info.destination
            known[text_of(producer_id)] = "" if where is None else where.physical_name or ""
        return known

    def end_producer(self, producer_id: ProducerId) -> None:
        """A producer is closed, or its connection is gone."""
        if self.producers.pop(producer_id, None) is not None:
            self.identity.advisories.producer_removed(producer_id)

    def end_producers(self) -> None:
        """The connection is gone."""
        for producer_id in list(self.producers):
            self.end_producer(producer_id)

    def remove_producer(self, producer_id: ProducerId) -> None:
        """The client says that a producer sends nothing more, nothing again either."""
        self.end_producer(producer_id)
        self.broker.sequences.forget(text_of(producer_id) + self.identity.signature)

    def end_session(self, session_id: SessionId) -> None:
        """Remove the producers of one session of the client."""
        for producer_id in list(self.producers):
            if producer_id.session_id == session_id.value:
                self.remove_producer(producer_id)

    def forget_all(self) -> None:
        """The client closes its connection: it sends nothing again."""
        for producer_id in list(self.producers):
            self.broker.sequences.forget(text_of(producer_id) + self.identity.signature)

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, command: commands.Message) -> None:
        """Send a message, now or with its transaction. Raises Refused, StorageError, ProtocolViolation."""
        destination = command.destination
        if destination is None or command.message_id is None or self.identity.info is None:
            raise ProtocolViolation("a message has no destination, no id, or no connection")
        target = self.targets.get(destination)
        if target is None:
            target = self._target(destination)
            if target.service is not None and command.reply_to is not None:
                self.broker.access.answer(self.session.subject, addresses_of(command.reply_to))
        elif target.temporary:
            self.identity.acceptor.check_answered(target.name)
        transaction_id = command.transaction_id
        if transaction_id is not None:
            self._send_in(command, target, transaction_id)
            return
        session = self.session
        if session.patience is not None:
            session.patience.check(self.identity.unread)
        if command.response_required:
            self._send_and_answer(command, target)
            return
        verdict = self.broker.sending.send(self._arrived(command, target), target)
        window = 0
        producer_id = command.producer_id
        if producer_id is not None:
            info = self.producers.get(producer_id)
            if info is not None:
                window = int(info.window_size)
        if window > 0:
            granted = ProducerAck(producer_id=producer_id, size=_charged(command))
            if verdict == BLOCKED:
                session.be_patient().hold(HeldReply(self.replies, granted, None), target)
            else:
                self.replies.write(granted)
        elif verdict == BLOCKED:
            session.stop_for(target)

    def _send_and_answer(self, command: commands.Message, target: Target) -> None:
        """Send what waits for its answer; one that came before is answered and not sent again (classic.md 2.3)."""
        broker = self.broker
        response = Response(correlation_id=command.command_id)
        message = self._arrived(command, target)
        durable = message.durable and not is_temporary_target(target)
        if self.arrivals is not None:
            self._answer_sent(response, self.arrivals.arrive(command, message, target, durable), durable, target)
            return
        assert command.message_id is not None
        producer = self._producer_of(command.message_id)
        sequence = command.message_id.producer_sequence_id
        if self.identity.by_failover and broker.sequences.seen(producer, sequence):
            broker.sending.repeated(message, target, SENT_AGAIN)
            self.replies.confirmations.ask(Reply(self.replies, response))
            return
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
        self._answer_sent(response, verdict, durable, target)

    def _answer_sent(self, response: Response, verdict: int, durable: bool, target: Target) -> None:
        """Answer with ``response`` as what `BrokerCore.send` said allows."""
        replies = self.replies
        reply = Reply(replies, response) if durable or replies.confirmations.owes() else None
        if verdict == BLOCKED:
            self.session.be_patient().hold(HeldReply(replies, response, reply), target)
        elif reply is not None:
            replies.confirmations.ask(reply)
        else:
            replies.write(response)

    def _arrived(self, command: commands.Message, target: Target) -> Message:
        message = message_of(command, target.name)
        message.origin = self.number
        stamps = self.broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, None if self.identity.brings else self.session.subject.name)
        return message

    def _send_in(self, command: commands.Message, target: Target, transaction_id: TransactionId) -> None:
        """Send within a transaction; what a failover client says again is swallowed.

        That is what an earlier commit stored, of which the client had no answer; and what is in this transaction
        already: such a client may replay all that it has open twice on one connection.
        """
        transaction = self.transacting.known(transaction_id)
        message = self._arrived(command, target)
        assert command.message_id is not None
        producer = self._producer_of(command.message_id)
        sequence = int(command.message_id.producer_sequence_id)
        noted = transaction.sequences
        if self.identity.by_failover and (
            sequence <= noted.get(producer, -1) or self.broker.sequences.seen(producer, sequence)
        ):
            self.broker.sending.repeated(message, target, SENT_AGAIN)
        else:
            session = self.session
            try:
                if session.patience is not None:
                    session.patience.check(self.identity.unread)
                self.broker.effort.spent += KEEP_UNITS
                transaction.send(message, target)
                if self.broker.flow.is_blocked(target):
                    session.stop_for(target)  # its commit is not read either
            except Refused as refusal:
                transaction.fail(refusal)  # or its commit would do the rest without this
                raise
            noted[producer] = sequence
        self.open_window(command)
        self.replies.answer(command, False)

    def _producer_of(self, message_id: MessageId) -> str:
        """Return who sent it, as `Sequences` knows producers."""
        producer = "" if message_id.producer_id is None else text_of(message_id.producer_id)
        return producer + self.identity.signature

    def open_window(self, command: commands.Message) -> None:
        """Let the producer of a message that waits for no answer send as much again."""
        producer_id = command.producer_id
        info = None if producer_id is None else self.producers.get(producer_id)
        if info is not None and info.window_size > 0 and not command.response_required:
            self.replies.write(ProducerAck(producer_id=producer_id, size=_charged(command)))

    def _target(self, destination: Destination) -> Target:
        target = self.targets.get(destination)
        if target is not None:
            return target
        addresses = addresses_of(destination)
        identity = self.identity
        for one in addresses:
            if one.temporary:
                identity.acceptor.check_answered(one.name)
        self.broker.access.send(self.session.subject, addresses, shown(destination, addresses))
        target = self.broker.target(addresses)
        for one in addresses:
            if one.routing == MULTICAST and not one.temporary:
                identity.advisories.topic_used(one.name)
        self.broker.access.keep(target, self.session.subject, addresses, shown(destination, addresses))
        keep_target(self.targets, destination, target)
        return target


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
