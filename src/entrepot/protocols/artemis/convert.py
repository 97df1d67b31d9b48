"""CORE as one of the broker's languages: messages kept as they came, opened on demand, and said in other tongues.

``Message.raw`` is a message as it travels on channels from 129 on: length, body, headers, properties (see `headers`);
``body_at`` is where its headers begin. A large message has an empty body there. ``escaped`` marks a message whose
octets may not go out as they are, since the broker changed its envelope; the id is always patched (`Encoder`).

The names follow JMS as Artemis' own client maps it (artemis.md 5.2.4). [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.base.inflation import INFLATED_OCTETS_MAX, inflate
from entrepot.base.primitive import BYTE, INT, LONG, Primitive
from entrepot.base.trace_context import TRACEPARENT, WINDOW, peek_wide
from entrepot.model import address as names
from entrepot.model.message import (
    BARE_NOT,
    BARE_OCTETS,
    BARE_TEXT,
    BODY_BYTES,
    BODY_EMPTY,
    BODY_MAP,
    BODY_OBJECT,
    BODY_STREAM,
    BODY_TEXT,
    LANGUAGE_CORE,
    LANGUAGE_OPENWIRE,
    LARGE_DEFLATED,
    LARGE_OCTETS,
    LARGE_UNITS,
    USER,
    Common,
    Language,
    Message,
    Rare,
    register,
)
from entrepot.model.origins import ACTUAL_EXPIRY, ORIGINAL_ID, ORIGINAL_QUEUE, ORIGINAL_ROUTING, original_number
from entrepot.model.predicate import Value
from entrepot.protocols.artemis.bodies import (
    map_body,
    map_of,
    object_body,
    object_of,
    stream_body,
    stream_of,
    text_body,
    text_of,
)
from entrepot.protocols.artemis.headers import (
    NO_BODY,
    TYPE_BYTES,
    TYPE_DEFAULT,
    TYPE_MAP,
    TYPE_OBJECT,
    TYPE_STREAM,
    TYPE_TEXT,
    Headers,
    assembled,
    body_of,
    headers_at,
    kind_before,
    properties_at,
    read_headers,
    user_id_at,
)
from entrepot.protocols.artemis.primitives import OctetsReader
from entrepot.protocols.artemis.properties import (
    Entries,
    entry,
    find,
    has_only,
    key_octets,
    read_properties,
    value_at,
    value_of,
)
from entrepot.protocols.artemis.user_ids import digits_of, identity_of, user_id_of

ROUTING: Final = "_AMQ_ROUTING_TYPE"
GROUP: Final = "_AMQ_GROUP_ID"
GROUP_SEQUENCE: Final = "_AMQ_GROUP_SEQUENCE"
DUPLICATE: Final = "_AMQ_DUPL_ID"
BRIDGE_DUPLICATE: Final = "_AMQ_BRIDGE_DUP"
DELIVER_AT: Final = "_AMQ_SCHED_DELIVERY"
VALIDATED_USER: Final = "_AMQ_VALIDATED_USER"
CONTENT_TYPE: Final = "_AMQ_CONTENT_TYPE"
COMPRESSED: Final = "_AMQ_LARGE_COMPRESSED"
LARGE_SIZE: Final = "_AMQ_LARGE_SIZE"
CONNECTION: Final = "__AMQ_CID"
NOTIFICATION: Final = "_AMQ_NotifType"
HOPS: Final = "_AMQ_Hops"  # over how many federations a message came: four octets
REPLY_TO: Final = "JMSReplyTo"
CORRELATION: Final = "JMSCorrelationID"
TYPE: Final = "JMSType"
OF_OPENWIRE: Final = "__HDR_"  # begins names of what Artemis keeps of a message of OpenWire for others who speak that
OPENWIRE_ID: Final = "__HDR_MESSAGE_ID"
OPENWIRE_ORIGINAL: Final = "__HDR_ORIG_DESTINATION"
OPENWIRE_USER: Final = "__HDR_USER_ID"

ROUTING_MULTICAST: Final = 0
ROUTING_ANYCAST: Final = 1
ROUTING_NONE: Final = -1

UNREADABLE: Final = "unreadable"
"""The property that says why a body is shown as octets."""

HIDDEN: Final = (
    ROUTING,
    CONNECTION,
    GROUP,
    GROUP_SEQUENCE,
    VALIDATED_USER,
    CONTENT_TYPE,
    COMPRESSED,
    LARGE_SIZE,
    DELIVER_AT,
    "_AMQ_PREFIX",
    BRIDGE_DUPLICATE,
    HOPS,
    REPLY_TO,
    CORRELATION,
    TYPE,
)
"""Properties that other languages say otherwise, or that are between Artemis and its clients."""
ROUTES: Final = "_AMQ_ROUTE_TO"  # begins names of properties between nodes
NOT_SHOWN: Final = (ROUTES, OF_OPENWIRE)
SCALED_DOWN: Final = "_AMQ_SCALEDOWN_TO"  # another of them
TAKEN: Final = ("_AMQ_ACK_ROUTE_TO", "_ENTREPOT_BRANCH")  # and those of prepared branches

NOT_PROPERTIES: Final = ("priority", "expires", "timestamp", "persistent", "destination", "receipt", "transaction")
"""Headers of STOMP that its language hands on as properties, and that CORE says in its headers."""
FACTS: Final[dict[str, str]] = {
    "JMSXGroupID": GROUP,
    "AMQGroupID": GROUP,
    "JMSXGroupSeq": GROUP_SEQUENCE,
    USER: VALIDATED_USER,
}
"""What selectors call it, and what it is called in the octets."""
WHOLE_NUMBERS: Final = (ACTUAL_EXPIRY, ORIGINAL_ID, "_AMQ_INGRESS_TIMESTAMP")
OF_CLASSIC: Final = ("JMSXGroupFirstForConsumer", "originalExpiration", "deliveryCount", "dlqDeliveryFailureCause")
"""What the broker adds in the words of ActiveMQ Classic; Artemis has its own, or none."""

K_ROUTING: Final = key_octets(ROUTING)
_UNSAID: Final = [K_ROUTING, key_octets(CONNECTION)]
"""Properties that nearly all messages have, and that are nothing to other languages."""
_MULTICAST_ENTRY: Final = entry(ROUTING, Primitive(BYTE, ROUTING_MULTICAST))
_ANYCAST_ENTRY: Final = entry(ROUTING, Primitive(BYTE, ROUTING_ANYCAST))
_K_COMPRESSED: Final = key_octets(COMPRESSED)
_K_OPENWIRE_ID: Final = key_octets(OPENWIRE_ID)
WHERE_TO: Final = (ROUTES, SCALED_DOWN, *TAKEN)
TRACE_FIRST: Final = ord("t")
K_TRACE: Final = key_octets(TRACEPARENT)


class CoreLanguage(Language):
    """Opens messages."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_CORE, "CORE")
        self._address: str = ""
        self._written: bytes = b"\1\0\0\0\0"  # the empty address, as headers have it

    def large_form(self, message: Message) -> i64:
        """Return what its large body is on disk."""
        return _large_form(message)

    def says_address(self, message: Message) -> bool:
        """Return whether the octets of ``message`` have the address that it is kept under."""
        if message.address is not self._address:
            self._address = message.address
            self._written = written_address(message.address)
        written = self._written
        at = message.body_at + 8
        return message.raw[at : at + len(written)] == written

    def identity(self, message: Message) -> str:
        """Return the id that its sender gave it; that of OpenWire for one that was sent in it at another broker."""
        return _kept_identity(message) or identity_of(user_id_at(message.raw, message.body_at))

    def digits(self, message: Message) -> bytes:
        """Return the UUID that its sender gave it."""
        return b"" if _kept_identity(message) else digits_of(user_id_at(message.raw, message.body_at))

    def changed(self, message: Message) -> None:
        """Have the headers of ``message`` written anew for each of its readers."""
        message.escaped = True

    def bereave(self, message: Message) -> None:
        """Say that there is no body: nothing that would have to be inflated either."""
        headers = read_headers(message.raw, message.body_at)
        properties = read_properties(message.raw, headers.properties_at, typed=True)
        properties.pop(COMPRESSED, None)
        properties.pop(LARGE_SIZE, None)
        message.raw = assembled(b"", headers, properties)
        message.body_at = len(NO_BODY)

    def route(self, message: Message, routing: int) -> None:
        """Write the routing type into the properties, or take it out (UNTYPED). What cannot be read stays as it is."""
        try:
            headers = read_headers(message.raw, message.body_at)
            properties = read_properties(message.raw, headers.properties_at, typed=True)
            properties.pop(ROUTING, None)
            if routing != names.UNTYPED:
                properties[ROUTING] = Primitive(
                    BYTE, int(ROUTING_ANYCAST if routing == names.ANYCAST else ROUTING_MULTICAST)
                )
            message.raw = assembled(body_of(message.raw), headers, properties)
        except EntrepotError:
            return

    def context(self, message: Message) -> i64:
        """Look into the headers and properties, which stand behind the body."""
        return peek_wide(message.raw, message.body_at, message.body_at + WINDOW, 5)

    def fact(self, message: Message, name: str) -> Value:
        """Return one header or property; properties keep their types. What cannot be read is not there."""
        raw = message.raw
        try:
            headers = read_headers(raw, message.body_at)
            if name == "JMSMessageID":
                return self.identity(message) or None
            if name == "AMQUserID":
                return identity_of(headers.user_id) or None
            if name == "AMQAddress":
                return message.address
            if name == "JMSDestination":
                return destination_name(message.address, routing_at(raw, headers.properties_at))
            value = value_of(raw, headers.properties_at, key_octets(FACTS.get(name, name)))
        except EntrepotError:
            return None
        if name == HOPS and isinstance(value, bytes):  # so that a filter can count them: to Artemis they are octets
            return int.from_bytes(value, "big")
        return _plain(value)

    def exact(self, message: Message) -> dict[str, object] | None:
        """Return a map's entries with their types. Raises MalformedFrame, LimitExceeded."""
        headers = read_headers(message.raw, message.body_at)
        return map_of(opened_body(message.raw, headers), typed=True) if headers.kind == TYPE_MAP else None

    def bare(self, message: Message) -> tuple[i64, bytes]:
        """Tell text and octets with no property but those that mean nothing to others; what cannot be read is none."""
        raw = message.raw
        try:
            behind = properties_at(raw, message.body_at)
            kind = kind_before(raw, behind)
            if (kind != TYPE_BYTES and kind != TYPE_TEXT) or not has_only(raw, behind, _UNSAID):
                return BARE_NOT, b""
            body = body_of(raw)
            if kind == TYPE_BYTES:
                return BARE_OCTETS, body
            return BARE_TEXT, (text_of(body) or "").encode()
        except (EntrepotError, UnicodeEncodeError):
            return BARE_NOT, b""

    def common(self, message: Message) -> Common:
        """Return the message in the common form, inflated.

        Never raises: what its kind forbids, or inflates beyond reason, is octets as they came, with the property
        `UNREADABLE`. Whoever reads is not to blame for what was sent, and may have to put it away.
        """
        raw = message.raw
        properties: dict[str, object] = {}
        try:
            behind = properties_at(raw, message.body_at)
            properties = read_properties(raw, behind)
            body = body_of(raw)
            if body and properties.get(COMPRESSED) is True:
                body = inflate(body, INFLATED_OCTETS_MAX)
            said = _said(kind_before(raw, behind), body, message)
        except EntrepotError as error:
            said = Common(BODY_BYTES, raw[4 : message.body_at])
            said.properties[UNREADABLE] = error.message
        _describe(said, properties)
        return said


