"""A broker that does what a test says: it answers everything, or keeps silent about some, and writes down all."""

from __future__ import annotations

from entrepot.base.environment import Instant
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    BrokerId,
    BrokerInfo,
    Command,
    ConsumerId,
    ExceptionResponse,
    KeepAliveInfo,
    Message,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    Response,
    TransactionInfo,
    WireFormatInfo,
)
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import AckType, TransactionStep
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.session import Session, Shell


class ScriptedBroker(Session):
    """``mute``: names of commands that are not answered; ``refusals``: names of those refused, with the exception."""

    def __init__(self, name: str = "b1", options: WireFormatOptions | None = None, *, identity: str = "") -> None:
        super().__init__(Shell())
        offer = offer_of(options or WireFormatOptions())
        self.name = name
        self.identity = BrokerId(value=identity) if identity else None
        self.decoder = Decoder(WireFormat.before_agreement(offer))
        self.encoder = Encoder(WireFormat.before_agreement(offer))
        self.heard: list[Command] = []
        self.mute: dict[str, None] = {}
        self.refusals: dict[str, Throwable] = {}
        self.ended = ""
        self.encoder.encode_into(self.writer, offer)

    def receive(self, data: bytes, now: Instant) -> None:
        if not data:
            self.closing = True
            return
        for command in self.decoder.feed(data):
            if isinstance(command, WireFormatInfo):
                self.encoder.switch(self.decoder.wire_format)
                self.say(BrokerInfo(broker_name=self.name, broker_id=self.identity))
                continue
            assert isinstance(command, Command)
            if not isinstance(command, KeepAliveInfo):
                self.heard.append(command)
            if command.response_required and kind(command) not in self.mute:
                refusal = self.refusals.get(kind(command))
                number = command.command_id
                self.say(
                    Response(correlation_id=number)
                    if refusal is None
                    else ExceptionResponse(correlation_id=number, exception=refusal)
                )

    def say(self, command: Command) -> None:
        self.encoder.encode_into(self.writer, command)

    def dispatch(self, consumer: ConsumerId | None, number: int, *, redelivered: int = 0, expiration: int = 0) -> None:
        message_id = MessageId(
            producer_id=ProducerId("p", 1, 1), producer_sequence_id=number, broker_sequence_id=number
        )
        message = Message() if number < 0 else text(str(number), message_id)
        message.expiration = expiration
        self.say(
            MessageDispatch(
                consumer_id=consumer, destination=message.destination, message=message, redelivery_counter=redelivered
            )
        )

    def detach(self, why: str, now: Instant) -> None:
        self.ended = why

    def story(self) -> list[str]:
        """What was heard since the last call, in short."""
        heard, self.heard = self.heard, []
        return [brief(command) for command in heard]


def text(body: str, message_id: MessageId) -> Message:
    from entrepot.protocols.openwire.bodies import text_message
    from entrepot.protocols.openwire.ids import parse_destination

    message = text_message(body)
    message.message_id = message_id
    message.producer_id = message_id.producer_id
    message.destination = parse_destination("Q")
    return message


def kind(command: Command) -> str:
    if isinstance(command, TransactionInfo):
        return TransactionStep(command.type).name
    return type(command).__name__


def brief(command: Command) -> str:
    name = kind(command).replace("ActiveMQ", "").replace("Info", "")
    if isinstance(command, Message) and command.message_id is not None:
        name = f"send {command.message_id.producer_sequence_id}"
        if command.transaction_id is not None:
            name += " in tx"
    elif isinstance(command, MessageAck):
        first = command.first_message_id.producer_sequence_id if command.first_message_id is not None else ""
        last = command.last_message_id.producer_sequence_id if command.last_message_id is not None else ""
        name = f"{AckType(command.ack_type).name} {first}-{last} x{command.message_count}"
        if command.transaction_id is not None:
            name += " in tx"
    return name + ("?" if command.response_required else "")
