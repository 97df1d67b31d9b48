"""What another broker sends to queues here, compared with what it sent before: a sure repetition is dropped.

Between brokers of ours the same *copy* is what is dropped (`core/sending/copies.py`), unasked: a message that comes
back is another copy. Another broker's numbers promise nothing after a restart, so there ids are compared, where an
operator wants it as he may in Classic (``auditNetworkProducers``, ``checkDuplicateMessagesOnDuplex``); but never the id
of a message whose path says that it was here before: Classic takes that for a repetition too, and loses it.

Messages of topics are never compared. One that came for a reader here may come again for another one beyond, whose way
has changed meanwhile (`cluster/networks/demand.py`, HandOver); this broker cannot tell that from a repetition. [C]
"""

from __future__ import annotations

from _blake2 import blake2b  # as in `core/sending/copies.py`
from typing import Final

from mypy_extensions import i64

from entrepot.base.reasons import SAME_COPY, SAME_ID
from entrepot.cluster.networks.admission import ADVISORY
from entrepot.cluster.networks.options import Compared, NetworkConnectorOptions
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.copies import Stream, former_mark_of, hash_of, mark_of, mixed
from entrepot.core.sending.duplicates import Passed
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import ProducerId
from entrepot.protocols.openwire.ids import path_of, text_of

NOT_SAID: Final = -1
NOTHING: Final = 0
COPIES: Final = 1
IDS: Final = 2
OURS: Final = "entrepot"
NAME_MOST: Final = 200
ORIGINS_KEPT: Final = 10_000


def is_ours(program: str) -> bool:
    """Return whether a peer that calls itself ``program`` numbers its copies as we do."""
    return program == OURS or program.startswith(OURS + " ")


def audit_of(options: NetworkConnectorOptions) -> int:
    """Return what a connector says about what comes back over it, as `Comparison` takes it."""
    said = options.check_duplicates_on_duplex
    return NOT_SAID if said is Compared.OURS else int(said is Compared.ALL)


class Origin:
    """One producer whose messages a connection brings. ``hash``: 64 bits of its id (`core/sending/copies.py`)."""

    def __init__(self, producer_id: ProducerId, text: str, passed: Passed) -> None:
        self.connection_id: str | None = producer_id.connection_id
        self.session_id: i64 = producer_id.session_id
        self.value: i64 = producer_id.value
        self.hash: i64 = hash_of(text)
        self.passed: Passed = passed

    def is_of(self, producer_id: ProducerId) -> bool:
        """Return whether this is what is known of ``producer_id``."""
        return (
            self.value == producer_id.value
            and self.session_id == producer_id.session_id
            and self.connection_id == producer_id.connection_id
        )


class Comparison:
    """What one connection to one broker compares."""

    def __init__(self, broker: BrokerCore, user: str, peer: str, program: str, audit: int) -> None:
        """``user``: as whom ``peer`` (its id) came in; what one user sends says nothing about what another one does.

        ``audit``: 1 what an operator wants compared, 0 what he wants not to be, -1 if he said nothing.
        """
        self.broker: BrokerCore = broker
        sender = f"{user}\t{peer}"
        if len(sender) > NAME_MOST:  # a peer chooses what it is called, and every record has it
            sender = blake2b(sender.encode("utf-8", "surrogatepass")).hexdigest()
        self.sender: str = sender
        self.how: int = NOTHING
        if audit != 0 and is_ours(program):
            self.how = COPIES
        elif audit == 1:
            self.how = IDS
        self.dropped: i64 = 0
        # What the last message was, since the next one is mostly of the same kind.
        self._origin: Origin | None = None
        self._origins: dict[ProducerId, Origin] = {}
        self._target: Target | None = None
        self._way: int = NOTHING  # how what is sent to this target is compared
        self._stream: Stream | None = None

    def send(self, message: Message, command: commands.Message, target: Target, durable: bool) -> int:
        """Send ``message`` unless it is a repetition; return what `BrokerCore.send` says. Raises as that does."""
        broker = self.broker
        message_id = command.message_id
        if message_id is None:
            return broker.send(message, target)
        identity: i64 = 0
        producer_id = message_id.producer_id
        if producer_id is None:
            identity = hash_of(text_of(message_id))
        else:
            sequence: i64 = message_id.producer_sequence_id
            origin = self._origin
            if origin is None or not origin.is_of(producer_id):
                origin = self._origin_of(producer_id)
            origin.passed.highest = max(origin.passed.highest, sequence)
            identity = mixed(origin.hash, sequence)
        stream = self._stream
        if target is not self._target or (stream is not None and stream.stale):
            stream = self._aim(target)
        if stream is None:
            if self._way == IDS:
                return self._send_by_id(message, command, target)
            return broker.send(message, target)
        number: i64 = message_id.broker_sequence_id
        mark = mark_of(stream.queue, identity, number, command.broker_in_time)
        copies = broker.copies
        if copies.seen(stream, number, mark) or (stream.sender.former and self._came_formerly(stream, command, target)):
            self.dropped += 1
            return broker.sending.repeated(message, target, SAME_COPY)
        if not durable:
            verdict = broker.send(message, target)
            copies.note(stream, number, mark, False)
            return verdict
        journal = broker.journal
        journal.begin()
        try:
            verdict = broker.send(message, target)
            copies.note(stream, number, mark, True)
        finally:
            journal.end()
        return verdict

    def _send_by_id(self, message: Message, command: commands.Message, target: Target) -> int:
        broker = self.broker
        message_id = command.message_id
        if message_id is not None and broker.ids.node_id not in path_of(command.broker_path):
            identity = text_of(message_id).encode("utf-8", "surrogatepass")
            if broker.sending.duplicates.seen(target.name, identity):
                self.dropped += 1
                return broker.sending.repeated(message, target, SAME_ID)
            message.need_rare().duplicate_id = identity
        return broker.send(message, target)

    def _aim(self, target: Target) -> Stream | None:
        """Note how what is sent to ``target`` is compared; return what came there before, None if that is not asked."""
        compared = target.routing == ANYCAST and not target.name.startswith(ADVISORY)
        self._target = target
        self._way = self.how if compared else NOTHING
        self._stream = self.broker.copies.stream(self.sender, _queue_of(target)) if self._way == COPIES else None
        return self._stream

    def _origin_of(self, producer_id: ProducerId) -> Origin:
        origin = self._origins.get(producer_id)
        if origin is None:
            if len(self._origins) >= ORIGINS_KEPT:
                self._origins.clear()
            text = text_of(producer_id)
            origin = Origin(producer_id, text, self.broker.sequences.passing(text))
            self._origins[producer_id] = origin
        self._origin = origin
        return origin

    def _came_formerly(self, stream: Stream, command: commands.Message, target: Target) -> bool:
        """Return whether this copy is known from a journal of the layout before."""
        message_id = command.message_id
        assert message_id is not None
        number = message_id.broker_sequence_id
        mark = former_mark_of(_queue_of(target), text_of(message_id), number, command.broker_in_time)
        return mark in stream.sender.former


def _queue_of(target: Target) -> str:
    return f"{target.name}::{target.queue_name}" if target.queue_name else target.name
