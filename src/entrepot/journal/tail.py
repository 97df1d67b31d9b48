"""The end of the journal that grows: the open batch, the segment it goes to, and the numbers of batches. [C]

What is appended between two hand-overs is one *batch*, which recovery takes whole or not at all. `prepare` comes
before anything is appended or noted, `hand_over` gives the batch to the port.

`Tail.hand_over` is the one place where the journal's own batches leave, in the order of their numbers and of their
places: whoever wants to have a copy of the journal copies there. What a compaction writes says nothing new and does
not come this way (`journal/compaction.py`).
"""

from __future__ import annotations

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from entrepot.base.errors import Fault
from entrepot.journal.batch import Batch
from entrepot.journal.epoch import EPOCH_SHIFT, Boundary, remembered, write_epoch
from entrepot.journal.index import Document, Index, Segment
from entrepot.journal.names import GAPS_KEY, INTERNAL_KIND
from entrepot.journal.ports import JournalOptions, JournalPort, Rider
from entrepot.journal.record import PART, PUT, RECORD_HEAD, SEAL, batch_head, write_meta
from entrepot.journal.recovery import Recovery


class Tail:
    """``index``: all segments, the last of which is ``active``. ``sequence``: of the last batch handed over.

    ``synced``: of the last batch on disk; ``safe_end``: where that ends in the segment ``safe``. ``depth``: brackets
    that are open. ``riding``: the rider has something to say in the open batch. ``part``: the bracket in parts that the
    open batch belongs to, 0 for none (`parts.py`); ``part_segments``: the segments that have parts of it; ``whole``:
    the batch that says that all of the last one is there.
    """

    def __init__(self, port: JournalPort, options: JournalOptions) -> None:
        self.port: JournalPort = port
        self.options: JournalOptions = options
        self.index: Index = Index()
        self.active: Segment = Segment(0, 0, 0)
        self.batch: Batch = Batch()
        self.rider: Rider = Rider()
        self.riding: bool = False
        self.boards: bool = True  # False: what the rider says does not belong to the open batch
        self.depth: i64 = 0
        self.part: i64 = 0
        self.part_segments: dict[int, Segment] = {}
        self.whole: i64 = 0
        self.sequence: i64 = 0
        self.synced: i64 = 0
        self.safe: Segment = self.active
        self.safe_end: i64 = 0
        self._asked: Segment = self.active  # as `safe`, of the sync that is under way
        self._asked_end: i64 = 0
        self.unsynced_bytes: i64 = 0  # handed over since a sync was asked for last
        self._boundaries: list[Boundary] = []
        self._last_ref: Segment | None = None
        self._scratch = BytesWriter()

    # -- segments ------------------------------------------------------------------------------------------------------

    def take_over(self, recovery: Recovery) -> None:
        """Know what ``recovery`` found; nothing can be appended before `resume`."""
        self.index = recovery.index
        self.sequence = recovery.sequence
        self.synced = recovery.sequence
        self._boundaries = recovery.boundaries

    def resume(self) -> None:
        """Go on behind what was taken over, in a new segment."""
        self._begin_epoch()
        self._begin_segment()
        if self.options.epoch > 0:
            self.note_gaps()
            self.hand_over()

    def _begin_epoch(self) -> None:
        """Note where what earlier epochs wrote has ended."""
        if self.options.epoch == 0:
            return
        boundary = Boundary(self.options.epoch, 0, 0, 0)
        segments = self.index.segments
        if segments:
            newest = segments[-1]
            boundary = Boundary(self.options.epoch, newest.last, newest.end, newest.end_sequence)
        self._boundaries = [*remembered(self._boundaries, segments), boundary]

    def _begin_segment(self) -> None:
        last: i64 = self.active.last
        for known in self.index.segments:
            last = max(last, known.last)
        first: i64 = max(last + 1, self.options.epoch << EPOCH_SHIFT)
        segment = Segment(first, first, self.sequence + 1)
        self.active = segment
        self.index.open(segment)
        self.batch.base = 0
        self._last_ref = None
        self.port.create(segment.name, self.options.segment_bytes)

    def seal(self) -> None:
        """Hand over the open batch and end the growing segment: nothing may come behind it."""
        active = self.active
        riding, self.riding = self.riding, False  # nothing may stand behind the seal
        self.batch.record(bytes([SEAL]))
        self.hand_over()
        self.riding = riding
        self.port.trim(active.name, active.end)
        self.index.seal(active, self.sequence)

    # -- the open batch ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Give the open batch its place, in a new segment when this one is long enough; before anything is noted."""
        if self.batch.empty():
            if self.active.end >= self.options.segment_bytes:
                self.seal()
                self._begin_segment()
            if self.active.end == 0:
                self._write_meta()
            if self.part != 0:
                body = BytesWriter()
                body.append(PART)
                write_i64_be(body, self.part)
                self.batch.record(body.getvalue())

    def _write_meta(self) -> None:
        active = self.active
        options = self.options
        body = BytesWriter()
        write_meta(body, active.first, active.last, 0, 0, options.created, options.node)
        self.batch.record(body.getvalue())
        if self._boundaries:
            self.batch.record(write_epoch(self._boundaries[-1].epoch, self._boundaries))

    def put(self, kind: i64, key: bytes, value: bytes) -> None:
        """Append a document in place of an earlier one. Call `prepare` first, unless the rider is being asked."""
        body = self._scratch
        body.truncate(0)
        body.append(PUT)
        body.append(int(kind))
        write_i32_be(body, i32(len(key)))
        body.write(key)
        body.write(value)
        octets = body.getvalue()
        offset = self.batch.record(octets)
        old = self.index.put(Document(kind, key, value, self.active, offset, RECORD_HEAD + len(octets)))
        if old is not None:
            self.referred(old)

    def note_gaps(self) -> None:
        """Append which ids no segment has: recovery tells a segment that went from one that is missing by it."""
        self.prepare()
        self.put(INTERNAL_KIND, GAPS_KEY, self._gaps())

    def _gaps(self) -> bytes:
        """Return the ranges of ids that no segment has, as two i64 each."""
        ranges = BytesWriter()
        following: i64 = 1
        for segment in self.index.segments:
            if segment.first > following:
                write_i64_be(ranges, following)
                write_i64_be(ranges, segment.first - 1)
            following = segment.last + 1
        return ranges.getvalue()

    def referred(self, segment: Segment) -> None:
        """The open batch undoes something in ``segment``: the growing segment must stay as long as that one."""
        if segment is not self.active and segment is not self._last_ref:
            self._last_ref = segment
            self.active.refs[segment.first] = self.sequence + 1

    def refer_anew(self) -> None:
        """Forget which segment was referred to last: a batch border has a meaning now, or segments were replaced."""
        self._last_ref = None

    def hand_over(self) -> None:
        """Give the open batch to the port: here, and only here, a batch of the journal leaves (see the module)."""
        batch = self.batch
        if batch.empty():
            return
        if self.riding and self.boards:
            self.riding = False
            self.rider.board()
        batch.finish()
        if self.part != 0:
            self.part_segments[self.active.first] = self.active
        active = self.active
        count = batch.count
        body = batch.take()
        self.sequence += 1
        head = batch_head(len(body), count, self.sequence, self.synced, active.first, active.end)
        self.port.write(active.name, active.end, head, body)
        length: i64 = len(head) + len(body)
        self.index.grow(active, length)
        self.unsynced_bytes += length
        batch.base = active.end

    # -- what is on disk -----------------------------------------------------------------------------------------------

    def asked(self) -> None:
        """A sync is asked for, of all that was handed over."""
        self.unsynced_bytes = 0
        self._asked = self.active
        self._asked_end = self.active.end

    def answered(self, token: i64, whole: bool) -> None:
        """The disk has all batches up to ``token``; ``whole``: all that `asked` was about."""
        self.synced = max(self.synced, token)
        if whole:
            self.safe = self._asked
            self.safe_end = self._asked_end

    def covers(self, segment: Segment, end: i64) -> bool:
        """Return whether what ends at ``end`` in ``segment`` is on disk; False also for what may be."""
        if self.whole > self.synced:  # it may be in a part, which counts with the last one
            return False
        if segment is self.safe and end <= self.safe_end:
            return True
        return segment.sealed and segment.end_sequence <= self.synced

    # -- brackets ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open a bracket: what is appended in it is in one batch."""
        self.depth += 1

    def end(self) -> None:
        """Close a bracket."""
        if self.depth == 0:
            raise Fault("JournalCore.end without begin")
        self.depth -= 1
        self.spill()

    def spill(self) -> None:
        """Hand over early when the batch is large, so that the disk works while the turn goes on."""
        if self.depth == 0 and self.batch.length() >= self.options.batch_bytes:
            self.hand_over()

    def forget(self) -> None:
        """Throw away the open batch: half of what belongs together is not written."""
        self.batch = Batch()
        self.batch.base = self.active.end
        self.riding = False
