"""The types of OpenWire as classes, written by ``tools/openwire_commands.py`` from `schema`: change that, not this.

Every class takes its fields as keywords; a field that the version of a connection has no room for keeps its default.
`read` and `write` serve tight and loose encoding alike. Identities and destinations compare by value and must not
change once they were written or used as a key.

A `Message` keeps its first encoding in ``first`` (see `codec`). [C]
"""
# ruff: noqa: D102, E501
# fmt: off

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64

from entrepot.protocols.openwire.elements import MAGIC, FirstEncoding, Throwable
from entrepot.protocols.openwire.frames import FrameReader, FrameWriter, Structure


class Command(Structure):
    """What a peer tells another."""

    command_id: i32 = 0
    response_required: bool = False

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)


class Destination(Structure):
    """A queue or topic, named."""

    def __init__(
        self,
        physical_name: str | None = None,
    ) -> None:
        self.physical_name = physical_name

    def read(self, source: FrameReader) -> None:
        self.physical_name = source.string()

    def write(self, target: FrameWriter) -> None:
        target.string(self.physical_name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Destination)
            and self.type_id == other.type_id
            and self.physical_name == other.physical_name
        )

    def __hash__(self) -> int:
        return hash((self.physical_name,))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(physical_name={self.physical_name!r})"


class ActiveMQQueue(Destination):
    """A queue. Type 100."""

    @property
    def type_id(self) -> int:
        return 100

    def fresh(self) -> Structure:
        return ActiveMQQueue()


class ActiveMQTopic(Destination):
    """A topic. Type 101."""

    @property
    def type_id(self) -> int:
        return 101

    def fresh(self) -> Structure:
        return ActiveMQTopic()


class ActiveMQTempQueue(Destination):
    """A queue that lives as long as the connection that made it. Type 102."""

    @property
    def type_id(self) -> int:
        return 102

    def fresh(self) -> Structure:
        return ActiveMQTempQueue()


class ActiveMQTempTopic(Destination):
    """A topic that lives as long as the connection that made it. Type 103."""

    @property
    def type_id(self) -> int:
        return 103

    def fresh(self) -> Structure:
        return ActiveMQTempTopic()


class BrokerId(Structure):
    """Identity of a broker. Type 124."""

    def __init__(
        self,
        value: str | None = None,
    ) -> None:
        self.value = value

    @property
    def type_id(self) -> int:
        return 124

    def fresh(self) -> Structure:
        return BrokerId()

    def read(self, source: FrameReader) -> None:
        self.value = source.string()

    def write(self, target: FrameWriter) -> None:
        target.string(self.value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BrokerId)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.value,))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r})"


class ConnectionId(Structure):
    """Identity of a connection. Type 120."""

    def __init__(
        self,
        value: str | None = None,
    ) -> None:
        self.value = value

    @property
    def type_id(self) -> int:
        return 120

    def fresh(self) -> Structure:
        return ConnectionId()

    def read(self, source: FrameReader) -> None:
        self.value = source.string()

    def write(self, target: FrameWriter) -> None:
        target.string(self.value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConnectionId)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.value,))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r})"


class SessionId(Structure):
    """Identity of a session. Type 121."""

    def __init__(
        self,
        connection_id: str | None = None,
        value: i64 = 0,
    ) -> None:
        self.connection_id = connection_id
        self.value = value

    @property
    def type_id(self) -> int:
        return 121

    def fresh(self) -> Structure:
        return SessionId()

    def read(self, source: FrameReader) -> None:
        self.connection_id = source.string()
        self.value = source.long()

    def write(self, target: FrameWriter) -> None:
        target.string(self.connection_id)
        target.long(self.value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SessionId)
            and self.connection_id == other.connection_id
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(connection_id={self.connection_id!r}, value={self.value!r})"


class ConsumerId(Structure):
    """Identity of a consumer. Trap: session before value; `ProducerId` has them the other way round. Type 122."""

    def __init__(
        self,
        connection_id: str | None = None,
        session_id: i64 = 0,
        value: i64 = 0,
    ) -> None:
        self.connection_id = connection_id
        self.session_id = session_id
        self.value = value

    @property
    def type_id(self) -> int:
        return 122

    def fresh(self) -> Structure:
        return ConsumerId()

    def read(self, source: FrameReader) -> None:
        self.connection_id = source.string()
        self.session_id = source.long()
        self.value = source.long()

    def write(self, target: FrameWriter) -> None:
        target.string(self.connection_id)
        target.long(self.session_id)
        target.long(self.value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConsumerId)
            and self.connection_id == other.connection_id
            and self.session_id == other.session_id
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.session_id, self.value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(connection_id={self.connection_id!r}, session_id={self.session_id!r}, value={self.value!r})"


class ProducerId(Structure):
    """Identity of a producer. Trap: value before session. Type 123."""

    def __init__(
        self,
        connection_id: str | None = None,
        value: i64 = 0,
        session_id: i64 = 0,
    ) -> None:
        self.connection_id = connection_id
        self.value = value
        self.session_id = session_id

    @property
    def type_id(self) -> int:
        return 123

    def fresh(self) -> Structure:
        return ProducerId()

    def read(self, source: FrameReader) -> None:
        self.connection_id = source.string()
        self.value = source.long()
        self.session_id = source.long()

    def write(self, target: FrameWriter) -> None:
        target.string(self.connection_id)
        target.long(self.value)
        target.long(self.session_id)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProducerId)
            and self.connection_id == other.connection_id
            and self.value == other.value
            and self.session_id == other.session_id
        )

    def __hash__(self) -> int:
        return hash((self.connection_id, self.value, self.session_id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(connection_id={self.connection_id!r}, value={self.value!r}, session_id={self.session_id!r})"


class MessageId(Structure):
    """Identity of a message; ``text_view`` is the id as another protocol wrote it. Type 110."""

    def __init__(
        self,
        text_view: str | None = None,
        producer_id: ProducerId | None = None,
        producer_sequence_id: i64 = 0,
        broker_sequence_id: i64 = 0,
    ) -> None:
        self.text_view = text_view
        self.producer_id = producer_id
        self.producer_sequence_id = producer_sequence_id
        self.broker_sequence_id = broker_sequence_id

    @property
    def type_id(self) -> int:
        return 110

    def fresh(self) -> Structure:
        return MessageId()

    def read(self, source: FrameReader) -> None:
        if source.version >= 10:
            self.text_view = source.string()
        self.producer_id = _producer_id(source, source.cached())
        self.producer_sequence_id = source.long()
        self.broker_sequence_id = source.long()

    def write(self, target: FrameWriter) -> None:
        if target.version >= 10:
            target.string(self.text_view)
        target.cached(self.producer_id)
        target.long(self.producer_sequence_id)
        target.long(self.broker_sequence_id)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MessageId)
            and self.producer_id == other.producer_id
            and self.producer_sequence_id == other.producer_sequence_id
        )

    def __hash__(self) -> int:
        return hash((self.producer_id, self.producer_sequence_id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(text_view={self.text_view!r}, producer_id={self.producer_id!r}, producer_sequence_id={self.producer_sequence_id!r}, broker_sequence_id={self.broker_sequence_id!r})"


class TransactionId(Structure):
    """Identity of a transaction."""


class LocalTransactionId(TransactionId):
    """A transaction of one connection. Type 111."""

    def __init__(
        self,
        value: i64 = 0,
        connection_id: ConnectionId | None = None,
    ) -> None:
        super().__init__()
        self.value = value
        self.connection_id = connection_id

    @property
    def type_id(self) -> int:
        return 111

    def fresh(self) -> Structure:
        return LocalTransactionId()

    def read(self, source: FrameReader) -> None:
        super().read(source)
        self.value = source.long()
        self.connection_id = _connection_id(source, source.cached())

    def write(self, target: FrameWriter) -> None:
        super().write(target)
        target.long(self.value)
        target.cached(self.connection_id)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LocalTransactionId)
            and self.value == other.value
            and self.connection_id == other.connection_id
        )

    def __hash__(self) -> int:
        return hash((self.value, self.connection_id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r}, connection_id={self.connection_id!r})"


