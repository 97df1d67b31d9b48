"""OpenWire as one of the broker's languages: messages kept as they came, opened on demand, and said in other tongues.

``Message.raw`` is the message from its type octet to its end: loose, without cache, in the layout of version 12
(versions 10 and 11 share it). ``body_at`` is the offset behind the sequence that the broker gives. What came in another
format is brought into this one on arrival, once. ``escaped`` marks a message whose octets may not go out as they are:
one with a data structure (an advisory), which only version 12 reads, or one whose envelope the broker changed. [C]
"""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Fault, Inexpressible, InvalidDestination
from entrepot.base.trace_context import ABSENT, WINDOW, peek
from entrepot.model import address as names
from entrepot.model.address import MULTICAST
from entrepot.model.ids import FOREIGN_SESSION
from entrepot.model.message import (
    BODY_BYTES,
    BODY_EMPTY,
    BODY_MAP,
    BODY_OBJECT,
    BODY_STREAM,
    BODY_TEXT,
    LANGUAGE_OPENWIRE,
    SEQUENCE_MAX,
    USER,
    Common,
    Language,
    Message,
    Rare,
    register,
)
from entrepot.model.predicate import Value
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.bodies import (
    bytes_message,
    map_message,
    map_of_body,
    object_message,
    octets_of,
    pack_properties,
    properties_of,
    row_of_body,
    stream_message,
    text_message,
    text_of_body,
)
from entrepot.protocols.openwire.codec import prototypes
from entrepot.protocols.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQQueue,
    ActiveMQStreamMessage,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTextMessage,
    ActiveMQTopic,
    Destination,
    MessageId,
)
from entrepot.protocols.openwire.frames import FrameReader, FrameWriter
from entrepot.protocols.openwire.ids import foreign_producer, is_queue, is_temporary, path_of, qualified_name, text_of
from entrepot.protocols.openwire.schema import VERSION_MAX, message_layout

LAYOUT: Final = message_layout(VERSION_MAX)
BLOB: Final = 29  # the one kind of message whose times do not stand at its end
SHORTEST: Final = 64  # octets of a message, at least, whose end is looked at
TAIL_OCTETS: Final = 1  # behind the times: whether it is the first of its group
GROUP_FIRST: Final = "JMSXGroupFirstForConsumer"
SCHEDULER_WORD: Final = b"AMQ_SCHEDULED_"
SCHEDULED_NAMES: Final = (  # properties that ask the broker's scheduler for something (classic.md 4.13)
    "AMQ_SCHEDULED_DELAY",
    "AMQ_SCHEDULED_TIME",
    "AMQ_SCHEDULED_PERIOD",
    "AMQ_SCHEDULED_REPEAT",
    "AMQ_SCHEDULED_CRON",
)
UNREADABLE: Final = "unreadable"
SCHEDULED_JOB: Final = "scheduledJobId"


def has_no_path(raw: bytes) -> bool:
    """Return True for a message that surely has no path, without opening it: the usual case, asked once a message.

    Its end, octets from behind (loose, `LAYOUT`), when path, user and cluster are not there::

        30 path: 0 · 29 arrival i64 · 21 user: 0 · 20 bridged · 19 droppable · 18 cluster: 0 · 17 in i64 · 9 out i64 · 1

    Text never ends in a zero octet, so something in place of one of these zeros is seen; an empty user (1 0 0) or an
    empty cluster (1 0 0) would shift the rest by two, and are told by their first octet.
    """
    size: i64 = len(raw)
    if size < SHORTEST or raw[0] == BLOB:
        return False
    if raw[size - 18] or raw[size - 19] or raw[size - 20] or raw[size - 21] or raw[size - 30]:
        return False
    return not (raw[size - 23] == 1 and raw[size - 22] == 0)


