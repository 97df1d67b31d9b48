"""A message as it is written down: its body, headers and properties as text, as commands and the console write them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.spreadsheets import harmless
from entrepot.protocols.stomp.client import Message

if TYPE_CHECKING:
    from entrepot.client.message import Received

STANDARD: Final = (
    *("destination", "message-id", "subscription", "ack", "redelivered", "content-length", "content-type", "receipt"),
    *("priority", "expires", "timestamp", "persistent", "correlation-id", "reply-to", "type", "transaction", "browser"),
    *("original-destination", "JMSXUserID", "amq-msg-type", "position"),
)
"""Headers that are not the application's (classic.md 6.3)."""

LISTED: Final = (
    *("message-id", "timestamp", "destination", "priority", "persistent", "redelivered", "expires"),
    *("correlation-id", "reply-to", "type"),
)
COLUMNS: Final = (*LISTED, "properties", "body", "body_base64")
"""Of a message in CSV; the first are headers."""


def shown(message: Received) -> Message:
    """Return ``message`` as STOMP words it."""
    body = message.body
    headers = {
        "destination": str(message.destination),
        "message-id": message.message_id,
        "timestamp": str(message.timestamp),
        "priority": str(message.priority),
        "persistent": "true" if message.persistent else "false",
    }
    if message.expiration:
        headers["expires"] = str(message.expiration)
    if message.redelivered:
        headers["redelivered"] = "true"
    for name, value in (
        ("correlation-id", message.correlation_id),
        ("reply-to", message.reply_to),
        ("type", message.type),
        ("JMSXGroupID", message.group),
    ):
        if value:
            headers[name] = str(value)
    headers.update({name: str(value) for name, value in message.properties.items()})
    if isinstance(body, bytes):
        headers["content-length"] = str(len(body))
        octets = body
    elif isinstance(body, str) or body is None:
        octets = (body or "").encode("utf-8", "surrogatepass")
    else:
        octets = json.dumps(body, default=str, ensure_ascii=False).encode()
    return Message("", message.message_id, headers, octets)


def as_fields(message: Message) -> dict[str, Any]:
    """Return a message as the fields of a JSON line, as `entrepot send --json` reads it."""
    fields: dict[str, Any] = {}
    try:
        fields["body"] = message.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(message.body).decode()
    fields["type"] = "text" if message.is_text else "bytes"
    fields["headers"] = {name: text for name, text in message.headers.items() if name in STANDARD}
    fields["properties"] = {name: text for name, text in message.headers.items() if name not in STANDARD}
    return fields


def as_row(fields: Mapping[str, Any]) -> list[str]:
    """Return what ``fields``, as of `as_fields`, has in `COLUMNS`: nothing that a spreadsheet would carry out."""
    headers = fields["headers"]
    properties = json.dumps(fields["properties"], ensure_ascii=False) if fields["properties"] else ""
    bodies = (fields.get("body", ""), fields.get("body_base64", ""))
    return [harmless(text) for text in (*(headers.get(name, "") for name in LISTED), properties, *bodies)]
