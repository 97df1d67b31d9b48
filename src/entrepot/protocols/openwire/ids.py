"""Names and numbers of OpenWire: text forms of identities, destinations by kind, and what the small codes mean.

Identities are compared by value, never by their text: the text is for people, logs and ``JMSMessageID``. [C]
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from entrepot.base.errors import Fault, InvalidDestination
from entrepot.model.ids import FOREIGN_PRODUCER, FOREIGN_SESSION, message_id_prefix
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    BrokerId,
    ConnectionId,
    ConsumerId,
    Destination,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from entrepot.protocols.openwire.frames import Structure


class AckType(IntEnum):
    """``MessageAck.ack_type``: what became of the messages."""

    DELIVERED = 0
    """Arrived, not processed yet: lets the broker send more, settles nothing."""
    POISON = 1
    STANDARD = 2
    """Everything from the first to the last id is processed."""
    REDELIVERED = 3
    INDIVIDUAL = 4
    """The last id alone is processed."""
    UNMATCHED = 5
    EXPIRED = 6


class TransactionStep(IntEnum):
    """``TransactionInfo.type``."""

    BEGIN = 0
    PREPARE = 1
    COMMIT_ONE_PHASE = 2
    COMMIT_TWO_PHASE = 3
    ROLLBACK = 4
    RECOVER = 5
    FORGET = 6
    END = 7


class DestinationOperation(IntEnum):
    """``DestinationInfo.operation_type``."""

    ADD = 0
    REMOVE = 1


class LastDelivered(IntEnum):
    """What ``RemoveInfo.last_delivered_sequence_id`` means when it is no sequence."""

    UNSET = -1
    """Nothing in flight was seen."""
    UNKNOWN = -2
    """Everything in flight may have been seen."""


class DestinationKind(IntEnum):
    """The four kinds of destination, by type id."""

    QUEUE = 100
    TOPIC = 101
    TEMPORARY_QUEUE = 102
    TEMPORARY_TOPIC = 103


QUALIFIERS: Final[dict[str, DestinationKind]] = {
    "queue://": DestinationKind.QUEUE,
    "topic://": DestinationKind.TOPIC,
    "temp-queue://": DestinationKind.TEMPORARY_QUEUE,
    "temp-topic://": DestinationKind.TEMPORARY_TOPIC,
}
_QUALIFIER_OF: Final[dict[int, str]] = {kind.value: qualifier for qualifier, kind in QUALIFIERS.items()}
COMPOSITE_SEPARATOR: Final = ","


# -- destinations --------------------------------------------------------------------------------------------------


def destination(kind: DestinationKind, name: str) -> Destination:
    """Return the destination of ``kind`` called ``name``."""
    made: Destination
    if kind is DestinationKind.QUEUE:
        made = ActiveMQQueue(name)
    elif kind is DestinationKind.TOPIC:
        made = ActiveMQTopic(name)
    elif kind is DestinationKind.TEMPORARY_QUEUE:
        made = ActiveMQTempQueue(name)
    else:
        made = ActiveMQTempTopic(name)
    return made


def kind_of(where: Destination) -> DestinationKind:
    """Return the kind of a destination."""
    return DestinationKind(where.type_id)


def is_queue(where: Destination) -> bool:
    """Tell whether each message goes to one consumer."""
    return kind_of(where) in (DestinationKind.QUEUE, DestinationKind.TEMPORARY_QUEUE)


def is_temporary(where: Destination) -> bool:
    """Tell whether the destination ends with the connection that made it."""
    return kind_of(where) in (DestinationKind.TEMPORARY_QUEUE, DestinationKind.TEMPORARY_TOPIC)


def qualified_name(where: Destination) -> str:
    """Return kind and name as text, ``queue://ORDERS``."""
    return _QUALIFIER_OF[where.type_id] + (where.physical_name or "")


def parse_destination(text: str, default: DestinationKind = DestinationKind.QUEUE) -> Destination:
    """Return the destination that ``text`` names; without a qualifier it is of the ``default`` kind.

    Raises InvalidDestination for an empty name.
    """
    for qualifier, kind in QUALIFIERS.items():
        if text.startswith(qualifier):
            text, default = text.removeprefix(qualifier), kind
            break
    if not text.strip():
        raise InvalidDestination("a destination has no name")
    return destination(default, text)


def components(where: Destination) -> list[Destination]:
    """Return the destinations that a composite name stands for, or the destination itself alone.

    ``A,topic://B`` on a queue is the queue A and the topic B. Raises InvalidDestination when a part is empty.
    """
    name = where.physical_name or ""
    if COMPOSITE_SEPARATOR not in name:
        return [where]
    return [parse_destination(part.strip(), kind_of(where)) for part in name.split(COMPOSITE_SEPARATOR)]


def temporary_owner(where: Destination) -> str:
    """Return the id of the connection that made a temporary destination: what stands before the last colon."""
    return (where.physical_name or "").rpartition(":")[0]


# -- text forms ----------------------------------------------------------------------------------------------------


