"""The consumer of one bridge that hears of the other broker's consumers: advisories (classic.md 1.6). [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Instant
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Part
from entrepot.cluster.networks.wanted import SESSION
from entrepot.cluster.networks.wires import Wire
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import (
    ActiveMQTopic,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
)
from entrepot.protocols.openwire.ids import AckType


class Hearing(Part):
    """Of one connection."""

    def __init__(self, end: BridgeEnd) -> None:
        self.end: Final = end
        self._consumer = ConsumerId("", SESSION, 1)
        self._unacknowledged = 0

    def begin(self, wire: Wire, connection: str, topics: str) -> None:
        """Read ``topics``. A duplex end of ActiveMQ answers that by nothing."""
        self._consumer = ConsumerId(connection, SESSION, 1)
        self._unacknowledged = 0
        number = wire.ask(
            ConsumerInfo(
                consumer_id=self._consumer,
                destination=ActiveMQTopic(topics),
                prefetch_size=self.end.options.advisory_window,
                dispatch_async=True,
            )
        )
        self.end.awaited[number] = self

    def answered(self, number: int, refusal: str | None, now: Instant) -> None:
        """The other broker lets us read, or not: open, the bridge would carry nothing, and nobody would know why."""
        if refusal is not None:
            said = f"the other broker lets us hear of no consumers: {refusal}"
            link = self.end.link
            self.end.perform(link.failed(link.attempt, said, now))

    def heard(self, message: commands.Message) -> None:
        """Acknowledge what came, in the steps that ``advisoryAckPercentage`` sets."""
        self._unacknowledged += 1
        options = self.end.options
        wire = self.end.wire
        if self._unacknowledged * 100 >= options.advisory_window * options.advisory_ack_percentage and wire is not None:
            wire.post(
                MessageAck(
                    destination=message.destination,
                    consumer_id=self._consumer,
                    ack_type=int(AckType.STANDARD),
                    last_message_id=message.message_id,
                    message_count=self._unacknowledged,
                )
            )
            self._unacknowledged = 0