def _kept_identity(message: Message) -> str:
    """Return the id that ``message`` has in OpenWire; "" for one that was never sent in that, or cannot be read."""
    raw = message.raw
    try:
        kept = value_of(raw, properties_at(raw, message.body_at), _K_OPENWIRE_ID)
    except EntrepotError:
        return ""
    return kept if isinstance(kept, str) else ""


def _large_form(message: Message) -> i64:
    """Return what the large body of a message of CORE is on disk. Raises MalformedFrame."""
    headers = read_headers(message.raw, message.body_at)
    form: i64 = LARGE_UNITS if headers.kind == TYPE_TEXT else LARGE_OCTETS
    if value_of(message.raw, headers.properties_at, _K_COMPRESSED) is True:
        form |= LARGE_DEFLATED
    return form


def _said(kind: i64, body: bytes, message: Message) -> Common:
    """Return the body of a message of ``kind``. Raises MalformedFrame."""
    rare = message.rare
    if rare is not None and rare.large_id:
        return Common(BODY_TEXT, "") if kind == TYPE_TEXT else Common(BODY_BYTES, b"")
    if kind == TYPE_TEXT:
        return Common(BODY_TEXT, text_of(body) or "")
    if kind == TYPE_MAP:
        return Common(BODY_MAP, map_of(body))
    if kind == TYPE_STREAM:
        return Common(BODY_STREAM, stream_of(body))
    if kind == TYPE_OBJECT:
        return Common(BODY_OBJECT, object_of(body))
    if kind == TYPE_DEFAULT:
        text = text_of(body) if body[:1] == b"\1" else None  # a request of management has its parameters there
        return Common(BODY_EMPTY, None) if text is None else Common(BODY_TEXT, text)
    return Common(BODY_BYTES, body)