class OpenWireLanguage(Language):
    """Opens messages. Remembers the last one, since a selector asks the same message several times."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_OPENWIRE, "OpenWire")
        self._raw: bytes = b""
        self._opened: commands.Message | None = None
        self._properties: dict[str, object] | None = None
        self._connection: str | None = None  # whose prefix was asked for last, and how it is spelt
        self._session: i64 = 0
        self._producer: i64 = 0
        self._prefix: str = ":0:0:"

    def opened(self, message: Message) -> commands.Message:
        """Return ``message`` as a command, which must not be changed."""
        opened = self._opened
        if opened is None or message.raw is not self._raw:
            opened = decode(message.raw)
            self._raw = message.raw
            self._opened = opened
            self._properties = None
        return opened

    def remember(self, raw: bytes, opened: commands.Message) -> None:
        """Note that ``raw`` says ``opened``: who reads it in another language does so at once, mostly."""
        self._raw = raw
        self._opened = opened
        self._properties = None

    def identity(self, message: Message) -> str:
        """Return the id that its sender gave it."""
        message_id = self.opened(message).message_id
        return "" if message_id is None else text_of(message_id)

    def path(self, message: Message) -> tuple[str, ...]:
        """Return its broker path; opened only for those that may have one."""
        return () if has_no_path(message.raw) else path_of(self.opened(message).broker_path)

    def let_go(self, message: Message) -> i64:
        """Return when the last broker wrote it."""
        return self.opened(message).broker_out_time

    def consumer_path(self, message: Message) -> tuple[str, ...] | None:
        """Return the path of the consumer that an advisory tells of."""
        said = self.opened(message).data_structure
        return path_of(said.broker_path) if isinstance(said, commands.ConsumerInfo) else None

    def sequence(self, message: Message) -> i64:
        """Return the number that its producer gave it."""
        message_id = self.opened(message).message_id
        return 0 if message_id is None else message_id.producer_sequence_id

    def prefix(self, message: Message) -> str:
        """Return who produced it, spelt out once for many of its messages."""
        message_id = self.opened(message).message_id
        if message_id is None or message_id.text_view or not 0 <= message_id.producer_sequence_id <= SEQUENCE_MAX:
            return ""
        producer = message_id.producer_id
        if producer is None or producer.session_id < FOREIGN_SESSION:  # see `id_apart`
            return ""
        if (
            producer.value != self._producer
            or producer.session_id != self._session
            or producer.connection_id != self._connection
        ):
            self._producer = producer.value
            self._session = producer.session_id
            self._connection = producer.connection_id
            self._prefix = text_of(producer) + ":"
        return self._prefix

    def changed(self, message: Message) -> None:
        """Have ``message`` encoded anew for each of its readers."""
        message.escaped = True

    def context(self, message: Message) -> i64:
        """Look into the properties; into the end, where they stand behind the body, if it was not opened just now."""
        opened = self._opened
        if opened is not None and message.raw is self._raw:
            properties = opened.marshalled_properties
            return ABSENT if properties is None else peek(properties, 0, WINDOW, 3)
        size: i64 = len(message.raw)
        return peek(message.raw, max(0, size - WINDOW), size, 3)

    def fact(self, message: Message, name: str) -> Value:
        """Return one header or property; properties keep their types. What cannot be read is not there."""
        opened = self.opened(message)
        if name.startswith("JMS"):
            known, value = _header(opened, name)
            if known:
                return value
        properties = self._properties
        if properties is None:
            properties = _properties(opened)
            self._properties = properties
        return _plain(properties.get(name))

    def exact(self, message: Message) -> dict[str, object] | None:
        """Return a map's entries with their types. Raises MalformedFrame, LimitExceeded."""
        opened = self.opened(message)
        return map_of_body(opened, typed=True) if isinstance(opened, ActiveMQMapMessage) else None

    def common(self, message: Message) -> Common:
        """Return the message in the common form, inflated.

        Never raises: a body that its kind forbids, or that inflates beyond reason, is octets as they came, with the
        property `UNREADABLE`. Whoever reads is not to blame for what was sent, and may have to put it away.
        """
        opened = self.opened(message)
        try:
            said = _body(opened)
        except EntrepotError as error:
            said = Common(BODY_BYTES, opened.content or b"")
            said.properties[UNREADABLE] = error.message
        said.correlation_id = opened.correlation_id
        said.type = opened.jms_type
        said.user_id = opened.user_id
        passed = opened.broker_path
        if passed is not None:
            said.path = [broker.value or "" for broker in passed]
        if opened.reply_to is not None:
            said.reply_to = stomp_name(opened.reply_to)
        if opened.original_destination is not None:
            said.original = stomp_name(opened.original_destination)
        for name, value in _properties(opened).items():
            if value is not None:
                said.properties[name] = _plain(value)
        if opened.group_id:
            said.properties["JMSXGroupID"] = opened.group_id
            said.properties["JMSXGroupSeq"] = int(opened.group_sequence)
        return said


