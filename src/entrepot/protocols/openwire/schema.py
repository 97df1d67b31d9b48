"""The table of OpenWire: every type, its id, its fields in wire order, and the versions in which they travel.

This table is the only place that knows the layout. ``commands.py`` is written from it, the tests compare the two, and
the codec derives from it which types a version has and which versions share the layout of a message. It decides
nothing and reads no bytes.

Rules of the layout:

* The order of fields is the same in every version; a field travels in versions ``since`` to ``until``. A field that
  moved between versions stands twice, with ranges that do not meet.
* Tight and loose encoding carry the same fields in the same order.
* A type whose family is ``Command`` starts with ``CommandId`` and ``ResponseRequired``.

>>> [field.name for field in type_named("ProducerId").fields]
['connection_id', 'value', 'session_id']
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import Final

import msgspec

VERSION_MIN: Final = 1
VERSION_MAX: Final = 12
"""The newest version that exists; ActiveMQ offers it by default."""


class Kind(Enum):
    """How the value of a field travels; the value names the method of `frames.FrameReader` and `FrameWriter`."""

    BOOLEAN = "boolean"
    BYTE = "byte"
    INT = "int32"
    LONG = "long"
    STRING = "string"
    OCTETS = "octets"
    MAGIC = "magic"
    THROWABLE = "throwable"
    NESTED = "nested"
    CACHED = "cached"
    ARRAY = "array"


B, Y, I, L, S = Kind.BOOLEAN, Kind.BYTE, Kind.INT, Kind.LONG, Kind.STRING  # noqa: E741 - the letters of the table
O, M, T, N, C, A = Kind.OCTETS, Kind.MAGIC, Kind.THROWABLE, Kind.NESTED, Kind.CACHED, Kind.ARRAY  # noqa: E741

_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Field(msgspec.Struct, frozen=True):
    """One field of a type.

    ``wire_name`` is the name the protocol's own documents use; ``holds`` is the class of a nested value (of each
    element for an array). ``mirror`` names a second attribute that a reader sets to the same value. ``mark`` names an
    attribute in which a reader leaves the position behind the field.
    """

    wire_name: str
    kind: Kind
    name: str
    holds: str = ""
    since: int = VERSION_MIN
    until: int = VERSION_MAX
    default: int | bool = 0
    mirror: str = ""
    mark: str = ""

    def travels(self, version: int) -> bool:
        """Tell whether the field is part of the layout of ``version``."""
        return self.since <= version <= self.until


class Type(msgspec.Struct, frozen=True):
    """One type of the table: its own fields follow those of ``parent``.

    ``number`` 0 marks a type that never travels itself, only its children do. ``by_value`` types compare and hash by
    their fields, or by those in ``identity`` if there are any: what the caches need. ``padded`` types carry one bit
    more when nested in a tight frame.
    """

    name: str
    number: int
    parent: str
    own: tuple[Field, ...]
    doc: str
    since: int = VERSION_MIN
    by_value: bool = False
    padded: bool = False
    identity: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields in wire order, inherited ones first."""
        inherited = type_named(self.parent).fields if self.parent in _BY_NAME else ()
        return inherited + self.own


def F(  # noqa: N802 - reads as the table's own word
    wire_name: str,
    kind: Kind,
    holds: str = "",
    since: int = VERSION_MIN,
    *,
    until: int = VERSION_MAX,
    name: str = "",
    default: int | bool = 0,
    mirror: str = "",
    mark: str = "",
) -> Field:
    """Make a field; its attribute is the wire name in snake case unless ``name`` says otherwise."""
    attribute = name or _WORD_BOUNDARY.sub("_", wire_name).lower()
    return Field(wire_name, kind, attribute, holds, since, until, default, mirror, mark)


def _destination(name: str, number: int, doc: str) -> Type:
    return Type(name, number, "Destination", (), doc, by_value=True)


def _message(name: str, number: int, doc: str) -> Type:
    return Type(name, number, "Message", (), doc, padded=True)


