"""The performatives of AMQP, written by ``tools/amqp_performatives.py`` from `schema`: change that, not this.

Every class takes its fields as keywords. A number that is not there is -1, a timestamp 0. ``settled`` of a transfer,
which may be missing, is 0, 1 or -1. [C]
"""
# ruff: noqa: D102
# fmt: off

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.amqp.primitives import DESCRIBED, NULL, Described
from entrepot.protocols.amqp.primitives import Source as Octets
from entrepot.protocols.amqp.writing import Target as Sink


class Composite:
    """One described list."""

    def descriptor(self) -> i64:
        """Return its descriptor."""
        raise NotImplementedError

    def fresh(self) -> Composite:
        """Return one with nothing in it."""
        raise NotImplementedError

    def read(self, source: Octets) -> None:
        """Fill it from the fields. Raises MalformedFrame."""

    def fields(self, target: Sink) -> None:
        """Write its fields. Raises Inexpressible."""

    def write(self, target: Sink) -> None:
        """Write it with its descriptor. Raises Inexpressible."""
        start = target.begin(self.descriptor())
        self.fields(target)
        target.finish(start)


class Unknown(Composite):
    """A described value that is not in the table, as it came; it is not written."""

    def __init__(self, value: Described) -> None:
        self.value: Described = value

    def descriptor(self) -> i64:
        return -1


class Open(Composite):
    """A side opens the connection, and says what it can. amqp:open:list, 2.7.1."""

    def __init__(
        self,
        *,
        container_id: str = "",
        hostname: str | None = None,
        max_frame_size: i64 = 4294967295,
        channel_max: i64 = 65535,
        idle_time_out: i64 = -1,
        outgoing_locales: list[str] | None = None,
        incoming_locales: list[str] | None = None,
        offered_capabilities: list[str] | None = None,
        desired_capabilities: list[str] | None = None,
        properties: dict[str, object] | None = None,
    ) -> None:
        self.container_id: str = container_id
        self.hostname: str | None = hostname
        self.max_frame_size: i64 = max_frame_size
        self.channel_max: i64 = channel_max
        self.idle_time_out: i64 = idle_time_out
        self.outgoing_locales: list[str] = [] if outgoing_locales is None else outgoing_locales
        self.incoming_locales: list[str] = [] if incoming_locales is None else incoming_locales
        self.offered_capabilities: list[str] = [] if offered_capabilities is None else offered_capabilities
        self.desired_capabilities: list[str] = [] if desired_capabilities is None else desired_capabilities
        self.properties: dict[str, object] | None = properties

    def descriptor(self) -> i64:
        return 0x10

    def fresh(self) -> Composite:
        return Open()

    def read(self, source: Octets) -> None:
        container_id = source.text()
        if container_id is None:
            raise MalformedFrame("Open has no container_id")
        self.container_id = container_id
        self.hostname = source.text()
        self.max_frame_size = source.number(4294967295)
        self.channel_max = source.number(65535)
        self.idle_time_out = source.number()
        self.outgoing_locales = source.texts()
        self.incoming_locales = source.texts()
        self.offered_capabilities = source.texts()
        self.desired_capabilities = source.texts()
        self.properties = source.table()

    def fields(self, target: Sink) -> None:
        target.text(self.container_id, False)
        target.text(self.hostname, False)
        target.number(-1 if self.max_frame_size == 4294967295 else self.max_frame_size, 4)
        target.number(-1 if self.channel_max == 65535 else self.channel_max, 2)
        target.number(self.idle_time_out, 4)
        target.texts(self.outgoing_locales)
        target.texts(self.incoming_locales)
        target.texts(self.offered_capabilities)
        target.texts(self.desired_capabilities)
        target.table(self.properties)


