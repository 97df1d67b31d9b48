"""STOMP as one of the broker's languages: its tails read for selectors, and other languages said in STOMP.

A tail (``Message.raw``) is header lines, an empty line, the body and a NUL; ``body_at`` is where the body begins. The
headers are escaped as STOMP 1.2 has it when ``Message.escaped``; otherwise they hold nothing that would need it. [C]
"""

from __future__ import annotations

import json
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import Inexpressible
from entrepot.base.primitive import Primitive, plain
from entrepot.base.trace_context import ABSENT, LENGTH, WINDOW, peek
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
    LANGUAGE_STOMP,
    USER,
    Common,
    Language,
    Message,
    register,
    signed,
)
from entrepot.model.predicate import Value
from entrepot.model.serialised import opened, serialised
from entrepot.protocols.stomp import transformation
from entrepot.protocols.stomp.escapes import V10, V12, decode_headers, octets_of, text_of

JMS_NAMES: Final = {  # header of STOMP -> what a selector calls it
    "JMSCorrelationID": b"correlation-id",
    "JMSReplyTo": b"reply-to",
    "JMSType": b"type",
    "JMSXGroupID": b"JMSXGroupID",
    "JMSXGroupSeq": b"JMSXGroupSeq",
    "AMQUserID": b"JMSXUserID",
}
SHORTEST_CONTEXT: Final = len("traceparent:\n") + LENGTH
TRANSFORMATION: Final = "transformation"
TRANSFORMATION_ERROR: Final = "transformation-error"
READ_FORMS: Final = (
    transformation.MAP_JSON,
    transformation.MAP_XML,
    transformation.OBJECT_JSON,
    transformation.OBJECT_XML,
    transformation.JSON,  # names no kind: ActiveMQ says so in a transformation-error
    transformation.XML,
)
LENGTH_HEADER: Final = b"content-length:"
LONGEST_LENGTH: Final = len(LENGTH_HEADER) + 22  # octets of a head with that header alone; longer ones are looked into
LINE_END: Final = 10
NUL: Final = 0
KINDS: Final = {BODY_MAP: "map", BODY_STREAM: "stream", BODY_OBJECT: "object"}
NOT_PROPERTIES: Final = ("content-length", "correlation-id", "reply-to", "type", "content-type")


