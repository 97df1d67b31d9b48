"""STOMP as one of the broker's languages: its tails read for selectors, and other languages said in STOMP.

A tail (``Message.raw``) is header lines, an empty line, the body and a NUL; ``body_at`` is where the body begins. The
headers are escaped as STOMP 1.2 has it when ``Message.escaped``; otherwise they hold nothing that would need it. [C]
"""

from __future__ import annotations

import json
from typing import Final

from entrepot.model.message import (
    BODY_BYTES,
    BODY_EMPTY,
    BODY_MAP,
    BODY_OBJECT,
    BODY_STREAM,
    BODY_TEXT,
    Common,
    Language,
    Message,
    register,
)
from entrepot.model.predicate import Value
from entrepot.protocols.stomp.codec import V10, V12, decode_headers, octets_of, text_of

STOMP_CODE: Final = 1

JMS_NAMES: Final = {  # header of STOMP -> what a selector calls it
    "JMSCorrelationID": b"correlation-id",
    "JMSReplyTo": b"reply-to",
    "JMSType": b"type",
    "JMSXGroupID": b"JMSXGroupID",
    "JMSXGroupSeq": b"JMSXGroupSeq",
    "AMQUserID": b"JMSXUserID",
}
NOT_PROPERTIES: Final = ("content-length", "correlation-id", "reply-to", "type", "content-type")


class StompLanguage(Language):
    """Reads tails."""

    def __init__(self) -> None:
        super().__init__(STOMP_CODE, "STOMP")

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

    def common(self, message: Message) -> Common:
        """Return the message in the common form: text without content-length, octets with one, unless it says."""
        body_at = int(message.body_at)
        headers = decode_headers(message.raw[:body_at], V12 if message.escaped else V10, False)
        body = message.raw[body_at:-1]
        kind = headers.get("amq-msg-type", "")  # which stays a property, as in ActiveMQ
        if kind == "bytes" or (not kind and "content-length" in headers):
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


def tail_of(message: Message) -> tuple[bytes, int]:
    """Return the tail of a message of another language, escaped as 1.2, and where its body begins."""
    said = message.common()
    body = body_octets(said)
    lines: list[bytes] = []
    for name, text in (
        ("correlation-id", said.correlation_id),
        ("reply-to", said.reply_to),
        ("type", said.type),
        ("content-type", said.content_type),
        ("JMSXUserID", said.user_id),
    ):
        if text is not None:
            lines.append(_line(name, text))
    if said.path:  # no client of STOMP knows it; readers by lease do (docs/spark.md)
        lines.append(_line("broker-path", ",".join(said.path)))
    if said.body_kind == BODY_MAP:
        lines.append(b"transformation:jms-map-json\n")
    for name, value in said.properties.items():
        lines.append(_line(name, as_text(value)))
    # a text that holds NUL can only be framed by its length
    if said.body_kind in (BODY_BYTES, BODY_OBJECT) or b"\0" in body:
        lines.append(b"content-length:%d\n" % len(body))
    lines.append(b"\n")
    head = b"".join(lines)
    return head + body + b"\0", len(head)


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