class Begin(Composite):
    """A side begins a session on its channel. amqp:begin:list, 2.7.2."""

    def __init__(
        self,
        *,
        remote_channel: i64 = -1,
        next_outgoing_id: i64 = 0,
        incoming_window: i64 = 0,
        outgoing_window: i64 = 0,
        handle_max: i64 = 4294967295,
        offered_capabilities: list[str] | None = None,
        desired_capabilities: list[str] | None = None,
        properties: dict[str, object] | None = None,
    ) -> None:
        self.remote_channel: i64 = remote_channel
        self.next_outgoing_id: i64 = next_outgoing_id
        self.incoming_window: i64 = incoming_window
        self.outgoing_window: i64 = outgoing_window
        self.handle_max: i64 = handle_max
        self.offered_capabilities: list[str] = [] if offered_capabilities is None else offered_capabilities
        self.desired_capabilities: list[str] = [] if desired_capabilities is None else desired_capabilities
        self.properties: dict[str, object] | None = properties

    def descriptor(self) -> i64:
        return 0x11

    def fresh(self) -> Composite:
        return Begin()

    def read(self, source: Octets) -> None:
        self.remote_channel = source.number()
        self.next_outgoing_id = source.number()
        if self.next_outgoing_id < 0:
            raise MalformedFrame("Begin has no next_outgoing_id")
        self.incoming_window = source.number()
        if self.incoming_window < 0:
            raise MalformedFrame("Begin has no incoming_window")
        self.outgoing_window = source.number()
        if self.outgoing_window < 0:
            raise MalformedFrame("Begin has no outgoing_window")
        self.handle_max = source.number(4294967295)
        self.offered_capabilities = source.texts()
        self.desired_capabilities = source.texts()
        self.properties = source.table()

    def fields(self, target: Sink) -> None:
        target.number(self.remote_channel, 2)
        target.number(self.next_outgoing_id, 4)
        target.number(self.incoming_window, 4)
        target.number(self.outgoing_window, 4)
        target.number(-1 if self.handle_max == 4294967295 else self.handle_max, 4)
        target.texts(self.offered_capabilities)
        target.texts(self.desired_capabilities)
        target.table(self.properties)


class Attach(Composite):
    """A side attaches a link to the session. amqp:attach:list, 2.7.3."""

    def __init__(
        self,
        *,
        name: str = "",
        handle: i64 = 0,
        role: bool = False,
        snd_settle_mode: i64 = 2,
        rcv_settle_mode: i64 = 0,
        source: Composite | None = None,
        target: Composite | None = None,
        unsettled: dict[str, object] | None = None,
        incomplete_unsettled: bool = False,
        initial_delivery_count: i64 = -1,
        max_message_size: i64 = -1,
        offered_capabilities: list[str] | None = None,
        desired_capabilities: list[str] | None = None,
        properties: dict[str, object] | None = None,
    ) -> None:
        self.name: str = name
        self.handle: i64 = handle
        self.role: bool = role
        self.snd_settle_mode: i64 = snd_settle_mode
        self.rcv_settle_mode: i64 = rcv_settle_mode
        self.source: Composite | None = source
        self.target: Composite | None = target
        self.unsettled: dict[str, object] | None = unsettled
        self.incomplete_unsettled: bool = incomplete_unsettled
        self.initial_delivery_count: i64 = initial_delivery_count
        self.max_message_size: i64 = max_message_size
        self.offered_capabilities: list[str] = [] if offered_capabilities is None else offered_capabilities
        self.desired_capabilities: list[str] = [] if desired_capabilities is None else desired_capabilities
        self.properties: dict[str, object] | None = properties

    def descriptor(self) -> i64:
        return 0x12

    def fresh(self) -> Composite:
        return Attach()

    def read(self, source: Octets) -> None:
        name = source.text()
        if name is None:
            raise MalformedFrame("Attach has no name")
        self.name = name
        self.handle = source.number()
        if self.handle < 0:
            raise MalformedFrame("Attach has no handle")
        self.role = source.flag()
        self.snd_settle_mode = source.number(2)
        self.rcv_settle_mode = source.number(0)
        self.source = field_of(source)
        self.target = field_of(source)
        self.unsettled = source.table()
        self.incomplete_unsettled = source.flag()
        self.initial_delivery_count = source.number()
        self.max_message_size = source.number()
        self.offered_capabilities = source.texts()
        self.desired_capabilities = source.texts()
        self.properties = source.table()

    def fields(self, target: Sink) -> None:
        target.text(self.name, False)
        target.number(self.handle, 4)
        target.needed_flag(self.role)
        target.number(-1 if self.snd_settle_mode == 2 else self.snd_settle_mode, 1)
        target.number(-1 if self.rcv_settle_mode == 0 else self.rcv_settle_mode, 1)
        put(target, self.source)
        put(target, self.target)
        target.table(self.unsettled)
        target.flag(self.incomplete_unsettled)
        target.number(self.initial_delivery_count, 4)
        target.number(self.max_message_size, 8)
        target.texts(self.offered_capabilities)
        target.texts(self.desired_capabilities)
        target.table(self.properties)