class XATransactionId(TransactionId):
    """A branch of a distributed transaction. Type 112."""

    def __init__(
        self,
        format_id: i32 = 0,
        global_transaction_id: bytes | None = None,
        branch_qualifier: bytes | None = None,
    ) -> None:
        super().__init__()
        self.format_id = format_id
        self.global_transaction_id = global_transaction_id
        self.branch_qualifier = branch_qualifier

    @property
    def type_id(self) -> int:
        return 112

    def fresh(self) -> Structure:
        return XATransactionId()

    def read(self, source: FrameReader) -> None:
        super().read(source)
        self.format_id = source.int32()
        self.global_transaction_id = source.octets()
        self.branch_qualifier = source.octets()

    def write(self, target: FrameWriter) -> None:
        super().write(target)
        target.int32(self.format_id)
        target.octets(self.global_transaction_id)
        target.octets(self.branch_qualifier)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, XATransactionId)
            and self.format_id == other.format_id
            and self.global_transaction_id == other.global_transaction_id
            and self.branch_qualifier == other.branch_qualifier
        )

    def __hash__(self) -> int:
        return hash((self.format_id, self.global_transaction_id, self.branch_qualifier))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(format_id={self.format_id!r}, global_transaction_id={self.global_transaction_id!r}, branch_qualifier={self.branch_qualifier!r})"


class WireFormatInfo(Structure):
    """First frame of each side: what it can read. See `negotiation`. Type 1."""

    def __init__(
        self,
        *,
        magic: bytes = MAGIC,
        version: i32 = 0,
        marshalled_properties: bytes | None = None,
    ) -> None:
        self.magic = magic
        self.version = version
        self.marshalled_properties = marshalled_properties

    @property
    def type_id(self) -> int:
        return 1

    def fresh(self) -> Structure:
        return WireFormatInfo()

    def padded(self) -> bool:
        return True

    def read(self, source: FrameReader) -> None:
        self.magic = source.magic()
        self.version = source.int32()
        self.marshalled_properties = source.octets()

    def write(self, target: FrameWriter) -> None:
        target.magic(self.magic)
        target.int32(self.version)
        target.octets(self.marshalled_properties)


class BrokerInfo(Command):
    """Who a broker is; the first command of a broker, and what makes a connection a bridge. Type 2."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        broker_id: BrokerId | None = None,
        broker_url: str | None = None,
        peer_broker_infos: list[BrokerInfo] | None = None,
        broker_name: str | None = None,
        slave_broker: bool = False,
        master_broker: bool = False,
        fault_tolerant_configuration: bool = False,
        duplex_connection: bool = False,
        network_connection: bool = False,
        connection_id: i64 = 0,
        broker_upload_url: str | None = None,
        network_properties: str | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_url = broker_url
        self.peer_broker_infos = peer_broker_infos
        self.broker_name = broker_name
        self.slave_broker = slave_broker
        self.master_broker = master_broker
        self.fault_tolerant_configuration = fault_tolerant_configuration
        self.duplex_connection = duplex_connection
        self.network_connection = network_connection
        self.connection_id = connection_id
        self.broker_upload_url = broker_upload_url
        self.network_properties = network_properties

    @property
    def type_id(self) -> int:
        return 2

    def fresh(self) -> Structure:
        return BrokerInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.broker_id = _broker_id(source, source.cached())
        self.broker_url = source.string()
        self.peer_broker_infos = _broker_infos(source, source.array())
        self.broker_name = source.string()
        self.slave_broker = source.boolean()
        self.master_broker = source.boolean()
        self.fault_tolerant_configuration = source.boolean()
        if source.version >= 2:
            self.duplex_connection = source.boolean()
        if source.version >= 2:
            self.network_connection = source.boolean()
        if source.version >= 2:
            self.connection_id = source.long()
        if source.version >= 3:
            self.broker_upload_url = source.string()
        if source.version >= 3:
            self.network_properties = source.string()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.broker_id)
        target.string(self.broker_url)
        target.array(self.peer_broker_infos)
        target.string(self.broker_name)
        target.boolean(self.slave_broker)
        target.boolean(self.master_broker)
        target.boolean(self.fault_tolerant_configuration)
        if target.version >= 2:
            target.boolean(self.duplex_connection)
        if target.version >= 2:
            target.boolean(self.network_connection)
        if target.version >= 2:
            target.long(self.connection_id)
        if target.version >= 3:
            target.string(self.broker_upload_url)
        if target.version >= 3:
            target.string(self.network_properties)


class ConnectionInfo(Command):
    """Opens a connection and says who is there. Type 3."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        connection_id: ConnectionId | None = None,
        client_id: str | None = None,
        password: str | None = None,
        user_name: str | None = None,
        broker_path: list[BrokerId] | None = None,
        broker_master_connector: bool = False,
        manageable: bool = False,
        client_master: bool = True,
        fault_tolerant: bool = False,
        failover_reconnect: bool = False,
        client_ip: str | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.client_id = client_id
        self.password = password
        self.user_name = user_name
        self.broker_path = broker_path
        self.broker_master_connector = broker_master_connector
        self.manageable = manageable
        self.client_master = client_master
        self.fault_tolerant = fault_tolerant
        self.failover_reconnect = failover_reconnect
        self.client_ip = client_ip

    @property
    def type_id(self) -> int:
        return 3

    def fresh(self) -> Structure:
        return ConnectionInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.connection_id = _connection_id(source, source.cached())
        self.client_id = source.string()
        self.password = source.string()
        self.user_name = source.string()
        self.broker_path = _broker_ids(source, source.array())
        self.broker_master_connector = source.boolean()
        self.manageable = source.boolean()
        if source.version >= 2:
            self.client_master = source.boolean()
        if source.version >= 6:
            self.fault_tolerant = source.boolean()
        if source.version >= 6:
            self.failover_reconnect = source.boolean()
        if source.version >= 8:
            self.client_ip = source.string()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.connection_id)
        target.string(self.client_id)
        target.string(self.password)
        target.string(self.user_name)
        target.array(self.broker_path)
        target.boolean(self.broker_master_connector)
        target.boolean(self.manageable)
        if target.version >= 2:
            target.boolean(self.client_master)
        if target.version >= 6:
            target.boolean(self.fault_tolerant)
        if target.version >= 6:
            target.boolean(self.failover_reconnect)
        if target.version >= 8:
            target.string(self.client_ip)