def _header(opened: commands.Message, name: str) -> tuple[bool, Value]:
    """Return (is it a header that only the encoding knows, its value): classic.md 4.9, pseudo-properties."""
    if name == "JMSType":
        return True, opened.jms_type
    if name == "JMSCorrelationID":
        return True, opened.correlation_id
    if name == "JMSMessageID":
        return True, None if opened.message_id is None else text_of(opened.message_id)
    if name == "JMSReplyTo":
        return True, None if opened.reply_to is None else qualified_name(opened.reply_to)
    if name == "JMSDestination":
        where = opened.original_destination
        if where is None:
            where = opened.destination
        return True, None if where is None else qualified_name(where)
    if name == "JMSXGroupID":
        return True, opened.group_id
    if name == "JMSXGroupSeq":
        return True, int(opened.group_sequence)
    if name == "JMSXUserID":
        return True, opened.user_id
    if name == "JMSXProducerTXID":
        transaction = opened.original_transaction_id
        if transaction is None:
            transaction = opened.transaction_id
        return True, None if transaction is None else text_of(transaction)
    return False, None


def _properties(opened: commands.Message) -> dict[str, object]:
    try:
        return properties_of(opened)
    except EntrepotError:  # its sender's fault, and no reason to keep the message from those who do not look inside
        return {}