def text_of(identity: Structure) -> str:
    """Return the text form of an identity. Raises Fault for anything else."""
    if isinstance(identity, MessageId):
        return _message_text(identity)
    if isinstance(identity, ProducerId):
        return f"{identity.connection_id or ''}:{identity.session_id}:{identity.value}"
    if isinstance(identity, ConsumerId):
        return f"{identity.connection_id or ''}:{identity.session_id}:{identity.value}"
    if isinstance(identity, SessionId):
        return f"{identity.connection_id or ''}:{identity.value}"
    if isinstance(identity, (ConnectionId, BrokerId)):
        return identity.value or ""
    if isinstance(identity, LocalTransactionId):
        connection_id = identity.connection_id
        return f"TX:{text_of(connection_id) if connection_id is not None else ''}:{identity.value}"
    if isinstance(identity, XATransactionId):
        branch = f"globalId={_hex(identity.global_transaction_id)},branchId={_hex(identity.branch_qualifier)}"
        return f"XID:[{identity.format_id},{branch}]"
    raise Fault(f"a {type(identity).__name__} is no identity")


def _message_text(identity: MessageId) -> str:
    if identity.text_view:
        return identity.text_view if identity.text_view.startswith("ID:") else f"ID:{identity.text_view}"
    producer = identity.producer_id
    if producer is None:
        return f":{identity.producer_sequence_id}"
    if producer.session_id < FOREIGN_SESSION and identity.producer_sequence_id == FOREIGN_PRODUCER:
        return _known(producer)
    return f"{text_of(producer)}:{identity.producer_sequence_id}"


def _hex(octets: bytes | None) -> str:
    """Return octets as Java shows them: each as a signed 32-bit number in hexadecimal, without leading zeros.

    The text is not reversible (01 and 11 give the same as 11 and 01 do elsewhere); ActiveMQ's management names
    transactions so, and operators compare them.
    """
    return "".join(f"{octet if octet < 128 else 0xFFFFFF00 | octet:x}" for octet in octets or b"")


def foreign_producer(node_id: str) -> ProducerId:
    """Return the producer that stands for all who send to ``node_id`` over other protocols (`model/ids.py`)."""
    return ProducerId(connection_id=f"ID:{node_id}", session_id=FOREIGN_SESSION, value=FOREIGN_PRODUCER)


def id_apart(identity: str, node_id: str, number: int, queue: int) -> MessageId:
    """Return ``identity``, of a message of another protocol, for a broker that is none of ours.

    An ActiveMQ that audits drops what has a lower number than the last of its producer (classic.md 1.11). All senders
    of other protocols are one producer, and over a bridge the messages of one queue overtake those of another: so each
    message has a producer of its own there. ``queue``, its identity or 0 for a topic, tells copies apart, which are one
    message here; ``number``, which the message has here, those that got it later than their id, as what died and was
    sent again. Java has no session below -1: of such an id `text_of` makes ``identity`` again.
    """
    parsed = parse_message_id(identity)
    producer = parsed.producer_id
    if producer is None:
        alone = ProducerId(connection_id=f"ID:{node_id}", session_id=FOREIGN_SESSION - 1 - queue, value=number)
        return MessageId(text_view=identity, producer_id=alone, producer_sequence_id=FOREIGN_PRODUCER)
    origin = producer.connection_id or ""
    known = parsed.producer_sequence_id
    if producer != foreign_producer(origin.removeprefix("ID:")) or ":" in origin.removeprefix("ID:"):
        return parsed
    if origin != f"ID:{node_id}" or known != number:
        origin = f"{origin}:{number}"
    alone = ProducerId(connection_id=origin, session_id=FOREIGN_SESSION - 1 - queue, value=known)
    return MessageId(producer_id=alone, producer_sequence_id=FOREIGN_PRODUCER)


def _known(producer: ProducerId) -> str:
    """Return the id that `id_apart` was given, of the producer that it made."""
    node_id, _, _ = (producer.connection_id or "").removeprefix("ID:").partition(":")
    return f"{message_id_prefix(node_id)}{producer.value}"


def parse_message_id(text: str) -> MessageId:
    """Return the id whose text form is ``text``; any text that is not one becomes its ``text_view``."""
    producer, separator, sequence = text.rpartition(":")
    producer_id = parse_producer_id(producer)
    if not separator or producer_id is None or not _is_number(sequence):
        return MessageId(text_view=text)
    return MessageId(producer_id=producer_id, producer_sequence_id=int(sequence))


def parse_producer_id(text: str) -> ProducerId | None:
    """Return the producer that ``connection:session:producer`` names, None if the text has another form."""
    head, _, value = text.rpartition(":")
    connection, _, session = head.rpartition(":")
    if not connection or not _is_number(session) or not _is_number(value):
        return None
    return ProducerId(connection_id=connection, session_id=int(session), value=int(value))


def parse_consumer_id(text: str) -> ConsumerId | None:
    """Return the consumer that ``connection:session:consumer`` names, None if the text has another form."""
    same_form = parse_producer_id(text)
    if same_form is None:
        return None
    return ConsumerId(connection_id=same_form.connection_id, session_id=same_form.session_id, value=same_form.value)


def _is_number(text: str) -> bool:
    """Tell whether ``text`` is a 64-bit number as Java writes it."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20 and -(2**63) <= int(text) < 2**63


def path_of(ids: Sequence[object] | None) -> tuple[str, ...]:
    """Return the ids of the brokers of a path as it is on the wire, the first one first."""
    return () if not ids else tuple(one.value or "" for one in ids if isinstance(one, BrokerId))


def path_through(here: BrokerId, path: Sequence[BrokerId] | None) -> list[BrokerId]:
    """Return ``path`` with ``here``: every broker once, in the order in which the message first came to them.

    Each broker on its way opens a message with a path, so one that runs to and fro must not grow.
    """
    first: dict[str, BrokerId] = {}
    for one in [*(path or ()), here]:
        first.setdefault(one.value or "", one)
    return list(first.values())