class SessionInfo(Command):
    """Opens a session. Type 4."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        session_id: SessionId | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.session_id = session_id

    @property
    def type_id(self) -> int:
        return 4

    def fresh(self) -> Structure:
        return SessionInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.session_id = _session_id(source, source.cached())

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.session_id)


class ConsumerInfo(Command):
    """Opens a consumer. Type 5."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        consumer_id: ConsumerId | None = None,
        browser: bool = False,
        destination: Destination | None = None,
        prefetch_size: i32 = 0,
        maximum_pending_message_limit: i32 = 0,
        dispatch_async: bool = False,
        selector: str | None = None,
        client_id: str | None = None,
        subscription_name: str | None = None,
        no_local: bool = False,
        exclusive: bool = False,
        retroactive: bool = False,
        priority: i32 = 0,
        broker_path: list[BrokerId] | None = None,
        additional_predicate: NetworkBridgeFilter | None = None,
        network_subscription: bool = False,
        optimized_acknowledge: bool = False,
        no_range_acks: bool = False,
        network_consumer_path: list[ConsumerId] | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.browser = browser
        self.destination = destination
        self.prefetch_size = prefetch_size
        self.maximum_pending_message_limit = maximum_pending_message_limit
        self.dispatch_async = dispatch_async
        self.selector = selector
        self.client_id = client_id
        self.subscription_name = subscription_name
        self.no_local = no_local
        self.exclusive = exclusive
        self.retroactive = retroactive
        self.priority = priority
        self.broker_path = broker_path
        self.additional_predicate = additional_predicate
        self.network_subscription = network_subscription
        self.optimized_acknowledge = optimized_acknowledge
        self.no_range_acks = no_range_acks
        self.network_consumer_path = network_consumer_path

    @property
    def type_id(self) -> int:
        return 5

    def fresh(self) -> Structure:
        return ConsumerInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.consumer_id = _consumer_id(source, source.cached())
        self.browser = source.boolean()
        self.destination = _destination(source, source.cached())
        self.prefetch_size = source.int32()
        self.maximum_pending_message_limit = source.int32()
        self.dispatch_async = source.boolean()
        self.selector = source.string()
        if source.version >= 10:
            self.client_id = source.string()
        self.subscription_name = source.string()
        self.no_local = source.boolean()
        self.exclusive = source.boolean()
        self.retroactive = source.boolean()
        self.priority = source.byte()
        self.broker_path = _broker_ids(source, source.array())
        self.additional_predicate = _network_bridge_filter(source, source.nested())
        self.network_subscription = source.boolean()
        self.optimized_acknowledge = source.boolean()
        self.no_range_acks = source.boolean()
        if source.version >= 4:
            self.network_consumer_path = _consumer_ids(source, source.array())

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.consumer_id)
        target.boolean(self.browser)
        target.cached(self.destination)
        target.int32(self.prefetch_size)
        target.int32(self.maximum_pending_message_limit)
        target.boolean(self.dispatch_async)
        target.string(self.selector)
        if target.version >= 10:
            target.string(self.client_id)
        target.string(self.subscription_name)
        target.boolean(self.no_local)
        target.boolean(self.exclusive)
        target.boolean(self.retroactive)
        target.byte(self.priority)
        target.array(self.broker_path)
        target.nested(self.additional_predicate)
        target.boolean(self.network_subscription)
        target.boolean(self.optimized_acknowledge)
        target.boolean(self.no_range_acks)
        if target.version >= 4:
            target.array(self.network_consumer_path)


class ProducerInfo(Command):
    """Opens a producer. Type 6."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        producer_id: ProducerId | None = None,
        destination: Destination | None = None,
        broker_path: list[BrokerId] | None = None,
        dispatch_async: bool = False,
        window_size: i32 = 0,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.destination = destination
        self.broker_path = broker_path
        self.dispatch_async = dispatch_async
        self.window_size = window_size

    @property
    def type_id(self) -> int:
        return 6

    def fresh(self) -> Structure:
        return ProducerInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.producer_id = _producer_id(source, source.cached())
        self.destination = _destination(source, source.cached())
        self.broker_path = _broker_ids(source, source.array())
        if source.version >= 2:
            self.dispatch_async = source.boolean()
        if source.version >= 3:
            self.window_size = source.int32()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.producer_id)
        target.cached(self.destination)
        target.array(self.broker_path)
        if target.version >= 2:
            target.boolean(self.dispatch_async)
        if target.version >= 3:
            target.int32(self.window_size)


class TransactionInfo(Command):
    """A step of a transaction; the steps are `ids.TransactionStep`. Type 7."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        connection_id: ConnectionId | None = None,
        transaction_id: TransactionId | None = None,
        type: i32 = 0,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.transaction_id = transaction_id
        self.type = type

    @property
    def type_id(self) -> int:
        return 7

    def fresh(self) -> Structure:
        return TransactionInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.connection_id = _connection_id(source, source.cached())
        self.transaction_id = _transaction_id(source, source.cached())
        self.type = source.byte()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.connection_id)
        target.cached(self.transaction_id)
        target.byte(self.type)


class DestinationInfo(Command):
    """Adds or removes a destination. Type 8."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        connection_id: ConnectionId | None = None,
        destination: Destination | None = None,
        operation_type: i32 = 0,
        timeout: i64 = 0,
        broker_path: list[BrokerId] | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.destination = destination
        self.operation_type = operation_type
        self.timeout = timeout
        self.broker_path = broker_path

    @property
    def type_id(self) -> int:
        return 8

    def fresh(self) -> Structure:
        return DestinationInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.connection_id = _connection_id(source, source.cached())
        self.destination = _destination(source, source.cached())
        self.operation_type = source.byte()
        self.timeout = source.long()
        self.broker_path = _broker_ids(source, source.array())

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.connection_id)
        target.cached(self.destination)
        target.byte(self.operation_type)
        target.long(self.timeout)
        target.array(self.broker_path)


class RemoveSubscriptionInfo(Command):
    """Deletes a durable subscription. Type 9."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        connection_id: ConnectionId | None = None,
        subscription_name: str | None = None,
        client_id: str | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.subscription_name = subscription_name
        self.client_id = client_id

    @property
    def type_id(self) -> int:
        return 9

    def fresh(self) -> Structure:
        return RemoveSubscriptionInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.connection_id = _connection_id(source, source.cached())
        self.subscription_name = source.string()
        self.client_id = source.string()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.connection_id)
        target.string(self.subscription_name)
        target.string(self.client_id)


