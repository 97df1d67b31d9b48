"""What one program says on one wire, read beside the broker: nothing is settled twice on it, outside of transactions.

A broker passes over an acknowledgement of what it does not know, so a client that repeats itself is not seen by what
brokers do; it would be by others' brokers.
"""

from __future__ import annotations

from typing import Final

from entrepot.protocols.openwire.codec import Decoder
from entrepot.protocols.openwire.commands import MessageAck
from entrepot.protocols.openwire.ids import AckType, text_of
from entrepot.protocols.openwire.negotiation import WireFormat, offer_of
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.simulation.cables import End, Machine

SETTLING: Final = (AckType.STANDARD, AckType.INDIVIDUAL, AckType.POISON, AckType.EXPIRED)


class OverheardEnd(End):
    """The program's end of a cable. What is written there is decoded as the broker does that."""

    def __init__(self, site: Machine, delay: int, broker: OpenWireOptions) -> None:
        super().__init__(site, delay)
        self._decoder: Final = Decoder(WireFormat.before_agreement(offer_of(broker.wire)))
        self._settled: dict[tuple[int, str], None] = {}

    def _send(self, other: End, data: bytes) -> None:
        for command in self._decoder.feed(data) if data else []:
            if isinstance(command, MessageAck):
                self._hear(command)
        super()._send(other, data)

    def _hear(self, ack: MessageAck) -> None:
        if ack.transaction_id is not None or ack.ack_type not in SETTLING or ack.consumer_id is None:
            return
        consumer = int(ack.consumer_id.value)
        ends = [one for one in (ack.first_message_id, ack.last_message_id) if one is not None]
        for text in dict.fromkeys(text_of(one) for one in ends):
            if (consumer, text) in self._settled:
                self.site.world.violation(f"{self.site.name} settles {text} twice on one wire")
            self._settled[(consumer, text)] = None
