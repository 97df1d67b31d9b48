"""Messages as readers of AMQP are shown them: their own octets, changed or converted where they must be. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Inexpressible
from entrepot.base.primitive import BYTE, INT, LONG, Primitive
from entrepot.base.trace_context import TRACEPARENT
from entrepot.model import address as names
from entrepot.model.headers import added
from entrepot.model.message import (
    BODY_BYTES,
    BODY_EMPTY,
    BODY_MAP,
    BODY_OBJECT,
    BODY_STREAM,
    BODY_TEXT,
    USER,
    Common,
    Message,
    Rare,
)
from entrepot.model.origins import ACTUAL_EXPIRY, ORIGINAL_ADDRESS, ORIGINAL_ID, ORIGINAL_QUEUE, ORIGINAL_ROUTING
from entrepot.protocols.amqp.convert import (
    AMQP_LANGUAGE,
    DESTINATION_TYPE,
    INGRESS,
    JMS_BYTES,
    JMS_MAP,
    JMS_MESSAGE,
    JMS_OBJECT,
    JMS_STREAM,
    JMS_TEXT,
    MESSAGE_TYPE,
    OBJECT_TYPE,
    REPLY_TYPE,
    is_large,
    sections_of,
)
from entrepot.protocols.amqp.identities import identity_of, said_id
from entrepot.protocols.amqp.performatives import Header, Properties
from entrepot.protocols.amqp.primitives import UINT_MAX
from entrepot.protocols.amqp.sections import (
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    SEQUENCE,
    VALUE,
    map_in,
    properties_in,
    put_descriptor,
    write_data_head,
    write_header,
    write_properties,
    write_table,
    write_text_head,
)
from entrepot.protocols.amqp.writing import write_value

KINDS: Final = {
    BODY_EMPTY: JMS_MESSAGE,
    BODY_OBJECT: JMS_OBJECT,
    BODY_MAP: JMS_MAP,
    BODY_BYTES: JMS_BYTES,
    BODY_STREAM: JMS_STREAM,
    BODY_TEXT: JMS_TEXT,
}
ANNOTATED: Final = {
    ORIGINAL_ADDRESS: "x-opt-ORIG-ADDRESS",
    ORIGINAL_QUEUE: "x-opt-ORIG-QUEUE",
    ORIGINAL_ID: "x-opt-ORIG-MESSAGE-ID",
    ORIGINAL_ROUTING: "x-opt-ORIG-ROUTING-TYPE",
    ACTUAL_EXPIRY: "x-opt-ACTUAL-EXPIRY",
    "_AMQ_INGRESS_TIMESTAMP": INGRESS,
    TRACEPARENT: TRACEPARENT,
}
"""What the broker adds -> the annotation that says it, as Artemis has it; others are ``x-opt-`` and their name."""
WHOLE: Final = (ACTUAL_EXPIRY, "_AMQ_INGRESS_TIMESTAMP")
UNSAID: Final = ("priority", "expires", "timestamp", "persistent", "destination", "receipt", "transaction")
"""Headers of STOMP that its language hands on as properties, and that AMQP says in its header."""
OCTETS_TYPE: Final = "application/octet-stream"


def passes(message: Message, deliveries: i64) -> bool:
    """Return whether the octets of ``message`` say what a reader should see, or must be changed."""
    if message.language is not AMQP_LANGUAGE or message.escaped or deliveries > 0:
        return False
    rare = message.rare
    return rare is None or (not rare.annotations and rare.large_id == 0)


def presented(message: Message, deliveries: i64, routing: int, identity: str, wall: i64, length: i64 = 0) -> bytes:
    """Return ``message`` as its ``deliveries``-th repetition goes to a reader; without the body of a large one.

    ``length``: of that body, in the common form, where the message is of another language.
    Raises Inexpressible.
    """
    if message.language is AMQP_LANGUAGE:
        return _changed(message, deliveries, wall)
    return _converted(message, deliveries, routing, identity, wall, length)


def header_of(message: Message, deliveries: i64, wall: i64) -> Header:
    """Return the header of the ``deliveries``-th repetition."""
    header = Header(durable=message.durable, priority=message.priority, delivery_count=deliveries)
    if message.expiration > 0:
        header.ttl = min(max(message.expiration - wall, i64(1)), i64((1 << 32) - 1))
    return header


def _changed(message: Message, deliveries: i64, wall: i64) -> bytes:
    out = BytesWriter()
    sections = sections_of(message)
    came = sections.header
    before: i64 = 0 if came is None else came.delivery_count
    if message.redelivered and deliveries == 0 and before == 0:
        before = 1
    write_header(out, header_of(message, before + deliveries, wall))
    rare = message.rare
    properties = _amended(message, properties_in(message.raw, sections))
    if properties is None and (rare is None or not rare.annotations):
        out.write(message.raw[message.body_at :])
        return out.getvalue()
    entries: dict[str, object] = {}
    for key, value in map_in(message.raw, sections.annotations_at, typed=True).items():
        entries[str(key)] = value
    if rare is not None:
        _annotate(entries, rare)
    write_table(out, MESSAGE_ANNOTATIONS, entries, True)
    behind = sections.annotations_end if sections.annotations_at >= 0 else message.body_at
    if properties is not None:
        write_properties(out, properties)
        behind = sections.properties_end
    names = [] if rare is None else added(rare)
    if rare is not None and names:
        properties_end = sections.properties_end if sections.properties_at >= 0 else behind
        out.write(message.raw[behind:properties_end])
        said: dict[str, object] = {}
        for key, value in map_in(message.raw, sections.application_at, typed=True).items():
            said[str(key)] = value
        _add(said, rare, names)
        write_table(out, APPLICATION_PROPERTIES, said, False)
        behind = sections.application_end if sections.application_at >= 0 else properties_end
    out.write(message.raw[behind:])
    return out.getvalue()


def _add(entries: dict[str, object], rare: Rare, names: list[str]) -> None:
    """Put what a transformer set among the properties of a program."""
    for name in names:
        text = rare.annotations.get(name)
        if text is not None:
            entries[name] = text


def _amended(message: Message, properties: Properties | None) -> Properties | None:
    """Return the properties of a copy: it goes elsewhere, and may expire no more. None: they stay as they are."""
    rare = message.rare
    if properties is None:
        return None
    copied = rare is not None and ORIGINAL_ADDRESS in rare.annotations and properties.to is not None
    over = properties.absolute_expiry_time > 0 and message.expiration == 0
    if not copied and not over:
        return None
    if copied:
        properties.to = message.address
    if over:
        properties.absolute_expiry_time = 0
    properties.message_id = said_id(identity_of(properties.message_id))  # with the type that it had
    if not isinstance(properties.correlation_id, str):
        properties.correlation_id = said_id(identity_of(properties.correlation_id))
    return properties


def _annotate(entries: dict[str, object], rare: Rare) -> None:
    """Say what the broker added."""
    names = added(rare)
    for name, text in rare.annotations.items():
        if name in names:
            continue
        if name == USER or name.startswith(("AMQ_SCHEDULED_", "entrepot.")) or name == "scheduledJobId":
            continue
        key = ANNOTATED.get(name, "x-opt-" + name)
        whole = name in WHOLE and text.removeprefix("-").isdecimal() and text.isascii()
        entries[key] = Primitive(LONG, int(text)) if whole else text


def _converted(message: Message, deliveries: i64, routing: int, identity: str, wall: i64, length: i64) -> bytes:
    """Return a message of another language. Raises Inexpressible."""
    said = message.common()
    large = is_large(message)
    if said.body_kind == BODY_MAP and not large:
        exact = message.language.exact(message)
        said.body = said.body if exact is None else exact
    out = BytesWriter()
    write_header(out, header_of(message, deliveries, wall))
    rare = message.rare
    annotations: dict[str, object] = {
        MESSAGE_TYPE: Primitive(BYTE, KINDS.get(said.body_kind, JMS_BYTES)),
        DESTINATION_TYPE: Primitive(BYTE, 1 if routing == names.MULTICAST else 0),
    }
    properties = Properties(message_id=said_id(identity), to=message.address, subject=said.type)
    if said.reply_to is not None:
        _reply_to(properties, annotations, said.reply_to)
    if rare is not None:
        _annotate(annotations, rare)
    _describe(properties, said, message)
    write_table(out, MESSAGE_ANNOTATIONS, annotations, True)
    write_properties(out, properties)
    entries: dict[str, object] = {}
    for name, value in said.properties.items():
        if name not in UNSAID and name not in ("JMSXGroupID", "JMSXGroupSeq"):
            entries[name] = _sized(value)
    if rare is not None:
        _add(entries, rare, added(rare))
    write_table(out, APPLICATION_PROPERTIES, entries, False)
    if large:
        if said.body_kind == BODY_TEXT:
            write_text_head(out, length)
        else:
            write_data_head(out, length)
    else:
        _write_body(out, said)
    return out.getvalue()


def _describe(properties: Properties, said: Common, message: Message) -> None:
    rare = message.rare
    if said.correlation_id is not None:
        properties.correlation_id = said_id(said.correlation_id)
    properties.content_type = said.content_type
    if said.body_kind == BODY_OBJECT:
        properties.content_type = OBJECT_TYPE
    elif said.body_kind == BODY_BYTES and properties.content_type is None:
        properties.content_type = OCTETS_TYPE
    user = said.user_id
    if rare is not None:
        user = rare.annotations.get(USER, user)
        if rare.group:
            properties.group_id = rare.group
            properties.group_sequence = rare.group_sequence & UINT_MAX
    if user is not None:
        properties.user_id = user.encode("utf-8", "replace")
    properties.absolute_expiry_time = message.expiration
    properties.creation_time = message.timestamp
    group = said.properties.get("JMSXGroupID")
    if properties.group_id is None and isinstance(group, str) and group:
        properties.group_id = group
        sequence = said.properties.get("JMSXGroupSeq")
        properties.group_sequence = (
            (i64(sequence) & UINT_MAX) if isinstance(sequence, int) and abs(sequence) <= UINT_MAX else 0
        )


def _reply_to(properties: Properties, annotations: dict[str, object], text: str) -> None:
    try:
        where = names.parse_one(text)
    except EntrepotError:
        properties.reply_to = text
        return
    properties.reply_to = where.name
    kind = (1 if where.routing == names.MULTICAST else 0) + (2 if where.temporary else 0)
    annotations[REPLY_TYPE] = Primitive(BYTE, kind)


def _sized(value: object) -> object:
    """Return a property with the smallest type of JMS that getters of the larger ones read, too."""
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31:
        return Primitive(INT, value)
    return value


def _write_body(out: BytesWriter, said: Common) -> None:
    body = said.body
    if isinstance(body, bytes) and said.body_kind in (BODY_BYTES, BODY_OBJECT):
        write_data_head(out, len(body))
        out.write(body)
        return
    if said.body_kind == BODY_STREAM and isinstance(body, list):
        put_descriptor(out, SEQUENCE)
        write_value(out, [_sized(each) for each in body])
        return
    put_descriptor(out, VALUE)
    if said.body_kind == BODY_TEXT:
        write_value(out, str(body))
    elif said.body_kind == BODY_MAP and isinstance(body, dict):
        write_value(out, body)
    elif body is None:
        write_value(out, None)
    else:
        raise Inexpressible("AMQP has no form for the body of this message")
