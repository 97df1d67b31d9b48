"""Reading messages back, one or many, from what was handed over and from the batch that is open. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from entrepot.base.errors import StorageError
from entrepot.journal.index import DEAD, LIVE, Segment
from entrepot.journal.names import corrupt
from entrepot.journal.overflow import Overflow
from entrepot.journal.record import BATCH_HEAD, RECORD_HEAD, envelope_at, plain_envelope, record_valid
from entrepot.journal.tail import Tail
from entrepot.model.message import FLAG_DURABLE, OVERHEAD_BYTES, Message, read_envelope

READ_GAP_MAX: Final = 16 * 1024
"""Two records that are no further apart are fetched in one read: cheaper than a second system call."""

READ_MOST: Final = 1024 * 1024


class Heads:
    """What a queue must know of messages that wait on disk. ``octets``: of all of them together.

    Only plain ones are in it (`plain_envelope`) that are durable, so that no rule of sending asks for more of them.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.priorities: list[int] = []
        self.expirations: list[int] = []
        self.octets: i64 = 0

    def add(self, data: bytes, body: i64, end: i64) -> bool:
        """Take the message whose MESSAGE record has its type octet at ``data[body]``; False when it is not plain.

        Nor is one whose lengths do not lead to ``end``, where the record ends: it is damaged, and who reads it says so.
        """
        envelope = plain_envelope(data, body, end)
        if envelope < 0 or data[envelope + 2] & FLAG_DURABLE == 0:
            return False
        raw: i64 = i64(read_i32_be(data, body + 10))
        self.sizes.append(int(raw + OVERHEAD_BYTES))
        self.priorities.append(data[envelope + 3])
        self.expirations.append(read_i64_be(data, envelope + 12))
        self.octets += raw + OVERHEAD_BYTES
        return True


class Records:
    """Goes to the records of messages, one after another; neighbours on disk are read together.

    The record of ``number`` is ``data`` from ``at`` up to ``end``, and begins at ``offset`` of ``segment``.
    """

    def __init__(self, reading: Reading, numbers: list[int]) -> None:
        self.reading: Reading = reading
        self.numbers: list[int] = numbers
        self.number: i64 = 0
        self.data: bytes = b""
        self.at: i64 = 0
        self.end: i64 = 0
        self.offset: i64 = 0
        self.segment: Segment | None = None  # of which ``data`` is a stretch
        self.start: i64 = 0  # of that stretch

    def go_to(self, position: i64, most: i64) -> i64:
        """Find the message ``numbers[position]``; return how long its record is. Raises StorageError without one.

        Where it has to be read, it is with those that follow, up to about ``most`` octets, or READ_MOST.
        """
        index = self.reading.tail.index
        number: i64 = self.numbers[position]
        segment = index.find(number)
        if segment is None or segment.states[index.slot] == DEAD:
            raise StorageError(f"message {number} is not in the journal")
        offset: i64 = i64(segment.offsets[index.slot])
        length: i64 = i64(segment.lengths[index.slot])
        if self.segment is not segment or offset < self.start or offset + length > self.start + len(self.data):
            if most <= 0 or most > READ_MOST:
                most = READ_MOST
            self.data = self.reading.stretch(self.numbers, position, segment, offset, length, most)
            self.segment = segment
            self.start = offset
        self.number = number
        self.offset = offset
        self.at = offset - self.start
        self.end = self.at + length
        return length

    def message(self) -> Message:
        """Make the message. Raises CorruptJournal."""
        segment = self.segment
        assert segment is not None
        return _decode(segment, self.number, self.data, self.at, self.offset)