def _describe(said: Common, properties: dict[str, object]) -> None:
    """Set what ``properties`` say, under the names of the common form."""
    said.correlation_id = _text(properties.get(CORRELATION))
    said.type = _text(properties.get(TYPE))
    said.user_id = _text(properties.get(VALIDATED_USER, properties.get(OPENWIRE_USER)))
    said.content_type = _text(properties.get(CONTENT_TYPE))
    reply_to = _text(properties.get(REPLY_TO))
    if reply_to is not None:
        said.reply_to = common_name(reply_to)
    original = properties.get(OPENWIRE_ORIGINAL)
    if isinstance(original, str):
        said.original = common_name(original)
    for name, value in properties.items():
        if value is not None and name not in HIDDEN and not name.startswith(NOT_SHOWN):
            said.properties[name] = _plain(value)
    group = _text(properties.get(GROUP))
    if group:
        sequence = properties.get(GROUP_SEQUENCE)
        said.properties["JMSXGroupID"] = group
        said.properties["JMSXGroupSeq"] = sequence if isinstance(sequence, int) else 0


def _text(value: object) -> str | None:
    """Return a property that other languages say as text; octets may stand there too."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _plain(value: object) -> Value:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return str(value)


CORE_LANGUAGE: Final = CoreLanguage()
register(CORE_LANGUAGE)


# -- octets --------------------------------------------------------------------------------------------------------


def opened_body(raw: bytes, headers: Headers) -> bytes:
    """Return the body as its sender wrote it, inflated if it was compressed. Raises MalformedFrame, LimitExceeded."""
    body = body_of(raw)
    if not body or value_of(raw, headers.properties_at, _K_COMPRESSED) is not True:
        return body
    return inflate(body, INFLATED_OCTETS_MAX)


def routing_at(raw: bytes, properties_at: i64) -> i64:
    """Return the routing type that the sender set (ROUTING_...)."""
    at = find(raw, properties_at, K_ROUTING)
    value = value_at(raw, at) if at >= 0 else None
    return int(value) if isinstance(value, int) else ROUTING_NONE


def routing_of(message: Message) -> i64:
    """Return the routing type that the sender of ``message`` set (ROUTING_...)."""
    return routing_at(message.raw, properties_at(message.raw, message.body_at))


def readdressed(octets: bytes, at: i64, address: str) -> bytes:
    """Return a message, whose headers begin at ``at``, with another address."""
    source = OctetsReader(octets, at + 8, len(octets))
    source.nullable_simple()
    return octets[: at + 8] + written_address(address) + octets[source.at :]


def written_address(address: str) -> bytes:
    """Return an address as headers have it."""
    text = key_octets(address)
    return b"\1" + len(text).to_bytes(4, "big") + text


# -- names ---------------------------------------------------------------------------------------------------------


def common_name(text: str) -> str:
    """Return a JMSReplyTo, ``queue://A``, as other protocols write it: ``/queue/A``, ``/remote-temp-queue/A``."""
    try:
        parsed = names.parse_one(text)
    except EntrepotError:
        return text
    if "://" not in text:
        return text
    kind = "topic" if parsed.routing == names.MULTICAST else "queue"
    return f"/{'remote-temp-' if parsed.temporary else ''}{kind}/{parsed.name}"