def _plain(value: object) -> Value:
    """Return a property as other languages can say it; nested maps and lists become JSON."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)


def _body(opened: commands.Message) -> Common:
    if isinstance(opened, ActiveMQTextMessage):
        return Common(BODY_TEXT, text_of_body(opened) or "")
    if isinstance(opened, ActiveMQBytesMessage):
        return Common(BODY_BYTES, octets_of(opened) or b"")
    if isinstance(opened, ActiveMQMapMessage):
        return Common(BODY_MAP, map_of_body(opened))
    if isinstance(opened, ActiveMQStreamMessage):
        return Common(BODY_STREAM, row_of_body(opened))
    if isinstance(opened, ActiveMQObjectMessage):
        return Common(BODY_OBJECT, octets_of(opened) or b"")
    return Common(BODY_EMPTY, None)


OPENWIRE_LANGUAGE: Final = OpenWireLanguage()
register(OPENWIRE_LANGUAGE)


# -- octets --------------------------------------------------------------------------------------------------------


def decode(raw: bytes) -> commands.Message:
    """Return the command whose octets ``raw`` holds."""
    reader = FrameReader(
        prototypes(VERSION_MAX), VERSION_MAX, tight=False, cache_size=0, stack_traces=True, layout=LAYOUT
    )
    found = reader.frame(raw, 0, len(raw))
    if not isinstance(found, commands.Message):
        raise Fault("what is stored as an OpenWire message is none")
    return found


def encode(command: commands.Message) -> bytes:
    """Return the octets of ``command`` as `Message.raw` has them. Raises Inexpressible."""
    writer = BytesWriter()
    try:
        FrameWriter(VERSION_MAX, tight=False, cache_size=0, stack_traces=True).frame(writer, command)
    except OverflowError as error:
        raise Inexpressible("a number does not fit its field") from error
    return writer.getvalue()


def message_of(command: commands.Message, address: str) -> Message:
    """Return ``command`` as a message of the broker, for ``address``. Raises Inexpressible."""
    first = command.first
    if first is not None and first.layout == LAYOUT:
        message = Message(OPENWIRE_LANGUAGE, address, first.octets)
        message.body_at = first.sequence_mark
        OPENWIRE_LANGUAGE.remember(first.octets, command)
    else:
        raw = encode(command)
        message = Message(OPENWIRE_LANGUAGE, address, raw)
        message.body_at = decode(raw).mark_sequence
        message.escaped = command.data_structure is not None
    message.durable = command.persistent
    message.timestamp = command.timestamp
    message.expiration = max(command.expiration, 0)
    priority = i64(command.priority)
    message.priority = min(max(priority, 0), 9)
    message.redelivered = command.redelivery_counter > 0
    if command.compressed:
        message.need_rare().deflated = True
    if command.group_id:
        rare = message.need_rare()
        rare.group = command.group_id
        rare.group_sequence = i64(command.group_sequence)
    properties = command.marshalled_properties
    if properties is None:
        message.context = ABSENT
    elif SCHEDULER_WORD in properties:
        for name, value in _properties(command).items():
            if name in SCHEDULED_NAMES and value is not None:
                message.annotate(name, str(value))
    return message


def times_mark(raw: bytes) -> i64:
    """Return the offset behind broker-in and broker-out time in ``raw``."""
    if raw[0] == BLOB:
        return decode(raw).mark_times
    return len(raw) - TAIL_OCTETS


def passes(message: Message, address: str) -> bool:
    """Return whether the octets of ``message`` say what a reader of ``address`` should see, or must be changed."""
    if message.language is not OPENWIRE_LANGUAGE or message.address != address or message.escaped:
        return False
    rare = message.rare
    return rare is None or is_untouched(rare)


def is_untouched(rare: Rare) -> bool:
    """Return whether the broker added nothing that a reader of OpenWire must be shown as a property."""
    if rare.identity or rare.large_id:
        return False
    for name in rare.annotations:  # noqa: SIM110 - a loop compiles to half the time of a generator
        if name != GROUP_FIRST and name not in SCHEDULED_NAMES:
            return False
    return True


# -- names ---------------------------------------------------------------------------------------------------------


def named(name: str, topic: bool, temporary: bool) -> Destination:
    """Return the destination of OpenWire called ``name``."""
    if topic:
        return ActiveMQTempTopic(name) if temporary else ActiveMQTopic(name)
    return ActiveMQTempQueue(name) if temporary else ActiveMQQueue(name)


def stomp_name(where: Destination) -> str:
    """Return how other protocols write ``where``: ``/queue/A``, ``/remote-temp-queue/A``."""
    kind = "queue" if is_queue(where) else "topic"
    return f"/{'remote-temp-' if is_temporary(where) else ''}{kind}/{where.physical_name or ''}"


def written(text: str) -> Destination | None:
    """Return the destination that another protocol wrote as ``text``, None when it is not one of ours."""
    try:
        parsed = names.parse_one(text)
    except (EntrepotError, InvalidDestination):
        return None
    if "/" not in text and "://" not in text:
        return None
    return named(parsed.name, parsed.routing == MULTICAST, parsed.temporary)


# -- what a reader of OpenWire is shown ----------------------------------------------------------------------------


def presented(
    message: Message, where: Destination, identity: str, node_id: str, body: bytes | None
) -> commands.Message:
    """Return ``message`` as a command for a reader of ``where``: converted, or copied with what the broker changed.

    ``body`` replaces one that lies outside of the message. Raises Inexpressible, MalformedFrame.
    """
    if message.language is OPENWIRE_LANGUAGE:
        made = decode(message.raw)
    else:
        made = _converted(message, node_id, identity, body)
    made.first = None
    before = made.destination
    if before != where:
        if before is not None and made.original_destination is None:
            made.original_destination = before
        made.destination = where
    made.persistent = message.durable
    made.expiration = message.expiration
    if message.timestamp > 0:
        made.timestamp = message.timestamp
    rare = message.rare
    if rare is not None and rare.annotations:
        _annotate(made, rare.annotations)
    made.broker_in_time = message.timestamp
    message_id = made.message_id
    if message_id is not None:
        message_id.broker_sequence_id = message.number
    return made


def _annotate(made: commands.Message, annotations: dict[str, str]) -> None:
    """Say as properties what the broker added; a job of the scheduler that went out loses what asked for it, one that
    is only shown (`core/operators/jobs.py`) has it still (classic.md 4.13).
    """
    properties = properties_of(made, typed=True)
    if SCHEDULED_JOB in annotations:
        for name in SCHEDULED_NAMES:
            if name not in annotations:
                properties.pop(name, None)
            elif name not in properties:
                properties[name] = annotations[name]
    for name, text in annotations.items():
        if name == GROUP_FIRST:
            made.jmsx_group_first_for_consumer = True
        elif name == USER:
            made.user_id = text or None
        elif name not in SCHEDULED_NAMES:
            properties[name] = int(text) if name in ("originalExpiration", "deliveryCount") else text
    made.marshalled_properties = pack_properties(properties)


def _converted(message: Message, node_id: str, identity: str, body: bytes | None) -> commands.Message:
    said = message.common()
    if body is not None:
        said.body = body.decode("utf-8", "replace") if said.body_kind == BODY_TEXT else body
    if said.body_kind == BODY_MAP:
        said.body = message.language.exact(message)
    made = _with_body(said)
    producer = foreign_producer(node_id)
    made.producer_id = producer
    made.message_id = MessageId(text_view=identity, producer_id=producer, producer_sequence_id=message.number)
    made.correlation_id = said.correlation_id
    made.jms_type = said.type
    made.user_id = said.user_id
    made.priority = int(message.priority)
    made.timestamp = message.timestamp
    properties: dict[str, object] = dict(said.properties)
    if said.content_type is not None:
        properties["content-type"] = said.content_type
    if said.reply_to is not None:
        made.reply_to = written(said.reply_to)
        if made.reply_to is None:
            properties["reply-to"] = said.reply_to
    if said.original is not None:
        made.original_destination = written(said.original)
    rare = message.rare
    if rare is not None and rare.group:
        made.group_id = rare.group
        made.group_sequence = int(rare.group_sequence)
        for name in ("JMSXGroupID", "JMSXGroupSeq"):
            properties.pop(name, None)
    for name in ("priority", "expires", "timestamp", "persistent", "destination", "receipt", "transaction"):
        properties.pop(name, None)
    made.marshalled_properties = pack_properties(properties)
    return made


def _with_body(said: Common) -> commands.Message:
    body = said.body
    if said.body_kind == BODY_TEXT and isinstance(body, str):
        return text_message(body)
    if said.body_kind == BODY_BYTES and isinstance(body, bytes):
        return bytes_message(body)
    if said.body_kind == BODY_MAP and isinstance(body, dict):
        return map_message(body)
    if said.body_kind == BODY_STREAM and isinstance(body, list):
        return stream_message(body)
    if said.body_kind == BODY_OBJECT and isinstance(body, bytes):
        return object_message(body)
    return ActiveMQMessage()


def without_body(made: commands.Message) -> commands.Message:
    """Return ``made`` with headers and properties alone: what an advisory carries unless it shall include bodies."""
    made.first = None
    made.content = None
    made.compressed = False
    if isinstance(made, ActiveMQBlobMessage):
        made.remote_blob_url = None
    return made
