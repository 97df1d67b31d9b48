"""The packets of CORE as classes, written by ``tools/core_packets.py`` from `schema`: change that, not this.

Every class takes its fields as keywords; a field that the version of a channel has no room for keeps its default.
``channel`` is where a packet came from or goes to. ``form`` is the id under which it came; 0: it is written in the
newest form that the channel has. ``octets``: the length of the frame in which it came.

Messages are kept closed: see `headers`, `properties` and `bodies`. [C]
"""
# ruff: noqa: D102, E501
# fmt: off

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.protocols.artemis.primitives import Connector, PacketReader, PacketWriter, Xid


class Packet:
    """One packet."""

    channel: i64 = 0
    form: i64 = 0
    octets: i64 = 0

    def number(self, version: i64) -> i64:
        """Return the id under which it is written on a channel of ``version``."""
        raise NotImplementedError

    def fresh(self) -> Packet:
        """Return one with nothing in it."""
        raise NotImplementedError

    def confirmed(self) -> bool:
        """Return whether both sides count it, and keep it until the other one confirms it (artemis.md 5.2.6)."""
        return True

    def read(self, source: PacketReader) -> None:
        """Fill it from a frame. Raises MalformedFrame."""

    def write(self, target: PacketWriter) -> None:
        """Write what follows the head of its frame. Raises Inexpressible."""


class Ping(Packet):
    """Says that the sender is alive, and how long it is to be believed, in ms. PING, id 10."""

    def __init__(
        self,
        *,
        ttl: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.ttl: i64 = ttl
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 10

    def fresh(self) -> Packet:
        return Ping()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        self.ttl = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.ttl)