class KeepAliveInfo(Command):
    """Says that the peer is alive. Type 10."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required

    @property
    def type_id(self) -> int:
        return 10

    def fresh(self) -> Structure:
        return KeepAliveInfo()


class ShutdownInfo(Command):
    """Announces the orderly end of a connection. Type 11."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required

    @property
    def type_id(self) -> int:
        return 11

    def fresh(self) -> Structure:
        return ShutdownInfo()


class RemoveInfo(Command):
    """Closes what ``object_id`` names: connection, session, consumer or producer. Sequence -1: unset, -2: unknown. Type 12."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        object_id: Structure | None = None,
        last_delivered_sequence_id: i64 = -2,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.object_id = object_id
        self.last_delivered_sequence_id = last_delivered_sequence_id

    @property
    def type_id(self) -> int:
        return 12

    def fresh(self) -> Structure:
        return RemoveInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.object_id = source.cached()
        if source.version >= 5:
            self.last_delivered_sequence_id = source.long()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.object_id)
        if target.version >= 5:
            target.long(self.last_delivered_sequence_id)


class ControlCommand(Command):
    """A word for the broker; read and ignored. Type 14."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        command: str | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.command = command

    @property
    def type_id(self) -> int:
        return 14

    def fresh(self) -> Structure:
        return ControlCommand()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.command = source.string()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.string(self.command)


class FlushCommand(Command):
    """Asks for a flush; read and ignored. Type 15."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required

    @property
    def type_id(self) -> int:
        return 15

    def fresh(self) -> Structure:
        return FlushCommand()


class ConnectionError(Command):
    """An error that answers no request. Type 16."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        exception: Throwable | None = None,
        connection_id: ConnectionId | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.exception = exception
        self.connection_id = connection_id

    @property
    def type_id(self) -> int:
        return 16

    def fresh(self) -> Structure:
        return ConnectionError()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.exception = source.throwable()
        self.connection_id = _connection_id(source, source.nested())

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.throwable(self.exception)
        target.nested(self.connection_id)


class ConsumerControl(Command):
    """Changes a running consumer. Type 17."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        destination: Destination | None = None,
        close: bool = False,
        consumer_id: ConsumerId | None = None,
        prefetch: i32 = 0,
        flush: bool = False,
        start: bool = False,
        stop: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.destination = destination
        self.close = close
        self.consumer_id = consumer_id
        self.prefetch = prefetch
        self.flush = flush
        self.start = start
        self.stop = stop

    @property
    def type_id(self) -> int:
        return 17

    def fresh(self) -> Structure:
        return ConsumerControl()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        if source.version >= 6:
            self.destination = _destination(source, source.nested())
        self.close = source.boolean()
        self.consumer_id = _consumer_id(source, source.nested())
        self.prefetch = source.int32()
        if source.version >= 2:
            self.flush = source.boolean()
        if source.version >= 2:
            self.start = source.boolean()
        if source.version >= 2:
            self.stop = source.boolean()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        if target.version >= 6:
            target.nested(self.destination)
        target.boolean(self.close)
        target.nested(self.consumer_id)
        target.int32(self.prefetch)
        if target.version >= 2:
            target.boolean(self.flush)
        if target.version >= 2:
            target.boolean(self.start)
        if target.version >= 2:
            target.boolean(self.stop)


class ConnectionControl(Command):
    """Tells a client which brokers there are, and to move. Type 18."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        close: bool = False,
        exit: bool = False,
        fault_tolerant: bool = False,
        resume: bool = False,
        suspend: bool = False,
        connected_brokers: str | None = None,
        reconnect_to: str | None = None,
        rebalance_connection: bool = False,
        token: bytes | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.close = close
        self.exit = exit
        self.fault_tolerant = fault_tolerant
        self.resume = resume
        self.suspend = suspend
        self.connected_brokers = connected_brokers
        self.reconnect_to = reconnect_to
        self.rebalance_connection = rebalance_connection
        self.token = token

    @property
    def type_id(self) -> int:
        return 18

    def fresh(self) -> Structure:
        return ConnectionControl()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.close = source.boolean()
        self.exit = source.boolean()
        self.fault_tolerant = source.boolean()
        self.resume = source.boolean()
        self.suspend = source.boolean()
        if source.version >= 6:
            self.connected_brokers = source.string()
        if source.version >= 6:
            self.reconnect_to = source.string()
        if source.version >= 6:
            self.rebalance_connection = source.boolean()
        if source.version >= 8:
            self.token = source.octets()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.boolean(self.close)
        target.boolean(self.exit)
        target.boolean(self.fault_tolerant)
        target.boolean(self.resume)
        target.boolean(self.suspend)
        if target.version >= 6:
            target.string(self.connected_brokers)
        if target.version >= 6:
            target.string(self.reconnect_to)
        if target.version >= 6:
            target.boolean(self.rebalance_connection)
        if target.version >= 8:
            target.octets(self.token)


class ProducerAck(Command):
    """Gives a producer bytes of its window back. Type 19. Since version 3."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        producer_id: ProducerId | None = None,
        size: i32 = 0,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.size = size

    @property
    def type_id(self) -> int:
        return 19

    def fresh(self) -> Structure:
        return ProducerAck()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.producer_id = _producer_id(source, source.nested())
        self.size = source.int32()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.nested(self.producer_id)
        target.int32(self.size)


class MessagePull(Command):
    """Asks for one message. Type 20. Since version 2."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        consumer_id: ConsumerId | None = None,
        destination: Destination | None = None,
        timeout: i64 = 0,
        correlation_id: str | None = None,
        message_id: MessageId | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.timeout = timeout
        self.correlation_id = correlation_id
        self.message_id = message_id

    @property
    def type_id(self) -> int:
        return 20

    def fresh(self) -> Structure:
        return MessagePull()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.consumer_id = _consumer_id(source, source.cached())
        self.destination = _destination(source, source.cached())
        self.timeout = source.long()
        if source.version >= 3:
            self.correlation_id = source.string()
        if source.version >= 3:
            self.message_id = _message_id(source, source.nested())

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.consumer_id)
        target.cached(self.destination)
        target.long(self.timeout)
        if target.version >= 3:
            target.string(self.correlation_id)
        if target.version >= 3:
            target.nested(self.message_id)