def jms_name(text: str) -> str:
    """Return a destination that another protocol wrote as JMSReplyTo has it; what is none of ours stays as it is."""
    try:
        parsed = names.parse_one(text)
    except EntrepotError:
        return text
    return text if parsed.routing == names.UNTYPED else parsed.qualified()


def destination_name(address: str, routing: i64) -> str:
    """Return an address as a JMSDestination."""
    return f"{'topic' if routing == ROUTING_MULTICAST else 'queue'}://{address}"


# -- what a reader of CORE is shown --------------------------------------------------------------------------------


def passes(message: Message) -> bool:
    """Return whether the octets of ``message`` say what a reader should see, or must be changed."""
    if message.language is not CORE_LANGUAGE or message.escaped or not CORE_LANGUAGE.says_address(message):
        return False
    rare = message.rare
    return rare is None or not rare.annotations


def presented(
    message: Message, routing: i64, identity: str, body: bytes | None = None, more: Entries | None = None
) -> bytes:
    """Return ``message`` as a RECEIVE carries it: its own octets, changed or converted where they must be.

    ``routing`` (ROUTING_...) is that of the queue it is read from, ``identity`` its message id; ``body`` replaces one
    that lies outside of a message of another language. ``more``: what its receiver is told besides. Raises
    Inexpressible, MalformedFrame.
    """
    if passes(message):
        return told(message.raw, more)
    first = b""
    if message.language is CORE_LANGUAGE:
        headers = read_headers(message.raw, message.body_at)
        properties = read_properties(message.raw, headers.properties_at, typed=True)
        octets = body_of(message.raw)
    else:
        headers, properties, octets = _converted(message, identity, body)
        if routing != ROUTING_NONE:
            if properties:
                properties.pop(ROUTING, None)
            if more is None or ROUTING not in more.replaced:
                first = _ANYCAST_ENTRY if routing == ROUTING_ANYCAST else _MULTICAST_ENTRY
    headers.number = message.number
    headers.address = message.address
    headers.durable = message.durable
    headers.expiration = message.expiration
    headers.priority = message.priority
    if message.timestamp > 0:
        headers.timestamp = message.timestamp
    rare = message.rare
    if rare is not None:
        if rare.annotations:
            _annotate(properties, rare.annotations)
        original = original_number(message)
        if original > 0:
            properties[ORIGINAL_ID] = Primitive(LONG, original)
    if more is not None:
        for name in more.replaced:
            properties.pop(name, None)
    return assembled(octets, headers, properties, first, more)


