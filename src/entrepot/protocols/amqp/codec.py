"""Frames of AMQP 1.0: protocol headers and performatives out of octets in any chunks, and into octets. [C]

An item that begins with ``AMQP`` is a protocol header: no frame is so long. What a transfer carries stays a stretch of
octets, and what comes behind other performatives is ignored, as the standard has it.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64

from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame, PeerError, ProtocolViolation
from entrepot.protocols.amqp.performatives import Composite, Transfer, Unknown, composite_of
from entrepot.protocols.amqp.primitives import UINT_MAX, Source
from entrepot.protocols.amqp.writing import Target, put_int32

HEADER_OCTETS: Final = 8
PROTOCOL_AMQP: Final = 0
PROTOCOL_TLS: Final = 2
PROTOCOL_SASL: Final = 3
TYPE_AMQP: Final = 0
TYPE_SASL: Final = 1
FRAME_OCTETS_MIN: Final = 512  # every peer takes frames of so many (2.7.1)
FRAME_HEAD_OCTETS: Final = 8
_AMQP: Final = 0x414D5150


class Frame:
    """One frame, or a protocol header. ``performative`` None: an empty frame, a sign of life."""

    def __init__(self, kind: i64, channel: i64, performative: Composite | None, payload: bytes) -> None:
        self.kind: i64 = kind  # TYPE_...; -1: a protocol header
        self.channel: i64 = channel  # or the protocol that is wanted
        self.performative: Composite | None = performative
        self.payload: bytes = payload


class Decoder:
    """What one side of a connection says. ``frame_max``: octets of a frame, at most."""

    def __init__(self, frame_max: i64) -> None:
        self.frame_max: i64 = frame_max
        self.failure: PeerError | None = None
        self._pending: BytesWriter = BytesWriter()
        self._needed: i64 = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that ``data`` completes, in order.

        What is wrong with a frame comes after those before it: they are returned, ``failure`` is set, and `check` or
        the next call raises it.

        Raises MalformedFrame, LimitExceeded, ProtocolViolation: the peer's fault; close the connection.
        """
        self.check()
        frames: list[Frame] = []
        pending = self._pending
        if len(pending) > 0:
            pending.write(data)
            if len(pending) < self._needed:
                return frames
            data = pending.getvalue()
            self._pending = BytesWriter()
        try:
            rest = self._frames(data, frames)
        except PeerError as error:
            self.failure = error
            if not frames:
                raise
            return frames
        if rest < len(data):
            self._pending.write(data[rest:] if rest > 0 else data)
        return frames

    def check(self) -> None:
        """Raise what stopped the decoder, if anything did; to be called when the frames of a `feed` are handled."""
        if self.failure is not None:
            raise self.failure

    def buffered(self) -> i64:
        """Return the octets of a frame that has begun and is not complete."""
        return len(self._pending)

    def _frames(self, data: bytes, frames: list[Frame]) -> i64:
        """Append all complete frames; return where the incomplete one starts."""
        at: i64 = 0
        end: i64 = len(data)
        while end - at >= FRAME_HEAD_OCTETS:
            size = i64(read_i32_be(data, at)) & UINT_MAX
            if size == _AMQP:
                frames.append(_header(data, at))
                at += HEADER_OCTETS
                continue
            if size > self.frame_max:
                raise LimitExceeded(f"a frame of {size} octets is larger than {self.frame_max}")
            if size < FRAME_HEAD_OCTETS:
                raise MalformedFrame(f"a frame has {size} octets")
            if at + size > end:
                self._needed = size
                return at
            frames.append(_frame(data, at, at + size))
            at += size
        self._needed = FRAME_HEAD_OCTETS
        return at


def _header(data: bytes, at: i64) -> Frame:
    if data[at + 5 : at + 8] != b"\1\0\0":
        raise ProtocolViolation(f"the version {list(data[at + 5 : at + 8])} of AMQP is not spoken here, 1.0.0 is")
    protocol: i64 = data[at + 4]
    return Frame(-1, protocol, None, b"")


def _frame(data: bytes, at: i64, end: i64) -> Frame:
    offset: i64 = data[at + 4]
    kind: i64 = data[at + 5]
    start = at + 4 * offset
    if offset < 2 or start > end:
        raise MalformedFrame(f"the body of a frame of {end - at} octets begins at {4 * offset}")
    if kind > TYPE_SASL:
        raise MalformedFrame(f"there is no frame of type {kind}")
    channel = i64(read_i16_be(data, at + 6)) & 0xFFFF
    if start == end:
        return Frame(kind, channel, None, b"")
    source = Source(data, start, end)
    performative = composite_of(source)
    if performative is None or isinstance(performative, Unknown):
        raise MalformedFrame("a frame has no performative that AMQP knows")
    payload = data[source.at : end] if isinstance(performative, Transfer) else b""
    return Frame(kind, channel, performative, payload)


def header(protocol: int) -> bytes:
    """Return a protocol header."""
    return b"AMQP" + bytes([protocol, 1, 0, 0])


EMPTY_FRAME: Final = b"\0\0\0\x08\x02\0\0\0"


class Encoder:
    """Turns performatives into frames."""

    def __init__(self) -> None:
        self._target: Target = Target()

    def write(self, out: BytesWriter, channel: i64, performative: Composite, kind: i64 = TYPE_AMQP) -> None:
        """Append a frame to ``out``, which is unchanged if this raises Inexpressible."""
        self.write_with(out, channel, performative, b"", kind)

    def write_with(
        self, out: BytesWriter, channel: i64, performative: Composite, payload: bytes, kind: i64 = TYPE_AMQP
    ) -> None:
        """Append a frame that carries ``payload``."""
        start: i64 = len(out)
        scratch = self._target.out
        scratch.truncate(0)
        try:
            performative.write(self._target)
        except OverflowError as error:
            raise Inexpressible("a number does not fit its field") from error
        body = scratch.getvalue()
        write_i32_be(out, 0)
        out.append(2)
        out.append(int(kind))
        write_i16_be(out, i16(channel - 0x10000 if channel > 0x7FFF else channel))
        out.write(body)
        if payload:
            out.write(payload)
        put_int32(out, start, len(out) - start)

    def transfer(
        self, out: BytesWriter, channel: i64, handle: i64, delivery: i64, settled: bool, more: bool, payload: bytes
    ) -> None:
        """Append the transfer that begins delivery ``delivery``, which is its tag too: as `write_with`, and faster.

        All fields up to ``more``: handle, delivery-id, delivery-tag (4 octets), message-format 0, settled, more.
        """
        size = 8 + 3 + 2 + 1 + 5 + 5 + 6 + 1 + 1 + 1 + len(payload)
        write_i32_be(out, i32(size))
        out.append(2)
        out.append(0)
        write_i16_be(out, i16(channel - 0x10000 if channel > 0x7FFF else channel))
        out.write(b"\x00\x53\x14\xc0\x14\x06\x70")
        _put_uint(out, handle)
        out.append(0x70)
        _put_uint(out, delivery)
        out.write(b"\xa0\x04")
        _put_uint(out, delivery)
        out.append(0x43)
        out.append(0x41 if settled else 0x42)
        out.append(0x41 if more else 0x42)
        out.write(payload)


def _put_uint(out: BytesWriter, value: i64) -> None:
    write_i32_be(out, i32(value - (1 << 32) if value > 0x7FFFFFFF else value))


TRANSFER_OCTETS: Final = 33
"""What `Encoder.transfer` writes before the payload."""
