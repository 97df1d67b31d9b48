"""Messages that operators send through management: `sendMessage` of a queue or an address (artemis.md 7.2).

It is sent by the rights of who asks, and under the limits of the address, as any message of his: only the user of the
connection may be named, and no password is looked at.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final

import msgspec

from entrepot.base.errors import AccessDenied, Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.said import ANSWER_LANGUAGE, Said
from entrepot.core.sending.flow import DROPPED, DUPLICATE
from entrepot.model.address import Destination
from entrepot.model.message import Message

TEXT: Final = 3  # Artemis' type of a message with a text; every other body is octets, in base64


def post(broker: BrokerCore, place: Destination, given: Arguments) -> str:
    """Send (headers, type, body, durable, user, password [, make a message id]); return the number of the message.

    Raises AccessDenied, AddressFull, StorageError, and Refused for what is no body or was not taken.
    """
    headers = given.mapping(0)
    kind, body, durable = given.number(1), given.text(2, ""), given.flag(3)
    _check_right(broker, place, given)
    target = broker.target([place])
    if target.service is not None:
        raise Refused(f"{place.name!r} is an address of the broker itself", remedy="ask it directly")
    properties: dict[str, bool | str] = {name: str(value) for name, value in headers.items() if value is not None}
    correlation = properties.pop("JMSCorrelationID", None)
    said = Said(body, properties, None if correlation is None else str(correlation), plain=True)
    if kind != TEXT and body:
        try:
            b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            raise Refused("the body is no base64", remedy=f"encode it, or send a text, type {TEXT}") from None
        said = Said("", properties, said.correlation_id, octets=body, plain=True)
    message = Message(ANSWER_LANGUAGE, target.name, msgspec.json.encode(said))
    message.timestamp = broker.wall
    message.durable = durable
    verdict = broker.send(message, target)
    if verdict in (DROPPED, DUPLICATE):
        raise Refused(f"{place.name!r} did not take the message", remedy="explain the destination: it is full")
    return str(int(message.number))


def _check_right(broker: BrokerCore, place: Destination, given: Arguments) -> None:
    subjects = given.askers() if broker.access.guarded else []
    user = given.text(4, "")
    for subject in subjects:
        if user and user != subject.name:
            raise AccessDenied(f"a message is sent as {subject.name!r}, not as {user!r}", remedy="connect as that user")
        broker.access.send(subject, [place])
    if broker.access.guarded and not subjects:
        raise AccessDenied(
            f"nobody is known who sends to {place.name!r}", remedy="keep the connection until the answer"
        )
