"""Octets to commands and back: frames, the switch of format, and messages that are passed on as they came.

```text
frame    size:4 (octets that follow; absent if both peers turned it off)  type:1  fields (see `frames`)
         type 0 with nothing behind it is the null frame: skipped
```

**A message keeps its first encoding.** A decoder whose frames are loose and carry no cache references hands out
messages with ``first``: the octets from the type octet to the end of the message. They mean the same in every such
frame of the same `schema.message_layout` (versions 3-9 share one, 10-12 another), so `Encoder` writes a
`MessageDispatch` as: header, consumer, destination, those octets, redelivery counter. Four things of the message are
patched into the copy from its attributes, since the broker sets them after arrival: ``message_id.broker_sequence_id``,
``broker_in_time``, ``broker_out_time``, ``jmsx_group_first_for_consumer``. Whoever changes any other field sets
``message.first = None``; then it is encoded anew. A queue may keep the `FirstEncoding` alone and drop the message:
`Encoder.dispatch_into` needs no more, and `decode_first` brings the message back.

A message that holds a data structure (advisories do) is never kept: what it nests may depend on more than the version.

Each direction has its own decoder or encoder, which owns the cache of that direction. A decoder that failed stays
failed: the connection is of no use any more. [C]
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i32, i64

from entrepot.base.environment import KIB
from entrepot.base.errors import Fault, Inexpressible, LimitExceeded, MalformedFrame, PeerError, ProtocolViolation
from entrepot.protocols.openwire.commands import (
    PROTOTYPES,
    ConsumerId,
    Destination,
    Message,
    MessageDispatch,
    WireFormatInfo,
)
from entrepot.protocols.openwire.elements import FirstEncoding, Incomplete
from entrepot.protocols.openwire.frames import FrameReader, FrameWriter, Structure
from entrepot.protocols.openwire.negotiation import WireFormat, negotiate
from entrepot.protocols.openwire.schema import message_layout, type_numbered

FIRST_FRAME_OCTETS_MAX: Final = 128 * KIB
"""Twice the largest offer within the limits of `negotiation`; a stranger gets no more memory than this."""
WIRE_FORMAT_INFO: Final = 1
MESSAGE_DISPATCH: Final = 21
GROUP_FIRST_SINCE: Final = 10
"""The layout from which an octet behind the times says whether the message is the first of its group."""

_prototypes_of: Final[dict[int, list[Structure | None]]] = {}


def prototypes(version: int) -> list[Structure | None]:
    """Return a structure per type id, None for the ids that ``version`` does not have."""
    known = _prototypes_of.get(version)
    if known is not None:
        return known
    slots: list[Structure | None] = [None] * 128
    for prototype in PROTOTYPES:
        if type_numbered(prototype.type_id).since <= version:
            slots[prototype.type_id] = prototype
    _prototypes_of[version] = slots
    return slots


class Decoder:
    """Turns what a peer sends into commands. `feed` alone changes it.

    With a format that is not agreed yet (``WireFormat.before_agreement``) the first frame must be the peer's
    `WireFormatInfo`; right behind it the decoder speaks the format that both computed, found in ``wire_format``.
    ``keep_encodings`` says whether messages keep the octets they came in.
    """

    def __init__(self, wire_format: WireFormat, *, keep_encodings: bool = True) -> None:
        self.wire_format = wire_format
        self.failure: PeerError | None = None
        self._keep_encodings = keep_encodings
        self._agreed = False
        self._pending: BytesWriter | None = None  # a frame that has begun, and its octets so far
        self._needed: i64 = 0
        self._opened: Structure | None = None
        self._awaiting = False
        self._prefixed = True
        self._frame_max: i64 = FIRST_FRAME_OCTETS_MAX
        self._reader = self._adopt(wire_format)

    def feed(self, data: bytes) -> list[Structure]:
        """Return the commands that ``data`` completes, in order.

        Buffers less than one frame. What is wrong with a frame comes after the commands before it: they are returned,
        ``failure`` is set, and `check` or the next call raises it.

        Raises MalformedFrame, LimitExceeded, ProtocolViolation: the peer's fault; close the connection.
        """
        self.check()
        commands: list[Structure] = []
        pending = self._pending
        if pending is not None:
            pending.write(data)
            if len(pending) < self._needed:
                return commands
            data = pending.getvalue()
            self._pending = None
        try:
            rest = self._frames(data, commands)
        except PeerError as error:
            self.failure = error
            if not commands:
                raise
            return commands
        if rest < len(data):
            pending = BytesWriter()
            pending.write(data[rest:] if rest > 0 else data)
            self._pending = pending
        return commands

    def check(self) -> None:
        """Raise what stopped the decoder, if anything did; to be called when the commands of a `feed` are handled."""
        if self.failure is not None:
            raise self.failure

    def buffered(self) -> int:
        """Return the octets of a frame that has begun and is not complete."""
        pending = self._pending
        return 0 if pending is None else len(pending)

    def _frames(self, data: bytes, commands: list[Structure]) -> i64:
        """Append the commands of all complete frames; return where the incomplete one starts."""
        at: i64 = 0
        end: i64 = len(data)
        while at < end:
            if self._prefixed:
                if end - at < 4:
                    self._needed = 4
                    return at
                size = i64(read_i32_be(data, at))
                if size <= 0:
                    raise MalformedFrame(f"the size of a frame is {size}")
                if size > self._frame_max:
                    raise LimitExceeded(f"a frame of {size} octets is larger than {self._frame_max}")
                behind = at + 4 + size
                if behind > end:
                    self._needed = behind - at
                    return at
                if self._awaiting and data[at + 4] != WIRE_FORMAT_INFO:
                    raise ProtocolViolation("the first frame is not a WireFormatInfo")
                command = self._reader.frame(data, at + 4, behind)
            else:
                behind = self._open_frame(data, at, end)
                if behind < 0:
                    return at
                command = self._opened
            at = behind
            if command is not None:
                if isinstance(command, WireFormatInfo):
                    self._agree(command)
                commands.append(command)
        return at

    def _open_frame(self, data: bytes, at: i64, end: i64) -> i64:
        """Read a frame without size into ``_opened``; return where it ends, or -1 if more octets must come.

        Each try starts at the beginning of the frame and waits for what the last one lacked; peers that turn sizes off
        send datagrams, which come whole.
        """
        reader = self._reader
        try:
            self._opened = reader.frame(data, at, end)
        except Incomplete as incomplete:
            reader.roll_back()
            self._needed = incomplete.position - at
            if self._needed > self._frame_max:
                raise LimitExceeded(f"a frame is larger than {self._frame_max} octets") from None
            return -1
        reader.overwritten.clear()
        return reader.at

    def _agree(self, info: WireFormatInfo) -> None:
        """Take the peer's offer: from the next frame on both speak what was agreed."""
        if self._agreed:
            raise ProtocolViolation("a second WireFormatInfo")
        offer = self.wire_format.offer
        if offer is not None:
            self._reader = self._adopt(negotiate(offer, info, version_min=self.wire_format.version_min))
            self._agreed = True

    def _adopt(self, wire_format: WireFormat) -> FrameReader:
        self.wire_format = wire_format
        self._awaiting = wire_format.offer is not None
        self._prefixed = wire_format.size_prefix
        self._frame_max = FIRST_FRAME_OCTETS_MAX if self._awaiting else wire_format.max_frame_size
        return FrameReader(
            prototypes(wire_format.version),
            wire_format.version,
            tight=wire_format.tight,
            cache_size=wire_format.cache_size,
            stack_traces=wire_format.stack_traces,
            layout=message_layout(wire_format.version) if self._keep_encodings else 0,
            open_ended=not wire_format.size_prefix,
        )


