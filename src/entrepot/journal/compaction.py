"""Rewriting a few neighbouring segments as one, without what is dead. [C]

The new segment is written under a scratch name, made durable, and given its name; from that moment recovery prefers it
to its sources (its range of ids contains theirs, and it is younger), so a crash at any step leaves one complete truth.

Kept are: live messages with the queues that still hold them, current documents, redelivery counts and additions of
live messages, and of settlements, moves and deletions only those that an older segment still needs. What is settled
while the copy is being made is written to the growing segment as always, and taken over at the switch. A message that
was moved before is copied as what it is now; one that is moved meanwhile as what it was, and the MOVE stays.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from librt.vecs import append, vec
from mypy_extensions import i64, u8

from entrepot.base.environment import KIB
from entrepot.journal.batch import Batch
from entrepot.journal.index import DEAD, Document, Index, Note, Segment, pin, segment_name
from entrepot.journal.names import corrupt
from entrepot.journal.ports import SCRATCH, JournalOptions, JournalPort
from entrepot.journal.record import (
    ADD,
    BATCH_HEAD,
    DELETE,
    FLAG_EXTENDED,
    MESSAGE,
    MESSAGE_FIXED,
    MOVE,
    PART,
    PUT,
    RECORD_HEAD,
    REDELIVERED,
    SEAL,
    SETTLE_LIST,
    SETTLE_RUN,
    WHOLE,
    batch_head,
    batch_length,
    batch_valid,
    envelope_at,
    read_queue,
    write_message_head,
    write_meta,
)

OUT_BYTES: Final = 256 * KIB
WINDOW_MAX: Final = 256
"""Segments in one compaction at most: bounds the search for the best window."""
CROWD: Final = 16
"""So many segments that are nearly empty are joined, garbage or not: a broker that is started often leaves them."""
SPARE_PART: Final = 32
"""What must be left on the disk besides the copy, as a part of a segment: 1 MiB of the usual 32."""


def choose(index: Index, options: JournalOptions, port: JournalPort, as_of: i64, short: bool) -> list[Segment]:
    """Return the neighbouring segments whose rewriting frees most, or none when it is not worth it.

    ``short``: the disk is all but full. Then whatever frees something and has room for its copy is worth it, however
    few segments there are: on a small disk a handful of old messages would otherwise hold all of it.
    """
    segments = index.segments
    count = len(segments)
    if count <= options.segments_min and not short:
        return []
    live = index.live_bytes()
    crowded = count > CROWD and index.disk * 4 < count * options.segment_bytes
    if not crowded and not short and (index.disk - live) * 100 <= index.disk * options.garbage_percent:
        return []
    spare = options.segment_bytes // SPARE_PART
    room = port.space() - spare
    best: list[Segment] = []
    best_gain: i64 = 0
    start = 0
    while start < count - 1:
        stop, gain, size = _window(index, options, start, as_of, room if short else options.segment_bytes)
        worth = gain * 4 >= size or (crowded and stop - start >= CROWD // 2) or (short and gain >= spare)
        if stop > start and worth and (gain > best_gain or (crowded and stop - start > len(best))):
            best = segments[start:stop]
            best_gain = gain
        start += 1
    needed: i64 = 0
    for segment in best:
        needed += segment.live_bytes
    return best if needed <= room else []


def _window(index: Index, options: JournalOptions, start: int, as_of: i64, room: i64) -> tuple[int, i64, i64]:
    """Return (end, octets freed, octets read) of the longest window at ``start`` that fits a segment and ``room``."""
    segments = index.segments
    kept: i64 = 0
    total: i64 = 0
    stop = start
    first = segments[start].first
    while stop < len(segments) - 1 and stop - start < WINDOW_MAX:
        segment = segments[stop]
        if segment.damaged or segment.as_of >= as_of:
            break
        control: i64 = 0
        if segment.refs and index.undoes_older(segment, first):
            control = segment.end - segment.data_bytes + segment.key_bytes
        copied = kept + segment.live_bytes + control
        if copied > room or (stop > start and copied > options.segment_bytes):
            break
        kept = copied
        total += segment.end
        stop += 1
    return stop, total - kept, total


class MovedDocument:
    """A current document and where its copy is."""

    def __init__(self, document: Document, offset: i64) -> None:
        self.document: Document = document
        self.source: Segment = document.segment
        self.source_offset: i64 = document.offset
        self.offset: i64 = offset


class MovedNote:
    """A redelivery count or addition and where its copy is."""

    def __init__(self, number: i64, note: Note, offset: i64) -> None:
        self.number: i64 = number
        self.note: Note = note
        self.source: Segment = note.segment
        self.source_offset: i64 = note.offset
        self.offset: i64 = offset


class Compaction:
    """One rewrite: `step` until it returns False, then `publish`ed by the caller, then `switch`."""

    def __init__(
        self, index: Index, port: JournalPort, options: JournalOptions, sources: list[Segment], as_of: i64
    ) -> None:
        self.first: i64 = sources[0].first
        self.last: i64 = sources[-1].last
        self.finishing: bool = False
        self.published: bool = False
        self.needs: i64 = 0
        target = Segment(self.first, self.last, sources[0].first_sequence)
        target.as_of = as_of
        target.name = segment_name(self.first, self.last, target.first_sequence, as_of)
        target.end_sequence = sources[-1].end_sequence
        self.target: Segment = target
        self.scratch_name: str = target.name + SCRATCH
        self._index: Index = index
        self._port: JournalPort = port
        self._sources: list[Segment] = sources
        self._batch: Batch = Batch()
        self._sequence: i64 = 0
        self._position: int = 0
        self._data: bytes = b""
        self._base: i64 = 0
        self._at: i64 = 0
        self._needed: bool = False
        self._origins = vec[i64]()
        self._documents: list[MovedDocument] = []
        self._replaced: dict[bytes, bool] = {}  # what stands for documents that are not copied: see `_copy`
        self._notes: list[MovedNote] = []
        port.create(self.scratch_name, 0)
        meta = BytesWriter()
        write_meta(meta, self.first, self.last, as_of, target.end_sequence, options.created, options.node)
        self._batch.record(meta.getvalue())
        self._enter()

    # -- copying -------------------------------------------------------------------------------------------------------

    def step(self, budget: i64) -> bool:
        """Copy until about ``budget`` octets have been read; False when all is copied. Raises CorruptJournal."""
        left = budget
        while self._position < len(self._sources):
            source = self._sources[self._position]
            if self._base + self._at >= source.end:
                self._position += 1
                self._enter()
                continue
            if left <= 0:
                return True
            left -= self._copy_batch(source, left)
        self._batch.finish()
        self._batch.record(bytes([SEAL]))
        self._write()
        return False

    def _enter(self) -> None:
        self._data = b""
        self._base = 0
        self._at = 0
        if self._position < len(self._sources):
            self._needed = self._index.undoes_older(self._sources[self._position], self.first)

    def _copy_batch(self, source: Segment, most: i64) -> i64:
        """Copy one batch and return its length."""
        self._need(source, BATCH_HEAD, most)
        if len(self._data) - self._at >= BATCH_HEAD:
            self._need(source, BATCH_HEAD + batch_length(self._data, self._at), most)
        data = self._data
        at = self._at
        offset = self._base + at
        if not batch_valid(data, at, source.first, offset):
            source.damaged = True
            raise corrupt(source.name, offset, "a batch that was read before fails its checksum")
        length = batch_length(data, at)
        place: i64 = at + BATCH_HEAD
        end: i64 = place + length
        while place < end:
            size: i64 = i64(read_i32_be(data, place))
            size += RECORD_HEAD
            if data[place + RECORD_HEAD] == PART and read_i64_be(data, place + RECORD_HEAD + 1) in self._index.undone:
                break  # nothing of it ever counted, no settlement either
            self._copy(source, data, place, size)
            if self._batch.length() >= OUT_BYTES:
                self._write()
            place += size
        self._at = end
        return BATCH_HEAD + length

    def _need(self, source: Segment, length: i64, most: i64) -> None:
        """Have at least ``length`` octets at the cursor, as far as the segment goes."""
        if length < 0 or len(self._data) - self._at >= length:
            return
        self._base += self._at
        self._at = 0
        wanted = length if length > most else most
        wanted = min(wanted, source.end - self._base)
        self._data = self._port.read(source.name, self._base, wanted)

    def _copy(self, source: Segment, data: bytes, place: i64, size: i64) -> None:
        """Copy one record if it is needed; ``place`` is where it is in ``data``.

        A document that is not current took the place of an older one, which an older segment may have still. What took
        its own place refers to this segment, and is not needed for it any more. So a DELETE stands for it: else the
        older one would be back, once the younger ones are gone.
        """
        body: i64 = place + RECORD_HEAD
        kind = data[body]
        offset = self._base + place
        if kind == MESSAGE:
            self._copy_message(source, data, place, size, offset)
        elif kind == SETTLE_RUN:
            if self._needed:
                queue = read_queue(data, body + 1)
                number = read_i64_be(data, body + 5)
                count: i64 = i64(read_i32_be(data, body + 13))
                count += number
                while number < count:
                    self._copy_settle(number, queue)
                    number += 1
        elif kind == SETTLE_LIST:
            if self._needed:
                queue = read_queue(data, body + 1)
                step: i64 = body + 5
                while step < place + size:
                    self._copy_settle(read_i64_be(data, step), queue)
                    step += 8
        elif kind == PUT:
            key_length: i64 = i64(read_i32_be(data, body + 2))
            name = data[body + 1 : body + 2] + data[body + 6 : body + 6 + key_length]
            document = self._index.documents.get(name)
            if document is not None and document.segment is source and document.offset == offset:
                self._batch.finish()
                copy = self._batch.record(data[body : place + size])
                self._documents.append(MovedDocument(document, copy))
            elif self._needed and name not in self._replaced:
                self._replaced[name] = True
                self._batch.finish()
                self._batch.record(bytes([DELETE]) + name)
        elif kind in (DELETE, WHOLE, MOVE):
            if self._needed:
                self._batch.finish()
                self._batch.record(data[body : place + size])
        elif kind in (REDELIVERED, ADD):
            self._copy_note(source, data, body, size, offset)

    def _copy_settle(self, number: i64, queue: i64) -> None:
        """Keep a settlement of a message that an older segment has."""
        segment = self._index.find(number)
        if segment is not None and segment.first < self.first:
            self._batch.settle(number, queue)

    def _copy_message(self, source: Segment, data: bytes, place: i64, size: i64, offset: i64) -> None:
        body: i64 = place + RECORD_HEAD
        number = read_i64_be(data, body + 2)
        slot = source.slot_of(number)
        if slot < 0 or source.states[slot] == DEAD or source.offsets[slot] != offset:
            return
        octets = data[body : place + size]
        move = self._index.moves.move_of(number) if self._index.moves.rows else None
        if move is None or move.since < self.target.as_of:  # else the MOVE says it, which no copy can make good for
            written = number
            number = self._index.moves.current(number)
            queues = self._index.queues_of(number, source, slot)
            if number != written or not _same_queues(data, body, queues):
                octets = _with_queues(data, body, place + size, number, queues)
        self._batch.finish()
        copy = self._batch.record(octets)
        state: i64 = i64(source.states[slot])
        self.target.add(number, copy, RECORD_HEAD + len(octets), source.queue_at(slot), state)
        self._origins = append(self._origins, i64(self._position) << 32 | slot)

    def _copy_note(self, source: Segment, data: bytes, body: i64, size: i64, offset: i64) -> None:
        number = read_i64_be(data, body + 1)
        for note in self._index.notes.get(number, []):
            if note.segment is source and note.offset == offset:
                self._batch.finish()
                copy = self._batch.record(data[body : body - RECORD_HEAD + size])
                self._notes.append(MovedNote(number, note, copy))
                return

    def _write(self) -> None:
        """Write the open batch of the copy."""
        batch = self._batch
        batch.finish()
        self._sequence += 1
        target = self.target
        count = batch.count
        octets = batch.take()
        # It is published only after its sources' last batch is on disk, so it may claim that.
        head = batch_head(len(octets), count, self._sequence, target.end_sequence, target.first, target.end)
        self._port.write(self.scratch_name, target.end, head, octets)
        target.end += len(head) + len(octets)
        batch.base = target.end

    # -- the switch ----------------------------------------------------------------------------------------------------

    def switch(self) -> list[Segment]:
        """Put the copy in the place of its sources in the index, and return them."""
        index = self._index
        target = self.target
        self._take_over_messages()
        for moved in self._documents:
            document = moved.document
            if document.segment is moved.source and document.offset == moved.source_offset and document.current:
                document.segment = target
                document.offset = moved.offset
                pin(target, document.length)
            target.data_bytes += document.length
            target.key_bytes += document.length - len(document.value)
        for entry in self._notes:
            note = entry.note
            if note.segment is entry.source and note.offset == entry.source_offset and note.current:
                note.segment = target
                note.offset = entry.offset
                pin(target, note.length)
        for source in self._sources:
            for segment_id, since in source.refs.items():
                older = index.covering(segment_id)
                if older is not None and older.first < self.first and since >= older.as_of:
                    target.refs[older.first] = max(since, target.refs.get(older.first, 0))
        self._replace()
        return self._sources

    def _take_over_messages(self) -> None:
        """Give each copied message the state that its source has now."""
        target = self.target
        slot: i64 = 0
        while slot < target.count:
            origin = self._origins[slot]
            source = self._sources[int(origin >> 32)]
            old = origin & 0xFFFFFFFF
            state = source.states[old]
            target.queues[slot] = source.queues[old]
            if state == DEAD:
                target.states[slot] = u8(DEAD)
                length: i64 = i64(target.lengths[slot])
                target.live -= 1
                target.live_bytes -= length
            slot += 1

    def _replace(self) -> None:
        index = self._index
        target = self.target
        kept: list[Segment] = []
        placed = False
        for segment in index.segments:
            if self.first <= segment.first <= self.last:
                index.disk -= segment.end
                if not placed:
                    kept.append(target)
                    placed = True
            else:
                kept.append(segment)
        index.segments = kept
        index.disk += target.end
        index.seal(target, target.end_sequence)
        index.reclaimable = True


def _same_queues(data: bytes, body: i64, queues: list[int]) -> bool:
    """Say whether the record lists exactly ``queues``."""
    count: i64 = i64(read_i16_be(data, body + 14))
    if count != len(queues):
        return False
    position = 0
    while position < len(queues):
        if read_queue(data, body + MESSAGE_FIXED + 4 * position) != queues[position]:
            return False
        position += 1
    return True


def _with_queues(data: bytes, body: i64, end: i64, number: i64, queues: list[int]) -> bytes:
    """Return the MESSAGE at ``data[body]`` for other queues, and as message ``number``."""
    envelope = envelope_at(data, body)
    flags: i64 = data[body + 1]
    deliver_at: i64 = 0
    large_id: i64 = 0
    if flags & FLAG_EXTENDED:
        deliver_at = read_i64_be(data, envelope - 16)
        large_id = read_i64_be(data, envelope - 8)
    writer = BytesWriter()
    raw: i64 = i64(read_i32_be(data, body + 10))
    write_message_head(writer, flags, number, raw, queues, deliver_at, large_id)
    writer.write(data[envelope:end])
    return writer.getvalue()
