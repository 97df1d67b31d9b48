"""AMQP as one of the broker's languages: messages kept as they came, opened on demand, and said in other tongues. [C]

``Message.raw`` is the message as its sender encoded it, without the delivery annotations, which are for one hop. A
body that is streamed to disk is the content of its data, or of its text: ``raw`` ends with the head of that section
then, and a footer is kept beside (`FOOTER_MARK`). ``body_at``: where that begins which may not change, behind
the header. ``escaped`` marks a message whose header must be written anew, since the broker changed its envelope.

What is said in other languages follows the mapping of JMS (OASIS, AMQP Bindings and Mappings; classic.md 6.5).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.base.primitive import plain
from entrepot.base.trace_context import ABSENT, TRACEPARENT, WINDOW, peek
from entrepot.model import address as names
from entrepot.model.message import (
    BODY_BYTES,
    BODY_EMPTY,
    BODY_MAP,
    BODY_OBJECT,
    BODY_STREAM,
    BODY_TEXT,
    HIGHEST_PRIORITY,
    LANGUAGE_AMQP,
    USER,
    Common,
    Language,
    Message,
    register,
)
from entrepot.model.predicate import Value
from entrepot.protocols.amqp.identities import identity_of
from entrepot.protocols.amqp.performatives import Properties
from entrepot.protocols.amqp.primitives import Described, Exact, Source
from entrepot.protocols.amqp.sections import (
    DATA,
    SEQUENCE,
    VALUE,
    Sections,
    map_in,
    properties_in,
    scan,
)

FOOTER_MARK: Final = "amqp-footer"
TRANSFORMER_MARK: Final = "amqp-transformer"
"""Internal annotation: ``native`` or ``raw``, where others are to be shown the octets (classic.md 6.5)."""
NATIVE: Final = "JMS_AMQP_NATIVE"
MESSAGE_TYPE: Final = "x-opt-jms-msg-type"
DESTINATION_TYPE: Final = "x-opt-jms-dest"
REPLY_TYPE: Final = "x-opt-jms-reply-to"
DELIVERY_TIME: Final = "x-opt-delivery-time"
DELIVERY_DELAY: Final = "x-opt-delivery-delay"
INGRESS: Final = "x-opt-ingress-time"
SCHEDULES: Final = {
    "x-opt-delivery-repeat": "AMQ_SCHEDULED_REPEAT",
    "x-opt-delivery-period": "AMQ_SCHEDULED_PERIOD",
    "x-opt-delivery-cron": "AMQ_SCHEDULED_CRON",
}
DUPLICATE: Final = "_AMQ_DUPL_ID"
OBJECT_TYPE: Final = "application/x-java-serialized-object"
UNREADABLE: Final = "unreadable"

JMS_MESSAGE, JMS_OBJECT, JMS_MAP, JMS_BYTES, JMS_STREAM, JMS_TEXT = range(6)
_DUPLICATE_OCTETS: Final = DUPLICATE.encode()


class AmqpLanguage(Language):
    """Opens messages."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_AMQP, "AMQP")

    def identity(self, message: Message) -> str:
        """Return the message id that the sender gave, as JMS has it."""
        try:
            properties = properties_in(message.raw, sections_of(message))
            return "" if properties is None else identity_of(properties.message_id)
        except EntrepotError:
            return ""

    def changed(self, message: Message) -> None:
        """Have the header written anew for each reader."""
        message.escaped = True

    def bereave(self, message: Message) -> None:
        """Say that there is no body."""
        sections = sections_of(message)
        message.raw = message.raw[: sections.body_start]
        message.unmark(FOOTER_MARK)

    def context(self, message: Message) -> i64:
        """Look into what may stand before the body."""
        return peek(message.raw, 0, WINDOW, 2)

    def fact(self, message: Message, name: str) -> Value:
        """Return one header or property. What cannot be read is not there."""
        try:
            return _fact(message, name)
        except EntrepotError:
            return None

    def exact(self, message: Message) -> dict[str, object] | None:
        """Return a map's entries with their types. Raises MalformedFrame."""
        sections = sections_of(message)
        if sections.body_kind != VALUE or is_large(message):
            return None
        value = Source(message.raw, sections.bodies[0], len(message.raw)).value(True)
        return _texts(value) if isinstance(value, dict) else None

    def common(self, message: Message) -> Common:
        """Return the message in the common form.

        Never raises: what cannot be read is octets as they came, with the property `UNREADABLE`.
        """
        shown = message.marked(TRANSFORMER_MARK)
        try:
            if shown == "raw" and not is_large(message):
                return _native(message.raw)
            said = _common(message)
            if shown == "native" and not is_large(message):
                said.body_kind, said.body = BODY_BYTES, message.raw
                said.properties[NATIVE] = True
            return said
        except EntrepotError as error:
            said = Common(BODY_BYTES, message.raw)
            said.properties[UNREADABLE] = error.message
            return said


