"""STOMP frames as clients see them: text and a small parser, written to be read.

The server's codec is fused for speed and shares nothing with this one, so that each checks the other: whatever one
writes the other must read. Never decides what a frame means.

A frame (STOMP 1.2, "Augmented BNF")::

    command EOL *( name ":" value EOL ) EOL *octet NUL *EOL

With a ``content-length`` the body is that many octets, without one it ends at the first NUL. Line ends between frames
are heart-beats. What is escaped in headers depends on the version:

=======  =============================  ============================
version  escapes                        line end
=======  =============================  ============================
1.0      none                           LF
1.1      ``\\n \\c \\\\``                  LF
1.2      ``\\n \\c \\\\ \\r``              LF or CR LF
=======  =============================  ============================

CONNECT and CONNECTED escape nothing in any version: their version is not agreed on yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame

V1_0: Final = "1.0"
V1_1: Final = "1.1"
V1_2: Final = "1.2"
VERSIONS: Final = (V1_0, V1_1, V1_2)

UNESCAPED: Final = ("CONNECT", "STOMP", "CONNECTED")

_ESCAPES_1_1: Final = {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
_ESCAPES: Final[Mapping[str, Mapping[str, str]]] = {
    V1_0: {},
    V1_1: _ESCAPES_1_1,
    V1_2: {**_ESCAPES_1_1, "\r": "\\r"},
}
_MEANINGS: Final = {
    version: {escape: character for character, escape in table.items()} for version, table in _ESCAPES.items()
}
_TABLES: Final = {version: str.maketrans(dict(table)) for version, table in _ESCAPES.items()}
_ESCAPE: Final = re.compile(r"\\.?", re.DOTALL)
_BREAKS: Final = re.compile(r"[\n\0]")  # NUL has no escape in any version
_BREAKS_UNESCAPED: Final = re.compile(r"[\n\r\0]")


class Frame(msgspec.Struct):
    """One frame. Of a repeated header ``headers`` has the first value (STOMP 1.2, "Repeated Header Entries")."""

    command: str
    headers: dict[str, str]
    body: bytes = b""


class Limits(msgspec.Struct, frozen=True):
    """How much of one frame is buffered before it counts as hostile. Octets, but for ``headers``."""

    head: int = 256 * KIB  # command and headers: room for a few names of the longest kind (10,000) and properties
    headers: int = 1_000  # as in Classic (classic.md 6.3)
    body: int = 100 * MIB  # Classic's maxDataLength


DEFAULT_LIMITS: Final = Limits()
GATHERED_LEAST: Final = 16 * KIB  # octets of a body whose chunks are kept as they come, each for itself
CHUNK_LEAST: Final = KIB  # octets of one that is; smaller ones are put together


def encode_frame(command: str, headers: Mapping[str, str], body: bytes = b"", version: str = V1_2) -> bytes:
    """Return the octets of a frame. The caller adds ``content-length`` where the body needs one.

    Raises Inexpressible for a header that the version has no form for.
    """
    lines = [command]
    if version == V1_0 or command in UNESCAPED:
        for name, value in headers.items():
            if ":" in name or _BREAKS_UNESCAPED.search(name + value):
                raise Inexpressible(
                    f"the header {name!r} of {command} needs escapes, which STOMP {version} has not for this frame",
                    remedy="leave out line ends, NUL and colons in names, or use STOMP 1.2",
                )
            lines.append(f"{name}:{value}")
    else:
        table = _TABLES[version]
        for name, value in headers.items():
            line = f"{name.translate(table)}:{value.translate(table)}"
            if _BREAKS.search(line):
                raise Inexpressible(f"the header {name!r} holds a NUL, which no STOMP header can", remedy="remove it")
            lines.append(line)
    try:
        return b"%b\n\n%b\0" % ("\n".join(lines).encode(), body)
    except UnicodeEncodeError as wrong:
        raise Inexpressible(f"a header of {command} is not Unicode text: {wrong}", remedy="send valid text") from wrong


class FrameParser:
    """Octets in, frames out. Set ``version`` when it is agreed on; it holds for the frames not yet taken.

    Owns the buffer, which never holds more than one incomplete frame within ``limits`` plus the chunk last fed. A chunk
    that comes when nothing waits is looked at where it is, and of a long body whose length is known the chunks are
    kept as they came, to be put together once: a range of megabytes is copied once on its way to `Frame.body`.
    """

    def __init__(self, version: str = V1_0, limits: Limits = DEFAULT_LIMITS) -> None:
        self.version = version
        self.limits = limits
        self._buffer: bytes | bytearray = b""
        self._start = 0  # of the frame that is looked at
        self._seen = 0  # no blank line, or no NUL, before this
        self._frame: Frame | None = None  # its head is read, its body not
        self._length = -1  # of that body, -1 for up to the next NUL
        self._chunks: list[bytes | bytearray | memoryview] = []  # the beginning of that body, where it is long
        self._gathered = 0  # octets of these

    def feed(self, data: bytes) -> None:
        """Take the next octets. Call `take` until it returns None before feeding more."""
        missing = self._length - self._gathered if self._chunks else 0
        if missing > 0:
            if len(data) <= missing:  # the NUL behind the body is still to come
                self._keep(data)
                return
            self._chunks.append(memoryview(data)[:missing])
            self._gathered += missing
            self._buffer = data
            self._start = self._seen = missing
        elif self._start == len(self._buffer):
            self._buffer = data
            self._start = self._seen = 0
        else:
            buffer = self._buffer
            if not isinstance(buffer, bytearray):
                self._buffer = buffer = bytearray(memoryview(buffer)[self._start :])
            else:
                del buffer[: self._start]
            self._seen -= self._start
            self._start = 0
            buffer += data

    def take(self) -> Frame | None:
        """Return the next complete frame, or None until more is fed.

        Raises MalformedFrame and LimitExceeded: the peer's fault, and nothing that follows can be read.
        """
        if self._frame is None and not self._take_head():
            return None
        return self._take_body()

    @property
    def buffered(self) -> int:
        """How many octets wait for the rest of their frame."""
        return len(self._buffer) - self._start + self._gathered

    def _take_head(self) -> bool:
        buffer = self._buffer
        start = self._start
        size = len(buffer)
        while start < size and buffer[start] in b"\r\n":
            start += 1
        self._start = start
        self._seen = max(self._seen, start)
        # A blank line is LF LF or LF CR LF; the search steps back over what may be its beginning.
        end, width = _blank_line(buffer, max(start, self._seen - 2))
        if (end if end >= 0 else size) - start > self.limits.head:
            raise LimitExceeded(f"the headers of a frame are longer than {self.limits.head} octets")
        if end < 0:
            self._seen = size
            return False
        self._frame = self._read_head(bytes(buffer[start:end]))
        self._start = self._seen = end + width
        self._length = self._content_length(self._frame)
        return True

    def _take_body(self) -> Frame | None:
        frame = self._frame
        assert frame is not None
        buffer = self._buffer
        start = self._start
        if self._length >= 0:
            end = start + self._length - self._gathered
            if len(buffer) <= end:
                if self._length >= GATHERED_LEAST and not self._chunks and len(buffer) > start:
                    self._gather()
                return None
            if buffer[end] != 0:
                raise MalformedFrame(f"the body of {frame.command} does not end with NUL after its content-length")
        else:
            end = buffer.find(0, self._seen)
            if (end if end >= 0 else len(buffer)) - start > self.limits.body:
                raise LimitExceeded(f"the body of a frame is longer than {self.limits.body} octets")
            if end < 0:
                self._seen = len(buffer)
                return None
        if self._chunks:
            frame.body = b"".join(self._chunks)
            self._chunks = []
            self._gathered = 0
        else:
            frame.body = bytes(memoryview(buffer)[start:end])
        self._start = self._seen = end + 1
        self._frame = None
        return frame

    def _gather(self) -> None:
        """Keep what is there of a long body as a chunk, and look at those that follow only for its end."""
        self._chunks.append(memoryview(self._buffer)[self._start :])
        self._gathered = len(self._buffer) - self._start
        self._buffer = b""
        self._start = self._seen = 0

    def _keep(self, data: bytes) -> None:
        """Keep the next chunk of a long body; small ones together, for each by itself takes 33 octets more."""
        chunks = self._chunks
        last = chunks[-1]
        if len(data) >= CHUNK_LEAST:
            chunks.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            chunks.append(bytearray(data))
        self._gathered += len(data)

    def _read_head(self, octets: bytes) -> Frame:
        try:
            lines = octets.decode().split("\n")
        except UnicodeDecodeError as wrong:
            raise MalformedFrame(f"the headers of a frame are not UTF-8: {wrong.reason}") from wrong
        command = lines[0].removesuffix("\r")
        if len(lines) - 1 > self.limits.headers:
            raise LimitExceeded(f"a frame has more than {self.limits.headers} headers")
        escaped = b"\\" in octets and self.version != V1_0 and command not in UNESCAPED
        strip = self.version == V1_2 or command in UNESCAPED
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise MalformedFrame(f"the line {line[:60]!r} of {command[:20]} is not a header")
            if strip and value[-1:] == "\r":
                value = value[:-1]
            if escaped:
                name, value = self._unescape(name), self._unescape(value)
            if name not in headers:
                headers[name] = value
        return Frame(command, headers)

    def _unescape(self, text: str) -> str:
        if "\\" not in text:
            return text
        meanings = _MEANINGS[self.version]

        def meaning(found: re.Match[str]) -> str:
            if found[0] not in meanings:
                raise MalformedFrame(f"the header text {text[:60]!r} holds {found[0]!r}, no escape of {self.version}")
            return meanings[found[0]]

        return _ESCAPE.sub(meaning, text)

    def _content_length(self, frame: Frame) -> int:
        text = frame.headers.get("content-length")
        if text is None:
            return -1
        # int() alone would take "+5", "1_0" and digits of other scripts.
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise MalformedFrame(f"content-length {text[:40]!r} is not a number of octets")
        length = int(text)
        if length > self.limits.body:
            raise LimitExceeded(f"a body of {length} octets is longer than {self.limits.body}")
        return length


def _blank_line(buffer: bytes | bytearray, start: int) -> tuple[int, int]:
    """Return where the line before the first blank line ends, and how many octets follow to its end; -1 for none."""
    plain = buffer.find(b"\n\n", start)
    if plain >= 0:
        returned = buffer.find(b"\n\r\n", start, plain + 1)  # its last LF may be the first of the two
        return (plain, 2) if returned < 0 else (returned, 3)
    returned = buffer.find(b"\n\r\n", start)
    return returned, 3
