"""A stream of octets cut into HTTP/1.1 messages, requests or answers (RFC 9112); and messages written.

Nothing is kept beyond a head of `HEAD_OCTETS_MAX` and a body of what its reader permits for that head. A body's length
is told by ``Content-Length`` or by chunks; a message that says both, or says one twice, is refused: two readers of the
same stream must never disagree where a message ends.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from entrepot.base.errors import LimitExceeded, MalformedFrame

HEAD_OCTETS_MAX: Final = 16 * 1024
CHUNK_LINE_OCTETS_MAX: Final = 256
GZIP: Final = 31  # zlib: the window of 32 KiB, with the head and tail of gzip
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    503: "Service Unavailable",
}


class Message:
    """One message. ``fields``: names in lower case; of repeated ones the last, except for the length."""

    __slots__ = ("body", "fields", "first")

    def __init__(self, first: bytes, fields: dict[bytes, bytes]) -> None:
        self.first = first
        self.fields = fields
        self.body = b""

    @property
    def method(self) -> bytes:
        """Return the word that a request begins with."""
        return self.first.partition(b" ")[0]

    @property
    def status(self) -> int:
        """Return the status of an answer, 0 for what is none."""
        words = self.first.split(b" ", 2)
        good = len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() and len(words[1]) == 3
        return int(words[1]) if good else 0

    @property
    def lasting(self) -> bool:
        """Say whether the connection may be used again."""
        said = self.fields.get(b"connection", b"").lower()
        if b"HTTP/1.0" in self.first:
            return b"keep-alive" in said
        return b"close" not in said


def read_head(head: bytes) -> Message:
    """Return the message that ``head`` (without the empty line) begins. Raises MalformedFrame."""
    lines = head.split(b"\r\n")
    fields: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise MalformedFrame(f"a line of the head is no field: {line[:60]!r}")
        key, value = name.lower(), value.strip()
        if key in (b"content-length", b"transfer-encoding") and fields.get(key, value) != value:
            raise MalformedFrame("the head tells two lengths")
        fields[key] = value
    if b"content-length" in fields and b"transfer-encoding" in fields:
        raise MalformedFrame("the head tells two lengths")
    if b"HTTP/1." not in lines[0]:
        raise MalformedFrame(f"this is no HTTP/1: {lines[0][:60]!r}")
    return Message(lines[0], fields)


class MessageReader:
    """Reads messages from one side of a connection. ``body_max`` says for a head how long its body may be.

    ``bodiless``: the next message is the answer to HEAD. ``answers``: a message without length lasts until the end.
    """

    def __init__(self, body_max: Callable[[Message], int], *, answers: bool = False) -> None:
        self.bodiless = False
        self._body_max = body_max
        self._answers = answers
        self._data = bytearray()
        self._message: Message | None = None
        self._limit = 0
        self._left = 0  # octets of the body, or of its chunk with the line end, that are still to come
        self._chunked = False
        self._trailing = False
        self._endless = False
        self._body = bytearray()

    @property
    def begun(self) -> bool:
        """Say whether part of a message has come."""
        return bool(self._data) or self._message is not None

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that ``data`` completes. Raises MalformedFrame, LimitExceeded."""
        self._data += data
        found: list[Message] = []
        while self._step(found):
            pass
        return found

    def end(self) -> Message | None:
        """The stream has ended: return the message that only that could end."""
        if self._message is None or not self._endless:
            return None
        return self._complete()

    def _step(self, found: list[Message]) -> bool:
        """Do one thing with what has come; False when more must come."""
        if self._message is None:
            return self._head(found)
        if self._chunked and self._left == 0:
            return self._chunk(found)
        if not self._endless and len(self._data) < self._left:
            return False
        if self._endless:
            self._take(len(self._data))
            return False
        self._take(self._left)
        if self._chunked:
            if self._body[-2:] != b"\r\n":
                raise MalformedFrame("a chunk does not end where it should")
            del self._body[-2:]
            self._left = 0
        else:
            found.append(self._complete())
        return True

    def _head(self, found: list[Message]) -> bool:
        while self._data[:2] == b"\r\n":  # RFC 9112, 2.2: empty lines before a message mean nothing
            del self._data[:2]
        end = self._data.find(b"\r\n\r\n", 0, HEAD_OCTETS_MAX)
        if end < 0:
            if len(self._data) >= HEAD_OCTETS_MAX:
                raise LimitExceeded(f"the head of a message is longer than {HEAD_OCTETS_MAX} octets")
            return False
        message = read_head(bytes(self._data[:end]))
        del self._data[: end + 4]
        if self._answers and 100 <= message.status < 200 and message.status != 101:
            return True  # a remark before the answer
        self._message = message
        self._limit = self._body_max(message)
        self._measure(message)
        if self._left == 0 and not self._chunked and not self._endless:
            found.append(self._complete())
        return True

    def _measure(self, message: Message) -> None:
        """See how long the body will be."""
        length = message.fields.get(b"content-length")
        coding = message.fields.get(b"transfer-encoding", b"").lower()
        self._left = 0
        self._chunked = self._endless = self._trailing = False
        if self.bodiless or message.status in (101, 204, 304):
            return
        if coding:
            if coding != b"chunked":
                raise MalformedFrame(f"the transfer coding {coding[:60]!r} is not known")
            self._chunked = True
        elif length is not None:
            if not length.isdigit() or len(length) > 12:
                raise MalformedFrame(f"{length[:60]!r} is no length")
            self._left = int(length)
            if self._left > self._limit:
                raise LimitExceeded(f"a body of {self._left} octets is longer than {self._limit}")
        else:
            self._endless = self._answers

    def _chunk(self, found: list[Message]) -> bool:
        """Read the line before a chunk, or a line behind the last."""
        end = self._data.find(b"\r\n", 0, CHUNK_LINE_OCTETS_MAX)
        if end < 0:
            if len(self._data) >= CHUNK_LINE_OCTETS_MAX:
                raise LimitExceeded(f"the line before a chunk is longer than {CHUNK_LINE_OCTETS_MAX} octets")
            return False
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        if self._trailing:
            if not line:
                found.append(self._complete())
            return True
        try:
            size = int(line.partition(b";")[0].strip(), 16) if line[:1].isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            raise MalformedFrame(f"{line[:60]!r} is no size of a chunk")
        if len(self._body) + size > self._limit:
            raise LimitExceeded(f"a body is longer than {self._limit} octets")
        self._trailing = size == 0
        self._left = size + 2 if size else 0
        return True

    def _take(self, count: int) -> None:
        if self._endless and len(self._body) + count > self._limit:
            raise LimitExceeded(f"a body is longer than {self._limit} octets")
        self._body += self._data[:count]
        del self._data[:count]

    def _complete(self) -> Message:
        message = self._message
        assert message is not None
        message.body = bytes(self._body)
        self._body.clear()
        self._message = None
        self.bodiless = False
        return message


def inflate(octets: bytes, most: int) -> bytes:
    """Return what gzip packed into ``octets``. Raises MalformedFrame; LimitExceeded for more than ``most`` octets."""
    opened = zlib.decompressobj(GZIP)
    try:
        plain = opened.decompress(octets, most + 1)
    except zlib.error as error:
        raise MalformedFrame(f"a body is not packed with gzip: {error}") from error
    if len(plain) > most:
        raise LimitExceeded(f"a body unpacks to more than {most} octets")
    if not opened.eof:
        raise MalformedFrame("a body packed with gzip is cut off")
    return plain


def deflate(octets: bytes) -> bytes:
    """Return ``octets`` packed with gzip."""
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    return packer.compress(octets) + packer.flush()


def answer(status: int, body: bytes = b"", *fields: str) -> bytes:
    """Return the octets of an answer."""
    lines = [f"HTTP/1.1 {status} {REASONS[status]}", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def request(method: str, path: str, host: str, *fields: str, body: bytes = b"") -> bytes:
    """Return the octets of a request."""
    lines = [f"{method} {path or '/'} HTTP/1.1", f"Host: {host}", *fields]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii", "replace") + body