class MessageDispatch(Command):
    """Delivers a message; no message: the end of a browse or an empty pull. Type 21."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        consumer_id: ConsumerId | None = None,
        destination: Destination | None = None,
        message: Message | None = None,
        redelivery_counter: i32 = 0,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.message = message
        self.redelivery_counter = redelivery_counter

    @property
    def type_id(self) -> int:
        return 21

    def fresh(self) -> Structure:
        return MessageDispatch()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.consumer_id = _consumer_id(source, source.cached())
        self.destination = _destination(source, source.cached())
        self.message = _message(source, source.nested())
        self.redelivery_counter = source.int32()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.consumer_id)
        target.cached(self.destination)
        target.nested(self.message)
        target.int32(self.redelivery_counter)


class MessageAck(Command):
    """Settles messages; the types are `ids.AckType`. Type 22."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        destination: Destination | None = None,
        transaction_id: TransactionId | None = None,
        consumer_id: ConsumerId | None = None,
        ack_type: i32 = 0,
        first_message_id: MessageId | None = None,
        last_message_id: MessageId | None = None,
        message_count: i32 = 0,
        poison_cause: Throwable | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.destination = destination
        self.transaction_id = transaction_id
        self.consumer_id = consumer_id
        self.ack_type = ack_type
        self.first_message_id = first_message_id
        self.last_message_id = last_message_id
        self.message_count = message_count
        self.poison_cause = poison_cause

    @property
    def type_id(self) -> int:
        return 22

    def fresh(self) -> Structure:
        return MessageAck()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.destination = _destination(source, source.cached())
        self.transaction_id = _transaction_id(source, source.cached())
        self.consumer_id = _consumer_id(source, source.cached())
        self.ack_type = source.byte()
        self.first_message_id = _message_id(source, source.nested())
        self.last_message_id = _message_id(source, source.nested())
        self.message_count = source.int32()
        if source.version >= 7:
            self.poison_cause = source.throwable()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.destination)
        target.cached(self.transaction_id)
        target.cached(self.consumer_id)
        target.byte(self.ack_type)
        target.nested(self.first_message_id)
        target.nested(self.last_message_id)
        target.int32(self.message_count)
        if target.version >= 7:
            target.throwable(self.poison_cause)


class Message(Command):
    """A message of any kind; ``content`` and ``marshalled_properties`` stay as they came, see `bodies`."""

    first: FirstEncoding | None = None
    """The octets it arrived in, if they can be passed on. Who changes a field that `codec.Encoder` does not patch
    sets it to None."""
    mark_sequence: i64 = 0
    mark_times: i64 = 0

    def retain(self, octets: bytes, layout: i64, start: i64) -> None:
        if self.data_structure is None and self.message_id is not None:
            times_mark = self.mark_times - start if self.mark_times > 0 else 0
            self.first = FirstEncoding(octets, layout, self.mark_sequence - start, times_mark)

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        producer_id: ProducerId | None = None,
        destination: Destination | None = None,
        transaction_id: TransactionId | None = None,
        original_destination: Destination | None = None,
        message_id: MessageId | None = None,
        original_transaction_id: TransactionId | None = None,
        group_id: str | None = None,
        group_sequence: i32 = 0,
        correlation_id: str | None = None,
        persistent: bool = False,
        expiration: i64 = 0,
        priority: i32 = 0,
        reply_to: Destination | None = None,
        timestamp: i64 = 0,
        jms_type: str | None = None,
        content: bytes | None = None,
        marshalled_properties: bytes | None = None,
        data_structure: Structure | None = None,
        target_consumer_id: ConsumerId | None = None,
        compressed: bool = False,
        redelivery_counter: i32 = 0,
        broker_path: list[BrokerId] | None = None,
        arrival: i64 = 0,
        user_id: str | None = None,
        received_by_df_bridge: bool = False,
        droppable: bool = False,
        cluster: list[BrokerId] | None = None,
        broker_in_time: i64 = 0,
        broker_out_time: i64 = 0,
        jmsx_group_first_for_consumer: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.destination = destination
        self.transaction_id = transaction_id
        self.original_destination = original_destination
        self.message_id = message_id
        self.original_transaction_id = original_transaction_id
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.correlation_id = correlation_id
        self.persistent = persistent
        self.expiration = expiration
        self.priority = priority
        self.reply_to = reply_to
        self.timestamp = timestamp
        self.jms_type = jms_type
        self.content = content
        self.marshalled_properties = marshalled_properties
        self.data_structure = data_structure
        self.target_consumer_id = target_consumer_id
        self.compressed = compressed
        self.redelivery_counter = redelivery_counter
        self.broker_path = broker_path
        self.arrival = arrival
        self.user_id = user_id
        self.received_by_df_bridge = received_by_df_bridge
        self.droppable = droppable
        self.cluster = cluster
        self.broker_in_time = broker_in_time
        self.broker_out_time = broker_out_time
        self.jmsx_group_first_for_consumer = jmsx_group_first_for_consumer

    def padded(self) -> bool:
        return True

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.producer_id = _producer_id(source, source.cached())
        self.destination = _destination(source, source.cached())
        self.transaction_id = _transaction_id(source, source.cached())
        self.original_destination = _destination(source, source.cached())
        self.message_id = _message_id(source, source.nested())
        self.mark_sequence = source.at
        self.original_transaction_id = _transaction_id(source, source.cached())
        self.group_id = source.string()
        self.group_sequence = source.int32()
        self.correlation_id = source.string()
        self.persistent = source.boolean()
        self.expiration = source.long()
        self.priority = source.byte()
        self.reply_to = _destination(source, source.nested())
        self.timestamp = source.long()
        self.jms_type = source.string()
        self.content = source.octets()
        self.marshalled_properties = source.octets()
        self.data_structure = source.nested()
        self.target_consumer_id = _consumer_id(source, source.cached())
        self.compressed = source.boolean()
        self.redelivery_counter = source.int32()
        self.broker_path = _broker_ids(source, source.array())
        self.arrival = source.long()
        self.user_id = source.string()
        self.received_by_df_bridge = source.boolean()
        if source.version >= 2:
            self.droppable = source.boolean()
        if source.version >= 3:
            self.cluster = _broker_ids(source, source.array())
        if source.version >= 3:
            self.broker_in_time = source.long()
        if source.version >= 3:
            self.broker_out_time = source.long()
            self.mark_times = source.at
        if source.version >= 10:
            self.jmsx_group_first_for_consumer = source.boolean()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.producer_id)
        target.cached(self.destination)
        target.cached(self.transaction_id)
        target.cached(self.original_destination)
        target.nested(self.message_id)
        target.cached(self.original_transaction_id)
        target.string(self.group_id)
        target.int32(self.group_sequence)
        target.string(self.correlation_id)
        target.boolean(self.persistent)
        target.long(self.expiration)
        target.byte(self.priority)
        target.nested(self.reply_to)
        target.long(self.timestamp)
        target.string(self.jms_type)
        target.octets(self.content)
        target.octets(self.marshalled_properties)
        target.nested(self.data_structure)
        target.cached(self.target_consumer_id)
        target.boolean(self.compressed)
        target.int32(self.redelivery_counter)
        target.array(self.broker_path)
        target.long(self.arrival)
        target.string(self.user_id)
        target.boolean(self.received_by_df_bridge)
        if target.version >= 2:
            target.boolean(self.droppable)
        if target.version >= 3:
            target.array(self.cluster)
        if target.version >= 3:
            target.long(self.broker_in_time)
        if target.version >= 3:
            target.long(self.broker_out_time)
        if target.version >= 10:
            target.boolean(self.jmsx_group_first_for_consumer)


class ActiveMQMessage(Message):
    """A message without a body. Type 23."""

    @property
    def type_id(self) -> int:
        return 23

    def fresh(self) -> Structure:
        return ActiveMQMessage()


