"""The canary of a bridge: a message that goes the way that messages go, and comes back as advisories do. [C]

It is sent to a topic that this bridge reads on the far side, together with the advisories, so it passes through the
other broker itself. Until the first one came back an answer to a FlushCommand has to do: who may not write to that
topic, or a broker that does not bring such a message back, has a link all the same.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import Instant
from entrepot.cluster.networks.admission import ADVISORY
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Part
from entrepot.cluster.networks.wanted import SESSION
from entrepot.cluster.networks.wires import Wire
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import (
    ActiveMQMessage,
    ActiveMQTopic,
    FlushCommand,
    MessageId,
    ProducerId,
)

CANARY: Final = "Canary"
CANARY_PRODUCER: Final = 2
CANARY_TOPIC: Final = ADVISORY + "Canary."


class _Trial(Part):
    def __init__(self, canary: Canary) -> None:
        self.canary = canary

    def answered(self, number: int, refusal: str | None, now: Instant) -> None:
        self.canary.answers = True


class Canary(Part):
    """Of one connection. ``topic``: over which it flies; ``returns``: one came back; ``answers``: the peer answers a
    FlushCommand; ``flying``: the number under which the link waits for one."""

    def __init__(self, end: BridgeEnd) -> None:
        self.end: Final = end
        self.topic = ""
        self.returns = False
        self.answers = not end.duplex
        self.flying = 0
        self._trial = _Trial(self)
        self._producer = ProducerId("", 1, SESSION)
        self._flown = 0

    def begin(self, producer: ProducerId) -> None:
        """A connection is introduced on which messages will be sent as ``producer``."""
        self._producer = producer
        self._flown = 0

    def read_over(self, topic: str) -> None:
        """The bridge reads ``topic`` on the far side."""
        self.topic = topic

    def open(self, wire: Wire) -> None:
        """The brokers know each other: see which kind of canary comes back."""
        if self.end.duplex:
            self.end.awaited[wire.ask(FlushCommand())] = self._trial
        if self.topic:
            self._release(wire)

    def clear(self) -> None:
        """The connection is gone."""
        self.flying = 0
        self.answers = not self.end.duplex
        self.returns = False
        self.topic = ""

    def probe(self) -> int:
        """Let a canary fly; return its number, 0 where the other end is known to answer nothing."""
        wire = self.end.wire
        if wire is None:
            return 0
        if self.returns:
            return self._release(wire)
        return wire.ask(FlushCommand()) if self.answers else 0

    def _release(self, wire: Wire) -> int:
        made = ActiveMQMessage()
        made.producer_id = self._producer
        made.destination = ActiveMQTopic(self.topic)
        made.jms_type = CANARY
        made.timestamp = self.end.broker.wall
        self._flown += 1
        # Of a producer of its own, from 1 on each connection: messages that came without an id are numbered by the
        # bridge's producer, and an audit of ActiveMQ takes all ids below -63 for one (BitArrayBin.getBin).
        origin = ProducerId(self._producer.connection_id, CANARY_PRODUCER, SESSION)
        made.message_id = MessageId(producer_id=origin, producer_sequence_id=self._flown)
        self.flying = wire.ask(made)
        self.end.awaited[self.flying] = self
        return self.flying

    def answered(self, number: int, refusal: str | None, now: Instant) -> None:
        """The other broker has the canary, or wants none."""
        if number == self.flying and refusal is not None:
            self.flying = 0
            self.returns = False
            self.topic = ""
            self.end.link.confirmed(number, now)

    def came_back(self, message: commands.Message) -> bool:
        """Return whether ``message`` is a canary; note that it came back."""
        where = message.destination
        if not self.topic or where is None or where.physical_name != self.topic:
            return False
        self.returns = True
        number, self.flying = self.flying, 0
        if number:
            self.end.awaited.pop(number, None)
            self.end.link.confirmed(number, int(self.end.broker.now))
        return True

    @property
    def kind(self) -> str:
        """What serves as a canary, for people."""
        return "message" if self.returns else ("answer" if self.answers else "none")


def canary_topic(connector: str, broker: str) -> str:
    """Return the topic of one bridge's canaries: no broker announces who reads or writes a topic with such a name."""
    word = "".join(one if one.isalnum() or one in "-_" else "_" for one in f"{connector}_{broker}")
    return CANARY_TOPIC + word