class Encoder:
    """Turns commands into what a peer can read. A command that cannot be written leaves no trace in the output.

    With a format that is not agreed yet nothing but our own `WireFormatInfo` may be written; then comes `switch`.
    """

    def __init__(self, wire_format: WireFormat) -> None:
        self.switch(wire_format)

    def switch(self, wire_format: WireFormat) -> None:
        """Speak ``wire_format`` from now on: call it with the decoder's as soon as that is agreed."""
        self.wire_format = wire_format
        self._writer = FrameWriter(
            wire_format.version,
            tight=wire_format.tight,
            cache_size=wire_format.cache_size,
            stack_traces=wire_format.stack_traces,
        )
        self._prefixed: bool = wire_format.size_prefix
        self._frame_max: i64 = wire_format.max_frame_size
        self._awaiting: bool = wire_format.offer is not None
        self_contained = not wire_format.tight and wire_format.cache_size == 0 and not self._awaiting
        self.layout: i64 = message_layout(wire_format.version) if self_contained else 0

    def encode(self, command: Structure) -> bytes:
        """Return the frame of ``command``. Raises Inexpressible for what the format has no room for."""
        target = BytesWriter()
        self.encode_into(target, command)
        return target.getvalue()

    def encode_into(self, target: BytesWriter, command: Structure) -> None:
        """Append the frame of ``command`` to ``target``, which is unchanged if this raises Inexpressible."""
        if isinstance(command, MessageDispatch):
            message = command.message
            if message is not None:
                first = message.first
                if first is not None and first.layout == self.layout:
                    self._pass_on(target, command, message, first)
                    return
        if self._awaiting and not isinstance(command, WireFormatInfo):
            raise Fault("a command was to be sent before the wire format was agreed")
        start = self._begin(target)
        try:
            self._writer.frame(target, command)
        except (OverflowError, Inexpressible) as error:
            self._undo(target, start)
            if isinstance(error, Inexpressible):
                raise
            raise Inexpressible("a number does not fit its field") from error
        self._finish(target, start)

    def passes(self, first: FirstEncoding) -> bool:
        """Tell whether octets that came in elsewhere can go out here as they are."""
        return first.layout == self.layout

    def dispatch_into(
        self,
        target: BytesWriter,
        consumer_id: ConsumerId | None,
        destination: Destination | None,
        first: FirstEncoding,
        redelivery_counter: i32,
        *,
        broker_sequence_id: i64,
        broker_in_time: i64,
        broker_out_time: i64,
        group_first: bool,
        command_id: i32 = 0,
        response_required: bool = False,
    ) -> None:
        """Append a `MessageDispatch` around ``first``, which `passes` must have accepted. Times in ms since 1970."""
        if first.layout != self.layout:
            raise Fault("a first encoding was sent to a connection that reads another one")
        start = self._begin(target)
        writer = self._writer
        writer.out = target
        try:
            target.append(MESSAGE_DISPATCH)
            write_i32_be(target, command_id)
            writer.boolean(response_required)
            writer.nested(consumer_id)
            writer.nested(destination)
        except Inexpressible:
            self._undo(target, start)
            raise
        writer.boolean(True)
        at = len(target)
        target.write(first.octets)
        _put_long(target, at + first.sequence_mark - 8, broker_sequence_id)
        if first.times_mark > 0:
            _put_long(target, at + first.times_mark - 16, broker_in_time)
            _put_long(target, at + first.times_mark - 8, broker_out_time)
            if first.layout >= GROUP_FIRST_SINCE:
                target[at + first.times_mark] = 1 if group_first else 0
        write_i32_be(target, redelivery_counter)
        self._finish(target, start)

    def _pass_on(self, target: BytesWriter, command: MessageDispatch, message: Message, first: FirstEncoding) -> None:
        message_id = message.message_id
        if message_id is None:
            raise Fault("a message with a first encoding lost its id")
        self.dispatch_into(
            target,
            command.consumer_id,
            command.destination,
            first,
            command.redelivery_counter,
            broker_sequence_id=message_id.broker_sequence_id,
            broker_in_time=message.broker_in_time,
            broker_out_time=message.broker_out_time,
            group_first=message.jmsx_group_first_for_consumer,
            command_id=command.command_id,
            response_required=command.response_required,
        )

    def _begin(self, target: BytesWriter) -> i64:
        start = len(target)
        if self._prefixed:
            write_i32_be(target, 0)
        return start

    def _finish(self, target: BytesWriter, start: i64) -> None:
        """Put the size where it belongs. Java checks the limit of the peer only when tight; we never send too much."""
        size = len(target) - start - (4 if self._prefixed else 0)
        if size > self._frame_max:
            self._undo(target, start)
            raise Inexpressible(f"a frame of {size} octets is larger than the {self._frame_max} that were agreed")
        if self._prefixed:
            octet: int
            for place in range(4):
                octet = (size >> (24 - 8 * place)) & 0xFF
                target[start + place] = octet

    def _undo(self, target: BytesWriter, start: i64) -> None:
        target.truncate(start)
        self._writer.abandon()


def decode_first(first: FirstEncoding) -> Message:
    """Return the message whose octets ``first`` holds."""
    reader = FrameReader(
        prototypes(int(first.layout)), first.layout, tight=False, cache_size=0, stack_traces=True, layout=first.layout
    )
    message = reader.frame(first.octets, 0, len(first.octets))
    if not isinstance(message, Message):
        raise Fault("a first encoding does not hold a message")
    return message


def _put_long(target: BytesWriter, at: i64, value: i64) -> None:
    octet: int
    for place in range(8):
        octet = (value >> (56 - 8 * place)) & 0xFF
        target[at + place] = octet