class ActiveMQBytesMessage(Message):
    """A message whose body is octets. Type 24."""

    @property
    def type_id(self) -> int:
        return 24

    def fresh(self) -> Structure:
        return ActiveMQBytesMessage()


class ActiveMQMapMessage(Message):
    """A message whose body is a primitive map. Type 25."""

    @property
    def type_id(self) -> int:
        return 25

    def fresh(self) -> Structure:
        return ActiveMQMapMessage()


class ActiveMQObjectMessage(Message):
    """A message whose body is a serialised Java object; never opened here. Type 26."""

    @property
    def type_id(self) -> int:
        return 26

    def fresh(self) -> Structure:
        return ActiveMQObjectMessage()


class ActiveMQStreamMessage(Message):
    """A message whose body is a row of primitives. Type 27."""

    @property
    def type_id(self) -> int:
        return 27

    def fresh(self) -> Structure:
        return ActiveMQStreamMessage()


class ActiveMQTextMessage(Message):
    """A message whose body is text. Type 28."""

    @property
    def type_id(self) -> int:
        return 28

    def fresh(self) -> Structure:
        return ActiveMQTextMessage()


class ActiveMQBlobMessage(Message):
    """A message whose body lies elsewhere. Type 29. Since version 3."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        producer_id: ProducerId | None = None,
        destination: Destination | None = None,
        transaction_id: TransactionId | None = None,
        original_destination: Destination | None = None,
        message_id: MessageId | None = None,
        original_transaction_id: TransactionId | None = None,
        group_id: str | None = None,
        group_sequence: i32 = 0,
        correlation_id: str | None = None,
        persistent: bool = False,
        expiration: i64 = 0,
        priority: i32 = 0,
        reply_to: Destination | None = None,
        timestamp: i64 = 0,
        jms_type: str | None = None,
        content: bytes | None = None,
        marshalled_properties: bytes | None = None,
        data_structure: Structure | None = None,
        target_consumer_id: ConsumerId | None = None,
        compressed: bool = False,
        redelivery_counter: i32 = 0,
        broker_path: list[BrokerId] | None = None,
        arrival: i64 = 0,
        user_id: str | None = None,
        received_by_df_bridge: bool = False,
        droppable: bool = False,
        cluster: list[BrokerId] | None = None,
        broker_in_time: i64 = 0,
        broker_out_time: i64 = 0,
        jmsx_group_first_for_consumer: bool = False,
        remote_blob_url: str | None = None,
        mime_type: str | None = None,
        deleted_by_broker: bool = False,
    ) -> None:
        super().__init__(command_id=command_id, response_required=response_required, producer_id=producer_id, destination=destination, transaction_id=transaction_id, original_destination=original_destination, message_id=message_id, original_transaction_id=original_transaction_id, group_id=group_id, group_sequence=group_sequence, correlation_id=correlation_id, persistent=persistent, expiration=expiration, priority=priority, reply_to=reply_to, timestamp=timestamp, jms_type=jms_type, content=content, marshalled_properties=marshalled_properties, data_structure=data_structure, target_consumer_id=target_consumer_id, compressed=compressed, redelivery_counter=redelivery_counter, broker_path=broker_path, arrival=arrival, user_id=user_id, received_by_df_bridge=received_by_df_bridge, droppable=droppable, cluster=cluster, broker_in_time=broker_in_time, broker_out_time=broker_out_time, jmsx_group_first_for_consumer=jmsx_group_first_for_consumer)
        self.remote_blob_url = remote_blob_url
        self.mime_type = mime_type
        self.deleted_by_broker = deleted_by_broker

    @property
    def type_id(self) -> int:
        return 29

    def fresh(self) -> Structure:
        return ActiveMQBlobMessage()

    def padded(self) -> bool:
        return True

    def read(self, source: FrameReader) -> None:
        super().read(source)
        self.remote_blob_url = source.string()
        self.mime_type = source.string()
        self.deleted_by_broker = source.boolean()

    def write(self, target: FrameWriter) -> None:
        super().write(target)
        target.string(self.remote_blob_url)
        target.string(self.mime_type)
        target.boolean(self.deleted_by_broker)


class Response(Command):
    """Answers the command whose id is ``correlation_id``. Type 30."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        correlation_id: i32 = 0,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id

    @property
    def type_id(self) -> int:
        return 30

    def fresh(self) -> Structure:
        return Response()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.correlation_id = source.int32()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.int32(self.correlation_id)


class ExceptionResponse(Response):
    """Refuses a command. Type 31."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        correlation_id: i32 = 0,
        exception: Throwable | None = None,
    ) -> None:
        super().__init__(command_id=command_id, response_required=response_required, correlation_id=correlation_id)
        self.exception = exception

    @property
    def type_id(self) -> int:
        return 31

    def fresh(self) -> Structure:
        return ExceptionResponse()

    def read(self, source: FrameReader) -> None:
        super().read(source)
        self.exception = source.throwable()

    def write(self, target: FrameWriter) -> None:
        super().write(target)
        target.throwable(self.exception)


class DataResponse(Response):
    """Answers with one structure. Type 32."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        correlation_id: i32 = 0,
        data: Structure | None = None,
    ) -> None:
        super().__init__(command_id=command_id, response_required=response_required, correlation_id=correlation_id)
        self.data = data

    @property
    def type_id(self) -> int:
        return 32

    def fresh(self) -> Structure:
        return DataResponse()

    def read(self, source: FrameReader) -> None:
        super().read(source)
        self.data = source.nested()

    def write(self, target: FrameWriter) -> None:
        super().write(target)
        target.nested(self.data)


class DataArrayResponse(Response):
    """Answers with several structures. Type 33."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        correlation_id: i32 = 0,
        data: list[Structure] | None = None,
    ) -> None:
        super().__init__(command_id=command_id, response_required=response_required, correlation_id=correlation_id)
        self.data = data

    @property
    def type_id(self) -> int:
        return 33

    def fresh(self) -> Structure:
        return DataArrayResponse()

    def read(self, source: FrameReader) -> None:
        super().read(source)
        self.data = source.array()

    def write(self, target: FrameWriter) -> None:
        super().write(target)
        target.array(self.data)


class IntegerResponse(Response):
    """Answers with a number. Type 34."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        correlation_id: i32 = 0,
        result: i32 = 0,
    ) -> None:
        super().__init__(command_id=command_id, response_required=response_required, correlation_id=correlation_id)
        self.result = result

    @property
    def type_id(self) -> int:
        return 34

    def fresh(self) -> Structure:
        return IntegerResponse()

    def read(self, source: FrameReader) -> None:
        super().read(source)
        self.result = source.int32()

    def write(self, target: FrameWriter) -> None:
        super().write(target)
        target.int32(self.result)


class DiscoveryEvent(Structure):
    """A broker was found or lost. Type 40."""

    def __init__(
        self,
        *,
        service_name: str | None = None,
        broker_name: str | None = None,
    ) -> None:
        self.service_name = service_name
        self.broker_name = broker_name

    @property
    def type_id(self) -> int:
        return 40

    def fresh(self) -> Structure:
        return DiscoveryEvent()

    def read(self, source: FrameReader) -> None:
        self.service_name = source.string()
        self.broker_name = source.string()

    def write(self, target: FrameWriter) -> None:
        target.string(self.service_name)
        target.string(self.broker_name)