class Flow(Composite):
    """A side says what it may be sent: on the session, and on a link. amqp:flow:list, 2.7.4."""

    def __init__(
        self,
        *,
        next_incoming_id: i64 = -1,
        incoming_window: i64 = 0,
        next_outgoing_id: i64 = 0,
        outgoing_window: i64 = 0,
        handle: i64 = -1,
        delivery_count: i64 = -1,
        link_credit: i64 = -1,
        available: i64 = -1,
        drain: bool = False,
        echo: bool = False,
        properties: dict[str, object] | None = None,
    ) -> None:
        self.next_incoming_id: i64 = next_incoming_id
        self.incoming_window: i64 = incoming_window
        self.next_outgoing_id: i64 = next_outgoing_id
        self.outgoing_window: i64 = outgoing_window
        self.handle: i64 = handle
        self.delivery_count: i64 = delivery_count
        self.link_credit: i64 = link_credit
        self.available: i64 = available
        self.drain: bool = drain
        self.echo: bool = echo
        self.properties: dict[str, object] | None = properties

    def descriptor(self) -> i64:
        return 0x13

    def fresh(self) -> Composite:
        return Flow()

    def read(self, source: Octets) -> None:
        self.next_incoming_id = source.number()
        self.incoming_window = source.number()
        if self.incoming_window < 0:
            raise MalformedFrame("Flow has no incoming_window")
        self.next_outgoing_id = source.number()
        if self.next_outgoing_id < 0:
            raise MalformedFrame("Flow has no next_outgoing_id")
        self.outgoing_window = source.number()
        if self.outgoing_window < 0:
            raise MalformedFrame("Flow has no outgoing_window")
        self.handle = source.number()
        self.delivery_count = source.number()
        self.link_credit = source.number()
        self.available = source.number()
        self.drain = source.flag()
        self.echo = source.flag()
        self.properties = source.table()

    def fields(self, target: Sink) -> None:
        target.number(self.next_incoming_id, 4)
        target.number(self.incoming_window, 4)
        target.number(self.next_outgoing_id, 4)
        target.number(self.outgoing_window, 4)
        target.number(self.handle, 4)
        target.number(self.delivery_count, 4)
        target.number(self.link_credit, 4)
        target.number(self.available, 4)
        target.flag(self.drain)
        target.flag(self.echo)
        target.table(self.properties)


class Transfer(Composite):
    """A message, or a part of one, which follows in the frame. amqp:transfer:list, 2.7.5."""

    def __init__(
        self,
        *,
        handle: i64 = 0,
        delivery_id: i64 = -1,
        delivery_tag: bytes | None = None,
        message_format: i64 = -1,
        settled: i64 = -1,
        more: bool = False,
        rcv_settle_mode: i64 = -1,
        state: Composite | None = None,
        resume: bool = False,
        aborted: bool = False,
        batchable: bool = False,
    ) -> None:
        self.handle: i64 = handle
        self.delivery_id: i64 = delivery_id
        self.delivery_tag: bytes | None = delivery_tag
        self.message_format: i64 = message_format
        self.settled: i64 = settled
        self.more: bool = more
        self.rcv_settle_mode: i64 = rcv_settle_mode
        self.state: Composite | None = state
        self.resume: bool = resume
        self.aborted: bool = aborted
        self.batchable: bool = batchable

    def descriptor(self) -> i64:
        return 0x14

    def fresh(self) -> Composite:
        return Transfer()

    def read(self, source: Octets) -> None:
        self.handle = source.number()
        if self.handle < 0:
            raise MalformedFrame("Transfer has no handle")
        self.delivery_id = source.number()
        self.delivery_tag = source.octets()
        self.message_format = source.number()
        self.settled = source.three_way()
        self.more = source.flag()
        self.rcv_settle_mode = source.number()
        self.state = field_of(source)
        self.resume = source.flag()
        self.aborted = source.flag()
        self.batchable = source.flag()

    def fields(self, target: Sink) -> None:
        target.number(self.handle, 4)
        target.number(self.delivery_id, 4)
        target.octets(self.delivery_tag)
        target.number(self.message_format, 4)
        target.three_way(self.settled)
        target.flag(self.more)
        target.number(self.rcv_settle_mode, 1)
        put(target, self.state)
        target.flag(self.resume)
        target.flag(self.aborted)
        target.flag(self.batchable)


class Disposition(Composite):
    """A side says what became of deliveries. amqp:disposition:list, 2.7.6."""

    def __init__(
        self,
        *,
        role: bool = False,
        first: i64 = 0,
        last: i64 = -1,
        settled: bool = False,
        state: Composite | None = None,
        batchable: bool = False,
    ) -> None:
        self.role: bool = role
        self.first: i64 = first
        self.last: i64 = last
        self.settled: bool = settled
        self.state: Composite | None = state
        self.batchable: bool = batchable

    def descriptor(self) -> i64:
        return 0x15

    def fresh(self) -> Composite:
        return Disposition()

    def read(self, source: Octets) -> None:
        self.role = source.flag()
        self.first = source.number()
        if self.first < 0:
            raise MalformedFrame("Disposition has no first")
        self.last = source.number()
        self.settled = source.flag()
        self.state = field_of(source)
        self.batchable = source.flag()

    def fields(self, target: Sink) -> None:
        target.needed_flag(self.role)
        target.number(self.first, 4)
        target.number(self.last, 4)
        target.flag(self.settled)
        put(target, self.state)
        target.flag(self.batchable)


