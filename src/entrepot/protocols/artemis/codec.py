"""Octets to CORE packets and back.

```text
preface  "ARTEMIS"  once, from the client
frame    length:4 (octets that follow)  id:1  channel:8  fields (see `schema`)
```

`Decoder` and `Encoder` are the two directions of one connection; both must be told the version of the channel as soon
as it is known (`speak`). A decoder buffers less than one frame, and never more octets than came. A decoder that failed
stays failed: the connection is of no use any more. [C]
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import Inexpressible, LimitExceeded, MalformedFrame, PeerError, ProtocolViolation
from entrepot.protocols.artemis.packets import PROTOTYPES, Packet, Receive
from entrepot.protocols.artemis.primitives import HEAD_OCTETS, LAYOUT_SINCE, PacketReader, PacketWriter
from entrepot.protocols.artemis.schema import VERSION_UNKNOWN

PREFACE: Final = b"ARTEMIS"
FIRST_FRAME_OCTETS_MAX: Final = 128 * KIB
"""Before somebody is let in: a CREATESESSION with the longest names that make sense. A stranger gets no more memory."""
FRAME_OCTETS_MAX: Final = 100 * MIB
"""CORE has no limit of its own (5.2.1). A client cuts bodies of 100 KiB into pieces unless it is told otherwise. This
is what OpenWire's own limit is, so that a message of one language fits the other."""
FRAME_OCTETS_MIN: Final = HEAD_OCTETS - 4

_RECEIVE: Final = Receive().number(0)


def _table() -> list[Packet | None]:
    """Return a prototype by the id's octet."""
    slots: list[Packet | None] = [None] * 256
    for number, prototype in PROTOTYPES.items():
        slots[number & 0xFF] = prototype
    return slots


_PROTOTYPES: Final[list[Packet | None]] = _table()


class Decoder:
    """Turns what a peer sends into packets. ``preface``: the peer is a client, which begins with it."""

    def __init__(self, *, preface: bool, frame_max: i64 = FRAME_OCTETS_MAX) -> None:
        self.failure: PeerError | None = None
        self.frame_max: i64 = frame_max
        self._preface: bool = preface
        self._reader: PacketReader = PacketReader(b"", 0, 0, VERSION_UNKNOWN)
        self._pending: BytesWriter = BytesWriter()
        self._needed: i64 = 0

    def speak(self, version: i64) -> None:
        """Read the layouts of ``version`` from the next frame on; 0: it is not known."""
        self._reader.version = version if version > 0 else VERSION_UNKNOWN

    def feed(self, data: bytes) -> list[Packet]:
        """Return the packets that ``data`` completes, in order.

        What is wrong with a frame comes after the packets before it: they are returned, ``failure`` is set, and
        `check` or the next call raises it.

        Raises MalformedFrame, LimitExceeded, ProtocolViolation: the peer's fault; close the connection.
        """
        self.check()
        packets: list[Packet] = []
        if len(self._pending) > 0:
            self._pending.write(data)
            if len(self._pending) < self._needed:
                return packets
            data = self._pending.getvalue()
            self._pending = BytesWriter()
        try:
            rest = self._frames(data, packets)
        except PeerError as error:
            self.failure = error
            if not packets:
                raise
            return packets
        if rest < len(data):
            self._pending.write(data[rest:] if rest > 0 else data)
        return packets

    def check(self) -> None:
        """Raise what stopped the decoder, if anything did; to be called when the packets of a `feed` are handled."""
        if self.failure is not None:
            raise self.failure

    def buffered(self) -> i64:
        """Return the octets of a frame that has begun and is not complete."""
        return len(self._pending)

    def _frames(self, data: bytes, packets: list[Packet]) -> i64:
        """Append the packets of all complete frames; return where the incomplete one starts."""
        at: i64 = 0
        end: i64 = len(data)
        if self._preface:
            at = self._begin(data)
            if at == 0:
                return 0
        while end - at >= 4:
            length = i64(read_i32_be(data, at))
            if length < FRAME_OCTETS_MIN:
                raise MalformedFrame(f"the length of a frame is {length}")
            if length > self.frame_max:
                raise LimitExceeded(f"a frame of {length} octets is larger than {self.frame_max}")
            behind = at + 4 + length
            if behind > end:
                self._needed = behind - at
                return at
            packets.append(self.packet(data, at, behind))
            at = behind
        self._needed = 4
        return at

    def _begin(self, data: bytes) -> i64:
        """Return the length of the preface, 0 when it has not come in whole. Raises ProtocolViolation."""
        start = data[: len(PREFACE)]
        if not PREFACE.startswith(start):
            raise ProtocolViolation(f"a client of CORE does not begin with {start!r}")
        if len(start) < len(PREFACE):
            self._needed = len(PREFACE)
            return 0
        self._preface = False
        return len(PREFACE)

    def packet(self, data: bytes, at: i64, end: i64) -> Packet:
        """Return the packet whose frame is ``data[at:end]``. Raises MalformedFrame, ProtocolViolation."""
        octet: i64 = data[at + 4]
        prototype = _PROTOTYPES[octet]
        number = octet - 256 if octet > 127 else octet
        if prototype is None:
            raise ProtocolViolation(f"no packet of CORE has the id {number}")
        packet = prototype.fresh()
        packet.form = number
        packet.channel = read_i64_be(data, at + 5)
        packet.octets = end - at
        reader = self._reader
        reader.data = data
        reader.at = at + HEAD_OCTETS
        reader.end = end
        packet.read(reader)
        reader.data = b""
        return packet