class JournalTopicAck(Structure):
    """Journal record: a durable subscription settled a message. Type 50."""

    def __init__(
        self,
        *,
        destination: Destination | None = None,
        message_id: MessageId | None = None,
        message_sequence_id: i64 = 0,
        subscription_name: str | None = None,
        client_id: str | None = None,
        transaction_id: TransactionId | None = None,
    ) -> None:
        self.destination = destination
        self.message_id = message_id
        self.message_sequence_id = message_sequence_id
        self.subscription_name = subscription_name
        self.client_id = client_id
        self.transaction_id = transaction_id

    @property
    def type_id(self) -> int:
        return 50

    def fresh(self) -> Structure:
        return JournalTopicAck()

    def read(self, source: FrameReader) -> None:
        self.destination = _destination(source, source.nested())
        self.message_id = _message_id(source, source.nested())
        self.message_sequence_id = source.long()
        self.subscription_name = source.string()
        self.client_id = source.string()
        self.transaction_id = _transaction_id(source, source.nested())

    def write(self, target: FrameWriter) -> None:
        target.nested(self.destination)
        target.nested(self.message_id)
        target.long(self.message_sequence_id)
        target.string(self.subscription_name)
        target.string(self.client_id)
        target.nested(self.transaction_id)


class JournalQueueAck(Structure):
    """Journal record: a queue's message was settled. Type 52."""

    def __init__(
        self,
        *,
        destination: Destination | None = None,
        message_ack: MessageAck | None = None,
    ) -> None:
        self.destination = destination
        self.message_ack = message_ack

    @property
    def type_id(self) -> int:
        return 52

    def fresh(self) -> Structure:
        return JournalQueueAck()

    def read(self, source: FrameReader) -> None:
        self.destination = _destination(source, source.nested())
        self.message_ack = _message_ack(source, source.nested())

    def write(self, target: FrameWriter) -> None:
        target.nested(self.destination)
        target.nested(self.message_ack)


class JournalTrace(Structure):
    """Journal record: a remark. Type 53."""

    def __init__(
        self,
        *,
        message: str | None = None,
    ) -> None:
        self.message = message

    @property
    def type_id(self) -> int:
        return 53

    def fresh(self) -> Structure:
        return JournalTrace()

    def read(self, source: FrameReader) -> None:
        self.message = source.string()

    def write(self, target: FrameWriter) -> None:
        target.string(self.message)


class JournalTransaction(Structure):
    """Journal record: a transaction. Type 54."""

    def __init__(
        self,
        *,
        transaction_id: TransactionId | None = None,
        type: i32 = 0,
        was_prepared: bool = False,
    ) -> None:
        self.transaction_id = transaction_id
        self.type = type
        self.was_prepared = was_prepared

    @property
    def type_id(self) -> int:
        return 54

    def fresh(self) -> Structure:
        return JournalTransaction()

    def read(self, source: FrameReader) -> None:
        self.transaction_id = _transaction_id(source, source.nested())
        self.type = source.byte()
        self.was_prepared = source.boolean()

    def write(self, target: FrameWriter) -> None:
        target.nested(self.transaction_id)
        target.byte(self.type)
        target.boolean(self.was_prepared)


class SubscriptionInfo(Structure):
    """A durable subscription as it is stored. Type 55."""

    def __init__(
        self,
        *,
        client_id: str | None = None,
        destination: Destination | None = None,
        selector: str | None = None,
        subscription_name: str | None = None,
        subscribed_destination: Destination | None = None,
        no_local: bool = False,
    ) -> None:
        self.client_id = client_id
        self.destination = destination
        self.selector = selector
        self.subscription_name = subscription_name
        self.subscribed_destination = subscribed_destination
        self.no_local = no_local

    @property
    def type_id(self) -> int:
        return 55

    def fresh(self) -> Structure:
        return SubscriptionInfo()

    def read(self, source: FrameReader) -> None:
        self.client_id = source.string()
        self.destination = _destination(source, source.cached())
        self.selector = source.string()
        self.subscription_name = source.string()
        if source.version >= 3:
            self.subscribed_destination = _destination(source, source.nested())
        if source.version >= 11:
            self.no_local = source.boolean()

    def write(self, target: FrameWriter) -> None:
        target.string(self.client_id)
        target.cached(self.destination)
        target.string(self.selector)
        target.string(self.subscription_name)
        if target.version >= 3:
            target.nested(self.subscribed_destination)
        if target.version >= 11:
            target.boolean(self.no_local)


class PartialCommand(Structure):
    """A piece of a large command (UDP). Type 60."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        data: bytes | None = None,
    ) -> None:
        self.command_id = command_id
        self.data = data

    @property
    def type_id(self) -> int:
        return 60

    def fresh(self) -> Structure:
        return PartialCommand()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.data = source.octets()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.octets(self.data)


class LastPartialCommand(PartialCommand):
    """The last piece of a large command (UDP). Type 61."""

    @property
    def type_id(self) -> int:
        return 61

    def fresh(self) -> Structure:
        return LastPartialCommand()


class ReplayCommand(Command):
    """Asks for lost datagrams. Type 65."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        first_nak_number: i32 = 0,
        last_nak_number: i32 = 0,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.first_nak_number = first_nak_number
        self.last_nak_number = last_nak_number

    @property
    def type_id(self) -> int:
        return 65

    def fresh(self) -> Structure:
        return ReplayCommand()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.first_nak_number = source.int32()
        self.last_nak_number = source.int32()

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.int32(self.first_nak_number)
        target.int32(self.last_nak_number)