class Detach(Composite):
    """A side detaches a link, or closes it. amqp:detach:list, 2.7.7."""

    def __init__(
        self,
        *,
        handle: i64 = 0,
        closed: bool = False,
        error: Composite | None = None,
    ) -> None:
        self.handle: i64 = handle
        self.closed: bool = closed
        self.error: Composite | None = error

    def descriptor(self) -> i64:
        return 0x16

    def fresh(self) -> Composite:
        return Detach()

    def read(self, source: Octets) -> None:
        self.handle = source.number()
        if self.handle < 0:
            raise MalformedFrame("Detach has no handle")
        self.closed = source.flag()
        self.error = field_of(source)

    def fields(self, target: Sink) -> None:
        target.number(self.handle, 4)
        target.flag(self.closed)
        put(target, self.error)


class End(Composite):
    """A side ends the session. amqp:end:list, 2.7.8."""

    def __init__(
        self,
        *,
        error: Composite | None = None,
    ) -> None:
        self.error: Composite | None = error

    def descriptor(self) -> i64:
        return 0x17

    def fresh(self) -> Composite:
        return End()

    def read(self, source: Octets) -> None:
        self.error = field_of(source)

    def fields(self, target: Sink) -> None:
        put(target, self.error)


class Close(Composite):
    """A side closes the connection. amqp:close:list, 2.7.9."""

    def __init__(
        self,
        *,
        error: Composite | None = None,
    ) -> None:
        self.error: Composite | None = error

    def descriptor(self) -> i64:
        return 0x18

    def fresh(self) -> Composite:
        return Close()

    def read(self, source: Octets) -> None:
        self.error = field_of(source)

    def fields(self, target: Sink) -> None:
        put(target, self.error)


class Error(Composite):
    """What went wrong. amqp:error:list, 2.8.14."""

    def __init__(
        self,
        *,
        condition: str = "",
        description: str | None = None,
        info: dict[str, object] | None = None,
    ) -> None:
        self.condition: str = condition
        self.description: str | None = description
        self.info: dict[str, object] | None = info

    def descriptor(self) -> i64:
        return 0x1d

    def fresh(self) -> Composite:
        return Error()

    def read(self, source: Octets) -> None:
        condition = source.text()
        if condition is None:
            raise MalformedFrame("Error has no condition")
        self.condition = condition
        self.description = source.text()
        self.info = source.table()

    def fields(self, target: Sink) -> None:
        target.text(self.condition, True)
        target.text(self.description, False)
        target.table(self.info)


class Received(Composite):
    """So far a delivery has come. amqp:received:list, 3.4.1."""

    def __init__(
        self,
        *,
        section_number: i64 = 0,
        section_offset: i64 = 0,
    ) -> None:
        self.section_number: i64 = section_number
        self.section_offset: i64 = section_offset

    def descriptor(self) -> i64:
        return 0x23

    def fresh(self) -> Composite:
        return Received()

    def read(self, source: Octets) -> None:
        self.section_number = source.number()
        if self.section_number < 0:
            raise MalformedFrame("Received has no section_number")
        self.section_offset = source.number()
        if self.section_offset < 0:
            raise MalformedFrame("Received has no section_offset")

    def fields(self, target: Sink) -> None:
        target.number(self.section_number, 4)
        target.number(self.section_offset, 8)


class Accepted(Composite):
    """The receiver has it. amqp:accepted:list, 3.4.2."""

    def descriptor(self) -> i64:
        return 0x24

    def fresh(self) -> Composite:
        return Accepted()


class Rejected(Composite):
    """The receiver finds it wrong. amqp:rejected:list, 3.4.3."""

    def __init__(
        self,
        *,
        error: Composite | None = None,
    ) -> None:
        self.error: Composite | None = error

    def descriptor(self) -> i64:
        return 0x25

    def fresh(self) -> Composite:
        return Rejected()

    def read(self, source: Octets) -> None:
        self.error = field_of(source)

    def fields(self, target: Sink) -> None:
        put(target, self.error)


class Released(Composite):
    """The receiver has not looked at it. amqp:released:list, 3.4.4."""

    def descriptor(self) -> i64:
        return 0x26

    def fresh(self) -> Composite:
        return Released()