def _native(octets: bytes) -> Common:
    said = Common(BODY_BYTES, octets)
    said.properties[NATIVE] = True
    return said


AMQP_LANGUAGE: Final = AmqpLanguage()
register(AMQP_LANGUAGE)


def sections_of(message: Message) -> Sections:
    """Return where the sections of ``message`` are. Raises MalformedFrame."""
    if is_large(message):
        found = scan_large(message.raw)
        return found
    return scan(message.raw)


def scan_large(head: bytes) -> Sections:
    """Return the sections of a message whose octets end with the head of its body, 8 octets of it."""
    found = scan(head, len(head) - LARGE_HEAD_OCTETS)
    found.body_start = len(head) - LARGE_HEAD_OCTETS
    found.body_kind = i64(head[found.body_start + 2])
    found.body_end = len(head)
    return found


LARGE_HEAD_OCTETS: Final = 8


def is_large(message: Message) -> bool:
    """Return whether the body of ``message`` is on disk."""
    rare = message.rare
    return rare is not None and rare.large_id != 0


# -- facts ---------------------------------------------------------------------------------------------------------


def _fact(message: Message, name: str) -> Value:
    raw = message.raw
    sections = sections_of(message)
    if name.startswith("JMS") or name in ("AMQUserID", "AMQAddress"):
        if name in ("JMSDestination", "AMQAddress"):
            return message.address
        known, value = _header(properties_in(raw, sections), name)
        if known:
            return value
    if name.startswith("m."):  # as Artemis has it: an annotation
        return _plain(map_in(raw, sections.annotations_at).get(name[2:]))
    at = sections.application_at
    if at < 0 or name.encode("utf-8", "replace") not in raw[at : sections.application_end]:
        return None
    return _plain(map_in(raw, at).get(name))


def _header(properties: Properties | None, name: str) -> tuple[bool, Value]:
    if name in ("JMSMessageID", "AMQUserID"):
        return True, None if properties is None else identity_of(properties.message_id) or None
    if name == "JMSCorrelationID":
        return True, None if properties is None else correlation_of(properties)
    if name == "JMSType":
        return True, None if properties is None else properties.subject
    if name == USER:
        return True, None if properties is None else _user(properties)
    if name == "JMSReplyTo":
        return True, None if properties is None or not isinstance(properties.reply_to, str) else properties.reply_to
    return False, None


def _plain(value: object) -> Value:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return str(value.value) if isinstance(value, Exact) else str(value)


def _user(properties: Properties) -> str | None:
    return None if properties.user_id is None else properties.user_id.decode("utf-8", "replace")


def correlation_of(properties: Properties) -> str | None:
    """Return the correlation id as JMS has it: a text that an application chose, or an id."""
    value = properties.correlation_id
    if value is None or isinstance(value, str):
        return value
    return identity_of(value)


# -- arrival -------------------------------------------------------------------------------------------------------


class Arrived:
    """A message that has come. ``to``: the address in its properties; ``routing``: what its annotations say of that."""

    def __init__(self, message: Message, to: object, routing: int) -> None:
        self.message: Message = message
        self.to: object = to
        self.routing: int = routing


def message_of(octets: bytes, wall: i64) -> Arrived:
    """Return what the octets of a message say. Raises MalformedFrame, LimitExceeded."""
    return _arrived(octets, scan(octets), wall)


def large_message_of(head: bytes, wall: i64) -> Arrived:
    """Return what the head of a message says whose body is on its way to disk. Raises MalformedFrame, LimitExceeded."""
    return _arrived(head, scan_large(head), wall)


