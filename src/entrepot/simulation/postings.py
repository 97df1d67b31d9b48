"""What producers of simulated brokers send as a client of CORE would: durable, with an identity, large or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.model.address import Destination
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.headers import NO_BODY, TYPE_BYTES, TYPE_TEXT, Headers, assembled
from entrepot.protocols.artemis.large import LargeArrival

IDENTITY: Final = "id"  # a property
PIECE: Final = 1024
LARGE_MAX: Final = 40 * PIECE


def post(
    broker: BrokerCore, destination: Destination, identity: str, octets: int, properties: Mapping[str, object] = {}
) -> None:
    """Send a message called ``identity``; ``octets`` of its body if that is large, 0 for a short text."""
    said = {IDENTITY: identity, **properties}
    headers = Headers()
    headers.address = destination.name
    headers.durable = True
    headers.user_id = identity.encode().rjust(16, b"\0")
    if not octets:
        headers.kind = TYPE_TEXT
        broker.send(message_of(assembled(text_body(identity), headers, said), ""), broker.target([destination]))
        return
    headers.kind = TYPE_BYTES
    large = LargeArrival(broker, assembled(b"", headers, said)[len(NO_BODY) :], "")
    for at in range(0, octets, PIECE):
        large.write(b"x" * min(PIECE, octets - at))
    broker.send(large.complete(-1), broker.target([destination]))
    large.finish()
