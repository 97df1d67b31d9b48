"""How one field travels: the inside of a frame, read and written, tight and loose.

```text
loose   type:1  fields in order, each self-contained
tight   type:1  bits  octets                      bits: all the bits of the frame, then the octets of all fields
        bits = length of the bits in octets, then the bits, lowest first
               n < 64: n:1 | n < 256: C0 n:1 | else 80 n:2

kind        loose                                     tight: bits, then octets
boolean     octet 0 or 1                              bit
byte, int   1, 4 octets                               the same
long        8 octets                                  00: zero | 01: uint16 | 10: uint32 | 11: int64
string      present  length:2  modified UTF-8         present, all in 1..127 | length:2  text
octets      present  length:4  raw                    present | the same
nested      present  type:1  fields                   present, a 0 if padded | type:1  fields in the same streams
cached      cache off: nested                         the same
            cache on: isNew  index:2  nested if new   isNew | index:2, nested if new
array       present  count:2  nested...               present | count:2, nested...
throwable   present  class, message: string  if stack traces are on: count:2, count x (class, method, file: string
            line:int), cause: throwable               the same with bits
```

A structure (class `Structure`, the rest in `commands`) reads and writes its fields through one method for both
encodings; `FrameReader` and `FrameWriter` know which one is spoken. Each owns the cache of its direction and must see
every frame of it, in order. Invariant of a cache: the sender never refers to an index that it did not fill before.

Nothing is allocated by a length that was not compared with what the frame holds; depth and number of structures are
bounded. What a peer sent wrong raises `MalformedFrame` or `LimitExceeded`. [C]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from entrepot.base.errors import Fault, Inexpressible, LimitExceeded, MalformedFrame
from entrepot.protocols.openwire.elements import (
    ARRAY_COUNT_MAX,
    BITS_OCTETS_MAX,
    CACHE_SIZE_MIN,
    DEPTH_MAX,
    ELEMENTS_MAX,
    MAGIC,
    TIGHT_TEXT_OCTETS_MAX,
    Incomplete,
    StackLine,
    Throwable,
)  # fmt: skip
from entrepot.protocols.openwire.primitives import SHORT_TEXT_OCTETS_MAX, decode_modified_utf8, encode_modified_utf8


class Structure:
    """Anything with a type id on the wire."""

    @property
    def type_id(self) -> int:
        """The id of the type, 1 to 124."""
        raise Fault("a structure without type")

    def fresh(self) -> Structure:
        """Return a new structure of the same type with default fields."""
        raise Fault("a structure without type")

    def padded(self) -> bool:
        """Tell whether the type carries one bit more when nested in a tight frame."""
        return False

    def read(self, source: FrameReader) -> None:
        """Take all fields from ``source``."""

    def write(self, target: FrameWriter) -> None:
        """Append all fields to ``target``."""

    def retain(self, octets: bytes, layout: i64, start: i64) -> None:
        """Keep the octets it was read from, which stood at ``start``; messages do, others do not care."""


_UNFILLED: Final = Structure()


class FrameReader:
    """A cursor over one frame after another. `begin` and `finish` enclose a frame; every other method reads one field.

    ``prototypes`` holds a structure per type id, None where the version has none. ``layout`` not 0 asks for messages
    that keep their octets. ``open_ended``: frames have no size, so octets that lack are `Incomplete`, not malformed.
    """

    def __init__(
        self,
        prototypes: list[Structure | None],
        version: i64,
        *,
        tight: bool,
        cache_size: i64,
        stack_traces: bool,
        layout: i64 = 0,
        open_ended: bool = False,
    ) -> None:
        self.prototypes = prototypes
        self.version = version
        self.tight = tight
        self.caching: bool = cache_size > 0
        self.cache_size = cache_size
        self.cache: list[Structure | None] = [_UNFILLED] * cache_size
        self.stack_traces = stack_traces
        self.layout: i64 = 0 if tight or cache_size > 0 else layout
        self.open_ended = open_ended
        self.overwritten: list[tuple[int, Structure | None]] = []
        self.data: bytes = b""
        self.at: i64 = 0
        self.end: i64 = 0
        self.bits_at: i64 = 0
        self.bits_end: i64 = 0
        self.bit: i64 = 0
        self.depth: i64 = 0
        self.elements_left: i64 = ELEMENTS_MAX

    # -- a frame

    def frame(self, data: bytes, at: i64, end: i64) -> Structure | None:
        """Read the frame that starts at ``at`` with its type octet and ends at or (open-ended) before ``end``.

        None is the null frame. Afterwards ``self.at`` is behind the frame.
        """
        self.data = data
        self.at = at
        self.end = end
        self.bit = 0
        self.bits_at = 0
        self.bits_end = 0
        self.depth = 0
        self.elements_left = ELEMENTS_MAX
        type_id = self.uint8()
        structure: Structure | None = None
        if type_id != 0:
            prototype = self._prototype(type_id)
            if self.tight:
                self._begin_bits()
            structure = self._fields(prototype, at)
            if self.tight and self.bits_at + (1 if self.bit > 0 else 0) != self.bits_end:
                raise MalformedFrame("bits are left over in a tight frame")
        if self.at != end and not self.open_ended:
            raise MalformedFrame("octets are left over in a frame")
        self.data = b""
        return structure

    def roll_back(self) -> None:
        """Forget what an incomplete frame did to the cache."""
        while self.overwritten:
            index, previous = self.overwritten.pop()
            self.cache[index] = previous

    def _begin_bits(self) -> None:
        length = self.uint8()
        if length == 0xC0:
            length = self.uint8()
        elif length == 0x80:
            length = self.uint16()
        elif length >= 64:
            raise MalformedFrame("the length of the bits of a tight frame is not one")
        if length > BITS_OCTETS_MAX:
            raise MalformedFrame("the length of the bits of a tight frame is negative")
        self.bits_at = self._take(length)
        self.bits_end = self.at

    # -- plain fields

    def boolean(self) -> bool:
        """Read an octet or a bit."""
        if self.tight:
            return self._bit()
        return self.data[self._take(1)] != 0

    def byte(self) -> i32:
        """Read a signed octet."""
        octet: i32 = self.data[self._take(1)]
        return octet - 256 if octet > 127 else octet

    def uint8(self) -> i64:
        """Read an unsigned octet."""
        octet: i64 = self.data[self._take(1)]
        return octet

    def uint16(self) -> i64:
        """Read two octets, unsigned."""
        at = self._take(2)
        high: i64 = self.data[at]
        low: i64 = self.data[at + 1]
        return (high << 8) | low

    def int32(self) -> i32:
        """Read four octets, signed."""
        return read_i32_be(self.data, self._take(4))

    def long(self) -> i64:
        """Read a 64-bit number, shortened in a tight frame."""
        if not self.tight:
            return read_i64_be(self.data, self._take(8))
        wide = self._bit()
        odd = self._bit()
        if wide:
            if odd:
                return read_i64_be(self.data, self._take(8))
            high = self.uint16()
            return (high << 16) | self.uint16()
        return self.uint16() if odd else 0

    def string(self) -> str | None:
        """Read a text or null."""
        if not self.boolean():
            return None
        plain = self.tight and self._bit()
        length = self.uint16()
        at = self._take(length)
        octets = self.data[at : at + length]
        return octets.decode("latin-1") if plain else decode_modified_utf8(octets)

    def octets(self) -> bytes | None:
        """Read octets or null."""
        if not self.boolean():
            return None
        length = i64(self.int32())
        if length < 0:
            raise MalformedFrame("a length is negative")
        at = self._take(length)
        return self.data[at : at + length]

    def magic(self) -> bytes:
        """Read the constant that a `WireFormatInfo` starts with."""
        at = self._take(8)
        magic = self.data[at : at + 8]
        if magic != MAGIC:
            raise MalformedFrame("this is not OpenWire: the magic is wrong")
        return magic

    def throwable(self) -> Throwable | None:
        """Read an exception or null."""
        if not self.boolean():
            return None
        class_name = self.string()
        message = self.string()
        if not self.stack_traces:
            return Throwable(class_name, message)
        self._descend()
        stack: list[StackLine] = []
        for _ in range(self._count()):
            class_of_line = self.string()
            method = self.string()
            file = self.string()
            stack.append(StackLine(class_of_line, method, file, self.int32()))
        cause = self.throwable()
        self.depth -= 1
        return Throwable(class_name, message, stack, cause)

    # -- structures

    def nested(self) -> Structure | None:
        """Read a structure or null."""
        if not self.boolean():
            return None
        start = self.at
        prototype = self._prototype(self.uint8())
        if self.tight and prototype.padded() and self._bit():
            # The bit would announce a frame within the frame, which no released sender writes.
            raise MalformedFrame("a nested structure says that it is marshalled apart")
        return self._fields(prototype, start)

    def cached(self) -> Structure | None:
        """Read a structure or null, or a reference to one that came before."""
        if not self.caching:
            return self.nested()
        fresh = self.boolean()
        index = self.uint16()
        if not fresh:
            if index >= self.cache_size:
                raise MalformedFrame(f"cache index {index} is outside the cache")
            known = self.cache[index]
            if known is _UNFILLED:
                raise MalformedFrame(f"cache index {index} was never filled")
            return known
        value = self.nested()
        if index < self.cache_size:
            if self.open_ended:
                self.overwritten.append((index, self.cache[index]))
            self.cache[index] = value
        elif index != 0xFFFF:  # -1: not to be stored
            raise MalformedFrame(f"cache index {index} is outside the cache")
        return value

    def array(self) -> list[Structure] | None:
        """Read an array of structures or null. Elements that are null are refused: no sender has a use for them."""
        if not self.boolean():
            return None
        elements: list[Structure] = []
        for _ in range(self._count()):
            element = self.nested()
            if element is None:
                raise MalformedFrame("an element of an array is null")
            elements.append(element)
        return elements

    def misplaced(self, value: Structure, expected: str) -> MalformedFrame:
        """Return the error for a structure that stands where only ``expected`` may stand."""
        return MalformedFrame(f"type {value.type_id} stands where {expected} belongs")

    def _prototype(self, type_id: i64) -> Structure:
        prototype = self.prototypes[type_id] if type_id < len(self.prototypes) else None
        if prototype is None:
            raise MalformedFrame(f"version {self.version} has no type {type_id}")
        return prototype

    def _fields(self, prototype: Structure, start: i64) -> Structure:
        self._descend()
        structure = prototype.fresh()
        structure.read(self)
        self.depth -= 1
        if self.layout > 0 and prototype.padded():
            structure.retain(self.data[start : self.at], self.layout, start)
        return structure

    def _descend(self) -> None:
        self.depth += 1
        self.elements_left -= 1
        if self.depth > DEPTH_MAX:
            raise LimitExceeded(f"structures are nested deeper than {DEPTH_MAX}")
        if self.elements_left < 0:
            raise LimitExceeded(f"a frame has more than {ELEMENTS_MAX} parts")

    def _count(self) -> i64:
        count = self.uint16()
        if count > ARRAY_COUNT_MAX:
            raise MalformedFrame("a count is negative")
        self.elements_left -= count
        if self.elements_left < 0:
            raise LimitExceeded(f"a frame has more than {ELEMENTS_MAX} parts")
        return count

    # -- octets and bits

    def _take(self, octets: i64) -> i64:
        """Advance by ``octets`` that must be there; return where they start."""
        at = self.at
        behind = at + octets
        if behind > self.end:
            if self.open_ended:
                raise Incomplete(behind)
            raise MalformedFrame("a frame ends inside a field")
        self.at = behind
        return at

    def _bit(self) -> bool:
        at = self.bits_at
        if at >= self.bits_end:
            raise MalformedFrame("the bits of a tight frame end too early")
        bit = self.bit
        octet: i64 = self.data[at]
        if bit == 7:
            self.bit = 0
            self.bits_at = at + 1
        else:
            self.bit = bit + 1
        return (octet >> bit) & 1 != 0


_NOWHERE: Final = BytesWriter()
"""What a `FrameWriter` writes to where it writes nothing: one of these has room for 256 octets from the start."""


class FrameWriter:
    """Appends the fields of one frame after another to a `BytesWriter`; the mirror of `FrameReader`.

    What is appended is an ``int`` variable or a constant: of other native integers mypyc makes a call by name, which is
    ten times slower.
    """

    def __init__(self, version: i64, *, tight: bool, cache_size: i64, stack_traces: bool) -> None:
        self.version = version
        self.tight = tight
        self.caching: bool = cache_size >= CACHE_SIZE_MIN
        self.marking: bool = cache_size > 0
        self.cache_size = cache_size
        self.indexes: dict[Structure, int] = {}
        self.filled: list[Structure | None] = [None] * cache_size
        self.null_index: i64 = -1
        self.next_index: i64 = 0
        self.stack_traces = stack_traces
        self.text_octets_max: i64 = TIGHT_TEXT_OCTETS_MAX if tight else SHORT_TEXT_OCTETS_MAX
        self.out = _NOWHERE  # until there is a frame
        self.body = BytesWriter() if tight else _NOWHERE
        self.bits = BytesWriter() if tight else _NOWHERE
        self.octet: i64 = 0
        self.bit: i64 = 0

    # -- a frame

    def frame(self, target: BytesWriter, structure: Structure) -> None:
        """Append the frame of ``structure``, from its type octet on, to ``target``.

        After an exception ``target`` may hold half a frame and `abandon` must be called.
        """
        target.append(structure.type_id)
        if not self.tight:
            self.out = target
            structure.write(self)
            return
        self.out = self.body
        self.body.truncate(0)
        self.bits.truncate(0)
        self.octet = 0
        self.bit = 0
        structure.write(self)
        if self.bit > 0:
            octet: int = self.octet
            self.bits.append(octet)
        self._append_bits(target)
        target.write(self.body.getvalue())

    def abandon(self) -> None:
        """Forget the cache after a frame that was begun and not sent: the peer knows less than we noted."""
        self.indexes.clear()
        self.null_index = -1

    def _append_bits(self, target: BytesWriter) -> None:
        length: int = len(self.bits)
        if length > BITS_OCTETS_MAX:
            raise Inexpressible("a tight frame has more bits than it can count")
        if length >= 256:
            target.append(0x80)
            target.append(length >> 8)
        elif length >= 64:
            target.append(0xC0)
        target.append(length & 0xFF)
        target.write(self.bits.getvalue())

    # -- plain fields

    def boolean(self, value: bool) -> None:
        """Write an octet or a bit."""
        if not self.tight:
            self.out.append(1 if value else 0)
            return
        bit = self.bit
        if value:
            self.octet |= 1 << bit
        if bit == 7:
            octet: int = self.octet
            self.bits.append(octet)
            self.octet = 0
            self.bit = 0
        else:
            self.bit = bit + 1

    def byte(self, value: i32) -> None:
        """Write a signed octet."""
        if value < -128 or value > 127:
            raise Inexpressible("a number does not fit an octet")
        octet: int = value & 0xFF
        self.out.append(octet)

    def uint16(self, value: i64) -> None:
        """Write two octets, the low ones of ``value``."""
        high: int = (value >> 8) & 0xFF
        low: int = value & 0xFF
        self.out.append(high)
        self.out.append(low)

    def int32(self, value: i32) -> None:
        """Write four octets."""
        write_i32_be(self.out, value)

    def long(self, value: i64) -> None:
        """Write a 64-bit number, shortened in a tight frame."""
        if not self.tight:
            write_i64_be(self.out, value)
        elif value < 0 or value > 0xFFFFFFFF:
            self.boolean(True)
            self.boolean(True)
            write_i64_be(self.out, value)
        elif value > 0xFFFF:
            self.boolean(True)
            self.boolean(False)
            self.uint16(value >> 16)
            self.uint16(value)
        else:
            self.boolean(False)
            self.boolean(value != 0)
            if value != 0:
                self.uint16(value)

    def string(self, value: str | None) -> None:
        """Write a text or null. Raises Inexpressible for one that is too long."""
        if value is None:
            self.boolean(False)
            return
        octets = encode_modified_utf8(value)
        length: i64 = len(octets)
        if length > self.text_octets_max:
            raise Inexpressible(f"a text has {length} octets, {self.text_octets_max} are possible")
        self.boolean(True)
        if self.tight:
            self.boolean(length == len(value))  # only characters in 1..127 take one octet each
        self.uint16(length)
        self.out.write(octets)

    def octets(self, value: bytes | None) -> None:
        """Write octets or null."""
        if value is None:
            self.boolean(False)
            return
        self.boolean(True)
        write_i32_be(self.out, len(value))
        self.out.write(value)

    def magic(self, value: bytes) -> None:
        """Write the constant that a `WireFormatInfo` starts with."""
        assert value == MAGIC, "there is only one magic"
        self.out.write(value)

    def throwable(self, value: Throwable | None) -> None:
        """Write an exception or null."""
        self.boolean(value is not None)
        if value is None:
            return
        self.string(value.class_name)
        self.string(value.told(self.version))
        if not self.stack_traces:
            return
        self._count(len(value.stack))
        for line in value.stack:
            self.string(line.class_name)
            self.string(line.method)
            self.string(line.file)
            self.int32(line.line)
        self.throwable(value.cause)

    # -- structures

    def nested(self, value: Structure | None) -> None:
        """Write a structure or null."""
        self.boolean(value is not None)
        if value is None:
            return
        if self.tight and value.padded():
            self.boolean(False)
        self.out.append(value.type_id)
        value.write(self)

    def cached(self, value: Structure | None) -> None:
        """Write a structure or null, or a reference to an equal one that went before."""
        if not self.marking:
            self.nested(value)
            return
        if not self.caching:
            self.boolean(True)
            self.uint16(-1)
            self.nested(value)
            return
        index: i64 = self.null_index if value is None else self.indexes.get(value, -1)
        if index >= 0:
            self.boolean(False)
            self.uint16(index)
            return
        index = self._fill(value)
        self.boolean(True)
        self.uint16(index)
        self.nested(value)

    def array(self, values: Sequence[Structure] | None) -> None:
        """Write an array of structures or null."""
        if values is None:
            self.boolean(False)
            return
        self.boolean(True)
        self._count(len(values))
        for value in values:
            self.nested(value)

    def _fill(self, value: Structure | None) -> i64:
        """Give ``value`` the next index, round robin, and forget what was there."""
        index = self.next_index
        self.next_index = 0 if index + 1 == self.cache_size else index + 1
        previous = self.filled[index]
        if previous is not None and self.indexes.get(previous, -1) == index:
            del self.indexes[previous]
        elif self.null_index == index:
            self.null_index = -1
        self.filled[index] = value
        if value is None:
            self.null_index = index
        else:
            self.indexes[value] = index
        return index

    def _count(self, count: i64) -> None:
        if count > ARRAY_COUNT_MAX:
            raise Inexpressible(f"an array has {count} elements, {ARRAY_COUNT_MAX} are possible")
        self.uint16(count)
