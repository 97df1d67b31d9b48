"""The headers of a CORE message: read from the octets in which it travels, and written anew where the broker must.

```text
message  length of body + 13:4  body  headers
headers  id:8  address: 0, or 1 and simple  user id: 0, or 1 and 16 octets  type:1  durable:1  expiration:8
         timestamp:8  priority:1  properties (see `properties`)                            artemis.md 5.2.4
```

A large message travels as headers alone, and so is kept: as a message with an empty body before them. [C]
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.artemis.primitives import HEAD_OCTETS, OctetsReader, units_of_text
from entrepot.protocols.artemis.properties import TOO_EARLY, Entries, read_entries, skip_properties, write_entries

TYPE_DEFAULT: Final = 0
TYPE_OBJECT: Final = 2
TYPE_TEXT: Final = 3
TYPE_BYTES: Final = 4
TYPE_MAP: Final = 5
TYPE_STREAM: Final = 6
TYPE_EMBEDDED: Final = 7
TYPE_LARGE_EMBEDDED: Final = 8

NUMBER_OCTETS: Final = 8
USER_ID_OCTETS: Final = 16
BEHIND_USER_ID: Final = 1 + 1 + 8 + 8 + 1  # type, durable, expiration, timestamp, priority
NO_BODY: Final = HEAD_OCTETS.to_bytes(4, "big")
"""What stands before the headers of a message without a body."""


class _Address:
    """The address that was written last: most messages go where the one before went."""

    def __init__(self) -> None:
        self._text: str = ""
        self._octets: bytes = b""

    def octets(self, text: str) -> bytes:
        """Return ``text`` as it travels, without its length."""
        if text != self._text:
            self._octets = units_of_text(text)
            self._text = text
        return self._octets


_ADDRESS: Final = _Address()


class Headers:
    """What the headers say. ``properties_at`` is where the properties begin in the octets they were read from."""

    def __init__(self) -> None:
        self.number: i64 = 0
        self.address: str | None = None
        self.user_id: bytes = b""
        self.kind: i64 = TYPE_DEFAULT
        self.durable: bool = False
        self.expiration: i64 = 0
        self.timestamp: i64 = 0
        self.priority: i64 = 4
        self.properties_at: i64 = 0


def headers_at(octets: bytes) -> i64:
    """Return where the headers begin in a message. Raises MalformedFrame when its body is longer than it is."""
    at = i64(read_i32_be(octets, 0)) - HEAD_OCTETS + 4 if len(octets) >= 4 else -1
    if not 4 <= at <= len(octets):
        raise MalformedFrame("a message ends within its body")
    return at


def read_headers(octets: bytes, at: i64) -> Headers:
    """Return the headers that begin at ``octets[at]``, the properties closed. Raises MalformedFrame."""
    source = OctetsReader(octets, at, len(octets))
    found = Headers()
    found.number = source.int64()
    found.address = source.nullable_simple()
    if source.boolean():
        start = source.take(USER_ID_OCTETS)
        found.user_id = octets[start : start + USER_ID_OCTETS]
    found.kind = source.byte()
    found.durable = source.boolean()
    found.expiration = source.int64()
    found.timestamp = source.int64()
    found.priority = source.byte()
    found.properties_at = source.at
    return found


def number_at(octets: bytes, at: i64) -> i64:
    """Return the number in headers that begin at ``octets[at]``. Raises MalformedFrame."""
    return OctetsReader(octets, at, len(octets)).int64()


def properties_at(octets: bytes, at: i64) -> i64:
    """Return where the properties begin, behind headers that begin at ``octets[at]``. Raises MalformedFrame."""
    user_id = user_id_place(octets, at)
    behind: i64 = user_id + 1 + BEHIND_USER_ID
    if octets[user_id] != 0:
        behind += USER_ID_OCTETS
    if behind > len(octets):
        raise MalformedFrame(TOO_EARLY)
    return behind


def kind_before(octets: bytes, properties_at: i64) -> i64:
    """Return the type in headers whose properties begin at ``properties_at``, as `properties_at` found it."""
    octet: i64 = octets[properties_at - BEHIND_USER_ID]
    return octet - 256 if octet > 127 else octet


def user_id_at(octets: bytes, at: i64) -> bytes:
    """Return the user id in headers that begin at ``octets[at]``, b"" for none. Raises MalformedFrame."""
    place = user_id_place(octets, at)
    if octets[place] == 0:
        return b""
    if place + 1 + USER_ID_OCTETS > len(octets):
        raise MalformedFrame(TOO_EARLY)
    return octets[place + 1 : place + 1 + USER_ID_OCTETS]


def user_id_place(octets: bytes, at: i64) -> i64:
    """Return where the user id is, or the octet that says that there is none. Raises MalformedFrame."""
    end: i64 = len(octets)
    place: i64 = at + NUMBER_OCTETS
    if place >= end:
        raise MalformedFrame(TOO_EARLY)
    if octets[place] == 0:
        place += 1
    elif place + 5 > end:
        raise MalformedFrame(TOO_EARLY)
    else:
        length = i64(read_i32_be(octets, place + 1))
        if length < 0:
            raise MalformedFrame(TOO_EARLY)
        place += 5 + length
    if place >= end:
        raise MalformedFrame(TOO_EARLY)
    return place


def write_headers(
    target: BytesWriter,
    headers: Headers,
    properties: dict[str, object],
    first: bytes = b"",
    more: Entries | None = None,
) -> None:
    """Append headers with ``properties``, ``first`` and ``more`` of them as `write_entries` has it.

    Raises Inexpressible.
    """
    write_i64_be(target, headers.number)
    target.append(0 if headers.address is None else 1)
    if headers.address is not None:
        octets = _ADDRESS.octets(headers.address)
        write_i32_be(target, i32(len(octets)))
        target.write(octets)
    target.append(1 if headers.user_id else 0)
    target.write(headers.user_id)
    target.append(int(headers.kind) & 0xFF)
    target.append(1 if headers.durable else 0)
    write_i64_be(target, headers.expiration)
    write_i64_be(target, headers.timestamp)
    target.append(int(headers.priority) & 0xFF)
    write_entries(target, properties, first, more)


def assembled(
    body: bytes,
    headers: Headers,
    properties: dict[str, object],
    first: bytes = b"",
    more: Entries | None = None,
) -> bytes:
    """Return the octets of a message; its properties as in `write_headers`. Raises Inexpressible."""
    target = BytesWriter()
    write_i32_be(target, i32(len(body) + HEAD_OCTETS))
    target.write(body)
    write_headers(target, headers, properties, first, more)
    return target.getvalue()


def body_of(octets: bytes) -> bytes:
    """Return the body of a message as it travels. Raises MalformedFrame."""
    return octets[4 : headers_at(octets)]


def properties_in(octets: bytes, *, typed: bool = False) -> dict[str, object]:
    """Return the properties of a message. Raises MalformedFrame."""
    source = OctetsReader(octets, properties_at(octets, headers_at(octets)), len(octets))
    return read_entries(source, typed=typed)


def trimmed(octets: bytes, headers: Headers) -> bytes:
    """Return a message without what stands behind its properties: a reader looks for its own fields there.

    Raises MalformedFrame.
    """
    source = OctetsReader(octets, headers.properties_at, len(octets))
    skip_properties(source)
    return octets if source.at == len(octets) else octets[: source.at]
