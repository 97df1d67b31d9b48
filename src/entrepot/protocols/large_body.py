"""A large body in the common form, for readers of another language: octets as they are, or the UTF-8 of a text.

What a language has on disk may be neither: CORE streams a text as its length and UTF-16 units, and compresses what it
is told to. Such a body is read twice, to count and to write. No piece is larger than a stretch of the disk's, or what
that becomes, so a body that was compressed to nothing does not fill memory; and what it becomes is counted as work, so
it does not fill a turn. `Count` reads it over many turns before a consumer is given the message, and what it found is
kept as long as the body is.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import BodyLost, EntrepotError, LimitExceeded
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.queue.consumer import Measurement
from entrepot.model.message import BODY_TEXT, LARGE_DEFLATED, LARGE_UNITS, Message
from entrepot.protocols.outflow import Outflow

if TYPE_CHECKING:
    from zlib import _Decompress

COUNT_UNITS: Final = 8  # of `core/effort.py`: to read, decode and encode 4 KiB, some 4 us
PIECE_MAX: Final = 256 * 1024  # of what was compressed
UNITS_HEAD: Final = 5  # before the units of a text: that it is there, and its length
INFLATED_MAX: Final = (1 << 32) - 1  # octets: what AMQP can say of one body, and far more than a frame of OpenWire

FOUR_OCTETS: Final = bytes(range(0xF0, 0xF5))  # what begins a character beyond U+FFFF in UTF-8

COMMON: Final = 0  # forms of a body: as `LargeBody` reads it
JAVA: Final = 1  # a text in Java's own UTF-8, in which the zero and all beyond U+FFFF are longer
UNITS: Final = 2  # a text in UTF-16, as CORE streams it


class LargeBody:
    """Reads one body from its beginning; ``done`` is set with the last piece. Somebody must hold the body meanwhile."""

    def __init__(self, broker: BrokerCore, message: Message) -> None:
        form = int(message.language.large_form(message))
        self.broker: Final = broker
        self.message: Final = message
        self.plain: Final = form & (LARGE_DEFLATED | LARGE_UNITS) == 0
        self.at = 0
        self.left = int(message.need_rare().large_length)
        self.done = self.left == 0
        self._head = UNITS_HEAD if form & LARGE_UNITS else 0
        self._units = codecs.getincrementaldecoder("utf-16-le")("replace") if form & LARGE_UNITS else None
        self._inflating: _Decompress | None = None
        if form & LARGE_DEFLATED:
            import zlib  # noqa: PLC0415 - few bodies are compressed

            self._inflating = zlib.decompressobj()

    def piece(self) -> bytes:
        """Return the next octets, and count them as work; none need not be the end. Raises BodyLost, StorageError."""
        inflating = self._inflating
        if inflating is not None and inflating.unconsumed_tail:
            octets = inflating.unconsumed_tail
        elif self.left > 0:
            octets = self.broker.journal.overflow.read(self.message, self.at)
            self.at += len(octets)
            self.left -= len(octets)
        else:
            octets = b""
        read = len(octets)
        if inflating is not None:
            octets = _inflated(inflating, octets)
        units = COUNT_UNITS if inflating is not None or self._units is not None else 1
        self.broker.effort.spent += 1 + (max(read, len(octets)) >> OCTETS_SHIFT) * units
        self.done = self.left <= 0 and (inflating is None or not inflating.unconsumed_tail)
        if self._units is not None:
            cut = min(self._head, len(octets))
            self._head -= cut
            octets = self._units.decode(octets[cut:], self.done).encode("utf-8", "replace")
        return octets


def _inflated(inflating: _Decompress, octets: bytes) -> bytes:
    import zlib  # noqa: PLC0415 - as above

    try:
        return inflating.decompress(octets, PIECE_MAX)
    except zlib.error as error:
        raise BodyLost(f"a body that is said to be compressed is not: {error}") from None


class Count(Measurement):
    """Counts the octets of a body in one form, up to ``most`` of them. A flaw that is found is not looked for again."""

    def __init__(self, broker: BrokerCore, message: Message, form: int, most: int) -> None:
        super().__init__()
        self.broker: Final = broker
        self.message: Final = message
        self.form: Final = form
        self.most: Final = most
        self.total = 0
        self._body = LargeBody(broker, message)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if form != COMMON else None

    def step(self) -> bool:
        """Read one piece."""
        body = self._body
        try:
            if not body.done:
                self._add(body.piece())
            if self.total > self.most:
                raise _too_long(self.most)
        except EntrepotError as error:
            self.flaw = str(error)
            return True
        if body.done:
            self._keep(self.total)
        return body.done

    def _add(self, octets: bytes) -> None:
        decoder = self._decoder
        if decoder is not None:
            self.broker.effort.spent += (len(octets) >> OCTETS_SHIFT) * COUNT_UNITS
            text = decoder.decode(octets, self._body.done)
            self.total += _java_octets(text) if self.form == JAVA else len(text.encode("utf-16-le", "surrogatepass"))
        else:
            self.total += len(octets)

    def _keep(self, total: int) -> None:
        overflow = self.broker.journal.overflow
        blob = int(self.message.need_rare().large_id)
        if blob in overflow.sizes:  # somebody holds it, and lets go of what is known with it
            overflow.lengths.setdefault(blob, {})[self.form] = total


class Fit(Count):
    """Counts as well for a reader who passes over what is too long for him, or is no body at all (``unfit``)."""

    def __init__(self, broker: BrokerCore, message: Message, most: int) -> None:
        super().__init__(broker, message, COMMON, most)
        self.unfit = False

    def step(self) -> bool:
        """Read one piece."""
        done = super().step()
        self.unfit = self.flaw != ""
        self.flaw = ""
        return done


def _java_octets(text: str) -> int:
    """Return how long ``text`` is in Java's own UTF-8: a zero has two octets, what UTF-8 has in four has six."""
    octets = text.encode("utf-8", "replace")
    return len(octets) + octets.count(0) + 2 * (len(octets) - len(octets.translate(None, FOUR_OCTETS)))