def told(octets: bytes, more: Entries | None) -> bytes:
    """Return a message with what its receiver is told besides. Raises MalformedFrame."""
    return octets if more is None else more.behind(octets, properties_at(octets, headers_at(octets)))


def presented_headers(message: Message, routing: i64, identity: str, more: Entries | None = None) -> bytes:
    """Return the headers of a large ``message`` as RECEIVE_LARGE carries them. Raises as `presented`."""
    octets = presented(message, routing, identity, b"", more)
    return octets[headers_at(octets) :]


def _annotate(properties: dict[str, object], annotations: dict[str, str]) -> None:
    """Say as properties what the broker added."""
    for name, text in annotations.items():
        if name in OF_CLASSIC:
            continue
        if name == USER:
            properties[VALIDATED_USER] = text or None
        elif name == ORIGINAL_ROUTING:
            properties[name] = Primitive(BYTE, int(ROUTING_ANYCAST if text == "1" else ROUTING_MULTICAST))
        elif name == ORIGINAL_QUEUE:
            properties[name] = text or None  # it never was in one
        elif name in WHOLE_NUMBERS and text.removeprefix("-").isdecimal() and text.isascii():
            properties[name] = Primitive(LONG, int(text))
        else:
            properties[name] = text


def _converted(message: Message, identity: str, body: bytes | None) -> tuple[Headers, dict[str, object], bytes]:
    """Return headers, properties and body of a message of another language. Raises Inexpressible."""
    headers = Headers()
    headers.user_id = user_id_of(identity) if identity else b""
    properties: dict[str, object] = {}
    rare = message.rare
    if rare is None or (not rare.group and rare.large_id == 0):
        kind, alone = message.language.bare(message)
        if kind != BARE_NOT:
            headers.kind, octets = _written_alone(kind, alone)
            return headers, properties, octets
    said = _opened(message, body)
    headers.kind, octets = _written(said)
    properties.update(said.properties)
    if properties:
        for name in NOT_PROPERTIES:
            properties.pop(name, None)
    _say_group(properties, rare)
    if said.correlation_id is not None:
        properties[CORRELATION] = said.correlation_id
    if said.type is not None:
        properties[TYPE] = said.type
    if said.content_type is not None:
        properties[CONTENT_TYPE] = said.content_type
    if said.user_id is not None:
        properties[VALIDATED_USER] = said.user_id
    if said.reply_to is not None:
        properties[REPLY_TO] = jms_name(said.reply_to)
    if message.language.code == LANGUAGE_OPENWIRE:
        _keep(properties, said, identity)
    return headers, properties, octets


