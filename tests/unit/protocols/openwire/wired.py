"""A client that speaks OpenWire to a server session directly: frames in, frames out, no socket."""

from __future__ import annotations

from typing import TypeVar

from entrepot.base.environment import MILLISECOND
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.bodies import text_message, text_of_body
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTextMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    Destination,
    Message,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    Response,
    TransactionId,
)
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import AckType
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.server import OpenWireSession
from entrepot.protocols.session import Shell
from kit import Rig

Kind = TypeVar("Kind", bound=Structure)


class Hub:
    """One broker and the connections to it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.acceptor = Acceptor(rig.broker)
        self.made = 0

    def client(
        self,
        name: str = "",
        *,
        wire: WireFormatOptions | None = None,
        options: OpenWireOptions | None = None,
        connected: bool = True,
        client_id: str = "",
        failover: bool = False,
    ) -> Client:
        self.made += 1
        session = OpenWireSession(Shell(), self.acceptor, options or OpenWireOptions(), self.made, f"peer-{self.made}")
        client = Client(self.rig, session, name or f"ID:client-{self.made}", wire or WireFormatOptions())
        client.exchange()
        if connected:
            info = ConnectionInfo(
                connection_id=ConnectionId(client.name),
                client_id=client_id or None,
                manageable=True,
                failover_reconnect=failover,
            )
            assert isinstance(client.ask(info), Response)
            client.take()
        return client


class Client:
    """Posts commands and keeps what came back in ``heard``, oldest first."""

    def __init__(self, rig: Rig, session: OpenWireSession, name: str, wire: WireFormatOptions) -> None:
        self.rig = rig
        self.session = session
        self.name = name
        offer = offer_of(wire)
        unagreed = WireFormat.before_agreement(offer)
        self.decoder = Decoder(unagreed)
        self.encoder = Encoder(unagreed)
        self.heard: list[Structure] = []
        self.numbers = 0
        self.sent: dict[int, int] = {}
        self.post_octets(self.encoder.encode(offer))

    def post_octets(self, octets: bytes) -> None:
        self.session.receive(octets, self.rig.now)
        self.hear()

    def hear(self) -> None:
        """Read what the server has written, without a turn of the broker."""
        octets = self.session.outgoing()
        if octets:
            for command in self.decoder.feed(octets):
                if not self.decoder.wire_format.offer and self.encoder.wire_format.offer:
                    self.encoder.switch(self.decoder.wire_format)
                self.heard.append(command)
            self.decoder.check()

    def exchange(self) -> None:
        """Let the broker have a turn: its journal syncs, its alarms ring."""
        self.rig.wait(0)
        self.hear()

    def wait(self, ms: int) -> None:
        """Let time pass, in steps that no deadline is shorter than."""
        end = self.rig.now + ms * MILLISECOND
        while self.rig.now < end:
            due = min(max(self.session.deadline(), self.rig.now + MILLISECOND), end)
            self.rig.wait(max(1, (due - self.rig.now) // MILLISECOND))
            if self.session.deadline() <= self.rig.now:
                self.session.advance(self.rig.now)
            self.hear()
            if self.session.closing:
                return

    def post(self, command: Command, *, answer: bool = False) -> int:
        self.numbers += 1
        command.command_id = self.numbers
        command.response_required = answer
        self.post_octets(self.encoder.encode(command))
        return self.numbers

    def ask(self, command: Command) -> Response:
        number = self.post(command, answer=True)
        self.exchange()
        return self.answer_to(number)

    def answer_to(self, number: int) -> Response:
        for heard in self.heard:
            if isinstance(heard, Response) and heard.correlation_id == number:
                self.heard.remove(heard)
                return heard
        raise AssertionError(f"no answer to {number}, only {self.heard}")

    def take(self) -> list[Structure]:
        heard, self.heard = self.heard, []
        return heard

    def heard_of(self, kind: type[Kind]) -> list[Kind]:
        """Take all that is of ``kind``."""
        found = [command for command in self.heard if isinstance(command, kind)]
        self.heard = [command for command in self.heard if not isinstance(command, kind)]
        return found

    # -- what clients do -----------------------------------------------------------------------------------------------

    def producer(self, value: int = 1, window: int = 0, where: Destination | None = None) -> ProducerId:
        producer_id = ProducerId(self.name, value, 1)
        assert type(self.ask(ProducerInfo(producer_id=producer_id, destination=where, window_size=window))) is Response
        return producer_id

    def text(
        self,
        where: Destination,
        text: str,
        *,
        persistent: bool = False,
        transaction: TransactionId | None = None,
        sequence: int = 0,
        value: int = 1,
    ) -> Message:
        message = text_message(text)
        producer_id = ProducerId(self.name, value, 1)
        if sequence == 0:
            sequence = self.sent.get(value, 0) + 1
        self.sent[value] = sequence
        message.producer_id = producer_id
        message.message_id = MessageId(producer_id=producer_id, producer_sequence_id=sequence)
        message.destination = where
        message.persistent = persistent
        message.priority = 4
        message.timestamp = self.rig.wall
        message.transaction_id = transaction
        return message

    def send(self, name: str, *texts: str, persistent: bool = False) -> None:
        for text in texts:
            assert type(self.ask(self.text(ActiveMQQueue(name), text, persistent=persistent))) is Response

    def consume(self, where: Destination, value: int = 1, prefetch: int = 1000, **fields: object) -> ConsumerId:
        consumer_id = ConsumerId(self.name, 1, value)
        info = self.consumer_info(where, consumer_id, prefetch)
        for name, field in fields.items():
            setattr(info, name, field)
        answer = self.ask(info)
        assert type(answer) is Response, answer
        return consumer_id

    def consumer_info(self, where: Destination, consumer_id: ConsumerId, prefetch: int) -> ConsumerInfo:
        return ConsumerInfo(consumer_id=consumer_id, destination=where, prefetch_size=prefetch)

    def dispatches(self) -> list[MessageDispatch]:
        self.exchange()
        return self.heard_of(MessageDispatch)

    def texts(self) -> list[str]:
        return [text_in(dispatch) for dispatch in self.dispatches()]

    def ack(
        self,
        first: MessageDispatch | None,
        last: MessageDispatch,
        kind: AckType = AckType.STANDARD,
        count: int = 1,
        cause: Throwable | None = None,
        transaction: TransactionId | None = None,
    ) -> None:
        assert last.message is not None
        self.post(
            MessageAck(
                destination=last.destination,
                consumer_id=last.consumer_id,
                ack_type=int(kind),
                first_message_id=None if first is None or first.message is None else first.message.message_id,
                last_message_id=last.message.message_id,
                message_count=count,
                poison_cause=cause,
                transaction_id=transaction,
            )
        )
        self.exchange()


def text_in(dispatch: MessageDispatch) -> str:
    message = dispatch.message
    if message is None:
        return "(nothing)"
    assert isinstance(message, ActiveMQTextMessage)
    return text_of_body(message) or ""