class StompLanguage(Language):
    """Reads tails."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_STOMP, "STOMP")
        self.identifies = False

    def context(self, message: Message) -> i64:
        """Look into the headers, if they are as long as one with a context."""
        end = message.body_at
        return ABSENT if end < SHORTEST_CONTEXT else peek(message.raw, 0, min(end, WINDOW), 1)

    def fact(self, message: Message, name: str) -> Value:
        """Return one header as text; every header of STOMP is a string (classic.md 6.3)."""
        if name == "JMSDestination":
            return message.address
        wanted = JMS_NAMES.get(name)
        raw = message.raw
        if wanted is None:
            wanted = octets_of(name, V12 if message.escaped else V10)
        key = wanted + b":"
        if raw.startswith(key):
            at = len(key)
        else:
            at = raw.find(b"\n" + key, 0, int(message.body_at))
            if at < 0:
                return None
            at += len(key) + 1
        end = raw.find(b"\n", at)
        return text_of(raw[at:end], V12 if message.escaped else V10)

    def bereave(self, message: Message) -> None:
        """Say that there are no octets of body: those that were to follow the head are lost."""
        lines = message.raw[: int(message.body_at) - 1].split(b"\n")
        kept = [line for line in lines if line.partition(b":")[0].strip() != b"content-length"]
        head = b"content-length:0\n" + b"\n".join(kept) + b"\n"
        message.raw = head + b"\0"
        message.body_at = len(head)

    def exact(self, message: Message) -> dict[str, object] | None:
        """Return the entries of a map that was sent in one of ActiveMQ's forms."""
        headers = headers_of(message)
        form = headers.get(TRANSFORMATION, "")
        if form not in (transformation.MAP_JSON, transformation.MAP_XML) or "content-length" in headers:
            return None
        try:
            found = transformation.read(_body(message).decode("utf-8", "replace"), form)
        except Inexpressible:
            return None
        return found if isinstance(found, dict) else None

    def bare(self, message: Message) -> tuple[i64, bytes]:
        """Tell a message without any header, which is text, and one with a content-length alone."""
        body_at: i64 = message.body_at
        if body_at == 1:
            return BARE_TEXT, _body(message)
        raw = message.raw
        if body_at <= LONGEST_LENGTH and raw[: len(LENGTH_HEADER)] == LENGTH_HEADER and _is_one_line(raw, body_at):
            return BARE_OCTETS, _body(message)
        return BARE_NOT, b""

    def common(self, message: Message) -> Common:
        """Return the message in the common form: text without content-length, octets with one, unless it says.

        A ``transformation`` makes a map or an object of it; what cannot be read stays text and says why, as in
        ActiveMQ.
        """
        headers = headers_of(message)
        body = _body(message)
        kind = headers.get("amq-msg-type", "")  # which stays a property, as in ActiveMQ
        form = headers.get(TRANSFORMATION, "")
        if form in READ_FORMS and "content-length" not in headers:
            said = _transformed(body, form)
        elif kind == "bytes" or (not kind and "content-length" in headers):
            said = Common(BODY_BYTES, body)
        else:
            said = Common(BODY_TEXT, body.decode("utf-8", "replace"))
        said.correlation_id = headers.get("correlation-id")
        said.reply_to = headers.get("reply-to")
        said.type = headers.get("type")
        said.content_type = headers.get("content-type")
        for name, value in headers.items():
            if name not in NOT_PROPERTIES:
                said.properties[name] = value
        return said


STOMP_LANGUAGE: Final = StompLanguage()
register(STOMP_LANGUAGE)


def _is_one_line(raw: bytes, body_at: i64) -> bool:
    """Return whether one header stands before the body at ``body_at``, which is behind an empty line."""
    last: i64 = body_at - 2
    for place in range(last):
        if raw[place] == LINE_END:
            return False
    return raw[last] == LINE_END


def _body(message: Message) -> bytes:
    """Return the octets of the body, without the NUL behind them; none where the body is in a file of its own."""
    end = len(message.raw) - 1
    start = int(message.body_at)
    return message.raw[start:end] if start < end else b""  # compiled, a slice may not end before it begins


def headers_of(message: Message) -> dict[str, str]:
    """Return the headers in the tail of a message of STOMP."""
    return decode_headers(message.raw[: int(message.body_at)], V12 if message.escaped else V10, False)


def is_octets(message: Message) -> bool:
    """Return whether a message of STOMP is one of octets, which no transformation touches; so are all large ones."""
    rare = message.rare
    return (rare is not None and rare.large_id > 0) or message.common().body_kind == BODY_BYTES


def _transformed(body: bytes, form: str) -> Common:
    """Return what ``body`` says in ``form``; a text that says why not when it cannot be read."""
    text = body.decode("utf-8", "replace")
    try:
        found = transformation.read(text, form)
        if isinstance(found, dict):
            return Common(BODY_MAP, plain(found))
        octets = serialised(found) if isinstance(found, Primitive) else None
        if octets is None:
            raise Inexpressible("only strings, numbers, characters and truths can be made Java objects here")
        return Common(BODY_OBJECT, octets)
    except Inexpressible as error:
        said = Common(BODY_TEXT, text)
        said.properties[TRANSFORMATION_ERROR] = error.message
        return said


