"""HTTP/1.1 by h11: requests that come and are answered, requests that are asked and their answers, with bounds.

h11 decides where a message ends, who may speak next and whether a connection may be used again. Added here are bounds
of bodies, and the refusal of a message that tells its length by ``Content-Length`` and by chunks: h11 obeys the chunks,
as RFC 9112 permits, and two readers of one stream must never disagree where a message ends.

Import this module where HTTP is really spoken: a broker without HTTP does not load h11.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import h11

from entrepot.base.errors import LimitExceeded, MalformedFrame

HEAD_OCTETS_MAX: Final = 16 * 1024  # of a head, and of the line before a chunk
GZIP: Final = 31  # zlib: the window of 32 KiB, with the head and tail of gzip
SAFE: Final = "%/:?#[]@!$&'()*+,;=~"  # of a target: what stays as it is
TOO_LARGE: Final = (413, 431)

Field = tuple[str, str]


class Message:
    """One message. ``method`` and ``target`` are those of a request; ``status`` and ``reason`` those of an answer.

    ``fields``: names in lower case; of repeated ones the last.
    """

    __slots__ = ("body", "fields", "method", "reason", "status", "target")

    def __init__(self, event: h11.Request | h11.Response | h11.InformationalResponse) -> None:
        self.fields: dict[bytes, bytes] = dict(event.headers)
        self.body = b""
        self.method = self.target = self.reason = b""
        self.status = 0
        if isinstance(event, h11.Request):
            self.method, self.target = event.method, event.target
        else:
            self.status, self.reason = event.status_code, event.reason


class _Stream:
    """One side of a connection. ``body_max`` says for a head how long its body may be."""

    def __init__(self, role: type[h11.CLIENT] | type[h11.SERVER], body_max: Callable[[Message], int]) -> None:
        self._h11: Final = h11.Connection(role, max_incomplete_event_size=HEAD_OCTETS_MAX)
        self._body_max: Final = body_max
        self._limit = 0
        self._body = bytearray()
        self.head: Message | None = None
        """The message whose head has come, and whose end has not."""

    @property
    def begun(self) -> bool:
        """Say whether part of a message has come."""
        return self.head is not None or bool(self.rest)

    @property
    def rest(self) -> bytes:
        """Return what came and was not read: behind an upgrade it belongs to the other protocol."""
        return self._h11.trailing_data[0]

    def feed(self, data: bytes) -> None:
        """Take what came; b"" is the end of the stream. `next` says what it was."""
        self._h11.receive_data(data)

    def next(self) -> Message | None:
        """Return the next message that is complete, None when more must come. Raises MalformedFrame, LimitExceeded."""
        try:
            return self._next()
        except h11.RemoteProtocolError as error:
            kind = LimitExceeded if error.error_status_hint in TOO_LARGE else MalformedFrame
            raise kind(f"this is no HTTP/1.1: {error}") from error

    def _next(self) -> Message | None:
        while True:
            event = self._h11.next_event()
            if isinstance(event, h11.Data):
                self._take(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return self._complete()
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                    return Message(event)
            elif isinstance(event, h11.Request | h11.Response):
                self._begin(Message(event))
            else:  # NEED_DATA, PAUSED, ConnectionClosed
                return None

    def _begin(self, message: Message) -> None:
        length = message.fields.get(b"content-length")
        if length is not None and b"transfer-encoding" in message.fields:
            raise MalformedFrame("the head tells two lengths")
        self.head = message
        self._limit = self._body_max(message)
        if length is not None and message.method and int(length) > self._limit:  # an answer to HEAD has no body
            raise LimitExceeded(f"a body of {int(length)} octets is longer than {self._limit}")

    def _take(self, data: bytes | bytearray) -> None:
        if len(self._body) + len(data) > self._limit:
            raise LimitExceeded(f"a body is longer than {self._limit} octets")
        self._body += data

    def _complete(self) -> Message:
        message = self.head
        assert message is not None
        message.body = bytes(self._body)
        self._body.clear()
        self.head = None
        return message

    def _send(self, event: h11.Event) -> bytes:
        return self._h11.send(event) or b""

    def _again(self) -> bool:
        """Say whether the connection may be used again, and make it ready for that."""
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True


class Requests(_Stream):
    """The side that is asked. A request is answered before the next one is read."""

    def __init__(self, body_max: Callable[[Message], int]) -> None:
        super().__init__(h11.SERVER, body_max)
        self._bodiless = False  # the request is HEAD
        self.lasting = True
        """Whether the connection may be used again."""

    def feed(self, data: bytes) -> None:
        """Take what came. Empty lines before a request mean nothing (RFC 9112, 2.2)."""
        if data[:1] in (b"\r", b"\n") and self._h11.their_state is h11.IDLE and not self.rest:
            data = data.lstrip(b"\r\n")
            if not data:
                return
        super().feed(data)

    def _begin(self, message: Message) -> None:
        self._bodiless = message.method == b"HEAD"
        super()._begin(message)

    def encouragement(self) -> bytes:
        """Return what makes a client go on that waits to be asked for its body, or b""."""
        if not self._h11.they_are_waiting_for_100_continue:
            return b""
        return self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))

    def answer(self, status: int, body: bytes = b"", fields: Iterable[Field] = ()) -> bytes:
        """Return the octets of an answer. Behind one to what could not be read the connection must end."""
        head = h11.Response(
            status_code=status,
            headers=[("Content-Length", str(len(body))), *fields],
            reason=HTTPStatus(status).phrase.encode(),
        )
        octets = self._send(head)
        if body and not self._bodiless:
            octets += self._send(h11.Data(data=body))
        octets += self._send(h11.EndOfMessage())
        self.lasting = self._again()
        return octets

    def switch(self, protocol: str) -> bytes:
        """Return the octets that grant the upgrade which the request asked for; `rest` is no HTTP then."""
        fields = [("Connection", "Upgrade"), ("Upgrade", protocol)]
        return self._send(h11.InformationalResponse(status_code=101, headers=fields, reason=b"Switching Protocols"))


class Answers(_Stream):
    """The side that asks, one request after the other."""

    def __init__(self, body_max: Callable[[Message], int]) -> None:
        super().__init__(h11.CLIENT, body_max)

    def ask(self, method: str, target: str, host: str, fields: Iterable[Field] = (), body: bytes = b"") -> bytes:
        """Return the octets of a request. Raises MalformedFrame for fields that HTTP cannot carry."""
        length = [("Content-Length", str(len(body)))] if body else []
        named = host.encode("ascii", "replace").decode()
        try:
            head = h11.Request(
                method=method,
                target=quote(target or "/", safe=SAFE),
                headers=[("Host", named), *fields, *length],
            )
        except h11.LocalProtocolError as error:
            raise MalformedFrame(f"{host!r} cannot be asked for {target!r}: {error}") from error
        octets = self._send(head)
        if body:
            octets += self._send(h11.Data(data=body))
        return octets + self._send(h11.EndOfMessage())

    def ready(self) -> bool:
        """Say whether another request may be asked on this connection; call it once, when the answer is there.

        What came behind the answer was asked for by nobody.
        """
        return not self.rest and self._again()


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