class Reading:
    """What the journal knows of single messages. Changes nothing, but hands an open batch over to read it."""

    def __init__(self, tail: Tail, overflow: Overflow) -> None:
        self.tail: Tail = tail
        self.overflow: Overflow = overflow

    def durable(self, number: i64, queue_id: i64) -> Segment | None:
        """Return the segment of a message that is in ``queue_id`` after a restart, too; None for what `page` wrote."""
        index = self.tail.index
        if not index.holds(number, queue_id):
            return None
        segment = index.find(number)
        if segment is None or segment.states[index.slot] != LIVE:
            return None
        return segment

    def keeps(self, number: i64, queue_id: i64) -> bool:
        """Return whether ``number`` is in ``queue_id`` after a restart, too."""
        return self.durable(number, queue_id) is not None

    def on_disk(self, number: i64) -> bool:
        """Return whether no crash takes message ``number`` back; True for one of which none was promised to stay."""
        index = self.tail.index
        segment = index.find(number)
        if segment is None or segment.states[index.slot] != LIVE:
            return True
        slot = index.slot
        return self.tail.covers(segment, i64(segment.offsets[slot]) + i64(segment.lengths[slot]))

    def large_bodies(self) -> dict[int, int]:
        """Return the numbers of the messages whose body is a blob, with it."""
        return dict(self.tail.index.blob_of)

    def flaw(self, number: i64) -> str:
        """Return why the large body of message ``number`` is lost, where that was found out; else ""."""
        damaged = self.overflow.damaged
        return damaged.get(self.tail.index.blob_of.get(number, 0), "") if damaged else ""

    def load(self, number: i64) -> Message:
        """Return a message that is live in the journal. Raises StorageError when it is not, or cannot be read."""
        index = self.tail.index
        segment = index.find(number)
        if segment is None or segment.states[index.slot] == DEAD:
            raise StorageError(f"message {number} is not in the journal")
        slot = index.slot
        offset: i64 = i64(segment.offsets[slot])
        length: i64 = i64(segment.lengths[slot])
        return _decode(segment, number, self._fetch(segment, offset, length), 0, offset)

    def load_range(self, numbers: list[int], octets: i64 = 0) -> list[Message]:
        """Return messages in the order of ``numbers``; neighbours on disk are read together. Raises as `load`.

        With ``octets`` it ends early, with the message that reaches so many.
        """
        found: list[Message] = []
        total: i64 = 0
        records = Records(self, numbers)
        position: i64 = 0
        while position < len(numbers):
            total += records.go_to(position, octets - total)
            found.append(records.message())
            position += 1
            if octets > 0 and total >= octets:
                break
        return found

    def heads(self, numbers: list[int], octets: i64) -> Heads:
        """Return what a queue must know of messages, in the order of ``numbers``, without making them.

        It ends early, before the first that is not plain (`Heads`) or whose checksum is wrong, and with the one that
        reaches ``octets``. Raises as `load`.
        """
        found = Heads()
        records = Records(self, numbers)
        position: i64 = 0
        while position < len(numbers) and found.octets < octets:
            records.go_to(position, octets - found.octets)
            if not record_valid(records.data, records.at, len(records.data)):
                break
            if not found.add(records.data, records.at + RECORD_HEAD, records.end):
                break
            position += 1
        return found

    def _fetch(self, segment: Segment, offset: i64, length: i64) -> bytes:
        tail = self.tail
        if segment is tail.active and offset + length > segment.end:
            if tail.depth > 0:
                start: i64 = offset - segment.end - BATCH_HEAD
                if start < 0:  # begins in what was handed over, ends in the open batch
                    before = tail.port.read(segment.name, offset, segment.end - offset)
                    return before + b"\0" * BATCH_HEAD + tail.batch.octets(0, start + length)
                return tail.batch.octets(start, start + length)
            tail.hand_over()
        return tail.port.read(segment.name, offset, length)

    def stretch(
        self, numbers: list[int], position: i64, segment: Segment, offset: i64, length: i64, most: i64
    ) -> bytes:
        """Read the record of ``numbers[position]``, and those that follow with it, up to about ``most`` octets."""
        moves = self.tail.index.moves
        moved = len(moves.rows) > 0
        end: i64 = offset + length
        position += 1
        while position < len(numbers):
            slot = segment.slot_of(moves.written(i64(numbers[position])) if moved else i64(numbers[position]))
            if slot < 0:
                break
            start: i64 = i64(segment.offsets[slot])
            if start < end or start - end > READ_GAP_MAX or start - offset > most:
                break
            size: i64 = i64(segment.lengths[slot])
            end = start + size
            position += 1
        return self._fetch(segment, offset, end - offset)


def _decode(segment: Segment, number: i64, data: bytes, at: i64, offset: i64) -> Message:
    """Return the message whose record is at ``data[at]`` and at ``offset`` of its segment. Raises CorruptJournal."""
    if not record_valid(data, at, len(data)):
        raise corrupt(segment.name, offset, f"message {number} fails its checksum")
    try:
        message = read_envelope(data, envelope_at(data, at + RECORD_HEAD))
    except (IndexError, ValueError) as nonsense:
        raise corrupt(segment.name, offset, f"message {number} makes no sense: {nonsense}") from nonsense
    message.number = number
    message.stored = True
    return message