def tail_of(message: Message, asked: str = "") -> tuple[bytes, int]:
    """Return the tail of a message of another language, escaped as 1.2, and where its body begins.

    ``asked``: the transformation that its reader wants. What has no form in it comes as to a reader that does not ask.
    """
    kind = BARE_NOT
    head = body = b""
    if not asked:
        kind, body = message.language.bare(message)
    if kind == BARE_NOT:
        head, kind, body = _said(message, asked)
    # a text that holds NUL can only be framed by its length
    length = b"content-length:%d\n" % len(body) if kind == BARE_OCTETS or NUL in body else b""
    return b"".join((head, length, b"\n", body, b"\0")), len(head) + len(length) + 1


def _said(message: Message, asked: str) -> tuple[bytes, i64, bytes]:
    """Return the headers of a message of another language, whether what follows is text or octets, and that."""
    said = message.common()
    body: bytes | None = None
    if asked:
        body = _in_form(message, said, asked)
    if body is None:
        body = body_octets(said)
        if said.body_kind in (BODY_MAP, BODY_STREAM) and said.content_type is None:
            said.content_type = "application/json"
    else:
        said.body_kind = BODY_TEXT
    lines: list[bytes] = []
    if said.correlation_id is not None:
        lines.append(_line("correlation-id", said.correlation_id))
    if said.reply_to is not None:
        lines.append(_line("reply-to", said.reply_to))
    if said.type is not None:
        lines.append(_line("type", said.type))
    if said.content_type is not None:
        lines.append(_line("content-type", said.content_type))
    if said.user_id is not None and not signed(message):
        lines.append(_line(USER, said.user_id))
    if said.path:  # no client of STOMP knows it; readers by lease do (docs/spark.md)
        lines.append(_line("broker-path", ",".join(said.path)))
    for name, value in said.properties.items():
        lines.append(_line(name, as_text(value)))
    kind = BARE_OCTETS if said.body_kind in (BODY_BYTES, BODY_OBJECT) else BARE_TEXT
    return b"".join(lines), kind, body


def _in_form(message: Message, said: Common, asked: str) -> bytes | None:
    """Return the body in the form ``asked`` for, and set the headers that go with it; None: it has no such form."""
    if said.body_kind == BODY_BYTES:
        return None
    if said.body_kind in (BODY_TEXT, BODY_EMPTY):
        said.properties[TRANSFORMATION] = asked
        return body_octets(said)
    value: object = None
    form = asked
    if said.body_kind == BODY_MAP:
        value = message.language.exact(message)
        form = transformation.OF_MAPS.get(asked, asked)
    elif said.body_kind == BODY_OBJECT and isinstance(said.body, bytes):
        value = opened(said.body)
        form = transformation.OF_OBJECTS.get(asked, asked)
    try:
        if value is None or asked not in transformation.ASKABLE:
            raise Inexpressible(f"a {KINDS[said.body_kind]} message has no form {asked}")
        text = transformation.as_json(value) if asked.endswith("json") else transformation.as_xml(value)
    except Inexpressible as error:
        said.properties[TRANSFORMATION_ERROR] = error.message
        return None
    said.properties.pop(TRANSFORMATION_ERROR, None)
    said.properties[TRANSFORMATION] = form
    return text.encode("utf-8", "replace")


def body_octets(said: Common) -> bytes:
    """Return the body as STOMP carries it: text as UTF-8, octets as they are, maps and streams as JSON."""
    if said.body_kind == BODY_EMPTY or said.body is None:
        return b""
    if said.body_kind == BODY_TEXT:
        return str(said.body).encode()
    if said.body_kind in (BODY_MAP, BODY_STREAM):
        return json.dumps(said.body, default=_jsonable, ensure_ascii=False).encode()
    assert isinstance(said.body, bytes)
    return said.body


def as_text(value: Value) -> str:
    """Return a property as STOMP shows it: Java's words for booleans, text of the rest."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return "" if value is None else str(value)


def _jsonable(value: object) -> object:
    return list(value) if isinstance(value, (bytes, bytearray)) else str(value)


def _line(name: str, value: str) -> bytes:
    return octets_of(name, V12) + b":" + octets_of(value, V12) + b"\n"