class MessageDispatchNotification(Command):
    """Tells a passive broker what the active one dispatched. Type 90."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        consumer_id: ConsumerId | None = None,
        destination: Destination | None = None,
        delivery_sequence_id: i64 = 0,
        message_id: MessageId | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.delivery_sequence_id = delivery_sequence_id
        self.message_id = message_id

    @property
    def type_id(self) -> int:
        return 90

    def fresh(self) -> Structure:
        return MessageDispatchNotification()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.consumer_id = _consumer_id(source, source.cached())
        self.destination = _destination(source, source.cached())
        self.delivery_sequence_id = source.long()
        self.message_id = _message_id(source, source.nested())

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.cached(self.consumer_id)
        target.cached(self.destination)
        target.long(self.delivery_sequence_id)
        target.nested(self.message_id)


class NetworkBridgeFilter(Structure):
    """What may come back over a bridge. Before version 10 one number stands for both limits. Type 91."""

    def __init__(
        self,
        *,
        message_ttl: i32 = 0,
        network_broker_id: BrokerId | None = None,
        consumer_ttl: i32 = 0,
    ) -> None:
        self.message_ttl = message_ttl
        self.network_broker_id = network_broker_id
        self.consumer_ttl = consumer_ttl

    @property
    def type_id(self) -> int:
        return 91

    def fresh(self) -> Structure:
        return NetworkBridgeFilter()

    def read(self, source: FrameReader) -> None:
        if source.version <= 9:
            self.message_ttl = source.int32()
            self.consumer_ttl = self.message_ttl
        self.network_broker_id = _broker_id(source, source.cached())
        if source.version >= 10:
            self.message_ttl = source.int32()
        if source.version >= 10:
            self.consumer_ttl = source.int32()

    def write(self, target: FrameWriter) -> None:
        if target.version <= 9:
            target.int32(self.message_ttl)
        target.cached(self.network_broker_id)
        if target.version >= 10:
            target.int32(self.message_ttl)
        if target.version >= 10:
            target.int32(self.consumer_ttl)


class BrokerSubscriptionInfo(Command):
    """The durable subscriptions of a broker, for its bridges. Type 92. Since version 12."""

    def __init__(
        self,
        *,
        command_id: i32 = 0,
        response_required: bool = False,
        broker_id: BrokerId | None = None,
        broker_name: str | None = None,
        subscription_infos: list[ConsumerInfo] | None = None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_name = broker_name
        self.subscription_infos = subscription_infos

    @property
    def type_id(self) -> int:
        return 92

    def fresh(self) -> Structure:
        return BrokerSubscriptionInfo()

    def read(self, source: FrameReader) -> None:
        self.command_id = source.int32()
        self.response_required = source.boolean()
        self.broker_id = _broker_id(source, source.nested())
        self.broker_name = source.string()
        self.subscription_infos = _consumer_infos(source, source.array())

    def write(self, target: FrameWriter) -> None:
        target.int32(self.command_id)
        target.boolean(self.response_required)
        target.nested(self.broker_id)
        target.string(self.broker_name)
        target.array(self.subscription_infos)


def _producer_id(source: FrameReader, value: Structure | None) -> ProducerId | None:
    if value is None or isinstance(value, ProducerId):
        return value
    raise source.misplaced(value, "ProducerId")


def _connection_id(source: FrameReader, value: Structure | None) -> ConnectionId | None:
    if value is None or isinstance(value, ConnectionId):
        return value
    raise source.misplaced(value, "ConnectionId")


def _broker_id(source: FrameReader, value: Structure | None) -> BrokerId | None:
    if value is None or isinstance(value, BrokerId):
        return value
    raise source.misplaced(value, "BrokerId")


def _session_id(source: FrameReader, value: Structure | None) -> SessionId | None:
    if value is None or isinstance(value, SessionId):
        return value
    raise source.misplaced(value, "SessionId")


def _consumer_id(source: FrameReader, value: Structure | None) -> ConsumerId | None:
    if value is None or isinstance(value, ConsumerId):
        return value
    raise source.misplaced(value, "ConsumerId")


def _destination(source: FrameReader, value: Structure | None) -> Destination | None:
    if value is None or isinstance(value, Destination):
        return value
    raise source.misplaced(value, "Destination")


def _network_bridge_filter(source: FrameReader, value: Structure | None) -> NetworkBridgeFilter | None:
    if value is None or isinstance(value, NetworkBridgeFilter):
        return value
    raise source.misplaced(value, "NetworkBridgeFilter")


def _transaction_id(source: FrameReader, value: Structure | None) -> TransactionId | None:
    if value is None or isinstance(value, TransactionId):
        return value
    raise source.misplaced(value, "TransactionId")


def _message_id(source: FrameReader, value: Structure | None) -> MessageId | None:
    if value is None or isinstance(value, MessageId):
        return value
    raise source.misplaced(value, "MessageId")


def _message(source: FrameReader, value: Structure | None) -> Message | None:
    if value is None or isinstance(value, Message):
        return value
    raise source.misplaced(value, "Message")


def _message_ack(source: FrameReader, value: Structure | None) -> MessageAck | None:
    if value is None or isinstance(value, MessageAck):
        return value
    raise source.misplaced(value, "MessageAck")


def _broker_infos(source: FrameReader, values: list[Structure] | None) -> list[BrokerInfo] | None:
    if values is None:
        return None
    checked: list[BrokerInfo] = []
    for value in values:
        if not isinstance(value, BrokerInfo):
            raise source.misplaced(value, "BrokerInfo")
        checked.append(value)
    return checked


def _broker_ids(source: FrameReader, values: list[Structure] | None) -> list[BrokerId] | None:
    if values is None:
        return None
    checked: list[BrokerId] = []
    for value in values:
        if not isinstance(value, BrokerId):
            raise source.misplaced(value, "BrokerId")
        checked.append(value)
    return checked


def _consumer_ids(source: FrameReader, values: list[Structure] | None) -> list[ConsumerId] | None:
    if values is None:
        return None
    checked: list[ConsumerId] = []
    for value in values:
        if not isinstance(value, ConsumerId):
            raise source.misplaced(value, "ConsumerId")
        checked.append(value)
    return checked


def _consumer_infos(source: FrameReader, values: list[Structure] | None) -> list[ConsumerInfo] | None:
    if values is None:
        return None
    checked: list[ConsumerInfo] = []
    for value in values:
        if not isinstance(value, ConsumerInfo):
            raise source.misplaced(value, "ConsumerInfo")
        checked.append(value)
    return checked


PROTOTYPES: Final[list[Structure]] = [
    ActiveMQQueue(),
    ActiveMQTopic(),
    ActiveMQTempQueue(),
    ActiveMQTempTopic(),
    BrokerId(),
    ConnectionId(),
    SessionId(),
    ConsumerId(),
    ProducerId(),
    MessageId(),
    LocalTransactionId(),
    XATransactionId(),
    WireFormatInfo(),
    BrokerInfo(),
    ConnectionInfo(),
    SessionInfo(),
    ConsumerInfo(),
    ProducerInfo(),
    TransactionInfo(),
    DestinationInfo(),
    RemoveSubscriptionInfo(),
    KeepAliveInfo(),
    ShutdownInfo(),
    RemoveInfo(),
    ControlCommand(),
    FlushCommand(),
    ConnectionError(),
    ConsumerControl(),
    ConnectionControl(),
    ProducerAck(),
    MessagePull(),
    MessageDispatch(),
    MessageAck(),
    ActiveMQMessage(),
    ActiveMQBytesMessage(),
    ActiveMQMapMessage(),
    ActiveMQObjectMessage(),
    ActiveMQStreamMessage(),
    ActiveMQTextMessage(),
    ActiveMQBlobMessage(),
    Response(),
    ExceptionResponse(),
    DataResponse(),
    DataArrayResponse(),
    IntegerResponse(),
    DiscoveryEvent(),
    JournalTopicAck(),
    JournalQueueAck(),
    JournalTrace(),
    JournalTransaction(),
    SubscriptionInfo(),
    PartialCommand(),
    LastPartialCommand(),
    ReplayCommand(),
    MessageDispatchNotification(),
    NetworkBridgeFilter(),
    BrokerSubscriptionInfo(),
]
"""One of each: asked for a fresh structure, so that no name from the wire ever makes one."""