class Encoder:
    """Turns packets into what a peer can read. One that cannot be written leaves no trace in the output."""

    def __init__(self) -> None:
        self._writer: PacketWriter = PacketWriter(VERSION_UNKNOWN)

    def speak(self, version: i64) -> None:
        """Write the layouts of ``version`` from now on; 0: it is not known."""
        self._writer.version = version if version > 0 else VERSION_UNKNOWN

    @property
    def version(self) -> i64:
        """The version of the channel, `VERSION_UNKNOWN` before that is known."""
        return self._writer.version

    def encode(self, packet: Packet) -> bytes:
        """Return the frame of ``packet``. Raises Inexpressible for what has no room in it."""
        target = BytesWriter()
        self.encode_into(target, packet)
        return target.getvalue()

    def encode_into(self, target: BytesWriter, packet: Packet) -> None:
        """Append the frame of ``packet`` to ``target``, which is unchanged if this raises Inexpressible."""
        writer = self._writer
        writer.out = target
        start: i64 = len(target)
        write_i32_be(target, 0)
        target.append(int(packet.number(writer.version)) & 0xFF)
        write_i64_be(target, packet.channel)
        try:
            packet.write(writer)
        except (Inexpressible, OverflowError) as error:
            target.truncate(start)
            if isinstance(error, Inexpressible):
                raise
            raise Inexpressible("a number does not fit its field") from error
        put_int32(target, start, len(target) - start - 4)

    def receive_into(
        self, target: BytesWriter, channel: i64, message: bytes, *, number: i64, consumer: i64, delivery_count: i64
    ) -> i64:
        """Append a RECEIVE of ``message`` (as it came in, with ``number`` as its id); return the length of its frame.

        That length is what the delivery costs of the consumer's credit (5.2.8).
        """
        start: i64 = len(target)
        if self._writer.version < LAYOUT_SINCE:
            self._older_receive(target, channel, message, number, consumer, delivery_count)
            return len(target) - start
        write_i32_be(target, HEAD_OCTETS - 4 + len(message) + 12)
        target.append(_RECEIVE)
        write_i64_be(target, channel)
        target.write(message)
        put_int64(target, start + i64(read_i32_be(message, 0)) + 4, number)  # the offset counts the head
        write_i64_be(target, consumer)
        write_i32_be(target, i32(delivery_count))
        return len(target) - start

    def _older_receive(
        self, target: BytesWriter, channel: i64, message: bytes, number: i64, consumer: i64, delivery_count: i64
    ) -> None:
        """Append a RECEIVE in the layout of 1.x."""
        at = i64(read_i32_be(message, 0)) - HEAD_OCTETS + 4
        numbered = BytesWriter()
        numbered.write(message)
        put_int64(numbered, at, number)
        packet = Receive(message=numbered.getvalue(), consumer=consumer, delivery_count=delivery_count, channel=channel)
        self.encode_into(target, packet)


def put_int32(target: BytesWriter, at: i64, value: i64) -> None:
    """Overwrite 4 octets of ``target``."""
    octet: int
    for place in range(4):
        octet = (value >> (24 - 8 * place)) & 0xFF
        target[at + place] = octet


def put_int64(target: BytesWriter, at: i64, value: i64) -> None:
    """Overwrite 8 octets of ``target``."""
    octet: int
    for place in range(8):
        octet = (value >> (56 - 8 * place)) & 0xFF
        target[at + place] = octet