class Modified(Composite):
    """The receiver gives it back, changed. amqp:modified:list, 3.4.5."""

    def __init__(
        self,
        *,
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        message_annotations: dict[str, object] | None = None,
    ) -> None:
        self.delivery_failed: bool = delivery_failed
        self.undeliverable_here: bool = undeliverable_here
        self.message_annotations: dict[str, object] | None = message_annotations

    def descriptor(self) -> i64:
        return 0x27

    def fresh(self) -> Composite:
        return Modified()

    def read(self, source: Octets) -> None:
        self.delivery_failed = source.flag()
        self.undeliverable_here = source.flag()
        self.message_annotations = source.table()

    def fields(self, target: Sink) -> None:
        target.flag(self.delivery_failed)
        target.flag(self.undeliverable_here)
        target.table(self.message_annotations)


class Source(Composite):
    """Where the messages of a link come from. amqp:source:list, 3.5.3."""

    def __init__(
        self,
        *,
        address: object = None,
        durable: i64 = 0,
        expiry_policy: str | None = None,
        timeout: i64 = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[str, object] | None = None,
        distribution_mode: str | None = None,
        filter: dict[str, object] | None = None,
        default_outcome: Composite | None = None,
        outcomes: list[str] | None = None,
        capabilities: list[str] | None = None,
    ) -> None:
        self.address: object = address
        self.durable: i64 = durable
        self.expiry_policy: str | None = expiry_policy
        self.timeout: i64 = timeout
        self.dynamic: bool = dynamic
        self.dynamic_node_properties: dict[str, object] | None = dynamic_node_properties
        self.distribution_mode: str | None = distribution_mode
        self.filter: dict[str, object] | None = filter
        self.default_outcome: Composite | None = default_outcome
        self.outcomes: list[str] = [] if outcomes is None else outcomes
        self.capabilities: list[str] = [] if capabilities is None else capabilities

    def descriptor(self) -> i64:
        return 0x28

    def fresh(self) -> Composite:
        return Source()

    def read(self, source: Octets) -> None:
        self.address = source.anything()
        self.durable = source.number(0)
        self.expiry_policy = source.text()
        self.timeout = source.number(0)
        self.dynamic = source.flag()
        self.dynamic_node_properties = source.table()
        self.distribution_mode = source.text()
        self.filter = source.table()
        self.default_outcome = field_of(source)
        self.outcomes = source.texts()
        self.capabilities = source.texts()

    def fields(self, target: Sink) -> None:
        target.anything(self.address)
        target.number(-1 if self.durable == 0 else self.durable, 4)
        target.text(self.expiry_policy, True)
        target.number(-1 if self.timeout == 0 else self.timeout, 4)
        target.flag(self.dynamic)
        target.table(self.dynamic_node_properties)
        target.text(self.distribution_mode, True)
        target.table(self.filter)
        put(target, self.default_outcome)
        target.texts(self.outcomes)
        target.texts(self.capabilities)


class Target(Composite):
    """Where the messages of a link go to. amqp:target:list, 3.5.4."""

    def __init__(
        self,
        *,
        address: object = None,
        durable: i64 = 0,
        expiry_policy: str | None = None,
        timeout: i64 = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[str, object] | None = None,
        capabilities: list[str] | None = None,
    ) -> None:
        self.address: object = address
        self.durable: i64 = durable
        self.expiry_policy: str | None = expiry_policy
        self.timeout: i64 = timeout
        self.dynamic: bool = dynamic
        self.dynamic_node_properties: dict[str, object] | None = dynamic_node_properties
        self.capabilities: list[str] = [] if capabilities is None else capabilities

    def descriptor(self) -> i64:
        return 0x29

    def fresh(self) -> Composite:
        return Target()

    def read(self, source: Octets) -> None:
        self.address = source.anything()
        self.durable = source.number(0)
        self.expiry_policy = source.text()
        self.timeout = source.number(0)
        self.dynamic = source.flag()
        self.dynamic_node_properties = source.table()
        self.capabilities = source.texts()

    def fields(self, target: Sink) -> None:
        target.anything(self.address)
        target.number(-1 if self.durable == 0 else self.durable, 4)
        target.text(self.expiry_policy, True)
        target.number(-1 if self.timeout == 0 else self.timeout, 4)
        target.flag(self.dynamic)
        target.table(self.dynamic_node_properties)
        target.texts(self.capabilities)


class DeleteOnClose(Composite):
    """A dynamic node goes with its link. amqp:delete-on-close:list, 3.5.10."""

    def descriptor(self) -> i64:
        return 0x2b

    def fresh(self) -> Composite:
        return DeleteOnClose()


