"""A message: an envelope that the broker reads, around a body that it does not.

Invariant: ``raw`` is the first encoding, the octets in which the message arrived, laid out by its `Language` so that
they can be written to a consumer of the same language as they are. Nothing here re-encodes; a `Language` answers what
somebody asks in another tongue (`Language.common`, `Language.fact`).

What nearly every message carries is a field of `Message`; what few carry sits in `Rare`, so that a plain message costs
one object and its octets. [C]

Envelope on disk (big-endian; written by `write_envelope`, read by `read_envelope`)::

    0        1        2        3        4               12              20
    +--------+--------+--------+--------+---------------+---------------+
    | layout | lang.  | flags  | prior. | timestamp i64 | expires   i64 |
    +--------+--------+--------+--------+---------------+---------------+
    | body_at i32     | address: u16 n, utf-8 | [rare]  | raw: i32 n, octets |
    +-----------------+-----------------------+---------+--------------------+

    layout  1; 2: the large body lies in stretches that have checksums (journal/overflow.py); 3: see rare
    flags   1 durable · 2 has rare · 4 redelivered before it came here · 8 raw is header-escaped (see Language)
    rare    u16 n group · i32 group_sequence · i32 n duplicate_id · u16 n identity · i64 deliver_at
            i64 large_id · i64 large_length · u16 n annotations, each u16 n key · i32 n value
            layout 3: u8 1 as layout 2, 0 as layout 1 · u16 n internal annotations, each u16 n key · u8 type · value
            types: 1 octets (i32 n, octets) · 2 integer (i64) · 3 text (i32 n, utf-8)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64, mypyc_attr, u8

from entrepot.base.errors import CorruptJournal, Fault, Refused
from entrepot.base.trace_context import ABSENT, UNASKED
from entrepot.model.predicate import Facts, Value

ENVELOPE_LAYOUT: Final = 1
ENVELOPE_STRETCHES: Final = 2
ENVELOPE_INTERNAL: Final = 3
FLAG_DURABLE: Final = 1
FLAG_RARE: Final = 2
FLAG_REDELIVERED: Final = 4
FLAG_ESCAPED: Final = 8

DEFAULT_PRIORITY: Final = 4  # JMS 3.4.10
HIGHEST_PRIORITY: Final = 9

OVERHEAD_BYTES: Final = 400
"""What a queued message costs beyond ``raw``: Message, Reference, object headers (measured, compiled build)."""

INTERNAL_OCTETS: Final = 1
INTERNAL_INTEGER: Final = 2
INTERNAL_TEXT: Final = 3

Internal = bytes | int | str
"""Types of an internal annotation; integers are those of 64 bits."""

SHORT_OCTETS_MAX: Final = 32_767  # lengths are written as signed 16 bits

BODY_TEXT: Final = 1
BODY_BYTES: Final = 2
BODY_MAP: Final = 3
BODY_STREAM: Final = 4
BODY_OBJECT: Final = 5
BODY_EMPTY: Final = 6


LANGUAGE_SAMPLE: Final = 0
LANGUAGE_STOMP: Final = 1
LANGUAGE_OPENWIRE: Final = 2
LANGUAGE_CORE: Final = 3
LANGUAGE_AMQP: Final = 4
LANGUAGE_MQTT: Final = 5
LANGUAGE_ANSWER: Final = 32
LANGUAGE_LOST: Final = 33
"""Codes of languages: they are in journals, and `core/records.py` is their register."""

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 63) - 1

SEQUENCE_MAX: Final = 10**18 - 1  # of an identity: with its prefix it stands for the text


class Common:
    """A message said in no language in particular: what a converter writes and another one reads.

    ``body`` is str for BODY_TEXT, bytes for BODY_BYTES and BODY_OBJECT, dict for BODY_MAP, list for BODY_STREAM,
    None for BODY_EMPTY. ``properties`` are the application's, with their types.
    """

    def __init__(self, body_kind: int, body: object) -> None:
        self.body_kind: int = body_kind
        self.body: object = body
        self.properties: dict[str, Value] = {}
        self.correlation_id: str | None = None
        self.reply_to: str | None = None
        self.original: str | None = None  # where it was sent first, if its language says so; written as `reply_to`
        self.type: str | None = None
        self.content_type: str | None = None
        self.user_id: str | None = None
        self.path: list[str] = []  # brokers that it passed, as they call themselves


LARGE_OCTETS: Final = 0
LARGE_UNITS: Final = 1  # a text of CORE: whether it is there, its length, then UTF-16, little-endian
LARGE_DEFLATED: Final = 2  # and all of it compressed
BARE_NOT: Final = 0
BARE_TEXT: Final = 1
BARE_OCTETS: Final = 2


@mypyc_attr(allow_interpreted_subclasses=True)
class Language:
    """How one protocol lays out ``Message.raw``. One instance a protocol; `register` it under its code."""

    def __init__(self, code: int, name: str) -> None:
        self.code: int = code
        self.name: str = name
        self.identifies: bool = True  # `identity` may answer with something; a language that has none sets it False

    def common(self, message: Message) -> Common:
        """Return the message in the common form. Raises Fault when this build does not speak the language."""
        raise Fault(f"message {message.number} is stored in {self.name}, which this build does not speak")

    def exact(self, message: Message) -> dict[str, object] | None:
        """Return a map's entries with their Java types (`Primitive`); None when the body is no map. Raises as `common`.

        What the types were is not known in languages that have none: values may be plain, too.
        """
        body = self.common(message).body
        return body if isinstance(body, dict) else None

    def large_form(self, message: Message) -> i64:
        """Return what the large body of ``message`` is on disk: octets or UTF-8, LARGE_OCTETS; bits say what else."""
        return LARGE_OCTETS

    def identity(self, message: Message) -> str:
        """Return the message id that the sender gave and every client shall see; "" when the broker gives one."""
        return ""

    def digits(self, message: Message) -> bytes:
        """Return what stands behind ``ID:`` in `identity`, if it is hexadecimal digits and dashes; else b"".

        No protocol has to escape it, and it has no `sequence`.
        """
        return b""

    def prefix(self, message: Message) -> str:
        """Return what stands before the `sequence` in `identity`; "" where that has no such parts, or none is known."""
        return ""

    def sequence(self, message: Message) -> i64:
        """Return the number, 0 to `SEQUENCE_MAX`, that follows the `prefix` in `identity`, where there is one."""
        return 0

    def bare(self, message: Message) -> tuple[i64, bytes]:
        """Return the body of a message that in every language is nothing else: it has no properties and no headers.

        That is BARE_TEXT and UTF-8, or BARE_OCTETS and these; BARE_NOT and nothing for any other. `common` says the
        same in more words. Annotations, groups and large bodies, which are not in ``raw``, are the caller's to look at.
        """
        return BARE_NOT, b""

    def bereave(self, message: Message) -> None:
        """Make ``message``, whose body was a large one outside of ``raw``, one with an empty body."""

    def path(self, message: Message) -> tuple[str, ...]:
        """Return the ids of the brokers that ``message`` came through, the first one first; () for none, or unknown."""
        return ()

    def let_go(self, message: Message) -> i64:
        """Return when the last broker on its way sent ``message`` here, ms since 1970; 0 for none, or unknown."""
        return 0

    def consumer_path(self, message: Message) -> tuple[str, ...] | None:
        """Return the brokers between here and the consumer of which ``message`` tells; None when it tells of none."""
        return None

    def changed(self, message: Message) -> None:
        """Note that the envelope of ``message`` differs from what its octets say: they may not go out as they came."""

    def route(self, message: Message, routing: int) -> None:
        """Have the octets of ``message`` say that it goes to queues of ``routing``, where they say such a thing.

        UNTYPED: they say nothing of it.
        """

    def context(self, message: Message) -> i64:
        """Say in a moment whether there may be a `traceparent`: ABSENT, UNSAMPLED, UNCLEAR of `trace_context`."""
        return ABSENT

    def fact(self, message: Message, name: str) -> Value:
        """Return one application property or JMS header that only the first encoding knows; None when it is not set."""
        return self.common(message).properties.get(name)


_languages: dict[int, Language] = {}
_offers: dict[int, Callable[[], None]] = {}


def register(language: Language) -> None:
    """Make ``language`` the reader of every message that carries its code."""
    _languages[language.code] = language


def offer(code: int, load: Callable[[], None]) -> None:
    """Have ``load`` register the language ``code`` when a message carries it for the first time."""
    _offers[code] = load


def language(code: int) -> Language:
    """Return the language registered under ``code``; an unknown one is carried and refuses only conversion."""
    found = _languages.get(code)
    if found is None and code in _offers:
        _offers.pop(code)()
        found = _languages.get(code)
    if found is None:
        found = Language(code, f"language {code}")
        _languages[code] = found
    return found


WATCHED: Final = "traced"
"""The internal annotation of a message whose trace is recorded: `core/events/watching.py` writes and reads it."""
USER: Final = "JMSXUserID"
"""The annotation, and the header of every protocol, that says who sent a message."""


@mypyc_attr(acyclic=True)
class Rare:
    """What few messages carry. ``deliver_at`` in wall-clock ms, 0 = now; ``large_id`` 0 = the body is in ``raw``.

    ``bridged``: ``duplicate_id`` is that of the broker which brought it, not its sender's; only known while it arrives.
    ``large_checked``: the large body lies in stretches that have checksums; older journals have it plain.
    ``deflated``: the body in ``raw`` is compressed. The journal does not keep that: it matters for what came just now,
    which many may get at once.
    ``annotations`` are shown by every protocol, ``internal`` ones by none; None: there are none.
    """

    def __init__(self) -> None:
        self.group: str = ""
        self.group_sequence: i64 = 0
        self.duplicate_id: bytes = b""
        self.bridged: bool = False
        self.identity: str = ""
        self.deliver_at: i64 = 0
        self.large_id: i64 = 0
        self.large_length: i64 = 0
        self.large_checked: bool = False
        self.deflated: bool = False
        self.annotations: dict[str, str] = {}
        self.internal: dict[str, Internal] | None = None

    def copy(self) -> Rare:
        """Return an independent copy."""
        twin = Rare()
        twin.group = self.group
        twin.group_sequence = self.group_sequence
        twin.duplicate_id = self.duplicate_id
        twin.bridged = self.bridged
        twin.identity = self.identity
        twin.deliver_at = self.deliver_at
        twin.large_id = self.large_id
        twin.large_length = self.large_length
        twin.large_checked = self.large_checked
        twin.deflated = self.deflated
        twin.annotations = dict(self.annotations)
        if self.internal is not None:
            twin.internal = dict(self.internal)
        return twin


@mypyc_attr(acyclic=True)  # it leads to nothing that leads back to it: the collector of cycles need not know it
class Message(Facts):
    """One message in this broker. ``number`` is its identity here: rising, never reused, the order of every queue.

    ``timestamp`` and ``expiration`` are wall-clock ms (0 = never expires). ``stored`` says that the journal has it.
    ``holders`` counts the queues that hold it in memory. ``origin`` is the connection that sent it, 0 after a restart.
    """

    def __init__(self, language: Language, address: str, raw: bytes) -> None:
        self.language: Language = language
        self.address: str = address
        self.raw: bytes = raw
        self.number: i64 = 0
        self.timestamp: i64 = 0
        self.expiration: i64 = 0
        self.priority: i64 = DEFAULT_PRIORITY
        self.body_at: i64 = 0
        self.holders: i64 = 0
        self.origin: i64 = 0
        self.durable: bool = False
        self.stored: bool = False
        self.redelivered: bool = False
        self.escaped: bool = False
        self.watched: bool = False  # its trace is recorded: each fact about it is told to who follows such messages
        self.context: u8 = UNASKED  # what its octets say of a `traceparent`, as who read them saw: `trace_context`
        self.rare: Rare | None = None

    @property
    def size(self) -> i64:
        """Octets that this message is charged for in memory (a large body stays on disk and is not charged)."""
        return len(self.raw) + OVERHEAD_BYTES

    def need_rare(self) -> Rare:
        """Return ``rare``, made on first use."""
        rare = self.rare
        if rare is None:
            rare = Rare()
            self.rare = rare
        return rare

    def annotate(self, key: str, value: str) -> None:
        """Attach a broker annotation; every protocol shows it as a string property."""
        self.need_rare().annotations[key] = value

    def mark(self, key: str, value: Internal) -> None:
        """Attach an internal annotation: the journal keeps it, copies have it, no protocol and no selector sees it.

        Raises Refused for an integer of more than 64 bits.
        """
        if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
            raise Refused(f"the internal annotation {key!r} is no 64-bit integer: {value}")
        rare = self.need_rare()
        if rare.internal is None:
            rare.internal = {}
        rare.internal[key] = value

    def marked(self, key: str) -> Internal | None:
        """Return an internal annotation, None when there is none of that name."""
        rare = self.rare
        if rare is None or rare.internal is None:
            return None
        return rare.internal.get(key)

    def unmark(self, key: str) -> None:
        """Remove an internal annotation."""
        rare = self.rare
        if rare is None:
            return
        internal = rare.internal
        if internal is not None and key in internal:
            del internal[key]
            if not internal:
                rare.internal = None

    def twin(self, address: str) -> Message:
        """Return a copy for another address, not stored yet and without a number."""
        twin = Message(self.language, address, self.raw)
        twin.timestamp = self.timestamp
        twin.expiration = self.expiration
        twin.priority = self.priority
        twin.body_at = self.body_at
        twin.durable = self.durable
        twin.redelivered = self.redelivered
        twin.escaped = self.escaped
        twin.origin = self.origin
        twin.watched = self.watched
        rare = self.rare
        if rare is not None:
            twin.rare = rare.copy()
        return twin

    def common(self) -> Common:
        """Return the message in the common form (converted on each call; nothing is cached)."""
        return self.language.common(self)

    def fact(self, name: str) -> Value:
        """Answer a selector: broker-kept headers from the envelope, the rest from the first encoding."""
        if name.startswith(("JMS", "AMQ")):
            known, value = self._header(name)
            if known:
                return value
        rare = self.rare
        if rare is not None and name in rare.annotations:
            return rare.annotations[name]
        return self.language.fact(self, name)

    def _header(self, name: str) -> tuple[bool, Value]:
        """Return (is it one that the envelope keeps, its value); JMS 3.8.1.1 and the Artemis filter names."""
        if name in ("JMSPriority", "AMQPriority"):
            return True, int(self.priority)
        if name in ("JMSTimestamp", "AMQTimestamp"):
            return True, int(self.timestamp)
        if name in ("JMSExpiration", "AMQExpiration"):
            return True, int(self.expiration)
        if name == "JMSDeliveryMode":
            return True, "PERSISTENT" if self.durable else "NON_PERSISTENT"
        if name == "AMQDurable":
            return True, "DURABLE" if self.durable else "NON_DURABLE"
        if name == "AMQSize":
            return True, len(self.raw)
        if name == "AMQAddress":
            return True, self.address
        if name == "JMSRedelivered":
            return True, self.redelivered
        rare = self.rare
        if rare is not None:
            if name in ("JMSXGroupID", "AMQGroupID") and rare.group:
                return True, rare.group
            if name == "JMSXGroupSeq" and rare.group:
                return True, int(rare.group_sequence)
            if name == "JMSMessageID" and rare.identity:
                return True, rare.identity
        return False, None


def signed(message: Message) -> bool:
    """Return whether the broker wrote on ``message`` who sent it, whatever the sender says."""
    rare = message.rare
    return rare is not None and USER in rare.annotations


def write_envelope(message: Message, writer: BytesWriter) -> None:
    """Append the envelope and ``raw`` of ``message`` to ``writer`` in the layout at the head of this module."""
    flags = 0
    if message.durable:
        flags |= FLAG_DURABLE
    if message.redelivered:
        flags |= FLAG_REDELIVERED
    if message.escaped:
        flags |= FLAG_ESCAPED
    rare = message.rare
    if rare is not None:
        flags |= FLAG_RARE
    writer.append(ENVELOPE_LAYOUT if rare is None else _layout(rare))
    writer.append(message.language.code)
    writer.append(flags)
    writer.append(int(message.priority))
    write_i64_be(writer, message.timestamp)
    write_i64_be(writer, message.expiration)
    write_i32_be(writer, int(message.body_at))
    _write_short(writer, message.address.encode())
    if rare is not None:
        _write_rare(writer, rare)
    write_i32_be(writer, len(message.raw))
    writer.write(message.raw)


def _layout(rare: Rare) -> int:
    if rare.internal:
        return ENVELOPE_INTERNAL
    return ENVELOPE_STRETCHES if rare.large_checked else ENVELOPE_LAYOUT


def _write_short(writer: BytesWriter, octets: bytes) -> None:
    """Append u16 length and octets. Raises Refused for a name, group or key that is longer than the layout can say."""
    if len(octets) > SHORT_OCTETS_MAX:
        raise Refused(f"a name of {len(octets)} octets cannot be stored", remedy=f"use at most {SHORT_OCTETS_MAX}")
    write_i16_be(writer, len(octets))
    writer.write(octets)


def _write_rare(writer: BytesWriter, rare: Rare) -> None:
    _write_short(writer, rare.group.encode())
    write_i32_be(writer, int(rare.group_sequence))
    write_i32_be(writer, len(rare.duplicate_id))
    writer.write(rare.duplicate_id)
    _write_short(writer, rare.identity.encode())
    write_i64_be(writer, rare.deliver_at)
    write_i64_be(writer, rare.large_id)
    write_i64_be(writer, rare.large_length)
    write_i16_be(writer, len(rare.annotations))
    for key, value in rare.annotations.items():
        _write_short(writer, key.encode())
        _write_long(writer, value.encode())
    if rare.internal:
        writer.append(1 if rare.large_checked else 0)
        _write_internal(writer, rare.internal)


def _write_long(writer: BytesWriter, octets: bytes) -> None:
    write_i32_be(writer, len(octets))
    writer.write(octets)


def _write_internal(writer: BytesWriter, internal: dict[str, Internal]) -> None:
    write_i16_be(writer, len(internal))
    for key, value in internal.items():
        _write_short(writer, key.encode())
        if isinstance(value, bytes):
            writer.append(INTERNAL_OCTETS)
            _write_long(writer, value)
        elif isinstance(value, str):
            writer.append(INTERNAL_TEXT)
            _write_long(writer, value.encode())
        else:
            writer.append(INTERNAL_INTEGER)
            write_i64_be(writer, value)


def read_envelope(data: bytes, start: i64) -> Message:
    """Return the message whose envelope begins at ``data[start]``. Raises CorruptJournal for a layout not known."""
    layout = data[start]
    if not ENVELOPE_LAYOUT <= layout <= ENVELOPE_INTERNAL:
        raise CorruptJournal(
            f"a stored message has envelope layout {layout}; this build reads layouts 1 to {ENVELOPE_INTERNAL}",
            remedy="open the journal with the version of entrepot that wrote it",
        )
    flags = data[start + 2]
    at: i64 = start + 24
    length: i64 = i64(read_i16_be(data, at))
    address = data[at + 2 : at + 2 + length].decode()
    at += 2 + length
    rare: Rare | None = None
    if flags & FLAG_RARE:
        rare, at = _read_rare(data, at)
        rare.large_checked = layout == ENVELOPE_STRETCHES
        if layout == ENVELOPE_INTERNAL:
            rare.large_checked = data[at] != 0
            rare.internal, at = _read_internal(data, at + 1)
    length = i64(read_i32_be(data, at))
    message = Message(language(data[start + 1]), address, data[at + 4 : at + 4 + length])
    message.durable = (flags & FLAG_DURABLE) != 0
    message.redelivered = (flags & FLAG_REDELIVERED) != 0
    message.escaped = (flags & FLAG_ESCAPED) != 0
    message.priority = data[start + 3]
    message.timestamp = read_i64_be(data, start + 4)
    message.expiration = read_i64_be(data, start + 12)
    message.body_at = i64(read_i32_be(data, start + 20))
    message.rare = rare
    message.watched = rare is not None and rare.internal is not None and WATCHED in rare.internal
    return message


def _read_rare(data: bytes, start: i64) -> tuple[Rare, i64]:
    rare = Rare()
    at: i64 = start
    length: i64 = i64(read_i16_be(data, at))
    rare.group = data[at + 2 : at + 2 + length].decode()
    at += 2 + length
    rare.group_sequence = i64(read_i32_be(data, at))
    length = i64(read_i32_be(data, at + 4))
    at += 8
    rare.duplicate_id = data[at : at + length]
    at += length
    length = i64(read_i16_be(data, at))
    rare.identity = data[at + 2 : at + 2 + length].decode()
    at += 2 + length
    rare.deliver_at = read_i64_be(data, at)
    rare.large_id = read_i64_be(data, at + 8)
    rare.large_length = read_i64_be(data, at + 16)
    count: i64 = i64(read_i16_be(data, at + 24))
    at += 26
    done: i64 = 0
    while done < count:
        length = i64(read_i16_be(data, at))
        key = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        length = i64(read_i32_be(data, at))
        rare.annotations[key] = data[at + 4 : at + 4 + length].decode()
        at += 4 + length
        done += 1
    return rare, at


def _read_internal(data: bytes, start: i64) -> tuple[dict[str, Internal], i64]:
    internal: dict[str, Internal] = {}
    count: i64 = i64(read_i16_be(data, start))
    at: i64 = start + 2
    done: i64 = 0
    while done < count:
        length: i64 = i64(read_i16_be(data, at))
        key = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        kind = data[at]
        if kind == INTERNAL_INTEGER:
            internal[key] = int(read_i64_be(data, at + 1))
            at += 9
        elif kind in (INTERNAL_OCTETS, INTERNAL_TEXT):
            length = i64(read_i32_be(data, at + 1))
            octets = data[at + 5 : at + 5 + length]
            at += 5 + length
            if kind == INTERNAL_TEXT:
                internal[key] = octets.decode()
            else:
                internal[key] = octets
        else:
            raise CorruptJournal(
                f"an internal annotation has type {kind}; this build knows types 1 to {INTERNAL_TEXT}",
                remedy="open the journal with the version of entrepot that wrote it",
            )
        done += 1
    return internal, at
