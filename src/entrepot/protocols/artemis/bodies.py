"""What the bodies of CORE messages say, by the type of the message, and how it is written (artemis.md 5.2.4).

The broker passes bodies on closed. They are opened for readers of other protocols, for XPath selectors and for people
who browse. What a peer sent wrong raises `MalformedFrame`; what inflates beyond reason `LimitExceeded`. [C]
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be

from entrepot.base.errors import Inexpressible, MalformedFrame
from entrepot.base.primitive import TEXT as TEXT_TAG
from entrepot.base.primitive import Primitive
from entrepot.protocols.artemis.primitives import OctetsReader, write_simple, write_text
from entrepot.protocols.artemis.properties import (
    BOOLEAN,
    NULL,
    TEXT,
    TYPES,
    read_entries,
    read_value,
    type_of,
    typed_value,
    write_entries,
    write_value,
)

TRUE_IN_STREAMS: Final = 255  # as in packets; in properties and maps it is 1
EMBEDDED: Final = b"EMB"
"""Before a message of another protocol that Artemis wrapped into one of type 7."""


def text_of(body: bytes) -> str | None:
    """Return the text of a text message, or the parameters or the result of management; None: no text."""
    if not body:
        return None
    return OctetsReader(body, 0, len(body)).nullable_simple()


def text_body(text: str | None) -> bytes:
    """Return the body of a text message."""
    target = BytesWriter()
    target.append(0 if text is None else 1)
    if text is not None:
        write_simple(target, text)
    return target.getvalue()


def map_of(body: bytes, *, typed: bool = False) -> dict[str, object]:
    """Return the entries of a map message."""
    return read_entries(OctetsReader(body, 0, len(body)), typed=typed) if body else {}


def map_body(entries: dict[str, object]) -> bytes:
    """Return the body of a map message. Raises Inexpressible."""
    target = BytesWriter()
    write_entries(target, entries)
    return target.getvalue()


def stream_of(body: bytes, *, typed: bool = False) -> list[object]:
    """Return the values of a stream message, in order."""
    source = OctetsReader(body, 0, len(body))
    found: list[object] = []
    while source.at < source.end:
        kind = source.byte()
        if kind == TEXT:  # which travels otherwise than in properties
            text = source.nullable_text()
            found.append(Primitive(TEXT_TAG, text) if typed else text)
        elif kind == NULL:
            raise MalformedFrame("a stream has a null that is no text")
        else:
            found.append(typed_value(source, kind) if typed else read_value(source, kind))
    return found


def stream_body(values: list[object]) -> bytes:
    """Return the body of a stream message. Raises Inexpressible."""
    target = BytesWriter()
    for value in values:
        plain = value.value if isinstance(value, Primitive) else value
        kind = TYPES.get(int(value.tag), -1) if isinstance(value, Primitive) else type_of(value)
        if plain is None:
            kind = TEXT
        if kind < 0:
            raise Inexpressible("a map or list has no form in a stream of CORE")
        target.append(kind)
        if kind == BOOLEAN and isinstance(plain, bool):
            target.append(TRUE_IN_STREAMS if plain else 0)
            continue
        if kind == TEXT and (plain is None or isinstance(plain, str)):
            target.append(0 if plain is None else 1)
            if plain is not None:
                write_text(target, plain)
            continue
        try:
            write_value(target, kind, plain)
        except (OverflowError, TypeError, ValueError) as error:
            raise Inexpressible(f"{plain!r:.80} does not fit a value of type {kind} in a stream") from error
    return target.getvalue()


def object_of(body: bytes) -> bytes:
    """Return the object that Java serialised, which is never opened here; no octets: null."""
    return OctetsReader(body, 0, len(body)).octets() if body else b""


def object_body(serialised: bytes) -> bytes:
    """Return the body of an object message."""
    if not serialised:
        return b""
    target = BytesWriter()
    write_i32_be(target, len(serialised))
    target.write(serialised)
    return target.getvalue()