class Coordinator(Composite):
    """The target of a link for transactions. amqp:coordinator:list, 4.5.1."""

    def __init__(
        self,
        *,
        capabilities: list[str] | None = None,
    ) -> None:
        self.capabilities: list[str] = [] if capabilities is None else capabilities

    def descriptor(self) -> i64:
        return 0x30

    def fresh(self) -> Composite:
        return Coordinator()

    def read(self, source: Octets) -> None:
        self.capabilities = source.texts()

    def fields(self, target: Sink) -> None:
        target.texts(self.capabilities)


class Declare(Composite):
    """Begin a transaction. amqp:declare:list, 4.5.2."""

    def __init__(
        self,
        *,
        global_id: object = None,
    ) -> None:
        self.global_id: object = global_id

    def descriptor(self) -> i64:
        return 0x31

    def fresh(self) -> Composite:
        return Declare()

    def read(self, source: Octets) -> None:
        self.global_id = source.anything()

    def fields(self, target: Sink) -> None:
        target.anything(self.global_id)


class Discharge(Composite):
    """End a transaction. amqp:discharge:list, 4.5.3."""

    def __init__(
        self,
        *,
        txn_id: bytes = b"",
        fail: bool = False,
    ) -> None:
        self.txn_id: bytes = txn_id
        self.fail: bool = fail

    def descriptor(self) -> i64:
        return 0x32

    def fresh(self) -> Composite:
        return Discharge()

    def read(self, source: Octets) -> None:
        txn_id = source.octets()
        if txn_id is None:
            raise MalformedFrame("Discharge has no txn_id")
        self.txn_id = txn_id
        self.fail = source.flag()

    def fields(self, target: Sink) -> None:
        target.octets(self.txn_id)
        target.flag(self.fail)


class Declared(Composite):
    """A transaction has begun. amqp:declared:list, 4.5.5."""

    def __init__(
        self,
        *,
        txn_id: bytes = b"",
    ) -> None:
        self.txn_id: bytes = txn_id

    def descriptor(self) -> i64:
        return 0x33

    def fresh(self) -> Composite:
        return Declared()

    def read(self, source: Octets) -> None:
        txn_id = source.octets()
        if txn_id is None:
            raise MalformedFrame("Declared has no txn_id")
        self.txn_id = txn_id

    def fields(self, target: Sink) -> None:
        target.octets(self.txn_id)


class TransactionalState(Composite):
    """What is done belongs to a transaction. amqp:transactional-state:list, 4.5.8."""

    def __init__(
        self,
        *,
        txn_id: bytes = b"",
        outcome: Composite | None = None,
    ) -> None:
        self.txn_id: bytes = txn_id
        self.outcome: Composite | None = outcome

    def descriptor(self) -> i64:
        return 0x34

    def fresh(self) -> Composite:
        return TransactionalState()

    def read(self, source: Octets) -> None:
        txn_id = source.octets()
        if txn_id is None:
            raise MalformedFrame("TransactionalState has no txn_id")
        self.txn_id = txn_id
        self.outcome = field_of(source)

    def fields(self, target: Sink) -> None:
        target.octets(self.txn_id)
        put(target, self.outcome)


class SaslMechanisms(Composite):
    """How a client may say who it is. amqp:sasl-mechanisms:list, 5.3.3.1."""

    def __init__(
        self,
        *,
        sasl_server_mechanisms: list[str] | None = None,
    ) -> None:
        self.sasl_server_mechanisms: list[str] = [] if sasl_server_mechanisms is None else sasl_server_mechanisms

    def descriptor(self) -> i64:
        return 0x40

    def fresh(self) -> Composite:
        return SaslMechanisms()

    def read(self, source: Octets) -> None:
        self.sasl_server_mechanisms = source.texts()

    def fields(self, target: Sink) -> None:
        target.texts(self.sasl_server_mechanisms)


class SaslInit(Composite):
    """The client chooses a mechanism. amqp:sasl-init:list, 5.3.3.2."""

    def __init__(
        self,
        *,
        mechanism: str = "",
        initial_response: bytes | None = None,
        hostname: str | None = None,
    ) -> None:
        self.mechanism: str = mechanism
        self.initial_response: bytes | None = initial_response
        self.hostname: str | None = hostname

    def descriptor(self) -> i64:
        return 0x41

    def fresh(self) -> Composite:
        return SaslInit()

    def read(self, source: Octets) -> None:
        mechanism = source.text()
        if mechanism is None:
            raise MalformedFrame("SaslInit has no mechanism")
        self.mechanism = mechanism
        self.initial_response = source.octets()
        self.hostname = source.text()

    def fields(self, target: Sink) -> None:
        target.text(self.mechanism, True)
        target.octets(self.initial_response)
        target.text(self.hostname, False)