def _arrived(octets: bytes, sections: Sections, wall: i64) -> Arrived:
    if sections.delivery_at >= 0:  # between two neighbours, and not for who comes behind them (3.2.2)
        octets = octets[: sections.header_end] + octets[sections.bare_at :]
        gone = sections.bare_at - sections.header_end
        sections.bare_at = sections.header_end
        for_all = (sections.annotations_at, sections.properties_at, sections.application_at)
        sections.annotations_at, sections.properties_at, sections.application_at = (
            i64(at - gone if at >= 0 else at) for at in for_all
        )
        sections.application_end -= gone
    message = Message(AMQP_LANGUAGE, "", octets)
    message.body_at = sections.bare_at
    header = sections.header
    ttl: i64 = -1
    if header is not None:
        message.durable = header.durable
        message.priority = min(header.priority, HIGHEST_PRIORITY)
        message.redelivered = header.delivery_count > 0
        ttl = header.ttl
    properties = properties_in(octets, sections)
    to: object = None
    message.timestamp = wall
    if properties is not None:
        to = properties.to
        if properties.creation_time > 0:
            message.timestamp = properties.creation_time
        message.expiration = properties.absolute_expiry_time
        if properties.group_id:
            rare = message.need_rare()
            rare.group = properties.group_id
            rare.group_sequence = signed(properties.group_sequence)
    if ttl > 0:
        message.expiration = wall + ttl
    routing = names.UNTYPED
    untraced = sections.application_at < 0
    if sections.annotations_at >= 0:
        annotations = map_in(octets, sections.annotations_at)
        untraced = untraced and TRACEPARENT not in annotations
        routing = _annotations(message, annotations, wall)
    if untraced:
        message.context = ABSENT
    if sections.application_at >= 0 and _DUPLICATE_OCTETS in octets[sections.application_at : sections.application_end]:
        _note_duplicate(message, map_in(octets, sections.application_at).get(DUPLICATE))
    return Arrived(message, to, routing)


def signed(sequence: i64) -> i64:
    """Return a group sequence as JMS has it, which has a sign; 0 for none."""
    if sequence < 0:
        return 0
    return sequence - (1 << 32) if sequence > 0x7FFFFFFF else sequence


def _note_duplicate(message: Message, value: object) -> None:
    if isinstance(value, bytes) and value:
        message.need_rare().duplicate_id = value
    elif isinstance(value, str) and value:
        message.need_rare().duplicate_id = value.encode("utf-8", "replace")


def _annotations(message: Message, found: dict[object, object], wall: i64) -> int:
    """Obey what annotations ask for; return the routing type that they say."""
    at = found.get(DELIVERY_TIME)
    delay = found.get(DELIVERY_DELAY)
    if isinstance(at, int) and at > wall:
        _delay(message, at)
    elif isinstance(delay, int) and delay > 0:
        _delay(message, min(int(wall) + delay, (1 << 62)))
    for name, wanted in SCHEDULES.items():
        value = found.get(name)
        if value is not None and not isinstance(value, (dict, list, Described, Exact)):
            message.annotate(wanted, str(value))
    kind = found.get(DESTINATION_TYPE)
    if isinstance(kind, int) and 0 <= kind <= 3:
        return names.MULTICAST if kind & 1 else names.ANYCAST
    return names.UNTYPED


def _delay(message: Message, at: int) -> None:
    rare = message.need_rare()
    rare.deliver_at = i64(at)
    rare.annotations["AMQ_SCHEDULED_TIME"] = str(at)


# -- in the common form --------------------------------------------------------------------------------------------


def _common(message: Message) -> Common:
    sections = sections_of(message)
    raw = message.raw
    properties = properties_in(raw, sections)
    annotations = map_in(raw, sections.annotations_at)
    said = _body(message, sections, properties, annotations.get(MESSAGE_TYPE))
    if properties is not None:
        said.correlation_id = correlation_of(properties)
        said.type = properties.subject
        said.content_type = properties.content_type
        said.user_id = _user(properties)
        if isinstance(properties.reply_to, str):
            said.reply_to = reply_name(properties.reply_to, annotations.get(REPLY_TYPE))
        if properties.content_encoding:
            said.properties["JMS_AMQP_ContentEncoding"] = properties.content_encoding
        if properties.reply_to_group_id:
            said.properties["JMS_AMQP_ReplyToGroupID"] = properties.reply_to_group_id
        if properties.group_id:
            said.properties["JMSXGroupID"] = properties.group_id
            said.properties["JMSXGroupSeq"] = int(signed(properties.group_sequence))
    for key, value in annotations.items():
        if isinstance(key, str) and not key.startswith(("x-opt-jms-", "x-opt-delivery-")) and _is_simple(value):
            said.properties[f"JMS_AMQP_MA_{key}"] = _plain(value)
    for key, value in map_in(raw, sections.application_at).items():
        if isinstance(key, str) and _is_simple(value):
            said.properties[key] = _plain(value)
    return said


