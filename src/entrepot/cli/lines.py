"""Messages as lines: plain text, or JSON with body, headers and properties; and the pipes that carry them.

A JSON line, as `receive --json` writes and `send --json` reads it::

    {"body": "text", "type": "text", "headers": {"priority": "4"}, "properties": {"colour": "red"}}

``headers`` are those of STOMP and the broker, ``properties`` the application's. ``type`` is ``text`` or ``bytes``;
octets that are no UTF-8 stand in ``body_base64`` instead of ``body``. Everything but one of the two bodies may be left
out; a value may be a string, a number or a boolean, and arrives as a string.
"""

from __future__ import annotations

import base64
import binascii
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from entrepot.base.environment import MIB
from entrepot.base.errors import Inexpressible, LimitExceeded
from entrepot.cli.dialogue import in_thread
from entrepot.cli.output import to_json
from entrepot.client.written import as_fields
from entrepot.protocols.stomp.client import Message

LINE_OCTETS_MAX: Final = 100 * MIB  # the broker's limit for one body
CHUNK_OCTETS: Final = 65_536  # what a pipe holds

MADE_BY_BROKER: Final = (
    *("destination", "message-id", "subscription", "ack", "redelivered", "content-length", "receipt", "transaction"),
    *("timestamp", "browser", "original-destination", "JMSXUserID", "amq-msg-type", "position"),
)
"""Headers of a received message that mean nothing when it is sent again."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    body: str | None = None
    body_base64: str | None = None
    type: str | None = None
    headers: dict[str, str | int | float | bool | None] = {}
    properties: dict[str, str | int | float | bool | None] = {}


def read_json(line: bytes) -> tuple[str | bytes, dict[str, str]]:
    """Return body and headers of a JSON line. Raises Inexpressible for one that says no message."""
    try:
        read = msgspec.json.decode(line, type=_Line)
        if read.body_base64 is not None:
            if read.body is not None:
                raise Inexpressible("it has two bodies", remedy="give body or body_base64")
            body: str | bytes = base64.b64decode(read.body_base64, validate=True)
        else:
            body = read.body or ""
    except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error) as wrong:
        raise Inexpressible(
            f"{line[:60]!r} says no message: {wrong}", remedy='write lines like {"body": "text", "headers": {}}'
        ) from wrong
    if read.type not in (None, "text", "bytes"):
        raise Inexpressible(f"the type {read.type!r} is unknown", remedy="use text or bytes")
    if read.type == "bytes" and isinstance(body, str):
        body = body.encode()
    elif read.type == "text" and isinstance(body, bytes):
        raise Inexpressible("a text cannot be given as body_base64", remedy="use body, or the type bytes")
    headers = {name: text for name, text in read.headers.items() if name not in MADE_BY_BROKER}
    return body, {name: _text(value) for name, value in {**headers, **read.properties}.items() if value is not None}


def read_text(line: bytes) -> tuple[str | bytes, dict[str, str]]:
    """Return a line as the body of a text message, or of a bytes message when it is no UTF-8."""
    try:
        return line.decode(), {}
    except UnicodeDecodeError:
        return line, {}


def as_json(message: Message) -> bytes:
    """Return the JSON line of a message."""
    return to_json(as_fields(message)).encode() + b"\n"


def as_text(message: Message) -> bytes:
    """Return the body as a line."""
    return message.body + b"\n"


async def input_lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input without their ends, each as soon as it is whole; the last may lack an end.

    Raises LimitExceeded for a line that no message could hold.
    """
    rest = bytearray()
    while True:
        chunk = await in_thread(_read_chunk)
        if not chunk:
            break
        rest += chunk
        if b"\n" in chunk:
            *whole, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in whole:
                yield line.removesuffix(b"\r")
        if len(rest) > LINE_OCTETS_MAX:
            raise LimitExceeded(
                f"a line is longer than {LINE_OCTETS_MAX} octets", remedy="one message is one line; split the input"
            )
    if rest:
        yield bytes(rest)


async def write_out(data: bytes) -> None:
    """Write to standard output and wait until it is with the reader. Raises BrokenPipeError when that one has gone."""
    await in_thread(lambda: _write(data))


def _read_chunk() -> bytes:
    # Not through sys.stdin.buffer: a thread that waits in it holds its lock, and the interpreter could not end.
    descriptor = _descriptor(sys.stdin)
    if descriptor is not None:
        return os.read(descriptor, CHUNK_OCTETS)
    return sys.stdin.buffer.read(CHUNK_OCTETS)


def _write(data: bytes) -> None:
    descriptor = _descriptor(sys.stdout)
    if descriptor is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _descriptor(stream: Any) -> int | None:
    """Return the file descriptor; None for a stream that only looks like a file."""
    try:
        number: int = stream.fileno()
    except (OSError, ValueError):
        return None
    return number


def _text(value: str | int | float | bool | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