def _too_long(most: int) -> LimitExceeded:
    return LimitExceeded(f"its body is longer than the {most} octets that a message to this reader may have")


def known_length(broker: BrokerCore, message: Message, form: int) -> int:
    """Return how long the body is in ``form``; -1: it must be read for that."""
    if form == COMMON and LargeBody(broker, message).plain:
        return int(message.need_rare().large_length)
    found = broker.journal.overflow.lengths.get(int(message.need_rare().large_id))
    return -1 if found is None else found.get(form, -1)


def to_count(broker: BrokerCore, message: Message, form: int, most: int) -> Count | None:
    """Return what counts a body whose length in ``form`` is not known; None: it is, or there is no other form."""
    return None if known_length(broker, message, form) >= 0 else Count(broker, message, form, most)


def form_for(message: Message, texts: int) -> int:
    """Return the form that a reader gets who has one of his own for ``texts``."""
    return texts if message.common().body_kind == BODY_TEXT else COMMON


def length_of(broker: BrokerCore, message: Message, form: int = COMMON, most: int = INFLATED_MAX) -> int:
    """Return how long the body is in ``form``; it is work of this turn where that was not counted before.

    Raises BodyLost, LimitExceeded, StorageError.
    """
    length = known_length(broker, message, form)
    if length > most:
        raise _too_long(most)
    if length >= 0:
        return length
    count = Count(broker, message, form, most)
    while not count.step():
        pass
    if count.flaw:
        raise BodyLost(count.flaw)
    return count.total


class CommonBody(Outflow):
    """A body in the common form on its way out, held until `finish`."""

    def __init__(self, broker: BrokerCore, message: Message, length: int) -> None:
        super().__init__(length, b"", b"")
        self.broker = broker
        self.message = message
        self.body = LargeBody(broker, message)
        self.ahead = self.body.piece()  # it may be damaged: better found here
        self.done = length == 0
        broker.journal.overflow.hold(message.need_rare().large_id)

    def piece(self) -> bytes:
        """Return the next octets."""
        octets = self.ahead
        self.ahead = b""
        if not octets:
            octets = self.body.piece()
        self.done = self.body.done
        return octets

    def finish(self, gone: bool) -> None:
        """Let go of the body."""
        self.broker.journal.overflow.release(self.message.need_rare().large_id)
