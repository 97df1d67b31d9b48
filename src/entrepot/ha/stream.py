"""The language of a primary and its replicas: frames with a checksum each, over any connection that keeps the order.

::

    u32 length of the payload | u32 crc32 of kind and payload | u8 kind | payload
    payload: u16 length | name | u16 length | other name | i64 first | i64 second | octets

What a primary says is what it asks of its own disk, operation by operation (`ha/mirror.py`), so a replica's files are
the primary's, octet by octet. A write is at most `PIECE` octets; longer ones are several frames. Layouts are numbered
(`LAYOUT`): brokers with different ones refuse one another by name, and never guess.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from entrepot.base.checksum import crc32
from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import ProtocolViolation

LAYOUT: Final = 1
"""Of frames and facts. What a store holds has versions of its own (docs/formats/journal.md)."""

PIECE: Final = 256 * KIB
"""Octets of a file in one frame: a disk writes it in a millisecond, and nothing else waits for longer."""

FRAME_MAX: Final = 8 * MIB
"""Nobody sends more. The largest is a replica's list of files: 60 octets for each, so 4 TiB of segments fit."""

# said by either side before anything else
HELLO: Final = 1
WELCOME: Final = 2
REFUSED: Final = 3
PROOF: Final = 4
# said by the primary
CREATE: Final = 16  # name, first: expected octets
WRITE: Final = 17  # name, first: offset, octets
TRIM: Final = 18  # name, first: length
PUBLISH: Final = 19  # name: scratch, other: name
DROP: Final = 20  # name
SEAL: Final = 21  # name
ASIDE: Final = 22  # name
SYNC: Final = 23  # first: number of the sync
CUT: Final = 24  # name, first: length; before anything is written to it
PROBE: Final = 25  # name, first: offset, second: length, octets: digest of what stands there
JOIN: Final = 26  # first: epoch; what is on disk is whole, and counts from now on
PING: Final = 27
ENDING: Final = 28  # the primary stops in good order
# said by a replica
RECEIVED: Final = 48  # first: last sync that was asked for, second: octets taken so far
SYNCED: Final = 49  # first: number of the sync
SAME: Final = 50  # answer to PROBE
LACKS: Final = 51  # name, first: offset, second: length; answer to PROBE
JOINED: Final = 52  # first: epoch
ASK_BACK: Final = 53  # the store is this replica's by the configuration
SORRY: Final = 54  # octets: why it cannot go on
PONG: Final = 55

KINDS: Final = frozenset((*range(HELLO, PROOF + 1), *range(CREATE, ENDING + 1), *range(RECEIVED, PONG + 1)))

_HEAD: Final = struct.Struct(">IIB")
_SHORT: Final = struct.Struct(">H")
_NUMBERS: Final = struct.Struct(">qq")
_SMALLEST: Final = 2 * _SHORT.size + _NUMBERS.size


class Frame:
    """One frame. What a field means depends on ``kind``; those that mean nothing are empty.

    ``size``: octets that it took on its way here, 0 for one that is to be sent.
    """

    __slots__ = ("first", "kind", "name", "octets", "other", "second", "size")

    def __init__(
        self, kind: int, name: str = "", other: str = "", *, first: int = 0, second: int = 0, octets: bytes = b""
    ) -> None:
        self.kind = kind
        self.name = name
        self.other = other
        self.first = first
        self.second = second
        self.octets = octets
        self.size = 0

    def facts(self) -> dict[str, Any]:
        """Return the JSON object in ``octets``. Raises ProtocolViolation."""
        try:
            found = json.loads(self.octets)
        except ValueError as error:
            raise ProtocolViolation("a greeting of replication holds no JSON") from error
        if not isinstance(found, dict):
            raise ProtocolViolation("a greeting of replication holds no JSON object")
        return found


def encode(frame: Frame) -> bytes:
    """Return the octets of ``frame``."""
    name, other = frame.name.encode(), frame.other.encode()
    payload = b"".join(
        (
            _SHORT.pack(len(name)),
            name,
            _SHORT.pack(len(other)),
            other,
            _NUMBERS.pack(frame.first, frame.second),
            frame.octets,
        )
    )
    return _HEAD.pack(len(payload), crc32(payload, frame.kind), frame.kind) + payload


def greeting(kind: int, facts: Mapping[str, object]) -> bytes:
    """Return a frame that carries ``facts``."""
    return encode(Frame(kind, octets=json.dumps(facts).encode()))


class Frames:
    """Frames out of what arrives, in any pieces. Keeps at most one frame that is not whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.most = FRAME_MAX

    def feed(self, data: bytes) -> list[Frame]:
        """Take ``data`` and return the frames that are whole now. Raises ProtocolViolation; nothing more then."""
        buffer = self._buffer
        buffer += data
        found: list[Frame] = []
        at = 0
        while len(buffer) - at >= _HEAD.size:
            length, crc, kind = _HEAD.unpack_from(buffer, at)
            if not _SMALLEST <= length <= self.most or kind not in KINDS:
                raise ProtocolViolation(f"this is no frame of replication: kind {kind}, {length} octets")
            if len(buffer) - at < _HEAD.size + length:
                break
            start = at + _HEAD.size
            payload = bytes(memoryview(buffer)[start : start + length])
            if crc32(payload, kind) != crc:
                raise ProtocolViolation(f"a frame of replication (kind {kind}, {length} octets) fails its checksum")
            frame = _read(kind, payload)
            frame.size = _HEAD.size + length
            found.append(frame)
            at = start + length
        del buffer[:at]
        return found


def _read(kind: int, payload: bytes) -> Frame:
    try:
        name, at = _text(payload, 0)
        other, at = _text(payload, at)
        first, second = _NUMBERS.unpack_from(payload, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolViolation(f"a frame of replication (kind {kind}) is cut short") from error
    for each in (name, other):
        if each and not is_file_name(each):
            raise ProtocolViolation(f"{each!r} is no name of a file of a store")
    return Frame(kind, name, other, first=first, second=second, octets=payload[at + _NUMBERS.size :])


def _text(payload: bytes, at: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(payload, at)
    at += _SHORT.size
    if at + length > len(payload):
        raise struct.error
    return payload[at : at + length].decode(), at + length


def is_file_name(name: str) -> bool:
    """Say whether ``name`` may be that of a segment, a scratch file or a large body: no path leads out of the store."""
    stem, dot, ending = name.rpartition(".")
    fits = all(each.isascii() and (each.isalnum() or each in "-_.") for each in stem)
    return bool(dot) and ending in ("seg", "tmp", "blob") and fits and stem[:1].isalnum() and len(name) <= 200