def _is_simple(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, Exact))


def reply_name(text: str, kind: object) -> str:
    """Return where an answer goes, as other protocols write it: ``/queue/A``, ``/remote-temp-queue/A``."""
    routing, temporary = names.ANYCAST, False
    if isinstance(kind, int) and 0 <= kind <= 3:
        routing = names.MULTICAST if kind & 1 else names.ANYCAST
        temporary = kind >= 2
    try:
        where = names.parse_one(text, routing)
    except EntrepotError:
        return text
    word = "topic" if where.routing == names.MULTICAST else "queue"
    return f"/{'remote-temp-' if temporary or where.temporary else ''}{word}/{where.name}"


def _body(message: Message, sections: Sections, properties: Properties | None, kind: object) -> Common:
    raw = message.raw
    if is_large(message):
        if sections.body_kind == VALUE and raw[sections.body_start + 3] == 0xB1:
            return Common(BODY_TEXT, "")
        return _octets(b"", properties)
    if sections.body_kind == DATA:
        return _octets(b"".join([_data(raw, at) for at in sections.bodies]), properties)
    if sections.body_kind == SEQUENCE:
        row: list[object] = []
        for at in sections.bodies:
            value = Source(raw, at, len(raw)).value(True)
            row += value if isinstance(value, list) else [value]
        return Common(BODY_STREAM, plain(row))
    if sections.body_kind != VALUE:
        return Common(BODY_BYTES, b"") if kind == JMS_BYTES else Common(BODY_EMPTY, None)
    value = Source(raw, sections.bodies[0], len(raw)).value()
    if value is None:
        return _nothing(kind)
    if isinstance(value, str):
        return Common(BODY_TEXT, value)
    if isinstance(value, bytes):
        return Common(BODY_BYTES, value)
    if isinstance(value, dict):
        return Common(BODY_MAP, _texts(value))
    if isinstance(value, list):
        return Common(BODY_STREAM, value)
    return Common(BODY_TEXT, str(_plain(value)))


def _nothing(kind: object) -> Common:
    if kind == JMS_TEXT:
        return Common(BODY_TEXT, "")
    if kind == JMS_BYTES:
        return Common(BODY_BYTES, b"")
    return Common(BODY_EMPTY, None)


def _texts(value: dict[object, object]) -> dict[str, object]:
    return {key if isinstance(key, str) else str(key): each for key, each in value.items()}


def _data(raw: bytes, at: i64) -> bytes:
    value = Source(raw, at, len(raw)).value()
    return value if isinstance(value, bytes) else b""


def _octets(octets: bytes, properties: Properties | None) -> Common:
    """Return what data are: a text or an object, where the type of their content says so."""
    kind = None if properties is None else properties.content_type
    if kind == OBJECT_TYPE:
        return Common(BODY_OBJECT, octets)
    if kind is not None and is_text(kind):
        return Common(BODY_TEXT, octets.decode("utf-8", "replace"))
    return Common(BODY_BYTES, octets)


def is_text(content_type: str) -> bool:
    """Return whether data of ``content_type`` are text (as the mapping of JMS has it); that in UTF-8 alone."""
    kind, _, rest = content_type.partition(";")
    kind = kind.strip().lower()
    charset = rest.partition("charset=")[2].strip().strip('"').lower()
    if charset not in ("", "utf-8", "us-ascii"):
        return False
    if kind.startswith("text/"):
        return True
    words = ("json", "xml", "javascript", "ecmascript")
    return kind.startswith("application/") and any(kind == f"application/{w}" or kind.endswith(f"+{w}") for w in words)