class Disconnect(Packet):
    """The server ends the connection; the client fails over. Reason 2: it stops, 0: go to ``target``. DISCONNECT, id 11, 124 from 125 on, -19 from 131 on."""

    def __init__(
        self,
        *,
        node: str | None = None,
        scale_down_node: str | None = None,
        reason: i64 = -1,
        target_node: str | None = None,
        target: Connector | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.node: str | None = node
        self.scale_down_node: str | None = scale_down_node
        self.reason: i64 = reason
        self.target_node: str | None = target_node
        self.target: Connector | None = target
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 131:
            return -19
        if version >= 125:
            return 124
        return 11

    def fresh(self) -> Packet:
        return Disconnect()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.node = source.nullable_simple()
        if form == 124:
            self.scale_down_node = source.nullable_simple()
        if form == -19:
            self.reason = source.byte()
            self.target_node = source.nullable_simple()
            self.target = source.nullable_connector()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.nullable_simple(self.node)
        if form == 124:
            target.nullable_simple(self.scale_down_node)
        if form == -19:
            target.byte(self.reason)
            target.nullable_simple(self.target_node)
            target.nullable_connector(self.target)


class DisconnectConsumer(Packet):
    """The server closed a consumer: its queue was deleted, or an administrator did it. DISCONNECT_CONSUMER, id 12."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 12

    def fresh(self) -> Packet:
        return DisconnectConsumer()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)


class DisconnectConsumerKill(Packet):
    """A slow consumer is sent away for good: the client does not reconnect. DISCONNECT_CONSUMER_KILL, id 13."""

    def __init__(
        self,
        *,
        node: str | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.node: str | None = node
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 13

    def fresh(self) -> Packet:
        return DisconnectConsumerKill()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        self.node = source.nullable_simple()

    def write(self, target: PacketWriter) -> None:
        target.nullable_simple(self.node)


class ExceptionReply(Packet):
    """Refuses a request, with a code of 5.2.9. ``correlation`` only where the request had one. EXCEPTION, id 20."""

    def __init__(
        self,
        *,
        code: i64 = 0,
        text: str | None = None,
        correlation: int | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.code: i64 = code
        self.text: str | None = text
        self.correlation: int | None = correlation
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 20

    def fresh(self) -> Packet:
        return ExceptionReply()

    def read(self, source: PacketReader) -> None:
        self.code = source.int32()
        self.text = source.nullable_text()
        if source.version >= 130 and source.at < source.end:
            self.correlation = int(source.int64())

    def write(self, target: PacketWriter) -> None:
        target.int32(self.code)
        target.nullable_text(self.text)
        if target.version >= 130:
            correlation = self.correlation
            if correlation is None:
                return
            target.int64(correlation)


class NullReply(Packet):
    """Done. ``correlation`` is the request's, or -1 where it had none. NULL_RESPONSE, id 21."""

    def __init__(
        self,
        *,
        correlation: int | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.correlation: int | None = correlation
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 21

    def fresh(self) -> Packet:
        return NullReply()

    def read(self, source: PacketReader) -> None:
        if source.version >= 130 and source.at < source.end:
            self.correlation = int(source.int64())

    def write(self, target: PacketWriter) -> None:
        if target.version >= 130:
            correlation = self.correlation
            if correlation is None:
                return
            target.int64(correlation)


class PacketsConfirmed(Packet):
    """All packets up to this count were received. PACKETS_CONFIRMED, id 22."""

    def __init__(
        self,
        *,
        command: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.command: i64 = command
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 22

    def fresh(self) -> Packet:
        return PacketsConfirmed()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        self.command = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.command)


class SubscribeTopology(Packet):
    """Asks for the topology, now and whenever it changes. SUBSCRIBE_TOPOLOGY, id 112, 113 from 122 on."""

    def __init__(
        self,
        *,
        cluster_connection: bool = False,
        version: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.cluster_connection: bool = cluster_connection
        self.version: i64 = version
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 122:
            return 113
        return 112

    def fresh(self) -> Packet:
        return SubscribeTopology()

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.cluster_connection = source.boolean()
        if form != 112:
            self.version = source.int32()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.boolean(self.cluster_connection)
        if form != 112:
            target.int32(self.version)


class ClusterTopology(Packet):
    """A member of the cluster comes, changes or goes. A removal travels in form 2 to every version from 122 on. CLUSTER_TOPOLOGY, id 110, 114 from 122 on, 122 from 125 on, -17 from 131 on."""

    def __init__(
        self,
        *,
        exit: bool = False,
        node: str = "",
        event: i64 = 0,
        primary: Connector | None = None,
        backup: Connector | None = None,
        last: bool = False,
        backup_group: str | None = None,
        scale_down_group: str | None = None,
        server_version: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.exit: bool = exit
        self.node: str = node
        self.event: i64 = event
        self.primary: Connector | None = primary
        self.backup: Connector | None = backup
        self.last: bool = last
        self.backup_group: str | None = backup_group
        self.scale_down_group: str | None = scale_down_group
        self.server_version: i64 = server_version
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 131:
            return -17
        if version >= 125:
            return 122
        if version >= 122:
            return 114
        return 110

    def fresh(self) -> Packet:
        return ClusterTopology()

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.exit = source.boolean()
        self.node = source.text()
        if form != 110:
            self.event = source.int64()
        if not self.exit:
            self.primary = source.nullable_connector()
            self.backup = source.nullable_connector()
            self.last = source.boolean()
        if form != 110:
            self.backup_group = source.nullable_text()
        if form in (122, -17):
            self.scale_down_group = source.nullable_text()
        if form == -17:
            self.server_version = source.int32()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.boolean(self.exit)
        target.text(self.node)
        if form != 110:
            target.int64(self.event)
        if not self.exit:
            target.nullable_connector(self.primary)
            target.nullable_connector(self.backup)
            target.boolean(self.last)
        if form != 110:
            target.nullable_text(self.backup_group)
        if form in (122, -17):
            target.nullable_text(self.scale_down_group)
        if form == -17:
            target.int32(self.server_version)


class CreateSession(Packet):
    """Opens a session on ``session_channel``; ``window`` is the confirmation window in octets, -1: none. CREATESESSION, id 30, -18 from 131 on."""

    def __init__(
        self,
        *,
        name: str = "",
        session_channel: i64 = 0,
        version: i64 = 0,
        user: str | None = None,
        password: str | None = None,
        min_large: i64 = 0,
        xa: bool = False,
        auto_commit_sends: bool = False,
        auto_commit_acks: bool = False,
        window: i64 = 0,
        pre_ack: bool = False,
        default_address: str | None = None,
        client_id: str | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.name: str = name
        self.session_channel: i64 = session_channel
        self.version: i64 = version
        self.user: str | None = user
        self.password: str | None = password
        self.min_large: i64 = min_large
        self.xa: bool = xa
        self.auto_commit_sends: bool = auto_commit_sends
        self.auto_commit_acks: bool = auto_commit_acks
        self.window: i64 = window
        self.pre_ack: bool = pre_ack
        self.default_address: str | None = default_address
        self.client_id: str | None = client_id
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 131:
            return -18
        return 30

    def fresh(self) -> Packet:
        return CreateSession()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.name = source.text()
        self.session_channel = source.int64()
        self.version = source.int32()
        self.user = source.nullable_text()
        self.password = source.nullable_text()
        self.min_large = source.int32()
        self.xa = source.boolean()
        self.auto_commit_sends = source.boolean()
        self.auto_commit_acks = source.boolean()
        self.window = source.int32()
        self.pre_ack = source.boolean()
        self.default_address = source.nullable_text()
        if form != 30:
            self.client_id = source.nullable_text()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.text(self.name)
        target.int64(self.session_channel)
        target.int32(self.version)
        target.nullable_text(self.user)
        target.nullable_text(self.password)
        target.int32(self.min_large)
        target.boolean(self.xa)
        target.boolean(self.auto_commit_sends)
        target.boolean(self.auto_commit_acks)
        target.int32(self.window)
        target.boolean(self.pre_ack)
        target.nullable_text(self.default_address)
        if form != 30:
            target.nullable_text(self.client_id)


class CreateSessionReply(Packet):
    """The session is open. CREATESESSION_RESP, id 31."""

    def __init__(
        self,
        *,
        server_version: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.server_version: i64 = server_version
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 31

    def fresh(self) -> Packet:
        return CreateSessionReply()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        self.server_version = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.server_version)


class ReattachSession(Packet):
    """Moves a session to this connection. REATTACH_SESSION, id 32."""

    def __init__(
        self,
        *,
        name: str = "",
        last_confirmed: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.name: str = name
        self.last_confirmed: i64 = last_confirmed
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 32

    def fresh(self) -> Packet:
        return ReattachSession()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        self.name = source.text()
        self.last_confirmed = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.text(self.name)
        target.int32(self.last_confirmed)


class ReattachSessionReply(Packet):
    """Says what the server has of the session; not ``reattached``: it must be made anew. REATTACH_SESSION_RESP, id 33."""

    def __init__(
        self,
        *,
        last_confirmed: i64 = 0,
        reattached: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.last_confirmed: i64 = last_confirmed
        self.reattached: bool = reattached
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 33

    def fresh(self) -> Packet:
        return ReattachSessionReply()

    def confirmed(self) -> bool:
        return False

    def read(self, source: PacketReader) -> None:
        self.last_confirmed = source.int32()
        self.reattached = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.last_confirmed)
        target.boolean(self.reattached)


class CheckForFailover(Packet):
    """Asks a backup whether it took over ``node``. CHECK_FOR_FAILOVER, id -4."""

    def __init__(
        self,
        *,
        node: str | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.node: str | None = node
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -4

    def fresh(self) -> Packet:
        return CheckForFailover()

    def read(self, source: PacketReader) -> None:
        self.node = source.nullable_text()

    def write(self, target: PacketWriter) -> None:
        target.nullable_text(self.node)


class CheckForFailoverReply(Packet):
    """Whether it did. CHECK_FOR_FAILOVER_REPLY, id -5."""

    def __init__(
        self,
        *,
        ok: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.ok: bool = ok
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -5

    def fresh(self) -> Packet:
        return CheckForFailoverReply()

    def read(self, source: PacketReader) -> None:
        self.ok = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.boolean(self.ok)


class CreateAddress(Packet):
    """Creates an address; one that exists is no error. CREATE_ADDRESS, id -11."""

    def __init__(
        self,
        *,
        address: str = "",
        routing_types: list[int] | None = None,
        require_response: bool = False,
        auto_created: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.address: str = address
        self.routing_types: list[int] = [] if routing_types is None else routing_types
        self.require_response: bool = require_response
        self.auto_created: bool = auto_created
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -11

    def fresh(self) -> Packet:
        return CreateAddress()

    def read(self, source: PacketReader) -> None:
        self.address = source.simple()
        self.routing_types = source.routings()
        self.require_response = source.boolean()
        self.auto_created = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.address)
        target.routings(self.routing_types)
        target.boolean(self.require_response)
        target.boolean(self.auto_created)


class CreateQueue(Packet):
    """Creates a queue. ``routing`` 0 multicast, 1 anycast, -1 what the address has. CREATE_QUEUE, id 34, -12 from 129 on."""

    def __init__(
        self,
        *,
        address: str = "",
        queue: str = "",
        filter: str | None = None,
        durable: bool = False,
        temporary: bool = False,
        require_response: bool = False,
        auto_created: bool = False,
        routing: i64 = -1,
        max_consumers: i64 = -1,
        purge_on_no_consumers: bool = False,
        exclusive: bool | None = None,
        last_value: bool | None = None,
        last_value_key: str | None = None,
        non_destructive: bool | None = None,
        consumers_before_dispatch: int | None = None,
        delay_before_dispatch: int | None = None,
        group_rebalance: bool | None = None,
        group_buckets: int | None = None,
        auto_delete: bool | None = None,
        auto_delete_delay: int | None = None,
        auto_delete_message_count: int | None = None,
        group_first_key: str | None = None,
        ring_size: int | None = None,
        enabled: bool | None = None,
        group_rebalance_pause_dispatch: bool | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.address: str = address
        self.queue: str = queue
        self.filter: str | None = filter
        self.durable: bool = durable
        self.temporary: bool = temporary
        self.require_response: bool = require_response
        self.auto_created: bool = auto_created
        self.routing: i64 = routing
        self.max_consumers: i64 = max_consumers
        self.purge_on_no_consumers: bool = purge_on_no_consumers
        self.exclusive: bool | None = exclusive
        self.last_value: bool | None = last_value
        self.last_value_key: str | None = last_value_key
        self.non_destructive: bool | None = non_destructive
        self.consumers_before_dispatch: int | None = consumers_before_dispatch
        self.delay_before_dispatch: int | None = delay_before_dispatch
        self.group_rebalance: bool | None = group_rebalance
        self.group_buckets: int | None = group_buckets
        self.auto_delete: bool | None = auto_delete
        self.auto_delete_delay: int | None = auto_delete_delay
        self.auto_delete_message_count: int | None = auto_delete_message_count
        self.group_first_key: str | None = group_first_key
        self.ring_size: int | None = ring_size
        self.enabled: bool | None = enabled
        self.group_rebalance_pause_dispatch: bool | None = group_rebalance_pause_dispatch
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 129:
            return -12
        return 34

    def fresh(self) -> Packet:
        return CreateQueue()

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.address = source.simple()
        self.queue = source.simple()
        self.filter = source.nullable_simple()
        self.durable = source.boolean()
        self.temporary = source.boolean()
        self.require_response = source.boolean()
        if form != 34:
            self.auto_created = source.boolean()
            self.routing = source.byte()
            self.max_consumers = source.int32()
            self.purge_on_no_consumers = source.boolean()
        if form != 34 and source.at < source.end:
            self.exclusive = source.nullable_boolean()
        if form != 34 and source.at < source.end:
            self.last_value = source.nullable_boolean()
        if form != 34 and source.at < source.end:
            self.last_value_key = source.nullable_simple()
        if form != 34 and source.at < source.end:
            self.non_destructive = source.nullable_boolean()
        if form != 34 and source.at < source.end:
            self.consumers_before_dispatch = source.nullable_int32()
        if form != 34 and source.at < source.end:
            self.delay_before_dispatch = source.nullable_int64()
        if form != 34 and source.at < source.end:
            self.group_rebalance = source.nullable_boolean()
        if form != 34 and source.at < source.end:
            self.group_buckets = source.nullable_int32()
        if form != 34 and source.at < source.end:
            self.auto_delete = source.nullable_boolean()
        if form != 34 and source.at < source.end:
            self.auto_delete_delay = source.nullable_int64()
        if form != 34 and source.at < source.end:
            self.auto_delete_message_count = source.nullable_int64()
        if form != 34 and source.at < source.end:
            self.group_first_key = source.nullable_simple()
        if form != 34 and source.at < source.end:
            self.ring_size = source.nullable_int64()
        if form != 34 and source.at < source.end:
            self.enabled = source.nullable_boolean()
        if form != 34 and source.at < source.end:
            self.group_rebalance_pause_dispatch = source.nullable_boolean()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.simple(self.address)
        target.simple(self.queue)
        target.nullable_simple(self.filter)
        target.boolean(self.durable)
        target.boolean(self.temporary)
        target.boolean(self.require_response)
        if form != 34:
            target.boolean(self.auto_created)
            target.byte(self.routing)
            target.int32(self.max_consumers)
            target.boolean(self.purge_on_no_consumers)
        if form != 34:
            target.nullable_boolean(self.exclusive)
        if form != 34:
            target.nullable_boolean(self.last_value)
        if form != 34:
            target.nullable_simple(self.last_value_key)
        if form != 34:
            target.nullable_boolean(self.non_destructive)
        if form != 34:
            target.nullable_int32(self.consumers_before_dispatch)
        if form != 34:
            target.nullable_int64(self.delay_before_dispatch)
        if form != 34:
            target.nullable_boolean(self.group_rebalance)
        if form != 34:
            target.nullable_int32(self.group_buckets)
        if form != 34:
            target.nullable_boolean(self.auto_delete)
        if form != 34:
            target.nullable_int64(self.auto_delete_delay)
        if form != 34:
            target.nullable_int64(self.auto_delete_message_count)
        if form != 34:
            target.nullable_simple(self.group_first_key)
        if form != 34:
            target.nullable_int64(self.ring_size)
        if form != 34:
            target.nullable_boolean(self.enabled)
        if form != 34:
            target.nullable_boolean(self.group_rebalance_pause_dispatch)


class CreateSharedQueue(Packet):
    """Creates a queue that several may read, unless the same one exists. CREATE_SHARED_QUEUE, id 36, -13 from 129 on."""

    def __init__(
        self,
        *,
        address: str = "",
        queue: str = "",
        filter: str | None = None,
        durable: bool = False,
        routing: i64 = -1,
        require_response: bool = False,
        max_consumers: int | None = None,
        purge_on_no_consumers: bool | None = None,
        exclusive: bool | None = None,
        last_value: bool | None = None,
        last_value_key: str | None = None,
        non_destructive: bool | None = None,
        consumers_before_dispatch: int | None = None,
        delay_before_dispatch: int | None = None,
        group_rebalance: bool | None = None,
        group_buckets: int | None = None,
        auto_delete: bool | None = None,
        auto_delete_delay: int | None = None,
        auto_delete_message_count: int | None = None,
        group_first_key: str | None = None,
        ring_size: int | None = None,
        enabled: bool | None = None,
        group_rebalance_pause_dispatch: bool | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.address: str = address
        self.queue: str = queue
        self.filter: str | None = filter
        self.durable: bool = durable
        self.routing: i64 = routing
        self.require_response: bool = require_response
        self.max_consumers: int | None = max_consumers
        self.purge_on_no_consumers: bool | None = purge_on_no_consumers
        self.exclusive: bool | None = exclusive
        self.last_value: bool | None = last_value
        self.last_value_key: str | None = last_value_key
        self.non_destructive: bool | None = non_destructive
        self.consumers_before_dispatch: int | None = consumers_before_dispatch
        self.delay_before_dispatch: int | None = delay_before_dispatch
        self.group_rebalance: bool | None = group_rebalance
        self.group_buckets: int | None = group_buckets
        self.auto_delete: bool | None = auto_delete
        self.auto_delete_delay: int | None = auto_delete_delay
        self.auto_delete_message_count: int | None = auto_delete_message_count
        self.group_first_key: str | None = group_first_key
        self.ring_size: int | None = ring_size
        self.enabled: bool | None = enabled
        self.group_rebalance_pause_dispatch: bool | None = group_rebalance_pause_dispatch
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 129:
            return -13
        return 36

    def fresh(self) -> Packet:
        return CreateSharedQueue()

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.address = source.simple()
        self.queue = source.simple()
        self.filter = source.nullable_simple()
        self.durable = source.boolean()
        if form != 36:
            self.routing = source.byte()
        self.require_response = source.boolean()
        if form != 36 and source.at < source.end:
            self.max_consumers = source.nullable_int32()
        if form != 36 and source.at < source.end:
            self.purge_on_no_consumers = source.nullable_boolean()
        if form != 36 and source.at < source.end:
            self.exclusive = source.nullable_boolean()
        if form != 36 and source.at < source.end:
            self.last_value = source.nullable_boolean()
        if form != 36 and source.at < source.end:
            self.last_value_key = source.nullable_simple()
        if form != 36 and source.at < source.end:
            self.non_destructive = source.nullable_boolean()
        if form != 36 and source.at < source.end:
            self.consumers_before_dispatch = source.nullable_int32()
        if form != 36 and source.at < source.end:
            self.delay_before_dispatch = source.nullable_int64()
        if form != 36 and source.at < source.end:
            self.group_rebalance = source.nullable_boolean()
        if form != 36 and source.at < source.end:
            self.group_buckets = source.nullable_int32()
        if form != 36 and source.at < source.end:
            self.auto_delete = source.nullable_boolean()
        if form != 36 and source.at < source.end:
            self.auto_delete_delay = source.nullable_int64()
        if form != 36 and source.at < source.end:
            self.auto_delete_message_count = source.nullable_int64()
        if form != 36 and source.at < source.end:
            self.group_first_key = source.nullable_simple()
        if form != 36 and source.at < source.end:
            self.ring_size = source.nullable_int64()
        if form != 36 and source.at < source.end:
            self.enabled = source.nullable_boolean()
        if form != 36 and source.at < source.end:
            self.group_rebalance_pause_dispatch = source.nullable_boolean()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.simple(self.address)
        target.simple(self.queue)
        target.nullable_simple(self.filter)
        target.boolean(self.durable)
        if form != 36:
            target.byte(self.routing)
        target.boolean(self.require_response)
        if form != 36:
            target.nullable_int32(self.max_consumers)
        if form != 36:
            target.nullable_boolean(self.purge_on_no_consumers)
        if form != 36:
            target.nullable_boolean(self.exclusive)
        if form != 36:
            target.nullable_boolean(self.last_value)
        if form != 36:
            target.nullable_simple(self.last_value_key)
        if form != 36:
            target.nullable_boolean(self.non_destructive)
        if form != 36:
            target.nullable_int32(self.consumers_before_dispatch)
        if form != 36:
            target.nullable_int64(self.delay_before_dispatch)
        if form != 36:
            target.nullable_boolean(self.group_rebalance)
        if form != 36:
            target.nullable_int32(self.group_buckets)
        if form != 36:
            target.nullable_boolean(self.auto_delete)
        if form != 36:
            target.nullable_int64(self.auto_delete_delay)
        if form != 36:
            target.nullable_int64(self.auto_delete_message_count)
        if form != 36:
            target.nullable_simple(self.group_first_key)
        if form != 36:
            target.nullable_int64(self.ring_size)
        if form != 36:
            target.nullable_boolean(self.enabled)
        if form != 36:
            target.nullable_boolean(self.group_rebalance_pause_dispatch)


class DeleteQueue(Packet):
    """Deletes a queue. DELETE_QUEUE, id 35."""

    def __init__(
        self,
        *,
        queue: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.queue: str = queue
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 35

    def fresh(self) -> Packet:
        return DeleteQueue()

    def read(self, source: PacketReader) -> None:
        self.queue = source.simple()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.queue)


class QueueQuery(Packet):
    """Asks what a queue is like. QUEUEQUERY, id 45."""

    def __init__(
        self,
        *,
        queue: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.queue: str = queue
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 45

    def fresh(self) -> Packet:
        return QueueQuery()

    def read(self, source: PacketReader) -> None:
        self.queue = source.simple()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.queue)


class QueueQueryReply(Packet):
    """What a queue is like, or would be. Also the answer to CREATECONSUMER. QUEUEQUERY_RESP, id 46, -7 from 126 on, -14 from 129 on."""

    def __init__(
        self,
        *,
        exists: bool = False,
        durable: bool = False,
        temporary: bool = False,
        consumer_count: i64 = 0,
        message_count: i64 = 0,
        filter: str | None = None,
        address: str | None = None,
        name: str | None = None,
        auto_create_queues: bool = False,
        auto_created: bool = False,
        purge_on_no_consumers: bool = False,
        routing: i64 = -1,
        max_consumers: i64 = -1,
        exclusive: bool | None = None,
        last_value: bool | None = None,
        default_consumer_window: int | None = None,
        last_value_key: str | None = None,
        non_destructive: bool | None = None,
        consumers_before_dispatch: int | None = None,
        delay_before_dispatch: int | None = None,
        group_rebalance: bool | None = None,
        group_buckets: int | None = None,
        auto_delete: bool | None = None,
        auto_delete_delay: int | None = None,
        auto_delete_message_count: int | None = None,
        group_first_key: str | None = None,
        ring_size: int | None = None,
        enabled: bool | None = None,
        group_rebalance_pause_dispatch: bool | None = None,
        configuration_managed: bool | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.exists: bool = exists
        self.durable: bool = durable
        self.temporary: bool = temporary
        self.consumer_count: i64 = consumer_count
        self.message_count: i64 = message_count
        self.filter: str | None = filter
        self.address: str | None = address
        self.name: str | None = name
        self.auto_create_queues: bool = auto_create_queues
        self.auto_created: bool = auto_created
        self.purge_on_no_consumers: bool = purge_on_no_consumers
        self.routing: i64 = routing
        self.max_consumers: i64 = max_consumers
        self.exclusive: bool | None = exclusive
        self.last_value: bool | None = last_value
        self.default_consumer_window: int | None = default_consumer_window
        self.last_value_key: str | None = last_value_key
        self.non_destructive: bool | None = non_destructive
        self.consumers_before_dispatch: int | None = consumers_before_dispatch
        self.delay_before_dispatch: int | None = delay_before_dispatch
        self.group_rebalance: bool | None = group_rebalance
        self.group_buckets: int | None = group_buckets
        self.auto_delete: bool | None = auto_delete
        self.auto_delete_delay: int | None = auto_delete_delay
        self.auto_delete_message_count: int | None = auto_delete_message_count
        self.group_first_key: str | None = group_first_key
        self.ring_size: int | None = ring_size
        self.enabled: bool | None = enabled
        self.group_rebalance_pause_dispatch: bool | None = group_rebalance_pause_dispatch
        self.configuration_managed: bool | None = configuration_managed
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 129:
            return -14
        if version >= 126:
            return -7
        return 46

    def fresh(self) -> Packet:
        return QueueQueryReply()

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.exists = source.boolean()
        self.durable = source.boolean()
        self.temporary = source.boolean()
        self.consumer_count = source.int32()
        self.message_count = source.int64()
        self.filter = source.nullable_simple()
        self.address = source.nullable_simple()
        self.name = source.nullable_simple()
        if form != 46:
            self.auto_create_queues = source.boolean()
        if form == -14:
            self.auto_created = source.boolean()
            self.purge_on_no_consumers = source.boolean()
            self.routing = source.byte()
            self.max_consumers = source.int32()
        if form == -14 and source.at < source.end:
            self.exclusive = source.nullable_boolean()
        if form == -14 and source.at < source.end:
            self.last_value = source.nullable_boolean()
        if form == -14 and source.at < source.end:
            self.default_consumer_window = source.nullable_int32()
        if form == -14 and source.at < source.end:
            self.last_value_key = source.nullable_simple()
        if form == -14 and source.at < source.end:
            self.non_destructive = source.nullable_boolean()
        if form == -14 and source.at < source.end:
            self.consumers_before_dispatch = source.nullable_int32()
        if form == -14 and source.at < source.end:
            self.delay_before_dispatch = source.nullable_int64()
        if form == -14 and source.at < source.end:
            self.group_rebalance = source.nullable_boolean()
        if form == -14 and source.at < source.end:
            self.group_buckets = source.nullable_int32()
        if form == -14 and source.at < source.end:
            self.auto_delete = source.nullable_boolean()
        if form == -14 and source.at < source.end:
            self.auto_delete_delay = source.nullable_int64()
        if form == -14 and source.at < source.end:
            self.auto_delete_message_count = source.nullable_int64()
        if form == -14 and source.at < source.end:
            self.group_first_key = source.nullable_simple()
        if form == -14 and source.at < source.end:
            self.ring_size = source.nullable_int64()
        if form == -14 and source.at < source.end:
            self.enabled = source.nullable_boolean()
        if form == -14 and source.at < source.end:
            self.group_rebalance_pause_dispatch = source.nullable_boolean()
        if form == -14 and source.at < source.end:
            self.configuration_managed = source.nullable_boolean()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.boolean(self.exists)
        target.boolean(self.durable)
        target.boolean(self.temporary)
        target.int32(self.consumer_count)
        target.int64(self.message_count)
        target.nullable_simple(self.filter)
        target.nullable_simple(self.address)
        target.nullable_simple(self.name)
        if form != 46:
            target.boolean(self.auto_create_queues)
        if form == -14:
            target.boolean(self.auto_created)
            target.boolean(self.purge_on_no_consumers)
            target.byte(self.routing)
            target.int32(self.max_consumers)
        if form == -14:
            target.nullable_boolean(self.exclusive)
        if form == -14:
            target.nullable_boolean(self.last_value)
        if form == -14:
            target.nullable_int32(self.default_consumer_window)
        if form == -14:
            target.nullable_simple(self.last_value_key)
        if form == -14:
            target.nullable_boolean(self.non_destructive)
        if form == -14:
            target.nullable_int32(self.consumers_before_dispatch)
        if form == -14:
            target.nullable_int64(self.delay_before_dispatch)
        if form == -14:
            target.nullable_boolean(self.group_rebalance)
        if form == -14:
            target.nullable_int32(self.group_buckets)
        if form == -14:
            target.nullable_boolean(self.auto_delete)
        if form == -14:
            target.nullable_int64(self.auto_delete_delay)
        if form == -14:
            target.nullable_int64(self.auto_delete_message_count)
        if form == -14:
            target.nullable_simple(self.group_first_key)
        if form == -14:
            target.nullable_int64(self.ring_size)
        if form == -14:
            target.nullable_boolean(self.enabled)
        if form == -14:
            target.nullable_boolean(self.group_rebalance_pause_dispatch)
        if form == -14:
            target.nullable_boolean(self.configuration_managed)


class BindingQuery(Packet):
    """Asks which queues an address leads to. BINDINGQUERY, id 49."""

    def __init__(
        self,
        *,
        address: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.address: str = address
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 49

    def fresh(self) -> Packet:
        return BindingQuery()

    def read(self, source: PacketReader) -> None:
        self.address = source.simple()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.address)


class BindingQueryReply(Packet):
    """The queues of an address, and what is set for it. BINDINGQUERY_RESP, id 50, -8 from 126 on, -10 from 127 on, -15 from 129 on, -22 from 135 on."""

    def __init__(
        self,
        *,
        exists: bool = False,
        queues: list[str] | None = None,
        auto_create_queues: bool = False,
        auto_create_addresses: bool = False,
        default_purge_on_no_consumers: bool = False,
        default_max_consumers: i64 = -1,
        default_exclusive: bool | None = None,
        default_last_value: bool | None = None,
        default_last_value_key: str | None = None,
        default_non_destructive: bool | None = None,
        default_consumers_before_dispatch: int | None = None,
        default_delay_before_dispatch: int | None = None,
        multicast: bool = False,
        anycast: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.exists: bool = exists
        self.queues: list[str] = [] if queues is None else queues
        self.auto_create_queues: bool = auto_create_queues
        self.auto_create_addresses: bool = auto_create_addresses
        self.default_purge_on_no_consumers: bool = default_purge_on_no_consumers
        self.default_max_consumers: i64 = default_max_consumers
        self.default_exclusive: bool | None = default_exclusive
        self.default_last_value: bool | None = default_last_value
        self.default_last_value_key: str | None = default_last_value_key
        self.default_non_destructive: bool | None = default_non_destructive
        self.default_consumers_before_dispatch: int | None = default_consumers_before_dispatch
        self.default_delay_before_dispatch: int | None = default_delay_before_dispatch
        self.multicast: bool = multicast
        self.anycast: bool = anycast
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        if version >= 135:
            return -22
        if version >= 129:
            return -15
        if version >= 127:
            return -10
        if version >= 126:
            return -8
        return 50

    def fresh(self) -> Packet:
        return BindingQueryReply()

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.exists = source.boolean()
        self.queues = source.simples()
        if form != 50:
            self.auto_create_queues = source.boolean()
        if form in (-10, -15, -22):
            self.auto_create_addresses = source.boolean()
        if form in (-15, -22):
            self.default_purge_on_no_consumers = source.boolean()
            self.default_max_consumers = source.int32()
            self.default_exclusive = source.nullable_boolean()
            self.default_last_value = source.nullable_boolean()
            self.default_last_value_key = source.nullable_simple()
            self.default_non_destructive = source.nullable_boolean()
            self.default_consumers_before_dispatch = source.nullable_int32()
            self.default_delay_before_dispatch = source.nullable_int64()
        if form == -22:
            self.multicast = source.boolean()
            self.anycast = source.boolean()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.boolean(self.exists)
        target.simples(self.queues)
        if form != 50:
            target.boolean(self.auto_create_queues)
        if form in (-10, -15, -22):
            target.boolean(self.auto_create_addresses)
        if form in (-15, -22):
            target.boolean(self.default_purge_on_no_consumers)
            target.int32(self.default_max_consumers)
            target.nullable_boolean(self.default_exclusive)
            target.nullable_boolean(self.default_last_value)
            target.nullable_simple(self.default_last_value_key)
            target.nullable_boolean(self.default_non_destructive)
            target.nullable_int32(self.default_consumers_before_dispatch)
            target.nullable_int64(self.default_delay_before_dispatch)
        if form == -22:
            target.boolean(self.multicast)
            target.boolean(self.anycast)


class AddMetadata(Packet):
    """Notes something about a session. ADD_METADATA, id 104, 105."""

    def __init__(
        self,
        *,
        key: str = "",
        data: str = "",
        require_response: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.key: str = key
        self.data: str = data
        self.require_response: bool = require_response
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        return 105

    def fresh(self) -> Packet:
        return AddMetadata()

    def confirmed(self) -> bool:
        return self.form != 104 and self.require_response

    def read(self, source: PacketReader) -> None:
        form = self.form
        self.key = source.text()
        self.data = source.text()
        if form != 104:
            self.require_response = source.boolean()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        target.text(self.key)
        target.text(self.data)
        if form != 104:
            target.boolean(self.require_response)


class UniqueAddMetadata(Packet):
    """Notes something that no other session may have. UNIQUE_ADD_METADATA, id 106."""

    def __init__(
        self,
        *,
        key: str = "",
        data: str = "",
        require_response: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.key: str = key
        self.data: str = data
        self.require_response: bool = require_response
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 106

    def fresh(self) -> Packet:
        return UniqueAddMetadata()

    def read(self, source: PacketReader) -> None:
        self.key = source.text()
        self.data = source.text()
        self.require_response = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.text(self.key)
        target.text(self.data)
        target.boolean(self.require_response)


class CreateProducer(Packet):
    """Opens a producer. CREATE_PRODUCER, id -20."""

    def __init__(
        self,
        *,
        sender: i64 = 0,
        address: str | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.sender: i64 = sender
        self.address: str | None = address
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -20

    def fresh(self) -> Packet:
        return CreateProducer()

    def read(self, source: PacketReader) -> None:
        self.sender = source.int32()
        self.address = source.nullable_simple()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.sender)
        target.nullable_simple(self.address)


class RemoveProducer(Packet):
    """Closes a producer. REMOVE_PRODUCER, id -21."""

    def __init__(
        self,
        *,
        sender: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.sender: i64 = sender
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -21

    def fresh(self) -> Packet:
        return RemoveProducer()

    def read(self, source: PacketReader) -> None:
        self.sender = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.sender)


class Send(Packet):
    """Sends a message. The id in its headers is ignored. SEND, id 71."""

    def __init__(
        self,
        *,
        message: bytes = b"",
        require_response: bool = False,
        correlation: i64 = 0,
        sender: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.message: bytes = message
        self.require_response: bool = require_response
        self.correlation: i64 = correlation
        self.sender: i64 = sender
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 71

    def fresh(self) -> Packet:
        return Send()

    def read(self, source: PacketReader) -> None:
        tail: i64 = 1
        if source.version >= 130:
            tail += 8
        if source.version >= 134:
            tail += 4
        self.message = source.message(tail)
        self.require_response = source.boolean()
        if source.version >= 130:
            self.correlation = source.int64()
        if source.version >= 134:
            self.sender = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.message(self.message)
        target.boolean(self.require_response)
        if target.version >= 130:
            target.int64(self.correlation)
        if target.version >= 134:
            target.int32(self.sender)


class SendLarge(Packet):
    """Begins a large message. SEND_LARGE, id 72."""

    def __init__(
        self,
        *,
        headers: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.headers: bytes = headers
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 72

    def fresh(self) -> Packet:
        return SendLarge()

    def read(self, source: PacketReader) -> None:
        self.headers = source.headers()

    def write(self, target: PacketWriter) -> None:
        target.headers(self.headers)


class SendContinuation(Packet):
    """A piece of a large message; the last one says how long the body is, or -1. SEND_CONTINUATION, id 73."""

    def __init__(
        self,
        *,
        body: bytes = b"",
        continues: bool = False,
        body_size: i64 = -1,
        require_response: bool = False,
        correlation: i64 = 0,
        sender: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.body: bytes = body
        self.continues: bool = continues
        self.body_size: i64 = body_size
        self.require_response: bool = require_response
        self.correlation: i64 = correlation
        self.sender: i64 = sender
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 73

    def fresh(self) -> Packet:
        return SendContinuation()

    def read(self, source: PacketReader) -> None:
        self.body = source.octets()
        self.continues = source.boolean()
        if not self.continues:
            self.body_size = source.int64()
        self.require_response = source.boolean()
        if source.version >= 130:
            self.correlation = source.int64()
        if source.version >= 134:
            self.sender = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.octets(self.body)
        target.boolean(self.continues)
        if not self.continues:
            target.int64(self.body_size)
        target.boolean(self.require_response)
        if target.version >= 130:
            target.int64(self.correlation)
        if target.version >= 134:
            target.int32(self.sender)


class RequestCredits(Packet):
    """Asks whether so many octets may be sent. REQUEST_CREDITS, id 79."""

    def __init__(
        self,
        *,
        credits: i64 = 0,
        address: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.credits: i64 = credits
        self.address: str = address
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 79

    def fresh(self) -> Packet:
        return RequestCredits()

    def read(self, source: PacketReader) -> None:
        self.credits = source.int32()
        self.address = source.simple()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.credits)
        target.simple(self.address)


class Credits(Packet):
    """So many octets may be sent. CREDITS, id 80."""

    def __init__(
        self,
        *,
        credits: i64 = 0,
        address: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.credits: i64 = credits
        self.address: str = address
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 80

    def fresh(self) -> Packet:
        return Credits()

    def read(self, source: PacketReader) -> None:
        self.credits = source.int32()
        self.address = source.simple()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.credits)
        target.simple(self.address)


class FailCredits(Packet):
    """So many octets may be sent, and the address is full: the next send fails. FAIL_CREDITS, id 82."""

    def __init__(
        self,
        *,
        credits: i64 = 0,
        address: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.credits: i64 = credits
        self.address: str = address
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 82

    def fresh(self) -> Packet:
        return FailCredits()

    def read(self, source: PacketReader) -> None:
        self.credits = source.int32()
        self.address = source.simple()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.credits)
        target.simple(self.address)


class CreateConsumer(Packet):
    """Opens a consumer. The answer is a QUEUEQUERY_RESP. CREATECONSUMER, id 40."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        queue: str = "",
        filter: str | None = None,
        browse: bool = False,
        require_response: bool = False,
        priority: int | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.queue: str = queue
        self.filter: str | None = filter
        self.browse: bool = browse
        self.require_response: bool = require_response
        self.priority: int | None = priority
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 40

    def fresh(self) -> Packet:
        return CreateConsumer()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()
        self.queue = source.simple()
        self.filter = source.nullable_simple()
        self.browse = source.boolean()
        self.require_response = source.boolean()
        if source.version >= 130 and source.at < source.end:
            self.priority = int(source.int32())

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)
        target.simple(self.queue)
        target.nullable_simple(self.filter)
        target.boolean(self.browse)
        target.boolean(self.require_response)
        if target.version >= 130:
            priority = self.priority
            if priority is None:
                return
            target.int32(priority)


class CloseConsumer(Packet):
    """Closes a consumer. CONSUMER_CLOSE, id 74."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 74

    def fresh(self) -> Packet:
        return CloseConsumer()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)


class FlowToken(Packet):
    """So many octets more may be delivered; 0: none, -1: any number. FLOWTOKEN, id 70."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        credits: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.credits: i64 = credits
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 70

    def fresh(self) -> Packet:
        return FlowToken()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()
        self.credits = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)
        target.int32(self.credits)


class ForceDelivery(Packet):
    """Deliver what there is, then say so with a message that carries ``sequence``. FORCE_DELIVERY, id 78."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        sequence: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.sequence: i64 = sequence
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 78

    def fresh(self) -> Packet:
        return ForceDelivery()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()
        self.sequence = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)
        target.int64(self.sequence)


class Start(Packet):
    """Deliveries may begin. START, id 67."""

    def __init__(
        self,
        *,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 67

    def fresh(self) -> Packet:
        return Start()


class Stop(Packet):
    """Deliveries are to stop. STOP, id 68."""

    def __init__(
        self,
        *,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 68

    def fresh(self) -> Packet:
        return Stop()


class Close(Packet):
    """Closes the session; its channel is gone. CLOSE, id 69."""

    def __init__(
        self,
        *,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 69

    def fresh(self) -> Packet:
        return Close()


class Receive(Packet):
    """Delivers a message. RECEIVE, id 75."""

    def __init__(
        self,
        *,
        message: bytes = b"",
        consumer: i64 = 0,
        delivery_count: i64 = 1,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.message: bytes = message
        self.consumer: i64 = consumer
        self.delivery_count: i64 = delivery_count
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 75

    def fresh(self) -> Packet:
        return Receive()

    def read(self, source: PacketReader) -> None:
        tail: i64 = 12
        self.message = source.message(tail)
        self.consumer = source.int64()
        self.delivery_count = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.message(self.message)
        target.int64(self.consumer)
        target.int32(self.delivery_count)


class ReceiveLarge(Packet):
    """Begins to deliver a large message. RECEIVE_LARGE, id 76."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        delivery_count: i64 = 1,
        body_size: i64 = 0,
        headers: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.delivery_count: i64 = delivery_count
        self.body_size: i64 = body_size
        self.headers: bytes = headers
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 76

    def fresh(self) -> Packet:
        return ReceiveLarge()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()
        self.delivery_count = source.int32()
        self.body_size = source.int64()
        self.headers = source.headers()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)
        target.int32(self.delivery_count)
        target.int64(self.body_size)
        target.headers(self.headers)


class ReceiveContinuation(Packet):
    """A piece of a large message. RECEIVE_CONTINUATION, id 77."""

    def __init__(
        self,
        *,
        body: bytes = b"",
        continues: bool = False,
        consumer: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.body: bytes = body
        self.continues: bool = continues
        self.consumer: i64 = consumer
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 77

    def fresh(self) -> Packet:
        return ReceiveContinuation()

    def read(self, source: PacketReader) -> None:
        self.body = source.octets()
        self.continues = source.boolean()
        self.consumer = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.octets(self.body)
        target.boolean(self.continues)
        target.int64(self.consumer)


class Acknowledge(Packet):
    """Settles all that was delivered up to ``message``. ACKNOWLEDGE, id 41."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        message: i64 = 0,
        require_response: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.message: i64 = message
        self.require_response: bool = require_response
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 41

    def fresh(self) -> Packet:
        return Acknowledge()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()
        self.message = source.int64()
        self.require_response = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)
        target.int64(self.message)
        target.boolean(self.require_response)


class IndividualAcknowledge(Packet):
    """Settles one message. INDIVIDUAL_ACK, id 81."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        message: i64 = 0,
        require_response: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.message: i64 = message
        self.require_response: bool = require_response
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 81

    def fresh(self) -> Packet:
        return IndividualAcknowledge()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()
        self.message = source.int64()
        self.require_response = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)
        target.int64(self.message)
        target.boolean(self.require_response)


class Expired(Packet):
    """The client found a message expired. EXPIRED, id 42."""

    def __init__(
        self,
        *,
        consumer: i64 = 0,
        message: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consumer: i64 = consumer
        self.message: i64 = message
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 42

    def fresh(self) -> Packet:
        return Expired()

    def read(self, source: PacketReader) -> None:
        self.consumer = source.int64()
        self.message = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.consumer)
        target.int64(self.message)


class Commit(Packet):
    """Commits. COMMIT, id 43."""

    def __init__(
        self,
        *,
        correlation: int | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.correlation: int | None = correlation
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 43

    def fresh(self) -> Packet:
        return Commit()

    def read(self, source: PacketReader) -> None:
        if source.version >= 132 and source.at < source.end:
            self.correlation = int(source.int64())

    def write(self, target: PacketWriter) -> None:
        if target.version >= 132:
            correlation = self.correlation
            if correlation is None:
                return
            target.int64(correlation)


class Rollback(Packet):
    """Rolls back. ROLLBACK, id 44."""

    def __init__(
        self,
        *,
        consider_last_delivered: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.consider_last_delivered: bool = consider_last_delivered
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 44

    def fresh(self) -> Packet:
        return Rollback()

    def read(self, source: PacketReader) -> None:
        self.consider_last_delivered = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.boolean(self.consider_last_delivered)


class XaStart(Packet):
    """Begins a branch. XA_START, id 51."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 51

    def fresh(self) -> Packet:
        return XaStart()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)


class XaEnd(Packet):
    """Ends the work on a branch. XA_END, id 52."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        failed: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.failed: bool = failed
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 52

    def fresh(self) -> Packet:
        return XaEnd()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()
        self.failed = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)
        target.boolean(self.failed)


class XaCommit(Packet):
    """Commits a branch. XA_COMMIT, id 53."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        one_phase: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.one_phase: bool = one_phase
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 53

    def fresh(self) -> Packet:
        return XaCommit()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()
        self.one_phase = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)
        target.boolean(self.one_phase)


class XaPrepare(Packet):
    """Prepares a branch. XA_PREPARE, id 54."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 54

    def fresh(self) -> Packet:
        return XaPrepare()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)


class XaReply(Packet):
    """The outcome of a step of a branch. XA_RESP, id 55."""

    def __init__(
        self,
        *,
        error: bool = False,
        code: i64 = 0,
        text: str | None = None,
        correlation: int | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.error: bool = error
        self.code: i64 = code
        self.text: str | None = text
        self.correlation: int | None = correlation
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 55

    def fresh(self) -> Packet:
        return XaReply()

    def read(self, source: PacketReader) -> None:
        self.error = source.boolean()
        self.code = source.int32()
        self.text = source.nullable_text()
        if source.version >= 130 and source.at < source.end:
            self.correlation = int(source.int64())

    def write(self, target: PacketWriter) -> None:
        target.boolean(self.error)
        target.int32(self.code)
        target.nullable_text(self.text)
        if target.version >= 130:
            correlation = self.correlation
            if correlation is None:
                return
            target.int64(correlation)


class XaRollback(Packet):
    """Rolls a branch back. XA_ROLLBACK, id 56."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 56

    def fresh(self) -> Packet:
        return XaRollback()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)


class XaJoin(Packet):
    """Joins a branch that another session began. XA_JOIN, id 57."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 57

    def fresh(self) -> Packet:
        return XaJoin()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)


class XaSuspend(Packet):
    """Suspends the branch. XA_SUSPEND, id 58."""

    def __init__(
        self,
        *,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 58

    def fresh(self) -> Packet:
        return XaSuspend()


class XaResume(Packet):
    """Goes on with a branch. XA_RESUME, id 59."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 59

    def fresh(self) -> Packet:
        return XaResume()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)


class XaForget(Packet):
    """Forgets a branch that was decided by hand. XA_FORGET, id 60."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 60

    def fresh(self) -> Packet:
        return XaForget()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)


class XaInDoubtXids(Packet):
    """Asks which branches are prepared. XA_INDOUBT_XIDS, id 61."""

    def __init__(
        self,
        *,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 61

    def fresh(self) -> Packet:
        return XaInDoubtXids()


class XaInDoubtXidsReply(Packet):
    """The branches that are prepared. XA_INDOUBT_XIDS_RESP, id 62."""

    def __init__(
        self,
        *,
        xids: list[Xid] | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xids: list[Xid] = [] if xids is None else xids
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 62

    def fresh(self) -> Packet:
        return XaInDoubtXidsReply()

    def read(self, source: PacketReader) -> None:
        self.xids = source.xids()

    def write(self, target: PacketWriter) -> None:
        target.xids(self.xids)


class XaSetTimeout(Packet):
    """Limits how long a branch may last. XA_SET_TIMEOUT, id 63."""

    def __init__(
        self,
        *,
        seconds: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.seconds: i64 = seconds
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 63

    def fresh(self) -> Packet:
        return XaSetTimeout()

    def read(self, source: PacketReader) -> None:
        self.seconds = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.seconds)


class XaSetTimeoutReply(Packet):
    """Whether that was done. XA_SET_TIMEOUT_RESP, id 64."""

    def __init__(
        self,
        *,
        ok: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.ok: bool = ok
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 64

    def fresh(self) -> Packet:
        return XaSetTimeoutReply()

    def read(self, source: PacketReader) -> None:
        self.ok = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.boolean(self.ok)


class XaGetTimeout(Packet):
    """Asks for that limit. XA_GET_TIMEOUT, id 65."""

    def __init__(
        self,
        *,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 65

    def fresh(self) -> Packet:
        return XaGetTimeout()


class XaGetTimeoutReply(Packet):
    """That limit. XA_GET_TIMEOUT_RESP, id 66."""

    def __init__(
        self,
        *,
        seconds: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.seconds: i64 = seconds
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 66

    def fresh(self) -> Packet:
        return XaGetTimeoutReply()

    def read(self, source: PacketReader) -> None:
        self.seconds = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.seconds)


class XaFailed(Packet):
    """After a failover: this branch can only be rolled back. XA_FAILED, id 39."""

    def __init__(
        self,
        *,
        xid: Xid | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.xid: Xid = Xid(0, b"", b"") if xid is None else xid
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 39

    def fresh(self) -> Packet:
        return XaFailed()

    def read(self, source: PacketReader) -> None:
        self.xid = source.xid()

    def write(self, target: PacketWriter) -> None:
        target.xid(self.xid)


class ClusterConnect(Packet):
    """A node shows its credentials. CLUSTER_CONNECT, id 125."""

    def __init__(
        self,
        *,
        user: str = "",
        password: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.user: str = user
        self.password: str = password
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 125

    def fresh(self) -> Packet:
        return ClusterConnect()

    def read(self, source: PacketReader) -> None:
        self.user = source.text()
        self.password = source.text()

    def write(self, target: PacketWriter) -> None:
        target.text(self.user)
        target.text(self.password)


class ClusterConnectReply(Packet):
    """Whether they are right. CLUSTER_CONNECT_REPLY, id 126."""

    def __init__(
        self,
        *,
        authorized: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.authorized: bool = authorized
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 126

    def fresh(self) -> Packet:
        return ClusterConnectReply()

    def read(self, source: PacketReader) -> None:
        self.authorized = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.boolean(self.authorized)


class NodeAnnounce(Packet):
    """A node says who it is and where. NODE_ANNOUNCE, id 111."""

    def __init__(
        self,
        *,
        node: str = "",
        backup_group: str | None = None,
        backup: bool = False,
        event: i64 = 0,
        connector: Connector | None = None,
        backup_connector: Connector | None = None,
        scale_down_group: str | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.node: str = node
        self.backup_group: str | None = backup_group
        self.backup: bool = backup
        self.event: i64 = event
        self.connector: Connector | None = connector
        self.backup_connector: Connector | None = backup_connector
        self.scale_down_group: str | None = scale_down_group
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 111

    def fresh(self) -> Packet:
        return NodeAnnounce()

    def read(self, source: PacketReader) -> None:
        self.node = source.text()
        self.backup_group = source.nullable_text()
        self.backup = source.boolean()
        self.event = source.int64()
        self.connector = source.nullable_connector()
        self.backup_connector = source.nullable_connector()
        self.scale_down_group = source.nullable_text()

    def write(self, target: PacketWriter) -> None:
        target.text(self.node)
        target.nullable_text(self.backup_group)
        target.boolean(self.backup)
        target.int64(self.event)
        target.nullable_connector(self.connector)
        target.nullable_connector(self.backup_connector)
        target.nullable_text(self.scale_down_group)


class BackupRegistration(Packet):
    """A backup asks for the data. BACKUP_REGISTRATION, id 115."""

    def __init__(
        self,
        *,
        user: str = "",
        password: str = "",
        fail_back: bool = False,
        connector: Connector | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.user: str = user
        self.password: str = password
        self.fail_back: bool = fail_back
        self.connector: Connector = Connector("", "", []) if connector is None else connector
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 115

    def fresh(self) -> Packet:
        return BackupRegistration()

    def read(self, source: PacketReader) -> None:
        self.user = source.text()
        self.password = source.text()
        self.fail_back = source.boolean()
        self.connector = source.connector()

    def write(self, target: PacketWriter) -> None:
        target.text(self.user)
        target.text(self.password)
        target.boolean(self.fail_back)
        target.connector(self.connector)


class BackupRegistrationFailed(Packet):
    """It does not get them. BACKUP_REGISTRATION_FAILED, id 116."""

    def __init__(
        self,
        *,
        problem: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.problem: i64 = problem
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 116

    def fresh(self) -> Packet:
        return BackupRegistrationFailed()

    def read(self, source: PacketReader) -> None:
        self.problem = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.problem)


class QuorumVote(Packet):
    """Asks a member for its vote. QUORUM_VOTE, id -2."""

    def __init__(
        self,
        *,
        handler: str = "",
        vote: bool = False,
        node: str = "",
        connector: str | None = None,
        backups: i64 = 0,
        host: str | None = None,
        available: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.handler: str = handler
        self.vote: bool = vote
        self.node: str = node
        self.connector: str | None = connector
        self.backups: i64 = backups
        self.host: str | None = host
        self.available: bool = available
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -2

    def fresh(self) -> Packet:
        return QuorumVote()

    def read(self, source: PacketReader) -> None:
        self.handler = source.simple()
        if self.handler != "RequestBackupQuorumVote":
            self.vote = source.boolean()
            self.node = source.text()
            self.connector = source.nullable_text()
        if self.handler == "RequestBackupQuorumVote":
            self.backups = source.int32()
            self.host = source.nullable_text()
            self.available = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.handler)
        if self.handler != "RequestBackupQuorumVote":
            target.boolean(self.vote)
            target.text(self.node)
            target.nullable_text(self.connector)
        if self.handler == "RequestBackupQuorumVote":
            target.int32(self.backups)
            target.nullable_text(self.host)
            target.boolean(self.available)


class QuorumVoteReply(Packet):
    """The vote of a member. QUORUM_VOTE_REPLY, id -3."""

    def __init__(
        self,
        *,
        handler: str = "",
        vote: bool = False,
        node: str = "",
        connector: str | None = None,
        backups: i64 = 0,
        host: str | None = None,
        available: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.handler: str = handler
        self.vote: bool = vote
        self.node: str = node
        self.connector: str | None = connector
        self.backups: i64 = backups
        self.host: str | None = host
        self.available: bool = available
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -3

    def fresh(self) -> Packet:
        return QuorumVoteReply()

    def read(self, source: PacketReader) -> None:
        self.handler = source.simple()
        if self.handler != "RequestBackupQuorumVote":
            self.vote = source.boolean()
            self.node = source.text()
            self.connector = source.nullable_text()
        if self.handler == "RequestBackupQuorumVote":
            self.backups = source.int32()
            self.host = source.nullable_text()
            self.available = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.handler)
        if self.handler != "RequestBackupQuorumVote":
            target.boolean(self.vote)
            target.text(self.node)
            target.nullable_text(self.connector)
        if self.handler == "RequestBackupQuorumVote":
            target.int32(self.backups)
            target.nullable_text(self.host)
            target.boolean(self.available)


class BackupRequest(Packet):
    """Asks a node to start a backup inside itself (colocated). BACKUP_REQUEST, id 127."""

    def __init__(
        self,
        *,
        backup_size: i64 = 0,
        journal_dir: str | None = None,
        bindings_dir: str | None = None,
        large_dir: str | None = None,
        paging_dir: str | None = None,
        node: str | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.backup_size: i64 = backup_size
        self.journal_dir: str | None = journal_dir
        self.bindings_dir: str | None = bindings_dir
        self.large_dir: str | None = large_dir
        self.paging_dir: str | None = paging_dir
        self.node: str | None = node
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 127

    def fresh(self) -> Packet:
        return BackupRequest()

    def read(self, source: PacketReader) -> None:
        self.backup_size = source.int32()
        self.journal_dir = source.nullable_text()
        self.bindings_dir = source.nullable_text()
        self.large_dir = source.nullable_text()
        self.paging_dir = source.nullable_text()
        self.node = source.nullable_simple()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.backup_size)
        target.nullable_text(self.journal_dir)
        target.nullable_text(self.bindings_dir)
        target.nullable_text(self.large_dir)
        target.nullable_text(self.paging_dir)
        target.nullable_simple(self.node)


class BackupResponse(Packet):
    """Whether it did. BACKUP_RESPONSE, id -1."""

    def __init__(
        self,
        *,
        started: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.started: bool = started
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -1

    def fresh(self) -> Packet:
        return BackupResponse()

    def read(self, source: PacketReader) -> None:
        self.started = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.boolean(self.started)


class ScaleDownAnnouncement(Packet):
    """A node gave everything to another one. SCALEDOWN_ANNOUNCEMENT, id -6."""

    def __init__(
        self,
        *,
        target: str = "",
        scaled_down: str = "",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.target: str = target
        self.scaled_down: str = scaled_down
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -6

    def fresh(self) -> Packet:
        return ScaleDownAnnouncement()

    def read(self, source: PacketReader) -> None:
        self.target = source.simple()
        self.scaled_down = source.simple()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.target)
        target.simple(self.scaled_down)


class FederationDownstreamConnect(Packet):
    """Asks the peer to fetch from here (channel 4); `cluster/federation/description.py` reads the description. FEDERATION_DOWNSTREAM_CONNECT, id -16."""

    def __init__(
        self,
        *,
        description: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.description: bytes = description
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return -16

    def fresh(self) -> Packet:
        return FederationDownstreamConnect()

    def read(self, source: PacketReader) -> None:
        self.description = source.rest()

    def write(self, target: PacketWriter) -> None:
        target.rest(self.description)


class ReplicationResponse(Packet):
    """A packet of replication was done. Form 2 answers START_FINISH_SYNC alone. REPLICATION_RESPONSE, id 90, -9."""

    def __init__(
        self,
        *,
        synchronized: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.synchronized: bool = synchronized
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        if self.form != 0:
            return self.form
        return -9

    def fresh(self) -> Packet:
        return ReplicationResponse()

    def read(self, source: PacketReader) -> None:
        form = self.form
        if form != 90:
            self.synchronized = source.boolean()

    def write(self, target: PacketWriter) -> None:
        form = self.number(target.version)
        if form != 90:
            target.boolean(self.synchronized)


class ReplicationAppend(Packet):
    """A record of a journal: 0 bindings, 1 messages. APPEND, id 91."""

    def __init__(
        self,
        *,
        journal: i64 = 0,
        operation: i64 = 0,
        id: i64 = 0,
        record_type: i64 = 0,
        data: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.journal: i64 = journal
        self.operation: i64 = operation
        self.id: i64 = id
        self.record_type: i64 = record_type
        self.data: bytes = data
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 91

    def fresh(self) -> Packet:
        return ReplicationAppend()

    def read(self, source: PacketReader) -> None:
        self.journal = source.byte()
        self.operation = source.operation()
        self.id = source.int64()
        self.record_type = source.byte()
        self.data = source.octets()

    def write(self, target: PacketWriter) -> None:
        target.byte(self.journal)
        target.operation(self.operation)
        target.int64(self.id)
        target.byte(self.record_type)
        target.octets(self.data)


class ReplicationAppendTx(Packet):
    """A record within a transaction. APPEND_TX, id 92."""

    def __init__(
        self,
        *,
        journal: i64 = 0,
        operation: i64 = 0,
        tx: i64 = 0,
        id: i64 = 0,
        record_type: i64 = 0,
        data: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.journal: i64 = journal
        self.operation: i64 = operation
        self.tx: i64 = tx
        self.id: i64 = id
        self.record_type: i64 = record_type
        self.data: bytes = data
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 92

    def fresh(self) -> Packet:
        return ReplicationAppendTx()

    def read(self, source: PacketReader) -> None:
        self.journal = source.byte()
        self.operation = source.operation()
        self.tx = source.int64()
        self.id = source.int64()
        self.record_type = source.byte()
        self.data = source.octets()

    def write(self, target: PacketWriter) -> None:
        target.byte(self.journal)
        target.operation(self.operation)
        target.int64(self.tx)
        target.int64(self.id)
        target.byte(self.record_type)
        target.octets(self.data)


class ReplicationDelete(Packet):
    """A record is deleted. DELETE, id 93."""

    def __init__(
        self,
        *,
        journal: i64 = 0,
        id: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.journal: i64 = journal
        self.id: i64 = id
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 93

    def fresh(self) -> Packet:
        return ReplicationDelete()

    def read(self, source: PacketReader) -> None:
        self.journal = source.byte()
        self.id = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.byte(self.journal)
        target.int64(self.id)


class ReplicationDeleteTx(Packet):
    """A record is deleted within a transaction. DELETE_TX, id 94."""

    def __init__(
        self,
        *,
        journal: i64 = 0,
        tx: i64 = 0,
        id: i64 = 0,
        data: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.journal: i64 = journal
        self.tx: i64 = tx
        self.id: i64 = id
        self.data: bytes = data
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 94

    def fresh(self) -> Packet:
        return ReplicationDeleteTx()

    def read(self, source: PacketReader) -> None:
        self.journal = source.byte()
        self.tx = source.int64()
        self.id = source.int64()
        self.data = source.octets()

    def write(self, target: PacketWriter) -> None:
        target.byte(self.journal)
        target.int64(self.tx)
        target.int64(self.id)
        target.octets(self.data)


class ReplicationPrepare(Packet):
    """A transaction is prepared; ``data`` is an xid. PREPARE, id 95."""

    def __init__(
        self,
        *,
        journal: i64 = 0,
        tx: i64 = 0,
        data: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.journal: i64 = journal
        self.tx: i64 = tx
        self.data: bytes = data
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 95

    def fresh(self) -> Packet:
        return ReplicationPrepare()

    def read(self, source: PacketReader) -> None:
        self.journal = source.byte()
        self.tx = source.int64()
        self.data = source.octets()

    def write(self, target: PacketWriter) -> None:
        target.byte(self.journal)
        target.int64(self.tx)
        target.octets(self.data)


class ReplicationCommitRollback(Packet):
    """A transaction is decided. COMMIT_ROLLBACK, id 96."""

    def __init__(
        self,
        *,
        journal: i64 = 0,
        rollback: bool = False,
        tx: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.journal: i64 = journal
        self.rollback: bool = rollback
        self.tx: i64 = tx
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 96

    def fresh(self) -> Packet:
        return ReplicationCommitRollback()

    def read(self, source: PacketReader) -> None:
        self.journal = source.byte()
        self.rollback = source.boolean()
        self.tx = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.byte(self.journal)
        target.boolean(self.rollback)
        target.int64(self.tx)


class ReplicationPageWrite(Packet):
    """A message goes to a page. PAGE_WRITE, id 97."""

    def __init__(
        self,
        *,
        page: i64 = 0,
        paged: bytes = b"",
        address: str | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.page: i64 = page
        self.paged: bytes = paged
        self.address: str | None = address
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 97

    def fresh(self) -> Packet:
        return ReplicationPageWrite()

    def read(self, source: PacketReader) -> None:
        self.page = source.page()
        self.paged = source.paged()
        if source.version >= 133:
            self.address = source.nullable_simple()

    def write(self, target: PacketWriter) -> None:
        target.page(self.page)
        target.paged(self.paged)
        if target.version >= 133:
            target.nullable_simple(self.address)


class ReplicationPageEvent(Packet):
    """A page is closed or deleted. PAGE_EVENT, id 98."""

    def __init__(
        self,
        *,
        store: str = "",
        page: i64 = 0,
        delete: bool = False,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.store: str = store
        self.page: i64 = page
        self.delete: bool = delete
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 98

    def fresh(self) -> Packet:
        return ReplicationPageEvent()

    def read(self, source: PacketReader) -> None:
        self.store = source.simple()
        self.page = source.page()
        self.delete = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.simple(self.store)
        target.page(self.page)
        target.boolean(self.delete)


class ReplicationLargeMessageBegin(Packet):
    """A large message begins. LARGE_MESSAGE_BEGIN, id 99."""

    def __init__(
        self,
        *,
        message: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.message: i64 = message
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 99

    def fresh(self) -> Packet:
        return ReplicationLargeMessageBegin()

    def read(self, source: PacketReader) -> None:
        self.message = source.int64()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.message)


class ReplicationLargeMessageEnd(Packet):
    """A large message is complete, or deleted. LARGE_MESSAGE_END, id 100."""

    def __init__(
        self,
        *,
        message: i64 = 0,
        pending_record: int | None = None,
        delete: bool | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.message: i64 = message
        self.pending_record: int | None = pending_record
        self.delete: bool | None = delete
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 100

    def fresh(self) -> Packet:
        return ReplicationLargeMessageEnd()

    def read(self, source: PacketReader) -> None:
        self.message = source.int64()
        if source.at < source.end:
            self.pending_record = int(source.int64())
        if source.at < source.end:
            self.delete = source.boolean()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.message)
        pending_record = self.pending_record
        if pending_record is None:
            return
        target.int64(pending_record)
        delete = self.delete
        if delete is None:
            return
        target.boolean(delete)


class ReplicationLargeMessageWrite(Packet):
    """A piece of a large message. LARGE_MESSAGE_WRITE, id 101."""

    def __init__(
        self,
        *,
        message: i64 = 0,
        body: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.message: i64 = message
        self.body: bytes = body
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 101

    def fresh(self) -> Packet:
        return ReplicationLargeMessageWrite()

    def read(self, source: PacketReader) -> None:
        self.message = source.int64()
        self.body = source.octets()

    def write(self, target: PacketWriter) -> None:
        target.int64(self.message)
        target.octets(self.body)


class ReplicationStartFinishSync(Packet):
    """The first copy begins or is complete: 0 bindings, 1 messages, 2 large messages, 3 activation sequence. START_FINISH_SYNC, id 120."""

    def __init__(
        self,
        *,
        finished: bool = False,
        allows_fail_back: bool = False,
        node: str = "",
        data_type: int | None = None,
        ids: list[int] | None = None,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.finished: bool = finished
        self.allows_fail_back: bool = allows_fail_back
        self.node: str = node
        self.data_type: int | None = data_type
        self.ids: list[int] | None = ids
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 120

    def fresh(self) -> Packet:
        return ReplicationStartFinishSync()

    def read(self, source: PacketReader) -> None:
        self.finished = source.boolean()
        self.allows_fail_back = source.boolean()
        self.node = source.text()
        if source.at < source.end:
            self.data_type = int(source.byte())
        if source.at < source.end:
            self.ids = source.int64s()

    def write(self, target: PacketWriter) -> None:
        target.boolean(self.finished)
        target.boolean(self.allows_fail_back)
        target.text(self.node)
        data_type = self.data_type
        if data_type is None:
            return
        target.byte(data_type)
        ids = self.ids
        if ids is None:
            return
        target.int64s(ids)


class ReplicationSyncFile(Packet):
    """A piece of a file: 0 journal, 1 page, 2 large message; no octets: its end. SYNC_FILE, id 103."""

    def __init__(
        self,
        *,
        file: i64 = 0,
        file_type: i64 = 0,
        journal: i64 = 0,
        store: str = "",
        size: i64 = 0,
        body: bytes = b"",
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.file: i64 = file
        self.file_type: i64 = file_type
        self.journal: i64 = journal
        self.store: str = store
        self.size: i64 = size
        self.body: bytes = body
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 103

    def fresh(self) -> Packet:
        return ReplicationSyncFile()

    def read(self, source: PacketReader) -> None:
        self.file = source.int64()
        self.file_type = source.byte()
        if self.file_type == 0:
            self.journal = source.byte()
        if self.file_type == 1:
            self.store = source.simple()
        self.size = source.int32()
        if self.size > 0:
            self.body = source.chunk(self.size)

    def write(self, target: PacketWriter) -> None:
        target.int64(self.file)
        target.byte(self.file_type)
        if self.file_type == 0:
            target.byte(self.journal)
        if self.file_type == 1:
            target.simple(self.store)
        target.int32(self.size)
        if self.size > 0:
            target.chunk(self.body)


class ReplicationScheduledFailover(Packet):
    """The primary stops (0), or the backup is to take over (1). SCHEDULED_FAILOVER, id 121."""

    def __init__(
        self,
        *,
        final: i64 = 0,
        channel: i64 = 0,
        form: i64 = 0,
    ) -> None:
        self.final: i64 = final
        self.channel = channel
        self.form = form

    def number(self, version: i64) -> i64:
        return 121

    def fresh(self) -> Packet:
        return ReplicationScheduledFailover()

    def read(self, source: PacketReader) -> None:
        self.final = source.int32()

    def write(self, target: PacketWriter) -> None:
        target.int32(self.final)


PROTOTYPES: Final[dict[int, Packet]] = {
    10: Ping(),
    11: Disconnect(),
    124: Disconnect(),
    -19: Disconnect(),
    12: DisconnectConsumer(),
    13: DisconnectConsumerKill(),
    20: ExceptionReply(),
    21: NullReply(),
    22: PacketsConfirmed(),
    112: SubscribeTopology(),
    113: SubscribeTopology(),
    110: ClusterTopology(),
    114: ClusterTopology(),
    122: ClusterTopology(),
    -17: ClusterTopology(),
    30: CreateSession(),
    -18: CreateSession(),
    31: CreateSessionReply(),
    32: ReattachSession(),
    33: ReattachSessionReply(),
    -4: CheckForFailover(),
    -5: CheckForFailoverReply(),
    -11: CreateAddress(),
    34: CreateQueue(),
    -12: CreateQueue(),
    36: CreateSharedQueue(),
    -13: CreateSharedQueue(),
    35: DeleteQueue(),
    45: QueueQuery(),
    46: QueueQueryReply(),
    -7: QueueQueryReply(),
    -14: QueueQueryReply(),
    49: BindingQuery(),
    50: BindingQueryReply(),
    -8: BindingQueryReply(),
    -10: BindingQueryReply(),
    -15: BindingQueryReply(),
    -22: BindingQueryReply(),
    104: AddMetadata(),
    105: AddMetadata(),
    106: UniqueAddMetadata(),
    -20: CreateProducer(),
    -21: RemoveProducer(),
    71: Send(),
    72: SendLarge(),
    73: SendContinuation(),
    79: RequestCredits(),
    80: Credits(),
    82: FailCredits(),
    40: CreateConsumer(),
    74: CloseConsumer(),
    70: FlowToken(),
    78: ForceDelivery(),
    67: Start(),
    68: Stop(),
    69: Close(),
    75: Receive(),
    76: ReceiveLarge(),
    77: ReceiveContinuation(),
    41: Acknowledge(),
    81: IndividualAcknowledge(),
    42: Expired(),
    43: Commit(),
    44: Rollback(),
    51: XaStart(),
    52: XaEnd(),
    53: XaCommit(),
    54: XaPrepare(),
    55: XaReply(),
    56: XaRollback(),
    57: XaJoin(),
    58: XaSuspend(),
    59: XaResume(),
    60: XaForget(),
    61: XaInDoubtXids(),
    62: XaInDoubtXidsReply(),
    63: XaSetTimeout(),
    64: XaSetTimeoutReply(),
    65: XaGetTimeout(),
    66: XaGetTimeoutReply(),
    39: XaFailed(),
    125: ClusterConnect(),
    126: ClusterConnectReply(),
    111: NodeAnnounce(),
    115: BackupRegistration(),
    116: BackupRegistrationFailed(),
    -2: QuorumVote(),
    -3: QuorumVoteReply(),
    127: BackupRequest(),
    -1: BackupResponse(),
    -6: ScaleDownAnnouncement(),
    -16: FederationDownstreamConnect(),
    90: ReplicationResponse(),
    -9: ReplicationResponse(),
    91: ReplicationAppend(),
    92: ReplicationAppendTx(),
    93: ReplicationDelete(),
    94: ReplicationDeleteTx(),
    95: ReplicationPrepare(),
    96: ReplicationCommitRollback(),
    97: ReplicationPageWrite(),
    98: ReplicationPageEvent(),
    99: ReplicationLargeMessageBegin(),
    100: ReplicationLargeMessageEnd(),
    101: ReplicationLargeMessageWrite(),
    120: ReplicationStartFinishSync(),
    103: ReplicationSyncFile(),
    121: ReplicationScheduledFailover(),
}
"""One of each id: asked for a fresh packet, so that no name from the wire ever makes one."""