TYPES: Final[tuple[Type, ...]] = (
    Type("Command", 0, "Structure", (F("CommandId", I), F("ResponseRequired", B)), "What a peer tells another."),
    # identities
    Type("Destination", 0, "Structure", (F("PhysicalName", S),), "A queue or topic, named.", by_value=True),
    _destination("ActiveMQQueue", 100, "A queue."),
    _destination("ActiveMQTopic", 101, "A topic."),
    _destination("ActiveMQTempQueue", 102, "A queue that lives as long as the connection that made it."),
    _destination("ActiveMQTempTopic", 103, "A topic that lives as long as the connection that made it."),
    Type("BrokerId", 124, "Structure", (F("Value", S),), "Identity of a broker.", by_value=True),
    Type("ConnectionId", 120, "Structure", (F("Value", S),), "Identity of a connection.", by_value=True),
    Type(
        "SessionId", 121, "Structure", (F("ConnectionId", S), F("Value", L)), "Identity of a session.", by_value=True
    ),
    Type(
        "ConsumerId", 122, "Structure",
        (F("ConnectionId", S), F("SessionId", L), F("Value", L)),
        "Identity of a consumer. Trap: session before value; `ProducerId` has them the other way round.", by_value=True,
    ),
    Type(
        "ProducerId", 123, "Structure",
        (F("ConnectionId", S), F("Value", L), F("SessionId", L)),
        "Identity of a producer. Trap: value before session.", by_value=True,
    ),
    Type(
        "MessageId", 110, "Structure",
        (F("TextView", S, since=10), F("ProducerId", C, "ProducerId"), F("ProducerSequenceId", L),
         F("BrokerSequenceId", L)),
        "Identity of a message; ``text_view`` is the id as another protocol wrote it.", by_value=True,
        identity=("producer_id", "producer_sequence_id"),
    ),
    Type("TransactionId", 0, "Structure", (), "Identity of a transaction.", by_value=True),
    Type(
        "LocalTransactionId", 111, "TransactionId",
        (F("Value", L), F("ConnectionId", C, "ConnectionId")), "A transaction of one connection.", by_value=True,
    ),
    Type(
        "XATransactionId", 112, "TransactionId",
        (F("FormatId", I), F("GlobalTransactionId", O), F("BranchQualifier", O)),
        "A branch of a distributed transaction.", by_value=True,
    ),
    # the connection
    Type(
        "WireFormatInfo", 1, "Structure",
        (F("Magic", M), F("Version", I), F("MarshalledProperties", O)),
        "First frame of each side: what it can read. See `negotiation`.", padded=True,
    ),
    Type(
        "BrokerInfo", 2, "Command",
        (F("BrokerId", C, "BrokerId"), F("BrokerURL", S), F("PeerBrokerInfos", A, "BrokerInfo"), F("BrokerName", S),
         F("SlaveBroker", B), F("MasterBroker", B), F("FaultTolerantConfiguration", B),
         F("DuplexConnection", B, since=2), F("NetworkConnection", B, since=2), F("ConnectionId", L, since=2),
         F("BrokerUploadUrl", S, since=3), F("NetworkProperties", S, since=3)),
        "Who a broker is; the first command of a broker, and what makes a connection a bridge.",
    ),
    Type(
        "ConnectionInfo", 3, "Command",
        (F("ConnectionId", C, "ConnectionId"), F("ClientId", S), F("Password", S), F("UserName", S),
         F("BrokerPath", A, "BrokerId"), F("BrokerMasterConnector", B), F("Manageable", B),
         F("ClientMaster", B, since=2, default=True), F("FaultTolerant", B, since=6),
         F("FailoverReconnect", B, since=6), F("ClientIp", S, since=8)),
        "Opens a connection and says who is there.",
    ),
    Type("SessionInfo", 4, "Command", (F("SessionId", C, "SessionId"),), "Opens a session."),
    Type(
        "ConsumerInfo", 5, "Command",
        (F("ConsumerId", C, "ConsumerId"), F("Browser", B), F("Destination", C, "Destination"), F("PrefetchSize", I),
         F("MaximumPendingMessageLimit", I), F("DispatchAsync", B), F("Selector", S), F("ClientId", S, since=10),
         F("SubscriptionName", S), F("NoLocal", B), F("Exclusive", B), F("Retroactive", B), F("Priority", Y),
         F("BrokerPath", A, "BrokerId"), F("AdditionalPredicate", N, "NetworkBridgeFilter"),
         F("NetworkSubscription", B), F("OptimizedAcknowledge", B), F("NoRangeAcks", B),
         F("NetworkConsumerPath", A, "ConsumerId", since=4)),
        "Opens a consumer.",
    ),
    Type(
        "ProducerInfo", 6, "Command",
        (F("ProducerId", C, "ProducerId"), F("Destination", C, "Destination"), F("BrokerPath", A, "BrokerId"),
         F("DispatchAsync", B, since=2), F("WindowSize", I, since=3)),
        "Opens a producer.",
    ),
    Type(
        "TransactionInfo", 7, "Command",
        (F("ConnectionId", C, "ConnectionId"), F("TransactionId", C, "TransactionId"), F("Type", Y)),
        "A step of a transaction; the steps are `ids.TransactionStep`.",
    ),
    Type(
        "DestinationInfo", 8, "Command",
        (F("ConnectionId", C, "ConnectionId"), F("Destination", C, "Destination"), F("OperationType", Y),
         F("Timeout", L), F("BrokerPath", A, "BrokerId")),
        "Adds or removes a destination.",
    ),
    Type(
        "RemoveSubscriptionInfo", 9, "Command",
        (F("ConnectionId", C, "ConnectionId"), F("SubscriptionName", S), F("ClientId", S)),
        "Deletes a durable subscription.",
    ),
    Type("KeepAliveInfo", 10, "Command", (), "Says that the peer is alive."),
    Type("ShutdownInfo", 11, "Command", (), "Announces the orderly end of a connection."),
    Type(
        "RemoveInfo", 12, "Command",
        (F("ObjectId", C, "Structure"), F("LastDeliveredSequenceId", L, since=5, default=-2)),
        "Closes what ``object_id`` names: connection, session, consumer or producer. Sequence -1: unset, -2: unknown.",
    ),
    Type("ControlCommand", 14, "Command", (F("Command", S),), "A word for the broker; read and ignored."),
    Type("FlushCommand", 15, "Command", (), "Asks for a flush; read and ignored."),
    Type(
        "ConnectionError", 16, "Command", (F("Exception", T), F("ConnectionId", N, "ConnectionId")),
        "An error that answers no request.",
    ),
    Type(
        "ConsumerControl", 17, "Command",
        (F("Destination", N, "Destination", since=6), F("Close", B), F("ConsumerId", N, "ConsumerId"), F("Prefetch", I),
         F("Flush", B, since=2), F("Start", B, since=2), F("Stop", B, since=2)),
        "Changes a running consumer.",
    ),
    Type(
        "ConnectionControl", 18, "Command",
        (F("Close", B), F("Exit", B), F("FaultTolerant", B), F("Resume", B), F("Suspend", B),
         F("ConnectedBrokers", S, since=6), F("ReconnectTo", S, since=6), F("RebalanceConnection", B, since=6),
         F("Token", O, since=8)),
        "Tells a client which brokers there are, and to move.",
    ),
    Type(
        "ProducerAck", 19, "Command", (F("ProducerId", N, "ProducerId"), F("Size", I)),
        "Gives a producer bytes of its window back.", since=3,
    ),
    Type(
        "MessagePull", 20, "Command",
        (F("ConsumerId", C, "ConsumerId"), F("Destination", C, "Destination"), F("Timeout", L),
         F("CorrelationId", S, since=3), F("MessageId", N, "MessageId", since=3)),
        "Asks for one message.", since=2,
    ),
    # messages
    Type(
        "MessageDispatch", 21, "Command",
        (F("ConsumerId", C, "ConsumerId"), F("Destination", C, "Destination"), F("Message", N, "Message"),
         F("RedeliveryCounter", I)),
        "Delivers a message; no message: the end of a browse or an empty pull.",
    ),
    Type(
        "MessageAck", 22, "Command",
        (F("Destination", C, "Destination"), F("TransactionId", C, "TransactionId"), F("ConsumerId", C, "ConsumerId"),
         F("AckType", Y), F("FirstMessageId", N, "MessageId"), F("LastMessageId", N, "MessageId"), F("MessageCount", I),
         F("PoisonCause", T, since=7)),
        "Settles messages; the types are `ids.AckType`.",
    ),
    Type(
        "Message", 0, "Command",
        (F("ProducerId", C, "ProducerId"), F("Destination", C, "Destination"), F("TransactionId", C, "TransactionId"),
         F("OriginalDestination", C, "Destination"), F("MessageId", N, "MessageId", mark="mark_sequence"),
         F("OriginalTransactionId", C, "TransactionId"), F("GroupID", S), F("GroupSequence", I), F("CorrelationId", S),
         F("Persistent", B), F("Expiration", L), F("Priority", Y), F("ReplyTo", N, "Destination"), F("Timestamp", L),
         F("Type", S, name="jms_type"), F("Content", O), F("MarshalledProperties", O),
         F("DataStructure", N, "Structure"), F("TargetConsumerId", C, "ConsumerId"), F("Compressed", B),
         F("RedeliveryCounter", I), F("BrokerPath", A, "BrokerId"), F("Arrival", L), F("UserID", S),
         F("RecievedByDFBridge", B, name="received_by_df_bridge"), F("Droppable", B, since=2),
         F("Cluster", A, "BrokerId", since=3), F("BrokerInTime", L, since=3),
         F("BrokerOutTime", L, since=3, mark="mark_times"), F("JMSXGroupFirstForConsumer", B, since=10)),
        "A message of any kind; ``content`` and ``marshalled_properties`` stay as they came, see `bodies`.",
        padded=True,
    ),
    _message("ActiveMQMessage", 23, "A message without a body."),
    _message("ActiveMQBytesMessage", 24, "A message whose body is octets."),
    _message("ActiveMQMapMessage", 25, "A message whose body is a primitive map."),
    _message("ActiveMQObjectMessage", 26, "A message whose body is a serialised Java object; never opened here."),
    _message("ActiveMQStreamMessage", 27, "A message whose body is a row of primitives."),
    _message("ActiveMQTextMessage", 28, "A message whose body is text."),
    Type(
        "ActiveMQBlobMessage", 29, "Message", (F("RemoteBlobUrl", S), F("MimeType", S), F("DeletedByBroker", B)),
        "A message whose body lies elsewhere.", since=3, padded=True,
    ),
    # answers
    Type("Response", 30, "Command", (F("CorrelationId", I),), "Answers the command whose id is ``correlation_id``."),
    Type("ExceptionResponse", 31, "Response", (F("Exception", T),), "Refuses a command."),
    Type("DataResponse", 32, "Response", (F("Data", N, "Structure"),), "Answers with one structure."),
    Type("DataArrayResponse", 33, "Response", (F("Data", A, "Structure"),), "Answers with several structures."),
    Type("IntegerResponse", 34, "Response", (F("Result", I),), "Answers with a number."),
    # what stores and networks exchange
    Type("DiscoveryEvent", 40, "Structure", (F("ServiceName", S), F("BrokerName", S)), "A broker was found or lost."),
    Type(
        "JournalTopicAck", 50, "Structure",
        (F("Destination", N, "Destination"), F("MessageId", N, "MessageId"), F("MessageSequenceId", L),
         F("SubscritionName", S, name="subscription_name"), F("ClientId", S), F("TransactionId", N, "TransactionId")),
        "Journal record: a durable subscription settled a message.",
    ),
    Type(
        "JournalQueueAck", 52, "Structure", (F("Destination", N, "Destination"), F("MessageAck", N, "MessageAck")),
        "Journal record: a queue's message was settled.",
    ),
    Type("JournalTrace", 53, "Structure", (F("Message", S),), "Journal record: a remark."),
    Type(
        "JournalTransaction", 54, "Structure",
        (F("TransactionId", N, "TransactionId"), F("Type", Y), F("WasPrepared", B)), "Journal record: a transaction.",
    ),
    Type(
        "SubscriptionInfo", 55, "Structure",
        (F("ClientId", S), F("Destination", C, "Destination"), F("Selector", S), F("SubscriptionName", S),
         F("SubscribedDestination", N, "Destination", since=3), F("NoLocal", B, since=11)),
        "A durable subscription as it is stored.",
    ),
    Type("PartialCommand", 60, "Structure", (F("CommandId", I), F("Data", O)), "A piece of a large command (UDP)."),
    Type("LastPartialCommand", 61, "PartialCommand", (), "The last piece of a large command (UDP)."),
    Type("ReplayCommand", 65, "Command", (F("FirstNakNumber", I), F("LastNakNumber", I)), "Asks for lost datagrams."),
    Type(
        "MessageDispatchNotification", 90, "Command",
        (F("ConsumerId", C, "ConsumerId"), F("Destination", C, "Destination"), F("DeliverySequenceId", L),
         F("MessageId", N, "MessageId")),
        "Tells a passive broker what the active one dispatched.",
    ),
    Type(
        "NetworkBridgeFilter", 91, "Structure",
        (F("NetworkTTL", I, until=9, name="message_ttl", mirror="consumer_ttl"),
         F("NetworkBrokerId", C, "BrokerId"), F("MessageTTL", I, since=10), F("ConsumerTTL", I, since=10)),
        "What may come back over a bridge. Before version 10 one number stands for both limits.",
    ),
    Type(
        "BrokerSubscriptionInfo", 92, "Command",
        (F("BrokerId", N, "BrokerId"), F("BrokerName", S), F("SubscriptionInfos", A, "ConsumerInfo")),
        "The durable subscriptions of a broker, for its bridges.", since=12,
    ),
)  # fmt: skip