def _opened(message: Message, body: bytes | None) -> Common:
    """Return a message of another language in the common form, with ``body`` if that lies outside of it."""
    said = message.common()
    if body is not None:
        said.body = body.decode("utf-8", "replace") if said.body_kind == BODY_TEXT else body
    if said.body_kind == BODY_MAP:
        said.body = message.language.exact(message)
    return said


def _say_group(properties: dict[str, object], rare: Rare | None) -> None:
    """Say the group as CORE does, which ``properties`` may say in the words of JMS."""
    group = properties.pop("JMSXGroupID", None)
    sequence = properties.pop("JMSXGroupSeq", None)
    if rare is not None and rare.group:
        properties[GROUP] = rare.group
        properties[GROUP_SEQUENCE] = Primitive(INT, int(rare.group_sequence))
    elif isinstance(group, str) and group:
        properties[GROUP] = group
        properties[GROUP_SEQUENCE] = Primitive(INT, sequence if isinstance(sequence, int) else 0)


def _keep(properties: dict[str, object], said: Common, identity: str) -> None:
    """Say for clients of OpenWire at other brokers what CORE has no word for, as Artemis does."""
    if identity:
        properties[OPENWIRE_ID] = identity
    if said.original is not None:
        properties[OPENWIRE_ORIGINAL] = jms_name(said.original)
    if said.user_id is not None:
        properties[OPENWIRE_USER] = said.user_id


def _written_alone(kind: i64, body: bytes) -> tuple[i64, bytes]:
    """Return the type of message and the octets of the body of one that is nothing else."""
    if kind == BARE_OCTETS:
        return TYPE_BYTES, body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
    return TYPE_TEXT, text_body(text)


def _written(said: Common) -> tuple[i64, bytes]:
    """Return the type of message and the octets of the body. Raises Inexpressible."""
    body = said.body
    if said.body_kind == BODY_TEXT and isinstance(body, str):
        return TYPE_TEXT, text_body(body)
    if said.body_kind == BODY_BYTES and isinstance(body, bytes):
        return TYPE_BYTES, body
    if said.body_kind == BODY_MAP and isinstance(body, dict):
        return TYPE_MAP, map_body(body)
    if said.body_kind == BODY_STREAM and isinstance(body, list):
        return TYPE_STREAM, stream_body(body)
    if said.body_kind == BODY_OBJECT and isinstance(body, bytes):
        return TYPE_OBJECT, object_body(body)
    return TYPE_DEFAULT, b""
