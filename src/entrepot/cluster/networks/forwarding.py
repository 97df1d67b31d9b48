"""How a bridge writes a message to the other broker: the path longer by us, the producer ours (classic.md 1.11). [C]"""

from __future__ import annotations

import zlib
from typing import Final

from entrepot.base.environment import KIB
from entrepot.base.errors import EntrepotError
from entrepot.cluster.flow import FlowControl
from entrepot.cluster.networks.admission import ADVISORY
from entrepot.cluster.networks.feed import FRAME_OCTETS_MAX, BridgeFeed
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.cluster.networks.wanted import SESSION
from entrepot.cluster.networks.wires import Wire
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import BrokerId, Destination, ProducerId
from entrepot.protocols.openwire.convert import OPENWIRE_LANGUAGE, named, presented
from entrepot.protocols.openwire.ids import id_apart, path_through
from entrepot.protocols.openwire.large import body_of, is_large
from entrepot.protocols.openwire.relaying import Crossing

COMPRESS_FROM: Final = 64  # octets; below, zlib makes bodies longer
COMPRESS_UPTO: Final = 256 * KIB  # some 7 ms of zlib, for which everybody waits; larger ones cross as they are
COMPRESS_UNITS: Final = 16  # of `core/effort.py` for each 4 KiB


class WrittenFeed(BridgeFeed):
    """A feed whose messages are written in OpenWire. ``written``: the destination of the last one."""

    written: Destination | None = None


class Forwarding:
    """Of one bridge. ``producer``: as whom it sends on this connection."""

    def __init__(self, broker: BrokerCore, options: NetworkConnectorOptions, flow: FlowControl) -> None:
        """``flow``: of the link, which sends nothing while a large body is on its way out."""
        self.broker: Final = broker
        self.flow: Final = flow
        self.producer = ProducerId("", 1, SESSION)
        self._here = BrokerId(broker.ids.node_id)
        self._sync: bool = options.always_sync_send
        self._compressing: bool = options.compress
        self._apart: bool = False
        self._crossing = Crossing(self.producer, broker.ids.node_id, broker.ids.node.message_prefix)

    def begin(self, connection: str, *, ours: bool) -> None:
        """A new connection is introduced as ``connection``, to a broker of ours or another (`id_apart`)."""
        self._apart = not ours
        self.producer = ProducerId(connection, 1, SESSION)
        self._crossing = Crossing(self.producer, self.broker.ids.node_id, self.broker.ids.node.message_prefix)

    def forward(self, wire: Wire, feed: WrittenFeed, message: Message, deliveries: int, doubtful: bool) -> int:
        """Write ``message``; return the number of its answer, 0 for none. Raises as `LinkPort.forward`."""
        # A queue's messages may have been sent to another name, a virtual topic for one: they go where they were found.
        name = message.address if feed.topic or feed.source is None else feed.source.name
        where = feed.written
        if where is None or where.physical_name != name:
            where = named(name, feed.topic, feed.temporary)
            feed.written = where
        counter = max(int(message.redelivered), deliveries) + int(doubtful)
        advisory = feed.topic and message.address.startswith(ADVISORY)
        answered = (message.durable or self._sync) and not advisory
        if not self._compressing and not self._is_apart(message):
            number = wire.cross(self._crossing, message, where, answered, counter, self.broker.wall)
            if number >= 0:
                return number
        if is_large(self.broker, message, FRAME_OCTETS_MAX):
            return self._stream(wire, message, self._anew(message, feed, where, counter, b""), answered=answered)
        made = self._anew(message, feed, where, counter, None)
        if self._compressing:
            self._compress(made)
        if not answered:
            wire.post(made)
            return 0
        return wire.ask(made)

    def _stream(self, wire: Wire, message: Message, made: commands.Message, *, answered: bool) -> int:
        """Write ``made`` with the body of ``message``, which is on disk, at the pace of the socket; not compressed."""
        body = body_of(self.broker, message, made, self._streamed)
        if body is None:
            return wire.ask(made)
        self.flow.streaming(True)
        try:
            return wire.stream(made, body, answered=answered)
        except EntrepotError:
            self.flow.streaming(False)
            raise

    def _streamed(self) -> None:
        """The last part of a large body was written."""
        self.flow.streaming(False)

    def _compress(self, made: commands.Message) -> None:
        """Deflate the body (classic.md 5.6), unless it is, or is too short to gain by it, or would take too long."""
        content = made.content
        if content is None or made.compressed or not COMPRESS_FROM <= len(content) <= COMPRESS_UPTO:
            return
        self.broker.effort.spent += (len(content) >> OCTETS_SHIFT) * COMPRESS_UNITS
        packed = zlib.compress(content)
        if isinstance(made, commands.ActiveMQBytesMessage):
            packed = len(content).to_bytes(4, "big") + packed
        made.content = packed
        made.compressed = True

    def _is_apart(self, message: Message) -> bool:
        """Return whether ``message`` has another id there, which the quick way of writing does not know."""
        return self._apart and message.language is not OPENWIRE_LANGUAGE

    def _anew(
        self, message: Message, feed: WrittenFeed, where: Destination, counter: int, body: bytes | None
    ) -> commands.Message:
        """Return ``message`` as a command with all that crossing changes. ``body``: as in `presented`."""
        broker = self.broker
        identity = broker.ids.identity_of(message)
        made = presented(message, where, identity, broker.ids.node_id, body)
        if self._is_apart(message):
            queue = 0 if feed.topic or feed.source is None else int(feed.source.identity)
            made.message_id = id_apart(identity, broker.ids.node_id, int(message.number), queue)
            made.message_id.broker_sequence_id = message.number
        made.broker_path = path_through(self._here, made.broker_path)
        made.producer_id = self.producer
        if made.original_transaction_id is None:
            made.original_transaction_id = made.transaction_id
        made.transaction_id = None
        made.target_consumer_id = None
        made.redelivery_counter = counter
        made.broker_out_time = broker.wall
        return made
