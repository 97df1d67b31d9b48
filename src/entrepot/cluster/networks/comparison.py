"""What another broker sends to queues here, compared with what it sent before: a sure repetition is dropped.

Between brokers of ours the same *copy* is what is dropped (`core/copies.py`), unasked: a message that comes back is
another copy. Another broker's numbers promise nothing after a restart, so there ids are compared, where an operator
wants it as he may in Classic (``auditNetworkProducers``, ``checkDuplicateMessagesOnDuplex``); but never the id of a
message whose path says that it was here before: Classic takes that for a repetition too, and loses it.

Messages of topics are never compared. One that came for a reader here may come again for another one beyond, whose way
has changed meanwhile (`cluster/networks/demand.py`, HandOver); this broker cannot tell that from a repetition. [C]
"""

from __future__ import annotations

from _blake2 import blake2b  # as in `core/copies.py`
from typing import Final

from mypy_extensions import i64

from entrepot.cluster.networks.admission import ADVISORY, path_of
from entrepot.cluster.networks.options import Compared, NetworkConnectorOptions
from entrepot.core.broker import BrokerCore
from entrepot.core.copies import mark_of
from entrepot.core.repetitions import SAME_COPY, SAME_ID
from entrepot.core.routing import Target
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.ids import text_of

NOT_SAID: Final = -1
NOTHING: Final = 0
COPIES: Final = 1
IDS: Final = 2
OURS: Final = "entrepot"
NAME_MOST: Final = 200


def is_ours(program: str) -> bool:
    """Return whether a peer that calls itself ``program`` numbers its copies as we do."""
    return program == OURS or program.startswith(OURS + " ")


def audit_of(options: NetworkConnectorOptions) -> int:
    """Return what a connector says about what comes back over it, as `Comparison` takes it."""
    said = options.check_duplicates_on_duplex
    return NOT_SAID if said is Compared.OURS else int(said is Compared.ALL)


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

    def send(self, message: Message, command: commands.Message, target: Target, durable: bool) -> int:
        """Send ``message`` unless it is a repetition; return what `BrokerCore.send` says. Raises as that does."""
        broker = self.broker
        message_id = command.message_id
        if self.how == NOTHING or message_id is None or target.routing != ANYCAST or target.name.startswith(ADVISORY):
            return broker.send(message, target)
        if self.how == IDS:
            if broker.ids.node_id not in path_of(command.broker_path):
                identity = text_of(message_id).encode("utf-8", "surrogatepass")
                if broker.duplicates.seen(target.name, identity):
                    self.dropped += 1
                    return broker.repeated(message, target, SAME_ID)
                message.need_rare().duplicate_id = identity
            return broker.send(message, target)
        queue = f"{target.name}::{target.queue_name}" if target.queue_name else target.name
        mark = mark_of(queue, text_of(message_id), message_id.broker_sequence_id, command.broker_in_time)
        if broker.copies.seen(self.sender, mark):
            self.dropped += 1
            return broker.repeated(message, target, SAME_COPY)
        journal = broker.journal
        journal.begin()
        try:
            verdict = broker.send(message, target)
            broker.copies.note(self.sender, mark, durable)
        finally:
            journal.end()
        return verdict
