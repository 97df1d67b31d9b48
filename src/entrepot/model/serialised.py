"""Java's serialised form of a string and of the boxed primitives; objects of other classes stay closed.

```text
string   AC ED 00 05   74 length:uint16 octets      (7C length:int64 octets, from 65,536 octets on)
boxed    AC ED 00 05   73 72 length:uint16 class-name serialVersionUID:8 02 00 01
         type:1 00 05 "value" 78   superclass   value
superclass  72 00 10 "java.lang.Number" serialVersionUID:8 02 00 00 78 70   for numbers, otherwise 70
```

ActiveMQ's clients end each with 79, which makes a stream forget what it wrote before.

Text is in modified UTF-8 (Java Object Serialization Specification, chapter 6). A boxed value of any class has one form
only, so that it is read by comparing octets: nothing here makes an object by a name that came from outside.
"""

from __future__ import annotations

import struct
from typing import Final

from entrepot.base import modified_utf8
from entrepot.base.primitive import BOOLEAN, BYTE, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT, TEXT, Primitive

HEAD: Final = b"\xac\xed\0\5"
STRING: Final = b"t"
LONG_STRING: Final = b"|"
RESET: Final = b"y"
SHORT_OCTETS_MAX: Final = 65_535
NUMBER: Final = b"r\0\x10java.lang.Number\x86\xac\x95\x1d\x0b\x94\xe0\x8b\2\0\0xp"


def _boxed(name: bytes, identity: str, kind: bytes, parent: bytes) -> bytes:
    described = b"sr" + len(name).to_bytes(2, "big") + name + bytes.fromhex(identity)
    return HEAD + described + b"\2\0\1" + kind + b"\0\5valuex" + parent


BOXED: Final = {  # tag -> (what stands before the value, how the value is packed)
    BOOLEAN: (_boxed(b"java.lang.Boolean", "cd207280d59cfaee", b"Z", b"p"), ">?"),
    BYTE: (_boxed(b"java.lang.Byte", "9c4e6084ee50f51c", b"B", NUMBER), ">b"),
    CHAR: (_boxed(b"java.lang.Character", "348b47d96b1a2678", b"C", b"p"), ">H"),
    SHORT: (_boxed(b"java.lang.Short", "684d37133460da52", b"S", NUMBER), ">h"),
    INT: (_boxed(b"java.lang.Integer", "12e2a0a4f7818738", b"I", NUMBER), ">i"),
    LONG: (_boxed(b"java.lang.Long", "3b8be490cc8f23df", b"J", NUMBER), ">q"),
    DOUBLE: (_boxed(b"java.lang.Double", "80b3c24a296bfb04", b"D", NUMBER), ">d"),
    FLOAT: (_boxed(b"java.lang.Float", "daedc9a2db3cf0ec", b"F", NUMBER), ">f"),
}


def opened(octets: bytes) -> Primitive | None:
    """Return the value that was serialised; None for what is no string and no boxed primitive."""
    if octets.startswith(HEAD + STRING):
        return _text(octets, 7, int.from_bytes(octets[5:7], "big"))
    if octets.startswith(HEAD + LONG_STRING):
        return _text(octets, 13, int.from_bytes(octets[5:13], "big"))
    for tag, (before, form) in BOXED.items():
        if octets.startswith(before) and _ends(octets, len(before) + struct.calcsize(form)):
            (value,) = struct.unpack_from(form, octets, len(before))
            return Primitive(tag, chr(value) if tag == CHAR else value)
    return None


def serialised(value: Primitive) -> bytes | None:
    """Return ``value`` as Java serialises it; None for a kind that is not known here, or a value that does not fit."""
    plain = value.value
    if isinstance(plain, str) and value.tag == TEXT:
        octets = modified_utf8.encoded(plain)
        if len(octets) > SHORT_OCTETS_MAX:
            return HEAD + LONG_STRING + len(octets).to_bytes(8, "big") + octets
        return HEAD + STRING + len(octets).to_bytes(2, "big") + octets
    known = BOXED.get(int(value.tag))
    if known is None:
        return None
    before, form = known
    try:
        return before + struct.pack(form, ord(plain) if isinstance(plain, str) else plain)
    except (struct.error, OverflowError, TypeError):
        return None


def _ends(octets: bytes, length: int) -> bool:
    """Return whether a value of ``length`` octets is all that is there."""
    return len(octets) == length or (len(octets) == length + 1 and octets.endswith(RESET))


def _text(octets: bytes, start: int, length: int) -> Primitive | None:
    if not _ends(octets, start + length):
        return None
    try:
        halves = octets[start : start + length].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return Primitive(TEXT, halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass"))
    except UnicodeError:
        return None