class SaslChallenge(Composite):
    """The server asks. amqp:sasl-challenge:list, 5.3.3.3."""

    def __init__(
        self,
        *,
        challenge: bytes = b"",
    ) -> None:
        self.challenge: bytes = challenge

    def descriptor(self) -> i64:
        return 0x42

    def fresh(self) -> Composite:
        return SaslChallenge()

    def read(self, source: Octets) -> None:
        challenge = source.octets()
        if challenge is None:
            raise MalformedFrame("SaslChallenge has no challenge")
        self.challenge = challenge

    def fields(self, target: Sink) -> None:
        target.octets(self.challenge)


class SaslResponse(Composite):
    """The client answers. amqp:sasl-response:list, 5.3.3.4."""

    def __init__(
        self,
        *,
        response: bytes = b"",
    ) -> None:
        self.response: bytes = response

    def descriptor(self) -> i64:
        return 0x43

    def fresh(self) -> Composite:
        return SaslResponse()

    def read(self, source: Octets) -> None:
        response = source.octets()
        if response is None:
            raise MalformedFrame("SaslResponse has no response")
        self.response = response

    def fields(self, target: Sink) -> None:
        target.octets(self.response)


class SaslOutcome(Composite):
    """Whether the client may come in. amqp:sasl-outcome:list, 5.3.3.5."""

    def __init__(
        self,
        *,
        code: i64 = 0,
        additional_data: bytes | None = None,
    ) -> None:
        self.code: i64 = code
        self.additional_data: bytes | None = additional_data

    def descriptor(self) -> i64:
        return 0x44

    def fresh(self) -> Composite:
        return SaslOutcome()

    def read(self, source: Octets) -> None:
        self.code = source.number()
        if self.code < 0:
            raise MalformedFrame("SaslOutcome has no code")
        self.additional_data = source.octets()

    def fields(self, target: Sink) -> None:
        target.number(self.code, 1)
        target.octets(self.additional_data)


class Header(Composite):
    """What intermediaries may change of a message. amqp:header:list, 3.2.1."""

    def __init__(
        self,
        *,
        durable: bool = False,
        priority: i64 = 4,
        ttl: i64 = -1,
        first_acquirer: bool = False,
        delivery_count: i64 = 0,
    ) -> None:
        self.durable: bool = durable
        self.priority: i64 = priority
        self.ttl: i64 = ttl
        self.first_acquirer: bool = first_acquirer
        self.delivery_count: i64 = delivery_count

    def descriptor(self) -> i64:
        return 0x70

    def fresh(self) -> Composite:
        return Header()

    def read(self, source: Octets) -> None:
        self.durable = source.flag()
        self.priority = source.number(4)
        self.ttl = source.number()
        self.first_acquirer = source.flag()
        self.delivery_count = source.number(0)

    def fields(self, target: Sink) -> None:
        target.flag(self.durable)
        target.number(-1 if self.priority == 4 else self.priority, 1)
        target.number(self.ttl, 4)
        target.flag(self.first_acquirer)
        target.number(-1 if self.delivery_count == 0 else self.delivery_count, 4)


class Properties(Composite):
    """What is fixed of a message, and known to all. amqp:properties:list, 3.2.4."""

    def __init__(
        self,
        *,
        message_id: object = None,
        user_id: bytes | None = None,
        to: object = None,
        subject: str | None = None,
        reply_to: object = None,
        correlation_id: object = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time: i64 = 0,
        creation_time: i64 = 0,
        group_id: str | None = None,
        group_sequence: i64 = -1,
        reply_to_group_id: str | None = None,
    ) -> None:
        self.message_id: object = message_id
        self.user_id: bytes | None = user_id
        self.to: object = to
        self.subject: str | None = subject
        self.reply_to: object = reply_to
        self.correlation_id: object = correlation_id
        self.content_type: str | None = content_type
        self.content_encoding: str | None = content_encoding
        self.absolute_expiry_time: i64 = absolute_expiry_time
        self.creation_time: i64 = creation_time
        self.group_id: str | None = group_id
        self.group_sequence: i64 = group_sequence
        self.reply_to_group_id: str | None = reply_to_group_id

    def descriptor(self) -> i64:
        return 0x73

    def fresh(self) -> Composite:
        return Properties()

    def read(self, source: Octets) -> None:
        self.message_id = source.anything()
        self.user_id = source.octets()
        self.to = source.anything()
        self.subject = source.text()
        self.reply_to = source.anything()
        self.correlation_id = source.anything()
        self.content_type = source.text()
        self.content_encoding = source.text()
        self.absolute_expiry_time = source.moment()
        self.creation_time = source.moment()
        self.group_id = source.text()
        self.group_sequence = source.number()
        self.reply_to_group_id = source.text()

    def fields(self, target: Sink) -> None:
        target.anything(self.message_id)
        target.octets(self.user_id)
        target.anything(self.to)
        target.text(self.subject, False)
        target.anything(self.reply_to)
        target.anything(self.correlation_id)
        target.text(self.content_type, True)
        target.text(self.content_encoding, True)
        target.moment(self.absolute_expiry_time)
        target.moment(self.creation_time)
        target.text(self.group_id, False)
        target.number(self.group_sequence, 4)
        target.text(self.reply_to_group_id, False)