_BY_NAME: Final[dict[str, Type]] = {each.name: each for each in TYPES}
_BY_NUMBER: Final[dict[int, Type]] = {each.number: each for each in TYPES if each.number}


def type_named(name: str) -> Type:
    """Return the type called ``name``. Raises KeyError if there is none."""
    return _BY_NAME[name]


def type_numbered(number: int) -> Type:
    """Return the type whose id on the wire is ``number``. Raises KeyError if there is none."""
    return _BY_NUMBER[number]


def children(name: str) -> list[Type]:
    """Return the types that may stand where ``name`` is declared, itself included, if they travel."""
    return [each for each in TYPES if each.number and (each.name == name or name in _ancestors(each))]


def _ancestors(each: Type) -> list[str]:
    found = [each.parent]
    while found[-1] in _BY_NAME:
        found.append(_BY_NAME[found[-1]].parent)
    return found


@cache
def message_layout(version: int) -> int:
    """Return the oldest version that lays messages out as ``version`` does: equal layouts, equal octets (loose).

    What a message's ``data_structure`` holds is left out: a message that has one is never passed on by its octets.
    """
    borders = _borders("Message", {}) | {type_named("ActiveMQBlobMessage").since}
    return max(border for border in borders if border <= version)


def _borders(name: str, seen: dict[str, None]) -> frozenset[int]:
    """Collect every version at which the layout of ``name``, or of what it always nests, changed."""
    borders = {VERSION_MIN}
    for each in [type_named(name), *children(name)]:
        if each.name in seen:
            continue
        seen[each.name] = None
        for field in each.fields:
            borders |= {field.since, field.until + 1}
            if field.holds and field.holds != "Structure":
                borders |= _borders(field.holds, seen)
    return frozenset(borders)