_PROTOTYPES: Final[dict[int, Composite]] = {
    0x10: Open(),
    0x11: Begin(),
    0x12: Attach(),
    0x13: Flow(),
    0x14: Transfer(),
    0x15: Disposition(),
    0x16: Detach(),
    0x17: End(),
    0x18: Close(),
    0x1d: Error(),
    0x23: Received(),
    0x24: Accepted(),
    0x25: Rejected(),
    0x26: Released(),
    0x27: Modified(),
    0x28: Source(),
    0x29: Target(),
    0x2b: DeleteOnClose(),
    0x30: Coordinator(),
    0x31: Declare(),
    0x32: Discharge(),
    0x33: Declared(),
    0x34: TransactionalState(),
    0x40: SaslMechanisms(),
    0x41: SaslInit(),
    0x42: SaslChallenge(),
    0x43: SaslResponse(),
    0x44: SaslOutcome(),
    0x70: Header(),
    0x73: Properties(),
}
_SYMBOLS: Final[dict[str, int]] = {
    "amqp:open:list": 0x10,
    "amqp:begin:list": 0x11,
    "amqp:attach:list": 0x12,
    "amqp:flow:list": 0x13,
    "amqp:transfer:list": 0x14,
    "amqp:disposition:list": 0x15,
    "amqp:detach:list": 0x16,
    "amqp:end:list": 0x17,
    "amqp:close:list": 0x18,
    "amqp:error:list": 0x1d,
    "amqp:received:list": 0x23,
    "amqp:accepted:list": 0x24,
    "amqp:rejected:list": 0x25,
    "amqp:released:list": 0x26,
    "amqp:modified:list": 0x27,
    "amqp:source:list": 0x28,
    "amqp:target:list": 0x29,
    "amqp:delete-on-close:list": 0x2b,
    "amqp:coordinator:list": 0x30,
    "amqp:declare:list": 0x31,
    "amqp:discharge:list": 0x32,
    "amqp:declared:list": 0x33,
    "amqp:transactional-state:list": 0x34,
    "amqp:sasl-mechanisms:list": 0x40,
    "amqp:sasl-init:list": 0x41,
    "amqp:sasl-challenge:list": 0x42,
    "amqp:sasl-response:list": 0x43,
    "amqp:sasl-outcome:list": 0x44,
    "amqp:header:list": 0x70,
    "amqp:properties:list": 0x73,
}


def composite_of(source: Octets) -> Composite | None:
    """Return the composite that stands next; None for null. Raises MalformedFrame, LimitExceeded."""
    if source.data[source.take(1)] != DESCRIBED:
        source.at -= 1
        if source.octet() == NULL:
            return None
        raise MalformedFrame("a list of fields has no descriptor")
    descriptor = source.value(False, 1)
    known = _SYMBOLS.get(descriptor) if isinstance(descriptor, str) else descriptor
    prototype = _PROTOTYPES.get(known) if isinstance(known, int) else None
    if prototype is None:
        return Unknown(Described(descriptor, source.value(False, 2)))
    made = prototype.fresh()
    outer_end, outer_left = source.end, source.left
    source.end = source.enter()
    made.read(source)
    source.at = source.end
    source.end = outer_end
    source.left = outer_left
    return made


def field_of(source: Octets) -> Composite | None:
    """Return the composite that is the next field; None for null, or where there are no more. Raises as above."""
    if source.left <= 0:
        return None
    source.left -= 1
    source.sink(1)
    made = composite_of(source)
    source.sink(-1)
    return made


def put(target: Sink, value: Composite | None) -> None:
    """Write a composite as a field. Raises Inexpressible."""
    if value is None:
        target.null()
        return
    if isinstance(value, Unknown):
        target.anything(value.value)
        return
    target.leave()
    value.write(target)
    target.back()
